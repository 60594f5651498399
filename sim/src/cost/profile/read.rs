//! The reader of profiles. It takes any bytes: bad input is an error, never a panic.

use std::collections::BTreeMap;

use csv::StringRecord;

use super::{
    COLUMNS, CorunPoint, HopPoint, HostPart, HostPoint, Measured, Profile, ProfileError, RouterPoint, StepPoint,
};

pub(super) fn parse(bytes: &[u8], file: &str) -> Result<Profile, ProfileError> {
    let text = check_text(bytes, file)?;
    let mut records = Records::new(text, file);
    let mut record = StringRecord::new();
    let Some(line) = records.next(&mut record)? else {
        return Err(ProfileError::Empty { file: file.to_owned(), missing: "header" });
    };
    let fields = header(&record, file, line)?;

    let mut profile = Profile {
        name: file.to_owned(),
        steps: Vec::new(),
        coruns: Vec::new(),
        routers: Vec::new(),
        hops: Vec::new(),
        hosts: Vec::new(),
    };
    let mut seen: BTreeMap<_, (u64, _)> = BTreeMap::new();
    while let Some(line) = records.next(&mut record)? {
        let row = Row { file, line, record: &record, fields: &fields };
        let point = row.point()?;
        let (key, values) = (POINT.map(|column| row.canonical(column)), VALUES.map(|column| row.canonical(column)));
        if let Some((first_line, first_values)) = seen.get(&key) {
            row.check_agrees(&values, *first_line, first_values)?;
            continue;
        }
        seen.insert(key, (line, values));
        match point {
            Point::Step(point) => profile.steps.push(point),
            Point::Corun(point) => profile.coruns.push(point),
            Point::Router(point) => profile.routers.push(point),
            Point::Hop(point) => profile.hops.push(point),
            Point::Host(point) => profile.hosts.push(point),
        }
    }
    if seen.is_empty() {
        return Err(ProfileError::Empty { file: file.to_owned(), missing: "row" });
    }
    Ok(profile)
}

/// A column, numbered as in [`COLUMNS`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd)]
enum Column {
    Device,
    Model,
    Kind,
    Graph,
    Rows,
    NewTokens,
    KvTokens,
    PeerModel,
    PeerRows,
    Rate,
    MeanUs,
    P50Us,
    P99Us,
    Repeats,
}

impl Column {
    const fn name(self) -> &'static str {
        COLUMNS[self as usize]
    }
}

/// The columns that say which point a row is about.
const POINT: [Column; 9] = [
    Column::Device,
    Column::Model,
    Column::Kind,
    Column::Graph,
    Column::Rows,
    Column::NewTokens,
    Column::KvTokens,
    Column::PeerModel,
    Column::PeerRows,
];

/// The columns that say what was measured there.
const VALUES: [Column; 5] = [Column::Rate, Column::MeanUs, Column::P50Us, Column::P99Us, Column::Repeats];

/// Largest count of rows or tokens: a product of two still fits an `i64`.
const COUNT_MAX: u32 = 1_000_000_000;

/// Largest time in microseconds, about eleven days.
const TIME_US_MAX: f64 = 1e12;

/// Longer values are cut in error texts.
const SHOWN_CHARS_MAX: usize = 60;

const KINDS: &str = "decode, extend, corun, router, hop or host";

enum Point {
    Step(StepPoint),
    Corun(CorunPoint),
    Router(RouterPoint),
    Hop(HopPoint),
    Host(HostPoint),
}

fn check_text<'a>(bytes: &'a [u8], file: &str) -> Result<&'a str, ProfileError> {
    if bytes.starts_with(&[0xEF, 0xBB, 0xBF]) {
        return Err(ProfileError::ByteOrderMark { file: file.to_owned() });
    }
    std::str::from_utf8(bytes).map_err(|error| {
        let before = &bytes[..error.valid_up_to()];
        let line = 1 + n_newlines(before);
        let line_start = before.iter().rposition(|&byte| byte == b'\n').map_or(0, |idx| idx + 1);
        ProfileError::NotUtf8 { file: file.to_owned(), line, column: before.len() - line_start + 1 }
    })
}

fn n_newlines(bytes: &[u8]) -> u64 {
    bytes.iter().map(|&byte| u64::from(byte == b'\n')).sum()
}

/// The records of a csv text, each with the line on which it starts.
struct Records<'a> {
    text: &'a str,
    file: &'a str,
    reader: csv::Reader<&'a [u8]>,
    /// Up to where newlines were counted.
    counted_bytes: usize,
    line: u64,
}

impl<'a> Records<'a> {
    fn new(text: &'a str, file: &'a str) -> Self {
        let reader = csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(text.as_bytes());
        Self { text, file, reader, counted_bytes: 0, line: 1 }
    }

    fn next(&mut self, record: &mut StringRecord) -> Result<Option<u64>, ProfileError> {
        let is_there = self
            .reader
            .read_record(record)
            .map_err(|error| ProfileError::Read { file: self.file.to_owned(), source: error.into() })?;
        if !is_there {
            return Ok(None);
        }
        // The reader's own line numbers stop at the end of the record before: blank lines between the two, and the
        // second half of a CRLF, are still ahead of its position.
        let bytes = self.text.as_bytes();
        let mut start = record.position().map_or(0, |position| position.byte() as usize).min(bytes.len());
        while matches!(bytes.get(start), Some(b'\n' | b'\r')) {
            start += 1;
        }
        self.line += n_newlines(&bytes[self.counted_bytes..start]);
        self.counted_bytes = start;
        Ok(Some(self.line))
    }
}

/// Where in a record each column's field is.
fn header(record: &StringRecord, file: &str, line: u64) -> Result<[usize; COLUMNS.len()], ProfileError> {
    let mut fields = [None; COLUMNS.len()];
    for (field_idx, name) in record.iter().enumerate() {
        let Some(column_idx) = COLUMNS.iter().position(|&column| column == name) else {
            return Err(ProfileError::UnknownColumn {
                file: file.to_owned(),
                line,
                column: quoted(name),
                expected: COLUMNS.join(","),
            });
        };
        if fields[column_idx].replace(field_idx).is_some() {
            return Err(ProfileError::DuplicateColumn { file: file.to_owned(), line, column: COLUMNS[column_idx] });
        }
    }
    let mut found = [0; COLUMNS.len()];
    for (column_idx, field) in fields.into_iter().enumerate() {
        found[column_idx] = field.ok_or_else(|| ProfileError::MissingColumn {
            file: file.to_owned(),
            line,
            column: COLUMNS[column_idx],
            expected: COLUMNS.join(","),
        })?;
    }
    Ok(found)
}

fn quoted(value: &str) -> String {
    if value.is_empty() {
        return "empty".to_owned();
    }
    match value.char_indices().nth(SHOWN_CHARS_MAX) {
        None => format!("{value:?}"),
        Some((end, _)) => format!("{:?}...", &value[..end]),
    }
}

struct Row<'a> {
    file: &'a str,
    line: u64,
    record: &'a StringRecord,
    fields: &'a [usize; COLUMNS.len()],
}

impl Row<'_> {
    fn point(&self) -> Result<Point, ProfileError> {
        if self.record.len() != COLUMNS.len() {
            return Err(ProfileError::FieldCount {
                file: self.file.to_owned(),
                line: self.line,
                found: self.record.len(),
                expected: COLUMNS.len(),
            });
        }
        let kind = self.text(Column::Kind);
        match kind {
            "decode" | "extend" => self.step(kind),
            "corun" => self.corun(),
            "router" => self.router(),
            "hop" => self.hop(),
            "host" => self.host(),
            _ => Err(self.wrong(Column::Kind, KINDS)),
        }
    }

    fn step(&self, kind: &str) -> Result<Point, ProfileError> {
        self.check_unused(kind, &[Column::PeerModel, Column::PeerRows, Column::Rate])?;
        let new_tokens = self.count(Column::NewTokens, 1)?;
        if kind == "decode" && new_tokens != 1 {
            return Err(self.wrong(Column::NewTokens, "1 for kind decode"));
        }
        if kind == "extend" && new_tokens < 2 {
            return Err(self.wrong(Column::NewTokens, "2 or more for kind extend: one new token is a decode"));
        }
        Ok(Point::Step(StepPoint {
            device: self.name(Column::Device)?,
            model: self.name(Column::Model)?,
            graph: self.flag(Column::Graph)?,
            rows: self.count(Column::Rows, 1)?,
            new_tokens,
            kv_tokens: self.count(Column::KvTokens, 0)?,
            time: self.time()?,
        }))
    }

    fn corun(&self) -> Result<Point, ProfileError> {
        self.check_unused("corun", &[Column::NewTokens, Column::KvTokens])?;
        let rate = self.number(Column::Rate, "a number above 0 and at most 1", |rate| rate > 0.0 && rate <= 1.0)?;
        let has_time = [Column::MeanUs, Column::P50Us, Column::P99Us].iter().any(|&column| !self.is_empty(column));
        Ok(Point::Corun(CorunPoint {
            device: self.name(Column::Device)?,
            model: self.name(Column::Model)?,
            graph: self.flag(Column::Graph)?,
            rows: self.count(Column::Rows, 1)?,
            peer_model: self.name(Column::PeerModel)?,
            peer_rows: self.count(Column::PeerRows, 1)?,
            rate,
            time: if has_time { Some(self.time()?) } else { self.repeats().map(|_| None)? },
        }))
    }

    fn router(&self) -> Result<Point, ProfileError> {
        let unused = [Column::NewTokens, Column::KvTokens, Column::PeerModel, Column::PeerRows, Column::Rate];
        self.check_unused("router", &unused)?;
        Ok(Point::Router(RouterPoint {
            device: self.name(Column::Device)?,
            model: self.name(Column::Model)?,
            graph: self.flag(Column::Graph)?,
            rows: self.count(Column::Rows, 1)?,
            time: self.time()?,
        }))
    }

    fn hop(&self) -> Result<Point, ProfileError> {
        let unused = [Column::Graph, Column::Rows, Column::NewTokens, Column::KvTokens, Column::PeerRows, Column::Rate];
        self.check_unused("hop", &unused)?;
        let is_any = self.is_empty(Column::Model) && self.is_empty(Column::PeerModel);
        let between = if is_any { None } else { Some((self.name(Column::Model)?, self.name(Column::PeerModel)?)) };
        Ok(Point::Hop(HopPoint { device: self.name(Column::Device)?, between, time: self.time()? }))
    }

    fn host(&self) -> Result<Point, ProfileError> {
        let unused = [
            Column::Graph,
            Column::Rows,
            Column::NewTokens,
            Column::KvTokens,
            Column::PeerModel,
            Column::PeerRows,
            Column::Rate,
        ];
        self.check_unused("host", &unused)?;
        let part = self.text(Column::Model);
        let Some(&(part, _)) = HostPart::ALL.iter().find(|(_, name)| *name == part) else {
            return Err(self.wrong(Column::Model, "launch, loop or message for kind host"));
        };
        Ok(Point::Host(HostPoint { device: self.name(Column::Device)?, part, time: self.time()? }))
    }

    fn time(&self) -> Result<Measured, ProfileError> {
        let p50_us = self.optional_time(Column::P50Us)?;
        let p99_us = self.optional_time(Column::P99Us)?;
        if let (Some(p50_us), Some(p99_us)) = (p50_us, p99_us)
            && p99_us < p50_us
        {
            return Err(self.wrong(Column::P99Us, &format!("at least `p50_us`, which is {p50_us}")));
        }
        Ok(Measured { mean_us: self.required_time(Column::MeanUs)?, p50_us, p99_us, repeats: self.repeats()? })
    }

    fn repeats(&self) -> Result<Option<u32>, ProfileError> {
        if self.is_empty(Column::Repeats) { Ok(None) } else { self.count(Column::Repeats, 1).map(Some) }
    }

    fn optional_time(&self, column: Column) -> Result<Option<f64>, ProfileError> {
        if self.is_empty(column) { Ok(None) } else { self.required_time(column).map(Some) }
    }

    fn required_time(&self, column: Column) -> Result<f64, ProfileError> {
        self.number(column, "microseconds above 0 and at most 1e12", |us| us > 0.0 && us <= TIME_US_MAX)
    }

    fn number(&self, column: Column, expected: &str, is_fine: impl Fn(f64) -> bool) -> Result<f64, ProfileError> {
        // Comparisons with NaN are false, so `is_fine` refuses it.
        let parsed = self.text(column).parse().ok().filter(|&number| is_fine(number));
        parsed.ok_or_else(|| self.wrong(column, expected))
    }

    fn count(&self, column: Column, min: u32) -> Result<u32, ProfileError> {
        let parsed = self.text(column).parse().ok().filter(|count| (min..=COUNT_MAX).contains(count));
        parsed.ok_or_else(|| self.wrong(column, &format!("a whole number from {min} to {COUNT_MAX}")))
    }

    fn flag(&self, column: Column) -> Result<bool, ProfileError> {
        self.text(column).parse().map_err(|_| self.wrong(column, "true or false"))
    }

    fn name(&self, column: Column) -> Result<String, ProfileError> {
        let text = self.text(column);
        if text.is_empty() || text.trim() != text {
            return Err(self.wrong(column, "a name without spaces around it"));
        }
        Ok(text.to_owned())
    }

    fn check_unused(&self, kind: &str, columns: &[Column]) -> Result<(), ProfileError> {
        match columns.iter().find(|&&column| !self.is_empty(column)) {
            Some(&column) => Err(self.wrong(column, &format!("nothing for kind {kind}"))),
            None => Ok(()),
        }
    }

    fn check_agrees(
        &self,
        values: &[String; VALUES.len()],
        first_line: u64,
        first_values: &[String; VALUES.len()],
    ) -> Result<(), ProfileError> {
        for (idx, column) in VALUES.iter().enumerate() {
            if values[idx] != first_values[idx] {
                return Err(ProfileError::Conflict {
                    file: self.file.to_owned(),
                    line: self.line,
                    first_line,
                    field: column.name(),
                    value: quoted(&values[idx]),
                    first_value: quoted(&first_values[idx]),
                });
            }
        }
        Ok(())
    }

    /// The field in a form in which equal values are equal texts: `20.50` and `2.05e1` are the same time.
    fn canonical(&self, column: Column) -> String {
        let text = self.text(column);
        let is_number = column >= Column::Rows && column != Column::PeerModel;
        match text.parse::<f64>() {
            Ok(number) if is_number => number.to_string(),
            _ => text.to_owned(),
        }
    }

    fn is_empty(&self, column: Column) -> bool {
        self.text(column).is_empty()
    }

    fn text(&self, column: Column) -> &str {
        self.record.get(self.fields[column as usize]).unwrap_or_default()
    }

    fn wrong(&self, column: Column, expected: &str) -> ProfileError {
        ProfileError::Value {
            file: self.file.to_owned(),
            line: self.line,
            field: column.name(),
            value: quoted(self.text(column)),
            expected: expected.to_owned(),
        }
    }
}
