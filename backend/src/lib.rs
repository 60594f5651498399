//! Qwen3 models behind one narrow face: give rows of new tokens, get one token and its entropy per row.
//!
//! A [`Runner`] is a model, the pages that hold its KV cache, and a device. Its unit of work is a *step*: one forward over a batch of rows, where a
//! row brings one or more new tokens of one request. Decode (one token), extend (several on top of a kept prefix) and prefill (no prefix) are
//! the same thing, because the forward sees only a flat list of tokens, each with its position and its request's page table.
//!
//! ```
//! use candle_core::DType;
//! use handoff_backend::{Qwen3Config, RowInput, Runner, RunnerOptions, Sampling, Weights};
//!
//! let config = Qwen3Config::built_in("tiny")?;
//! let mut runner = Runner::cpu(&config, &Weights::dummy(7), DType::F32, RunnerOptions::for_tests())?;
//! let prompt = RowInput { slot: 0, tokens: &[1, 2, 3], position: 0, sampling: Sampling::Greedy };
//! let first = runner.step(&[prompt])?[0].token;
//! let decode = RowInput { slot: 0, tokens: &[first], position: 3, sampling: Sampling::Greedy };
//! assert!(runner.step(&[decode])?[0].entropy > 0.0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | module | what it knows |
//! |---|---|
//! | [`qwen3`] | shapes, weights (files or dummy) and the forward on a CPU |
//! | [`kv`] | pages of 16 tokens and the page table of each request |
//! | [`memory`] | what models need of a device, and how they share it |
//! | [`profile`] | measuring what the simulator reads: step times, co-run rates, the host |
//! | [`prompts`] | prompts from a file, tokenised |
//! | [`sampling`] | greedy or tempered choice, normalised entropy |
//! | [`runner`] | steps, checked and executed |
//! | `cuda` | the same forward as kernels and CUDA graphs; only with the feature `cuda` |

#[cfg(feature = "cuda")]
pub mod cuda;
pub mod driver;
pub mod kv;
pub mod memory;
pub mod profile;
pub mod prompts;
pub mod qwen3;
pub mod record;
pub mod runner;
pub mod sampling;

pub use kv::{KvError, PAGE_TOKENS, PagePool};
pub use prompts::{Prompts, PromptsError};
pub use qwen3::{ConfigError, Qwen3Config, Weights, WeightsError};
pub use runner::{RowInput, RowOutput, Runner, RunnerError, RunnerOptions};
pub use sampling::Sampling;
