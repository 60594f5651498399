//! Tokens per second of one core: the engine with all metrics on, beside a bare two-server loop in the same run.
//!
//! The bare loop has the same policy, the same random streams and the same constant costs, but no scheduler, no KV and no metrics: what is
//! between the two is what the scheduler costs. The ratio of the two is the figure to quote; absolute figures depend on the machine.
#![allow(missing_docs)]

use std::hint::black_box;
use std::sync::Arc;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use handoff_scheduler::{
    Coordination, Destination, GateConfig, Hold, KvConfig, KvFull, ModelIdx, Origin, RequestId, Row, RowKind, Sharing,
    Threshold, Timestamp,
};
use handoff_sim::cost::{BatchShape, ConstantLatency, HostCost, Jitter, StepLatency};
use handoff_sim::engine::{EngineConfig, ModelConfig, Window, replicate};
use handoff_sim::policy::{Policy, Route, Solo, r2r};
use handoff_sim::rng::{Purpose, Stream};
use handoff_sim::workload::{Arrivals, Lengths, Workload};

const OUTPUT_TOKENS: u32 = 2048;
const SMALL_MS: f64 = 6.0;
const LARGE_MS: f64 = 27.9;

fn constant(ms: f64) -> Arc<dyn StepLatency> {
    Arc::new(ConstantLatency::from_ms(ms).expect("a positive step time"))
}

fn model(name: &str, ms: f64, device: u16) -> ModelConfig {
    ModelConfig {
        name: name.to_owned(),
        latency: constant(ms),
        router: None,
        jitter: Jitter::none(),
        host: HostCost::default(),
        gate: GateConfig { threshold: Threshold::constant(1), wait_ns_max: None, hold: Hold::Both },
        kv: KvConfig { budget_tokens: 1 << 40, when_full: KvFull::Wait },
        device,
    }
}

fn config(policy: Arc<dyn Policy>, concurrency: u32, requests: u32, prompt: u32, output: u32) -> EngineConfig {
    let length = |tokens| Lengths::constant(tokens).expect("a positive length");
    EngineConfig {
        models: vec![model("small", SMALL_MS, 0), model("large", LARGE_MS, 1)],
        policy,
        coordination: Coordination::Independent,
        sharing: Sharing::Overlapped,
        corun: None,
        first: None,
        fused: false,
        fresh: None,
        hop_ns: 0,
        hop_bytes_per_ns: None,
        workload: Workload::new(
            Arrivals::closed_loop(concurrency).expect("a positive concurrency"),
            requests,
            length(prompt),
            length(output),
        )
        .expect("a valid workload"),
    }
}

/// The bare loop: two servers, each takes all that wait; returns committed tokens and the end of the run in ns.
fn bare_loop(policy: &dyn Policy, costs: &[Arc<dyn StepLatency>; 2], concurrency: u32, requests: u64) -> (u64, u64) {
    let row = |slot: u32| Row {
        request: RequestId { slot, generation: 0 },
        ready_at: Timestamp::ZERO,
        new_tokens: 1,
        kv_tokens: 1,
        kind: RowKind::Decode,
        origin: Origin::Resident,
    };
    let mut routes: Vec<Route> = (0..concurrency)
        .map(|slot| Route::new(OUTPUT_TOKENS, Stream::new(1, Purpose::Route, slot.into()), slot.into()))
        .collect();
    let mut n_arrived = u64::from(concurrency);
    let mut waiting = [(0..concurrency).map(row).collect::<Vec<Row>>(), Vec::new()];
    let mut running: [Vec<Row>; 2] = [Vec::new(), Vec::new()];
    let mut ends_ns = [u64::MAX; 2];
    let mut outcomes = Vec::new();
    let (mut now_ns, mut tokens, mut finished) = (0, 0, 0);
    while finished < requests {
        for server in [0, 1] {
            if ends_ns[server] == now_ns {
                policy.decide_step(ModelIdx(server as u8), &running[server], &mut routes, &mut outcomes);
                for (row, outcome) in running[server].iter().zip(&outcomes) {
                    tokens += u64::from(outcome.committed);
                    match outcome.destination {
                        Destination::Stay => waiting[server].push(*row),
                        Destination::To(to) => waiting[to.idx()].push(*row),
                        Destination::Finished => {
                            finished += 1;
                            let slot = row.request.idx();
                            routes[slot] =
                                Route::new(OUTPUT_TOKENS, Stream::new(1, Purpose::Route, n_arrived), n_arrived);
                            n_arrived += 1;
                            waiting[0].push(*row);
                        }
                    }
                }
                running[server].clear();
                ends_ns[server] = u64::MAX;
            }
        }
        for server in [1, 0] {
            if running[server].is_empty() && !waiting[server].is_empty() {
                std::mem::swap(&mut running[server], &mut waiting[server]);
                let shape = BatchShape::decode(running[server].len() as u32, 1);
                ends_ns[server] = now_ns + costs[server].step(&shape).ns;
            }
        }
        now_ns = ends_ns[0].min(ends_ns[1]);
    }
    (tokens, now_ns)
}

fn engine(config: &EngineConfig, requests: u64) -> u64 {
    let metrics = replicate(config, 1, Window::Requests { warmup_requests: 0, requests }).expect("a feasible run");
    metrics.tokens
}

fn routed(criterion: &mut Criterion) {
    const REQUESTS: u32 = 200;
    let mut group = criterion.benchmark_group("r2r, concurrency 16");
    let policy: Arc<dyn Policy> = Arc::new(r2r::new(0.35).expect("a probability"));
    let config = config(Arc::clone(&policy), 16, REQUESTS, 100, OUTPUT_TOKENS);
    group.throughput(Throughput::Elements(engine(&config, REQUESTS.into())));
    group.bench_function("engine", |bencher| bencher.iter(|| engine(black_box(&config), REQUESTS.into())));
    let costs = [constant(SMALL_MS), constant(LARGE_MS)];
    group.throughput(Throughput::Elements(bare_loop(&*policy, &costs, 16, REQUESTS.into()).0));
    group.bench_function("bare loop", |bencher| {
        bencher.iter(|| bare_loop(black_box(&*policy), &costs, 16, REQUESTS.into()))
    });
    group.finish();
}

fn large_only(criterion: &mut Criterion) {
    const REQUESTS: u32 = 1_000;
    let mut group = criterion.benchmark_group("large-only, concurrency 128");
    let config = config(Arc::new(Solo::large_only(2).expect("two models")), 128, REQUESTS, 512, 256);
    group.throughput(Throughput::Elements(engine(&config, REQUESTS.into())));
    group.bench_function("engine", |bencher| bencher.iter(|| engine(black_box(&config), REQUESTS.into())));
    group.finish();
}

criterion_group!(benches, routed, large_only);
criterion_main!(benches);
