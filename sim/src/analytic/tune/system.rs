//! What the methods need to know of a scenario, and what each of them cannot describe.

use handoff_scheduler::{Coordination, ModelIdx, Threshold};

use super::super::chain::{LaunchRule, Order};
use super::super::{Affine, RoutingLaw};
use super::TuneError;
use crate::cost::BatchShape;
use crate::engine::EngineConfig;
use crate::policy::{Markov, Policy};
use crate::scenario::{self, CostConfig, Handoff, Hold, Loops, Mode, Placement, Scenario};

/// Below this mean length of an output, the ends of requests and the prompts that follow them show: a fresh prompt passes the gate at any threshold.
const OUTPUT_TOKENS_MIN: f64 = 256.0;

/// A scenario in a closed loop whose mode has thresholds.
#[derive(Clone, Debug)]
pub(super) struct System<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) concurrency: u32,
    eager: EngineConfig,
}

impl<'a> System<'a> {
    /// # Errors
    /// If the arrivals are an open loop or the mode is one without thresholds.
    pub(super) fn of(scenario: &'a Scenario) -> Result<Self, TuneError> {
        let mode = scenario.scheduler().mode;
        if !matches!(mode, Mode::Eager | Mode::Delayed) {
            return Err(TuneError::Mode(mode.as_str()));
        }
        let concurrency = scenario.workload().arrivals().concurrency().ok_or(TuneError::OpenLoop)?;
        let mut eager = EngineConfig::from(scenario);
        eager.coordination = Coordination::Independent;
        eager.models.iter_mut().for_each(|model| model.gate.threshold = Threshold::constant(1));
        Ok(Self { scenario, concurrency, eager })
    }

    pub(super) fn n_models(&self) -> usize {
        self.eager.models.len()
    }

    /// What the engine runs with these thresholds.
    pub(super) fn config(&self, thresholds: &[u32]) -> EngineConfig {
        let mut config = self.eager.clone();
        for (model, &threshold) in config.models.iter_mut().zip(thresholds) {
            model.gate.threshold = Threshold::constant(threshold);
        }
        config
    }

    pub(super) fn markov(&self) -> Option<&Markov> {
        self.eager.policy.as_markov()
    }

    /// The R2R law, if the policy is one: two models, the small one first; a small step keeps its token or drops it and hands over; the large one makes
    /// one token and returns.
    pub(super) fn r2r_law(&self) -> Option<RoutingLaw> {
        let markov = self.markov()?;
        let (routes, commits) = (markov.routes(), markov.commits());
        let is_r2r = routes.len() == 2
            && markov.entry().idx() == 0
            && routes[1] == [1.0, 0.0]
            && commits[0] == [1.0, 0.0]
            && commits[1][0] == 1.0
            && routes[0][1] > 0.0
            && routes[0][1] < 1.0;
        is_r2r.then_some(RoutingLaw { p: routes[0][1] })
    }

    /// Whether all models share one device.
    fn is_on_one_device(&self) -> bool {
        self.eager.models.iter().all(|model| model.device == self.eager.models[0].device)
    }

    /// Time of a step of `model` over `rows` rows of mean size, in seconds, routing signal included.
    pub(super) fn step_s(&self, model: usize, rows: u32) -> f64 {
        self.step_ns(model, rows) as f64 * 1e-9
    }

    /// The same in nanoseconds.
    pub(super) fn step_ns(&self, model: usize, rows: u32) -> u64 {
        let own = &self.eager.models[model];
        let shape = self.mean_shape(model, rows);
        own.latency.step(&shape).ns + own.router.as_ref().map_or(0, |router| router.step(&shape).ns)
    }

    /// A batch of `model` whose rows have the mean context, and as many new tokens as its rows have on average.
    ///
    /// The first row of a visit extends over what was committed elsewhere since the last one, and over the model's own last token if that was kept;
    /// the others decode.
    fn mean_shape(&self, model: usize, rows: u32) -> BatchShape {
        let context = self.mean_context();
        let Some(markov) = self.markov() else { return BatchShape::decode(rows, context) };
        let stationary = markov.stationary();
        let steps_per_visit = stationary.steps_per_visit[model];
        let steps_per_token = stationary.step_fractions[model] / stationary.commits_per_step;
        if !(steps_per_visit.is_finite() && steps_per_visit > 0.0 && steps_per_token > 0.0) {
            return BatchShape::decode(rows, context);
        }
        let visits_per_token = steps_per_token / steps_per_visit;
        let (routes, commits) = (&markov.routes()[model], &markov.commits()[model]);
        let leaving: f64 = 1.0 - routes[model];
        let kept: f64 = (0..routes.len()).filter(|&to| to != model).map(|to| routes[to] * commits[to]).sum();
        let missed = (1.0 - stationary.token_fractions[model]) / visits_per_token;
        let first_row = (missed + if leaving > 0.0 { kept / leaving } else { 0.0 }).max(1.0);
        let per_row = 1.0 + (first_row - 1.0) / steps_per_visit;
        let mut shape = BatchShape::decode(rows, context);
        let new_tokens = (per_row * f64::from(rows)).round() as u64;
        if first_row > 1.0 + 1e-9 {
            shape.new_tokens = new_tokens.max(u64::from(rows));
            shape.decode_rows = (f64::from(rows) * (1.0 - 1.0 / steps_per_visit)).floor() as u32;
        }
        shape
    }

    /// The same for a batch of decode rows, as the large model alone runs, at the mean context.
    pub(super) fn decode_s(&self, model: usize, rows: u32) -> f64 {
        let shape = BatchShape::decode(rows, self.mean_context());
        self.eager.models[model].latency.step(&shape).ns as f64 * 1e-9
    }

    /// Delay of one handoff in one direction, in seconds.
    pub(super) fn hop_s(&self) -> f64 {
        self.eager.hop_ns as f64 * 1e-9
    }

    /// The speed of the first and of the second model beside each other, at batches of half of the requests each; `None` unless exactly two overlap.
    pub(super) fn corun_rates(&self) -> Option<[f64; 2]> {
        let rates = self.eager.corun.as_ref().filter(|_| self.n_models() == 2)?;
        let rows = (self.concurrency / 2).max(1);
        let (first, second) = (ModelIdx(0), ModelIdx(1));
        Some([rates.rate(first, rows, second, rows), rates.rate(second, rows, first, rows)])
    }

    /// Tokens of context in the middle of a request of mean length.
    fn mean_context(&self) -> u32 {
        let workload = self.scenario.workload();
        (workload.prompt().mean() + workload.output().mean() / 2.0).round() as u32
    }

    /// The step time of `model` as a line through its times at 1 and at C rows, and whether that line is exact.
    pub(super) fn affine(&self, model: usize) -> (Affine, bool) {
        line(self.concurrency, |rows| self.step_s(model, rows))
    }

    /// The same for decode rows.
    pub(super) fn decode_affine(&self, model: usize) -> (Affine, bool) {
        line(self.concurrency, |rows| self.decode_s(model, rows))
    }

    /// Which idle models of the chain may launch.
    ///
    /// # Errors
    /// What the chain does not describe at all.
    pub(super) fn launch_rule(&self) -> Result<LaunchRule, String> {
        let order = |order| match order {
            scenario::Order::LargeFirst => Order::LargeFirst,
            scenario::Order::SmallFirst => Order::SmallFirst,
            scenario::Order::Alternate => Order::Alternate,
        };
        if self.markov().is_none() {
            return Err(format!(
                "policy `{}` is no Markov policy, and the chain needs one",
                self.scenario.policy().kind()
            ));
        }
        match self.scenario.placement() {
            Placement::Separate => Ok(LaunchRule::Separate),
            Placement::Exclusive(first) if self.is_on_one_device() => Ok(LaunchRule::Exclusive(order(first))),
            Placement::Exclusive(_) => {
                Err("some models share a device and others do not, which the chain does not know".to_owned())
            }
            Placement::Overlapped => {
                Err("placement is overlapped: the chain knows no steps that slow each other down".to_owned())
            }
        }
    }

    /// What the chain leaves out of this scenario, each as a clause. None: it is exact, but for the ends of long requests.
    pub(super) fn beyond_the_chain(&self) -> Vec<String> {
        let mut left_out = self.beyond_fixed_times();
        for model in self.eager.models.iter().filter(|model| model.jitter.cv() > 0.0) {
            left_out.push(format!(
                "steps of `{}` jitter (coefficient of variation {}), the chain's are fixed",
                model.name,
                model.jitter.cv()
            ));
        }
        if self.eager.hop_ns > 0 || self.eager.hop_bytes_per_ns.is_some() {
            left_out.push("messages between subservers take time, the chain's take none".to_owned());
        }
        left_out
    }

    /// What the mean field leaves out of this scenario. Jitter is no such thing: it assumes steps that do not lock in.
    pub(super) fn beyond_the_mean_field(&self) -> Vec<String> {
        let mut left_out = self.beyond_fixed_times();
        if self.eager.hop_bytes_per_ns.is_some() {
            left_out.push("the time of a message goes with its length".to_owned());
        }
        for (model, own) in self.eager.models.iter().enumerate() {
            if !self.affine(model).1 {
                left_out.push(format!("the step time of `{}` is no straight line in its rows", own.name));
            }
        }
        left_out
    }

    fn beyond_fixed_times(&self) -> Vec<String> {
        let mut left_out = Vec::new();
        let scheduler = self.scenario.scheduler();
        for model in self.scenario.models() {
            let name = &model.name;
            let by_rows = match &model.cost {
                CostConfig::Constant { .. } => true,
                CostConfig::Affine { per_new_token_ms, per_kv_token_us, .. } => {
                    *per_new_token_ms == 0.0 && *per_kv_token_us == 0.0
                }
                CostConfig::Profile { .. } | CostConfig::Roofline { .. } => false,
            };
            if !by_rows {
                left_out.push(format!(
                    "the step time of `{name}` depends on new tokens and context, of which only means are used"
                ));
            }
            let host = model.host;
            if host.launch_ns + host.loop_ns + host.message_ns > 0 {
                left_out.push(format!("the host's time around steps of `{name}`"));
            }
            if model.max_wait_ns.is_some() {
                left_out.push(format!("the longest wait at `{name}`"));
            }
            if !matches!(model.hold, Hold::Both | Hold::All) {
                left_out.push(format!("the gate of `{name}` holds back {} rows only", model.hold));
            }
            let needed = u64::from(self.concurrency) * u64::from(self.scenario.workload().tokens_max());
            if model.kv_tokens < needed {
                left_out.push(format!("the KV budget of `{name}` may hold requests back"));
            }
        }
        if scheduler.loops == Loops::Fused {
            left_out.push("fused loops".to_owned());
        }
        if matches!(scheduler.handoff, Handoff::Fresh { .. }) {
            left_out.push("what a returning request pays as a fresh one".to_owned());
        }
        if !scheduler.mix_extend && self.r2r_law().is_none() {
            left_out.push("forwards that carry either decode or extend rows".to_owned());
        }
        let output_tokens = self.scenario.workload().output().mean();
        if output_tokens < OUTPUT_TOKENS_MIN {
            left_out
                .push(format!("requests end after {output_tokens} tokens in the mean, and new prompts pass the gate"));
        }
        left_out
    }
}

/// The line through `step_s` at 1 and at `concurrency` rows, and whether all times lie on it.
fn line(concurrency: u32, step_s: impl Fn(u32) -> f64) -> (Affine, bool) {
    let (one, all) = (step_s(1), step_s(concurrency));
    let per_row_s = if concurrency == 1 { 0.0 } else { ((all - one) / f64::from(concurrency - 1)).max(0.0) };
    let line = Affine { fixed_s: (one - per_row_s).max(0.0), per_row_s };
    // Step times are whole nanoseconds, and so are the two that the line goes through.
    let exact = (1..=concurrency).all(|rows| (step_s(rows) - line.step_s(f64::from(rows))).abs() < 3e-9);
    (line, exact)
}
