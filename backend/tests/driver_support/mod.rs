//! Runs for the tests of the driver, built without a scenario file.
#![allow(dead_code, missing_docs, unreachable_pub, clippy::unwrap_used)]

use std::sync::Arc;

use handoff_backend::driver::{Cancellation, DriverOptions, EmulatedExecutor, Executor};
use handoff_scheduler::{
    Coordination, GateConfig, Hold, KvConfig, KvFull, ModelIdx, Order, Row, RowKind, Sharing, Threshold, Timestamp,
};
use handoff_sim::cost::{AffineLatency, HostCost, Jitter, StepLatency};
use handoff_sim::engine::{EngineConfig, FreshCost, ModelConfig, Window};
use handoff_sim::policy::r_stitch::Measured;
use handoff_sim::policy::{Every, Markov, Policy};
use handoff_sim::workload::{Arrivals, Lengths, Start, Workload};

pub const SEED: u64 = 5;

pub fn latency(fixed_ms: f64, per_row_ms: f64) -> Arc<dyn StepLatency> {
    Arc::new(AffineLatency::new(fixed_ms, per_row_ms, 0.0, 0.0).unwrap())
}

pub fn model(idx: usize, threshold: u32) -> ModelConfig {
    ModelConfig {
        name: format!("model-{idx}"),
        // Steps fast enough for a test, and different enough for every order of events.
        latency: latency(0.05 + 0.11 * idx as f64, 0.013),
        router: None,
        jitter: Jitter::none(),
        host: HostCost::default(),
        gate: GateConfig { threshold: Threshold::constant(threshold), wait_ns_max: None, hold: Hold::Both },
        kv: KvConfig { budget_tokens: 1 << 20, when_full: KvFull::Wait },
        device: idx as u16,
    }
}

/// A closed loop of eager models on devices of their own. Requests have 7 to 20 prompt and 1 to 30 output tokens.
pub fn config(policy: impl Policy + 'static, concurrency: u32) -> EngineConfig {
    config_of(Arc::new(policy), concurrency)
}

pub fn config_of(policy: Arc<dyn Policy>, concurrency: u32) -> EngineConfig {
    let n_models = policy.n_models();
    EngineConfig {
        models: (0..n_models).map(|idx| model(idx, 1)).collect(),
        policy,
        coordination: Coordination::Independent,
        sharing: Sharing::Overlapped,
        corun: None,
        first: None,
        fused: false,
        fresh: None,
        hop_ns: 0,
        hop_bytes_per_ns: None,
        workload: workload(Arrivals::closed_loop(concurrency).unwrap()),
    }
}

pub fn workload(arrivals: Arrivals) -> Workload {
    let tokens = |low, high| Lengths::uniform(low, high).unwrap();
    Workload::new(arrivals, 10, tokens(7, 20), tokens(1, 30)).unwrap().with_start(Start::Random)
}

pub fn every(small: u32, large: u32) -> Every {
    Every::new(small, large).unwrap()
}

/// Two models; tokens that cause a handoff to the large one are dropped half the time, and sometimes a token that causes none.
pub fn restless() -> Markov {
    let routes = vec![vec![0.6, 0.4], vec![0.5, 0.5]];
    Markov::new(routes, vec![vec![0.9, 0.5], vec![0.7, 0.95]], ModelIdx(0)).unwrap()
}

/// R-Stitch on the entropy that the executors report.
pub fn measured(tau: f64, commit_on_return: bool) -> Measured {
    Measured::new(tau, commit_on_return, None).unwrap()
}

/// Three models that hand a request to each other at random.
pub fn three() -> Markov {
    let routes = vec![vec![0.4, 0.3, 0.3], vec![0.5, 0.2, 0.3], vec![0.3, 0.4, 0.3]];
    Markov::new(routes, vec![vec![0.9, 0.5, 0.4], vec![0.7, 1.0, 0.3], vec![0.8, 0.5, 0.95]], ModelIdx(0)).unwrap()
}

/// All first requests fresh, at the entry model.
pub fn in_phase(config: EngineConfig) -> EngineConfig {
    EngineConfig { workload: config.workload.clone().with_start(Start::InPhase), ..config }
}

pub fn with_thresholds(mut config: EngineConfig, thresholds: &[u32]) -> EngineConfig {
    for (model, &threshold) in config.models.iter_mut().zip(thresholds) {
        model.gate.threshold = Threshold::constant(threshold);
    }
    config
}

/// All models on one device, one forward at a time.
pub fn exclusive(mut config: EngineConfig, order: Order) -> EngineConfig {
    config.models.iter_mut().for_each(|model| model.device = 0);
    EngineConfig { sharing: Sharing::Exclusive(order), ..config }
}

/// All models on one device, forwards side by side.
pub fn overlapped(mut config: EngineConfig) -> EngineConfig {
    config.models.iter_mut().for_each(|model| model.device = 0);
    config
}

pub fn with_kv(mut config: EngineConfig, budget_tokens: u64, when_full: KvFull) -> EngineConfig {
    config.models.iter_mut().for_each(|model| model.kv = KvConfig { budget_tokens, when_full });
    config
}

pub fn with_longest_wait(mut config: EngineConfig, wait_ns_max: u64) -> EngineConfig {
    config.models.iter_mut().for_each(|model| model.gate.wait_ns_max = Some(wait_ns_max));
    config
}

pub fn fresh(config: EngineConfig) -> EngineConfig {
    EngineConfig { fresh: Some(FreshCost { fixed_ns: 0, per_context_token_ns: 0.0 }), ..config }
}

pub fn fused(config: EngineConfig) -> EngineConfig {
    EngineConfig { fused: true, ..config }
}

/// Executors that take as long as the configuration predicts.
pub fn timed(config: &EngineConfig) -> Vec<Box<dyn Executor>> {
    let executor = |model: &ModelConfig| EmulatedExecutor::timed(997, Arc::clone(&model.latency));
    config.models.iter().map(|model| Box::new(executor(model)) as Box<dyn Executor>).collect()
}

pub fn instant(n: usize) -> Vec<Box<dyn Executor>> {
    (0..n).map(|_| Box::new(EmulatedExecutor::instant(997)) as Box<dyn Executor>).collect()
}

pub fn logged() -> DriverOptions {
    DriverOptions { keep_log: true, keep_tokens: true, ..DriverOptions::default() }
}

pub fn window(warmup_requests: u64, requests: u64) -> Window {
    Window::Requests { warmup_requests, requests }
}

pub fn cancellations(list: &[(u64, u64)]) -> Vec<Cancellation> {
    list.iter().map(|&(request_idx, after_steps)| Cancellation { request_idx, after_steps }).collect()
}

/// A batch, with requests named by their index in the run: slots may differ between two drivers.
#[derive(Clone, PartialEq, Debug)]
pub struct Batch {
    pub at: Timestamp,
    pub model: ModelIdx,
    pub rows: Vec<(u64, RowKind, u32, u32, Timestamp)>,
}

pub fn batch(at: Timestamp, model: ModelIdx, rows: &[Row], idx: impl Fn(&Row) -> u64) -> Batch {
    let row = |row: &Row| (idx(row), row.kind, row.new_tokens, row.kv_tokens, row.ready_at);
    Batch { at, model, rows: rows.iter().map(row).collect() }
}
