//! What can be wrong with a route record.

use std::io;

use handoff_scheduler::ModelIdx;
use thiserror::Error;

/// A route record that cannot be used: the file, the line and the problem.
#[derive(Debug, Error)]
#[error("{file}{}: {problem}", line.map(|line| format!(":{line}")).unwrap_or_default())]
pub struct RecordError {
    /// Name of the file.
    pub file: String,
    /// The line, counted from 1; none if the whole file is meant.
    pub line: Option<u64>,
    /// The problem.
    pub problem: RecordProblem,
}

/// What is wrong with a route record.
#[derive(Debug, Error)]
pub enum RecordProblem {
    /// The operating system refused.
    #[error("cannot be read: {0}")]
    Unreadable(io::Error),
    /// The text begins with a byte order mark, of UTF-8 or UTF-16.
    #[error("the file begins with a byte order mark, expected UTF-8 text without one")]
    ByteOrderMark,
    /// There is not even a header.
    #[error("the file is empty, expected the header `request,step,model,destination,committed,entropy`")]
    Empty,
    /// There is only a header.
    #[error("there are no rows after the header, expected one or more")]
    NoRows,
    /// A line is so long that this is no route record.
    #[error("the line has more than {limit} bytes, expected {expected} short fields", expected = super::COLUMNS.len())]
    LineTooLong {
        /// The longest line accepted, in bytes.
        limit: usize,
    },
    /// The header lacks a column.
    #[error("column `{column}` is missing, expected `request,step,model,destination,committed,entropy`")]
    MissingColumn {
        /// The column.
        column: &'static str,
    },
    /// The header has a column that route records do not have.
    #[error("column `{column}` is unknown, expected `request,step,model,destination,committed,entropy`")]
    UnknownColumn {
        /// The column.
        column: String,
    },
    /// The header names a column twice.
    #[error(
        "column `{column}` appears twice, expected each of `request,step,model,destination,committed,entropy` once"
    )]
    DuplicateColumn {
        /// The column.
        column: &'static str,
    },
    /// A row has more or fewer fields than the header.
    #[error("the row has {found} fields, expected {expected} as in the header", expected = super::COLUMNS.len())]
    FieldCount {
        /// Fields of the row.
        found: usize,
    },
    /// A field is not what its column holds.
    #[error("`{column}` is `{value}`, expected {expected}")]
    Value {
        /// The column.
        column: &'static str,
        /// The field, shortened and with unprintable characters escaped.
        value: String,
        /// What the column holds.
        expected: String,
    },
    /// A step of a request is missing, repeated or out of order.
    #[error("`step` of request {request} is {step}, expected {expected}")]
    StepOrder {
        /// The request.
        request: u64,
        /// The step in the row.
        step: u32,
        /// The step that must come next.
        expected: u64,
    },
    /// A step is at another model than the one that the last destination named.
    #[error("`model` at step {step} of request {request} is {}, expected {} where the step before left the request", model.0, expected.0)]
    BrokenRoute {
        /// The request.
        request: u64,
        /// The step.
        step: u32,
        /// The model in the row.
        model: ModelIdx,
        /// Where the request must be.
        expected: ModelIdx,
    },
    /// A request has steps after it finished.
    #[error("request {request} has a step {step} after its `destination` was `finished`, expected no more steps")]
    AfterFinished {
        /// The request.
        request: u64,
        /// The step.
        step: u32,
    },
}
