//! What one replication measures, from the end of warm-up until the wanted number of requests has finished.

use crate::stats::{CountHistogram, LatencyHistogram};

/// Sums over the steps of one model.
#[derive(Clone, Debug, Default)]
pub struct ModelMetrics {
    /// Steps finished.
    pub steps: u64,
    /// Rows of kind decode.
    pub decode_rows: u64,
    /// Rows of kind extend.
    pub extend_rows: u64,
    /// Rows of kind prefill.
    pub prefill_rows: u64,
    /// New tokens of the extend rows.
    pub extend_tokens: u64,
    /// New tokens of the prefill rows.
    pub prefill_tokens: u64,
    /// Tokens committed by this model.
    pub committed_tokens: u64,
    /// Tokens dropped, to be made again by another model.
    pub dropped_tokens: u64,
    /// Handoffs and requests that arrived here.
    pub visits: u64,
    /// Handoffs that left from here.
    pub handoffs: u64,
    /// Time that a forward of this model was on its device, ns.
    pub busy_ns: u64,
    /// Sum over steps of rows times the time from launch to results, ns: over the window's length it is the mean number in service.
    pub in_service_row_ns: u128,
    /// Sum over launched rows of the time since they became ready, ns: over the window's length it is the mean number waiting.
    pub waiting_row_ns: u128,
    /// Sum over steps of rows squared, for the batch that a row sees.
    pub rows_squared: u128,
    /// Steps whose time, or whose rate beside another step, was read beyond the measured profile.
    pub extrapolated_steps: u64,
    /// Rows a step.
    pub batch: CountHistogram,
    /// Batch admission delay of arrivals (handoffs and new requests), ns.
    pub admission: LatencyHistogram,
}

impl ModelMetrics {
    /// Rows over all steps.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.decode_rows + self.extend_rows + self.prefill_rows
    }
}

/// What one replication measures.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    /// Per model, in index order.
    pub models: Vec<ModelMetrics>,
    /// Per device number: time that at least one forward ran, ns.
    pub device_busy_ns: Vec<u64>,
    /// Start of the window, ns since the start of the run.
    pub window_start_ns: u64,
    /// End of the window, ns since the start of the run.
    pub window_end_ns: u64,
    /// Output tokens committed by all requests, finished or not.
    pub tokens: u64,
    /// Tokens dropped.
    pub dropped_tokens: u64,
    /// Changes of model, in both directions.
    pub handoffs: u64,
    /// Sum over delivered messages of the time between subservers, ns.
    pub in_transit_ns: u128,
    /// Requests finished.
    pub finished: u64,
    /// Times that a request lost its KV.
    pub preemptions: u64,
    /// Time to first token, ns, of requests seen from arrival to end.
    pub ttft: LatencyHistogram,
    /// Time per output token after the first, ns, of requests seen from arrival to end.
    pub tpot: LatencyHistogram,
    /// End-to-end latency, ns, of requests seen from arrival to end.
    pub latency: LatencyHistogram,
}

impl Metrics {
    pub(super) fn new(n_models: usize, n_devices: usize) -> Self {
        Self { models: vec![ModelMetrics::default(); n_models], device_busy_ns: vec![0; n_devices], ..Self::default() }
    }

    /// The window's length, ns.
    #[must_use]
    pub fn window_ns(&self) -> u64 {
        self.window_end_ns - self.window_start_ns
    }

    /// Committed tokens per second.
    #[must_use]
    pub fn throughput(&self) -> f64 {
        self.tokens as f64 / (self.window_ns() as f64 * 1e-9)
    }
}
