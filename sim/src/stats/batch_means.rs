//! The interval of a mean from one long run.

use super::interval::{Estimate, mean_and_deviation};

/// The one-sided 5 % point of the standard normal distribution.
const NORMAL_95: f64 = 1.6449;

/// The mean of one long run by non-overlapping batch means: the run is cut into 20 equal batches, and the means
/// of the batches are treated as independent values (19 degrees of freedom).
///
/// Replications are simpler and are to be preferred where they are cheap; this is for long runs on a real device. Batches
/// that are too short are correlated and make the interval too narrow, so look at [`BatchMeans::correlated`].
///
/// ```
/// use handoff_sim::stats::BatchMeans;
///
/// let series: Vec<f64> = (0..400).map(|i| 100.0 + f64::from(i * 37 % 11)).collect();
/// let means = BatchMeans::of(&series).unwrap();
/// assert!((means.estimate.mean - 105.0).abs() < 0.1);
/// assert!(!means.correlated);
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct BatchMeans {
    /// The mean of the batch means with its interval.
    pub estimate: Estimate,
    /// The autocorrelation of neighbouring batch means (lag 1); 0 if all are equal.
    pub lag_1: f64,
    /// Whether the batch means are positively correlated at the 5 % level: the run is too short for its interval to be
    /// trusted.
    pub correlated: bool,
}

impl BatchMeans {
    /// The number of batches. Beyond 30 there is little to gain, below 10 intervals widen (Schmeiser, *Batch size effects
    /// in the analysis of simulation output*, Operations Research 30(3), 1982).
    pub const N_BATCHES: usize = 20;

    /// The batch means of a series of observations over equal times, warm-up already cut off. A remainder that does not
    /// fill the batches is left out at the front, where a transient would linger. `None` with fewer observations than
    /// batches.
    ///
    /// The check for correlation is von Neumann's ratio as used for batch means by Fishman (*Grouping observations in
    /// digital simulation*, Management Science 24(5), 1978): with k independent normal batch means,
    /// `1 - sum (y_i - y_{i+1})^2 / (2 sum (y_i - mean)^2)` has mean 0 and variance (k - 2) / (k^2 - 1).
    #[must_use]
    pub fn of(series: &[f64]) -> Option<Self> {
        let per_batch = series.len() / Self::N_BATCHES;
        if per_batch == 0 {
            return None;
        }
        let whole = &series[series.len() % Self::N_BATCHES..];
        let means: Vec<f64> = whole.chunks_exact(per_batch).map(|batch| mean_and_deviation(batch).0).collect();
        let estimate = Estimate::of(&means);
        let squares: f64 = means.iter().map(|mean| (mean - estimate.mean).powi(2)).sum();
        let (lag_1, correlated) = if squares > 0.0 {
            let products: f64 =
                means.windows(2).map(|pair| (pair[0] - estimate.mean) * (pair[1] - estimate.mean)).sum();
            let steps: f64 = means.windows(2).map(|pair| (pair[0] - pair[1]).powi(2)).sum();
            let k = Self::N_BATCHES as f64;
            let limit = NORMAL_95 * ((k - 2.0) / (k * k - 1.0)).sqrt();
            (products / squares, 1.0 - steps / (2.0 * squares) > limit)
        } else {
            (0.0, false)
        };
        Some(Self { estimate, lag_1, correlated })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::{Purpose, Stream};

    fn autoregressive(stream: &mut Stream, n: usize, coefficient: f64) -> Vec<f64> {
        let mut state = 0.0;
        (0..n)
            .map(|_| {
                state = coefficient * state + (0..12).map(|_| stream.unit()).sum::<f64>() - 6.0;
                state
            })
            .collect()
    }

    #[test]
    fn a_remainder_is_left_out_at_the_front() {
        let mut series = vec![1e9; 19];
        series.extend((0..20).flat_map(|batch| [f64::from(batch), f64::from(batch) + 1.0]));
        let means = BatchMeans::of(&series).unwrap();
        // Batch means 0.5, 1.5, .. 19.5: mean 10, s = sqrt(35), t_19 = 2.093024, half-width 2.76881.
        assert_eq!((means.estimate.mean, means.estimate.n), (10.0, 20));
        assert!((means.estimate.half_width.unwrap() - 2.76881).abs() < 1e-5);
        // A straight line: sum of (i - 9.5)(i - 8.5) for i = 0..18 is 565.25, over sum of (i - 9.5)^2 = 665.
        assert!((means.lag_1 - 0.85).abs() < 1e-9, "{}", means.lag_1);
        assert!(means.correlated);
    }

    #[test]
    fn needs_one_observation_per_batch() {
        assert_eq!(BatchMeans::of(&[1.0; 19]), None);
        let constant = BatchMeans::of(&[0.1; 20]).unwrap();
        assert_eq!((constant.estimate.half_width, constant.lag_1, constant.correlated), (Some(0.0), 0.0, false));
    }

    #[test]
    fn alternating_batches_are_anticorrelated_and_not_flagged() {
        let means = BatchMeans::of(&[1.0, -1.0].repeat(10)).unwrap();
        assert!((means.lag_1 + 0.95).abs() < 1e-9);
        assert!(!means.correlated);
    }

    #[test]
    fn long_batches_cover_and_short_batches_are_flagged() {
        let mut stream = Stream::new(5, Purpose::Jitter, 0);
        let (mut covered, mut flagged_long, mut flagged_short) = (0, 0, 0);
        for _ in 0..500 {
            let long = BatchMeans::of(&autoregressive(&mut stream, 4_000, 0.8)).unwrap();
            let half_width = long.estimate.half_width.unwrap();
            covered += u32::from(long.estimate.mean.abs() <= half_width);
            flagged_long += u32::from(long.correlated);
            let short = BatchMeans::of(&autoregressive(&mut stream, 60, 0.8)).unwrap();
            flagged_short += u32::from(short.correlated);
        }
        assert!((460..=490).contains(&covered), "covered {covered} of 500");
        assert!(flagged_long <= 50, "{flagged_long} of 500 long runs flagged, about 5 % expected");
        assert!(flagged_short >= 250, "{flagged_short} of 500 short runs flagged");
    }
}
