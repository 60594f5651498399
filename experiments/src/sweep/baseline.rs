//! The large model alone, for every workload of the sweep.

use std::collections::BTreeMap;

use handoff_sim::scenario::Scenario;
use handoff_sim::stats::Estimate;
use rayon::prelude::*;

use super::cell::{self, Cell};
use crate::failure::Failure;
use crate::input::path_words;
use crate::interrupt;

/// Throughput of the large model alone, tokens/s, by scenario. Cells that differ in nothing that the baseline sees share one.
pub(super) struct Baselines(BTreeMap<String, Estimate>);

impl Baselines {
    /// Runs the baselines of `cells`, each once.
    pub(super) fn compute(cells: &[&Cell]) -> Result<Self, Failure> {
        let mut wanted: BTreeMap<String, &Scenario> = BTreeMap::new();
        for cell in cells {
            let halves = cell.halves.iter().flatten().flatten();
            wanted.extend(std::iter::once(&cell.baseline).chain(halves).map(|scenario| (key(scenario), scenario)));
        }
        let run = |(key, scenario): (String, &Scenario)| {
            // After an interrupt no cell runs that would ask for it.
            let report = (!interrupt::requested()).then(|| cell::run(scenario, "large-only baseline: "))?;
            Some(report.map(|report| (key, report.throughput)))
        };
        Ok(Self(wanted.into_par_iter().filter_map(run).collect::<Result<_, _>>()?))
    }

    /// The throughput of a baseline that was computed.
    pub(super) fn of(&self, scenario: &Scenario) -> Estimate {
        self.0[&key(scenario)]
    }
}

/// The overrides in the order in which they were made say all that tells two baselines of one sweep apart. Those that a later one replaces
/// say nothing: a grid over a threshold or over a policy's parameter has one baseline.
fn key(scenario: &Scenario) -> String {
    let mut kept: Vec<(Vec<String>, &str)> = Vec::new();
    for set in scenario.source().sets() {
        let path = path_words(scenario, set.split('=').next().unwrap_or(set));
        kept.retain(|(earlier, _)| !earlier.starts_with(&path));
        kept.push((path, set));
    }
    kept.into_iter().map(|(_, set)| set).collect::<Vec<_>>().join("\n")
}
