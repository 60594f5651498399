//! The scheduler of token-level LLM routing, as a sans-IO state machine.
//!
//! A [`Subserver`] is the service around one model. It is given facts with a time stamp ([`Input`]) and asked for what to do next
//! ([`Output`], [`StepPlan`], the next wake-up). It never sleeps, spawns, locks, reads a clock, draws a random number or uses floats: two thin drivers
//! own time, a simulator with a virtual clock and a backend with a real one, and both run this very code. A [`Coordinator`] says which
//! subservers may launch when modes or shared devices tie them together.
//!
//! Routing decisions ([`Outcome`]) are inputs: a policy makes them outside, so that they can be recorded and replayed.
//!
//! # The tie rule
//!
//! At one instant a driver absorbs all completions (in index order; those of a step-sync round in the order in which the steps ended), then all
//! deliveries (in the order in which they were sent), then tells the number of active requests if it changed, then asks for launches in the
//! coordinator's order. A driver with a real clock, too, absorbs
//! everything that it has received before it asks for a launch. Otherwise a batch would miss a row that was there.
//!
//! # A request's life
//!
//! A request is in one place: at one subserver (blocked, waiting or running) or in one message. Every subserver that it left keeps its KV
//! and remembers, for each peer, how much of the request that peer has seen; so a message carries only the rest. A row extends over the last
//! token that its subserver knows (whose KV nobody has written yet) and everything that came since. The subserver where the request ends
//! tells every peer, and each frees its share.
//!
//! A client may give up at any time: the driver tells **every** subserver. Each frees its share at once, or at the end of the step that carries
//! it (the outcome of that row counts for nothing), and throws away a message of the request that arrives later.
//!
//! # Reuse of slots
//!
//! A slot may get its next user, with the next generation, once (1) [`Subserver::visit_state`] of the former user is
//! [`VisitState::Absent`] at every subserver, and (2) every message of the former user has been delivered, the news of its end included.
//! A driver that gives a slot away too early is told by a panic where a share is left, and a message that comes too late is thrown away.
//!
//! # Liveness
//!
//! At any instant each request in the system waits for exactly one of these:
//!
//! | it is | what wakes it |
//! |---|---|
//! | running | the end of its step |
//! | in a message | its delivery |
//! | waiting, its gate open | the end of the step, or of the round, that holds its subserver or device |
//! | waiting, held by a gate with a longest wait | [`Subserver::poll_timeout`] |
//! | waiting, held by a gate without | enough other rows, or fewer active requests |
//! | blocked | enough KV reservations released |
//!
//! Only the last two can last for ever. Gates: never while the sum of (threshold - 1) over the subservers is below the number of active
//! requests and nobody is blocked, for then some subserver has its threshold of rows. Blocked requests: two requests may each hold the
//! reservation that the other waits for. This cannot happen if all requests enter at the same one of two models, and it cannot happen where
//! every budget holds all requests; but a budget that admits fewer requests than a threshold asks for can still stop a run.
//! [`KvFull::Preempt`] blocks nobody. A driver that finds no coming event and no wake-up while requests are active must report a stall, with
//! [`Subserver::waiting`], [`Subserver::threshold_now`] and [`Subserver::blocked`] of each, and never hang.
//!
//! # Example
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
//! assert_eq!(large.poll_output(later), Some(Output::EmitTokens { step, committed: 1, dropped: 0 }));
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
mod outbox;
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
