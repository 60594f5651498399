//! The inter-model loop: peer requests come in, and go out.

use crate::event::{HandoffStatus, Output, PeerRequest};
use crate::ids::{ModelIdx, RequestId};
use crate::plan::Origin;
use crate::request::VisitState;
use crate::subserver::Subserver;
use crate::time::Timestamp;

impl Subserver {
    #[inline]
    pub(super) fn handle_handoff_arrived(&mut self, now: Timestamp, message: PeerRequest, context_tokens_max: u32) {
        let PeerRequest { request, from, status, context_tokens, suffix_start } = message;
        assert!(from != self.model && from.idx() < self.n_models, "{} got a handoff from {from}", self.model);
        let model = self.model;
        let Some(visit) = self.visit_mut(request) else {
            return;
        };
        match status {
            HandoffStatus::Active if visit.cancelled => {}
            HandoffStatus::Active => {
                assert!(
                    matches!(visit.state, VisitState::Absent | VisitState::Pending),
                    "{request} was handed to {model} while it is {:?} there",
                    visit.state
                );
                debug_assert!(
                    suffix_start <= visit.context_tokens && context_tokens > 0,
                    "{message:?} leaves a gap after the {} tokens that {model} knows",
                    visit.context_tokens
                );
                self.seen_tokens[request.idx() * self.n_models + from.idx()] = context_tokens;
                self.admit(now, request, Origin::Peer, context_tokens, context_tokens_max);
            }
            HandoffStatus::Finished => {
                assert!(
                    matches!(visit.state, VisitState::Absent | VisitState::Pending),
                    "{request} finished at {from} while it is {:?} at {model}",
                    visit.state
                );
                if visit.state == VisitState::Pending {
                    self.release(request);
                }
            }
        }
    }

    /// Hands the request to `to`: it becomes pending here and its KV stays.
    #[inline]
    pub(super) fn hand_off(&mut self, request: RequestId, to: ModelIdx) {
        assert!(to != self.model && to.idx() < self.n_models, "{request} was handed from {} to {to}", self.model);
        let visit = &mut self.visits[request.idx()];
        visit.become_state(VisitState::Pending);
        let context_tokens = visit.context_tokens;
        let seen = &mut self.seen_tokens[request.idx() * self.n_models + to.idx()];
        let suffix_start = core::mem::replace(seen, context_tokens);
        let message =
            PeerRequest { request, from: self.model, status: HandoffStatus::Active, context_tokens, suffix_start };
        self.outputs.push_back(Output::SendHandoff { to, message });
    }

    /// Tells every peer that the request is complete, so that each frees its share.
    pub(super) fn announce_finished(&mut self, request: RequestId, context_tokens: u32) {
        self.outputs.push_back(Output::ReportFinished { request });
        for to in (0..self.n_models).map(|model| ModelIdx(model as u8)).filter(|&to| to != self.model) {
            let message = PeerRequest {
                request,
                from: self.model,
                status: HandoffStatus::Finished,
                context_tokens,
                suffix_start: context_tokens,
            };
            self.outputs.push_back(Output::SendHandoff { to, message });
        }
    }
}
