//! Variants of a scenario, as a sweep makes them.

use std::sync::Arc;

use super::error::ScenarioError;
use super::resolve::{Files, LoadedOnly, Resolver};
use super::scheduler::Placement;
use super::source::Source;
use super::values::Sharing;
use super::{Scenario, parse_with};

/// Changes to a scenario; [`Self::build`] validates the result. Each is an override, so that [`Source::sets`] tells how
/// a variant differs and errors name it. Files are not read again.
#[derive(Clone, Debug)]
pub struct Variant {
    source: Result<Source, ScenarioError>,
    files: Arc<Files>,
    n_models: usize,
}

impl Variant {
    pub(super) fn new(source: Source, files: Arc<Files>, n_models: usize) -> Self {
        Self { source: Ok(source), files, n_models }
    }

    /// An override, as of `--set`.
    #[must_use]
    pub fn set(self, text: &str) -> Self {
        Self { source: self.source.and_then(|source| source.with_set(text)), ..self }
    }

    /// Switch every `n` tokens, in both directions.
    #[must_use]
    pub fn every(self, n: u32) -> Self {
        self.set(&format!("policy={{ kind = \"every\", small = {n}, large = {n} }}"))
    }

    /// A closed loop with this many requests in the system.
    #[must_use]
    pub fn concurrency(self, concurrency: u32) -> Self {
        self.set(&format!("workload.concurrency={concurrency}"))
    }

    /// The random seed.
    #[must_use]
    pub fn seed(self, seed: u64) -> Self {
        self.set(&format!("seed={seed}"))
    }

    /// All models on devices of their own, or all on device 0 and sharing it in the given way.
    #[must_use]
    pub fn placement(mut self, placement: Placement) -> Self {
        for idx in 0..self.n_models {
            let device = if placement == Placement::Separate { idx } else { 0 };
            self = self.set(&format!("model.{idx}.device={device}"));
        }
        match placement {
            Placement::Separate => self,
            Placement::Overlapped => self.set(&format!("scheduler.sharing={}", Sharing::Overlapped)),
            Placement::Exclusive(order) => {
                self.set(&format!("scheduler.sharing={}", Sharing::Exclusive)).set(&format!("scheduler.order={order}"))
            }
        }
    }

    /// One threshold for each model, in mode delayed.
    #[must_use]
    pub fn thresholds(mut self, thresholds: &[u32]) -> Self {
        for (idx, threshold) in thresholds.iter().enumerate() {
            self = self.set(&format!("model.{idx}.threshold={threshold}"));
        }
        self.set("scheduler.mode=delayed")
    }

    /// The baseline: the last model alone on its device, threshold 1, the same workload.
    #[must_use]
    pub fn policy_large_only(mut self) -> Self {
        for idx in 0..self.n_models {
            self = self.set(&format!("model.{idx}.threshold=1")).set(&format!("model.{idx}.max_wait_ms=0"));
        }
        self.set("policy={ kind = \"large-only\" }").set("scheduler.mode=eager").placement(Placement::Separate)
    }

    /// The scenario with all changes.
    ///
    /// # Errors
    /// If a change is refused, or names a file that the original did not read.
    pub fn build(self) -> Result<Scenario, ScenarioError> {
        self.build_with(&LoadedOnly)
    }

    /// As [`Self::build`], reading files that the original did not read.
    ///
    /// # Errors
    /// As for [`Scenario::parse`].
    pub fn build_with(self, resolver: &dyn Resolver) -> Result<Scenario, ScenarioError> {
        parse_with(self.source?, resolver, self.files)
    }
}
