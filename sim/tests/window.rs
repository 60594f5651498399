//! Windows of time: which tokens count, and over which time.
#![allow(missing_docs, clippy::unwrap_used)]

mod support;

use handoff_sim::engine::{RunError, Window, replicate};
use handoff_sim::policy::{Every, Solo};
use handoff_sim::workload::Start;
use support::*;

const MS: u64 = 1_000_000;

/// The large model alone, 16 ms a step, one request: it commits a token every 16 ms from 16 ms on.
fn alone(warmup_ms: u64, measured_ms: u64) -> (u64, f64, u64) {
    let config = started(pair(Solo::large_only(2).unwrap(), 1), 2_000, Start::InPhase);
    let window = Window::Time { warmup_ns: warmup_ms * MS, measured_ns: measured_ms * MS };
    let metrics = replicate(&config, 1, window).unwrap();
    assert_eq!((metrics.window_start_ns, metrics.window_end_ns), (warmup_ms * MS, (warmup_ms + measured_ms) * MS));
    (metrics.tokens, metrics.throughput(), metrics.models[1].busy_ns)
}

#[test]
fn tokens_count_from_after_the_beginning_up_to_the_end() {
    // At 112, 128, .. 1104 ms.
    assert_eq!(alone(100, 1_010), (63, 63.0 / 1.010, 1_010 * MS));
    // The token at 160 ms belongs to the warm-up and the one at 320 ms to the window.
    assert_eq!(alone(160, 160), (10, 62.5, 160 * MS));
    assert_eq!(alone(0, 15), (0, 0.0, 15 * MS));
}

#[test]
fn a_window_of_time_and_one_of_requests_see_the_same_run() {
    let config = started(pair(Every::new(3, 2).unwrap(), 4), 40, Start::Random);
    let by_requests = run(&config, 5, 10, 30).unwrap();
    let (start, end) = (by_requests.window_start_ns, by_requests.window_end_ns);
    let window = Window::Time { warmup_ns: start, measured_ns: end - start };
    let by_time = replicate(&config, 5, window).unwrap();
    assert_eq!((by_time.tokens, by_time.finished), (by_requests.tokens, by_requests.finished));
    for (left, right) in by_time.models.iter().zip(&by_requests.models) {
        assert_eq!((left.busy_ns, left.steps), (right.busy_ns, right.steps));
    }
}

#[test]
fn a_run_that_stalls_before_the_end_is_no_result() {
    let mut config = pair(Every::new(1, 1).unwrap(), 2);
    config.models.iter_mut().for_each(|model| model.gate.threshold = handoff_scheduler::Threshold::constant(2));
    config = started(config, 200, Start::Spread);
    let window = Window::Time { warmup_ns: 0, measured_ns: 1_000 * MS };
    assert!(matches!(replicate(&config, 1, window), Err(RunError::Stalled { .. })));
}
