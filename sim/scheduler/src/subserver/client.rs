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
        let Some(visit) = self.visit_mut(request) else {
            panic!("{request} arrived after the next user of its slot");
        };
        assert!(visit.state == VisitState::Absent, "{request} arrived twice");
        if !visit.cancelled {
            self.admit(now, request, Origin::Client, context_tokens, context_tokens_max);
        }
    }

    /// Frees the request's share, or lets the step that carries it free it. The mark stays, for a message that may still be on its way.
    pub(super) fn handle_request_cancelled(&mut self, request: RequestId) {
        let Some(visit) = self.visit_mut(request) else {
            return;
        };
        visit.cancelled = true;
        match visit.state {
            VisitState::Absent | VisitState::Running => {}
            VisitState::Pending => self.release(request),
            VisitState::Waiting => {
                self.ready.retain(|row| row.request != request);
                self.ready_sums = BatchSums::of(&self.ready);
                self.release(request);
            }
            VisitState::Blocked => {
                self.kv.unblock(request);
                self.release(request);
            }
        }
    }
}
