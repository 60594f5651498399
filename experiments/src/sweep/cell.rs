//! A cell of the grid: its scenario, its key, and the run that fills its row.

use handoff_sim::engine::{EngineConfig, Report, simulate};
use handoff_sim::scenario::{Scenario, ScenarioError};
use handoff_sim::stats::{Estimate, StoppingRule};

use super::axes::Axes;
use super::baseline::Baselines;
use super::row::Row;
use crate::failure::Failure;
use crate::input::Input;
use crate::output::cells::CellKey;

/// A cell of the grid, validated.
pub(super) struct Cell {
    pub(super) scenario: Scenario,
    /// The same with the large model alone.
    pub(super) baseline: Scenario,
    /// The baseline at half the concurrency, rounded up and down; only for separate placement.
    pub(super) halves: Option<[Option<Scenario>; 2]>,
    every: Option<u32>,
    pub(super) concurrency: Option<u32>,
    grid: String,
}

/// All cells in the order of the rows: placement, grid, concurrency, N.
pub(super) fn cells(input: &Input, scenario: &Scenario, axes: &Axes) -> Result<Vec<Cell>, Failure> {
    let mut cells = Vec::new();
    for &placement in &axes.placements {
        for grid in &axes.grid {
            for &concurrency in &axes.concurrencies {
                for &every in &axes.every {
                    let mut sets = grid.clone();
                    sets.extend(concurrency.map(|concurrency| format!("workload.concurrency={concurrency}")));
                    let changed = || sets.iter().fold(scenario.variant(), |variant, set| variant.set(set));
                    let name = |error: ScenarioError| {
                        let placement = placement.map(|placement| format!("placement={placement}"));
                        let every = every.map(|every| format!("every={every}"));
                        let parts: Vec<String> =
                            placement.into_iter().chain(sets.iter().cloned()).chain(every).collect();
                        Failure::Cell { cell: parts.join(", "), error }
                    };
                    let mut variant = changed();
                    if let Some(every) = every {
                        variant = variant.every(every);
                    }
                    if let Some(placement) = placement {
                        variant = variant.placement(placement);
                    }
                    let scenario = input.build(variant).and_then(Scenario::simulable).map_err(name)?;
                    let baseline = input.build(changed().policy_large_only()).map_err(name)?;
                    let separate = scenario.placement().as_str() == "separate" && scenario.models().len() > 1;
                    let concurrency = scenario.workload().arrivals().concurrency();
                    let half = |requests: u32| {
                        (requests > 0)
                            .then(|| input.build(changed().concurrency(requests).policy_large_only()))
                            .transpose()
                    };
                    let halves = match concurrency.filter(|_| separate) {
                        Some(n) => Some([half(n.div_ceil(2)).map_err(name)?, half(n / 2).map_err(name)?]),
                        None => None,
                    };
                    cells.push(Cell { scenario, baseline, halves, every, concurrency, grid: grid.join(" ") });
                }
            }
        }
    }
    Ok(cells)
}

impl Cell {
    /// What tells the cell from all others.
    pub(super) fn key(&self) -> CellKey {
        let shown = |number: Option<u32>| number.map_or_else(|| "scenario".to_owned(), |number| number.to_string());
        CellKey::new([
            ("placement", &self.scenario.placement() as &dyn std::fmt::Display),
            ("every", &shown(self.every)),
            ("concurrency", &shown(self.concurrency)),
            ("grid", &self.grid),
        ])
    }

    /// Roughly how long the cell takes beside others: steps are what costs, and a large N has fewer handoffs.
    pub(super) fn effort(&self) -> u32 {
        let handoffs = self.every.map_or(1, |every| 1 + 8 / every);
        handoffs * (16 / self.concurrency.unwrap_or(4).clamp(1, 16))
    }

    /// Runs the cell.
    pub(super) fn run(&self, baselines: &Baselines) -> Result<Row, Failure> {
        let report = run(&self.scenario, &format!("cell {}: ", self.key()))?;
        let baseline = baselines.of(&self.baseline);
        let two_replicas =
            self.halves.as_ref().map(|halves| halves.iter().flatten().map(|half| baselines.of(half).mean).sum::<f64>());
        Ok(self.row(&report, baseline, two_replicas))
    }

    fn row(&self, report: &Report, baseline: Estimate, two_replicas: Option<f64>) -> Row {
        let small = &report.models[0];
        let large = report.models.last().expect("a scenario has models");
        let placement = self.scenario.placement();
        let throughput = report.throughput.mean;
        let (orbit_low, orbit_high) = report.throughput_range();
        let defined = |value: f64| value.is_finite().then_some(value);
        Row {
            placement: placement.as_str().to_owned(),
            order: placement.order().map(|order| order.to_string()),
            every: self.every,
            concurrency: self.concurrency,
            grid: self.grid.clone(),
            throughput,
            ci_low: report.throughput.low().unwrap_or(throughput),
            ci_high: report.throughput.high().unwrap_or(throughput),
            handoffs_per_token: report.handoffs_per_token.mean,
            speedup: throughput / baseline.mean,
            baseline_throughput: baseline.mean,
            baseline_ci_low: baseline.low().unwrap_or(baseline.mean),
            baseline_ci_high: baseline.high().unwrap_or(baseline.mean),
            speedup_two_replicas: two_replicas.map(|two| throughput / two),
            orbit_low,
            orbit_high,
            large_batch_mean: large.batch_mean.mean,
            large_batch_low: large.batch_mean_range.0,
            large_batch_high: large.batch_mean_range.1,
            small_batch_mean: small.batch_mean.mean,
            small_utilisation: small.utilisation.mean,
            large_utilisation: large.utilisation.mean,
            small_admission_ms: small.admission_s.mean * 1e3,
            large_admission_ms: large.admission_s.mean * 1e3,
            large_extend_tokens: defined(large.extend_tokens.mean),
            dropped_per_token: report.dropped_per_token.mean,
            ttft_s: defined(report.ttft_s.mean),
            tpot_s: defined(report.tpot_s.mean),
            latency_s: defined(report.latency_s.mean),
            flagged: report.flagged || report.warmup_unsure,
            extrapolated: report.extrapolated_fraction,
            replications: report.throughputs.len() as u32,
            warmup_requests: report.warmup_requests,
            tokens: report.tokens,
            seconds: report.seconds,
            seed: self.scenario.seed(),
        }
    }
}

/// Replications of a scenario until its precision is reached. `cell` begins the text of an error.
pub(crate) fn run(scenario: &Scenario, cell: &str) -> Result<Report, Failure> {
    let replications = scenario.replications();
    let rule = StoppingRule::new(scenario.workload().precision(), replications.min as usize, replications.max as usize)
        .expect("a validated scenario has a precision between 0 and 1 and at least two replications");
    let report = simulate(&EngineConfig::from(scenario), scenario.seed(), &rule)
        .map_err(|error| Failure::Run { cell: cell.to_owned(), error })?;
    if report.throughputs.iter().any(|throughput| !throughput.is_finite()) {
        return Err(Failure::NoTime { cell: cell.to_owned() });
    }
    Ok(report)
}
