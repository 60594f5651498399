//! Numbers that stand for many samples.

/// With fewer samples the 99th percentile is left open: it would only be the largest of a few.
const SAMPLES_FOR_P99: usize = 20;

/// What a profile keeps of the samples of one point.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Times {
    /// Mean, ns.
    pub mean_ns: f64,
    /// Median, ns.
    pub p50_ns: f64,
    /// 99th percentile by the nearest rank, ns: the smallest sample that at least 99 % do not exceed. Below 100 samples it is the largest;
    /// `None` below 20.
    pub p99_ns: Option<f64>,
    /// Samples.
    pub n: u32,
}

impl Times {
    /// The numbers of some samples, ns; `None` if there are none.
    ///
    /// ```
    /// use handoff_backend::profile::Times;
    /// let times = Times::of(&[30, 10, 20, 80]).unwrap();
    /// assert_eq!((times.mean_ns, times.p50_ns, times.p99_ns, times.n), (35.0, 25.0, None, 4));
    /// ```
    #[must_use]
    pub fn of(samples_ns: &[u64]) -> Option<Self> {
        let mut sorted = samples_ns.to_vec();
        sorted.sort_unstable();
        let n = sorted.len();
        if n == 0 {
            return None;
        }
        // A profile has no time of 0, and a clock may be too coarse to see one.
        let at = |idx: usize| (sorted[idx] as f64).max(1.0);
        let p99_ns = (n >= SAMPLES_FOR_P99).then(|| at((n * 99).div_ceil(100) - 1));
        Some(Self {
            mean_ns: mean(&sorted).max(1.0),
            p50_ns: (at((n - 1) / 2) + at(n / 2)) / 2.0,
            p99_ns,
            n: u32::try_from(n).unwrap_or(u32::MAX),
        })
    }
}

/// The mean of some samples; 0 without any.
pub(super) fn mean(samples_ns: &[u64]) -> f64 {
    let sum: u128 = samples_ns.iter().map(|&ns| u128::from(ns)).sum();
    sum as f64 / samples_ns.len().max(1) as f64
}

/// The median of some numbers, all finite; 0 without any.
pub(super) fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_unstable_by(f64::total_cmp);
    match numbers.len() {
        0 => 0.0,
        n => (numbers[(n - 1) / 2] + numbers[n / 2]) / 2.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_the_nearest_rank() {
        let samples: Vec<u64> = (1..=200).rev().collect();
        let times = Times::of(&samples).unwrap();
        assert_eq!((times.mean_ns, times.p50_ns, times.p99_ns, times.n), (100.5, 100.5, Some(198.0), 200));
        let times = Times::of(&samples[..199]).unwrap();
        // 199 samples from 2 to 200: the 198th of them (0.99 x 199 = 197.01) is 199.
        assert_eq!((times.p50_ns, times.p99_ns), (101.0, Some(199.0)));
        assert_eq!(Times::of(&samples[..20]).unwrap().p99_ns, Some(200.0));
        assert_eq!(Times::of(&samples[..19]).unwrap().p99_ns, None);
    }

    #[test]
    fn no_samples_are_no_times_and_no_time_is_zero() {
        assert_eq!(Times::of(&[]), None);
        assert_eq!(Times::of(&[0, 0]), Some(Times { mean_ns: 1.0, p50_ns: 1.0, p99_ns: None, n: 2 }));
        assert_eq!((mean(&[]), mean(&[u64::MAX; 3])), (0.0, u64::MAX as f64));
    }

    #[test]
    fn medians_of_odd_and_even_counts() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 3.0, 2.0]), 2.5);
        assert_eq!(median(vec![]), 0.0);
    }
}
