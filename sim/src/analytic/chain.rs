//! The exact Markov chain of cooperating models at their batch completions (theory, section 0; the serving paper's appendix D).
//!
//! The state holds, for every model, the requests that wait, the batch that runs and its residual time. The holding time of a state is the smallest
//! residual. Every model whose residual equals it completes; each of its requests draws its destination, independently, from the model's row of
//! `routes`; only then do idle models with at least `threshold` waiting requests launch all that wait. Throughput is the mean number of tokens
//! committed per transition over the mean holding time, under the stationary distribution of the states that can be reached.
//!
//! Step times are whole numbers of grid units, constant or a function of the batch at launch. Constant step times make the model's predictions
//! depend on how the times divide one another (theory, section 4): a chain with commensurate times is exact for such a machine, and a real machine
//! has jitter.

mod classes;
mod grid;
mod outcomes;
mod solve;
mod space;
#[cfg(test)]
mod tests;

pub use grid::{GridSteps, Rounding};

/// A system to be solved exactly.
#[derive(Clone, Debug, PartialEq)]
pub struct ChainSpec {
    /// Requests in the system, shared by all models.
    pub concurrency: u32,
    /// Length of one grid unit, in seconds.
    pub grid_s: f64,
    /// Step times, one entry per model. The number of models is the length of this list.
    pub steps: Vec<GridSteps>,
    /// Launch threshold of each model: an idle model launches only when at least so many requests wait for it.
    pub thresholds: Vec<u32>,
    /// `routes[i][j]`: probability that a request goes to model j after a step of model i. Rows add to 1; the diagonal means that it stays.
    pub routes: Vec<Vec<f64>>,
    /// `commits[i][j]`: tokens committed when a request goes from model i to model j.
    pub commits: Vec<Vec<f64>>,
    /// The model at which all requests start. Only states that can be reached from there count.
    pub entry: usize,
    /// Which idle models may launch at one instant.
    pub launch: LaunchRule,
}

/// Which of the models whose threshold is met may launch at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaunchRule {
    /// Every one of them: each model has a device of its own. The paper's model.
    Separate,
    /// One device runs one step at a time; the order says who is next.
    Exclusive(Order),
}

/// Who is next on an exclusive device, among the models whose threshold is met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The model with the highest index: the large one of two. What the serial formulas of theory.md assume.
    LargeFirst,
    /// The model with the lowest index.
    SmallFirst,
    /// Round robin: the first one after the model that has just completed.
    Alternate,
}

/// What a solution may cost, and how good it must be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChainLimits {
    /// Refuse a chain whose estimated number of states is larger. A state costs about 100 bytes.
    pub max_states: u64,
    /// Refuse a chain with more transitions. A transition costs 8 bytes.
    pub max_transitions: u64,
    /// Largest residual |pi P - pi| (sum over states, pi adding to 1) of an accepted solution.
    pub tolerance: f64,
    /// Give up after so many passes over all transitions.
    pub max_passes: u32,
}

impl Default for ChainLimits {
    /// Two million states, 60 million transitions (about 1 GB in all), residual 1e-12, 5,000 passes.
    fn default() -> Self {
        Self { max_states: 2_000_000, max_transitions: 60_000_000, tolerance: 1e-12, max_passes: 5_000 }
    }
}

/// The stationary behaviour of a chain.
#[derive(Clone, Debug, PartialEq)]
pub struct ChainSolution {
    /// Tokens committed per second.
    pub tokens_per_s: f64,
    /// Mean time between two batch completions, in seconds.
    pub mean_holding_s: f64,
    /// What each model does.
    pub models: Vec<ModelBehaviour>,
    /// States that can be reached.
    pub n_states: usize,
    /// Those of them that recur; the others are left for ever after the start.
    pub n_recurrent: usize,
    /// Transitions between recurrent states.
    pub n_transitions: usize,
    /// |pi P - pi|, summed over all states, of the distribution used.
    pub residual: f64,
    /// Passes over all transitions that the solution took.
    pub passes: u32,
    /// What rounding the step times to the grid changed, per model.
    pub rounding: Vec<Rounding>,
}

/// What one model does in the stationary state.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ModelBehaviour {
    /// Fraction of the time in which a batch runs.
    pub utilisation: f64,
    /// Steps per second.
    pub steps_per_s: f64,
    /// Mean number of requests in a batch; 0 if the model never runs.
    pub mean_batch: f64,
    /// Mean number of requests that wait for admission.
    pub mean_waiting: f64,
    /// Mean batch admission delay per step of a request, in seconds (a request that stays and is admitted at once counts with 0).
    pub mean_wait_s: f64,
}

/// Why a chain has no solution.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ChainError {
    /// The description does not fit together.
    #[error("`{field}` is {value} but must be {expected}")]
    Invalid {
        /// The field of [`ChainSpec`], with its index.
        field: String,
        /// Its value.
        value: f64,
        /// What was expected.
        expected: &'static str,
    },
    /// The thresholds can stop the system for ever.
    #[error(
        "thresholds {thresholds:?} can stop for ever: the sum of (threshold - 1) must be below the concurrency of {concurrency}"
    )]
    Infeasible {
        /// The thresholds.
        thresholds: Vec<u32>,
        /// Requests in the system.
        concurrency: u32,
    },
    /// The state space is too large. Known before anything is built.
    #[error(
        "about {estimated:.0} states are expected but at most {limit} are allowed: use a coarser grid, fewer requests or the mean field"
    )]
    TooManyStates {
        /// Estimated number of states, an upper bound.
        estimated: f64,
        /// The limit.
        limit: u64,
    },
    /// The state space has too many transitions. Known while it is being built.
    #[error("more than {limit} transitions: use a coarser grid, fewer requests or the mean field")]
    TooManyTransitions {
        /// The limit.
        limit: u64,
    },
    /// A state does not fit into 128 bits.
    #[error("a state needs {bits} bits but has only 128: use a coarser grid or fewer models")]
    StateTooWide {
        /// Bits needed.
        bits: u32,
    },
    /// The long-run throughput depends on chance: the system settles in one of several regimes and stays there.
    #[error(
        "the system settles in one of {n_classes} separate regimes, so there is no single long-run throughput: simulate several starts"
    )]
    SeveralRegimes {
        /// Number of closed classes that the start can reach.
        n_classes: usize,
    },
    /// No sufficiently exact stationary distribution was found.
    #[error("residual {residual:e} after {passes} passes, but {tolerance:e} was wanted")]
    NotConverged {
        /// The residual reached.
        residual: f64,
        /// The residual wanted.
        tolerance: f64,
        /// Passes over all transitions.
        passes: u32,
    },
}

/// Solves the chain of `spec`.
///
/// # Errors
/// If the description does not fit together, the thresholds can stop the system, the chain is larger than `limits` allow, it has no single
/// stationary distribution, or none was found within the limits.
///
/// ```
/// use handoff_sim::analytic::chain::*;
/// // Two models, 6.0 and 27.9 ms per step, four requests, and the large model waits for three of them: a cell of the serving paper's figure.
/// let spec = ChainSpec {
///     concurrency: 4,
///     grid_s: 1e-4,
///     steps: vec![GridSteps::constant(60), GridSteps::constant(279)],
///     thresholds: vec![1, 3],
///     routes: vec![vec![0.65, 0.35], vec![1.0, 0.0]],
///     commits: vec![vec![1.0, 0.0], vec![1.0, 0.0]],
///     entry: 0,
///     launch: LaunchRule::Separate,
/// };
/// let solution = solve(&spec, &ChainLimits::default()).unwrap();
/// assert!((solution.tokens_per_s - 207.9).abs() < 0.1);
/// ```
pub fn solve(spec: &ChainSpec, limits: &ChainLimits) -> Result<ChainSolution, ChainError> {
    check(spec)?;
    let estimated = estimated_states(spec);
    if estimated > limits.max_states as f64 {
        return Err(ChainError::TooManyStates { estimated, limit: limits.max_states });
    }
    let space = space::Space::explore(spec, limits.max_transitions)?;
    let recurrent = classes::closed_class(&space)?;
    let chain = solve::OrderedChain::new(&space, &recurrent);
    let stationary = chain.stationary(limits)?;
    Ok(space.solution(&chain, &stationary, spec))
}

/// An upper bound, usually close, on the number of states of `spec`; what [`solve()`] holds against its limit. Infinite for concurrency above 4,096.
#[must_use]
pub fn estimated_states(spec: &ChainSpec) -> f64 {
    if spec.concurrency > 4_096 {
        return f64::INFINITY;
    }
    match spec.launch {
        LaunchRule::Separate => space::count_separate(spec),
        LaunchRule::Exclusive(_) => space::count_exclusive(spec),
    }
}

fn check(spec: &ChainSpec) -> Result<(), ChainError> {
    let invalid = |field: String, value: f64, expected| Err(ChainError::Invalid { field, value, expected });
    let n = spec.steps.len();
    if n == 0 {
        return invalid("steps".into(), 0.0, "a list with one entry per model");
    }
    for (field, len) in
        [("thresholds", spec.thresholds.len()), ("routes", spec.routes.len()), ("commits", spec.commits.len())]
    {
        if len != n {
            return invalid(format!("{field}.len()"), len as f64, "one entry per model, as `steps` has");
        }
    }
    if spec.concurrency == 0 {
        return invalid("concurrency".into(), 0.0, "at least 1");
    }
    if !(spec.grid_s > 0.0 && spec.grid_s.is_finite()) {
        return invalid("grid_s".into(), spec.grid_s, "positive and finite");
    }
    if spec.entry >= n {
        return invalid("entry".into(), spec.entry as f64, "the index of a model");
    }
    for i in 0..n {
        for rows in [1, spec.concurrency] {
            if spec.steps[i].units(rows).is_none() {
                return invalid(
                    format!("steps[{i}]"),
                    f64::from(rows),
                    "covered: a step time for each batch up to the concurrency",
                );
            }
        }
        if (1..=spec.concurrency).any(|rows| spec.steps[i].units(rows) == Some(0)) {
            return invalid(format!("steps[{i}]"), 0.0, "at least one grid unit: use a finer grid");
        }
        if spec.thresholds[i] == 0 {
            return invalid(format!("thresholds[{i}]"), 0.0, "at least 1");
        }
        if spec.routes[i].len() != n || spec.commits[i].len() != n {
            return invalid(
                format!("routes[{i}].len()"),
                spec.routes[i].len() as f64,
                "one entry per model, in `commits` too",
            );
        }
        for j in 0..n {
            let (route, commit) = (spec.routes[i][j], spec.commits[i][j]);
            if !(0.0..=1.0).contains(&route) {
                return invalid(format!("routes[{i}][{j}]"), route, "a probability");
            }
            if !(commit >= 0.0 && commit.is_finite()) {
                return invalid(format!("commits[{i}][{j}]"), commit, "finite and not negative");
            }
        }
        let sum: f64 = spec.routes[i].iter().sum();
        if (sum - 1.0).abs() > 1e-9 {
            return invalid(format!("sum of routes[{i}]"), sum, "1");
        }
    }
    let held_back: u64 = spec.thresholds.iter().map(|&threshold| u64::from(threshold) - 1).sum();
    if held_back >= u64::from(spec.concurrency) {
        return Err(ChainError::Infeasible { thresholds: spec.thresholds.clone(), concurrency: spec.concurrency });
    }
    Ok(())
}
