//! A step time that is linear in the batch.

use super::{BatchShape, NS_PER_MS, NS_PER_US, ParameterError, StepCost, StepLatency, step_cost};

/// fixed + per row x rows + per new token x new tokens + per KV token x KV tokens, the last two summed over the rows.
///
/// A decode row counts one new token, so its marginal cost is per row + per new token.
///
/// ```
/// use handoff_sim::cost::{AffineLatency, BatchShape, StepLatency};
/// let large = AffineLatency::new(16.0, 0.15, 0.0, 0.0)?;
/// assert_eq!(large.step(&BatchShape::decode(4, 512)).ns, 16_600_000);
/// # Ok::<(), handoff_sim::cost::ParameterError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct AffineLatency {
    fixed_ns: f64,
    per_row_ns: f64,
    per_new_token_ns: f64,
    per_kv_token_ns: f64,
}

impl AffineLatency {
    /// The four coefficients, in the units of a scenario file: milliseconds, but microseconds per KV token.
    ///
    /// # Errors
    /// If a coefficient is negative or not finite, or if a step could take no time at all because `fixed_ms`,
    /// `per_row_ms` and `per_new_token_ms` are all 0.
    pub fn new(
        fixed_ms: f64,
        per_row_ms: f64,
        per_new_token_ms: f64,
        per_kv_token_us: f64,
    ) -> Result<Self, ParameterError> {
        let latency = Self {
            fixed_ns: ParameterError::check_not_negative("fixed_ms", fixed_ms)? * NS_PER_MS,
            per_row_ns: ParameterError::check_not_negative("per_row_ms", per_row_ms)? * NS_PER_MS,
            per_new_token_ns: ParameterError::check_not_negative("per_new_token_ms", per_new_token_ms)? * NS_PER_MS,
            per_kv_token_ns: ParameterError::check_not_negative("per_kv_token_us", per_kv_token_us)? * NS_PER_US,
        };
        if latency.fixed_ns + latency.per_row_ns + latency.per_new_token_ns == 0.0 {
            let expected = "larger than 0 if `per_row_ms` and `per_new_token_ms` are 0";
            return Err(ParameterError { field: "fixed_ms", value: fixed_ms, expected });
        }
        Ok(latency)
    }
}

impl StepLatency for AffineLatency {
    #[inline]
    fn step(&self, shape: &BatchShape) -> StepCost {
        let ns = self.fixed_ns
            + self.per_row_ns * f64::from(shape.rows)
            + self.per_new_token_ns * shape.new_tokens as f64
            + self.per_kv_token_ns * shape.kv_tokens as f64;
        step_cost(ns, false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adds_the_four_terms() {
        let latency = AffineLatency::new(3.0, 0.02, 0.005, 0.01).unwrap();
        // Three decode rows and one extend over 13 tokens, all on 500 KV tokens:
        // 3 + 0.02 x 4 + 0.005 x (3 + 13) ms + 0.01 x 2000 us = 3 + 0.08 + 0.08 + 0.02 ms.
        let shape = BatchShape { rows: 4, decode_rows: 3, new_tokens: 16, kv_tokens: 2000 };
        assert_eq!(latency.step(&shape), StepCost { ns: 3_180_000, extrapolated: false });
    }

    #[test]
    fn refuses_what_is_no_coefficient() {
        let error = |fixed, row, new, kv| AffineLatency::new(fixed, row, new, kv).unwrap_err().to_string();
        assert_eq!(error(-1.0, 0.0, 0.0, 0.0), "`fixed_ms` is -1 but must be a finite number, 0 or more");
        assert_eq!(error(1.0, f64::NAN, 0.0, 0.0), "`per_row_ms` is NaN but must be a finite number, 0 or more");
        assert_eq!(error(1.0, 0.0, -0.5, 0.0), "`per_new_token_ms` is -0.5 but must be a finite number, 0 or more");
        assert_eq!(
            error(1.0, 0.0, 0.0, f64::INFINITY),
            "`per_kv_token_us` is inf but must be a finite number, 0 or more"
        );
        assert_eq!(
            error(0.0, 0.0, 0.0, 1.0),
            "`fixed_ms` is 0 but must be larger than 0 if `per_row_ms` and `per_new_token_ms` are 0"
        );
    }
}
