//! Thresholds as lists by active requests: the number in the system falls in the tail of an open workload, and a constant threshold stalls there.

use super::{Method, TuneError, TuneOptions, tune};
use crate::scenario::Scenario;

/// The best thresholds for each number of requests in the system.
#[derive(Clone, Debug, PartialEq)]
pub struct ByActive {
    /// Per model, in index order: entry n - 1 is the threshold while n requests are in the system.
    pub lists: Vec<Vec<u32>>,
    /// Per number of requests: the throughput at the best thresholds in a closed loop of that size, tokens per second.
    pub throughput: Vec<f64>,
    /// Per number of requests: the method.
    pub methods: Vec<Method>,
}

impl ByActive {
    /// Overrides of a scenario, `model.0.threshold=[1,1,2]` and so on, in the form of `--set`.
    #[must_use]
    pub fn sets(&self) -> Vec<String> {
        let list = |list: &Vec<u32>| list.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
        self.lists.iter().enumerate().map(|(model, own)| format!("model.{model}.threshold=[{}]", list(own))).collect()
    }
}

/// Tunes a closed loop of every size from 1 to the scenario's concurrency. Each entry is feasible for its number of requests, so a scenario takes the
/// lists as they are. `tuned` is told each size once it is done.
///
/// # Errors
/// As for [`tune`].
pub fn by_active(
    scenario: &Scenario,
    options: &TuneOptions,
    mut tuned: impl FnMut(u32),
) -> Result<ByActive, TuneError> {
    let concurrency = scenario.workload().arrivals().concurrency().ok_or(TuneError::OpenLoop)?;
    let n_models = scenario.models().len();
    let mut by_active = ByActive { lists: vec![Vec::new(); n_models], throughput: Vec::new(), methods: Vec::new() };
    // The scenario's own thresholds may not be feasible with fewer requests.
    let eager = vec![1; n_models];
    for active in 1..=concurrency {
        let tuning = tune(&scenario.variant().thresholds(&eager).concurrency(active).build()?, options)?;
        let best = tuning.best();
        for (list, &threshold) in by_active.lists.iter_mut().zip(&best.thresholds) {
            list.push(threshold);
        }
        by_active.throughput.push(best.throughput);
        by_active.methods.push(best.method);
        tuned(active);
    }
    Ok(by_active)
}
