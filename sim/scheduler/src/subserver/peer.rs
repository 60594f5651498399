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
        self.outputs.push(Output::SendHandoff { to, message });
    }

    /// Tells every peer that the request is complete, so that each frees its share.
    pub(super) fn announce_finished(&mut self, request: RequestId, context_tokens: u32) {
        self.outputs.push(Output::ReportFinished { request });
        for to in (0..self.n_models).map(|model| ModelIdx(model as u8)).filter(|&to| to != self.model) {
            let message = PeerRequest {
                request,
                from: self.model,
                status: HandoffStatus::Finished,
                context_tokens,
                suffix_start: context_tokens,
            };
            self.outputs.push(Output::SendHandoff { to, message });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{Fixture, OTHER, release, request};
    use super::*;
    use crate::event::Outcome;
    use crate::ids::StepId;
    use alloc::vec::Vec;

    fn suffixes(outputs: &[Output]) -> Vec<(ModelIdx, u32, u32)> {
        let suffix = |output: &Output| match output {
            Output::SendHandoff { to, message } => Some((*to, message.suffix_start, message.context_tokens)),
            _ => None,
        };
        outputs.iter().filter_map(suffix).collect()
    }

    #[test]
    fn a_message_carries_what_the_receiver_is_not_known_to_have_seen() {
        let third = ModelIdx(2);
        let mut fixture = Fixture::eager();
        fixture.arrive(request(0), 5);
        fixture.launch();
        let to_other = fixture.finish_step(&[Outcome::commit_to(OTHER)]);
        assert_eq!(suffixes(&to_other), [(OTHER, 0, 6)]);
        fixture.hand_over(request(0), 6, 9);
        assert_eq!(fixture.launch()[0].new_tokens, 4);
        let to_third = fixture.finish_step(&[Outcome::commit_to(third)]);
        assert_eq!(suffixes(&to_third), [(third, 0, 10)]);
        // By way of the third model it comes back from the other one, which has seen everything.
        fixture.hand_over(request(0), 9, 12);
        assert_eq!(fixture.launch()[0].new_tokens, 3);
        let dropped = fixture.finish_step(&[Outcome::drop_to(OTHER)]);
        assert_eq!(suffixes(&dropped), [(OTHER, 12, 12)]);
        // The other model drops its token too: nothing is new, and the last token goes through the model again.
        fixture.hand_over(request(0), 12, 12);
        let row = fixture.launch()[0];
        assert_eq!((row.kv_tokens, row.new_tokens), (11, 1));
        let to_third = fixture.finish_step(&[Outcome::commit_to(third)]);
        assert_eq!(suffixes(&to_third), [(third, 10, 13)]);
    }

    #[test]
    fn the_next_user_of_a_slot_is_sent_in_full() {
        let mut fixture = Fixture::eager();
        fixture.arrive(request(0), 5);
        fixture.launch();
        fixture.finish_step(&[Outcome::commit_to(OTHER)]);
        assert_eq!(fixture.finish_elsewhere(request(0)), [release(request(0), 5)]);
        fixture.arrive(RequestId { slot: 0, generation: 1 }, 3);
        fixture.launch();
        assert_eq!(suffixes(&fixture.finish_step(&[Outcome::commit_to(OTHER)])), [(OTHER, 0, 4)]);
    }

    #[test]
    fn every_peer_hears_of_the_end_and_only_a_pending_share_is_freed() {
        let mut fixture = Fixture::eager();
        fixture.arrive(request(0), 5);
        fixture.launch();
        let outputs = fixture.finish_step(&[Outcome::FINISHED]);
        let emitted = Output::EmitTokens { step: StepId(0), committed: 1, dropped: 0 };
        assert_eq!(outputs[..3], [emitted, release(request(0), 5), Output::ReportFinished { request: request(0) }]);
        let told = outputs[3..].iter().map(|output| match output {
            Output::SendHandoff { to, message } if message.status == HandoffStatus::Finished => *to,
            other => panic!("{other:?}"),
        });
        assert!(told.eq([OTHER, ModelIdx(2)]));
        assert_eq!(fixture.finish_elsewhere(request(1)), []);
    }

    #[test]
    #[should_panic(expected = "was handed to model 0 while it is Waiting there")]
    fn a_request_is_in_one_place() {
        let mut fixture = Fixture::eager();
        fixture.arrive(request(0), 5);
        fixture.hand_over(request(0), 0, 5);
    }
}
