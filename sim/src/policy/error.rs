//! What can be wrong with a policy's parameters.

use handoff_scheduler::ModelIdx;
use thiserror::Error;

use super::record::RecordError;

/// A policy that cannot be built. Nothing has run yet; the scenario is to be corrected.
#[derive(Debug, Error)]
pub enum PolicyError {
    /// No policy has this name.
    #[error("`kind` is `{kind}`, expected one of {known}")]
    UnknownKind {
        /// The name asked for.
        kind: String,
        /// The names that exist.
        known: String,
    },
    /// A field is missing, unknown or of the wrong type.
    #[error("{kind}: {problem}")]
    Parameters {
        /// The policy.
        kind: &'static str,
        /// The problem, naming the field.
        problem: String,
    },
    /// The policy routes over more or fewer models than the scenario has.
    #[error("{kind}: the policy routes over {policy} models, but there are {models}")]
    ModelCount {
        /// The policy.
        kind: &'static str,
        /// Models of the policy.
        policy: usize,
        /// Models of the scenario.
        models: usize,
    },
    /// A list has the wrong number of entries.
    #[error("`{field}` has {found} entries, expected {expected}")]
    Size {
        /// The list.
        field: String,
        /// Its number of entries.
        found: usize,
        /// What was expected.
        expected: String,
    },
    /// A number is outside its range.
    #[error("`{field}` is {value}, expected {expected}")]
    Range {
        /// The field.
        field: String,
        /// Its value.
        value: f64,
        /// The range.
        expected: &'static str,
    },
    /// A row of probabilities does not sum to 1.
    #[error("`{field}` sums to {sum}, expected 1 within 1e-9")]
    Sum {
        /// The row.
        field: String,
        /// Its sum.
        sum: f64,
    },
    /// A period is 0, or the two together overflow.
    #[error("`{field}` is {value}, expected {expected}")]
    Period {
        /// The field.
        field: &'static str,
        /// Its value.
        value: u32,
        /// The range.
        expected: String,
    },
    /// The entry model does not exist.
    #[error("`entry` is {}, expected an index below {models}", entry.0)]
    EntryModel {
        /// The entry model asked for.
        entry: ModelIdx,
        /// Models of the policy.
        models: usize,
    },
    /// From some point on every token would be dropped, so that no request would ever end.
    #[error(
        "{kind}: in the long run no token is ever committed, so no request would end; expected `commits` above 0 on a route that is taken"
    )]
    NeverCommits {
        /// The policy.
        kind: &'static str,
    },
    /// Requests that begin alike would end up in different sets of models for ever.
    #[error(
        "{kind}: from the entry model a request may end in one of several sets of models that are never left, expected exactly one"
    )]
    SeveralClosedSets {
        /// The policy.
        kind: &'static str,
    },
    /// The long-run behaviour is beyond double precision.
    #[error(
        "{kind}: the long-run share of each model cannot be computed: some are too rarely visited, expected probabilities further from 0"
    )]
    Degenerate {
        /// The policy.
        kind: &'static str,
    },
    /// The phases of a phased policy do not fit together.
    #[error("`phase[{phase}]` has {field} {found}, expected {expected} as in `phase[0]`")]
    PhaseMismatch {
        /// The phase that differs from the first.
        phase: usize,
        /// What differs.
        field: &'static str,
        /// Its value.
        found: usize,
        /// The first phase's value.
        expected: usize,
    },
    /// A replayed record never begins at the entry model.
    #[error("`entry` is {}, but no request of the record begins at that model", entry.0)]
    EntryNotRecorded {
        /// The entry model asked for.
        entry: ModelIdx,
    },
    /// A recorded request commits no token, so that a replay of it would never end.
    #[error("request {request} of the record commits no token, expected at least one")]
    RecordedNothing {
        /// Number of the request.
        request: u64,
    },
    /// The record has more requests than a replay can count.
    #[error("the record has more than {} requests", u32::MAX)]
    RecordTooLarge,
    /// The route record cannot be read.
    #[error(transparent)]
    Record(#[from] RecordError),
}

/// The probabilities that a 32-bit draw can tell from 0 and 1.
const DRAWABLE: &str = "0, 1, or a probability from 2^-32 to 1 - 2^-32";

/// The smallest probability above 0 that a 32-bit draw can meet: 2^-32.
pub(super) const SMALLEST_PROBABILITY: f64 = 1.0 / 4_294_967_296.0;

/// Accepts 0, 1 and what a 32-bit draw can tell from both.
pub(super) fn check_probability(field: impl FnOnce() -> String, value: f64) -> Result<(), PolicyError> {
    let drawable = (SMALLEST_PROBABILITY..=1.0 - SMALLEST_PROBABILITY).contains(&value);
    if drawable || value == 0.0 || value == 1.0 {
        Ok(())
    } else {
        Err(PolicyError::Range { field: field(), value, expected: DRAWABLE })
    }
}

/// Accepts a row of probabilities that sum to 1 within 1e-9.
pub(super) fn check_row(field: &str, row: &[f64]) -> Result<(), PolicyError> {
    for (idx, &value) in row.iter().enumerate() {
        // The sum may be off by 1e-9, so an entry next to 1 is as good as 1.
        let value = if (value - 1.0).abs() <= SMALLEST_PROBABILITY { 1.0 } else { value };
        check_probability(|| format!("{field}[{idx}]"), value)?;
    }
    let sum: f64 = row.iter().sum();
    if (sum - 1.0).abs() > 1e-9 {
        return Err(PolicyError::Sum { field: field.to_owned(), sum });
    }
    Ok(())
}

/// Accepts an entry model below `models`.
pub(super) fn check_entry(entry: ModelIdx, models: usize) -> Result<(), PolicyError> {
    if entry.idx() < models { Ok(()) } else { Err(PolicyError::EntryModel { entry, models }) }
}
