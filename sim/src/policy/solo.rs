//! Baselines without routing: one model of the set makes every token.

use handoff_scheduler::{ModelIdx, Outcome};
use serde::Deserialize;

use super::markov::model_idx;
use super::{Policy, PolicyError, Route, RouteState, Setting, StartRule};
use crate::rng::Stream;

/// One model makes and commits every token; the others are never used. Draws nothing.
///
/// ```
/// use handoff_sim::policy::{Policy, Solo};
/// assert_eq!(Solo::large_only(2)?.entry().idx(), 1);
/// # Ok::<(), handoff_sim::policy::PolicyError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Solo {
    kind: &'static str,
    model: ModelIdx,
    n_models: usize,
}

impl Solo {
    /// The baseline `large-only`: the last of `n_models` models.
    ///
    /// # Errors
    /// If `n_models` is not from 1 to 256.
    pub fn large_only(n_models: usize) -> Result<Self, PolicyError> {
        check_count("large-only", n_models)?;
        Ok(Self { kind: "large-only", model: model_idx(n_models - 1), n_models })
    }

    /// `small-only`: the first of `n_models` models.
    ///
    /// # Errors
    /// If `n_models` is not from 1 to 256.
    pub fn small_only(n_models: usize) -> Result<Self, PolicyError> {
        check_count("small-only", n_models)?;
        Ok(Self { kind: "small-only", model: ModelIdx(0), n_models })
    }
}

impl Policy for Solo {
    fn kind(&self) -> &'static str {
        self.kind
    }

    fn n_models(&self) -> usize {
        self.n_models
    }

    fn entry(&self) -> ModelIdx {
        self.model
    }

    fn begin(&self, route: &mut Route) {
        route.state = RouteState::default();
    }

    fn begin_at(&self, _rule: StartRule, route: &mut Route, _start: &mut Stream) -> ModelIdx {
        self.begin(route);
        self.model
    }

    #[inline]
    fn decide(&self, _model: ModelIdx, _route: &mut Route) -> Outcome {
        Outcome::STAY
    }
}

fn check_count(kind: &'static str, n_models: usize) -> Result<(), PolicyError> {
    if (1..=256).contains(&n_models) {
        Ok(())
    } else {
        Err(PolicyError::Parameters { kind, problem: format!("there are {n_models} models, expected 1 to 256") })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Parameters {}

/// Builds `large-only`, which has no fields.
pub(super) fn large_from_setting(setting: Setting<'_>) -> Result<Box<dyn Policy>, PolicyError> {
    let n_models = setting.n_models;
    let Parameters {} = setting.parameters("large-only")?;
    Ok(Box::new(Solo::large_only(n_models)?))
}

/// Builds `small-only`, which has no fields.
pub(super) fn small_from_setting(setting: Setting<'_>) -> Result<Box<dyn Policy>, PolicyError> {
    let n_models = setting.n_models;
    let Parameters {} = setting.parameters("small-only")?;
    Ok(Box::new(Solo::small_only(n_models)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Purpose;

    #[test]
    fn one_model_makes_every_token() {
        let mut start = Stream::new(1, Purpose::Start, 0);
        for (policy, model) in [(Solo::large_only(3), 2), (Solo::small_only(3), 0), (Solo::large_only(1), 0)] {
            let policy = policy.unwrap();
            let mut route = Route::new(9, Stream::new(1, Purpose::Route, 0), 0);
            assert_eq!(policy.entry(), ModelIdx(model));
            assert_eq!(policy.begin_at(StartRule::Random, &mut route, &mut start), ModelIdx(model));
            assert!((0..9).all(|_| policy.decide(ModelIdx(model), &mut route) == Outcome::STAY));
        }
        let none = Solo::large_only(0).unwrap_err().to_string();
        assert_eq!(none, "large-only: there are 0 models, expected 1 to 256");
    }
}
