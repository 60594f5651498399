//! The analytical model: what routing between models yields, without running the simulator.
//!
//! | module | gives | for |
//! |---|---|---|
//! | [`bounds`] | upper bounds on cycles per second | every policy, affine step times |
//! | [`renewal`] | exact throughput | the R2R law on one exclusive device; full synchrony anywhere; one request |
//! | [`chain`] | exact throughput, batches, waits | any number of models and thresholds with constant or batch-dependent step times on a grid |
//! | [`mean_field`] | approximate throughput | two models on separate devices, any threshold of the large one |
//! | [`fluid`] | approximate throughput under a binding threshold | all three placements |
//! | [`lambert`] | the best threshold in closed form | two models on one exclusive device |
//! | [`orbits`] | the periodic regimes of fixed visits | `every { small, large }` |
//! | [`break_even`] | where routing stops paying | against large-only |
//! | [`tune`] | the best thresholds of a scenario | whatever can be simulated |
//!
//! Common conventions. A **cycle** of a request is one visit to every model it uses, and yields `tokens_per_cycle` tokens. Times are seconds. The
//! number of requests in the system (`concurrency`) is fixed: a finished request is replaced at once, and prompts are ignored. A formula that is
//! asked for a value outside its range answers with an error that says why, never with a number.
//!
//! The two-model formulas speak of the *small* model, at which a visit takes several steps, and of the *large* one. Under the **R2R law** every small
//! step proposes a token; with probability p it is thrown away and the large model makes that token in one step, so a cycle has 1/p small steps, one
//! large step and yields 1/p tokens.

pub mod bounds;
pub mod break_even;
pub mod chain;
pub mod fluid;
pub mod lambert;
pub mod mean_field;
pub mod orbits;
pub mod renewal;
pub mod tune;

/// A step time that grows linearly with the batch: `fixed_s + per_row_s x rows`. The first part is what reading the weights and launching cost, the
/// second what one request adds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Affine {
    /// Time of a step that does not depend on its batch, in seconds.
    pub fixed_s: f64,
    /// Time that each row of the batch adds, in seconds.
    pub per_row_s: f64,
}

impl Affine {
    /// A step time that does not depend on the batch.
    #[must_use]
    pub const fn constant(fixed_s: f64) -> Self {
        Self { fixed_s, per_row_s: 0.0 }
    }

    /// Time of a step with `rows` rows, in seconds. The mean batch of a model need not be a whole number.
    #[must_use]
    pub fn step_s(self, rows: f64) -> f64 {
        self.fixed_s + self.per_row_s * rows
    }

    /// # Errors
    /// If either part is negative or not finite, or if both are 0.
    pub(crate) fn check(self, fixed: &'static str, per_row: &'static str) -> Result<(), OutOfRange> {
        not_negative(fixed, self.fixed_s)?;
        not_negative(per_row, self.per_row_s)?;
        require(
            self.fixed_s + self.per_row_s > 0.0,
            fixed,
            self.fixed_s,
            "more than 0 if `per_row_s` is 0: a step takes time",
        )
    }
}

/// The R2R law of visits: each small step is thrown away with probability `p`, and the large model makes its token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RoutingLaw {
    /// Probability that a step of the small model sends its request to the large one, in (0, 1].
    pub p: f64,
}

impl RoutingLaw {
    /// Probability that a small step keeps its token, 1 - p.
    #[must_use]
    pub fn q(self) -> f64 {
        1.0 - self.p
    }

    /// Rate of leaving the small model per step, -ln(1 - p). Infinite at p = 1.
    #[must_use]
    pub fn leaving_rate(self) -> f64 {
        -(-self.p).ln_1p()
    }

    /// Probability that at least one of `requests` independent requests is routed in a step, 1 - q^requests, without cancellation at small p.
    #[must_use]
    pub fn any_routed(self, requests: f64) -> f64 {
        if requests == 0.0 { 0.0 } else { -(requests * (-self.p).ln_1p()).exp_m1() }
    }

    /// # Errors
    /// If p is not in (0, 1].
    pub(crate) fn check(self) -> Result<(), OutOfRange> {
        require(
            self.p > 0.0 && self.p <= 1.0,
            "p",
            self.p,
            "in (0, 1]: a request that never leaves the small model has no cycle",
        )
    }
}

/// A formula was asked for a value outside the range in which it holds.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("`{quantity}` is {value} but must be {expected}")]
pub struct OutOfRange {
    /// The quantity that is out of range.
    pub quantity: &'static str,
    /// Its value.
    pub value: f64,
    /// What it should have been, and why.
    pub expected: &'static str,
}

/// An error about `quantity` unless `holds`.
pub(crate) fn require(
    holds: bool,
    quantity: &'static str,
    value: f64,
    expected: &'static str,
) -> Result<(), OutOfRange> {
    if holds { Ok(()) } else { Err(OutOfRange { quantity, value, expected }) }
}

/// An error unless `value` is finite and not negative.
pub(crate) fn not_negative(quantity: &'static str, value: f64) -> Result<(), OutOfRange> {
    require(value >= 0.0 && value.is_finite(), quantity, value, "finite and not negative")
}

/// An error unless at least one request is in the system.
pub(crate) fn at_least_one(concurrency: u32) -> Result<(), OutOfRange> {
    require(concurrency >= 1, "concurrency", f64::from(concurrency), "at least 1: an empty system makes no tokens")
}

/// The root of the increasing function `f` in [low, high], to the last bit. The caller knows that f(low) <= 0 <= f(high).
pub(crate) fn bisect(mut low: f64, mut high: f64, f: impl Fn(f64) -> f64) -> f64 {
    loop {
        let middle = low + (high - low) / 2.0;
        if middle <= low || middle >= high {
            return middle;
        }
        if f(middle) > 0.0 { high = middle } else { low = middle }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_routed_keeps_its_digits_at_small_p() {
        let law = RoutingLaw { p: 1e-12 };
        assert!((law.any_routed(3.0) / 3e-12 - 1.0).abs() < 1e-11);
        assert_eq!(RoutingLaw { p: 1.0 }.any_routed(2.0), 1.0);
        assert_eq!(RoutingLaw { p: 1.0 }.any_routed(0.0), 0.0);
    }

    #[test]
    fn bisect_finds_a_root_to_the_last_bit() {
        let root = bisect(0.0, 2.0, |x| x * x - 2.0);
        assert!((root - 2_f64.sqrt()).abs() <= 4e-16);
    }

    #[test]
    fn an_error_says_the_quantity_its_value_and_what_was_expected() {
        let error = RoutingLaw { p: 0.0 }.check().unwrap_err();
        assert!(error.to_string().starts_with("`p` is 0 but must be in (0, 1]"));
        assert!(Affine::constant(0.0).check("small.fixed_s", "small.per_row_s").is_err());
        assert!(Affine { fixed_s: f64::NAN, per_row_s: 1.0 }.check("small.fixed_s", "small.per_row_s").is_err());
    }
}
