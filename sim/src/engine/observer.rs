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
    /// A step of `model` is complete; `outcomes` has one decision a row of the plan.
    #[inline]
    fn finished(&mut self, _now: Timestamp, _model: ModelIdx, _plan: &StepPlan<'_>, _outcomes: &[Outcome]) {}
    /// A request left for `to`.
    #[inline]
    fn handed_off(&mut self, _now: Timestamp, _to: ModelIdx, _message: &PeerRequest, _idx: u64) {}
}

/// Watches nothing.
#[derive(Clone, Copy, Default, Debug)]
pub struct Unobserved;

impl Observer for Unobserved {}
