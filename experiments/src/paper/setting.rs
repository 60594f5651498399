//! A setting of the paper as a scenario, and what the simulator says of it.

use handoff_sim::engine::{EngineConfig, Metrics, Window, replicate};
use handoff_sim::rng::Stream;
use handoff_sim::scenario::{Embedded, Scenario, Source};
use rayon::prelude::*;

use super::machine::{Model, OUTPUT_TOKENS, PROMPT_TOKENS};
use crate::failure::Failure;

/// Who routes, and how.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Routing {
    /// R2R, CITER, Co-LLM: the large model replaces a token of the small one with probability `p`.
    Detour { p: f64 },
    /// R-Stitch: to the large model with probability `a` a step, back with probability `b`.
    Stitch { a: f64, b: f64 },
    /// Switch every so many tokens.
    Every { tokens: u32 },
    /// The large model alone.
    LargeOnly,
}

impl Routing {
    fn to_toml(self) -> String {
        match self {
            Self::Detour { p } => format!("kind = \"r2r\"\np = {p:?}\n"),
            Self::Stitch { a, b } => format!("kind = \"r-stitch\"\na = {a:?}\nb = {b:?}\n"),
            Self::Every { tokens } => format!("kind = \"every\"\nsmall = {tokens}\nlarge = {tokens}\n"),
            Self::LargeOnly => "kind = \"large-only\"\n".to_owned(),
        }
    }

    /// Steps of the small and of the large model for each token that is kept, in the long run.
    pub(super) fn steps_per_token(self) -> [f64; 2] {
        match self {
            Self::Detour { p } => [1.0, p],
            // 1/a small steps, of which the last is in vain, then 1/b large ones.
            Self::Stitch { a, b } => {
                let tokens = 1.0 / a - 1.0 + 1.0 / b;
                [1.0 / a / tokens, 1.0 / b / tokens]
            }
            Self::Every { .. } => [0.5, 0.5],
            Self::LargeOnly => [0.0, 1.0],
        }
    }

    /// Changes of model for each token that is kept, in the long run.
    pub(super) fn handoffs_per_token(self) -> f64 {
        match self {
            Self::Detour { p } => 2.0 * p,
            Self::Stitch { a, b } => 2.0 / (1.0 / a - 1.0 + 1.0 / b),
            Self::Every { tokens } => 1.0 / f64::from(tokens),
            Self::LargeOnly => 0.0,
        }
    }
}

/// How the models take turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turns {
    /// Each launches when it is idle and so many requests wait for the large model. With 1: whatever waits.
    Asynchronous { threshold: u32 },
    /// Batches of both models begin together, and the shorter one waits for the longer one.
    StepSync,
    /// One model at a time, the large one first.
    ModelSync,
}

/// One cell of a table, ready to run.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Setting {
    /// Small and large.
    pub(super) models: [Model; 2],
    pub(super) routing: Routing,
    pub(super) turns: Turns,
    pub(super) concurrency: u32,
    pub(super) output_tokens: u32,
    /// The co-run rates where the models share GPUs.
    pub(super) shared: Option<[f64; 2]>,
    /// Latency of a message between the models, us, and its bandwidth, GB/s.
    pub(super) hop: Option<(f64, f64)>,
    /// Whether one forward may carry extends and decodes. Where a visit to the large model is one token, all its rows are visits and one forward takes
    /// them all. Where some rows stay, the serving engine underneath runs the extends of those that come apart from the decodes of those that stay, and
    /// first; prompts too.
    pub(super) mixed: bool,
}

impl Setting {
    /// The pair on shared GPUs, each launching whatever waits.
    pub(super) fn shared(models: [Model; 2], corun: [f64; 2], routing: Routing, concurrency: u32) -> Self {
        Self {
            models,
            routing,
            turns: Turns::Asynchronous { threshold: 1 },
            concurrency,
            output_tokens: OUTPUT_TOKENS,
            shared: Some(corun),
            hop: None,
            mixed: matches!(routing, Routing::Detour { .. }),
        }
    }

    /// The same with each model on GPUs of its own.
    pub(super) fn separate(self) -> Self {
        Self { shared: None, ..self }
    }

    pub(super) fn turns(self, turns: Turns) -> Self {
        Self { turns, ..self }
    }

    pub(super) fn threshold(self, threshold: u32) -> Self {
        self.turns(Turns::Asynchronous { threshold })
    }

    /// The scenario file of this setting, in which a window of so many requests is measured.
    pub(super) fn to_toml(&self, seed: u64, requests: u32) -> String {
        let threshold = match self.turns {
            Turns::Asynchronous { threshold } => threshold,
            Turns::StepSync | Turns::ModelSync => 1,
        };
        let mode = match self.turns {
            Turns::Asynchronous { threshold: 1 } => "eager",
            Turns::Asynchronous { .. } => "delayed",
            Turns::StepSync => "step-sync",
            Turns::ModelSync => "model-sync",
        };
        let mut text = format!(
            "seed = {seed}\n\n[workload]\nconcurrency = {}\nrequests = {requests}\nprompt_tokens = {PROMPT_TOKENS}\noutput_tokens = {}\nwarmup = {}\n\n",
            self.concurrency, self.output_tokens, self.concurrency
        );
        text += &self.models[0].to_toml("small", 1, 0);
        text += &self.models[1].to_toml("large", threshold, u32::from(self.shared.is_none()));
        text += &format!("[policy]\n{}\n[scheduler]\nmode = \"{mode}\"\n", self.routing.to_toml());
        text += &format!("mix_extend = {}\nfirst = \"extend\"\n", self.mixed);
        if let Some([small, large]) = self.shared {
            text += &format!("sharing = \"overlapped\"\ncorun = [{small:?}, {large:?}]\n");
        }
        if let Some((us, gb_per_s)) = self.hop {
            text += &format!("hop_us = {us:?}\nhop_gb_per_s = {gb_per_s:?}\n");
        }
        text
    }

    /// Throughput at concurrency 1 in tokens/s, exactly: nobody waits, so the steps of a token follow one another.
    pub(super) fn alone(&self) -> f64 {
        1e3 / alone_ms(&self.models, self.routing, self.output_tokens, self.hop)
    }
}

/// Time of a token at concurrency 1, ms.
pub(super) fn alone_ms(models: &[Model; 2], routing: Routing, output_tokens: u32, hop: Option<(f64, f64)>) -> f64 {
    let context = super::machine::mean_context(output_tokens);
    let [small, large] = routing.steps_per_token();
    let hops_ms = hop.map_or(0.0, |(us, _)| us * 1e-3) * routing.handoffs_per_token();
    small * models[0].step_ms(1, context) + large * models[1].step_ms(1, context) + hops_ms
}

/// How much is simulated, and with which random numbers. Every setting sees the same ones.
#[derive(Clone, Debug)]
pub(super) struct Player {
    pub(super) seed: u64,
    /// Replications of a setting.
    pub(super) replications: u32,
    /// Tokens measured in each, at least.
    pub(super) tokens: u32,
    /// Overrides of every scenario, as of `--set`.
    pub(super) sets: Vec<String>,
}

/// What the simulator says of a setting: means over replications.
#[derive(Clone, Debug)]
pub(super) struct Played {
    /// Committed tokens per second.
    pub(super) throughput: f64,
    /// The same in each replication: starts may lead to different orbits.
    pub(super) throughputs: Vec<f64>,
    /// Time that a step of the small and of the large model is on its GPU, ms.
    pub(super) step_ms: [f64; 2],
    /// Rows a step.
    pub(super) batch: [f64; 2],
    /// Mean wait of a request that arrives at a model, ms.
    pub(super) wait_ms: [f64; 2],
    /// Changes of model per token.
    pub(super) handoffs_per_token: f64,
}

impl Player {
    /// As `paper` runs: some 130,000 tokens a setting, so that the routes drawn move a throughput by about 0.3 %.
    pub(super) fn new(seed: u64, sets: Vec<String>) -> Self {
        Self { seed, replications: 8, tokens: 16_384, sets }
    }

    /// The validated scenario of a setting.
    pub(super) fn scenario(&self, setting: &Setting) -> Result<Scenario, Failure> {
        // Two generations of requests at least, so that starts and ends of requests have their share.
        let requests = self.tokens.div_ceil(setting.output_tokens).max(2 * setting.concurrency);
        let mut source = Source::new("paper.toml", &setting.to_toml(self.seed, requests));
        for set in &self.sets {
            source = source.with_set(set)?;
        }
        Ok(Scenario::parse(&source, &Embedded::default())?)
    }

    /// Simulates a setting.
    pub(super) fn play(&self, setting: &Setting) -> Result<Played, Failure> {
        let scenario = self.scenario(setting)?;
        let config = EngineConfig::from(&scenario);
        let window = Window::Requests {
            warmup_requests: u64::from(setting.concurrency),
            requests: u64::from(scenario.workload().requests()),
        };
        let runs: Result<Vec<Metrics>, Failure> = (0..self.replications)
            .into_par_iter()
            .map(|replication| {
                let seed = Stream::replication_seed(scenario.seed(), replication);
                replicate(&config, seed, window).map_err(|error| Failure::Run { cell: format!("{setting:?}: "), error })
            })
            .collect();
        Ok(Played::of(&runs?))
    }

    /// Simulates settings, each on a thread.
    pub(super) fn play_all(&self, settings: &[Setting]) -> Result<Vec<Played>, Failure> {
        settings.par_iter().map(|setting| self.play(setting)).collect()
    }

    /// The best threshold of the large model, from 1 to the concurrency, and what it yields: what a user finds who tries them all.
    pub(super) fn best(&self, setting: &Setting) -> Result<(u32, Played), Failure> {
        let candidates: Vec<Setting> =
            (1..=setting.concurrency).map(|threshold| setting.clone().threshold(threshold)).collect();
        let played = self.play_all(&candidates)?;
        let best = (1..).zip(played).max_by(|one, other| one.1.throughput.total_cmp(&other.1.throughput));
        Ok(best.expect("a setting has at least one request"))
    }
}

impl Played {
    fn of(runs: &[Metrics]) -> Self {
        let sum = |value: &dyn Fn(&Metrics) -> f64| runs.iter().map(value).sum::<f64>();
        let seconds = sum(&|run| run.window_ns() as f64 * 1e-9);
        let both = |value: &dyn Fn(usize) -> f64| [0, 1].map(value);
        let steps = |model: usize| sum(&|run| run.models[model].steps as f64).max(1.0);
        let busy_s = |model: usize| sum(&|run| run.models[model].busy_ns as f64 * 1e-9);
        let waited_ms = |run: &Metrics, model: usize| {
            let admission = &run.models[model].admission;
            admission.mean_ns().unwrap_or(0.0) * 1e-6 * run.models[model].visits as f64
        };
        let visits = |model: usize| sum(&|run| run.models[model].visits as f64).max(1.0);
        Self {
            throughput: sum(&|run| run.tokens as f64) / seconds,
            throughputs: runs.iter().map(|run| run.tokens as f64 / (run.window_ns() as f64 * 1e-9)).collect(),
            step_ms: both(&|model| busy_s(model) * 1e3 / steps(model)),
            batch: both(&|model| sum(&|run| run.models[model].rows() as f64) / steps(model)),
            wait_ms: both(&|model| sum(&|run| waited_ms(run, model)) / visits(model)),
            handoffs_per_token: sum(&|run| run.handoffs as f64) / sum(&|run| run.tokens as f64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::machine::Machine;
    use super::*;

    const MACHINE: Machine = Machine { layer_ms: 0.13, row_ms: 0.4, routing_ms: 0.5, corun: [0.8, 0.75] };

    fn player() -> Player {
        Player { replications: 4, tokens: 20_000, ..Player::new(1, Vec::new()) }
    }

    /// Nobody waits at concurrency 1, so the formula and the simulation agree up to the routes drawn.
    #[test]
    fn alone_is_what_the_simulator_finds_at_concurrency_1() {
        let routings = [
            Routing::Detour { p: 0.35 },
            Routing::Stitch { a: 0.4, b: 0.5 },
            Routing::Every { tokens: 4 },
            Routing::LargeOnly,
        ];
        for routing in routings {
            let setting = Setting {
                hop: Some((900.0, 3.7)),
                ..Setting::shared(MACHINE.pair(), MACHINE.corun, routing, 1).separate()
            };
            let (formula, played) = (setting.alone(), player().play(&setting).unwrap());
            assert!((played.throughput / formula - 1.0).abs() < 0.015, "{routing:?}: {} {formula}", played.throughput);
            let handoffs = (played.handoffs_per_token - routing.handoffs_per_token()).abs();
            assert!(handoffs < 0.015, "{routing:?}: {}", played.handoffs_per_token);
        }
    }

    /// In step-sync nobody computes while the longer batch of the round is over, so it is slower than asynchronous execution; sharing GPUs is
    /// slower than having them apart.
    #[test]
    fn turns_and_sharing_reach_the_scenario() {
        let setting = Setting::shared(MACHINE.pair(), MACHINE.corun, Routing::Detour { p: 0.35 }, 4);
        let throughput = |setting: Setting| player().play(&setting).unwrap().throughput;
        let eager = throughput(setting.clone());
        assert!(throughput(setting.clone().turns(Turns::StepSync)) < 0.95 * eager);
        assert!(throughput(setting.clone().turns(Turns::ModelSync)) < 0.95 * eager);
        assert!(throughput(setting.clone().separate()) > 1.05 * eager);
        assert!(throughput(setting.threshold(3)) > 1.05 * eager);
    }

    #[test]
    fn a_wrong_override_is_the_users_mistake() {
        let player = Player { sets: vec!["workload.concurrency=0".to_owned()], ..player() };
        let setting = Setting::shared(MACHINE.pair(), MACHINE.corun, Routing::LargeOnly, 1);
        let error = player.play(&setting).unwrap_err().to_string();
        assert!(error.contains("workload.concurrency"), "{error}");
    }
}
