//! Discrete-event simulator and analytical model of token-level LLM routing: a small and a large model write one answer together and hand
//! the request back and forth.
//!
//! | module | question |
//! |---|---|
//! | [`scenario`] | what is to be run? a TOML file, validated |
//! | [`policy`] | where does a request go after each step? |
//! | [`cost`] | how long does a step take? |
//! | [`workload`] | when do requests arrive, how long are they? |
//! | [`engine`] | what happens, with a virtual clock under the scheduler of [`handoff_scheduler`] |
//! | [`stats`] | how sure is the result? |
//! | [`analytic`] | what do formulas and exact chains say? |
//!
//! ```
//! use handoff_sim::engine::{EngineConfig, simulate};
//! use handoff_sim::scenario::{Embedded, Scenario, Source};
//! use handoff_sim::stats::StoppingRule;
//!
//! // The published pair: 6.0 and 27.9 ms a step, R2R at p = 0.35, four requests in the system.
//! let text = "workload = { concurrency = 4, requests = 20 }\n[policy]\nkind = \"r2r\"\np = 0.35\n";
//! let scenario = Scenario::parse(&Source::new("pair.toml", text), &Embedded::default())?;
//! let report = simulate(&EngineConfig::from(&scenario), scenario.seed(), &StoppingRule::new(0.01, 10, 30)?)?;
//! // The exact value of the published model is 187.2 tokens/s.
//! assert!((report.throughput.mean - 187.2).abs() < 2.0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod analytic;
pub mod cost;
pub mod engine;
pub mod policy;
pub mod rng;
pub mod scenario;
pub mod stats;
pub mod workload;
