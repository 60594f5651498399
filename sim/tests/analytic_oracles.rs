//! The analytical model against published numbers, against exact cases, and against itself on shared ground.
//!
//! Step times of the illustrative system: small 3 + 0.02 b ms, large 16 + 0.15 b ms, p = 0.1. Section numbers are those of the theory.

use handoff_sim::analytic::chain::{self, ChainLimits, ChainSpec, GridSteps, LaunchRule, Order};
use handoff_sim::analytic::fluid::{self, Placement};
use handoff_sim::analytic::mean_field::{self, MeanField};
use handoff_sim::analytic::{Affine, RoutingLaw, bounds, break_even, lambert, orbits, renewal};
use proptest::prelude::*;

const SMALL: Affine = Affine { fixed_s: 3e-3, per_row_s: 2e-5 };
const LARGE: Affine = Affine { fixed_s: 16e-3, per_row_s: 15e-5 };
const LAW: RoutingLaw = RoutingLaw { p: 0.1 };

fn r2r(concurrency: u32, p: f64, grid_s: f64, steps: [GridSteps; 2], thresholds: [u32; 2]) -> ChainSpec {
    ChainSpec {
        concurrency,
        grid_s,
        steps: steps.to_vec(),
        thresholds: thresholds.to_vec(),
        routes: vec![vec![1.0 - p, p], vec![1.0, 0.0]],
        commits: vec![vec![1.0, 0.0], vec![1.0, 0.0]],
        entry: 0,
        launch: LaunchRule::Separate,
    }
}

fn tokens_per_s(spec: &ChainSpec) -> f64 {
    chain::solve(spec, &ChainLimits::default()).expect("a chain of the test").tokens_per_s
}

fn on_grid(concurrency: u32, grid_s: f64, step: Affine) -> GridSteps {
    let steps = GridSteps::round_per_batch(concurrency, grid_s, |rows| step.step_s(f64::from(rows)))
        .expect("times of the test fit");
    assert!(steps.rounding().largest_relative < 1e-9, "{step:?} is not on the grid");
    steps
}

fn time(step: Affine) -> impl Fn(u32) -> f64 + Copy {
    move |rows| step.step_s(f64::from(rows))
}

/// The serving paper's own model, step times 6.0 and 27.9 ms, p = 0.35: its published column, and further values by the same rules (section 0).
#[test]
fn the_serving_papers_model_is_reproduced() {
    let published = [
        (2, 1, 99.0),
        (2, 2, 110.3),
        (3, 1, 142.3),
        (3, 2, 158.1),
        (3, 3, 151.9),
        (4, 1, 187.2),
        (4, 2, 195.4),
        (4, 3, 207.9),
        (4, 4, 190.7),
        (8, 1, 369.2),
        (8, 2, 370.6),
        (8, 3, 374.4),
        (8, 4, 386.8),
        (8, 5, 399.0),
    ];
    for (concurrency, threshold, expected) in published {
        let steps = [6.0e-3, 27.9e-3].map(|step_s| GridSteps::round_constant(step_s, 1e-4).unwrap());
        let value = tokens_per_s(&r2r(concurrency, 0.35, 1e-4, steps, [1, threshold]));
        assert!((value - expected).abs() <= 0.1, "N = {concurrency}, threshold {threshold}: {value}");
    }
}

/// On an exclusive device with the large model first the chain is the renewal process of E7, for every threshold and with step times that are not
/// affine.
#[test]
fn the_exclusive_chain_is_the_renewal_process() {
    let small: Vec<u32> = vec![30, 30, 31, 35, 40, 40, 41];
    let large: Vec<u32> = vec![160, 170, 170, 171, 180, 220, 221];
    for p in [0.05, 0.35, 0.9] {
        for threshold in 1..=7 {
            let steps = [small.clone(), large.clone()].map(GridSteps::per_batch);
            let launch = LaunchRule::Exclusive(Order::LargeFirst);
            let spec = ChainSpec { launch, ..r2r(7, p, 1e-4, steps, [1, threshold]) };
            let units = |table: &[u32], rows: u32| f64::from(table[rows as usize - 1]) * 1e-4;
            let expected = renewal::exclusive_threshold(
                7,
                RoutingLaw { p },
                threshold,
                |rows| units(&small, rows),
                |rows| units(&large, rows),
            )
            .unwrap();
            assert!((tokens_per_s(&spec) / expected - 1.0).abs() < 1e-9, "p {p}, threshold {threshold}");
        }
    }
}

/// E6 holds in every placement: when the large model waits for everybody, nothing ever overlaps.
#[test]
fn waiting_for_everybody_is_the_same_in_every_placement() {
    for concurrency in [1, 2, 6, 24] {
        let expected = renewal::all_wait(concurrency, LAW, SMALL, LARGE).unwrap();
        for launch in [LaunchRule::Separate, LaunchRule::Exclusive(Order::LargeFirst)] {
            let steps = [SMALL, LARGE].map(|step| on_grid(concurrency, 1e-5, step));
            let spec = ChainSpec { launch, ..r2r(concurrency, 0.1, 1e-5, steps, [1, concurrency]) };
            assert!((tokens_per_s(&spec) / expected - 1.0).abs() < 1e-9, "C = {concurrency}, {launch:?}");
        }
    }
}

/// One request never waits, in any placement (E1).
#[test]
fn one_request_is_exact_everywhere() {
    let cycles = renewal::single_request(10.0, SMALL.step_s(1.0), 1.0, LARGE.step_s(1.0), 0.0).unwrap();
    let steps = [SMALL, LARGE].map(|step| on_grid(1, 1e-5, step));
    assert!((tokens_per_s(&r2r(1, 0.1, 1e-5, steps, [1, 1])) / (10.0 * cycles) - 1.0).abs() < 1e-12);
    let bound = bounds::separate(1, &bounds::r2r_demands(LAW, SMALL, LARGE).unwrap(), 0.0).unwrap();
    assert!(bound >= cycles);
}

/// The table of section 8, tokens per ms. Its serial columns fix only b_S + p b_L = 0.054: an extend of 1/p = 10 tokens at 0.02 ms, and 0.04 ms of KV
/// reads, makes b_L = 0.24, so b_S is 0.03.
#[test]
fn the_break_even_table() {
    let small = Affine { fixed_s: 3.0, per_row_s: 0.03 };
    let extend = Affine { fixed_s: 16.0, per_row_s: 0.24 };
    let decode = Affine { fixed_s: 16.0, per_row_s: 0.06 };
    let rows = [
        // C, large on one device, serial m = 1, best m, serial best, large on two devices, routed on two (simulated)
        (1, 0.062, 0.215, 1, 0.215, 0.062, f64::NAN),
        (8, 0.485, 0.638, 5, 1.133, 0.493, 1.400),
        (16, 0.943, 0.947, 10, 2.079, 0.971, 2.651),
        (32, 1.786, 1.586, 19, 3.701, 1.887, 4.938),
        (128, 5.405, 4.940, 76, 9.203, 6.452, 14.01),
        (256, 8.163, 7.799, 152, 12.29, 10.81, 20.17),
    ];
    for (concurrency, large_one, eager, best_threshold, best, large_two, routed) in rows {
        let printed = |name: &str, value: f64, expected: f64| {
            let last_digit = if expected < 10.0 { 1e-3 } else { 1e-2 };
            assert!((value - expected).abs() <= 0.51 * last_digit, "C = {concurrency}, {name}: {value} and {expected}");
        };
        printed("large, one device", break_even::large_only(concurrency, decode, 1).unwrap(), large_one);
        printed("large, two devices", break_even::large_only(concurrency, decode, 2).unwrap(), large_two);
        printed("serial, eager", renewal::exclusive_eager(concurrency, LAW, small, extend).unwrap(), eager);
        let at =
            |threshold| renewal::exclusive_threshold(concurrency, LAW, threshold, time(small), time(extend)).unwrap();
        printed("serial, best", at(best_threshold), best);
        let (_, optimum) = renewal::exclusive_best_threshold(concurrency, LAW, time(small), time(extend)).unwrap();
        assert!(at(best_threshold) >= 0.999 * optimum, "C = {concurrency}");
        if concurrency >= 8 {
            assert_eq!(lambert::best_threshold(concurrency, LAW, small, extend).unwrap().threshold, best_threshold);
        }
        if concurrency >= 4 {
            let system = MeanField { concurrency, law: LAW, small, large: extend, threshold: 1, handoff_s: 0.0 };
            let value = mean_field::solve(&system).unwrap().tokens_per_s;
            assert!((value / routed - 1.0).abs() < 0.01, "C = {concurrency}, two devices: {value} and {routed}");
        }
        // The sign of the comparison, and its condition in closed form.
        let condition = break_even::exclusive_eager_condition(concurrency, LAW, small, extend, decode).unwrap();
        assert_eq!(condition.holds(), eager > large_one, "C = {concurrency}: {condition}");
    }
}

/// Section 5.3: the rounded closed form loses at most 1 % against the exact optimum, and its throughput formula is within 2.4 % at C = 16 and 0.5 %
/// at 64.
#[test]
fn the_closed_form_threshold_is_near_the_optimum() {
    for concurrency in [8, 16, 32, 64, 128] {
        for p in [0.03, 0.1, 0.3] {
            for large_s in [4e-3, 16e-3, 60e-3] {
                let (law, large) = (RoutingLaw { p }, Affine { fixed_s: large_s, ..LARGE });
                let choice = lambert::best_threshold(concurrency, law, SMALL, large).unwrap();
                let at = |m| renewal::exclusive_threshold(concurrency, law, m, time(SMALL), time(large)).unwrap();
                let (_, best) = renewal::exclusive_best_threshold(concurrency, law, time(SMALL), time(large)).unwrap();
                let regret = 1.0 - at(choice.threshold) / best;
                assert!((0.0..=0.01).contains(&regret), "C = {concurrency}, p {p}, a_L {large_s}: regret {regret}");
            }
        }
    }
    for (concurrency, tolerance) in [(16, 0.024), (64, 0.005)] {
        let choice = lambert::best_threshold(concurrency, LAW, SMALL, LARGE).unwrap();
        let exact = renewal::exclusive_threshold(concurrency, LAW, choice.threshold, time(SMALL), time(LARGE)).unwrap();
        assert!((choice.tokens_per_s / exact - 1.0).abs() <= tolerance + 5e-4, "C = {concurrency}");
    }
}

/// Section 5.3: the worked example, and the gain of the best threshold over eager launching.
#[test]
fn the_best_threshold_gains_what_is_published() {
    let choice = lambert::best_threshold(100, LAW, SMALL, LARGE).unwrap();
    assert!((choice.kappa - 0.56).abs() < 0.005 && (choice.waiting_factor - 2.46).abs() < 0.01);
    assert_eq!(choice.threshold, 59);
    for (concurrency, large_s, gain) in [(8, 16e-3, 1.8), (32, 16e-3, 2.4), (64, 16e-3, 2.3), (32, 60e-3, 4.4)] {
        let large = Affine { fixed_s: large_s, ..LARGE };
        let (_, best) = renewal::exclusive_best_threshold(concurrency, LAW, time(SMALL), time(large)).unwrap();
        let value = best / renewal::exclusive_eager(concurrency, LAW, SMALL, large).unwrap();
        assert!((value - gain).abs() <= 0.05, "C = {concurrency}, a_L {large_s}: {value}");
    }
}

/// Section 5.4: on separate devices waiting is worth nothing below kappa = 2 and what the fluid says above. The limit of short visits is approached
/// from above (1.28 against 1.26 at kappa = 5 in the source).
#[test]
fn on_separate_devices_waiting_helps_only_above_kappa_two() {
    for (kappa, concurrency) in [(0.5, 12), (1.5, 12), (5.0, 12), (10.0, 12)] {
        let large = (kappa * 30.0 / LAW.leaving_rate()).round() as u32;
        let at = |m| tokens_per_s(&r2r(concurrency, 0.1, 1e-4, [30, large].map(GridSteps::constant), [1, m]));
        let gain = (2..=concurrency).map(at).fold(0.0, f64::max) / at(1);
        let expected = fluid::separate_waiting_gain(kappa).unwrap();
        assert!((gain - expected).abs() < 0.05, "kappa {kappa}: {gain} and {expected}");
        let (small, large) = (Affine::constant(3e-3), Affine::constant(f64::from(large) * 1e-4));
        assert_eq!(fluid::separate_waiting_helps(LAW, small, large).unwrap(), kappa > 2.0);
        assert_eq!(gain > 1.05, kappa > 2.0, "kappa {kappa}: {gain}");
    }
}

/// Section 5.2: the fluid is 2 to 4 % off on average on separate devices at C = 32 where the threshold binds, and nowhere more than 6 %.
#[test]
fn the_fluid_is_near_the_chain_where_the_threshold_binds() {
    let (small, large) = (Affine::constant(3.01e-3), Affine::constant(16e-3));
    let mut errors = Vec::new();
    for threshold in 7..=28 {
        let Ok(fluid) = fluid::binding_threshold(32, LAW, small, large, threshold, Placement::Separate) else {
            continue;
        };
        let steps = [small, large].map(|step| on_grid(32, 1e-5, step));
        let exact = tokens_per_s(&r2r(32, 0.1, 1e-5, steps, [1, threshold]));
        errors.push((fluid / exact - 1.0).abs());
        assert!(errors[errors.len() - 1] <= 0.06, "threshold {threshold}: {fluid} and {exact}");
    }
    let mean = errors.iter().sum::<f64>() / errors.len() as f64;
    assert!(errors.len() >= 12 && mean <= 0.04, "{errors:?}");
}

/// Sections 4 and 5.1: the mean field against the exact chain, within the tolerance that it states; and within 1.5 % for eager launching with the
/// illustrative ratio of step times. Grids are fine against a small step, so that commensurate times leave no trace.
#[test]
fn the_mean_field_is_near_the_chain() {
    for concurrency in [4, 6, 8, 10] {
        for p in [0.03, 0.1, 0.3] {
            for threshold in 1..=(3 * concurrency / 5) {
                let large = Affine::constant(16.05e-3);
                let system = MeanField {
                    concurrency,
                    law: RoutingLaw { p },
                    small: Affine::constant(3e-3),
                    large,
                    threshold,
                    handoff_s: 0.0,
                };
                let approximate = mean_field::solve(&system).unwrap();
                let steps = [system.small, large].map(|step| on_grid(concurrency, 5e-5, step));
                let exact = tokens_per_s(&r2r(concurrency, p, 5e-5, steps, [1, threshold]));
                let error = approximate.tokens_per_s / exact - 1.0;
                let tolerance = if threshold == 1 { 0.015 } else { approximate.tolerance };
                assert!(error.abs() <= tolerance, "C = {concurrency}, p {p}, threshold {threshold}: {error}");
            }
        }
    }
}

/// The same with step times that grow with the batch, and the internals, because a right throughput with a wrong batch is luck.
#[test]
fn the_mean_field_has_the_chains_internals() {
    let (small, large) = (Affine { fixed_s: 3e-3, per_row_s: 5e-5 }, Affine { fixed_s: 16e-3, per_row_s: 15e-5 });
    let steps = [small, large].map(|step| on_grid(8, 5e-5, step));
    let exact = chain::solve(&r2r(8, 0.1, 5e-5, steps, [1, 2]), &ChainLimits::default()).unwrap();
    let system = MeanField { concurrency: 8, law: LAW, small, large, threshold: 2, handoff_s: 0.0 };
    let approximate = mean_field::solve(&system).unwrap();
    for (name, value, expected, tolerance) in [
        ("throughput", approximate.tokens_per_s, exact.tokens_per_s, 0.01),
        ("batch of the small model", approximate.small.mean_batch, exact.models[0].mean_batch, 0.02),
        ("batch of the large model", approximate.large.mean_batch, exact.models[1].mean_batch, 0.06),
        ("utilisation of the large model", approximate.large.utilisation, exact.models[1].utilisation, 0.06),
        ("wait at the large model", approximate.large.mean_wait_s, exact.models[1].mean_wait_s, 0.08),
    ] {
        assert!((value / expected - 1.0).abs() <= tolerance, "{name}: {value} and {expected}");
    }
}

/// L5: multiplying every time by f divides every throughput by f.
#[test]
fn every_formula_rescales() {
    let scale =
        |step: Affine, factor: f64| Affine { fixed_s: step.fixed_s * factor, per_row_s: step.per_row_s * factor };
    let all = |factor: f64| {
        let (small, large) = (scale(SMALL, factor), scale(LARGE, factor));
        let handoff_s = 1e-3 * factor;
        let demands = bounds::r2r_demands(LAW, small, large).unwrap();
        let system = MeanField { concurrency: 32, law: LAW, small, large, threshold: 4, handoff_s };
        let place = Placement::Overlapped { small_rate: 0.6, large_rate: 0.5 };
        let visits = orbits::FixedVisits { small: 6, large: 1 };
        vec![
            bounds::separate(32, &demands, 2.0 * handoff_s).unwrap(),
            bounds::exclusive(32, &demands).unwrap(),
            bounds::overlapped(32, &demands, [0.6, 0.7], 2.0 * handoff_s).unwrap(),
            renewal::exclusive_eager(32, LAW, small, large).unwrap(),
            renewal::all_wait(32, LAW, small, large).unwrap(),
            renewal::exclusive_threshold(32, LAW, 9, time(small), time(large)).unwrap(),
            renewal::single_request(10.0, small.fixed_s, 1.0, large.fixed_s, 2.0 * handoff_s).unwrap(),
            lambert::best_threshold(32, LAW, small, large).unwrap().tokens_per_s,
            mean_field::solve(&system).unwrap().tokens_per_s,
            fluid::binding_threshold(32, LAW, small, large, 20, place).unwrap(),
            orbits::in_phase(32, visits, small, large, handoff_s).unwrap(),
            orbits::cohorts(32, 2, 20.0 * handoff_s, large).unwrap(),
            orbits::quantised(32, 20.0 * handoff_s, large).unwrap().cycles_per_s,
            break_even::large_only(32, large, 2).unwrap(),
        ]
    };
    for (position, (once, thrice)) in all(1.0).into_iter().zip(all(3.0)).enumerate() {
        assert!((once / thrice / 3.0 - 1.0).abs() < 1e-11, "number {position}: {once} and {thrice}");
    }
}

/// The sizes that the exact chain must handle quickly. The expected values are regression values.
#[test]
fn large_chains_are_solved() {
    let steps = [60, 279].map(GridSteps::constant);
    for (concurrency, threshold) in [(16, 1), (32, 1), (32, 8)] {
        let spec = r2r(concurrency, 0.35, 1e-4, steps.clone(), [1, threshold]);
        let solution = chain::solve(&spec, &ChainLimits::default()).unwrap();
        assert!(solution.residual <= 1e-12 && solution.n_states > 14_000, "{solution:?}");
        let bound = bounds::separate(
            concurrency,
            &bounds::r2r_demands(RoutingLaw { p: 0.35 }, Affine::constant(6e-3), Affine::constant(27.9e-3)).unwrap(),
            0.0,
        );
        assert!(solution.tokens_per_s <= bound.unwrap() / 0.35);
    }
    let spec = ChainSpec {
        concurrency: 6,
        grid_s: 1e-4,
        steps: [60, 120, 279].map(GridSteps::constant).to_vec(),
        thresholds: vec![1; 3],
        routes: vec![vec![0.5, 0.3, 0.2]; 3],
        commits: vec![vec![1.0; 3]; 3],
        entry: 0,
        launch: LaunchRule::Separate,
    };
    let solution = chain::solve(&spec, &ChainLimits::default()).unwrap();
    assert!(solution.residual <= 1e-12 && solution.n_states > 400_000, "{solution:?}");
    // Rows are drawn independently of where a request is, so half of all rows are served by the first model.
    let rows: Vec<f64> = solution.models.iter().map(|model| model.steps_per_s * model.mean_batch).collect();
    assert!((rows[0] / rows.iter().sum::<f64>() - 0.5).abs() < 1e-9);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    /// Section 2: no policy beats its bound, on any placement, with any thresholds.
    #[test]
    fn no_chain_beats_its_bound(
        concurrency in 1_u32..=6,
        p in 0.03..1.0_f64,
        small in (1_u32..10, 0_u32..4),
        large in (1_u32..40, 0_u32..6),
        thresholds in (1_u32..=6, 1_u32..=6),
    ) {
        let thresholds = [thresholds.0, thresholds.1].map(|threshold| threshold.min(concurrency));
        prop_assume!(thresholds[0] + thresholds[1] <= concurrency + 1);
        let steps = [small, large].map(|(fixed, row)| GridSteps::per_batch((1..=concurrency).map(|b| fixed + row * b).collect()));
        let [small, large] = [small, large].map(|(fixed, row)| Affine { fixed_s: f64::from(fixed), per_row_s: f64::from(row) });
        let demands = bounds::r2r_demands(RoutingLaw { p }, small, large).unwrap();
        let spec = r2r(concurrency, p, 1.0, steps, thresholds);
        let bound = bounds::separate(concurrency, &demands, 0.0).unwrap() / p;
        let separate = tokens_per_s(&spec);
        prop_assert!(separate <= bound * (1.0 + 1e-9), "separate: {} above {}", separate, bound);
        for order in [Order::LargeFirst, Order::SmallFirst, Order::Alternate] {
            let bound = bounds::exclusive(concurrency, &demands).unwrap() / p;
            let value = tokens_per_s(&ChainSpec { launch: LaunchRule::Exclusive(order), ..spec.clone() });
            prop_assert!(value <= bound * (1.0 + 1e-9), "{:?}: {} above {}", order, value, bound);
        }
    }

    /// Always routed and always together: the chain is the in-phase orbit (E9), and on an exclusive device its bound is attained.
    #[test]
    fn lock_step_is_the_in_phase_orbit(concurrency in 1_u32..=8, small in 1_u32..30, large in 1_u32..90) {
        let steps = [small, large].map(GridSteps::constant);
        let visits = orbits::FixedVisits { small: 1, large: 1 };
        let [small, large] = [small, large].map(|units| Affine::constant(f64::from(units)));
        let cycles = orbits::in_phase(concurrency, visits, small, large, 0.0).unwrap();
        prop_assert!((tokens_per_s(&r2r(concurrency, 1.0, 1.0, steps, [1, 1])) / cycles - 1.0).abs() < 1e-12);
    }
}
