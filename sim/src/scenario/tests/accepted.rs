//! Scenarios that are accepted, and what they mean.

use super::super::*;
use super::{EXAMPLE, parse, parse_with_sets};
use crate::cost::{BatchShape, CorunRates, HostCost, Jitter};
use crate::workload::{Arrivals, Lengths, Start, Warmup};

const PROFILED: &str = r#"
[[model]]
cost = { profile = "profile.csv", model = "m" }
router = { profile = "profile.csv", model = "m" }
jitter = "measured"
host = "profile"
device = 0

[[model]]
cost = { profile = "profile.csv", model = "n", device = "H200" }
router = { constant_ms = 0.5 }
device = 0

[scheduler]
mode = "eager"
"#;

#[test]
fn the_documented_example_is_accepted() {
    let scenario = parse(EXAMPLE).expect("the example is valid");
    assert_eq!(scenario.seed(), 1);
    assert_eq!(scenario.workload().arrivals(), &Arrivals::ClosedLoop { concurrency: 4 });
    assert_eq!(scenario.workload().requests(), 200);
    assert_eq!(scenario.workload().prompt(), &Lengths::Constant(100));
    assert_eq!(scenario.workload().output(), &Lengths::Constant(2048));
    assert_eq!(scenario.workload().start(), Start::Random);
    assert_eq!(scenario.workload().warmup(), Warmup::Auto);
    assert_eq!(scenario.replications(), Replications { min: 10, max: 30 });
    let [small, large] = scenario.models() else { panic!("two models") };
    assert_eq!((small.name.as_str(), large.name.as_str()), ("small", "large"));
    assert_eq!(small.latency.step(&BatchShape::decode(3, 100)).ns, 6_000_000);
    assert_eq!(large.latency.step(&BatchShape::decode(3, 100)).ns, 27_900_000);
    assert_eq!((small.thresholds.entries(), large.thresholds.entries()), ([1].as_slice(), [3].as_slice()));
    assert_eq!(
        (small.max_wait_ns, small.hold, small.kv_tokens, large.kv_tokens),
        (None, Hold::Both, 200_000, 1_000_000_000_000)
    );
    assert_eq!((scenario.policy().kind(), scenario.policy_config().number("p")), ("r2r", Some(0.35)));
    let scheduler = scenario.scheduler();
    assert_eq!((scheduler.mode, scheduler.sharing, scheduler.order), (Mode::Delayed, Sharing::Overlapped, None));
    assert_eq!((scheduler.mix_extend, scheduler.first, scheduler.loops), (true, First::Extend, Loops::Decoupled));
    assert_eq!((scheduler.handoff, scheduler.hop_ns, scheduler.kv_full), (Handoff::Resume, 0, KvFull::Wait));
    assert_eq!(scenario.placement(), Placement::Separate);
}

#[test]
fn every_field_of_the_example_is_at_its_default_but_the_threshold_and_the_kv_budget() {
    let given =
        parse_with_sets(EXAMPLE, &["model.large.threshold=1", "model.small.kv_tokens=1000000000000"]).expect("valid");
    let default = parse("seed = 1").expect("valid");
    let facts = |scenario: &Scenario| {
        let Scenario { seed, workload, replications, models, policy, scheduler, .. } = scenario;
        format!("{seed} {workload:?} {replications:?} {models:?} {policy:?} {scheduler:?}")
    };
    assert_eq!(facts(&given), facts(&default));
}

#[test]
fn a_profile_gives_steps_routers_jitter_host_and_rates() {
    let scenario = parse(PROFILED).expect("valid");
    let [small, large] = scenario.models() else { panic!("two models") };
    assert_eq!(small.latency.step(&BatchShape::decode(8, 512)).ns, 2_300_000);
    assert_eq!(large.latency.step(&BatchShape::decode(8, 512)).ns, 21_000_000);
    let router_ns = |model: &ModelSpec| model.router.as_ref().map(|router| router.step(&BatchShape::decode(8, 512)).ns);
    assert_eq!((router_ns(small), router_ns(large)), (Some(170_000), Some(500_000)));
    assert!(small.jitter.cv() > 0.0);
    assert_eq!(large.jitter, Jitter::none());
    assert_eq!(small.host, HostCost { launch_ns: 10_500, loop_ns: 0, message_ns: 0 });
    let given = parse_with_sets(PROFILED, &["scheduler.message_us=1"]).expect("valid");
    assert_eq!(given.models()[0].host, HostCost { launch_ns: 10_500, loop_ns: 0, message_ns: 1_000 });
    assert_eq!(scenario.placement(), Placement::Overlapped);
    let rates = scenario.scheduler().corun.as_ref().expect("the models overlap");
    assert_eq!(rates.rate(handoff_scheduler::ModelIdx(0), 1, handoff_scheduler::ModelIdx(1), 1), 0.41);
}

#[test]
fn given_rates_come_before_the_profiles() {
    let scenario = parse_with_sets(PROFILED, &["scheduler.corun=[0.5, 0.75]"]).expect("valid");
    assert_eq!(scenario.scheduler().corun, CorunRates::constant([0.5, 0.75]).ok());
}

#[test]
fn files_give_lengths_arrivals_and_routes() {
    let sets = [
        "workload.prompt_tokens={ csv = \"lengths.csv\" }",
        "workload.output_tokens={ csv = \"lengths.csv\" }",
        "workload.arrivals={ process = \"trace\", csv = \"arrivals.csv\" }",
        "workload.requests=3",
        "policy={ kind = \"replay\", file = \"routes.csv\", entry = \"small\" }",
        "model.large.max_wait_ms=10",
    ];
    let scenario = parse_with_sets(EXAMPLE, &sets).expect("valid");
    assert_eq!(scenario.workload().prompt(), &Lengths::Recorded(vec![10, 30]));
    assert_eq!(scenario.workload().output(), &Lengths::Recorded(vec![20, 40]));
    assert_eq!(scenario.workload().arrivals(), &Arrivals::Trace { arrivals_ns: vec![0, 500_000_000, 2_000_000_000] });
    assert_eq!((scenario.policy().kind(), scenario.policy().entry().idx()), ("replay", 0));
}

#[test]
fn each_form_of_a_field_has_its_meaning() {
    let set = |set: &str| parse_with_sets(EXAMPLE, &[set]).unwrap_or_else(|error| panic!("{error}"));
    let workload = |text: &str| set(text).workload().clone();
    assert_eq!(
        workload("workload.output_tokens={ uniform = [50, 150] }").output(),
        &Lengths::Uniform { low: 50, high: 150 }
    );
    assert_eq!(
        workload("workload.output_tokens={ lognormal = { mean = 100, cv = 0.5 } }").output(),
        &Lengths::Lognormal { mean: 100.0, cv: 0.5 }
    );
    assert_eq!(workload("workload.warmup=7").warmup(), Warmup::Requests(7));
    assert_eq!(workload("workload.start=in-phase").start(), Start::InPhase);
    assert_eq!(set("workload.replications_min=40").replications(), Replications { min: 40, max: 40 });
    let step_ns = |text: &str| set(text).models()[0].latency.step(&BatchShape::decode(2, 100)).ns;
    assert_eq!(
        step_ns(
            "model.small.cost.affine={ fixed_ms = 3, per_row_ms = 0.5, per_new_token_ms = 0.25, per_kv_token_us = 1 }"
        ),
        4_700_000
    );
    assert!(step_ns("model.small.cost.roofline={ model = \"Qwen3-0.6B\", device = \"H200\" }") > 100_000);
    assert_eq!(set("model.small.jitter_cv=0.1").models()[0].jitter, Jitter::lognormal(0.1).expect("valid"));
    let host = set("model.small.host={ launch_us = 1, loop_us = 2 }").models()[0].host;
    assert_eq!(host, HostCost { launch_ns: 1_000, loop_ns: 2_000, message_ns: 0 });
    assert_eq!(
        set("scheduler.message_us=1.5").models()[1].host,
        HostCost { launch_ns: 0, loop_ns: 0, message_ns: 1_500 }
    );
    assert_eq!(
        set("scheduler.handoff=fresh").scheduler().handoff,
        Handoff::Fresh { fixed_ns: 4_000_000, per_context_token_ns: 15_000.0 }
    );
    assert_eq!(set("model.small.max_wait_ms=2.5").models()[0].max_wait_ns, Some(2_500_000));
    assert_eq!(set("scheduler.hop_gb_per_s=3.7").scheduler().hop_gb_per_s, Some(3.7));
    assert_eq!(set("seed=18446744073709551615").seed(), u64::MAX);
}

#[test]
fn every_policy_is_within_reach() {
    for (policy, kind) in [
        ("{ kind = \"every\" }", "every"),
        ("{ kind = \"every\", small = 4, large = 2 }", "every"),
        (
            "{ kind = \"markov\", routes = [[0.5, 0.5], [1, 0]], commits = [[1, 1], [1, 1]], entry = \"large\" }",
            "markov",
        ),
        ("{ kind = \"r2r\" }", "r2r"),
        ("{ kind = \"citer\", p = 0.1 }", "citer"),
        ("{ kind = \"co-llm\" }", "co-llm"),
        ("{ kind = \"r-stitch\", a = 0.1, b = 0.3, commit_on_return = false }", "r-stitch"),
        ("{ kind = \"r-stitch\", signal = \"measured\" }", "r-stitch"),
        ("{ kind = \"me\", weights = [0.5, 0.5] }", "me"),
        (
            "{ kind = \"phases\", phase = [{ kind = \"r2r\", p = 0.5 }, { kind = \"r2r\", p = 0.1 }], mean_tokens = [20, 80] }",
            "phases",
        ),
        ("{ kind = \"replay\", file = \"routes.csv\" }", "replay"),
        ("{ kind = \"large-only\" }", "large-only"),
        ("{ kind = \"small-only\" }", "small-only"),
    ] {
        let scenario = parse_with_sets(EXAMPLE, &[&format!("policy={policy}")])
            .unwrap_or_else(|error| panic!("{policy}: {error}"));
        assert_eq!(scenario.policy().kind(), kind);
    }
}

#[test]
fn a_measured_signal_needs_models_or_probabilities_that_stand_in() {
    let parse =
        |fields: &str| parse_with_sets(EXAMPLE, &[&format!("policy={{ kind = \"r-stitch\", {fields} }}")]).unwrap();
    let error = parse("signal = \"measured\"").simulable().unwrap_err();
    assert_eq!(error.field(), Some("policy.signal"));
    assert!(error.to_string().contains("kind = \"replay\""), "{error}");
    assert!(parse("signal = \"measured\", a = 0.1, b = 0.2").simulable().is_ok());
    assert!(parse("a = 0.1, b = 0.2").simulable().is_ok());
}

#[test]
fn thresholds_are_feasible_exactly_while_their_excess_is_below_the_concurrency() {
    let refused = |small: u32, large: u32, concurrency: u32| {
        let sets = [
            format!("model.small.threshold={small}"),
            format!("model.large.threshold={large}"),
            format!("workload.concurrency={concurrency}"),
        ];
        parse_with_sets(EXAMPLE, &[&sets[0], &sets[1], &sets[2]]).is_err()
    };
    for (small, large) in (1..=5).flat_map(|small| (1..=5).map(move |large| (small, large))) {
        for concurrency in 1..=8 {
            assert_eq!(
                refused(small, large, concurrency),
                small + large > concurrency + 1,
                "{small} {large} {concurrency}"
            );
        }
    }
}

#[test]
fn a_threshold_list_is_checked_at_every_number_of_active_requests_and_its_last_entry_holds_beyond() {
    let with_list =
        |list: &str| parse_with_sets(EXAMPLE, &[&format!("model.large.threshold={list}"), "workload.concurrency=8"]);
    let scenario = with_list("[1, 2, 3]").expect("feasible");
    assert_eq!([1, 2, 3, 8].map(|active| scenario.models()[1].thresholds.at(active)), [1, 2, 3, 3]);
    assert!(with_list("[1, 3, 3]").is_err());
    assert!(with_list("[2]").is_err());
    assert!(with_list("[1, 1, 1, 1, 1, 1, 1, 8, 99]").is_ok(), "99 is for 9 active requests, and there are 8");
}

#[test]
fn infeasible_thresholds_can_be_let_through_for_tests() {
    let source = Source::new("scenario.toml", EXAMPLE).with_set("model.large.threshold=9").expect("well-formed");
    assert!(Scenario::parse(&source, &super::files()).is_err());
    let scenario = Scenario::parse(&source.with_feasibility_check(false), &super::files()).expect("not checked");
    assert!(scenario.variant().concurrency(2).build().is_ok(), "variants keep the choice");
}

#[test]
fn policies_that_never_route_need_no_signal() {
    let scenario = parse(PROFILED).expect("valid");
    let baseline = scenario.variant().policy_large_only().build().expect("valid");
    assert!(baseline.models().iter().all(|model| model.router.is_none()));
}

#[test]
fn the_orders_default_is_for_model_sync_only() {
    let order = |sets: &[&str]| parse_with_sets(EXAMPLE, sets).map(|scenario| scenario.scheduler().order);
    assert_eq!(order(&["scheduler.mode=model-sync", "model.large.threshold=1"]), Ok(Some(Order::LargeFirst)));
    assert_eq!(order(&["scheduler.sharing=exclusive"]), Ok(None));
    assert!(order(&["scheduler.sharing=exclusive", "model.large.device=0"]).is_err());
    assert_eq!(
        order(&["scheduler.sharing=exclusive", "model.large.device=0", "scheduler.order=alternate"]),
        Ok(Some(Order::Alternate))
    );
}

#[test]
fn the_scenarios_of_the_experiments_are_accepted() {
    let experiments = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../experiments");
    let read = |name: &str| {
        let path = experiments.join("scenarios").join(name);
        let source = Source::read(&path).unwrap_or_else(|error| panic!("{error}"));
        Scenario::parse(&source, &Folders::of_scenario(&path)).unwrap_or_else(|error| panic!("{error}"))
    };
    let published = read("a100-paper.toml");
    assert_eq!(
        (published.policy().kind(), published.placement(), published.models()[1].thresholds.at(4)),
        ("r2r", Placement::Separate, 3)
    );
    let measured = read("h200.toml");
    assert_eq!(
        (measured.policy().kind(), measured.placement(), measured.scheduler().mode),
        ("every", Placement::Overlapped, Mode::Eager)
    );
}
