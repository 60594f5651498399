//! The driver with a real clock: one thread a model executes, this thread schedules.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::thread;
use std::time::{Duration, Instant};

use handoff_scheduler::{ModelIdx, Timestamp};
use handoff_sim::engine::{EngineConfig, Window};
use handoff_sim::workload::Lengths;

use super::core::{Core, Delays, Setup};
use super::executor::{Executor, ExecutorError};
use super::options::{DriverOptions, Waiting};
use super::worker::{Done, Job, Spin, elapsed_ns, serve};
use super::{DriverError, Measurement};
use crate::prompts::Prompts;

/// Runs `config` on the real clock until `window` is over. `executors` holds one executor a model, all with the same vocabulary.
///
/// What the configuration says about costs is a prediction and is not looked at. Loops fused: a message's tokens are taken in right before
/// the receiver's next launch, otherwise while the receiver computes. A fresh handoff carries the whole context, and the receiver looks for
/// the prefix that it knows.
///
/// # Errors
/// [`DriverError`]: the configuration does not fit the executors, an executor fails, or the run stalls.
pub fn measure(
    config: &EngineConfig,
    executors: &mut [Box<dyn Executor>],
    seed: u64,
    window: Window,
    options: &DriverOptions,
) -> Result<Measurement, DriverError> {
    let (n_models, n_executors) = (config.models.len(), executors.len());
    if n_executors != n_models {
        return Err(DriverError::Executors { n_executors, n_models });
    }
    let vocabulary = executors.iter().map(|executor| executor.vocabulary()).min().unwrap_or(1);
    if let Some(model) = executors.iter().position(|executor| executor.vocabulary() != vocabulary) {
        let found = executors[model].vocabulary();
        return Err(DriverError::Vocabulary { model: config.models[model].name.clone(), found, expected: vocabulary });
    }
    if let Some(prompts) = &options.prompts {
        check_prompts(prompts, config, vocabulary)?;
    }
    for (executor, model) in executors.iter_mut().zip(&config.models) {
        executor.reset().map_err(|source| failed(&model.name, source))?;
    }
    thread::scope(|scope| {
        let (results_in, results) = channel();
        let mut jobs = Vec::with_capacity(n_models);
        let origin = Instant::now();
        for (idx, executor) in executors.iter_mut().enumerate() {
            let (jobs_in, jobs_out) = channel();
            let results_in = results_in.clone();
            let model = ModelIdx(u8::try_from(idx).expect("a coordinator handles at most 32 models"));
            let waiting = options.waiting;
            scope.spawn(move || serve(model, executor.as_mut(), waiting, origin, &jobs_out, &results_in));
            jobs.push(jobs_in);
        }
        let core = Core::new(Setup {
            config,
            seed,
            window,
            delays: Delays::Real { hop_ns: options.hop_ns },
            vocabulary: Some(vocabulary),
            prompts: options.prompts.clone(),
            choice: options.choice,
            cancellations: options.cancellations.clone(),
            keep_log: options.keep_log,
            keep_tokens: options.keep_tokens,
        });
        // Once the jobs' senders are dropped with the driver, the workers end.
        Driver { core, config, origin, waiting: options.waiting, jobs, results, in_flight: 0, spare: Vec::new() }.run()
    })
}

struct Driver<'r> {
    core: Core<'r>,
    config: &'r EngineConfig,
    origin: Instant,
    waiting: Waiting,
    jobs: Vec<Sender<Job>>,
    results: Receiver<Done>,
    in_flight: usize,
    spare: Vec<Job>,
}

impl Driver<'_> {
    fn run(mut self) -> Result<Measurement, DriverError> {
        let mut now = Timestamp::ZERO;
        let mut received: Vec<Done> = Vec::new();
        self.core.start();
        self.core.end_instant();
        self.dispatch()?;
        while !self.core.is_done() {
            let closes_at = self.core.closes_at();
            let due = self.core.next_time();
            if self.in_flight == 0 && due == Timestamp::MAX {
                return Err(self.core.stalled().into());
            }
            let wake = due.min(closes_at);
            received.extend(self.wait(wake)?);
            // Everything that is there already belongs to this instant.
            received.extend(self.results.try_iter());
            let clock = Timestamp::from_ns(elapsed_ns(self.origin));
            if received.is_empty() && clock < wake {
                continue;
            }
            // Two instants never share a time, so that a replay can tell them apart.
            now = clock.max(now + 1);
            if now > closes_at {
                self.core.run_out();
                break;
            }
            received.sort_by_key(|done| done.model);
            self.core.begin_instant(now);
            for done in received.drain(..) {
                self.in_flight -= 1;
                let Done { model, mut job, forward_ns, result } = done;
                result.map_err(|source| failed(&self.config.models[model.idx()].name, source))?;
                self.core.step_ended(model, forward_ns, &mut job.outputs);
                self.spare.push(job);
            }
            self.core.end_instant();
            self.dispatch()?;
        }
        let (metrics, log, requests) = self.core.close();
        Ok(Measurement { metrics, log, requests })
    }

    /// Waits for a result, but not beyond `wake`.
    fn wait(&self, wake: Timestamp) -> Result<Option<Done>, DriverError> {
        if self.waiting == Waiting::Spinning {
            let mut spin = Spin::default();
            loop {
                match self.results.try_recv() {
                    Ok(done) => return Ok(Some(done)),
                    Err(TryRecvError::Disconnected) => return Err(DriverError::WorkerGone),
                    Err(TryRecvError::Empty) if elapsed_ns(self.origin) >= wake.as_ns() => return Ok(None),
                    Err(TryRecvError::Empty) => spin.pause(),
                }
            }
        }
        if wake == Timestamp::MAX {
            return self.results.recv().map(Some).map_err(|_| DriverError::WorkerGone);
        }
        let left = Duration::from_nanos(wake.as_ns().saturating_sub(elapsed_ns(self.origin)));
        match self.results.recv_timeout(left) {
            Ok(done) => Ok(Some(done)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(DriverError::WorkerGone),
        }
    }

    /// Hands the steps that were launched at this instant to their workers.
    fn dispatch(&mut self) -> Result<(), DriverError> {
        for model in self.core.take_launched() {
            let mut job = self.spare.pop().unwrap_or_default();
            self.core.fill(model, &mut job);
            self.jobs[model.idx()].send(job).map_err(|_| DriverError::WorkerGone)?;
            self.in_flight += 1;
        }
        Ok(())
    }
}

fn check_prompts(prompts: &Prompts, config: &EngineConfig, vocabulary: u32) -> Result<(), DriverError> {
    if *config.workload.prompt() != Lengths::Recorded(prompts.lengths()) {
        return Err(DriverError::PromptLengths);
    }
    let token = prompts.token_max();
    if token >= vocabulary {
        return Err(DriverError::PromptToken { token, vocabulary });
    }
    Ok(())
}

fn failed(model: &str, source: ExecutorError) -> DriverError {
    DriverError::Executor { model: model.to_owned(), source: Box::new(source) }
}
