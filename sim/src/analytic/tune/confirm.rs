//! Candidates simulated once more, on seeds that chose none of them.

use super::TuneError;
use super::race::{Gap, Racer};
use super::system::System;
use crate::rng::Stream;
use crate::scenario::Scenario;
use crate::stats::Estimate;

/// One candidate on fresh seeds.
#[derive(Clone, Debug, PartialEq)]
pub struct Confirmed {
    /// The threshold of each model.
    pub thresholds: Vec<u32>,
    /// Tokens per second, mean over replications.
    pub throughput: f64,
    /// Half the width of its 95 % interval.
    pub half_width: f64,
    /// Mean relative difference to the chosen one over replications under the same seeds: above 0, the chosen one loses against it.
    pub ahead: f64,
    /// 95 % interval of that difference.
    pub ahead_interval: (f64, f64),
}

/// How a choice does against others on fresh seeds.
#[derive(Clone, Debug, PartialEq)]
pub struct Confirmation {
    /// The chosen vector, then the others in the order given.
    pub candidates: Vec<Confirmed>,
    /// Share of throughput lost by the choice against the best of these candidates; 0 if it is the best.
    pub regret: f64,
    /// Ends of the regret's interval: the largest low and the largest high end of the differences to the others, not below 0. Each difference is
    /// covered with 95 %; the largest of several is a little less so.
    pub regret_interval: (f64, f64),
    /// Replications of each.
    pub replications: u32,
}

/// Simulates `chosen` and `others` under common random numbers, `replications` times each (at least 4), on seeds that [`super::tune`] never uses.
///
/// # Errors
/// As for [`super::tune`]; and if a vector has not one threshold a model or is infeasible, the run stalls.
pub fn confirm(
    scenario: &Scenario,
    chosen: &[u32],
    others: &[Vec<u32>],
    replications: u32,
) -> Result<Confirmation, TuneError> {
    let system = System::of(scenario)?;
    let fresh = Stream::replication_seed(scenario.seed(), u32::MAX - 1);
    let mut racer = Racer::new(&system, fresh, replications)?;
    let mut vectors = vec![chosen.to_vec()];
    vectors.extend(others.iter().filter(|other| *other != chosen).cloned());
    let replications = replications.max(4);
    racer.run(&vectors, replications as usize)?;
    let values = |thresholds: &[u32]| racer.values(thresholds).expect("every vector has run");
    let of_chosen = values(chosen);
    let candidates: Vec<Confirmed> = vectors
        .iter()
        .map(|thresholds| {
            let (own, gap) = (Estimate::of(values(thresholds)), Gap::between(values(thresholds), of_chosen));
            Confirmed {
                thresholds: thresholds.clone(),
                throughput: own.mean,
                half_width: own.half_width.unwrap_or(f64::NAN),
                ahead: gap.mean,
                ahead_interval: (gap.low, gap.high),
            }
        })
        .collect();
    // The chosen one differs from itself by exactly nothing, so no value is below 0.
    let largest = |of: fn(&Confirmed) -> f64| candidates.iter().map(of).fold(0.0, f64::max);
    // A difference is relative to the choice, a loss to the best.
    let loss = |ahead: f64| ahead / (1.0 + ahead);
    Ok(Confirmation {
        regret: loss(largest(|candidate| candidate.ahead)),
        regret_interval: (
            loss(largest(|candidate| candidate.ahead_interval.0)),
            loss(largest(|candidate| candidate.ahead_interval.1)),
        ),
        candidates,
        replications,
    })
}
