//! A step time that does not depend on the batch.

use super::{BatchShape, NS_PER_MS, ParameterError, StepCost, StepLatency, step_cost};

/// Every step takes the same time: the published analytical model's assumption, good while reading weights dominates.
///
/// ```
/// use handoff_sim::cost::{BatchShape, ConstantLatency, StepLatency};
/// let small = ConstantLatency::from_ms(6.0)?;
/// assert_eq!(small.step(&BatchShape::decode(4, 512)).ns, 6_000_000);
/// # Ok::<(), handoff_sim::cost::ParameterError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ConstantLatency(StepCost);

impl ConstantLatency {
    /// A step of `constant_ms` milliseconds.
    ///
    /// # Errors
    /// If `constant_ms` is not finite or not larger than 0.
    pub fn from_ms(constant_ms: f64) -> Result<Self, ParameterError> {
        let ms = ParameterError::check_positive("constant_ms", constant_ms)?;
        Ok(Self(step_cost(ms * NS_PER_MS, false)))
    }
}

impl StepLatency for ConstantLatency {
    #[inline]
    fn step(&self, _: &BatchShape) -> StepCost {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_the_same_for_every_batch() {
        let latency = ConstantLatency::from_ms(27.9).unwrap();
        for shape in [BatchShape::decode(1, 0), BatchShape::extend(64, 128, 2048)] {
            assert_eq!(latency.step(&shape), StepCost { ns: 27_900_000, extrapolated: false });
        }
    }

    #[test]
    fn refuses_what_is_no_duration() {
        for value in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let error = ConstantLatency::from_ms(value).unwrap_err();
            assert_eq!(
                error.to_string(),
                format!("`constant_ms` is {value} but must be a finite number larger than 0")
            );
        }
    }

    #[test]
    fn time_always_advances() {
        assert_eq!(ConstantLatency::from_ms(1e-9).unwrap().step(&BatchShape::decode(1, 0)).ns, 1);
    }
}
