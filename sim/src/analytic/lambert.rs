//! The best threshold of the large model on one exclusive device, in closed form (theory, section 5.3).
//!
//! With x = m/C the fraction that waits, one cycle takes (a_S/lambda)(-ln(1 - x)) at the small model and a_L at the large one and yields m visits.
//! The best x depends only on kappa = lambda a_L / a_S.

use super::{Affine, OutOfRange, RoutingLaw, not_negative, require};

/// The lower real branch of the Lambert function: the w <= -1 with w e^w = x, for x in [-1/e, 0), to full double precision.
///
/// Close to -1/e a rounding of x moves w by much more (like the square root), so there w is as good as x is.
///
/// # Errors
/// If x is outside [-1/e, 0), where there is no such w.
pub fn lambert_w_minus1(x: f64) -> Result<f64, OutOfRange> {
    const BRANCH: f64 = -0.367_879_441_171_442_33; // -1/e, rounded towards 0 as f64
    require((BRANCH - 1e-16..0.0).contains(&x), "x", x, "in [-1/e, 0): elsewhere the lower branch is not real")?;
    let beyond_branch = std::f64::consts::E.mul_add(x, 1.0);
    if beyond_branch <= 0.0 {
        return Ok(-1.0);
    }
    // Starting points: the series in sqrt(2(1 + e x)) near the branch point, the logarithms near 0 (Corless et al. 1996, sections 4.2 and 4.3).
    let mut w = if x < -0.25 {
        let root = -(2.0 * beyond_branch).sqrt();
        -1.0 + root * (1.0 + root * (-1.0 / 3.0 + root * 11.0 / 72.0))
    } else {
        let log = (-x).ln();
        log - (-log).ln() + (-log).ln() / log
    };
    for _ in 0..20 {
        // Halley's step for w + ln(-w) = ln(-x), which unlike w e^w = x keeps its digits when x is tiny.
        let miss = w + (w / x).ln();
        let slope = 1.0 + 1.0 / w;
        let curvature = -1.0 / (w * w);
        let step = miss / (slope - miss * curvature / (2.0 * slope));
        if !step.is_finite() {
            break;
        }
        w = (w - step).min(-1.0);
        if step.abs() <= 2.0 * f64::EPSILON * w.abs() {
            break;
        }
    }
    Ok(w)
}

/// kappa = lambda a_L / a_S: the fixed time of a large step against that of one visit to the small model. The number that decides how long to wait.
///
/// # Errors
/// If p is not in (0, 1), the small model's fixed time is not positive, or a time is negative or not finite.
pub fn kappa(law: RoutingLaw, small: Affine, large: Affine) -> Result<f64, OutOfRange> {
    require(
        law.p > 0.0 && law.p < 1.0,
        "p",
        law.p,
        "in (0, 1): at 1 every request alternates and there is nothing to choose",
    )?;
    require(small.fixed_s > 0.0, "small.fixed_s", small.fixed_s, "positive: kappa compares the fixed times")?;
    not_negative("small.per_row_s", small.per_row_s)?;
    not_negative("large.fixed_s", large.fixed_s)?;
    not_negative("large.per_row_s", large.per_row_s)?;
    Ok(law.leaving_rate() * large.fixed_s / small.fixed_s)
}

/// u = -W(-e^-(1 + kappa)), the solution u >= 1 of u - ln u = 1 + kappa. The best threshold is C (1 - 1/u). Accurate for every kappa >= 0, also where
/// the exponential underflows.
///
/// # Errors
/// If kappa is negative or not finite.
pub fn waiting_factor(kappa: f64) -> Result<f64, OutOfRange> {
    not_negative("kappa", kappa)?;
    // With u = 1 + v the equation is v - ln(1 + v) = kappa. Its left side is convex and increasing, so Newton's iteration falls monotonically from
    // any start above the root, such as the bound u < 1 + sqrt(2 kappa) + kappa (Chatzigeorgiou 2013).
    let mut v = kappa + (2.0 * kappa).sqrt();
    while v > 0.0 {
        let step = (v - v.ln_1p() - kappa) * (1.0 + v) / v;
        if step <= v * f64::EPSILON {
            break;
        }
        v -= step;
    }
    Ok(1.0 + v)
}

/// The best threshold of the large model on one exclusive device, by the fluid approximation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BestThreshold {
    /// lambda a_L / a_S.
    pub kappa: f64,
    /// -W(-e^-(1 + kappa)).
    pub waiting_factor: f64,
    /// The best threshold as a real number, C (1 - 1/u).
    pub threshold_exact: f64,
    /// The same, rounded to the nearest integer in 1..=C.
    pub threshold: u32,
    /// Tokens per second at it: C / ((p/lambda) u a_S + (b_S + p b_L) C). Within 2.4 % at C = 16 and 0.5 % at C = 64.
    pub tokens_per_s: f64,
}

/// The best threshold of the large model under the R2R law on one exclusive device (theory, section 5.3). Step times per row do not matter for the
/// choice. The rounded threshold loses at most 1 % of throughput against the exact optimum (E7) for C >= 8.
///
/// # Errors
/// If C is below 8 (the loss would be up to 8.7 %: enumerate with [`super::renewal::exclusive_best_threshold`]), or as for [`kappa`].
pub fn best_threshold(
    concurrency: u32,
    law: RoutingLaw,
    small: Affine,
    large: Affine,
) -> Result<BestThreshold, OutOfRange> {
    let requests = f64::from(concurrency);
    require(
        concurrency >= 8,
        "concurrency",
        requests,
        "at least 8: below, the fluid optimum loses up to 8.7 %, so enumerate the thresholds",
    )?;
    let kappa = kappa(law, small, large)?;
    let waiting_factor = waiting_factor(kappa)?;
    let threshold_exact = requests * (1.0 - 1.0 / waiting_factor);
    let per_token_s = law.p / law.leaving_rate() * waiting_factor * small.fixed_s
        + (small.per_row_s + law.p * large.per_row_s) * requests;
    Ok(BestThreshold {
        kappa,
        waiting_factor,
        threshold_exact,
        threshold: threshold_exact.round().clamp(1.0, requests) as u32,
        tokens_per_s: requests / per_token_s,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_values_of_the_lower_branch() {
        // -2 ln 2 solves w e^w = -(ln 2)/2, and -1 the branch point; the others are from the defining equation in 30-digit arithmetic.
        let cases = [
            (-std::f64::consts::LN_2 / 2.0, -2.0 * std::f64::consts::LN_2),
            (-0.1, -3.577_152_063_957_297),
            (-0.2, -2.542_641_357_773_526_5),
            (-0.3, -1.781_337_023_421_628),
            (-(-1.0_f64).exp(), -1.0),
        ];
        for (x, expected) in cases {
            let w = lambert_w_minus1(x).unwrap();
            assert!((w - expected).abs() <= 2e-15 * expected.abs(), "{x}: {w} and {expected}");
        }
        assert!(
            lambert_w_minus1(0.0).is_err() && lambert_w_minus1(-0.4).is_err() && lambert_w_minus1(f64::NAN).is_err()
        );
    }

    proptest! {
        #[test]
        fn the_defining_equation_holds(exponent in 1.0..690.0_f64) {
            // x = w e^w at a known w, over the whole range of x.
            let x = -exponent * (-exponent).exp();
            prop_assume!(x < 0.0 && exponent > 1.01);
            let w = lambert_w_minus1(x).unwrap();
            // A relative error of one rounding in x changes w by w/(1+w) of it.
            prop_assert!((w + exponent).abs() <= 8e-16 * exponent * (1.0 + exponent / (exponent - 1.0)), "{} {}", w, exponent);
        }

        #[test]
        fn the_waiting_factor_is_the_lambert_function(kappa in 1e-3..600.0_f64) {
            let u = waiting_factor(kappa).unwrap();
            let w = lambert_w_minus1(-(-(1.0 + kappa)).exp()).unwrap();
            prop_assert!((u + w).abs() <= 1e-12 * u, "{} {}", u, w);
            prop_assert!((u - u.ln() - 1.0 - kappa).abs() <= 1e-14 * (1.0 + kappa));
        }
    }

    #[test]
    fn the_waiting_factor_has_its_limits() {
        assert_eq!(waiting_factor(0.0).unwrap(), 1.0);
        let tiny = waiting_factor(1e-20).unwrap();
        assert!((tiny - 1.0).abs() < 1e-9);
        let huge = waiting_factor(1e6).unwrap();
        assert!((huge - huge.ln() - 1.0 - 1e6).abs() < 1e-6);
        assert!(waiting_factor(-0.1).is_err());
    }

    #[test]
    fn the_worked_example() {
        let u = waiting_factor(0.56).unwrap();
        assert!((u - 2.46).abs() < 0.005, "{u}");
        assert!((1.0 - 1.0 / u - 0.59).abs() < 0.005);
    }

    #[test]
    fn few_requests_are_refused() {
        let law = RoutingLaw { p: 0.1 };
        let error = best_threshold(7, law, Affine::constant(1.0), Affine::constant(5.0)).unwrap_err();
        assert_eq!(error.quantity, "concurrency");
        assert!(best_threshold(8, RoutingLaw { p: 1.0 }, Affine::constant(1.0), Affine::constant(5.0)).is_err());
        assert!(best_threshold(8, law, Affine { fixed_s: 0.0, per_row_s: 1.0 }, Affine::constant(5.0)).is_err());
    }
}
