//! The driver with a real clock: the twin of the simulator's engine.
//!
//! ```text
//!              decisions of the policy, arrivals, lengths: as in the simulator
//!                                     |
//!   scheduling thread:  Core { Subserver per model, Coordinator, contexts, books }
//!                          |  job (rows, tokens)          ^  results
//!                          v                              |
//!   one thread a model:  Executor (a Runner, or an EmulatedExecutor)
//! ```
//!
//! One thread owns the scheduler and only the forwards run elsewhere. It waits for a result or for the next time that something is due,
//! takes in all that is there by then, delivers messages, and asks for launches last. All that happens in one such round has one time
//! stamp. So a run is determined by its configuration, its seed and how long things took ([`Timings`](crate::record::Timings)), and [`replay`]
//! repeats it exactly on a virtual clock.
//!
//! Tokens: each subserver knows only the tokens that it made or was sent ([`measure`] would stop at a gap), so a message that carried too
//! little could not go unnoticed.
//!
//! ```
//! use handoff_backend::driver::{DriverOptions, EmulatedExecutor, Executor, measure};
//! use handoff_sim::engine::{EngineConfig, Window};
//! use handoff_sim::scenario::{Embedded, Scenario, Source};
//!
//! let text = "workload = { concurrency = 2, prompt_tokens = 3, output_tokens = 8 }\n[policy]\nkind = \"every\"\nsmall = 2\nlarge = 2\n";
//! let scenario = Scenario::parse(&Source::new("pair.toml", text), &Embedded::default())?;
//! let mut executors: Vec<Box<dyn Executor>> =
//!     (0..2).map(|_| Box::new(EmulatedExecutor::instant(100)) as Box<dyn Executor>).collect();
//! let window = Window::Requests { warmup_requests: 2, requests: 5 };
//! let run = measure(&EngineConfig::from(&scenario), &mut executors, 1, window, &DriverOptions::default())?;
//! assert!(run.metrics.tokens > 30 && run.metrics.handoffs > 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod account;
mod contexts;
mod core;
mod executor;
mod options;
mod real;
mod requests;
mod virtual_clock;
mod worker;

use handoff_sim::engine::{Metrics, RunError};
use thiserror::Error;

use crate::record::RunLog;

pub use core::FinishedRequest;
pub use executor::{EmulatedExecutor, Executor, ExecutorError};
pub use options::{Cancellation, Choice, DriverOptions, Waiting};
pub use real::measure;
pub use virtual_clock::replay;
pub(crate) use worker::Spin;

/// What a run on the real clock found.
#[derive(Clone, Debug)]
pub struct Measurement {
    /// The same quantities as the simulator's, over the same kind of window.
    pub metrics: Metrics,
    /// The log, if it was asked for.
    pub log: Option<RunLog>,
    /// The requests that finished, in order, if their tokens were asked for.
    pub requests: Vec<FinishedRequest>,
}

/// Why a run on the real clock gave no result.
#[derive(Debug, Error)]
pub enum DriverError {
    /// The number of executors is not the number of models.
    #[error("there are {n_executors} executors, expected {n_models}, one a model")]
    Executors {
        /// Executors given.
        n_executors: usize,
        /// Models of the configuration.
        n_models: usize,
    },
    /// The models do not speak the same tokens.
    #[error("the vocabulary of `{model}` is {found}, expected {expected} as for the other models")]
    Vocabulary {
        /// The model's name.
        model: String,
        /// Its vocabulary.
        found: u32,
        /// The smallest vocabulary of all.
        expected: u32,
    },
    /// An executor failed.
    #[error("`{model}`: {source}")]
    Executor {
        /// The model's name.
        model: String,
        /// What it said.
        source: Box<ExecutorError>,
    },
    /// The workload has other prompt lengths than the prompts.
    #[error(
        "the workload's prompt lengths are not those of the prompts, expected the workload that the prompts make of it"
    )]
    PromptLengths,
    /// A prompt has a token that the models do not know.
    #[error("a prompt has token {token}, expected an id below {vocabulary}, the vocabulary of the models")]
    PromptToken {
        /// The largest id of all prompts.
        token: u32,
        /// The models' vocabulary.
        vocabulary: u32,
    },
    /// The policy decides by what models measure, and a replay has none.
    #[error(
        "the policy `{policy}` decides by the entropy of models, which a replay does not have; expected the recorded decisions"
    )]
    NeedsEntropy {
        /// The policy.
        policy: &'static str,
    },
    /// The run cannot go on.
    #[error(transparent)]
    Run(#[from] RunError),
    /// A model's thread ended while it was needed.
    #[error("the thread of a model ended before the run did")]
    WorkerGone,
}
