//! Who computes the steps of one model.

use std::fmt;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use handoff_sim::cost::{BatchShape, StepLatency};
use thiserror::Error;

use crate::qwen3::weights::mix;
use crate::runner::{RowInput, RowOutput, Runner, RunnerError};

/// Why an executor could not do what it was asked for.
#[derive(Debug, Error)]
pub enum ExecutorError {
    /// A runner refused or failed.
    #[error(transparent)]
    Runner(#[from] RunnerError),
    /// A row does not start where the kept tokens end.
    #[error("the row of slot {slot} starts at position {position}, expected {kv_tokens}, the number of kept tokens")]
    Position {
        /// The row's slot.
        slot: u32,
        /// Where it says that it starts.
        position: u32,
        /// Tokens kept.
        kv_tokens: usize,
    },
    /// There is no step to poll.
    #[error("no step is in flight")]
    Idle,
    /// The executor panicked; its thread has said why on standard error.
    #[error("the executor panicked")]
    Panicked,
}

/// Who computes the steps of one model: a model on a device, or something that behaves like one. One thread owns it while a run lasts.
pub trait Executor: Send {
    /// Token ids lie below this.
    fn vocabulary(&self) -> u32;

    /// Frees the KV of all requests. No step is in flight.
    ///
    /// # Errors
    /// If the device fails.
    fn reset(&mut self) -> Result<(), ExecutorError>;

    /// Keeps only the first `kv_tokens` tokens of a request, or all if there are no more than that. No step is in flight.
    ///
    /// # Errors
    /// If the slot is unknown or the device fails.
    fn truncate(&mut self, slot: u32, kv_tokens: u32) -> Result<(), ExecutorError>;

    /// Starts a step. Each row starts where the kept tokens of its request end.
    ///
    /// # Errors
    /// If a row does not, or the device fails.
    fn launch(&mut self, rows: &[RowInput<'_>]) -> Result<(), ExecutorError>;

    /// Whether the step in flight is done; then `outputs` holds one entry a row, in the order of the rows. With `wait` it always is.
    ///
    /// # Errors
    /// If no step is in flight, or the device fails.
    fn poll(&mut self, wait: bool, outputs: &mut Vec<RowOutput>) -> Result<bool, ExecutorError>;
}

impl Executor for Runner {
    fn vocabulary(&self) -> u32 {
        u32::try_from(self.config().vocabulary).unwrap_or(u32::MAX)
    }

    fn reset(&mut self) -> Result<(), ExecutorError> {
        for slot in 0..self.pages().n_slots() {
            self.free(u32::try_from(slot).unwrap_or(u32::MAX))?;
        }
        Ok(())
    }

    fn truncate(&mut self, slot: u32, kv_tokens: u32) -> Result<(), ExecutorError> {
        let kept = self.pages().kv_tokens(slot).map_err(RunnerError::from)?;
        if kept > kv_tokens as usize {
            Self::truncate(self, slot, kv_tokens as usize)?;
        }
        Ok(())
    }

    fn launch(&mut self, rows: &[RowInput<'_>]) -> Result<(), ExecutorError> {
        Ok(Self::launch(self, rows)?)
    }

    fn poll(&mut self, wait: bool, outputs: &mut Vec<RowOutput>) -> Result<bool, ExecutorError> {
        let answer = if wait { Some(self.wait()?) } else { Self::poll(self)? };
        let Some(found) = answer else { return Ok(false) };
        outputs.clear();
        outputs.extend_from_slice(found);
        Ok(true)
    }
}

/// Behaves like a model without being one: a step takes as long as a cost model says (or no time), and a row's token is a hash of every
/// token in front of it. So a wrong or misplaced token in the KV changes all that follows, as it would in a model.
pub struct EmulatedExecutor {
    vocabulary: u32,
    latency: Option<Arc<dyn StepLatency>>,
    /// By slot: for each kept token, the hash of it and of all in front of it.
    kept: Vec<Vec<u64>>,
    outputs: Vec<RowOutput>,
    ends_at: Option<Instant>,
}

impl EmulatedExecutor {
    /// An executor with that many token ids, at least 1, whose steps take no time.
    #[must_use]
    pub fn instant(vocabulary: u32) -> Self {
        Self { vocabulary: vocabulary.max(1), latency: None, kept: Vec::new(), outputs: Vec::new(), ends_at: None }
    }

    /// An executor whose steps take as long as `latency` says.
    #[must_use]
    pub fn timed(vocabulary: u32, latency: Arc<dyn StepLatency>) -> Self {
        Self { latency: Some(latency), ..Self::instant(vocabulary) }
    }

    /// Tokens that all requests together keep.
    #[must_use]
    pub fn kept_tokens(&self) -> usize {
        self.kept.iter().map(Vec::len).sum()
    }

    fn kept(&mut self, slot: u32) -> &mut Vec<u64> {
        let slot = slot as usize;
        if slot >= self.kept.len() {
            self.kept.resize(slot + 1, Vec::new());
        }
        &mut self.kept[slot]
    }
}

impl Executor for EmulatedExecutor {
    fn vocabulary(&self) -> u32 {
        self.vocabulary
    }

    fn reset(&mut self) -> Result<(), ExecutorError> {
        self.kept.clear();
        Ok(())
    }

    fn truncate(&mut self, slot: u32, kv_tokens: u32) -> Result<(), ExecutorError> {
        self.kept(slot).truncate(kv_tokens as usize);
        Ok(())
    }

    fn launch(&mut self, rows: &[RowInput<'_>]) -> Result<(), ExecutorError> {
        let launched_at = Instant::now();
        self.outputs.clear();
        let mut shape = BatchShape::default();
        for row in rows {
            let vocabulary = u64::from(self.vocabulary);
            let kept = self.kept(row.slot);
            if kept.len() != row.position as usize {
                return Err(ExecutorError::Position { slot: row.slot, position: row.position, kv_tokens: kept.len() });
            }
            let mut hash = kept.last().copied().unwrap_or_default();
            for &token in row.tokens {
                hash = mix(hash.wrapping_mul(3) ^ (u64::from(token) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
                kept.push(hash);
            }
            let token = u32::try_from(mix(hash ^ 1) % vocabulary).expect("below the vocabulary, a u32");
            let entropy = (mix(hash ^ 2) >> 40) as f32 / 16_777_216.0;
            self.outputs.push(RowOutput { token, entropy });
            shape.rows += 1;
            shape.decode_rows += u32::from(row.position > 0 && row.tokens.len() == 1);
            shape.new_tokens += row.tokens.len() as u64;
            shape.kv_tokens += u64::from(row.position);
        }
        let ns = self.latency.as_ref().map_or(0, |latency| latency.step(&shape).ns);
        self.ends_at = Some(launched_at + Duration::from_nanos(ns));
        Ok(())
    }

    fn poll(&mut self, wait: bool, outputs: &mut Vec<RowOutput>) -> Result<bool, ExecutorError> {
        let left = self.ends_at.ok_or(ExecutorError::Idle)?.saturating_duration_since(Instant::now());
        if !left.is_zero() {
            if !wait {
                return Ok(false);
            }
            thread::sleep(left);
        }
        self.ends_at = None;
        outputs.clone_from(&self.outputs);
        Ok(true)
    }
}

impl fmt::Debug for EmulatedExecutor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EmulatedExecutor").field("vocabulary", &self.vocabulary).finish_non_exhaustive()
    }
}
