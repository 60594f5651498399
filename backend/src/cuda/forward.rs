//! One forward as a list of kernels on the stream. Run directly or under capture, the list is the same.

use candle_core::cuda_backend::cudarc::driver::{CudaEvent, CudaFunction, CudaStream, result, sys};
use candle_core::{Error, Result};

use super::CudaOptions;
use super::buffers::{Buffers, CHOICE_PARTS, Shape};
use super::gpu::{Ends, Gpu, Matrix, Product};
use super::kernels::{Grid, Kernels, Queue, int, launch};
use super::pack::{Part, pack};
use super::weights::{DeviceWeights, Layer};
use crate::qwen3::Qwen3Config;
use crate::runner::RowOutput;

pub(super) struct Forward {
    buffers: Buffers,
    weights: DeviceWeights,
    config: Qwen3Config,
    skinny_tokens_max: usize,
    fast_attention: bool,
    dependent_launch: bool,
    end: CudaEvent,
    // Last, so that it is dropped after all memory on its stream.
    gpu: Gpu,
}

impl Forward {
    pub(super) fn new(
        gpu: Gpu,
        config: &Qwen3Config,
        weights: DeviceWeights,
        buffers: Buffers,
        options: &CudaOptions,
    ) -> Result<Self> {
        let end = gpu.context().new_event(None).map_err(Error::wrap)?;
        let fast_attention = config.head_dim == 128 && config.group() <= 8 && !options.plain_attention;
        // All or none: only the skinny products write and read the rounded residual stream.
        let suits_skinny = [config.hidden, config.q_width(), config.intermediate, config.kv_width()]
            .iter()
            .all(|width| width.is_multiple_of(128))
            && config.vocabulary.is_multiple_of(32);
        let skinny_tokens_max = if suits_skinny { options.skinny_tokens_max.min(16) } else { 0 };
        Ok(Self {
            buffers,
            weights,
            config: config.clone(),
            skinny_tokens_max,
            fast_attention,
            dependent_launch: options.dependent_launch,
            end,
            gpu,
        })
    }

    pub(super) fn stream(&self) -> &std::sync::Arc<CudaStream> {
        self.gpu.stream()
    }

    /// Writes a forward's inputs to page-locked memory. The forward before it must have ended.
    pub(super) fn pack(&mut self, shape: Shape, part: &Part<'_>) {
        let padding_slot = self.buffers.padding_slot;
        pack(self.buffers.pinned_inputs.words_mut(), shape, padding_slot, part);
    }

    /// Puts the whole forward on the stream: copy in, kernels, copy out.
    pub(super) fn enqueue(&self, shape: Shape) -> Result<()> {
        let layout = shape.layout();
        let buffers = &self.buffers;
        // The runner may have come to another thread since it was made.
        self.gpu.context().bind_to_thread().map_err(Error::wrap)?;
        let cu_stream = self.stream().cu_stream();
        let words = &buffers.pinned_inputs.words()[..layout.n_words];
        // SAFETY: the device's buffer is as large as the host's, and the host's stays put.
        unsafe { result::memcpy_htod_async(buffers.inputs.start(), words, cu_stream) }.map_err(Error::wrap)?;
        self.embed(shape)?;
        for (layer_idx, layer) in self.weights.layers.iter().enumerate() {
            self.attention_block(shape, layer_idx, layer)?;
            self.feed_forward_block(shape, layer)?;
        }
        self.choose(shape)?;
        let (to, bytes) = (buffers.pinned_outputs.address().cast(), 8 * shape.rows);
        // SAFETY: the pinned memory holds two words for each row of the largest shape; the host reads it only after the event.
        unsafe { sys::cuMemcpyDtoHAsync_v2(to, buffers.outputs.start(), bytes, cu_stream) }
            .result()
            .map_err(Error::wrap)
    }

    pub(super) fn record_end(&self) -> Result<()> {
        self.end.record(self.stream()).map_err(Error::wrap)
    }

    pub(super) fn has_ended(&self) -> Result<bool> {
        self.gpu.context().bind_to_thread().map_err(Error::wrap)?;
        self.end.try_is_complete().map_err(Error::wrap)
    }

    pub(super) fn wait(&self) -> Result<()> {
        self.end.synchronize().map_err(Error::wrap)
    }

    /// Output of the row at this place of the last forward, which has ended.
    pub(super) fn output(&self, place: usize) -> RowOutput {
        let words = self.buffers.pinned_outputs.words();
        RowOutput { token: words[2 * place], entropy: f32::from_bits(words[2 * place + 1]) }
    }

    pub(super) fn logits(&self, place: usize) -> Result<Vec<f32>> {
        let vocabulary = self.config.vocabulary;
        self.gpu.copy_out(&self.buffers.logits, place * vocabulary, vocabulary)
    }

    fn embed(&self, shape: Shape) -> Result<()> {
        let (buffers, layout) = (&self.buffers, shape.layout());
        launch!(
            // The copy of the inputs comes first, and that is no kernel that could let this one start early.
            Queue { dependent: false, ..self.queue() },
            &self.kernels().embed,
            Grid::line(shape.tokens, 128),
            buffers.x.start(),
            buffers.normed.start(),
            self.weights.embedding.start(),
            buffers.inputs.at(layout.tokens),
            int(self.config.hidden),
            buffers.tables.start(),
            int(buffers.table_stride),
            buffers.inputs.at(layout.n_updates),
            buffers.inputs.at(layout.updates),
        )
    }

    fn attention_block(&self, shape: Shape, layer_idx: usize, layer: &Layer) -> Result<()> {
        let (buffers, config, layout) = (&self.buffers, &self.config, shape.layout());
        let (hidden, q_width) = (config.hidden, config.q_width());
        let (keys, values) = (buffers.keys[layer_idx].start(), buffers.values[layer_idx].start());
        let qkv = Matrix { weight: layer.qkv.start(), inputs: hidden, outputs: q_width + 2 * config.kv_width() };
        self.normed_product(shape, buffers.qkv.start(), qkv, layer.input_norm.start())?;
        let (positions, slots) = (buffers.inputs.at(layout.positions), buffers.inputs.at(layout.slots));
        let n_warps = shape.tokens * (config.heads + 2 * config.kv_heads);
        launch!(
            self.queue(),
            &self.kernels().rotate_and_store,
            Grid::line(n_warps.div_ceil(4), 128),
            buffers.qkv.start(),
            keys,
            values,
            layer.q_norm.start(),
            layer.k_norm.start(),
            buffers.cosines.start(),
            buffers.sines.start(),
            positions,
            slots,
            buffers.tables.start(),
            int(buffers.table_stride),
            int(shape.tokens),
            int(config.heads),
            int(config.kv_heads),
            int(config.head_dim),
            config.rms_norm_eps as f32,
        )?;
        // Softmax in powers of 2: the hardware has no other.
        let scale_log2 = (std::f64::consts::LOG2_E / (config.head_dim as f64).sqrt()) as f32;
        if self.fast_attention {
            launch!(
                self.queue(),
                &self.kernels().attention_128,
                Grid { blocks: [config.kv_heads, shape.tokens, shape.attention_splits(config.kv_heads)], threads: 128 },
                buffers.attended.start(),
                buffers.qkv.start(),
                keys,
                values,
                positions,
                slots,
                buffers.tables.start(),
                int(buffers.table_stride),
                int(config.kv_heads),
                int(config.group()),
                scale_log2,
                buffers.partial_out.start(),
                buffers.partial_sums.start(),
                buffers.attention_counters.start(),
            )?;
        } else {
            launch!(
                self.queue(),
                &self.kernels().attention_any,
                Grid { blocks: [config.heads, shape.tokens, 1], threads: 256 },
                buffers.attended.start(),
                buffers.qkv.start(),
                keys,
                values,
                positions,
                slots,
                buffers.tables.start(),
                int(buffers.table_stride),
                int(config.kv_heads),
                int(config.group()),
                int(config.head_dim),
                scale_log2,
            )?;
        }
        self.added_product(
            shape,
            buffers.attended.start(),
            Matrix { weight: layer.o.start(), inputs: q_width, outputs: hidden },
        )
    }

    fn feed_forward_block(&self, shape: Shape, layer: &Layer) -> Result<()> {
        let buffers = &self.buffers;
        let Qwen3Config { hidden, intermediate, .. } = self.config;
        let weight = layer.gate_up.start();
        // The kernel counts the gated outputs only.
        let gated = Matrix { weight, inputs: hidden, outputs: intermediate };
        if let Some(size) = self.skinny(shape.tokens) {
            let ends = Ends { x: buffers.normed.start(), y: buffers.gated.start(), tokens: shape.tokens };
            self.launch_skinny(&self.kernels().skinny_gate[size], ends, gated, layer.post_norm.start(), 16)?;
        } else {
            let both = Matrix { weight, inputs: hidden, outputs: 2 * intermediate };
            self.norm(buffers.normed.start(), layer.post_norm.start(), 0, shape.tokens)?;
            let ends = Ends { x: buffers.normed.start(), y: buffers.gate_up.start(), tokens: shape.tokens };
            self.gpu.product(Product::Store, ends, both)?;
            let n_pairs = shape.tokens * intermediate / 2;
            let grid = Grid::line(n_pairs.div_ceil(256), 256);
            let (out, gate_up) = (buffers.gated.start(), buffers.gate_up.start());
            launch!(
                self.queue(),
                &self.kernels().silu_times_up,
                grid,
                out,
                gate_up,
                int(intermediate),
                n_pairs as u64
            )?;
        }
        let down = Matrix { weight: layer.down.start(), inputs: intermediate, outputs: hidden };
        self.added_product(shape, buffers.gated.start(), down)
    }

    fn choose(&self, shape: Shape) -> Result<()> {
        let (buffers, layout) = (&self.buffers, shape.layout());
        let Qwen3Config { hidden, vocabulary, .. } = self.config;
        self.norm(
            buffers.normed.start(),
            self.weights.norm.start(),
            buffers.inputs.at(layout.last_of_row),
            shape.rows,
        )?;
        let head = Matrix { weight: self.weights.head().start(), inputs: hidden, outputs: vocabulary };
        let ends = Ends { x: buffers.normed.start(), y: buffers.logits.start(), tokens: shape.rows };
        match self.skinny(shape.rows) {
            Some(size) => self.launch_skinny(&self.kernels().skinny_logits[size], ends, head, 0, 32)?,
            None => self.gpu.product(Product::StoreF32, ends, head)?,
        }
        launch!(
            self.queue(),
            &self.kernels().choose,
            Grid { blocks: [CHOICE_PARTS, shape.rows, 1], threads: 256 },
            buffers.outputs.start(),
            buffers.logits.start(),
            buffers.inputs.at(layout.inverse_temperatures),
            buffers.inputs.at(layout.seeds),
            int(vocabulary),
            (1.0 / (vocabulary as f64).ln()) as f32,
            buffers.choices.start(),
            buffers.choice_counters.start(),
        )
    }

    /// `y` from the RMS norm of the residual stream.
    fn normed_product(&self, shape: Shape, y: u64, matrix: Matrix, norm: u64) -> Result<()> {
        let ends = Ends { x: self.buffers.normed.start(), y, tokens: shape.tokens };
        match self.skinny(shape.tokens) {
            Some(size) => self.launch_skinny(&self.kernels().skinny_norm[size], ends, matrix, norm, 16),
            None => {
                self.norm(ends.x, norm, 0, shape.tokens)?;
                self.gpu.product(Product::Store, ends, matrix)
            }
        }
    }

    /// Adds a product to the residual stream.
    fn added_product(&self, shape: Shape, from: u64, matrix: Matrix) -> Result<()> {
        let ends = Ends { x: from, y: self.buffers.x.start(), tokens: shape.tokens };
        match self.skinny(shape.tokens) {
            Some(size) => self.launch_skinny(&self.kernels().skinny_add[size], ends, matrix, 0, 16),
            None => self.gpu.product(Product::Add, ends, matrix),
        }
    }

    fn norm(&self, out: u64, weight: u64, picked: u64, rows: usize) -> Result<()> {
        let grid = Grid::line(rows, 256);
        let (x, eps) = (self.buffers.x.start(), self.config.rms_norm_eps as f32);
        launch!(self.queue(), &self.kernels().rms_norm, grid, out, x, weight, picked, int(self.config.hidden), eps)
    }

    /// Which of a skinny kernel's two sizes suits, if any.
    fn skinny(&self, n_tokens: usize) -> Option<usize> {
        (n_tokens <= self.skinny_tokens_max).then_some(usize::from(n_tokens > 8))
    }

    /// A block makes `tile` outputs.
    fn launch_skinny(&self, kernel: &CudaFunction, ends: Ends, matrix: Matrix, norm: u64, tile: usize) -> Result<()> {
        let grid = Grid::line(matrix.outputs / tile, 256);
        let eps = self.config.rms_norm_eps as f32;
        launch!(
            self.queue(),
            kernel,
            grid,
            ends.y,
            self.buffers.normed.start(),
            ends.x,
            matrix.weight,
            norm,
            eps,
            int(ends.tokens),
            int(matrix.inputs),
            int(matrix.outputs),
        )
    }

    fn queue(&self) -> Queue<'_> {
        Queue { stream: self.stream(), dependent: self.dependent_launch }
    }

    fn kernels(&self) -> &Kernels {
        &self.weights.kernels
    }
}
