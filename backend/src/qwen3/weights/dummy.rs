//! Dummy weights: a hash of seed, tensor name and position, so that any tensor can be made alone, in any order, on any device, with the same bits.

use half::bf16;
use rayon::prelude::*;

/// Recipe for all dummy tensors of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dummy {
    /// Different seeds give unrelated weights.
    pub seed: u64,
    /// How large the numbers are.
    pub scale: DummyScale,
}

/// How large dummy weights are. The weights of RMS norms (vectors) lie around 1 in either case: near 0 they would silence the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DummyScale {
    /// Matrices uniform in +-1e-3, norms in 1 +- 1e-3.
    Benchmark,
    /// Matrices uniform with the variance 1 / inputs, so that signals keep their size from layer to layer, norms in 1 +- 0.2.
    FanIn,
}

/// Recipe for one dummy tensor: element `i` is `centre + half_width * u`, with `u` uniform in (-1, 1) from the hash of `key` and `i`, rounded
/// to bf16. No element is drawn as 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DummyRange {
    /// Hash of the seed and the tensor's name.
    pub key: u64,
    /// Middle of the range.
    pub centre: f32,
    /// Half the width of the range.
    pub half_width: f32,
}

impl Dummy {
    /// The recipe for a tensor. Vectors are norms; of a matrix `[outputs, inputs]` the inputs count.
    #[must_use]
    pub fn range(&self, name: &str, shape: &[usize]) -> DummyRange {
        let key = name.bytes().fold(mix(self.seed), |hash, byte| mix(hash ^ u64::from(byte)));
        let is_norm = shape.len() == 1;
        let half_width = match (self.scale, is_norm) {
            (DummyScale::Benchmark, _) => 1e-3,
            (DummyScale::FanIn, true) => 0.2,
            // A uniform number in +-w has the variance w^2 / 3.
            (DummyScale::FanIn, false) => (3.0 / shape[shape.len() - 1] as f32).sqrt(),
        };
        DummyRange { key, centre: if is_norm { 1.0 } else { 0.0 }, half_width }
    }
}

impl DummyRange {
    /// Element `idx` of the tensor, a number that bf16 holds exactly.
    #[must_use]
    pub fn element(&self, idx: u64) -> f32 {
        let hash = mix(self.key ^ idx.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        // An odd integer in (-2^24, 2^24), which f32 holds exactly.
        let odd = ((hash >> 40) as i32) * 2 + 1 - (1 << 24);
        let scaled = odd as f32 * (self.half_width * (1.0 / 16_777_216.0));
        bf16::from_f32(self.centre + scaled).to_f32()
    }

    /// Fills a tensor in row-major order.
    pub fn fill(&self, values: &mut [f32]) {
        const CHUNK: usize = 1 << 16;
        values.par_chunks_mut(CHUNK).enumerate().for_each(|(chunk_idx, chunk)| {
            for (value, idx) in chunk.iter_mut().zip((chunk_idx * CHUNK) as u64..) {
                *value = self.element(idx);
            }
        });
    }
}

/// The finaliser of SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014): every input bit moves every output bit.
#[must_use]
pub(crate) fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}
