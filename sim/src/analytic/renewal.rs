//! Exact throughput of the R2R law by renewal arguments (theory, section 3: E1, E5, E6, E7).
//!
//! On one exclusive device the system starts afresh each time all requests are back at the small model, whatever the step times are. That gives exact
//! values without a simulation, and the oracles of the simulator's tests.

use super::{Affine, OutOfRange, RoutingLaw, at_least_one, not_negative, require};

/// Cycles per second of a single request, in any placement (E1): 1 / (n_S t_S(1) + n_L t_L(1) + handoff of a whole cycle, both ways). Times in
/// seconds. Exact in the mean for every law of visits, also random ones. Multiply by the tokens of a cycle for tokens per second.
///
/// # Errors
/// If a number is negative or not finite, or a cycle takes no time.
pub fn single_request(
    small_steps: f64,
    small_step_s: f64,
    large_steps: f64,
    large_step_s: f64,
    handoff_s: f64,
) -> Result<f64, OutOfRange> {
    for (name, value) in [
        ("small_steps", small_steps),
        ("small_step_s", small_step_s),
        ("large_steps", large_steps),
        ("large_step_s", large_step_s),
        ("handoff_s", handoff_s),
    ] {
        not_negative(name, value)?;
    }
    let cycle_s = small_steps * small_step_s + large_steps * large_step_s + handoff_s;
    require(cycle_s > 0.0, "time of a cycle", cycle_s, "positive")?;
    Ok(1.0 / cycle_s)
}

/// Tokens per second on one exclusive device, large model first, threshold 1 (E5): C / (a_S + b_S C + (1 - q^C) a_L + b_L p C).
///
/// The large model runs right after any routed token, so every small step sees all C requests. Exact for every C >= 1 and p in (0, 1].
///
/// # Errors
/// If C is 0, p is not in (0, 1], or a time is negative or not finite.
pub fn exclusive_eager(concurrency: u32, law: RoutingLaw, small: Affine, large: Affine) -> Result<f64, OutOfRange> {
    check(concurrency, law, small, large)?;
    let requests = f64::from(concurrency);
    let round_s =
        small.step_s(requests) + law.any_routed(requests) * large.fixed_s + large.per_row_s * law.p * requests;
    Ok(requests / round_s)
}

/// Tokens per second when the large model waits for all C requests, in every placement (E6): (C/p) / (a_S E_C + b_S C/p + a_L + b_L C), with
/// E_C = sum over k >= 0 of 1 - (1 - q^k)^C, the mean longest of C visits in steps. Exact for every C >= 1 and p from 1e-5 to 1 (below that the sum
/// is too long).
///
/// # Errors
/// As for [`exclusive_eager`], and if p is below 1e-5.
pub fn all_wait(concurrency: u32, law: RoutingLaw, small: Affine, large: Affine) -> Result<f64, OutOfRange> {
    check(concurrency, law, small, large)?;
    require(law.p >= 1e-5, "p", law.p, "at least 1e-5: the sum over steps is too long")?;
    let requests = f64::from(concurrency);
    let mut longest_visit_steps = 0.0;
    for step in 0_u32.. {
        // The probability that someone is still at the small model after so many steps.
        let still_there = -(requests * (-law.q().powf(f64::from(step))).ln_1p()).exp_m1();
        longest_visit_steps += still_there;
        if still_there <= longest_visit_steps * f64::EPSILON * law.p {
            break;
        }
    }
    let row_steps = requests / law.p;
    let cycle_s =
        small.fixed_s * longest_visit_steps + small.per_row_s * row_steps + large.fixed_s + large.per_row_s * requests;
    Ok(row_steps / cycle_s)
}

/// Tokens per second on one exclusive device, large model first, with any threshold m of the large model and any step times (E7).
///
/// `small_step_s(b)` and `large_step_s(b)` are the times, in seconds, of a step with b rows, b in 1..=C; they need not be affine. Let T_i be the mean
/// time until all requests are back at the small model when i are at the large one: T_i = t_L(i) for i >= m, else T_i = (t_S(C-i) + sum over j >= 1
/// of Bin(C-i, p)(j) T_{i+j}) / (1 - q^{C-i}). The same recursion without times gives the mean batch E\[I\] of the large step, and the throughput
/// is E\[I\] / (p T_0). Exact for every C >= 1, p in (0, 1] and m in 1..=C; takes C^2 operations.
///
/// # Errors
/// If C is 0, p is not in (0, 1], m is not in 1..=C, or a step time is not positive and finite.
pub fn exclusive_threshold(
    concurrency: u32,
    law: RoutingLaw,
    threshold: u32,
    small_step_s: impl Fn(u32) -> f64,
    large_step_s: impl Fn(u32) -> f64,
) -> Result<f64, OutOfRange> {
    at_least_one(concurrency)?;
    law.check()?;
    require(
        (1..=concurrency).contains(&threshold),
        "threshold",
        f64::from(threshold),
        "in 1..=concurrency: a larger one would never launch",
    )?;
    let n = concurrency as usize;
    let mut time_s = vec![0.0; n + 1];
    let mut batch = vec![0.0; n + 1];
    for at_large in (0..=concurrency).rev() {
        let i = at_large as usize;
        if at_large >= threshold {
            time_s[i] = step_time("large_step_s", large_step_s(at_large))?;
            batch[i] = f64::from(at_large);
            continue;
        }
        let at_small = concurrency - at_large;
        let (mut after_s, mut after_batch) = (step_time("small_step_s", small_step_s(at_small))?, 0.0);
        for (routed, probability) in binomial(at_small, law).into_iter().enumerate().skip(1) {
            after_s += probability * time_s[i + routed];
            after_batch += probability * batch[i + routed];
        }
        let any = law.any_routed(f64::from(at_small));
        time_s[i] = after_s / any;
        batch[i] = after_batch / any;
    }
    Ok(batch[0] / (law.p * time_s[0]))
}

/// The best threshold in 1..=C by [`exclusive_threshold`], and its tokens per second. Of equal ones the smallest. Takes C^3 operations.
///
/// # Errors
/// As for [`exclusive_threshold`].
pub fn exclusive_best_threshold(
    concurrency: u32,
    law: RoutingLaw,
    small_step_s: impl Fn(u32) -> f64,
    large_step_s: impl Fn(u32) -> f64,
) -> Result<(u32, f64), OutOfRange> {
    at_least_one(concurrency)?;
    let mut best = (1, 0.0);
    for threshold in 1..=concurrency {
        let tokens_per_s = exclusive_threshold(concurrency, law, threshold, &small_step_s, &large_step_s)?;
        if tokens_per_s > best.1 {
            best = (threshold, tokens_per_s);
        }
    }
    Ok(best)
}

/// Probabilities of 0..=n successes. From the mode outward, so that nothing underflows that matters.
fn binomial(n: u32, law: RoutingLaw) -> Vec<f64> {
    let mut weights = vec![0.0; n as usize + 1];
    if law.p >= 1.0 {
        weights[n as usize] = 1.0;
        return weights;
    }
    let odds = law.p / law.q();
    let mode = (law.p * (f64::from(n) + 1.0)).floor().min(f64::from(n)) as u32;
    weights[mode as usize] = 1.0;
    for k in mode..n {
        weights[k as usize + 1] = weights[k as usize] * odds * f64::from(n - k) / f64::from(k + 1);
    }
    for k in (0..mode).rev() {
        weights[k as usize] = weights[k as usize + 1] / odds * f64::from(k + 1) / f64::from(n - k);
    }
    let total: f64 = weights.iter().sum();
    for weight in &mut weights {
        *weight /= total;
    }
    weights
}

fn step_time(name: &'static str, value: f64) -> Result<f64, OutOfRange> {
    require(value > 0.0 && value.is_finite(), name, value, "positive and finite")?;
    Ok(value)
}

fn check(concurrency: u32, law: RoutingLaw, small: Affine, large: Affine) -> Result<(), OutOfRange> {
    at_least_one(concurrency)?;
    law.check()?;
    small.check("small.fixed_s", "small.per_row_s")?;
    large.check("large.fixed_s", "large.per_row_s")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SMALL: Affine = Affine { fixed_s: 3e-3, per_row_s: 2e-5 };
    const LARGE: Affine = Affine { fixed_s: 16e-3, per_row_s: 15e-5 };

    fn by_recursion(concurrency: u32, law: RoutingLaw, threshold: u32) -> f64 {
        let time = |step: Affine| move |rows: u32| step.step_s(f64::from(rows));
        exclusive_threshold(concurrency, law, threshold, time(SMALL), time(LARGE)).unwrap()
    }

    proptest! {
        #[test]
        fn the_recursion_meets_both_closed_forms(concurrency in 1_u32..100, p in 1e-3..1.0_f64) {
            let law = RoutingLaw { p };
            let eager = exclusive_eager(concurrency, law, SMALL, LARGE).unwrap();
            prop_assert!((by_recursion(concurrency, law, 1) / eager - 1.0).abs() < 1e-11);
            let waiting = all_wait(concurrency, law, SMALL, LARGE).unwrap();
            prop_assert!((by_recursion(concurrency, law, concurrency) / waiting - 1.0).abs() < 1e-11);
        }
    }

    #[test]
    fn one_request_is_the_same_in_every_formula() {
        let law = RoutingLaw { p: 0.2 };
        let cycles = single_request(5.0, SMALL.step_s(1.0), 1.0, LARGE.step_s(1.0), 0.0).unwrap();
        for tokens in [exclusive_eager(1, law, SMALL, LARGE).unwrap(), all_wait(1, law, SMALL, LARGE).unwrap()] {
            assert!((tokens / (cycles * 5.0) - 1.0).abs() < 1e-12);
        }
    }

    #[test]
    fn a_request_that_is_always_routed_alternates() {
        let law = RoutingLaw { p: 1.0 };
        assert!((by_recursion(6, law, 3) - 6.0 / (SMALL.step_s(6.0) + LARGE.step_s(6.0))).abs() < 1e-9);
    }

    #[test]
    fn small_p_and_many_requests_stay_exact() {
        let law = RoutingLaw { p: 1e-5 };
        let (waiting, recursion) = (all_wait(300, law, SMALL, LARGE).unwrap(), by_recursion(300, law, 300));
        assert!((waiting / recursion - 1.0).abs() < 1e-9, "{waiting} {recursion}");
        let law = RoutingLaw { p: 0.9 };
        assert!((binomial(2_000, law).iter().sum::<f64>() - 1.0).abs() < 1e-12);
    }

    #[test]
    fn the_best_threshold_beats_all_others() {
        let law = RoutingLaw { p: 0.1 };
        let time = |step: Affine| move |rows: u32| step.step_s(f64::from(rows));
        let (best, tokens_per_s) = exclusive_best_threshold(16, law, time(SMALL), time(LARGE)).unwrap();
        assert!((1..=16).all(|threshold| by_recursion(16, law, threshold) <= tokens_per_s));
        assert_eq!(by_recursion(16, law, best), tokens_per_s);
    }

    #[test]
    fn what_is_out_of_range_is_refused() {
        let one = |_: u32| 1.0;
        let error = exclusive_threshold(4, RoutingLaw { p: 0.5 }, 5, one, one).unwrap_err();
        assert_eq!(error.quantity, "threshold");
        assert!(exclusive_threshold(4, RoutingLaw { p: 0.5 }, 2, |_| 0.0, one).is_err());
        assert!(all_wait(4, RoutingLaw { p: 1e-6 }, SMALL, LARGE).is_err());
        assert!(exclusive_eager(0, RoutingLaw { p: 0.5 }, SMALL, LARGE).is_err());
    }
}
