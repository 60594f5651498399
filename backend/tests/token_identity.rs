//! Whatever is routed where, dropped, preempted, cancelled or batched: with one set of weights the tokens are those of the model alone.
#![allow(missing_docs, clippy::unwrap_used)]

mod driver_support;

use candle_core::DType;
use driver_support::*;
use handoff_backend::driver::{
    Choice, DriverOptions, EmulatedExecutor, Executor, FinishedRequest, Measurement, measure,
};
use handoff_backend::record::{Event, RecordedInput};
use handoff_backend::{Qwen3Config, RowInput, RowOutput, Runner, RunnerOptions, Sampling, Weights};
use handoff_scheduler::{Coordination, KvFull, Order, Sharing};
use handoff_sim::engine::EngineConfig;
use handoff_sim::policy::Solo;
use proptest::prelude::*;

fn runner() -> Box<dyn Executor> {
    let config = Qwen3Config::built_in("tiny").unwrap();
    let options = RunnerOptions { kv_tokens: 4096, slots: 24, request_tokens_max: 128 };
    Box::new(Runner::cpu(&config, &Weights::dummy_sensitive(7), DType::F32, options).unwrap())
}

/// The tokens of the model alone, one token at a time, one request at a time.
fn alone(executor: &mut dyn Executor, request: &FinishedRequest) -> Vec<u32> {
    executor.reset().unwrap();
    let mut outputs: Vec<RowOutput> = Vec::new();
    let (mut tokens, mut context) = (Vec::new(), request.prompt.clone());
    let mut kept = 0;
    while tokens.len() < request.output.len() {
        let row = RowInput { slot: 0, tokens: &context[kept..], position: kept as u32, sampling: Sampling::Greedy };
        executor.launch(&[row]).unwrap();
        assert!(executor.poll(true, &mut outputs).unwrap());
        kept = context.len();
        context.push(outputs[0].token);
        tokens.push(outputs[0].token);
    }
    tokens
}

/// Checks every finished request of a run against the model alone; answers the run.
fn check(
    config: &EngineConfig,
    executors: &mut [Box<dyn Executor>],
    requests: u64,
    options: &DriverOptions,
) -> Measurement {
    let run = measure(config, executors, SEED, window(0, requests), options).unwrap();
    assert!(run.requests.len() as u64 >= requests);
    for request in &run.requests {
        assert_eq!(request.output, alone(executors[0].as_mut(), request), "request {}", request.request_idx);
    }
    run
}

fn runners(n: usize) -> Vec<Box<dyn Executor>> {
    (0..n).map(|_| runner()).collect()
}

#[test]
fn every_policy_makes_the_tokens_of_the_model_alone() {
    let mut executors = runners(2);
    for concurrency in [1, 4, 9] {
        for config in
            [config(every(1, 1), concurrency), config(every(3, 2), concurrency), config(restless(), concurrency)]
        {
            let run = check(&config, &mut executors, 12, &logged());
            assert!(run.metrics.handoffs > 10, "{}", run.metrics.handoffs);
            assert!(run.metrics.models.iter().all(|model| model.extend_rows > 0));
        }
        check(&config(Solo::large_only(2).unwrap(), concurrency), &mut executors, 6, &logged());
    }
}

#[test]
fn preempted_requests_go_on_with_the_same_tokens() {
    // The longest request has 50 tokens; nine of them do not fit.
    let config = with_kv(config(restless(), 9), 110, KvFull::Preempt);
    let run = check(&config, &mut runners(2), 20, &logged());
    assert!(run.metrics.preemptions > 5, "{}", run.metrics.preemptions);
}

#[test]
fn cancelled_requests_leave_the_others_alone() {
    let options = DriverOptions {
        cancellations: cancellations(&[(0, 3), (2, 9), (5, 20), (11, 0), (12, 40), (13, 55)]),
        ..logged()
    };
    let run = check(&config(restless(), 4), &mut runners(2), 16, &options);
    // Request 11 is gone as soon as it arrives.
    assert!(run.requests.iter().all(|request| request.request_idx != 11));
    let told = |event: &Event| matches!(event, Event::Told(RecordedInput::RequestCancelled { .. }));
    assert!(run.log.unwrap().entries.iter().filter(|entry| told(&entry.event)).count() >= 2 * 2);
}

#[test]
fn three_models_send_what_the_receiver_lacks() {
    for config in [config(three(), 4), fresh(config(three(), 4)), fused(config(three(), 4))] {
        check(&config, &mut runners(3), 10, &logged());
    }
}

#[test]
fn tempered_tokens_depend_on_the_request_and_the_position_alone() {
    let options = DriverOptions { choice: Choice::Tempered(1.0), ..logged() };
    let mut executors = runners(2);
    let mut run = |config: &EngineConfig| {
        let mut requests = measure(config, &mut executors, SEED, window(0, 8), &options).unwrap().requests;
        requests.sort_by_key(|request| request.request_idx);
        requests
    };
    let alone = run(&in_phase(config(Solo::large_only(2).unwrap(), 2)));
    let routed = run(&in_phase(config(restless(), 4)));
    let both: Vec<_> = alone
        .iter()
        .filter_map(|one| routed.iter().find(|other| other.request_idx == one.request_idx).map(|other| (one, other)))
        .collect();
    assert!(both.len() >= 4);
    assert!(both.iter().all(|(one, other)| one == other));
    assert_ne!(alone[0].output[..1], alone[1].output[..1]);
}

#[test]
fn wrong_tokens_would_be_noticed() {
    // The stand-in's tokens depend on every token in front of them, so that the wide search below can rely on it.
    let mut executor = EmulatedExecutor::instant(997);
    let mut token = |tokens: &[u32]| {
        let mut outputs = Vec::new();
        executor.reset().unwrap();
        executor.launch(&[RowInput { slot: 3, tokens, position: 0, sampling: Sampling::Greedy }]).unwrap();
        executor.poll(true, &mut outputs).unwrap();
        outputs[0].token
    };
    assert_eq!(token(&[1, 2, 3]), token(&[1, 2, 3]));
    assert_ne!(token(&[1, 2, 3]), token(&[2, 1, 3]));
    assert_ne!(token(&[1, 2, 3]), token(&[1, 3]));
}

fn policies() -> impl Strategy<Value = EngineConfig> {
    let sharing = prop_oneof![
        Just(Sharing::Overlapped),
        Just(Sharing::Exclusive(Order::LargeFirst)),
        Just(Sharing::Exclusive(Order::SmallFirst)),
        Just(Sharing::Exclusive(Order::Alternate)),
    ];
    let coordination = prop_oneof![
        Just(Coordination::Independent),
        Just(Coordination::StepSync),
        Just(Coordination::ModelSync(Order::SmallFirst)),
        Just(Coordination::ModelSync(Order::Alternate)),
    ];
    let full = prop_oneof![Just((1 << 20, KvFull::Wait)), Just((120, KvFull::Preempt)), Just((300, KvFull::Preempt))];
    (1..10_u32, 0..4_usize, sharing, coordination, full, any::<bool>(), any::<bool>()).prop_map(
        |(concurrency, policy, sharing, coordination, (budget, when_full), is_fused, is_fresh)| {
            let base = match policy {
                0 => config(every(1, 1), concurrency),
                1 => config(every(4, 2), concurrency),
                2 => config(restless(), concurrency),
                _ => config(three(), concurrency),
            };
            let mut config = with_kv(overlapped(base), budget, when_full);
            if is_fresh {
                config = fresh(config);
            }
            EngineConfig { sharing, coordination, fused: is_fused, ..config }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn no_route_no_schedule_and_no_accident_changes_a_token(
        config in policies(),
        gone in prop::collection::vec((0..20_u64, 0..120_u64), 0..6),
        hop_ns in prop_oneof![Just(0_u64), Just(30_000)],
    ) {
        let options = DriverOptions { cancellations: cancellations(&gone), hop_ns, ..logged() };
        let run = check(&config, &mut instant(config.models.len()), 12, &options);
        run.log.unwrap().replay_decisions().unwrap();
    }
}
