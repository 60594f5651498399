//! Tuning of thresholds: published optima, methods and their limits, what it says of itself.
#![allow(clippy::unwrap_used)]

use handoff_sim::analytic::tune::{
    Method, Quantity, TuneError, TuneOptions, by_active, confirm, curves, sensitivity, statements, tune,
};
use handoff_sim::scenario::{Embedded, Scenario, Source};

/// The published pair with `sets` as overrides.
fn pair(sets: &[&str]) -> Scenario {
    let text = "[workload]\nrequests = 30\n[[model]]\nname = \"small\"\ncost = { constant_ms = 6.0 }\n[[model]]\nname = \"large\"\ncost = { constant_ms = 27.9 }\n\
                [policy]\nkind = \"r2r\"\np = 0.35\n";
    let source = sets.iter().fold(Source::new("pair.toml", text), |source, set| source.with_set(set).unwrap());
    Scenario::parse(&source, &Embedded::default()).unwrap()
}

fn at(concurrency: u32) -> Scenario {
    pair(&[&format!("workload.concurrency={concurrency}")])
}

/// The serving paper's threshold table (arXiv 2610.12242), column `model`, and the threshold that it stars for each concurrency.
#[test]
fn the_published_cells_and_optima_are_found_exactly() {
    let published: [(u32, &[f64], u32); 4] = [
        (2, &[99.0, 110.3], 2),
        (3, &[142.3, 158.1, 151.9], 2),
        (4, &[187.2, 195.4, 207.9, 190.7], 3),
        (8, &[369.2, 370.6, 374.4, 386.8, 399.0], 5),
    ];
    for (concurrency, cells, starred) in published {
        // On the paper's grid and on the coarsest one that has both times.
        for grid_s in [Some(1e-4), None] {
            let options = TuneOptions { method: Some(Method::Exact), grid_s, ..TuneOptions::default() };
            let tuning = tune(&at(concurrency), &options).unwrap();
            for (threshold, &expected) in (1..).zip(cells) {
                let value = tuning.of(&[1, threshold]).unwrap().throughput;
                assert!((value - expected).abs() <= 0.1, "N = {concurrency}, threshold {threshold}: {value}");
            }
            assert_eq!(tuning.best().thresholds, [1, starred], "N = {concurrency}");
            assert!(tuning.residual.unwrap() <= 1e-12);
            assert_eq!(tuning.n_feasible, f64::from(concurrency * (concurrency + 1) / 2));
            assert!(tuning.grid_steps[1].rounding_s < 1e-12);
        }
    }
}

#[test]
fn candidates_are_ranked_and_losses_are_against_the_best() {
    let tuning = tune(&at(5), &TuneOptions::default()).unwrap();
    assert_eq!((tuning.method, tuning.candidates.len()), (Method::Exact, 15));
    assert!(tuning.candidates.is_sorted_by(|a, b| a.throughput >= b.throughput));
    assert_eq!(tuning.best().loss, 0.0);
    for candidate in &tuning.candidates {
        assert!((candidate.throughput - tuning.best().throughput * (1.0 - candidate.loss)).abs() < 1e-9);
        assert_eq!((candidate.half_width, candidate.replications), (None, 0));
    }
}

/// The same ranking, by simulation, at the top: the winner loses nothing that shows.
#[test]
fn simulation_finds_what_the_chain_finds() {
    for concurrency in [3, 4, 6] {
        let exact = tune(&at(concurrency), &TuneOptions::default()).unwrap();
        let options = TuneOptions { method: Some(Method::Simulate), ..TuneOptions::default() };
        let simulated = tune(&at(concurrency), &options).unwrap();
        let found = exact.of(&simulated.best().thresholds).unwrap();
        assert!(found.loss <= 0.003, "C = {concurrency}: {:?} loses {}", found.thresholds, found.loss);
        let best = simulated.best();
        assert!(
            (best.throughput / found.throughput - 1.0).abs() < 0.01,
            "{} and {}",
            best.throughput,
            found.throughput
        );
        assert!(best.half_width.unwrap() < 0.01 * best.throughput && best.replications == 16);
        // Under common random numbers the order far from the top is right, too.
        let eager = simulated.of(&[1, 1]).unwrap();
        assert!((eager.loss - exact.of(&[1, 1]).unwrap().loss).abs() < 0.01, "C = {concurrency}");
    }
}

#[test]
fn the_result_is_the_same_on_any_number_of_threads() {
    let options = TuneOptions { method: Some(Method::Simulate), ..TuneOptions::default() };
    let scenario = pair(&["workload.concurrency=3", "model.small.jitter_cv=0.1"]);
    let on = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| tune(&scenario, &options).unwrap().candidates)
    };
    assert_eq!(on(1), on(3));
}

/// What the chain does not describe is simulated, and the reason is said.
#[test]
fn auto_falls_back_to_simulation_and_says_why() {
    let cases: [(&[&str], &str); 7] = [
        (&["policy={ kind = \"every\", small = 4, large = 4 }"], "policy `every` is no Markov policy"),
        (
            &["model.large.device=0", "scheduler.corun=[0.4, 0.9]"],
            "placement is overlapped: the chain knows no steps that slow each other down",
        ),
        (&["model.large.cost={ affine = { fixed_ms = 20.0, per_new_token_ms = 0.5 } }"], "depends on new tokens"),
        (&["model.small.jitter_cv=0.05"], "steps of `small` jitter"),
        (&["scheduler.hop_us=300"], "messages between subservers take time"),
        (&["workload.output_tokens=64"], "requests end after 64 tokens"),
        (&["model.large.max_wait_ms=20"], "the longest wait at `large`"),
    ];
    for (sets, reason) in cases {
        let scenario = pair(&[sets, &["workload.concurrency=3", "workload.requests=10"]].concat());
        let tuning = tune(&scenario, &TuneOptions::default()).unwrap();
        assert_eq!(tuning.method, Method::Simulate, "{sets:?}");
        assert!(tuning.notes[0].starts_with("not exact: ") && tuning.notes[0].contains(reason), "{:?}", tuning.notes);
        assert_eq!(tuning.candidates.len(), 6);
    }
}

/// A case that is too large is known to be before anything is solved, and the note names what is done instead.
#[test]
fn a_chain_that_is_too_large_is_refused_up_front() {
    let tight = TuneOptions { states_max: 50_000.0, ..TuneOptions::default() };
    let scenario = pair(&["workload.concurrency=8", "policy.p=0.1", "model.large.cost={ constant_ms = 18.7 }"]);
    let tuning = tune(&scenario, &tight).unwrap();
    assert!(
        tuning.notes[0].contains("states")
            && tuning.notes[0].contains("it is tuned by simulation after screening by the mean field instead"),
        "{:?}",
        tuning.notes
    );
    // Screened vectors keep the value of the mean field and rank below the winner.
    assert_eq!(tuning.method, Method::Simulate);
    let exact = tune(&scenario, &TuneOptions::default()).unwrap();
    assert_eq!(exact.method, Method::Exact);
    assert!(exact.of(&tuning.best().thresholds).unwrap().loss < 0.005);

    let mut forced = TuneOptions { method: Some(Method::Exact), ..TuneOptions::default() };
    forced.limits.max_states = 1_000;
    let error = tune(&scenario, &forced).unwrap_err();
    assert!(error.is_wrong_input());
    let text = error.to_string();
    assert!(
        text.contains("more than the 1000 that one chain may have") && text.contains("tuning falls back to simulation"),
        "{text}"
    );
}

#[test]
fn the_mean_field_ranks_thresholds_of_the_large_model() {
    let scenario = pair(&["workload.concurrency=40", "policy.p=0.1", "model.large.cost={ constant_ms = 28.0 }"]);
    let options = TuneOptions { method: Some(Method::MeanField), ..TuneOptions::default() };
    let tuning = tune(&scenario, &options).unwrap();
    assert_eq!(tuning.method, Method::MeanField);
    // Valid up to 0.6 C.
    assert_eq!(tuning.candidates.len(), 24);
    assert!(tuning.candidates.iter().all(|candidate| candidate.thresholds[0] == 1));
    let simulated = confirm(&scenario, &tuning.best().thresholds, &[vec![1, 1], vec![1, 4], vec![1, 8]], 4).unwrap();
    assert!(simulated.regret < 0.02, "{simulated:?}");
    assert!((simulated.candidates[0].throughput / tuning.best().throughput - 1.0).abs() < 0.02, "{simulated:?}");

    for (sets, reason) in [
        (
            &["model.large.device=0", "scheduler.sharing=exclusive", "scheduler.order=large-first"][..],
            "placement is exclusive:large-first",
        ),
        (&["policy={ kind = \"r-stitch\", a = 0.1, b = 0.3 }"][..], "does not follow the R2R law"),
        (&["workload.concurrency=3"][..], "`concurrency` is 3"),
    ] {
        let error = tune(&pair(sets), &options).unwrap_err();
        assert!(
            matches!(&error, TuneError::NotApplicable { method: Method::MeanField, reason: text } if text.contains(reason)),
            "{error}"
        );
    }
}

/// One exclusive device is exact at any size, and the closed form is close: its statement names the threshold.
#[test]
fn an_exclusive_device_is_exact_at_any_size() {
    let sets = ["model.large.device=0", "scheduler.sharing=exclusive", "scheduler.order=large-first", "policy.p=0.1"];
    let mut shares = Vec::new();
    for concurrency in [8_u32, 24, 64] {
        let scenario = pair(&[&sets[..], &[&format!("workload.concurrency={concurrency}")]].concat());
        let tuning = tune(&scenario, &TuneOptions::default()).unwrap();
        assert_eq!(tuning.method, Method::Exact);
        let best = tuning.best();
        assert_eq!(best.thresholds[0], 1);
        shares.push(f64::from(best.thresholds[1]) / f64::from(concurrency));
        let said = statements(&scenario).unwrap();
        let kappa = said.iter().find(|statement| statement.name == "kappa").unwrap();
        assert!(kappa.text.contains("puts the best threshold of the large model at"), "{}", kappa.text);
        // Prediction (ii): the tuned threshold restores the gain that eager launching loses beyond C* (prediction i).
        let limit = said.iter().find(|statement| statement.placement == "exclusive" && statement.name == "C*").unwrap();
        assert_eq!(limit.value, Some(14.0), "{}", limit.text);
        assert_eq!(limit.pays, Some(concurrency <= 14));
        let restored = said.iter().find(|statement| statement.name == "speed-up at the best threshold").unwrap();
        assert!(restored.value.unwrap() > 1.5 && restored.pays == Some(true), "{}", restored.text);
        let alone = f64::from(concurrency) / 27.9e-3;
        assert!(best.throughput > 1.5 * alone);
        assert_eq!(tuning.of(&[1, 1]).unwrap().throughput > alone, concurrency <= 14, "C = {concurrency}");
    }
    // Prediction (iv): m*/C does not depend on C, up to the whole numbers that thresholds are.
    assert!(shares.iter().all(|share| (share - shares[2]).abs() <= 0.08), "{shares:?}");
}

/// Prediction (iii): on separate devices waiting helps only if kappa exceeds 2.
#[test]
fn separate_devices_need_a_kappa_above_two() {
    for (large_ms, helps) in [(30.0, false), (300.0, true)] {
        let scenario = pair(&[
            "workload.concurrency=12",
            "policy.p=0.1",
            &format!("model.large.cost={{ constant_ms = {large_ms} }}"),
        ]);
        let tuning = tune(&scenario, &TuneOptions::default()).unwrap();
        let gain = tuning.best().throughput / tuning.of(&[1, 1]).unwrap().throughput;
        assert_eq!(gain > 1.05, helps, "{large_ms} ms: {gain}");
        let said = statements(&scenario).unwrap();
        let kappa = said.iter().find(|statement| statement.name == "kappa").unwrap();
        assert_eq!((kappa.value.unwrap() > 2.0, kappa.pays), (helps, Some(helps)), "{}", kappa.text);
    }
}

/// Elasticities to all times add to -1 within 0.01; a larger p costs; what does not exist is left out. With two times the sum is -1 by symmetry, so the
/// case with a third one is the test.
#[test]
fn elasticities_to_times_add_to_minus_one() {
    for sets in [
        &["workload.concurrency=4"][..],
        &["workload.concurrency=6", "scheduler.hop_us=900", "model.small.jitter_cv=0.03", "model.large.jitter_cv=0.03"],
    ] {
        let scenario = pair(&[sets, &["workload.requests=100"]].concat());
        let found = sensitivity(&scenario, &[1, 3], 16).unwrap();
        assert!((found.times_sum + 1.0).abs() <= 0.01, "{} +- {}", found.times_sum, found.times_sum_half_width);
        let of = |quantity: &Quantity| found.elasticities.iter().find(|own| own.quantity == *quantity);
        let times: Vec<_> = found.elasticities.iter().filter(|own| own.quantity.is_time()).collect();
        // Two step times, and the hop where there is one.
        assert_eq!(times.len(), if sets.len() == 1 { 2 } else { 3 });
        assert!((times.iter().map(|own| own.elasticity).sum::<f64>() - found.times_sum).abs() < 1e-9);
        assert!(times.iter().all(|own| (-1.0..0.02).contains(&own.elasticity)), "{times:?}");
        assert!(of(&Quantity::Policy("p")).unwrap().elasticity < -0.1);
        assert!(of(&Quantity::Threshold(1)).is_some());
        // Fixed steps and those with little jitter are given more, and the notes say so.
        assert_eq!(found.notes.len(), 2);
    }
}

/// The lists are taken by a scenario as they are, and end in the thresholds of the closed loop.
#[test]
fn lists_by_active_requests_are_scenarios() {
    let scenario = at(5);
    let mut told = Vec::new();
    let found = by_active(&scenario, &TuneOptions::default(), |active| told.push(active)).unwrap();
    assert_eq!(told, [1, 2, 3, 4, 5]);
    assert_eq!(found.lists[0].len(), 5);
    assert_eq!(found.lists[1][..4], [1, 2, 2, 3]);
    let with_lists = found.sets().iter().fold(scenario.variant(), |variant, set| variant.set(set)).build().unwrap();
    assert_eq!(with_lists.models()[1].thresholds.entries(), found.lists[1]);
    assert_eq!(tune(&scenario, &TuneOptions::default()).unwrap().best().thresholds[1], found.lists[1][4]);
}

#[test]
fn curves_are_drawn_by_every_method_that_holds() {
    let scenario = pair(&["workload.concurrency=8", "policy.p=0.1", "model.large.cost={ constant_ms = 18.0 }"]);
    let found = curves(&scenario, 1, &[1, 1], &TuneOptions::default()).unwrap();
    let names: Vec<&str> = found.iter().map(|curve| curve.name).collect();
    assert_eq!(names, ["exact", "mean field", "fluid", "simulated"]);
    assert_eq!((found[0].points.len(), found[1].points.len(), found[3].points.len()), (8, 4, 8));
    for (exact, simulated) in found[0].points.iter().zip(&found[3].points) {
        assert_eq!(exact.threshold, simulated.threshold);
        assert!((simulated.throughput / exact.throughput - 1.0).abs() < 0.02);
    }
}

#[test]
fn what_cannot_be_tuned_is_refused() {
    let refused = |sets: &[&str]| tune(&pair(sets), &TuneOptions::default()).unwrap_err();
    let open = refused(&["workload={ arrivals = { process = \"poisson\", rate_per_s = 1.0 } }"]);
    assert_eq!(open, TuneError::OpenLoop);
    let mode = refused(&["scheduler.mode=step-sync"]);
    assert_eq!(mode.to_string(), "`scheduler.mode` is step-sync, which ignores thresholds, expected delayed or eager");
    assert!(open.is_wrong_input() && mode.is_wrong_input());
    // Eager is threshold 1 everywhere; tuning starts from there.
    assert!(tune(&pair(&["scheduler.mode=eager", "workload.concurrency=2"]), &TuneOptions::default()).is_ok());
}

/// The break-even statements print their conditions in words, for each placement that has one.
#[test]
fn break_even_is_said_for_each_placement() {
    let overlapped = pair(&["model.large.device=0", "scheduler.corun=[0.41, 0.89]", "scheduler.hop_us=2000"]);
    let said = statements(&overlapped).unwrap();
    let names: Vec<(&str, &str)> = said.iter().map(|statement| (statement.placement, statement.name)).collect();
    for wanted in [
        ("overlapped", "upper bound (tokens/s)"),
        ("any", "N* (steps)"),
        ("any", "break-even of one request"),
        ("separate", "C*"),
        ("exclusive", "C*"),
        ("exclusive", "speed-up at the best threshold"),
        ("overlapped", "C* at most"),
    ] {
        assert!(names.contains(&wanted), "{wanted:?} in {names:?}");
    }
    let steps = said.iter().find(|statement| statement.name == "N* (steps)").unwrap();
    assert!((steps.value.unwrap() - 4.0 / 21.9).abs() < 1e-9, "{}", steps.text);
    assert!(said.iter().all(|statement| !statement.text.is_empty()));
}
