//! Measured profiles: that they have the right points, and that the simulator takes all of them.
#![allow(missing_docs, clippy::unwrap_used)]

use std::sync::Arc;

use candle_core::DType;
use handoff_backend::driver::{EmulatedExecutor, Executor, ExecutorError, Waiting};
use handoff_backend::profile::{
    Axes, Control, CorunEffort, Effort, Grid, HostLoad, Kind, MeasureError, Point, ProfileRow, Subject, Unfit,
    held_out_error, hop_row, measure_choice, measure_corun, measure_hop, measure_host, measure_steps, to_csv,
};
use handoff_backend::{Qwen3Config, RowInput, RowOutput, Runner, RunnerOptions, Weights};
use handoff_scheduler::ModelIdx;
use handoff_sim::cost::{ConstantLatency, CorunRates, HopLatency, HostCost, Profile, Selection};

const QUICK: Effort = Effort { warmup_steps: 3, repeats_min: 2, repeats_max: 2, visit_ns: 0 };

fn tiny() -> Runner {
    let config = Qwen3Config::built_in("tiny").unwrap();
    Runner::cpu(&config, &Weights::dummy(7), DType::F32, RunnerOptions::for_tests()).unwrap()
}

fn subject<'e>(model: &str, executor: &'e mut dyn Executor) -> Subject<'e> {
    let RunnerOptions { kv_tokens, slots, request_tokens_max } = RunnerOptions::for_tests();
    Subject {
        model: model.to_owned(),
        graph: false,
        executor,
        slots: slots as u32,
        kv_tokens_max: kv_tokens as u64,
        request_tokens_max: request_tokens_max as u32,
    }
}

fn waiter(step_ms: f64) -> EmulatedExecutor {
    EmulatedExecutor::timed(100, Arc::new(ConstantLatency::from_ms(step_ms).unwrap()))
}

fn grid() -> Grid {
    Grid {
        decode: Axes { rows: vec![1, 4], kv_tokens: vec![8, 24], ..Axes::decode() },
        extend: Axes { rows: vec![1, 4], new_tokens: vec![3, 6], kv_tokens: vec![8], new_tokens_total_max: 24 },
        prefill: Axes { rows: vec![1], new_tokens: vec![16, 40], kv_tokens: vec![0], new_tokens_total_max: 40 },
    }
}

fn point_of(row: &ProfileRow) -> Point {
    Point { rows: row.rows.unwrap(), new_tokens: row.new_tokens.unwrap(), kv_tokens: row.kv_tokens.unwrap() }
}

#[test]
fn a_model_on_the_cpu_becomes_a_profile() {
    let mut runner = tiny();
    let mut subject = subject("tiny", &mut runner);
    let measured = measure_steps(&mut subject, &grid(), &QUICK, 3, &mut Control::new(Waiting::Blocking)).unwrap();
    let rows = measured.rows("cpu");
    assert_eq!(rows.iter().map(point_of).collect::<Vec<_>>(), grid().points());
    assert_eq!(measured.held_out.iter().map(|found| found.point).collect::<Vec<_>>(), grid().held_out());
    for row in &rows {
        assert_eq!(row.kind, if row.new_tokens == Some(1) { Kind::Decode } else { Kind::Extend });
        assert_eq!((row.repeats, row.graph), (Some(4), Some(false)));
    }
    let profile = Profile::parse(&to_csv(&rows).unwrap(), "tiny.csv").unwrap();
    assert_eq!(profile.steps().len(), rows.len());
    let error = held_out_error(&rows, &measured, &Selection::new("tiny", false)).unwrap().unwrap();
    assert_eq!((error.n, error.n_beyond), (measured.held_out.len(), 0));
    assert!(error.max.is_finite() && error.mape <= error.max && error.points.contains(&error.worst));
}

#[test]
fn the_grids_fit_what_they_are_for() {
    let mut waiter = EmulatedExecutor::instant(10);
    let small = subject("tiny", &mut waiter);
    assert!(
        Grid::for_cpu().points().into_iter().chain(Grid::for_cpu().held_out()).all(|point| small.check(point).is_ok())
    );
    // What one H200 holds beside the weights of both models, requests of a prompt and 2048 tokens.
    let mut waiter = EmulatedExecutor::instant(10);
    let large =
        Subject { slots: 128, kv_tokens_max: 215_000, request_tokens_max: 4096, ..subject("large", &mut waiter) };
    assert!(
        Grid::for_gpu().points().into_iter().chain(Grid::for_gpu().held_out()).all(|point| large.check(point).is_ok())
    );
}

#[test]
fn points_beyond_the_runner_are_left_out_of_the_profile() {
    let mut runner = tiny();
    let mut subject = Subject { slots: 2, request_tokens_max: 24, ..subject("tiny", &mut runner) };
    let measured = measure_steps(&mut subject, &grid(), &QUICK, 3, &mut Control::new(Waiting::Spinning)).unwrap();
    let reason = |rows, new_tokens, kv_tokens| {
        let point = Point { rows, new_tokens, kv_tokens };
        measured.skipped.iter().find(|skipped| skipped.point == point).map(|skipped| skipped.reason)
    };
    assert_eq!(reason(4, 1, 8), Some(Unfit::Rows { rows: 4, slots: 2 }));
    assert_eq!(reason(1, 40, 0), Some(Unfit::RequestTokens { tokens: 40, request_tokens_max: 24 }));
    assert!(
        measured.rows("cpu").iter().all(|row| reason(
            row.rows.unwrap(),
            row.new_tokens.unwrap(),
            row.kv_tokens.unwrap()
        )
        .is_none())
    );
    assert_eq!(
        measured.points.len() + measured.held_out.len() + measured.skipped.len(),
        grid().points().len() + grid().held_out().len()
    );
}

#[test]
fn all_kinds_together_are_a_profile_that_the_simulator_takes() {
    let (mut small, mut large) = (waiter(0.2), waiter(0.3));
    let (mut a, mut b) = (subject("small", &mut small), subject("large", &mut large));
    let mut control = Control::new(Waiting::Blocking);
    let mut rows = Vec::new();
    for subject in [&mut a, &mut b] {
        rows.extend(measure_steps(subject, &grid(), &QUICK, 1, &mut control).unwrap().rows("pretended"));
    }
    let effort = CorunEffort { warmup_steps: 1, steps_min: 5, phase_ns: 10_000_000 };
    let coruns = measure_corun(&mut a, &mut b, &[(1, 1), (4, 2)], 8, &effort, &mut control).unwrap();
    rows.extend(coruns.iter().map(|corun| corun.row("pretended")));
    let load = HostLoad { output_tokens: 32, requests: 8, ..HostLoad::default() };
    let host = measure_host(&mut HostLoad::emulated(), &load, 1, &control).unwrap();
    rows.extend(host.rows("pretended"));
    rows.push(hop_row("pretended", &measure_hop(50, &control).unwrap()));

    let profile = Profile::parse(&to_csv(&rows).unwrap(), "all.csv").unwrap();
    let n = profile.steps().len() + profile.coruns().len() + profile.hosts().len() + profile.hops().len();
    assert_eq!((n, profile.coruns().len(), profile.hosts().len(), profile.hops().len()), (rows.len(), 4, 3, 1));
    let rates = CorunRates::from_profile(&profile, None, &[("small", false), ("large", false)]).unwrap();
    assert!(!rates.lookup(ModelIdx(1), 2, ModelIdx(0), 4).extrapolated);
    assert!(HostCost::from_profile(&profile, None).unwrap().is_some_and(|host| host.launch_ns > 0 && host.loop_ns > 0));
    assert!(HopLatency::from_profile(&profile, None, &["small", "large"]).unwrap().is_some());
}

#[test]
fn coruns_come_in_both_directions() {
    let (mut small, mut large) = (waiter(0.2), waiter(0.5));
    let (mut a, mut b) = (subject("small", &mut small), subject("large", &mut large));
    let effort = CorunEffort { warmup_steps: 1, steps_min: 4, phase_ns: 5_000_000 };
    let mut told = Vec::new();
    let mut control = Control::new(Waiting::Blocking)
        .on_progress(|progress| told.push((progress.what.to_owned(), progress.done, progress.total)));
    let found = measure_corun(&mut a, &mut b, &[(1, 3), (2, 1)], 16, &effort, &mut control).unwrap();
    drop(control);
    let what: Vec<_> =
        found.iter().map(|it| (it.model.as_str(), it.rows, it.peer_model.as_str(), it.peer_rows)).collect();
    assert_eq!(
        what,
        [("small", 1, "large", 3), ("large", 3, "small", 1), ("small", 2, "large", 1), ("large", 1, "small", 2)]
    );
    for it in &found {
        assert!(it.alone.n >= 8 && it.beside.n >= 1, "{it:?}");
        assert!(it.rate() > 0.0 && it.rate() <= 1.0 && (0.0..=1.0).contains(&it.peer_busy), "{it:?}");
    }
    let both = "small beside large".to_owned();
    assert_eq!(told, [(both.clone(), 1, 2), (both, 2, 2)]);
}

#[test]
fn two_models_on_the_cpu_step_side_by_side() {
    let (mut one, mut other) = (tiny(), tiny());
    let (mut a, mut b) = (subject("one", &mut one), subject("other", &mut other));
    let effort = CorunEffort { warmup_steps: 1, steps_min: 3, phase_ns: 20_000_000 };
    let found = measure_corun(&mut a, &mut b, &[(2, 1)], 20, &effort, &mut Control::new(Waiting::Spinning)).unwrap();
    assert_eq!(found.len(), 2);
}

/// Fails or panics at its twentieth step.
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
        assert!(self.steps < 20 || !self.panics, "as it should");
        if self.steps == 20 { Err(ExecutorError::Idle) } else { self.executor.launch(rows) }
    }
    fn poll(&mut self, wait: bool, outputs: &mut Vec<RowOutput>) -> Result<bool, ExecutorError> {
        self.executor.poll(wait, outputs)
    }
}

#[test]
fn a_corun_ends_when_one_side_does() {
    let corun = |panics| {
        let (mut small, mut failing) = (waiter(0.1), Failing { executor: waiter(0.1), steps: 0, panics });
        let (mut a, mut b) = (subject("small", &mut small), subject("failing", &mut failing));
        // Step 20 of the failing one lies in the phase side by side: one fill, one of warm-up, 1 + 10 alone before.
        let effort = CorunEffort { warmup_steps: 1, steps_min: 10, phase_ns: 0 };
        measure_corun(&mut a, &mut b, &[(1, 1)], 8, &effort, &mut Control::new(Waiting::Blocking)).unwrap_err()
    };
    assert_eq!(corun(false).to_string(), "`failing`: no step is in flight");
    assert_eq!(corun(true).to_string(), "`failing`: the executor panicked");
}

#[test]
fn coruns_that_cannot_be_are_refused() {
    let corun = |pair, effort: CorunEffort, control: Control<'_>| {
        let (mut small, mut large) = (waiter(0.1), waiter(0.1));
        let (mut a, mut b) = (subject("small", &mut small), subject("large", &mut large));
        let mut control = control;
        measure_corun(&mut a, &mut b, &[(1, 1), pair], 100, &effort, &mut control).unwrap_err()
    };
    let blocking = || Control::new(Waiting::Blocking);
    let effort = CorunEffort { warmup_steps: 1, steps_min: 2, phase_ns: 0 };
    assert_eq!(
        corun((1, 17), effort, blocking()).to_string(),
        "`large` cannot be measured at 17 x 1 new on 100 kept tokens: it has 17 rows but the executor holds 16 requests"
    );
    assert_eq!(corun((0, 1), effort, blocking()).to_string(), "`rows` is 0, expected at least 1");
    assert!(corun((1, 1), CorunEffort { steps_min: 0, ..effort }, blocking()).to_string().contains("`steps_min` is 0"));
    assert!(matches!(corun((1, 1), effort, blocking().stop_if(|| true)), MeasureError::Stopped));
}

#[test]
fn a_choice_is_measured_on_a_model() {
    let mut runner = tiny();
    let point = Point { rows: 2, new_tokens: 1, kv_tokens: 20 };
    let cost =
        measure_choice(&mut subject("tiny", &mut runner), point, &QUICK, &mut Control::new(Waiting::Blocking)).unwrap();
    assert_eq!((cost.point, cost.greedy.n, cost.tempered.n), (point, 2, 2));
}

#[test]
fn the_host_is_measured_with_models_too() {
    let mut executors: Vec<Box<dyn Executor>> = vec![Box::new(tiny()), Box::new(tiny())];
    let load = HostLoad { concurrency: 3, prompt_tokens: 5, output_tokens: 12, run_length: 2, requests: 6 };
    let host = measure_host(&mut executors, &load, 1, &Control::new(Waiting::Spinning)).unwrap();
    assert!(host.before_forward.n >= 20 && host.before_forward.n == host.after_forward.n);
    let error = measure_host(&mut executors[..1], &load, 1, &Control::new(Waiting::Spinning)).unwrap_err();
    assert_eq!(error.to_string(), "there are 1 executors, expected 2, one a model");
}
