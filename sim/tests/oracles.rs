//! Cases whose throughput is known exactly, as oracles for the engine (theory, section 3: E1 to E10).
//!
//! Derivations are in the comments; where `handoff_sim::analytic` has the formula it is used, so that the two check each other. Under a random law
//! the exact value is taken at the realised routing probability, which leaves 0.1 % or less of noise in runs of a second.
#![allow(clippy::unwrap_used)]

mod support;

use handoff_scheduler::Order;
use handoff_sim::analytic::bounds::{self, Demand};
use handoff_sim::analytic::chain::{self, ChainLimits, ChainSpec, GridSteps, LaunchRule};
use handoff_sim::analytic::orbits::FixedVisits;
use handoff_sim::analytic::{Affine, RoutingLaw, break_even, lambert, orbits, renewal};
use handoff_sim::engine::{EngineConfig, Metrics};
use handoff_sim::policy::{Every, Solo, r2r};
use handoff_sim::scenario::{Embedded, Scenario, Source};
use handoff_sim::workload::Start;
use support::{Place, affine, assert_close, config, cycles_per_s, endless, model, realised_law, run, started};

/// The illustrative step times of the theory, ms: small 3 + 0.02 b, large 16 + 0.15 b.
const SMALL_MS: (f64, f64) = (3.0, 0.02);
const LARGE_MS: (f64, f64) = (16.0, 0.15);

const PLACES: [Place; 5] = [
    Place::Two,
    Place::Serial(Order::LargeFirst),
    Place::Serial(Order::SmallFirst),
    Place::Serial(Order::Alternate),
    Place::Ps(0.5, 0.7),
];

fn seconds((fixed_ms, per_row_ms): (f64, f64)) -> Affine {
    Affine { fixed_s: fixed_ms * 1e-3, per_row_s: per_row_ms * 1e-3 }
}

fn r2r_run(
    p: f64,
    small: (f64, f64),
    large: (f64, f64),
    threshold: u32,
    place: Place,
    concurrency: u32,
    tokens: u32,
) -> Metrics {
    let models = vec![model("small", affine(small.0, small.1), 1), model("large", affine(large.0, large.1), threshold)];
    let config = config(r2r::new(p).unwrap(), models, place, concurrency);
    endless(config, Start::InPhase, tokens / concurrency, 11)
}

fn every(
    visits: (u32, u32),
    small: (f64, f64),
    large: (f64, f64),
    threshold: u32,
    place: Place,
    concurrency: u32,
) -> EngineConfig {
    let models = vec![model("small", affine(small.0, small.1), 1), model("large", affine(large.0, large.1), threshold)];
    config(Every::new(visits.0, visits.1).unwrap(), models, place, concurrency)
}

/// E1, fixed period: one request never waits, so a cycle takes n_S t_S(1) + n_L t_L(1) + 2 z wherever the models run. A request that ends on the
/// large model does not go back: its last cycle has one hop only.
#[test]
fn e1_one_request_with_fixed_visits_is_exact_in_every_placement() {
    let (small_ns, large_ns) = (3_020_000_u64, 16_150_000_u64);
    for place in PLACES {
        for hop_ns in [0, 250_000] {
            for (n_small, n_large) in [(1_u32, 1_u32), (7, 1), (1, 5), (16, 16)] {
                let config = every((n_small, n_large), SMALL_MS, LARGE_MS, 1, place, 1);
                let config = EngineConfig { hop_ns, ..config };
                let cycle_ns = u64::from(n_small) * small_ns + u64::from(n_large) * large_ns + 2 * hop_ns;
                let cycles = 9;
                let ends_on_large = (cycles * (n_small + n_large), u64::from(cycles) * cycle_ns - hop_ns);
                let ends_on_small =
                    (ends_on_large.0 + n_small, u64::from(cycles) * cycle_ns + u64::from(n_small) * small_ns);
                for (tokens, request_ns) in [ends_on_large, ends_on_small] {
                    let metrics = run(&started(config.clone(), tokens, Start::InPhase), 1, 1, 5).unwrap();
                    let exact = f64::from(tokens) / (request_ns as f64 * 1e-9);
                    assert_close(metrics.throughput(), exact, 1e-9);
                }
            }
        }
    }
}

/// E1, R2R law: 1/p tokens a cycle of t_S/p + t_L + 2 z in the mean. As an identity over the realised routes it is exact; against the nominal p the
/// noise of the routes is left.
#[test]
fn e1_one_request_under_the_r2r_law_is_exact_in_the_mean() {
    let (p, hop_ns, tokens) = (0.35, 300_000, 4_000_u32);
    for place in PLACES {
        let models = vec![model("small", affine(6.0, 0.0), 1), model("large", affine(27.9, 0.0), 1)];
        let config = EngineConfig { hop_ns, ..config(r2r::new(p).unwrap(), models, place, 1) };
        let metrics = run(&started(config, tokens, Start::InPhase), 5, 1, if place == Place::Two { 1_000 } else { 20 });
        let metrics = metrics.unwrap();
        let [small, large] = &metrics.models[..] else { panic!("two models") };
        let exact_ns = small.steps * 6_000_000 + large.steps * 27_900_000 + (small.handoffs + large.handoffs) * hop_ns;
        assert_eq!(metrics.window_ns(), exact_ns, "{place:?}");
        if place == Place::Two {
            // The one hop that a request does not pay if it ends on the large model, as p of all requests do.
            let tokens = f64::from(tokens);
            let request_s = tokens * (6.0e-3 + p * 27.9e-3 + 2.0 * p * 300e-6) - p * 300e-6;
            let cycles = renewal::single_request(1.0 / p, 6.0e-3, 1.0, 27.9e-3, 2.0 * 300e-6).unwrap();
            assert_close(cycles / p, tokens / request_s, 1e-5);
            assert_close(metrics.throughput(), tokens / request_s, 1e-3);
        }
    }
}

/// E2: C = 2, visits of one token, s < l. In phase both requests move together: a cycle of both takes s + l, so 2 / (s + l) cycles per second.
/// E3: apart they alternate, and the large model never idles: one cycle every l. Both orbits are stable.
/// E4: apart, but the large model waits for both: after the first wait they are in phase. The gain is 2 l / (s + l).
#[test]
fn e2_e3_e4_two_requests_have_two_orbits_and_a_threshold_leads_to_the_better_one() {
    for (small_ms, large_ms) in [(3.0, 16.0), (6.0, 27.9), (1.0, 1.5)] {
        let rate = |start, threshold| {
            let config = every((1, 1), (small_ms, 0.0), (large_ms, 0.0), threshold, Place::Two, 2);
            endless(config, start, 20_000, 1).throughput() / 2.0
        };
        let in_phase = 2.0 / ((small_ms + large_ms) * 1e-3);
        let apart = 1.0 / (large_ms * 1e-3);
        assert_close(rate(Start::InPhase, 1), in_phase, 1e-3);
        assert_close(rate(Start::Spread, 1), apart, 1e-3);
        assert_close(rate(Start::Spread, 2), in_phase, 1e-3);
        assert_close(rate(Start::Spread, 2) / rate(Start::Spread, 1), 2.0 * large_ms / (small_ms + large_ms), 2e-3);
    }
}

/// E5: on one device with the large model first, the large model runs right after any routed token, so every small step sees all C requests. A
/// round yields C tokens and costs a_S + b_S C + (1 - q^C) a_L + b_L p C.
#[test]
fn e5_eager_on_one_device_is_the_renewal_value() {
    let check = |concurrency: u32, p: f64, tokens: u32, tolerance: f64| {
        let place = Place::Serial(Order::LargeFirst);
        let metrics = r2r_run(p, SMALL_MS, LARGE_MS, 1, place, concurrency, tokens);
        let law = realised_law(&metrics);
        assert_close(law.p, p, 0.02);
        let c = f64::from(concurrency);
        let round_ms = 3.0 + 0.02 * c + (1.0 - (1.0 - law.p).powf(c)) * 16.0 + 0.15 * law.p * c;
        assert_close(metrics.throughput(), c / round_ms * 1e3, tolerance);
        let exact = renewal::exclusive_eager(concurrency, law, seconds(SMALL_MS), seconds(LARGE_MS)).unwrap();
        assert_close(exact, c / round_ms * 1e3, 1e-9);
    };
    for concurrency in [1, 2, 5, 16, 48] {
        for p in [0.03, 0.35] {
            check(concurrency, p, 1_000_000, 3e-3);
        }
    }
    check(16, 0.1, 10_000_000, 1e-3);
}

/// E6: if the large model waits for all C requests, nothing ever overlaps and every placement is the same. A cycle is the time until C independent
/// geometric visits are all over, E_C = sum over k of 1 - (1 - q^k)^C small steps with C/p rows in all, and one large step.
#[test]
fn e6_waiting_for_everybody_is_the_same_in_every_placement() {
    for (concurrency, p) in [(2, 0.1), (8, 0.1), (16, 0.35)] {
        let [two, others @ ..] =
            PLACES.map(|place| r2r_run(p, SMALL_MS, LARGE_MS, concurrency, place, concurrency, 400_000));
        let law = realised_law(&two);
        let c = f64::from(concurrency);
        let longest: f64 = (0..10_000).map(|k| 1.0 - (1.0 - (1.0 - law.p).powi(k)).powf(c)).sum();
        let cycle_ms = 3.0 * longest + 0.02 * c / law.p + 16.0 + 0.15 * c;
        assert_close(two.throughput(), c / law.p / cycle_ms * 1e3, 5e-3);
        let exact = renewal::all_wait(concurrency, law, seconds(SMALL_MS), seconds(LARGE_MS)).unwrap();
        assert_close(exact, c / law.p / cycle_ms * 1e3, 1e-9);
        for other in others {
            assert_eq!((two.tokens, two.window_ns()), (other.tokens, other.window_ns()));
        }
    }
}

/// E7: one device, any threshold m of the large model: renewal-reward over the number of requests at the large model.
#[test]
fn e7_thresholds_on_one_device_are_the_renewal_values() {
    let check = |concurrency: u32, p: f64, threshold: u32, tokens: u32, tolerance: f64| {
        let place = Place::Serial(Order::LargeFirst);
        let metrics = r2r_run(p, SMALL_MS, LARGE_MS, threshold, place, concurrency, tokens);
        let [small, large] = [SMALL_MS, LARGE_MS].map(seconds);
        let exact = renewal::exclusive_threshold(
            concurrency,
            realised_law(&metrics),
            threshold,
            |rows| small.step_s(f64::from(rows)),
            |rows| large.step_s(f64::from(rows)),
        );
        assert_close(metrics.throughput(), exact.unwrap(), tolerance);
    };
    for (concurrency, p) in [(3, 0.35), (8, 0.1), (20, 0.1)] {
        for threshold in [1, 2, 3, 5, 8, 12, 20].into_iter().filter(|&m| m <= concurrency) {
            check(concurrency, p, threshold, 1_000_000, 4e-3);
        }
    }
    check(8, 0.35, 5, 10_000_000, 1e-3);
}

fn chain_tokens_per_unit(concurrency: u32, p: f64, steps: [u32; 2], thresholds: [u32; 2], launch: LaunchRule) -> f64 {
    let spec = ChainSpec {
        concurrency,
        grid_s: 1.0,
        steps: steps.map(GridSteps::constant).into(),
        thresholds: thresholds.into(),
        routes: vec![vec![1.0 - p, p], vec![1.0, 0.0]],
        commits: vec![vec![1.0, 0.0], vec![1.0, 0.0]],
        entry: 0,
        launch,
    };
    chain::solve(&spec, &ChainLimits::default()).unwrap().tokens_per_s
}

/// E8: two devices, whole step times, at most six requests: the semi-Markov chain over waiting, batch and residual time of both models.
#[test]
fn e8_two_devices_follow_the_exact_chain() {
    let cases = [
        (1, 0.25, [1, 5], [1, 1]),
        (2, 0.25, [1, 5], [1, 1]),
        (2, 0.1, [3, 16], [1, 2]),
        (3, 0.35, [2, 9], [1, 1]),
        (4, 0.35, [2, 9], [1, 3]),
        (4, 0.1, [3, 16], [2, 2]),
        (5, 0.2, [1, 6], [3, 2]),
        (6, 0.1, [1, 5], [1, 1]),
        (6, 0.3, [2, 7], [1, 4]),
        (6, 0.5, [3, 4], [2, 5]),
    ];
    for (concurrency, p, steps, thresholds) in cases {
        let place_and_launch = [
            (Place::Two, LaunchRule::Separate),
            (Place::Serial(Order::SmallFirst), LaunchRule::Exclusive(chain::Order::SmallFirst)),
            (Place::Serial(Order::Alternate), LaunchRule::Exclusive(chain::Order::Alternate)),
        ];
        for (place, launch) in place_and_launch {
            let models = vec![
                model("small", affine(f64::from(steps[0]), 0.0), thresholds[0]),
                model("large", affine(f64::from(steps[1]), 0.0), thresholds[1]),
            ];
            let config = config(r2r::new(p).unwrap(), models, place, concurrency);
            let metrics = endless(config, Start::InPhase, 500_000 / concurrency, 3);
            let p = realised_law(&metrics).p;
            let exact = chain_tokens_per_unit(concurrency, p, steps, thresholds, launch);
            let per_unit = metrics.throughput() * 1e-3;
            assert_close(per_unit, exact, 3e-3);
        }
    }
}

/// E9: all requests in phase: a cycle takes N_S t_S(C) + N_L t_L(C), on one device and on two. On one device that is the upper bound of every policy.
#[test]
fn e9_in_phase_is_lock_step_and_attains_the_bound_of_one_device() {
    for place in PLACES {
        for concurrency in [1_u32, 2, 16, 33] {
            for (small, large) in [(1_u32, 1_u32), (16, 1), (4, 4), (3, 7)] {
                let config = every((small, large), SMALL_MS, LARGE_MS, 1, place, concurrency);
                let config = started(config, 8 * (small + large), Start::InPhase);
                let generation = u64::from(concurrency);
                let metrics = run(&config, 1, generation, 3 * generation).unwrap();
                let cycles_per_s = metrics.throughput() / f64::from(small + large);
                let c = f64::from(concurrency);
                let cycle_ms = f64::from(small) * (3.0 + 0.02 * c) + f64::from(large) * (16.0 + 0.15 * c);
                assert_close(cycles_per_s, c / cycle_ms * 1e3, 1e-6);
                let visits = FixedVisits { small, large };
                let exact = orbits::in_phase(concurrency, visits, seconds(SMALL_MS), seconds(LARGE_MS), 0.0);
                assert_close(cycles_per_s, exact.unwrap(), 1e-6);
                let demands = [
                    Demand { steps_per_cycle: f64::from(small), step: seconds(SMALL_MS) },
                    Demand { steps_per_cycle: f64::from(large), step: seconds(LARGE_MS) },
                ];
                assert_close(cycles_per_s, bounds::exclusive(concurrency, &demands).unwrap(), 1e-6);
            }
        }
    }
}

/// E10: C = 2, p = 1/4, t_S = 1, t_L = 5, in tokens per unit of time (V cycles of the theory): 0.74031 with m = 1, and with m = 2 by E6
/// 8 / (40/7 + 5) = 0.746667.
#[test]
fn e10_the_smallest_chain() {
    for (threshold, expected, last_digit) in [(1, 0.740_31, 5e-6), (2, 8.0 / (40.0 / 7.0 + 5.0), 1e-12)] {
        let exact = chain_tokens_per_unit(2, 0.25, [1, 5], [1, threshold], LaunchRule::Separate);
        assert!((exact - expected).abs() <= last_digit, "{exact}");
        let metrics = r2r_run(0.25, (1.0, 0.0), (5.0, 0.0), threshold, Place::Two, 2, 4_000_000);
        assert_close(metrics.throughput() * 1e-3, expected, 2e-3);
        let at_realised =
            chain_tokens_per_unit(2, realised_law(&metrics).p, [1, 5], [1, threshold], LaunchRule::Separate);
        assert_close(metrics.throughput() * 1e-3, at_realised, 1e-3);
    }
}

/// A threshold of 1 is the eager mode, to the last byte of what a run measures.
#[test]
fn threshold_one_is_eager() {
    let parse = |settings: &[&str]| {
        let text = "[[model]]\nname = \"small\"\ncost = { affine = { fixed_ms = 3.0, per_row_ms = 0.02 } }\njitter_cv = 0.1\n\
             [[model]]\nname = \"large\"\ncost = { affine = { fixed_ms = 16.0, per_row_ms = 0.15 } }\n\
             [policy]\nkind = \"r-stitch\"\na = 0.1\nb = 0.3\n[workload]\nconcurrency = 7\noutput_tokens = { uniform = [50, 500] }\n";
        let source = settings.iter().fold(Source::new("s.toml", text), |source, set| source.with_set(set).unwrap());
        EngineConfig::from(&Scenario::parse(&source, &Embedded::default()).unwrap())
    };
    let bytes = |settings: &[&str]| format!("{:?}", run(&parse(settings), 9, 7, 40).unwrap());
    let eager = bytes(&["scheduler.mode=eager"]);
    for settings in [
        &["scheduler.mode=delayed"][..],
        &["scheduler.mode=delayed", "model.large.threshold=[1, 1, 1]", "model.small.threshold=1"],
        &["scheduler.mode=delayed", "model.large.max_wait_ms=5.0", "model.small.hold=all"],
    ] {
        assert_eq!(eager, bytes(settings), "{settings:?}");
    }
    assert_ne!(eager, bytes(&["scheduler.mode=delayed", "model.large.threshold=2"]));
}

/// Section 7, two devices, visits of N and 1, C = 16: if the large model never idles a cycle takes T_L k with k = 1 + ceil(V/T_L) cohorts,
/// T_L = a_L + b_L C/k, V = N t_S.
///
/// From an evenly spread start the printed values are met for all printed N. At N = 16 and 32 the spread start leads to the orbit with one cohort
/// less, as the theory reports for N = 5 and 10; the orbit of the formula is there too, and random starts find both.
#[test]
fn quantised_orbits_have_the_printed_throughput() {
    let orbit = |small: u32, start: Start, seed: u64| {
        let config = every((small, 1), SMALL_MS, LARGE_MS, 1, Place::Two, 16);
        let tokens = if start == Start::Random { 2_000 } else { 400 };
        f64::from(small + 1) * 1e-3 * cycles_per_s(config, start, tokens * (small + 1), seed)
    };
    let formula = |small: u32| {
        let own_cohorts = (2..=16).find_map(|cohorts| {
            let at_small = 16.0 * (1.0 - 1.0 / f64::from(cohorts));
            let visit_s = f64::from(small) * seconds(SMALL_MS).step_s(at_small);
            orbits::quantised(16, visit_s, seconds(LARGE_MS)).ok().filter(|orbit| orbit.n_cohorts == cohorts)
        });
        f64::from(small + 1) * 1e-3 * own_cohorts.unwrap().cycles_per_s
    };
    for (small, printed) in [(1, 0.9302), (2, 1.3953), (3, 1.8605), (4, 2.3256), (6, 2.2222), (8, 2.8571)] {
        assert!((orbit(small, Start::Spread, 1) - printed).abs() < 5e-5, "N {small}");
    }
    for small in [1, 2, 3, 4, 6, 8, 12, 24] {
        assert_close(orbit(small, Start::Spread, 1), formula(small), 1e-6);
    }
    for (small, one_cohort_less) in [(16, 3.8245), (32, 4.2498)] {
        assert!((orbit(small, Start::Spread, 1) - one_cohort_less).abs() < 5e-5, "N {small}");
        for expected in [formula(small), one_cohort_less] {
            let on_orbit = |seed: &u64| (orbit(small, Start::Random, *seed) / expected - 1.0).abs() < 1e-4;
            assert!((0..40).any(|seed| on_orbit(&seed)), "N {small}: no start leads to {expected}");
        }
    }
}

/// Section 8, one device, eager: with the weights dominating, routing beats the large model alone up to C* = ln(a_L/a_S)/lam and loses beyond
/// (prediction i). Four cases with C* well between two whole numbers.
#[test]
fn eager_routing_on_one_device_stops_paying_at_the_predicted_concurrency() {
    for (p, small_ms, large_ms) in [(0.1, 3.1, 16.0), (0.05, 8.0, 16.0), (0.2, 2.0, 16.8), (0.35, 6.0, 27.9)] {
        let law = RoutingLaw { p };
        let (small, large) = ((small_ms, 0.0), (large_ms, 0.0));
        let limit = break_even::concurrency_limit(law, seconds(small), seconds(large)).unwrap();
        assert_close(limit, f64::ln(large_ms / small_ms) / -f64::ln(1.0 - p), 1e-12);
        for (concurrency, wins) in [(limit.floor() as u32, true), (limit.floor() as u32 + 1, false)] {
            let place = Place::Serial(Order::LargeFirst);
            let routed = r2r_run(p, small, large, 1, place, concurrency, 1_500_000).throughput();
            let speedup = routed / large_only(large, concurrency);
            assert_eq!(speedup > 1.0, wins, "p {p}, C {concurrency}: {speedup}");
        }
    }
}

fn large_only(large: (f64, f64), concurrency: u32) -> f64 {
    let models = vec![model("small", affine(1.0, 0.0), 1), model("large", affine(large.0, large.1), 1)];
    let config = config(Solo::large_only(2).unwrap(), models, Place::Two, concurrency);
    let throughput = endless(config, Start::InPhase, 1_000, 1).throughput();
    assert_close(throughput, break_even::large_only(concurrency, seconds(large), 1).unwrap(), 1e-9);
    throughput
}

/// Section 8: the best threshold restores a speed-up of about a_L / (u a_S p/lam), nearly flat in C (prediction ii), and m*/C depends on kappa alone
/// (prediction iv): the closed-form threshold loses less than 1 % against the best of all that are tried, at every C.
#[test]
fn the_best_threshold_on_one_device_scales_with_the_concurrency() {
    let law = RoutingLaw { p: 0.1 };
    let (small, large) = ((3.0, 0.0), (16.0, 0.0));
    let predicted = break_even::exclusive_best_speedup(law, seconds(small), seconds(large)).unwrap();
    for concurrency in [8_u32, 16, 32, 64] {
        let at = |threshold| {
            let place = Place::Serial(Order::LargeFirst);
            r2r_run(law.p, small, large, threshold, place, concurrency, 400_000).throughput()
        };
        let closed_form = lambert::best_threshold(concurrency, law, seconds(small), seconds(large)).unwrap().threshold;
        assert_close(f64::from(closed_form) / f64::from(concurrency), 0.594, 0.06);
        let best = (3..=8).map(|tenths| at((concurrency * tenths / 10).max(1))).fold(0.0, f64::max);
        let chosen = at(closed_form);
        assert!(chosen >= 0.99 * best, "C {concurrency}: {chosen} at m = {closed_form}, the best is {best}");
        let speedup = chosen / large_only(large, concurrency);
        assert_close(speedup, predicted, if concurrency == 8 { 0.07 } else { 0.03 });
    }
}

/// Section 5.4: on dedicated devices waiting helps only if kappa = lam a_L / a_S exceeds 2 (prediction iii). Best gains at C = 32, p = 0.1.
#[test]
fn on_two_devices_waiting_pays_only_above_kappa_two() {
    for (kappa, gain) in [(0.56, 1.0), (1.5, 1.0), (3.0, 1.14), (5.0, 1.28), (10.0, 1.49)] {
        let large = (kappa * 3.0 / -(0.9_f64).ln(), 0.0);
        let at = |threshold| r2r_run(0.1, (3.0, 0.0), large, threshold, Place::Two, 32, 400_000).throughput();
        let best = (2..=14).map(|half| at(2 * half)).fold(0.0, f64::max) / at(1);
        assert_close(best, gain, 0.03);
    }
}
