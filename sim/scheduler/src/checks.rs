//! Invariants of a subserver, checked apart from the code that keeps them. Tests call this after every event; release runs do not.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;

use crate::plan::BatchSums;
use crate::request::VisitState;
use crate::subserver::Subserver;

impl Subserver {
    /// Checks every invariant; the error names the one that is broken.
    ///
    /// # Errors
    /// A sentence that says what is wrong.
    pub fn check(&self) -> Result<(), String> {
        let count = |state| self.visits_in(state).count();
        let lists = [
            ("waiting", count(VisitState::Waiting), self.waiting().len()),
            ("running", count(VisitState::Running), self.running().map_or(0, |plan| plan.rows.len())),
            ("blocked", count(VisitState::Blocked), self.blocked().count()),
        ];
        for (name, by_state, by_list) in lists {
            if by_state != by_list {
                return Err(format!("{by_state} visits are {name} but the list holds {by_list}"));
            }
        }
        if BatchSums::of(self.waiting()) != self.waiting_sums() {
            return Err(format!("the sums of the waiting rows are {:?}", self.waiting_sums()));
        }
        let kept: u64 =
            VISITING.iter().flat_map(|&state| self.visits_in(state)).map(|visit| u64::from(visit.kv_tokens)).sum();
        let in_flight = self.running().map_or(0, |plan| plan.sums.new_tokens);
        if kept + in_flight != self.kv_used_tokens() {
            return Err(format!(
                "{kept} KV tokens kept and {in_flight} in flight, {} accounted for",
                self.kv_used_tokens()
            ));
        }
        if self.kv_used_tokens() > self.kv_budget_tokens() {
            return Err(format!("{} KV tokens used of {}", self.kv_used_tokens(), self.kv_budget_tokens()));
        }
        for row in self.waiting() {
            let visit = self.visit(row.request).ok_or_else(|| format!("{} waits unknown", row.request))?;
            if row.new_tokens == 0
                || row.kv_tokens + row.new_tokens != visit.context_tokens
                || row.kv_tokens != visit.kv_tokens
            {
                return Err(format!("{row:?} does not fit {visit:?}"));
            }
        }
        if VISITING.iter().flat_map(|&state| self.visits_in(state)).any(|visit| visit.kv_tokens > visit.context_tokens)
        {
            return Err("more KV is kept than tokens are known".to_owned());
        }
        Ok(())
    }
}

const VISITING: [VisitState; 4] = [VisitState::Blocked, VisitState::Waiting, VisitState::Running, VisitState::Pending];
