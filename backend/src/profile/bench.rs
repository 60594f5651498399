//! An executor with requests of wanted lengths, and the time of one step on it.

use std::sync::Arc;
use std::time::Instant;

use super::{MeasureError, Point, Subject};
use crate::driver::{ExecutorError, Spin, Waiting};
use crate::qwen3::weights::mix;
use crate::runner::{RowInput, RowOutput};
use crate::sampling::Sampling;

/// New tokens of one step that only fills the KV: enough to use a device well, and no more memory than a prompt needs.
const FILL_TOKENS_MAX: u32 = 2048;

/// Nanoseconds since some moment.
#[derive(Clone)]
pub(super) struct Clock(Arc<dyn Fn() -> u64 + Send + Sync>);

impl Clock {
    /// The machine's.
    pub(super) fn real() -> Self {
        let origin = Instant::now();
        Self(Arc::new(move || u64::try_from(origin.elapsed().as_nanos()).unwrap_or(u64::MAX)))
    }

    #[cfg(test)]
    pub(super) fn new(now_ns: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        Self(Arc::new(now_ns))
    }

    pub(super) fn now_ns(&self) -> u64 {
        (self.0)()
    }
}

/// An executor to measure on, which it has to itself.
pub(super) struct Bench<'s, 'e> {
    subject: &'s mut Subject<'e>,
    /// By slot: tokens kept.
    kept: Vec<u32>,
    outputs: Vec<RowOutput>,
    waiting: Waiting,
    clock: Clock,
}

/// The tokens of a batch.
pub(super) struct Batch {
    point: Point,
    tokens: Vec<u32>,
}

impl Batch {
    /// The rows, in slots 0, 1, 2 and so on, each with a seed of its own if the choice is tempered.
    pub(super) fn rows(&self, sampling: Sampling) -> Vec<RowInput<'_>> {
        let Point { new_tokens, kv_tokens, .. } = self.point;
        let of_row = |slot: u32| match sampling {
            Sampling::Greedy => Sampling::Greedy,
            Sampling::Temperature { temperature, seed } => {
                Sampling::Temperature { temperature, seed: mix(seed ^ u64::from(slot)) }
            }
        };
        let by_row = (0..).zip(self.tokens.chunks_exact(new_tokens as usize));
        by_row.map(|(slot, tokens)| RowInput { slot, tokens, position: kv_tokens, sampling: of_row(slot) }).collect()
    }
}

impl<'s, 'e> Bench<'s, 'e> {
    /// Takes an executor and frees all that it keeps.
    pub(super) fn new(subject: &'s mut Subject<'e>, waiting: Waiting, clock: Clock) -> Result<Self, MeasureError> {
        let reset = subject.executor.reset();
        let bench = Self { kept: vec![0; subject.slots as usize], subject, outputs: Vec::new(), waiting, clock };
        reset.map_err(|source| bench.failed(source))?;
        Ok(bench)
    }

    pub(super) fn subject(&self) -> &Subject<'e> {
        self.subject
    }

    pub(super) fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    /// Makes the first requests keep exactly what `point` says, by real forwards where something is missing. The point must fit.
    pub(super) fn prepare(&mut self, point: Point) -> Result<Batch, MeasureError> {
        self.make_room(point)?;
        for slot in 0..point.rows {
            if self.kept[slot as usize] > point.kv_tokens {
                self.truncate(slot, point.kv_tokens)?;
            }
        }
        while self.fill(point)? {}
        let vocabulary = self.subject.executor.vocabulary();
        let positions = point.kv_tokens..point.kv_tokens + point.new_tokens;
        let of_row = |slot: u32| positions.clone().map(move |position| token(vocabulary, slot, position));
        Ok(Batch { point, tokens: (0..point.rows).flat_map(of_row).collect() })
    }

    /// Takes one step and then takes back what it added: when the executor was asked to launch, and when its results were there, ns.
    pub(super) fn step(&mut self, rows: &[RowInput<'_>]) -> Result<(u64, u64), MeasureError> {
        let start_ns = self.clock.now_ns();
        let computed = self.compute(rows);
        let end_ns = self.clock.now_ns();
        computed.map_err(|source| self.failed(source))?;
        for row in rows {
            self.truncate(row.slot, row.position)?;
        }
        Ok((start_ns, end_ns))
    }

    fn compute(&mut self, rows: &[RowInput<'_>]) -> Result<(), ExecutorError> {
        self.subject.executor.launch(rows)?;
        let wait = self.waiting == Waiting::Blocking;
        let mut spin = Spin::default();
        while !self.subject.executor.poll(wait, &mut self.outputs)? {
            spin.pause();
        }
        Ok(())
    }

    /// Frees requests beyond those of the point, the last first, until the point's own fit.
    fn make_room(&mut self, point: Point) -> Result<(), MeasureError> {
        let n_rows = point.rows as usize;
        let row_tokens = u64::from(point.kv_tokens) + u64::from(point.new_tokens);
        let own_tokens = row_tokens * u64::from(point.rows);
        let mut others: u64 = self.kept[n_rows..].iter().map(|&tokens| u64::from(tokens)).sum();
        for slot in (n_rows..self.kept.len()).rev() {
            if own_tokens + others <= self.subject.kv_tokens_max {
                break;
            }
            others -= u64::from(self.kept[slot]);
            self.truncate(u32::try_from(slot).expect("there are as many as 32 bits say"), 0)?;
        }
        Ok(())
    }

    /// Brings the requests of the point nearer to the length that it says, in one step; false if nothing was missing.
    fn fill(&mut self, point: Point) -> Result<bool, MeasureError> {
        let vocabulary = self.subject.executor.vocabulary();
        let mut left = FILL_TOKENS_MAX;
        let mut parts: Vec<(u32, u32, Vec<u32>)> = Vec::new();
        for slot in 0..point.rows {
            let kept = self.kept[slot as usize];
            let n = point.kv_tokens.saturating_sub(kept).min(left);
            if n > 0 {
                parts.push((slot, kept, (kept..kept + n).map(|position| token(vocabulary, slot, position)).collect()));
                left -= n;
            }
        }
        let sampling = Sampling::Greedy;
        let rows: Vec<RowInput<'_>> = parts
            .iter()
            .map(|(slot, position, tokens)| RowInput { slot: *slot, tokens, position: *position, sampling })
            .collect();
        if rows.is_empty() {
            return Ok(false);
        }
        self.compute(&rows).map_err(|source| self.failed(source))?;
        for row in &rows {
            let new_tokens = u32::try_from(row.tokens.len()).expect("a part of 32 bits");
            self.kept[row.slot as usize] = row.position + new_tokens;
        }
        Ok(true)
    }

    fn truncate(&mut self, slot: u32, kv_tokens: u32) -> Result<(), MeasureError> {
        self.subject.executor.truncate(slot, kv_tokens).map_err(|source| self.failed(source))?;
        self.kept[slot as usize] = kv_tokens;
        Ok(())
    }

    fn failed(&self, source: ExecutorError) -> MeasureError {
        MeasureError::Executor { model: self.subject.model.clone(), source: Box::new(source) }
    }
}

/// Some token: all kinds of them occur, and the same ones in every measurement.
fn token(vocabulary: u32, slot: u32, position: u32) -> u32 {
    let hash = mix((u64::from(slot) << 32 | u64::from(position)) ^ 0x5eed);
    u32::try_from(hash % u64::from(vocabulary.max(1))).expect("below the vocabulary, a u32")
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use handoff_sim::cost::{BatchShape, StepLatency};

    use super::*;
    use crate::driver::{EmulatedExecutor, Executor};

    /// Takes time on a clock of its own, so that a test knows every number; keeps what it was asked for.
    pub(in crate::profile) struct Scripted {
        executor: EmulatedExecutor,
        /// Time of a step by its number, its point and its first row's choice, ns.
        step_ns: Box<dyn FnMut(u64, Point, Sampling) -> u64 + Send>,
        now_ns: Arc<AtomicU64>,
        pub(in crate::profile) steps: Vec<Point>,
        pub(in crate::profile) kept_max: usize,
    }

    impl Scripted {
        pub(in crate::profile) fn new(step_ns: impl FnMut(u64, Point, Sampling) -> u64 + Send + 'static) -> Self {
            Self {
                executor: EmulatedExecutor::instant(100),
                step_ns: Box::new(step_ns),
                now_ns: Arc::default(),
                steps: Vec::new(),
                kept_max: 0,
            }
        }

        pub(in crate::profile) fn as_predicted(latency: impl StepLatency + 'static) -> Self {
            Self::new(move |_, point, _| {
                let Point { rows, new_tokens, kv_tokens } = point;
                let shape = match new_tokens {
                    1 => BatchShape::decode(rows, kv_tokens),
                    _ => BatchShape::extend(rows, new_tokens, kv_tokens),
                };
                latency.step(&shape).ns
            })
        }

        pub(in crate::profile) fn clock(&self) -> Clock {
            let now_ns = Arc::clone(&self.now_ns);
            Clock::new(move || now_ns.load(Ordering::Relaxed))
        }

        pub(in crate::profile) fn subject(&mut self) -> Subject<'_> {
            let model = "scripted".to_owned();
            Subject { model, graph: false, executor: self, slots: 8, kv_tokens_max: 400, request_tokens_max: 100 }
        }
    }

    impl Executor for Scripted {
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
            let point =
                Point { rows: rows.len() as u32, new_tokens: rows[0].tokens.len() as u32, kv_tokens: rows[0].position };
            let ns = (self.step_ns)(self.steps.len() as u64, point, rows[0].sampling);
            self.steps.push(point);
            self.kept_max = self.kept_max.max(self.executor.kept_tokens());
            self.now_ns.fetch_add(ns, Ordering::Relaxed);
            Ok(())
        }
        fn poll(&mut self, wait: bool, outputs: &mut Vec<RowOutput>) -> Result<bool, ExecutorError> {
            self.executor.poll(wait, outputs)
        }
    }

    fn point(rows: u32, new_tokens: u32, kv_tokens: u32) -> Point {
        Point { rows, new_tokens, kv_tokens }
    }

    #[test]
    fn a_step_leaves_the_kv_as_it_was_and_is_timed_alone() {
        let mut executor = Scripted::new(|step, _, _| 10 * (step + 1));
        let clock = executor.clock();
        let mut subject = executor.subject();
        let mut bench = Bench::new(&mut subject, Waiting::Blocking, clock).unwrap();
        let batch = bench.prepare(point(2, 3, 20)).unwrap();
        // The fill took 10 ns. The emulated executor refuses a row that does not start where the kept tokens end.
        assert_eq!(bench.step(&batch.rows(Sampling::Greedy)).unwrap(), (10, 30));
        assert_eq!(bench.step(&batch.rows(Sampling::Greedy)).unwrap(), (30, 60));
        assert_eq!((bench.kept[0], bench.kept[1], bench.kept[2]), (20, 20, 0));
        assert_eq!(executor.steps, [point(2, 20, 0), point(2, 3, 20), point(2, 3, 20)]);
    }

    #[test]
    fn only_what_is_missing_is_filled_and_others_make_room() {
        let mut executor = Scripted::new(|_, _, _| 1);
        let clock = executor.clock();
        let mut subject = executor.subject();
        let mut bench = Bench::new(&mut subject, Waiting::Spinning, clock).unwrap();
        bench.prepare(point(8, 1, 40)).unwrap();
        bench.prepare(point(2, 1, 50)).unwrap();
        assert_eq!(bench.kept, [50, 50, 40, 40, 40, 40, 40, 40]);
        // 3 x 100 tokens leave room for two of the others.
        bench.prepare(point(3, 10, 90)).unwrap();
        assert_eq!(bench.kept, [90, 90, 90, 40, 40, 0, 0, 0]);
        bench.prepare(point(4, 1, 30)).unwrap();
        assert_eq!(bench.kept, [30, 30, 30, 30, 40, 0, 0, 0]);
        assert_eq!(executor.steps, [point(8, 40, 0), point(2, 10, 40), point(3, 40, 50)]);
        assert!(executor.kept_max <= 400);
    }

    #[test]
    fn long_fills_go_in_parts() {
        let mut executor = Scripted::new(|_, _, _| 1);
        let clock = executor.clock();
        let mut subject = Subject { kv_tokens_max: 10_000, request_tokens_max: 5_000, ..executor.subject() };
        let mut bench = Bench::new(&mut subject, Waiting::Blocking, clock).unwrap();
        bench.prepare(point(2, 1, 3_000)).unwrap();
        assert_eq!(bench.kept[..3], [3_000, 3_000, 0]);
        assert_eq!(executor.steps, [point(1, 2_048, 0), point(2, 952, 2_048), point(1, 1_904, 1_096)]);
    }

    #[test]
    fn tokens_are_of_many_kinds_and_within_the_vocabulary() {
        let mut seen: Vec<u32> = (0..50).map(|position| token(1_000, 3, position)).collect();
        assert!(seen.iter().all(|&token| token < 1_000));
        seen.sort_unstable();
        seen.dedup();
        assert!(seen.len() > 40);
    }

    #[test]
    fn an_executor_that_fails_is_named() {
        let mut executor = Scripted::new(|_, _, _| 1);
        let clock = executor.clock();
        let mut subject = executor.subject();
        let mut bench = Bench::new(&mut subject, Waiting::Blocking, clock).unwrap();
        let rows = [RowInput { slot: 0, tokens: &[1], position: 4, sampling: Sampling::Greedy }];
        let error = bench.step(&rows).unwrap_err().to_string();
        assert!(error.starts_with("`scripted`: the row of slot 0 starts at position 4"), "{error}");
    }
}
