//! What the engine runs: models, policy, coordination and workload, ready to use.

use std::sync::Arc;

use handoff_scheduler::{Coordination, FirstKind, GateConfig, KvConfig, Sharing};

use crate::cost::{CorunRates, HostCost, Jitter, StepLatency};
use crate::policy::Policy;
use crate::workload::Workload;

/// One model and the subserver around it.
#[derive(Clone, Debug)]
pub struct ModelConfig {
    /// The model's name in results and errors.
    pub name: String,
    /// Time of one forward of one batch.
    pub latency: Arc<dyn StepLatency>,
    /// Time of the routing signal, added to every forward.
    pub router: Option<Arc<dyn StepLatency>>,
    /// Jitter of the forward's time.
    pub jitter: Jitter,
    /// Host time around a forward and per message.
    pub host: HostCost,
    /// Delayed batching.
    pub gate: GateConfig,
    /// KV budget.
    pub kv: KvConfig,
    /// Models with the same number share a device.
    pub device: u16,
}

/// What a handoff costs when the receiver treats it as a new request and matches its prefix again.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct FreshCost {
    /// Per handoff, ns.
    pub fixed_ns: u64,
    /// Per token of context, ns.
    pub per_context_token_ns: f64,
}

/// Everything that decides a run but its seed.
#[derive(Clone, Debug)]
pub struct EngineConfig {
    /// The cooperating set, in index order.
    pub models: Vec<ModelConfig>,
    /// Who decides where requests go.
    pub policy: Arc<dyn Policy>,
    /// How launches of different subservers depend on each other.
    pub coordination: Coordination,
    /// How models on one device share it.
    pub sharing: Sharing,
    /// Rates of forwards that run side by side on one device; `None` where no two models share an overlapped device.
    pub corun: Option<CorunRates>,
    /// `None` lets one forward carry decode and extend rows.
    pub first: Option<FirstKind>,
    /// Message handling adds to the gap between two forwards instead of overlapping them.
    pub fused: bool,
    /// `None` resumes a returning request on its kept KV at no cost.
    pub fresh: Option<FreshCost>,
    /// Time of one message between subservers, ns.
    pub hop_ns: u64,
    /// Bandwidth between subservers, bytes/ns (GB/s); `None` is no limit. A message carries 4 bytes a token.
    pub hop_bytes_per_ns: Option<f64>,
    /// Arrivals, lengths, start and stop.
    pub workload: Workload,
}

impl EngineConfig {
    /// Time in ns that a message with `suffix_tokens` tokens takes between two subservers.
    #[inline]
    #[must_use]
    pub fn hop_ns(&self, suffix_tokens: u32) -> u64 {
        match self.hop_bytes_per_ns {
            None => self.hop_ns,
            Some(rate) => self.hop_ns + (f64::from(suffix_tokens) * 4.0 / rate).round() as u64,
        }
    }
}
