//! Recorded lengths and arrivals from CSV files.
//!
//! A file has a header line and is looked up by column name; other columns are ignored, so one trace with
//! `arrival_s,prompt_tokens,output_tokens` serves for everything. Spaces around names and values are ignored, as is a byte
//! order mark, and blank lines are skipped.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use csv::{ByteRecord, ErrorKind, ReaderBuilder};

use super::arrivals::{SECONDS_MAX, ns_from_seconds};
use super::lengths::TOKENS_MAX;

/// The largest file that is read, in bytes (64 MiB).
pub const BYTES_MAX: u64 = 64 << 20;

/// How much of a wrong value an error shows.
const SHOWN_CHARS_MAX: usize = 40;

/// The column that lengths are read from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LengthColumn {
    /// `prompt_tokens`
    PromptTokens,
    /// `output_tokens`
    OutputTokens,
}

impl LengthColumn {
    /// The name in the header line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::PromptTokens => "prompt_tokens",
            Self::OutputTokens => "output_tokens",
        }
    }
}

/// Why a CSV file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CsvError {
    /// The file cannot be opened or read.
    #[error("{}: cannot be read: {source}", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The file is larger than [`BYTES_MAX`].
    #[error("{}: the file is too large, expected at most {BYTES_MAX} bytes", file.display())]
    TooLarge {
        /// The file.
        file: PathBuf,
    },
    /// There is not even a header line.
    #[error("{}: the file is empty, expected a header line with `{field}`", file.display())]
    Empty {
        /// The file.
        file: PathBuf,
        /// The column wanted.
        field: &'static str,
    },
    /// The header line has no such column.
    #[error("{}:{line}: the columns are {found}, expected `{field}` among them", file.display())]
    Missing {
        /// The file.
        file: PathBuf,
        /// The line of the header, from 1.
        line: u64,
        /// The column wanted.
        field: &'static str,
        /// The columns there are.
        found: String,
    },
    /// The header line has the column twice.
    #[error("{}:{line}: `{field}` is the name of {n} columns, expected one", file.display())]
    Ambiguous {
        /// The file.
        file: PathBuf,
        /// The line of the header, from 1.
        line: u64,
        /// The column wanted.
        field: &'static str,
        /// How many columns have the name.
        n: usize,
    },
    /// There is a header line and nothing else.
    #[error("{}: there are no rows, expected at least one `{field}`", file.display())]
    NoRows {
        /// The file.
        file: PathBuf,
        /// The column wanted.
        field: &'static str,
    },
    /// A row has too few or too many values.
    #[error("{}:{line}: the row has {n} values, expected {expected} as in the header", file.display())]
    Width {
        /// The file.
        file: PathBuf,
        /// The line, from 1.
        line: u64,
        /// How many values the row has.
        n: u64,
        /// How many columns the header has.
        expected: u64,
    },
    /// A value is not what it should be.
    #[error("{}:{line}: `{field}` is {value}, expected {expected}", file.display())]
    Value {
        /// The file.
        file: PathBuf,
        /// The line, from 1.
        line: u64,
        /// The column.
        field: &'static str,
        /// The value, quoted and shortened.
        value: String,
        /// What was expected.
        expected: String,
    },
}

/// Reads recorded lengths in tokens, each from 1 to [`TOKENS_MAX`], in the order of the file; at least one.
///
/// # Errors
/// If the file cannot be read, has no such column, or a value is wrong; the text names file, line, field, value and what
/// was expected.
pub fn read_lengths(file: &Path, column: LengthColumn) -> Result<Vec<u32>, CsvError> {
    parse_lengths(file, &read(file)?, column)
}

/// Reads recorded arrivals from the column `arrival_s`, in seconds after the start of the run, which never decrease. They
/// are returned in nanoseconds, exact up to about 100 days; at least one.
///
/// # Errors
/// As [`read_lengths`].
pub fn read_arrivals(file: &Path) -> Result<Vec<u64>, CsvError> {
    parse_arrivals(file, &read(file)?)
}

/// As [`read_lengths`], from bytes already in memory; `file` is the name that errors show.
///
/// # Errors
/// As [`read_lengths`].
pub fn parse_lengths(file: &Path, bytes: &[u8], column: LengthColumn) -> Result<Vec<u32>, CsvError> {
    parse_column(file, bytes, column.name(), |text, _| {
        text.parse()
            .ok()
            .filter(|tokens| (1..=TOKENS_MAX).contains(tokens))
            .ok_or_else(|| format!("a whole number from 1 to {TOKENS_MAX}"))
    })
}

/// As [`read_arrivals`], from bytes already in memory; `file` is the name that errors show.
///
/// # Errors
/// As [`read_lengths`].
pub fn parse_arrivals(file: &Path, bytes: &[u8]) -> Result<Vec<u64>, CsvError> {
    let mut previous = None;
    parse_column(file, bytes, "arrival_s", |text, line| {
        let ns = text
            .parse()
            .ok()
            .and_then(ns_from_seconds)
            .ok_or_else(|| format!("a number of seconds from 0 to {SECONDS_MAX}"))?;
        if let Some((previous_ns, previous_text, previous_line)) = &previous
            && ns < *previous_ns
        {
            return Err(format!("at least {previous_text}, the arrival in line {previous_line}"));
        }
        previous = Some((ns, text.to_owned(), line));
        Ok(ns)
    })
}

/// The whole file, if it is not too large. Reads a byte more than allowed rather than asking for the size first: a pipe
/// has none.
fn read(file: &Path) -> Result<Vec<u8>, CsvError> {
    let mut bytes = Vec::new();
    File::open(file)
        .and_then(|opened| opened.take(BYTES_MAX + 1).read_to_end(&mut bytes))
        .map_err(|source| CsvError::Read { file: file.to_owned(), source })?;
    if bytes.len() as u64 > BYTES_MAX {
        return Err(CsvError::TooLarge { file: file.to_owned() });
    }
    Ok(bytes)
}

/// Parses every value of the column `field` with `parse`, which is given the value and its line and says what it
/// expected if it fails.
fn parse_column<T>(
    file: &Path,
    bytes: &[u8],
    field: &'static str,
    mut parse: impl FnMut(&str, u64) -> Result<T, String>,
) -> Result<Vec<T>, CsvError> {
    let file = || file.to_owned();
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let mut lines = Lines { bytes, at: 0, line: 1 };
    let mut reader = ReaderBuilder::new().has_headers(false).trim(csv::Trim::All).from_reader(bytes);
    let mut record = ByteRecord::new();
    let mut column = None;
    let mut values = Vec::new();
    loop {
        let line = lines.line_of_record_at(reader.position().byte());
        match reader.read_byte_record(&mut record) {
            Ok(true) => {}
            Ok(false) => break,
            Err(error) => return Err(reading_error(error, file(), line)),
        }
        let Some(column) = column else {
            column = Some(find_column(&record, file(), line, field)?);
            continue;
        };
        let raw = record.get(column).expect("the reader refuses rows shorter than the header");
        let wrong = |value: String, expected| CsvError::Value { file: file(), line, field, value, expected };
        let value = match std::str::from_utf8(raw) {
            Ok(text) => parse(text, line).map_err(|expected| wrong(Shown(text).to_string(), expected))?,
            Err(_) => return Err(wrong(Shown(&String::from_utf8_lossy(raw)).to_string(), "UTF-8 text".to_owned())),
        };
        values.push(value);
    }
    match (column, values.is_empty()) {
        (None, _) => Err(CsvError::Empty { file: file(), field }),
        (Some(_), true) => Err(CsvError::NoRows { file: file(), field }),
        (Some(_), false) => Ok(values),
    }
}

fn find_column(header: &ByteRecord, file: PathBuf, line: u64, field: &'static str) -> Result<usize, CsvError> {
    let mut columns = header.iter().enumerate().filter(|(_, name)| *name == field.as_bytes());
    match (columns.next(), columns.count()) {
        (Some((column, _)), 0) => Ok(column),
        (Some(_), others) => Err(CsvError::Ambiguous { file, line, field, n: others + 1 }),
        (None, _) => {
            let names = header.iter().take(8).map(|name| Shown(&String::from_utf8_lossy(name)).to_string());
            let mut found = names.collect::<Vec<_>>().join(", ");
            if header.len() > 8 {
                found += ", ...";
            }
            Err(CsvError::Missing { file, line, field, found })
        }
    }
}

fn reading_error(error: csv::Error, file: PathBuf, line: u64) -> CsvError {
    match error.into_kind() {
        ErrorKind::UnequalLengths { expected_len, len, .. } => {
            CsvError::Width { file, line, n: len, expected: expected_len }
        }
        ErrorKind::Io(source) => CsvError::Read { file, source },
        // Reading byte records has no other way to fail; should a later version of the reader find one, report it.
        kind => CsvError::Read { file, source: io::Error::other(format!("{kind:?}")) },
    }
}

/// Finds the line of a record. The reader's own count stops before the blank lines that it skips.
struct Lines<'a> {
    bytes: &'a [u8],
    at: usize,
    line: u64,
}

impl Lines<'_> {
    /// The line, from 1, of the first record at or after byte `byte`; asked in ascending order.
    fn line_of_record_at(&mut self, byte: u64) -> u64 {
        let byte = usize::try_from(byte).unwrap_or(usize::MAX).min(self.bytes.len());
        let blank = self.bytes[byte..].iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
        let passed = &self.bytes[self.at..byte + blank];
        self.line += passed.iter().filter(|byte| **byte == b'\n').count() as u64;
        self.at = byte + blank;
        self.line
    }
}

/// A value as errors show it: in quotes, control characters escaped, at most [`SHOWN_CHARS_MAX`] characters.
struct Shown<'a>(&'a str);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown: String = self.0.chars().take(SHOWN_CHARS_MAX).collect();
        let rest = if shown.len() < self.0.len() { "..." } else { "" };
        write!(f, "\"{}{rest}\"", shown.escape_debug())
    }
}

#[cfg(test)]
mod tests;
