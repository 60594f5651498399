//! Monotone curves through measured differences.

use std::collections::BTreeMap;

use crate::cost::interpolate::{bracket, lerp};

/// How much time an extra takes: 0 at 0, never falling, linear between its knots and flat outside.
#[derive(Clone, Debug)]
pub(super) struct Curve {
    extra: Vec<f64>,
    ns: Vec<f64>,
}

impl Curve {
    /// The least-squares monotone curve through (extra, nanoseconds) pairs, with 0 at extra 0.
    pub(super) fn pooled(differences: &[(i64, f64)]) -> Self {
        // Below the reference the curve runs the other way: mirrored, it is an ordinary one.
        let below = monotone(differences.iter().filter(|(extra, _)| *extra < 0).map(|&(extra, ns)| (-extra, -ns)));
        let above = monotone(differences.iter().filter(|(extra, _)| *extra > 0).copied());
        let mirrored = below.into_iter().rev().map(|(extra, ns)| (-extra, -ns));
        let (extra, ns) = mirrored.chain([(0.0, 0.0)]).chain(above).unzip();
        Self { extra, ns }
    }

    pub(super) fn at(&self, extra: f64) -> f64 {
        let (idx, weight) = bracket(&self.extra, extra);
        lerp(&self.ns, idx, weight)
    }

    /// The largest extra that was measured.
    pub(super) fn end(&self) -> f64 {
        self.extra[self.extra.len() - 1]
    }
}

/// Averages what belongs to the same extra, then pools adjacent violators; no value is below 0.
fn monotone(differences: impl Iterator<Item = (i64, f64)>) -> Vec<(f64, f64)> {
    let mut by_extra: BTreeMap<i64, (f64, f64)> = BTreeMap::new();
    for (extra, ns) in differences {
        let (sum, n) = by_extra.entry(extra).or_default();
        *sum += ns;
        *n += 1.0;
    }
    // A block is a run of neighbouring extras that share one value: (sum, points, extras).
    let mut blocks: Vec<(f64, f64, usize)> = Vec::new();
    for &(sum, n) in by_extra.values() {
        let mut block = (sum, n, 1);
        while let Some(&(before_sum, before_n, before_extras)) = blocks.last()
            && before_sum / before_n >= block.0 / block.1
        {
            block = (before_sum + block.0, before_n + block.1, before_extras + block.2);
            blocks.pop();
        }
        blocks.push(block);
    }
    let values = blocks.iter().flat_map(|&(sum, n, extras)| std::iter::repeat_n((sum / n).max(0.0), extras));
    by_extra.keys().map(|&extra| extra as f64).zip(values).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn averages_and_pools_violators() {
        // At 3 the mean is 15; 9 at 12 is below it, so both become (10 + 20 + 9) / 3 = 13.
        let curve = Curve::pooled(&[(3, 10.0), (12, 9.0), (3, 20.0), (20, 14.0)]);
        let values: Vec<f64> = [0.0, 1.5, 3.0, 12.0, 16.0, 20.0, 99.0].map(|extra| curve.at(extra)).to_vec();
        assert_eq!(values, [0.0, 6.5, 13.0, 13.0, 13.5, 14.0, 14.0]);
        assert_eq!(curve.end(), 20.0);
    }

    #[test]
    fn never_below_zero_above_nor_above_zero_below() {
        let curve = Curve::pooled(&[(3, -5.0), (6, 4.0), (-8, -6.0), (-4, 2.0)]);
        let values: Vec<f64> = [-9.0, -8.0, -6.0, -4.0, 0.0, 3.0, 4.5, 6.0].map(|extra| curve.at(extra)).to_vec();
        assert_eq!(values, [-6.0, -6.0, -3.0, 0.0, 0.0, 0.0, 2.0, 4.0]);
    }

    #[test]
    fn nothing_measured_is_zero_everywhere() {
        let curve = Curve::pooled(&[]);
        assert_eq!((curve.at(-1.0), curve.at(0.0), curve.at(7.0), curve.end()), (0.0, 0.0, 0.0, 0.0));
    }
}
