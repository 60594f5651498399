//! Identifiers. All are small integers, so that per-request state lives in plain vectors and no map is ever iterated.

use core::fmt;

/// Index of a model in the cooperating set, and of its subserver. 0 is the entry model unless the policy says otherwise.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ModelIdx(pub u8);

impl ModelIdx {
    /// The index as a `usize`, for indexing vectors.
    #[must_use]
    pub const fn idx(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for ModelIdx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "model {}", self.0)
    }
}

/// A request. `slot` is reused after every subserver has freed the request's share; `generation` tells the users of a slot apart.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RequestId {
    /// Dense index below the largest number of requests ever in the system at once.
    pub slot: u32,
    /// Counts the requests that have used this slot before.
    pub generation: u32,
}

impl RequestId {
    /// The slot as a `usize`, for indexing vectors.
    #[must_use]
    pub const fn idx(self) -> usize {
        self.slot as usize
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "request {}.{}", self.slot, self.generation)
    }
}

/// A step of one subserver, counted from 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct StepId(pub u64);
