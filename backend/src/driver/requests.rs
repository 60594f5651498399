//! The requests in the system, by slot.

use handoff_scheduler::{RequestId, Timestamp};
use handoff_sim::policy::Route;
use handoff_sim::rng::{Purpose, Stream};

/// What the driver keeps of a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    generation: u32,
    /// Counted from 0 over the whole run.
    pub(super) idx: u64,
    /// Tokens with which it arrived: the prompt, and what a random start has put behind it.
    pub(super) arrived_tokens: u32,
    pub(super) context_tokens_max: u32,
    pub(super) output_tokens: u32,
    pub(super) arrived_at: Timestamp,
    /// `Timestamp::MAX` before the first committed token.
    pub(super) first_token_at: Timestamp,
    /// Whether the request was seen from its first token on.
    pub(super) whole: bool,
    /// Finished or cancelled.
    pub(super) ended: bool,
    pub(super) cancelled: bool,
    /// Messages on their way.
    pub(super) messages: u32,
    /// Steps that decided about it.
    pub(super) steps: u32,
}

/// The requests in the system: dense vectors by slot, slots reused once nobody holds a share or a message of their last user.
#[derive(Debug, Default)]
pub(super) struct Requests {
    requests: Vec<Request>,
    /// What the policy sees, by slot.
    pub(super) routes: Vec<Route>,
    free_slots: Vec<u32>,
    /// Requests that ended and may still have shares or messages.
    ending: Vec<RequestId>,
    /// Requests that arrived so far.
    pub(super) n_arrived: u64,
    /// Requests in the system.
    pub(super) active: u32,
}

impl Requests {
    /// Opens the entry of a request that arrives now. The caller lets the policy begin its route.
    pub(super) fn arrive(&mut self, now: Timestamp, seed: u64, prompt_tokens: u32, output_tokens: u32) -> RequestId {
        let idx = self.n_arrived;
        self.n_arrived += 1;
        self.active += 1;
        let request = Request {
            generation: 0,
            idx,
            arrived_tokens: prompt_tokens,
            context_tokens_max: prompt_tokens.saturating_add(output_tokens),
            output_tokens,
            arrived_at: now,
            first_token_at: Timestamp::MAX,
            whole: true,
            ended: false,
            cancelled: false,
            messages: 0,
            steps: 0,
        };
        let route = Route::new(output_tokens, Stream::new(seed, Purpose::Route, idx), idx);
        if let Some(slot) = self.free_slots.pop() {
            let generation = self.requests[slot as usize].generation + 1;
            self.requests[slot as usize] = Request { generation, ..request };
            self.routes[slot as usize] = route;
            return RequestId { slot, generation };
        }
        let slot = u32::try_from(self.requests.len()).expect("fewer than 2^32 requests are active");
        self.requests.push(request);
        self.routes.push(route);
        RequestId { slot, generation: 0 }
    }

    pub(super) fn get(&self, request: RequestId) -> &Request {
        &self.requests[request.idx()]
    }

    pub(super) fn get_mut(&mut self, request: RequestId) -> &mut Request {
        &mut self.requests[request.idx()]
    }

    /// The request with this index in the run, if it is in the system.
    pub(super) fn active_with_idx(&self, idx: u64) -> Option<RequestId> {
        let slot = self.requests.iter().position(|request| request.idx == idx && !request.ended)?;
        Some(RequestId { slot: slot as u32, generation: self.requests[slot].generation })
    }

    pub(super) fn end(&mut self, request: RequestId, cancelled: bool) {
        self.active -= 1;
        let entry = self.get_mut(request);
        entry.ended = true;
        entry.cancelled = cancelled;
        self.ending.push(request);
    }

    /// Frees the slots of ended requests that are `gone` from every subserver and have no message on its way.
    pub(super) fn free_slots(&mut self, gone: impl Fn(RequestId) -> bool) {
        let Self { requests, free_slots, ending, .. } = self;
        ending.retain(|&request| {
            let stays = requests[request.idx()].messages > 0 || !gone(request);
            if !stays {
                free_slots.push(request.slot);
            }
            stays
        });
    }
}
