//! `--set`, grids and variants.

use super::super::*;
use super::{EXAMPLE, parse, parse_with_sets};
use crate::workload::Arrivals;

#[test]
fn models_are_addressed_by_name_or_index() {
    for path in ["model.large.threshold", "model.1.threshold"] {
        let scenario = parse_with_sets(EXAMPLE, &[&format!("{path}=2")]).expect("valid");
        assert_eq!(scenario.models()[1].thresholds.at(4), 2);
    }
    let renamed = parse_with_sets(EXAMPLE, &["model.1.name=big", "model.big.threshold=2"]).expect("valid");
    assert_eq!(renamed.models()[1].thresholds.at(4), 2);
    assert_eq!(renamed.model_idx("big"), Some(1));
}

#[test]
fn later_overrides_win_and_list_entries_can_be_set() {
    let sets = ["model.large.threshold=[1, 1, 2]", "model.large.threshold.2=3", "seed=4", "seed=5"];
    let scenario = parse_with_sets(EXAMPLE, &sets).expect("valid");
    assert_eq!(scenario.models()[1].thresholds.entries(), [1, 1, 3]);
    assert_eq!(scenario.seed(), 5);
    assert_eq!(scenario.source().sets().collect::<Vec<_>>(), sets);
}

#[test]
fn overrides_work_without_the_section_and_on_default_models() {
    let scenario =
        parse_with_sets("seed = 1", &["scheduler.mode=eager", "model.large.cost.constant_ms=20"]).expect("valid");
    assert_eq!(scenario.scheduler().mode, Mode::Eager);
    assert_eq!(scenario.models()[1].cost, CostConfig::Constant { constant_ms: 20.0 });
}

#[test]
fn an_override_replaces_the_alternatives_that_the_file_chose() {
    let sets = [
        "policy.kind=every",
        "model.small.cost.affine.fixed_ms=3",
        "workload.arrivals={ process = \"poisson\", rate_per_s = 2 }",
        "model.large.threshold=1",
    ];
    let scenario = parse_with_sets(EXAMPLE, &sets).expect("valid");
    assert_eq!(scenario.policy().kind(), "every");
    assert!(matches!(scenario.models()[0].cost, CostConfig::Affine { .. }));
    assert_eq!(scenario.workload().arrivals(), &Arrivals::Poisson { rate_per_s: 2.0 });
    let same_kind = parse_with_sets(EXAMPLE, &["policy.kind=r2r"]).expect("valid");
    assert_eq!(same_kind.policy_config().number("p"), Some(0.35), "the parameters of the same kind stay");
    let parameter_first = parse_with_sets(EXAMPLE, &["policy.small=3", "policy.kind=every"]).expect("valid");
    assert_eq!(parameter_first.policy_config().number("small"), Some(3.0), "what an option set stays");
}

#[test]
fn variants_are_validated_and_say_how_they_differ() {
    let scenario = parse(EXAMPLE).expect("valid");
    let variant = scenario.variant().every(16).concurrency(8).seed(3).build().expect("valid");
    assert_eq!((variant.policy().kind(), variant.seed()), ("every", 3));
    assert_eq!(variant.workload().arrivals(), &Arrivals::ClosedLoop { concurrency: 8 });
    assert_eq!(variant.source().sets().last(), Some("seed=3"));
    let error = scenario.variant().concurrency(2).build().expect_err("3 of 2 requests never wait").to_string();
    assert!(error.contains("only 2 requests are in the system"), "{error}");
    assert!(scenario.variant().every(0).build().is_err());
    let error = scenario.variant().set("model.large.threshold=0").build().expect_err("no threshold");
    assert_eq!((error.field(), error.value()), (Some("model.large.threshold"), Some("0")));
    assert!(error.to_string().starts_with("--set model.large.threshold=0: expected"), "{error}");
}

#[test]
fn a_variant_takes_any_placement() {
    let scenario = parse_with_sets(EXAMPLE, &["scheduler.corun=[0.41, 0.89]"]).expect("valid");
    for placement in ["separate", "overlapped", "exclusive:large-first", "exclusive:small-first", "exclusive:alternate"]
    {
        let wanted: Placement = placement.parse().expect("a placement");
        let variant = scenario.variant().placement(wanted).build().expect("valid");
        assert_eq!(variant.placement(), wanted);
        assert_eq!(variant.placement().to_string(), placement);
        assert_eq!(variant.scheduler().corun.is_some(), wanted == Placement::Overlapped);
        let back = variant.variant().placement(Placement::Separate).build().expect("valid");
        assert_eq!(back.placement(), Placement::Separate);
    }
    assert!("exclusive".parse::<Placement>().is_err(), "an order must be given");
}

#[test]
fn the_baseline_is_the_large_model_alone() {
    let scenario = parse_with_sets(
        EXAMPLE,
        &["model.large.threshold=[1, 1, 2]", "model.small.device=1", "scheduler.corun=[0.41, 0.89]"],
    )
    .expect("valid");
    let baseline = scenario.variant().policy_large_only().build().expect("valid");
    assert_eq!(
        (baseline.policy().kind(), baseline.scheduler().mode, baseline.placement()),
        ("large-only", Mode::Eager, Placement::Separate)
    );
    assert!(baseline.models().iter().all(|model| model.thresholds.max() == 1));
    assert_eq!(baseline.workload(), scenario.workload());
}

#[test]
fn variants_do_not_read_files_again() {
    let text = "[[model]]\ncost = { profile = \"profile.csv\", model = \"m\" }\n[[model]]\ncost = { profile = \"profile.csv\", model = \"n\" }\n";
    let scenario = parse(text).expect("valid");
    let variant = scenario.variant().placement(Placement::Overlapped).build().expect("the profile is loaded");
    assert!(variant.scheduler().corun.is_some());
    let other = || scenario.variant().set("workload.prompt_tokens={ csv = \"lengths.csv\" }");
    let error = other().build().expect_err("never read").to_string();
    assert!(error.contains("no such file") && error.contains("lengths.csv"), "{error}");
    assert!(other().build_with(&super::files()).is_ok());
}

#[test]
fn a_grid_makes_scenarios() {
    let axes =
        [Axis::parse("policy.p=0.1,0.2").expect("a list"), Axis::parse("model.large.threshold=1..3").expect("a range")];
    let cells = cells(&axes).expect("a small grid");
    let scenario = parse(EXAMPLE).expect("valid");
    let facts: Vec<(Option<f64>, u32)> = cells
        .iter()
        .map(|sets| sets.iter().fold(scenario.variant(), |variant, set| variant.set(set)).build().expect("valid"))
        .map(|scenario| (scenario.policy_config().number("p"), scenario.models()[1].thresholds.at(4)))
        .collect();
    assert_eq!(facts, [0.1, 0.2].map(|p| [1, 2, 3].map(|threshold| (Some(p), threshold))).concat());
}

#[test]
fn wrong_paths_name_the_nearest_field() {
    for (set, hint) in [
        ("model.large.treshold=3", "did you mean `threshold`?"),
        ("modle.large.threshold=3", "did you mean `model`?"),
        ("model.lagre.threshold=3", "did you mean `large`?"),
        ("scheduler.mod=eager", "did you mean `mode`?"),
        ("scheduler.mode=eagre", "did you mean `eager`?"),
        ("policy.kind=r2", "did you mean `r2r`?"),
        ("workload.prompt_tokens.unifrom=[1, 2]", "prompt_tokens"),
    ] {
        let error = parse_with_sets(EXAMPLE, &[set]).expect_err(set).to_string();
        assert!(error.starts_with(&format!("--set {set}: ")) && error.contains(hint), "{error}");
    }
}
