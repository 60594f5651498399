//! Liveness: a run stalls exactly where it must, says who waits for whom, and never hangs (theory, section 6).
//!
//! The configurations are built by hand, so that nothing refuses infeasible thresholds beforehand.
#![allow(clippy::unwrap_used)]

mod support;

use handoff_scheduler::{Hold, KvConfig, KvFull, Threshold};
use handoff_sim::engine::{EngineConfig, RunError, Waiting, Window};
use handoff_sim::policy::{Every, r2r};
use handoff_sim::scenario::{Embedded, Scenario, Source};
use handoff_sim::workload::{Arrivals, Lengths, Start, Workload};
use support::{Place, affine, config, model, run, started};

fn r2r_pair(thresholds: [u32; 2], concurrency: u32) -> EngineConfig {
    let models =
        vec![model("small", affine(3.0, 0.02), thresholds[0]), model("large", affine(16.0, 0.15), thresholds[1])];
    config(r2r::new(0.35).unwrap(), models, Place::Two, concurrency)
}

/// A trace of requests that arrive at the given times, ms, all with the same lengths.
fn open_loop(config: EngineConfig, arrivals_ms: &[u64], output_tokens: u32) -> EngineConfig {
    let arrivals = Arrivals::trace(arrivals_ms.iter().map(|ms| ms * 1_000_000).collect()).unwrap();
    let lengths = |tokens| Lengths::constant(tokens).unwrap();
    let requests = arrivals_ms.len() as u32;
    EngineConfig { workload: Workload::new(arrivals, requests, lengths(10), lengths(output_tokens)).unwrap(), ..config }
}

fn stalled(result: Result<handoff_sim::engine::Metrics, RunError>) -> (u32, Vec<Waiting>, String) {
    match result {
        Err(error @ RunError::Stalled { .. }) => {
            let text = error.to_string();
            let RunError::Stalled { active, waiting, .. } = error else { unreachable!("matched above") };
            (active, waiting, text)
        }
        other => panic!("expected a stall, got {:?}", other.map(|metrics| metrics.tokens)),
    }
}

/// Two thresholds can stop a system of C requests for ever iff m_S + m_L > C + 1: then m_S - 1 can wait at one model and m_L - 1 at the other.
#[test]
fn a_pair_of_thresholds_stalls_iff_their_sum_exceeds_the_concurrency_by_more_than_one() {
    for concurrency in [2, 3, 5, 8] {
        for small in 1..=concurrency {
            for large in 1..=concurrency {
                for place in [Place::Two, Place::Serial(handoff_scheduler::Order::LargeFirst), Place::Ps(0.5, 0.5)] {
                    let models =
                        vec![model("small", affine(3.0, 0.02), small), model("large", affine(16.0, 0.15), large)];
                    let config = config(r2r::new(0.35).unwrap(), models, place, concurrency);
                    let result = run(&started(config, 2_000, Start::Random), 3, 0, u64::from(concurrency));
                    let infeasible = small + large > concurrency + 1;
                    assert_eq!(result.is_err(), infeasible, "C {concurrency}, thresholds {small}, {large}");
                    if infeasible {
                        check_stall(stalled(result), [small, large], concurrency);
                    }
                }
            }
        }
    }
}

/// Everybody in the system is named, at the subserver where it waits, with the threshold that is not reached.
fn check_stall((active, waiting, text): (u32, Vec<Waiting>, String), thresholds: [u32; 2], concurrency: u32) {
    assert_eq!(active, concurrency);
    let mut named: Vec<u64> = Vec::new();
    for ((own, threshold), name) in waiting.iter().zip(thresholds).zip(["small", "large"]) {
        assert_eq!((own.model.as_str(), own.threshold), (name, threshold));
        assert!(own.held.len() < threshold as usize && own.blocked.is_empty(), "{own:?}");
        assert!(text.contains(&format!("at `{name}` (threshold {threshold})")), "{text}");
        if !own.held.is_empty() {
            assert!(text.contains(&format!("{} wait for the gate: {:?}", own.held.len(), own.held)), "{text}");
        }
        named.extend(&own.held);
    }
    named.sort_unstable();
    named.dedup();
    assert_eq!(named.len(), concurrency as usize, "{text}");
}

/// Fixed visits that all move together survive thresholds that would stall them apart.
#[test]
fn requests_in_phase_can_survive_infeasible_thresholds() {
    let run_from = |start| {
        let models = vec![model("small", affine(3.0, 0.0), 4), model("large", affine(16.0, 0.0), 4)];
        let config = config(Every::new(2, 2).unwrap(), models, Place::Two, 4);
        run(&started(config, 400, start), 1, 0, 8)
    };
    assert!(run_from(Start::InPhase).is_ok());
    stalled(run_from(Start::Spread));
}

#[test]
fn a_longest_wait_keeps_every_pair_of_thresholds_going() {
    for concurrency in [1, 2, 5] {
        for thresholds in [[concurrency, concurrency], [9, 1], [1, 9], [9, 9]] {
            for hold in [Hold::Both, Hold::All] {
                let mut config = started(r2r_pair(thresholds, concurrency), 200, Start::Random);
                for model in &mut config.models {
                    model.gate.wait_ns_max = Some(7_000_000);
                    model.gate.hold = hold;
                }
                let metrics = run(&config, 3, 1, 20).unwrap();
                assert!(metrics.throughput() > 0.0);
            }
        }
    }
    // The wait is as long as it may be, and no longer: one request alone waits 7 ms before every step but its prompt's.
    let mut config = started(r2r_pair([2, 2], 1), 1_000, Start::InPhase);
    config.models.iter_mut().for_each(|model| model.gate.wait_ns_max = Some(7_000_000));
    let metrics = run(&config, 3, 1, 4).unwrap();
    let [small, large] = &metrics.models[..] else { panic!("two models") };
    let steps_ns = small.steps * 3_020_000 + large.steps * 16_150_000;
    assert_eq!(metrics.window_ns(), steps_ns + 7_000_000 * (small.steps + large.steps - small.prefill_rows));
}

/// Prompts pass a closed gate unless it holds all rows; then they count, and too few of them stall.
#[test]
fn a_gate_that_holds_prompts_stalls_before_the_first_token() {
    let mut config = r2r_pair([3, 1], 2);
    config.models[0].gate.hold = Hold::All;
    let (_, waiting, _) = stalled(run(&config, 1, 0, 1));
    assert_eq!((waiting[0].held.as_slice(), waiting[1].held.len()), (&[0, 1][..], 0));
    // With one request more the threshold is reached by prompts alone.
    config = started(r2r_pair([3, 1], 3), 50, Start::InPhase);
    config.models[0].gate.hold = Hold::All;
    assert!(run(&config, 1, 0, 3).is_ok());
}

#[test]
fn a_scenario_that_switches_the_check_off_stalls_and_otherwise_is_refused() {
    let text = "[workload]\nconcurrency = 4\n[[model]]\nname = \"small\"\ncost = { constant_ms = 6.0 }\nthreshold = 3\n\
                [[model]]\nname = \"large\"\ncost = { constant_ms = 27.9 }\nthreshold = 3\n";
    let source = Source::new("s.toml", text);
    let refused = Scenario::parse(&source, &Embedded::default()).unwrap_err().to_string();
    assert!(refused.contains("threshold"), "{refused}");
    let scenario = Scenario::parse(&source.with_feasibility_check(false), &Embedded::default()).unwrap();
    let (active, waiting, _) = stalled(run(&EngineConfig::from(&scenario), 1, 0, 100));
    assert_eq!((active, waiting[0].held.len(), waiting[1].held.len()), (4, 2, 2));
}

/// Requests that enter at both models can each hold the KV that the other waits for.
#[test]
fn kv_that_two_requests_hold_from_each_other_is_an_error() {
    let budget = |tokens, concurrency, start| {
        let mut config = started(r2r_pair([1, 1], concurrency), 500, start);
        for model in &mut config.models {
            model.kv = KvConfig { budget_tokens: tokens, when_full: KvFull::Wait };
        }
        // Prompt 100 and output 500: every reservation is 600 tokens.
        let policy = Every::new(3, 3).unwrap();
        run(&EngineConfig { policy: std::sync::Arc::new(policy), ..config }, 1, 0, 6)
    };
    let (active, waiting, text) = stalled(budget(600, 2, Start::Spread));
    assert_eq!(active, 2);
    let blocked: Vec<&[u64]> = waiting.iter().map(|own| own.blocked.as_slice()).collect();
    assert_eq!(blocked, [&[1][..], &[0][..]]);
    assert!(text.contains("1 wait for KV: [1]") && text.contains("1 wait for KV: [0]"), "{text}");
    // Where all enter at the same model, or both fit, nobody waits for ever.
    assert!(budget(600, 2, Start::InPhase).is_ok());
    assert!(budget(1_200, 2, Start::Spread).is_ok());
    // Nobody fits at all.
    let (_, waiting, _) = stalled(budget(599, 2, Start::InPhase));
    assert_eq!(waiting[0].blocked, [0, 1]);
}

/// A budget that admits fewer requests than a threshold asks for stops a run that the thresholds alone would not.
#[test]
fn kv_that_admits_fewer_requests_than_a_threshold_asks_for_is_an_error() {
    let with_budget = |tokens| {
        let mut config = started(r2r_pair([1, 3], 4), 500, Start::InPhase);
        config.models[1].kv = KvConfig { budget_tokens: tokens, when_full: KvFull::Wait };
        run(&config, 1, 0, 6)
    };
    let (active, waiting, text) = stalled(with_budget(1_200));
    assert_eq!((active, waiting[1].held.len(), waiting[1].blocked.len()), (4, 2, 2), "{text}");
    assert!(with_budget(1_800).is_ok());
}

/// In an open loop the last requests wait for others that never come, unless the threshold falls with the active requests or the wait is limited.
#[test]
fn an_open_loop_ends_only_if_its_thresholds_fall_with_the_active_requests() {
    let arrivals_ms = [0, 1, 2, 3, 40, 41, 300];
    let with = |change: &dyn Fn(&mut EngineConfig)| {
        let mut config = open_loop(r2r_pair([1, 1], 1), &arrivals_ms, 60);
        change(&mut config);
        run(&config, 2, 0, arrivals_ms.len() as u64)
    };
    let (active, waiting, _) = stalled(with(&|config| config.models[1].gate.threshold = Threshold::constant(2)));
    assert_eq!((active, waiting[1].held.len(), waiting[1].threshold), (1, 1, 2));
    let falling = with(&|config| config.models[1].gate.threshold = Threshold::by_active(&[1, 2, 2, 3])).unwrap();
    assert_eq!((falling.finished, falling.tokens), (7, 7 * 60));
    assert!(
        with(&|config| {
            config.models[1].gate.threshold = Threshold::constant(2);
            config.models[1].gate.wait_ns_max = Some(1_000_000);
        })
        .is_ok()
    );
    // A list whose second entry is too large stalls with two requests left.
    let (active, waiting, _) = stalled(with(&|config| config.models[1].gate.threshold = Threshold::by_active(&[1, 3])));
    assert_eq!((active, waiting[1].threshold), (2, 3));
}

/// The entry of a list that counts is that of the requests in the system at the time, wherever they are.
#[test]
fn a_closed_loop_uses_the_entry_of_its_concurrency() {
    let throughput = |threshold: Threshold| {
        let mut config = started(r2r_pair([1, 1], 4), 500, Start::Random);
        config.models[1].gate.threshold = threshold;
        format!("{:?}", run(&config, 2, 4, 40).unwrap())
    };
    assert_eq!(throughput(Threshold::by_active(&[1, 1, 1, 3, 4])), throughput(Threshold::constant(3)));
    assert_eq!(throughput(Threshold::by_active(&[1, 3])), throughput(Threshold::constant(3)));
    assert_ne!(throughput(Threshold::by_active(&[1, 3])), throughput(Threshold::constant(2)));
}

#[test]
fn an_open_loop_that_runs_out_of_requests_or_room_says_so() {
    let config = open_loop(r2r_pair([1, 1], 1), &[0, 5], 20);
    let error = run(&config, 1, 0, 3).unwrap_err();
    assert_eq!(
        error,
        RunError::OutOfRequests { finished: 2, window: Window::Requests { warmup_requests: 0, requests: 3 } }
    );

    let lengths = |tokens| Lengths::constant(tokens).unwrap();
    let flood = Workload::new(Arrivals::poisson(1e9).unwrap(), 1, lengths(10), lengths(1 << 20)).unwrap();
    let error = run(&EngineConfig { workload: flood, ..config }, 1, 0, 1).unwrap_err();
    assert!(matches!(error, RunError::Unstable { active, limit, .. } if active > limit), "{error}");
}
