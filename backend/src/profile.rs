//! Measuring what the simulator reads: step times, co-run rates and what the host costs, as rows of a profile.
//!
//! | measured by | rows of the profile | what it is |
//! |---|---|---|
//! | [`measure_steps`] | `decode`, `extend` | one forward over a [`Grid`] of rows, new tokens and kept KV, and held-out points between |
//! | [`measure_corun`] | `corun` | the speed of decode steps beside those of another model |
//! | [`HostOverheads`] | `host` | what the driver spends around a forward |
//! | [`measure_hop`] | `hop` | a message from thread to thread |
//! | [`measure_choice`] | none | what a tempered choice costs beside a greedy one; it is inside of every forward |
//!
//! No model here has a routing network of its own, so there are no `router` rows: entropy comes with every forward, at the cost that is in
//! its time.
//!
//! A step is timed as the driver's worker sees it: from right before [`Executor::launch`] until [`Executor::poll`] has its results, with the
//! same way of waiting. What a step is about to add to the KV is taken away again between two steps, outside of the time. The first steps of
//! each shape are not counted: a CUDA runner sets a shape up in its first step and captures its graph in the second one.
//!
//! ```
//! use std::sync::Arc;
//! use handoff_backend::driver::{EmulatedExecutor, Waiting};
//! use handoff_backend::profile::{Axes, Control, Effort, Grid, Subject, held_out_error, measure_steps, to_csv};
//! use handoff_sim::cost::{AffineLatency, Profile, Selection};
//!
//! let latency = AffineLatency::new(0.2, 0.01, 0.01, 0.0)?;
//! let mut executor = EmulatedExecutor::timed(100, Arc::new(latency));
//! let mut subject = Subject {
//!     model: "pretender".into(),
//!     graph: false,
//!     executor: &mut executor,
//!     slots: 4,
//!     kv_tokens_max: 1000,
//!     request_tokens_max: 1000,
//! };
//! let grid = Grid { decode: Axes { rows: vec![1, 4], kv_tokens: vec![8, 32], ..Axes::decode() }, ..Grid::for_cpu() };
//! let effort = Effort { repeats_max: 3, ..Effort::default() };
//! let measured = measure_steps(&mut subject, &grid, &effort, 1, &mut Control::new(Waiting::Blocking))?;
//! let rows = measured.rows("this-machine");
//! assert_eq!(Profile::parse(&to_csv(&rows)?, "here")?.steps().len(), rows.len());
//! let error = held_out_error(&rows, &measured, &Selection::new("pretender", false))?;
//! assert!(error.is_some_and(|error| error.n > 0));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod bench;
mod choice;
mod corun;
mod grid;
mod held_out;
mod host;
mod row;
mod steps;
mod times;

use std::fmt;

use handoff_sim::cost::{LookupError, ProfileError};
use thiserror::Error;

use crate::driver::{DriverError, Executor, ExecutorError, Waiting};

pub use choice::{ChoiceCost, measure_choice};
pub use corun::{CorunEffort, CorunMeasurement, corun_rate, measure_corun};
pub use grid::{Axes, Grid, Point};
pub use held_out::{HeldOutError, HeldOutPoint, held_out_error};
pub use host::{HostLoad, HostOverheads, hop_row, measure_hop, measure_host};
pub use row::{Kind, ProfileRow, to_csv};
pub use steps::{Effort, MeasuredPoint, RepeatSpread, Skipped, StepMeasurements, measure_steps};
pub use times::Times;

/// A model to be measured, as an executor, and how much the executor holds.
pub struct Subject<'e> {
    /// The model's name in the profile.
    pub model: String,
    /// Whether the executor replays CUDA graphs where it can. The profile knows the setting, not what became of a single step: a runner
    /// launches its widest steps kernel by kernel either way.
    pub graph: bool,
    /// Who computes.
    pub executor: &'e mut dyn Executor,
    /// Requests that may keep tokens at once.
    pub slots: u32,
    /// Tokens that all requests together may keep.
    pub kv_tokens_max: u64,
    /// Tokens that one request may keep.
    pub request_tokens_max: u32,
}

impl fmt::Debug for Subject<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subject").field("model", &self.model).field("graph", &self.graph).finish_non_exhaustive()
    }
}

/// Why a point cannot be measured on an executor.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum Unfit {
    /// More rows than requests.
    #[error("it has {rows} rows but the executor holds {slots} requests")]
    Rows {
        /// Rows of the point.
        rows: u32,
        /// Requests of the executor.
        slots: u32,
    },
    /// All rows together are too long.
    #[error("it keeps {tokens} tokens but the executor holds {kv_tokens_max}")]
    KvTokens {
        /// Kept and new tokens of all rows.
        tokens: u64,
        /// Tokens of the executor.
        kv_tokens_max: u64,
    },
    /// Each row is too long.
    #[error("a row keeps {tokens} tokens but a request may keep {request_tokens_max}")]
    RequestTokens {
        /// Kept and new tokens of a row.
        tokens: u64,
        /// Tokens of a request.
        request_tokens_max: u32,
    },
}

impl Subject<'_> {
    /// Whether the executor can hold a batch of this shape.
    ///
    /// # Errors
    /// [`Unfit`] says what it is too large for.
    pub fn check(&self, point: Point) -> Result<(), Unfit> {
        let Self { slots, kv_tokens_max, request_tokens_max, .. } = *self;
        let row_tokens = u64::from(point.kv_tokens) + u64::from(point.new_tokens);
        let tokens = row_tokens * u64::from(point.rows);
        if point.rows > slots {
            return Err(Unfit::Rows { rows: point.rows, slots });
        }
        if row_tokens > u64::from(request_tokens_max) {
            return Err(Unfit::RequestTokens { tokens: row_tokens, request_tokens_max });
        }
        if tokens > kv_tokens_max {
            return Err(Unfit::KvTokens { tokens, kv_tokens_max });
        }
        Ok(())
    }
}

/// How far a measurement is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress<'a> {
    /// What is being measured: a model, or two.
    pub what: &'a str,
    /// Visits to points that are done.
    pub done: usize,
    /// Visits to points in all.
    pub total: usize,
}

/// How threads wait, who is told of progress, and who may stop a measurement.
pub struct Control<'c> {
    waiting: Waiting,
    progress: Box<dyn FnMut(Progress<'_>) + 'c>,
    should_stop: Box<dyn Fn() -> bool + Sync + 'c>,
}

impl<'c> Control<'c> {
    /// Waits in this way, tells nobody and is never stopped. Use what the driver will use: a spinning wait notices a result some
    /// microseconds earlier.
    #[must_use]
    pub fn new(waiting: Waiting) -> Self {
        Self { waiting, progress: Box::new(|_| {}), should_stop: Box::new(|| false) }
    }

    /// Tells `progress` after each visit to a point.
    #[must_use]
    pub fn on_progress(self, progress: impl FnMut(Progress<'_>) + 'c) -> Self {
        Self { progress: Box::new(progress), ..self }
    }

    /// Asks `should_stop` between two steps; once it says yes, the measurement ends with [`MeasureError::Stopped`].
    #[must_use]
    pub fn stop_if(self, should_stop: impl Fn() -> bool + Sync + 'c) -> Self {
        Self { should_stop: Box::new(should_stop), ..self }
    }

    fn check(&self) -> Result<(), MeasureError> {
        if (self.should_stop)() { Err(MeasureError::Stopped) } else { Ok(()) }
    }
}

impl fmt::Debug for Control<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Control").field("waiting", &self.waiting).finish_non_exhaustive()
    }
}

/// Why something could not be measured.
#[derive(Debug, Error)]
pub enum MeasureError {
    /// A number that a measurement was asked with makes no sense.
    #[error("`{field}` is {value}, expected {expected}")]
    Setting {
        /// What it is for.
        field: &'static str,
        /// The number or the list.
        value: String,
        /// What is allowed.
        expected: &'static str,
    },
    /// The executor holds none of the points.
    #[error("`{model}` holds none of the {n_points} points; the smallest is {point}: {reason}")]
    NothingFits {
        /// The model.
        model: String,
        /// Points asked for.
        n_points: usize,
        /// The smallest of them.
        point: Point,
        /// What it is too large for.
        reason: Unfit,
    },
    /// The executor does not hold a batch of a co-run or of a choice.
    #[error("`{model}` cannot be measured at {point}: {reason}")]
    Unfit {
        /// The model.
        model: String,
        /// The batch.
        point: Point,
        /// What it is too large for.
        reason: Unfit,
    },
    /// An executor failed.
    #[error("`{model}`: {source}")]
    Executor {
        /// The model.
        model: String,
        /// What it said.
        source: Box<ExecutorError>,
    },
    /// Two models never computed at the same time, although each had a thread that did nothing else.
    #[error(
        "no step of `{model}` lay beside steps of `{peer_model}`; expected a core for each of them and longer phases than steps"
    )]
    NoOverlap {
        /// The model without samples.
        model: String,
        /// The other one.
        peer_model: String,
    },
    /// The run that shows what the host costs failed.
    #[error(transparent)]
    Driver(Box<DriverError>),
    /// The log of a run holds too few forwards to tell what the host costs.
    #[error("the run's log has {n_forwards} forwards, expected at least {expected}")]
    ShortLog {
        /// Forwards in the log.
        n_forwards: usize,
        /// Forwards that are needed.
        expected: usize,
    },
    /// The simulator does not take the profile.
    #[error(transparent)]
    Profile(Box<ProfileError>),
    /// The simulator does not find the model's steps in the profile.
    #[error(transparent)]
    Lookup(Box<LookupError>),
    /// The rows could not be written.
    #[error("the profile could not be written: {0}")]
    Write(#[from] csv::Error),
    /// It was stopped from outside.
    #[error("the measurement was stopped")]
    Stopped,
}

// Boxed, so that results without an error stay small.
impl From<DriverError> for MeasureError {
    fn from(error: DriverError) -> Self {
        Self::Driver(Box::new(error))
    }
}

impl From<ProfileError> for MeasureError {
    fn from(error: ProfileError) -> Self {
        Self::Profile(Box::new(error))
    }
}

impl From<LookupError> for MeasureError {
    fn from(error: LookupError) -> Self {
        Self::Lookup(Box::new(error))
    }
}
