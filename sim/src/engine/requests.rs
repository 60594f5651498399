//! The requests in the system, by slot.

use handoff_scheduler::{RequestId, Timestamp};

use crate::policy::{Route, RouteState};
use crate::rng::{Purpose, Stream};

/// What the driver keeps of a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    pub(super) generation: u32,
    /// Subservers that still hold a share after the request finished.
    pub(super) shares_left: u32,
    pub(super) context_tokens_max: u32,
    pub(super) output_tokens: u32,
    /// Counted from 0 over the whole run.
    pub(super) idx: u64,
    pub(super) arrived_at: Timestamp,
    /// `Timestamp::MAX` before the first committed token.
    pub(super) first_token_at: Timestamp,
    /// Whether the request was seen from its first token on; those that were under way at the start were not.
    pub(super) whole: bool,
}

/// The requests in the system: dense vectors by slot, slots reused once every subserver has freed its share.
#[derive(Debug, Default)]
pub(super) struct Requests {
    requests: Vec<Request>,
    /// What the policy sees, by slot.
    pub(super) routes: Vec<Route>,
    free_slots: Vec<u32>,
    /// Requests that arrived so far.
    pub(super) n_arrived: u64,
    /// Requests in the system.
    pub(super) active: u32,
    /// Requests in the system without a committed token.
    pub(super) n_without_first: u32,
}

impl Requests {
    /// Opens the entry of a request that arrives now. The caller fills in the route's state.
    pub(super) fn arrive(
        &mut self,
        now: Timestamp,
        seed: u64,
        output_tokens: u32,
        context_tokens_max: u32,
    ) -> RequestId {
        let idx = self.n_arrived;
        self.n_arrived += 1;
        self.active += 1;
        self.n_without_first += 1;
        let request = Request {
            generation: 0,
            shares_left: 0,
            context_tokens_max,
            output_tokens,
            idx,
            arrived_at: now,
            first_token_at: Timestamp::MAX,
            whole: true,
        };
        let route = Route {
            state: RouteState::default(),
            remaining_tokens: output_tokens,
            stream: Stream::new(seed, Purpose::Route, idx),
            request_idx: idx,
        };
        if let Some(slot) = self.free_slots.pop() {
            let generation = self.requests[slot as usize].generation + 1;
            self.requests[slot as usize] = Request { generation, ..request };
            self.routes[slot as usize] = route;
            RequestId { slot, generation }
        } else {
            let slot = u32::try_from(self.requests.len()).expect("the limit on active requests is below 2^32");
            self.requests.push(request);
            self.routes.push(route);
            RequestId { slot, generation: 0 }
        }
    }

    #[inline]
    pub(super) fn get(&self, request: RequestId) -> &Request {
        &self.requests[request.idx()]
    }

    #[inline]
    pub(super) fn get_mut(&mut self, request: RequestId) -> &mut Request {
        &mut self.requests[request.idx()]
    }

    /// The request is complete; `shares` other subservers have yet to free theirs.
    pub(super) fn finish(&mut self, request: RequestId, shares: u32) {
        self.active -= 1;
        self.get_mut(request).shares_left = shares;
        if shares == 0 {
            self.free_slots.push(request.slot);
        }
    }

    /// A subserver freed its share of a complete request.
    pub(super) fn share_freed(&mut self, request: RequestId) {
        let entry = self.get_mut(request);
        entry.shares_left -= 1;
        if entry.shares_left == 0 {
            self.free_slots.push(request.slot);
        }
    }
}
