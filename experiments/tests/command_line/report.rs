//! `report` turns folders of results into one page.

use std::collections::BTreeSet;

use serde_json::Value;

use super::support::{PAIR, TINY, Workbench};

const SWEEP: &str = "sweep --scenario pair.toml --every 1,2,4 --concurrency 1,4 --out runs/swept";

/// What a reader reads between two marks of the page: the text without its elements.
#[track_caller]
fn text_between(page: &str, from: &str, to: &str) -> String {
    let (_, rest) = page.split_once(from).unwrap_or_else(|| panic!("the page has `{from}`"));
    let (html, _) = rest.split_once(to).unwrap_or_else(|| panic!("the page has `{to}` after `{from}`"));
    let mut text = String::new();
    for piece in html.split('<').skip(1) {
        let (tag, words) = piece.split_once('>').unwrap_or((piece, ""));
        let is_block = ["p", "li", "tr", "caption", "/table", "/ul"].contains(&tag.split(' ').next().unwrap_or(""));
        text.push_str(if is_block { "\n" } else { " " });
        text.push_str(words);
    }
    let lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    lines.filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
}

/// The documents behind the page's tables.
fn tables(page: &str) -> Vec<Value> {
    let documents = page.split("<script type=\"application/json\">").skip(1);
    documents.map(|rest| serde_json::from_str(rest.split("</script>").next().unwrap_or("")).expect("JSON")).collect()
}

/// Without what another build or another day changes, and with plain blanks.
fn settled(text: &str) -> String {
    let text = text.replace('\u{a0}', " ");
    let (before, after) = text.split_once("; handoff ").expect("the page names the build");
    let (_, after) = after.split_once(" UTC.").expect("the page names the day");
    format!("{before}; handoff VERSION, COMMIT, finished DATE.{after}")
}

#[test]
fn a_page_says_what_a_sweep_found() {
    let bench = Workbench::new();
    bench.run_words(SWEEP, &[]).done();
    let run = bench.run(&["report", "runs/swept"]);
    assert_eq!((run.status, run.stderr.as_str()), (Some(0), "wrote `runs/swept/report.html`\n"));
    assert_eq!(run.done(), "");
    let page = bench.text("runs/swept/report.html");
    let summary = text_between(&page, "<div class=\"card summary\">", "<figure");
    insta::with_settings!({ omit_expression => true }, { insta::assert_snapshot!("sweep_summary", settled(&summary)) });
    assert!(page.contains("<h1>sweep of pair, swept</h1>") && page.contains("<svg role=\"img\""));
    let [table] = &tables(&page)[..] else { panic!("one table") };
    assert_eq!(table["rows"].as_array().map(Vec::len), Some(6));
    assert_eq!((&table["columns"][2]["name"], &table["columns"][2]["unit"]), (&"every".into(), &"tokens".into()));
    let throughput = &table["columns"][5];
    assert_eq!((&throughput["source"], &throughput["number"]), (&"simulated".into(), &true.into()));
    // The page is no result: the run is still up to date, and the page is made again in place.
    assert!(bench.run_words(SWEEP, &[]).stderr.contains("nothing was computed again"));
    bench.run(&["report", "runs/swept"]).done();
    assert_eq!(bench.text("runs/swept/report.html"), page, "the same folder, the same bytes");
    bench.run_words("report runs/swept --out elsewhere/deep/page.html", &[]).done();
    assert_eq!(bench.text("elsewhere/deep/page.html"), page);
}

/// Nothing on the page asks for anything outside it, and it forbids what it does not need.
#[test]
fn a_page_stands_alone() {
    let bench = Workbench::new();
    bench.run_words(SWEEP, &[]).done();
    bench.run(&["report", "runs/swept"]).done();
    let page = bench.text("runs/swept/report.html");
    assert!(page.contains("content=\"default-src 'none'; script-src 'sha256-"));
    for outside in [" src=", "<link", "@import", "url(http", "fetch(", "<iframe"] {
        assert!(!page.contains(outside), "{outside}");
    }
}

#[test]
fn a_folder_of_folders_has_a_section_for_each() {
    let bench = Workbench::new();
    bench.run_words(SWEEP, &[]).done();
    bench.run_words("simulate --scenario pair.toml --out runs/deep/alone", &[]).done();
    bench.write(
        "runs/README.md",
        "# Two runs\n\nSee [the sweep](swept), [its rows](swept/rows.csv), [nothing](missing.md) <b>&</b>.\n",
    );
    bench.write("runs/notes/README.md", "nothing was run here");
    bench.run(&["report", "runs"]).done();
    let page = bench.text("runs/report.html");
    let sections: Vec<&str> =
        page.split("<section class=\"run\" id=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    assert_eq!(sections, ["results", "deep/alone", "swept"]);
    let overview = text_between(&page, "<h2 id=\"runs\"", "</section>");
    assert!(
        overview.contains("deep/alone simulate of pair") && overview.contains("swept sweep of pair 6 cells"),
        "{overview}"
    );
    let notes = "<h3>Two runs</h3>\n<p>See <a href=\"#swept\">the sweep</a>, <a href=\"#swept/rows.csv\">its rows</a>, nothing \
         &lt;b&gt;&amp;&lt;/b&gt;.</p>";
    assert!(page.contains(notes), "{page}");
    assert_eq!(tables(&page).len(), 2);
    assert!(!page.contains("nothing was run here"));
}

/// Every column that a command writes has a meaning, a unit where it needs one, and a source.
#[test]
fn every_column_is_explained() {
    let bench = Workbench::new();
    bench.write("r2r.toml", PAIR.replace("kind = \"every\"\nsmall = 2\nlarge = 2", "kind = \"r2r\"\np = 0.35"));
    bench.write("cpu.csv", include_bytes!("../../profiles/cpu-tiny.csv"));
    let small_profile = "profile --rows 1,2 --new-tokens 2 --kv-tokens 16 --corun-rows 1 --out runs/profile";
    for (words, more) in [
        (SWEEP, &[][..]),
        ("simulate --scenario pair.toml --out runs/simulate", &[]),
        ("tune --scenario r2r.toml --confirm 2 --out runs/tune", &[]),
        ("tune --scenario r2r.toml --compare --concurrency 1,2 --placement separate --out runs/compare", &[]),
        ("measure --set workload.concurrency=2 --out runs/measure", &TINY),
        (small_profile, &[]),
        (
            // Long enough for a token on a machine that is busy with something else.
            "validate --profile cpu.csv --every 1 --concurrency 2 --r2r none --placement overlapped --starts 1 --repeats 1 --seconds 0.5 \
             --warmup-seconds 0.02 --set workload.output_tokens=40 --out runs/validate",
            &[],
        ),
        ("paper std_serving_step --out runs/paper", &[]),
        ("paper claims --out runs/claims", &[]),
    ] {
        bench.run_words(words, more).done();
    }
    bench.run(&["report", "runs"]).done();
    let page = bench.text("runs/report.html");
    let mut files = BTreeSet::new();
    for table in tables(&page) {
        let file = table["facts"][0][1].as_str().expect("a name").to_owned();
        for column in table["columns"].as_array().expect("a list") {
            let name = column["name"].as_str().expect("a name");
            for field in ["meaning", "source"] {
                assert_ne!(column[field], "", "{field} of {name} in {file}");
            }
            for (ending, unit) in
                [("_ms", "ms"), ("_us", "us"), ("_s", "s"), ("_tokens", "tokens"), ("throughput", "tokens/s")]
            {
                if name.ends_with(ending) {
                    assert_eq!(column["unit"], unit, "{name} in {file}");
                }
            }
        }
        files.insert(file);
    }
    assert!(
        files.iter().map(String::as_str).eq(["held_out.csv", "parameters.csv", "profile.csv", "rows.csv"]),
        "{files:?}"
    );
    // What each command found is told, not only shown.
    let overview = text_between(&page, "<h2 id=\"runs\"", "</section>");
    for words in [
        "claims; ",
        "speed-up over the large model alone",
        "tokens/s",
        "best thresholds",
        "best placement over",
        "mean absolute error",
        "points of",
    ] {
        assert!(overview.contains(words), "{words}: {overview}");
    }
}

#[test]
fn what_the_manifest_does_not_list_is_warned_of() {
    let bench = Workbench::new();
    bench.run_words(SWEEP, &[]).done();
    let figure = bench.text("runs/swept/figure.svg").replace("tokens", "words");
    bench.write("runs/swept/figure.svg", figure);
    bench.write("runs/swept/mine.csv", "a,b\n1,2\n");
    std::fs::remove_file(bench.path("runs/swept/figure.png")).unwrap();
    bench.run(&["report", "runs/swept"]).done();
    let page = bench.text("runs/swept/report.html");
    let warnings: Vec<&str> =
        page.split("Warning: </strong>").skip(1).filter_map(|rest| rest.split("</p>").next()).collect();
    assert_eq!(
        warnings,
        [
            "figure.svg is not the file that manifest.json lists: its digest is another one.",
            "figure.png is listed in manifest.json, but it is not there.",
            "mine.csv is not listed in manifest.json: where it comes from is not known.",
        ]
    );
    assert_eq!(tables(&page).len(), 2);
}

#[test]
fn a_run_that_goes_on_can_be_looked_at() {
    let bench = Workbench::new();
    bench.run_words(SWEEP, &[]).done();
    // A journal as a killed run leaves it: a header, and a finished cell.
    let manifest = bench.json("runs/swept/manifest.json");
    let rows = bench.text("runs/swept/rows.csv");
    let mut lines = rows.split_inclusive('\n');
    let (header, record) = (lines.next().unwrap(), lines.next().unwrap());
    let sweep = serde_json::json!({ "schema": 1, "fingerprint": manifest["fingerprint"] });
    let cell = serde_json::json!({ "schema": 1, "cell": "every=1", "header": header, "record": record });
    bench.write("killed/sweep.json", sweep.to_string());
    bench.write("killed/cells/every=1.json", cell.to_string());
    bench.write("killed/cells/every=2.json", "{\"schema\": 1, ");
    bench.run(&["report", "killed"]).done();
    let page = bench.text("killed/report.html");
    assert!(page.contains("This run has not finished: there is no manifest.json yet. It has 1 cell so far;"), "{page}");
    assert!(page.contains("not finished, 1 cell so far") && page.contains("sweep of pair"));
    let [table] = &tables(&page)[..] else { panic!("one table") };
    assert_eq!(table["rows"].as_array().map(Vec::len), Some(1));
}

#[test]
fn texts_of_files_are_texts_of_the_page() {
    const EVIL: &str = "<script>alert(1)</script>";
    let bench = Workbench::new();
    bench.write("evil.toml", format!("# {EVIL}\n{PAIR}"));
    bench.run(&["simulate", "--scenario", "evil.toml", "--out", "runs/evil"]).done();
    let manifest = bench.text("runs/evil/manifest.json").replace("evil.toml", "<img onerror=alert(1)>");
    bench.write("runs/evil/manifest.json", manifest);
    bench.write("runs/evil/rows2.csv", format!("a\n</script>{EVIL}\n"));
    bench.run(&["report", "runs/evil"]).done();
    let page = bench.text("runs/evil/report.html");
    assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;") && page.contains("&lt;img onerror=alert(1)&gt;"));
    assert!(page.contains("\\u003c/script>\\u003cscript>alert(1)\\u003c/script>"));
    assert!(!page.contains(EVIL) && !page.contains("<img"));
    // The page's own script and the documents of two tables.
    assert_eq!((page.matches("<script").count(), page.matches("</script>").count()), (3, 3));
}

#[test]
fn only_its_own_pages_are_overwritten() {
    let bench = Workbench::new();
    bench.run_words(SWEEP, &[]).done();
    let rows = bench.read("runs/swept/rows.csv");
    for (out, named) in [
        ("runs/swept/rows.csv", "--out runs/swept/rows.csv: is there and no page of this command, expected a file"),
        ("runs", "--out runs: is a folder, expected a file"),
        ("pair.toml/page.html", "--out pair.toml/page.html: `pair.toml` is a file"),
    ] {
        let run = bench.run(&["report", "runs/swept", "--out", out]);
        assert_eq!(run.status, Some(2), "{out}");
        assert!(run.stderr.contains(named), "{}", run.stderr);
    }
    assert_eq!(bench.read("runs/swept/rows.csv"), rows);
}
