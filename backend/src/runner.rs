//! Steps: rows of new tokens in, one token and its entropy per row out.

mod cpu;

use candle_core::DType;
use thiserror::Error;

use crate::kv::{KvError, PagePool};
use crate::qwen3::{FlatBatch, Qwen3Config, Weights, WeightsError};
use crate::sampling::Sampling;

/// One row of a step: new tokens of one request.
#[derive(Clone, Copy, Debug)]
pub struct RowInput<'a> {
    /// The request's slot, below [`RunnerOptions::slots`].
    pub slot: u32,
    /// The new tokens, at least one.
    pub tokens: &'a [u32],
    /// Position of the first of them: the number of tokens whose KV is kept.
    pub position: u32,
    /// How the row's next token is chosen.
    pub sampling: Sampling,
}

/// What a step found for one row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RowOutput {
    /// The token that follows the row's last one. Its own KV is not written yet.
    pub token: u32,
    /// Entropy of softmax(logits) at temperature 1, over ln(vocabulary): in [0, 1].
    pub entropy: f32,
}

/// Sizes that are fixed when a runner is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunnerOptions {
    /// Tokens that all requests together may keep.
    pub kv_tokens: usize,
    /// Requests that may keep tokens at once.
    pub slots: usize,
    /// Tokens that one request may keep.
    pub request_tokens_max: usize,
}

impl RunnerOptions {
    /// Small sizes for tests and examples on the made-up models.
    #[must_use]
    pub fn for_tests() -> Self {
        Self { kv_tokens: 2048, slots: 16, request_tokens_max: 1024 }
    }
}

/// Why a runner could not be made or a step could not be taken.
#[derive(Debug, Error)]
pub enum RunnerError {
    /// The weights could not be loaded.
    #[error(transparent)]
    Weights(#[from] WeightsError),
    /// The KV cache refused.
    #[error(transparent)]
    Kv(#[from] KvError),
    /// A step without rows.
    #[error("a step needs at least one row")]
    NoRows,
    /// A row without tokens.
    #[error("the row of slot {slot} has no new tokens: expected at least one")]
    EmptyRow {
        /// The row's slot.
        slot: u32,
    },
    /// Two rows of one request.
    #[error("slot {slot} has two rows in one step: expected at most one")]
    TwoRows {
        /// The slot.
        slot: u32,
    },
    /// The row does not start where the kept tokens end.
    #[error("the row of slot {slot} starts at position {position} but {kv_tokens} tokens are kept")]
    Position {
        /// The row's slot.
        slot: u32,
        /// Where it says that it starts.
        position: u32,
        /// Where it must start.
        kv_tokens: usize,
    },
    /// A token id beyond the vocabulary.
    #[error("slot {slot} has token {token} but the vocabulary ends at {vocabulary}")]
    Token {
        /// The row's slot.
        slot: u32,
        /// The token.
        token: u32,
        /// Tokens in the vocabulary.
        vocabulary: usize,
    },
    /// A temperature that is not a positive number.
    #[error("the row of slot {slot} has temperature {temperature}: expected a number greater than 0")]
    Temperature {
        /// The row's slot.
        slot: u32,
        /// What it asks for.
        temperature: f32,
    },
    /// A step is in flight already, and only one may be.
    #[error("a step is in flight: poll it before anything else")]
    Busy,
    /// There is no step to poll, or no finished step to look at.
    #[error("no step was launched")]
    Idle,
    /// The logits are not numbers: the weights are damaged, or the arithmetic overflowed.
    #[error("the logits of slot {slot} are not finite")]
    NotFinite {
        /// The row's slot.
        slot: u32,
    },
    /// The device failed. The runner should be dropped.
    #[error("the device failed: {0}")]
    Device(#[from] candle_core::Error),
}

/// A model, the pages of its KV cache, and the device that computes.
///
/// A step is [`Runner::launch`], then [`Runner::poll`] until it answers; [`Runner::step`] does both. At most one step is in flight.
pub struct Runner {
    config: Qwen3Config,
    pages: PagePool,
    executor: Box<dyn Executor>,
    batch: FlatBatch,
    growth: Vec<(u32, usize)>,
    sampling: Vec<Sampling>,
    outputs: Vec<RowOutput>,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Nothing was launched since the runner was made or the last step failed.
    Idle,
    InFlight,
    Finished,
}

/// A device that can run the forward of one model. Checks and bookkeeping are the runner's.
pub(crate) trait Executor: Send {
    /// Starts a forward over a checked batch whose pages exist.
    fn launch(&mut self, batch: &FlatBatch, sampling: &[Sampling]) -> candle_core::Result<()>;
    /// Whether the forward has finished; if so, `outputs` holds one entry per row. Waits for it if `wait`.
    fn poll(&mut self, wait: bool, outputs: &mut Vec<RowOutput>) -> candle_core::Result<bool>;
    /// Logits of a row of the last finished forward.
    fn logits(&mut self, row_idx: usize) -> candle_core::Result<Vec<f32>>;
}

impl Runner {
    /// A runner on the CPU, in F32 or F64. It computes inside [`Runner::launch`], and a row's result has the same bits in any batch.
    ///
    /// # Errors
    /// [`RunnerError::Weights`], or [`RunnerError::Device`] for another type.
    pub fn cpu(
        config: &Qwen3Config,
        weights: &Weights,
        dtype: DType,
        options: RunnerOptions,
    ) -> Result<Self, RunnerError> {
        let pages = options.pages();
        let executor = cpu::CpuExecutor::new(config, weights, dtype, pages.n_pages_stored())?;
        Ok(Self::new(config, pages, Box::new(executor)))
    }

    pub(crate) fn new(config: &Qwen3Config, pages: PagePool, executor: Box<dyn Executor>) -> Self {
        Self {
            config: config.clone(),
            pages,
            executor,
            batch: FlatBatch::default(),
            growth: Vec::new(),
            sampling: Vec::new(),
            outputs: Vec::new(),
            state: State::Idle,
        }
    }

    /// The model's shape.
    #[must_use]
    pub fn config(&self) -> &Qwen3Config {
        &self.config
    }

    /// The KV cache's bookkeeping.
    #[must_use]
    pub fn pages(&self) -> &PagePool {
        &self.pages
    }

    /// Starts a step. The rows' new tokens count as kept from now on.
    ///
    /// # Errors
    /// Any of [`RunnerError`]; the kept tokens are then what they were before.
    pub fn launch(&mut self, rows: &[RowInput<'_>]) -> Result<(), RunnerError> {
        if self.state == State::InFlight {
            return Err(RunnerError::Busy);
        }
        self.check(rows)?;
        self.growth.clear();
        self.growth.extend(rows.iter().map(|row| (row.slot, row.tokens.len())));
        self.pages.grow(&self.growth)?;
        self.state = State::Idle;
        if let Err(error) = self.start(rows) {
            self.pages.shrink(&self.growth);
            return Err(error);
        }
        self.state = State::InFlight;
        Ok(())
    }

    /// The step's outputs in the order of its rows, or `None` while it runs. After an answer, asks for nothing until the next launch.
    ///
    /// # Errors
    /// [`RunnerError::Idle`] if no step is in flight, [`RunnerError::NotFinite`], [`RunnerError::Device`].
    pub fn poll(&mut self) -> Result<Option<&[RowOutput]>, RunnerError> {
        self.finish(false)
    }

    /// As [`Runner::poll`], but waits.
    ///
    /// # Errors
    /// As [`Runner::poll`].
    pub fn wait(&mut self) -> Result<&[RowOutput], RunnerError> {
        Ok(self.finish(true)?.unwrap_or_default())
    }

    /// Launches a step and waits for it.
    ///
    /// # Errors
    /// As [`Runner::launch`] and [`Runner::poll`].
    pub fn step(&mut self, rows: &[RowInput<'_>]) -> Result<&[RowOutput], RunnerError> {
        self.launch(rows)?;
        self.wait()
    }

    /// Logits of a row of the last finished step, one per token of the vocabulary. On a GPU this copies them, so it is for tests only.
    ///
    /// # Errors
    /// [`RunnerError::Idle`] if there is no such step or row, [`RunnerError::Device`].
    pub fn logits(&mut self, row_idx: usize) -> Result<Vec<f32>, RunnerError> {
        if self.state != State::Finished || row_idx >= self.outputs.len() {
            return Err(RunnerError::Idle);
        }
        Ok(self.executor.logits(row_idx)?)
    }

    /// Frees all that a request keeps.
    ///
    /// # Errors
    /// [`RunnerError::Busy`] if the request is in the step in flight, or [`RunnerError::Kv`].
    pub fn free(&mut self, slot: u32) -> Result<(), RunnerError> {
        self.truncate(slot, 0)
    }

    /// Keeps only the first `kv_tokens` tokens of a request.
    ///
    /// # Errors
    /// As [`Runner::free`].
    pub fn truncate(&mut self, slot: u32, kv_tokens: usize) -> Result<(), RunnerError> {
        if self.state == State::InFlight && self.batch.slot_of_row.contains(&slot) {
            return Err(RunnerError::Busy);
        }
        Ok(self.pages.truncate(slot, kv_tokens)?)
    }

    fn check(&self, rows: &[RowInput<'_>]) -> Result<(), RunnerError> {
        if rows.is_empty() {
            return Err(RunnerError::NoRows);
        }
        for (row_idx, row) in rows.iter().enumerate() {
            let slot = row.slot;
            if row.tokens.is_empty() {
                return Err(RunnerError::EmptyRow { slot });
            }
            if rows[..row_idx].iter().any(|other| other.slot == slot) {
                return Err(RunnerError::TwoRows { slot });
            }
            let kv_tokens = self.pages.kv_tokens(slot)?;
            if row.position as usize != kv_tokens {
                return Err(RunnerError::Position { slot, position: row.position, kv_tokens });
            }
            if let Some(&token) = row.tokens.iter().find(|&&token| token as usize >= self.config.vocabulary) {
                return Err(RunnerError::Token { slot, token, vocabulary: self.config.vocabulary });
            }
            if let Sampling::Temperature { temperature, .. } = row.sampling
                && !(temperature > 0.0 && temperature.is_finite())
            {
                return Err(RunnerError::Temperature { slot, temperature });
            }
        }
        Ok(())
    }

    fn start(&mut self, rows: &[RowInput<'_>]) -> Result<(), RunnerError> {
        self.batch.clear();
        self.sampling.clear();
        for row in rows {
            self.batch.push_row(row.slot, row.tokens, row.position, self.pages.pages(row.slot)?);
            self.sampling.push(row.sampling);
        }
        Ok(self.executor.launch(&self.batch, &self.sampling)?)
    }

    fn finish(&mut self, wait: bool) -> Result<Option<&[RowOutput]>, RunnerError> {
        if self.state != State::InFlight {
            return Err(RunnerError::Idle);
        }
        match self.executor.poll(wait, &mut self.outputs) {
            Ok(false) => return Ok(None),
            Ok(true) => self.state = State::Finished,
            Err(error) => {
                self.state = State::Idle;
                return Err(error.into());
            }
        }
        let damaged = self.outputs.iter().position(|output| !output.entropy.is_finite());
        match damaged {
            Some(row_idx) => Err(RunnerError::NotFinite { slot: self.batch.slot_of_row[row_idx] }),
            None => Ok(Some(&self.outputs)),
        }
    }
}

impl std::fmt::Debug for Runner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Runner").field("config", &self.config).field("state", &self.state).finish_non_exhaustive()
    }
}

impl RunnerOptions {
    /// The page pool of this size.
    #[must_use]
    pub(crate) fn pages(&self) -> PagePool {
        PagePool::for_budget(self.kv_tokens, self.slots, self.request_tokens_max)
    }
}

#[cfg(test)]
mod tests;
