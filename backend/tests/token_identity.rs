//! Whatever is routed where, dropped, preempted, cancelled or batched: with one set of weights the tokens are those of the model alone.
#![allow(missing_docs, clippy::unwrap_used)]

mod driver_support;
mod model_support;

use std::fs;
use std::path::Path;
use std::sync::Arc;

use driver_support::*;
use handoff_backend::driver::{
    Choice, DriverOptions, EmulatedExecutor, Executor, FinishedRequest, Measurement, measure,
};
use handoff_backend::record::{Event, RecordedInput};
use handoff_backend::{RowInput, RowOutput, Sampling};
use handoff_scheduler::{Coordination, KvFull, ModelIdx, Order, Sharing};
use handoff_sim::engine::EngineConfig;
use handoff_sim::policy::{Markov, Policy, Solo};
use model_support::*;
use proptest::prelude::*;

/// Checks every finished request of a run against the model alone; answers the run.
fn check(
    name: &str,
    config: &EngineConfig,
    executors: &mut [Box<dyn Executor>],
    requests: u64,
    options: &DriverOptions,
    mut alone: impl FnMut(&FinishedRequest) -> Vec<u32>,
) -> Measurement {
    let run = measure(config, executors, SEED, window(0, requests), options).unwrap();
    assert!(run.requests.len() as u64 >= requests);
    for request in &run.requests {
        assert_eq!(request.output, alone(request), "{name}: request {}", request.request_idx);
    }
    run
}

/// As [`check`], on the tiny model.
fn check_model(
    name: &str,
    config: &EngineConfig,
    alone: &mut Alone,
    requests: u64,
    options: &DriverOptions,
) -> Measurement {
    let mut executors = tiny_models(config.models.len());
    check(name, config, &mut executors, requests, options, |request| {
        alone.tokens(&request.prompt, request.output.len())
    })
}

/// A record of routes, for the policy that replays one.
fn record_routes(folder: &Path) {
    let run = measure(&config(restless(), 5), &mut instant(2), SEED, window(0, 12), &logged()).unwrap();
    run.log.unwrap().write_routes(fs::File::create(folder.join("routes.csv")).unwrap()).unwrap();
}

#[test]
fn every_policy_makes_the_tokens_of_the_model_alone() {
    let folder = tempfile::tempdir().unwrap();
    record_routes(folder.path());
    let mut alone = Alone::new();
    let tau = median_entropy(&mut alone);
    for (name, policy) in policies(tau, folder.path()) {
        for concurrency in [1, 4, 9] {
            let config = config_of(Arc::clone(&policy), concurrency);
            let run = check_model(&name, &config, &mut alone, 12, &logged());
            let metrics = run.metrics;
            if policy.kind().ends_with("-only") {
                assert_eq!(metrics.handoffs, 0, "{name}");
                continue;
            }
            assert!(metrics.handoffs > 10, "{name}: {} handoffs", metrics.handoffs);
            assert!(metrics.models.iter().all(|model| model.visits > 0 && model.steps > 0), "{name}");
        }
    }
}

#[test]
fn preempted_requests_go_on_with_the_same_tokens() {
    let mut alone = Alone::new();
    let tau = f64::from(median_entropy(&mut alone));
    // The longest request has 50 tokens; nine of them do not fit.
    for config in [config(restless(), 9), config(measured(tau, true), 9)] {
        let config = with_kv(config, 110, KvFull::Preempt);
        let run = check_model("little KV", &config, &mut alone, 20, &logged());
        assert!(run.metrics.preemptions > 5, "{}", run.metrics.preemptions);
    }
}

#[test]
fn cancelled_requests_leave_the_others_alone() {
    let options = DriverOptions {
        cancellations: cancellations(&[(0, 3), (2, 9), (5, 20), (11, 0), (12, 40), (13, 55)]),
        ..logged()
    };
    let run = check_model("cancelled", &config(restless(), 4), &mut Alone::new(), 16, &options);
    // Request 11 is gone as soon as it arrives.
    assert!(run.requests.iter().all(|request| request.request_idx != 11));
    let told = |event: &Event| matches!(event, Event::Told(RecordedInput::RequestCancelled { .. }));
    assert!(run.log.unwrap().entries.iter().filter(|entry| told(&entry.event)).count() >= 2 * 2);
}

#[test]
fn three_models_send_what_the_receiver_lacks() {
    let mut alone = Alone::new();
    for config in [config(three(), 4), fresh(config(three(), 4)), fused(config(three(), 4))] {
        check_model("three models", &config, &mut alone, 10, &logged());
    }
}

#[test]
fn tempered_tokens_depend_on_the_request_and_the_position_alone() {
    let options = DriverOptions { choice: Choice::Tempered(1.0), ..logged() };
    let mut executors = tiny_models(2);
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

/// Otherwise the checks above would say nothing: a lost or misplaced early token must show in later ones.
#[test]
fn the_model_is_sensitive_to_every_early_token() {
    let mut alone = Alone::new();
    for place in 0..12 {
        for seed in 0..12 {
            let original = prompt(seed, 12);
            let mut other = original.clone();
            other[place] = (other[place] + 1) % 300;
            assert_ne!(alone.tokens(&original, 16), alone.tokens(&other, 16), "token {place} of prompt {seed}");
        }
    }
}

/// Otherwise rounding could change a token where nothing else did. Logits are about 1 in size: f64 errs by about 1e-14, and the f32 in which they
/// are read here by at most 3e-7.
#[test]
fn the_best_token_stands_out() {
    const MARGIN_MIN: f32 = 1e-5;
    let mut alone = Alone::new();
    for seed in 0..60 {
        alone.made(&prompt(seed, 7 + seed % 14), 30);
    }
    let margin = alone.margin_min();
    assert!(margin > MARGIN_MIN, "the best two logits of some token are only {margin:e} apart");
}

#[test]
fn wrong_tokens_would_be_noticed() {
    // The stand-in's tokens depend on every token in front of them, so that the wide search below can rely on it.
    let mut executor = EmulatedExecutor::instant(997);
    let mut token = |tokens: &[u32]| emulated(&mut executor, tokens).token;
    assert_eq!(token(&[1, 2, 3]), token(&[1, 2, 3]));
    assert_ne!(token(&[1, 2, 3]), token(&[2, 1, 3]));
    assert_ne!(token(&[1, 2, 3]), token(&[1, 3]));
}

/// What the stand-in finds after `tokens`.
fn emulated(executor: &mut EmulatedExecutor, tokens: &[u32]) -> RowOutput {
    let mut outputs = Vec::new();
    executor.reset().unwrap();
    executor.launch(&[RowInput { slot: 3, tokens, position: 0, sampling: Sampling::Greedy }]).unwrap();
    executor.poll(true, &mut outputs).unwrap();
    outputs[0]
}

/// The tokens of the stand-in alone.
fn emulated_alone(request: &FinishedRequest) -> Vec<u32> {
    let (mut executor, mut context) = (EmulatedExecutor::instant(997), request.prompt.clone());
    while context.len() < request.prompt.len() + request.output.len() {
        let token = emulated(&mut executor, &context).token;
        context.push(token);
    }
    context.split_off(request.prompt.len())
}

/// Two models with any probabilities of a handoff and of a drop.
fn any_markov() -> impl Strategy<Value = Markov> {
    let share = || (1..20_u32).prop_map(|twentieths| f64::from(twentieths) / 20.0);
    (share(), share(), [share(), share(), share(), share()]).prop_map(|(there, back, commits)| {
        let routes = vec![vec![1.0 - there, there], vec![back, 1.0 - back]];
        Markov::new(routes, commits.chunks(2).map(<[f64]>::to_vec).collect(), ModelIdx(0)).unwrap()
    })
}

/// Any placement, mode, KV budget and way of handing over.
fn configurations(policy: impl Strategy<Value = Arc<dyn Policy>>) -> impl Strategy<Value = EngineConfig> {
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
    (1..10_u32, policy, sharing, coordination, full, any::<bool>(), any::<bool>()).prop_map(
        |(concurrency, policy, sharing, coordination, (budget, when_full), is_fused, is_fresh)| {
            let mut config = with_kv(overlapped(config_of(policy, concurrency)), budget, when_full);
            if is_fresh {
                config = fresh(config);
            }
            EngineConfig { sharing, coordination, fused: is_fused, ..config }
        },
    )
}

fn any_policy() -> impl Strategy<Value = Arc<dyn Policy>> {
    let of = |policy: fn() -> Arc<dyn Policy>| Just(()).prop_map(move |()| policy());
    prop_oneof![
        of(|| Arc::new(every(1, 1))),
        of(|| Arc::new(every(4, 2))),
        of(|| Arc::new(three())),
        of(|| Arc::new(measured(0.5, true))),
        of(|| Arc::new(measured(0.7, false))),
        any_markov().prop_map(|policy| Arc::new(policy) as Arc<dyn Policy>),
    ]
}

/// Any of the policies of the registry, or any Markov policy.
fn any_named_policy() -> impl Strategy<Value = Arc<dyn Policy>> {
    let folder = tempfile::tempdir().unwrap();
    record_routes(folder.path());
    let tau = median_entropy(&mut Alone::new());
    let named = policies(tau, folder.path()).into_iter().map(|(_, policy)| policy).collect::<Vec<_>>();
    prop_oneof![
        2 => (0..named.len()).prop_map(move |idx| Arc::clone(&named[idx])),
        1 => any_markov().prop_map(|policy| Arc::new(policy) as Arc<dyn Policy>),
    ]
}

fn any_cancellations() -> impl Strategy<Value = Vec<(u64, u64)>> {
    prop::collection::vec((0..20_u64, 0..120_u64), 0..6)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn no_route_no_schedule_and_no_accident_changes_a_token(
        config in configurations(any_policy()),
        gone in any_cancellations(),
        hop_ns in prop_oneof![Just(0_u64), Just(30_000)],
    ) {
        let options = DriverOptions { cancellations: cancellations(&gone), hop_ns, ..logged() };
        let run = check("emulated", &config, &mut instant(config.models.len()), 12, &options, emulated_alone);
        run.log.unwrap().replay_decisions().unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    #[test]
    fn nothing_changes_a_token_of_the_model(config in configurations(any_named_policy()), gone in any_cancellations()) {
        let options = DriverOptions { cancellations: cancellations(&gone), ..logged() };
        check_model("any policy", &config, &mut Alone::new(), 12, &options);
    }
}
