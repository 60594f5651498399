//! Route records: the decisions of a run, one row a step, as csv with the columns `request,step,model,destination,committed,entropy`.
//!
//! | column | meaning |
//! |---|---|
//! | `request` | number of the request, any 64-bit integer from 0 |
//! | `step` | steps of this request so far, at all models: 0, 1, 2, .. without a gap |
//! | `model` | index of the model that made the step; that of step 0 is where the request began |
//! | `destination` | `stay`, `finished`, or the index of the other model that the request goes to |
//! | `committed` | `true` or `false`: whether the token was committed or dropped; `true` if finished |
//! | `entropy` | the policy's signal at this step, at least 0; empty if there was none |
//!
//! Columns may come in any order, and rows of different requests may be mixed, as they are in a real run; the rows of one request are in
//! order. The text is UTF-8 without a byte order mark, with a header; blank lines are skipped, and double quotes around a field are ignored
//! (no field holds a comma).
//!
//! [`RecordReader`] and [`RecordWriter`] stream row by row; [`RouteRecord`] keeps the routes of a whole run in three bytes a step.

mod error;
mod reader;
#[cfg(test)]
mod tests;
mod writer;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use handoff_scheduler::{Destination, ModelIdx, Outcome};

pub use error::{RecordError, RecordProblem};
pub use reader::RecordReader;
pub use writer::RecordWriter;

/// The columns of a route record, in the order in which they are written.
pub const COLUMNS: [&str; 6] = ["request", "step", "model", "destination", "committed", "entropy"];

/// One row of a route record: the decision after one step of one request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RecordRow {
    /// Number of the request.
    pub request: u64,
    /// Steps of this request before this one.
    pub step: u32,
    /// The model that made the step.
    pub model: ModelIdx,
    /// Where the request went, and whether the token was committed.
    pub outcome: Outcome,
    /// The policy's signal, if it had one.
    pub entropy: Option<f32>,
}

/// The routes of a run, without the signal.
///
/// Requests are kept in the order of their numbers, which may have gaps; they are then counted from 0.
///
/// ```
/// use handoff_sim::policy::RouteRecord;
///
/// let text = "request,step,model,destination,committed,entropy\n7,0,0,1,false,0.3\n7,1,1,finished,true,\n";
/// let record = RouteRecord::from_reader(text.as_bytes(), "routes.csv", 2)?;
/// assert_eq!(record.request(0).number, 7);
/// assert_eq!(record.request(0).tokens(), 1);
/// # Ok::<(), handoff_sim::policy::record::RecordError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteRecord {
    n_models: usize,
    numbers: Vec<u64>,
    first_models: Vec<ModelIdx>,
    /// Request `k` has the outcomes from `ends[k - 1]` (or 0) to `ends[k]`.
    ends: Vec<usize>,
    outcomes: Vec<Outcome>,
}

/// The route of one recorded request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordedRequest<'a> {
    /// Its number in the record.
    pub number: u64,
    /// The model of its first step.
    pub first_model: ModelIdx,
    /// The outcome of each of its steps, at least one. Only the last may be finished.
    pub outcomes: &'a [Outcome],
}

impl RouteRecord {
    /// Reads a file; see [`RouteRecord::from_reader`].
    ///
    /// # Errors
    /// If the file cannot be read, or is no valid record.
    pub fn from_path(path: &Path, n_models: usize) -> Result<Self, RecordError> {
        let name = path.display().to_string();
        match File::open(path) {
            Ok(file) => Self::from_reader(BufReader::new(file), &name, n_models),
            Err(error) => Err(RecordError { file: name, line: None, problem: RecordProblem::Unreadable(error) }),
        }
    }

    /// Reads a record of requests routed over `n_models` models. `name` is the file's name in errors.
    ///
    /// # Errors
    /// If reading fails, the text or a row is malformed, a model is out of range, there is no row at all, or the rows of a request do not
    /// form a route: steps are missing or repeated, a step is at another model than the destination before says, or goes on after the end.
    pub fn from_reader(reader: impl BufRead, name: &str, n_models: usize) -> Result<Self, RecordError> {
        let mut reader = RecordReader::new(reader, name, n_models)?;
        let mut routes = BTreeMap::new();
        while let Some(row) = reader.next() {
            push(&mut routes, &row?).map_err(|problem| reader.error(problem))?;
        }
        Self::of(routes, n_models).map_err(|problem| reader.error(problem))
    }

    /// The record of a run over `n_models` models, of which these are the rows; those of one request are in order.
    ///
    /// # Errors
    /// As [`RouteRecord::from_reader`], of the rows.
    pub fn from_rows<'a>(
        rows: impl IntoIterator<Item = &'a RecordRow>,
        n_models: usize,
    ) -> Result<Self, RecordProblem> {
        let mut routes = BTreeMap::new();
        rows.into_iter().try_for_each(|row| push(&mut routes, row))?;
        Self::of(routes, n_models)
    }

    fn of(routes: BTreeMap<u64, GrowingRoute>, n_models: usize) -> Result<Self, RecordProblem> {
        if routes.is_empty() {
            return Err(RecordProblem::NoRows);
        }
        let mut record = Self {
            n_models,
            numbers: Vec::with_capacity(routes.len()),
            first_models: Vec::with_capacity(routes.len()),
            ends: Vec::with_capacity(routes.len()),
            outcomes: Vec::with_capacity(routes.values().map(|route| route.outcomes.len()).sum()),
        };
        for (number, route) in routes {
            record.numbers.push(number);
            record.first_models.push(route.first_model);
            record.outcomes.extend(route.outcomes);
            record.ends.push(record.outcomes.len());
        }
        Ok(record)
    }

    /// Models that the requests were routed over.
    #[must_use]
    pub fn n_models(&self) -> usize {
        self.n_models
    }

    /// Recorded requests, at least 1.
    #[must_use]
    pub fn n_requests(&self) -> usize {
        self.numbers.len()
    }

    /// Recorded steps of all requests.
    #[must_use]
    pub fn n_steps(&self) -> usize {
        self.outcomes.len()
    }

    /// The recorded request `idx`, counted from 0 in the order of the numbers.
    ///
    /// # Panics
    /// If `idx` is not below [`RouteRecord::n_requests`].
    #[must_use]
    pub fn request(&self, idx: usize) -> RecordedRequest<'_> {
        let begin = if idx == 0 { 0 } else { self.ends[idx - 1] };
        RecordedRequest {
            number: self.numbers[idx],
            first_model: self.first_models[idx],
            outcomes: &self.outcomes[begin..self.ends[idx]],
        }
    }

    /// Where the request with this number is among the recorded ones; none if it is not.
    #[must_use]
    pub fn position(&self, number: u64) -> Option<usize> {
        self.numbers.binary_search(&number).ok()
    }

    /// All recorded requests, in the order of the numbers.
    pub fn requests(&self) -> impl ExactSizeIterator<Item = RecordedRequest<'_>> {
        (0..self.n_requests()).map(|idx| self.request(idx))
    }
}

impl RecordedRequest<'_> {
    /// Tokens that the request committed.
    #[must_use]
    pub fn tokens(&self) -> u32 {
        let committed = self.outcomes.iter().filter(|outcome| outcome.committed).count();
        u32::try_from(committed).unwrap_or(u32::MAX)
    }
}

/// The part of a request's route that has been read so far.
struct GrowingRoute {
    first_model: ModelIdx,
    /// Where the next step must be; none after the end.
    next_model: Option<ModelIdx>,
    outcomes: Vec<Outcome>,
}

fn push(routes: &mut BTreeMap<u64, GrowingRoute>, row: &RecordRow) -> Result<(), RecordProblem> {
    routes.entry(row.request).or_insert_with(|| GrowingRoute::new(row.model)).push(row)
}

impl GrowingRoute {
    fn new(first_model: ModelIdx) -> Self {
        Self { first_model, next_model: Some(first_model), outcomes: Vec::new() }
    }

    fn push(&mut self, row: &RecordRow) -> Result<(), RecordProblem> {
        let &RecordRow { request, step, model, outcome, .. } = row;
        let Some(next_model) = self.next_model else {
            return Err(RecordProblem::AfterFinished { request, step });
        };
        let expected = self.outcomes.len() as u64;
        if u64::from(step) != expected {
            return Err(RecordProblem::StepOrder { request, step, expected });
        }
        if model != next_model {
            return Err(RecordProblem::BrokenRoute { request, step, model, expected: next_model });
        }
        self.outcomes.push(outcome);
        self.next_model = match outcome.destination {
            Destination::Stay => Some(model),
            Destination::To(to) => Some(to),
            Destination::Finished => None,
        };
        Ok(())
    }
}
