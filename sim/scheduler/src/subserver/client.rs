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

#[cfg(test)]
mod tests {
    use super::super::fixture::{Fixture, OTHER, release, request};
    use super::*;
    use crate::event::{Outcome, Output};
    use crate::kv::KvFull;

    #[test]
    fn a_cancelled_request_goes_at_once_unless_a_step_carries_it() {
        let mut fixture = Fixture::with_kv(45, KvFull::Wait);
        for slot in 0..4 {
            fixture.arrive(request(slot), 5);
        }
        // Budget for three: request 3 is blocked.
        fixture.launch();
        fixture.finish_step(&[Outcome::STAY, Outcome::commit_to(OTHER), Outcome::STAY]);
        let state = |fixture: &Fixture, slot| fixture.subserver.visit_state(request(slot));
        assert_eq!(
            [0, 1, 2, 3].map(|slot| state(&fixture, slot)),
            [VisitState::Waiting, VisitState::Pending, VisitState::Waiting, VisitState::Blocked]
        );
        assert_eq!(fixture.cancel(request(3)), [release(request(3), 0)]);
        assert_eq!(fixture.cancel(request(1)), [release(request(1), 5)]);
        assert_eq!(fixture.cancel(request(2)), [release(request(2), 5)]);
        assert_eq!(fixture.launch().len(), 1);
        assert_eq!(fixture.cancel(request(0)), []);
        assert_eq!(fixture.cancel(request(0)), []);
        assert_eq!(state(&fixture, 0), VisitState::Running);
        // Whatever the outcome would have been: no handoff, no news, no token.
        let step = fixture.step();
        assert_eq!(
            fixture.finish_step(&[Outcome::FINISHED]),
            [Output::EmitTokens { step, committed: 0, dropped: 0 }, release(request(0), 6)]
        );
        assert_eq!(fixture.cancel(request(0)), []);
        assert_eq!((fixture.subserver.kv_used_tokens(), fixture.subserver.kv_reserved_tokens()), (0, 0));
    }

    #[test]
    fn who_gives_up_in_the_queue_for_kv_lets_the_next_in() {
        let mut fixture = Fixture::with_kv(30, KvFull::Wait);
        for (slot, context_tokens) in [(0, 5), (1, 15), (2, 5)] {
            fixture.arrive(request(slot), context_tokens);
        }
        assert!(fixture.subserver.blocked().eq([request(1), request(2)]));
        assert_eq!(fixture.cancel(request(1)), [release(request(1), 0)]);
        assert_eq!(fixture.launch().iter().map(|row| row.request.slot).collect::<alloc::vec::Vec<u32>>(), [0, 2]);
    }

    #[test]
    fn a_request_that_is_cancelled_before_it_arrives_never_comes_in() {
        let mut fixture = Fixture::eager();
        assert_eq!(fixture.cancel(request(2)), []);
        fixture.arrive(request(2), 5);
        assert_eq!(fixture.hand_over(request(2), 0, 5), []);
        assert_eq!(fixture.subserver.visit_state(request(2)), VisitState::Absent);
        assert!(fixture.launch().is_empty());
    }

    #[test]
    fn the_next_user_of_a_slot_is_not_taken_for_the_former_one() {
        let mut fixture = Fixture::eager();
        fixture.cancel(request(0));
        let next = RequestId { slot: 0, generation: 1 };
        fixture.arrive(next, 5);
        // What is left of the former user on the way comes too late, whether a cancellation, a handoff or the news of its end.
        assert_eq!(fixture.cancel(request(0)), []);
        assert_eq!(fixture.hand_over(request(0), 0, 9), []);
        assert_eq!(fixture.finish_elsewhere(request(0)), []);
        assert_eq!(fixture.launch()[0].request, next);
    }

    #[test]
    #[should_panic(expected = "took a slot whose share at model 0 is not freed")]
    fn a_slot_is_not_given_away_while_its_user_keeps_a_share() {
        let mut fixture = Fixture::eager();
        fixture.arrive(request(0), 5);
        fixture.arrive(RequestId { slot: 0, generation: 1 }, 5);
    }
}
