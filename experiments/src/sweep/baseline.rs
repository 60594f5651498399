//! The large model alone, for every workload of the sweep.

use std::collections::BTreeMap;

use handoff_sim::scenario::Scenario;
use handoff_sim::stats::Estimate;
use rayon::prelude::*;

use super::cell::{self, Cell};
use crate::failure::Failure;

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
        let run = |(key, scenario): (String, &Scenario)| match cell::run(scenario) {
            Ok(report) => Ok((key, report.throughput)),
            Err(error) => Err(Failure::Run { cell: "large-only baseline: ".to_owned(), error }),
        };
        Ok(Self(wanted.into_par_iter().map(run).collect::<Result<_, _>>()?))
    }

    /// The throughput of a baseline that was computed.
    pub(super) fn of(&self, scenario: &Scenario) -> Estimate {
        self.0[&key(scenario)]
    }
}

/// The overrides in the order in which they were made say all that tells two baselines of one sweep apart.
fn key(scenario: &Scenario) -> String {
    scenario.source().sets().collect::<Vec<_>>().join("\n")
}
