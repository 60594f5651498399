//! Every step of every request of a run, in order.

use handoff_scheduler::{ModelIdx, Outcome, RequestId, RowKind, StepPlan, Timestamp};
use handoff_sim::engine::Observer;

/// One step of one request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Step {
    pub model: ModelIdx,
    pub kind: RowKind,
    pub new_tokens: u32,
    pub kv_tokens: u32,
    pub outcome: Outcome,
}

/// The steps of each request, by its index in the run.
#[derive(Clone, Default, Debug)]
pub struct Routes {
    pub steps: Vec<Vec<Step>>,
    idx_of_slot: Vec<usize>,
}

impl Routes {
    /// The requests that were seen from their first to their last step.
    pub fn complete(&self) -> impl Iterator<Item = &[Step]> {
        self.steps.iter().map(Vec::as_slice).filter(|steps| {
            steps.last().is_some_and(|step| step.outcome.destination == handoff_scheduler::Destination::Finished)
        })
    }
}

impl Observer for Routes {
    fn arrived(&mut self, _now: Timestamp, _model: ModelIdx, request: RequestId, idx: u64) {
        let idx = idx as usize;
        assert_eq!(idx, self.steps.len(), "requests are counted in the order in which they arrive");
        self.steps.push(Vec::new());
        if request.idx() == self.idx_of_slot.len() {
            self.idx_of_slot.push(idx);
        } else {
            self.idx_of_slot[request.idx()] = idx;
        }
    }

    fn finished(&mut self, _now: Timestamp, model: ModelIdx, plan: &StepPlan<'_>, outcomes: &[Outcome]) {
        for (row, &outcome) in plan.rows.iter().zip(outcomes) {
            let (kind, new_tokens, kv_tokens) = (row.kind, row.new_tokens, row.kv_tokens);
            let idx = self.idx_of_slot[row.request.idx()];
            self.steps[idx].push(Step { model, kind, new_tokens, kv_tokens, outcome });
        }
    }
}
