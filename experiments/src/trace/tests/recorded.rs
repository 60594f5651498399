//! Recorded runs of the driver on the real clock, told to the same observer.

use handoff_backend::driver::{Cancellation, DriverOptions, EmulatedExecutor, Executor, measure};
use handoff_backend::record::RunLog;
use handoff_sim::engine::{EngineConfig, Metrics};

use super::reader::Read;
use super::{Count, SEED, TraceObserver, cases, check_counts, window};

fn recorded(config: &EngineConfig, cancellations: Vec<Cancellation>) -> (Metrics, RunLog) {
    let executor = |_| Box::new(EmulatedExecutor::instant(100)) as Box<dyn Executor>;
    let mut executors: Vec<Box<dyn Executor>> = config.models.iter().map(executor).collect();
    let options = DriverOptions { keep_log: true, cancellations, ..DriverOptions::default() };
    let run = measure(config, &mut executors, SEED, window(), &options).unwrap();
    (run.metrics, run.log.unwrap())
}

fn read(config: &EngineConfig, metrics: &Metrics, log: &RunLog) -> Read {
    let mut trace = TraceObserver::of(config);
    log.watch(&mut trace);
    Read::of(trace, (metrics.window_start_ns, metrics.window_end_ns))
}

#[test]
fn a_recorded_run_looks_like_a_simulated_one() {
    // An open loop on the real clock would take as long as its arrivals.
    for (name, config) in cases().into_iter().filter(|(name, _)| *name != "open loop") {
        let (metrics, log) = recorded(&config, Vec::new());
        let trace = read(&config, &metrics, &log);
        let mut count = Count::default();
        log.watch(&mut count);
        check_counts(name, &config, &trace, &count);
        let steps = log.launches().count();
        assert_eq!(trace.of_category("step").count(), steps, "{name}");
        // Forwards lie within their steps.
        let tracks = ["subservers", "devices", "requests"];
        assert!(trace.slices.iter().all(|slice| tracks.contains(&slice.track.0.as_str())), "{name}");
        for forward in trace.of_category("forward") {
            let (model, kinds) = forward.name.rsplit_once(": ").unwrap();
            let is_own = |step: &&super::Slice| step.track.1 == model && step.args["step"] == forward.args["step"];
            let step = trace.of_category("step").find(is_own).unwrap();
            assert!(step.name == kinds && step.begins <= forward.begins && forward.ends <= step.ends, "{name}");
        }
    }
}

#[test]
fn the_life_of_a_cancelled_request_ends() {
    let (_, config) = cases().remove(0);
    let gone = [(0, 2), (1, 7), (4, 11), (6, 30), (9, 0)];
    let cancellations = gone.map(|(request_idx, after_steps)| Cancellation { request_idx, after_steps });
    let (metrics, log) = recorded(&config, cancellations.to_vec());
    let trace = read(&config, &metrics, &log);
    let cancelled: Vec<&str> = trace
        .of_category("request")
        .filter(|life| life.args["cancelled"] == true)
        .map(|life| life.name.as_str())
        .collect();
    let told = gone.map(|(request_idx, _)| format!("request {request_idx}"));
    assert!(
        !cancelled.is_empty() && cancelled.iter().all(|name| told.iter().any(|told| told == name)),
        "{cancelled:?}"
    );
    // A row of a request that is gone is neither waiting nor running.
    let last = |model: &str| trace.counters.iter().rfind(|(_, name, _)| name == model).unwrap();
    let open = |category: &str, model: &str| {
        let is_open = |slice: &&super::Slice| slice.is_unfinished() && slice.name.ends_with(model);
        trace.of_category(category).filter(is_open).count() as u64
    };
    for model in ["small", "large"] {
        assert_eq!(last(model).2["running"], open("running", model));
    }
}
