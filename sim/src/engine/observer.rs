//! What a run lets others watch. The engine is generic over it, so that watching nothing costs nothing.

use handoff_scheduler::{ModelIdx, Outcome, PeerRequest, RequestId, StepPlan, Timestamp};

/// Watches a run, event by event. Every method does nothing by default.
pub trait Observer {
    /// A request arrived at `model` through the client loop; `idx` counts requests over the run.
    #[inline]
    fn arrived(&mut self, _now: Timestamp, _model: ModelIdx, _request: RequestId, _idx: u64) {}
    /// `model` launched a step.
    #[inline]
    fn launched(&mut self, _now: Timestamp, _model: ModelIdx, _plan: &StepPlan<'_>) {}
    /// The forward of `model`'s step in flight, which ran from `began` to `ended`, has left its device. The step itself may end later: with the
    /// host's part after the forward, or with the slowest model of a round.
    #[inline]
    fn forward_ended(&mut self, _now: Timestamp, _model: ModelIdx, _began: Timestamp, _ended: Timestamp) {}
    /// A step of `model` is complete; `outcomes` has one decision a row of the plan.
    #[inline]
    fn finished(&mut self, _now: Timestamp, _model: ModelIdx, _plan: &StepPlan<'_>, _outcomes: &[Outcome]) {}
    /// A request left for `to`.
    #[inline]
    fn handed_off(&mut self, _now: Timestamp, _to: ModelIdx, _message: &PeerRequest, _idx: u64) {}
    /// A request that had left for `to` arrived there.
    #[inline]
    fn delivered(&mut self, _now: Timestamp, _to: ModelIdx, _message: &PeerRequest, _idx: u64) {}
    /// The client gave up. A step in flight may carry the request still; its outcome says nothing then. The simulator's clients never do.
    #[inline]
    fn cancelled(&mut self, _now: Timestamp, _request: RequestId) {}
}

/// Watches nothing.
#[derive(Clone, Copy, Default, Debug)]
pub struct Unobserved;

impl Observer for Unobserved {}
