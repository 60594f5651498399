//! What `simulate` prints and writes, and runs that fail.

use serde_json::{Value, json};

use super::support::{TINY, Workbench, checked_manifest, number};

#[test]
fn the_document_of_one_scenario() {
    let bench = Workbench::new();
    for scenario in [&["--scenario", "pair.toml"][..], &["--scenario", "a100-paper"], &[]] {
        let document = bench.run_words("simulate --format json", &[scenario, &TINY].concat()).document();
        assert_eq!(document["schema"], 1);
        check_document(&document);
    }
}

fn check_document(document: &Value) {
    let throughput = number(document, "throughput");
    assert!(number(document, "ci_low") <= throughput && throughput <= number(document, "ci_high"), "{document}");
    // Tokens over time of all replications together, up to the different lengths of their windows.
    let pooled = document["tokens"].as_u64().expect("a whole number") as f64 / number(document, "seconds");
    assert!((pooled / throughput - 1.0).abs() < 0.1, "{pooled} and {throughput}");
    for latency in ["ttft", "tpot", "latency"].map(|field| &document[field]) {
        let quantiles = ["p50", "p90", "p99"].map(|field| number(latency, field));
        assert!(quantiles.is_sorted() && quantiles[0] > 0.0 && number(latency, "mean") > 0.0, "{latency}");
    }
    assert!(number(&document["ttft"], "mean") < number(&document["latency"], "mean"));
    let models = document["models"].as_array().expect("a list");
    assert_eq!(models.iter().filter_map(|model| model["name"].as_str()).collect::<Vec<_>>(), ["small", "large"]);
    for model in models {
        assert!((0.0..=1.0).contains(&number(&model["utilisation"], "mean")), "{model}");
        assert!(number(&model["batch"], "mean") >= 1.0, "{model}");
        // The histogram counts steps by rows, the rows are also counted by kind.
        let rows: u64 = model["batch_histogram"]
            .as_object()
            .expect("an object")
            .iter()
            .map(|(rows, steps)| rows.parse::<u64>().expect("a number of rows") * steps.as_u64().expect("a count"))
            .sum();
        let by_kind: u64 =
            ["decode", "extend", "prefill"].iter().filter_map(|kind| model["rows"][*kind].as_u64()).sum();
        assert_eq!(rows, by_kind, "{model}");
    }
    let shares: f64 = models.iter().map(|model| number(&model["token_share"], "mean")).sum();
    assert!((shares - 1.0).abs() < 1e-9, "{shares}");
}

/// One request: 12 tokens at 6 ms and 12 at 10 ms, the first of them after 6 ms.
#[test]
fn the_report_of_a_case_on_paper() {
    let bench = Workbench::new();
    let sets = "simulate --scenario pair.toml --set workload.concurrency=1 --set workload.start=in-phase";
    let document = bench.run_words(sets, &["--format", "json"]).document();
    assert!((number(&document, "throughput") / (24.0 / 0.192) - 1.0).abs() < 1e-9, "{document}");
    assert!((number(&document["ttft"], "mean") - 0.006).abs() < 1e-9);
    assert!((number(&document["latency"], "mean") - 0.192).abs() < 1e-9);
    assert!((number(&document["tpot"], "mean") - 0.186 / 23.0).abs() < 1e-7);
    let large = &document["models"][1];
    assert!((number(&large["utilisation"], "mean") - 0.120 / 0.192).abs() < 1e-9);
    assert_eq!(number(&large["run_length_tokens"], "mean"), 2.0);
    assert!((number(&document["handoffs_per_token"], "mean") - 11.0 / 24.0).abs() < 1e-12);

    insta::with_settings!({ omit_expression => true }, {
        insta::assert_snapshot!("report", bench.run_words(sets, &[]).done());
        let grid = bench.run_words(sets, &["--grid", "policy.large=1..3"]);
        insta::assert_snapshot!("report_grid", grid.done());
    });
}

#[test]
fn a_grid_gives_a_document_with_cells() {
    let bench = Workbench::new();
    let simulate = "simulate --scenario pair.toml --grid policy.small=1,2 --grid scheduler.handoff=resume,fresh";
    let document = bench.run_words(simulate, &["--format", "json"]).document();
    let cells = document["cells"].as_array().expect("a list");
    let grid: Vec<&Value> = cells.iter().map(|cell| &cell["grid"]).collect();
    let expected = ["1", "2"]
        .map(|small| ["resume", "fresh"].map(|handoff| json!({ "policy.small": small, "scheduler.handoff": handoff })));
    assert_eq!(grid, expected.as_flattened().iter().collect::<Vec<_>>());
    cells.iter().for_each(check_document);
    for pair in cells.chunks(2) {
        assert!(number(&pair[0], "throughput") > number(&pair[1], "throughput"), "a fresh request pays for its prefix");
    }
    // A cell of a grid is what it would be alone.
    let alone = ["--set", "policy.small=2", "--set", "scheduler.handoff=fresh", "--format", "json"];
    let alone = bench.run_words("simulate --scenario pair.toml", &alone).document();
    for (field, value) in alone.as_object().expect("an object").iter().filter(|(field, _)| *field != "schema") {
        assert_eq!(&cells[3][field], value, "{field}");
    }
}

#[test]
fn a_folder_holds_the_document_the_rows_and_a_manifest() {
    let bench = Workbench::new();
    for (out, grid) in [("one", &[][..]), ("grid", &["--grid", "workload.concurrency=2..4"])] {
        let simulate = format!("simulate --scenario pair.toml --out {out} --format");
        let run = |format: &str| bench.run_words(&simulate, &[&[format], grid].concat());
        let first = run("json");
        assert_eq!(first.stderr, format!("wrote rows.csv, report.json and manifest.json to `{out}`\n"));
        assert_eq!(first.done(), bench.text(&format!("{out}/report.json")));
        let manifest = checked_manifest(&bench, out);
        assert_eq!(manifest["command"][1], "simulate");
        assert_eq!(manifest["files"].as_array().map(Vec::len), Some(2));

        let files = bench.files();
        let again = run("csv");
        assert!(again.stderr.starts_with(&format!("`{out}` already holds this run")), "{}", again.stderr);
        assert_eq!(again.done(), bench.text(&format!("{out}/rows.csv")));
        assert_eq!(bench.files(), files);
    }
}

#[test]
fn overrides_and_the_seed_take_effect() {
    let bench = Workbench::new();
    let run = |words: &str| {
        bench.run_words("simulate --scenario pair.toml --format json", &words.split(' ').collect::<Vec<_>>())
    };
    let first = run("--seed 3").document();
    assert_eq!(first["seed"], 3);
    assert_eq!(run("--set seed=3").document(), first);
    assert_eq!(run("--set seed=9 --seed 3").document(), first, "the argument wins over the override");
    assert_ne!(run("--seed 4").document()["throughput"], first["throughput"]);
    for threads in ["1", "2", "3"] {
        assert_eq!(run(&format!("--seed 3 --threads {threads}")).document(), first);
    }
    // Later overrides win, models go by name or by index.
    let slow = run("--seed 3 --set model.large.cost.constant_ms=15 --set model.1.cost.constant_ms=20").document();
    assert_eq!(run("--seed 3 --set model.large.cost.constant_ms=20").document(), slow);
    assert!(number(&slow, "throughput") < number(&first, "throughput"));
    assert_eq!(run("--set model.large.threshold=3").document()["thresholds"], json!([[1], [3]]));
}

/// Files with a byte order mark are read: spreadsheets write one.
#[test]
fn files_may_begin_with_a_byte_order_mark() {
    let bench = Workbench::new();
    for mark in ["", "\u{feff}"] {
        bench.write("trace.csv", format!("{mark}arrival_s,output_tokens\n0,8\n0.01,9\n0.02,10\n0.03,11\n"));
        let sets = [
            "--set",
            "workload.output_tokens={ csv = 'trace.csv' }",
            "--set",
            "workload.requests=2",
            "--format",
            "csv",
            "--out",
            if mark.is_empty() { "without" } else { "with" },
        ];
        bench.run_words("simulate --scenario pair.toml", &sets).done();
    }
    assert_eq!(bench.text("with/rows.csv"), bench.text("without/rows.csv"));
}

/// What only shows while a scenario runs ends with status 1 and says what happened; a grid names the cell.
#[test]
fn runs_that_fail_say_why() {
    let bench = Workbench::new();
    // Each model has room for one request, and each of two requests keeps its room at one model while it waits for the other.
    let deadlock = "--set workload.concurrency=2 --set model.small.kv_tokens=34 --set model.large.kv_tokens=34 \
        --set workload.start=spread";
    let expected = "stalled at 20.000000 ms: 2 requests are in the system and none can go on; \
        at `small` (threshold 1) 1 wait for KV: [1]; at `large` (threshold 1) 1 wait for KV: [0]\n";
    let run = bench.run_words(&format!("simulate --scenario pair.toml {deadlock}"), &[]);
    assert_eq!((run.status, run.stdout.as_str()), (Some(1), ""));
    assert_eq!(run.stderr, format!("error: {expected}"));

    let run =
        bench.run_words(&format!("simulate --scenario pair.toml {deadlock} --grid policy.large=2 --out out"), &[]);
    assert_eq!(run.status, Some(1));
    assert_eq!(run.stderr, format!("error: cell policy.large=2: {expected}"));
    assert!(!bench.path("out/rows.csv").exists() && !bench.path("out/manifest.json").exists());

    let run =
        bench.run_words(&format!("sweep --scenario pair.toml {deadlock} --every 2 --concurrency 1,2 --out sweep"), &[]);
    assert_eq!(run.status, Some(1));
    assert!(
        run.stderr.starts_with("error: cell placement=separate,every=2,concurrency=2,grid=: stalled at"),
        "{}",
        run.stderr
    );
    assert!(!bench.path("sweep/rows.csv").exists() && !bench.path("sweep/manifest.json").exists());

    // A million requests wait before the program gives up.
    let flood = [
        "--set",
        "workload.arrivals={ process = \"poisson\", rate_per_s = 1e8 }",
        "--set",
        "model.small.cost={ affine = { fixed_ms = 6, per_row_ms = 1 } }",
    ];
    let run = bench.run_words("simulate --scenario pair.toml", &flood);
    assert_eq!((run.status, run.stdout.as_str()), (Some(1), ""));
    assert!(
        run.stderr.starts_with("error: unstable at ")
            && run.stderr.ends_with("they arrive faster than they are served\n")
    );
}

/// All requests finish together, and a single one is measured: the window has no length.
#[test]
fn a_window_without_length_is_no_result() {
    let bench = Workbench::new();
    let arguments =
        "simulate --scenario pair.toml --set workload.start=in-phase --set workload.requests=1 --set workload.warmup=1";
    let run = bench.run_words(arguments, &[]);
    assert_eq!((run.status, run.stdout.as_str()), (Some(1), ""));
    assert!(
        run.stderr.contains("all finished at one instant") && run.stderr.contains("workload.requests"),
        "{}",
        run.stderr
    );
}
