//! The JSON document and the CSV row of a simulated scenario. Units are in the names; a value that is undefined is null.

use std::collections::BTreeMap;

use handoff_sim::engine::{ModelReport, Report};
use handoff_sim::scenario::Scenario;
use handoff_sim::stats::{CountHistogram, Estimate, LatencyHistogram};
use serde::{Deserialize, Serialize};

/// A mean over replications with its 95 % interval.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Mean {
    pub(crate) mean: f64,
    pub(crate) ci_low: Option<f64>,
    pub(crate) ci_high: Option<f64>,
}

impl From<Estimate> for Mean {
    fn from(estimate: Estimate) -> Self {
        Self { mean: estimate.mean, ci_low: estimate.low(), ci_high: estimate.high() }
    }
}

/// A latency in seconds: its mean with the interval, and quantiles over all replications.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Latency {
    #[serde(flatten)]
    pub(crate) mean: Mean,
    pub(crate) p50: Option<f64>,
    pub(crate) p90: Option<f64>,
    pub(crate) p99: Option<f64>,
}

impl Latency {
    fn of(mean: Estimate, histogram: &LatencyHistogram) -> Self {
        let seconds = |ns: Option<u64>| ns.map(|ns| ns as f64 * 1e-9);
        Self {
            mean: mean.into(),
            p50: seconds(histogram.p50_ns()),
            p90: seconds(histogram.p90_ns()),
            p99: seconds(histogram.p99_ns()),
        }
    }
}

/// Rows by kind.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Rows {
    pub(crate) decode: u64,
    pub(crate) extend: u64,
    pub(crate) prefill: u64,
}

/// One model.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Model {
    pub(crate) name: String,
    pub(crate) utilisation: Mean,
    pub(crate) batch: Mean,
    pub(crate) batch_low: f64,
    pub(crate) batch_high: f64,
    pub(crate) batch_histogram: BTreeMap<u32, u64>,
    pub(crate) rows: Rows,
    pub(crate) steps_per_s: Mean,
    pub(crate) admission_delay_s: Latency,
    pub(crate) in_service: Mean,
    pub(crate) waiting: Mean,
    pub(crate) token_share: Mean,
    pub(crate) run_length_tokens: Mean,
    pub(crate) extend_tokens: Mean,
    pub(crate) routed_fraction: Mean,
    pub(crate) dropped_fraction: Mean,
    pub(crate) extrapolated: f64,
}

impl Model {
    fn of(report: &ModelReport) -> Self {
        Self {
            name: report.name.clone(),
            utilisation: report.utilisation.into(),
            batch: report.batch_mean.into(),
            batch_low: report.batch_mean_range.0,
            batch_high: report.batch_mean_range.1,
            batch_histogram: histogram(&report.batch),
            rows: Rows { decode: report.rows[0], extend: report.rows[1], prefill: report.rows[2] },
            steps_per_s: report.steps_per_s.into(),
            admission_delay_s: Latency::of(report.admission_s, &report.admission),
            in_service: report.in_service.into(),
            waiting: report.waiting.into(),
            token_share: report.token_share.into(),
            run_length_tokens: report.run_length.into(),
            extend_tokens: report.extend_tokens.into(),
            routed_fraction: report.routed_fraction.into(),
            dropped_fraction: report.dropped_fraction.into(),
            extrapolated: report.extrapolated_fraction,
        }
    }
}

fn histogram(counts: &CountHistogram) -> BTreeMap<u32, u64> {
    counts.iter().filter(|(_, n)| *n > 0).collect()
}

/// Everything that a run reports.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Document {
    pub(crate) policy: String,
    pub(crate) mode: String,
    pub(crate) placement: String,
    pub(crate) order: Option<String>,
    pub(crate) concurrency: Option<u32>,
    pub(crate) thresholds: Vec<Vec<u32>>,
    pub(crate) throughput: f64,
    pub(crate) ci_low: f64,
    pub(crate) ci_high: f64,
    pub(crate) orbit_low: f64,
    pub(crate) orbit_high: f64,
    pub(crate) flagged: bool,
    pub(crate) warmup_unsure: bool,
    pub(crate) tokens: u64,
    pub(crate) seconds: f64,
    pub(crate) requests: u64,
    pub(crate) replications: usize,
    pub(crate) warmup_requests: u64,
    pub(crate) seed: u64,
    pub(crate) extrapolated: f64,
    pub(crate) handoffs_per_token: Mean,
    pub(crate) dropped_per_token: Mean,
    pub(crate) preemptions: u64,
    pub(crate) ttft: Latency,
    pub(crate) tpot: Latency,
    pub(crate) latency: Latency,
    pub(crate) device_utilisation: Vec<Mean>,
    pub(crate) models: Vec<Model>,
}

impl Document {
    pub(crate) fn of(scenario: &Scenario, report: &Report) -> Self {
        let throughput = report.throughput;
        let (orbit_low, orbit_high) = report.throughput_range();
        let placement = scenario.placement();
        Self {
            policy: scenario.policy().kind().to_owned(),
            mode: scenario.scheduler().mode.to_string(),
            placement: placement.as_str().to_owned(),
            order: placement.order().map(|order| order.to_string()),
            concurrency: scenario.workload().arrivals().concurrency(),
            thresholds: scenario.models().iter().map(|model| model.thresholds.entries().to_vec()).collect(),
            throughput: throughput.mean,
            ci_low: throughput.low().unwrap_or(throughput.mean),
            ci_high: throughput.high().unwrap_or(throughput.mean),
            orbit_low,
            orbit_high,
            flagged: report.flagged || report.warmup_unsure,
            warmup_unsure: report.warmup_unsure,
            tokens: report.tokens,
            seconds: report.seconds,
            requests: report.requests,
            replications: report.throughputs.len(),
            warmup_requests: report.warmup_requests,
            seed: scenario.seed(),
            extrapolated: report.extrapolated_fraction,
            handoffs_per_token: report.handoffs_per_token.into(),
            dropped_per_token: report.dropped_per_token.into(),
            preemptions: report.preemptions,
            ttft: Latency::of(report.ttft_s, &report.ttft),
            tpot: Latency::of(report.tpot_s, &report.tpot),
            latency: Latency::of(report.latency_s, &report.latency),
            device_utilisation: report.device_utilisation.iter().map(|&estimate| estimate.into()).collect(),
            models: report.models.iter().map(Model::of).collect(),
        }
    }
}

/// A cell of a grid: its overrides, and what the run reports.
#[derive(Serialize)]
pub(crate) struct CellDocument<'a> {
    grid: BTreeMap<&'a str, &'a str>,
    #[serde(flatten)]
    document: &'a Document,
}

impl<'a> CellDocument<'a> {
    pub(crate) fn of(document: &'a Document, sets: &'a [String]) -> Self {
        Self { grid: sets.iter().filter_map(|set| set.split_once('=')).collect(), document }
    }
}

/// All cells of a grid.
#[derive(Serialize)]
pub(crate) struct GridDocument<'a> {
    pub(crate) cells: Vec<CellDocument<'a>>,
}

/// A row of rows.csv. The small model is the first of the set, the large one the last.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Row {
    pub(crate) grid: String,
    pub(crate) policy: String,
    pub(crate) mode: String,
    pub(crate) placement: String,
    pub(crate) order: Option<String>,
    pub(crate) concurrency: Option<u32>,
    pub(crate) throughput: f64,
    pub(crate) ci_low: f64,
    pub(crate) ci_high: f64,
    pub(crate) orbit_low: f64,
    pub(crate) orbit_high: f64,
    pub(crate) handoffs_per_token: f64,
    pub(crate) dropped_per_token: f64,
    pub(crate) small_batch_mean: f64,
    pub(crate) large_batch_mean: f64,
    pub(crate) small_utilisation: f64,
    pub(crate) large_utilisation: f64,
    pub(crate) small_admission_ms: f64,
    pub(crate) large_admission_ms: f64,
    pub(crate) ttft_mean_s: f64,
    pub(crate) ttft_p99_s: Option<f64>,
    pub(crate) tpot_mean_s: f64,
    pub(crate) tpot_p99_s: Option<f64>,
    pub(crate) latency_mean_s: f64,
    pub(crate) latency_p99_s: Option<f64>,
    pub(crate) flagged: bool,
    pub(crate) extrapolated: f64,
    pub(crate) replications: usize,
    pub(crate) tokens: u64,
    pub(crate) seconds: f64,
    pub(crate) seed: u64,
}

impl Row {
    pub(crate) fn of(document: &Document, sets: &[String]) -> Self {
        let small = &document.models[0];
        let large = document.models.last().expect("a scenario has models");
        Self {
            grid: sets.join(" "),
            policy: document.policy.clone(),
            mode: document.mode.clone(),
            placement: document.placement.clone(),
            order: document.order.clone(),
            concurrency: document.concurrency,
            throughput: document.throughput,
            ci_low: document.ci_low,
            ci_high: document.ci_high,
            orbit_low: document.orbit_low,
            orbit_high: document.orbit_high,
            handoffs_per_token: document.handoffs_per_token.mean,
            dropped_per_token: document.dropped_per_token.mean,
            small_batch_mean: small.batch.mean,
            large_batch_mean: large.batch.mean,
            small_utilisation: small.utilisation.mean,
            large_utilisation: large.utilisation.mean,
            small_admission_ms: small.admission_delay_s.mean.mean * 1e3,
            large_admission_ms: large.admission_delay_s.mean.mean * 1e3,
            ttft_mean_s: document.ttft.mean.mean,
            ttft_p99_s: document.ttft.p99,
            tpot_mean_s: document.tpot.mean.mean,
            tpot_p99_s: document.tpot.p99,
            latency_mean_s: document.latency.mean.mean,
            latency_p99_s: document.latency.p99,
            flagged: document.flagged,
            extrapolated: document.extrapolated,
            replications: document.replications,
            tokens: document.tokens,
            seconds: document.seconds,
            seed: document.seed,
        }
    }
}
