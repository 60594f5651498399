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
        "fresh_cache_ms = 31.52 ms, from prefix_matching",
        "5 parameters of the machines",
        "7 parameters in all",
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
    // The sweep behind two of them, each place with the same settings and each cell with its range over starts.
    let curves = list(&document, "sweep");
    assert_eq!(curves.len(), 10);
    for point in curves.iter().flat_map(|curve| list(curve, "points")) {
        let range: Vec<f64> = list(point, "speedup_range").iter().filter_map(Value::as_f64).collect();
        let speedup = number(point, "speedup");
        assert!(range[0] <= speedup + 1e-9 && speedup <= range[1] + 1e-9, "{point}");
        let starts = &point["starts"];
        assert_eq!(number(starts, "lose") + number(starts, "tie") + number(starts, "win"), 32.0, "{point}");
    }
    checked_manifest(&bench, "c");
    let text = bench.run_words("paper claims", &[]).done();
    assert!(text.contains("verdict  does not hold"), "{text}");
}

/// The seed and overrides reach the scenarios, and the same ones give the same rows.
#[test]
fn seeds_and_overrides_count() {
    let bench = Workbench::new();
    let rows = |more: &[&str]| bench.run_words("paper ablation --format csv", more).done();
    let plain = rows(&[]);
    assert_eq!(plain, rows(&["--seed", "1", "--threads", "1"]));
    assert_ne!(plain, rows(&["--seed", "2"]));
    assert_ne!(plain, rows(&["--set", "model.large.jitter_cv=0.2"]));
}

/// What a table borrows counts, and what hangs on assumptions is there under others.
#[test]
fn a_table_tells_what_it_rests_on() {
    let bench = Workbench::new();
    let document = bench.run_words("paper multi_node --format json", &[]).document();
    let table = &document["tables"][0];
    let borrowed = list(table, "borrowed");
    assert_eq!((borrowed.len(), borrowed[0]["name"].as_str()), (1, Some("switch_ms")));
    assert_eq!(borrowed[0]["table"], "placement");
    assert_eq!((table["n_parameters"].as_u64(), document["n_parameters"].as_u64()), (Some(4), Some(9)));
    assert_eq!(list(table, "implied").len(), 3);
    let effects = list(table, "effects");
    assert_eq!(effects.len(), 6);
    assert!(effects.iter().all(|effect| effect["error"].is_null() == (effect["calibrated_on_it"] == true)));
    assert_eq!(table["effect_score"]["effects"], 5);
    let parts: Vec<&str> = list(table, "parts").iter().filter_map(|part| part["part"].as_str()).collect();
    assert_eq!(parts, ["two nodes", "two nodes at concurrency 4", "one node"]);
    let document = bench.run_words("paper original_settings --format json", &[]).document();
    let alternatives = list(&document["tables"][0], "alternatives");
    let of = |word: &str| {
        let named =
            |other: &&Value| other["assumption"].as_str().is_some_and(|assumption| assumption.starts_with(word));
        alternatives.iter().filter(named).filter(|other| other["above_large_only"].is_boolean()).count()
    };
    assert_eq!((alternatives.len(), of("no threshold"), of("b = ")), (10, 4, 6));
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
    // Valid fields whose override would print other settings under the names of the published ones.
    for set in
        ["workload.concurrency=8", "scheduler.corun=[1.0,1.0]", "model.large.threshold=2", "policy.p=0.1", "seed=2"]
    {
        let field = set.split('=').next().expect("a path");
        refused(&format!("paper threshold --set {set}"), &format!("`{field}` is what the tables vary"));
    }
    refused("paper threshold --set nothing", "nothing");
    bench.write("file", "");
    let run = bench.run_words("paper threshold --out file", &[]);
    assert_eq!(run.status, Some(2), "{}", run.stderr);
}
