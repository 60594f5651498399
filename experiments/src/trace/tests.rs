//! Traces of simulated and of recorded runs, read back and held against what others saw of the same run.

mod reader;
mod recorded;

use std::collections::BTreeMap;

use handoff_scheduler::{Coordination, ModelIdx, Origin, Outcome, PeerRequest, RequestId, StepPlan, Timestamp};
use handoff_sim::engine::{EngineConfig, Metrics, Observer, Window, replicate_observed};
use handoff_sim::scenario::{Embedded, Scenario, Source};

use super::{TraceObserver, simulated};
use reader::{Read, Slice, written};

const SEED: u64 = 11;

/// Two models, four requests, the large one delayed. Messages travel for 0.3 ms, and the host needs time around a step.
const DELAYED: &str = r#"
workload = { concurrency = 4, requests = 9, prompt_tokens = { uniform = [5, 20] }, output_tokens = { uniform = [1, 40] }, warmup = 2 }
policy = { kind = "r2r", p = 0.35 }
scheduler = { mode = "delayed", hop_us = 300 }
[[model]]
name = "small"
cost = { affine = { fixed_ms = 6, per_row_ms = 0.3 } }
host = { launch_us = 40, loop_us = 70 }
jitter_cv = 0.1
device = 0
[[model]]
name = "large"
cost = { constant_ms = 27.9 }
threshold = 3
device = 1
"#;

fn engine(text: &str) -> EngineConfig {
    EngineConfig::from(&Scenario::parse(&Source::new("test.toml", text), &Embedded::default()).unwrap())
}

/// [`DELAYED`] with other text in the place of some of it.
fn changed_text(changes: &[(&str, &str)]) -> String {
    changes.iter().fold(DELAYED.to_owned(), |text, (from, to)| {
        assert!(text.contains(from), "{from}");
        text.replace(from, to)
    })
}

fn changed(changes: &[(&str, &str)]) -> EngineConfig {
    engine(&changed_text(changes))
}

/// Modes, placements, and pressures on KV.
fn cases() -> Vec<(&'static str, EngineConfig)> {
    let one_device = ("device = 1", "device = 0");
    let eager = ("threshold = 3", "threshold = 1");
    let mode = |mode| ("mode = \"delayed\"", mode);
    let three = "[[model]]\nname = \"third\"\ncost = { constant_ms = 9 }\ndevice = 2\n";
    let markov = "policy = { kind = \"markov\", routes = [[0.4, 0.3, 0.3], [0.5, 0.2, 0.3], [0.3, 0.4, 0.3]], \
        commits = [[1, 0.5, 0.4], [0.7, 1, 0.3], [0.8, 0.5, 1]] }";
    vec![
        ("delayed", engine(DELAYED)),
        (
            "delayed, exclusive",
            changed(&[one_device, mode("mode = \"delayed\", sharing = \"exclusive\", order = \"large-first\"")]),
        ),
        (
            "exclusive",
            changed(&[one_device, eager, mode("mode = \"eager\", sharing = \"exclusive\", order = \"alternate\"")]),
        ),
        ("overlapped", changed(&[one_device, mode("mode = \"delayed\", corun = [0.4, 0.8]")])),
        ("step-sync", changed(&[eager, mode("mode = \"step-sync\"")])),
        (
            "step-sync, exclusive",
            changed(&[
                one_device,
                eager,
                mode("mode = \"step-sync\", sharing = \"exclusive\", order = \"small-first\""),
            ]),
        ),
        ("model-sync", changed(&[eager, mode("mode = \"model-sync\", order = \"large-first\"")])),
        ("no hop", changed(&[("hop_us = 300", "hop_us = 0")])),
        ("kinds apart", changed(&[("hop_us = 300", "mix_extend = false, loops = \"fused\", message_us = 30")])),
        (
            "KV for two",
            changed(&[
                eager,
                ("threshold = 1", "threshold = 1\nkv_tokens = 130"),
                ("concurrency = 4", "concurrency = 3"),
            ]),
        ),
        ("open loop", changed(&[eager, ("concurrency = 4", "arrivals = { process = \"poisson\", rate_per_s = 2.0 }")])),
        ("three models", engine(&(changed_text(&[("policy = { kind = \"r2r\", p = 0.35 }", markov), eager]) + three))),
    ]
}

/// What another observer counts in the same run.
#[derive(Default)]
struct Count {
    /// By model: steps launched, and their rows.
    steps: BTreeMap<u8, (u64, u64)>,
    finished_steps: u64,
    forwards: u64,
    arrivals: u64,
    handoffs: u64,
    /// Rows of handed-off requests that launched. Each is the end of one handoff.
    carried: u64,
    /// Over all rows that launched: from when they became ready, ns.
    waited_ns: BTreeMap<u8, u64>,
}

impl Observer for Count {
    fn arrived(&mut self, _now: Timestamp, _model: ModelIdx, _request: RequestId, _idx: u64) {
        self.arrivals += 1;
    }

    fn launched(&mut self, now: Timestamp, model: ModelIdx, plan: &StepPlan<'_>) {
        let (steps, rows) = self.steps.entry(model.0).or_default();
        *steps += 1;
        *rows += plan.rows.len() as u64;
        self.carried += plan.rows.iter().filter(|row| row.origin == Origin::Peer).count() as u64;
        let waited_ns: u64 = plan.rows.iter().map(|row| now - row.ready_at).sum();
        *self.waited_ns.entry(model.0).or_default() += waited_ns;
    }

    fn forward_ended(&mut self, _now: Timestamp, _model: ModelIdx, _began: Timestamp, _ended: Timestamp) {
        self.forwards += 1;
    }

    fn finished(&mut self, _now: Timestamp, _model: ModelIdx, _plan: &StepPlan<'_>, _outcomes: &[Outcome]) {
        self.finished_steps += 1;
    }

    fn handed_off(&mut self, _now: Timestamp, _to: ModelIdx, _message: &PeerRequest, _idx: u64) {
        self.handoffs += 1;
    }
}

fn window() -> Window {
    Window::Requests { warmup_requests: 2, requests: 9 }
}

fn traced(config: &EngineConfig, window: Window) -> (Metrics, Read, Count) {
    let (metrics, trace) = simulated(config, SEED, window).unwrap();
    let (_, count) = replicate_observed(config, SEED, window, Count::default()).unwrap();
    let read = Read::of(trace, (metrics.window_start_ns, metrics.window_end_ns));
    (metrics, read, count)
}

/// The trace shows every step, forward, request and handoff that the other observer counted.
#[track_caller]
fn check_counts(name: &str, config: &EngineConfig, read: &Read, count: &Count) {
    let mut steps: BTreeMap<u8, (u64, u64)> = BTreeMap::new();
    for slice in read.of_category("step") {
        let model = config.models.iter().position(|model| model.name == slice.track.1).unwrap();
        let (steps, rows) = steps.entry(model as u8).or_default();
        *steps += 1;
        *rows += slice.args["rows"].as_u64().unwrap();
        let kinds = ["prefill", "extend", "decode"].map(|kind| slice.args[kind].as_u64().unwrap());
        assert_eq!(kinds.iter().sum::<u64>(), slice.args["rows"]);
        assert_eq!(slice.args["requests"].as_array().unwrap().len() as u64, slice.args["rows"]);
    }
    assert_eq!(steps, count.steps, "{name}");
    assert_eq!(read.of_category("step").filter(|step| !step.is_unfinished()).count() as u64, count.finished_steps);
    assert_eq!(read.of_category("forward").count() as u64, count.forwards, "{name}");
    assert_eq!(read.of_category("request").count() as u64, count.arrivals, "{name}");
    assert_eq!(read.flows.len() as u64, count.carried, "{name}");
    assert!(count.carried > 10 && count.carried <= count.handoffs, "{name}");
    let handed_off: u64 = read.of_category("step").map(|step| step.args["handed_off"].as_u64().unwrap()).sum();
    assert_eq!(handed_off, count.handoffs, "{name}");
    let rows: u64 = count.steps.values().map(|(_, rows)| rows).sum();
    assert_eq!(read.of_category("running").count() as u64, rows, "{name}");
}

#[test]
fn every_step_and_every_handoff_is_there() {
    for (name, config) in cases() {
        let (_, read, count) = traced(&config, window());
        check_counts(name, &config, &read, &count);
        assert_eq!(read.document["otherData"].get("stopped"), None);
    }
}

/// A request is always somewhere: within its life, stays follow one another without a gap.
#[test]
fn a_life_is_filled_with_stays() {
    for (name, config) in cases() {
        let (_, read, _) = traced(&config, window());
        for life in read.of_category("request") {
            let request = life.name.strip_prefix("request ").unwrap().parse::<u64>().unwrap();
            let is_own = |slice: &&Slice| slice.track.0 == "requests" && slice.args["request"] == request;
            let mut at = life.begins;
            for stay in read.slices.iter().filter(is_own) {
                assert_eq!((stay.begins, &stay.track), (at, &life.track), "{name}: {stay:?}");
                at = stay.ends;
            }
            assert_eq!(at, life.ends, "{name}: {life:?}");
        }
    }
}

/// The engine adds up the same times in other ways.
#[test]
fn times_are_those_that_the_engine_measured() {
    // A run that is measured for a time ends between two events.
    let windows = [
        Window::Requests { warmup_requests: 0, requests: 9 },
        Window::Time { warmup_ns: 0, measured_ns: 1_234_567_890 },
    ];
    for ((name, config), window) in cases().iter().flat_map(|case| windows.map(|window| (case, window))) {
        // The engine does not count rows that wait for the end of their round when the time is over.
        if config.coordination == Coordination::StepSync && matches!(window, Window::Time { .. }) {
            continue;
        }
        let (metrics, read, count) = traced(config, window);
        let ended_ns = metrics.window_end_ns;
        for (idx, (model, own)) in config.models.iter().zip(&metrics.models).enumerate() {
            let of = |what: &str| format!("{what} {}", model.name);
            let running_ns = read.total_ns("running", &of("running on"));
            assert_eq!(u128::from(running_ns), own.in_service_row_ns, "{name}");
            assert_eq!(running_ns, read.counted_ns(&model.name, "running", ended_ns), "{name}");
            let waiting = || read.of_category("waiting").filter(|slice| slice.name == of("waiting at"));
            let launched_ns: u64 = waiting().filter(|slice| !slice.is_unfinished()).map(Slice::len).sum();
            assert_eq!(u128::from(launched_ns), own.waiting_row_ns, "{name}");
            assert_eq!(launched_ns, count.waited_ns.get(&(idx as u8)).copied().unwrap_or(0), "{name}");
            let waiting_ns: u64 = waiting().map(Slice::len).sum();
            assert_eq!(waiting_ns, read.counted_ns(&model.name, "waiting", ended_ns), "{name}");
            let forwards =
                read.of_category("forward").filter(|slice| slice.name.starts_with(&format!("{}: ", model.name)));
            let busy_ns: u64 = forwards.map(Slice::len).sum();
            // The engine counts the forward that runs at the end, too.
            let step_ns_max = read.of_category("step").map(Slice::len).max().unwrap();
            assert!(busy_ns <= own.busy_ns && own.busy_ns - busy_ns <= step_ns_max, "{name}");
        }
        let arrived = |slice: &&Slice| slice.category == "in transit" && !slice.is_unfinished();
        let in_transit_ns: u64 = read.slices.iter().filter(arrived).map(Slice::len).sum();
        assert!(u128::from(in_transit_ns) <= metrics.in_transit_ns, "{name}");
        assert_eq!(
            in_transit_ns > 0,
            config.hop_ns > 0 || config.models[0].host.message_ns > 0 && !config.fused,
            "{name}"
        );
    }
}

/// A request is pending where it was and is not, from its first handoff there to its return or its end.
#[test]
fn pending_requests_are_counted_where_their_kv_stays() {
    let config = engine(DELAYED);
    let (metrics, read, _) = traced(&config, window());
    let mut pending_ns: BTreeMap<&str, u64> = BTreeMap::new();
    for life in read.of_category("request") {
        let request: u64 = life.name.strip_prefix("request ").unwrap().parse().unwrap();
        // By model: since when it is pending there.
        let mut since: BTreeMap<&str, u64> = BTreeMap::new();
        let mut last_ran_on = None;
        for stay in read.slices.iter().filter(|slice| slice.args["request"] == request) {
            let model = stay.name.rsplit(' ').next().unwrap();
            match stay.category.as_str() {
                "in transit" => {
                    assert_eq!(since.insert(last_ran_on.unwrap(), stay.begins), None);
                    if !stay.is_unfinished()
                        && let Some(since) = since.remove(model)
                    {
                        *pending_ns.entry(model).or_default() += stay.ends - since;
                    }
                }
                "running" => last_ran_on = Some(model),
                _ => {}
            }
        }
        for (model, since) in since {
            *pending_ns.entry(model).or_default() += life.ends - since;
        }
    }
    for model in ["small", "large"] {
        assert_eq!(pending_ns[model], read.counted_ns(model, "pending", metrics.window_end_ns), "{model}");
    }
}

#[test]
fn devices_show_one_track_unless_forwards_run_side_by_side() {
    let lanes = |name: &str| {
        let (_, config) = cases().into_iter().find(|(case, _)| *case == name).unwrap();
        let (_, read, _) = traced(&config, window());
        let mut lanes: Vec<String> = read.of_category("forward").map(|slice| slice.track.1.clone()).collect();
        lanes.sort();
        lanes.dedup();
        lanes
    };
    assert_eq!(lanes("delayed"), ["device 0", "device 1"]);
    for one in ["exclusive", "step-sync, exclusive"] {
        assert_eq!(lanes(one), ["device 0"], "{one}");
    }
    assert_eq!(lanes("overlapped"), ["device 0, large", "device 0, small"]);
}

#[test]
fn a_trace_stops_after_its_largest_number_of_events() {
    let config = engine(DELAYED);
    for events_max in [0, 1, 40, 1_000] {
        let observer = TraceObserver::of(&config).with_events_max(events_max);
        let (metrics, trace) = replicate_observed(&config, SEED, window(), observer).unwrap();
        let stopped = trace.stopped().unwrap();
        let read = Read::of(trace, (metrics.window_start_ns, metrics.window_end_ns));
        assert_eq!(read.document["otherData"]["stopped"]["events_max"], events_max);
        assert_eq!(read.document["otherData"]["stopped"]["at_ns"], stopped.at_ns);
        assert!(stopped.at_ns < metrics.window_end_ns);
        assert!(read.slices.iter().all(|slice| slice.ends <= stopped.at_ns));
        // An instant is told as a whole, and open slices are cut.
        let n_events = read.document["traceEvents"].as_array().unwrap().len();
        assert!(n_events <= events_max + 60, "{n_events}");
        assert!(events_max < 1_000 || n_events > 900, "{n_events}");
    }
    let (metrics, trace) = simulated(&config, SEED, window()).unwrap();
    assert_eq!(trace.stopped(), None);
    let whole = Read::of(trace, (metrics.window_start_ns, metrics.window_end_ns));
    let marks = |event: &&serde_json::Value| event["ph"] == "i";
    assert_eq!(whole.document["traceEvents"].as_array().unwrap().iter().filter(marks).count(), 2);
}

/// One request on paper: prompt 3, output 4, two tokens a visit, steps of 6 and 10 ms, hop 1 ms.
#[test]
fn the_file_of_a_case_on_paper() {
    let config = engine(
        r#"
workload = { concurrency = 1, requests = 1, prompt_tokens = 3, output_tokens = 4, start = "in-phase", warmup = 0 }
policy = { kind = "every", small = 2, large = 2 }
scheduler = { mode = "eager", hop_us = 1000 }
[[model]]
name = "small"
cost = { constant_ms = 6 }
device = 0
[[model]]
name = "large"
cost = { constant_ms = 10 }
device = 1
"#,
    );
    let (_, trace) = simulated(&config, SEED, Window::Requests { warmup_requests: 0, requests: 1 }).unwrap();
    let text = written(trace, (0, 33_000_000));
    let (head, events) = text.split_once("\n\"traceEvents\":[\n").unwrap();
    assert!(head.contains("\"scenario\":\"test.toml\"") && head.contains("\"device\":\"simulated\""), "{head}");
    insta::with_settings!({ omit_expression => true }, { insta::assert_snapshot!("case_on_paper", events) });
}
