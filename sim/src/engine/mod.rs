//! The discrete-event engine: a virtual clock under the scheduler.
//!
//! ```text
//!   policy ----decisions----.        .---- cost models (how long is a step?)
//!                           v        v
//!   workload --arrivals--> driver: event queue, devices, clock ---- metrics, observer
//!                           |  ^
//!                    Input  v  |  Output, StepPlan
//!                     handoff_scheduler::Subserver, one a model
//! ```
//!
//! Time is integer nanoseconds. At one instant the driver absorbs all completions, then all deliveries, then asks for launches in the
//! coordinator's order. Every unfinished request has a concrete future wake-up, or the run stops with [`RunError::Stalled`].
//!
//! [`replicate`] runs one replication; [`simulate`] runs as many as the precision asks for and reports means with their intervals.

mod config;
mod device;
mod driver;
mod error;
mod from_scenario;
mod metrics;
mod observer;
mod queue;
mod replication;
mod report;
mod requests;
mod start;
mod window;
mod with_profile;

pub use config::{EngineConfig, FreshCost, ModelConfig};
pub use error::{RunError, Waiting};
pub use metrics::{Metrics, ModelMetrics};
pub use observer::{Observer, Unobserved};
pub use replication::{WarmupChoice, choose_warmup, replicate, replicate_observed};
pub use report::{ModelReport, Report, simulate};
pub use start::place_first;
pub use window::Window;
