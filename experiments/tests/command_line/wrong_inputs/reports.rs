//! Folders that no page can be made of.

use super::{Case, call};

const SWEEP: &str = "sweep --scenario pair.toml --every 1,2 --concurrency 1 --out out";
const SIMULATE: &str = "simulate --scenario pair.toml --out out";
const MANIFEST: &str = r#"{ "schema": 1, "command": ["handoff", "sweep"], "device": "simulated", "seed": 1,
  "program": { "version": "0", "commit": "unknown", "sources": "unknown" }, "files": [] }"#;

pub(super) fn cases() -> Vec<Case> {
    let swept = |what, named| call(what, "report out", named).after(&[SWEEP]);
    vec![
        call("no folder", "report gone", &["`gone`: no such folder, expected a folder of results"]),
        call("a file for a folder", "report pair.toml", &["`pair.toml`: is a file, expected a folder of results"]),
        call("a folder without results", "report .", &["`.`: no manifest.json in it or below it"]),
        call("a manifest that is no JSON", "report out", &["`out/manifest.json`: line 1: EOF"])
            .with("out/manifest.json", "{"),
        call("a manifest of another layout", "report out", &["`out/manifest.json`: `schema` is 9, expected 1"])
            .with("out/manifest.json", r#"{"schema": 9}"#),
        call("a manifest that lacks a field", "report out", &["`out/manifest.json`: missing field `command`"])
            .with("out/manifest.json", r#"{"schema": 1}"#),
        call("one such folder among others", "report .", &["`./bad/manifest.json`: missing field"])
            .after(&[SWEEP])
            .with("bad/manifest.json", r#"{"schema": 1}"#),
        call("a journal that makes no sense", "report out", &["`out/sweep.json`: missing field `schema`"])
            .with("out/sweep.json", "{}"),
        swept("a row that lacks a value", &["out/rows.csv:3: 2 values, expected 36"]).then("out/rows.csv", ragged()),
        swept("rows of something else", &["out/rows.csv:2: missing field `placement`, expected rows of a sweep"])
            .then("out/rows.csv", "a,b\n1,2\n"),
        call(
            "a word for a number",
            "report out",
            &["out/rows.csv:2: `throughput` is \"fast\"", "expected rows of a run"],
        )
        .after(&[SIMULATE])
        .then("out/rows.csv", with_a_word()),
        swept("bytes that are no text", &["out/rows.csv:2: no UTF-8 text"]).then("out/rows.csv", b"a\n\xff\n".to_vec()),
        swept("a figure that is none", &["`out/figure.svg`", "expected an SVG figure"])
            .then("out/figure.svg", "<html/>"),
        call("rows that the manifest lists and the folder lacks", "report out", &["`out`: there is no `rows.csv`"])
            .with(
                "out/manifest.json",
                MANIFEST.replace("[] }", r#"[{ "path": "rows.csv", "bytes": 1, "sha256": "" }] }"#),
            ),
        call(
            "a document that is none",
            "report out",
            &["`out/report.json`: missing field `device`", "expected the document of a run"],
        )
        .with(
            "out/manifest.json",
            MANIFEST
                .replace("sweep", "validate")
                .replace("[] }", r#"[{ "path": "report.json", "bytes": 1, "sha256": "" }] }"#),
        )
        .with("out/report.json", r#"{"schema": 1}"#),
        swept("a page over results", &["--out out/rows.csv: is there and no page of this command"])
            .and("--out")
            .and("out/rows.csv"),
        swept("a page for a folder", &["--out out: is a folder"]).and("--out").and("out"),
        swept("a page below a file", &["--out pair.toml/page.html: `pair.toml` is a file"])
            .and("--out")
            .and("pair.toml/page.html"),
    ]
}

/// Two rows of a sweep, the second one cut.
fn ragged() -> Vec<u8> {
    let rows = super::Workbench::new().run_words(SWEEP, &["--format", "csv"]).done();
    let mut lines: Vec<&str> = rows.lines().collect();
    lines[2] = "separate,";
    (lines.join("\n") + "\n").into_bytes()
}

/// The row of a run whose throughput is a word.
fn with_a_word() -> String {
    let rows = super::Workbench::new().run_words(SIMULATE, &["--format", "csv"]).done();
    super::files::with_throughput(&rows, "fast")
}
