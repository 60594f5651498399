use super::*;
use proptest::prelude::*;

fn r2r(concurrency: u32, p: f64, steps: [GridSteps; 2], thresholds: [u32; 2]) -> ChainSpec {
    ChainSpec {
        concurrency,
        grid_s: 1.0,
        steps: steps.to_vec(),
        thresholds: thresholds.to_vec(),
        routes: vec![vec![1.0 - p, p], vec![1.0, 0.0]],
        commits: vec![vec![1.0, 0.0], vec![1.0, 0.0]],
        entry: 0,
        launch: LaunchRule::Separate,
    }
}

fn constant(units: [u32; 2]) -> [GridSteps; 2] {
    units.map(GridSteps::constant)
}

fn tokens_per_s(spec: &ChainSpec) -> f64 {
    solve(spec, &ChainLimits::default()).unwrap().tokens_per_s
}

#[test]
fn two_requests_have_the_exact_rational_throughput() {
    // Theory, E10: small step 1, large step 5, p = 1/4.
    assert!((tokens_per_s(&r2r(2, 0.25, constant([1, 5]), [1, 1])) - 0.740_31).abs() < 5e-6);
    assert!((tokens_per_s(&r2r(2, 0.25, constant([1, 5]), [1, 2])) - 8.0 / (40.0 / 7.0 + 5.0)).abs() < 1e-12);
}

#[test]
fn a_periodic_chain_is_no_obstacle() {
    // Always routed, in phase (E2): both requests move together, 2 cycles of one token per s + l.
    let spec = r2r(2, 1.0, constant([3, 16]), [1, 1]);
    let solution = solve(&spec, &ChainLimits::default()).unwrap();
    assert!((solution.tokens_per_s - 2.0 / 19.0).abs() < 1e-14);
    assert_eq!((solution.n_states, solution.n_transitions), (2, 2));
    assert!((solution.models[0].utilisation - 3.0 / 19.0).abs() < 1e-14);
    assert_eq!(solution.models[1].mean_batch, 2.0);
}

#[test]
fn one_model_alone_has_one_state() {
    let spec = ChainSpec {
        concurrency: 5,
        grid_s: 0.5,
        steps: vec![GridSteps::constant(4)],
        thresholds: vec![5],
        routes: vec![vec![1.0]],
        commits: vec![vec![2.0]],
        entry: 0,
        launch: LaunchRule::Separate,
    };
    let solution = solve(&spec, &ChainLimits::default()).unwrap();
    assert_eq!((solution.tokens_per_s, solution.n_recurrent), (5.0, 1));
}

#[test]
fn states_that_are_left_for_ever_do_not_count() {
    // The first model only hands over to the second one, which keeps everything.
    let mut spec = r2r(3, 1.0, constant([2, 7]), [1, 1]);
    spec.routes[1] = vec![0.0, 1.0];
    spec.commits[1] = vec![0.0, 1.0];
    let solution = solve(&spec, &ChainLimits::default()).unwrap();
    assert_eq!((solution.n_states, solution.n_recurrent), (2, 1));
    assert!((solution.tokens_per_s - 3.0 / 7.0).abs() < 1e-15);
    assert_eq!(solution.models[0], ModelBehaviour::default());
}

#[test]
fn a_throughput_that_depends_on_chance_is_refused() {
    let spec = ChainSpec {
        concurrency: 1,
        grid_s: 1.0,
        steps: vec![GridSteps::constant(1), GridSteps::constant(2), GridSteps::constant(3)],
        thresholds: vec![1; 3],
        routes: vec![vec![0.0, 0.5, 0.5], vec![0.0, 1.0, 0.0], vec![0.0, 0.0, 1.0]],
        commits: vec![vec![1.0; 3]; 3],
        entry: 0,
        launch: LaunchRule::Separate,
    };
    assert_eq!(solve(&spec, &ChainLimits::default()), Err(ChainError::SeveralRegimes { n_classes: 2 }));
}

#[test]
fn sizes_are_refused_before_and_while_building() {
    let spec = r2r(16, 0.35, constant([60, 279]), [1, 1]);
    let few = ChainLimits { max_states: 10_000, ..ChainLimits::default() };
    assert!(matches!(solve(&spec, &few), Err(ChainError::TooManyStates { limit: 10_000, .. })));
    let few = ChainLimits { max_transitions: 10_000, ..ChainLimits::default() };
    assert_eq!(solve(&spec, &few), Err(ChainError::TooManyTransitions { limit: 10_000 }));
    let many = ChainSpec { concurrency: 1_000_000, ..spec.clone() };
    assert!(matches!(solve(&many, &ChainLimits::default()), Err(ChainError::TooManyStates { .. })));
    let mut wide = ChainSpec {
        steps: vec![GridSteps::constant(1 << 30); 8],
        thresholds: vec![1; 8],
        routes: vec![vec![0.125; 8]; 8],
        commits: vec![vec![1.0; 8]; 8],
        concurrency: 1,
        ..spec
    };
    // All times share their largest divisor, so the residuals need one bit only.
    assert!(solve(&wide, &ChainLimits::default()).is_ok());
    wide.steps[0] = GridSteps::constant((1 << 30) - 1);
    let any_size = ChainLimits { max_states: u64::MAX, ..ChainLimits::default() };
    assert!(matches!(solve(&wide, &any_size), Err(ChainError::StateTooWide { bits }) if bits > 128));
}

#[test]
fn a_solution_that_is_not_good_enough_is_refused() {
    let spec = r2r(8, 0.35, constant([60, 279]), [1, 1]);
    let hasty = ChainLimits { max_passes: 1, ..ChainLimits::default() };
    assert!(matches!(solve(&spec, &hasty), Err(ChainError::NotConverged { residual, .. }) if residual > 1e-12));
}

#[test]
fn thresholds_that_can_stop_the_system_are_refused() {
    let spec = r2r(4, 0.35, constant([60, 279]), [2, 4]);
    let error = solve(&spec, &ChainLimits::default()).unwrap_err();
    assert_eq!(error, ChainError::Infeasible { thresholds: vec![2, 4], concurrency: 4 });
}

#[test]
fn what_does_not_fit_together_is_named() {
    let good = r2r(4, 0.35, constant([60, 279]), [1, 2]);
    let field = |change: &dyn Fn(&mut ChainSpec)| {
        let mut spec = good.clone();
        change(&mut spec);
        match solve(&spec, &ChainLimits::default()) {
            Err(ChainError::Invalid { field, .. }) => field,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(field(&|spec| spec.concurrency = 0), "concurrency");
    assert_eq!(field(&|spec| spec.grid_s = 0.0), "grid_s");
    assert_eq!(field(&|spec| spec.entry = 2), "entry");
    assert_eq!(field(&|spec| spec.steps.clear()), "steps");
    assert_eq!(field(&|spec| spec.steps[1] = GridSteps::constant(0)), "steps[1]");
    assert_eq!(field(&|spec| spec.steps[0] = GridSteps::per_batch(vec![1, 2, 3])), "steps[0]");
    assert_eq!(field(&|spec| spec.thresholds[1] = 0), "thresholds[1]");
    assert_eq!(field(&|spec| spec.thresholds.truncate(1)), "thresholds.len()");
    assert_eq!(field(&|spec| spec.routes[0][1] = 0.36), "sum of routes[0]");
    assert_eq!(field(&|spec| spec.routes[0][1] = f64::NAN), "routes[0][1]");
    assert_eq!(field(&|spec| spec.commits[1][0] = -1.0), "commits[1][0]");
}

#[test]
fn orders_of_an_exclusive_device() {
    let with = |order| ChainSpec { launch: LaunchRule::Exclusive(order), ..r2r(6, 0.3, constant([3, 16]), [1, 1]) };
    // Small first runs the small model until nobody waits there: threshold C.
    let waiting = ChainSpec { thresholds: vec![1, 6], ..with(Order::LargeFirst) };
    let small_first = tokens_per_s(&with(Order::SmallFirst));
    assert!((small_first - tokens_per_s(&waiting)).abs() < 1e-12);
    // Round robin is large first with threshold 1 here: after a small step the large one is next, after a large one the small one has work.
    assert!((tokens_per_s(&with(Order::Alternate)) - tokens_per_s(&with(Order::LargeFirst))).abs() < 1e-12);
    assert!(small_first > tokens_per_s(&with(Order::LargeFirst)));
}

/// Any system of up to three models that fits together.
fn any_spec() -> impl Strategy<Value = ChainSpec> {
    (2_usize..=3, 1_u32..=5).prop_flat_map(|(n, concurrency)| {
        let row = prop::collection::vec(0.05_f64..1.0, n).prop_map(|weights| {
            let total: f64 = weights.iter().sum();
            weights.into_iter().map(|weight| weight / total).collect::<Vec<f64>>()
        });
        let step = prop_oneof![
            (1_u32..12).prop_map(GridSteps::constant),
            (1_u32..8, 0_u32..3).prop_map(move |(fixed, row)| GridSteps::per_batch(
                (1..=concurrency).map(|b| fixed + row * b).collect()
            )),
        ];
        let launch = prop_oneof![
            3 => Just(LaunchRule::Separate),
            1 => Just(LaunchRule::Exclusive(Order::LargeFirst)),
            1 => Just(LaunchRule::Exclusive(Order::Alternate)),
        ];
        (
            prop::collection::vec(step, n),
            prop::collection::vec(row, n),
            prop::collection::vec(prop::collection::vec(0.0_f64..2.0, n), n),
            prop::collection::vec(1..=concurrency, n),
            0..n,
            launch,
        )
            .prop_map(move |(steps, routes, commits, mut thresholds, entry, launch)| {
                while thresholds.iter().map(|threshold| threshold - 1).sum::<u32>() >= concurrency {
                    for threshold in &mut thresholds {
                        *threshold = (*threshold - 1).max(1);
                    }
                }
                ChainSpec { concurrency, grid_s: 0.01, steps, thresholds, routes, commits, entry, launch }
            })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn flows_are_conserved(spec in any_spec()) {
        let solution = solve(&spec, &ChainLimits::default()).unwrap();
        prop_assert!(solution.residual <= 1e-12);
        prop_assert!(solution.n_states as f64 <= estimated_states(&spec));
        let n = spec.steps.len();
        let rows: Vec<f64> = solution.models.iter().map(|model| model.steps_per_s * model.mean_batch).collect();
        let mut tokens = 0.0;
        for j in 0..n {
            // What leaves the models for j is what j serves.
            let arriving: f64 = (0..n).map(|i| rows[i] * spec.routes[i][j]).sum();
            prop_assert!((arriving - rows[j]).abs() <= 1e-9 * rows[j], "model {}: {} in, {} out", j, arriving, rows[j]);
            tokens += (0..n).map(|i| rows[i] * spec.routes[i][j] * spec.commits[i][j]).sum::<f64>();
        }
        prop_assert!((tokens - solution.tokens_per_s).abs() <= 1e-9 * tokens);
        // Little's law over the whole system, where the time in service is known: constant step times.
        if spec.steps.iter().all(|steps| steps.units(1) == steps.units(spec.concurrency)) {
            let present: f64 = (0..n).map(|i| {
                let step_s = f64::from(spec.steps[i].units(1).unwrap()) * spec.grid_s;
                prop_assert!((solution.models[i].utilisation - solution.models[i].steps_per_s * step_s).abs() < 1e-9);
                Ok(solution.models[i].mean_waiting + rows[i] * step_s)
            }).sum::<Result<f64, TestCaseError>>()?;
            prop_assert!((present - f64::from(spec.concurrency)).abs() < 1e-9, "{} requests", present);
        }
    }

    #[test]
    fn multiplying_every_time_divides_the_throughput(spec in any_spec(), factor in 2_u32..6) {
        let n_batches = spec.concurrency;
        let stretched = ChainSpec {
            steps: spec.steps.iter()
                .map(|steps| GridSteps::per_batch((1..=n_batches).map(|b| factor * steps.units(b).unwrap()).collect()))
                .collect(),
            ..spec.clone()
        };
        let (one, other) = (solve(&spec, &ChainLimits::default()).unwrap(), solve(&stretched, &ChainLimits::default()).unwrap());
        prop_assert_eq!(one.n_states, other.n_states);
        prop_assert!((one.tokens_per_s / other.tokens_per_s / f64::from(factor) - 1.0).abs() < 1e-12);
    }
}
