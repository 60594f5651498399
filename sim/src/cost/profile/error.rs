//! What can be wrong with a profile, and with a question to it.

use std::io;

/// A file is no profile. Lines count from 1, the header's line.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProfileError {
    /// The bytes could not be read.
    #[error("{file}: cannot be read: {source}")]
    Read {
        /// Name of the profile.
        file: String,
        /// What went wrong.
        source: io::Error,
    },
    /// The file starts with a byte-order mark.
    #[error("{file}:1: starts with a byte-order mark; expected plain UTF-8 that starts with the header")]
    ByteOrderMark {
        /// Name of the profile.
        file: String,
    },
    /// The file is not text.
    #[error("{file}:{line}: byte {column} of the line is not UTF-8")]
    NotUtf8 {
        /// Name of the profile.
        file: String,
        /// Line of the first wrong byte.
        line: u64,
        /// Its place in the line, from 1.
        column: usize,
    },
    /// The file has no header, or nothing after it.
    #[error("{file}: has no {missing}; expected a header and at least one row")]
    Empty {
        /// Name of the profile.
        file: String,
        /// `header` or `row`.
        missing: &'static str,
    },
    /// The header names a column that profiles do not have.
    #[error("{file}:{line}: unknown column {column}; expected {expected}")]
    UnknownColumn {
        /// Name of the profile.
        file: String,
        /// Line of the header.
        line: u64,
        /// The column's name, quoted.
        column: String,
        /// All columns.
        expected: String,
    },
    /// The header names a column twice.
    #[error("{file}:{line}: column `{column}` appears twice")]
    DuplicateColumn {
        /// Name of the profile.
        file: String,
        /// Line of the header.
        line: u64,
        /// The column.
        column: &'static str,
    },
    /// The header leaves out a column.
    #[error("{file}:{line}: column `{column}` is missing; expected {expected}")]
    MissingColumn {
        /// Name of the profile.
        file: String,
        /// Line of the header.
        line: u64,
        /// The column.
        column: &'static str,
        /// All columns.
        expected: String,
    },
    /// A row has more or fewer fields than the header.
    #[error("{file}:{line}: row has {found} fields; expected {expected}, as in the header")]
    FieldCount {
        /// Name of the profile.
        file: String,
        /// Line of the row.
        line: u64,
        /// Fields of the row.
        found: usize,
        /// Fields of the header.
        expected: usize,
    },
    /// A field's value is not what the row's kind needs.
    #[error("{file}:{line}: `{field}` is {value}; expected {expected}")]
    Value {
        /// Name of the profile.
        file: String,
        /// Line of the row.
        line: u64,
        /// The column.
        field: &'static str,
        /// The value, quoted, shortened if it is long; or `empty`.
        value: String,
        /// What was expected.
        expected: String,
    },
    /// Two rows are about the same point but do not agree.
    #[error("{file}:{line}: same point as line {first_line} with another `{field}`: {value}, but {first_value} there")]
    Conflict {
        /// Name of the profile.
        file: String,
        /// Line of the later row.
        line: u64,
        /// Line of the earlier row.
        first_line: u64,
        /// The first column in which they differ.
        field: &'static str,
        /// The later row's value, quoted, or `empty`.
        value: String,
        /// The earlier row's value, quoted, or `empty`.
        first_value: String,
    },
}

/// A profile lacks what was asked of it.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LookupError {
    /// No row is about that device.
    #[error("{file}: has no device `{device}`; it has {known}")]
    UnknownDevice {
        /// Name of the profile.
        file: String,
        /// The device asked for.
        device: String,
        /// The devices that exist.
        known: String,
    },
    /// No device was asked for and the profile has several.
    #[error("{file}: has several devices ({known}); expected `device` to name one")]
    AmbiguousDevice {
        /// Name of the profile.
        file: String,
        /// The devices that exist.
        known: String,
    },
    /// No step of that model was measured on that device.
    #[error("{file}: has no steps of model `{model}` on {device}; it has {known}")]
    UnknownModel {
        /// Name of the profile.
        file: String,
        /// The device.
        device: String,
        /// The model asked for.
        model: String,
        /// The models that exist, with what was measured of each.
        known: String,
    },
    /// The model was measured, but not a decode with that graph setting.
    #[error("{file}: has no decode rows of `{model}` on {device} with graph = {graph}; it has {known}")]
    NoDecodeRows {
        /// Name of the profile.
        file: String,
        /// The device.
        device: String,
        /// The model asked for.
        model: String,
        /// The graph setting asked for.
        graph: bool,
        /// What was measured of the model.
        known: String,
    },
    /// The two models were not measured side by side.
    #[error(
        "{file}: has no corun rows of `{model}` (graph = {graph}) beside `{peer_model}` on {device}; it has {known}"
    )]
    NoCorunRows {
        /// Name of the profile.
        file: String,
        /// The device.
        device: String,
        /// The model whose rate was asked for.
        model: String,
        /// Its graph setting.
        graph: bool,
        /// The other model.
        peer_model: String,
        /// The pairs that exist.
        known: String,
    },
    /// Hops were measured, but not between these models.
    #[error("{file}: has no hop row from `{from}` to `{to}` on {device}, and none for any two models")]
    NoHopRow {
        /// Name of the profile.
        file: String,
        /// The device.
        device: String,
        /// The sender.
        from: String,
        /// The receiver.
        to: String,
    },
    /// The spread between median and 99th percentile is larger than a jitter can be.
    #[error(
        "{file}: p99_us over p50_us of `{model}` on {device} means a coefficient of variation of {cv:.1}; expected at most {cv_max}"
    )]
    WildJitter {
        /// Name of the profile.
        file: String,
        /// The device.
        device: String,
        /// The model.
        model: String,
        /// The coefficient of variation.
        cv: f64,
        /// The largest that is accepted.
        cv_max: f64,
    },
    /// Some parts of the host's cost were measured, but not all.
    #[error("{file}: has no host row `{part}` on {device}; expected launch, loop and message, or none of them")]
    NoHostRow {
        /// Name of the profile.
        file: String,
        /// The device.
        device: String,
        /// The part that is missing.
        part: &'static str,
    },
    /// The model's router was measured, but not with that graph setting.
    #[error("{file}: has no router rows of `{model}` on {device} with graph = {graph}, only with graph = {other}", other = !graph)]
    NoRouterRows {
        /// Name of the profile.
        file: String,
        /// The device.
        device: String,
        /// The model asked for.
        model: String,
        /// The graph setting asked for.
        graph: bool,
    },
}
