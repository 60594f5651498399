//! Whether a prediction puts alternatives in the right order, which is what a choice between them needs.

use std::cmp::Ordering;

/// Kendall's tau-b between two lists of values of the same items, -1 to 1: agreeing pairs minus disagreeing pairs, over
/// the geometric mean of the pairs that are not tied on either side.
///
/// Two values of a list are tied if they differ by at most `tolerance` times the larger of their absolute values (0.01:
/// within 1 %): the order of alternatives closer than the noise means nothing. `None` if the lists differ in length or
/// all pairs of a list are tied, since nothing is then ranked.
///
/// Source: Kendall, *The treatment of ties in ranking problems*, Biometrika 33(3), 1945.
///
/// ```
/// use handoff_sim::stats::kendall_tau_b;
///
/// assert_eq!(kendall_tau_b(&[1.0, 2.0, 3.0], &[10.0, 30.0, 20.0], 0.0), Some(1.0 / 3.0));
/// ```
#[must_use]
pub fn kendall_tau_b(left: &[f64], right: &[f64], tolerance: f64) -> Option<f64> {
    if left.len() != right.len() {
        return None;
    }
    let (mut score, mut left_ranked, mut right_ranked) = (0_i64, 0_u64, 0_u64);
    for first in 0..left.len() {
        for second in first + 1..left.len() {
            let left_order = order(left[first], left[second], tolerance) as i64;
            let right_order = order(right[first], right[second], tolerance) as i64;
            score += left_order * right_order;
            left_ranked += left_order.unsigned_abs();
            right_ranked += right_order.unsigned_abs();
        }
    }
    // sqrt(a * a) is a exactly, sqrt(a) * sqrt(a) is not: a perfect ranking must give 1.
    let ranked = (left_ranked as f64 * right_ranked as f64).sqrt();
    (ranked > 0.0).then(|| score as f64 / ranked)
}

/// What is lost by picking the alternative with the largest predicted value instead of the one with the largest measured
/// value, as a share of the latter: 0 is no loss. For values where more is better, such as throughput.
///
/// If predictions are equal the first of them is picked. `None` if the lists are empty or differ in length, hold NaN, or
/// the largest measured value is not above 0.
#[must_use]
pub fn top_1_regret(predicted: &[f64], measured: &[f64]) -> Option<f64> {
    if predicted.len() != measured.len() || predicted.iter().chain(measured).any(|value| value.is_nan()) {
        return None;
    }
    let picked = (0..predicted.len()).reduce(|best, idx| if predicted[idx] > predicted[best] { idx } else { best })?;
    let best = measured.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    (best > 0.0).then(|| (best - measured[picked]) / best)
}

/// The share of items whose predicted and measured ratio (a speedup, for example) lie on the same side of 1: whether the
/// prediction is right about "it pays".
///
/// An item whose measured ratio is within `tolerance` of 1 is left out: which side it is on is noise. `None` if the lists
/// differ in length or no item is left.
#[must_use]
pub fn sign_agreement(predicted_ratios: &[f64], measured_ratios: &[f64], tolerance: f64) -> Option<f64> {
    if predicted_ratios.len() != measured_ratios.len() {
        return None;
    }
    let decided = |(_, measured): &(&f64, &f64)| (**measured - 1.0).abs() > tolerance;
    let items: Vec<_> = predicted_ratios.iter().zip(measured_ratios).filter(decided).collect();
    let agreeing = items.iter().filter(|(predicted, measured)| (**predicted > 1.0) == (**measured > 1.0)).count();
    (!items.is_empty()).then(|| agreeing as f64 / items.len() as f64)
}

/// The order of two values, equal if tied. Values that do not compare (NaN) count as tied.
fn order(left: f64, right: f64, tolerance: f64) -> Ordering {
    if (left - right).abs() <= tolerance * left.abs().max(right.abs()) {
        Ordering::Equal
    } else {
        left.partial_cmp(&right).unwrap_or(Ordering::Equal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn tau_of_small_cases_worked_by_hand() {
        let x = [1.0, 2.0, 3.0, 4.0];
        assert_eq!(kendall_tau_b(&x, &x, 0.0), Some(1.0));
        assert_eq!(kendall_tau_b(&x, &[4.0, 3.0, 2.0, 1.0], 0.0), Some(-1.0));
        // Pairs: 1 tied on the right only; of the other 5, 4 agree and 1 disagrees. (4 - 1) / sqrt(6 * 5).
        let tau = kendall_tau_b(&x, &[1.0, 3.0, 2.0, 3.0], 0.0).unwrap();
        assert!((tau - 3.0 / 30.0_f64.sqrt()).abs() < 1e-12);
    }

    #[test]
    fn pairs_within_the_tolerance_are_ties() {
        let measured = [100.0, 100.5, 120.0];
        assert_eq!(kendall_tau_b(&[2.0, 1.0, 3.0], &measured, 0.0), Some(1.0 / 3.0));
        // The first two measured values are tied at 1 %: two ranked pairs of three, both agree. 2 / sqrt(3 * 2).
        let tau = kendall_tau_b(&[2.0, 1.0, 3.0], &measured, 0.01).unwrap();
        assert!((tau - 2.0 / 6.0_f64.sqrt()).abs() < 1e-12);
        // Tied on both sides, so that only agreeing pairs are left.
        assert_eq!(kendall_tau_b(&[2.001, 2.0, 3.0], &measured, 0.01), Some(1.0));
    }

    #[test]
    fn tau_needs_something_to_rank() {
        assert_eq!(kendall_tau_b(&[1.0, 2.0], &[1.0], 0.0), None);
        assert_eq!(kendall_tau_b(&[], &[], 0.0), None);
        assert_eq!(kendall_tau_b(&[1.0], &[1.0], 0.0), None);
        assert_eq!(kendall_tau_b(&[1.0, 2.0], &[5.0, 5.0], 0.0), None);
        assert_eq!(kendall_tau_b(&[f64::NAN, 2.0], &[5.0, 6.0], 0.0), None);
    }

    #[test]
    fn regret_is_the_loss_of_the_predicted_best() {
        assert_eq!(top_1_regret(&[1.0, 3.0, 2.0], &[10.0, 16.0, 20.0]), Some(0.2));
        assert_eq!(top_1_regret(&[1.0, 2.0, 3.0], &[10.0, 16.0, 20.0]), Some(0.0));
        assert_eq!(top_1_regret(&[3.0, 3.0], &[5.0, 10.0]), Some(0.5));
        assert_eq!(top_1_regret(&[], &[]), None);
        assert_eq!(top_1_regret(&[1.0], &[1.0, 2.0]), None);
        assert_eq!(top_1_regret(&[1.0], &[0.0]), None);
        assert_eq!(top_1_regret(&[f64::NAN], &[1.0]), None);
    }

    #[test]
    fn signs_agree_on_the_same_side_of_1() {
        assert_eq!(sign_agreement(&[1.2, 0.8, 1.1, 0.9], &[1.3, 0.7, 0.8, 1.005], 0.01), Some(2.0 / 3.0));
        assert_eq!(sign_agreement(&[1.2], &[1.001], 0.01), None);
        assert_eq!(sign_agreement(&[1.2], &[], 0.01), None);
    }

    /// Tau-b from the general correlation coefficient: the matrices of pairwise signs as two long vectors, their inner
    /// product over the product of their lengths.
    fn brute_force(left: &[f64], right: &[f64], tolerance: f64) -> Option<f64> {
        let signs = |values: &[f64]| -> Vec<f64> {
            let sign = |a: f64, b: f64| {
                if (a - b).abs() <= tolerance * a.abs().max(b.abs()) { 0.0 } else { (a - b).signum() }
            };
            values.iter().flat_map(|&a| values.iter().map(move |&b| sign(a, b))).collect()
        };
        let (left, right) = (signs(left), signs(right));
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let length = (dot(&left, &left) * dot(&right, &right)).sqrt();
        (length > 0.0).then(|| dot(&left, &right) / length)
    }

    proptest! {
        #[test]
        fn tau_matches_brute_force(
            items in prop::collection::vec((1_u8..20, 1_u8..20), 0..30),
            tolerance in prop_oneof![Just(0.0), 0.0..0.5],
        ) {
            let left: Vec<f64> = items.iter().map(|item| f64::from(item.0)).collect();
            let right: Vec<f64> = items.iter().map(|item| f64::from(item.1)).collect();
            let tau = kendall_tau_b(&left, &right, tolerance);
            let expected = brute_force(&left, &right, tolerance);
            prop_assert_eq!(tau.is_some(), expected.is_some());
            if let (Some(tau), Some(expected)) = (tau, expected) {
                prop_assert!((tau - expected).abs() < 1e-12);
                prop_assert!((-1.0..=1.0).contains(&tau));
                // Symmetric, and turned around by a change of sign.
                prop_assert_eq!(kendall_tau_b(&right, &left, tolerance), Some(tau));
                let negated: Vec<f64> = right.iter().map(|value| -value).collect();
                prop_assert_eq!(kendall_tau_b(&left, &negated, tolerance), Some(-tau));
            }
        }
    }
}
