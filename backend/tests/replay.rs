//! A run repeats: its decisions on fresh subservers, its schedule on a virtual clock, and on the simulator itself.
#![allow(missing_docs, clippy::unwrap_used)]

mod driver_support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use driver_support::*;
use handoff_backend::driver::{DriverOptions, measure, replay};
use handoff_backend::record::{Event, RecordedInput, RunLog, Timings};
use handoff_scheduler::{
    Coordination, FirstKind, KvFull, ModelIdx, Order, Outcome, PeerRequest, RequestId, StepPlan, Timestamp,
};
use handoff_sim::cost::{BatchShape, StepCost, StepLatency};
use handoff_sim::engine::{EngineConfig, Metrics, Observer, replicate, replicate_observed};
use handoff_sim::policy::{Replay, RouteRecord};
use handoff_sim::workload::Arrivals;

const WARMUP: u64 = 3;
const REQUESTS: u64 = 12;

/// Modes and placements, all of which the simulator can be given recorded times for.
fn modes() -> Vec<(&'static str, EngineConfig)> {
    let base = || config(restless(), 6);
    let model_sync = |order| EngineConfig { coordination: Coordination::ModelSync(order), ..base() };
    let step_sync = |config| EngineConfig { coordination: Coordination::StepSync, ..config };
    vec![
        ("eager", base()),
        ("eager, one request", config(every(2, 3), 1)),
        ("eager, three models", config(three(), 7)),
        ("eager, extend rows first", EngineConfig { first: Some(FirstKind::Extend), ..base() }),
        ("delayed", with_thresholds(base(), &[2, 4])),
        ("step-sync", step_sync(base())),
        ("step-sync, three models", step_sync(config(three(), 7))),
        ("step-sync, exclusive", step_sync(exclusive(base(), Order::LargeFirst))),
        ("model-sync, large first", model_sync(Order::LargeFirst)),
        ("model-sync, small first", model_sync(Order::SmallFirst)),
        ("model-sync, alternate", model_sync(Order::Alternate)),
        ("exclusive, large first", exclusive(base(), Order::LargeFirst)),
        ("exclusive, small first", exclusive(base(), Order::SmallFirst)),
        ("exclusive, alternate", exclusive(base(), Order::Alternate)),
        ("exclusive, delayed", with_thresholds(exclusive(base(), Order::SmallFirst), &[1, 3])),
        ("overlapped", overlapped(base())),
        ("loops fused", fused(base())),
        ("fresh handoffs", fresh(base())),
        ("little KV", with_kv(base(), 120, KvFull::Preempt)),
        ("measured signal", config(measured(0.5, true), 6)),
        ("measured signal, dropped on return", config(measured(0.6, false), 6)),
        ("measured signal, little KV", with_kv(config(measured(0.5, true), 6), 120, KvFull::Preempt)),
    ]
}

fn logged_run(config: &EngineConfig, options: &DriverOptions) -> (Metrics, RunLog) {
    let run = measure(config, &mut timed(config), SEED, window(WARMUP, REQUESTS), options).unwrap();
    (run.metrics, run.log.unwrap())
}

fn replayed(config: &EngineConfig, options: &DriverOptions, log: &RunLog) -> RunLog {
    let config = repeatable(config, log);
    replay(&config, SEED, window(WARMUP, REQUESTS), &options.cancellations, &log.timings).unwrap()
}

/// Only what the executors measured cannot be had again.
fn repeatable(config: &EngineConfig, log: &RunLog) -> EngineConfig {
    if config.policy.needs_entropy() { log.decided(config).unwrap() } else { config.clone() }
}

/// The log without what a virtual clock cannot know: when exactly the executor began.
fn schedule(log: &RunLog) -> Vec<(Timestamp, ModelIdx, Event)> {
    let told = log.entries.iter().filter(|entry| !matches!(entry.event, Event::ForwardEnded { .. }));
    told.map(|entry| (entry.at, entry.model, entry.event.clone())).collect()
}

/// Both proofs of one run.
fn prove(name: &str, config: &EngineConfig, options: &DriverOptions) -> (Metrics, RunLog) {
    let (metrics, log) = logged_run(config, options);
    assert!(log.replay_decisions().unwrap() > 100, "{name}");
    let again = replayed(config, options, &log);
    let (expected, found) = (schedule(&log), schedule(&again));
    let differ = expected.iter().zip(&found).find(|(expected, found)| expected != found);
    assert!(differ.is_none(), "{name}: {differ:?}");
    assert_eq!((expected.len(), log.ended_at), (found.len(), again.ended_at), "{name}");
    let own =
        |log: &RunLog| log.routes.iter().map(|row| (row.request, row.step, row.model, row.outcome)).collect::<Vec<_>>();
    assert_eq!(own(&log), own(&again), "{name}");
    (metrics, log)
}

#[test]
fn a_virtual_clock_repeats_every_mode() {
    for (name, config) in modes() {
        prove(name, &config, &logged());
    }
}

#[test]
fn messages_that_travel_wake_ups_and_open_arrivals_repeat() {
    let slow = DriverOptions { hop_ns: 150_000, ..logged() };
    for (name, config) in modes() {
        let (metrics, _) = prove(name, &config, &slow);
        assert!(metrics.in_transit_ns >= u128::from(metrics.handoffs) * 100_000, "{name}");
    }
    let waits = with_longest_wait(with_thresholds(config(restless(), 5), &[4, 4]), 200_000);
    let (_, log) = prove("longest wait", &waits, &logged());
    assert!(!log.timings.wake_late_ns.is_empty());
    let open = Arrivals::poisson(300.0).unwrap();
    let open = EngineConfig { workload: workload(open), ..with_longest_wait(config(restless(), 1), 100_000) };
    let (_, log) = prove("open loop", &open, &logged());
    assert!(log.timings.arrival_late_ns.len() as u64 >= WARMUP + REQUESTS);
}

#[test]
fn clients_that_give_up_repeat() {
    let gone = cancellations(&[(0, 2), (1, 7), (4, 11), (6, 30), (9, 0), (10, 60), (11, 61)]);
    for hop_ns in [0, 90_000] {
        let options = DriverOptions { cancellations: gone.clone(), hop_ns, ..logged() };
        for (name, config) in modes() {
            let (_, log) = prove(name, &config, &options);
            let told = |event: &Event| matches!(event, Event::Told(RecordedInput::RequestCancelled { .. }));
            assert!(log.entries.iter().filter(|entry| told(&entry.event)).count() >= 4, "{name}");
        }
    }
}

#[test]
fn a_changed_duration_or_decision_would_be_noticed() {
    let config = config(restless(), 6);
    let (_, mut log) = logged_run(&config, &logged());
    let mut timings = log.timings.clone();
    timings.step_ns[1][3] += 300_000;
    // Another schedule, or one that asks for a step that was never recorded.
    let again = replay(&config, SEED, window(WARMUP, REQUESTS), &[], &timings);
    assert!(again.is_err() || schedule(&log) != schedule(&again.unwrap()));
    let launch = log.entries.iter_mut().filter_map(|entry| match &mut entry.event {
        Event::Launched(launch) if launch.rows.len() > 1 => Some(launch),
        _ => None,
    });
    launch.last().unwrap().rows.swap(0, 1);
    let divergence = log.replay_decisions().unwrap_err();
    assert!(divergence.to_string().contains("expected Launch"), "{divergence}");
}

/// The k-th step takes as long as the k-th recorded one.
#[derive(Debug)]
struct RecordedLatency {
    step_ns: Vec<u64>,
    next: AtomicUsize,
}

impl StepLatency for RecordedLatency {
    fn step(&self, _shape: &BatchShape) -> StepCost {
        let step = self.next.fetch_add(1, Ordering::Relaxed);
        StepCost { ns: self.step_ns.get(step).copied().unwrap_or(1 << 60), extrapolated: false }
    }
}

#[derive(Default)]
struct Watch {
    idx_of_slot: Vec<u64>,
    batches: Vec<Batch>,
    finished: Vec<(Timestamp, ModelIdx, Vec<Outcome>)>,
    handoffs: Vec<(Timestamp, ModelIdx, u64, u32)>,
    deliveries: Vec<(Timestamp, ModelIdx, u64)>,
}

impl Observer for Watch {
    fn arrived(&mut self, _now: Timestamp, _model: ModelIdx, request: RequestId, idx: u64) {
        self.idx_of_slot.resize(self.idx_of_slot.len().max(request.idx() + 1), 0);
        self.idx_of_slot[request.idx()] = idx;
    }

    fn launched(&mut self, now: Timestamp, model: ModelIdx, plan: &StepPlan<'_>) {
        let idx_of_slot = &self.idx_of_slot;
        self.batches.push(batch(now, model, plan.rows, |row| idx_of_slot[row.request.idx()]));
    }

    fn finished(&mut self, now: Timestamp, model: ModelIdx, _plan: &StepPlan<'_>, outcomes: &[Outcome]) {
        self.finished.push((now, model, outcomes.to_vec()));
    }

    fn handed_off(&mut self, now: Timestamp, to: ModelIdx, message: &PeerRequest, idx: u64) {
        self.handoffs.push((now, to, idx, message.suffix_start));
    }

    fn delivered(&mut self, now: Timestamp, to: ModelIdx, _message: &PeerRequest, idx: u64) {
        self.deliveries.push((now, to, idx));
    }
}

/// What the simulator does with the recorded step durations as its cost model.
fn simulated(config: &EngineConfig, timings: &Timings) -> (Metrics, Watch) {
    let mut config = config.clone();
    for (model, step_ns) in config.models.iter_mut().zip(&timings.step_ns) {
        model.latency = Arc::new(RecordedLatency { step_ns: step_ns.clone(), next: AtomicUsize::new(0) });
    }
    replicate_observed(&config, SEED, window(WARMUP, REQUESTS), Watch::default()).unwrap()
}

#[test]
fn the_simulator_repeats_every_mode_and_measures_the_same() {
    for (name, config) in modes() {
        let (measured, log) = logged_run(&config, &logged());
        let (predicted, watch) = simulated(&repeatable(&config, &log), &log.timings);
        let mut expected = Watch::default();
        log.watch(&mut expected);
        assert_eq!(watch.batches.len(), expected.batches.len(), "{name}");
        for (found, expected) in watch.batches.iter().zip(&expected.batches) {
            assert_eq!(found, expected, "{name}");
        }
        assert_eq!(watch.finished, expected.finished, "{name}");
        assert_eq!(watch.handoffs, expected.handoffs, "{name}");
        assert_eq!(watch.deliveries, expected.deliveries, "{name}");
        assert!(watch.deliveries.len() > 20, "{name}");
        assert_eq!(Timestamp::from_ns(predicted.window_end_ns), log.ended_at, "{name}");
        same_metrics(name, &measured, &predicted);
    }
}

/// Everything but device times, of which the real driver leaves out the gaps around a forward.
fn same_metrics(name: &str, measured: &Metrics, predicted: &Metrics) {
    let of = |metrics: &Metrics| {
        let window = (metrics.window_start_ns, metrics.window_end_ns, metrics.finished, metrics.preemptions);
        let tokens = (metrics.tokens, metrics.dropped_tokens, metrics.handoffs, metrics.in_transit_ns);
        let latencies =
            [&metrics.ttft, &metrics.tpot, &metrics.latency].map(|histogram| (histogram.n(), histogram.sum_ns()));
        let models = metrics.models.iter().map(|own| {
            let rows =
                [own.steps, own.decode_rows, own.extend_rows, own.prefill_rows, own.extend_tokens, own.prefill_tokens];
            let tokens = [own.committed_tokens, own.dropped_tokens, own.visits, own.handoffs];
            let times = [own.waiting_row_ns, own.rows_squared, own.admission.sum_ns()];
            (rows, tokens, times, own.batch.mean(), own.admission.n())
        });
        (window, tokens, latencies, models.collect::<Vec<_>>())
    };
    assert_eq!(of(measured), of(predicted), "{name}");
    for (measured, predicted) in measured.models.iter().zip(&predicted.models) {
        assert!(measured.busy_ns <= predicted.busy_ns && measured.busy_ns > 0, "{name}");
    }
}

#[test]
fn recorded_routes_can_be_taken_by_the_simulator() {
    let config = config(restless(), 4);
    let (_, log) = logged_run(&config, &logged());
    let mut text = Vec::new();
    log.write_routes(&mut text).unwrap();
    let record = RouteRecord::from_reader(text.as_slice(), "routes.csv", 2).unwrap();
    // Requests of which nothing was committed before the run ended are left out.
    let commits = |request: u64| log.routes.iter().any(|row| row.request == request && row.outcome.committed);
    assert_eq!(record.n_steps(), log.routes.iter().filter(|row| commits(row.request)).count());
    assert!(log.routes.iter().all(|row| row.entropy.is_some()));
    let policy = Replay::new(&record).unwrap();
    let run = measure(
        &EngineConfig { policy: Arc::new(policy), ..config.clone() },
        &mut timed(&config),
        SEED,
        window(WARMUP, REQUESTS),
        &logged(),
    );
    assert!(run.unwrap().metrics.dropped_tokens > 0);
}

#[test]
fn recorded_decisions_repeat_any_policy() {
    let config = config(restless(), 6);
    let (_, log) = logged_run(&config, &logged());
    let window = window(WARMUP, REQUESTS);
    let again = replay(&log.decided(&config).unwrap(), SEED, window, &[], &log.timings).unwrap();
    assert_eq!(schedule(&log), schedule(&again));
}

#[test]
fn what_executors_measured_is_not_made_up() {
    let config = config(measured(0.5, true), 6);
    let (_, mut log) = logged_run(&config, &logged());
    let window = window(WARMUP, REQUESTS);
    let error = replay(&config, SEED, window, &[], &log.timings).unwrap_err().to_string();
    assert!(error.starts_with("the policy `r-stitch` decides by the entropy of models"), "{error}");
    let error = replicate(&config, SEED, window).unwrap_err().to_string();
    assert!(error.contains("expected recorded routes"), "{error}");
    // Another decision gives another run.
    let row = log.routes.iter_mut().find(|row| row.outcome == Outcome::STAY && row.step == 2).unwrap();
    row.outcome.committed = false;
    let again = replay(&log.decided(&config).unwrap(), SEED, window, &[], &log.timings);
    assert!(again.is_err() || schedule(&log) != schedule(&again.unwrap()));
}
