//! The scenario file: everything that decides a run. TOML text -> raw structs -> a validated [`Scenario`].
//!
//! ```
//! use handoff_sim::scenario::{Embedded, Placement, Scenario, Source};
//!
//! let text = r#"
//! [[model]]
//! name = "small"
//! cost = { constant_ms = 6.0 }
//!
//! [[model]]
//! name = "large"
//! cost = { constant_ms = 27.9 }
//! threshold = 3
//!
//! [policy]
//! kind = "r2r"
//! "#;
//! let source = Source::new("scenario.toml", text).with_set("model.large.threshold=2")?;
//! let scenario = Scenario::parse(&source, &Embedded::default())?;
//! assert_eq!(scenario.models()[1].thresholds.at(4), 2);
//! assert_eq!(scenario.placement(), Placement::Separate);
//!
//! let variant = scenario.variant().every(16).concurrency(8).build()?;
//! assert_eq!(variant.policy().kind(), "every");
//! # Ok::<(), handoff_sim::scenario::ScenarioError>(())
//! ```
//!
//! # Fields
//!
//! | field | default | meaning |
//! |---|---|---|
//! | `seed` | 1 | random seed, a whole number |
//! | `workload.concurrency` | 4 | requests in the system of a closed loop |
//! | `workload.arrivals` | | instead: `{ process = "poisson", rate_per_s }` or `{ process = "trace", csv }` |
//! | `workload.requests` | 200 | completed requests measured per replication, after warm-up |
//! | `workload.prompt_tokens` | 100 | a number, `{ lognormal = { mean, cv } }`, `{ uniform = [low, high] }` or `{ csv = "file" }` |
//! | `workload.output_tokens` | 2048 | the same |
//! | `workload.start` | `random` | `in-phase`, `spread`, `random` |
//! | `workload.warmup` | `auto` | or a number of requests |
//! | `workload.precision` | 0.01 | relative half-width at which replications stop |
//! | `workload.replications_min`, `replications_max` | 10, 30 | bounds on the number of replications |
//! | `model.name` | `small`, `large` | letters, digits, `-`, `_` |
//! | `model.cost` | 6.0 and 27.9 ms for two models | `{ constant_ms }`, `{ affine = { fixed_ms, per_row_ms, per_new_token_ms, per_kv_token_us } }`, `{ profile = "file", model, graph = true, extend_graph = graph, device }` or `{ roofline = { model, device, tensor_parallel = 1, fixed_ms = 0 } }` |
//! | `model.router` | none | time of the routing signal, added to every step: the forms of `cost`; a profile gives its `router` rows |
//! | `model.jitter_cv` | 0 | coefficient of variation of step times; or `jitter = "measured"` with a profile |
//! | `model.host` | 0 | `{ launch_us, loop_us }` around every step, or `"profile"`: both of the profile before a launch |
//! | `model.threshold` | 1 | rows that must wait before an idle subserver launches: a number, or a list by active requests whose last entry holds beyond |
//! | `model.max_wait_ms` | 0 | the longest that a held row waits; 0 is no limit |
//! | `model.hold` | `both` | which rows the gate holds back: `decode`, `extend`, `both`, `all` |
//! | `model.kv_tokens` | 10^12 | KV budget |
//! | `model.device` | the model's index | models with the same number share a device |
//! | `model.shape` | the model that its cost names | for runs on a real machine: a shape by name, with dummy weights; or `folder`, a checkpoint |
//! | `policy.kind` | `r2r` for two models, `large-only` for one | and the parameters of the kind, see [`crate::policy`]; `entry` may be a model's name |
//! | `scheduler.mode` | `delayed` | `step-sync`, `model-sync`, `eager`, `delayed` |
//! | `scheduler.sharing` | `overlapped` | what models on one device do: `overlapped`, `exclusive` |
//! | `scheduler.order` | none; `large-first` under `model-sync` | `large-first`, `small-first`, `alternate`; required where a device is exclusive |
//! | `scheduler.corun` | the profile's rates | speed of each of the two models while the other runs |
//! | `scheduler.mix_extend` | true | whether one forward may carry decode and extend rows |
//! | `scheduler.first` | `extend` | which kind goes first if not: `extend`, `decode` |
//! | `scheduler.loops` | `decoupled` | whether message handling overlaps the forward: `decoupled`, `fused` |
//! | `scheduler.handoff` | `resume` | or `fresh`: a returning request pays `fresh` again |
//! | `scheduler.fresh` | | `{ fixed_ms = 4.0, per_context_token_us = 15.0 }` |
//! | `scheduler.hop_us` | 0 | latency of one message between subservers |
//! | `scheduler.hop_gb_per_s` | unlimited | bandwidth between subservers |
//! | `scheduler.message_us` | 0 | host time for one message |
//! | `scheduler.kv_full` | `wait` | or `preempt`: what happens when the KV budget is exhausted |
//!
//! Where a scenario names no model it has the published pair of the defaults above.
//!
//! # Thresholds that are refused
//!
//! - above 1 in a mode other than `delayed`, which would ignore them;
//! - in a closed loop, if the sum of (threshold - 1) over all models reaches the concurrency (for lists: any number of
//!   active requests that they speak of), because then all requests can end up waiting for each other;
//! - above 1 without `max_wait_ms` where arrivals are open-loop, because the last requests of a burst would wait for
//!   the next burst.

mod check;
mod cost;
mod error;
mod grid;
mod model;
mod policy;
mod raw;
mod resolve;
mod scheduler;
mod source;
#[cfg(test)]
mod tests;
mod thresholds;
mod tree;
mod units;
mod validate;
mod values;
mod variant;
mod workload;

use std::sync::Arc;

use crate::policy::Policy;
use crate::workload::Workload;

pub use cost::CostConfig;
pub use error::{Origin, ScenarioError};
pub use grid::{Axis, cells, parse_list};
pub use model::{Checkpoint, ModelSpec};
pub use policy::PolicyConfig;
pub use resolve::{Embedded, Folders, Or, ResolveError, Resolver};
pub use scheduler::{Handoff, Placement, PlacementError, SchedulerSpec};
pub use source::Source;
pub use thresholds::Thresholds;
pub use values::{First, HandoffKind, Hold, KvFull, Loops, Mode, Order, Sharing, StartKind, UnknownName};
pub use variant::Variant;
pub use workload::Replications;

use resolve::Files;
use validate::parse_with;

/// A validated scenario: whatever it holds can be run.
#[derive(Clone, Debug)]
pub struct Scenario {
    source: Source,
    files: Arc<Files>,
    seed: u64,
    workload: Workload,
    replications: Replications,
    models: Vec<ModelSpec>,
    policy: Arc<dyn Policy>,
    policy_config: PolicyConfig,
    not_simulable: Option<ScenarioError>,
    scheduler: SchedulerSpec,
}

impl Scenario {
    /// Reads and validates a scenario. `resolver` gives the files that it names.
    ///
    /// # Errors
    /// The first thing that is wrong, with its place, field, value and what was expected.
    pub fn parse(source: &Source, resolver: &dyn Resolver) -> Result<Self, ScenarioError> {
        parse_with(source.clone(), resolver, Arc::default())
    }

    /// The start of a changed copy; files are not read again.
    #[must_use]
    pub fn variant(&self) -> Variant {
        Variant::new(self.source.clone(), Arc::clone(&self.files), self.models.len())
    }

    /// The text and the overrides that this scenario was read from.
    #[must_use]
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// The random seed.
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Arrivals, lengths, start, warm-up and precision.
    #[must_use]
    pub fn workload(&self) -> &Workload {
        &self.workload
    }

    /// Bounds on the number of replications.
    #[must_use]
    pub fn replications(&self) -> Replications {
        self.replications
    }

    /// The cooperating set, by index; at least one model.
    #[must_use]
    pub fn models(&self) -> &[ModelSpec] {
        &self.models
    }

    /// The index of the model called `name`.
    #[must_use]
    pub fn model_idx(&self, name: &str) -> Option<usize> {
        self.models.iter().position(|model| model.name == name)
    }

    /// Who decides where requests go.
    #[must_use]
    pub fn policy(&self) -> &Arc<dyn Policy> {
        &self.policy
    }

    /// The scenario, if a simulation can run it. One whose policy decides by what models measure needs models; it is valid all the same.
    ///
    /// # Errors
    /// At the field that asks for a measured signal.
    pub fn simulable(self) -> Result<Self, ScenarioError> {
        match self.not_simulable {
            Some(error) => Err(error),
            None => Ok(self),
        }
    }

    /// The policy's name and parameters.
    #[must_use]
    pub fn policy_config(&self) -> &PolicyConfig {
        &self.policy_config
    }

    /// Modes, sharing of devices, loops and handoffs.
    #[must_use]
    pub fn scheduler(&self) -> &SchedulerSpec {
        &self.scheduler
    }

    /// Who runs where.
    #[must_use]
    pub fn placement(&self) -> Placement {
        match (scheduler::shared_devices(&self.models).is_empty(), self.scheduler.sharing, self.scheduler.order) {
            (false, Sharing::Exclusive, Some(order)) => Placement::Exclusive(order),
            // Under model-sync only one model runs at a time, whatever the sharing.
            (false, ..) => Placement::Overlapped,
            (true, ..) => Placement::Separate,
        }
    }
}
