//! What the requests of a run are like: how they arrive, how long their prompts and outputs are, and how much of the run
//! is measured.
//!
//! Lengths of a request are drawn from a stream of its own, so they do not depend on scheduling: two scenarios that
//! differ in a threshold, or in anything else but the workload, serve the very same requests.

mod arrivals;
mod csv;
mod lengths;

pub use arrivals::{Arrivals, ArrivalsError, CONCURRENCY_MAX, SECONDS_MAX};
pub use csv::{BYTES_MAX, CsvError, LengthColumn, parse_arrivals, parse_lengths, read_arrivals, read_lengths};
pub use lengths::{Lengths, LengthsError, TOKENS_MAX};

use crate::rng::{Purpose, Stream};

/// Where in the routing cycle the first requests of a closed loop begin.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Start {
    /// All at the same point: fresh, at the entry model.
    InPhase,
    /// Evenly over the cycle.
    Spread,
    /// At a phase and a remaining length drawn per request and replication.
    #[default]
    Random,
}

/// How much of a run is left out of the results as its warm-up.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Warmup {
    /// Until the series of throughput has settled, see [`mser5`](crate::stats::mser5).
    #[default]
    Auto,
    /// Until this many requests have completed.
    Requests(u32),
}

/// Why a [`Workload`] cannot be made.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum WorkloadError {
    /// The arrivals are not usable.
    #[error(transparent)]
    Arrivals(#[from] ArrivalsError),
    /// The prompt lengths are not usable.
    #[error("`prompt_tokens`: {0}")]
    Prompt(#[source] LengthsError),
    /// The output lengths are not usable.
    #[error("`output_tokens`: {0}")]
    Output(#[source] LengthsError),
    /// Nothing would be measured.
    #[error("`requests` is 0, expected at least 1")]
    NoRequests,
    /// The trace ends before the run does.
    #[error(
        "`requests` is {requests} after a `warmup` of {warmup}, expected at most {arrivals} together: the trace has no more arrivals"
    )]
    TraceTooShort {
        /// Requests to be measured.
        requests: u32,
        /// Requests of the warm-up, 0 if it is found automatically.
        warmup: u32,
        /// Arrivals in the trace.
        arrivals: usize,
    },
    /// The precision is no usable relative half-width.
    #[error("`precision` is {0}, expected a number above 0 and below 1")]
    Precision(f64),
}

/// A validated workload: every value in it can be run.
///
/// ```
/// use handoff_sim::workload::{Arrivals, Lengths, Warmup, Workload};
///
/// let workload = Workload::new(Arrivals::closed_loop(4)?, 200, Lengths::constant(100)?, Lengths::lognormal(2048.0, 0.5)?)?
///     .with_warmup(Warmup::Requests(20))?
///     .with_precision(0.02)?;
/// let (prompt_tokens, output_tokens) = workload.lengths(1, 0);
/// assert_eq!((prompt_tokens, output_tokens), workload.lengths(1, 0));
/// assert_eq!(prompt_tokens, 100);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct Workload {
    arrivals: Arrivals,
    requests: u32,
    prompt: Lengths,
    output: Lengths,
    start: Start,
    warmup: Warmup,
    precision: f64,
}

impl Workload {
    /// The relative half-width wanted unless [`Self::with_precision`] says otherwise: 1 %.
    pub const PRECISION: f64 = 0.01;

    /// A workload that measures `requests` completed requests per replication after the warm-up; with a random start, an
    /// automatic warm-up and a precision of [`Self::PRECISION`].
    ///
    /// # Errors
    /// If a part is not usable; the text names the field, its value and what was expected.
    pub fn new(arrivals: Arrivals, requests: u32, prompt: Lengths, output: Lengths) -> Result<Self, WorkloadError> {
        arrivals.validate()?;
        prompt.validate().map_err(WorkloadError::Prompt)?;
        output.validate().map_err(WorkloadError::Output)?;
        if requests == 0 {
            return Err(WorkloadError::NoRequests);
        }
        let (start, warmup) = (Start::default(), Warmup::default());
        Self { arrivals, requests, prompt, output, start, warmup, precision: Self::PRECISION }.with_warmup(warmup)
    }

    /// The same with other prompt lengths.
    ///
    /// # Errors
    /// If they are not usable.
    pub fn with_prompt(self, prompt: Lengths) -> Result<Self, WorkloadError> {
        prompt.validate().map_err(WorkloadError::Prompt)?;
        Ok(Self { prompt, ..self })
    }

    /// The same with another start.
    #[must_use]
    pub fn with_start(self, start: Start) -> Self {
        Self { start, ..self }
    }

    /// The same with another warm-up.
    ///
    /// # Errors
    /// If a trace has too few arrivals for the warm-up and the measured requests together.
    pub fn with_warmup(self, warmup: Warmup) -> Result<Self, WorkloadError> {
        let warmup_requests = match warmup {
            Warmup::Auto => 0,
            Warmup::Requests(requests) => requests,
        };
        if let Arrivals::Trace { arrivals_ns } = &self.arrivals
            && u64::from(self.requests) + u64::from(warmup_requests) > arrivals_ns.len() as u64
        {
            let (requests, arrivals) = (self.requests, arrivals_ns.len());
            return Err(WorkloadError::TraceTooShort { requests, warmup: warmup_requests, arrivals });
        }
        Ok(Self { warmup, ..self })
    }

    /// The same with another relative half-width of the 95 % interval at which replications stop.
    ///
    /// # Errors
    /// If `precision` is not between 0 and 1.
    pub fn with_precision(self, precision: f64) -> Result<Self, WorkloadError> {
        if precision > 0.0 && precision < 1.0 {
            Ok(Self { precision, ..self })
        } else {
            Err(WorkloadError::Precision(precision))
        }
    }

    /// How requests arrive.
    #[must_use]
    pub fn arrivals(&self) -> &Arrivals {
        &self.arrivals
    }

    /// Completed requests measured per replication, after the warm-up; at least 1.
    #[must_use]
    pub fn requests(&self) -> u32 {
        self.requests
    }

    /// Lengths of prompts, in tokens.
    #[must_use]
    pub fn prompt(&self) -> &Lengths {
        &self.prompt
    }

    /// Lengths of outputs, in tokens.
    #[must_use]
    pub fn output(&self) -> &Lengths {
        &self.output
    }

    /// Where the first requests of a closed loop begin.
    #[must_use]
    pub fn start(&self) -> Start {
        self.start
    }

    /// What is left out as the warm-up.
    #[must_use]
    pub fn warmup(&self) -> Warmup {
        self.warmup
    }

    /// The relative half-width of the 95 % interval at which replications stop; above 0 and below 1.
    #[must_use]
    pub fn precision(&self) -> f64 {
        self.precision
    }

    /// The prompt tokens and the output tokens, in this order and both at least 1, of request number `request_idx` of the
    /// replication with seed `seed`: the same whenever and wherever it is served. Prompt and output take one draw each,
    /// whatever their kind, so changing the one leaves the other alone.
    #[must_use]
    pub fn lengths(&self, seed: u64, request_idx: u64) -> (u32, u32) {
        let mut stream = Stream::new(seed, Purpose::Length, request_idx);
        let prompt_tokens = self.prompt.draw(request_idx, &mut stream);
        let output_tokens = self.output.draw(request_idx, &mut stream);
        (prompt_tokens, output_tokens)
    }

    /// The most tokens that one request can come to hold, prompt and output together.
    #[must_use]
    pub fn tokens_max(&self) -> u32 {
        // Cannot saturate: each is at most TOKENS_MAX.
        self.prompt.max().saturating_add(self.output.max())
    }
}

#[cfg(test)]
mod tests;
