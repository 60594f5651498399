//! The forward on a CUDA device: kernels of our own, cuBLAS for wide batches, and CUDA graphs.
//!
//! One [`Runner`] has one stream, one cuBLAS handle and one set of graphs, so that two models can share a GPU from two threads. Nothing is allocated
//! after construction. A step is: pack the inputs into page-locked memory, launch one graph (copy in, forward, choice, copy out), record an
//! event; [`Runner::poll`] asks the event.
//!
//! Graphs exist per shape: tokens and rows, each rounded up to a bucket. The tokens that only fill a bucket belong to a slot of their own whose page table
//! says page 0, which no request has. The first step of a shape runs without a graph, because cuBLAS sets itself up then; the second one captures.
//!
//! `unsafe` is at home here: every kernel launch is a foreign call with raw pointers. What the pointers need is checked where the buffers are sized
//! ([`buffers`]), and no pointer leaves this module.
#![allow(unsafe_code)]

mod buffers;
mod device;
mod forward;
mod gpu;
mod graph;
mod kernels;
mod pack;
mod weights;

use candle_core::Result;

use crate::kv::PagePool;
use crate::qwen3::{FlatBatch, Qwen3Config, Weights};
use crate::runner::{Executor, RowOutput, Runner, RunnerError, RunnerOptions};
use crate::sampling::Sampling;
use buffers::{Buffers, Shape};
pub use device::{DeviceInfo, device_count, device_info};
use forward::Forward;
use gpu::Gpu;
use graph::Graphs;
use pack::Part;

/// How a CUDA runner works. The defaults are the fast way; the rest is for comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CudaOptions {
    /// Which GPU.
    pub ordinal: usize,
    /// Replay steps as CUDA graphs. Off, each kernel is launched by itself.
    pub graphs: bool,
    /// Largest number of tokens that are a graph; wider steps are launched kernel by kernel, where it does not matter.
    pub graph_tokens_max: usize,
    /// Up to how many tokens the matrix products are our own: 0 (always cuBLAS), 8 or 16. Shapes that do not suit them go to cuBLAS anyway.
    pub skinny_tokens_max: usize,
    /// Let a kernel start while the one before it still runs (programmatic dependent launch), up to the point where it needs its results.
    pub dependent_launch: bool,
    /// Use the plain attention kernel even for heads of 128: a check of the fast one.
    pub plain_attention: bool,
    /// Steps with more tokens are cut into several forwards.
    pub forward_tokens_max: usize,
}

impl Default for CudaOptions {
    fn default() -> Self {
        Self {
            ordinal: 0,
            graphs: true,
            graph_tokens_max: 128,
            skinny_tokens_max: 16,
            dependent_launch: false,
            plain_attention: false,
            forward_tokens_max: 512,
        }
    }
}

impl Runner {
    /// A runner on a CUDA device, in bf16 with f32 arithmetic.
    ///
    /// # Errors
    /// [`RunnerError::Weights`], or [`RunnerError::Device`] if the device fails, has too little memory, or the model's shape does not suit the kernels.
    pub fn cuda(
        config: &Qwen3Config,
        weights: &Weights,
        options: RunnerOptions,
        cuda: CudaOptions,
    ) -> std::result::Result<Self, RunnerError> {
        let pages = options.pages();
        let executor = CudaExecutor::new(config, weights, &pages, cuda)?;
        Ok(Self::new(config, pages, Box::new(executor)))
    }
}

struct CudaExecutor {
    // Before the forward, whose buffers the graphs point to.
    graphs: Option<Graphs>,
    forward: Forward,
    /// Rows whose outputs the forward in flight will bring, in its order.
    rows_in_flight: Vec<usize>,
    outputs: Vec<RowOutput>,
    /// Place of each row's logits in the last forward; none if an earlier forward of the same step had them.
    logits_of_row: Vec<Option<usize>>,
    tokens_max: usize,
    graph_tokens_max: usize,
}

impl CudaExecutor {
    fn new(
        config: &Qwen3Config,
        weights: &Weights,
        pages: &PagePool,
        options: CudaOptions,
    ) -> std::result::Result<Self, RunnerError> {
        let gpu = Gpu::open(options.ordinal)?;
        let tokens_max = options.forward_tokens_max.max(1);
        let buffers = Buffers::new(&gpu, config, pages, tokens_max)?;
        let weights = weights::DeviceWeights::load(&gpu, config, weights)?;
        let forward = Forward::new(gpu, config, weights, buffers, &options)?;
        Ok(Self {
            forward,
            graphs: options.graphs.then(Graphs::default),
            rows_in_flight: Vec::new(),
            outputs: Vec::new(),
            logits_of_row: Vec::new(),
            tokens_max,
            graph_tokens_max: options.graph_tokens_max,
        })
    }

    /// Starts the forward over some of the batch's tokens.
    fn start(&mut self, batch: &FlatBatch, sampling: &[Sampling], tokens: std::ops::Range<usize>) -> Result<()> {
        self.rows_in_flight.clear();
        let ends_here = |&row: &usize| tokens.contains(&(batch.last_of_row[row] as usize));
        self.rows_in_flight.extend((0..batch.slot_of_row.len()).filter(ends_here));
        self.logits_of_row.clear();
        self.logits_of_row.resize(batch.slot_of_row.len(), None);
        for (place, &row) in self.rows_in_flight.iter().enumerate() {
            self.logits_of_row[row] = Some(place);
        }
        let as_graph = self.graphs.is_some() && tokens.len() <= self.graph_tokens_max.min(self.tokens_max);
        let n_rows = self.rows_in_flight.len().max(1);
        let shape = if as_graph {
            Shape::bucket(tokens.len(), n_rows, self.tokens_max)
        } else {
            Shape { tokens: tokens.len(), rows: n_rows }
        };
        self.forward.pack(shape, &Part { batch, sampling, tokens, rows: &self.rows_in_flight });
        match self.graphs.as_mut().filter(|_| as_graph) {
            Some(graphs) => graphs.run(&self.forward, shape)?,
            None => self.forward.enqueue(shape)?,
        }
        self.forward.record_end()
    }

    fn collect(&mut self) {
        for (place, &row) in self.rows_in_flight.iter().enumerate() {
            self.outputs[row] = self.forward.output(place);
        }
    }
}

impl Executor for CudaExecutor {
    fn launch(&mut self, batch: &FlatBatch, sampling: &[Sampling]) -> Result<()> {
        self.outputs.clear();
        self.outputs.resize(batch.slot_of_row.len(), RowOutput { token: 0, entropy: f32::NAN });
        let n_tokens = batch.tokens.len();
        let mut start = 0;
        loop {
            let end = n_tokens.min(start + self.tokens_max);
            self.start(batch, sampling, start..end)?;
            if end == n_tokens {
                return Ok(());
            }
            // The packed inputs are still being read, so the next part has to wait. Only long prompts come here.
            self.forward.wait()?;
            self.collect();
            start = end;
        }
    }

    fn poll(&mut self, wait: bool, outputs: &mut Vec<RowOutput>) -> Result<bool> {
        if wait {
            self.forward.wait()?;
        } else if !self.forward.has_ended()? {
            return Ok(false);
        }
        self.collect();
        outputs.clone_from(&self.outputs);
        Ok(true)
    }

    fn logits(&mut self, row_idx: usize) -> Result<Vec<f32>> {
        match self.logits_of_row[row_idx] {
            Some(place) => self.forward.logits(place),
            None => candle_core::bail!("the logits of row {row_idx} were overwritten by a later part of the same step"),
        }
    }
}
