//! The driver with a virtual clock: runs what a log says about time through the same scheduler.

use handoff_scheduler::{ModelIdx, Timestamp};
use handoff_sim::engine::{EngineConfig, Window};

use super::DriverError;
use super::core::{Core, Delays, Setup};
use super::options::{Cancellation, Choice};
use crate::record::{RunLog, Timings};

/// Runs `config` on a virtual clock on which steps, messages, wake-ups and arrivals take as long as recorded. Configuration, seed, window
/// and cancellations must be those of the recorded run; then batches (members, kinds, order, times) and the end of the run are the same.
/// Where the policy decided by what the models measured, its decisions must be recorded too: see [`RunLog::decided`].
///
/// # Errors
/// [`DriverError::NeedsEntropy`], or if the run stalls, which the recorded one did not: then the two differ.
pub fn replay(
    config: &EngineConfig,
    seed: u64,
    window: Window,
    cancellations: &[Cancellation],
    timings: &Timings,
) -> Result<RunLog, DriverError> {
    if config.policy.needs_entropy() {
        return Err(DriverError::NeedsEntropy { policy: config.policy.kind() });
    }
    let mut core = Core::new(Setup {
        config,
        seed,
        window,
        delays: Delays::Recorded(timings),
        vocabulary: None,
        prompts: None,
        choice: Choice::Greedy,
        cancellations: cancellations.to_vec(),
        keep_log: true,
        keep_tokens: false,
    });
    let mut ends = vec![Timestamp::MAX; config.models.len()];
    let mut now = Timestamp::ZERO;
    let mut outputs = Vec::new();
    core.start();
    loop {
        core.end_instant();
        for model in core.take_launched() {
            let step = core.step_of(model).expect("it has just launched");
            let recorded_ns = timings.step_ns.get(model.idx()).and_then(|steps| steps.get(step));
            // A step that the recorded run did not live to see the end of never ends.
            ends[model.idx()] = now + recorded_ns.copied().unwrap_or(u64::MAX);
        }
        if core.is_done() {
            let (_, log, _) = core.close();
            return Ok(log.expect("a log was asked for"));
        }
        let next = ends.iter().copied().min().unwrap_or(Timestamp::MAX).min(core.next_time());
        if next > core.closes_at() {
            core.run_out();
            let (_, log, _) = core.close();
            return Ok(log.expect("a log was asked for"));
        }
        if next == Timestamp::MAX {
            return Err(core.stalled().into());
        }
        now = next;
        core.begin_instant(now);
        for (model, end) in ends.iter_mut().enumerate().filter(|(_, end)| **end == now) {
            *end = Timestamp::MAX;
            core.step_ended(ModelIdx(model as u8), (now.as_ns(), now.as_ns()), &mut outputs);
        }
    }
}
