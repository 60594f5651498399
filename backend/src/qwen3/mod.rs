//! Qwen3 dense models: shapes, weights, and the forward on a CPU.

pub mod attention;
pub mod config;
pub mod linear;
pub mod model;
pub mod weights;

pub use config::{ConfigError, Qwen3Config};
pub use model::{FlatBatch, Qwen3};
pub use weights::{DummyScale, Weights, WeightsError};
