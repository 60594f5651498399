//! KV accounting of one subserver: a budget in tokens, and who waits for a share of it.

use alloc::collections::VecDeque;

use crate::ids::RequestId;
use crate::plan::Origin;
use crate::time::Timestamp;

/// What happens when a request's KV does not fit.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum KvFull {
    /// The longest context of every request is reserved when it first arrives; a request that does not fit waits at admission, first come
    /// first served. It is not counted towards a threshold while it waits.
    Wait,
    /// Nothing is reserved; when a launch does not fit, the request that arrived here last loses its KV and is recomputed. Of the rows that
    /// could launch, the one whose request arrived first always does, so the budget must hold the longest context of any single request.
    Preempt,
}

/// The KV budget of a subserver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KvConfig {
    /// Tokens that fit.
    pub budget_tokens: u64,
    /// What happens when they do not.
    pub when_full: KvFull,
}

/// A request that waits for KV.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockedRequest {
    pub(crate) request: RequestId,
    pub(crate) origin: Origin,
    /// The reservation that does not fit.
    pub(crate) reserve_tokens: u32,
    /// When the request arrived; its admission delay counts from here.
    pub(crate) arrived_at: Timestamp,
}

#[derive(Clone, Debug)]
pub(crate) struct Kv {
    config: KvConfig,
    /// Tokens whose KV is kept, or written by the step in flight.
    pub(crate) used_tokens: u64,
    reserved_tokens: u64,
    blocked: VecDeque<BlockedRequest>,
}

impl Kv {
    pub(crate) const fn new(config: KvConfig) -> Self {
        Self { config, used_tokens: 0, reserved_tokens: 0, blocked: VecDeque::new() }
    }

    pub(crate) const fn budget_tokens(&self) -> u64 {
        self.config.budget_tokens
    }

    pub(crate) const fn reserved_tokens(&self) -> u64 {
        self.reserved_tokens
    }

    pub(crate) const fn reserves(&self) -> bool {
        matches!(self.config.when_full, KvFull::Wait)
    }

    /// Makes a reservation for a request that arrives now, unless others came before or it does not fit. Says whether it was made.
    pub(crate) fn reserve(&mut self, tokens: u32) -> bool {
        let fits = self.blocked.is_empty() && self.fits(tokens);
        if fits {
            self.reserved_tokens += u64::from(tokens);
        }
        fits
    }

    pub(crate) fn unreserve(&mut self, tokens: u32) {
        self.reserved_tokens -= u64::from(tokens);
    }

    /// Puts a request whose reservation was refused at the end of those that wait.
    pub(crate) fn block(&mut self, blocked: BlockedRequest) {
        self.blocked.push_back(blocked);
    }

    /// Takes a request that gave up out of those that wait.
    pub(crate) fn unblock(&mut self, request: RequestId) {
        self.blocked.retain(|blocked| blocked.request != request);
    }

    /// Makes the reservation of the request that has waited longest, if it fits by now.
    pub(crate) fn reserve_next(&mut self) -> Option<BlockedRequest> {
        let next = self.blocked.front()?;
        if !self.fits(next.reserve_tokens) {
            return None;
        }
        self.reserved_tokens += u64::from(next.reserve_tokens);
        self.blocked.pop_front()
    }

    pub(crate) fn blocked(&self) -> impl Iterator<Item = &BlockedRequest> {
        self.blocked.iter()
    }

    /// Whether the request that has waited longest could be let in, which no subserver leaves undone.
    pub(crate) fn next_fits(&self) -> bool {
        self.blocked.front().is_some_and(|next| self.fits(next.reserve_tokens))
    }

    /// Tokens by which a launch that writes `new_tokens` exceeds the budget.
    #[inline]
    pub(crate) const fn excess_tokens(&self, new_tokens: u64) -> u64 {
        (self.used_tokens + new_tokens).saturating_sub(self.config.budget_tokens)
    }

    fn fits(&self, tokens: u32) -> bool {
        self.reserved_tokens + u64::from(tokens) <= self.config.budget_tokens
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kv(when_full: KvFull) -> Kv {
        Kv::new(KvConfig { budget_tokens: 10, when_full })
    }

    fn waiter(slot: u32, reserve_tokens: u32) -> BlockedRequest {
        let request = RequestId { slot, generation: 0 };
        BlockedRequest { request, origin: Origin::Client, reserve_tokens, arrived_at: Timestamp::ZERO }
    }

    #[test]
    fn a_reservation_may_fill_the_budget_and_not_exceed_it() {
        let mut kv = kv(KvFull::Wait);
        assert!(kv.reserve(4));
        assert!(!kv.reserve(7));
        assert!(kv.reserve(6));
        assert_eq!(kv.reserved_tokens(), 10);
        kv.unreserve(4);
        assert_eq!(kv.reserved_tokens(), 6);
    }

    #[test]
    fn nobody_overtakes_a_request_that_waits_even_where_it_would_fit() {
        let mut kv = kv(KvFull::Wait);
        assert!(kv.reserve(4));
        kv.block(waiter(1, 7));
        assert!(!kv.reserve(1));
        kv.block(waiter(2, 1));
        assert!(kv.reserve_next().is_none() && !kv.next_fits());
        kv.unreserve(4);
        assert!(kv.next_fits());
        let order = [kv.reserve_next(), kv.reserve_next()].map(|next| next.unwrap().request.slot);
        assert_eq!((order, kv.reserved_tokens()), ([1, 2], 8));
        assert!(kv.reserve_next().is_none());
    }

    #[test]
    fn who_gives_up_lets_the_next_in() {
        let mut kv = kv(KvFull::Wait);
        assert!(kv.reserve(4));
        kv.block(waiter(1, 7));
        kv.block(waiter(2, 6));
        kv.unblock(RequestId { slot: 1, generation: 0 });
        assert_eq!(kv.reserve_next().unwrap().request.slot, 2);
    }

    #[test]
    fn the_excess_counts_from_the_first_token_beyond_the_budget() {
        let mut kv = kv(KvFull::Preempt);
        kv.used_tokens = 7;
        assert_eq!([0, 3, 4, 9].map(|new_tokens| kv.excess_tokens(new_tokens)), [0, 0, 1, 6]);
    }
}
