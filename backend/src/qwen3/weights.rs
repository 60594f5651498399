//! Where a model's numbers come from: a folder of safetensors, or dummy numbers made from a seed.

mod checkpoint;
mod dummy;

pub use checkpoint::Checkpoint;
pub(crate) use dummy::mix;
pub use dummy::{Dummy, DummyRange, DummyScale};

use std::path::Path;

use candle_core::{DType, Device, Tensor};
use half::bf16;
use thiserror::Error;

use super::Qwen3Config;

/// Source of a model's tensors.
#[derive(Debug)]
pub enum Weights {
    /// Files.
    Checkpoint(Checkpoint),
    /// Made-up numbers: the speed of a real model, but no meaning. Results must say so.
    Dummy(Dummy),
}

/// Why a tensor could not be had.
#[derive(Debug, Error)]
pub enum WeightsError {
    /// A file could not be opened or read.
    #[error("{file}: {source}")]
    Read {
        /// The file or folder.
        file: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// The folder holds neither `model.safetensors` nor `model.safetensors.index.json`.
    #[error("{folder}: holds neither model.safetensors nor model.safetensors.index.json")]
    NoWeights {
        /// The folder.
        folder: String,
    },
    /// The index is no JSON or has no `weight_map`.
    #[error("{file}: {source}")]
    Index {
        /// The index file.
        file: String,
        /// Line, column and field.
        source: serde_json::Error,
    },
    /// The header of a safetensors file makes no sense.
    #[error("{file}: not a safetensors file: {reason}")]
    Header {
        /// The file.
        file: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The file is shorter or longer than its header says.
    #[error("{file}: has {bytes} bytes but its header describes {expected_bytes}: it is truncated or damaged")]
    Size {
        /// The file.
        file: String,
        /// Bytes that it has.
        bytes: u64,
        /// Bytes that it should have.
        expected_bytes: u64,
    },
    /// No file has the tensor.
    #[error("{file}: there is no tensor `{tensor}`")]
    Missing {
        /// The file, or the index that should list the tensor.
        file: String,
        /// The tensor.
        tensor: String,
    },
    /// The tensor's shape is not that of the configuration.
    #[error("{file}: tensor `{tensor}` has shape {shape:?} but the configuration makes it {expected:?}")]
    Shape {
        /// The file.
        file: String,
        /// The tensor.
        tensor: String,
        /// Its shape in the file.
        shape: Vec<usize>,
        /// The shape that the configuration asks for.
        expected: Vec<usize>,
    },
    /// The tensor holds numbers that this crate does not read.
    #[error("{file}: tensor `{tensor}` has type {dtype} but only BF16, F16, F32 and F64 are read")]
    DType {
        /// The file.
        file: String,
        /// The tensor.
        tensor: String,
        /// Its type in the file.
        dtype: String,
    },
    /// A tensor could not be made.
    #[error("tensor `{tensor}`: {source}")]
    Tensor {
        /// The tensor.
        tensor: String,
        /// What candle said.
        source: candle_core::Error,
    },
}

impl Weights {
    /// The safetensors of a folder, in one file or in shards with an index.
    ///
    /// # Errors
    /// [`WeightsError`], if a file is missing or damaged. The tensors themselves are read later.
    pub fn open(folder: &Path) -> Result<Self, WeightsError> {
        Checkpoint::open(folder).map(Self::Checkpoint)
    }

    /// Whether the numbers are made up. Their logits then mean nothing.
    #[must_use]
    pub fn are_dummy(&self) -> bool {
        matches!(self, Self::Dummy(_))
    }

    /// Dummy weights as serving engines use them for benchmarks: matrices uniform in +-1e-3.
    #[must_use]
    pub fn dummy(seed: u64) -> Self {
        Self::Dummy(Dummy { seed, scale: DummyScale::Benchmark })
    }

    /// Dummy weights whose logits depend strongly on every token, for tests.
    #[must_use]
    pub fn dummy_sensitive(seed: u64) -> Self {
        Self::Dummy(Dummy { seed, scale: DummyScale::FanIn })
    }

    /// The tensor on the CPU, as `dtype` (F32 or F64 on the CPU path).
    ///
    /// # Errors
    /// [`WeightsError`], with file and tensor.
    pub fn tensor(&self, name: &str, shape: &[usize], dtype: DType) -> Result<Tensor, WeightsError> {
        let made = match self {
            Self::Checkpoint(checkpoint) => {
                let (stored, bytes) = checkpoint.read(name, shape)?;
                Tensor::from_raw_buffer(&bytes, stored, shape, &Device::Cpu)
            }
            Self::Dummy(dummy) => {
                let mut values = vec![0.0_f32; shape.iter().product()];
                dummy.range(name, shape).fill(&mut values);
                Tensor::from_vec(values, shape, &Device::Cpu)
            }
        };
        made.and_then(|tensor| tensor.to_dtype(dtype))
            .map_err(|source| WeightsError::Tensor { tensor: name.into(), source })
    }

    /// The tensor's numbers as bf16, in row-major order.
    ///
    /// # Errors
    /// [`WeightsError`], with file and tensor.
    pub fn bf16(&self, name: &str, shape: &[usize]) -> Result<Vec<bf16>, WeightsError> {
        self.tensor(name, shape, DType::BF16)?
            .flatten_all()
            .and_then(|flat| flat.to_vec1())
            .map_err(|source| WeightsError::Tensor { tensor: name.into(), source })
    }
}

/// Names and shapes of all tensors of a model, as in the published checkpoints. A matrix is `[outputs, inputs]`.
#[must_use]
pub fn tensors(config: &Qwen3Config) -> Vec<(String, Vec<usize>)> {
    let Qwen3Config { vocabulary, hidden, intermediate, head_dim, .. } = *config;
    let (q_width, kv_width) = (config.q_width(), config.kv_width());
    let mut all = vec![(EMBEDDING.to_string(), vec![vocabulary, hidden])];
    for layer in 0..config.layers {
        for (part, shape) in [
            ("input_layernorm", vec![hidden]),
            ("self_attn.q_proj", vec![q_width, hidden]),
            ("self_attn.k_proj", vec![kv_width, hidden]),
            ("self_attn.v_proj", vec![kv_width, hidden]),
            ("self_attn.q_norm", vec![head_dim]),
            ("self_attn.k_norm", vec![head_dim]),
            ("self_attn.o_proj", vec![hidden, q_width]),
            ("post_attention_layernorm", vec![hidden]),
            ("mlp.gate_proj", vec![intermediate, hidden]),
            ("mlp.up_proj", vec![intermediate, hidden]),
            ("mlp.down_proj", vec![hidden, intermediate]),
        ] {
            all.push((layer_tensor(layer, part), shape));
        }
    }
    all.push((FINAL_NORM.into(), vec![hidden]));
    if !config.tied_head {
        all.push((HEAD.into(), vec![vocabulary, hidden]));
    }
    all
}

/// The token embedding, which is also the head of models with a tied head.
pub const EMBEDDING: &str = "model.embed_tokens.weight";
/// The weight of the last RMS norm.
pub const FINAL_NORM: &str = "model.norm.weight";
/// The output head.
pub const HEAD: &str = "lm_head.weight";

/// Full name of one part of one layer, such as `self_attn.q_proj`.
#[must_use]
pub fn layer_tensor(layer: usize, part: &str) -> String {
    format!("model.layers.{layer}.{part}.weight")
}

#[cfg(test)]
mod tests;
