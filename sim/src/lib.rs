//! Discrete-event simulator and analytical model of token-level LLM routing.

pub mod cost;
pub mod engine;
pub mod policy;
pub mod rng;
pub mod scenario;
pub mod stats;
pub mod workload;
