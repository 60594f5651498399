//! Reads a route record row by row.

use std::io::{BufRead, Read};
use std::str::FromStr;

use handoff_scheduler::{Destination, ModelIdx, Outcome};

use super::{COLUMNS, RecordError, RecordProblem, RecordRow};

/// The longest line accepted, in bytes. The longest meaningful one has about 60.
const LINE_BYTES_MAX: usize = 1024;

/// The byte order marks of UTF-8, UTF-16 little endian and UTF-16 big endian.
const BYTE_ORDER_MARKS: [&[u8]; 3] = [b"\xEF\xBB\xBF", b"\xFF\xFE", b"\xFE\xFF"];

/// Reads the rows of a route record one by one; keeps one line in memory.
///
/// Each row is checked by itself. Whether the rows of a request form a route is checked by [`RouteRecord`](super::RouteRecord).
/// The iterator ends after the first error.
#[derive(Debug)]
pub struct RecordReader<R> {
    reader: R,
    file: String,
    n_models: usize,
    /// Where each of `COLUMNS` stands in a row.
    positions: [usize; COLUMNS.len()],
    line: Vec<u8>,
    line_number: u64,
    failed: bool,
}

impl<R: BufRead> RecordReader<R> {
    /// Reads the header. `name` is the file's name in errors; rows may name models below `n_models`.
    ///
    /// # Errors
    /// If reading fails, the text is empty, begins with a byte order mark or is not UTF-8, or a column is missing, unknown or there twice.
    pub fn new(reader: R, name: &str, n_models: usize) -> Result<Self, RecordError> {
        let mut reader = Self {
            reader,
            file: name.to_owned(),
            n_models,
            positions: [0; COLUMNS.len()],
            line: Vec::new(),
            line_number: 0,
            failed: false,
        };
        match reader.read_header() {
            Ok(positions) => Ok(Self { positions, ..reader }),
            Err(problem) => Err(reader.error(problem)),
        }
    }

    /// The line of the last row read, counted from 1; the header's before that.
    #[must_use]
    pub fn line(&self) -> u64 {
        self.line_number
    }

    /// An error at the current line.
    pub(super) fn error(&self, problem: RecordProblem) -> RecordError {
        let line = (self.line_number > 0).then_some(self.line_number);
        RecordError { file: self.file.clone(), line, problem }
    }

    fn read_header(&mut self) -> Result<[usize; COLUMNS.len()], RecordProblem> {
        if !self.read_line()? {
            return Err(RecordProblem::Empty);
        }
        if BYTE_ORDER_MARKS.iter().any(|mark| self.line.starts_with(mark)) {
            return Err(RecordProblem::ByteOrderMark);
        }
        let mut positions = [None; COLUMNS.len()];
        for (position, name) in self.line.split(|&byte| byte == b',').enumerate() {
            let name = unquoted(name);
            let Some(column) = COLUMNS.iter().position(|column| column.as_bytes() == name) else {
                return Err(RecordProblem::UnknownColumn { column: shown(name) });
            };
            if positions[column].replace(position).is_some() {
                return Err(RecordProblem::DuplicateColumn { column: COLUMNS[column] });
            }
        }
        let mut found = [0; COLUMNS.len()];
        for (column, position) in positions.into_iter().enumerate() {
            found[column] = position.ok_or(RecordProblem::MissingColumn { column: COLUMNS[column] })?;
        }
        Ok(found)
    }

    fn read_row(&mut self) -> Result<Option<RecordRow>, RecordProblem> {
        if !self.read_line()? {
            return Ok(None);
        }
        let mut in_row: [&[u8]; COLUMNS.len()] = [&[]; COLUMNS.len()];
        let mut found = 0;
        for field in self.line.split(|&byte| byte == b',') {
            if let Some(slot) = in_row.get_mut(found) {
                *slot = unquoted(field);
            }
            found += 1;
        }
        if found != COLUMNS.len() {
            return Err(RecordProblem::FieldCount { found });
        }
        self.parse(self.positions.map(|position| in_row[position])).map(Some)
    }

    /// Parses fields in the order of `COLUMNS`.
    fn parse(&self, fields: [&[u8]; COLUMNS.len()]) -> Result<RecordRow, RecordProblem> {
        let text = |column: usize| {
            std::str::from_utf8(fields[column]).map_err(|_| wrong(column, fields[column], || "UTF-8 text".to_owned()))
        };
        let integer_up_to = |max: u64| move || format!("an integer from 0 to {max}");

        let request: u64 = number(0, text(0)?, integer_up_to(u64::MAX))?;
        let step: u32 = number(1, text(1)?, integer_up_to(u64::from(u32::MAX)))?;
        let model = self.model(2, text(2)?, "the index of a model")?;
        let destination = match text(3)? {
            "stay" => Destination::Stay,
            "finished" => Destination::Finished,
            other => {
                let expected = "`stay`, `finished` or the index of another model";
                let to = self.model(3, other, expected)?;
                if to == model {
                    return Err(wrong(3, fields[3], || format!("{expected} than {}", model.0)));
                }
                Destination::To(to)
            }
        };
        let committed = match text(4)? {
            "true" => true,
            "false" if destination == Destination::Finished => {
                return Err(wrong(4, fields[4], || "`true` where the destination is `finished`".to_owned()));
            }
            "false" => false,
            _ => return Err(wrong(4, fields[4], || "`true` or `false`".to_owned())),
        };
        let entropy = match text(5)? {
            "" => None,
            other => {
                let expected = || "a finite number, 0 or more, or nothing".to_owned();
                let entropy: f32 = number(5, other, expected)?;
                if !entropy.is_finite() || entropy < 0.0 {
                    return Err(wrong(5, fields[5], expected));
                }
                Some(entropy)
            }
        };
        Ok(RecordRow { request, step, model, outcome: Outcome { destination, committed }, entropy })
    }

    fn model(&self, column: usize, text: &str, what: &str) -> Result<ModelIdx, RecordProblem> {
        let expected = || format!("{what}, below {}", self.n_models);
        let model = ModelIdx(number(column, text, expected)?);
        if model.idx() < self.n_models { Ok(model) } else { Err(wrong(column, text.as_bytes(), expected)) }
    }

    /// Reads the next line that is not blank, without its end; false at the end of the file.
    fn read_line(&mut self) -> Result<bool, RecordProblem> {
        loop {
            self.line.clear();
            // One byte more than the limit, so that a line that is too long can be told from one that just fits.
            let mut limited = self.reader.by_ref().take(LINE_BYTES_MAX as u64 + 1);
            let read = limited.read_until(b'\n', &mut self.line).map_err(RecordProblem::Unreadable)?;
            if read == 0 {
                return Ok(false);
            }
            self.line_number += 1;
            if self.line.last() == Some(&b'\n') {
                self.line.pop();
            }
            if self.line.len() > LINE_BYTES_MAX {
                return Err(RecordProblem::LineTooLong { limit: LINE_BYTES_MAX });
            }
            if self.line.last() == Some(&b'\r') {
                self.line.pop();
            }
            if !self.line.is_empty() {
                return Ok(true);
            }
        }
    }
}

impl<R: BufRead> Iterator for RecordReader<R> {
    type Item = Result<RecordRow, RecordError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let row = self.read_row().map_err(|problem| self.error(problem));
        self.failed = row.is_err();
        row.transpose()
    }
}

fn number<N: FromStr>(column: usize, text: &str, expected: impl FnOnce() -> String) -> Result<N, RecordProblem> {
    text.parse().map_err(|_| wrong(column, text.as_bytes(), expected))
}

fn wrong(column: usize, field: &[u8], expected: impl FnOnce() -> String) -> RecordProblem {
    RecordProblem::Value { column: COLUMNS[column], value: shown(field), expected: expected() }
}

/// A field as an error shows it.
fn shown(field: &[u8]) -> String {
    const CHARS_MAX: usize = 40;
    let text = String::from_utf8_lossy(field);
    let mut shown: String = text.chars().take(CHARS_MAX).flat_map(char::escape_debug).collect();
    if text.chars().nth(CHARS_MAX).is_some() {
        shown.push_str("..");
    }
    shown
}

/// The field without the double quotes around it, if there are any.
fn unquoted(field: &[u8]) -> &[u8] {
    field.strip_prefix(b"\"").and_then(|field| field.strip_suffix(b"\"")).unwrap_or(field)
}
