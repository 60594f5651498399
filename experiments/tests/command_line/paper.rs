//! What `paper` prints and writes, and what it refuses.

use serde_json::Value;

use super::support::{Workbench, checked_manifest, number};

/// The first fields of a row, which scripts rely on.
const ROW_FIELDS: [&str; 7] = ["table", "row", "column", "published", "predicted", "error", "calibrated_on_it"];

fn list<'a>(document: &'a Value, field: &str) -> &'a [Value] {
    document[field].as_array().unwrap_or_else(|| panic!("`{field}` is a list"))
}

#[test]
fn a_table_has_a_row_a_cell_with_its_error() {
    let bench = Workbench::new();
    let document = bench.run_words("paper ablation --format json --out a", &[]).document();
    assert_eq!(document["schema"], 1);
    let rows = list(&document, "rows");
    assert_eq!(rows.len(), 21);
    for row in rows {
        let fields: Vec<&str> = row.as_object().expect("an object").keys().map(String::as_str).collect();
        assert!(ROW_FIELDS.iter().all(|field| fields.contains(field)), "{row}");
        assert_eq!(row["table"], "ablation");
        let deviation = number(row, "predicted") / number(row, "published") - 1.0;
        if row["calibrated_on_it"] == true {
            assert_eq!((row["error"].is_null(), row["column"].as_str()), (true, Some("concurrency 1")));
        } else {
            assert!((number(row, "error") - deviation).abs() < 1e-12, "{row}");
        }
    }
    let errors: Vec<f64> = rows.iter().filter_map(|row| row["error"].as_f64()).map(f64::abs).collect();
    let table = &document["tables"][0];
    assert_eq!((table["cells"].as_u64(), table["calibrated_cells"].as_u64()), (Some(14), Some(7)));
    let mean = errors.iter().sum::<f64>() / errors.len() as f64;
    assert!((number(table, "mean_absolute_error") - mean).abs() < 1e-12);
    let parameters = list(&document, "machine").len() + list(table, "parameters").len();
    assert_eq!(document["n_parameters"].as_u64(), Some(parameters as u64));

    let manifest = checked_manifest(&bench, "a");
    assert_eq!((manifest["device"].as_str(), manifest["seed"].as_u64()), (Some("simulated"), Some(1)));
    let files = bench.files();
    for name in ["rows.csv", "parameters.csv", "report.json", "ablation.svg", "ablation.png"] {
        assert!(files.contains_key(&format!("a/{name}")), "{name}");
    }
    assert_eq!(bench.json("a/report.json"), document);
    // CSV on standard output is rows.csv, and a finished folder is not written again.
    let again = bench.run_words("paper ablation --format csv --out a", &[]);
    assert!(again.stderr.contains("already holds"), "{}", again.stderr);
    assert_eq!(again.done().into_bytes(), bench.read("a/rows.csv"));
}

#[test]
fn the_text_names_parameters_and_where_they_come_from() {
    let bench = Workbench::new();
    let text = bench.run_words("paper std_serving_step", &[]).done();
    for part in [
        "* a parameter was fitted on this cell",
        "fresh_fixed_ms = 4.080 ms, from other",
        "5 parameters of the machines",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn claims_have_verdicts() {
    let bench = Workbench::new();
    let document = bench.run_words("paper claims --format json --out c", &[]).document();
    let claims = list(&document, "claims");
    assert_eq!((document["schema"].as_u64(), claims.len()), (Some(1), 13));
    let verdicts = ["holds", "does not hold", "holds only under a condition", "cannot be decided from these figures"];
    for claim in claims {
        assert!(verdicts.contains(&claim["verdict"].as_str().expect("a text")), "{claim}");
        assert!(
            ["claim", "value", "basis"].iter().all(|field| claim[field].as_str().is_some_and(|text| !text.is_empty()))
        );
    }
    checked_manifest(&bench, "c");
    let text = bench.run_words("paper claims", &[]).done();
    assert!(text.contains("verdict  does not hold"), "{text}");
}

/// The seed and overrides reach the scenarios, and the same ones give the same rows.
#[test]
fn seeds_and_overrides_count() {
    let bench = Workbench::new();
    let rows = |more: &[&str]| bench.run_words("paper threshold --format csv", more).done();
    let plain = rows(&[]);
    assert_eq!(plain, rows(&["--seed", "1", "--threads", "1"]));
    assert_ne!(plain, rows(&["--seed", "2"]));
    assert_ne!(plain, rows(&["--set", "model.large.jitter_cv=0.2"]));
}

#[test]
fn wrong_input_is_refused_before_anything_is_computed() {
    let bench = Workbench::new();
    let refused = |words: &str, part: &str| {
        let run = bench.run_words(words, &["--out", "r"]);
        assert_eq!(run.status, Some(2), "{words}: {}", run.stderr);
        assert!(run.stderr.contains(part), "{words}: {}", run.stderr);
        assert!(run.stdout.is_empty() && !bench.path("r/rows.csv").exists(), "{words}");
    };
    refused("paper nothing", "possible values: threshold, ablation, original_settings");
    refused("paper threshold --scenario pair.toml", "--scenario pair.toml: the paper has scenarios of its own");
    refused("paper threshold --grid policy.p=0.1,0.2", "--grid policy.p=0.1,0.2: the paper's tables are the grid");
    refused("paper threshold --set workload.concurrency=0", "workload.concurrency");
    refused("paper threshold --set nothing", "nothing");
    bench.write("file", "");
    let run = bench.run_words("paper threshold --out file", &[]);
    assert_eq!(run.status, Some(2), "{}", run.stderr);
}
