//! One replication, and the choice of its warm-up.

use super::config::EngineConfig;
use super::driver::Driver;
use super::error::RunError;
use super::metrics::Metrics;
use super::observer::{Observer, Unobserved};
use super::window::Window;
use crate::stats::{BinnedSeries, Truncation, mser5};
use crate::workload::Warmup;

/// Time bins of the series from which the warm-up is chosen, at most: a bin is then far shorter than a run and still holds many tokens.
const SERIES_BINS_MAX: usize = 2_000;
/// Width of a bin to start with, ns. Bins double until a run fits.
const SERIES_WIDTH_NS: u64 = 1 << 20;

/// Runs one replication of `config` under `seed`.
///
/// # Errors
/// If the run stalls, is unstable, or runs out of recorded arrivals, or the policy is not simulable.
pub fn replicate(config: &EngineConfig, seed: u64, window: Window) -> Result<Metrics, RunError> {
    replicate_observed(config, seed, window, Unobserved).map(|(metrics, _)| metrics)
}

/// Runs one replication while `observer` watches.
///
/// # Errors
/// If the run stalls, is unstable, or runs out of recorded arrivals, or the policy is not simulable.
pub fn replicate_observed<O: Observer>(
    config: &EngineConfig,
    seed: u64,
    window: Window,
    observer: O,
) -> Result<(Metrics, O), RunError> {
    check(config)?;
    let mut driver = Driver::new(config, seed, window, observer);
    driver.run()?;
    Ok(driver.into_parts())
}

fn check(config: &EngineConfig) -> Result<(), RunError> {
    if config.policy.is_simulable() {
        return Ok(());
    }
    Err(RunError::NeedsEntropy { policy: config.policy.kind() })
}

/// How many finished requests the warm-up takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WarmupChoice {
    /// Finished requests before measurement starts.
    pub requests: u64,
    /// The pilot was too short to tell where the warm-up ends; half of it was taken.
    pub unsure: bool,
}

/// The workload's warm-up: a given number of requests, or what MSER-5 (theory of output analysis: White 1997) cuts from the series of
/// committed tokens of a pilot run of the wanted length, but at least one generation of a closed loop. One choice serves all
/// replications.
///
/// # Errors
/// If the pilot does not run to its end.
pub fn choose_warmup(config: &EngineConfig, seed: u64) -> Result<WarmupChoice, RunError> {
    if let Warmup::Requests(requests) = config.workload.warmup() {
        return Ok(WarmupChoice { requests: u64::from(requests), unsure: false });
    }
    let generation = u64::from(config.workload.arrivals().concurrency().unwrap_or(0));
    let requests = u64::from(config.workload.requests());
    let window = Window::Requests { warmup_requests: 0, requests: requests + generation };
    check(config)?;
    let mut driver = Driver::new(config, seed, window, Unobserved);
    driver.series = Some(BinnedSeries::new(SERIES_WIDTH_NS, SERIES_BINS_MAX));
    driver.finished_series = Some(BinnedSeries::new(SERIES_WIDTH_NS, SERIES_BINS_MAX));
    driver.run()?;
    let series = driver.series.take();
    let finished = driver.finished_series.take();
    let (metrics, _) = driver.into_parts();
    let (Some(mut series), Some(mut finished)) = (series, finished) else { unreachable!("both series were set above") };
    let end_ns = metrics.window_end_ns;
    let bins = series.complete_bins(end_ns);
    // The finished series ends no later, so its bins have the same width once it spans the same time.
    let finished_bins = finished.complete_bins(end_ns);
    Ok(match mser5(&bins) {
        Truncation::At(bins) => {
            let cut: f64 = finished_bins.iter().take(bins).sum();
            WarmupChoice { requests: generation.max(cut as u64), unsure: false }
        }
        Truncation::TooShort => WarmupChoice { requests: generation.max(requests / 2), unsure: true },
    })
}
