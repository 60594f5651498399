//! Time as both drivers count it.

use core::fmt;
use core::ops::{Add, Sub};

/// Nanoseconds since the start of the run. Produced by the simulator's virtual clock and by the real driver's clock alike.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The start of the run.
    pub const ZERO: Self = Self(0);
    /// Later than any event of a run.
    pub const MAX: Self = Self(u64::MAX);

    /// A time stamp from nanoseconds since the start of the run.
    #[must_use]
    pub const fn from_ns(ns: u64) -> Self {
        Self(ns)
    }

    /// Nanoseconds since the start of the run.
    #[must_use]
    pub const fn as_ns(self) -> u64 {
        self.0
    }

    /// Nanoseconds from `earlier` to `self`, 0 if `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// Moves a time stamp later by nanoseconds; saturates at [`Timestamp::MAX`].
impl Add<u64> for Timestamp {
    type Output = Self;
    fn add(self, ns: u64) -> Self {
        Self(self.0.saturating_add(ns))
    }
}

/// The nanoseconds between two time stamps, 0 if the right one is later.
impl Sub for Timestamp {
    type Output = u64;
    fn sub(self, earlier: Self) -> u64 {
        self.since(earlier)
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:06} ms", self.0 / 1_000_000, self.0 % 1_000_000)
    }
}
