//! Commands that run real models: made-up ones on the processor. What they measure is not tested, what they make of it is.

use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::Duration;

use serde_json::Value;

use super::support::{Workbench, checked_manifest, number};

const MEASURE: &str = "measure --set workload.requests=6 --set workload.output_tokens=12 --set workload.concurrency=2";
/// 8 cells of 3 runs, over the embedded profile.
const VALIDATE: &str = "validate --profile cpu.csv --every 1,4 --concurrency 2 --r2r 0.5 --thresholds 1,2 \
    --threshold-concurrency 3 --placement overlapped --starts 2 --repeats 2 --seconds 0.2 --warmup-seconds 0.02 \
    --set workload.output_tokens=40 --out v";

fn bench() -> Workbench {
    let bench = Workbench::new();
    bench.write("cpu.csv", include_bytes!("../../profiles/cpu-tiny.csv"));
    bench
}

fn header(bench: &Workbench, name: &str) -> String {
    bench.text(name).lines().next().expect("a header").to_owned()
}

#[test]
fn a_measurement_has_the_columns_of_a_simulation() {
    let bench = bench();
    let document = bench.run_words(MEASURE, &["--format", "json", "--out", "m", "--routes", "routes.csv"]).document();
    assert_eq!((&document["device"], &document["weights"]), (&Value::from("cpu"), &Value::from("dummy")));
    let cell = &document["cells"][0];
    assert!(number(cell, "throughput") > 0.0 && number(cell, "tokens") > 50.0, "{cell}");
    let manifest = checked_manifest(&bench, "m");
    assert_eq!(manifest["device"], "cpu (tiny + small, dummy weights)");
    bench.run_words("simulate --scenario pair.toml --out s", &[]).done();
    assert_eq!(header(&bench, "m/rows.csv"), header(&bench, "s/rows.csv"));

    let again = bench.run_words(MEASURE, &["--out", "m", "--routes", "routes.csv"]);
    assert!(again.stderr.contains("already holds this measurement"), "{}", again.stderr);

    // The record is one that a simulation takes.
    let replay = "policy={ kind = \"replay\", file = \"routes.csv\" }";
    let words = "simulate --scenario pair.toml --format json --set workload.output_tokens=12 --set";
    let replayed = bench.run_words(words, &[replay]).document();
    let handoffs = |document: &Value| number(&document["handoffs_per_token"], "mean");
    // How often depends on how far the machine got in the time that was given.
    assert!(handoffs(&replayed) > 0.0, "{}", handoffs(&replayed));
}

#[test]
fn a_grid_is_measured_cell_by_cell() {
    let bench = bench();
    let words = format!("{MEASURE} --grid policy.small=1,6 --replications 2 --seconds 0.05 --format json");
    let document = bench.run_words(&words, &[]).document();
    let cells = document["cells"].as_array().expect("cells");
    assert_eq!(
        cells.iter().map(|cell| cell["grid"].as_str()).collect::<Vec<_>>(),
        [Some("policy.small=1"), Some("policy.small=6")]
    );
    assert!(cells.iter().all(|cell| cell["replications"] == 2 && number(cell, "seconds") > 0.099));
}

#[test]
fn prompts_come_from_a_file() {
    let bench = bench();
    bench.write("prompts.jsonl", "{\"tokens\": [1, 2, 3]}\n{\"tokens\": [4, 5, 6, 7, 8]}\n");
    bench.run_words(MEASURE, &["--prompts", "prompts.jsonl", "--out", "m"]).done();
    bench.write("wrong.jsonl", "{\"tokens\": [1, 2, 3]}\n{\"tokens\": [4, 512]}\n");
    let run = bench.run_words(MEASURE, &["--prompts", "wrong.jsonl", "--out", "w"]);
    assert_eq!(run.status, Some(2), "{}", run.stderr);
    assert!(run.stderr.contains("wrong.jsonl:2") && run.stderr.contains("512"), "{}", run.stderr);
    assert!(!bench.path("w").exists(), "nothing is written");
}

#[test]
fn a_profile_is_one_that_the_simulator_reads() {
    let bench = bench();
    let words = "profile --rows 1,2 --new-tokens 2,4 --kv-tokens 8,24 --corun-rows 1 --out p --format json";
    let document = bench.run_words(words, &[]).document();
    let models = document["models"].as_array().expect("models");
    assert_eq!(models.iter().map(|model| model["model"].as_str()).collect::<Vec<_>>(), [Some("tiny"), Some("small")]);
    assert!(
        models.iter().all(|model| number(&model["held_out"], "points") > 0.0 && number(model, "spread_median") >= 0.0)
    );
    assert_eq!(document["corun"].as_array().expect("rates").len(), 2);
    checked_manifest(&bench, "p");
    let rows = bench.text("p/profile.csv");
    for kind in ["decode", "extend", "corun", "hop", "host"] {
        assert!(rows.contains(&format!(",{kind},")), "no {kind} row");
    }
    let cost = |model: &str, shape: &str| {
        format!("model.{model}.cost={{ profile = \"p/profile.csv\", model = \"{shape}\", graph = false }}")
    };
    let (small, large) = (cost("small", "tiny"), cost("large", "small"));
    bench.run_words("simulate --scenario pair.toml", &["--set", &small, "--set", &large]).done();
    let twice = bench.run_words(words, &[]);
    assert!(twice.stderr.contains("already holds this profile"), "{}", twice.stderr);
}

#[test]
fn a_validation_joins_both_sides() {
    let bench = bench();
    let document = bench.run_words(VALIDATE, &["--format", "json"]).document();
    let cells = document["cells"].as_array().expect("cells");
    assert_eq!(cells.len(), 2 + 2);
    for cell in cells {
        let (predicted, measured) = (number(cell, "predicted"), number(cell, "measured"));
        assert!((number(cell, "error") - (predicted / measured - 1.0)).abs() < 1e-9, "{cell}");
        assert!(number(cell, "predicted_low") <= predicted && predicted <= number(cell, "predicted_high"));
        assert!(number(cell, "measured_low") <= measured && measured <= number(cell, "measured_high"));
        assert!(number(cell, "repeat_spread") >= 0.0 && cell["starts"] == 2);
        // How close the two sides are depends on what else the machine does; what they are shares of does not.
        for share in ["predicted_routed_fraction", "measured_routed_fraction", "predicted_large_utilisation"] {
            assert!((0.0..=1.0).contains(&number(cell, share)), "{share} of {cell}");
        }
    }
    assert_eq!(document["baselines"].as_array().expect("baselines").len(), 2, "one a concurrency");
    let mean = cells.iter().map(|cell| number(cell, "error").abs()).sum::<f64>() / 4.0;
    assert!((number(&document, "mape") - mean).abs() < 1e-9);
    assert_eq!(document["break_even"].as_array().expect("lines").len(), 1);
    let threshold = &document["thresholds"][0];
    assert!(number(threshold, "regret") >= 0.0 && number(threshold, "p") == 0.5, "{threshold}");
    let manifest = checked_manifest(&bench, "v");
    let files: Vec<&str> =
        manifest["files"].as_array().expect("files").iter().filter_map(|file| file["path"].as_str()).collect();
    assert_eq!(
        files,
        ["rows.csv", "profile.csv", "report.json", "figure.svg", "figure.png", "thresholds.svg", "thresholds.png"]
    );
    assert_eq!(bench.read("v/profile.csv"), bench.read("cpu.csv"), "the profile that was used");
    let table = bench.run_words(VALIDATE, &[]);
    assert!(table.stderr.contains("already holds this validation"), "{}", table.stderr);
    let table = table.done();
    for part in ["analytic", "inside: predicted / measured", "Kendall", "break-even", "regret"] {
        assert!(table.contains(part), "no {part} in\n{table}");
    }
}

fn cells_kept(bench: &Workbench) -> Vec<(String, Vec<u8>)> {
    let files = bench.files().into_iter();
    files.filter(|(path, _)| path.starts_with("v/cells/") && path.ends_with(".json")).collect()
}

fn wait_for_a_cell(bench: &Workbench, child: &mut Child) {
    while cells_kept(bench).is_empty() {
        assert!(child.try_wait().expect("a child").is_none(), "the run ended before it could be stopped");
        sleep(Duration::from_millis(2));
    }
}

#[test]
fn a_killed_validation_keeps_its_cells_and_its_profile() {
    let bench = bench();
    let slower = VALIDATE.replace("--seconds 0.2", "--seconds 0.4");
    let words: Vec<&str> = slower.split_whitespace().collect();
    let mut child =
        bench.command(&words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the program starts");
    wait_for_a_cell(&bench, &mut child);
    child.kill().expect("a running child");
    child.wait().expect("a child");
    let kept = cells_kept(&bench);
    assert!(!kept.is_empty() && !bench.path("v/manifest.json").exists());
    let records: Vec<String> = kept
        .iter()
        .map(|(_, bytes)| {
            serde_json::from_slice::<Value>(bytes).expect("a whole file")["record"]
                .as_str()
                .expect("a record")
                .to_owned()
        })
        .collect();
    let run = bench.run(&words);
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    assert!(run.stderr.contains("going on in `v`"), "{}", run.stderr);
    let rows = bench.text("v/rows.csv");
    assert!(records.iter().all(|record| rows.contains(record.trim_end())), "finished cells are not measured again");
    assert_eq!(rows.lines().count(), 1 + 2 + 4);
    checked_manifest(&bench, "v");
}

#[test]
fn what_a_machine_cannot_do_is_refused_before_anything_is_written() {
    let bench = bench();
    let mut texts = String::new();
    let no_shape = "measure --scenario a100-paper";
    let too_big = "measure --set model.0.shape=\"Qwen3-32B\" --set model.1.shape=\"Qwen3-32B\" --set workload.prompt_tokens=30000";
    let vocabularies = "measure --set model.1.shape=\"Qwen3-0.6B\"";
    let unknown = "measure --set model.1.shape=\"Qwen9\"";
    let folder = "measure --set model.1.shape=\"x\" --set model.1.folder=\"y\"";
    for words in [
        no_shape,
        vocabularies,
        unknown,
        folder,
        "measure --set workload.prompt_tokens=50000",
        "measure --seconds 0",
        "measure --seconds 1 --warmup-seconds -1",
        "measure --grid policy.small=1,2 --trace t.json",
        "measure --grid policy.small=1,2 --routes r.csv",
        "profile --graph on",
        "profile --grid seed=1,2",
        "profile --rows 0",
        "validate --grid seed=1,2",
        "validate --r2r 1.5",
        "validate --every none",
        "validate --every none --concurrency none --r2r none",
        "validate --thresholds 9",
        "validate --profile missing.csv",
        "validate --profile pair.toml",
        "validate --placement everywhere",
        "validate --scenario a100-paper",
    ] {
        let run = bench.run_words(words, &["--out", "out"]);
        assert_eq!((run.status, run.stdout.as_str()), (Some(2), ""), "{words}: {}", run.stderr);
        texts.push_str(&format!("$ handoff {words}\n{}\n", run.stderr));
    }
    if !cfg!(feature = "cuda") {
        let run = bench.run_words("measure --device cuda", &["--out", "out"]);
        assert_eq!(run.status, Some(2));
        texts.push_str(&run.stderr);
    }
    let run = bench.run_words(too_big, &["--out", "out"]);
    assert_eq!(run.status, Some(2));
    // How much is free depends on the machine.
    assert!(
        run.stderr.starts_with("error: `small` and `large` do not fit: their weights and buffers need"),
        "{}",
        run.stderr
    );
    assert!(!bench.path("out").exists(), "nothing is written");
    insta::with_settings!({ omit_expression => true }, { insta::assert_snapshot!("machine_refused", texts) });
}
