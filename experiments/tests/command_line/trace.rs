//! `simulate --trace`: the file, and that it changes nothing else.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::support::{Workbench, number};

/// A delayed pair: the large model waits for three of four requests.
const DELAYED: &str = "simulate --scenario pair.toml --set scheduler.mode=delayed --set model.large.threshold=3 \
    --set scheduler.hop_us=200 --format json";

#[test]
fn a_trace_is_read_back() {
    let bench = Workbench::new();
    for more in [
        &[][..],
        &["--set", "scheduler.mode=step-sync", "--set", "model.large.threshold=1"],
        &[
            "--set",
            "model.large.device=0",
            "--set",
            "scheduler.sharing=exclusive",
            "--set",
            "scheduler.order=small-first",
        ],
    ] {
        let plain = bench.run_words(DELAYED, more).document();
        let run = bench.run_words(&format!("{DELAYED} --trace traces/a.json"), more);
        assert_eq!(run.stderr, "wrote the timeline to `traces/a.json`\n");
        assert_eq!(run.document(), plain, "the report is the same");
        let trace = bench.json("traces/a.json");
        check(&trace);
        let other = &trace["otherData"];
        assert_eq!((&other["scenario"], &other["device"]), (&"pair.toml".into(), &"simulated".into()));
        assert_eq!(other["seed"], plain["seed"]);
        assert!(other["program"]["commit"].is_string());
        let text = other["scenario_text"].as_str().expect("a text");
        assert!(text.contains("# --set scheduler.hop_us=200\n"), "{text}");
        // A second run writes the same bytes.
        let bytes = bench.read("traces/a.json");
        bench.run_words(&format!("{DELAYED} --threads 1 --trace traces/a.json"), more).done();
        assert_eq!(bench.read("traces/a.json"), bytes);
        assert_eq!(bench.files().keys().filter(|name| name.starts_with("traces/")).count(), 2, "nothing else is left");
    }
}

/// Phases, tracks, the order of time, slices that do not overlap, arrows with two ends; and that the measured window holds the requests asked for.
fn check(trace: &Value) {
    let events = trace["traceEvents"].as_array().expect("a list");
    let phases: BTreeSet<&str> = events.iter().map(|event| event["ph"].as_str().expect("a phase")).collect();
    assert_eq!(phases, BTreeSet::from(["M", "X", "s", "f", "C", "i"]));
    let timed = || events.iter().filter(|event| event["ph"] != "M");
    assert!(timed().map(|event| number(event, "ts")).is_sorted(), "in the order of time");
    let with = |phase: &str| {
        let own = timed().filter(|event| event["ph"] == phase);
        own.map(|event| (event["id"].as_u64().expect("an id"), number(event, "ts"))).collect::<BTreeMap<_, _>>()
    };
    let (starts, ends) = (with("s"), with("f"));
    assert!(starts.len() > 20 && starts.keys().eq(ends.keys()));
    assert_eq!(starts.len() + ends.len(), timed().filter(|event| event["cat"] == "handoff").count());
    assert!(starts.iter().all(|(id, at)| *at <= ends[id]));

    let slices = |category: &str| timed().filter(|event| event["cat"] == category).collect::<Vec<_>>();
    let ends_at = |slice: &Value| number(slice, "ts") + number(slice, "dur");
    for category in ["step", "forward", "request"] {
        let mut free_at: BTreeMap<u64, f64> = BTreeMap::new();
        for slice in slices(category) {
            let free_at = free_at.entry(slice["tid"].as_u64().expect("a thread")).or_default();
            // A thousandth of a nanosecond for the sum of two decimal fractions.
            assert!(number(slice, "ts") >= *free_at - 1e-6, "{slice} overlaps the one before it");
            *free_at = ends_at(slice);
        }
    }
    let marks: Vec<f64> = timed().filter(|event| event["ph"] == "i").map(|event| number(event, "ts")).collect();
    let [begins, ends] = marks[..] else { panic!("two marks: {marks:?}") };
    let finished = slices("request").into_iter().filter(|life| life["args"]["unfinished"] != true);
    let in_window = finished.map(ends_at).filter(|&at| begins + 1e-6 < at && at <= ends + 1e-6).count();
    assert!(in_window >= 5, "{in_window}");
    // Every token of the window is in a step of it.
    let committed = |slices: Vec<&Value>| {
        slices.iter().map(|slice| slice["args"]["committed"].as_u64().expect("a count")).sum::<u64>()
    };
    assert_eq!(committed(slices("step")), committed(slices("request")));
}

/// The file can lie in the folder of the results, and is no part of them.
#[test]
fn a_trace_beside_results() {
    let bench = Workbench::new();
    let call = "simulate --scenario pair.toml --out out --trace out/trace.json --format csv";
    for again in [false, true] {
        let run = bench.run_words(call, &[]);
        assert_eq!(run.stderr.contains("already holds this run"), again, "{}", run.stderr);
        assert!(run.stderr.ends_with("wrote the timeline to `out/trace.json`\n"), "{}", run.stderr);
        assert_eq!(run.done(), bench.text("out/rows.csv"));
    }
    assert_eq!(bench.json("out/manifest.json")["files"].as_array().map(Vec::len), Some(2));
}
