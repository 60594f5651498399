//! A recorded run, told to an observer of the simulator, so that whatever shows a simulated run shows a real one too.

use handoff_scheduler::{BatchSums, HandoffStatus, Output, StepPlan, Timestamp};
use handoff_sim::engine::Observer;

use super::{Event, Launch, RecordedInput, RunLog};

impl RunLog {
    /// Tells `observer` all that the simulator would have told it about the same run, in the order in which it happened.
    pub fn watch(&self, observer: &mut impl Observer) {
        let mut running: Vec<Option<&Launch>> = vec![None; self.subservers.len()];
        let mut idx_of_slot: Vec<u64> = Vec::new();
        let mut n_arrived = 0;
        for entry in &self.entries {
            let (at, model) = (entry.at, entry.model);
            match &entry.event {
                Event::Told(RecordedInput::RequestArrived { request, .. }) => {
                    let slot = request.idx();
                    idx_of_slot.resize(idx_of_slot.len().max(slot + 1), 0);
                    idx_of_slot[slot] = n_arrived;
                    observer.arrived(at, model, *request, n_arrived);
                    n_arrived += 1;
                }
                Event::Told(RecordedInput::StepFinished { outcomes, .. }) => {
                    if let Some(launch) = running[model.idx()].take() {
                        observer.finished(at, model, &launch.plan(), outcomes);
                    }
                }
                Event::Said(Output::SendHandoff { to, message }) if message.status == HandoffStatus::Active => {
                    observer.handed_off(at, *to, message, idx_of_slot[message.request.idx()]);
                }
                Event::Told(RecordedInput::HandoffArrived { message, .. })
                    if message.status == HandoffStatus::Active =>
                {
                    observer.delivered(at, model, message, idx_of_slot[message.request.idx()]);
                }
                // Every subserver is told; the first stands for all.
                Event::Told(RecordedInput::RequestCancelled { request }) if model.idx() == 0 => {
                    observer.cancelled(at, *request);
                }
                Event::ForwardEnded { forward_ns: (began, ended) } => {
                    observer.forward_ended(at, model, Timestamp::from_ns(*began), Timestamp::from_ns(*ended));
                }
                Event::Launched(launch) => {
                    running[model.idx()] = Some(launch);
                    observer.launched(at, model, &launch.plan());
                }
                _ => {}
            }
        }
    }
}

impl Launch {
    /// The launch as the scheduler gave it out.
    #[must_use]
    pub fn plan(&self) -> StepPlan<'_> {
        StepPlan { step: self.step, rows: &self.rows, sums: BatchSums::of(&self.rows) }
    }
}
