//! The decode loop: forms the next batch, and acts on the decisions about the last one.

use crate::event::{Destination, Outcome, Output};
use crate::gate::Pass;
use crate::ids::{RequestId, StepId};
use crate::plan::{BatchSums, Origin, Row, RowKind, StepPlan};
use crate::request::{Visit, VisitState};
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
        self.select(pass);
        if !self.kv.reserves() && self.kv.excess_tokens(self.running_sums.new_tokens) > 0 {
            self.make_room();
        }
        if self.running.is_empty() {
            return None;
        }
        self.kv.used_tokens += self.running_sums.new_tokens;
        for row in &self.running {
            self.visits[row.request.idx()].become_state(VisitState::Running);
        }
        self.n_steps += 1;
        self.running()
    }

    /// Moves the rows that may launch from `ready` to `running`.
    #[inline]
    fn select(&mut self, pass: Pass) {
        debug_assert!(self.running.is_empty(), "rows are selected for an idle subserver only");
        if pass == Pass::ALL && (self.first.is_none() || self.ready_is_of_one_kind()) {
            core::mem::swap(&mut self.ready, &mut self.running);
            self.running_sums = core::mem::take(&mut self.ready_sums);
            return;
        }
        let decodes_only = self.first.map(|first| {
            let any =
                |decode: bool| self.ready.iter().any(|row| pass.admits(row) && (row.kind == RowKind::Decode) == decode);
            match first {
                FirstKind::Extend => !any(false),
                FirstKind::Decode => any(true),
            }
        });
        let launches = |row: &Row| {
            pass.admits(row) && decodes_only.is_none_or(|decodes_only| (row.kind == RowKind::Decode) == decodes_only)
        };
        self.running.extend(self.ready.iter().filter(|row| launches(row)));
        self.ready.retain(|row| !launches(row));
        self.running_sums = BatchSums::of(&self.running);
        self.ready_sums = BatchSums::of(&self.ready);
    }

    fn ready_is_of_one_kind(&self) -> bool {
        let sums = &self.ready_sums;
        sums.decode_rows == 0 || sums.decode_rows == sums.rows
    }

    /// Takes KV from the requests that arrived last until the selected rows fit. A selected row that loses its KV waits again, recomputed.
    fn make_room(&mut self) {
        while self.kv.excess_tokens(self.running_sums.new_tokens) > 0 {
            let Some(victim) = self.preemption_victim() else {
                // Nobody keeps KV: the selected rows themselves are too many. The last of them waits.
                assert!(self.running.len() > 1, "the KV budget of {} holds no single request", self.model);
                self.defer_last();
                continue;
            };
            let visit = &mut self.visits[victim.idx()];
            let freed_tokens = core::mem::take(&mut visit.kv_tokens);
            self.kv.used_tokens -= u64::from(freed_tokens);
            self.outputs.push_back(Output::Preempt { request: victim, freed_tokens });
            if let Some(position) = self.running.iter().position(|row| row.request == victim) {
                let row = self.running.remove(position);
                self.ready.push(row);
                self.ready.sort_by_key(|row| row.ready_at);
            }
            let recomputed = |row: &mut Row| {
                if row.request == victim {
                    *row = make_row(victim, row.origin, row.ready_at, row.new_tokens + row.kv_tokens, 0);
                }
            };
            self.running.iter_mut().for_each(recomputed);
            self.ready.iter_mut().for_each(recomputed);
            self.running_sums = BatchSums::of(&self.running);
            self.ready_sums = BatchSums::of(&self.ready);
        }
    }

    /// The request that arrived last among those that keep KV here and are not first in line.
    fn preemption_victim(&self) -> Option<RequestId> {
        // The row that has waited longest goes in any case, or two requests could take each other's KV for ever.
        let spared = self.running.first().map(|row| row.request.idx());
        let keeps = |&(slot, visit): &(usize, &Visit)| visit.kv_tokens > 0 && Some(slot) != spared;
        let (slot, visit) = self.visits.iter().enumerate().filter(keeps).max_by_key(|(_, visit)| visit.admission)?;
        Some(RequestId { slot: slot as u32, generation: visit.generation })
    }

    fn defer_last(&mut self) {
        let row = self.running.pop().expect("a batch that does not fit has rows");
        self.ready.push(row);
        self.ready.sort_by_key(|row| row.ready_at);
        self.running_sums = BatchSums::of(&self.running);
        self.ready_sums = BatchSums::of(&self.ready);
    }

    #[inline]
    pub(super) fn handle_step_finished(&mut self, now: Timestamp, step: StepId, outcomes: &[Outcome]) {
        assert!(self.is_in_flight() && step.0 + 1 == self.n_steps, "{step:?} of {} is not in flight", self.model);
        assert!(outcomes.len() == self.running.len(), "{step:?} of {} has one outcome a row", self.model);
        let mut rows = core::mem::take(&mut self.running);
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
        self.outputs.push_back(Output::EmitTokens { step, committed: committed_rows, dropped });
    }
}
