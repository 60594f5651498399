//! Throughput under a threshold that binds, by a fluid that leaves the small model (theory, sections 5.2 and 5.4).
//!
//! The n requests at the small model leave at the rate lambda n / t_S(n). The large model launches when m wait for it, so n = C - m then; while it
//! works the small model is drained further, or stands still, depending on the placement; afterwards n is drained until m wait again.

use super::{Affine, OutOfRange, RoutingLaw, bisect, lambert, not_negative, require};

/// Where the two models run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Placement {
    /// Each on its own device.
    Separate,
    /// On one device; steps run side by side.
    Overlapped {
        /// Speed of the small model's steps while the large model runs too, in (0, 1].
        small_rate: f64,
        /// Speed of the large model's steps while the small model runs too, in (0, 1].
        large_rate: f64,
    },
    /// On one device; one step at a time.
    Exclusive,
}

/// Mean time in seconds until the requests at the small model have fallen from `from` to `to`, none returning (theory, section 5.2):
/// (a_S ln(from/to) + b_S (from - to)) / lambda. Needs `from >= to > 0`; they are means, so need not be whole.
///
/// # Errors
/// If `to` is not positive or above `from`, or p is not in (0, 1).
pub fn drain_s(law: RoutingLaw, small: Affine, from: f64, to: f64) -> Result<f64, OutOfRange> {
    check_law(law)?;
    require(
        to > 0.0 && to <= from && from.is_finite(),
        "to",
        to,
        "positive and at most `from`: the last request takes for ever to leave",
    )?;
    Ok(drain_time_s(law, small, from, to))
}

/// Tokens per second with threshold m at the large model (theory, section 5.2): (1/p) m / (T + drain(m + n1 -> C - m)), with T the duration of the
/// large step, t_L(m) or slower if it overlaps, and n1 the requests still at the small model when it ends.
///
/// Errors against simulation: overlapped 1.5-2 % and separate 2-4 % for C >= 32 and p <= 0.1; exclusive 4-10 % for p <= 0.1 and 19 % at p = 0.3; up
/// to 12 % at C = 8. For unequal rates the large step takes t_L / `large_rate`, during which the small model does t_L x `small_rate` / `large_rate`
/// of work; equal rates 1/c are the source's case.
///
/// # Errors
/// If C is below 8, p is not in (0, 0.3], m is outside 0.2 C..=0.9 C (below, up to 74 % off as batches overshoot a small m; above, the logarithm
/// diverges; use E7, E6 or the exact chain), the threshold does not bind (the large model finds m waiting at the end of its step, so it never waits:
/// use the mean field with threshold 1), a rate is not in (0, 1], or a time is negative or not finite.
pub fn binding_threshold(
    concurrency: u32,
    law: RoutingLaw,
    small: Affine,
    large: Affine,
    threshold: u32,
    placement: Placement,
) -> Result<f64, OutOfRange> {
    let (requests, m) = (f64::from(concurrency), f64::from(threshold));
    require(concurrency >= 8, "concurrency", requests, "at least 8: fewer requests are no fluid")?;
    check_law(law)?;
    require(law.p <= 0.3, "p", law.p, "at most 0.3: above, too many requests leave per step for a fluid")?;
    require(small.fixed_s > 0.0 && small.fixed_s.is_finite(), "small.fixed_s", small.fixed_s, "positive and finite")?;
    not_negative("small.per_row_s", small.per_row_s)?;
    large.check("large.fixed_s", "large.per_row_s")?;
    let good = "in 0.2 x concurrency..=0.9 x concurrency: outside, the fluid does not describe the system";
    require((0.2 * requests..=0.9 * requests).contains(&m), "threshold", m, good)?;
    let at_launch = requests - m;
    let (large_s, small_work_s) = match placement {
        Placement::Separate => (large.step_s(m), large.step_s(m)),
        Placement::Overlapped { small_rate, large_rate } => {
            for (name, rate) in [("small_rate", small_rate), ("large_rate", large_rate)] {
                require(
                    rate > 0.0 && rate <= 1.0,
                    name,
                    rate,
                    "in (0, 1]: the speed of a step beside the other model",
                )?;
            }
            (large.step_s(m) / large_rate, large.step_s(m) * small_rate / large_rate)
        }
        Placement::Exclusive => (large.step_s(m), 0.0),
    };
    // The fluid never runs dry, so there is always a root in (0, at_launch].
    let after_large = if small_work_s > 0.0 {
        bisect(0.0, at_launch, |left| small_work_s - drain_time_s(law, small, at_launch, left))
    } else {
        at_launch
    };
    let waiting_at_end = at_launch - after_large;
    require(
        waiting_at_end < m,
        "threshold",
        m,
        "large enough to bind: so many wait already when the large step ends, as in eager mode",
    )?;
    let cycle_s = large_s + drain_time_s(law, small, m + after_large, at_launch);
    Ok(m / law.p / cycle_s)
}

/// Throughput of the best threshold over that of eager launching on separate devices, in the limit of short visits and without per-row times (theory,
/// section 5.4): max over x > 1/2 of 2x / (1 + ln(x/(1-x))/kappa), x = m/C. It is 1 up to kappa = 2: **on separate devices waiting helps only if
/// kappa exceeds 2**. Within 4 points of simulations at C = 32 and kappa from 2 to 20. Any kappa >= 0.
///
/// # Errors
/// If kappa is negative or not finite.
pub fn separate_waiting_gain(kappa: f64) -> Result<f64, OutOfRange> {
    not_negative("kappa", kappa)?;
    if kappa <= 2.0 {
        return Ok(1.0);
    }
    // With L = ln(x/(1-x)) the gain is stationary where kappa + L = 1/(1-x) = 1 + e^L, whose right side overtakes above L = 0.
    let log_odds = bisect(0.0, kappa.ln() + 2.0, |log_odds| 1.0 + log_odds.exp() - kappa - log_odds);
    let share = 1.0 / (1.0 + (-log_odds).exp());
    Ok(2.0 * share / (1.0 + log_odds / kappa))
}

/// Whether a threshold above 1 at the large model can help on separate devices at all: kappa > 2 (theory, section 5.4).
///
/// # Errors
/// As for [`lambert::kappa`].
pub fn separate_waiting_helps(law: RoutingLaw, small: Affine, large: Affine) -> Result<bool, OutOfRange> {
    Ok(lambert::kappa(law, small, large)? > 2.0)
}

fn drain_time_s(law: RoutingLaw, small: Affine, from: f64, to: f64) -> f64 {
    (small.fixed_s * (from / to).ln() + small.per_row_s * (from - to)) / law.leaving_rate()
}

fn check_law(law: RoutingLaw) -> Result<(), OutOfRange> {
    require(law.p > 0.0 && law.p < 1.0, "p", law.p, "in (0, 1)")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analytic::renewal;

    const SMALL: Affine = Affine { fixed_s: 3e-3, per_row_s: 2e-5 };
    const LARGE: Affine = Affine { fixed_s: 16e-3, per_row_s: 15e-5 };
    const LAW: RoutingLaw = RoutingLaw { p: 0.1 };

    #[test]
    fn the_gain_on_separate_devices_is_the_published_one() {
        for (kappa, gain) in [(0.3, 1.00), (2.0, 1.00), (3.0, 1.10), (5.0, 1.26), (10.0, 1.48), (20.0, 1.66)] {
            let value = separate_waiting_gain(kappa).unwrap();
            assert!((value - gain).abs() <= 0.005, "kappa {kappa}: {value}");
            // No other share does better.
            for step in 501..1_000 {
                let x = f64::from(step) / 1_000.0;
                assert!(2.0 * x / (1.0 + (x / (1.0 - x)).ln() / kappa) <= value + 1e-9, "kappa {kappa}, share {x}");
            }
        }
        assert!(separate_waiting_gain(2.01).unwrap() > 1.0);
    }

    #[test]
    fn on_an_exclusive_device_it_is_near_the_exact_value() {
        let time = |step: Affine| move |rows: u32| step.step_s(f64::from(rows));
        for (concurrency, threshold) in [(32, 13), (32, 19), (32, 26), (64, 38), (128, 76)] {
            let fluid = binding_threshold(concurrency, LAW, SMALL, LARGE, threshold, Placement::Exclusive).unwrap();
            let exact = renewal::exclusive_threshold(concurrency, LAW, threshold, time(SMALL), time(LARGE)).unwrap();
            assert!((fluid / exact - 1.0).abs() < 0.1, "C {concurrency}, m {threshold}: {fluid} and {exact}");
        }
    }

    #[test]
    fn without_contention_overlapped_is_separate() {
        let free = Placement::Overlapped { small_rate: 1.0, large_rate: 1.0 };
        let [overlapped, separate] =
            [free, Placement::Separate].map(|place| binding_threshold(64, LAW, SMALL, LARGE, 38, place).unwrap());
        assert_eq!(overlapped, separate);
        let shared = Placement::Overlapped { small_rate: 0.5, large_rate: 0.5 };
        assert!(binding_threshold(64, LAW, SMALL, LARGE, 38, shared).unwrap() < separate);
    }

    #[test]
    fn draining_is_additive_and_inverse_to_what_is_left() {
        let whole = drain_s(LAW, SMALL, 30.0, 5.0).unwrap();
        let parts = drain_s(LAW, SMALL, 30.0, 12.5).unwrap() + drain_s(LAW, SMALL, 12.5, 5.0).unwrap();
        assert!((whole - parts).abs() < 1e-15);
        assert!(drain_s(LAW, SMALL, 5.0, 0.0).is_err() && drain_s(LAW, SMALL, 5.0, 6.0).is_err());
    }

    #[test]
    fn thresholds_outside_the_range_are_refused() {
        for threshold in [1, 6, 29, 32] {
            let error = binding_threshold(32, LAW, SMALL, LARGE, threshold, Placement::Exclusive).unwrap_err();
            assert_eq!(error.quantity, "threshold", "{threshold}");
        }
        let slow = Affine::constant(1.0);
        let error = binding_threshold(32, LAW, SMALL, slow, 7, Placement::Separate).unwrap_err();
        assert!(error.expected.starts_with("large enough to bind"), "{error}");
    }
}
