//! Mean-field throughput of two models on separate devices under the R2R law, with a threshold at the large model (theory, sections 4 and 5.1).
//!
//! The rate x at which requests reach the large model solves C = x (T_S/p + U_S T_S/2 + W_L + T_L + 2z): all C requests are somewhere, and a cycle
//! consists of a visit to the small model, the wait for its step in flight, the wait for the large model, its step, and two handoffs.

use super::{Affine, OutOfRange, RoutingLaw, bisect, lambert, not_negative, require};

/// Two models on separate devices.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeanField {
    /// Requests in the system.
    pub concurrency: u32,
    /// When requests are routed.
    pub law: RoutingLaw,
    /// Step time of the small model.
    pub small: Affine,
    /// Step time of the large model.
    pub large: Affine,
    /// Launch threshold of the large model; that of the small one is 1.
    pub threshold: u32,
    /// Delay of one handoff, in one direction, in seconds.
    pub handoff_s: f64,
}

/// The approximate stationary behaviour.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeanFieldSolution {
    /// Tokens committed per second.
    pub tokens_per_s: f64,
    /// What the small model does.
    pub small: MeanFieldModel,
    /// What the large model does.
    pub large: MeanFieldModel,
    /// Largest relative error of `tokens_per_s` that was seen against exact chains with such a concurrency and threshold: from 2.5 % (threshold 1,
    /// C >= 6) to 8 % (threshold 0.6 C). With p from 0.03 to 0.3 and a ratio of step times near 5 it is below 1.5 % for thresholds up to 0.3 C.
    pub tolerance: f64,
}

/// What one model does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeanFieldModel {
    /// Fraction of the time in which a step runs.
    pub utilisation: f64,
    /// Mean number of requests in a step.
    pub mean_batch: f64,
    /// Mean batch admission delay of a visit, in seconds.
    pub mean_wait_s: f64,
}

/// Solves the mean-field equation.
///
/// The large model is an M/D^(m,inf)/1 queue (theory, section 5.1). Its mean wait is that of the queue when steps end with fewer than m requests
/// waiting, and the phase-aware one of section 4 when the next step follows at once; the two are weighted with the probabilities of these events. A
/// request that comes to the small model waits half a step if someone is there, which has the probability 1 - (1 - x T_S/(p C))^C when requests are
/// at the models independently.
///
/// Assumes that a large step takes much longer than a small one, and that the two times have no large common divisor (with constant commensurate
/// times the waits depend on the divisor: use the exact chain).
///
/// # Errors
/// If C is below 4, a large step takes less than 3 small ones, the threshold is above 0.6 C, or it is above 1 and kappa above 2: the result would
/// be up to 20 % off there, so use the exact chain. Also if p is not in (0, 1), the threshold is 0, or a time is negative or not finite.
pub fn solve(system: &MeanField) -> Result<MeanFieldSolution, OutOfRange> {
    let MeanField { concurrency, law, small, large, threshold, handoff_s } = *system;
    let requests = f64::from(concurrency);
    let exact_chain = "at least 4: below, requests are far from independent, so use the exact chain";
    require(concurrency >= 4, "concurrency", requests, exact_chain)?;
    large.check("large.fixed_s", "large.per_row_s")?;
    not_negative("handoff_s", handoff_s)?;
    let kappa = lambert::kappa(law, small, large)?;
    let ratio = large.step_s(1.0) / small.step_s(1.0);
    require(
        ratio >= 3.0,
        "large step / small step",
        ratio,
        "at least 3: arrivals at the large model come in bursts otherwise",
    )?;
    let (m, share) = (f64::from(threshold), f64::from(threshold) / requests);
    require(threshold >= 1, "threshold", m, "at least 1")?;
    if threshold > 1 {
        require(
            share <= 0.6,
            "threshold",
            m,
            "at most 0.6 x concurrency: the others are too few for Poisson arrivals",
        )?;
        // Kappa is a quotient of step times; a value of 2 that was meant must not fail by rounding.
        require(
            kappa <= 2.0 + 1e-9,
            "kappa",
            kappa,
            "at most 2 with a threshold above 1: requests move in cohorts otherwise",
        )?;
    }

    // Neither model can serve more than all of its time.
    let unloaded_s = small.fixed_s / law.p + large.fixed_s + 2.0 * handoff_s;
    let high = (requests / unloaded_s).min(law.p / small.per_row_s).min(1.0 / large.per_row_s);
    let rate = bisect(0.0, high, |rate| state(system, rate).requests - requests);
    let state = state(system, rate);
    Ok(MeanFieldSolution {
        tokens_per_s: rate / law.p,
        small: state.small,
        large: state.large,
        tolerance: tolerance(concurrency, threshold, share),
    })
}

/// Largest error against exact chains: C = 4..16, p = 0.02..0.57, step times of ratio 3..27, with and without a part per row.
fn tolerance(concurrency: u32, threshold: u32, share: f64) -> f64 {
    match threshold {
        1 if concurrency < 6 => 0.055,
        1 => 0.025,
        _ if share <= 0.3 => 0.03,
        _ if share <= 0.5 => 0.055,
        _ => 0.08,
    }
}

/// Where the requests are if they reach the large model at a given rate.
struct State {
    requests: f64,
    small: MeanFieldModel,
    large: MeanFieldModel,
}

fn state(system: &MeanField, rate: f64) -> State {
    let MeanField { concurrency, law, small, large, threshold, handoff_s } = *system;
    let requests = f64::from(concurrency);
    let row_rate = rate / law.p;

    // Small model: the batch determines the step time and the other way round. With b = row_rate T/U the equation for T at given U is linear.
    let mut small_utilisation = 1.0;
    let mut small_s = small.fixed_s;
    for _ in 0..200 {
        let slack = 1.0 - small.per_row_s * row_rate / small_utilisation;
        if slack <= 0.0 {
            return State::overloaded();
        }
        small_s = small.fixed_s / slack;
        let there = (row_rate * small_s / requests).min(1.0);
        let before = small_utilisation;
        small_utilisation = -(requests * (-there).ln_1p()).exp_m1();
        if (small_utilisation - before).abs() <= 1e-15 {
            break;
        }
    }
    let small_wait_s = small_utilisation * small_s / 2.0;

    let Some(queue) = BulkQueue::new(rate, threshold, large) else { return State::overloaded() };
    let utilisation = (queue.step_s / queue.period_s).min(1.0);
    let visit = Visit { small_s, law, away_s: 2.0 * handoff_s, small_utilisation };
    let in_phase_s = utilisation * (queue.step_s * visit.mean_ceil(queue.step_s) - visit.mean_s());
    let wait_s = queue.wait_s + queue.busy_on * (in_phase_s - queue.wait_s);

    let cycle_s = small_s / law.p + small_wait_s + wait_s + queue.step_s + 2.0 * handoff_s;
    State {
        requests: rate * cycle_s,
        small: MeanFieldModel {
            utilisation: small_utilisation,
            mean_batch: row_rate * small_s / small_utilisation,
            mean_wait_s: small_wait_s,
        },
        large: MeanFieldModel { utilisation, mean_batch: rate * queue.period_s, mean_wait_s: wait_s },
    }
}

impl State {
    /// A rate that a model cannot serve would need infinitely many requests.
    fn overloaded() -> Self {
        let none = MeanFieldModel { utilisation: 1.0, mean_batch: f64::INFINITY, mean_wait_s: f64::INFINITY };
        Self { requests: f64::INFINITY, small: none, large: none }
    }
}

/// The M/D^(m,inf)/1 queue: Poisson arrivals, a server that takes all that wait but at least m (theory, section 5.1; Neuts 1967).
struct BulkQueue {
    step_s: f64,
    /// Mean time from one launch to the next.
    period_s: f64,
    wait_s: f64,
    /// Probability that the next step follows a step at once.
    busy_on: f64,
}

impl BulkQueue {
    /// `None` if the server cannot keep up.
    fn new(rate: f64, threshold: u32, step: Affine) -> Option<Self> {
        if rate <= 0.0 {
            return Some(Self {
                step_s: step.step_s(f64::from(threshold)),
                period_s: f64::INFINITY,
                wait_s: 0.0,
                busy_on: 0.0,
            });
        }
        let mut step_s = step.fixed_s;
        // The batch grows with the step and the step with the batch; the contraction factor is at most per_row_s x rate < 1.
        for _ in 0..10_000 {
            let arrivals = Arrivals::during(rate * step_s, threshold);
            let period_s = step_s + arrivals.missing / rate;
            let next_s = step.step_s(rate * period_s);
            if !next_s.is_finite() {
                return None;
            }
            if (next_s - step_s).abs() <= 1e-14 * next_s {
                let area = rate * step_s * step_s / 2.0 + arrivals.area / rate;
                return Some(Self {
                    step_s: next_s,
                    period_s,
                    wait_s: area / (rate * period_s),
                    busy_on: arrivals.enough,
                });
            }
            step_s = next_s;
        }
        None
    }
}

/// Moments of the Poisson number A of arrivals during a step.
struct Arrivals {
    /// E (m - A)^+.
    missing: f64,
    /// E \[(m(m-1) - A(A-1))/2; A < m\]: request-time spent waiting for the rest, in units of the mean time between arrivals.
    area: f64,
    /// P(A >= m).
    enough: f64,
}

impl Arrivals {
    fn during(mean: f64, threshold: u32) -> Self {
        let m = f64::from(threshold);
        let (mut missing, mut area, mut fewer) = (0.0, 0.0, 0.0);
        let mut log_probability = -mean;
        for arrived in 0..threshold {
            let a = f64::from(arrived);
            let probability = log_probability.exp();
            missing += probability * (m - a);
            area += probability * (m * (m - 1.0) - a * (a - 1.0)) / 2.0;
            fewer += probability;
            log_probability += (mean / (a + 1.0)).ln();
        }
        Self { missing, area, enough: (1.0 - fewer).max(0.0) }
    }
}

/// The time from a large step's end until its request is back: V = T_S (G + R) + 2z, with G geometric from 1 and R uniform in (0, 1) if the small
/// model is busy, else 0.
struct Visit {
    small_s: f64,
    law: RoutingLaw,
    away_s: f64,
    small_utilisation: f64,
}

impl Visit {
    fn mean_s(&self) -> f64 {
        self.small_s * (1.0 / self.law.p + self.small_utilisation / 2.0) + self.away_s
    }

    /// E ceil(V/T) = sum over j >= 0 of P(V > j T).
    fn mean_ceil(&self, period_s: f64) -> f64 {
        let mut sum = 0.0;
        for j in 0_u32.. {
            let probability = self.longer_than(f64::from(j) * period_s);
            sum += probability;
            if probability <= 1e-13 * sum || j >= 1_000_000 {
                break;
            }
        }
        sum
    }

    fn longer_than(&self, time_s: f64) -> f64 {
        let steps = (time_s - self.away_s) / self.small_s;
        if steps < 0.0 {
            return 1.0;
        }
        let whole = steps.floor();
        // G > whole, or G = whole and the residual of the step in flight makes up for the rest.
        let equal = if whole >= 1.0 { self.law.q().powf(whole - 1.0) * self.law.p } else { 0.0 };
        self.law.q().powf(whole) + equal * self.small_utilisation * (1.0 - (steps - whole))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXAMPLE: MeanField = MeanField {
        concurrency: 16,
        law: RoutingLaw { p: 0.1 },
        small: Affine { fixed_s: 3e-3, per_row_s: 2e-5 },
        large: Affine { fixed_s: 16e-3, per_row_s: 15e-5 },
        threshold: 1,
        handoff_s: 0.0,
    };

    #[test]
    fn all_requests_are_somewhere() {
        let solution = solve(&MeanField { handoff_s: 0.01, threshold: 3, ..EXAMPLE }).unwrap();
        let rate = solution.tokens_per_s * 0.1;
        let small_s = EXAMPLE.small.step_s(solution.small.mean_batch);
        let large_s = EXAMPLE.large.step_s(solution.large.mean_batch);
        let cycle_s = small_s / 0.1 + solution.small.mean_wait_s + solution.large.mean_wait_s + large_s + 0.02;
        assert!((rate * cycle_s - 16.0).abs() < 1e-6, "{}", rate * cycle_s);
    }

    #[test]
    fn moments_of_few_arrivals_are_those_of_the_poisson_law() {
        let arrivals = Arrivals::during(1.5, 2);
        let (none, one) = ((-1.5_f64).exp(), 1.5 * (-1.5_f64).exp());
        assert!((arrivals.missing - (2.0 * none + one)).abs() < 1e-15);
        assert!((arrivals.area - (none + one)).abs() < 1e-15);
        assert!((arrivals.enough - (1.0 - none - one)).abs() < 1e-15);
    }

    #[test]
    fn a_queue_that_launches_at_once_waits_half_a_step_when_busy() {
        let queue = BulkQueue::new(0.5, 1, Affine::constant(4.0)).unwrap();
        // Section 4: U = xT/(xT + e^-xT), W = U T/2.
        let utilisation = 2.0 / (2.0 + (-2.0_f64).exp());
        assert!((queue.step_s / queue.period_s - utilisation).abs() < 1e-14);
        assert!((queue.wait_s - utilisation * 2.0).abs() < 1e-14);
        assert!(BulkQueue::new(0.5, 1, Affine { fixed_s: 1.0, per_row_s: 2.1 }).is_none());
    }

    #[test]
    fn the_mean_number_of_steps_begun_during_a_visit() {
        let visit = Visit { small_s: 1.0, law: RoutingLaw { p: 0.25 }, away_s: 0.5, small_utilisation: 1.0 };
        // Short periods: E ceil(V/T) = E V/T + 1/2 up to the period.
        let fine = visit.mean_ceil(1e-3) * 1e-3;
        assert!((fine - visit.mean_s() - 0.5e-3).abs() < 1e-6, "{fine}");
        // V > 0 always, and V > 1.5 unless the visit is of one step with no residual left: 0.75 + 0.25 x 1.
        assert!((visit.longer_than(1.5) - 1.0).abs() < 1e-15);
        assert!((visit.longer_than(2.0) - (0.75 + 0.25 * 0.5)).abs() < 1e-15);
    }

    #[test]
    fn a_long_handoff_hides_everything_else() {
        let solution = solve(&MeanField { handoff_s: 100.0, ..EXAMPLE }).unwrap();
        assert!((solution.tokens_per_s / (16.0 / 200.0 / 0.1) - 1.0).abs() < 1e-3);
    }

    #[test]
    fn what_is_out_of_range_is_refused_with_its_reason() {
        let refused = |system: MeanField| solve(&system).unwrap_err().quantity;
        assert_eq!(refused(MeanField { concurrency: 3, ..EXAMPLE }), "concurrency");
        assert_eq!(refused(MeanField { threshold: 10, ..EXAMPLE }), "threshold");
        assert_eq!(refused(MeanField { threshold: 0, ..EXAMPLE }), "threshold");
        assert_eq!(refused(MeanField { law: RoutingLaw { p: 0.5 }, threshold: 2, ..EXAMPLE }), "kappa");
        assert_eq!(refused(MeanField { law: RoutingLaw { p: 1.0 }, ..EXAMPLE }), "p");
        assert_eq!(refused(MeanField { large: EXAMPLE.small, ..EXAMPLE }), "large step / small step");
        assert!(solve(&MeanField { law: RoutingLaw { p: 0.5 }, ..EXAMPLE }).is_ok());
    }
}
