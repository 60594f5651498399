//! The very decisions of a recorded run, for the same run again.

use std::sync::Arc;

use handoff_scheduler::{Destination, ModelIdx, Outcome};

use super::record::{RecordedRequest, RouteRecord};
use super::{Policy, Route, RouteState, StartRule};
use crate::rng::Stream;

/// A policy whose decisions were recorded: requests begin as under the policy itself, and each then takes the decisions that were recorded for
/// the request of its number. So a run repeats although its policy decided by what its models measured.
///
/// Workload and seed must be those of the recorded run, and every decision of its steps must be in the record. A request that outlives its
/// record, as the last ones of a run do in a run that goes on longer, commits and stays. [`Replay`](super::Replay) is for other runs.
///
/// ```
/// use std::sync::Arc;
///
/// use handoff_scheduler::{ModelIdx, Outcome};
/// use handoff_sim::policy::{Every, Policy, Rerun, Route, RouteRecord};
/// use handoff_sim::rng::{Purpose, Stream};
///
/// let text = "request,step,model,destination,committed,entropy\n7,0,0,1,false,0.3\n";
/// let record = RouteRecord::from_reader(text.as_bytes(), "routes.csv", 2)?;
/// let policy = Rerun::new(Arc::new(Every::new(2, 2)?), record);
/// let mut route = Route::new(100, Stream::new(1, Purpose::Route, 7), 7);
/// policy.begin(&mut route);
/// assert_eq!(policy.decide(ModelIdx(0), &mut route), Outcome::drop_to(ModelIdx(1)));
/// assert_eq!(policy.decide(ModelIdx(1), &mut route), Outcome::STAY);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Rerun {
    policy: Arc<dyn Policy>,
    record: RouteRecord,
}

/// [`RouteState::phase`] of a request of which nothing was recorded.
const NOT_RECORDED: u32 = u32::MAX;

impl Rerun {
    /// Repeats the decisions of `record`, made by `policy`.
    #[must_use]
    pub fn new(policy: Arc<dyn Policy>, record: RouteRecord) -> Self {
        Self { policy, record }
    }

    fn recorded(&self, route: &Route) -> Option<RecordedRequest<'_>> {
        (route.state.phase != NOT_RECORDED).then(|| self.record.request(route.state.phase as usize))
    }
}

impl Policy for Rerun {
    fn kind(&self) -> &'static str {
        self.policy.kind()
    }

    fn n_models(&self) -> usize {
        self.policy.n_models()
    }

    fn entry(&self) -> ModelIdx {
        self.policy.entry()
    }

    fn begin(&self, route: &mut Route) {
        let idx = self.record.position(route.request_idx).and_then(|idx| u32::try_from(idx).ok());
        route.state = RouteState { phase: idx.unwrap_or(NOT_RECORDED), left: 0 };
    }

    fn begin_at(&self, rule: StartRule, route: &mut Route, start: &mut Stream) -> ModelIdx {
        let model = self.policy.begin_at(rule, route, start);
        self.begin(route);
        model
    }

    fn decide(&self, _model: ModelIdx, route: &mut Route) -> Outcome {
        let outcomes = self.recorded(route).map_or(&[][..], |request| request.outcomes);
        let outcome = outcomes.get(route.state.left as usize).copied().unwrap_or(Outcome::STAY);
        route.state.left = route.state.left.saturating_add(1);
        // The end of a request follows from its length.
        if outcome.destination == Destination::Finished { Outcome::STAY } else { outcome }
    }
}
