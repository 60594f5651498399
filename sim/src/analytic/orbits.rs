//! The periodic regimes of fixed visits, `every { small, large }` (theory, section 7).
//!
//! With visits of equal length, requests that ever share a batch stay together. A run settles in one of several orbits, which differ by up to 1.6 in
//! throughput and which the start and the jitter choose. These formulas say what each orbit yields, not which one a run finds.

use super::{Affine, OutOfRange, at_least_one, not_negative, require};

/// A fixed number of steps at each model per cycle. All tokens are kept, so a cycle yields their sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FixedVisits {
    /// Steps per visit to the small model, at least 1.
    pub small: u32,
    /// Steps per visit to the large model, at least 1.
    pub large: u32,
}

impl FixedVisits {
    /// Tokens of a cycle.
    #[must_use]
    pub fn tokens_per_cycle(self) -> f64 {
        f64::from(self.small) + f64::from(self.large)
    }

    fn check(self) -> Result<(), OutOfRange> {
        require(self.small >= 1, "visits.small", f64::from(self.small), "at least 1")?;
        require(self.large >= 1, "visits.large", f64::from(self.large), "at least 1")
    }
}

/// Cycles per second when all C requests move together (E9, lock-step): C / (N_S t_S(C) + N_L t_L(C) + overhead), in every placement. `overhead_s` is
/// paid once per cycle, such as both handoffs. Exact. On one exclusive device it is also the upper bound.
///
/// # Errors
/// If C or a visit is 0, or a time is negative or not finite.
pub fn in_phase(
    concurrency: u32,
    visits: FixedVisits,
    small: Affine,
    large: Affine,
    overhead_s: f64,
) -> Result<f64, OutOfRange> {
    check(concurrency, visits, small, large)?;
    not_negative("overhead_s", overhead_s)?;
    let requests = f64::from(concurrency);
    let cycle_s = f64::from(visits.small) * small.step_s(requests)
        + f64::from(visits.large) * large.step_s(requests)
        + overhead_s;
    Ok(requests / cycle_s)
}

/// Speed-up of one request, or of a batch in lock-step, over the large model alone: Amdahl's law with an overhead (theory, section 7),
/// t_L / ((1-f) t_L + f t_S + h/(N_S + N_L)), f = N_S/(N_S + N_L). Step times in seconds at the batch in question; h = `overhead_s` per cycle.
///
/// # Errors
/// If a visit is 0, a time is negative or not finite, or the large step takes no time.
pub fn lock_step_speedup(
    visits: FixedVisits,
    small_step_s: f64,
    large_step_s: f64,
    overhead_s: f64,
) -> Result<f64, OutOfRange> {
    visits.check()?;
    not_negative("small_step_s", small_step_s)?;
    not_negative("overhead_s", overhead_s)?;
    require(large_step_s > 0.0 && large_step_s.is_finite(), "large_step_s", large_step_s, "positive and finite")?;
    let share = f64::from(visits.small) / visits.tokens_per_cycle();
    Ok(large_step_s / ((1.0 - share) * large_step_s + share * small_step_s + overhead_s / visits.tokens_per_cycle()))
}

/// Cycles per second of K equal cohorts on separate devices, N_L = 1 (theory, section 7): C / max(V_S + a_L + b_L C/K, K a_L + b_L C). `visit_s` is
/// V_S, the time from the end of a large step until the request is back. Exact for K = 1; within 2e-3 if visits do not collide.
///
/// # Errors
/// If C or K is 0, K exceeds C, or a time is negative or not finite.
pub fn cohorts(concurrency: u32, n_cohorts: u32, visit_s: f64, large: Affine) -> Result<f64, OutOfRange> {
    at_least_one(concurrency)?;
    let (requests, cohorts) = (f64::from(concurrency), f64::from(n_cohorts));
    require((1..=concurrency).contains(&n_cohorts), "n_cohorts", cohorts, "in 1..=concurrency")?;
    not_negative("visit_s", visit_s)?;
    large.check("large.fixed_s", "large.per_row_s")?;
    let alone_s = visit_s + large.step_s(requests / cohorts);
    let saturated_s = cohorts * large.step_s(requests / cohorts);
    Ok(requests / alone_s.max(saturated_s))
}

/// Whether all requests together do better than two alternating cohorts on separate devices: V_S < a_L (theory, section 7; 6 of 6 cases). Neither
/// time may be negative; both in seconds.
#[must_use]
pub fn synchronising_wins(visit_s: f64, large: Affine) -> bool {
    visit_s < large.fixed_s
}

/// The orbit on which the large model never idles.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QuantisedOrbit {
    /// Number of cohorts: one at the large model, the others on their way.
    pub n_cohorts: u32,
    /// Time of one cycle, in seconds.
    pub cycle_s: f64,
    /// Cycles per second of all requests together.
    pub cycles_per_s: f64,
}

/// The orbit of an unsynchronised run on separate devices, N_L = 1, whose large model never idles (theory, section 7): cycle = T_L (1 + ceil(V/T_L)),
/// T_L = a_L + b_L C/k with k = 1 + ceil(V/T_L) cohorts. `visit_s` is V, the time from the end of a large step until the request is back.
///
/// Matches simulations to four digits for most N, is 1.8 % high at N = 64 of C = 16, and wrong where V lies just below a multiple of T_L: there the
/// system may sit on the orbit with one cohort less.
///
/// # Errors
/// If C is 0, a time is negative or not finite, V is 0, or there would be more cohorts than requests (the large model idles then).
pub fn quantised(concurrency: u32, visit_s: f64, large: Affine) -> Result<QuantisedOrbit, OutOfRange> {
    at_least_one(concurrency)?;
    large.check("large.fixed_s", "large.per_row_s")?;
    require(visit_s > 0.0 && visit_s.is_finite(), "visit_s", visit_s, "positive and finite")?;
    let requests = f64::from(concurrency);
    let mut cohorts = 1.0;
    loop {
        let step_s = large.step_s(requests / cohorts);
        // A quotient that is a whole number must not be rounded up by its last bit.
        let next = 1.0 + (visit_s / step_s * (1.0 - 4.0 * f64::EPSILON)).ceil();
        require(
            next <= requests,
            "visit_s",
            visit_s,
            "short enough that the cohorts are no more than the requests: the large model idles otherwise",
        )?;
        // More cohorts make steps shorter, which asks for no fewer cohorts; so this climbs to the smallest fixed point.
        if next <= cohorts {
            let cycle_s = cohorts * step_s;
            return Ok(QuantisedOrbit { n_cohorts: cohorts as u32, cycle_s, cycles_per_s: requests / cycle_s });
        }
        cohorts = next;
    }
}

fn check(concurrency: u32, visits: FixedVisits, small: Affine, large: Affine) -> Result<(), OutOfRange> {
    at_least_one(concurrency)?;
    visits.check()?;
    small.check("small.fixed_s", "small.per_row_s")?;
    large.check("large.fixed_s", "large.per_row_s")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analytic::bounds;

    const SMALL: Affine = Affine { fixed_s: 3e-3, per_row_s: 2e-5 };
    const LARGE: Affine = Affine { fixed_s: 16e-3, per_row_s: 15e-5 };

    #[test]
    fn in_phase_attains_the_bound_of_an_exclusive_device() {
        let visits = FixedVisits { small: 6, large: 2 };
        let rate = in_phase(16, visits, SMALL, LARGE, 0.0).unwrap();
        let demands =
            [(6.0, SMALL), (2.0, LARGE)].map(|(steps_per_cycle, step)| bounds::Demand { steps_per_cycle, step });
        assert!((rate / bounds::exclusive(16, &demands).unwrap() - 1.0).abs() < 1e-15);
        // Section 7: lock-step yields 2.74, 2.92, 3.20, 3.80 and 4.50 tokens per ms.
        for (small, expected) in [(5, 2.74), (6, 2.92), (8, 3.20), (16, 3.80), (64, 4.50)] {
            let visits = FixedVisits { small, large: 1 };
            let tokens_per_ms = visits.tokens_per_cycle() * in_phase(16, visits, SMALL, LARGE, 0.0).unwrap() / 1e3;
            assert!((tokens_per_ms - expected).abs() < 0.01, "N {small}: {tokens_per_ms}");
        }
    }

    #[test]
    fn the_overhead_is_amortised_and_the_limit_is_amdahls() {
        let at = |n| lock_step_speedup(FixedVisits { small: n, large: n }, 3.0, 15.0, 4.0).unwrap();
        assert!((at(1) - 15.0 / 11.0).abs() < 1e-15);
        assert!(at(1) < at(2) && at(2) < at(64));
        assert!((at(1_000_000_000) - 1.0 / (0.5 + 0.1)).abs() < 1e-8);
    }

    #[test]
    fn two_saturated_cohorts_depend_on_no_split() {
        let rate = cohorts(16, 2, 10e-3, LARGE).unwrap();
        assert!((rate - 16.0 / (2.0 * LARGE.fixed_s + 16.0 * LARGE.per_row_s)).abs() < 1e-9);
        let together = cohorts(16, 1, 10e-3, LARGE).unwrap();
        assert_eq!(together > rate, synchronising_wins(10e-3, LARGE));
        assert!(cohorts(4, 5, 1.0, LARGE).is_err());
    }

    #[test]
    fn quantised_orbits_have_the_published_throughput() {
        // Tokens per ms at C = 16, N_L = 1; the two-cohort orbit at N <= 4, three cohorts at 6 and 8.
        for (small, cohorts, expected) in
            [(1, 2, 0.9302), (2, 2, 1.3953), (3, 2, 1.8605), (4, 2, 2.3256), (6, 3, 2.2222), (8, 3, 2.8571)]
        {
            let visit_s = f64::from(small) * SMALL.step_s(16.0 * (1.0 - 1.0 / f64::from(cohorts)));
            let orbit = quantised(16, visit_s, LARGE).unwrap();
            let tokens_per_ms = f64::from(small + 1) * orbit.cycles_per_s / 1e3;
            assert_eq!(orbit.n_cohorts, cohorts, "N {small}");
            assert!((tokens_per_ms - expected).abs() < 5e-5, "N {small}: {tokens_per_ms}");
        }
    }

    #[test]
    fn a_large_model_that_idles_has_no_quantised_orbit() {
        assert_eq!(quantised(4, 1.0, LARGE).unwrap_err().quantity, "visit_s");
        let exactly_one_step = quantised(4, 16e-3, Affine::constant(16e-3)).unwrap();
        assert_eq!(exactly_one_step.n_cohorts, 2);
    }
}
