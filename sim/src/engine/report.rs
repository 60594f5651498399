//! Replications until the interval is narrow enough, and what they say together.

use handoff_scheduler::ModelIdx;

use super::config::EngineConfig;
use super::error::RunError;
use super::metrics::{Metrics, ModelMetrics};
use super::replication::{choose_warmup, replicate};
use super::window::Window;
use crate::rng::Stream;
use crate::stats::{CountHistogram, Estimate, LatencyHistogram, StoppingRule, Verdict};

/// One model's share of a report. Means are over replications, each with its 95 % interval.
#[derive(Clone, Debug)]
pub struct ModelReport {
    /// The model's name.
    pub name: String,
    /// Rows a step.
    pub batch_mean: Estimate,
    /// The smallest and the largest mean batch of a replication: the orbits that the starts led to.
    pub batch_mean_range: (f64, f64),
    /// Share of time that a forward of this model was on its device.
    pub utilisation: Estimate,
    /// Steps per second.
    pub steps_per_s: Estimate,
    /// Batch admission delay of handoffs and new requests, s.
    pub admission_s: Estimate,
    /// Requests in service (launched, results not yet there), mean over time.
    pub in_service: Estimate,
    /// Requests waiting for a launch, mean over time.
    pub waiting: Estimate,
    /// Share of committed tokens that this model made.
    pub token_share: Estimate,
    /// Committed tokens per visit: the mean run length.
    pub run_length: Estimate,
    /// New tokens an extend row.
    pub extend_tokens: Estimate,
    /// Share of rows that end in a handoff: the routed fraction.
    pub routed_fraction: Estimate,
    /// Share of rows whose token is dropped.
    pub dropped_fraction: Estimate,
    /// Rows by kind, over all replications: decode, extend, prefill.
    pub rows: [u64; 3],
    /// Share of steps whose time was read beyond the measured profile.
    pub extrapolated_fraction: f64,
    /// Rows a step, over all replications.
    pub batch: CountHistogram,
    /// Batch admission delay, ns, over all replications.
    pub admission: LatencyHistogram,
}

/// What the replications of one scenario say.
#[derive(Clone, Debug)]
pub struct Report {
    /// Committed tokens per second.
    pub throughput: Estimate,
    /// Throughput of each replication, in order.
    pub throughputs: Vec<f64>,
    /// Changes of model per committed token, in both directions.
    pub handoffs_per_token: Estimate,
    /// Dropped tokens per committed token.
    pub dropped_per_token: Estimate,
    /// Share of time that each device ran at least one forward, by device number.
    pub device_utilisation: Vec<Estimate>,
    /// Mean time to first token, s.
    pub ttft_s: Estimate,
    /// Mean time per output token after the first, s.
    pub tpot_s: Estimate,
    /// Mean end-to-end latency, s.
    pub latency_s: Estimate,
    /// Time to first token, ns, over all replications.
    pub ttft: LatencyHistogram,
    /// Time per output token after the first, ns, over all replications.
    pub tpot: LatencyHistogram,
    /// End-to-end latency, ns, over all replications.
    pub latency: LatencyHistogram,
    /// Requests finished in the windows.
    pub requests: u64,
    /// Tokens committed in the windows.
    pub tokens: u64,
    /// Simulated seconds of the windows.
    pub seconds: f64,
    /// Times that a request lost its KV.
    pub preemptions: u64,
    /// Finished requests of each warm-up.
    pub warmup_requests: u64,
    /// The pilot could not tell where the warm-up ends.
    pub warmup_unsure: bool,
    /// Share of steps, of all models, whose time was read beyond the measured profile.
    pub extrapolated_fraction: f64,
    /// The replications ended at their largest number with an interval wider than wanted.
    pub flagged: bool,
    /// Per model, in index order.
    pub models: Vec<ModelReport>,
}

/// Runs replications of `config` until the rule is content. Replication r runs under the r-th seed derived from `seed`.
///
/// # Errors
/// If a replication stalls, is unstable, or runs out of recorded arrivals.
pub fn simulate(config: &EngineConfig, seed: u64, rule: &StoppingRule) -> Result<Report, RunError> {
    let warmup = choose_warmup(config, Stream::replication_seed(seed, u32::MAX))?;
    let window = Window::Requests { warmup_requests: warmup.requests, requests: u64::from(config.workload.requests()) };
    let mut replications = Vec::new();
    let mut throughputs = Vec::new();
    let verdict = loop {
        let metrics = replicate(config, Stream::replication_seed(seed, replications.len() as u32), window)?;
        throughputs.push(metrics.throughput());
        replications.push(metrics);
        match rule.decide(&throughputs) {
            Verdict::Continue => {}
            verdict => break verdict,
        }
    };
    let mut report = Report::of(config, &replications);
    report.warmup_requests = warmup.requests;
    report.warmup_unsure = warmup.unsure;
    report.flagged = verdict.flagged();
    Ok(report)
}

impl Report {
    /// Throughput of the slowest and of the fastest replication: the orbits that the starts led to.
    #[must_use]
    pub fn throughput_range(&self) -> (f64, f64) {
        let widest = (f64::INFINITY, f64::NEG_INFINITY);
        self.throughputs.iter().fold(widest, |(low, high), &value| (low.min(value), high.max(value)))
    }

    /// Summarises replications of `config`, at least one.
    #[must_use]
    pub fn of(config: &EngineConfig, replications: &[Metrics]) -> Self {
        let over = |value: &dyn Fn(&Metrics) -> f64| {
            let values: Vec<f64> = replications.iter().map(value).filter(|value| value.is_finite()).collect();
            Estimate::of(&values)
        };
        let merged = |histogram: &dyn Fn(&Metrics) -> &LatencyHistogram| {
            let mut all = LatencyHistogram::new();
            replications.iter().for_each(|metrics| all.merge(histogram(metrics)));
            all
        };
        let mean_s = |histogram: &LatencyHistogram| histogram.mean_ns().unwrap_or(f64::NAN) * 1e-9;
        let sum = |value: &dyn Fn(&Metrics) -> u64| replications.iter().map(value).sum::<u64>();
        let n_devices = replications.first().map_or(0, |metrics| metrics.device_busy_ns.len());
        Self {
            throughput: over(&Metrics::throughput),
            throughputs: replications.iter().map(Metrics::throughput).collect(),
            handoffs_per_token: over(&|metrics| metrics.handoffs as f64 / metrics.tokens as f64),
            dropped_per_token: over(&|metrics| metrics.dropped_tokens as f64 / metrics.tokens as f64),
            device_utilisation: (0..n_devices)
                .map(|device| over(&|metrics| metrics.device_busy_ns[device] as f64 / metrics.window_ns() as f64))
                .collect(),
            ttft_s: over(&|metrics| mean_s(&metrics.ttft)),
            tpot_s: over(&|metrics| mean_s(&metrics.tpot)),
            latency_s: over(&|metrics| mean_s(&metrics.latency)),
            ttft: merged(&|metrics| &metrics.ttft),
            tpot: merged(&|metrics| &metrics.tpot),
            latency: merged(&|metrics| &metrics.latency),
            requests: sum(&|metrics| metrics.finished),
            tokens: sum(&|metrics| metrics.tokens),
            seconds: replications.iter().map(|metrics| metrics.window_ns() as f64 * 1e-9).sum(),
            preemptions: sum(&|metrics| metrics.preemptions),
            warmup_requests: 0,
            warmup_unsure: false,
            extrapolated_fraction: {
                let steps = sum(&|metrics| metrics.models.iter().map(|own| own.steps).sum());
                let beyond = sum(&|metrics| metrics.models.iter().map(|own| own.extrapolated_steps).sum());
                if steps == 0 { 0.0 } else { beyond as f64 / steps as f64 }
            },
            flagged: false,
            models: (0..config.models.len())
                .map(|model| ModelReport::of(config, replications, ModelIdx(model as u8)))
                .collect(),
        }
    }
}

impl ModelReport {
    fn of(config: &EngineConfig, replications: &[Metrics], model: ModelIdx) -> Self {
        let of = |metrics: &Metrics, value: &dyn Fn(&ModelMetrics, &Metrics) -> f64| {
            value(&metrics.models[model.idx()], metrics)
        };
        let over = |value: &dyn Fn(&ModelMetrics, &Metrics) -> f64| {
            let values: Vec<f64> =
                replications.iter().map(|metrics| of(metrics, value)).filter(|value| value.is_finite()).collect();
            Estimate::of(&values)
        };
        let all = || replications.iter().map(|metrics| &metrics.models[model.idx()]);
        let batch_mean = |own: &ModelMetrics, _: &Metrics| own.rows() as f64 / own.steps as f64;
        let (lowest, highest) = replications
            .iter()
            .map(|metrics| of(metrics, &batch_mean))
            .filter(|mean| mean.is_finite())
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), mean| (low.min(mean), high.max(mean)));
        let window = |metrics: &Metrics| metrics.window_ns() as f64;
        let mut batch = CountHistogram::new();
        let mut admission = LatencyHistogram::new();
        for own in all() {
            batch.merge(&own.batch);
            admission.merge(&own.admission);
        }
        let steps: u64 = all().map(|own| own.steps).sum();
        let extrapolated: u64 = all().map(|own| own.extrapolated_steps).sum();
        Self {
            name: config.models[model.idx()].name.clone(),
            batch_mean: over(&batch_mean),
            batch_mean_range: if lowest <= highest { (lowest, highest) } else { (0.0, 0.0) },
            utilisation: over(&|own, metrics| own.busy_ns as f64 / window(metrics)),
            steps_per_s: over(&|own, metrics| own.steps as f64 / (window(metrics) * 1e-9)),
            admission_s: over(&|own, _| own.admission.mean_ns().unwrap_or(f64::NAN) * 1e-9),
            in_service: over(&|own, metrics| own.in_service_row_ns as f64 / window(metrics)),
            waiting: over(&|own, metrics| own.waiting_row_ns as f64 / window(metrics)),
            token_share: over(&|own, metrics| own.committed_tokens as f64 / metrics.tokens as f64),
            run_length: over(&|own, _| own.committed_tokens as f64 / own.visits as f64),
            extend_tokens: over(&|own, _| own.extend_tokens as f64 / own.extend_rows as f64),
            routed_fraction: over(&|own, _| own.handoffs as f64 / own.rows() as f64),
            dropped_fraction: over(&|own, _| own.dropped_tokens as f64 / own.rows() as f64),
            rows: [
                all().map(|own| own.decode_rows).sum(),
                all().map(|own| own.extend_rows).sum(),
                all().map(|own| own.prefill_rows).sum(),
            ],
            extrapolated_fraction: if steps == 0 { 0.0 } else { extrapolated as f64 / steps as f64 },
            batch,
            admission,
        }
    }
}
