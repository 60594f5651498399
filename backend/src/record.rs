//! What happened in a run: everything told to each subserver and everything that it said, with time stamps.
//!
//! A [`RunLog`] serves two proofs. *Decision replay*: [`RunLog::replay_decisions`] tells fresh subservers the recorded inputs and compares
//! what they say. *Schedule replay*: [`crate::driver::replay`] runs the same configuration on a virtual clock, given only the recorded
//! [`Timings`], and its own log must have the same batches at the same times.

mod decisions;
mod watch;

use std::io::{self, Write};
use std::sync::Arc;

use handoff_scheduler::{
    Input, ModelIdx, Outcome, Output, PeerRequest, RequestId, Row, StepId, SubserverConfig, Timestamp,
};
use handoff_sim::engine::EngineConfig;
use handoff_sim::policy::record::{RecordProblem, RecordRow, RecordWriter};
use handoff_sim::policy::{Rerun, RouteRecord};

pub use decisions::Divergence;

/// A fact that a subserver was told; [`Input`] with its own outcomes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RecordedInput {
    /// A client's request arrived.
    RequestArrived {
        /// The request.
        request: RequestId,
        /// Tokens to prefill.
        context_tokens: u32,
        /// The most tokens that the request can reach.
        context_tokens_max: u32,
    },
    /// A peer request arrived.
    HandoffArrived {
        /// The message.
        message: PeerRequest,
        /// The most tokens that the request can reach.
        context_tokens_max: u32,
    },
    /// The step in flight is complete.
    StepFinished {
        /// The step.
        step: StepId,
        /// One decision a row.
        outcomes: Vec<Outcome>,
    },
    /// The number of requests in the system changed.
    ActiveChanged {
        /// Requests in the system.
        n: u32,
    },
    /// The client gave up.
    RequestCancelled {
        /// The request.
        request: RequestId,
    },
    /// A wake-up.
    TimedOut,
}

impl RecordedInput {
    /// The input as a subserver takes it.
    #[must_use]
    pub fn as_input(&self) -> Input<'_> {
        match *self {
            Self::RequestArrived { request, context_tokens, context_tokens_max } => {
                Input::RequestArrived { request, context_tokens, context_tokens_max }
            }
            Self::HandoffArrived { message, context_tokens_max } => {
                Input::HandoffArrived { message, context_tokens_max }
            }
            Self::StepFinished { step, ref outcomes } => Input::StepFinished { step, outcomes },
            Self::ActiveChanged { n } => Input::ActiveChanged { n },
            Self::RequestCancelled { request } => Input::RequestCancelled { request },
            Self::TimedOut => Input::TimedOut,
        }
    }
}

impl From<Input<'_>> for RecordedInput {
    fn from(input: Input<'_>) -> Self {
        match input {
            Input::RequestArrived { request, context_tokens, context_tokens_max } => {
                Self::RequestArrived { request, context_tokens, context_tokens_max }
            }
            Input::HandoffArrived { message, context_tokens_max } => {
                Self::HandoffArrived { message, context_tokens_max }
            }
            Input::StepFinished { step, outcomes } => Self::StepFinished { step, outcomes: outcomes.to_vec() },
            Input::ActiveChanged { n } => Self::ActiveChanged { n },
            Input::RequestCancelled { request } => Self::RequestCancelled { request },
            Input::TimedOut => Self::TimedOut,
        }
    }
}

/// Something that passed between the driver and one subserver.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// The subserver was told a fact.
    Told(RecordedInput),
    /// The subserver asked the driver to do something.
    Said(Output),
    /// The subserver launched.
    Launched(Launch),
    /// The subserver was asked for a launch and had none.
    Declined,
    /// The forward is over and its device free. In step-sync mode its results may be told much later.
    ForwardEnded {
        /// When the executor was asked to launch and when its results were there, ns since the start of the run.
        forward_ns: (u64, u64),
    },
}

/// A batch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Launch {
    /// The step.
    pub step: StepId,
    /// The rows, in order.
    pub rows: Vec<Row>,
    /// For each row, the index of its request in the run.
    pub request_idx: Vec<u64>,
}

/// An event of one subserver with its time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// The instant at which the driver acted.
    pub at: Timestamp,
    /// The subserver.
    pub model: ModelIdx,
    /// What happened.
    pub event: Event,
}

/// How long things took: all that a schedule depends on besides configuration and seed.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Timings {
    /// By model, then step: from the launch until the driver knew that the forward was over, ns.
    pub step_ns: Vec<Vec<u64>>,
    /// By message, in the order in which they were sent: from sending to delivery, ns; `u64::MAX` if it was still on its way at the end.
    pub message_ns: Vec<u64>,
    /// By wake-up: how late the driver came, ns.
    pub wake_late_ns: Vec<u64>,
    /// By request of an open loop: how late after its arrival the driver took it in, ns.
    pub arrival_late_ns: Vec<u64>,
}

/// What happened in a run.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct RunLog {
    /// How the subservers were made.
    pub subservers: Vec<SubserverConfig>,
    /// Everything that passed between the driver and the subservers, in order.
    pub entries: Vec<Entry>,
    /// How long things took.
    pub timings: Timings,
    /// The decision about every row of every step, requests by their index in the run.
    pub routes: Vec<RecordRow>,
    /// The last instant of the run.
    pub ended_at: Timestamp,
}

impl RunLog {
    pub(crate) fn new(subservers: Vec<SubserverConfig>) -> Self {
        let step_ns = vec![Vec::new(); subservers.len()];
        Self { subservers, timings: Timings { step_ns, ..Timings::default() }, ..Self::default() }
    }

    pub(crate) fn push(&mut self, at: Timestamp, model: ModelIdx, event: Event) {
        self.entries.push(Entry { at, model, event });
    }

    /// The batches, in order.
    pub fn launches(&self) -> impl Iterator<Item = (Timestamp, ModelIdx, &Launch)> {
        self.entries.iter().filter_map(|entry| match &entry.event {
            Event::Launched(launch) => Some((entry.at, entry.model, launch)),
            _ => None,
        })
    }

    /// For each finished forward of `model`, in order: ns from the launch until the executor was asked to launch, ns of the forward, and ns
    /// from its results until the driver knew of them. The first and the last are what the host costs.
    #[must_use]
    pub fn forwards_ns(&self, model: ModelIdx) -> Vec<(u64, u64, u64)> {
        let mut launched_at = Timestamp::ZERO;
        let mut forwards = Vec::new();
        for entry in self.entries.iter().filter(|entry| entry.model == model) {
            match entry.event {
                Event::Launched(_) => launched_at = entry.at,
                Event::ForwardEnded { forward_ns: (start, end) } => {
                    let before = start.saturating_sub(launched_at.as_ns());
                    forwards.push((before, end.saturating_sub(start), entry.at.as_ns().saturating_sub(end)));
                }
                _ => {}
            }
        }
        forwards
    }

    /// `config`, of which this is a run, with the recorded decisions in place of the policy's own. What the models measured is in them, so the
    /// run repeats where there are no models.
    ///
    /// # Errors
    /// If nothing was decided, or the routes are not those of a run.
    pub fn decided(&self, config: &EngineConfig) -> Result<EngineConfig, RecordProblem> {
        let record = RouteRecord::from_rows(&self.routes, config.models.len())?;
        let policy = Arc::new(Rerun::new(Arc::clone(&config.policy), record));
        Ok(EngineConfig { policy, ..config.clone() })
    }

    /// Writes the route record, from which a simulator can take the same routes. Requests of which no token was committed, because the run
    /// ended or the client gave up, are left out: they are no routes that a request could take to its end.
    ///
    /// # Errors
    /// If writing fails.
    pub fn write_routes(&self, writer: impl Write) -> io::Result<()> {
        let mut record = RecordWriter::new(writer)?;
        let mut numbers: Vec<u64> =
            self.routes.iter().filter(|row| row.outcome.committed).map(|row| row.request).collect();
        numbers.sort_unstable();
        numbers.dedup();
        for row in self.routes.iter().filter(|row| numbers.binary_search(&row.request).is_ok()) {
            record.write(row)?;
        }
        record.finish().map(drop)
    }
}
