//! R-Stitch (arXiv 2507.17307): whichever model holds the request, its entropy says whether the other one goes on.
//!
//! `signal = "synthetic"` (the default) draws from the probabilities `a` and `b`. `signal = "measured"` decides by the entropy that real models
//! have: see [`Measured`].

use handoff_scheduler::{ModelIdx, Outcome};
use serde::Deserialize;

use super::error::check_probability;
use super::{Markov, Policy, PolicyError, Route, RouteState, Setting, StartRule};
use crate::rng::Stream;

/// Default of `commit_on_return`: the large model's low-entropy token is kept (inferred).
pub const COMMIT_ON_RETURN: bool = true;

/// Default of `tau`, the published entropy threshold for Qwen3-0.6B / 32B.
pub const TAU: f64 = 0.03;

const SMALL: ModelIdx = ModelIdx(0);
const LARGE: ModelIdx = ModelIdx(1);

/// The small model's token is dropped with probability `a` (high entropy) and the large model takes over; that one returns with probability
/// `b` a step (low entropy). The token that makes it return is committed if `commit_on_return`, else dropped and made again.
///
/// P = [[1 - a, a], [b, 1 - b]], C = [[1, 0], [c, 1]] with c = 1 or 0. A visit takes 1/a steps on the small model and 1/b on the large.
/// Published numbers (entropy threshold 0.03 on Qwen3-0.6B / 32B) do not determine `a` and `b`, so they have no default.
///
/// # Errors
/// If `a` or `b` is no probability or closer to 0 or 1 than a 32-bit draw can tell, or if every token would be dropped
/// (`a` = `b` = 1 without `commit_on_return`).
pub fn new(a: f64, b: f64, commit_on_return: bool) -> Result<Markov, PolicyError> {
    check_probability(|| "a".to_owned(), a)?;
    check_probability(|| "b".to_owned(), b)?;
    let routes = vec![vec![1.0 - a, a], vec![b, 1.0 - b]];
    let commits = vec![vec![1.0, 0.0], vec![f64::from(u8::from(commit_on_return)), 1.0]];
    Markov::named("r-stitch", routes, commits, SMALL)
}

/// R-Stitch on the models' own entropy: that of the distribution that the token was chosen from, over ln(vocabulary).
///
/// Above the threshold `tau` the small model's token is dropped and the large model makes it again. At or below it the large model returns
/// the request; the token that makes it return is committed if `commit_on_return`, else dropped and made again by the small model. The first
/// token of a visit to the large model is committed in any case: the small model has just dropped it, and two models that dropped the same
/// token in turn would go on for ever. So every visit to the large model commits a token.
///
/// A simulation has no models and no entropy. Where `synthetic` is given, it stands in there, and says where the first requests of a run
/// begin; without it they begin at the small model, and a simulation is refused.
#[derive(Clone, Debug)]
pub struct Measured {
    tau: f64,
    commit_on_return: bool,
    synthetic: Option<Markov>,
}

impl Measured {
    /// The policy with threshold `tau`; `synthetic` is R-Stitch by probabilities for simulations, as [`new`] makes it.
    ///
    /// # Errors
    /// If `tau` is no number from 0 to 1.
    pub fn new(tau: f64, commit_on_return: bool, synthetic: Option<Markov>) -> Result<Self, PolicyError> {
        if (0.0..=1.0).contains(&tau) {
            Ok(Self { tau, commit_on_return, synthetic })
        } else {
            Err(PolicyError::Range { field: "tau".to_owned(), value: tau, expected: "a number from 0 to 1" })
        }
    }
}

/// [`RouteState::phase`] of a request whose visit to the large model has committed a token.
const HAS_COMMITTED: u32 = 1;

impl Policy for Measured {
    fn kind(&self) -> &'static str {
        "r-stitch"
    }

    fn n_models(&self) -> usize {
        2
    }

    fn entry(&self) -> ModelIdx {
        SMALL
    }

    fn begin(&self, route: &mut Route) {
        route.state = RouteState::default();
    }

    fn begin_at(&self, rule: StartRule, route: &mut Route, start: &mut Stream) -> ModelIdx {
        self.begin(route);
        self.synthetic.as_ref().map_or(SMALL, |synthetic| synthetic.begin_at(rule, route, start))
    }

    fn decide(&self, model: ModelIdx, route: &mut Route) -> Outcome {
        let synthetic = self.synthetic.as_ref();
        synthetic.expect("a policy that is not simulable is given the entropy").decide(model, route)
    }

    fn needs_entropy(&self) -> bool {
        true
    }

    fn is_simulable(&self) -> bool {
        self.synthetic.is_some()
    }

    fn decide_measured(&self, model: ModelIdx, route: &mut Route, entropy: f32) -> Outcome {
        let is_unsure = f64::from(entropy) > self.tau;
        let phase = &mut route.state.phase;
        if model == SMALL {
            *phase = 0;
            return if is_unsure { Outcome::drop_to(LARGE) } else { Outcome::STAY };
        }
        let is_first = std::mem::replace(phase, HAS_COMMITTED) != HAS_COMMITTED;
        match (is_unsure, self.commit_on_return || is_first) {
            (true, _) => Outcome::STAY,
            (false, true) => Outcome::commit_to(SMALL),
            (false, false) => Outcome::drop_to(SMALL),
        }
    }

    fn as_markov(&self) -> Option<&Markov> {
        self.synthetic.as_ref()
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Parameters {
    signal: Option<Signal>,
    tau: Option<f64>,
    a: Option<f64>,
    b: Option<f64>,
    commit_on_return: Option<bool>,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Signal {
    Synthetic,
    Measured,
}

impl Parameters {
    fn commit_on_return(&self) -> bool {
        self.commit_on_return.unwrap_or(COMMIT_ON_RETURN)
    }

    fn is_measured(&self) -> bool {
        self.signal == Some(Signal::Measured)
    }

    fn synthetic(&self) -> Result<Markov, PolicyError> {
        let problem = match (self.a, self.b) {
            _ if self.tau.is_some() && !self.is_measured() => {
                "`tau`: is a threshold for signal = \"measured\", but the signal is synthetic"
            }
            (Some(a), Some(b)) => return new(a, b, self.commit_on_return()),
            (None, _) => "missing field `a`",
            (_, None) => "missing field `b`",
        };
        Err(wrong(problem))
    }
}

fn wrong(problem: &str) -> PolicyError {
    PolicyError::Parameters { kind: "r-stitch", problem: problem.to_owned() }
}

/// Builds the policy from a scenario's fields `signal`, `tau`, `a`, `b` and `commit_on_return`.
pub(super) fn from_setting(setting: Setting<'_>) -> Result<Box<dyn Policy>, PolicyError> {
    let parameters: Parameters = setting.parameters("r-stitch")?;
    if !parameters.is_measured() {
        return Ok(Box::new(parameters.synthetic()?));
    }
    let is_simulable = parameters.a.is_some() || parameters.b.is_some();
    let synthetic = is_simulable.then(|| parameters.synthetic()).transpose()?;
    Ok(Box::new(Measured::new(parameters.tau.unwrap_or(TAU), parameters.commit_on_return(), synthetic)?))
}

/// As [`from_setting`], for a phase of another policy.
pub(super) fn synthetic_from_setting(setting: Setting<'_>) -> Result<Markov, PolicyError> {
    let parameters: Parameters = setting.parameters("r-stitch")?;
    if parameters.is_measured() {
        return Err(wrong("`signal`: is measured, expected \"synthetic\" for a phase"));
    }
    parameters.synthetic()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Purpose;

    /// Decisions about tokens of these entropies, as `model destination sign`, with the threshold at 0.5.
    fn decided(commit_on_return: bool, entropies: &[f32]) -> String {
        let policy = Measured::new(0.5, commit_on_return, None).unwrap();
        let mut route = Route::new(100, Stream::new(1, Purpose::Route, 0), 0);
        policy.begin(&mut route);
        let mut model = policy.entry();
        let mut shown = Vec::new();
        for &entropy in entropies {
            let outcome = policy.decide_measured(model, &mut route, entropy);
            let sign = if outcome.committed { '+' } else { '-' };
            let from = model.0;
            if let handoff_scheduler::Destination::To(to) = outcome.destination {
                model = to;
            }
            shown.push(format!("{from}{}{sign}", model.0));
        }
        shown.join(" ")
    }

    #[test]
    fn the_entropy_decides() {
        // Just at the threshold is sure.
        assert_eq!(decided(true, &[0.1, 0.5, 0.51, 0.9, 0.6, 0.5, 0.2]), "00+ 00+ 01- 11+ 11+ 10+ 00+");
        assert_eq!(decided(false, &[0.1, 0.5, 0.51, 0.9, 0.6, 0.5, 0.2]), "00+ 00+ 01- 11+ 11+ 10- 00+");
    }

    #[test]
    fn a_visit_to_the_large_model_commits_a_token() {
        // The small model is never sure, the large one always.
        assert_eq!(decided(false, &[0.9, 0.1, 0.9, 0.1]), "01- 10+ 01- 10+");
        // Dropped on return, and dropped by the small model too: the next visit commits it.
        assert_eq!(decided(false, &[0.9, 0.9, 0.1, 0.9, 0.1]), "01- 11+ 10- 01- 10+");
    }

    #[test]
    fn a_threshold_outside_its_range_is_refused() {
        for tau in [-0.1, 1.1, f64::NAN] {
            let error = Measured::new(tau, true, None).unwrap_err().to_string();
            assert_eq!(error, format!("`tau` is {tau}, expected a number from 0 to 1"));
        }
    }
}
