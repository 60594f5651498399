//! What things cost: step latency, its jitter, co-run rates, hops, routers and the host.
//!
//! A step's duration comes from one [`StepLatency`] per model:
//!
//! | type | a step takes | used for |
//! |---|---|---|
//! | [`ConstantLatency`] | the same time always | exact cases; the published analytical model |
//! | [`AffineLatency`] | fixed + per row + per new token + per KV token | theory, where closed forms need it |
//! | [`RooflineLatency`] | the larger of memory time and arithmetic time, plus an overhead | hardware that was never measured |
//! | [`TableLatency`] | what a [`Profile`] says | hardware that was measured |
//!
//! A [`Profile`] is all that the simulator learns from a machine. Everything read from it ([`TableLatency`],
//! [`CorunRates`], [`HostCost`], [`HopLatency`], [`RouterLatency`], [`Jitter::measured`]) either stays within what was
//! measured, says that it extrapolated, or is a [`LookupError`] that names what the profile holds instead. A time that
//! nobody measured never enters silently.
//!
//! Jitter is separate from the latency because constant step times with a common divisor bias admission delays:
//! returning requests then meet the peer's step at a lattice of phases instead of at all of them. Always simulate with
//! some jitter when a result is compared with a real machine.

mod affine;
mod bucket;
mod constant;
mod corun;
mod hop;
mod host;
mod interpolate;
mod jitter;
mod profile;
mod roofline;
mod router;
mod shapes;
mod table;

pub use affine::AffineLatency;
pub use bucket::Buckets;
pub use constant::ConstantLatency;
pub use corun::{CorunRate, CorunRates};
pub use hop::HopLatency;
pub use host::HostCost;
pub use jitter::Jitter;
pub use profile::{
    COLUMNS, CorunPoint, HopPoint, HostPart, HostPoint, LookupError, Measured, Profile, ProfileError, RouterPoint,
    StepPoint,
};
pub use roofline::RooflineLatency;
pub use router::RouterLatency;
pub use shapes::{DeviceSpec, ModelShape};
pub use table::{Selection, TableLatency};

use std::fmt::Debug;

/// The size of one step's batch, as far as its cost depends on it.
///
/// For every row, `new_tokens` is at least 1, so the sum is at least `rows`. A batch has at least one row.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct BatchShape {
    /// Requests in the batch.
    pub rows: u32,
    /// Those of them that decode: one new token each.
    pub decode_rows: u32,
    /// New tokens, summed over the rows; a decode row counts 1.
    pub new_tokens: u64,
    /// KV tokens kept from before this step, summed over the rows.
    pub kv_tokens: u64,
}

impl BatchShape {
    /// `rows` decode rows, each on a kept prefix of `kv_tokens_per_row` tokens.
    #[must_use]
    pub fn decode(rows: u32, kv_tokens_per_row: u32) -> Self {
        Self {
            rows,
            decode_rows: rows,
            new_tokens: u64::from(rows),
            kv_tokens: u64::from(rows) * u64::from(kv_tokens_per_row),
        }
    }

    /// `rows` extend rows, each over `new_tokens_per_row` new tokens on a kept prefix of `kv_tokens_per_row` tokens.
    #[must_use]
    pub fn extend(rows: u32, new_tokens_per_row: u32, kv_tokens_per_row: u32) -> Self {
        Self {
            rows,
            decode_rows: 0,
            new_tokens: u64::from(rows) * u64::from(new_tokens_per_row),
            kv_tokens: u64::from(rows) * u64::from(kv_tokens_per_row),
        }
    }
}

/// How long a step takes, and how well that is known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepCost {
    /// Nanoseconds; at least 1, so that simulated time always advances.
    pub ns: u64,
    /// Whether the value lies outside of what was measured. Always false for the models that need no measurement.
    pub extrapolated: bool,
}

/// The duration of a step, without jitter. Called once a step, so it must be fast and must not allocate.
pub trait StepLatency: Debug + Send + Sync {
    /// The cost of one forward over a batch of this shape.
    fn step(&self, shape: &BatchShape) -> StepCost;
}

/// A number given by the user lies outside of what its meaning allows.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[error("`{field}` is {value} but must be {expected}")]
pub struct ParameterError {
    /// What the number is for, named as in a scenario.
    pub field: &'static str,
    /// The number.
    pub value: f64,
    /// What is allowed.
    pub expected: &'static str,
}

impl ParameterError {
    /// `value` if it is finite and not negative.
    fn check_not_negative(field: &'static str, value: f64) -> Result<f64, Self> {
        let is_fine = value.is_finite() && value >= 0.0;
        if is_fine { Ok(value) } else { Err(Self { field, value, expected: "a finite number, 0 or more" }) }
    }

    /// `value` if it is finite and larger than 0.
    fn check_positive(field: &'static str, value: f64) -> Result<f64, Self> {
        let is_fine = value.is_finite() && value > 0.0;
        if is_fine { Ok(value) } else { Err(Self { field, value, expected: "a finite number larger than 0" }) }
    }
}

const NS_PER_US: f64 = 1e3;
const NS_PER_MS: f64 = 1e6;
const NS_PER_S: f64 = 1e9;

/// Rounds a duration to whole nanoseconds.
///
/// A float-to-integer `as` saturates: a negative duration becomes 0 and one beyond `u64` its maximum.
#[inline]
fn round_ns(ns: f64) -> u64 {
    (ns + 0.5) as u64
}

/// A measured or modelled step time, which is never below 1 ns.
#[inline]
fn step_cost(ns: f64, extrapolated: bool) -> StepCost {
    StepCost { ns: round_ns(ns).max(1), extrapolated }
}
