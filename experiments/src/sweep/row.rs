//! A row of `rows.csv`: one cell of the sweep.

use serde::{Deserialize, Serialize};

/// One cell. Throughput is in tokens per second, delays in ms, latencies in s. The large model is the last of the set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Row {
    /// `separate`, `overlapped` or `exclusive`.
    pub(crate) placement: String,
    /// The order of an exclusive placement.
    pub(crate) order: Option<String>,
    /// Tokens per visit, of both models; nothing if the scenario has another policy.
    pub(crate) every: Option<u32>,
    /// Requests in the system; nothing in an open loop.
    pub(crate) concurrency: Option<u32>,
    /// Overrides of the `--grid` axes, separated by blanks.
    pub(crate) grid: String,
    /// Committed tokens per second, mean over replications.
    pub(crate) throughput: f64,
    /// Lower end of its 95 % interval.
    pub(crate) ci_low: f64,
    /// Upper end of its 95 % interval.
    pub(crate) ci_high: f64,
    /// Changes of model per committed token.
    pub(crate) handoffs_per_token: f64,
    /// Throughput over that of the large model alone on one device.
    pub(crate) speedup: f64,
    /// Throughput of the large model alone on one device.
    pub(crate) baseline_throughput: f64,
    /// Lower end of its 95 % interval.
    pub(crate) baseline_ci_low: f64,
    /// Upper end of its 95 % interval.
    pub(crate) baseline_ci_high: f64,
    /// Throughput over that of two large models that share the requests; only where the models have devices of their own.
    pub(crate) speedup_two_replicas: Option<f64>,
    /// Throughput of the slowest start.
    pub(crate) orbit_low: f64,
    /// Throughput of the fastest start.
    pub(crate) orbit_high: f64,
    /// Rows a step of the large model, mean over starts.
    pub(crate) large_batch_mean: f64,
    /// Rows a step of the large model in the start where it is smallest.
    pub(crate) large_batch_low: f64,
    /// Rows a step of the large model in the start where it is largest.
    pub(crate) large_batch_high: f64,
    /// Rows a step of the entry model, mean over starts.
    pub(crate) small_batch_mean: f64,
    /// Share of time that a forward of the entry model ran.
    pub(crate) small_utilisation: f64,
    /// Share of time that a forward of the large model ran.
    pub(crate) large_utilisation: f64,
    /// Mean batch admission delay at the entry model.
    pub(crate) small_admission_ms: f64,
    /// Mean batch admission delay at the large model.
    pub(crate) large_admission_ms: f64,
    /// New tokens an extend row of the large model.
    pub(crate) large_extend_tokens: Option<f64>,
    /// Dropped tokens per committed token.
    pub(crate) dropped_per_token: f64,
    /// Mean time to first token.
    pub(crate) ttft_s: Option<f64>,
    /// Mean time per output token after the first.
    pub(crate) tpot_s: Option<f64>,
    /// Mean end-to-end latency.
    pub(crate) latency_s: Option<f64>,
    /// The interval is wider than wanted, or the warm-up could not be found.
    pub(crate) flagged: bool,
    /// Share of steps whose time was read beyond the measured profile, over both models.
    pub(crate) extrapolated: f64,
    /// Replications, each from its own random start.
    pub(crate) replications: u32,
    /// Finished requests of each warm-up.
    pub(crate) warmup_requests: u64,
    /// Tokens committed in all windows.
    pub(crate) tokens: u64,
    /// Simulated seconds of all windows.
    pub(crate) seconds: f64,
    /// The seed.
    pub(crate) seed: u64,
}
