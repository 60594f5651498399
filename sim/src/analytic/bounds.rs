//! Upper bounds on the cycles per second of any policy (theory, section 2).
//!
//! They follow from Little's law and the utilisation law alone, so they hold for every threshold, launch order and routing law. Step times must be
//! [`Affine`]: a step time that is not needs its concave envelope first, and extends whose size goes with the batch are not covered.
//! Multiply by the tokens of a cycle for tokens per second.

use super::{Affine, OutOfRange, RoutingLaw, at_least_one, bisect, not_negative, require};

/// What one cycle of a request asks of one model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Demand {
    /// Mean number of steps of this model per cycle.
    pub steps_per_cycle: f64,
    /// Its step time.
    pub step: Affine,
}

/// The demands on a small and a large model under the R2R law: 1/p small steps and one large step per cycle, which yields 1/p tokens.
///
/// # Errors
/// If p is not in (0, 1].
pub fn r2r_demands(law: RoutingLaw, small: Affine, large: Affine) -> Result<[Demand; 2], OutOfRange> {
    law.check()?;
    Ok([Demand { steps_per_cycle: 1.0 / law.p, step: small }, Demand { steps_per_cycle: 1.0, step: large }])
}

/// Upper bound on cycles per second with a device for each model (theory, section 2, "two GPUs"): the root X of
///
/// C = X (Z + sum over models of n a / (1 - b n X)),
///
/// with C the concurrency, Z = `handoff_s` the handoff delay of a whole cycle, n steps per cycle, a and b the fixed and the per-row step time.
/// Attained when every model runs back to back with a constant batch and nobody waits. Valid for any number of models and any C >= 1.
///
/// # Errors
/// If C is 0, a time is negative or not finite, or a cycle takes no time.
pub fn separate(concurrency: u32, demands: &[Demand], handoff_s: f64) -> Result<f64, OutOfRange> {
    check(concurrency, demands)?;
    not_negative("handoff_s", handoff_s)?;
    let requests = f64::from(concurrency);
    let unloaded_s: f64 = handoff_s + demands.iter().map(|d| d.steps_per_cycle * d.step.fixed_s).sum::<f64>();
    let saturated = demands.iter().map(|d| 1.0 / (d.steps_per_cycle * d.step.per_row_s)).fold(f64::INFINITY, f64::min);
    let in_system = |rate: f64| {
        let at_models: f64 = demands
            .iter()
            .map(|d| d.steps_per_cycle * d.step.fixed_s / (1.0 - d.step.per_row_s * d.steps_per_cycle * rate))
            .sum();
        rate * (handoff_s + at_models)
    };
    // With no fixed time anywhere the equation degenerates and only the saturation rate is left.
    let high = saturated.min(requests / unloaded_s);
    Ok(bisect(0.0, high, |rate| in_system(rate) - requests))
}

/// Upper bound on cycles per second on one device that runs one step at a time (theory, section 2, "serial"): C / sum of n t(C), with t(C) the step
/// time at the full batch. Attained in lock-step. The handoff delay cannot raise it, so it is left out. Valid for any number of models and any
/// concurrency.
///
/// # Errors
/// As for [`separate`].
pub fn exclusive(concurrency: u32, demands: &[Demand]) -> Result<f64, OutOfRange> {
    check(concurrency, demands)?;
    Ok(1.0 / work_s(concurrency, demands))
}

/// Upper bound on cycles per second of two models whose steps overlap on one device (theory, section 2, "ps"): the smaller of
/// max(1, r0 + r1) / sum of n (a/C + b) and the bound of [`separate`].
///
/// `rates` are the co-run rates: the speed of each model, in (0, 1], while the other one runs too. Fair time slicing is [0.5, 0.5], no contention
/// [1, 1]. Valid for two models, any C >= 1, and rates that do not depend on the batch (otherwise give the largest).
///
/// # Errors
/// As for [`separate`], and if a rate is not in (0, 1].
pub fn overlapped(concurrency: u32, demands: &[Demand; 2], rates: [f64; 2], handoff_s: f64) -> Result<f64, OutOfRange> {
    let of_separate = separate(concurrency, demands, handoff_s)?;
    for rate in rates {
        require(rate > 0.0 && rate <= 1.0, "rates", rate, "in (0, 1]: the speed of a step beside the other model")?;
    }
    let of_device = (rates[0] + rates[1]).max(1.0) / work_s(concurrency, demands);
    Ok(of_device.min(of_separate))
}

/// Device time of one cycle of one request at the full batch, in seconds.
fn work_s(concurrency: u32, demands: &[Demand]) -> f64 {
    let share = |d: &Demand| d.steps_per_cycle * (d.step.fixed_s / f64::from(concurrency) + d.step.per_row_s);
    demands.iter().map(share).sum()
}

fn check(concurrency: u32, demands: &[Demand]) -> Result<(), OutOfRange> {
    at_least_one(concurrency)?;
    let mut total_s = 0.0;
    for demand in demands {
        not_negative("steps_per_cycle", demand.steps_per_cycle)?;
        not_negative("step.fixed_s", demand.step.fixed_s)?;
        not_negative("step.per_row_s", demand.step.per_row_s)?;
        total_s += demand.steps_per_cycle * demand.step.step_s(1.0);
    }
    require(total_s > 0.0, "time of a cycle", total_s, "positive: without work there is no bound")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn example() -> [Demand; 2] {
        let small = Affine { fixed_s: 3e-3, per_row_s: 2e-5 };
        let large = Affine { fixed_s: 16e-3, per_row_s: 15e-5 };
        r2r_demands(RoutingLaw { p: 0.1 }, small, large).unwrap()
    }

    #[test]
    fn the_bound_solves_its_equation() {
        let demands = example();
        let rate = separate(32, &demands, 0.01).unwrap();
        let right = rate * (0.01 + 0.03 / (1.0 - 2e-4 * rate) + 0.016 / (1.0 - 15e-5 * rate));
        assert!((right - 32.0).abs() < 1e-10, "{right}");
    }

    #[test]
    fn the_limits_at_small_and_large_concurrency_are_those_of_the_source() {
        let demands = example();
        // Saturation: the smaller of 1/(n b), here that of the small model.
        assert!((separate(100_000_000, &demands, 0.0).unwrap() / 5_000.0 - 1.0).abs() < 1e-5);
        let constant = [demands[0], Demand { steps_per_cycle: 1.0, step: Affine::constant(0.016) }]
            .map(|d| Demand { step: Affine::constant(d.step.fixed_s), ..d });
        assert!((separate(7, &constant, 0.004).unwrap() - 7.0 / 0.050).abs() < 1e-9);
    }

    #[test]
    fn without_per_row_time_a_second_device_buys_no_more_than_lock_step() {
        let constant = example().map(|d| Demand { step: Affine::constant(d.step.fixed_s), ..d });
        let (two, one) = (separate(16, &constant, 0.0).unwrap(), exclusive(16, &constant).unwrap());
        assert!((two / one - 1.0).abs() < 1e-12);
    }

    #[test]
    fn a_model_without_fixed_time_is_bound_by_its_saturation() {
        let demand = Demand { steps_per_cycle: 2.0, step: Affine { fixed_s: 0.0, per_row_s: 0.01 } };
        assert!((separate(3, &[demand], 0.0).unwrap() - 50.0).abs() < 1e-9);
    }

    #[test]
    fn what_has_no_bound_is_refused() {
        let demands = example();
        assert!(separate(0, &demands, 0.0).is_err());
        assert!(separate(1, &demands, -1.0).is_err());
        assert!(exclusive(1, &[Demand { steps_per_cycle: 1.0, step: Affine::constant(0.0) }]).is_err());
        assert!(overlapped(1, &demands, [0.0, 1.0], 0.0).is_err());
    }

    proptest! {
        #[test]
        fn exclusive_is_lowest_and_separate_highest(
            concurrency in 1_u32..300, p in 0.01..1.0_f64, fixed in 0.1..10.0_f64, row in 0.0..1.0_f64, rate in 0.5..1.0_f64,
        ) {
            let small = Affine { fixed_s: fixed, per_row_s: row };
            let demands = r2r_demands(RoutingLaw { p }, small, Affine { fixed_s: 5.0, per_row_s: 0.3 }).unwrap();
            let one = exclusive(concurrency, &demands).unwrap();
            let shared = overlapped(concurrency, &demands, [rate, rate], 0.0).unwrap();
            let two = separate(concurrency, &demands, 0.0).unwrap();
            prop_assert!(one <= shared * (1.0 + 1e-12) && shared <= two * (1.0 + 1e-12), "{} {} {}", one, shared, two);
        }
    }
}
