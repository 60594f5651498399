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
            self.outputs.push_back(Output::Preempt { request: victim, freed_tokens });
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
        let emit_idx = self.outputs.len();
        self.outputs.push_back(Output::EmitTokens { step, committed: 0, dropped: 0 });
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
        self.outputs[emit_idx] = Output::EmitTokens { step, committed: committed_rows, dropped };
    }
}
