//! KV accounting of one subserver: a budget in tokens, and who waits for a share of it.

use alloc::collections::VecDeque;

use crate::ids::RequestId;
use crate::plan::Origin;

/// What happens when a request's KV does not fit.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum KvFull {
    /// The longest context of every request is reserved when it first arrives; a request that does not fit waits at admission, first come first served.
    Wait,
    /// Nothing is reserved; when a launch does not fit, the request that arrived here last loses its KV and is recomputed.
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

#[derive(Clone, Debug)]
pub(crate) struct Kv {
    config: KvConfig,
    /// Tokens whose KV is kept, or written by the step in flight.
    pub(crate) used_tokens: u64,
    pub(crate) reserved_tokens: u64,
    pub(crate) blocked: VecDeque<(RequestId, Origin)>,
}

impl Kv {
    pub(crate) const fn new(config: KvConfig) -> Self {
        Self { config, used_tokens: 0, reserved_tokens: 0, blocked: VecDeque::new() }
    }

    pub(crate) const fn budget_tokens(&self) -> u64 {
        self.config.budget_tokens
    }

    pub(crate) const fn reserves(&self) -> bool {
        matches!(self.config.when_full, KvFull::Wait)
    }

    /// Whether a reservation of `tokens` fits now and nobody came before.
    pub(crate) fn can_reserve(&self, tokens: u32) -> bool {
        self.reserved_tokens + u64::from(tokens) <= self.config.budget_tokens
    }

    /// Tokens by which a launch that writes `new_tokens` exceeds the budget.
    pub(crate) const fn excess_tokens(&self, new_tokens: u64) -> u64 {
        (self.used_tokens + new_tokens).saturating_sub(self.config.budget_tokens)
    }
}
