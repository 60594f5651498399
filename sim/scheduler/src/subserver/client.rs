//! The client loop: new requests come in, cancelled ones go.

use crate::ids::RequestId;
use crate::plan::{BatchSums, Origin};
use crate::request::VisitState;
use crate::subserver::Subserver;
use crate::time::Timestamp;

impl Subserver {
    pub(super) fn handle_request_arrived(
        &mut self,
        now: Timestamp,
        request: RequestId,
        context_tokens: u32,
        context_tokens_max: u32,
    ) {
        assert!(context_tokens > 0, "{request} arrived without a token to prefill");
        let visit = self.visit_mut(request);
        assert!(visit.state == VisitState::Absent, "{request} arrived twice");
        if visit.tombstone == request.generation.wrapping_add(1) {
            return;
        }
        self.admit(now, request, Origin::Client, context_tokens, context_tokens_max);
    }

    pub(super) fn handle_request_cancelled(&mut self, request: RequestId) {
        if self
            .visits
            .get(request.idx())
            .is_some_and(|visit| visit.generation != request.generation && visit.state != VisitState::Absent)
        {
            // The slot has a later user: the cancelled request was freed here long ago.
            return;
        }
        let visit = self.visit_mut(request);
        // A message of this request may still be on its way; it is thrown away on arrival.
        visit.tombstone = request.generation.wrapping_add(1);
        match visit.state {
            VisitState::Absent => {}
            VisitState::Running => visit.cancelled = true,
            VisitState::Pending => self.release(request),
            VisitState::Waiting => {
                self.ready.retain(|row| row.request != request);
                self.ready_sums = BatchSums::of(&self.ready);
                self.release(request);
            }
            VisitState::Blocked => {
                self.kv.blocked.retain(|&(blocked, _)| blocked != request);
                self.release(request);
            }
        }
    }
}
