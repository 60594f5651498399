//! Runs for the tests, built without a scenario file.
#![allow(dead_code, missing_docs, unreachable_pub, clippy::unwrap_used)]

pub mod account;
pub mod routes;

use std::sync::Arc;

use handoff_scheduler::{
    Coordination, GateConfig, Hold, KvConfig, KvFull, ModelIdx, Order, PeerRequest, Sharing, Threshold, Timestamp,
};
use handoff_sim::analytic::RoutingLaw;
use handoff_sim::cost::{AffineLatency, CorunRates, HostCost, Jitter, StepLatency};
use handoff_sim::engine::{
    EngineConfig, Metrics, ModelConfig, Observer, RunError, Window, replicate, replicate_observed,
};
use handoff_sim::policy::Policy;
use handoff_sim::rng::Stream;
use handoff_sim::stats::Estimate;
use handoff_sim::workload::{Arrivals, Lengths, Start, Workload};

use account::Account;

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

/// Step times of [`pair`].
pub const SMALL_NS: u64 = 3_000_000;
pub const LARGE_NS: u64 = 16_000_000;

/// Two models with constant step times of 3 and 16 ms on separate devices.
pub fn pair(policy: impl Policy + 'static, concurrency: u32) -> EngineConfig {
    let models = vec![model("small", affine(3.0, 0.0), 1), model("large", affine(16.0, 0.0), 1)];
    config(policy, models, Place::Two, concurrency)
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
    replicate(config, seed, Window::Requests { warmup_requests, requests })
}

/// A run that an account watches: what it measured, and the account's digest of all that happened.
pub fn accounted(config: &EngineConfig, seed: u64, warmup_requests: u64, requests: u64) -> (Metrics, u64) {
    let window = Window::Requests { warmup_requests, requests };
    let (metrics, account) = replicate_observed(config, seed, window, Account::of(config, seed)).unwrap();
    (metrics, account.digest)
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

/// Requests that go on as if for ever: `tokens` output tokens each; the run ends when the first of them ends.
pub fn endless(config: EngineConfig, start: Start, tokens: u32, seed: u64) -> Metrics {
    run(&started(config, tokens, start), seed, 0, 1).unwrap()
}

/// As [`endless`], measuring how long each request takes from one step at model 1 to its next visit's. Exact on a periodic orbit, however
/// few cycles there are, because whole cycles are measured. Returns cycles per second of all requests together; the first tenth of the run is
/// left out.
pub fn cycles_per_s(config: EngineConfig, start: Start, tokens: u32, seed: u64) -> f64 {
    let config = started(config, tokens, start);
    let concurrency = config.workload.arrivals().concurrency().unwrap();
    let visits = LargeVisits { leaves_at: vec![Vec::new(); concurrency as usize] };
    let window = Window::Requests { warmup_requests: 0, requests: 1 };
    let (_, visits) = replicate_observed(&config, seed, window, visits).unwrap();
    let rate = |times: &Vec<u64>| {
        let times = &times[times.len() / 10..];
        (times.len() - 1) as f64 / ((times[times.len() - 1] - times[0]) as f64 * 1e-9)
    };
    visits.leaves_at.iter().map(rate).sum()
}

/// When each request left model 1, by slot. Only for runs in which no slot is reused.
struct LargeVisits {
    leaves_at: Vec<Vec<u64>>,
}

impl Observer for LargeVisits {
    fn handed_off(&mut self, now: Timestamp, to: ModelIdx, message: &PeerRequest, _idx: u64) {
        if to == ModelIdx(0) {
            self.leaves_at[message.request.idx()].push(now.as_ns());
        }
    }
}

/// The share of model 0's steps that sent their request to another model: p of the R2R law as realised. Exact throughput at this p, instead of the
/// nominal one, takes most of the noise out of a comparison (a control variate: throughput is nearly linear in p).
pub fn realised_law(metrics: &Metrics) -> RoutingLaw {
    RoutingLaw { p: metrics.models[0].handoffs as f64 / metrics.models[0].rows() as f64 }
}
