//! A CSV file as the page shows it.

use std::path::{Path, PathBuf};

use csv::StringRecord;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::columns::{self, Meaning, Source};
use super::origin::Origin;
use super::read_text;
use crate::failure::Failure;

/// The rows of one file.
#[derive(Clone, Debug)]
pub(super) struct Table {
    /// The file's name.
    pub(super) file: String,
    path: PathBuf,
    pub(super) header: Vec<String>,
    pub(super) rows: Vec<StringRecord>,
}

impl Table {
    /// Reads the file at `path`.
    pub(super) fn read(path: &Path, file: &str) -> Result<Self, Failure> {
        Self::parse(read_text(path)?.as_bytes(), path, file)
    }

    /// Reads rows that were put together from pieces; `path` is where they come from.
    pub(super) fn parse(bytes: &[u8], path: &Path, file: &str) -> Result<Self, Failure> {
        let mut reader = csv::Reader::from_reader(bytes);
        let failed = |error: csv::Error| Failure::Argument(format!("{}{}", path.display(), place(&error)));
        let header = reader.headers().map_err(failed)?.iter().map(str::to_owned).collect();
        let rows = reader.records().collect::<Result<_, _>>().map_err(failed)?;
        Ok(Self { file: file.to_owned(), path: path.to_owned(), header, rows })
    }

    /// The rows as those of `what`.
    pub(super) fn typed<R: DeserializeOwned>(&self, what: &str) -> Result<Vec<R>, Failure> {
        let header = StringRecord::from(self.header.clone());
        let typed = |row: &StringRecord| {
            row.deserialize(Some(&header)).map_err(|error| {
                let line = row.position().map_or(0, csv::Position::line);
                let csv::ErrorKind::Deserialize { err, .. } = error.kind() else {
                    return Failure::Argument(format!("{}:{line}: {error}", self.path.display()));
                };
                let column = err.field().and_then(|field| usize::try_from(field).ok());
                let cell =
                    column.and_then(|idx| Some(format!("`{}` is \"{}\": ", self.header.get(idx)?, row.get(idx)?)));
                let cell = cell.unwrap_or_default();
                Failure::Argument(format!(
                    "{}:{line}: {cell}{}, expected rows of {what}",
                    self.path.display(),
                    err.kind()
                ))
            })
        };
        self.rows.iter().map(typed).collect()
    }

    /// Whether every value of the column is a number, and there is one.
    fn is_number(&self, column_idx: usize) -> bool {
        let mut values = self.rows.iter().map(|row| &row[column_idx]).filter(|value| !value.is_empty()).peekable();
        values.peek().is_some() && values.all(|value| value.parse::<f64>().is_ok())
    }

    /// What the page's script needs: columns with their meaning, and the rows as they stand in the file.
    pub(super) fn document(&self, origin: &Origin, is_altered: bool) -> Value {
        let command = origin.command_name();
        let column = |(column_idx, name): (usize, &String)| {
            let Meaning { text, unit, source, is_main } = columns::meaning(command, &self.file, name);
            json!({
                "name": name,
                "meaning": text,
                "unit": unit,
                "key": source == Source::Key,
                // A column without a value says nothing.
                "main": is_main && self.rows.iter().any(|row| !row[column_idx].is_empty()),
                "source": columns::source_words(source, origin),
                "number": self.is_number(column_idx),
            })
        };
        let program = &origin.program;
        let profiles =
            origin.profiles_read().into_iter().map(|profile| format!("{} (sha256 {})", profile.name, profile.sha256));
        let mut facts = vec![
            ("file".to_owned(), self.file.clone()),
            ("commit".to_owned(), format!("{} ({})", program.commit, program.sources)),
            ("seed".to_owned(), origin.seed_text()),
            (
                "scenario".to_owned(),
                origin.scenario.as_ref().map_or_else(String::new, |scenario| scenario.name.clone()),
            ),
            ("device".to_owned(), origin.device.clone()),
            ("profile".to_owned(), profiles.collect::<Vec<_>>().join(", ")),
        ];
        if is_altered {
            facts.push(("warning".to_owned(), "the file is not the one that manifest.json lists".to_owned()));
        }
        facts.retain(|(_, value)| !value.is_empty());
        json!({
            "columns": self.header.iter().enumerate().map(column).collect::<Vec<_>>(),
            "rows": self.rows.iter().map(|row| row.iter().collect::<Vec<_>>()).collect::<Vec<_>>(),
            "facts": facts,
        })
    }
}

/// Line and what is wrong there.
fn place(error: &csv::Error) -> String {
    match error.kind() {
        csv::ErrorKind::UnequalLengths { pos, expected_len, len } => {
            let line = pos.as_ref().map_or(0, csv::Position::line);
            format!(":{line}: {len} values, expected {expected_len}, as many as there are columns")
        }
        _ => format!(": {error}"),
    }
}
