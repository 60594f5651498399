//! A model's weights on the GPU, laid out for the kernels: query, key and value in one matrix, gate and up in another.

use candle_core::Error;
use half::bf16;

use super::gpu::{Buffer, Gpu};
use super::kernels::{Grid, Kernels, Queue, launch};
use crate::qwen3::weights::{EMBEDDING, FINAL_NORM, HEAD, layer_tensor};
use crate::qwen3::{Qwen3Config, Weights, WeightsError};

pub(super) struct DeviceWeights {
    pub(super) embedding: Buffer<bf16>,
    pub(super) layers: Vec<Layer>,
    pub(super) norm: Buffer<bf16>,
    /// None if the embedding is the head.
    head: Option<Buffer<bf16>>,
    pub(super) kernels: Kernels,
}

pub(super) struct Layer {
    pub(super) input_norm: Buffer<bf16>,
    /// `[q_width + 2 * kv_width, hidden]`.
    pub(super) qkv: Buffer<bf16>,
    pub(super) q_norm: Buffer<bf16>,
    pub(super) k_norm: Buffer<bf16>,
    pub(super) o: Buffer<bf16>,
    pub(super) post_norm: Buffer<bf16>,
    /// `[2 * intermediate, hidden]`, all of the gate first.
    pub(super) gate_up: Buffer<bf16>,
    pub(super) down: Buffer<bf16>,
}

impl DeviceWeights {
    pub(super) fn load(gpu: &Gpu, config: &Qwen3Config, weights: &Weights) -> Result<Self, WeightsError> {
        let failed = |tensor: &str, source: Error| WeightsError::Tensor { tensor: tensor.into(), source };
        let kernels = Kernels::load(gpu.context()).map_err(|error| failed("all", error))?;
        let loader = Loader { gpu, weights, kernels: &kernels };
        let Qwen3Config { vocabulary, hidden, intermediate, head_dim, .. } = *config;
        let (q_width, kv_width) = (config.q_width(), config.kv_width());
        let layer = |layer| {
            let one = |part: &str, shape: &[usize]| loader.joined(&[(layer_tensor(layer, part), shape)]);
            let join = |parts: &[(&str, &[usize])]| {
                let named: Vec<_> = parts.iter().map(|&(part, shape)| (layer_tensor(layer, part), shape)).collect();
                loader.joined(&named)
            };
            Ok(Layer {
                input_norm: one("input_layernorm", &[hidden])?,
                qkv: join(&[
                    ("self_attn.q_proj", &[q_width, hidden]),
                    ("self_attn.k_proj", &[kv_width, hidden]),
                    ("self_attn.v_proj", &[kv_width, hidden]),
                ])?,
                q_norm: one("self_attn.q_norm", &[head_dim])?,
                k_norm: one("self_attn.k_norm", &[head_dim])?,
                o: one("self_attn.o_proj", &[hidden, q_width])?,
                post_norm: one("post_attention_layernorm", &[hidden])?,
                gate_up: join(&[("mlp.gate_proj", &[intermediate, hidden]), ("mlp.up_proj", &[intermediate, hidden])])?,
                down: one("mlp.down_proj", &[hidden, intermediate])?,
            })
        };
        let whole = |name: &str, shape: &[usize]| loader.joined(&[(name.to_string(), shape)]);
        let embedding = whole(EMBEDDING, &[vocabulary, hidden])?;
        let layers = (0..config.layers).map(layer).collect::<Result<_, WeightsError>>()?;
        let norm = whole(FINAL_NORM, &[hidden])?;
        let head = if config.tied_head { None } else { Some(whole(HEAD, &[vocabulary, hidden])?) };
        gpu.stream().synchronize().map_err(|error| failed("all", Error::wrap(error)))?;
        Ok(Self { embedding, layers, norm, head, kernels })
    }

    /// The output head.
    pub(super) fn head(&self) -> &Buffer<bf16> {
        self.head.as_ref().unwrap_or(&self.embedding)
    }
}

struct Loader<'a> {
    gpu: &'a Gpu,
    weights: &'a Weights,
    kernels: &'a Kernels,
}

impl Loader<'_> {
    /// One buffer that holds these tensors one after the other.
    fn joined(&self, parts: &[(String, &[usize])]) -> Result<Buffer<bf16>, WeightsError> {
        let size = |shape: &[usize]| shape.iter().product::<usize>();
        let failed = |source| WeightsError::Tensor { tensor: parts[0].0.clone(), source };
        let buffer = self.gpu.alloc::<bf16>(parts.iter().map(|(_, shape)| size(shape)).sum()).map_err(failed)?;
        let mut offset = 0;
        for (name, shape) in parts {
            let wrap = |source| WeightsError::Tensor { tensor: name.clone(), source };
            match self.weights {
                Weights::Checkpoint(_) => {
                    self.gpu.copy_in(&buffer, offset, &self.weights.bf16(name, shape)?).map_err(wrap)?;
                }
                Weights::Dummy(dummy) => {
                    let range = dummy.range(name, shape);
                    let elements = size(shape) as u64;
                    let grid = Grid::line(size(shape).div_ceil(256).min(132 * 16), 256);
                    let queue = Queue { stream: self.gpu.stream(), dependent: false };
                    let fill = &self.kernels.fill_dummy;
                    launch!(queue, fill, grid, buffer.at(offset), elements, range.key, range.centre, range.half_width)
                        .map_err(wrap)?;
                }
            }
            offset += size(shape);
        }
        Ok(buffer)
    }
}
