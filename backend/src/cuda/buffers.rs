//! All memory of a CUDA runner besides its weights, and the layout of a step's packed inputs.

use candle_core::{Result, bail};
use half::bf16;

use super::gpu::{Buffer, Gpu, Pinned};
use crate::kv::{PAGE_TOKENS, PagePool};
use crate::qwen3::Qwen3Config;
use crate::qwen3::model::rotary_frequency;

/// Sizes for which graphs exist. Steps between two of them run as the larger one.
const BUCKETS: [usize; 16] = [1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 1024];
/// Blocks over which the attention of one step should at least be spread: two for each multiprocessor of an H200.
const ATTENTION_BLOCKS: usize = 264;
/// More parts than this cost more to add up than they save.
const SPLITS_MAX: usize = 32;
/// Queries of a group as the fast attention kernel counts them.
const GROUP_MAX: usize = 8;
/// The skinny matrix products read this many tokens' inputs, used or not.
const SKINNY_TOKENS: usize = 16;
/// Blocks that search one row's logits.
pub(super) const CHOICE_PARTS: usize = 64;
/// Words of a part's result: the kernels' `Choice`.
const CHOICE_WORDS: usize = 5;

/// Tokens and rows of a forward, as its kernels see them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Shape {
    pub(super) tokens: usize,
    pub(super) rows: usize,
}

/// Where the parts of a step's packed inputs lie, in 32-bit words. An update enters a page into a page table: slot, index, page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) tokens: usize,
    pub(super) positions: usize,
    pub(super) slots: usize,
    pub(super) updates: usize,
    pub(super) n_updates: usize,
    pub(super) last_of_row: usize,
    pub(super) inverse_temperatures: usize,
    pub(super) seeds: usize,
    pub(super) n_words: usize,
}

pub(super) struct Buffers {
    pub(super) pinned_inputs: Pinned,
    pub(super) inputs: Buffer<u32>,
    pub(super) pinned_outputs: Pinned,
    pub(super) outputs: Buffer<u32>,
    /// The residual stream, `[tokens, hidden]`.
    pub(super) x: Buffer<f32>,
    /// The residual stream rounded, where the skinny products take its norm themselves; else its norm.
    pub(super) normed: Buffer<bf16>,
    pub(super) qkv: Buffer<bf16>,
    pub(super) attended: Buffer<bf16>,
    pub(super) gate_up: Buffer<bf16>,
    pub(super) gated: Buffer<bf16>,
    pub(super) logits: Buffer<f32>,
    /// `[slots + 1, table_stride]`; the last slot is that of padding tokens and says page 0.
    pub(super) tables: Buffer<u32>,
    pub(super) table_stride: usize,
    pub(super) padding_slot: u32,
    /// Per layer, `[page, kv head, token in page, head_dim]`.
    pub(super) keys: Vec<Buffer<bf16>>,
    pub(super) values: Vec<Buffer<bf16>>,
    /// `[position, head_dim / 2]`.
    pub(super) cosines: Buffer<f32>,
    pub(super) sines: Buffer<f32>,
    pub(super) partial_out: Buffer<f32>,
    pub(super) partial_sums: Buffer<f32>,
    pub(super) attention_counters: Buffer<u32>,
    pub(super) choices: Buffer<f32>,
    pub(super) choice_counters: Buffer<u32>,
}

impl Shape {
    /// The bucket that holds so many tokens and rows; `tokens_max` is the last bucket's size if it is none itself.
    pub(super) fn bucket(tokens: usize, rows: usize, tokens_max: usize) -> Self {
        let up = |n: usize| BUCKETS.into_iter().find(|&bucket| bucket >= n).unwrap_or(n).min(tokens_max.max(n));
        Self { tokens: up(tokens), rows: up(rows).min(up(tokens)) }
    }

    pub(super) fn layout(self) -> Layout {
        let Self { tokens, rows } = self;
        let last_of_row = 6 * tokens + 1;
        Layout {
            tokens: 0,
            positions: tokens,
            slots: 2 * tokens,
            // A row of k tokens touches at most k pages.
            updates: 3 * tokens,
            n_updates: 6 * tokens,
            last_of_row,
            inverse_temperatures: last_of_row + rows,
            seeds: last_of_row + 2 * rows,
            n_words: last_of_row + 4 * rows,
        }
    }

    /// Into how many parts the attention of each token is split.
    pub(super) fn attention_splits(self, kv_heads: usize) -> usize {
        ATTENTION_BLOCKS.div_ceil(self.tokens * kv_heads).clamp(1, SPLITS_MAX)
    }
}

impl Buffers {
    pub(super) fn new(gpu: &Gpu, config: &Qwen3Config, pages: &PagePool, tokens_max: usize) -> Result<Self> {
        check(config)?;
        let Qwen3Config { hidden, intermediate, vocabulary, .. } = *config;
        let tokens = Shape::bucket(tokens_max, 1, tokens_max).tokens.max(SKINNY_TOKENS);
        let rows = Shape::bucket(tokens, pages.n_slots(), tokens).rows.max(SKINNY_TOKENS);
        let largest = Shape { tokens, rows }.layout().n_words;
        let kv_elements = pages.n_pages_stored() * PAGE_TOKENS * config.kv_width();
        // Zeros, not garbage: a page's unused tokens have weight 0, and 0 times NaN would be NaN.
        let kv = || (0..config.layers).map(|_| gpu.zeros::<bf16>(kv_elements)).collect::<Result<Vec<_>>>();
        let table_stride = pages.request_tokens_max().div_ceil(PAGE_TOKENS).max(1);
        let splits = |tokens: usize| Shape { tokens, rows: 1 }.attention_splits(config.kv_heads);
        let jobs = |tokens: usize| tokens * config.kv_heads * splits(tokens);
        let split_jobs = (1..=tokens).filter(|&tokens| splits(tokens) > 1).map(jobs).max().unwrap_or(1);
        let (cosines, sines) = rotation(config, pages.request_tokens_max());
        Ok(Self {
            pinned_inputs: gpu.pinned(largest)?,
            inputs: gpu.zeros(largest)?,
            pinned_outputs: gpu.pinned(2 * rows)?,
            outputs: gpu.zeros(2 * rows)?,
            x: gpu.zeros(tokens * hidden)?,
            normed: gpu.zeros(tokens * hidden)?,
            qkv: gpu.zeros(tokens * (config.q_width() + 2 * config.kv_width()))?,
            attended: gpu.zeros(tokens * config.q_width())?,
            gate_up: gpu.zeros(tokens * 2 * intermediate)?,
            gated: gpu.zeros(tokens * intermediate)?,
            logits: gpu.zeros(rows * vocabulary)?,
            tables: gpu.zeros((pages.n_slots() + 1) * table_stride)?,
            table_stride,
            padding_slot: u32::try_from(pages.n_slots()).expect("slots are counted in 32 bits"),
            keys: kv()?,
            values: kv()?,
            cosines: gpu.upload(&cosines)?,
            sines: gpu.upload(&sines)?,
            partial_out: gpu.zeros(split_jobs * GROUP_MAX * 128)?,
            partial_sums: gpu.zeros(split_jobs * GROUP_MAX * 2)?,
            attention_counters: gpu.zeros(tokens * config.kv_heads)?,
            choices: gpu.zeros(rows * CHOICE_PARTS * CHOICE_WORDS)?,
            choice_counters: gpu.zeros(rows)?,
        })
    }
}

/// Refuses shapes that the kernels cannot run.
fn check(config: &Qwen3Config) -> Result<()> {
    if !config.hidden.is_multiple_of(8) || !config.intermediate.is_multiple_of(8) {
        bail!(
            "on CUDA, hidden ({}) and intermediate ({}) width must be multiples of 8",
            config.hidden,
            config.intermediate
        );
    }
    if config.head_dim > 256 || !config.head_dim.is_multiple_of(8) {
        bail!("on CUDA, head_dim must be a multiple of 8 up to 256, not {}", config.head_dim);
    }
    Ok(())
}

fn rotation(config: &Qwen3Config, positions: usize) -> (Vec<f32>, Vec<f32>) {
    let half = config.head_dim / 2;
    let frequencies: Vec<f64> = (0..half).map(|pair| rotary_frequency(config, pair)).collect();
    let angles =
        || (0..positions).flat_map(|position| frequencies.iter().map(move |frequency| position as f64 * frequency));
    (angles().map(|angle| angle.cos() as f32).collect(), angles().map(|angle| angle.sin() as f32).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_hold_what_they_are_asked_for() {
        for tokens in 1..=512_usize {
            for rows in [1, tokens.div_ceil(2), tokens] {
                let shape = Shape::bucket(tokens, rows, 512);
                assert!(shape.tokens >= tokens && shape.rows >= rows && shape.rows <= shape.tokens, "{shape:?}");
            }
        }
        assert_eq!(Shape::bucket(17, 3, 512), Shape { tokens: 24, rows: 4 });
    }

    #[test]
    fn packed_parts_do_not_overlap() {
        let shape = Shape { tokens: 24, rows: 4 };
        let layout = shape.layout();
        let starts = [
            (layout.tokens, 24),
            (layout.positions, 24),
            (layout.slots, 24),
            (layout.updates, 72),
            (layout.n_updates, 1),
            (layout.last_of_row, 4),
            (layout.inverse_temperatures, 4),
            (layout.seeds, 8),
            (layout.n_words, 0),
        ];
        for pair in starts.windows(2) {
            assert_eq!(pair[0].0 + pair[0].1, pair[1].0);
        }
    }

    #[test]
    fn splits_spread_small_steps_only() {
        let splits = |tokens| Shape { tokens, rows: 1 }.attention_splits(8);
        assert_eq!((splits(1), splits(8), splits(32), splits(33), splits(512)), (32, 5, 2, 1, 1));
    }
}
