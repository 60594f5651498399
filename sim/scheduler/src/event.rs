//! What goes into a subserver and what comes out of it.

use crate::ids::{ModelIdx, RequestId, StepId};

/// Where a request goes after a step.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Destination {
    /// The request stays with this model and is ready for its next step.
    Stay,
    /// The request is handed off to another model; here it becomes pending and keeps its KV.
    To(ModelIdx),
    /// The request is complete.
    Finished,
}

/// The decision about one row of a step, made outside the scheduler.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Outcome {
    /// Where the request goes.
    pub destination: Destination,
    /// Whether the token that this step made is committed (kept) or dropped, to be made again by the destination.
    pub committed: bool,
}

impl Outcome {
    /// Commit the token and stay.
    pub const STAY: Self = Self { destination: Destination::Stay, committed: true };
    /// Commit the token; the request is complete.
    pub const FINISHED: Self = Self { destination: Destination::Finished, committed: true };

    /// Commit the token and hand the request to `model`.
    #[must_use]
    pub const fn commit_to(model: ModelIdx) -> Self {
        Self { destination: Destination::To(model), committed: true }
    }

    /// Drop the token and hand the request to `model`, which makes it again.
    #[must_use]
    pub const fn drop_to(model: ModelIdx) -> Self {
        Self { destination: Destination::To(model), committed: false }
    }
}

/// Why a message went from one subserver to another.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum HandoffStatus {
    /// The request goes on at the receiver.
    Active,
    /// The request is complete; the receiver frees its share.
    Finished,
}

/// The message of a handoff: a peer request. The token ids themselves travel beside it in the driver.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PeerRequest {
    /// The request.
    pub request: RequestId,
    /// The subserver that sent it.
    pub from: ModelIdx,
    /// Whether the request goes on or is complete.
    pub status: HandoffStatus,
    /// Tokens of the request so far: prompt and committed output.
    pub context_tokens: u32,
    /// The message carries tokens `suffix_start..context_tokens`: all that the sender does not know the receiver to have seen. With more
    /// than two models that may be more than the receiver lacks, for it may have seen tokens of which the sender was not told.
    pub suffix_start: u32,
}

/// What happened, told to a subserver with a time stamp.
#[derive(Clone, Copy, Debug)]
pub enum Input<'a> {
    /// A client's request arrived through the client loop.
    RequestArrived {
        /// The request.
        request: RequestId,
        /// Tokens to prefill.
        context_tokens: u32,
        /// The most tokens that the request can reach (prompt and output); the KV reservation.
        context_tokens_max: u32,
    },
    /// A peer request arrived through the inter-model loop.
    HandoffArrived {
        /// The message.
        message: PeerRequest,
        /// As for [`Input::RequestArrived`].
        context_tokens_max: u32,
    },
    /// The step in flight is complete.
    StepFinished {
        /// The step, as [`crate::StepPlan`] named it.
        step: StepId,
        /// One decision a row, in the order of the plan's rows.
        outcomes: &'a [Outcome],
    },
    /// The number of requests in the system changed.
    ActiveChanged {
        /// Requests in the system, at any subserver or between two.
        n: u32,
    },
    /// The client gave up; the request's share is freed as soon as no step carries it. Every subserver is told.
    RequestCancelled {
        /// The request.
        request: RequestId,
    },
    /// The time that [`crate::Subserver::poll_timeout`] named has come.
    TimedOut,
}

/// What the driver must do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Output {
    /// Deliver a peer request.
    SendHandoff {
        /// The receiver.
        to: ModelIdx,
        /// The message.
        message: PeerRequest,
    },
    /// Stream the committed tokens of a step to their clients: one event a step, the first of its outputs; which rows committed is in the
    /// outcomes. Rows of cancelled requests count neither way.
    EmitTokens {
        /// The step.
        step: StepId,
        /// Tokens committed, over all rows.
        committed: u32,
        /// Tokens dropped, over all rows.
        dropped: u32,
    },
    /// The request is complete.
    ReportFinished {
        /// The request.
        request: RequestId,
    },
    /// The request lost its KV here and will be recomputed; the driver frees the pages.
    Preempt {
        /// The request.
        request: RequestId,
        /// KV tokens freed.
        freed_tokens: u32,
    },
    /// The request's KV here is gone for good: it finished or was cancelled.
    Release {
        /// The request.
        request: RequestId,
        /// KV tokens freed.
        freed_tokens: u32,
    },
}
