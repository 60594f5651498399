//! The driver on the real clock: how runs end, and what they measure.
#![allow(missing_docs, clippy::unwrap_used)]

mod driver_support;

use driver_support::*;
use handoff_backend::driver::{
    DriverError, DriverOptions, EmulatedExecutor, Executor, ExecutorError, Measurement, Waiting, measure,
};
use handoff_backend::{RowInput, RowOutput};
use handoff_scheduler::{KvFull, Order};
use handoff_sim::engine::{EngineConfig, Report, RunError};

fn run(config: &EngineConfig, executors: &mut [Box<dyn Executor>]) -> Result<Measurement, DriverError> {
    measure(config, executors, SEED, window(2, 10), &DriverOptions::default())
}

#[test]
fn a_run_reports_what_the_simulator_reports() {
    let config = config(every(3, 2), 4);
    let run = run(&config, &mut timed(&config)).unwrap();
    let metrics = &run.metrics;
    assert!((10..14).contains(&metrics.finished), "several requests may finish in the last step");
    assert!(metrics.tokens > 0 && metrics.handoffs > 0 && metrics.dropped_tokens == 0);
    assert_eq!(metrics.tokens, metrics.models.iter().map(|model| model.committed_tokens).sum::<u64>());
    assert!(metrics.models.iter().all(|model| model.busy_ns > 0 && model.busy_ns <= metrics.window_ns()));
    // One model on each device: the device is busy when its model is.
    for (device_ns, model) in metrics.device_busy_ns.iter().zip(&metrics.models) {
        assert_eq!(*device_ns, model.busy_ns);
    }
    let report = Report::of(&config, std::slice::from_ref(metrics));
    assert!(report.throughput.mean > 0.0 && report.ttft_s.mean > 0.0);
    assert!(run.log.is_none() && run.requests.is_empty());
}

#[test]
fn forwards_side_by_side_keep_a_device_busy_once() {
    let overlapped = overlapped(config(every(1, 1), 6));
    let metrics = run(&overlapped, &mut timed(&overlapped)).unwrap().metrics;
    let sum: u64 = metrics.models.iter().map(|model| model.busy_ns).sum();
    assert!(metrics.device_busy_ns[0] <= metrics.window_ns() && metrics.device_busy_ns[0] < sum);
    let exclusive = exclusive(config(every(1, 1), 6), Order::LargeFirst);
    let metrics = run(&exclusive, &mut timed(&exclusive)).unwrap().metrics;
    assert_eq!(metrics.device_busy_ns[0], metrics.models.iter().map(|model| model.busy_ns).sum::<u64>());
}

#[test]
fn executors_serve_one_run_after_the_other() {
    let config = config(restless(), 5);
    let mut executors = instant(2);
    let mut requests = |waiting| {
        let options = DriverOptions { waiting, keep_tokens: true, ..DriverOptions::default() };
        measure(&config, &mut executors, SEED, window(0, 15), &options).unwrap().requests
    };
    let (blocking, spinning) = (requests(Waiting::Blocking), requests(Waiting::Spinning));
    // Who finishes first is a matter of time, what they say is not.
    let twice = blocking
        .iter()
        .filter_map(|one| spinning.iter().find(|other| other.request_idx == one.request_idx).map(|other| (one, other)));
    let twice: Vec<_> = twice.collect();
    assert!(twice.len() >= 5 && twice.iter().all(|(one, other)| one == other));
}

#[test]
fn a_stalled_run_says_who_waits_for_whom() {
    let config = with_thresholds(config(every(2, 2), 3), &[3, 3]);
    let error = run(&config, &mut instant(2)).unwrap_err();
    let DriverError::Run(RunError::Stalled { active: 3, ref waiting, .. }) = error else { panic!("{error}") };
    assert_eq!(waiting.iter().map(|held| held.held.len()).sum::<usize>(), 3);
    assert!(error.to_string().contains("at `model-0` (threshold 3)"), "{error}");
}

#[test]
fn executors_that_do_not_fit_are_refused() {
    let config = config(every(2, 2), 3);
    let error = run(&config, &mut instant(1)).unwrap_err().to_string();
    assert_eq!(error, "there are 1 executors, expected 2, one a model");
    let mut mixed: Vec<Box<dyn Executor>> =
        vec![Box::new(EmulatedExecutor::instant(10)), Box::new(EmulatedExecutor::instant(11))];
    let error = run(&config, &mut mixed).unwrap_err().to_string();
    assert_eq!(error, "the vocabulary of `model-1` is 11, expected 10 as for the other models");
}

/// Fails at its tenth step, or panics there.
struct Failing {
    executor: EmulatedExecutor,
    steps: u32,
    panics: bool,
}

impl Executor for Failing {
    fn vocabulary(&self) -> u32 {
        self.executor.vocabulary()
    }
    fn reset(&mut self) -> Result<(), ExecutorError> {
        self.executor.reset()
    }
    fn truncate(&mut self, slot: u32, kv_tokens: u32) -> Result<(), ExecutorError> {
        self.executor.truncate(slot, kv_tokens)
    }
    fn launch(&mut self, rows: &[RowInput<'_>]) -> Result<(), ExecutorError> {
        self.steps += 1;
        assert!(self.steps < 10 || !self.panics, "as it should");
        if self.steps == 10 { Err(ExecutorError::Idle) } else { self.executor.launch(rows) }
    }
    fn poll(&mut self, wait: bool, outputs: &mut Vec<RowOutput>) -> Result<bool, ExecutorError> {
        self.executor.poll(wait, outputs)
    }
}

#[test]
fn an_executor_that_fails_or_panics_ends_the_run() {
    let error = |panics| {
        let mut executors = instant(1);
        executors.push(Box::new(Failing { executor: EmulatedExecutor::instant(997), steps: 0, panics }));
        run(&config(every(1, 1), 2), &mut executors).unwrap_err().to_string()
    };
    assert_eq!(error(false), "`model-1`: no step is in flight");
    assert_eq!(error(true), "`model-1`: the executor panicked");
}

#[test]
fn requests_wait_for_kv_and_go_on() {
    // Room for one request of the longest kind, and a little. Requests that came in at different models could wait for each other for ever.
    let config = with_kv(in_phase(config(every(2, 2), 6)), 60, KvFull::Wait);
    assert!(run(&config, &mut instant(2)).unwrap().metrics.finished >= 10);
}

/// Checks before every step that no more is kept than the budget says. What a row that waits has behind its kept tokens, one at most,
/// goes when the row is launched.
struct Bounded {
    executor: EmulatedExecutor,
    budget_tokens: usize,
}

impl Executor for Bounded {
    fn vocabulary(&self) -> u32 {
        self.executor.vocabulary()
    }
    fn reset(&mut self) -> Result<(), ExecutorError> {
        self.executor.reset()
    }
    fn truncate(&mut self, slot: u32, kv_tokens: u32) -> Result<(), ExecutorError> {
        self.executor.truncate(slot, kv_tokens)
    }
    fn launch(&mut self, rows: &[RowInput<'_>]) -> Result<(), ExecutorError> {
        self.executor.launch(rows)?;
        let kept_tokens = self.executor.kept_tokens();
        assert!(kept_tokens <= self.budget_tokens + 9, "{kept_tokens} tokens are kept");
        Ok(())
    }
    fn poll(&mut self, wait: bool, outputs: &mut Vec<RowOutput>) -> Result<bool, ExecutorError> {
        self.executor.poll(wait, outputs)
    }
}

#[test]
fn the_kv_of_finished_cancelled_and_preempted_requests_is_freed() {
    for when_full in [KvFull::Preempt, KvFull::Wait] {
        let config = with_kv(in_phase(config(restless(), 9)), 110, when_full);
        let bounded = || Bounded { executor: EmulatedExecutor::instant(997), budget_tokens: 110 };
        let mut executors: Vec<Box<dyn Executor>> = vec![Box::new(bounded()), Box::new(bounded())];
        let gone = cancellations(&[(1, 4), (5, 11), (12, 60), (17, 70), (20, 80)]);
        let options = DriverOptions { cancellations: gone, ..DriverOptions::default() };
        measure(&config, &mut executors, SEED, window(0, 60), &options).unwrap();
    }
}
