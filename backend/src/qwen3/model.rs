//! The forward of a Qwen3 dense model over a flat list of tokens, on a CPU.
//!
//! Each token brings its position and its row's page table. A row that decodes is a row with one token; so prefill, extend and decode share all code.

use std::ops::Range;

use candle_core::{D, DType, Device, Result, Tensor};

use super::Qwen3Config;
use super::attention::KvStore;
use super::linear::linear;
use super::weights::{EMBEDDING, FINAL_NORM, HEAD, Weights, WeightsError, layer_tensor};

/// A model's weights on the CPU.
#[derive(Debug)]
pub struct Qwen3 {
    config: Qwen3Config,
    dtype: DType,
    embedding: Tensor,
    layers: Vec<Layer>,
    norm: Tensor,
    head: Tensor,
}

#[derive(Debug)]
struct Layer {
    input_norm: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    q_norm: Tensor,
    k_norm: Tensor,
    o: Tensor,
    post_norm: Tensor,
    gate: Tensor,
    up: Tensor,
    down: Tensor,
}

/// The tokens of all rows of a step, one after the other.
#[derive(Clone, Debug, Default)]
pub struct FlatBatch {
    /// Token ids.
    pub tokens: Vec<u32>,
    /// Position of each token in its request.
    pub positions: Vec<u32>,
    /// Row of each token.
    pub row_of_token: Vec<u32>,
    /// Index of each row's last token: the one whose logits are wanted.
    pub last_of_row: Vec<u32>,
    /// Request slot of each row.
    pub slot_of_row: Vec<u32>,
    /// Page tables of all rows, one after the other.
    pages: Vec<u32>,
    /// Where each row's table lies in `pages`.
    pages_of_row: Vec<Range<usize>>,
}

impl FlatBatch {
    /// Forgets all rows but keeps the memory.
    pub fn clear(&mut self) {
        self.tokens.clear();
        self.positions.clear();
        self.row_of_token.clear();
        self.last_of_row.clear();
        self.slot_of_row.clear();
        self.pages.clear();
        self.pages_of_row.clear();
    }

    /// Adds a row of at least one token; `position` is that of the first.
    ///
    /// # Panics
    /// If positions or tokens do not fit in 32 bits.
    pub fn push_row(&mut self, slot: u32, tokens: &[u32], position: u32, pages: &[u32]) {
        let row = u32::try_from(self.slot_of_row.len()).expect("a batch has fewer than 2^32 rows");
        for (&token, position) in tokens.iter().zip(position..) {
            self.tokens.push(token);
            self.positions.push(position);
            self.row_of_token.push(row);
        }
        self.last_of_row.push(u32::try_from(self.tokens.len() - 1).expect("a batch has fewer than 2^32 tokens"));
        self.slot_of_row.push(slot);
        self.pages_of_row.push(self.pages.len()..self.pages.len() + pages.len());
        self.pages.extend_from_slice(pages);
    }

    /// The page table of a row's request.
    #[must_use]
    pub fn pages_of_row(&self, row: usize) -> &[u32] {
        &self.pages[self.pages_of_row[row].clone()]
    }

    /// The page table of a token's request.
    #[must_use]
    pub fn pages_of_token(&self, token: usize) -> &[u32] {
        self.pages_of_row(self.row_of_token[token] as usize)
    }
}

impl Qwen3 {
    /// Loads all weights as `dtype`, F32 or F64.
    ///
    /// # Errors
    /// [`WeightsError`].
    pub fn load(config: &Qwen3Config, weights: &Weights, dtype: DType) -> std::result::Result<Self, WeightsError> {
        let Qwen3Config { vocabulary, hidden, intermediate, head_dim, .. } = *config;
        let (q_width, kv_width) = (config.q_width(), config.kv_width());
        let embedding = weights.tensor(EMBEDDING, &[vocabulary, hidden], dtype)?;
        let head =
            if config.tied_head { embedding.clone() } else { weights.tensor(HEAD, &[vocabulary, hidden], dtype)? };
        let layer = |layer| {
            let part = |part: &str, shape: &[usize]| weights.tensor(&layer_tensor(layer, part), shape, dtype);
            Ok(Layer {
                input_norm: part("input_layernorm", &[hidden])?,
                q: part("self_attn.q_proj", &[q_width, hidden])?,
                k: part("self_attn.k_proj", &[kv_width, hidden])?,
                v: part("self_attn.v_proj", &[kv_width, hidden])?,
                q_norm: part("self_attn.q_norm", &[head_dim])?,
                k_norm: part("self_attn.k_norm", &[head_dim])?,
                o: part("self_attn.o_proj", &[hidden, q_width])?,
                post_norm: part("post_attention_layernorm", &[hidden])?,
                gate: part("mlp.gate_proj", &[intermediate, hidden])?,
                up: part("mlp.up_proj", &[intermediate, hidden])?,
                down: part("mlp.down_proj", &[hidden, intermediate])?,
            })
        };
        let layers = (0..config.layers).map(layer).collect::<std::result::Result<_, WeightsError>>()?;
        let norm = weights.tensor(FINAL_NORM, &[hidden], dtype)?;
        Ok(Self { config: config.clone(), dtype, embedding, layers, norm, head })
    }

    /// Writes the keys and values of all tokens to `kv` and returns the logits of each row's last token, `[rows, vocabulary]`.
    ///
    /// # Errors
    /// Whatever candle reports; a token beyond the vocabulary is one cause.
    pub fn forward(&self, kv: &mut KvStore, batch: &FlatBatch) -> Result<Tensor> {
        let n_tokens = batch.tokens.len();
        let eps = self.config.rms_norm_eps;
        let rotation = self.rotation(&batch.positions)?;
        let per_head = |x: Tensor| x.reshape((n_tokens, (), self.config.head_dim));
        let tokens = Tensor::from_slice(&batch.tokens, n_tokens, &Device::Cpu)?;
        let mut x = self.embedding.index_select(&tokens, 0)?;
        for (layer_idx, layer) in self.layers.iter().enumerate() {
            let h = rms_norm(&x, &layer.input_norm, eps)?;
            let q = rotate(&rms_norm(&per_head(linear(&h, &layer.q)?)?, &layer.q_norm, eps)?, &rotation)?;
            let k = rotate(&rms_norm(&per_head(linear(&h, &layer.k)?)?, &layer.k_norm, eps)?, &rotation)?;
            let v = linear(&h, &layer.v)?;
            let attended = kv.attend(layer_idx, batch, &q.reshape((n_tokens, ()))?, &k, &v)?;
            x = (x + linear(&attended, &layer.o)?)?;
            let h = rms_norm(&x, &layer.post_norm, eps)?;
            let gated = (linear(&h, &layer.gate)?.silu()? * linear(&h, &layer.up)?)?;
            x = (x + linear(&gated, &layer.down)?)?;
        }
        let last = Tensor::from_slice(&batch.last_of_row, batch.last_of_row.len(), &Device::Cpu)?;
        linear(&rms_norm(&x.index_select(&last, 0)?, &self.norm, eps)?, &self.head)
    }

    /// Cosine and sine of every token's angles, each `[tokens, 1, head_dim / 2]`. Pair `i` of a head turns by position * theta^(-2i / head_dim)
    /// (Su et al., "RoFormer", 2021).
    fn rotation(&self, positions: &[u32]) -> Result<(Tensor, Tensor)> {
        let half = self.config.head_dim / 2;
        let angles: Vec<f64> = positions
            .iter()
            .flat_map(|&position| (0..half).map(move |pair| (position, pair)))
            .map(|(position, pair)| f64::from(position) * rotary_frequency(&self.config, pair))
            .collect();
        let angles = Tensor::from_vec(angles, (positions.len(), 1, half), &Device::Cpu)?;
        Ok((angles.cos()?.to_dtype(self.dtype)?, angles.sin()?.to_dtype(self.dtype)?))
    }
}

/// Angle per position of a pair of a head's elements.
#[must_use]
pub fn rotary_frequency(config: &Qwen3Config, pair: usize) -> f64 {
    config.rope_theta.powf(-2.0 * pair as f64 / config.head_dim as f64)
}

/// `x / sqrt(mean(x^2) + eps) * weight` over the last dimension (Zhang and Sennrich, "Root mean square layer normalization", 2019).
fn rms_norm(x: &Tensor, weight: &Tensor, eps: f64) -> Result<Tensor> {
    let mean_square = x.sqr()?.mean_keepdim(D::Minus1)?;
    x.broadcast_div(&(mean_square + eps)?.sqrt()?)?.broadcast_mul(weight)
}

/// Turns element `i` of each head against element `i + head_dim / 2`.
fn rotate(x: &Tensor, (cos, sin): &(Tensor, Tensor)) -> Result<Tensor> {
    let half = x.dim(D::Minus1)? / 2;
    let (low, high) = (x.narrow(D::Minus1, 0, half)?, x.narrow(D::Minus1, half, half)?);
    let new_low = (low.broadcast_mul(cos)? - high.broadcast_mul(sin)?)?;
    let new_high = (high.broadcast_mul(cos)? + low.broadcast_mul(sin)?)?;
    Tensor::cat(&[new_low, new_high], D::Minus1)
}
