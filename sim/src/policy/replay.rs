//! Replays recorded routes, so that real run lengths, which are not geometric, can be studied.

use std::path::PathBuf;

use handoff_scheduler::{Destination, ModelIdx, Outcome};
use serde::Deserialize;

use super::error::check_entry;
use super::record::RouteRecord;
use super::{Policy, PolicyError, Route, RouteState, Setting, StartRule};
use crate::rng::Stream;

/// Requests take the routes of a [`RouteRecord`]. Draws nothing but a random start.
///
/// - **Which route.** With n recorded requests, request k of the run takes the route of recorded request k mod n. A fresh request begins at
///   the entry model; if the route does not begin there (the recorded one was among the first of its run), the next route that does is taken
///   instead. The entry model is the one at which most recorded requests begin (of equals the lowest), unless another is asked for.
/// - **How long.** The request ends when its tokens are committed, wherever the recorded one ended. To have both alike, take lengths from
///   [`Replay::recorded_tokens`].
/// - **Beyond the end.** If more tokens are wanted than were recorded, the route repeats: after its last step the request goes on with its
///   first, at the model of that first step. So the last recorded destination, `finished` included, is replaced by that model (or by staying,
///   if the request is there already); whether the last token is committed stays as recorded.
/// - **First requests.** [`StartRule::InPhase`] begins at the first recorded step, at its model, whichever that is; [`StartRule::Spread`]
///   at step floor(index steps / n); [`StartRule::Random`] is uniform over the steps of the route.
#[derive(Clone, Debug)]
pub struct Replay {
    n_models: usize,
    entry: ModelIdx,
    routes: Vec<RecordedRoute>,
    /// The steps of all routes, each route closed to a cycle.
    outcomes: Vec<Outcome>,
}

#[derive(Clone, Debug)]
struct RecordedRoute {
    first_model: ModelIdx,
    /// Its steps lie at `begin..end` of the outcomes.
    begin: usize,
    end: usize,
    tokens: u32,
    /// The route that a fresh request takes instead: this one, or the next that begins at the entry model.
    fresh: u32,
}

impl Replay {
    /// Replays `record`.
    ///
    /// # Errors
    /// If a recorded request commits no token, so that a request that repeats its route would never end.
    pub fn new(record: &RouteRecord) -> Result<Self, PolicyError> {
        let mut begins = vec![0_usize; record.n_models()];
        let mut routes = Vec::with_capacity(record.n_requests());
        let mut outcomes: Vec<Outcome> = Vec::with_capacity(record.n_steps());
        for request in record.requests() {
            let tokens = request.tokens();
            if tokens == 0 {
                return Err(PolicyError::RecordedNothing { request: request.number });
            }
            let first_model = request.first_model;
            let begin = outcomes.len();
            outcomes.extend(request.outcomes);
            let last = outcomes.len() - 1;
            let stands_at = model_at(first_model, &outcomes[begin..last]);
            outcomes[last].destination =
                if stands_at == first_model { Destination::Stay } else { Destination::To(first_model) };
            begins[first_model.idx()] += 1;
            routes.push(RecordedRoute { first_model, begin, end: outcomes.len(), tokens, fresh: 0 });
        }
        let entry = (0..=u8::MAX).map(ModelIdx).zip(begins).rev().max_by_key(|&(_, count)| count);
        let (entry, _) = entry.expect("a record has at least one request, and that one begins at a model");
        Self { n_models: record.n_models(), entry, routes, outcomes }.with_entry(entry)
    }

    /// The same, with fresh requests beginning at `entry`.
    ///
    /// # Errors
    /// If there is no such model, or no recorded request begins at it.
    pub fn with_entry(mut self, entry: ModelIdx) -> Result<Self, PolicyError> {
        check_entry(entry, self.n_models)?;
        let first = self.routes.iter().position(|route| route.first_model == entry);
        let mut next = first.ok_or(PolicyError::EntryNotRecorded { entry })?;
        for idx in (0..self.routes.len()).rev() {
            if self.routes[idx].first_model == entry {
                next = idx;
            }
            self.routes[idx].fresh = u32::try_from(next).map_err(|_| PolicyError::RecordTooLarge)?;
        }
        self.entry = entry;
        Ok(self)
    }

    /// Recorded requests.
    #[must_use]
    pub fn n_requests(&self) -> usize {
        self.routes.len()
    }

    /// Tokens committed on the recorded route that request `request_idx` of the run takes if it begins as recorded, at least 1.
    #[must_use]
    pub fn recorded_tokens(&self, request_idx: u64) -> u32 {
        self.routes[self.route_idx(request_idx)].tokens
    }

    fn route_idx(&self, request_idx: u64) -> usize {
        usize::try_from(request_idx % self.routes.len() as u64).expect("below the number of routes")
    }
}

impl Policy for Replay {
    fn kind(&self) -> &'static str {
        "replay"
    }

    fn n_models(&self) -> usize {
        self.n_models
    }

    fn entry(&self) -> ModelIdx {
        self.entry
    }

    fn begin(&self, route: &mut Route) {
        route.state = RouteState { phase: self.routes[self.route_idx(route.request_idx)].fresh, left: 0 };
    }

    fn begin_at(&self, rule: StartRule, route: &mut Route, start: &mut Stream) -> ModelIdx {
        let idx = self.route_idx(route.request_idx);
        let recorded = &self.routes[idx];
        let steps = &self.outcomes[recorded.begin..recorded.end];
        let point = rule.point_of_cycle(u32::try_from(steps.len()).unwrap_or(u32::MAX), start);
        let phase = u32::try_from(idx).expect("checked when the policy was made");
        route.state = RouteState { phase, left: point };
        model_at(recorded.first_model, &steps[..point as usize])
    }

    #[inline]
    fn decide(&self, model: ModelIdx, route: &mut Route) -> Outcome {
        let recorded = &self.routes[route.state.phase as usize];
        let at = recorded.begin + route.state.left as usize;
        let outcome = self.outcomes[at];
        debug_assert_ne!(outcome.destination, Destination::To(model), "the request is not where its route stands");
        route.state.left = if at + 1 == recorded.end { 0 } else { route.state.left + 1 };
        outcome
    }
}

/// Where a request stands that began at `first_model` and had these outcomes.
fn model_at(first_model: ModelIdx, outcomes: &[Outcome]) -> ModelIdx {
    let moves = outcomes.iter().rev().find_map(|outcome| match outcome.destination {
        Destination::To(to) => Some(to),
        Destination::Stay | Destination::Finished => None,
    });
    moves.unwrap_or(first_model)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Parameters {
    file: PathBuf,
    entry: Option<u8>,
}

/// Builds the policy from a scenario's fields `file` and `entry` (default: where most recorded requests begin).
pub(super) fn from_setting(setting: Setting<'_>) -> Result<Box<dyn Policy>, PolicyError> {
    let (n_models, directory) = (setting.n_models, setting.directory);
    let Parameters { file, entry } = setting.parameters("replay")?;
    let replay = Replay::new(&RouteRecord::from_path(&directory.join(file), n_models)?)?;
    Ok(Box::new(match entry {
        Some(entry) => replay.with_entry(ModelIdx(entry))?,
        None => replay,
    }))
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;
    use std::fs;

    use super::super::{Setting, build};
    use super::*;
    use crate::rng::Purpose;

    /// A record of one line a request: its number, and its steps as model, destination, `+` or `-`.
    fn record(requests: &[(u64, &str)]) -> RouteRecord {
        let mut text = "request,step,model,destination,committed,entropy\n".to_owned();
        for (number, steps) in requests {
            for (step, fields) in steps.split(' ').enumerate() {
                let (model, rest) = fields.split_at(1);
                let (destination, committed) = rest.split_at(rest.len() - 1);
                writeln!(text, "{number},{step},{model},{},{},", name(destination), committed == "+").unwrap();
            }
        }
        RouteRecord::from_reader(text.as_bytes(), "test.csv", 2).unwrap()
    }

    fn name(destination: &str) -> &str {
        match destination {
            "s" => "stay",
            "f" => "finished",
            other => other,
        }
    }

    fn route(request_idx: u64) -> Route {
        Route::new(u32::MAX, Stream::new(1, Purpose::Route, request_idx), request_idx)
    }

    /// The next `n` steps in the notation of [`record`].
    fn steps(policy: &Replay, mut model: ModelIdx, route: &mut Route, n: usize) -> String {
        let mut shown = Vec::new();
        for _ in 0..n {
            let outcome = policy.decide(model, route);
            let sign = if outcome.committed { '+' } else { '-' };
            match outcome.destination {
                Destination::Stay => shown.push(format!("{}s{sign}", model.0)),
                Destination::Finished => shown.push(format!("{}f{sign}", model.0)),
                Destination::To(to) => {
                    shown.push(format!("{}{}{sign}", model.0, to.0));
                    model = to;
                }
            }
        }
        shown.join(" ")
    }

    #[test]
    fn a_route_repeats_from_its_first_step() {
        let record = record(&[(5, "0s+ 01- 1f+"), (9, "01+ 10- 0s+"), (12, "0s+ 01-")]);
        let policy = Replay::new(&record).unwrap();
        let expected = [
            // Finished at the large model: goes back to where the route began.
            "0s+ 01- 10+ 0s+ 01- 10+ 0s+",
            // Cut off while it stayed: just goes on.
            "01+ 10- 0s+ 01+ 10- 0s+ 01+",
            // Cut off on its way to the large model: stays, and makes the dropped token again.
            "0s+ 0s- 0s+ 0s- 0s+ 0s- 0s+",
        ];
        for request_idx in 0..7 {
            let mut route = route(request_idx);
            policy.begin(&mut route);
            assert_eq!(steps(&policy, ModelIdx(0), &mut route, 7), expected[request_idx as usize % 3]);
        }
        assert_eq!([0, 1, 2, 3].map(|request_idx| policy.recorded_tokens(request_idx)), [2, 2, 1, 2]);
        assert_eq!(policy.recorded_tokens(u64::MAX), policy.recorded_tokens(u64::MAX % 3));
    }

    #[test]
    fn a_fresh_request_takes_a_route_that_begins_at_the_entry() {
        let policy =
            Replay::new(&record(&[(0, "1f+"), (1, "0s+ 0f+"), (2, "1s+ 1f+"), (3, "01+ 1f+"), (4, "10+ 0f+")]))
                .unwrap();
        // Three requests begin at model 1.
        assert_eq!(policy.entry(), ModelIdx(1));
        let policy = policy.with_entry(ModelIdx(0)).unwrap();
        let taken = |request_idx| {
            let mut route = route(request_idx);
            policy.begin(&mut route);
            route.state
        };
        assert_eq!([0, 1, 2, 3, 4, 5].map(|idx| taken(idx).phase), [1, 1, 3, 3, 1, 1]);

        let mut start = Stream::new(1, Purpose::Start, 0);
        let mut begin_at = |request_idx, rule| {
            let mut route = route(request_idx);
            let model = policy.begin_at(rule, &mut route, &mut start);
            (model.0, route.state.phase, route.state.left)
        };
        assert_eq!(begin_at(0, StartRule::InPhase), (1, 0, 0));
        assert_eq!(begin_at(3, StartRule::InPhase), (0, 3, 0));
        assert_eq!(begin_at(3, StartRule::Spread { index: 1, n: 2 }), (1, 3, 1));
        assert_eq!(begin_at(4, StartRule::Spread { index: 3, n: 4 }), (0, 4, 1));
        let late = (0..10_000).filter(|_| begin_at(3, StartRule::Random) == (1, 3, 1)).count() as f64;
        assert!((late - 5_000.0).abs() < 4.0 * 50.0, "{late}");
    }

    #[test]
    fn records_that_cannot_be_replayed_are_refused() {
        let error = Replay::new(&record(&[(3, "0f+"), (4, "01- 10-")])).unwrap_err().to_string();
        assert_eq!(error, "request 4 of the record commits no token, expected at least one");
        let small = Replay::new(&record(&[(3, "0f+")])).unwrap();
        let error = |entry| small.clone().with_entry(ModelIdx(entry)).unwrap_err().to_string();
        assert_eq!(error(1), "`entry` is 1, but no request of the record begins at that model");
        assert_eq!(error(2), "`entry` is 2, expected an index below 2");
    }

    #[test]
    fn a_scenario_names_the_file_relative_to_its_own_directory() {
        let directory = tempfile::tempdir().unwrap();
        let text = "request,step,model,destination,committed,entropy\n0,0,0,finished,true,\n";
        fs::write(directory.path().join("routes.csv"), text).unwrap();
        let built = |fields: &str| {
            build("replay", Setting { n_models: 2, directory: directory.path(), fields: fields.parse().unwrap() })
        };
        assert_eq!(built("file = \"routes.csv\"").unwrap().entry(), ModelIdx(0));
        let missing = built("file = \"none.csv\"").unwrap_err().to_string();
        assert!(missing.contains("none.csv: cannot be read: "), "{missing}");
    }
}
