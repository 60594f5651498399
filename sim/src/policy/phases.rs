//! Phases: real routing is not geometric, since tokens of the large model cluster, for instance at the start and the end of a thought.

use handoff_scheduler::{ModelIdx, Outcome};
use serde::Deserialize;
use toml::Table;

use super::chain::long_run;
use super::draw::Discrete;
use super::error::check_row;
use super::markov::{Choice, StationaryRow, from_entry, no_long_run};
use super::registry::build_phase;
use super::{Markov, Policy, PolicyError, Route, RouteState, Setting, StartRule, Stationary};
use crate::rng::Stream;

/// The most pairs of phase and model: the exact averages take time in proportion to their cube.
const STATES_MAX: usize = 512;

/// A Markov policy that changes with a phase of the request's own: per phase one routing and one commit matrix.
///
/// After each committed token the phase moves by a transition matrix; a dropped token leaves it as it is. With a transition matrix of equal
/// rows the phases are independent from token to token, with one near the identity they come in long bursts. A fresh request begins in the
/// start phase. The next phase costs one 32-bit draw, or none where only one can follow.
///
/// [`StartRule::Random`] draws phase and model from the long-run fractions of steps; [`StartRule::Spread`] takes the quantiles index/n of
/// the same distribution, in the order of phases from the start phase on and, within each, of models from the entry model on.
#[derive(Clone, Debug)]
pub struct Phases {
    phases: Vec<Markov>,
    start_phase: u32,
    /// At index phase * models + model.
    choosers: Vec<Discrete<Choice>>,
    /// The next phase, by phase.
    transitions: Vec<Discrete<u32>>,
    start: Discrete<(u32, ModelIdx)>,
    phase_fractions: Vec<f64>,
    stationary: Stationary,
}

impl Phases {
    /// The policy that routes by `phases[k]` while in phase k, moves by `transitions` (indexed by \[from\]\[to\]) after each committed token, and
    /// begins in `start_phase`. The entry model is that of the phases.
    ///
    /// # Errors
    /// - there is no phase, or more than 512 pairs of phase and model;
    /// - the phases differ in their number of models or in their entry model;
    /// - `transitions` is not square over the phases, an entry is NaN, outside [0, 1], or closer to 0 or 1 than a 32-bit draw can tell, or a
    ///   row does not sum to 1 within 1e-9;
    /// - `start_phase` is no phase;
    /// - in the long run no token is ever committed, or more than one set of phases and models can be entered for good.
    pub fn new(phases: Vec<Markov>, transitions: &[Vec<f64>], start_phase: u32) -> Result<Self, PolicyError> {
        let n_models = check_phases(&phases, transitions)?;
        let first = usize::try_from(start_phase).ok().filter(|&first| first < phases.len());
        let first = first.ok_or_else(|| PolicyError::Range {
            field: "start_phase".to_owned(),
            value: f64::from(start_phase),
            expected: "an index of `phase`",
        })?;
        let entry = phases[0].entry();
        let joint = joint_chain(&phases, transitions);
        let fractions = long_run(&joint, first * n_models + entry.idx()).map_err(|why| no_long_run("phases", why))?;

        let states = fractions.iter().enumerate().map(|(state, &fraction)| {
            let (phase, model) = (&phases[state / n_models], state % n_models);
            StationaryRow { fraction, model, routes: &phase.routes()[model], commits: &phase.commits()[model] }
        });
        let stationary = Stationary::of(n_models, states).ok_or(PolicyError::NeverCommits { kind: "phases" })?;
        let phase_fractions = fractions.chunks(n_models).map(|fractions| fractions.iter().sum()).collect();

        let starts = (0..phases.len()).flat_map(|k| {
            let phase = (first + k) % phases.len();
            let fractions = &fractions;
            from_entry(entry, n_models)
                .map(move |model| (fractions[phase * n_models + model.idx()], (phase_idx(phase), model)))
        });
        let start = Discrete::new(starts);
        let choosers = phases.iter().flat_map(|phase| {
            (0..n_models).map(|from| Choice::discrete(from, &phase.routes()[from], &phase.commits()[from]))
        });
        let choosers = choosers.collect();
        let transitions = transitions.iter().map(|row| Discrete::new(row.iter().copied().zip(0..))).collect();
        Ok(Self { phases, start_phase, choosers, transitions, start, phase_fractions, stationary })
    }

    /// Two phases that last a geometric number of committed tokens with the means `mean_tokens`, beginning in the first.
    ///
    /// ```
    /// use handoff_sim::policy::{Phases, r2r};
    ///
    /// // Bursts of 20 tokens with half of them routed, then 80 calm tokens.
    /// let policy = Phases::two([r2r::new(0.5)?, r2r::new(0.05)?], [20.0, 80.0])?;
    /// assert!((policy.stationary().token_fractions[1] - (0.2 * 0.5 + 0.8 * 0.05)).abs() < 1e-12);
    /// # Ok::<(), handoff_sim::policy::PolicyError>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Phases::new`], and if a mean is not from 1 to 2^32.
    pub fn two(phases: [Markov; 2], mean_tokens: [f64; 2]) -> Result<Self, PolicyError> {
        for (idx, value) in mean_tokens.into_iter().enumerate() {
            if !(1.0..=4_294_967_296.0).contains(&value) {
                let field = format!("mean_tokens[{idx}]");
                return Err(PolicyError::Range { field, value, expected: "a number of tokens from 1 to 2^32" });
            }
        }
        let [first, second] = mean_tokens.map(|mean| 1.0 / mean);
        Self::new(phases.into(), &[vec![1.0 - first, first], vec![second, 1.0 - second]], 0)
    }

    /// Exact long-run averages over all phases.
    #[must_use]
    pub fn stationary(&self) -> &Stationary {
        &self.stationary
    }

    /// Long-run fraction of steps in each phase; sums to 1.
    #[must_use]
    pub fn phase_fractions(&self) -> &[f64] {
        &self.phase_fractions
    }
}

impl Policy for Phases {
    fn kind(&self) -> &'static str {
        "phases"
    }

    fn n_models(&self) -> usize {
        self.phases[0].n_models()
    }

    fn entry(&self) -> ModelIdx {
        self.phases[0].entry()
    }

    fn begin(&self, route: &mut Route) {
        route.state = RouteState { phase: self.start_phase, left: 0 };
    }

    fn begin_at(&self, rule: StartRule, route: &mut Route, start: &mut Stream) -> ModelIdx {
        let (phase, model) = match rule {
            StartRule::InPhase => (self.start_phase, self.entry()),
            StartRule::Spread { index, n } => self.start.quantile(index, n),
            StartRule::Random => self.start.draw(start),
        };
        route.state = RouteState { phase, left: 0 };
        model
    }

    #[inline]
    fn decide(&self, model: ModelIdx, route: &mut Route) -> Outcome {
        let phase = route.state.phase as usize;
        let n_models = self.choosers.len() / self.transitions.len();
        let outcome = self.choosers[phase * n_models + model.idx()].draw(&mut route.stream).outcome(&mut route.stream);
        if outcome.committed {
            route.state.phase = self.transitions[phase].draw(&mut route.stream);
        }
        outcome
    }
}

/// Checks that phases and transitions fit together; answers with the number of models.
fn check_phases(phases: &[Markov], transitions: &[Vec<f64>]) -> Result<usize, PolicyError> {
    let size = |field: &str, found, expected| PolicyError::Size { field: field.to_owned(), found, expected };
    let Some(first) = phases.first() else {
        return Err(size("phase", 0, "one or more".to_owned()));
    };
    for (phase, other) in phases.iter().enumerate() {
        for (field, found, expected) in
            [("models:", other.n_models(), first.n_models()), ("entry model", other.entry().idx(), first.entry().idx())]
        {
            if found != expected {
                return Err(PolicyError::PhaseMismatch { phase, field, found, expected });
            }
        }
    }
    let phases_max = STATES_MAX / first.n_models();
    if phases.len() > phases_max {
        return Err(size("phase", phases.len(), format!("at most {phases_max} with {} models", first.n_models())));
    }
    if transitions.len() != phases.len() {
        return Err(size("transitions", transitions.len(), format!("{}, one row a phase", phases.len())));
    }
    for (from, row) in transitions.iter().enumerate() {
        let field = format!("transitions[{from}]");
        if row.len() != phases.len() {
            return Err(size(&field, row.len(), format!("{}, one a phase", phases.len())));
        }
        check_row(&field, row)?;
    }
    Ok(first.n_models())
}

/// The chain over (phase, model), at index phase * models + model, that a step moves.
fn joint_chain(phases: &[Markov], transitions: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let n_models = phases[0].n_models();
    let row = |phase: usize, from: usize| {
        let mut row = vec![0.0; phases.len() * n_models];
        for to in 0..n_models {
            let probability = phases[phase].routes()[from][to];
            let commit = phases[phase].commits()[from][to];
            row[phase * n_models + to] += probability * (1.0 - commit);
            for (next, transition) in transitions[phase].iter().enumerate() {
                row[next * n_models + to] += probability * commit * transition;
            }
        }
        row
    };
    (0..phases.len())
        .flat_map(|phase| (0..n_models).map(move |from| (phase, from)))
        .map(|(k, from)| row(k, from))
        .collect()
}

fn phase_idx(phase: usize) -> u32 {
    u32::try_from(phase).expect("there are at most 512 phases")
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Parameters {
    phase: Vec<Table>,
    transitions: Option<Vec<Vec<f64>>>,
    mean_tokens: Option<Vec<f64>>,
    start_phase: Option<u32>,
}

/// Builds the policy from a scenario's fields: `phase`, a list of Markov policies each with its `kind`; either `transitions` and, if not 0,
/// `start_phase`; or, for two phases, `mean_tokens`.
pub(super) fn from_setting(setting: Setting<'_>) -> Result<Box<dyn Policy>, PolicyError> {
    let (n_models, directory) = (setting.n_models, setting.directory);
    let problem = |problem: String| PolicyError::Parameters { kind: "phases", problem };
    let Parameters { phase, transitions, mean_tokens, start_phase } = setting.parameters("phases")?;

    let build_one = |(idx, mut fields): (usize, Table)| {
        let kind = fields.remove("kind").and_then(|kind| kind.as_str().map(str::to_owned));
        let kind =
            kind.ok_or_else(|| problem(format!("`phase[{idx}]` has no `kind`, expected the name of a policy")))?;
        build_phase("phases", &kind, Setting { n_models, directory, fields })
            .map_err(|error| problem(format!("`phase[{idx}]`: {error}")))
    };
    let phases = phase.into_iter().enumerate().map(build_one).collect::<Result<Vec<_>, _>>()?;

    let policy = match (transitions, mean_tokens) {
        (Some(transitions), None) => Phases::new(phases, &transitions, start_phase.unwrap_or(0))?,
        (None, Some(mean_tokens)) => {
            if start_phase.is_some_and(|phase| phase != 0) {
                return Err(problem(
                    "`start_phase` goes with `transitions`; with `mean_tokens` the first phase is first".to_owned(),
                ));
            }
            let two = |found| PolicyError::Size {
                field: "phase".to_owned(),
                found,
                expected: "2, because `mean_tokens` is given".to_owned(),
            };
            let phases = <[Markov; 2]>::try_from(phases).map_err(|phases| two(phases.len()))?;
            let mean_tokens = <[f64; 2]>::try_from(mean_tokens).map_err(|means| PolicyError::Size {
                field: "mean_tokens".to_owned(),
                found: means.len(),
                expected: "2, one a phase".to_owned(),
            })?;
            Phases::two(phases, mean_tokens)?
        }
        _ => return Err(problem("expected one of `transitions` and `mean_tokens`".to_owned())),
    };
    Ok(Box::new(policy))
}
