//! Routing policies: after each step, where a request goes next and whether its token is committed.
//!
//! A [`Policy`] is shared by all requests and immutable; what differs between requests is their [`Route`]: a little state of the
//! policy's own and a random stream. Decisions are independent across requests, and the stream belongs to the request, so that two runs
//! that differ in thresholds, costs or batch order see the same routes (common random numbers).
//!
//! | kind | parameters | module |
//! |---|---|---|
//! | `every` | `small`, `large`, `entry` = 0 | [`every`] |
//! | `markov` | `routes`, `commits`, `entry` = 0 | [`markov`] |
//! | `r2r` | `p` = 0.35 | [`r2r`] |
//! | `citer` | `p` = 0.20 | [`citer`] |
//! | `co-llm` | `p` = 0.57 | [`co_llm`] |
//! | `r-stitch` | `a`, `b`, `commit_on_return` = true; or `signal` = "measured", `tau` = 0.03 | [`r_stitch`] |
//! | `me` | `weights` (three models: 0.5, 0.3, 0.2), `entry` = 0 | [`ensemble`] |
//! | `phases` | `phase` (a list of Markov policies), `transitions` or `mean_tokens`, `start_phase` = 0 | [`phases`] |
//! | `replay` | `file`, `entry` | [`replay`] |
//! | `large-only`, `small-only` | none | [`solo`] |
//!
//! A policy with a *measured* signal decides by the entropy that real models have at each token ([`Policy::needs_entropy`]). A simulation has
//! none: it takes the routes that such a run recorded ([`Replay`], or [`Rerun`] for the very same run), or probabilities that stand in.
//!
//! A new policy is one file with an implementation of [`Policy`], and one line of [`REGISTRY`].

mod chain;
pub mod citer;
pub mod co_llm;
mod draw;
pub mod ensemble;
mod error;
pub mod every;
pub mod markov;
pub mod phases;
pub mod r2r;
pub mod r_stitch;
pub mod record;
mod registry;
pub mod replay;
pub mod rerun;
pub mod solo;
#[cfg(test)]
mod tests;

use std::fmt::Debug;

use handoff_scheduler::{ModelIdx, Outcome, Row};

use crate::rng::Stream;

pub use error::PolicyError;
pub use every::Every;
pub use markov::{Markov, Stationary};
pub use phases::Phases;
pub use record::RouteRecord;
pub use registry::{Entry, REGISTRY, Setting, build};
pub use replay::Replay;
pub use rerun::Rerun;
pub use solo::Solo;

/// A policy's own state of one request. What the numbers mean is private to the policy.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct RouteState {
    /// For instance the phase of the request, or the record that it replays.
    pub phase: u32,
    /// For instance the tokens left in this visit.
    pub left: u32,
}

/// Where one request stands on its route.
#[derive(Clone, Debug)]
pub struct Route {
    /// The policy's own state, set by [`Policy::begin`] or [`Policy::begin_at`].
    pub state: RouteState,
    /// Output tokens still to commit, at least 1 while the request is in the system.
    pub remaining_tokens: u32,
    /// The request's own random numbers, of purpose [`Route`](crate::rng::Purpose::Route).
    pub stream: Stream,
    /// Index of the request in the run, counted from 0; a replay finds its record by it.
    pub request_idx: u64,
}

impl Route {
    /// A route that no policy has begun yet.
    #[must_use]
    pub fn new(remaining_tokens: u32, stream: Stream, request_idx: u64) -> Self {
        Self { state: RouteState::default(), remaining_tokens, stream, request_idx }
    }

    /// Counts the token of a decision; the one that leaves nothing to commit finishes the request.
    #[inline]
    fn settle(&mut self, outcome: Outcome) -> Outcome {
        self.remaining_tokens = self.remaining_tokens.saturating_sub(u32::from(outcome.committed));
        if self.remaining_tokens == 0 { Outcome::FINISHED } else { outcome }
    }
}

/// Where on their routes the first requests of a run begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartRule {
    /// All at the start of the route.
    InPhase,
    /// Evenly spread over the policy's cycle, or over its stationary distribution.
    Spread {
        /// Which of the first requests, counted from 0; taken modulo `n`.
        index: u32,
        /// How many first requests there are.
        n: u32,
    },
    /// At a random point of the cycle, or drawn from the stationary distribution.
    Random,
}

impl StartRule {
    /// The point of a cycle of `length` steps at which a request begins: 0, `floor(index * length / n)`, or uniform over all `length`.
    fn point_of_cycle(self, length: u32, start: &mut Stream) -> u32 {
        match self {
            Self::InPhase => 0,
            Self::Spread { index, n } => {
                let n = n.max(1);
                let point = u64::from(index % n) * u64::from(length) / u64::from(n);
                u32::try_from(point).expect("index % n < n, so the point lies below the length")
            }
            Self::Random => start.below(length),
        }
    }
}

/// A routing policy: decides after each step where the request goes and whether its token is committed.
///
/// ```
/// use handoff_scheduler::{ModelIdx, Outcome};
/// use handoff_sim::policy::{Every, Policy, Route};
/// use handoff_sim::rng::{Purpose, Stream};
///
/// let policy = Every::new(2, 1)?;
/// let mut route = Route::new(100, Stream::new(1, Purpose::Route, 0), 0);
/// policy.begin(&mut route);
/// assert_eq!(policy.decide(ModelIdx(0), &mut route), Outcome::STAY);
/// assert_eq!(policy.decide(ModelIdx(0), &mut route), Outcome::commit_to(ModelIdx(1)));
/// assert_eq!(policy.decide(ModelIdx(1), &mut route), Outcome::commit_to(ModelIdx(0)));
/// # Ok::<(), handoff_sim::policy::PolicyError>(())
/// ```
pub trait Policy: Debug + Send + Sync {
    /// The name by which scenarios ask for this policy, for instance `"r2r"`.
    fn kind(&self) -> &'static str;

    /// Models of the cooperating set, including any that the policy never uses.
    fn n_models(&self) -> usize;

    /// The model at which a fresh request begins.
    fn entry(&self) -> ModelIdx;

    /// Sets `route.state` for a fresh request at the entry model. Draws nothing.
    fn begin(&self, route: &mut Route);

    /// Sets `route.state` for one of the first requests of a run, and says at which model it begins. Only [`StartRule::Random`] draws,
    /// and only from `start`.
    fn begin_at(&self, rule: StartRule, route: &mut Route, start: &mut Stream) -> ModelIdx;

    /// Decides about the token that `model` has just made for the request. Knows nothing of the output length, so it never answers
    /// [`Destination::Finished`](handoff_scheduler::Destination::Finished).
    ///
    /// `model` must be the model at which the route stands: where it began, or where the last decision sent it.
    fn decide(&self, model: ModelIdx, route: &mut Route) -> Outcome;

    /// Decides about every row of a step. `outcomes` is cleared, then holds one outcome a row, in the order of `rows`.
    ///
    /// Counts the committed tokens of each request; the one that leaves nothing to commit makes the outcome
    /// [`Outcome::FINISHED`], wherever the policy would have sent the request. A request's route is `routes[row.request.slot]`.
    ///
    /// # Panics
    /// If a row's slot lies outside `routes`.
    #[inline]
    fn decide_step(&self, model: ModelIdx, rows: &[Row], routes: &mut [Route], outcomes: &mut Vec<Outcome>) {
        outcomes.clear();
        outcomes.extend(rows.iter().map(|row| {
            let route = &mut routes[row.request.idx()];
            debug_assert!(route.remaining_tokens > 0, "{} has nothing left to commit", row.request);
            let outcome = self.decide(model, route);
            route.settle(outcome)
        }));
    }

    /// Whether the policy decides by the entropy of the models that make the tokens. A driver that runs models then calls
    /// [`Policy::decide_step_measured`] instead of [`Policy::decide_step`].
    fn needs_entropy(&self) -> bool {
        false
    }

    /// Whether a simulation, which has no models to measure, can run the policy, by [`Policy::decide`]. Always, unless the policy needs the
    /// entropy and nothing stands in for it; `decide` then panics.
    fn is_simulable(&self) -> bool {
        true
    }

    /// As [`Policy::decide`], for a token chosen from a distribution of this `entropy`, over ln(vocabulary): 0 is certain, 1 is no idea.
    fn decide_measured(&self, model: ModelIdx, route: &mut Route, entropy: f32) -> Outcome {
        let _ = entropy;
        self.decide(model, route)
    }

    /// As [`Policy::decide_step`], with the entropy of each row, in the order of `rows`.
    ///
    /// # Panics
    /// If there is not one entropy a row, or a row's slot lies outside `routes`.
    fn decide_step_measured(
        &self,
        model: ModelIdx,
        rows: &[Row],
        entropies: &[f32],
        routes: &mut [Route],
        outcomes: &mut Vec<Outcome>,
    ) {
        assert!(rows.len() == entropies.len(), "a step of {} rows has {} entropies", rows.len(), entropies.len());
        outcomes.clear();
        outcomes.extend(rows.iter().zip(entropies).map(|(row, &entropy)| {
            let route = &mut routes[row.request.idx()];
            let outcome = self.decide_measured(model, route, entropy);
            route.settle(outcome)
        }));
    }

    /// The policy as a Markov policy, for the exact analytical model; none if it is not one.
    fn as_markov(&self) -> Option<&Markov> {
        None
    }
}
