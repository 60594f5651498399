//! When enough replications have been run.

use super::interval::Estimate;

/// The sequential rule for replications: run at least `r_min`, then go on until the 95 % interval is narrow enough, at
/// most `r_max`.
///
/// "Narrow enough" is `t * s / sqrt(R) / |mean| <= g / (1 + g)`, where `g` is the wanted relative precision. The divisor
/// 1 + g turns an error relative to the estimate into one relative to the true mean (Law, *Simulation Modeling and
/// Analysis*, section 9.4.1). Lavenberg and Sauer (1977) found the coverage of such rules sound from a relative width
/// of 5 % down.
///
/// ```
/// use handoff_sim::stats::{StoppingRule, Verdict};
///
/// let rule = StoppingRule::new(0.05, 3, 30)?;
/// assert_eq!(rule.decide(&[100.0, 104.0]), Verdict::Continue);
/// assert_eq!(rule.decide(&[100.0, 104.0, 96.0]), Verdict::Continue);
/// assert_eq!(rule.decide(&[100.0, 104.0, 96.0, 99.0, 101.0]), Verdict::Precise);
/// # Ok::<(), handoff_sim::stats::StoppingRuleError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct StoppingRule {
    precision: f64,
    r_min: usize,
    r_max: usize,
}

/// What a [`StoppingRule`] says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Run another replication.
    Continue,
    /// Stop: the interval is as narrow as wanted.
    Precise,
    /// Stop: `r_max` replications are done and the interval is still too wide. The result is to be flagged.
    GaveUp,
}

impl Verdict {
    /// Whether the result must be flagged as less precise than wanted.
    #[must_use]
    pub const fn flagged(self) -> bool {
        matches!(self, Self::GaveUp)
    }
}

/// Why a [`StoppingRule`] cannot be made.
#[derive(Clone, Copy, PartialEq, Debug, thiserror::Error)]
pub enum StoppingRuleError {
    /// The precision is no usable relative half-width.
    #[error("`precision` is {0}, expected a number above 0 and below 1")]
    Precision(f64),
    /// An interval needs two values.
    #[error("`r_min` is {0}, expected at least 2 replications: a single one has no interval")]
    TooFew(usize),
    /// The most is below the least.
    #[error("`r_max` is {r_max}, expected at least `r_min`, which is {r_min}")]
    Reversed {
        /// The smallest number of replications.
        r_min: usize,
        /// The largest number of replications.
        r_max: usize,
    },
}

impl StoppingRule {
    /// The smallest number of replications of [`StoppingRule::with_precision`].
    pub const R_MIN: usize = 10;
    /// The largest number of replications of [`StoppingRule::with_precision`].
    pub const R_MAX: usize = 30;

    /// A rule that stops at a relative half-width of `precision` (0.01 is 1 %), after `r_min` to `r_max` replications.
    ///
    /// # Errors
    /// If `precision` is not between 0 and 1, `r_min` is below 2, or `r_max` is below `r_min`.
    pub fn new(precision: f64, r_min: usize, r_max: usize) -> Result<Self, StoppingRuleError> {
        if !(precision > 0.0 && precision < 1.0) {
            return Err(StoppingRuleError::Precision(precision));
        }
        if r_min < 2 {
            return Err(StoppingRuleError::TooFew(r_min));
        }
        if r_max < r_min {
            return Err(StoppingRuleError::Reversed { r_min, r_max });
        }
        Ok(Self { precision, r_min, r_max })
    }

    /// A rule for `precision` with the usual numbers of replications, [`Self::R_MIN`] to [`Self::R_MAX`].
    ///
    /// # Errors
    /// If `precision` is not between 0 and 1.
    pub fn with_precision(precision: f64) -> Result<Self, StoppingRuleError> {
        Self::new(precision, Self::R_MIN, Self::R_MAX)
    }

    /// The wanted relative half-width.
    #[must_use]
    pub const fn precision(&self) -> f64 {
        self.precision
    }

    /// The smallest number of replications: these can run side by side before the rule is first asked.
    #[must_use]
    pub const fn r_min(&self) -> usize {
        self.r_min
    }

    /// The largest number of replications.
    #[must_use]
    pub const fn r_max(&self) -> usize {
        self.r_max
    }

    /// Whether to go on after replications that yielded `values`, one each, in the order of the replications.
    ///
    /// If replications run side by side, ask for each prefix in turn and drop what lies beyond the first that stops: the
    /// result then does not depend on how many ran at once.
    ///
    /// Values that are not finite never count as precise.
    #[must_use]
    pub fn decide(&self, values: &[f64]) -> Verdict {
        if values.len() < self.r_min {
            return Verdict::Continue;
        }
        let limit = self.precision / (1.0 + self.precision);
        // Written so that NaN is not precise.
        let precise = Estimate::of(values).relative_half_width().is_some_and(|width| width <= limit);
        if precise {
            Verdict::Precise
        } else if values.len() >= self.r_max {
            Verdict::GaveUp
        } else {
            Verdict::Continue
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule() -> StoppingRule {
        StoppingRule::new(0.1, 3, 5).unwrap()
    }

    #[test]
    fn never_stops_before_the_smallest_number() {
        assert_eq!(rule().decide(&[]), Verdict::Continue);
        assert_eq!(rule().decide(&[7.0, 7.0]), Verdict::Continue);
        assert_eq!(rule().decide(&[7.0, 7.0, 7.0]), Verdict::Precise);
    }

    #[test]
    fn stops_exactly_at_the_limit() {
        // Values m - x, m, m + x: s = x, half-width 4.302653 x / sqrt(3) = 2.484138 x. The limit for 0.1 is 1 / 11, so
        // with m = 100 the largest x is 100 / 11 / 2.484138 = 3.65958.
        assert_eq!(rule().decide(&[100.0 - 3.6595, 100.0, 100.0 + 3.6595]), Verdict::Precise);
        assert_eq!(rule().decide(&[100.0 - 3.6597, 100.0, 100.0 + 3.6597]), Verdict::Continue);
    }

    #[test]
    fn gives_up_at_the_largest_number_only_if_still_imprecise() {
        let wide = [1.0, 9.0, 1.0, 9.0, 1.0];
        assert_eq!(rule().decide(&wide[..4]), Verdict::Continue);
        assert_eq!(rule().decide(&wide), Verdict::GaveUp);
        assert_eq!(rule().decide(&[5.0; 5]), Verdict::Precise);
        assert!(Verdict::GaveUp.flagged() && !Verdict::Precise.flagged() && !Verdict::Continue.flagged());
    }

    #[test]
    fn odd_values_never_count_as_precise() {
        assert_eq!(rule().decide(&[-1.0, 0.0, 1.0]), Verdict::Continue);
        assert_eq!(rule().decide(&[f64::NAN; 3]), Verdict::Continue);
        assert_eq!(rule().decide(&[f64::NAN; 5]), Verdict::GaveUp);
        assert_eq!(rule().decide(&[f64::INFINITY; 5]), Verdict::GaveUp);
        // A negative mean is as good as a positive one, and constant zeros are known exactly.
        assert_eq!(rule().decide(&[-100.0, -100.1, -99.9]), Verdict::Precise);
        assert_eq!(rule().decide(&[0.0; 3]), Verdict::Precise);
    }

    #[test]
    fn refuses_rules_that_make_no_sense() {
        let text = |result: Result<StoppingRule, StoppingRuleError>| result.unwrap_err().to_string();
        assert_eq!(text(StoppingRule::with_precision(0.0)), "`precision` is 0, expected a number above 0 and below 1");
        assert_eq!(
            text(StoppingRule::with_precision(f64::NAN)),
            "`precision` is NaN, expected a number above 0 and below 1"
        );
        assert_eq!(
            text(StoppingRule::new(0.1, 1, 5)),
            "`r_min` is 1, expected at least 2 replications: a single one has no interval"
        );
        assert_eq!(text(StoppingRule::new(0.1, 6, 5)), "`r_max` is 5, expected at least `r_min`, which is 6");
    }
}
