//! Draws from precomputed integer thresholds: one 32-bit number decides among any number of alternatives.

use crate::rng::Stream;

/// 2^32: the number of values of a 32-bit draw.
const DRAWS: u64 = 1 << 32;

/// A discrete distribution over values. Alternatives of weight 0 are left out, so they can never be drawn; every other one gets at
/// least one of the 2^32 draws. A probability is met within 2^-32.
#[derive(Clone, Debug)]
pub(super) struct Discrete<T> {
    /// Value `k` is meant by the draws from `cuts[k - 1]` (or 0) up to, not including, `cuts[k]` (or 2^32). Strictly rising.
    cuts: Box<[u32]>,
    /// One more than `cuts`.
    values: Box<[T]>,
}

impl<T: Copy> Discrete<T> {
    /// The distribution that takes each value with a probability in proportion to its weight. Weights must be finite and not negative,
    /// with at least one above 0.
    pub(super) fn new(weighted: impl IntoIterator<Item = (f64, T)>) -> Self {
        let (weights, values): (Vec<f64>, Vec<T>) = weighted.into_iter().filter(|&(weight, _)| weight > 0.0).unzip();
        assert!(!values.is_empty(), "a distribution has at least one value of positive weight");
        let total: f64 = weights.iter().sum();
        let mut below = 0.0;
        let mut previous = 0;
        let cuts = (1..values.len()).map(|k| {
            below += weights[k - 1];
            // Each alternative before and after this cut keeps at least one draw.
            let draws_after = (values.len() - k) as u64;
            let cut = nearest_draw(below / total).clamp(previous + 1, DRAWS - draws_after);
            previous = cut;
            u32::try_from(cut).expect("at least one draw lies after the cut")
        });
        Self { cuts: cuts.collect(), values: values.into() }
    }

    /// The value that a 32-bit draw means.
    #[inline]
    pub(super) fn at(&self, draw: u32) -> T {
        // Counting instead of searching: no branch depends on the draw.
        let k = match *self.cuts {
            [] => 0,
            [cut] => usize::from(draw >= cut),
            ref cuts => cuts.iter().map(|&cut| usize::from(draw >= cut)).sum(),
        };
        self.values[k]
    }

    /// Draws a value: one 32-bit draw, or none if there is only one value.
    #[inline]
    pub(super) fn draw(&self, stream: &mut Stream) -> T {
        if self.cuts.is_empty() { self.values[0] } else { self.at(stream.next_u32()) }
    }

    /// The value at the quantile `(index mod n) / n`.
    pub(super) fn quantile(&self, index: u32, n: u32) -> T {
        let n = n.max(1);
        // Rounded up, because a cut is a rounded quantile: this way the quantile k/n never falls short of a cut at k/n.
        let draw = (u64::from(index % n) * DRAWS).div_ceil(u64::from(n));
        self.at(u32::try_from(draw).expect("(n - 1) / n of 2^32 lies at least 1 below 2^32"))
    }
}

/// An event of a given probability: certain, impossible, or one 32-bit draw.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Coin {
    /// Draws below it mean that the event happens.
    below: u32,
    certain: Option<bool>,
}

impl Coin {
    /// The event of probability `probability`, in [0, 1]. Met within 2^-32; neither 0 nor 1 unless the probability is.
    pub(super) fn new(probability: f64) -> Self {
        let below = nearest_draw(probability).clamp(1, DRAWS - 1);
        let certain = match probability {
            p if p <= 0.0 => Some(false),
            p if p >= 1.0 => Some(true),
            _ => None,
        };
        Self { below: u32::try_from(below).expect("clamped below 2^32"), certain }
    }

    /// Whether the event happens: one 32-bit draw, or none if that is certain.
    #[inline]
    pub(super) fn toss(self, stream: &mut Stream) -> bool {
        match self.certain {
            Some(happens) => happens,
            None => stream.next_u32() < self.below,
        }
    }
}

/// The number of draws out of 2^32 that comes nearest to a probability.
fn nearest_draw(probability: f64) -> u64 {
    // Within 0..=2^32, which is far inside both types, because the probability is within [0, 1] but for rounding.
    (probability.clamp(0.0, 1.0) * DRAWS as f64).round() as u64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::rng::Purpose;

    fn stream() -> Stream {
        Stream::new(1, Purpose::Route, 0)
    }

    #[test]
    fn cuts_lie_at_cumulative_probabilities() {
        let discrete = Discrete::new([(1.0, 'a'), (0.0, 'b'), (2.0, 'c'), (1.0, 'd')]);
        assert_eq!(*discrete.cuts, [1 << 30, 3 << 30]);
        assert_eq!(discrete.at(0), 'a');
        assert_eq!(discrete.at((1 << 30) - 1), 'a');
        assert_eq!(discrete.at(1 << 30), 'c');
        assert_eq!(discrete.at(u32::MAX), 'd');
    }

    #[test]
    fn a_sure_value_draws_nothing() {
        let mut drawn = stream();
        assert_eq!(Discrete::new([(0.0, 'a'), (1.0, 'b')]).draw(&mut drawn), 'b');
        assert!(Coin::new(1.0).toss(&mut drawn));
        assert!(!Coin::new(0.0).toss(&mut drawn));
        assert_eq!(drawn.next_u32(), stream().next_u32());
    }

    #[test]
    fn a_rare_value_keeps_one_draw() {
        let last = Discrete::new([(1.0, 'a'), (1e-300, 'b')]);
        assert_eq!((last.at(u32::MAX - 1), last.at(u32::MAX)), ('a', 'b'));
        let first = Discrete::new([(1e-300, 'a'), (1e-300, 'b'), (1.0, 'c')]);
        assert_eq!((first.at(0), first.at(1), first.at(2)), ('a', 'b', 'c'));
    }

    #[test]
    fn a_coin_is_met_within_one_draw() {
        assert_eq!(Coin::new(0.5).below, 1 << 31);
        assert_eq!(Coin::new(1e-300).below, 1);
        assert_eq!(Coin::new(1.0 - 1e-16).below, u32::MAX);
        let mut drawn = stream();
        let happened = (0..100_000).filter(|_| Coin::new(0.3).toss(&mut drawn)).count() as f64;
        assert!((happened - 30_000.0).abs() < 4.0 * (100_000.0_f64 * 0.3 * 0.7).sqrt(), "{happened}");
    }

    proptest! {
        #[test]
        fn quantiles_of_an_even_distribution_visit_each_value_once(n in 1_u32..257) {
            let discrete = Discrete::new((0..n).map(|value| (1.0 / f64::from(n), value)));
            for index in 0..n {
                prop_assert_eq!(discrete.quantile(index, n), index);
            }
        }

        #[test]
        fn every_positive_weight_can_be_drawn_in_proportion(weights in prop::collection::vec(0.0_f64..1.0, 1..20)) {
            prop_assume!(weights.iter().sum::<f64>() > 0.0);
            let discrete = Discrete::new(weights.iter().copied().zip(0..));
            let edges: Vec<u64> = [0].into_iter().chain(discrete.cuts.iter().map(|&cut| u64::from(cut))).chain([DRAWS]).collect();
            let total: f64 = weights.iter().sum();
            for (k, &value) in discrete.values.iter().enumerate() {
                let width = edges[k + 1] - edges[k];
                let exact = weights[value] / total * DRAWS as f64;
                prop_assert!(width >= 1 && (width as f64 - exact).abs() <= 20.0, "{} {}", width, exact);
            }
        }
    }
}
