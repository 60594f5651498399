//! The exact chain against the simulator, on random systems whose step times lie on the grid, so that both solve the same problem.
#![allow(clippy::unwrap_used)]
mod support;

use handoff_scheduler::{Destination, ModelIdx, Order, Outcome, StepPlan, Timestamp};
use handoff_sim::analytic::chain::{self, ChainLimits, ChainSpec, GridSteps, LaunchRule};
use handoff_sim::analytic::mean_field::{self, MeanField};
use handoff_sim::analytic::{Affine, RoutingLaw, bounds};
use handoff_sim::engine::{EngineConfig, Observer, Window, replicate_observed};
use handoff_sim::policy::Markov;
use handoff_sim::rng::{Purpose, Stream};
use handoff_sim::workload::Start;
use support::{Place, affine, config, model, started};

const GRID_MS: f64 = 0.1;

/// A random system, as the chain sees it. Step times are constant or grow with the batch, in grid units.
struct System {
    concurrency: u32,
    /// Fixed and per-row grid units of each model.
    units: Vec<(u32, u32)>,
    thresholds: Vec<u32>,
    routes: Vec<Vec<f64>>,
    commits: Vec<Vec<f64>>,
    place: Place,
}

impl System {
    fn random(seed: u64, n_models: usize, concurrency_max: u32) -> Self {
        let mut stream = Stream::new(seed, Purpose::Start, n_models as u64);
        let concurrency = 2 + stream.below(concurrency_max - 1);
        let units = (0..n_models)
            .map(|model| {
                let fixed = if model == 0 { 5 + stream.below(60) } else { 10 + stream.below(250) };
                (fixed, if stream.below(3) == 0 { stream.below(6) } else { 0 })
            })
            .collect();
        let mut thresholds: Vec<u32> = (0..n_models).map(|_| 1 + stream.below(concurrency)).collect();
        while thresholds.iter().map(|threshold| threshold - 1).sum::<u32>() >= concurrency {
            let lowered = stream.below(n_models as u32) as usize;
            thresholds[lowered] = (thresholds[lowered] - 1).max(1);
        }
        let (routes, commits) = matrices(&mut stream, n_models);
        let place = match stream.below(6) {
            0 => Place::Serial(Order::LargeFirst),
            1 => Place::Serial(Order::SmallFirst),
            2 => Place::Serial(Order::Alternate),
            _ => Place::Two,
        };
        Self { concurrency, units, thresholds, routes, commits, place }
    }

    fn spec(&self, routes: Vec<Vec<f64>>) -> ChainSpec {
        let steps = self.units.iter().map(|&(fixed, per_row)| match per_row {
            0 => GridSteps::constant(fixed),
            _ => GridSteps::per_batch((1..=self.concurrency).map(|rows| fixed + per_row * rows).collect()),
        });
        ChainSpec {
            concurrency: self.concurrency,
            grid_s: GRID_MS * 1e-3,
            steps: steps.collect(),
            thresholds: self.thresholds.clone(),
            routes,
            commits: self.commits.clone(),
            entry: 0,
            launch: match self.place {
                Place::Serial(Order::LargeFirst) => LaunchRule::Exclusive(chain::Order::LargeFirst),
                Place::Serial(Order::SmallFirst) => LaunchRule::Exclusive(chain::Order::SmallFirst),
                Place::Serial(Order::Alternate) => LaunchRule::Exclusive(chain::Order::Alternate),
                Place::Two | Place::Ps(..) => LaunchRule::Separate,
            },
        }
    }

    fn config(&self) -> EngineConfig {
        let policy = Markov::new(self.routes.clone(), self.commits.clone(), ModelIdx(0)).unwrap();
        let models =
            self.units.iter().zip(&self.thresholds).enumerate().map(|(idx, (&(fixed, per_row), &threshold))| {
                let latency = affine(f64::from(fixed) * GRID_MS, f64::from(per_row) * GRID_MS);
                model(&format!("model-{idx}"), latency, threshold)
            });
        config(policy, models.collect(), self.place, self.concurrency)
    }
}

/// The R2R law, R-Stitch's, or any matrices; every diagonal commits, so that some token is always made.
fn matrices(stream: &mut Stream, n_models: usize) -> (Vec<Vec<f64>>, Vec<Vec<f64>>) {
    let mut probability = |low: f64, high: f64| low + (high - low) * stream.unit();
    if n_models == 2 {
        let (a, b) = (probability(0.05, 0.6), probability(0.2, 0.8));
        return match stream.below(3) {
            0 => (vec![vec![1.0 - a, a], vec![1.0, 0.0]], vec![vec![1.0, 0.0], vec![1.0, 0.0]]),
            1 => (vec![vec![1.0 - a, a], vec![b, 1.0 - b]], vec![vec![1.0, 0.0], vec![1.0, 1.0]]),
            _ => (vec![vec![1.0 - a, a], vec![b, 1.0 - b]], vec![vec![1.0, 1.0], vec![0.0, 1.0]]),
        };
    }
    let routes = (0..n_models)
        .map(|_| {
            let weights: Vec<f64> = (0..n_models).map(|_| probability(0.1, 1.0)).collect();
            let total: f64 = weights.iter().sum();
            weights.into_iter().map(|weight| weight / total).collect()
        })
        .collect();
    (routes, vec![vec![1.0; n_models]; n_models])
}

/// Counts where requests go from each model: the routes as realised.
struct Routes(Vec<Vec<u64>>);

impl Observer for Routes {
    fn finished(&mut self, _now: Timestamp, model: ModelIdx, _plan: &StepPlan<'_>, outcomes: &[Outcome]) {
        for outcome in outcomes {
            match outcome.destination {
                Destination::Stay => self.0[model.idx()][model.idx()] += 1,
                Destination::To(to) => self.0[model.idx()][to.idx()] += 1,
                Destination::Finished => {}
            }
        }
    }
}

/// Throughput of a run of about `tokens` tokens by endless requests, and the routes that it drew. The exact value is taken at these routes instead of the
/// nominal ones: a control variate that removes most of the noise.
fn simulated(system: &System, tokens: u32, seed: u64) -> (f64, Vec<Vec<f64>>) {
    let per_request = tokens / system.concurrency;
    let config = started(system.config(), per_request, Start::InPhase);
    let window = Window::Requests { warmup_requests: 0, requests: 1 };
    let n_models = system.units.len();
    let counts = Routes(vec![vec![0; n_models]; n_models]);
    let (metrics, Routes(counts)) = replicate_observed(&config, seed, window, counts).unwrap();
    let realised = |row: &Vec<u64>| {
        let total: u64 = row.iter().sum();
        row.iter().map(|&count| count as f64 / total as f64).collect()
    };
    (metrics.throughput(), counts.iter().map(realised).collect())
}

/// Checks `n` random systems of `n_models`; those whose chain has several regimes have no long-run throughput and do not count.
fn check(n: u32, n_models: usize, concurrency_max: u32, tokens: u32) {
    let (mut checked, mut worst) = (0, 0.0_f64);
    for seed in 0.. {
        let system = System::random(seed, n_models, concurrency_max);
        let (value, realised) = simulated(&system, tokens, seed);
        let exact = match chain::solve(&system.spec(realised), &ChainLimits::default()) {
            Err(chain::ChainError::SeveralRegimes { .. }) => continue,
            solution => solution.unwrap(),
        };
        let error = value / exact.tokens_per_s - 1.0;
        assert!(
            error.abs() <= 0.005,
            "seed {seed}, {:?}, thresholds {:?}, C = {}: simulated {value}, exact {}",
            system.place,
            system.thresholds,
            system.concurrency,
            exact.tokens_per_s
        );
        worst = worst.max(error.abs());
        checked += 1;
        if checked == n {
            break;
        }
    }
    println!("{n} systems of {n_models} models: largest error {worst:.5}");
}

#[test]
fn two_models_are_simulated_as_the_chain_says() {
    check(60, 2, 7, 400_000);
}

#[test]
fn three_models_are_simulated_as_the_chain_says() {
    check(10, 3, 4, 400_000);
}

/// For C >= 4 and thresholds up to 0.3 C the mean field is within 2 % of the simulation, at p from 0.03 to 0.3 and the ratio of step times that the theory
/// illustrates with; and nothing exceeds its bound.
#[test]
fn the_mean_field_is_within_two_per_cent_and_below_the_bound() {
    let (small, large) = (Affine::constant(3e-3), Affine::constant(16.1e-3));
    for concurrency in [4_u32, 6, 8, 12, 20, 40] {
        for p in [0.03, 0.1, 0.3] {
            let law = RoutingLaw { p };
            let thresholds = [1, (3 * concurrency / 20).max(1), (3 * concurrency / 10).max(1)];
            for threshold in thresholds {
                let approximate =
                    mean_field::solve(&MeanField { concurrency, law, small, large, threshold, handoff_s: 0.0 })
                        .unwrap();
                let system = System {
                    concurrency,
                    units: vec![(30, 0), (161, 0)],
                    thresholds: vec![1, threshold],
                    routes: vec![vec![1.0 - p, p], vec![1.0, 0.0]],
                    commits: vec![vec![1.0, 0.0], vec![1.0, 0.0]],
                    place: Place::Two,
                };
                let (value, realised) = simulated(&system, 600_000, 1);
                // Near linear in p, so the difference to the nominal p carries over.
                let law = RoutingLaw { p: realised[0][1] };
                let at_realised =
                    mean_field::solve(&MeanField { concurrency, law, small, large, threshold, handoff_s: 0.0 })
                        .unwrap();
                let error = at_realised.tokens_per_s / value - 1.0;
                assert!(error.abs() <= 0.02, "C = {concurrency}, p {p}, threshold {threshold}: {error}");
                assert!((approximate.tokens_per_s / at_realised.tokens_per_s - 1.0).abs() < 0.05);
                let demands = bounds::r2r_demands(law, small, large).unwrap();
                let bound = bounds::separate(concurrency, &demands, 0.0).unwrap() / law.p;
                assert!(
                    value <= bound * 1.001,
                    "C = {concurrency}, p {p}, threshold {threshold}: {value} above {bound}"
                );
            }
        }
    }
}
