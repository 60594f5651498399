//! Intervals of statistics that have no formula for one, by resampling.

use crate::rng::Stream;

/// How to draw a bootstrap interval.
///
/// ```
/// use handoff_sim::rng::{Purpose, Stream};
/// use handoff_sim::stats::{Bootstrap, kendall_tau_b};
///
/// let predicted = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
/// let measured = [1.1, 2.3, 2.2, 4.0, 4.5, 7.0];
/// let tau = |items: &[usize]| {
///     let pick = |values: &[f64]| items.iter().map(|&item| values[item]).collect::<Vec<_>>();
///     kendall_tau_b(&pick(&predicted), &pick(&measured), 0.01)
/// };
/// let mut stream = Stream::new(1, Purpose::Start, 0);
/// let interval = Bootstrap::default().interval(6, &mut stream, tau).unwrap();
/// assert!(interval.low > 0.0 && interval.high == 1.0);
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Bootstrap {
    /// How many resamples are drawn; 1000 or more for an interval of 95 %.
    pub resamples: u32,
    /// The share of resampled values inside the interval, between 0 and 1.
    pub confidence: f64,
}

/// 2000 resamples, 95 %.
impl Default for Bootstrap {
    fn default() -> Self {
        Self { resamples: 2_000, confidence: 0.95 }
    }
}

/// A percentile interval.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct BootstrapInterval {
    /// The lower end, in the unit of the statistic.
    pub low: f64,
    /// The upper end, in the unit of the statistic.
    pub high: f64,
    /// The resamples in which the statistic was defined. If far fewer than were drawn, do not trust the interval.
    pub defined: u32,
}

impl Bootstrap {
    /// The percentile interval of `statistic` over `n` independent items, which it is given as item indices, drawn with
    /// replacement. A resample for which it yields `None` (or NaN) is left out. `None` if that goes for all, `n` is 0, or
    /// `confidence` is not between 0 and 1.
    ///
    /// The same stream gives the same interval.
    ///
    /// Source: Efron and Tibshirani, *An Introduction to the Bootstrap*, 1993, chapter 13.
    pub fn interval(
        &self,
        n: u32,
        stream: &mut Stream,
        statistic: impl FnMut(&[usize]) -> Option<f64>,
    ) -> Option<BootstrapInterval> {
        let items: Vec<[usize; 1]> = (0..n as usize).map(|item| [item]).collect();
        self.cluster_interval(&items, stream, statistic)
    }

    /// As [`Self::interval`], but whole clusters of items are drawn, as many as there are, because the items of a cluster
    /// (the points of one curve) are not independent.
    pub fn cluster_interval(
        &self,
        clusters: &[impl AsRef<[usize]>],
        stream: &mut Stream,
        mut statistic: impl FnMut(&[usize]) -> Option<f64>,
    ) -> Option<BootstrapInterval> {
        let n_clusters = u32::try_from(clusters.len()).ok()?;
        if n_clusters == 0 || !(self.confidence > 0.0 && self.confidence < 1.0) {
            return None;
        }
        let mut items = Vec::new();
        let mut values = Vec::new();
        for _ in 0..self.resamples {
            items.clear();
            for _ in 0..n_clusters {
                items.extend_from_slice(clusters[stream.below(n_clusters) as usize].as_ref());
            }
            values.extend(statistic(&items).filter(|value| !value.is_nan()));
        }
        values.sort_unstable_by(f64::total_cmp);
        let last = values.len().checked_sub(1)?;
        let tail = (1.0 - self.confidence) / 2.0;
        // The same number of values is left out at both ends.
        let left_out = ((tail * values.len() as f64) as usize).min(last / 2);
        let defined = values.len() as u32;
        Some(BootstrapInterval { low: values[left_out], high: values[last - left_out], defined })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Purpose;

    fn stream(seed: u64) -> Stream {
        Stream::new(seed, Purpose::Jitter, 0)
    }

    fn mean(values: &[f64], items: &[usize]) -> Option<f64> {
        Some(items.iter().map(|&item| values[item]).sum::<f64>() / items.len() as f64)
    }

    #[test]
    fn interval_of_a_mean_covers_it_about_as_often_as_it_says() {
        let mut source = stream(1);
        let bootstrap = Bootstrap { resamples: 400, confidence: 0.9 };
        let mut covered = 0;
        for _ in 0..400 {
            let values: Vec<f64> = (0..40).map(|_| source.unit()).collect();
            let interval = bootstrap.interval(40, &mut source, |items| mean(&values, items)).unwrap();
            covered += u32::from(interval.low <= 0.5 && 0.5 <= interval.high);
        }
        // 90 % of 400 is 360; the percentile interval is known to be a little short for 40 values.
        assert!((335..=378).contains(&covered), "covered {covered} of 400");
    }

    #[test]
    fn the_same_stream_gives_the_same_interval() {
        let values = [3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0, 6.0];
        let interval = |seed| Bootstrap::default().interval(8, &mut stream(seed), |items| mean(&values, items));
        assert_eq!(interval(7), interval(7));
        let defined = interval(7).unwrap();
        assert_eq!(defined.defined, 2_000);
        assert!(defined.low < 3.875 && 3.875 < defined.high);
    }

    #[test]
    fn clusters_widen_the_interval_of_dependent_items() {
        // Ten clusters of ten equal values carry ten values' worth of information, not a hundred.
        let values: Vec<f64> = (0..100).map(|item| f64::from(item / 10 * 37 % 10)).collect();
        let clusters: Vec<Vec<usize>> = (0..10).map(|cluster| (10 * cluster..10 * cluster + 10).collect()).collect();
        let bootstrap = Bootstrap::default();
        let width = |interval: BootstrapInterval| interval.high - interval.low;
        let items = bootstrap.interval(100, &mut stream(1), |items| mean(&values, items)).unwrap();
        let whole = bootstrap.cluster_interval(&clusters, &mut stream(1), |items| mean(&values, items)).unwrap();
        assert!(width(whole) > 2.5 * width(items), "{whole:?} {items:?}");
    }

    #[test]
    fn undefined_resamples_are_left_out_and_counted() {
        let bootstrap = Bootstrap::default();
        let only_mixed = |items: &[usize]| items.iter().any(|&item| item != items[0]).then_some(1.0);
        let interval = bootstrap.interval(2, &mut stream(3), only_mixed).unwrap();
        assert_eq!((interval.low, interval.high), (1.0, 1.0));
        assert!((900..1_100).contains(&interval.defined), "{}", interval.defined);
        assert_eq!(bootstrap.interval(2, &mut stream(3), |_| None), None);
        assert_eq!(bootstrap.interval(2, &mut stream(3), |_| Some(f64::NAN)), None);
        assert_eq!(bootstrap.interval(0, &mut stream(3), |_| Some(1.0)), None);
        let certain = Bootstrap { confidence: 1.0, ..bootstrap };
        assert_eq!(certain.interval(2, &mut stream(3), |_| Some(1.0)), None);
    }
}
