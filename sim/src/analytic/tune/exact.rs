//! Throughput of threshold vectors by the exact chain.

use rayon::prelude::*;

use super::super::chain::{self, ChainError, ChainSpec, GridSteps, LaunchRule};
use super::system::System;
use super::{TuneError, TuneOptions};
use crate::policy::Policy;

/// The step time of one model on the grid of the exact method. Throughput can jump by some per cent when a step time moves by a grid step (theory,
/// section 4), so the rounding bounds no error.
#[derive(Clone, Debug, PartialEq)]
pub struct GridStep {
    /// The model's name.
    pub model: String,
    /// Length of a grid unit, in seconds.
    pub grid_s: f64,
    /// Shortest and longest step on the grid, in seconds; equal for constant times.
    pub step_s: (f64, f64),
    /// Largest |rounded - given|, in seconds, over all batches.
    pub rounding_s: f64,
}

/// The chain of a scenario, whatever the thresholds.
#[derive(Clone, Debug)]
pub(super) struct ExactModel {
    spec: ChainSpec,
    names: Vec<String>,
}

/// The finest grids that are tried, in nanoseconds, finest first.
const GRIDS_NS: [u64; 12] =
    [1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000, 2_000_000, 5_000_000];
/// A grid must divide the shortest step into at least so many units, or be a divisor of all steps.
const UNITS_MIN: u64 = 20;

impl ExactModel {
    /// The chain on the grid of the options, or else on the largest common divisor of all step times, or else on the finest grid that is not too
    /// large. `states_max` bounds the estimated states of one chain.
    ///
    /// # Errors
    /// What the chain does not describe, or that no grid is coarse enough, as text.
    pub(super) fn new(system: &System<'_>, options: &TuneOptions, states_max: f64) -> Result<Self, String> {
        let launch = system.launch_rule()?;
        let concurrency = system.concurrency;
        let times_ns: Vec<Vec<u64>> = (0..system.n_models())
            .map(|model| (1..=concurrency).map(|rows| system.step_ns(model, rows)).collect())
            .collect();
        if let Some(grid_s) = options.grid_s {
            let model = Self::on_grid(system, launch, &times_ns, grid_s);
            let model =
                model.ok_or_else(|| format!("a grid of {grid_s} s is too coarse or too fine for the step times"))?;
            return model.if_not_larger(states_max);
        }
        let all = || times_ns.iter().flatten().copied();
        let divisor_ns = all().fold(0, greatest_common_divisor);
        let shortest_ns = all().min().expect("a scenario has models, and a closed loop has requests");
        let grids = GRIDS_NS.into_iter().filter(|&grid_ns| grid_ns > divisor_ns && UNITS_MIN * grid_ns <= shortest_ns);
        let mut refusal = None;
        for grid_ns in std::iter::once(divisor_ns).chain(grids) {
            let Some(model) = Self::on_grid(system, launch, &times_ns, grid_ns as f64 * 1e-9) else { continue };
            match model.if_not_larger(states_max) {
                Ok(model) => return Ok(model),
                Err(error) => refusal = Some(error),
            }
        }
        Err(refusal.unwrap_or_else(|| "no grid has the step times".to_owned()))
    }

    fn on_grid(system: &System<'_>, launch: LaunchRule, times_ns: &[Vec<u64>], grid_s: f64) -> Option<Self> {
        let markov = system.markov()?;
        let steps = times_ns
            .iter()
            .map(|times| {
                let seconds = |rows: u32| times[rows as usize - 1] as f64 * 1e-9;
                if times.iter().all(|&time| time == times[0]) {
                    GridSteps::round_constant(seconds(1), grid_s)
                } else {
                    GridSteps::round_per_batch(system.concurrency, grid_s, seconds)
                }
            })
            .collect::<Option<Vec<_>>>()?;
        let has_no_time = |step: &GridSteps| (1..=system.concurrency).any(|rows| step.units(rows) == Some(0));
        if steps.iter().any(has_no_time) {
            return None;
        }
        let spec = ChainSpec {
            concurrency: system.concurrency,
            grid_s,
            steps,
            thresholds: vec![1; times_ns.len()],
            routes: markov.routes().to_vec(),
            commits: markov.commits().to_vec(),
            entry: markov.entry().idx(),
            launch,
        };
        let names = system.scenario.models().iter().map(|model| model.name.clone()).collect();
        Some(Self { spec, names })
    }

    fn if_not_larger(self, states_max: f64) -> Result<Self, String> {
        let states = chain::estimated_states(&self.spec);
        if states <= states_max {
            return Ok(self);
        }
        let units = f64::from(self.spec.steps.iter().filter_map(|steps| steps.units(1)).max().unwrap_or(0));
        Err(format!(
            "about {states:.0} states with steps of up to {units} grid units, more than the {states_max:.0} that one chain may have"
        ))
    }

    pub(super) fn grid_steps(&self) -> Vec<GridStep> {
        let grid_s = self.spec.grid_s;
        let of = |(model, steps): (&String, &GridSteps)| {
            let times = || {
                (1..=self.spec.concurrency).filter_map(|rows| steps.units(rows)).map(|units| f64::from(units) * grid_s)
            };
            GridStep {
                model: model.clone(),
                grid_s,
                step_s: (times().fold(f64::INFINITY, f64::min), times().fold(0.0, f64::max)),
                rounding_s: steps.rounding().largest_s,
            }
        };
        self.names.iter().zip(&self.spec.steps).map(of).collect()
    }

    /// Tokens per second and residual of each vector.
    pub(super) fn solve(&self, vectors: &[Vec<u32>], options: &TuneOptions) -> Result<Vec<(f64, f64)>, TuneError> {
        let solve = |thresholds: &Vec<u32>| {
            let solution = chain::solve(&self.with(thresholds), &options.limits);
            match solution {
                Ok(solution) => Ok((solution.tokens_per_s, solution.residual)),
                Err(error) => Err(TuneError::Chain { thresholds: thresholds.clone(), error }),
            }
        };
        vectors.par_iter().map(solve).collect()
    }

    fn with(&self, thresholds: &[u32]) -> ChainSpec {
        ChainSpec { thresholds: thresholds.to_vec(), ..self.spec.clone() }
    }
}

/// Whether another method can do what this error says the chain cannot: the chain has several regimes, or is larger than was foreseen.
pub(super) fn is_beyond_the_chain(error: &TuneError) -> bool {
    matches!(
        error,
        TuneError::Chain {
            error: ChainError::SeveralRegimes { .. }
                | ChainError::TooManyStates { .. }
                | ChainError::TooManyTransitions { .. }
                | ChainError::StateTooWide { .. }
                | ChainError::NotConverged { .. },
            ..
        }
    )
}

fn greatest_common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}
