//! The switches of costs, placements and arrivals, by what must change when one is turned, and what must not.
#![allow(clippy::unwrap_used)]

mod support;

use std::sync::Arc;

use handoff_scheduler::{
    Coordination, FirstKind, ModelIdx, Order, PeerRequest, RowKind, Sharing, StepPlan, Threshold, Timestamp,
};
use handoff_sim::cost::{COLUMNS, CorunRates, HostCost, Jitter, Profile};
use handoff_sim::engine::{EngineConfig, FreshCost, Metrics, Observer, Window, replicate_observed};
use handoff_sim::policy::{Every, Solo, r_stitch, r2r};
use handoff_sim::scenario::{Embedded, Scenario, Source};
use handoff_sim::workload::{Arrivals, Lengths, Start, Workload};
use support::account::Account;
use support::routes::Routes;
use support::{LARGE_NS, Place, SMALL_NS, accounted, affine, assert_close, config, model, pair, run, started};

/// The R2R law on batch-dependent step times, 16 requests.
fn many() -> EngineConfig {
    let models = vec![model("small", affine(3.0, 0.02), 1), model("large", affine(16.0, 0.15), 1)];
    started(config(r2r::new(0.2).unwrap(), models, Place::Two, 16), 500, Start::Random)
}

fn with_host(config: &EngineConfig, host: HostCost) -> EngineConfig {
    let mut config = config.clone();
    config.models.iter_mut().for_each(|model| model.host = host);
    config
}

/// One request at a time, 300 tokens each; 20 are measured.
fn alone(config: EngineConfig) -> Metrics {
    run(&started(config, 300, Start::InPhase), 6, 3, 20).unwrap()
}

fn steps(metrics: &Metrics) -> u64 {
    metrics.models.iter().map(|own| own.steps).sum()
}

#[test]
fn a_hop_delays_one_request_by_exactly_the_hops() {
    for policy in [r2r::new(0.3).unwrap(), r_stitch::new(0.2, 0.4, true).unwrap()] {
        let without = alone(pair(policy.clone(), 1));
        let hop_ns = 1_234_567;
        let with = alone(EngineConfig { hop_ns, ..pair(policy.clone(), 1) });
        assert_eq!((with.tokens, with.handoffs), (without.tokens, without.handoffs));
        assert_eq!(with.window_ns(), without.window_ns() + hop_ns * with.handoffs);
        assert_eq!(with.in_transit_ns, u128::from(hop_ns * with.handoffs));
    }
}

/// Over a bandwidth each token of a message's suffix counts 4 bytes.
#[test]
fn a_bandwidth_delays_one_request_by_what_its_messages_carry() {
    struct Suffixes(u64);
    impl Observer for Suffixes {
        fn handed_off(&mut self, _now: Timestamp, _to: ModelIdx, message: &PeerRequest, _idx: u64) {
            self.0 += u64::from(message.context_tokens - message.suffix_start);
        }
    }
    let config = started(pair(r_stitch::new(0.2, 0.4, true).unwrap(), 1), 300, Start::InPhase);
    let without = run(&config, 6, 0, 20).unwrap();
    let slow = EngineConfig { hop_bytes_per_ns: Some(0.004), ..config };
    let window = Window::Requests { warmup_requests: 0, requests: 20 };
    let (slow, suffixes) = replicate_observed(&slow, 6, window, Suffixes(0)).unwrap();
    assert_eq!(slow.window_ns(), without.window_ns() + 1_000 * suffixes.0);
    // The first message carries the prompt, too. A token travels once at most: from the model that made it.
    assert!(suffixes.0 >= 20 * 100 + slow.handoffs - 20 && suffixes.0 <= 20 * 100 + slow.tokens);
}

#[test]
fn launch_loop_and_router_add_to_every_step_of_one_request() {
    let policy = || r2r::new(0.3).unwrap();
    let base = alone(pair(policy(), 1));
    for place in [Place::Two, Place::Serial(Order::LargeFirst), Place::Ps(0.5, 0.5)] {
        let models = vec![model("small", affine(3.0, 0.0), 1), model("large", affine(16.0, 0.0), 1)];
        let here = config(policy(), models, place, 1);
        for (launch_ns, loop_ns) in [(70_000, 0), (0, 40_000), (70_000, 40_000)] {
            let host = HostCost { launch_ns, loop_ns, message_ns: 0 };
            let with = alone(with_host(&here, host));
            assert_eq!(with.window_ns(), base.window_ns() + (launch_ns + loop_ns) * steps(&with), "{place:?}");
            // The host's time is none of the device's.
            assert_eq!(with.models[1].busy_ns, base.models[1].busy_ns);
        }
        let mut routed = here;
        routed.models[0].router = Some(affine(0.25, 0.0));
        let routed = alone(routed);
        assert_eq!(routed.window_ns(), base.window_ns() + 250_000 * routed.models[0].steps);
    }
}

/// Decoupled, a message is handled before its row is ready; fused, before the next launch, which then also pays for the news that a request is
/// complete and for the new prompt. So for one request fused costs two messages a request more.
#[test]
fn fused_loops_are_never_faster() {
    let host = HostCost { message_ns: 200_000, ..HostCost::default() };
    let base = alone(pair(r2r::new(0.3).unwrap(), 1));
    let decoupled = alone(with_host(&pair(r2r::new(0.3).unwrap(), 1), host));
    let fused = alone(EngineConfig { fused: true, ..with_host(&pair(r2r::new(0.3).unwrap(), 1), host) });
    assert_eq!(decoupled.window_ns(), base.window_ns() + 200_000 * base.handoffs);
    assert_eq!(fused.window_ns(), decoupled.window_ns() + 2 * 200_000 * fused.finished);

    for message_us in [0_u64, 50, 200, 800] {
        let config = with_host(&many(), HostCost { message_ns: 1_000 * message_us, ..HostCost::default() });
        let decoupled = run(&config, 5, 16, 400).unwrap().throughput();
        let fused = run(&EngineConfig { fused: true, ..config }, 5, 16, 400).unwrap().throughput();
        if message_us == 0 {
            assert_eq!(decoupled, fused);
        } else {
            assert!(fused < decoupled, "{message_us} us: {fused} and {decoupled}");
        }
    }
}

#[test]
fn fresh_handoffs_are_never_faster_than_resumed_ones() {
    struct Contexts(u64);
    impl Observer for Contexts {
        fn handed_off(&mut self, _now: Timestamp, _to: ModelIdx, message: &PeerRequest, _idx: u64) {
            self.0 += u64::from(message.context_tokens);
        }
    }
    let fresh = Some(FreshCost { fixed_ns: 4_000_000, per_context_token_ns: 15_000.0 });
    let config = started(pair(r2r::new(0.3).unwrap(), 1), 300, Start::InPhase);
    let window = Window::Requests { warmup_requests: 0, requests: 10 };
    let (resumed, contexts) = replicate_observed(&config, 6, window, Contexts(0)).unwrap();
    let anew = run(&EngineConfig { fresh, ..config }, 6, 0, 10).unwrap();
    assert_eq!(anew.window_ns(), resumed.window_ns() + 4_000_000 * resumed.handoffs + 15_000 * contexts.0);

    let resumed = run(&many(), 5, 16, 300).unwrap().throughput();
    for (fixed_ns, per_context_token_ns) in [(100_000, 0.0), (0, 100.0), (4_000_000, 15_000.0)] {
        let fresh = Some(FreshCost { fixed_ns, per_context_token_ns });
        let anew = run(&EngineConfig { fresh, ..many() }, 5, 16, 300).unwrap().throughput();
        assert!(anew < resumed, "{anew} and {resumed}");
    }
}

const PROFILE: &[u8] =
    b"device,model,kind,graph,rows,new_tokens,kv_tokens,peer_model,peer_rows,rate,mean_us,p50_us,p99_us,repeats
D,m,decode,true,1,1,512,,,,1000,,,
D,m,decode,true,4,1,512,,,,1300,,,
D,m,decode,true,8,1,512,,,,1500,,,
D,m,decode,false,1,1,512,,,,3000,,,
D,m,decode,false,4,1,512,,,,3300,,,
D,m,decode,false,8,1,512,,,,3700,,,
D,m,extend,true,1,8,512,,,,1400,,,
D,m,extend,false,1,8,512,,,,4000,,,
";

/// With CUDA graphs a batch takes the time of the next captured size; without, what lies between is interpolated.
#[test]
fn graphs_pad_the_batch_to_the_captured_sizes() {
    let scenario = |settings: &[String]| {
        let text = "[[model]]\nname = \"small\"\ncost = { profile = \"p.csv\", model = \"m\", graph = true }\n\
                    [[model]]\nname = \"large\"\ncost = { profile = \"p.csv\", model = \"m\", graph = true }\n\
                    [policy]\nkind = \"large-only\"\n[workload]\nprompt_tokens = 1\noutput_tokens = 200\nstart = \"in-phase\"\n";
        let source = settings.iter().fold(Source::new("s.toml", text), |source, set| source.with_set(set).unwrap());
        static FILES: &[(&str, &[u8])] = &[("p.csv", PROFILE)];
        EngineConfig::from(&Scenario::parse(&source, &Embedded::new(FILES)).unwrap())
    };
    let step_us = |graph: bool, concurrency: u32| {
        let config =
            scenario(&[format!("workload.concurrency={concurrency}"), format!("model.large.cost.graph={graph}")]);
        let generation = u64::from(concurrency);
        let metrics = run(&config, 1, generation, generation * 2).unwrap();
        metrics.window_ns() as f64 * 1e-3 / metrics.models[1].steps as f64
    };
    for (rows, captured) in [(1, 1000.0), (2, 1300.0), (3, 1300.0), (4, 1300.0), (5, 1500.0), (7, 1500.0), (8, 1500.0)]
    {
        assert_close(step_us(true, rows), captured, 1e-9);
    }
    for (rows, interpolated) in [(1, 3000.0), (2, 3100.0), (3, 3200.0), (4, 3300.0), (6, 3500.0), (8, 3700.0)] {
        assert_close(step_us(false, rows), interpolated, 1e-9);
    }
    // One visit in two extends over two tokens: extends without graphs are slower, decodes stay as fast.
    let throughput = |extend_graph: bool| {
        let settings = [
            "policy={ kind = \"every\", small = 1, large = 4 }".to_owned(),
            "workload.concurrency=1".to_owned(),
            format!("model.large.cost.extend_graph={extend_graph}"),
        ];
        run(&scenario(&settings), 1, 1, 5).unwrap()
    };
    let (with, without) = (throughput(true), throughput(false));
    assert!(with.throughput() > 1.2 * without.throughput());
    assert_eq!(with.models[0].busy_ns, without.models[0].busy_ns);
}

/// Whether one forward may carry decode and extend rows, and which kind goes first if not, changes throughput by more than noise.
#[test]
fn mixing_extends_and_decodes_matters_and_so_does_the_order() {
    let with = |first| {
        let models = vec![model("small", affine(3.0, 0.02), 1), model("large", affine(16.0, 0.15), 1)];
        let config = config(r_stitch::new(0.15, 0.25, true).unwrap(), models, Place::Two, 8);
        run(&EngineConfig { first, ..started(config, 400, Start::Random) }, 5, 8, 300).unwrap()
    };
    let [mixed, extends, decodes] = [None, Some(FirstKind::Extend), Some(FirstKind::Decode)].map(with);
    assert!(mixed.throughput() > 1.05 * extends.throughput());
    assert!((extends.throughput() / decodes.throughput() - 1.0).abs() > 0.05);
    struct OneKind;
    impl Observer for OneKind {
        fn launched(&mut self, _now: Timestamp, _model: ModelIdx, plan: &StepPlan<'_>) {
            let decodes = plan.rows.iter().filter(|row| row.kind == RowKind::Decode).count();
            assert!(decodes == 0 || decodes == plan.rows.len());
        }
    }
    for first in [FirstKind::Extend, FirstKind::Decode] {
        let config = EngineConfig {
            first: Some(first),
            ..started(pair(r_stitch::new(0.15, 0.25, true).unwrap(), 8), 100, Start::Random)
        };
        replicate_observed(&config, 1, Window::Requests { warmup_requests: 0, requests: 20 }, OneKind).unwrap();
    }
}

#[test]
fn overlapped_without_contention_is_separate() {
    for policy in [r2r::new(0.2).unwrap(), r_stitch::new(0.1, 0.3, false).unwrap()] {
        let two = EngineConfig { policy: Arc::new(policy), ..many() };
        let mut one = two.clone();
        one.models.iter_mut().for_each(|model| model.device = 0);
        one.corun = Some(CorunRates::constant([1.0, 1.0]).unwrap());
        let ((separate, of_separate), (overlapped, of_overlapped)) =
            (accounted(&two, 5, 16, 200), accounted(&one, 5, 16, 200));
        assert_eq!(of_separate, of_overlapped);
        let without_devices = |metrics: Metrics| format!("{:?}", Metrics { device_busy_ns: Vec::new(), ..metrics });
        assert_eq!(without_devices(separate), without_devices(overlapped));
        // With contention it is slower, the more the lower the rates.
        let at = |rate: f64| {
            let corun = Some(CorunRates::constant([rate, rate]).unwrap());
            run(&EngineConfig { corun, ..one.clone() }, 5, 16, 200).unwrap().throughput()
        };
        assert!(at(1.0) > at(0.8) && at(0.8) > at(0.5));
    }
}

/// Two forwards side by side that end at the same instant are both absorbed before anything is launched, also where the quotient of work and rate
/// is off by its last bit: 2.32 ms at rate 0.29 and 4 ms at rate 0.5 both take 8 ms.
#[test]
fn forwards_that_end_together_on_one_device_are_absorbed_together() {
    struct Launches(Vec<(u64, u8, usize)>);
    impl Observer for Launches {
        fn launched(&mut self, now: Timestamp, model: ModelIdx, plan: &StepPlan<'_>) {
            self.0.push((now.as_ns(), model.0, plan.rows.len()));
        }
    }
    for (small_ms, rate) in [(2.32, 0.29), (2.4, 0.3), (4.64, 0.58)] {
        let models = vec![model("small", affine(small_ms, 0.0), 1), model("large", affine(4.0, 0.0), 1)];
        let config = config(Every::new(1, 4).unwrap(), models, Place::Ps(rate, 0.5), 2);
        let window = Window::Requests { warmup_requests: 0, requests: 1 };
        let (_, launches) =
            replicate_observed(&started(config, 50, Start::Spread), 1, window, Launches(Vec::new())).unwrap();
        // One request at each model; the one at the large model stays, and the other joins its next step.
        assert_eq!(launches.0[..3], [(0, 1, 1), (0, 0, 1), (8_000_000, 1, 2)], "{small_ms} ms at {rate}");
    }
}

/// How much room a step leaves to others depends on its tokens: an extend over 8 is a decode of 8 rows, though two requests never make a batch of 8.
/// Visits are random: with fixed ones a faster step may lead to a slower orbit.
#[test]
fn an_extend_leaves_as_much_of_the_device_as_a_decode_of_its_tokens() {
    let beside = |beside_more_than_4: f64, measured_up_to: u32| {
        let mut profile = COLUMNS.join(",");
        for (model, peer) in [("small", "large"), ("large", "small")] {
            for (rows, peer_rows) in [1, 4, 5, measured_up_to]
                .into_iter()
                .flat_map(|rows| [1, 4, 5, measured_up_to].map(|peer_rows| (rows, peer_rows)))
            {
                let rate = if peer_rows > 4 { beside_more_than_4 } else { 0.2 };
                profile += &format!("\nD,{model},corun,true,{rows},,,{peer},{peer_rows},{rate},,,,");
            }
        }
        let profile = Profile::parse(profile.as_bytes(), "p.csv").unwrap();
        let rates = CorunRates::from_profile(&profile, None, &[("small", true), ("large", true)]).unwrap();
        let models = vec![model("small", affine(3.0, 0.0), 1), model("large", affine(4.0, 0.0), 1)];
        let mut config = config(r_stitch::new(0.1, 0.1, true).unwrap(), models, Place::Ps(1.0, 1.0), 2);
        config.corun = Some(rates);
        run(&config, 5, 2, 20).unwrap()
    };
    assert!(beside(0.9, 6).throughput() > 1.02 * beside(0.2, 6).throughput());
    // Rates of steps beyond what was measured are told from the others.
    let extrapolated = |up_to| beside(0.9, up_to).models.iter().map(|model| model.extrapolated_steps).sum::<u64>();
    assert!(extrapolated(6) > extrapolated(20) && extrapolated(20) > 0);
    assert_eq!(extrapolated(100_000), 0);
}

#[test]
fn one_request_does_not_notice_whom_it_shares_a_device_with() {
    let two = started(pair(r_stitch::new(0.1, 0.3, true).unwrap(), 1), 300, Start::InPhase);
    let (_, separate) = accounted(&two, 5, 1, 10);
    let mut one = two;
    one.models.iter_mut().for_each(|model| model.device = 0);
    one.corun = Some(CorunRates::constant([0.4, 0.9]).unwrap());
    for sharing in [
        Sharing::Overlapped,
        Sharing::Exclusive(Order::LargeFirst),
        Sharing::Exclusive(Order::SmallFirst),
        Sharing::Exclusive(Order::Alternate),
    ] {
        assert_eq!(separate, accounted(&EngineConfig { sharing, ..one.clone() }, 5, 1, 10).1, "{sharing:?}");
    }
}

/// Under the R2R law the small model first means that it runs until everybody waits at the large one: a threshold of C.
#[test]
fn small_first_is_a_threshold_of_everybody_under_the_r2r_law() {
    let on_one = |order, threshold| {
        let models = vec![model("small", affine(3.0, 0.02), 1), model("large", affine(16.0, 0.15), threshold)];
        started(config(r2r::new(0.2).unwrap(), models, Place::Serial(order), 12), 300, Start::InPhase)
    };
    let (small_first, _) = accounted(&on_one(Order::SmallFirst, 1), 5, 12, 100);
    let (everybody, _) = accounted(&on_one(Order::LargeFirst, 12), 5, 12, 100);
    assert_eq!((small_first.tokens, small_first.window_ns()), (everybody.tokens, everybody.window_ns()));
    let (large_first, _) = accounted(&on_one(Order::LargeFirst, 1), 5, 12, 100);
    assert!(small_first.throughput() > 1.1 * large_first.throughput());
}

/// Requests that arrive far apart see an empty system: prefill, then every step at once.
#[test]
fn a_request_alone_has_the_unloaded_latency() {
    let lengths = |tokens| Lengths::constant(tokens).unwrap();
    let open = |arrivals| Workload::new(arrivals, 50, lengths(10), lengths(24)).unwrap();
    let hop_ns = 500_000;
    let config = EngineConfig { hop_ns, ..pair(Every::new(4, 4).unwrap(), 1) };
    // Three cycles of four small and four large tokens, and a hop between two visits.
    let latency_ns = 12 * (SMALL_NS + LARGE_NS) + 5 * hop_ns;
    let far_apart = (0..50).map(|k| k * 1_000_000_000).collect();
    let metrics =
        run(&EngineConfig { workload: open(Arrivals::trace(far_apart).unwrap()), ..config.clone() }, 1, 0, 50).unwrap();
    assert_eq!((metrics.latency.min_ns(), metrics.latency.max_ns()), (Some(latency_ns), Some(latency_ns)));
    assert_eq!((metrics.ttft.min_ns(), metrics.ttft.max_ns()), (Some(SMALL_NS), Some(SMALL_NS)));
    let tpot_ns = (latency_ns - SMALL_NS) / 23;
    assert_eq!((metrics.tpot.min_ns(), metrics.tpot.max_ns()), (Some(tpot_ns), Some(tpot_ns)));

    // A Poisson stream at 0.1 % load: nearly all requests are alone.
    let rate_per_s = 0.001 / (latency_ns as f64 * 1e-9);
    let poisson = open(Arrivals::poisson(rate_per_s).unwrap());
    let metrics = run(&EngineConfig { workload: poisson, ..config }, 1, 0, 3_000).unwrap();
    assert_eq!(metrics.latency.min_ns(), Some(latency_ns));
    assert_close(metrics.latency.mean_ns().unwrap(), latency_ns as f64, 1e-3);
}

/// An open loop serves what arrives: the rate within three deviations, and by Little's law as many in the system as rate times latency.
#[test]
fn a_poisson_stream_has_its_rate_and_obeys_littles_law() {
    let lengths = |tokens| Lengths::constant(tokens).unwrap();
    let workload = Workload::new(Arrivals::poisson(4.0).unwrap(), 1, lengths(10), lengths(50)).unwrap();
    let config = EngineConfig { workload, ..many() };
    let metrics = run(&config, 2, 100, 10_000).unwrap();
    let seconds = metrics.window_ns() as f64 * 1e-9;
    let rate = metrics.finished as f64 / seconds;
    assert!((rate / 4.0 - 1.0).abs() < 3.0 / 100.0, "{rate}");
    assert_close(metrics.throughput(), 50.0 * rate, 2e-3);
    let in_service: u128 = metrics.models.iter().map(|own| own.in_service_row_ns + own.waiting_row_ns).sum();
    let in_system = (in_service + metrics.in_transit_ns) as f64 / metrics.window_ns() as f64;
    assert_close(in_system, rate * metrics.latency.mean_ns().unwrap() * 1e-9, 5e-3);
}

/// Common random numbers: whatever changes in thresholds, costs, placement or jitter, each request makes the same decisions.
#[test]
fn decisions_of_a_request_do_not_depend_on_scheduling() {
    let routes_of = |config: &EngineConfig, seed| {
        let window = Window::Requests { warmup_requests: 0, requests: 120 };
        replicate_observed(config, seed, window, Routes::default()).unwrap().1
    };
    for policy in [r2r::new(0.2).unwrap(), r_stitch::new(0.15, 0.3, false).unwrap()] {
        let eager = EngineConfig { policy: Arc::new(policy), ..many() };
        let mut delayed = eager.clone();
        delayed.models[1].gate.threshold = Threshold::constant(7);
        let mut jittered = EngineConfig { hop_ns: 2_000_000, first: Some(FirstKind::Decode), ..eager.clone() };
        jittered.models.iter_mut().for_each(|model| model.jitter = Jitter::lognormal(0.2).unwrap());
        let mut exclusive = EngineConfig { sharing: Sharing::Exclusive(Order::Alternate), ..eager.clone() };
        exclusive.models.iter_mut().for_each(|model| model.device = 0);
        let synchronous = EngineConfig { coordination: Coordination::StepSync, ..eager.clone() };
        let reference = routes_of(&eager, 5);
        for other in [delayed, jittered, exclusive, synchronous] {
            let routes = routes_of(&other, 5);
            let mut steps = 0;
            for (one, other) in reference.steps.iter().zip(&routes.steps) {
                let common = one.len().min(other.len());
                // Also what is extended over: it follows from the decisions.
                assert_eq!(one[..common], other[..common]);
                steps += common;
            }
            assert!(steps > 40_000, "{steps}");
        }
        let other_seed = routes_of(&eager, 6);
        assert!(reference.steps.iter().zip(&other_seed.steps).skip(16).any(|(one, other)| one != other));
    }
}

#[test]
fn the_same_seed_gives_the_same_run_and_another_seed_another() {
    let mut config = many();
    config.models.iter_mut().for_each(|model| model.jitter = Jitter::lognormal(0.1).unwrap());
    let bytes = |seed| format!("{:?}", run(&config, seed, 16, 50).unwrap());
    assert_eq!(bytes(1), bytes(1));
    assert_ne!(bytes(1), bytes(2));
    // Watching changes nothing.
    let window = Window::Requests { warmup_requests: 16, requests: 50 };
    let (watched, _) = replicate_observed(&config, 1, window, Account::of(&config, 1)).unwrap();
    assert_eq!(bytes(1), format!("{watched:?}"));
}

/// Jitter has mean 1: it moves throughput under the R2R law by half a per cent at most.
#[test]
fn jitter_keeps_the_mean() {
    let at = |cv: f64| {
        let mut config = many();
        config.models.iter_mut().for_each(|model| model.jitter = Jitter::lognormal(cv).unwrap());
        run(&config, 5, 16, 1_500).unwrap().throughput()
    };
    assert_close(at(0.1), at(0.0), 8e-3);
    // One model alone: exactly the mean of the factors.
    let mut solo = pair(Solo::large_only(2).unwrap(), 1);
    solo.models[1].jitter = Jitter::lognormal(0.1).unwrap();
    let metrics = run(&started(solo, 2_000, Start::InPhase), 5, 1, 20).unwrap();
    let deviation = 0.1 / (metrics.models[1].steps as f64).sqrt();
    assert_close(metrics.throughput() * 16e-3, 1.0, 3.0 * deviation);
}
