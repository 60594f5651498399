//! What `tune` prints and writes, and what it refuses.

use serde_json::Value;

use super::support::{PAIR, TINY, Workbench, checked_manifest, number};

/// The published pair: exact, and done in milliseconds.
fn published(bench: &Workbench) {
    let text = PAIR
        .replace("constant_ms = 10.0", "constant_ms = 27.9")
        .replace("kind = \"every\"\nsmall = 2\nlarge = 2", "kind = \"r2r\"\np = 0.35")
        .replace("output_tokens = 24", "output_tokens = 600");
    bench.write("r2r.toml", text);
}

#[test]
fn the_document_has_what_scripts_rely_on() {
    let bench = Workbench::new();
    published(&bench);
    let document = bench.run_words("tune --scenario r2r.toml --format json --out out/tune", &[]).document();
    assert_eq!(document["schema"], 1);
    assert_eq!(document["method"], "exact");
    assert_eq!(document["best"]["thresholds"], serde_json::json!([1, 3]));
    assert_eq!(document["best"]["method"], "exact");
    assert!((number(&document["best"], "throughput") - 207.9).abs() < 0.1);
    let candidates = document["candidates"].as_array().expect("a list");
    assert_eq!((candidates.len() as f64, &candidates[0]), (number(&document, "n_feasible"), &document["best"]));
    let throughputs: Vec<f64> = candidates.iter().map(|candidate| number(candidate, "throughput")).collect();
    assert!(throughputs.is_sorted_by(|a, b| a >= b), "{throughputs:?}");
    assert!(number(&document, "residual") <= 1e-12);
    // The rounded step times are part of the result.
    assert_eq!(
        (number(&document["grid"][1], "step_low_ms"), number(&document["grid"][1], "rounding_ms") < 1e-9),
        (27.9, true)
    );
    let curves: Vec<&str> = list(&document["curves"]).iter().filter_map(|curve| curve["method"].as_str()).collect();
    assert!(curves.contains(&"exact") && curves.contains(&"simulated"), "{curves:?}");
}

#[track_caller]
fn list(value: &Value) -> &Vec<Value> {
    value.as_array().expect("a list")
}

#[test]
fn a_folder_holds_rows_report_figure_and_manifest() {
    let bench = Workbench::new();
    published(&bench);
    let tune = "tune --scenario r2r.toml --out out/tune --format";
    let first = bench.run_words(tune, &["json"]);
    assert!(
        first.stderr.ends_with("wrote rows.csv, report.json, figure.svg, figure.png and manifest.json to `out/tune`\n"),
        "{}",
        first.stderr
    );
    assert_eq!(first.done(), bench.text("out/tune/report.json"));
    let manifest = checked_manifest(&bench, "out/tune");
    assert_eq!((&manifest["command"][1], list(&manifest["files"]).len()), (&Value::from("tune"), 4));
    let svg = bench.text("out/tune/figure.svg");
    for text in ["exact", "simulated", "best: thresholds 1 3", "threshold B of large"] {
        assert!(svg.contains(text), "{text}");
    }
    let files = bench.files();
    let again = bench.run_words(tune, &["csv"]);
    assert!(again.stderr.starts_with("`out/tune` already holds this run"), "{}", again.stderr);
    assert_eq!(again.done(), bench.text("out/tune/rows.csv"));
    assert_eq!(bench.files(), files);
    // Another question belongs to another folder.
    let other = bench.run_words("tune --scenario r2r.toml --out out/tune --method simulate", &[]);
    assert_eq!(other.status, Some(2));
    assert!(other.stderr.contains("holds the results of another run"), "{}", other.stderr);
}

#[test]
fn the_table_of_a_published_case() {
    let bench = Workbench::new();
    published(&bench);
    let run = bench.run_words("tune --scenario r2r.toml --top 4 --by-active --out out/tune", &[]);
    insta::with_settings!({ omit_expression => true }, { insta::assert_snapshot!("tune", run.done()) });
}

#[test]
fn thresholds_by_active_requests_are_taken_by_a_scenario() {
    let bench = Workbench::new();
    published(&bench);
    let document = bench.run_words("tune --scenario r2r.toml --by-active --format json", &[]).document();
    assert_eq!(document["by_active"]["lists"][1], serde_json::json!([1, 2, 2, 3]));
    let sets: Vec<&str> =
        list(&document["by_active"]["sets"]).iter().flat_map(|set| ["--set", set.as_str().expect("a text")]).collect();
    bench.run_words("simulate --scenario r2r.toml", &sets).done();
}

#[test]
fn the_choice_is_confirmed_and_its_sensitivity_reported() {
    let bench = Workbench::new();
    published(&bench);
    let words =
        "tune --scenario r2r.toml --confirm 3 --sensitivity --method simulate --format json --set workload.requests=40";
    let document = bench.run_words(words, &[]).document();
    assert_eq!(document["method"], "simulate");
    assert!(number(&document["best"], "ci_low") < number(&document["best"], "ci_high"));
    let confirmation = &document["confirmation"];
    let regret = number(confirmation, "regret");
    assert!((0.0..0.01).contains(&regret), "{confirmation}");
    assert!(number(confirmation, "regret_low") <= regret && regret <= number(confirmation, "regret_high"));
    // Three candidates, and threshold 1 everywhere.
    assert_eq!(list(&confirmation["candidates"]).len(), 4);
    assert_eq!(confirmation["candidates"][0]["thresholds"], document["best"]["thresholds"]);
    let sensitivity = &document["sensitivity"];
    assert!((number(sensitivity, "times_sum") + 1.0).abs() < 0.02, "{sensitivity}");
    assert!(list(&sensitivity["elasticities"]).iter().any(|own| own["name"] == "p of r2r"));
}

/// No file is needed; what runs instead is said.
#[test]
fn the_default_scenario_is_said() {
    let bench = Workbench::new();
    let run = bench.run_words("tune --format json --set policy.p=0.3", &TINY);
    assert!(
        run.stderr.starts_with(
            "without --scenario: the models of the embedded scenario h200 with policy r2r, p = 0.35, mode delayed\n"
        ),
        "{}",
        run.stderr
    );
    assert!(run.stderr.contains("not exact: placement is overlapped"), "{}", run.stderr);
    let document = run.document();
    assert_eq!(
        (&document["policy"], &document["placement"], &document["method"]),
        (&"r2r".into(), &"overlapped".into(), &"simulate".into())
    );
    // Without --out the folder has a name of its own.
    assert!(bench.files().keys().any(|path| path.starts_with("out/tune-") && path.ends_with("/manifest.json")));
}

#[test]
fn placements_and_modes_are_compared() {
    let bench = Workbench::new();
    published(&bench);
    let words = "tune --compare --scenario r2r.toml --concurrency 1,4,24 --out out/compare";
    let sets = ["--set", "scheduler.corun=[0.41, 0.89]", "--set", "policy.p=0.1"];
    let run = |format: &str| bench.run_words(words, &[&sets[..], &["--format", format]].concat());
    let document = run("json").document();
    let cells = list(&document["cells"]);
    let of = |concurrency: u32, place: &str, mode: &str| {
        let found = cells.iter().find(|cell| {
            let order = cell["order"].as_str().map_or_else(String::new, |order| format!(":{order}"));
            cell["concurrency"] == concurrency
                && format!("{}{order}", cell["placement"].as_str().expect("a text")) == place
                && cell["mode"] == mode
        });
        number(found.unwrap_or_else(|| panic!("no cell {concurrency}, {place}, {mode}")), "throughput")
    };
    for place in ["separate", "overlapped", "exclusive:large-first", "exclusive:small-first"] {
        for concurrency in [1, 4, 24] {
            // Threshold 1 is among the thresholds that are tried, and the routes are the same.
            let gain = of(concurrency, place, "delayed") / of(concurrency, place, "eager");
            assert!(gain > 0.99, "{place}, C = {concurrency}: {gain}");
            for mode in ["step-sync", "model-sync"] {
                assert!(of(concurrency, place, mode) > 0.0);
            }
        }
    }
    // Prediction (i) and (ii) of the theory: eager loses to the large model alone beyond C*, here 14, and the tuned threshold wins it back.
    assert!(of(24, "exclusive:large-first", "eager") < of(24, "large model alone", "large-only"));
    assert!(of(24, "exclusive:large-first", "delayed") > of(24, "large model alone", "large-only"));
    let winners = list(&document["winners"]);
    assert_eq!(winners.len(), 3);
    assert_eq!(winners[2]["placement"], "separate");
    assert!(winners[2]["one_device_placement"].as_str().is_some_and(|place| place != "separate"));
    // With one request nothing ever overlaps.
    assert_eq!(list(&winners[0]["tied_with"]).len(), 3, "{}", winners[0]);

    // With many, the second device pays.
    let pulls_ahead = |change: &&Value| {
        change["placement"] == "separate"
            && change["event"] == "pulls ahead of"
            && change["other"] == "exclusive:large-first"
    };
    assert_eq!(list(&document["changes"]).iter().filter(pulls_ahead).count(), 1, "{}", document["changes"]);

    assert_eq!(bench.text("out/compare/report.json"), run("json").done());
    assert_eq!(bench.text("out/compare/rows.csv"), run("csv").done());
    let table = run("table").done();
    for text in [
        "C = 24: separate wins with thresholds",
        "; on one device ",
        "level with it: ",
        "separate pulls ahead of",
        "large model alone",
    ] {
        assert!(table.contains(text), "{text} in {table}");
    }
    checked_manifest(&bench, "out/compare");
}

/// Without rates an overlapped placement cannot be told; it is left out with its reason, unless it was asked for.
#[test]
fn an_overlapped_placement_needs_rates() {
    let bench = Workbench::new();
    published(&bench);
    let words = "tune --compare --scenario r2r.toml --concurrency 2 --format json";
    let run = bench.run_words(words, &[]);
    assert!(run.stderr.contains("overlapped placement is left out: "), "{}", run.stderr);
    let document = run.document();
    assert!(list(&document["cells"]).iter().all(|cell| cell["placement"] != "overlapped"));
    assert_eq!(list(&document["notes"]).len(), 1);
    let asked = bench.run_words(words, &["--placement", "overlapped"]);
    assert_eq!(asked.status, Some(2));
    assert!(asked.stderr.contains("cell placement=overlapped"), "{}", asked.stderr);
}

#[test]
fn wrong_inputs_are_named() {
    let bench = Workbench::new();
    published(&bench);
    let cases: [(&str, &[&str]); 15] = [
        (
            "--grid workload.concurrency=2..4",
            &["--grid workload.concurrency=2..4", "tune runs over the thresholds itself"],
        ),
        ("--method magic", &["--method <METHOD>", "magic", "auto, exact, mean-field, simulate"]),
        ("--concurrency 2,4", &["--concurrency 2,4", "expected one number"]),
        ("--concurrency 0", &["--concurrency 0", "`0` is not a whole number from 1"]),
        ("--compare --concurrency 2,2", &["--concurrency 2,2", "appears twice"]),
        ("--compare --placement shared", &["--placement shared", "expected one of `separate`"]),
        ("--placement separate", &["--placement separate", "goes with --compare"]),
        ("--compare --confirm", &["--compare", "--confirm"]),
        ("--confirm 1", &["--confirm 1", "at least 2"]),
        ("--step-grid-ms 0", &["--step-grid-ms 0", "expected a number from"]),
        ("--step-grid-ms 100 --method exact", &["method exact does not apply", "too coarse"]),
        ("--method mean-field --concurrency 2", &["method mean-field does not apply", "`concurrency` is 2"]),
        ("--set scheduler.mode=step-sync", &["`scheduler.mode` is step-sync", "delayed or eager"]),
        (
            "--method exact --set policy={kind=\"every\",small=2}",
            &["method exact does not apply", "`every` is no Markov policy"],
        ),
        (
            "--set workload={arrivals={process=\"poisson\",rate_per_s=2.0}}",
            &["the arrivals are an open loop", "workload.concurrency"],
        ),
    ];
    let before = bench.files();
    for (words, named) in cases {
        let run = bench.run_words(&format!("tune --scenario r2r.toml {words}"), &[]);
        assert_eq!((run.status, run.stdout.as_str()), (Some(2), ""), "{words}: {}", run.stderr);
        for part in named {
            assert!(run.stderr.contains(part), "{words}: `{part}` in {}", run.stderr);
        }
    }
    assert_eq!(bench.files(), before, "nothing was written");
}
