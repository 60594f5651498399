//! The scheduler of token-level LLM routing, as a sans-IO state machine.
//!
//! A [`Subserver`] is the service around one model. It is given facts with a time stamp ([`Input`]) and asked for what to do next
//! ([`Output`], [`StepPlan`], the next wake-up). It never sleeps, spawns, locks, reads a clock, draws a random number or uses floats: two thin drivers
//! own time, a simulator with a virtual clock and a backend with a real one, and both run this very code. A [`Coordinator`] says which
//! subservers may launch when modes or shared devices tie them together.
//!
//! At one instant a driver absorbs all completions, then all deliveries, then asks for launches in the coordinator's order.
//!
//! Routing decisions ([`Outcome`]) are inputs: a policy makes them outside, so that they can be recorded and replayed.
//!
//! ```
//! use handoff_scheduler::*;
//! let mut large = Subserver::new(SubserverConfig {
//!     model: ModelIdx(1),
//!     n_models: 2,
//!     gate: GateConfig { threshold: Threshold::constant(1), wait_ns_max: None, hold: Hold::Both },
//!     first: None,
//!     kv: KvConfig { budget_tokens: 1_000, when_full: KvFull::Wait },
//! });
//! let request = RequestId { slot: 0, generation: 0 };
//! let now = Timestamp::ZERO;
//! large.handle_input(now, Input::RequestArrived { request, context_tokens: 100, context_tokens_max: 110 });
//! let plan = large.poll_launch(now).expect("a new prompt is never held back");
//! assert_eq!((plan.rows[0].new_tokens, plan.rows[0].kind), (100, RowKind::Prefill));
//! let step = plan.step;
//! let later = now + 27_900_000;
//! large.handle_input(later, Input::StepFinished { step, outcomes: &[Outcome::commit_to(ModelIdx(0))] });
//! assert!(matches!(large.poll_output(later), Some(Output::SendHandoff { to: ModelIdx(0), .. })));
//! ```

#![no_std]
#![deny(clippy::float_arithmetic)]

extern crate alloc;

mod checks;
mod coordinator;
mod event;
mod gate;
mod ids;
mod kv;
mod plan;
mod request;
mod subserver;
mod time;

pub use coordinator::{Coordination, Coordinator, Order, Sharing};
pub use event::{Destination, HandoffStatus, Input, Outcome, Output, PeerRequest};
pub use gate::{GateConfig, Hold, Threshold};
pub use ids::{ModelIdx, RequestId, StepId};
pub use kv::{KvConfig, KvFull};
pub use plan::{BatchSums, Origin, Row, RowKind, StepPlan};
pub use request::VisitState;
pub use subserver::{FirstKind, Subserver, SubserverConfig, WakeReason};
pub use time::Timestamp;
