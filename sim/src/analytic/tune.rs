//! The best thresholds of a scenario, by the best method that fits.
//!
//! Thresholds B, one a model, are **feasible** if the sum of (B - 1) is below the concurrency: otherwise all requests can end up waiting for each
//! other (theory, section 6). [`tune`] ranks the feasible vectors by throughput:
//!
//! | method | values come from | applies to |
//! |---|---|---|
//! | [`Method::Exact`] | [`super::chain`] | Markov policies, separate or exclusive placement, step times that depend on rows alone |
//! | [`Method::MeanField`] | [`super::mean_field`] | the R2R law on separate devices, thresholds of the large model up to 0.6 of the concurrency |
//! | [`Method::Simulate`] | [`crate::engine`], under common random numbers | everything |
//!
//! What a method leaves out is said in [`Tuning::notes`]; a method that does not apply is refused with its reason.
//!
//! # Pruning
//!
//! With n models and C requests the number of feasible vectors is the binomial coefficient of C - 1 + n over n. Where that is more than
//! [`TuneOptions::vectors_max`], the search is in two stages. First come the vectors of a coarse set of thresholds (1, 2, 3, 4, 6, 8, 12, ...), which has below each threshold
//! one that is less than a third smaller: throughput is flat near its optimum (theory, section 5.3: m* off by half a request loses less than 1 % from
//! C = 8 on), so the coarse set comes close to it. Then every threshold between the neighbours of the three best vectors is tried, one model at a time,
//! until nothing improves. `sim/tests/tune_random.rs` holds the loss against the full grid.

mod by_active;
mod confirm;
mod curve;
mod exact;
mod formulas;
mod race;
mod scaled;
mod search;
mod sensitivity;
mod space;
mod system;
#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::chain::{ChainError, ChainLimits};
use crate::engine::RunError;
use crate::scenario::{Scenario, ScenarioError};

pub use by_active::{ByActive, by_active};
pub use confirm::{Confirmation, Confirmed, confirm};
pub use curve::{Curve, CurvePoint, curves};
pub use exact::GridStep;
pub use formulas::{Statement, statements};
pub use sensitivity::{Elasticity, Quantity, Sensitivity, sensitivity};

use search::Evaluator;
use space::Space;
use system::System;

/// Where a candidate's throughput comes from.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Method {
    /// The exact Markov chain.
    Exact,
    /// The mean field.
    MeanField,
    /// Simulation.
    Simulate,
}

impl Method {
    /// Every method, in the order in which `auto` prefers them.
    pub const ALL: [Self; 3] = [Self::Exact, Self::MeanField, Self::Simulate];

    /// `exact`, `mean-field` or `simulate`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::MeanField => "mean-field",
            Self::Simulate => "simulate",
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Text that names no method.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("no method `{0}`, expected one of `exact`, `mean-field`, `simulate`")]
pub struct UnknownMethod(String);

impl FromStr for Method {
    type Err = UnknownMethod;
    fn from_str(text: &str) -> Result<Self, UnknownMethod> {
        Self::ALL.into_iter().find(|method| method.as_str() == text).ok_or_else(|| UnknownMethod(text.to_owned()))
    }
}

impl Serialize for Method {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Method {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

/// How thresholds are searched for.
#[derive(Clone, Debug, PartialEq)]
pub struct TuneOptions {
    /// The method; `None` takes the best one that fits.
    pub method: Option<Method>,
    /// Grid of the exact method, in seconds; `None` takes the largest common divisor of the step times, or the finest of 1, 2, 5, 10, ... microseconds
    /// whose chain is not too large.
    pub grid_s: Option<f64>,
    /// What one chain may cost.
    pub limits: ChainLimits,
    /// States that all chains of one search may have together, by their upper bound. Solving takes 1 to 2 microseconds a state.
    pub states_max: f64,
    /// Up to so many feasible vectors are all tried.
    pub vectors_max: usize,
    /// Replications that a finalist of a simulated search gets, at least 4. Those far behind get fewer.
    pub replications: u32,
}

impl Default for TuneOptions {
    /// The best method that fits, 10 million states, all of up to 120 vectors, 16 replications.
    fn default() -> Self {
        Self {
            method: None,
            grid_s: None,
            limits: ChainLimits::default(),
            states_max: 1e7,
            vectors_max: 120,
            replications: 16,
        }
    }
}

/// A vector of thresholds with its throughput.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// The threshold of each model, in index order.
    pub thresholds: Vec<u32>,
    /// Tokens per second. A simulated value is the winner's mean times the mean ratio to it over the replications that both ran, so that candidates
    /// with few replications rank as under common random numbers they do.
    pub throughput: f64,
    /// Where it comes from.
    pub method: Method,
    /// Half the width of its 95 % interval, tokens per second; only simulated values have one.
    pub half_width: Option<f64>,
    /// Replications behind a simulated value, else 0.
    pub replications: u32,
    /// Share of throughput that it loses against the best, 0 for the best.
    pub loss: f64,
}

/// What [`tune`] found.
#[derive(Clone, Debug)]
pub struct Tuning {
    /// All vectors that were tried, best first; of equal ones the smaller thresholds first. At least one.
    pub candidates: Vec<Candidate>,
    /// The method behind the winner.
    pub method: Method,
    /// Number of feasible vectors.
    pub n_feasible: f64,
    /// What the methods leave out, why a better one was not taken, and what was pruned.
    pub notes: Vec<String>,
    /// The step times of the exact method on their grid, one a model; empty if it was not used.
    pub grid_steps: Vec<GridStep>,
    /// Largest residual |pi P - pi| of the chains solved; `None` if none was.
    pub residual: Option<f64>,
}

impl Tuning {
    /// The winner.
    #[must_use]
    pub fn best(&self) -> &Candidate {
        &self.candidates[0]
    }

    /// The candidate with these thresholds, if it was tried.
    #[must_use]
    pub fn of(&self, thresholds: &[u32]) -> Option<&Candidate> {
        self.candidates.iter().find(|candidate| candidate.thresholds == thresholds)
    }
}

/// Why thresholds cannot be tuned.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum TuneError {
    /// The number of requests in the system is not fixed.
    #[error(
        "the arrivals are an open loop, expected a closed one (`workload.concurrency`): the best threshold depends on the number of requests in the \
         system; tune each concurrency and give the thresholds as lists by active requests"
    )]
    OpenLoop,
    /// The scenario's mode has no thresholds.
    #[error("`scheduler.mode` is {0}, which ignores thresholds, expected delayed or eager")]
    Mode(&'static str),
    /// The method that was asked for cannot describe the scenario.
    #[error("method {method} does not apply: {reason}")]
    NotApplicable {
        /// The method.
        method: Method,
        /// Why not, and what would do.
        reason: String,
    },
    /// Nothing was measured.
    #[error(
        "thresholds {thresholds:?}: the wanted requests all finished at one instant, so there is no time to measure over; raise `workload.requests`"
    )]
    NoTime {
        /// The thresholds.
        thresholds: Vec<u32>,
    },
    /// A variant of the scenario was refused.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// A chain has no solution.
    #[error("exact, thresholds {thresholds:?}: {error}")]
    Chain {
        /// The thresholds.
        thresholds: Vec<u32>,
        /// Why.
        error: ChainError,
    },
    /// A simulation stopped without a result.
    #[error("thresholds {thresholds:?}: {error}")]
    Run {
        /// The thresholds.
        thresholds: Vec<u32>,
        /// Why.
        error: RunError,
    },
}

impl TuneError {
    /// Whether the scenario or the options are at fault, as opposed to a run that failed.
    #[must_use]
    pub fn is_wrong_input(&self) -> bool {
        !matches!(self, Self::Chain { .. } | Self::Run { .. } | Self::NoTime { .. })
    }
}

/// Whether [`tune`] would take the scenario and the options, without running anything.
///
/// # Errors
/// If the arrivals are an open loop, the mode is one without thresholds, or the wanted method does not apply.
pub fn check(scenario: &Scenario, options: &TuneOptions) -> Result<(), TuneError> {
    search::check(&System::of(scenario)?, options)
}

/// The feasible thresholds of `scenario`, ranked by throughput. The scenario's own thresholds do not matter. Runs on the threads of the current
/// rayon pool; the result does not depend on their number.
///
/// # Errors
/// If the arrivals are an open loop, the mode is one without thresholds, the wanted method does not apply, or a run stops without a result.
///
/// ```
/// use handoff_sim::analytic::tune::{Method, TuneOptions, tune};
/// use handoff_sim::scenario::{Embedded, Scenario, Source};
///
/// // The published pair: 6.0 and 27.9 ms, R2R at p = 0.35, four requests. Its authors' best threshold of the large model is 3.
/// let scenario = Scenario::parse(&Source::new("pair.toml", "[policy]\nkind = \"r2r\"\n"), &Embedded::default())?;
/// let tuning = tune(&scenario, &TuneOptions::default())?;
/// assert_eq!((tuning.best().thresholds.as_slice(), tuning.method), (&[1, 3][..], Method::Exact));
/// assert!((tuning.best().throughput - 207.9).abs() < 0.1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn tune(scenario: &Scenario, options: &TuneOptions) -> Result<Tuning, TuneError> {
    let system = System::of(scenario)?;
    let space = Space::new(system.n_models(), system.concurrency);
    let mut evaluator = Evaluator::new(&system, &space, options)?;
    search::run(&space, options, &mut evaluator)?;
    Ok(evaluator.tuning(&space))
}
