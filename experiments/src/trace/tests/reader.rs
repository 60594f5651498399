//! Reads a trace back and checks all that a viewer relies on.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::super::{Provenance, TraceObserver};

/// A trace, read back.
pub(super) struct Read {
    pub(super) document: Value,
    pub(super) slices: Vec<Slice>,
    /// By handoff: where the arrow begins and ends.
    pub(super) flows: Vec<(FlowEnd, FlowEnd)>,
    /// In the order of the file: ns, name, then the arguments by name.
    pub(super) counters: Vec<(u64, String, BTreeMap<String, u64>)>,
}

/// A slice, times in ns.
#[derive(Clone, Debug)]
pub(super) struct Slice {
    /// Names of its process and thread.
    pub(super) track: (String, String),
    pub(super) name: String,
    pub(super) category: String,
    pub(super) begins: u64,
    pub(super) ends: u64,
    pub(super) args: Value,
}

/// An end of an arrow: thread of the process `subservers`, ns.
pub(super) type FlowEnd = (String, u64);

impl Slice {
    pub(super) fn is_unfinished(&self) -> bool {
        self.args["unfinished"] == true
    }

    pub(super) fn len(&self) -> u64 {
        self.ends - self.begins
    }
}

impl Read {
    /// Writes the trace and reads it back.
    #[track_caller]
    pub(super) fn of(trace: TraceObserver, window_ns: (u64, u64)) -> Self {
        Self::parse(&written(trace, window_ns))
    }

    #[track_caller]
    pub(super) fn parse(text: &str) -> Self {
        let document: Value = serde_json::from_str(text).unwrap();
        assert_eq!(document["displayTimeUnit"], "ms");
        let events = document["traceEvents"].as_array().unwrap();
        let mut names: BTreeMap<(u64, u64), String> = BTreeMap::new();
        let mut processes: BTreeMap<u64, String> = BTreeMap::new();
        for event in events.iter().filter(|event| event["ph"] == "M") {
            let (pid, tid) = track_ids(event);
            let name = event["args"]["name"].as_str().unwrap_or_default().to_owned();
            match event["name"].as_str().unwrap() {
                "process_name" => assert_eq!(processes.insert(pid, name), None),
                "thread_name" => assert_eq!(names.insert((pid, tid), name), None),
                other => assert!(other.ends_with("_sort_index") && event["args"]["sort_index"].is_u64(), "{event}"),
            }
        }
        let tids: BTreeSet<u64> = names.keys().map(|&(_, tid)| tid).collect();
        assert_eq!(tids.len(), names.len(), "thread ids are unique over all processes");
        let mut read = Self { document: Value::Null, slices: Vec::new(), flows: Vec::new(), counters: Vec::new() };
        let mut starts: BTreeMap<u64, FlowEnd> = BTreeMap::new();
        let mut ends: BTreeMap<u64, FlowEnd> = BTreeMap::new();
        let mut last_ns = 0;
        // By track: the slices that are open at this place of the file, as a viewer keeps them.
        let mut open: BTreeMap<(u64, u64), Vec<u64>> = BTreeMap::new();
        // By track: the last slice that began.
        let mut latest: BTreeMap<(u64, u64), usize> = BTreeMap::new();
        for event in events.iter().filter(|event| event["ph"] != "M") {
            let (pid, tid) = track_ids(event);
            let track = (processes[&pid].clone(), names[&(pid, tid)].clone());
            let begins = ns(&event["ts"]);
            assert!(begins >= last_ns, "{event} stands after {last_ns} ns");
            last_ns = begins;
            let name = event["name"].as_str().unwrap().to_owned();
            match event["ph"].as_str().unwrap() {
                "X" => {
                    let ends = begins + ns(&event["dur"]);
                    let open = open.entry((pid, tid)).or_default();
                    open.retain(|&ends| ends > begins);
                    assert!(open.iter().all(|&outer| ends <= outer), "{event} reaches beyond the slice around it");
                    assert!(open.len() <= usize::from(track.0 == "requests"), "{event} overlaps another slice");
                    open.push(ends);
                    latest.insert((pid, tid), read.slices.len());
                    let category = event["cat"].as_str().unwrap().to_owned();
                    let args = event["args"].clone();
                    read.slices.push(Slice { track, name, category, begins, ends, args });
                }
                "s" => {
                    let slice = &read.slices[latest[&(pid, tid)]];
                    assert_eq!(
                        (slice.category.as_str(), slice.ends),
                        ("step", begins),
                        "an arrow leaves the end of a step"
                    );
                    assert_eq!(starts.insert(id(event), (track.1, begins)), None, "{event}: an id twice");
                }
                "f" => {
                    let slice = &read.slices[latest[&(pid, tid)]];
                    assert_eq!(
                        (slice.category.as_str(), slice.begins),
                        ("step", begins),
                        "an arrow meets the begin of a step"
                    );
                    assert_eq!(event["bp"], "e");
                    assert!(starts.get(&id(event)).is_some_and(|(from, at)| *from != track.1 && *at <= begins));
                    assert_eq!(ends.insert(id(event), (track.1, begins)), None, "{event}: an id twice");
                }
                "C" => {
                    let args = event["args"].as_object().unwrap().iter();
                    let args = args.map(|(name, value)| (name.clone(), value.as_u64().unwrap())).collect();
                    read.counters.push((begins, name, args));
                }
                "i" => assert!(event["s"] == "g" && name.starts_with("measurement "), "{event}"),
                other => panic!("an event of phase {other}: {event}"),
            }
        }
        assert!(starts.keys().eq(ends.keys()), "every arrow has two ends");
        read.flows = starts.into_values().zip(ends.into_values()).collect();
        read.document = document;
        read
    }

    pub(super) fn of_category(&self, category: &str) -> impl Iterator<Item = &Slice> {
        self.slices.iter().filter(move |slice| slice.category == category)
    }

    /// Total length of the slices of `category` called `name`, ns.
    pub(super) fn total_ns(&self, category: &str, name: &str) -> u64 {
        self.of_category(category).filter(|slice| slice.name == name).map(Slice::len).sum()
    }

    /// The counter `which` of `model`, added up over time until `end`, in rows times ns.
    pub(super) fn counted_ns(&self, model: &str, which: &str, end: u64) -> u64 {
        let own = || self.counters.iter().filter(|(_, name, _)| name == model);
        let next = own().map(|(at, ..)| *at).skip(1).chain([end]);
        own().zip(next).map(|((at, _, counts), next)| counts[which] * (next - at)).sum()
    }
}

pub(super) fn written(trace: TraceObserver, window_ns: (u64, u64)) -> String {
    let provenance = Provenance {
        scenario: "test.toml".to_owned(),
        scenario_text: "seed = 1\n".to_owned(),
        seed: 1,
        run_seed: 2,
        device: "simulated".to_owned(),
        window_ns,
    };
    let mut text = Vec::new();
    trace.into_json(&provenance, &mut text).unwrap();
    String::from_utf8(text).unwrap()
}

fn track_ids(event: &Value) -> (u64, u64) {
    (event["pid"].as_u64().unwrap(), event["tid"].as_u64().unwrap())
}

fn id(event: &Value) -> u64 {
    event["id"].as_u64().unwrap()
}

/// As a viewer reads microseconds.
fn ns(value: &Value) -> u64 {
    (value.as_f64().unwrap() * 1e3).round() as u64
}
