//! A step's inputs as one block of 32-bit words, for one copy to the GPU.

use std::ops::Range;

use super::buffers::Shape;
use crate::kv::PAGE_TOKENS;
use crate::qwen3::FlatBatch;
use crate::sampling::Sampling;

/// The part of a batch that one forward takes.
pub(super) struct Part<'a> {
    pub(super) batch: &'a FlatBatch,
    /// One for each row of the batch.
    pub(super) sampling: &'a [Sampling],
    /// Which of the batch's tokens.
    pub(super) tokens: Range<usize>,
    /// Rows of the batch whose last token is among them.
    pub(super) rows: &'a [usize],
}

/// Writes the inputs of a forward in the layout of its shape. Tokens that only fill the shape belong to `padding_slot`.
///
/// The GPU keeps the page tables from step to step; a forward brings the entries of the pages that its tokens write to. All earlier pages of a
/// request were brought by the forwards that wrote to them.
pub(super) fn pack(words: &mut [u32], shape: Shape, padding_slot: u32, part: &Part<'_>) {
    let (layout, batch) = (shape.layout(), part.batch);
    let n_tokens = part.tokens.len();
    words[layout.tokens..][..shape.tokens].fill(0);
    words[layout.positions..][..shape.tokens].fill(0);
    words[layout.slots..][..shape.tokens].fill(padding_slot);
    words[layout.tokens..][..n_tokens].copy_from_slice(&batch.tokens[part.tokens.clone()]);
    words[layout.positions..][..n_tokens].copy_from_slice(&batch.positions[part.tokens.clone()]);
    let place_of = |token: usize| (batch.row_of_token[token] as usize, batch.positions[token] as usize / PAGE_TOKENS);
    let mut n_updates = 0;
    for (idx, token) in part.tokens.clone().enumerate() {
        let (row, page_idx) = place_of(token);
        let slot = batch.slot_of_row[row];
        words[layout.slots + idx] = slot;
        if idx == 0 || place_of(token - 1) != (row, page_idx) {
            let page = batch.pages_of_row(row)[page_idx];
            let page_idx = u32::try_from(page_idx).expect("it comes from a position of 32 bits");
            words[layout.updates + 3 * n_updates..][..3].copy_from_slice(&[slot, page_idx, page]);
            n_updates += 1;
        }
    }
    words[layout.n_updates] = u32::try_from(n_updates).expect("there are at most as many as tokens");
    // Rows that only fill the shape look at token 0.
    words[layout.last_of_row..layout.n_words].fill(0);
    for (place, &row) in part.rows.iter().enumerate() {
        let last = batch.last_of_row[row] as usize - part.tokens.start;
        words[layout.last_of_row + place] = u32::try_from(last).expect("it comes from 32 bits");
        if let Sampling::Temperature { temperature, seed } = part.sampling[row] {
            words[layout.inverse_temperatures + place] = (1.0 / temperature).to_bits();
            words[layout.seeds + 2 * place] = (seed & 0xffff_ffff) as u32;
            words[layout.seeds + 2 * place + 1] = (seed >> 32) as u32;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kv::PagePool;

    const SLOTS: usize = 4;
    const PADDING: u32 = SLOTS as u32;
    const STRIDE: usize = 8;

    /// What the GPU keeps between forwards.
    struct Device {
        tables: Vec<u32>,
    }

    impl Device {
        fn apply(&mut self, words: &[u32], shape: Shape) {
            let layout = shape.layout();
            let n_updates = words[layout.n_updates] as usize;
            assert!(n_updates <= shape.tokens);
            for update in words[layout.updates..][..3 * n_updates].chunks_exact(3) {
                self.tables[update[0] as usize * STRIDE + update[1] as usize] = update[2];
            }
        }
    }

    fn batch(pool: &mut PagePool, rows: &[(u32, usize)]) -> FlatBatch {
        let starts: Vec<usize> = rows.iter().map(|&(slot, _)| pool.kv_tokens(slot).unwrap()).collect();
        pool.grow(rows).unwrap();
        let mut batch = FlatBatch::default();
        for (&(slot, n), start) in rows.iter().zip(starts) {
            let tokens: Vec<u32> = (start..start + n).map(|at| slot * 1000 + at as u32).collect();
            batch.push_row(slot, &tokens, start as u32, pool.pages(slot).unwrap());
        }
        batch
    }

    /// Packs the batch in parts of at most `tokens_max` tokens and checks every token's view of its request after each.
    fn check(device: &mut Device, batch: &FlatBatch, tokens_max: usize) {
        let sampling = vec![Sampling::Greedy; batch.slot_of_row.len()];
        for start in (0..batch.tokens.len()).step_by(tokens_max) {
            let tokens = start..batch.tokens.len().min(start + tokens_max);
            let rows: Vec<usize> =
                (0..sampling.len()).filter(|&row| tokens.contains(&(batch.last_of_row[row] as usize))).collect();
            let shape = Shape::bucket(tokens.len(), rows.len().max(1), 64);
            let layout = shape.layout();
            // Leftovers of an earlier step must not show.
            let mut words = vec![0xdead_beef; layout.n_words];
            pack(&mut words, shape, PADDING, &Part { batch, sampling: &sampling, tokens: tokens.clone(), rows: &rows });
            assert!(
                !words[..3 * shape.tokens].contains(&0xdead_beef) && !words[layout.n_updates..].contains(&0xdead_beef)
            );
            device.apply(&words, shape);
            for (idx, token) in tokens.clone().enumerate() {
                let slot = words[layout.slots + idx] as usize;
                let position = words[layout.positions + idx] as usize;
                assert_eq!(words[layout.tokens + idx], (slot * 1000 + position) as u32);
                let known = &device.tables[slot * STRIDE..][..=position / PAGE_TOKENS];
                assert_eq!(known, &batch.pages_of_token(token)[..=position / PAGE_TOKENS]);
            }
            for idx in tokens.len()..shape.tokens {
                assert_eq!(words[layout.slots + idx], PADDING);
                assert_eq!((words[layout.tokens + idx], words[layout.positions + idx]), (0, 0));
            }
            for (place, &row) in rows.iter().enumerate() {
                let last = words[layout.last_of_row + place] as usize;
                assert_eq!(words[layout.tokens + last], batch.tokens[batch.last_of_row[row] as usize]);
            }
        }
    }

    #[test]
    fn the_page_tables_follow_requests_through_growth_reuse_and_truncation() {
        for tokens_max in [1, 5, 16, 17, 64] {
            let mut pool = PagePool::with_pages(20, SLOTS, STRIDE * PAGE_TOKENS);
            let mut device = Device { tables: vec![0; (SLOTS + 1) * STRIDE] };
            for rows in
                [&[(0, 33), (2, 1)][..], &[(0, 1), (2, 15)], &[(1, 50), (2, 1), (0, 14)], &[(0, 1), (1, 1), (2, 40)]]
            {
                let batch = batch(&mut pool, rows);
                check(&mut device, &batch, tokens_max);
            }
            pool.free(0).unwrap();
            pool.truncate(1, 20).unwrap();
            for rows in [&[(3, 20)][..], &[(0, 60), (1, 30)], &[(3, 1), (1, 1)]] {
                let batch = batch(&mut pool, rows);
                check(&mut device, &batch, tokens_max);
            }
            assert_eq!(device.tables[SLOTS * STRIDE], 0, "padding must stay on page 0");
        }
    }

    #[test]
    fn tempered_rows_carry_their_seed() {
        let mut pool = PagePool::with_pages(4, SLOTS, 64);
        let batch = batch(&mut pool, &[(0, 1), (1, 2)]);
        let shape = Shape { tokens: 4, rows: 2 };
        let layout = shape.layout();
        let mut words = vec![7; layout.n_words];
        let sampling = [Sampling::Greedy, Sampling::Temperature { temperature: 0.5, seed: 0x1_0000_0002 }];
        pack(&mut words, shape, PADDING, &Part { batch: &batch, sampling: &sampling, tokens: 0..3, rows: &[0, 1] });
        assert_eq!(words[layout.inverse_temperatures..][..2], [0, 2.0_f32.to_bits()]);
        assert_eq!(words[layout.seeds..][..4], [0, 0, 2, 1]);
    }
}
