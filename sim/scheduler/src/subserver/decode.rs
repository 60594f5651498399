//! The decode loop: forms the next batch, and acts on the decisions about the last one.

use crate::event::{Destination, Outcome, Output};
use crate::gate::Pass;
use crate::ids::{RequestId, StepId};
use crate::plan::{BatchSums, Origin, Row, RowKind, StepPlan};
use crate::request::VisitState;
use crate::subserver::{FirstKind, Subserver, make_row};
use crate::time::Timestamp;

impl Subserver {
    /// The next step, if the subserver is idle and its gate lets rows pass. Asked last at an instant, in the coordinator's order.
    #[inline]
    pub fn poll_launch(&mut self, now: Timestamp) -> Option<StepPlan<'_>> {
        if self.is_in_flight() || self.ready.is_empty() {
            return None;
        }
        let prompts = self.ready_sums.client_rows;
        let others = self.ready_sums.rows - prompts;
        let pass = self.gate.pass(now, prompts, others, |closed| self.oldest_held(closed));
        if !self.select(pass) {
            return None;
        }
        if !self.kv.reserves() && self.kv.excess_tokens(self.running_sums.new_tokens) > 0 {
            self.make_room();
        }
        self.kv.used_tokens += self.running_sums.new_tokens;
        for row in &self.running {
            self.visits[row.request.idx()].become_state(VisitState::Running);
        }
        self.n_steps += 1;
        self.running()
    }

    /// Moves the rows that may launch from `ready` to `running`; says whether there are any.
    #[inline]
    fn select(&mut self, pass: Pass) -> bool {
        debug_assert!(self.running.is_empty(), "rows are selected for an idle subserver only");
        let (decodes, others) = pass.count(&self.ready_sums);
        if decodes + others == 0 {
            return false;
        }
        let one_kind = decodes == 0 || others == 0;
        if decodes + others == self.ready_sums.rows && (one_kind || self.first.is_none()) {
            core::mem::swap(&mut self.ready, &mut self.running);
            self.running_sums = core::mem::take(&mut self.ready_sums);
            return true;
        }
        let decodes_only = self.first.map(|first| match first {
            FirstKind::Extend => others == 0,
            FirstKind::Decode => decodes > 0,
        });
        let launches = |row: &Row| {
            pass.admits(row) && decodes_only.is_none_or(|decodes_only| (row.kind == RowKind::Decode) == decodes_only)
        };
        self.running.extend(self.ready.iter().filter(|row| launches(row)));
        self.ready.retain(|row| !launches(row));
        self.sum_again();
        true
    }

    /// Takes KV from the requests that arrived here last until the selected rows fit. A selected row that is taken from waits again.
    #[cold]
    fn make_room(&mut self) {
        // Of the selected requests the one that arrived first goes in any case. So every launch gets on, and no two requests take each
        // other's KV for ever.
        let arrival = |row: &&Row| self.visits[row.request.idx()].admission;
        let spared = self.running.iter().min_by_key(arrival).expect("rows are selected").request;
        while self.kv.excess_tokens(self.running_sums.new_tokens) > 0 {
            let Some(victim) = self.latest_arrival_but(spared) else {
                panic!("the KV budget of {} does not hold {spared} alone", self.model);
            };
            self.preempt(victim);
        }
    }

    /// The request that arrived here last among those that keep KV or are selected.
    fn latest_arrival_but(&self, spared: RequestId) -> Option<RequestId> {
        let keeping = self.visits.iter().enumerate().filter(|(_, visit)| visit.kv_tokens > 0);
        let keeping = keeping.map(|(slot, visit)| RequestId { slot: slot as u32, generation: visit.generation });
        let selected = self.running.iter().map(|row| row.request);
        keeping
            .chain(selected)
            .filter(|&request| request != spared)
            .max_by_key(|request| self.visits[request.idx()].admission)
    }

    fn preempt(&mut self, victim: RequestId) {
        let freed_tokens = core::mem::take(&mut self.visits[victim.idx()].kv_tokens);
        if freed_tokens > 0 {
            self.kv.used_tokens -= u64::from(freed_tokens);
            self.outputs.push(Output::Preempt { request: victim, freed_tokens });
        }
        if let Some(position) = self.running.iter().position(|row| row.request == victim) {
            // Ahead of rows as old as itself: those were selected after it, or not at all.
            let row = self.running.remove(position);
            let position = self.ready.partition_point(|other| other.ready_at < row.ready_at);
            self.ready.insert(position, row);
        }
        if let Some(row) = self.ready.iter_mut().find(|row| row.request == victim) {
            *row = make_row(victim, row.origin, row.ready_at, row.kv_tokens + row.new_tokens, 0);
        }
        self.sum_again();
    }

    fn sum_again(&mut self) {
        self.running_sums = BatchSums::of(&self.running);
        self.ready_sums = BatchSums::of(&self.ready);
    }

    #[inline]
    pub(super) fn handle_step_finished(&mut self, now: Timestamp, step: StepId, outcomes: &[Outcome]) {
        assert!(self.is_in_flight() && step.0 + 1 == self.n_steps, "{step:?} of {} is not in flight", self.model);
        assert!(outcomes.len() == self.running.len(), "{step:?} of {} has one outcome a row", self.model);
        let mut rows = core::mem::take(&mut self.running);
        // The tokens go out before the news that a request is complete; how many there are is known at the end.
        let emit_position = self.outputs.position();
        self.outputs.push(Output::EmitTokens { step, committed: 0, dropped: 0 });
        let mut committed_rows = 0;
        let mut cancelled_rows = 0;
        for (row, outcome) in rows.iter().zip(outcomes) {
            let request = row.request;
            let visit = &mut self.visits[request.idx()];
            debug_assert!(visit.state == VisitState::Running, "{request} is {:?} while its step finishes", visit.state);
            visit.kv_tokens = row.kv_tokens + row.new_tokens;
            if visit.cancelled {
                cancelled_rows += 1;
                self.release(request);
                continue;
            }
            let committed = u32::from(outcome.committed);
            visit.context_tokens += committed;
            committed_rows += committed;
            match outcome.destination {
                Destination::Stay if outcome.committed => {
                    // The common case, kept short: one decode row on top of everything.
                    visit.state = VisitState::Waiting;
                    let resident = Row {
                        request,
                        ready_at: now,
                        new_tokens: 1,
                        kv_tokens: visit.kv_tokens,
                        kind: RowKind::Decode,
                        origin: Origin::Resident,
                    };
                    self.ready_sums.add(&resident);
                    self.ready.push(resident);
                }
                Destination::Stay => self.push_ready(request, Origin::Resident, now),
                Destination::To(to) => self.hand_off(request, to),
                Destination::Finished => {
                    let context_tokens = visit.context_tokens;
                    self.release(request);
                    self.announce_finished(request, context_tokens);
                }
            }
        }
        let dropped = rows.len() as u32 - committed_rows - cancelled_rows;
        rows.clear();
        self.running = rows;
        self.outputs.replace(emit_position, Output::EmitTokens { step, committed: committed_rows, dropped });
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{Fixture, OTHER, request};
    use super::*;
    use crate::event::Input;
    use crate::gate::{Hold, Threshold};
    use crate::kv::KvFull;
    use RowKind::{Decode, Extend, Prefill};

    const DROP_AND_STAY: Outcome = Outcome { destination: Destination::Stay, committed: false };

    /// Requests 0 and 1 wait with a decode row each, request 2 with an extend row; then request 3 arrives with a prompt.
    fn rows_of_every_kind(mut fixture: Fixture) -> Fixture {
        for slot in 0..3 {
            fixture.arrive(request(slot), 5);
        }
        fixture.launch();
        fixture.finish_step(&[Outcome::STAY, Outcome::STAY, Outcome::commit_to(OTHER)]);
        fixture.hand_over(request(2), 6, 8);
        fixture.arrive(request(3), 7);
        fixture
    }

    #[test]
    fn one_forward_carries_every_kind_unless_they_are_kept_apart() {
        let mut mixed = rows_of_every_kind(Fixture::eager());
        assert_eq!(mixed.launched(), [(0, Decode), (1, Decode), (2, Extend), (3, Prefill)]);

        let mut extend_first = rows_of_every_kind(Fixture::kinds_apart(FirstKind::Extend));
        assert_eq!(extend_first.launched(), [(2, Extend), (3, Prefill)]);
        extend_first.finish_step(&[Outcome::commit_to(OTHER); 2]);
        assert_eq!(extend_first.launched(), [(0, Decode), (1, Decode)]);

        let mut decode_first = rows_of_every_kind(Fixture::kinds_apart(FirstKind::Decode));
        assert_eq!(decode_first.launched(), [(0, Decode), (1, Decode)]);
        decode_first.finish_step(&[Outcome::STAY, Outcome::commit_to(OTHER)]);
        assert_eq!(decode_first.launched(), [(0, Decode)]);
        decode_first.finish_step(&[Outcome::commit_to(OTHER)]);
        assert_eq!(decode_first.launched(), [(2, Extend), (3, Prefill)]);
    }

    #[test]
    fn a_closed_gate_lets_prompts_and_what_it_does_not_hold_pass() {
        let launched = |hold, threshold, first| {
            let mut fixture = rows_of_every_kind(Fixture::new(|config| {
                config.gate.hold = hold;
                config.gate.threshold = Threshold::by_active(&[1, threshold]);
                config.first = first;
            }));
            fixture.tell(Input::ActiveChanged { n: 4 });
            fixture.launched()
        };
        // Three rows count, or four with the prompt.
        assert_eq!(launched(Hold::Both, 4, None), [(3, Prefill)]);
        assert_eq!(launched(Hold::Decode, 4, None), [(2, Extend), (3, Prefill)]);
        assert_eq!(launched(Hold::Extend, 4, None), [(0, Decode), (1, Decode), (3, Prefill)]);
        assert_eq!(launched(Hold::Extend, 4, Some(FirstKind::Extend)), [(3, Prefill)]);
        assert_eq!(launched(Hold::Extend, 4, Some(FirstKind::Decode)), [(0, Decode), (1, Decode)]);
        assert_eq!(launched(Hold::All, 5, None), []);
        assert_eq!(launched(Hold::All, 4, None).len(), 4);
        assert_eq!(launched(Hold::Both, 3, None).len(), 4);
    }

    #[test]
    fn the_wake_up_is_the_end_of_the_longest_wait_unless_a_step_runs() {
        let mut fixture = Fixture::new(|config| {
            config.gate.threshold = Threshold::constant(2);
            config.gate.wait_ns_max = Some(30);
        });
        let wake_up = |fixture: &Fixture| fixture.subserver.poll_timeout().map(|(at, _)| at.as_ns());
        fixture.arrive(request(0), 5);
        assert_eq!(wake_up(&fixture), None, "a prompt is not held");
        fixture.launch();
        fixture.finish_step(&[Outcome::STAY]);
        assert_eq!((wake_up(&fixture), fixture.now_ns), (Some(40), 10));
        fixture.arrive(request(1), 5);
        assert_eq!(fixture.launched(), [(1, Prefill)]);
        assert_eq!(wake_up(&fixture), None, "the end of the step comes anyway");
        fixture.finish_step(&[Outcome::commit_to(OTHER)]);
        assert_eq!(wake_up(&fixture), Some(40));
        fixture.now_ns = 39;
        assert_eq!(fixture.launched(), []);
        fixture.now_ns = 40;
        fixture.tell(Input::TimedOut);
        assert_eq!(fixture.launched(), [(0, Decode)]);
    }

    #[test]
    fn a_dropped_token_is_made_again_by_a_row_over_the_last_token() {
        let mut fixture = Fixture::eager();
        fixture.arrive(request(0), 5);
        fixture.launch();
        for _ in 0..2 {
            let outputs = fixture.finish_step(&[DROP_AND_STAY]);
            assert!(matches!(outputs[..], [Output::EmitTokens { committed: 0, dropped: 1, .. }]));
            let row = fixture.launch()[0];
            assert_eq!((row.kv_tokens, row.new_tokens, row.kind), (4, 1, Decode));
            assert_eq!(fixture.subserver.kv_used_tokens(), 5);
        }
    }

    #[test]
    fn tokens_go_out_before_the_news_that_their_request_is_complete() {
        let mut fixture = Fixture::eager();
        fixture.arrive(request(0), 5);
        fixture.arrive(request(1), 5);
        fixture.launch();
        let outputs = fixture.finish_step(&[Outcome::FINISHED, Outcome::drop_to(OTHER)]);
        assert!(matches!(outputs[0], Output::EmitTokens { committed: 1, dropped: 1, .. }));
        assert!(outputs[1..].contains(&Output::ReportFinished { request: request(0) }));
    }

    #[test]
    fn the_latest_arrival_gives_way_and_is_recomputed() {
        let mut fixture = Fixture::with_kv(12, KvFull::Preempt);
        for slot in 0..2 {
            fixture.arrive(request(slot), 5);
        }
        assert_eq!(fixture.launched(), [(0, Prefill), (1, Prefill)]);
        fixture.finish_step(&[Outcome::STAY; 2]);
        assert_eq!(fixture.launched(), [(0, Decode), (1, Decode)]);
        fixture.finish_step(&[Outcome::STAY; 2]);
        assert_eq!(fixture.launched(), [(0, Decode)]);
        assert_eq!(fixture.outputs(), [Output::Preempt { request: request(1), freed_tokens: 6 }]);
        fixture.finish_step(&[Outcome::FINISHED]);
        let row = fixture.launch()[0];
        assert_eq!((row.request, row.kind, row.new_tokens, row.origin), (request(1), Prefill, 7, Origin::Resident));
    }

    #[test]
    fn a_prompt_waits_rather_than_take_the_kv_of_earlier_arrivals_that_go_on() {
        let mut fixture = Fixture::with_kv(12, KvFull::Preempt);
        fixture.arrive(request(0), 5);
        fixture.launch();
        // The prompt is older as a row, but its request came later.
        fixture.arrive(request(1), 7);
        fixture.finish_step(&[Outcome::STAY]);
        assert_eq!(fixture.launched(), [(0, Decode)]);
        assert_eq!(fixture.outputs(), []);
    }

    #[test]
    fn rows_that_give_way_keep_their_order() {
        let mut fixture = Fixture::with_kv(6, KvFull::Preempt);
        for slot in 0..4 {
            fixture.arrive(request(slot), 5);
        }
        assert_eq!(fixture.launched(), [(0, Prefill)]);
        assert!(fixture.subserver.waiting().iter().map(|row| row.request.slot).eq(1..4));
    }

    #[test]
    fn a_prompt_alone_takes_the_kv_of_the_latest_pending_request() {
        let mut fixture = Fixture::with_kv(12, KvFull::Preempt);
        for slot in 0..2 {
            fixture.arrive(request(slot), 5);
        }
        fixture.launch();
        fixture.finish_step(&[Outcome::commit_to(OTHER); 2]);
        fixture.arrive(request(2), 4);
        assert_eq!(fixture.launched(), [(2, Prefill)]);
        assert_eq!(fixture.outputs(), [Output::Preempt { request: request(1), freed_tokens: 5 }]);
        fixture.finish_step(&[Outcome::FINISHED]);
        // Its tokens are known still: the message carries the rest, and the row covers everything.
        fixture.hand_over(request(1), 6, 8);
        let row = fixture.launch()[0];
        assert_eq!((row.kind, row.new_tokens, row.origin), (Prefill, 8, Origin::Peer));
    }

    #[test]
    #[should_panic(expected = "does not hold request 0.0 alone")]
    fn a_budget_below_one_request_is_a_broken_contract() {
        let mut fixture = Fixture::with_kv(4, KvFull::Preempt);
        fixture.arrive(request(0), 5);
        fixture.launch();
    }

    #[test]
    #[should_panic(expected = "one outcome a row")]
    fn a_step_has_one_outcome_a_row() {
        let mut fixture = Fixture::eager();
        fixture.arrive(request(0), 5);
        fixture.launch();
        fixture.finish_step(&[]);
    }
}
