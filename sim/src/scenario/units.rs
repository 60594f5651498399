//! From the units of a scenario file to nanoseconds.

/// The longest time a scenario may name: a year, so that sums of times stay far below 2^64 ns.
const NS_MAX: f64 = 366.0 * 86_400.0 * 1e9;

pub(super) const NS_PER_US: f64 = 1e3;
pub(super) const NS_PER_MS: f64 = 1e6;

/// `value` of a unit as nanoseconds, if it is a number from 0 to about a year.
pub(super) fn duration_ns(value: f64, ns_per_unit: f64) -> Option<u64> {
    let ns = value * ns_per_unit;
    // The cast saturates and never wraps; the range check makes it exact to the rounding.
    (0.0..=NS_MAX).contains(&ns).then(|| ns.round() as u64)
}

/// What [`duration_ns`] accepts, as error texts say it.
pub(super) fn duration_expected(unit: &str, ns_per_unit: f64) -> String {
    format!("expected a finite time of 0 or more and at most {} {unit} (a year)", NS_MAX / ns_per_unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_rounded_and_bounded() {
        assert_eq!(duration_ns(27.9, NS_PER_MS), Some(27_900_000));
        assert_eq!(duration_ns(0.0, NS_PER_MS), Some(0));
        assert_eq!(duration_ns(1.0, NS_PER_US), Some(1_000));
        for wrong in [-1e-9, f64::NAN, f64::INFINITY, 1e300, 1e11] {
            assert_eq!(duration_ns(wrong, NS_PER_MS), None, "{wrong}");
        }
    }
}
