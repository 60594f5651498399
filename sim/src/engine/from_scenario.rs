//! From a validated scenario to what the engine runs.

use std::sync::Arc;

use handoff_scheduler::{Coordination, FirstKind, GateConfig, Hold, KvConfig, KvFull, Order, Sharing, Threshold};

use super::config::{EngineConfig, FreshCost, ModelConfig};
use crate::scenario::{self, Handoff, Loops, Mode, ModelSpec, Scenario, SchedulerSpec};

impl From<&Scenario> for EngineConfig {
    fn from(scenario: &Scenario) -> Self {
        let scheduler = scenario.scheduler();
        Self {
            models: scenario.models().iter().map(|model| model_config(model, scheduler)).collect(),
            policy: Arc::clone(scenario.policy()),
            coordination: coordination(scheduler),
            sharing: sharing(scheduler),
            corun: scheduler.corun.clone(),
            first: (!scheduler.mix_extend).then_some(match scheduler.first {
                scenario::First::Extend => FirstKind::Extend,
                scenario::First::Decode => FirstKind::Decode,
            }),
            fused: scheduler.loops == Loops::Fused,
            fresh: match scheduler.handoff {
                Handoff::Resume => None,
                Handoff::Fresh { fixed_ns, per_context_token_ns } => Some(FreshCost { fixed_ns, per_context_token_ns }),
            },
            hop_ns: scheduler.hop_ns,
            // 10^9 bytes per second are one byte per nanosecond.
            hop_bytes_per_ns: scheduler.hop_gb_per_s,
            workload: scenario.workload().clone(),
        }
    }
}

fn model_config(model: &ModelSpec, scheduler: &SchedulerSpec) -> ModelConfig {
    let thresholds = &model.thresholds;
    ModelConfig {
        name: model.name.clone(),
        latency: Arc::clone(&model.latency),
        router: model.router.clone(),
        jitter: model.jitter.clone(),
        host: model.host,
        gate: GateConfig {
            threshold: Threshold::by_active(thresholds.entries()),
            wait_ns_max: model.max_wait_ns,
            hold: match model.hold {
                scenario::Hold::Decode => Hold::Decode,
                scenario::Hold::Extend => Hold::Extend,
                scenario::Hold::Both => Hold::Both,
                scenario::Hold::All => Hold::All,
            },
        },
        kv: KvConfig {
            budget_tokens: model.kv_tokens,
            when_full: match scheduler.kv_full {
                scenario::KvFull::Wait => KvFull::Wait,
                scenario::KvFull::Preempt => KvFull::Preempt,
            },
        },
        device: model.device,
    }
}

fn coordination(scheduler: &SchedulerSpec) -> Coordination {
    match scheduler.mode {
        Mode::Eager | Mode::Delayed => Coordination::Independent,
        Mode::StepSync => Coordination::StepSync,
        Mode::ModelSync => Coordination::ModelSync(order(scheduler)),
    }
}

fn sharing(scheduler: &SchedulerSpec) -> Sharing {
    match scheduler.sharing {
        scenario::Sharing::Overlapped => Sharing::Overlapped,
        scenario::Sharing::Exclusive => Sharing::Exclusive(order(scheduler)),
    }
}

/// A scenario without an order has no device and no mode that would need one.
fn order(scheduler: &SchedulerSpec) -> Order {
    match scheduler.order {
        Some(scenario::Order::SmallFirst) => Order::SmallFirst,
        Some(scenario::Order::Alternate) => Order::Alternate,
        Some(scenario::Order::LargeFirst) | None => Order::LargeFirst,
    }
}
