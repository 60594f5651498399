//! The fixed period: so many tokens on the small model, then so many on the large one. The experiment that break-even is asked of.

use handoff_scheduler::{Destination, ModelIdx, Outcome};
use serde::Deserialize;

use super::error::check_entry;
use super::{Policy, PolicyError, Route, RouteState, Setting, StartRule, Stationary};
use crate::rng::Stream;

/// A visit of `small` tokens on model 0, then one of `large` tokens on model 1, and so on; every token is committed. Draws nothing.
///
/// "Switch every N tokens" has both periods N. The cycle of `small + large` tokens begins with the entry model's visit:
/// [`StartRule::InPhase`] is its first token, [`StartRule::Spread`] its token floor(index (small + large) / n), and [`StartRule::Random`] is
/// uniform over all of them.
#[derive(Clone, Debug)]
pub struct Every {
    /// Tokens of a visit, by model.
    periods: [u32; 2],
    entry: ModelIdx,
}

impl Every {
    /// `small` tokens on model 0, then `large` on model 1, beginning at model 0.
    ///
    /// # Errors
    /// If a period is 0, or the two add up to more than `u32::MAX`.
    pub fn new(small: u32, large: u32) -> Result<Self, PolicyError> {
        for (field, value) in [("small", small), ("large", large)] {
            if value == 0 {
                return Err(PolicyError::Period { field, value, expected: "1 or more".to_owned() });
            }
        }
        if small.checked_add(large).is_none() {
            let expected = format!("at most {}, so that a cycle has at most {} tokens", u32::MAX - small, u32::MAX);
            return Err(PolicyError::Period { field: "large", value: large, expected });
        }
        Ok(Self { periods: [small, large], entry: ModelIdx(0) })
    }

    /// The same with another entry model, whose visit then begins the cycle.
    ///
    /// # Errors
    /// If `entry` is neither model 0 nor model 1.
    pub fn with_entry(self, entry: ModelIdx) -> Result<Self, PolicyError> {
        check_entry(entry, 2)?;
        Ok(Self { entry, ..self })
    }

    /// Tokens of a visit to model 0 and to model 1.
    #[must_use]
    pub fn periods(&self) -> [u32; 2] {
        self.periods
    }

    /// Exact long-run averages.
    #[must_use]
    pub fn stationary(&self) -> Stationary {
        let [small, large] = self.periods.map(f64::from);
        let fractions = vec![small / (small + large), large / (small + large)];
        Stationary {
            step_fractions: fractions.clone(),
            token_fractions: fractions,
            steps_per_visit: vec![small, large],
            commits_per_step: 1.0,
            handoffs_per_token: 2.0 / (small + large),
        }
    }
}

impl Policy for Every {
    fn kind(&self) -> &'static str {
        "every"
    }

    fn n_models(&self) -> usize {
        2
    }

    fn entry(&self) -> ModelIdx {
        self.entry
    }

    fn begin(&self, route: &mut Route) {
        route.state = RouteState { phase: 0, left: self.periods[self.entry.idx()] };
    }

    fn begin_at(&self, rule: StartRule, route: &mut Route, start: &mut Stream) -> ModelIdx {
        let other = peer(self.entry);
        let [first, second] = [self.entry, other].map(|model| self.periods[model.idx()]);
        let point = rule.point_of_cycle(first + second, start);
        let (model, left) = if point < first { (self.entry, first - point) } else { (other, first + second - point) };
        route.state = RouteState { phase: 0, left };
        model
    }

    #[inline]
    fn decide(&self, model: ModelIdx, route: &mut Route) -> Outcome {
        let to = peer(model);
        // Both alternatives are plain values, so that this compiles to selections and not to a branch that depends on the phase.
        let left = route.state.left.wrapping_sub(1);
        let leaves = left == 0;
        route.state.left = if leaves { self.periods[to.idx()] } else { left };
        Outcome { destination: if leaves { Destination::To(to) } else { Destination::Stay }, committed: true }
    }
}

/// The other one of models 0 and 1.
#[inline]
const fn peer(model: ModelIdx) -> ModelIdx {
    ModelIdx(model.0 & 1 ^ 1)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Parameters {
    small: u32,
    large: u32,
    #[serde(default)]
    entry: u8,
}

/// Builds the policy from a scenario's fields `small`, `large` and `entry` (default 0).
pub(super) fn from_setting(setting: Setting<'_>) -> Result<Box<dyn Policy>, PolicyError> {
    let Parameters { small, large, entry } = setting.parameters("every")?;
    Ok(Box::new(Every::new(small, large)?.with_entry(ModelIdx(entry))?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Purpose;

    fn route() -> Route {
        Route::new(u32::MAX, Stream::new(1, Purpose::Route, 0), 0)
    }

    /// The models of the next `n` tokens, from a route that stands at `model`.
    fn models(policy: &Every, mut model: ModelIdx, route: &mut Route, n: usize) -> String {
        let mut names = String::new();
        for _ in 0..n {
            names.push(if model.0 == 0 { 's' } else { 'L' });
            let outcome = policy.decide(model, route);
            assert!(outcome.committed);
            if let Destination::To(to) = outcome.destination {
                model = to;
            }
        }
        names
    }

    #[test]
    fn visits_alternate_exactly() {
        let cases = [(1, 1, "sLsLsLsLsL"), (2, 2, "ssLLssLLss"), (3, 1, "sssLsssLss"), (1, 4, "sLLLLsLLLL")];
        for (small, large, expected) in cases {
            let policy = Every::new(small, large).unwrap();
            let mut route = route();
            policy.begin(&mut route);
            assert_eq!(models(&policy, ModelIdx(0), &mut route, 10), expected);
        }
        let from_large = Every::new(2, 3).unwrap().with_entry(ModelIdx(1)).unwrap();
        let mut route = route();
        from_large.begin(&mut route);
        assert_eq!(models(&from_large, ModelIdx(1), &mut route, 10), "LLLssLLLss");
    }

    #[test]
    fn every_point_of_the_cycle_is_a_start() {
        let policy = Every::new(2, 3).unwrap();
        let mut start = Stream::new(1, Purpose::Start, 0);
        let mut spread = |n: u32| -> Vec<String> {
            let at = |index| {
                let mut route = route();
                let model = policy.begin_at(StartRule::Spread { index, n }, &mut route, &mut start);
                models(&policy, model, &mut route, 5)
            };
            (0..n).map(at).collect()
        };
        assert_eq!(spread(5), ["ssLLL", "sLLLs", "LLLss", "LLssL", "LssLL"]);
        // floor(index * 5 / 2) = 0, 2.
        assert_eq!(spread(2), ["ssLLL", "LLLss"]);
        // floor(index * 5 / 7) = 0, 0, 1, 2, 2, 3, 4.
        assert_eq!(spread(7)[1..4], ["ssLLL", "sLLLs", "LLLss"]);
        let in_phase = policy.begin_at(StartRule::InPhase, &mut route(), &mut start);
        assert_eq!(in_phase, ModelIdx(0));
        // Neither drew anything.
        assert_eq!(start.next_u32(), Stream::new(1, Purpose::Start, 0).next_u32());
    }

    #[test]
    fn a_random_start_is_uniform_over_the_cycle() {
        let policy = Every::new(3, 5).unwrap().with_entry(ModelIdx(1)).unwrap();
        let mut start = Stream::new(1, Purpose::Start, 0);
        let mut counts = [[0.0; 6]; 2];
        let draws = 80_000;
        for _ in 0..draws {
            let mut route = route();
            let model = policy.begin_at(StartRule::Random, &mut route, &mut start);
            counts[model.idx()][route.state.left as usize] += 1.0;
        }
        let expected = f64::from(draws) / 8.0;
        let deviation = 4.0 * (expected * 7.0 / 8.0).sqrt();
        for (model, left) in [(0, 1), (0, 2), (0, 3), (1, 1), (1, 2), (1, 3), (1, 4), (1, 5)] {
            assert!((counts[model][left] - expected).abs() < deviation, "{counts:?}");
        }
        assert_eq!(counts.iter().flatten().sum::<f64>(), f64::from(draws));
    }

    #[test]
    fn wrong_periods_are_refused() {
        let error = |small, large| Every::new(small, large).unwrap_err().to_string();
        assert_eq!(error(0, 1), "`small` is 0, expected 1 or more");
        assert_eq!(error(1, 0), "`large` is 0, expected 1 or more");
        assert!(error(2, u32::MAX).starts_with("`large` is 4294967295, expected at most 4294967293"));
        assert!(Every::new(1, u32::MAX - 1).is_ok());
        let entry = Every::new(1, 1).unwrap().with_entry(ModelIdx(2)).unwrap_err().to_string();
        assert_eq!(entry, "`entry` is 2, expected an index below 2");
    }
}
