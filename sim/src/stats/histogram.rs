//! Histograms in bounded memory: latencies in nanoseconds and small counts.

use hdrhistogram::Histogram;

/// The largest latency that a [`LatencyHistogram`] tells apart: 2^50 - 1 ns, about 13 days. Longer ones are counted here.
pub const CEILING_NS: u64 = (1 << 50) - 1;
/// The largest value that a [`CountHistogram`] counts on its own.
pub const COUNT_MAX: u32 = 4_096;

/// Latencies in nanoseconds: quantiles within 1 %, the mean exact, about 45 KB whatever is recorded.
///
/// The buckets are log-linear, at least 128 to each doubling, so a quantile is read with a relative error below 0.8 %.
/// A latency above [`CEILING_NS`] is counted as that and in [`Self::clamped`]; the mean, the smallest and the largest
/// still use its true value.
///
/// ```
/// use handoff_sim::stats::LatencyHistogram;
///
/// let mut latency = LatencyHistogram::new();
/// (1..=1_000).for_each(|us| latency.record(us * 1_000));
/// assert_eq!(latency.mean_ns(), Some(500_500.0));
/// let p90_ns = latency.p90_ns().unwrap();
/// assert!(p90_ns.abs_diff(900_000) <= 9_000);
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct LatencyHistogram {
    buckets: Histogram<u64>,
    sum_ns: u128,
    clamped: u64,
    min_ns: u64,
    max_ns: u64,
}

impl LatencyHistogram {
    /// An empty histogram.
    #[must_use]
    pub fn new() -> Self {
        let buckets = Histogram::new_with_bounds(1, CEILING_NS, 2).expect("the bounds are legal constants");
        Self { buckets, sum_ns: 0, clamped: 0, min_ns: u64::MAX, max_ns: 0 }
    }

    /// Counts one latency.
    #[inline]
    pub fn record(&mut self, ns: u64) {
        self.buckets.saturating_record(ns.min(CEILING_NS));
        self.sum_ns += u128::from(ns);
        self.clamped += u64::from(ns > CEILING_NS);
        self.min_ns = self.min_ns.min(ns);
        self.max_ns = self.max_ns.max(ns);
    }

    /// Adds all latencies of `other`.
    pub fn merge(&mut self, other: &Self) {
        self.buckets.add(&other.buckets).expect("all histograms have the same bounds");
        self.sum_ns += other.sum_ns;
        self.clamped += other.clamped;
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// Forgets everything, as at the end of the warm-up, and keeps the memory.
    pub fn reset(&mut self) {
        self.buckets.reset();
        (self.sum_ns, self.clamped, self.min_ns, self.max_ns) = (0, 0, u64::MAX, 0);
    }

    /// How many latencies were counted.
    #[must_use]
    pub fn n(&self) -> u64 {
        self.buckets.len()
    }

    /// How many of them were above [`CEILING_NS`]. If any, quantiles up there are too small.
    #[must_use]
    pub fn clamped(&self) -> u64 {
        self.clamped
    }

    /// The exact sum in nanoseconds.
    #[must_use]
    pub fn sum_ns(&self) -> u128 {
        self.sum_ns
    }

    /// The exact mean in nanoseconds; `None` if empty.
    #[must_use]
    pub fn mean_ns(&self) -> Option<f64> {
        (self.n() > 0).then(|| self.sum_ns as f64 / self.n() as f64)
    }

    /// The exact smallest latency in nanoseconds; `None` if empty.
    #[must_use]
    pub fn min_ns(&self) -> Option<u64> {
        (self.n() > 0).then_some(self.min_ns)
    }

    /// The exact largest latency in nanoseconds; `None` if empty.
    #[must_use]
    pub fn max_ns(&self) -> Option<u64> {
        (self.n() > 0).then_some(self.max_ns)
    }

    /// The smallest latency that at least a share `quantile` of the latencies does not exceed, in nanoseconds, read from
    /// the middle of its bucket; `None` if empty. A `quantile` outside 0 to 1 is taken as the nearer end.
    #[must_use]
    pub fn quantile_ns(&self, quantile: f64) -> Option<u64> {
        let bucket_ns = self.buckets.value_at_quantile(quantile.clamp(0.0, 1.0));
        // The middle of the bucket may lie beyond the extremes, which are known exactly.
        (self.n() > 0).then(|| self.buckets.median_equivalent(bucket_ns).clamp(self.min_ns, self.max_ns))
    }

    /// The median in nanoseconds; `None` if empty.
    #[must_use]
    pub fn p50_ns(&self) -> Option<u64> {
        self.quantile_ns(0.50)
    }

    /// The 90th percentile in nanoseconds; `None` if empty.
    #[must_use]
    pub fn p90_ns(&self) -> Option<u64> {
        self.quantile_ns(0.90)
    }

    /// The 99th percentile in nanoseconds; `None` if empty.
    #[must_use]
    pub fn p99_ns(&self) -> Option<u64> {
        self.quantile_ns(0.99)
    }
}

impl Default for LatencyHistogram {
    fn default() -> Self {
        Self::new()
    }
}

/// Counts of small whole numbers, such as batch sizes: one counter per value up to [`COUNT_MAX`], one for all beyond; the
/// mean is exact.
///
/// ```
/// use handoff_sim::stats::CountHistogram;
///
/// let mut rows = CountHistogram::new();
/// [4, 4, 1].into_iter().for_each(|n_rows| rows.record(n_rows));
/// assert_eq!(rows.iter().collect::<Vec<_>>(), [(1, 1), (4, 2)]);
/// assert_eq!(rows.mean(), Some(3.0));
/// ```
#[derive(Clone, Default, Debug)]
pub struct CountHistogram {
    /// Occurrences by value; as long as the largest value so far asked for.
    counts: Vec<u64>,
    tail: u64,
    n: u64,
    sum: u128,
    max: u32,
}

impl CountHistogram {
    /// An empty histogram.
    #[must_use]
    pub const fn new() -> Self {
        Self { counts: Vec::new(), tail: 0, n: 0, sum: 0, max: 0 }
    }

    /// Counts one value.
    #[inline]
    pub fn record(&mut self, value: u32) {
        self.n += 1;
        self.sum += u128::from(value);
        self.max = self.max.max(value);
        if value > COUNT_MAX {
            self.tail += 1;
            return;
        }
        let value_idx = value as usize;
        if value_idx >= self.counts.len() {
            self.counts.resize(value_idx + 1, 0);
        }
        self.counts[value_idx] += 1;
    }

    /// Adds all values of `other`.
    pub fn merge(&mut self, other: &Self) {
        if self.counts.len() < other.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        for (count, added) in self.counts.iter_mut().zip(&other.counts) {
            *count += added;
        }
        self.tail += other.tail;
        self.n += other.n;
        self.sum += other.sum;
        self.max = self.max.max(other.max);
    }

    /// Forgets everything, as at the end of the warm-up, and keeps the memory.
    pub fn reset(&mut self) {
        self.counts.fill(0);
        (self.tail, self.n, self.sum, self.max) = (0, 0, 0, 0);
    }

    /// How many values were counted.
    #[must_use]
    pub const fn n(&self) -> u64 {
        self.n
    }

    /// How often `value` was counted; 0 beyond [`COUNT_MAX`], see [`Self::tail`].
    #[must_use]
    pub fn count(&self, value: u32) -> u64 {
        self.counts.get(value as usize).copied().unwrap_or(0)
    }

    /// How many values were above [`COUNT_MAX`].
    #[must_use]
    pub const fn tail(&self) -> u64 {
        self.tail
    }

    /// The exact mean; `None` if empty.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        (self.n > 0).then(|| self.sum as f64 / self.n as f64)
    }

    /// The exact largest value; `None` if empty.
    #[must_use]
    pub fn max(&self) -> Option<u32> {
        (self.n > 0).then_some(self.max)
    }

    /// The values up to [`COUNT_MAX`] that occurred, ascending, with their number of occurrences.
    pub fn iter(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        (0..).zip(self.counts.iter().copied()).filter(|(_, count)| *count > 0)
    }
}

/// Equal if the same values were counted equally often, however much memory is set aside.
impl PartialEq for CountHistogram {
    fn eq(&self, other: &Self) -> bool {
        (self.tail, self.n, self.sum, self.max) == (other.tail, other.n, other.sum, other.max)
            && self.iter().eq(other.iter())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn latencies(values_ns: &[u64]) -> LatencyHistogram {
        let mut histogram = LatencyHistogram::new();
        values_ns.iter().for_each(|ns| histogram.record(*ns));
        histogram
    }

    fn counts(values: &[u32]) -> CountHistogram {
        let mut histogram = CountHistogram::new();
        values.iter().for_each(|value| histogram.record(*value));
        histogram
    }

    /// Latencies over the whole range, each magnitude as likely as the next.
    fn any_latency() -> impl Strategy<Value = u64> {
        (0_u32..51, any::<u64>()).prop_map(|(bits, ns)| ns & ((1 << bits) - 1) & CEILING_NS)
    }

    #[test]
    fn an_empty_histogram_has_no_values() {
        let empty = LatencyHistogram::default();
        assert_eq!((empty.n(), empty.mean_ns(), empty.min_ns(), empty.max_ns()), (0, None, None, None));
        assert_eq!((empty.p50_ns(), empty.p99_ns()), (None, None));
        assert_eq!((CountHistogram::new().mean(), CountHistogram::new().max()), (None, None));
    }

    #[test]
    fn a_single_value_is_every_quantile() {
        for ns in [0, 1, 999, 27_900_001, CEILING_NS] {
            let one = latencies(&[ns]);
            assert_eq!([one.p50_ns(), one.p90_ns(), one.p99_ns(), one.quantile_ns(0.0)], [Some(ns); 4]);
        }
    }

    #[test]
    fn latencies_beyond_the_ceiling_are_clamped_and_counted() {
        let huge = latencies(&[1, CEILING_NS, CEILING_NS + 1, u64::MAX]);
        assert_eq!((huge.n(), huge.clamped(), huge.max_ns()), (4, 2, Some(u64::MAX)));
        assert_eq!(huge.sum_ns(), 1 + 2 * u128::from(CEILING_NS) + 1 + u128::from(u64::MAX));
        assert!(huge.quantile_ns(1.0).unwrap() >= CEILING_NS / 100 * 99);
        // Only clamped values: the quantile may not fall below the smallest of them.
        assert_eq!(latencies(&[u64::MAX]).p50_ns(), Some(u64::MAX));
    }

    #[test]
    fn memory_stays_as_documented() {
        assert!(LatencyHistogram::new().buckets.distinct_values() * size_of::<u64>() <= 48 * 1024);
    }

    #[test]
    fn large_counts_go_to_the_tail() {
        let rows = counts(&[0, COUNT_MAX, COUNT_MAX + 1, u32::MAX]);
        assert_eq!((rows.n(), rows.tail(), rows.max()), (4, 2, Some(u32::MAX)));
        assert_eq!(rows.iter().collect::<Vec<_>>(), [(0, 1), (COUNT_MAX, 1)]);
        assert_eq!((rows.count(0), rows.count(5), rows.count(u32::MAX)), (1, 0, 0));
        assert_eq!(rows.counts.len(), COUNT_MAX as usize + 1);
    }

    proptest! {
        #[test]
        fn quantiles_are_within_1_percent_and_the_mean_is_exact(
            mut values_ns in prop::collection::vec(any_latency(), 1..300),
            quantile in 0.0..=1.0,
        ) {
            let histogram = latencies(&values_ns);
            let sum: u128 = values_ns.iter().map(|ns| u128::from(*ns)).sum();
            prop_assert_eq!(histogram.sum_ns(), sum);
            prop_assert_eq!(histogram.mean_ns(), Some(sum as f64 / values_ns.len() as f64));
            values_ns.sort_unstable();
            for quantile in [0.5, 0.9, 0.99, 0.0, 1.0, quantile] {
                let rank = ((quantile * values_ns.len() as f64).ceil() as usize).max(1);
                let exact_ns = values_ns[rank - 1];
                let read_ns = histogram.quantile_ns(quantile).unwrap();
                let error = read_ns.abs_diff(exact_ns) as f64;
                prop_assert!(error <= 0.01 * exact_ns as f64, "p{}: {} for {}", quantile, read_ns, exact_ns);
            }
        }

        #[test]
        fn merging_equals_recording_together(
            left in prop::collection::vec(any::<u64>(), 0..50),
            right in prop::collection::vec(any::<u64>(), 0..50),
        ) {
            let mut merged = latencies(&left);
            merged.merge(&latencies(&right));
            prop_assert_eq!(&merged, &latencies(&[left, right].concat()));
            merged.reset();
            prop_assert_eq!(merged, LatencyHistogram::new());
        }

        #[test]
        fn merging_counts_equals_recording_together(
            left in prop::collection::vec(0_u32..5_000, 0..50),
            right in prop::collection::vec(0_u32..5_000, 0..50),
        ) {
            let mut merged = counts(&left);
            merged.merge(&counts(&right));
            let all = [left, right].concat();
            prop_assert_eq!(&merged, &counts(&all));
            let sum: u64 = all.iter().map(|value| u64::from(*value)).sum();
            prop_assert_eq!(merged.mean(), (!all.is_empty()).then(|| sum as f64 / all.len() as f64));
            prop_assert_eq!(merged.iter().map(|(_, count)| count).sum::<u64>() + merged.tail(), all.len() as u64);
            merged.reset();
            prop_assert_eq!(merged, CountHistogram::new());
        }
    }
}
