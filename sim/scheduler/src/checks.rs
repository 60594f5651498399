//! Invariants of a subserver, checked apart from the code that keeps them. Tests call this after every event; release runs do not.

use alloc::format;
use alloc::string::String;

use crate::ids::RequestId;
use crate::plan::{BatchSums, Row};
use crate::request::{Visit, VisitState};
use crate::subserver::{Subserver, make_row};

impl Subserver {
    /// Checks every invariant; the error names the one that is broken.
    ///
    /// # Errors
    /// A sentence that says what is wrong.
    pub fn check(&self) -> Result<(), String> {
        self.check_lists()?;
        self.check_rows()?;
        self.check_kv()
    }

    /// Every visit is in the list that its state names, once.
    fn check_lists(&self) -> Result<(), String> {
        let running = self.running().map_or(&[][..], |plan| plan.rows);
        let lists = [
            (VisitState::Waiting, self.waiting().len()),
            (VisitState::Running, running.len()),
            (VisitState::Blocked, self.blocked().count()),
        ];
        for (state, listed) in lists {
            let by_state = self.visits().iter().filter(|visit| visit.state == state).count();
            if by_state != listed {
                return Err(format!("{by_state} visits are {state:?} but the list holds {listed}"));
            }
        }
        // With the numbers equal, a request that is listed twice leaves another one that is not listed.
        let waiting = self.waiting().iter().map(|row| (row.request, VisitState::Waiting));
        let running = running.iter().map(|row| (row.request, VisitState::Running));
        let blocked = self.blocked().map(|request| (request, VisitState::Blocked));
        let mut listed = alloc::vec![false; self.visits().len()];
        for (request, state) in waiting.chain(running).chain(blocked) {
            let visit = self.known(request)?;
            if visit.state != state || core::mem::replace(&mut listed[request.idx()], true) {
                return Err(format!("{request} is listed as {state:?}, and is {:?} or listed twice", visit.state));
            }
        }
        let cancelled =
            |visit: &Visit| visit.cancelled && !matches!(visit.state, VisitState::Absent | VisitState::Running);
        if self.visits().iter().any(cancelled) {
            return Err("a cancelled request keeps a share that no step carries".into());
        }
        Ok(())
    }

    /// Every row covers what is not kept of its request's context, and the sums are those of the rows.
    fn check_rows(&self) -> Result<(), String> {
        let running = self.running();
        let running_rows = running.map_or(&[][..], |plan| plan.rows);
        for row in self.waiting().iter().chain(running_rows) {
            let visit = self.known(row.request)?;
            let made = make_row(row.request, row.origin, row.ready_at, visit.context_tokens, visit.kv_tokens);
            if row.new_tokens == 0 || *row != made {
                return Err(format!("{row:?} does not fit {visit:?}"));
            }
        }
        let sums_of = |rows: &[Row]| BatchSums::of(rows);
        if sums_of(self.waiting()) != self.waiting_sums() {
            return Err(format!("the sums of the waiting rows are {:?}", self.waiting_sums()));
        }
        if running.is_some_and(|plan| sums_of(plan.rows) != plan.sums) {
            return Err(format!("the sums of the running rows are not those of {running:?}"));
        }
        Ok(())
    }

    /// The accounts are the sums over the visits and within the budget, and nobody waits for KV without need.
    fn check_kv(&self) -> Result<(), String> {
        let sum = |tokens: fn(&Visit) -> u32| self.visits().iter().map(|visit| u64::from(tokens(visit))).sum::<u64>();
        let (kept, reserved) = (sum(|visit| visit.kv_tokens), sum(|visit| visit.reserved_tokens));
        let in_flight = self.running().map_or(0, |plan| plan.sums.new_tokens);
        let (used, budget) = (self.kv_used_tokens(), self.kv_budget_tokens());
        if kept + in_flight != used {
            return Err(format!("{kept} KV tokens kept and {in_flight} in flight, {used} accounted for"));
        }
        if reserved != self.kv_reserved_tokens() {
            return Err(format!("{reserved} KV tokens reserved, {} accounted for", self.kv_reserved_tokens()));
        }
        if used > budget || reserved > budget {
            return Err(format!("{used} KV tokens used and {reserved} reserved of {budget}"));
        }
        if self.kv().reserves() && used > reserved {
            return Err(format!("{used} KV tokens used of {reserved} reserved"));
        }
        if self.kv().next_fits() {
            return Err("the first request that waits for KV would fit".into());
        }
        for visit in self.visits() {
            let without_share = matches!(visit.state, VisitState::Absent | VisitState::Blocked);
            if (without_share && visit.kv_tokens + visit.reserved_tokens > 0) || visit.kv_tokens > visit.context_tokens
            {
                return Err(format!("more KV than its due: {visit:?}"));
            }
        }
        Ok(())
    }

    fn known(&self, request: RequestId) -> Result<&Visit, String> {
        self.visit(request).ok_or_else(|| format!("{request} is listed and unknown"))
    }
}
