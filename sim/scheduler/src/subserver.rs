//! The subserver: the service around one model, with its three loops.

mod client;
mod decode;
#[cfg(test)]
mod fixture;
mod peer;

use alloc::vec::Vec;

use crate::event::{Input, Output};
use crate::gate::{Gate, GateConfig};
use crate::ids::{ModelIdx, RequestId, StepId};
use crate::kv::{BlockedRequest, Kv, KvConfig};
use crate::outbox::Outbox;
use crate::plan::{BatchSums, Origin, Row, RowKind, StepPlan};
use crate::request::{Visit, VisitState};
use crate::time::Timestamp;

/// Which rows go first where one forward may not carry both kinds.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FirstKind {
    /// Extend and prefill rows.
    Extend,
    /// Decode rows.
    Decode,
}

/// How a subserver behaves.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SubserverConfig {
    /// The subserver's own model.
    pub model: ModelIdx,
    /// Models in the cooperating set.
    pub n_models: usize,
    /// When an idle subserver launches.
    pub gate: GateConfig,
    /// `None`: one forward carries every row that is ready. Otherwise extend rows (with prefill rows) and decode rows go in forwards of
    /// their own, and this kind first.
    pub first: Option<FirstKind>,
    /// The KV budget.
    pub kv: KvConfig,
}

/// Why a subserver wants to be woken.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum WakeReason {
    /// The oldest row that the gate holds back will have waited for its longest time.
    WaitEnds,
}

/// The service around one model: its three loops, its KV accounting, its batch gate. A state machine without clock, randomness, I/O or floats.
///
/// `handle_*` takes facts in, `poll_*` takes actions out. After every `handle_input` poll outputs until there are none; once everything
/// that happened at an instant is handled, ask for a launch. A panic means that the driver broke this contract.
#[derive(Clone, Debug)]
pub struct Subserver {
    model: ModelIdx,
    n_models: usize,
    gate: Gate,
    first: Option<FirstKind>,
    kv: Kv,
    /// By slot.
    visits: Vec<Visit>,
    /// What each peer is known to have seen of a request, tokens: entry `slot * n_models + peer`.
    seen_tokens: Vec<u32>,
    /// Rows that wait, in the order in which they became ready.
    ready: Vec<Row>,
    ready_sums: BatchSums,
    /// Rows of the step in flight; empty when idle.
    running: Vec<Row>,
    running_sums: BatchSums,
    n_steps: u64,
    n_admissions: u64,
    outputs: Outbox,
}

impl Subserver {
    /// An idle subserver without requests.
    #[must_use]
    pub fn new(config: SubserverConfig) -> Self {
        Self {
            model: config.model,
            n_models: config.n_models,
            gate: Gate::new(config.gate),
            first: config.first,
            kv: Kv::new(config.kv),
            visits: Vec::new(),
            seen_tokens: Vec::new(),
            ready: Vec::new(),
            ready_sums: BatchSums::default(),
            running: Vec::new(),
            running_sums: BatchSums::default(),
            n_steps: 0,
            n_admissions: 0,
            outputs: Outbox::default(),
        }
    }

    /// Takes in a fact that became true at `now`. Time must not go backwards.
    #[inline]
    pub fn handle_input(&mut self, now: Timestamp, input: Input<'_>) {
        match input {
            Input::StepFinished { step, outcomes } => self.handle_step_finished(now, step, outcomes),
            Input::HandoffArrived { message, context_tokens_max } => {
                self.handle_handoff_arrived(now, message, context_tokens_max);
            }
            Input::RequestArrived { request, context_tokens, context_tokens_max } => {
                self.handle_request_arrived(now, request, context_tokens, context_tokens_max);
            }
            Input::RequestCancelled { request } => self.handle_request_cancelled(request),
            Input::ActiveChanged { n } => self.gate.set_active(n),
            // The gate looks at `now` itself; the fact only gives it an occasion.
            Input::TimedOut => {}
        }
    }

    /// The next thing that the driver must do.
    #[inline]
    pub fn poll_output(&mut self, _now: Timestamp) -> Option<Output> {
        self.outputs.pop()
    }

    /// All that the driver must do at once, in order, instead of one by one: replaces what `buffer` held.
    #[inline]
    pub fn take_outputs(&mut self, buffer: &mut Vec<Output>) {
        self.outputs.take(buffer);
    }

    /// When to come back with [`Input::TimedOut`] if nothing happens before, and why. `None` while a step is in flight.
    ///
    /// A time that has come already means that the gate is open and the coordinator keeps the subserver from launching: the wake-up is then
    /// the end of the step that holds the device or the round, and the driver must not spin.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<(Timestamp, WakeReason)> {
        if self.is_in_flight() {
            return None;
        }
        self.gate.wait_ends(|closed| self.oldest_held(closed)).map(|at| (at, WakeReason::WaitEnds))
    }

    /// The subserver's model.
    #[must_use]
    pub const fn model(&self) -> ModelIdx {
        self.model
    }

    /// Whether a step is in flight.
    #[inline]
    #[must_use]
    pub fn is_in_flight(&self) -> bool {
        !self.running.is_empty()
    }

    /// The step in flight.
    #[inline]
    #[must_use]
    pub fn running(&self) -> Option<StepPlan<'_>> {
        self.is_in_flight().then(|| StepPlan {
            step: StepId(self.n_steps - 1),
            rows: &self.running,
            sums: self.running_sums,
        })
    }

    /// The rows that wait for a launch, oldest first.
    #[must_use]
    pub fn waiting(&self) -> &[Row] {
        &self.ready
    }

    /// The requests that wait for KV, first come first.
    pub fn blocked(&self) -> impl Iterator<Item = RequestId> + '_ {
        self.kv.blocked().map(|blocked| blocked.request)
    }

    /// The threshold at the present number of active requests.
    #[must_use]
    pub const fn threshold_now(&self) -> u32 {
        self.gate.threshold_now()
    }

    /// KV tokens kept here, or being written by the step in flight.
    #[must_use]
    pub const fn kv_used_tokens(&self) -> u64 {
        self.kv.used_tokens
    }

    /// The KV budget, tokens.
    #[must_use]
    pub const fn kv_budget_tokens(&self) -> u64 {
        self.kv.budget_tokens()
    }

    /// KV tokens reserved for the requests that are here or pending; 0 where nothing is reserved.
    #[must_use]
    pub const fn kv_reserved_tokens(&self) -> u64 {
        self.kv.reserved_tokens()
    }

    /// Where the visit of `request` stands. A driver may reuse the slot of a request once this is [`VisitState::Absent`] at every subserver
    /// and every message of the request has been delivered.
    #[must_use]
    pub fn visit_state(&self, request: RequestId) -> VisitState {
        self.visit(request).map_or(VisitState::Absent, |visit| visit.state)
    }

    pub(crate) const fn waiting_sums(&self) -> BatchSums {
        self.ready_sums
    }

    pub(crate) const fn kv(&self) -> &Kv {
        &self.kv
    }

    pub(crate) fn visits(&self) -> &[Visit] {
        &self.visits
    }

    pub(crate) fn visit(&self, request: RequestId) -> Option<&Visit> {
        self.visits.get(request.idx()).filter(|visit| visit.generation == request.generation)
    }

    fn oldest_held(&self, closed: crate::gate::Pass) -> Option<Timestamp> {
        self.ready.iter().filter(|row| !closed.admits(row)).map(|row| row.ready_at).min()
    }

    /// The visit of `request`, begun if its slot is new or had another user before; that user must be gone. `None` if the slot has a later
    /// user already: what comes for this request comes too late.
    #[inline]
    fn visit_mut(&mut self, request: RequestId) -> Option<&mut Visit> {
        let slot = request.idx();
        if slot >= self.visits.len() {
            self.visits.resize(slot + 1, Visit::ABSENT);
            self.seen_tokens.resize((slot + 1) * self.n_models, 0);
        }
        let visit = &mut self.visits[slot];
        if visit.generation != request.generation {
            if request.generation < visit.generation {
                return None;
            }
            assert!(
                visit.state == VisitState::Absent,
                "{request} took a slot whose share at {} is not freed",
                self.model
            );
            *visit = Visit { generation: request.generation, ..Visit::ABSENT };
            let first = slot * self.n_models;
            self.seen_tokens[first..first + self.n_models].fill(0);
        }
        Some(visit)
    }

    /// Lets a request in whose visit is absent or pending: its row waits, or it waits for KV.
    fn admit(
        &mut self,
        now: Timestamp,
        request: RequestId,
        origin: Origin,
        context_tokens: u32,
        context_tokens_max: u32,
    ) {
        let visit = &mut self.visits[request.idx()];
        visit.context_tokens = context_tokens;
        if visit.state == VisitState::Absent {
            visit.admission = self.n_admissions;
            self.n_admissions += 1;
            if self.kv.reserves() {
                let reserve_tokens = context_tokens_max.max(context_tokens);
                if !self.kv.reserve(reserve_tokens) {
                    visit.become_state(VisitState::Blocked);
                    self.kv.block(BlockedRequest { request, origin, reserve_tokens, arrived_at: now });
                    return;
                }
                visit.reserved_tokens = reserve_tokens;
            }
        }
        self.push_ready(request, origin, now);
    }

    /// Puts the row of `request` at the end of those that wait.
    #[inline]
    fn push_ready(&mut self, request: RequestId, origin: Origin, ready_at: Timestamp) {
        let visit = &mut self.visits[request.idx()];
        visit.become_state(VisitState::Waiting);
        // A row covers at least the last token: KV kept for it (after a token was dropped and none came instead) is written anew.
        let kept = visit.kv_tokens.min(visit.context_tokens - 1);
        self.kv.used_tokens -= u64::from(visit.kv_tokens - kept);
        visit.kv_tokens = kept;
        let row = make_row(request, origin, ready_at, visit.context_tokens, kept);
        self.ready_sums.add(&row);
        self.ready.push(row);
    }

    /// Frees the share of `request` and lets in those who waited for it.
    fn release(&mut self, request: RequestId) {
        let visit = &mut self.visits[request.idx()];
        visit.become_state(VisitState::Absent);
        let freed_tokens = core::mem::take(&mut visit.kv_tokens);
        self.kv.used_tokens -= u64::from(freed_tokens);
        self.kv.unreserve(core::mem::take(&mut visit.reserved_tokens));
        self.outputs.push(Output::Release { request, freed_tokens });
        while let Some(blocked) = self.kv.reserve_next() {
            self.visits[blocked.request.idx()].reserved_tokens = blocked.reserve_tokens;
            // The admission delay, and the gate's longest wait, include the wait for KV.
            self.push_ready(blocked.request, blocked.origin, blocked.arrived_at);
        }
    }
}

#[inline]
pub(crate) fn make_row(
    request: RequestId,
    origin: Origin,
    ready_at: Timestamp,
    context_tokens: u32,
    kv_tokens: u32,
) -> Row {
    let new_tokens = context_tokens - kv_tokens;
    let kind = match (kv_tokens, new_tokens) {
        (0, _) => RowKind::Prefill,
        (_, 1) => RowKind::Decode,
        _ => RowKind::Extend,
    };
    Row { request, ready_at, new_tokens, kv_tokens, kind, origin }
}
