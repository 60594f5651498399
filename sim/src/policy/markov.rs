//! Markov policies: where a request goes depends on the model that holds it, and on nothing else.
//!
//! R2R, CITER, Co-LLM, R-Stitch and ME are named settings of it.

use handoff_scheduler::{Destination, ModelIdx, Outcome};
use serde::Deserialize;

use super::chain::{NoLongRun, long_run};
use super::draw::{Coin, Discrete};
use super::error::{check_entry, check_probability, check_row};
use super::{Policy, PolicyError, Route, RouteState, Setting, StartRule};
use crate::rng::Stream;

/// The most models that an index of one byte can tell apart.
const MODELS_MAX: usize = 256;

/// Routes by a matrix P of probabilities and a matrix C of commits (the serving paper's notation, arXiv 2610.12242).
///
/// After a step at model i the request goes to model j with probability P\[i\]\[j\] (`routes`; j = i is to stay), and the token is committed
/// with probability C\[i\]\[j\] (`commits`; 1 always, 0 never, between the two a random choice). A row that leaves only one destination, and
/// a commit of 0 or 1, draw nothing; any other costs one 32-bit draw. A probability is met within 2^-32.
///
/// A model need not be used: one that the entry model never leads to is allowed (weight 0 in an ensemble), and so is one that is never left
/// again (a one-way handoff). What happens in the long run must be the same for all requests, so exactly one set of models may be closed.
///
/// [`StartRule::Random`] draws the model from the long-run fractions of steps ([`Stationary::step_fractions`]). [`StartRule::Spread`] takes
/// the quantiles index/n of the same distribution, with the models in the order of their indices, beginning at the entry model.
///
/// ```
/// use handoff_scheduler::ModelIdx;
/// use handoff_sim::policy::Markov;
///
/// // The small model's token is dropped, and made again by the large one, once in four steps.
/// let policy = Markov::new(vec![vec![0.75, 0.25], vec![1.0, 0.0]], vec![vec![1.0, 0.0], vec![1.0, 1.0]], ModelIdx(0))?;
/// assert!((policy.stationary().token_fractions[1] - 0.25).abs() < 1e-12);
/// assert!((policy.stationary().handoffs_per_token - 0.5).abs() < 1e-12);
/// # Ok::<(), handoff_sim::policy::PolicyError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Markov {
    kind: &'static str,
    routes: Vec<Vec<f64>>,
    commits: Vec<Vec<f64>>,
    entry: ModelIdx,
    choosers: Vec<Discrete<Choice>>,
    start: Discrete<ModelIdx>,
    stationary: Stationary,
}

/// Exact long-run averages of a policy.
#[derive(Clone, Debug, PartialEq)]
pub struct Stationary {
    /// Fraction of all steps that each model runs; sums to 1.
    pub step_fractions: Vec<f64>,
    /// Fraction of all committed tokens that each model makes; sums to 1. With two models the second is the routed fraction.
    pub token_fractions: Vec<f64>,
    /// Mean steps of one visit to each model, dropped tokens included: 1/p on R2R's small model. Infinite for a model that is never left,
    /// 0 for one that is not used in the long run.
    pub steps_per_visit: Vec<f64>,
    /// Tokens committed per step, over all models.
    pub commits_per_step: f64,
    /// Changes of model, in both directions, per committed token: about 1/N for every-N, 2p for R2R.
    pub handoffs_per_token: f64,
}

impl Markov {
    /// The policy with routing matrix `routes` and commit matrix `commits`, both indexed by \[from\]\[to\], that begins at `entry`.
    ///
    /// # Errors
    /// - a matrix is empty, not square or larger than 256, or the two differ in size;
    /// - an entry of either is NaN, outside [0, 1], or closer to 0 or 1 than a 32-bit draw can tell without being equal;
    /// - a row of `routes` does not sum to 1 within 1e-9;
    /// - `entry` is no model;
    /// - in the long run no token is ever committed, or more than one set of models can be entered for good.
    pub fn new(routes: Vec<Vec<f64>>, commits: Vec<Vec<f64>>, entry: ModelIdx) -> Result<Self, PolicyError> {
        Self::named("markov", routes, commits, entry)
    }

    /// As [`Markov::new`], for a policy with a name of its own.
    pub(super) fn named(
        kind: &'static str,
        routes: Vec<Vec<f64>>,
        commits: Vec<Vec<f64>>,
        entry: ModelIdx,
    ) -> Result<Self, PolicyError> {
        check_matrices(&routes, &commits)?;
        check_entry(entry, routes.len())?;
        let fractions = long_run(&routes, entry.idx()).map_err(|why| no_long_run(kind, why))?;
        let rows = fractions.iter().enumerate().map(|(model, &fraction)| StationaryRow {
            fraction,
            model,
            routes: &routes[model],
            commits: &commits[model],
        });
        let stationary = Stationary::of(routes.len(), rows).ok_or(PolicyError::NeverCommits { kind })?;
        let start = Discrete::new(from_entry(entry, routes.len()).map(|model| (fractions[model.idx()], model)));
        let choosers = (0..routes.len()).map(|from| Choice::discrete(from, &routes[from], &commits[from])).collect();
        Ok(Self { kind, routes, commits, entry, choosers, start, stationary })
    }

    /// The routing matrix P: probabilities of the next model, indexed by \[from\]\[to\].
    #[must_use]
    pub fn routes(&self) -> &[Vec<f64>] {
        &self.routes
    }

    /// The commit matrix C: probabilities that the token is committed, indexed by \[from\]\[to\].
    #[must_use]
    pub fn commits(&self) -> &[Vec<f64>] {
        &self.commits
    }

    /// Exact long-run averages.
    #[must_use]
    pub fn stationary(&self) -> &Stationary {
        &self.stationary
    }
}

impl Policy for Markov {
    fn kind(&self) -> &'static str {
        self.kind
    }

    fn n_models(&self) -> usize {
        self.routes.len()
    }

    fn entry(&self) -> ModelIdx {
        self.entry
    }

    fn begin(&self, route: &mut Route) {
        route.state = RouteState::default();
    }

    fn begin_at(&self, rule: StartRule, route: &mut Route, start: &mut Stream) -> ModelIdx {
        self.begin(route);
        match rule {
            StartRule::InPhase => self.entry,
            StartRule::Spread { index, n } => self.start.quantile(index, n),
            StartRule::Random => self.start.draw(start),
        }
    }

    #[inline]
    fn decide(&self, model: ModelIdx, route: &mut Route) -> Outcome {
        self.choosers[model.idx()].draw(&mut route.stream).outcome(&mut route.stream)
    }

    fn as_markov(&self) -> Option<&Markov> {
        Some(self)
    }
}

/// One destination of a step, with its commit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Choice {
    destination: Destination,
    commit: Coin,
}

impl Choice {
    /// The destinations of a step at model `from`, by its row of the routing and of the commit matrix.
    pub(super) fn discrete(from: usize, routes: &[f64], commits: &[f64]) -> Discrete<Self> {
        Discrete::new(routes.iter().zip(commits).enumerate().map(|(to, (&probability, &commit))| {
            let destination = if to == from { Destination::Stay } else { Destination::To(model_idx(to)) };
            (probability, Self { destination, commit: Coin::new(commit) })
        }))
    }

    #[inline]
    pub(super) fn outcome(self, stream: &mut Stream) -> Outcome {
        Outcome { destination: self.destination, committed: self.commit.toss(stream) }
    }
}

/// One state of the chain behind a policy.
pub(super) struct StationaryRow<'a> {
    /// Long-run fraction of steps in this state.
    pub(super) fraction: f64,
    pub(super) model: usize,
    pub(super) routes: &'a [f64],
    pub(super) commits: &'a [f64],
}

impl Stationary {
    /// The averages over states, several of which may stand at the same model; none if no token is ever committed.
    pub(super) fn of<'a>(n_models: usize, rows: impl Iterator<Item = StationaryRow<'a>>) -> Option<Self> {
        let mut step_fractions = vec![0.0; n_models];
        let mut token_fractions = vec![0.0; n_models];
        let mut handoffs = vec![0.0; n_models];
        for row in rows {
            step_fractions[row.model] += row.fraction;
            for (to, (probability, commit)) in row.routes.iter().zip(row.commits).enumerate() {
                token_fractions[row.model] += row.fraction * probability * commit;
                if to != row.model {
                    handoffs[row.model] += row.fraction * probability;
                }
            }
        }
        let commits_per_step: f64 = token_fractions.iter().sum();
        if commits_per_step <= 0.0 {
            return None;
        }
        token_fractions.iter_mut().for_each(|tokens| *tokens /= commits_per_step);
        let visit = |(&steps, &handoffs): (&f64, &f64)| if steps > 0.0 { steps / handoffs } else { 0.0 };
        let steps_per_visit = step_fractions.iter().zip(&handoffs).map(visit).collect();
        let handoffs_per_token = handoffs.iter().sum::<f64>() / commits_per_step;
        Some(Self { step_fractions, token_fractions, steps_per_visit, commits_per_step, handoffs_per_token })
    }
}

/// The models in the order of their indices, beginning at `entry`.
pub(super) fn from_entry(entry: ModelIdx, n_models: usize) -> impl Iterator<Item = ModelIdx> {
    (0..n_models).map(move |k| model_idx((entry.idx() + k) % n_models))
}

/// The index as the scheduler counts models.
pub(super) fn model_idx(model: usize) -> ModelIdx {
    ModelIdx(u8::try_from(model).expect("a policy has at most 256 models"))
}

/// The error for a chain without a single long run.
pub(super) fn no_long_run(kind: &'static str, why: NoLongRun) -> PolicyError {
    match why {
        NoLongRun::SeveralClosedSets => PolicyError::SeveralClosedSets { kind },
        NoLongRun::Degenerate => PolicyError::Degenerate { kind },
    }
}

fn check_matrices(routes: &[Vec<f64>], commits: &[Vec<f64>]) -> Result<(), PolicyError> {
    let size = |field: String, found: usize, expected: String| PolicyError::Size { field, found, expected };
    let n_models = routes.len();
    if !(1..=MODELS_MAX).contains(&n_models) {
        return Err(size("routes".to_owned(), n_models, format!("one row a model, 1 to {MODELS_MAX}")));
    }
    if commits.len() != n_models {
        return Err(size("commits".to_owned(), commits.len(), format!("{n_models} as in `routes`")));
    }
    for (from, (routes, commits)) in routes.iter().zip(commits).enumerate() {
        for (field, row) in [("routes", routes), ("commits", commits)] {
            if row.len() != n_models {
                return Err(size(format!("{field}[{from}]"), row.len(), format!("{n_models}, one a model")));
            }
        }
        check_row(&format!("routes[{from}]"), routes)?;
        for (to, &commit) in commits.iter().enumerate() {
            check_probability(|| format!("commits[{from}][{to}]"), commit)?;
        }
    }
    Ok(())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Parameters {
    routes: Vec<Vec<f64>>,
    commits: Vec<Vec<f64>>,
    #[serde(default)]
    entry: u8,
}

/// Builds the policy from a scenario's fields `routes`, `commits` and `entry` (default 0).
pub(super) fn from_setting(setting: Setting<'_>) -> Result<Markov, PolicyError> {
    let Parameters { routes, commits, entry } = setting.parameters("markov")?;
    Markov::new(routes, commits, ModelIdx(entry))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Purpose;

    type Matrix<'a> = &'a [&'a [f64]];

    fn error(routes: Matrix<'_>, commits: Matrix<'_>) -> String {
        let rows = |matrix: Matrix<'_>| matrix.iter().map(|row| row.to_vec()).collect();
        Markov::new(rows(routes), rows(commits), ModelIdx(0)).unwrap_err().to_string()
    }

    #[test]
    fn wrong_matrices_are_refused_by_name() {
        let kept: Matrix<'_> = &[&[1.0, 1.0], &[1.0, 1.0]];
        let half: Matrix<'_> = &[&[0.5, 0.5], &[0.5, 0.5]];
        let cases: &[(Matrix<'_>, Matrix<'_>, &str)] = &[
            (&[], &[], "`routes` has 0 entries, expected one row a model, 1 to 256"),
            (half, &[&[1.0, 1.0]], "`commits` has 1 entries, expected 2 as in `routes`"),
            (&[&[1.0], &[1.0]], kept, "`routes[0]` has 1 entries, expected 2, one a model"),
            (half, &[&[1.0, 1.0], &[1.0, 1.0, 1.0]], "`commits[1]` has 3 entries, expected 2, one a model"),
            (&[&[0.5, 0.5], &[0.5, 0.500_000_01]], kept, "`routes[1]` sums to 1.00000001, expected 1 within 1e-9"),
            (
                &[&[1.5, -0.5], &[0.5, 0.5]],
                kept,
                "`routes[0][0]` is 1.5, expected 0, 1, or a probability from 2^-32 to 1 - 2^-32",
            ),
            (
                half,
                &[&[1.0, f64::NAN], &[1.0, 1.0]],
                "`commits[0][1]` is NaN, expected 0, 1, or a probability from 2^-32 to 1 - 2^-32",
            ),
            (
                half,
                &[&[1.0, 1.0], &[1e-12, 1.0]],
                "`commits[1][0]` is 0.000000000001, expected 0, 1, or a probability from 2^-32 to 1 - 2^-32",
            ),
        ];
        for (routes, commits, expected) in cases {
            assert_eq!(error(routes, commits), *expected);
        }
        let off_by_little =
            Markov::new(vec![vec![0.5, 0.5 + 1e-10], vec![1.0, 0.0]], vec![vec![1.0; 2]; 2], ModelIdx(0));
        assert!(off_by_little.is_ok());
        let entry = Markov::new(vec![vec![1.0]], vec![vec![1.0]], ModelIdx(1)).unwrap_err();
        assert_eq!(entry.to_string(), "`entry` is 1, expected an index below 1");
    }

    #[test]
    fn policies_that_never_end_are_refused() {
        let never = "in the long run no token is ever committed";
        assert!(error(&[&[1.0]], &[&[0.0]]).contains(never));
        assert!(error(&[&[0.0, 1.0], &[1.0, 0.0]], &[&[1.0, 0.0], &[0.0, 1.0]]).contains(never));
        // Commits at first, but is stuck at the second model some day.
        assert!(error(&[&[0.9, 0.1], &[0.0, 1.0]], &[&[1.0, 1.0], &[1.0, 0.0]]).contains(never));
        let split: Matrix<'_> = &[&[0.0, 0.5, 0.5], &[0.0, 1.0, 0.0], &[0.0, 0.0, 1.0]];
        let kept: Matrix<'_> = &[&[1.0, 1.0, 1.0], &[1.0, 1.0, 1.0], &[1.0, 1.0, 1.0]];
        assert!(error(split, kept).contains("one of several sets of models"));
    }

    #[test]
    fn unused_and_absorbing_models_are_allowed() {
        let unused = Markov::new(vec![vec![1.0, 0.0], vec![0.0, 1.0]], vec![vec![1.0; 2]; 2], ModelIdx(0)).unwrap();
        assert_eq!(unused.stationary().step_fractions, [1.0, 0.0]);
        assert_eq!(unused.stationary().handoffs_per_token, 0.0);
        assert_eq!(unused.stationary().steps_per_visit, [f64::INFINITY, 0.0]);
        let one_way = Markov::new(vec![vec![0.9, 0.1], vec![0.0, 1.0]], vec![vec![1.0; 2]; 2], ModelIdx(0)).unwrap();
        assert_eq!(one_way.stationary().step_fractions, [0.0, 1.0]);
    }

    #[test]
    fn a_fractional_commit_is_a_probability() {
        let policy = Markov::new(vec![vec![1.0]], vec![vec![0.3]], ModelIdx(0)).unwrap();
        let mut route = Route::new(1, Stream::new(3, Purpose::Route, 0), 0);
        policy.begin(&mut route);
        let steps = 200_000;
        let committed = (0..steps).filter(|_| policy.decide(ModelIdx(0), &mut route).committed).count() as f64;
        let expected = 0.3 * f64::from(steps);
        assert!((committed - expected).abs() < 4.0 * (expected * 0.7).sqrt(), "{committed}");
    }

    #[test]
    fn first_requests_follow_the_stationary_distribution() {
        let weights = [0.5, 0.3, 0.2];
        let policy = Markov::new(vec![weights.to_vec(); 3], vec![vec![1.0; 3]; 3], ModelIdx(1)).unwrap();
        let mut start = Stream::new(3, Purpose::Start, 0);
        let mut route = Route::new(1, Stream::new(3, Purpose::Route, 0), 0);
        let mut begin_at = |rule| policy.begin_at(rule, &mut route, &mut start);

        assert_eq!(begin_at(StartRule::InPhase), ModelIdx(1));
        // The quantiles 0, 0.1, .. 0.9 with the models in the order 1, 2, 0.
        let spread: Vec<u8> = (0..10).map(|index| begin_at(StartRule::Spread { index, n: 10 }).0).collect();
        assert_eq!(spread, [1, 1, 1, 2, 2, 0, 0, 0, 0, 0]);

        let mut counts = [0.0; 3];
        (0..100_000).for_each(|_| counts[begin_at(StartRule::Random).idx()] += 1.0);
        for (count, weight) in counts.iter().zip(weights) {
            let expected = 100_000.0 * weight;
            assert!((count - expected).abs() < 4.0 * (expected * (1.0 - weight)).sqrt(), "{counts:?}");
        }
    }
}
