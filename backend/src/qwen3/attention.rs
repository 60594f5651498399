//! Attention over pages on a CPU. Keys and values are written to their page once and read where they lie.

use std::fmt::Debug;
use std::ops::{Add, Div, Mul, Sub};

use candle_core::{DType, Device, Result, Tensor, WithDType, bail};
use rayon::prelude::*;

use super::linear::dot;
use super::{FlatBatch, Qwen3Config};
use crate::kv::PAGE_TOKENS;

/// The two number types of the CPU path.
pub trait Real:
    WithDType
    + Copy
    + PartialOrd
    + Debug
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
{
    /// 0.
    const ZERO: Self;
    /// The smallest number, below every score.
    const LOWEST: Self;
    /// e to the power of this.
    fn exponential(self) -> Self;
}

impl Real for f32 {
    const ZERO: Self = 0.0;
    const LOWEST: Self = Self::NEG_INFINITY;
    fn exponential(self) -> Self {
        self.exp()
    }
}

impl Real for f64 {
    const ZERO: Self = 0.0;
    const LOWEST: Self = Self::NEG_INFINITY;
    fn exponential(self) -> Self {
        self.exp()
    }
}

/// Keys and values of one model on a CPU, in pages.
#[derive(Debug)]
pub enum KvStore {
    /// For a model in f32.
    F32(Pages<f32>),
    /// For a model in f64.
    F64(Pages<f64>),
}

/// Keys and values, per layer, as `[page, kv head, token in page, head_dim]`.
#[derive(Debug)]
pub struct Pages<T> {
    keys: Vec<Vec<T>>,
    values: Vec<Vec<T>>,
    heads: usize,
    kv_heads: usize,
    head_dim: usize,
}

impl KvStore {
    /// Room for `n_pages` pages of a model.
    ///
    /// # Errors
    /// If `dtype` is neither F32 nor F64.
    pub fn new(config: &Qwen3Config, dtype: DType, n_pages: usize) -> Result<Self> {
        match dtype {
            DType::F32 => Ok(Self::F32(Pages::new(config, n_pages))),
            DType::F64 => Ok(Self::F64(Pages::new(config, n_pages))),
            other => bail!("the cpu path computes in F32 or F64, not in {other:?}"),
        }
    }

    /// Writes `k` and `v` to the batch's pages, then lets each token attend to its request up to and including itself.
    ///
    /// `q` is `[tokens, heads * head_dim]`, `k` and `v` are `[tokens, kv_heads * head_dim]`; the result has the shape of `q`.
    ///
    /// # Errors
    /// If a tensor has another type than the store.
    pub fn attend(&mut self, layer: usize, batch: &FlatBatch, q: &Tensor, k: &Tensor, v: &Tensor) -> Result<Tensor> {
        let shape = q.shape().clone();
        match self {
            Self::F32(pages) => {
                Tensor::from_vec(pages.attend(layer, batch, &flat(q)?, &flat(k)?, &flat(v)?), shape, &Device::Cpu)
            }
            Self::F64(pages) => {
                Tensor::from_vec(pages.attend(layer, batch, &flat(q)?, &flat(k)?, &flat(v)?), shape, &Device::Cpu)
            }
        }
    }
}

fn flat<T: Real>(tensor: &Tensor) -> Result<Vec<T>> {
    tensor.flatten_all()?.to_vec1()
}

impl<T: Real> Pages<T> {
    fn new(config: &Qwen3Config, n_pages: usize) -> Self {
        let layer = || vec![T::ZERO; n_pages * PAGE_TOKENS * config.kv_width()];
        Self {
            keys: (0..config.layers).map(|_| layer()).collect(),
            values: (0..config.layers).map(|_| layer()).collect(),
            heads: config.heads,
            kv_heads: config.kv_heads,
            head_dim: config.head_dim,
        }
    }

    fn attend(&mut self, layer: usize, batch: &FlatBatch, q: &[T], k: &[T], v: &[T]) -> Vec<T> {
        self.write(layer, batch, k, v);
        let mut out = vec![T::ZERO; q.len()];
        let group = self.heads / self.kv_heads;
        let jobs = out.par_chunks_mut(self.head_dim).zip(q.par_chunks(self.head_dim)).enumerate();
        jobs.for_each(|(idx, (out, q))| {
            let (token, head) = (idx / self.heads, idx % self.heads);
            let n_kv = batch.positions[token] as usize + 1;
            self.attend_one(layer, batch.pages_of_token(token), n_kv, head / group, q, out);
        });
        out
    }

    fn write(&mut self, layer: usize, batch: &FlatBatch, k: &[T], v: &[T]) {
        let width = self.kv_heads * self.head_dim;
        for token in 0..batch.tokens.len() {
            let position = batch.positions[token] as usize;
            let page = batch.pages_of_token(token)[position / PAGE_TOKENS] as usize;
            for kv_head in 0..self.kv_heads {
                let to = self.offset(page, kv_head, position % PAGE_TOKENS);
                let from = token * width + kv_head * self.head_dim;
                self.keys[layer][to..to + self.head_dim].copy_from_slice(&k[from..from + self.head_dim]);
                self.values[layer][to..to + self.head_dim].copy_from_slice(&v[from..from + self.head_dim]);
            }
        }
    }

    fn attend_one(&self, layer: usize, pages: &[u32], n_kv: usize, kv_head: usize, q: &[T], out: &mut [T]) {
        let rows = |idx: usize| {
            let start = self.offset(pages[idx / PAGE_TOKENS] as usize, kv_head, idx % PAGE_TOKENS);
            start..start + self.head_dim
        };
        let scale = T::from_f64((self.head_dim as f64).powf(-0.5));
        let mut scores: Vec<T> = (0..n_kv).map(|idx| dot(q, &self.keys[layer][rows(idx)]) * scale).collect();
        let highest = scores.iter().fold(T::LOWEST, |highest, &score| if score > highest { score } else { highest });
        let mut total = T::ZERO;
        for score in &mut scores {
            *score = (*score - highest).exponential();
            total += *score;
        }
        for (idx, &score) in scores.iter().enumerate() {
            let share = score / total;
            for (out, &value) in out.iter_mut().zip(&self.values[layer][rows(idx)]) {
                *out += share * value;
            }
        }
    }

    fn offset(&self, page: usize, kv_head: usize, token_in_page: usize) -> usize {
        ((page * self.kv_heads + kv_head) * PAGE_TOKENS + token_in_page) * self.head_dim
    }
}
