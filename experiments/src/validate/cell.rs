//! The cells of a validation: policies, placements and concurrencies, each a scenario of its own.

use handoff_sim::scenario::{Placement, Scenario, ScenarioError, Variant};

use crate::failure::Failure;
use crate::input::Input;
use crate::output::cells::CellKey;

/// What routes the requests of a cell.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Routing {
    /// The large model alone: the baseline of all other cells of the same concurrency.
    LargeOnly,
    /// Switch every N tokens.
    Every(u32),
    /// R2R's law with this probability, the large model held back until so many rows wait.
    R2r { p: f64, threshold: u32 },
}

impl Routing {
    /// The name of the policy.
    pub(super) fn policy(self) -> &'static str {
        match self {
            Self::LargeOnly => "large-only",
            Self::Every(_) => "every",
            Self::R2r { .. } => "r2r",
        }
    }

    pub(super) fn every(self) -> Option<u32> {
        if let Self::Every(every) = self { Some(every) } else { None }
    }

    pub(super) fn p(self) -> Option<f64> {
        if let Self::R2r { p, .. } = self { Some(p) } else { None }
    }

    pub(super) fn threshold(self) -> u32 {
        if let Self::R2r { threshold, .. } = self { threshold } else { 1 }
    }
}

/// The grid of a validation.
#[derive(Clone, PartialEq, Debug, serde::Serialize)]
pub(super) struct Grid {
    /// N of the every-N cells.
    pub(super) every: Vec<u32>,
    /// Concurrencies of the every-N cells.
    pub(super) concurrencies: Vec<u32>,
    /// Probabilities of the R2R cells.
    pub(super) p: Vec<f64>,
    /// Thresholds of the large model in the R2R cells.
    pub(super) thresholds: Vec<u32>,
    /// Concurrency of the R2R cells.
    pub(super) threshold_concurrency: u32,
    /// Placements, as `--placement` names them.
    #[serde(serialize_with = "as_texts")]
    pub(super) placements: Vec<Placement>,
}

fn as_texts<S: serde::Serializer>(placements: &[Placement], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(placements.iter().map(ToString::to_string))
}

/// A cell, validated.
#[derive(Clone, Debug)]
pub(super) struct Cell {
    pub(super) routing: Routing,
    pub(super) placement: Placement,
    pub(super) concurrency: u32,
    pub(super) scenario: Scenario,
}

impl Cell {
    /// What tells the cell from all others.
    pub(super) fn key(&self) -> CellKey {
        let routing = match self.routing {
            Routing::LargeOnly => "large-only".to_owned(),
            Routing::Every(every) => format!("every-{every}"),
            Routing::R2r { p, threshold } => format!("r2r-{p}-threshold-{threshold}"),
        };
        let placement =
            if self.routing == Routing::LargeOnly { "alone".to_owned() } else { self.placement.to_string() };
        CellKey::new([
            ("placement", &placement as &dyn std::fmt::Display),
            ("routing", &routing),
            ("concurrency", &self.concurrency),
        ])
    }
}

/// All cells, baselines first.
///
/// # Errors
/// If one of them is refused; the error names it, and nothing has run.
pub(super) fn cells(input: &Input, scenario: &Scenario, grid: &Grid) -> Result<Vec<Cell>, Failure> {
    let mut wanted: Vec<(Routing, Placement, u32)> = Vec::new();
    let mut concurrencies = grid.concurrencies.clone();
    if !grid.p.is_empty() {
        concurrencies.push(grid.threshold_concurrency);
    }
    concurrencies.sort_unstable();
    concurrencies.dedup();
    let first = grid.placements.first().copied().unwrap_or(Placement::Overlapped);
    wanted.extend(concurrencies.iter().map(|&concurrency| (Routing::LargeOnly, first, concurrency)));
    for &placement in &grid.placements {
        for &concurrency in &grid.concurrencies {
            wanted.extend(grid.every.iter().map(|&every| (Routing::Every(every), placement, concurrency)));
        }
        for &p in &grid.p {
            let cell = |&threshold| (Routing::R2r { p, threshold }, placement, grid.threshold_concurrency);
            wanted.extend(grid.thresholds.iter().map(cell));
        }
    }
    wanted
        .into_iter()
        .map(|(routing, placement, concurrency)| build(input, scenario, routing, placement, concurrency))
        .collect()
}

fn build(
    input: &Input,
    scenario: &Scenario,
    routing: Routing,
    placement: Placement,
    concurrency: u32,
) -> Result<Cell, Failure> {
    let n_models = scenario.models().len();
    let at = |variant: Variant| variant.concurrency(concurrency);
    let variant = match routing {
        Routing::LargeOnly => at(scenario.variant()).policy_large_only(),
        Routing::Every(every) => at(scenario.variant()).every(every).set("scheduler.mode=eager").placement(placement),
        Routing::R2r { p, threshold } => {
            let mut thresholds = vec![1; n_models];
            thresholds[n_models - 1] = threshold;
            at(scenario.variant())
                .set(&format!("policy={{ kind = \"r2r\", p = {p} }}"))
                .placement(placement)
                .thresholds(&thresholds)
        }
    };
    let named =
        |error: ScenarioError| Failure::Cell { cell: format!("{placement}, {routing:?}, C = {concurrency}"), error };
    Ok(Cell { routing, placement, concurrency, scenario: input.build(variant).map_err(named)? })
}
