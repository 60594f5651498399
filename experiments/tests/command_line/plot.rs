//! `plot` draws what each command drew.

use std::fs;
use std::path::{Path, PathBuf};

use super::support::{TINY, Workbench, checked_manifest};

/// Runs that draw figures, and the figures.
const RUNS: [(&str, &str, &[&str]); 8] = [
    ("placements", "sweep --every 1,2,4 --concurrency 1,4", &["figure"]),
    ("grid", "sweep --grid scheduler.mode=eager,delayed --grid policy.large=1..3", &["figure"]),
    ("thresholds", "sweep --scenario a100-paper --grid model.large.threshold=1..3", &["figure"]),
    ("tuned", "tune --scenario a100-paper", &["figure"]),
    ("tuned-overlapped", "tune --concurrency 2 --method simulate", &["figure"]),
    ("compared", "tune --compare --concurrency 1,2 --placement separate,exclusive", &["figure"]),
    ("table", "paper std_serving_step", &["std_serving_step"]),
    (
        "tables",
        "paper",
        &[
            "threshold",
            "ablation",
            "original_settings",
            "placement",
            "model_pairs",
            "multi_node",
            "parallel",
            "std_serving_step",
        ],
    ),
];

/// 4 cells of two figures on the processor.
const VALIDATE: &str = "validate --profile cpu.csv --every 1,4 --concurrency 2 --r2r 0.5 --thresholds 1,2 \
    --threshold-concurrency 3 --placement overlapped --starts 2 --repeats 1 --seconds 0.5 --warmup-seconds 0.05 \
    --set workload.output_tokens=40 --out validated";

/// Draws the figures of `from` and compares them with those in `folder`.
#[track_caller]
fn assert_drawn_again(bench: &Workbench, from: &str, folder: &str, stems: &[&str]) {
    let out = format!("again/{}", from.replace('/', "-"));
    let run = bench.run(&["plot", from, "--out", &out]);
    assert!(run.stderr.starts_with("wrote ") && run.stderr.ends_with(&format!(" to `{out}`\n")), "{}", run.stderr);
    assert_eq!(run.done(), "");
    let drawn = fs::read_dir(bench.path(&out)).expect("a folder").count();
    assert_eq!(drawn, 2 * stems.len(), "{from} has {stems:?}");
    for stem in stems {
        for suffix in ["svg", "png"] {
            let file = format!("{stem}.{suffix}");
            assert!(
                bench.read(&format!("{out}/{file}")) == bench.read(&format!("{folder}/{file}")),
                "{from}: {file} differs"
            );
        }
    }
}

#[test]
fn figures_are_drawn_again_to_the_byte() {
    let bench = Workbench::new();
    for (name, words, stems) in RUNS {
        // The paper's tables are what they are.
        let tiny: &[&str] = if words.starts_with("paper") { &[] } else { &TINY };
        bench.run_words(words, &[tiny, &["--out", name]].concat()).done();
        assert_drawn_again(&bench, name, name, stems);
        assert_drawn_again(&bench, &format!("{name}/rows.csv"), name, stems);
    }
}

#[test]
fn both_figures_of_a_validation_are_drawn_again() {
    let bench = Workbench::new();
    bench.write("cpu.csv", include_bytes!("../../profiles/cpu-tiny.csv"));
    bench.run_words(VALIDATE, &[]).done();
    assert_drawn_again(&bench, "validated", "validated", &["figure", "thresholds"]);
}

/// The folders below `results/` that hold rows with figures.
fn committed() -> Vec<PathBuf> {
    let results = Path::new(env!("CARGO_MANIFEST_DIR")).join("../results");
    let folders = |path: &Path| -> Vec<PathBuf> {
        let entries = fs::read_dir(path).expect("a folder");
        entries.map(|entry| entry.expect("an entry").path()).filter(|path| path.is_dir()).collect()
    };
    let runs = folders(&results).iter().flat_map(|experiment| folders(experiment)).collect::<Vec<_>>();
    let has_figures = |run: &PathBuf| {
        run.join("rows.csv").is_file()
            && fs::read_dir(run)
                .expect("a folder")
                .any(|entry| entry.expect("an entry").path().extension().is_some_and(|suffix| suffix == "svg"))
    };
    let mut runs: Vec<PathBuf> = runs.into_iter().filter(has_figures).collect();
    runs.sort();
    runs
}

#[test]
fn committed_figures_are_those_of_their_rows() {
    let bench = Workbench::new();
    let runs = committed();
    assert!(runs.len() >= 7, "{runs:?}");
    for (idx, run) in runs.iter().enumerate() {
        let out = format!("out/{idx}");
        let path = run.to_str().expect("a path in UTF-8");
        bench.run(&["plot", path, "--out", &out]).done();
        for entry in fs::read_dir(bench.path(&out)).expect("a folder") {
            let name = entry.expect("an entry").file_name().into_string().expect("a name in UTF-8");
            let there = fs::read(run.join(&name)).unwrap_or_else(|error| panic!("{path}/{name}: {error}"));
            assert!(bench.read(&format!("{out}/{name}")) == there, "{path}/{name} differs: draw it with --in-place");
        }
    }
}

/// Rows alone do not tell who computed them.
#[test]
fn rows_without_a_manifest_are_of_unknown_origin() {
    let bench = Workbench::new();
    bench.run_words("sweep --scenario pair.toml --every 1,2 --concurrency 2 --seed 9 --out out", &[]).done();
    bench.write("copy.csv", bench.read("out/rows.csv"));
    bench.run(&["plot", "copy.csv"]).done();
    let figure = bench.text("out/plot/figure.svg");
    assert!(figure.contains("scenario unknown, seed 9") && figure.contains("of unknown origin"), "{figure}");
    assert!(bench.text("out/figure.svg").contains("scenario pair.toml, seed 9"));
}

/// Nor are edited rows said to be those of the run.
#[test]
fn edited_rows_are_told_from_those_of_the_run() {
    let bench = Workbench::new();
    bench.run_words("sweep --scenario pair.toml --every 1,2 --concurrency 2 --out out", &[]).done();
    let rows = bench.text("out/rows.csv");
    bench.write("out/rows.csv", rows.lines().take(2).map(|line| format!("{line}\n")).collect::<String>());
    bench.run(&["plot", "out", "--out", "again"]).done();
    assert!(bench.text("again/figure.svg").contains("edited since handoff "));
}

/// The report beside the rows of `tune` has what they lack; without it the ranking itself is drawn.
#[test]
fn a_ranking_alone_is_drawn_as_far_as_it_goes() {
    let bench = Workbench::new();
    bench.run_words("tune --scenario a100-paper --out tuned", &[]).done();
    let whole = bench.text("tuned/figure.svg");
    assert!(whole.contains("threshold of large: r2r, separate, C = 4") && whole.contains("simulated"), "{whole}");
    bench.write("ranking.csv", bench.read("tuned/rows.csv"));
    bench.run(&["plot", "ranking.csv", "--out", "alone"]).done();
    let alone = bench.text("alone/figure.svg");
    for text in ["threshold of the last model: separate, C = 4", "exact", "best: thresholds 1 3", "of unknown origin"] {
        assert!(alone.contains(text), "{text}: {alone}");
    }
    assert!(!alone.contains("simulated"), "the rows hold no simulated curve");
    // A report of other rows says nothing about these.
    let rows = bench.text("tuned/rows.csv");
    bench.write("tuned/rows.csv", rows.lines().take(4).map(|line| format!("{line}\n")).collect::<String>());
    bench.run(&["plot", "tuned", "--out", "shorter"]).done();
    assert!(!bench.text("shorter/figure.svg").contains("simulated"));
}

#[test]
fn figures_in_place_are_noted_in_the_manifest() {
    let bench = Workbench::new();
    bench.run_words("sweep --scenario pair.toml --every 1,2 --concurrency 2 --out out", &[]).done();
    let (figure, manifest) = (bench.read("out/figure.svg"), bench.read("out/manifest.json"));
    let unchanged = bench.run(&["plot", "out", "--in-place"]);
    assert!(unchanged.stderr.ends_with("nothing was written\n"), "{}", unchanged.stderr);
    assert_eq!(bench.read("out/manifest.json"), manifest);

    // As an older build may have left it: another figure, whose digest the manifest has.
    bench.write("out/figure.svg", "<svg/>");
    let run = bench.run(&["plot", "out/rows.csv", "--in-place"]);
    assert!(run.stderr.starts_with("drew figure.svg and figure.png in `out` again"), "{}", run.stderr);
    assert_eq!(bench.read("out/figure.svg"), figure);
    let noted = checked_manifest(&bench, "out");
    assert_eq!(noted["redrawn"]["files"], serde_json::json!(["figure.svg", "figure.png"]));
    assert_eq!(noted["redrawn"]["program"], noted["program"]);
    // The folder is the one that the run left: the same command finds it finished.
    let again = bench.run_words("sweep --scenario pair.toml --every 1,2 --concurrency 2 --out out", &[]);
    assert!(again.stderr.contains("already holds this sweep"), "{}", again.stderr);
}
