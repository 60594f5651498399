//! The thread of one model: takes jobs, computes them, hands the results back.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, TryRecvError};
use std::thread;
use std::time::Instant;

use handoff_scheduler::ModelIdx;

use super::executor::{Executor, ExecutorError};
use super::options::Waiting;
use crate::runner::{RowInput, RowOutput};
use crate::sampling::Sampling;

/// One row of a job. Its new tokens lie one after the other in [`Job::tokens`].
#[derive(Clone, Copy, Debug)]
pub(super) struct JobRow {
    pub(super) slot: u32,
    /// Tokens whose KV is kept in front of the new ones.
    pub(super) position: u32,
    pub(super) new_tokens: u32,
    pub(super) sampling: Sampling,
}

/// A step for a worker, and room for its results. Jobs go back and forth, so that nothing is allocated once the run is warm.
#[derive(Debug, Default)]
pub(super) struct Job {
    /// Slots whose KV goes before the rows are computed.
    pub(super) freed_slots: Vec<u32>,
    pub(super) rows: Vec<JobRow>,
    pub(super) tokens: Vec<u32>,
    pub(super) outputs: Vec<RowOutput>,
}

/// A finished job.
#[derive(Debug)]
pub(super) struct Done {
    pub(super) model: ModelIdx,
    pub(super) job: Job,
    /// When the executor was asked to launch, and when its results were there; ns since the start of the run.
    pub(super) forward_ns: (u64, u64),
    pub(super) result: Result<(), ExecutorError>,
}

/// Waits busily, but lets others have the core now and then: on a machine with too few cores, nobody else could end the wait.
#[derive(Debug, Default)]
pub(crate) struct Spin {
    turns: u32,
}

impl Spin {
    pub(crate) fn pause(&mut self) {
        self.turns = self.turns.wrapping_add(1);
        if self.turns.is_multiple_of(64) {
            thread::yield_now();
        } else {
            std::hint::spin_loop();
        }
    }
}

/// Serves jobs until there are no more, or nobody wants their results.
pub(super) fn serve(
    model: ModelIdx,
    executor: &mut dyn Executor,
    waiting: Waiting,
    origin: Instant,
    jobs: &Receiver<Job>,
    results: &Sender<Done>,
) {
    while let Ok(mut job) = next_job(jobs, waiting) {
        let start_ns = elapsed_ns(origin);
        // A panic that only ended this thread would leave the scheduler waiting for its result for ever.
        let result = catch_unwind(AssertUnwindSafe(|| execute(executor, waiting, &mut job)));
        let result = result.unwrap_or(Err(ExecutorError::Panicked));
        let done = Done { model, job, forward_ns: (start_ns, elapsed_ns(origin)), result };
        if results.send(done).is_err() {
            return;
        }
    }
}

pub(super) fn elapsed_ns(origin: Instant) -> u64 {
    u64::try_from(origin.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

fn next_job(jobs: &Receiver<Job>, waiting: Waiting) -> Result<Job, ()> {
    if waiting == Waiting::Blocking {
        return jobs.recv().map_err(|_| ());
    }
    let mut spin = Spin::default();
    loop {
        match jobs.try_recv() {
            Ok(job) => return Ok(job),
            Err(TryRecvError::Empty) => spin.pause(),
            Err(TryRecvError::Disconnected) => return Err(()),
        }
    }
}

fn execute(executor: &mut dyn Executor, waiting: Waiting, job: &mut Job) -> Result<(), ExecutorError> {
    for &slot in &job.freed_slots {
        executor.truncate(slot, 0)?;
    }
    let mut rows = Vec::with_capacity(job.rows.len());
    let mut rest = &job.tokens[..];
    for row in &job.rows {
        // The KV of a dropped token, or of a last token that goes through the model again, is still there.
        executor.truncate(row.slot, row.position)?;
        let (tokens, behind) = rest.split_at(row.new_tokens as usize);
        rest = behind;
        rows.push(RowInput { slot: row.slot, tokens, position: row.position, sampling: row.sampling });
    }
    executor.launch(&rows)?;
    let wait = waiting == Waiting::Blocking;
    let mut spin = Spin::default();
    while !executor.poll(wait, &mut job.outputs)? {
        spin.pause();
    }
    Ok(())
}
