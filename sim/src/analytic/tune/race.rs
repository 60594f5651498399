//! Simulated candidates against each other, under common random numbers.
//!
//! Replication r of every candidate runs under the same seed, so all see the same requests with the same routes, and the ratio of two throughputs is
//! far less noisy than either. A race doubles the replications round by round and drops who is behind: after two replications by a wide margin, from
//! four on by more than the 95 % interval of the paired difference. (Sequential halving, Karnin, Koren and Somekh 2013, with the paired intervals of
//! a race as in Maron and Moore 1997.)

use std::collections::{BTreeMap, BTreeSet};

use rayon::prelude::*;

use super::system::System;
use super::{Candidate, Method, TuneError};
use crate::engine::{Window, choose_warmup, replicate};
use crate::rng::Stream;
use crate::stats::Estimate;

/// After two replications there is no interval worth the name; only who is so far behind is dropped.
const FAR_BEHIND: f64 = 0.05;
/// A race ends where all who are left are known to be this close to the leader.
const CLOSE: f64 = 0.000_5;
/// How many stay after so many replications, however close they are.
const STAY: [(usize, usize); 3] = [(2, 96), (4, 32), (8, 12)];

/// Runs candidates and keeps what they yielded.
#[derive(Debug)]
pub(super) struct Racer<'a, 's> {
    system: &'a System<'s>,
    seed: u64,
    window: Window,
    replications: usize,
    /// Throughput of each replication, by thresholds.
    runs: BTreeMap<Vec<u32>, Vec<f64>>,
}

impl<'a, 's> Racer<'a, 's> {
    /// Finalists run `replications` replications, whose seeds derive from `seed`. The warm-up is chosen once, at threshold 1.
    pub(super) fn new(system: &'a System<'s>, seed: u64, replications: u32) -> Result<Self, TuneError> {
        let eager = vec![1; system.n_models()];
        let warmup = choose_warmup(&system.config(&eager), Stream::replication_seed(seed, u32::MAX));
        let warmup = warmup.map_err(|error| TuneError::Run { thresholds: eager, error })?;
        let requests = u64::from(system.scenario.workload().requests());
        Ok(Self {
            system,
            seed,
            window: Window::Requests { warmup_requests: warmup.requests, requests },
            replications: replications.max(4) as usize,
            runs: BTreeMap::new(),
        })
    }

    pub(super) fn knows(&self, thresholds: &[u32]) -> bool {
        self.runs.contains_key(thresholds)
    }

    /// The one with the most replications, of those the best.
    pub(super) fn leader(&self) -> Option<&Vec<u32>> {
        let most = self.runs.values().map(Vec::len).max()?;
        let finalists = self.runs.iter().filter(|(_, values)| values.len() == most);
        // The first of equal ones: smaller thresholds.
        let best = finalists.reduce(|best, next| if mean(next.1) > mean(best.1) { next } else { best });
        best.map(|(thresholds, _)| thresholds)
    }

    /// Lets `vectors` race; what they ran before counts.
    pub(super) fn race(&mut self, vectors: &[Vec<u32>]) -> Result<(), TuneError> {
        let distinct: BTreeSet<&Vec<u32>> = vectors.iter().collect();
        let mut racing: Vec<Vec<u32>> = distinct.into_iter().cloned().collect();
        let mut replications = 2;
        while !racing.is_empty() {
            self.run(&racing, replications)?;
            if racing.len() == 1 && replications >= self.replications {
                break;
            }
            let gaps = self.gaps(&racing, replications);
            let all_close = gaps.iter().all(|gap| gap.low >= -CLOSE && gap.high <= CLOSE);
            if replications >= self.replications || (replications >= 4 && all_close && racing.len() > 1) {
                // Whoever is left has the full number, so that it ranks with the finalists of other races.
                let best = leading(&gaps);
                self.run(&[racing[best].clone()], self.replications)?;
                break;
            }
            let mut stay: Vec<usize> = (0..racing.len()).filter(|&idx| gaps[idx].may_lead(replications)).collect();
            stay.sort_by(|&a, &b| gaps[b].mean.total_cmp(&gaps[a].mean).then(a.cmp(&b)));
            let most = STAY.iter().find(|(after, _)| *after == replications).map_or(usize::MAX, |(_, most)| *most);
            stay.truncate(most);
            racing = stay.into_iter().map(|idx| racing[idx].clone()).collect();
            replications = (2 * replications).min(self.replications);
        }
        Ok(())
    }

    /// Runs what is missing of the first `replications` replications of `vectors`.
    pub(super) fn run(&mut self, vectors: &[Vec<u32>], replications: usize) -> Result<(), TuneError> {
        let known = |thresholds: &Vec<u32>| self.runs.get(thresholds).map_or(0, Vec::len);
        let jobs: Vec<(&Vec<u32>, usize)> = vectors
            .iter()
            .flat_map(|thresholds| (known(thresholds)..replications).map(move |replication| (thresholds, replication)))
            .collect();
        let run = |&(thresholds, replication): &(&Vec<u32>, usize)| {
            let seed = Stream::replication_seed(self.seed, replication as u32);
            let metrics = replicate(&self.system.config(thresholds), seed, self.window)
                .map_err(|error| TuneError::Run { thresholds: thresholds.clone(), error })?;
            let throughput = metrics.throughput();
            if throughput.is_finite() {
                Ok(throughput)
            } else {
                Err(TuneError::NoTime { thresholds: thresholds.clone() })
            }
        };
        let values = jobs.par_iter().map(run).collect::<Result<Vec<f64>, _>>()?;
        let added: Vec<(Vec<u32>, f64)> =
            jobs.iter().zip(values).map(|((thresholds, _), value)| ((*thresholds).clone(), value)).collect();
        for (thresholds, value) in added {
            self.runs.entry(thresholds).or_default().push(value);
        }
        Ok(())
    }

    /// How far each is from the leader over the first `replications` replications.
    fn gaps(&self, racing: &[Vec<u32>], replications: usize) -> Vec<Gap> {
        let values = |idx: usize| &self.runs[&racing[idx]][..replications];
        let leader =
            (0..racing.len()).reduce(|best, next| if mean(values(next)) > mean(values(best)) { next } else { best });
        let leader = values(leader.expect("somebody races"));
        (0..racing.len()).map(|idx| Gap::between(values(idx), leader)).collect()
    }

    /// Everybody who ran, in the order of their thresholds.
    pub(super) fn candidates(&self) -> Vec<Candidate> {
        let Some(leader) = self.leader() else { return Vec::new() };
        let best = &self.runs[leader];
        let of = |(thresholds, values): (&Vec<u32>, &Vec<f64>)| {
            let shared = values.len().min(best.len());
            let ratio = mean(&values[..shared]) / mean(&best[..shared]);
            Candidate {
                thresholds: thresholds.clone(),
                throughput: mean(best) * ratio,
                method: Method::Simulate,
                half_width: Estimate::of(values).half_width,
                replications: values.len() as u32,
                loss: 0.0,
            }
        };
        self.runs.iter().map(of).collect()
    }

    /// The replications of a vector that ran.
    pub(super) fn values(&self, thresholds: &[u32]) -> Option<&[f64]> {
        self.runs.get(thresholds).map(Vec::as_slice)
    }
}

/// The relative paired difference of one candidate to another, with its 95 % interval.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gap {
    pub(super) mean: f64,
    pub(super) low: f64,
    pub(super) high: f64,
}

impl Gap {
    /// (own - other) / mean of other, over replications that ran under the same seeds.
    pub(super) fn between(own: &[f64], other: &[f64]) -> Self {
        let level = mean(other);
        let differences: Vec<f64> = own.iter().zip(other).map(|(own, other)| (own - other) / level).collect();
        let estimate = Estimate::of(&differences);
        let half_width = estimate.half_width.unwrap_or(f64::INFINITY);
        Self { mean: estimate.mean, low: estimate.mean - half_width, high: estimate.mean + half_width }
    }

    /// Whether the one behind could still be the better one.
    fn may_lead(&self, replications: usize) -> bool {
        if replications < 4 { self.mean >= -FAR_BEHIND } else { self.high >= 0.0 }
    }
}

fn leading(gaps: &[Gap]) -> usize {
    (0..gaps.len()).reduce(|best, next| if gaps[next].mean > gaps[best].mean { next } else { best }).unwrap_or(0)
}

pub(super) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}
