//! What a run found, in words, from its rows and its document.

mod cells;
mod paper;
mod profile;
mod sweep;
mod tune;
mod validate;

use std::path::Path;

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::origin::Origin;
use super::table::Table;
use super::{read, wrong};
use crate::failure::Failure;
use crate::output::journal::ROWS_FILE;
use crate::output::table::significant;

const DOCUMENT_FILE: &str = "report.json";

/// Raised with the schema of the documents that are read here, which is the same for all commands.
const DOCUMENT_SCHEMA: u32 = 1;

/// The findings of one run.
#[derive(Clone, Debug, Default)]
pub(super) struct Summary {
    /// In a line.
    pub(super) headline: String,
    pub(super) blocks: Vec<Block>,
}

/// A part of a summary.
#[derive(Clone, Debug)]
pub(super) enum Block {
    /// A paragraph.
    Text(String),
    /// A list.
    List(Vec<String>),
    /// A small table.
    Grid { caption: String, header: Vec<&'static str>, rows: Vec<Vec<String>> },
}

/// The summary of the finished results in `folder`.
pub(super) fn of(folder: &Path, origin: &Origin, tables: &[Table]) -> Result<Summary, Failure> {
    let rows = tables.iter().find(|table| table.file == ROWS_FILE);
    let has_document =
        origin.files.iter().any(|file| file.path == DOCUMENT_FILE) && folder.join(DOCUMENT_FILE).is_file();
    match (origin.command_name(), rows) {
        ("sweep", Some(rows)) => sweep::summary(rows),
        ("simulate" | "measure", Some(rows)) => cells::summary(rows),
        ("validate", _) if has_document => validate::summary(&document(folder)?),
        ("tune", _) if has_document => tune::summary(folder),
        ("profile", _) if has_document => profile::summary(&document(folder)?),
        ("paper", _) if has_document => paper::summary(&document(folder)?),
        _ => Ok(Summary { headline: contents(tables, origin), blocks: Vec::new() }),
    }
}

/// What there is, where nothing is known of what it says.
fn contents(tables: &[Table], origin: &Origin) -> String {
    match tables {
        [] => counted(origin.files.len(), "file", "files"),
        tables => tables
            .iter()
            .map(|table| format!("{} in {}", counted(table.rows.len(), "row", "rows"), table.file))
            .collect::<Vec<_>>()
            .join(", "),
    }
}

/// The run's JSON document as far as `T` wants to know it.
fn document<T: DeserializeOwned>(folder: &Path) -> Result<T, Failure> {
    let path = folder.join(DOCUMENT_FILE);
    let value: Value = serde_json::from_slice(&read(&path)?)
        .map_err(|error| wrong(&path, &format!("line {}: {error}", error.line())))?;
    if value["schema"] != DOCUMENT_SCHEMA {
        return Err(wrong(&path, &format!("`schema` is {}, expected {DOCUMENT_SCHEMA}", value["schema"])));
    }
    serde_json::from_value(value).map_err(|error| wrong(&path, &format!("{error}, expected the document of a run")))
}

/// `0.66 %`, `3.9 %`, `14.4 %`.
fn percent(share: f64) -> String {
    let digits = if share.abs() < 0.1 { 2 } else { 3 };
    format!("{} %", significant(share * 100.0, digits))
}

/// `+0.5 %`.
fn signed_percent(share: f64) -> String {
    format!("{:+.1} %", share * 100.0)
}

/// `exclusive (large-first)`.
fn place(placement: &str, order: Option<&str>) -> String {
    order.map_or_else(|| placement.to_owned(), |order| format!("{placement} ({order})"))
}

/// `1, 2 and 4`.
fn enumerated(words: &[String]) -> String {
    match words {
        [] => "none".to_owned(),
        [word] => word.clone(),
        [words @ .., last] => format!("{} and {last}", words.join(", ")),
    }
}

/// `1 cell`, `7 cells`.
pub(super) fn counted(n: usize, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}

/// `1 3`.
fn thresholds(thresholds: &[u32]) -> String {
    thresholds.iter().map(u32::to_string).collect::<Vec<_>>().join(" ")
}
