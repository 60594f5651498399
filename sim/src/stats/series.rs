//! Tokens over time in bounded memory.

/// Tokens per time bin, with at most a given number of bins.
///
/// When a token comes later than the last bin allowed, neighbouring bins are merged in pairs and the width of a bin
/// doubles, so a run of any length fits and keeps at least half the bins' resolution. The width is a power of two of
/// nanoseconds: finding the bin is then a shift, and two series can always be brought to one width.
///
/// ```
/// use handoff_sim::stats::BinnedSeries;
///
/// let mut series = BinnedSeries::new(1_000, 4); // rounded up to 1024 ns
/// series.add(0, 1);
/// series.add(1_500, 2);
/// series.add(5_000, 3); // beyond 4 bins of 1024 ns: now 2048 ns each
/// assert_eq!((series.width_ns(), series.bins()), (2_048, &[3, 0, 3][..]));
/// assert_eq!(series.complete_bins(6_000), [3.0, 0.0]);
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BinnedSeries {
    /// A bin is 2^shift nanoseconds wide.
    shift: u32,
    bins_max: usize,
    bins: Vec<u64>,
}

impl BinnedSeries {
    /// An empty series with bins of `width_ns` nanoseconds, rounded up to a power of two (at least 1 ns), and at most
    /// `bins_max` of them (at least 2).
    #[must_use]
    pub fn new(width_ns: u64, bins_max: usize) -> Self {
        let shift = width_ns.max(1).checked_next_power_of_two().map_or(63, u64::trailing_zeros);
        Self { shift, bins_max: bins_max.max(2), bins: Vec::new() }
    }

    /// Counts `tokens` at `time_ns` nanoseconds after the start of the run. Constant time, but for the merges, whose
    /// cost is spread over a doubling of the run's length. A bin saturates at `u64::MAX` tokens.
    #[inline]
    pub fn add(&mut self, time_ns: u64, tokens: u64) {
        let bin = self.bin_mut(time_ns);
        *bin = bin.saturating_add(tokens);
    }

    /// The width of a bin in nanoseconds; a power of two.
    #[must_use]
    pub const fn width_ns(&self) -> u64 {
        1 << self.shift
    }

    /// Tokens per bin from time 0 on; ends with the last bin that something was counted in.
    #[must_use]
    pub fn bins(&self) -> &[u64] {
        &self.bins
    }

    /// All tokens counted.
    #[must_use]
    pub fn tokens(&self) -> u64 {
        self.tokens_from(0)
    }

    /// Tokens counted in bin `bin_idx` and later ones.
    #[must_use]
    pub fn tokens_from(&self, bin_idx: usize) -> u64 {
        self.bins.iter().skip(bin_idx).fold(0, |sum, tokens| sum.saturating_add(*tokens))
    }

    /// Tokens per bin for all bins that lie wholly before `end_ns`, silent ones included: what
    /// [`mser5`](super::mser5) wants. Merges first if `end_ns` lies beyond the last bin allowed, so read
    /// [`Self::width_ns`] afterwards.
    #[must_use]
    pub fn complete_bins(&mut self, end_ns: u64) -> Vec<f64> {
        self.add(end_ns, 0);
        let complete = usize::try_from(end_ns >> self.shift).expect("`add` made the index of this bin fit");
        self.bins[..complete].iter().map(|tokens| *tokens as f64).collect()
    }

    /// Adds the tokens of `other` bin by bin, at the wider of the two widths.
    pub fn absorb(&mut self, other: &Self) {
        while self.shift < other.shift {
            self.merge_pairs();
        }
        for (bin_idx, tokens) in other.bins.iter().enumerate() {
            self.add((bin_idx as u64) << other.shift, *tokens);
        }
    }

    /// The bin that holds `time_ns`, after merging until there is one.
    #[inline]
    fn bin_mut(&mut self, time_ns: u64) -> &mut u64 {
        while time_ns >> self.shift >= self.bins_max as u64 {
            self.merge_pairs();
        }
        let bin_idx = (time_ns >> self.shift) as usize;
        if bin_idx >= self.bins.len() {
            self.bins.resize(bin_idx + 1, 0);
        }
        &mut self.bins[bin_idx]
    }

    #[cold]
    fn merge_pairs(&mut self) {
        self.shift += 1;
        let merged = self.bins.len().div_ceil(2);
        for bin_idx in 0..merged {
            let right = self.bins.get(2 * bin_idx + 1).copied().unwrap_or(0);
            self.bins[bin_idx] = self.bins[2 * bin_idx].saturating_add(right);
        }
        self.bins.truncate(merged);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn widths_round_up_to_a_power_of_two() {
        for (asked_ns, width_ns) in
            [(0, 1), (1, 1), (3, 4), (1_024, 1_024), (1_000_000, 1_048_576), (u64::MAX, 1 << 63)]
        {
            assert_eq!(BinnedSeries::new(asked_ns, 10).width_ns(), width_ns);
        }
    }

    #[test]
    fn the_last_moment_of_time_fits() {
        let mut series = BinnedSeries::new(1, 0);
        series.add(7, 1);
        series.add(u64::MAX, 2);
        assert_eq!((series.width_ns(), series.bins()), (1 << 63, &[1, 2][..]));
        let mut odd = BinnedSeries::new(1, 3);
        odd.add(2, 5);
        odd.add(3, 6);
        assert_eq!((odd.width_ns(), odd.bins()), (2, &[0, 11][..]));
    }

    #[test]
    fn silent_bins_count_as_complete() {
        let mut series = BinnedSeries::new(4, 8);
        series.add(5, 3);
        assert_eq!(series.complete_bins(16), [0.0, 3.0, 0.0, 0.0]);
        assert_eq!(series.complete_bins(15), [0.0, 3.0, 0.0]);
        assert_eq!(series.complete_bins(40), [3.0, 0.0, 0.0, 0.0, 0.0]);
        assert_eq!(BinnedSeries::new(4, 8).complete_bins(3), [0.0; 0]);
    }

    proptest! {
        #[test]
        fn merging_conserves_tokens_and_their_place(
            width_ns in 1_u64..5_000,
            bins_max in 2_usize..50,
            adds in prop::collection::vec((0_u64..10_000_000_000, 0_u64..1_000), 0..200),
        ) {
            let mut series = BinnedSeries::new(width_ns, bins_max);
            for (time_ns, tokens) in &adds {
                series.add(*time_ns, *tokens);
            }
            prop_assert!(series.bins().len() <= bins_max);
            prop_assert_eq!(series.tokens(), adds.iter().map(|add| add.1).sum::<u64>());
            for (bin_idx, tokens) in series.bins().iter().enumerate() {
                let inside = adds.iter().filter(|add| add.0 / series.width_ns() == bin_idx as u64);
                prop_assert_eq!(*tokens, inside.map(|add| add.1).sum::<u64>());
                prop_assert_eq!(series.tokens_from(bin_idx), series.bins()[bin_idx..].iter().sum::<u64>());
            }
        }

        #[test]
        fn absorbing_equals_adding_to_one_series(
            left in prop::collection::vec((0_u64..1_000_000, 0_u64..1_000), 0..50),
            right in prop::collection::vec((0_u64..1_000_000, 0_u64..1_000), 0..50),
            widths_ns in (1_u64..5_000, 1_u64..5_000),
        ) {
            let fill = |width_ns: u64, adds: &[(u64, u64)]| {
                let mut series = BinnedSeries::new(width_ns, 16);
                adds.iter().for_each(|add| series.add(add.0, add.1));
                series
            };
            let mut merged = fill(widths_ns.0, &left);
            merged.absorb(&fill(widths_ns.1, &right));
            let mut together = fill(merged.width_ns(), &[left, right].concat());
            // A series that only ever saw early tokens may still end in fewer bins.
            let n_bins = merged.bins().len().max(together.bins().len()) as u64;
            merged.add((n_bins.max(1) - 1) * merged.width_ns(), 0);
            together.add((n_bins.max(1) - 1) * together.width_ns(), 0);
            prop_assert_eq!(merged, together);
        }
    }
}
