//! The interval of a mean from independent values.

use statrs::distribution::{ContinuousCDF, StudentsT};

/// A mean with the half-width of its 95 % interval.
///
/// ```
/// use handoff_sim::stats::Estimate;
///
/// let estimate = Estimate::of(&[10.0, 12.0, 14.0]);
/// assert_eq!(estimate.mean, 12.0);
/// // t with 2 degrees of freedom is 4.3027, s = 2: 4.3027 * 2 / sqrt(3) = 4.968.
/// assert!((estimate.half_width.unwrap() - 4.968).abs() < 1e-3);
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Estimate {
    /// The mean, in the unit of the values; NaN if there was no value.
    pub mean: f64,
    /// Half the width of the 95 % interval, in the unit of the values; `None` with fewer than two values.
    pub half_width: Option<f64>,
    /// How many values the mean rests on.
    pub n: usize,
}

impl Estimate {
    /// The mean of `values` and its two-sided 95 % Student-t interval, `mean +- t * s / sqrt(n)` with n - 1 degrees of
    /// freedom. The values must be independent, as replications with different seeds are; for a correlated series see
    /// [`BatchMeans`](super::BatchMeans).
    #[must_use]
    pub fn of(values: &[f64]) -> Self {
        let (mean, deviation) = mean_and_deviation(values);
        let half_width = deviation.map(|s| t_critical(values.len() - 1, 0.95) * s / (values.len() as f64).sqrt());
        Self { mean, half_width, n: values.len() }
    }

    /// The lower end of the interval; `None` with fewer than two values.
    #[must_use]
    pub fn low(&self) -> Option<f64> {
        self.half_width.map(|half_width| self.mean - half_width)
    }

    /// The upper end of the interval; `None` with fewer than two values.
    #[must_use]
    pub fn high(&self) -> Option<f64> {
        self.half_width.map(|half_width| self.mean + half_width)
    }

    /// The half-width over the absolute mean. 0 if the half-width is 0; infinite if only the mean is 0; `None` with
    /// fewer than two values.
    #[must_use]
    pub fn relative_half_width(&self) -> Option<f64> {
        self.half_width.map(|half_width| if half_width == 0.0 { 0.0 } else { half_width / self.mean.abs() })
    }
}

/// The two-sided critical value of Student's t: a share `confidence` of the distribution with `freedom` degrees of
/// freedom lies within plus and minus this value.
///
/// # Panics
/// If `freedom` is 0 or `confidence` is not between 0 and 1.
#[must_use]
pub fn t_critical(freedom: usize, confidence: f64) -> f64 {
    assert!(confidence > 0.0 && confidence < 1.0, "confidence {confidence} is not between 0 and 1");
    students_t(freedom).inverse_cdf(0.5 + confidence / 2.0)
}

/// Student's t distribution, centred and of scale 1.
///
/// # Panics
/// If `freedom` is 0.
pub(super) fn students_t(freedom: usize) -> StudentsT {
    StudentsT::new(0.0, 1.0, freedom as f64).expect("at least one degree of freedom")
}

/// The mean (NaN if empty) and the sample standard deviation (divisor n - 1, `None` below two values). In two passes,
/// so that values that all lie far from 0 keep their digits.
pub(super) fn mean_and_deviation(values: &[f64]) -> (f64, Option<f64>) {
    if let [first, rest @ ..] = values
        && first.is_finite()
        && rest.iter().all(|value| value == first)
    {
        // The sum would round; equal values have no spread, and the stopping rule depends on seeing that.
        return (*first, (!rest.is_empty()).then_some(0.0));
    }
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (mean, (values.len() >= 2).then(|| (squares / (n - 1.0)).sqrt()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::{Purpose, Stream};

    #[test]
    fn critical_values_match_the_printed_table() {
        // Two-sided values of Student's t as printed in statistical tables to four digits after the point.
        for (freedom, confidence, expected) in [
            (1, 0.95, 12.7062),
            (2, 0.95, 4.3027),
            (4, 0.95, 2.7764),
            (9, 0.95, 2.2622),
            (19, 0.95, 2.0930),
            (29, 0.95, 2.0452),
            (9, 0.90, 1.8331),
            (9, 0.99, 3.2498),
            (1_000, 0.95, 1.9623),
        ] {
            let critical = t_critical(freedom, confidence);
            assert!((critical - expected).abs() < 6e-5, "t({freedom}, {confidence}) = {critical}, not {expected}");
        }
    }

    #[test]
    fn interval_matches_a_hand_computed_case() {
        // Mean 5, squares 9 + 1 + 1 + 1 + 0 + 0 + 4 + 16 = 32, s = sqrt(32 / 7) = 2.13809,
        // t_7 = 2.36462, half-width 2.36462 * 2.13809 / sqrt(8) = 1.78749.
        let estimate = Estimate::of(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]);
        assert_eq!((estimate.mean, estimate.n), (5.0, 8));
        assert!((estimate.half_width.unwrap() - 1.78749).abs() < 1e-5);
        assert!((estimate.low().unwrap() - 3.21251).abs() < 1e-5);
        assert!((estimate.high().unwrap() - 6.78749).abs() < 1e-5);
        assert!((estimate.relative_half_width().unwrap() - 0.357498).abs() < 1e-6);
    }

    #[test]
    fn few_values_have_no_interval() {
        let none = Estimate::of(&[]);
        assert!(none.mean.is_nan() && none.half_width.is_none() && none.n == 0);
        assert_eq!(Estimate::of(&[3.0]), Estimate { mean: 3.0, half_width: None, n: 1 });
    }

    #[test]
    fn equal_values_have_an_interval_of_width_0() {
        assert_eq!(Estimate::of(&[0.1; 7]), Estimate { mean: 0.1, half_width: Some(0.0), n: 7 });
        assert_eq!(Estimate::of(&[0.0; 7]).relative_half_width(), Some(0.0));
    }

    #[test]
    fn interval_covers_the_true_mean_in_95_percent_of_experiments() {
        // Ten values per experiment, each the sum of twelve uniform numbers: near enough to normal, with mean 6.
        let mut stream = Stream::new(11, Purpose::Jitter, 0);
        let mut covered = 0;
        for _ in 0..2_000 {
            let values: Vec<f64> = (0..10).map(|_| (0..12).map(|_| stream.unit()).sum()).collect();
            let estimate = Estimate::of(&values);
            if estimate.low().unwrap() <= 6.0 && 6.0 <= estimate.high().unwrap() {
                covered += 1;
            }
        }
        let coverage = f64::from(covered) / 2_000.0;
        assert!((0.935..=0.965).contains(&coverage), "coverage {coverage}");
    }
}
