//! Random streams: one per (seed, purpose, index), so that two scenarios that differ in a threshold see the same draws.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// What a stream of random numbers is for. Each purpose has its own family of streams.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
pub enum Purpose {
    /// Routing decisions; indexed by request.
    Route = 1,
    /// Prompt and output lengths; indexed by request.
    Length = 2,
    /// Phase and remaining length at the start of a replication; indexed by request.
    Start = 3,
    /// Times between arrivals; index 0.
    Arrival = 4,
    /// Jitter of step times; indexed by model.
    Jitter = 5,
}

/// A stream of random numbers: ChaCha with 8 rounds, portable and seekable.
#[derive(Clone, Debug)]
pub struct Stream(ChaCha8Rng);

impl Stream {
    /// The stream of `purpose` number `index` under `seed`.
    #[must_use]
    pub fn new(seed: u64, purpose: Purpose, index: u64) -> Self {
        let mut key = [0_u8; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        key[8..16].copy_from_slice(&(purpose as u64).to_le_bytes());
        let mut rng = ChaCha8Rng::from_seed(key);
        rng.set_stream(index);
        Self(rng)
    }

    /// The seed of replication `replication`, itself drawn so that neighbouring seeds share nothing.
    #[must_use]
    pub fn replication_seed(seed: u64, replication: u32) -> u64 {
        let mut stream = Self::new(seed, Purpose::Start, u64::MAX - u64::from(replication));
        stream.0.next_u64()
    }

    /// 32 uniform random bits. A decision with probability p compares them with p * 2^32.
    #[inline]
    pub fn next_u32(&mut self) -> u32 {
        self.0.next_u32()
    }

    /// Uniform in [0, 1), with 53 random bits.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
    }

    /// Uniform in `0..n`, without bias. `n` must not be 0.
    #[inline]
    pub fn below(&mut self, n: u32) -> u32 {
        // Lemire's multiply-shift with rejection (ACM TOMACS 29(1), 2019).
        let mut product = u64::from(self.0.next_u32()) * u64::from(n);
        if (product as u32) < n {
            let rejected = n.wrapping_neg() % n;
            while (product as u32) < rejected {
                product = u64::from(self.0.next_u32()) * u64::from(n);
            }
        }
        (product >> 32) as u32
    }

    /// The generator itself, for the distributions of `rand_distr`.
    pub fn generator(&mut self) -> &mut impl Rng {
        &mut self.0
    }
}
