//! Where routing stops paying against the large model alone (theory, sections 7 and 8).

use std::fmt;

use super::{Affine, OutOfRange, RoutingLaw, at_least_one, lambert, not_negative, renewal, require};

/// Tokens per second of the large model alone, decoding C requests in `replicas` equal copies that share them as evenly as possible:
/// sum of c / t(c). The baseline; with two replicas the fair one for separate placement. Any C >= 1.
///
/// # Errors
/// If C or `replicas` is 0, or a time is negative or not finite.
pub fn large_only(concurrency: u32, decode: Affine, replicas: u32) -> Result<f64, OutOfRange> {
    at_least_one(concurrency)?;
    require(replicas >= 1, "replicas", f64::from(replicas), "at least 1")?;
    decode.check("decode.fixed_s", "decode.per_row_s")?;
    let rate = |requests: u32| {
        if requests == 0 { 0.0 } else { f64::from(requests) / decode.step_s(f64::from(requests)) }
    };
    let (fewer, n_more) = (concurrency / replicas, concurrency % replicas);
    Ok(f64::from(n_more) * rate(fewer + 1) + f64::from(replicas - n_more) * rate(fewer))
}

/// C* = ln(a_L/a_S)/lambda: on one exclusive device with threshold 1 routing pays below this concurrency and loses above, if weights dominate (no
/// per-row times). Checked against E5: the ratio is above 1 at floor(C*) and below 1 at floor(C*) + 1.
///
/// # Errors
/// If p is not in (0, 1), or the large model's fixed time is not above the small one's, positive one (routing never pays then).
pub fn concurrency_limit(law: RoutingLaw, small: Affine, large: Affine) -> Result<f64, OutOfRange> {
    lambert::kappa(law, small, large)?;
    let longer = "above `small.fixed_s`: routing to a model that is no slower never pays";
    require(large.fixed_s > small.fixed_s, "large.fixed_s", large.fixed_s, longer)?;
    Ok((large.fixed_s / small.fixed_s).ln() / law.leaving_rate())
}

/// The two sides of a break-even condition: routing pays if and only if `cost_s < saving_s`. Prints itself in words.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Condition {
    /// What routing adds, in seconds.
    pub cost_s: f64,
    /// What routing saves, in seconds.
    pub saving_s: f64,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    ExclusiveEager { concurrency: u32 },
    ExclusiveLimit,
    Folded,
}

impl Condition {
    /// Whether routing pays.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.cost_s < self.saving_s
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (cost_ms, saving_ms) = (self.cost_s * 1e3, self.saving_s * 1e3);
        let verdict = if self.holds() { "routing pays" } else { "routing does not pay" };
        match self.kind {
            Kind::ExclusiveEager { concurrency } => write!(
                f,
                "{verdict}: the fixed time of a small step, less that of the large steps which no routed token makes necessary, is {cost_ms:.3} ms per \
                 round, and the per-row times save {saving_ms:.3} ms at concurrency {concurrency}"
            ),
            Kind::ExclusiveLimit => write!(
                f,
                "{verdict} at high concurrency: a token costs {cost_ms:.6} ms on the small model and saves {saving_ms:.6} ms of KV reads on the large one; \
                 every output position passes through both models, so arithmetic is never saved"
            ),
            Kind::Folded => write!(
                f,
                "{verdict}: per token the visits to the large model cost {cost_ms:.3} ms, and the small model is {saving_ms:.3} ms faster per step"
            ),
        }
    }
}

/// One exclusive device, threshold 1, at concurrency C (theory, section 8, from E5): routing pays iff a_S - q^C a_L < (b_L0 - b_S - p b_L) C.
/// `extend` is the large step of a routed visit, `decode` that of the large model alone, with the same fixed time. Exact for every C >= 1 under the
/// R2R law.
///
/// # Errors
/// If C is 0, p is not in (0, 1], a time is negative or not finite, or the two fixed times of the large model differ.
pub fn exclusive_eager_condition(
    concurrency: u32,
    law: RoutingLaw,
    small: Affine,
    extend: Affine,
    decode: Affine,
) -> Result<Condition, OutOfRange> {
    at_least_one(concurrency)?;
    law.check()?;
    small.check("small.fixed_s", "small.per_row_s")?;
    extend.check("extend.fixed_s", "extend.per_row_s")?;
    decode.check("decode.fixed_s", "decode.per_row_s")?;
    let same = "that of `extend`: the condition assumes that both read the same weights";
    require((decode.fixed_s - extend.fixed_s).abs() <= 1e-12 * extend.fixed_s, "decode.fixed_s", decode.fixed_s, same)?;
    let requests = f64::from(concurrency);
    let none_routed = 1.0 - law.any_routed(requests);
    Ok(Condition {
        cost_s: small.fixed_s - none_routed * extend.fixed_s,
        saving_s: (decode.per_row_s - small.per_row_s - law.p * extend.per_row_s) * requests,
        kind: Kind::ExclusiveEager { concurrency },
    })
}

/// Time per token and request of a model whose step is bound by arithmetic and KV reads: what is left of a step at very large batches.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MarginalCost {
    /// Arithmetic of one token, in seconds.
    pub compute_s: f64,
    /// Reading the KV of the whole context once, in seconds.
    pub kv_read_s: f64,
}

/// One device, C -> infinity (theory, section 8): every output position passes through both models, so routing pays iff
/// d_S + kap_S ctx < (1-p) kap_L ctx.
///
/// # Errors
/// If p is not in (0, 1], or a time is negative or not finite.
pub fn high_concurrency_condition(
    law: RoutingLaw,
    small: MarginalCost,
    large: MarginalCost,
) -> Result<Condition, OutOfRange> {
    law.check()?;
    not_negative("small.compute_s", small.compute_s)?;
    not_negative("small.kv_read_s", small.kv_read_s)?;
    not_negative("large.compute_s", large.compute_s)?;
    not_negative("large.kv_read_s", large.kv_read_s)?;
    Ok(Condition {
        cost_s: small.compute_s + small.kv_read_s,
        saving_s: law.q() * large.kv_read_s,
        kind: Kind::ExclusiveLimit,
    })
}

/// N* = h/(t_L - t_S): the shortest visit to the small model, in steps, that pays for the overhead h = `overhead_s` of a cycle (theory, section 7).
/// For one request, or a batch in lock-step, with separate steps for handoff and decode.
///
/// # Errors
/// If a time is negative or not finite, or the large step is not longer than the small one (no visit is long enough then).
pub fn visit_length(small_step_s: f64, large_step_s: f64, overhead_s: f64) -> Result<f64, OutOfRange> {
    not_negative("small_step_s", small_step_s)?;
    not_negative("large_step_s", large_step_s)?;
    not_negative("overhead_s", overhead_s)?;
    let longer = "longer than `small_step_s`: otherwise no visit is long enough to pay";
    require(large_step_s > small_step_s, "large_step_s", large_step_s, longer)?;
    Ok(overhead_s / (large_step_s - small_step_s))
}

/// When handoff and decode are one forward of the large model, as in R2R, N* is 0 and routing pays iff p (t_L + 2z) < t_L - t_S (theory, section 7),
/// with z = `handoff_s` the delay of one handoff in one direction.
///
/// # Errors
/// If p is not in (0, 1], or a time is negative or not finite.
pub fn folded_condition(
    law: RoutingLaw,
    small_step_s: f64,
    large_step_s: f64,
    handoff_s: f64,
) -> Result<Condition, OutOfRange> {
    law.check()?;
    not_negative("small_step_s", small_step_s)?;
    not_negative("large_step_s", large_step_s)?;
    not_negative("handoff_s", handoff_s)?;
    Ok(Condition {
        cost_s: law.p * (large_step_s + 2.0 * handoff_s),
        saving_s: large_step_s - small_step_s,
        kind: Kind::Folded,
    })
}

/// Speed-up of routing on one exclusive device with threshold 1 over the large model alone on it: E5 against C/t(C). Exact, any C >= 1.
///
/// # Errors
/// As for [`renewal::exclusive_eager`] and [`large_only`].
pub fn exclusive_eager_speedup(
    concurrency: u32,
    law: RoutingLaw,
    small: Affine,
    extend: Affine,
    decode: Affine,
) -> Result<f64, OutOfRange> {
    Ok(renewal::exclusive_eager(concurrency, law, small, extend)? / large_only(concurrency, decode, 1)?)
}

/// Speed-up of routing on one exclusive device with the best threshold, if weights dominate (theory, section 8): lambda a_L / (u a_S p), u from
/// [`lambert::waiting_factor`]. Almost independent of the concurrency. Routing pays iff it exceeds 1.
///
/// # Errors
/// As for [`lambert::kappa`].
pub fn exclusive_best_speedup(law: RoutingLaw, small: Affine, large: Affine) -> Result<f64, OutOfRange> {
    let kappa = lambert::kappa(law, small, large)?;
    Ok(kappa / (lambert::waiting_factor(kappa)? * law.p))
}

/// Speed-up of routing on two devices over one device with the large model, threshold 1, if weights dominate (theory, section 8):
/// a_L / (a_S (1 + p/2) + 1.5 p a_L). Within 5 % for C from 4 to 16; a short form of the mean field.
///
/// # Errors
/// As for [`lambert::kappa`].
pub fn separate_speedup(law: RoutingLaw, small: Affine, large: Affine) -> Result<f64, OutOfRange> {
    lambert::kappa(law, small, large)?;
    Ok(large.fixed_s / (small.fixed_s * (1.0 + law.p / 2.0) + 1.5 * law.p * large.fixed_s))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LAW: RoutingLaw = RoutingLaw { p: 0.1 };
    const SMALL: Affine = Affine { fixed_s: 3e-3, per_row_s: 2e-5 };
    const LARGE: Affine = Affine { fixed_s: 16e-3, per_row_s: 6e-5 };

    #[test]
    fn the_concurrency_limit_is_where_the_speedup_crosses_one() {
        let limit = concurrency_limit(LAW, SMALL, LARGE).unwrap();
        assert!((limit - 15.9).abs() < 0.05, "{limit}");
        for (p, small_s, large_s) in [(0.1, 3.0, 16.0), (0.03, 3.0, 16.0), (0.3, 3.0, 60.0), (0.35, 6.0, 27.9)] {
            let (law, small, large) = (RoutingLaw { p }, Affine::constant(small_s), Affine::constant(large_s));
            let below = concurrency_limit(law, small, large).unwrap().floor() as u32;
            assert!(exclusive_eager_speedup(below, law, small, large, large).unwrap() > 1.0, "p {p}");
            assert!(exclusive_eager_speedup(below + 1, law, small, large, large).unwrap() < 1.0, "p {p}");
        }
        assert!(concurrency_limit(LAW, LARGE, SMALL).is_err());
    }

    proptest! {
        #[test]
        fn the_condition_and_the_speedup_agree(concurrency in 1_u32..200, p in 0.01..1.0_f64, row in 0.0..0.5_f64, decode_row in 0.0..0.5_f64) {
            let law = RoutingLaw { p };
            let (small, extend) = (Affine { fixed_s: 3.0, per_row_s: 0.02 }, Affine { fixed_s: 16.0, per_row_s: row });
            let decode = Affine { fixed_s: 16.0, per_row_s: decode_row };
            let condition = exclusive_eager_condition(concurrency, law, small, extend, decode).unwrap();
            prop_assume!((condition.cost_s - condition.saving_s).abs() > 1e-9);
            let speedup = exclusive_eager_speedup(concurrency, law, small, extend, decode).unwrap();
            prop_assert_eq!(condition.holds(), speedup > 1.0, "{}", condition);
        }

        #[test]
        fn a_folded_handoff_pays_when_one_request_is_faster(p in 0.01..1.0_f64, small_s in 0.1..20.0_f64, handoff_s in 0.0..5.0_f64) {
            let condition = folded_condition(RoutingLaw { p }, small_s, 16.0, handoff_s).unwrap();
            prop_assume!((condition.cost_s - condition.saving_s).abs() > 1e-9);
            let routed = renewal::single_request(1.0 / p, small_s, 1.0, 16.0, 2.0 * handoff_s).unwrap() / p;
            prop_assert_eq!(condition.holds(), routed > 1.0 / 16.0);
        }
    }

    #[test]
    fn the_shortest_visit_that_pays_is_where_lock_step_breaks_even() {
        use crate::analytic::orbits::{FixedVisits, lock_step_speedup};
        let shortest = visit_length(3.0, 15.0, 30.0).unwrap();
        assert_eq!(shortest, 2.5);
        let at = |small| lock_step_speedup(FixedVisits { small, large: 1 }, 3.0, 15.0, 30.0).unwrap();
        assert!(at(2) < 1.0 && at(3) > 1.0);
        assert!(visit_length(3.0, 3.0, 1.0).is_err());
    }

    #[test]
    fn two_replicas_share_as_evenly_as_possible() {
        let whole = large_only(7, LARGE, 2).unwrap();
        assert!((whole - 3.0 / LARGE.step_s(3.0) - 4.0 / LARGE.step_s(4.0)).abs() < 1e-9);
        assert_eq!(large_only(1, LARGE, 2).unwrap(), large_only(1, LARGE, 1).unwrap());
    }

    #[test]
    fn short_forms_have_the_published_values() {
        // Section 8: 2.2 on one device with the best threshold; 2.84 (simulated, C = 8) on two.
        assert!((exclusive_best_speedup(LAW, SMALL, LARGE).unwrap() - 2.2).abs() < 0.1);
        assert!((separate_speedup(LAW, SMALL, LARGE).unwrap() / 2.84 - 1.0).abs() < 0.05);
    }

    #[test]
    fn at_high_concurrency_only_memory_reads_are_saved() {
        let large = |kv_read_s| MarginalCost { compute_s: 10.0, kv_read_s };
        let small = MarginalCost { compute_s: 1.0, kv_read_s: 1.0 };
        assert!(!high_concurrency_condition(LAW, small, large(2.0)).unwrap().holds());
        let pays = high_concurrency_condition(LAW, small, large(3.0)).unwrap();
        assert!(pays.holds());
        assert!(pays.to_string().starts_with("routing pays at high concurrency"), "{pays}");
    }
}
