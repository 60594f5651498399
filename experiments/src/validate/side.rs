//! The two sides of a cell: what the simulator says and what the machine does, from the same starts.

use handoff_backend::driver::Executor;
use handoff_sim::cost::Profile;
use handoff_sim::engine::{EngineConfig, Metrics, replicate};
use handoff_sim::rng::Stream;

use super::analytic;
use super::cell::{Cell, Routing};
use super::row::Row;
use crate::failure::Failure;
use crate::machine::Plan;
use crate::measure::{Run, Span};

/// Which runs a cell consists of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Starts {
    /// Random starts, the same on both sides.
    pub(super) n: u32,
    /// Runs of the first start on the machine, which tell what the machine itself varies by.
    pub(super) repeats: u32,
    /// What each run takes.
    pub(super) span: Span,
    /// From which the seeds of the starts are derived.
    pub(super) seed: u64,
}

/// One entry a start.
pub(super) struct Sides {
    analytic: Option<f64>,
    predicted: Vec<Metrics>,
    measured: Vec<Metrics>,
    /// Throughput of the first start, run again and again.
    repeated: Vec<f64>,
}

/// What the simulator runs for a cell: its scenario at the profile's costs. Nothing that was measured in the cell comes in.
pub(super) fn prediction(
    scenario_config: EngineConfig,
    plan: &Plan,
    profile: &Profile,
) -> Result<EngineConfig, Failure> {
    scenario_config
        .with_profile(profile, &plan.selections())
        .map_err(|error| Failure::Argument(format!("the profile does not cover the scenario: {error}")))
}

impl Sides {
    /// Runs the cell on both sides.
    pub(super) fn of(
        cell: &Cell,
        plan: &Plan,
        profile: &Profile,
        starts: Starts,
        executors: &mut [Box<dyn Executor>],
    ) -> Result<Self, Failure> {
        let name = format!("cell {}: ", cell.key());
        let config = plan.config(&cell.scenario);
        let predicted_config = prediction(config.clone(), plan, profile)?;
        let window = starts.span.window();
        let seeds: Vec<u64> = (0..starts.n).map(|start| Stream::replication_seed(starts.seed, start)).collect();
        let predict = |&seed: &u64| {
            replicate(&predicted_config, seed, window).map_err(|error| Failure::Run { cell: name.clone(), error })
        };
        let predicted = seeds.iter().map(predict).collect::<Result<Vec<_>, _>>()?;
        let mut measured = Vec::new();
        let mut repeated = Vec::new();
        for (start, &seed) in seeds.iter().enumerate() {
            let turns = if start == 0 { starts.repeats } else { 1 };
            for turn in 0..turns {
                let run = Run { config: &config, seed, window, keep_log: false, prompts: None };
                let metrics = run.measure(plan, executors, &name)?.metrics;
                if start == 0 {
                    repeated.push(metrics.throughput());
                }
                if turn == 0 {
                    measured.push(metrics);
                }
            }
        }
        let analytic = analytic::throughput(cell, &predicted_config);
        Ok(Self { analytic, predicted, measured, repeated })
    }

    /// The row of the cell.
    pub(super) fn row(&self, cell: &Cell, starts: Starts) -> Row {
        let (predicted, predicted_low, predicted_high) = throughput(&self.predicted);
        let (measured, measured_low, measured_high) = throughput(&self.measured);
        let placement = cell.placement;
        let alone = cell.routing == Routing::LargeOnly;
        let large = self.predicted[0].models.len() - 1;
        let (p, m) = (Side(&self.predicted), Side(&self.measured));
        Row {
            placement: if alone { "alone" } else { placement.as_str() }.to_owned(),
            order: placement.order().filter(|_| !alone).map(|order| order.to_string()),
            policy: cell.routing.policy().to_owned(),
            every: cell.routing.every(),
            p: cell.routing.p(),
            threshold: cell.routing.threshold(),
            concurrency: cell.concurrency,
            analytic: self.analytic,
            predicted,
            predicted_low,
            predicted_high,
            measured,
            measured_low,
            measured_high,
            error: predicted / measured - 1.0,
            in_range: (predicted_low..=predicted_high).contains(&measured),
            repeat_spread: spread(&self.repeated),
            above_saturation: self.predicted.iter().map(busiest).sum::<f64>() / self.predicted.len() as f64
                >= SATURATED,
            extrapolated: p.extrapolated(),
            predicted_small_batch: p.batch(0),
            measured_small_batch: m.batch(0),
            predicted_large_batch: p.batch(large),
            measured_large_batch: m.batch(large),
            predicted_small_step_ms: p.step_ms(0),
            measured_small_step_ms: m.step_ms(0),
            predicted_large_step_ms: p.step_ms(large),
            measured_large_step_ms: m.step_ms(large),
            predicted_small_utilisation: p.utilisation(0),
            measured_small_utilisation: m.utilisation(0),
            predicted_large_utilisation: p.utilisation(large),
            measured_large_utilisation: m.utilisation(large),
            predicted_small_admission_ms: p.admission_ms(0),
            measured_small_admission_ms: m.admission_ms(0),
            predicted_large_admission_ms: p.admission_ms(large),
            measured_large_admission_ms: m.admission_ms(large),
            predicted_routed_fraction: p.routed_fraction(),
            measured_routed_fraction: m.routed_fraction(),
            predicted_handoffs_per_token: p.handoffs_per_token(),
            measured_handoffs_per_token: m.handoffs_per_token(),
            tokens: self.measured.iter().map(|metrics| metrics.tokens).sum(),
            starts: starts.n,
            seconds: starts.span.seconds,
            warmup_seconds: starts.span.warmup_seconds,
            seed: starts.seed,
        }
    }
}

/// From this share of time on the busiest device counts as saturated.
const SATURATED: f64 = 0.95;

/// Share of time that the busiest device was busy.
fn busiest(metrics: &Metrics) -> f64 {
    let busy_ns = metrics.device_busy_ns.iter().copied().max().unwrap_or(0);
    busy_ns as f64 / metrics.window_ns() as f64
}

/// Mean, lowest, highest.
fn throughput(starts: &[Metrics]) -> (f64, f64, f64) {
    let values: Vec<f64> = starts.iter().map(Metrics::throughput).collect();
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(0.0, f64::max);
    (values.iter().sum::<f64>() / values.len() as f64, low, high)
}

/// (highest - lowest) / mean; `None` with fewer than two values.
fn spread(values: &[f64]) -> Option<f64> {
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(0.0, f64::max);
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    (values.len() > 1).then(|| (high - low) / mean)
}

/// Ratios of sums over all starts of one side. Not a number where nothing happened.
struct Side<'a>(&'a [Metrics]);

impl Side<'_> {
    fn sum(&self, value: impl Fn(&Metrics) -> f64) -> f64 {
        self.0.iter().map(value).sum()
    }

    fn batch(&self, model: usize) -> f64 {
        self.sum(|metrics| metrics.models[model].rows() as f64) / self.steps(model)
    }

    fn steps(&self, model: usize) -> f64 {
        self.sum(|metrics| metrics.models[model].steps as f64)
    }

    fn step_ms(&self, model: usize) -> f64 {
        self.sum(|metrics| metrics.models[model].busy_ns as f64) * 1e-6 / self.steps(model)
    }

    fn utilisation(&self, model: usize) -> f64 {
        self.sum(|metrics| metrics.models[model].busy_ns as f64) / self.sum(|metrics| metrics.window_ns() as f64)
    }

    fn admission_ms(&self, model: usize) -> f64 {
        let means: Vec<f64> = self.0.iter().filter_map(|metrics| metrics.models[model].admission.mean_ns()).collect();
        means.iter().sum::<f64>() * 1e-6 / means.len() as f64
    }

    fn routed_fraction(&self) -> f64 {
        self.sum(|metrics| metrics.models[0].handoffs as f64) / self.sum(|metrics| metrics.models[0].rows() as f64)
    }

    fn handoffs_per_token(&self) -> f64 {
        self.sum(|metrics| metrics.handoffs as f64) / self.sum(|metrics| metrics.tokens as f64)
    }

    fn extrapolated(&self) -> f64 {
        let steps: u64 = self.0.iter().flat_map(|metrics| &metrics.models).map(|model| model.steps).sum();
        let beyond: u64 = self.0.iter().flat_map(|metrics| &metrics.models).map(|model| model.extrapolated_steps).sum();
        if steps == 0 { 0.0 } else { beyond as f64 / steps as f64 }
    }
}
