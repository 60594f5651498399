//! What `sweep` prints: the document, the rows, the break-even.

use serde_json::{Value, json};

use super::support::{TINY, Workbench, number};

/// The first fields of a cell, which scripts rely on.
const CELL_FIELDS: [&str; 13] = [
    "placement",
    "order",
    "every",
    "concurrency",
    "throughput",
    "ci_low",
    "ci_high",
    "handoffs_per_token",
    "speedup",
    "baseline_throughput",
    "orbit_low",
    "orbit_high",
    "large_batch_mean",
];

/// The paper's example as the documentation shows it, with a threshold of the large model.
const EXAMPLE: &str = r#"seed = 1

[workload]
concurrency = 4
requests = 200
prompt_tokens = { lognormal = { mean = 100, cv = 0.5 } }
output_tokens = 2048
start = "random"
warmup = "auto"
precision = 0.01

[[model]]
name = "small"
cost = { affine = { fixed_ms = 5.0, per_row_ms = 0.02, per_new_token_ms = 0.01, per_kv_token_us = 0.01 } }
threshold = 1
max_wait_ms = 0.0
hold = "both"
kv_tokens = 200000
device = 0

[[model]]
name = "large"
cost = { constant_ms = 27.9 }
threshold = 3
device = 1

[policy]
kind = "r2r"
p = 0.35

[scheduler]
mode = "delayed"
sharing = "overlapped"
mix_extend = true
loops = "decoupled"
handoff = "resume"
hop_us = 10.0
"#;

#[test]
fn the_document_of_the_default_scenario() {
    let bench = Workbench::new();
    let document = bench.run_words("sweep --every 1,2,4 --concurrency 1,4 --format json", &TINY).document();
    check_document(&document, &["separate", "overlapped", "exclusive", "exclusive"], &[1, 4]);
    let orders: Vec<&Value> = cells(&document).iter().step_by(6).map(|cell| &cell["order"]).collect();
    assert_eq!(orders, [&json!(null), &json!(null), &json!("small-first"), &json!("large-first")]);
}

#[test]
fn the_document_of_a_scenario_file() {
    let bench = Workbench::new();
    bench.write("example.toml", EXAMPLE);
    let sweep = "sweep --scenario example.toml --every 1,2,4 --format json --out";
    let document = bench.run_words(sweep, &[&["out", "--concurrency", "3,4"][..], &TINY].concat()).document();
    check_document(&document, &["separate"], &[3, 4]);
    assert_eq!(bench.json("out/manifest.json")["scenario"]["name"], "example.toml");

    // A threshold of 3 would never be reached by one request.
    let refused = bench.run_words(sweep, &[&["other", "--concurrency", "1,4"][..], &TINY].concat());
    assert_eq!(refused.status, Some(2));
    assert!(
        refused.stderr.contains("cell workload.concurrency=1, every=1: example.toml:24: model.large.threshold = 3")
    );
    assert!(!bench.path("other").exists());
}

/// A grid of `placements` x `concurrencies` x N = 1, 2, 4.
fn check_document(document: &Value, placements: &[&str], concurrencies: &[u64]) {
    assert_eq!(document["schema"], 1);
    let cells = cells(document);
    let mut found = cells.iter();
    for placement in placements {
        for concurrency in concurrencies {
            for every in [1, 2, 4] {
                let cell = found.next().expect("a cell for each combination, and no more");
                assert_eq!(cell["placement"], **placement);
                assert_eq!((&cell["concurrency"], &cell["every"]), (&json!(concurrency), &json!(every)));
                check_cell(cell, *concurrency as f64);
            }
        }
    }
    assert!(found.next().is_none(), "large-only is no cell");
    check_break_evens(document, placements.len() * concurrencies.len());
}

fn check_cell(cell: &Value, concurrency: f64) {
    let names: Vec<&str> = cell.as_object().expect("a cell is an object").keys().map(String::as_str).collect();
    for field in CELL_FIELDS {
        assert!(names.contains(&field), "{field} of {cell}");
    }
    assert_eq!(cell["order"].is_string(), cell["placement"] == "exclusive", "{cell}");
    assert!(cell["flagged"].is_boolean(), "{cell}");
    let [throughput, baseline] = ["throughput", "baseline_throughput"].map(|field| number(cell, field));
    assert!(throughput > 0.0 && baseline > 0.0, "{cell}");
    assert!(number(cell, "ci_low") <= throughput && throughput <= number(cell, "ci_high"), "{cell}");
    // The mean of equal numbers may differ from them in the last digit.
    assert!(number(cell, "orbit_low") <= throughput * (1.0 + 1e-12), "{cell}");
    assert!(throughput <= number(cell, "orbit_high") * (1.0 + 1e-12), "{cell}");
    assert!((number(cell, "speedup") * baseline / throughput - 1.0).abs() < 1e-12, "{cell}");
    let batch = number(cell, "large_batch_mean");
    assert!((1.0..=concurrency).contains(&batch), "{cell}");
    // Both directions count: one handoff for every N tokens, but none after the last token of a request of 32.
    let every = number(cell, "every");
    let handoffs = number(cell, "handoffs_per_token");
    assert!(handoffs > 0.8 / every - 2.0 / 32.0 && handoffs <= 1.0 / every, "{cell}");
    assert_eq!(cell["speedup_two_replicas"].is_number(), cell["placement"] == "separate", "{cell}");
}

/// Derives the break-evens of a document once more from its cells.
fn check_break_evens(document: &Value, n_lines: usize) {
    let break_evens = document["break_even"].as_array().expect("a list");
    assert_eq!(break_evens.len(), n_lines);
    for found in break_evens {
        let same = |cell: &&Value| {
            ["placement", "order", "concurrency", "grid"].iter().all(|field| cell[*field] == found[*field])
        };
        let line: Vec<(u64, bool)> = cells(document)
            .iter()
            .filter(same)
            .map(|cell| (cell["every"].as_u64().expect("a whole number"), number(cell, "speedup") >= 1.0 - 1e-9))
            .collect();
        let wins: Vec<u64> = line.iter().filter(|(_, wins)| *wins).map(|(every, _)| *every).collect();
        let mut every = None;
        for (n, _) in line.iter().rev().take_while(|(_, wins)| *wins) {
            every = Some(*n);
        }
        assert_eq!(found["every"], json!(every), "{found}");
        assert_eq!(found["wins"], json!(wins), "{found}");
        assert_eq!(found["at_grid_edge"], json!(every == Some(line[0].0)), "{found}");
    }
}

fn cells(document: &Value) -> &[Value] {
    document["cells"].as_array().expect("a list of cells")
}

/// One request, steps of 6 and 10 ms, messages of 6 ms: 32 tokens take 16 x 6 + 16 x 10 ms and 32/N - 1 messages, the large model alone
/// takes 10 ms a token.
#[test]
fn throughput_and_break_even_of_a_case_on_paper() {
    let bench = Workbench::new();
    let arguments = "sweep --scenario pair.toml --concurrency 1 --format json --set workload.output_tokens=32 \
        --set workload.start=in-phase --set scheduler.hop_us=6000";
    let line = |every: &str| bench.run_words(arguments, &["--every", every, "--out", every]).document();
    let document = line("1,2,4,8");
    for cell in cells(&document) {
        let every = number(cell, "every");
        let seconds = 1e-3 * (16.0 * 6.0 + 16.0 * 10.0 + 6.0 * (32.0 / every - 1.0));
        assert!((number(cell, "throughput") / (32.0 / seconds) - 1.0).abs() < 1e-9, "{cell}");
        assert!((number(cell, "baseline_throughput") / 100.0 - 1.0).abs() < 1e-9, "{cell}");
        assert!((number(cell, "handoffs_per_token") - (1.0 / every - 1.0 / 32.0)).abs() < 1e-12, "{cell}");
        // Two replicas have one request between them.
        assert_eq!(cell["speedup_two_replicas"], cell["speedup"]);
    }
    // It pays if 26 ms and the messages take less than 320 ms: from 32/N - 1 <= 10 on, so N = 4.
    let break_even = |document: &Value| {
        let found = &document["break_even"];
        assert_eq!(found.as_array().map(Vec::len), Some(1));
        ["every", "wins", "at_grid_edge"].map(|field| found[0][field].clone())
    };
    assert_eq!(break_even(&document), [json!(4), json!([4, 8]), json!(false)]);
    assert_eq!(break_even(&line("4,8,16")), [json!(4), json!([4, 8, 16]), json!(true)]);
    assert_eq!(break_even(&line("1,2")), [json!(null), json!([]), json!(false)]);
}

/// On an exclusive device that prefers the large model, requests that start apart stay apart: only the shortest visits win.
#[test]
fn a_win_below_losses_is_no_break_even() {
    let bench = Workbench::new();
    let arguments = "sweep --scenario pair.toml --concurrency 4 --every 1,2,4 --placement exclusive:large-first --format json \
        --set workload.output_tokens=32 --set model.small.cost.constant_ms=2";
    let document = bench.run_words(arguments, &[]).document();
    check_break_evens(&document, 1);
    let found = &document["break_even"][0];
    assert_eq!((&found["every"], &found["wins"]), (&json!(null), &json!([1])));
}

#[test]
fn csv_is_the_file_of_rows() {
    let bench = Workbench::new();
    let arguments =
        "sweep --scenario pair.toml --every 1,2 --concurrency 1,2 --placement separate,exclusive --out out --format";
    let printed = bench.run_words(arguments, &["csv"]).done();
    assert_eq!(printed, bench.text("out/rows.csv"));
    let mut reader = csv::Reader::from_reader(printed.as_bytes());
    let header: Vec<String> = reader.headers().expect("a header").iter().map(str::to_owned).collect();
    let document = bench.run_words(arguments, &["json"]).document();
    let records: Vec<csv::StringRecord> = reader.records().collect::<Result<_, _>>().expect("well-formed rows");
    assert_eq!(records.len(), 12);
    for (record, cell) in records.iter().zip(cells(&document)) {
        let fields: Vec<&String> = cell.as_object().expect("an object").keys().collect();
        assert_eq!(fields, header.iter().collect::<Vec<_>>(), "a column for each field");
        for (value, name) in record.iter().zip(&header) {
            match &cell[name] {
                Value::Null => assert_eq!(value, "", "{name}"),
                Value::String(text) => assert_eq!(value, text, "{name}"),
                Value::Bool(flag) => assert_eq!(value.parse(), Ok(*flag), "{name}"),
                number => {
                    // A float of the document may be read with its last digit changed.
                    let [left, right] =
                        [value.parse().ok(), number.as_f64()].map(|number: Option<f64>| number.expect(name));
                    assert!((left - right).abs() <= 1e-12 * right.abs(), "{name}: {left} and {right}");
                }
            }
        }
    }
}

#[test]
fn tables_show_each_placement_and_the_break_even() {
    let bench = Workbench::new();
    let arguments = "sweep --scenario pair.toml --every 1,2,4 --concurrency 1,2 --placement separate,exclusive:small-first \
        --set workload.start=in-phase --set scheduler.hop_us=6000";
    let run = bench.run_words(arguments, &["--out", "out"]);
    assert!(run.stderr.contains("wrote rows.csv, figure.svg, figure.png and manifest.json to `out`"), "{}", run.stderr);
    let swept = run.done();
    let grid = bench
        .run_words("sweep --scenario pair.toml --grid model.large.threshold=1..3 --set workload.start=in-phase", &[]);
    insta::with_settings!({ omit_expression => true }, {
        insta::assert_snapshot!("tables", swept);
        insta::assert_snapshot!("grid_table", grid.done());
    });
}

#[test]
fn a_grid_leaves_axes_that_are_not_given_as_the_scenario_has_them() {
    let bench = Workbench::new();
    let arguments = "sweep --scenario pair.toml --grid policy.small=1..3 --grid scheduler.hop_us=0,500 --format json";
    let document = bench.run_words(arguments, &[]).document();
    let grid: Vec<&str> = cells(&document).iter().filter_map(|cell| cell["grid"].as_str()).collect();
    let expected = [1, 2, 3].map(|small| [0, 500].map(|hop| format!("policy.small={small} scheduler.hop_us={hop}")));
    assert_eq!(grid, expected.as_flattened());
    for cell in cells(&document) {
        assert_eq!((&cell["every"], &cell["concurrency"]), (&json!(null), &json!(4)));
    }
    assert_eq!(document["break_even"], json!([]), "no axis of N, no break-even");
    // The policy of the baseline has none of the parameters that the grid runs over.
    let baselines: Vec<f64> = cells(&document).iter().map(|cell| number(cell, "baseline_throughput")).collect();
    assert!(baselines.iter().all(|baseline| *baseline == baselines[0]), "{baselines:?}");

    // Beside other axes each combination is a line of its own.
    let arguments =
        "sweep --scenario pair.toml --grid scheduler.hop_us=0,500 --every 1,2 --concurrency 1,2 --format json";
    let document = bench.run_words(arguments, &[]).document();
    assert_eq!(cells(&document).len(), 8);
    check_break_evens(&document, 4);
}

/// Where the small model is no faster than the large one, routing changes nothing but the last digits of a mean: it neither wins nor loses.
#[test]
fn equal_models_break_even_everywhere() {
    let bench = Workbench::new();
    let arguments = "sweep --scenario pair.toml --set model.small.cost.constant_ms=10 --every 1,2,4 --concurrency 1,3 --format json";
    for (start, output_tokens) in [("random", "32"), ("spread", "32"), ("spread", "24"), ("in-phase", "24")] {
        let sets = [format!("workload.start={start}"), format!("workload.output_tokens={output_tokens}")];
        let document = bench.run_words(arguments, &["--set", &sets[0], "--set", &sets[1]]).document();
        for cell in cells(&document) {
            assert!((number(cell, "speedup") - 1.0).abs() < 1e-9, "{cell}");
        }
        for found in document["break_even"].as_array().expect("a list") {
            assert_eq!(
                (&found["every"], &found["wins"], &found["at_grid_edge"]),
                (&json!(1), &json!([1, 2, 4]), &json!(true))
            );
        }
    }
}

/// What is too much for a figure is cut there, and complete in the rows.
#[test]
fn a_large_grid_has_a_readable_figure() {
    let bench = Workbench::new();
    let sweep = "sweep --scenario pair.toml --set workload.replications_max=2 --format csv --out";
    for (out, axes, n_rows, note) in [
        ("panels", "--grid seed=1..40 --every 1 --concurrency 2", 40, "only the first 16 of 40 panels are drawn"),
        ("lines", "--grid policy.small=1,2 --grid seed=1..40", 80, "only the first 32 of 40 lines are drawn"),
        (
            "panel",
            "--every 1,2 --concurrency 4..40 --set workload.requests=60",
            74,
            "only the first 32 of 37 lines of a panel are drawn",
        ),
    ] {
        let rows = bench.run_words(&format!("{sweep} {out} {axes}"), &[]).done();
        assert_eq!(rows.lines().count(), 1 + n_rows, "{out}");
        let figure = bench.text(&format!("{out}/figure.svg"));
        assert!(figure.contains(note), "{out}");
    }
}

#[test]
fn a_grid_of_thresholds_runs_in_mode_delayed() {
    let bench = Workbench::new();
    for (scenario, out) in [(&["--scenario", "pair.toml"][..], "pair"), (&[], "default")] {
        let more = [scenario, &TINY, &["--out", out]].concat();
        let document = bench.run_words("sweep --grid model.large.threshold=1..4 --format json", &more).document();
        assert_eq!(cells(&document).len(), 4);
        let text = bench.json(&format!("{out}/manifest.json"))["scenario"]["text"].to_string();
        assert!(text.contains("# --set scheduler.mode=delayed"), "{text}");
        // With a threshold of 4, the large model always waits for all four.
        let batches: Vec<f64> = cells(&document).iter().map(|cell| number(cell, "large_batch_mean")).collect();
        assert!(batches[0] < batches[3] && (batches[3] - 4.0).abs() < 1e-9, "{batches:?}");
    }
    // Whoever names another mode is told.
    let refused =
        bench.run_words("sweep --scenario pair.toml --grid model.large.threshold=1,2 --set scheduler.mode=eager", &[]);
    assert_eq!(refused.status, Some(2));
    assert!(refused.stderr.contains("mode `eager` ignores thresholds"), "{}", refused.stderr);
}

#[test]
fn a_sweep_of_an_open_loop_has_no_concurrency() {
    let bench = Workbench::new();
    let arguments = "sweep --scenario pair.toml --every 1,2 --format json --out out";
    let arrivals = ["--set", "workload.arrivals={ process = \"poisson\", rate_per_s = 1.0 }"];
    let document = bench.run_words(arguments, &arrivals).document();
    assert!(
        cells(&document).iter().all(|cell| cell["concurrency"].is_null() && cell["speedup_two_replicas"].is_null())
    );
    assert_eq!(document["break_even"].as_array().map(Vec::len), Some(1));
    assert!(bench.text("out/figure.svg").contains("tokens per visit N"));
}

#[test]
fn the_order_of_a_list_does_not_matter_but_the_seed_does() {
    let bench = Workbench::new();
    let rows = |words: &str, seed: &str| {
        bench.run_words(&format!("sweep --scenario pair.toml --format csv {words}"), &["--seed", seed]).done()
    };
    let first = rows("--every 1,4 --concurrency 2,3", "7");
    assert_eq!(rows("--every 4,1 --concurrency 3,2", "7"), first);
    assert_ne!(rows("--every 1,4 --concurrency 2,3", "8"), first);
    let numbers = |rows: &str| {
        rows.lines().skip(1).map(|row| row.rsplit_once(',').map(|(row, _)| row.to_owned())).collect::<Vec<_>>()
    };
    assert_ne!(numbers(&rows("--every 1,4 --concurrency 2,3", "8")), numbers(&first), "not only the column `seed`");
}
