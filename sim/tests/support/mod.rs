//! Runs for the tests, built without a scenario file.
#![allow(dead_code, missing_docs, unreachable_pub, clippy::unwrap_used)]

use std::sync::Arc;

use handoff_scheduler::{Coordination, GateConfig, Hold, KvConfig, KvFull, Order, Sharing, Threshold};
use handoff_sim::cost::{AffineLatency, CorunRates, HostCost, Jitter, StepLatency};
use handoff_sim::engine::{EngineConfig, Metrics, ModelConfig, RunError, Window, replicate};
use handoff_sim::policy::Policy;
use handoff_sim::rng::Stream;
use handoff_sim::stats::Estimate;
use handoff_sim::workload::{Arrivals, Lengths, Start, Workload};

/// Where the models run.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Place {
    /// Each on a device of its own.
    Two,
    /// One device, one forward at a time.
    Serial(Order),
    /// One device, forwards side by side, each at this rate.
    Ps(f64, f64),
}

/// `fixed + per_row * rows`, ms.
pub fn affine(fixed_ms: f64, per_row_ms: f64) -> Arc<dyn StepLatency> {
    Arc::new(AffineLatency::new(fixed_ms, per_row_ms, 0.0, 0.0).unwrap())
}

pub fn model(name: &str, latency: Arc<dyn StepLatency>, threshold: u32) -> ModelConfig {
    ModelConfig {
        name: name.to_owned(),
        latency,
        router: None,
        jitter: Jitter::none(),
        host: HostCost::default(),
        gate: GateConfig { threshold: Threshold::constant(threshold), wait_ns_max: None, hold: Hold::Both },
        kv: KvConfig { budget_tokens: 1 << 40, when_full: KvFull::Wait },
        device: 0,
    }
}

/// A closed loop of two or more models.
pub fn config(policy: impl Policy + 'static, models: Vec<ModelConfig>, place: Place, concurrency: u32) -> EngineConfig {
    let mut models = models;
    let (sharing, corun) = match place {
        Place::Two => {
            models.iter_mut().enumerate().for_each(|(idx, model)| model.device = idx as u16);
            (Sharing::Overlapped, None)
        }
        Place::Serial(order) => (Sharing::Exclusive(order), None),
        Place::Ps(small, large) => (Sharing::Overlapped, Some(CorunRates::constant([small, large]).unwrap())),
    };
    EngineConfig {
        models,
        policy: Arc::new(policy),
        coordination: Coordination::Independent,
        sharing,
        corun,
        first: None,
        fused: false,
        fresh: None,
        hop_ns: 0,
        hop_bytes_per_ns: None,
        workload: workload(concurrency, 2048),
    }
}

pub fn workload(concurrency: u32, output_tokens: u32) -> Workload {
    let lengths = |tokens| Lengths::constant(tokens).unwrap();
    Workload::new(Arrivals::closed_loop(concurrency).unwrap(), 100, lengths(100), lengths(output_tokens)).unwrap()
}

/// A workload of endless requests all the same: `output_tokens` each, started as `start` says.
pub fn started(config: EngineConfig, output_tokens: u32, start: Start) -> EngineConfig {
    let concurrency = config.workload.arrivals().concurrency().unwrap();
    EngineConfig { workload: workload(concurrency, output_tokens).with_start(start), ..config }
}

pub fn run(config: &EngineConfig, seed: u64, warmup_requests: u64, requests: u64) -> Result<Metrics, RunError> {
    replicate(config, seed, Window { warmup_requests, requests })
}

/// Throughput over `n` replications, tokens/s.
pub fn throughput(config: &EngineConfig, n: u32, warmup_requests: u64, requests: u64) -> Estimate {
    let values: Vec<f64> = (0..n)
        .map(|replication| {
            run(config, Stream::replication_seed(7, replication), warmup_requests, requests).unwrap().throughput()
        })
        .collect();
    Estimate::of(&values)
}

#[track_caller]
pub fn assert_close(value: f64, expected: f64, relative: f64) {
    let error = (value / expected - 1.0).abs();
    assert!(error <= relative, "{value} differs from {expected} by {error:.2e}, more than {relative:.0e}");
}
