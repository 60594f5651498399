//! A CSV whose figures are to be drawn, and what lies beside it.

use std::fs;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;

use crate::failure::Failure;
use crate::output::cells::from_csv;
use crate::output::journal::ROWS_FILE;
use crate::output::manifest::{FileEntry, MANIFEST_FILE, Manifest};
use crate::output::origin::Origin;

const REPORT_FILE: &str = "report.json";

/// A CSV with its manifest and its report, as far as they are there.
pub(super) struct Source {
    path: PathBuf,
    bytes: Vec<u8>,
    /// The columns of the CSV.
    pub(super) columns: Vec<String>,
    manifest: Option<Manifest>,
}

impl Source {
    /// Reads a CSV, or the rows of a result folder.
    pub(super) fn open(from: &Path) -> Result<Self, Failure> {
        let path = if from.is_dir() { from.join(ROWS_FILE) } else { from.to_owned() };
        let manifest = fs::read(path.with_file_name(MANIFEST_FILE)).ok();
        let manifest: Option<Manifest> = manifest.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        let bytes = fs::read(&path).map_err(|error| {
            let hint = hint(manifest.as_ref());
            Failure::Argument(format!("`{}`: {error}, expected the rows of a run{hint}", path.display()))
        })?;
        if let Err(error) = std::str::from_utf8(&bytes) {
            let at = error.valid_up_to();
            return Err(Failure::Argument(format!("`{}`: byte {at} is not UTF-8, expected a text", path.display())));
        }
        let columns = csv::Reader::from_reader(bytes.as_slice()).headers().map(|found| {
            let columns = found.iter().map(str::to_owned);
            columns.collect()
        });
        let columns = columns.map_err(|error| Failure::Argument(format!("`{}`: {error}", path.display())))?;
        Ok(Self { path, bytes, columns, manifest })
    }

    /// The rows, at least one, of what `kind` names in errors.
    pub(super) fn rows<R: DeserializeOwned>(&self, kind: &str) -> Result<Vec<R>, Failure> {
        let path = self.path.display();
        let rows: Vec<R> = from_csv(&self.bytes).map_err(|error| {
            Failure::Argument(format!("{path}{}, expected rows of {kind}", place(&self.bytes, &error)))
        })?;
        if rows.is_empty() {
            return Err(Failure::Argument(format!("`{path}` has no row, expected at least one cell of {kind}")));
        }
        Ok(rows)
    }

    /// What the figure says of where the rows come from; `seed` is that of the rows, if they have one.
    pub(super) fn origin(&self, seed: Option<u64>) -> Origin {
        match &self.manifest {
            Some(manifest) => Origin::of_manifest(manifest, self.is_unchanged()),
            None => Origin::unknown(seed),
        }
    }

    /// The report beside the CSV.
    pub(super) fn report(&self) -> Option<Vec<u8>> {
        fs::read(self.path.with_file_name(REPORT_FILE)).ok()
    }

    /// The folder whose own figures are to be replaced.
    ///
    /// # Errors
    /// When it is no finished result folder, or its rows are not those of its manifest.
    pub(super) fn finished_folder(&self) -> Result<&Path, Failure> {
        let refused = |what: &str| {
            let path = self.path.display();
            Err(Failure::Argument(format!(
                "--in-place: `{path}` {what}, expected the rows of a finished result folder"
            )))
        };
        if self.manifest.is_none() {
            return refused("has no manifest beside it");
        }
        if !self.is_unchanged() {
            return refused("is not the file that its manifest lists");
        }
        Ok(self.path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new(".")))
    }

    /// What is wrong with this CSV, by its path.
    pub(super) fn wrong(&self, what: impl std::fmt::Display) -> Failure {
        Failure::Argument(format!("`{}`: {what}", self.path.display()))
    }

    /// The error of a CSV that is of none of the kinds that `expected` lists.
    pub(super) fn unknown(&self, expected: &str) -> Failure {
        let hint = hint(self.manifest.as_ref());
        match self.columns.as_slice() {
            [] => Failure::Argument(format!(
                "`{}` has no row, expected at least one cell of {expected}{hint}",
                self.path.display()
            )),
            columns => {
                let columns = columns.join(", ");
                self.wrong(format_args!("the columns are {columns}, expected those of {expected}{hint}"))
            }
        }
    }

    /// Whether the manifest lists the CSV as it is.
    fn is_unchanged(&self) -> bool {
        let name = self.path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let here = FileEntry::new(name, &self.bytes);
        self.manifest.as_ref().is_some_and(|manifest| manifest.files.contains(&here))
    }
}

/// What errors say about a folder of a command that draws nothing.
fn hint(manifest: Option<&Manifest>) -> String {
    let command = manifest.and_then(|manifest| manifest.fingerprint.get("command")?.as_str());
    match command {
        Some(command @ ("simulate" | "measure" | "profile")) => {
            format!("\nhint: these are results of `{command}`, which draws no figure")
        }
        _ => String::new(),
    }
}

/// Line, column and what is wrong there.
fn place(bytes: &[u8], error: &csv::Error) -> String {
    let csv::ErrorKind::Deserialize { pos: Some(position), err: error } = error.kind() else {
        return format!(": {error}");
    };
    let mut reader = csv::Reader::from_reader(bytes);
    let cell = error.field().and_then(|field| {
        let idx = usize::try_from(field).ok()?;
        let column = reader.headers().ok()?.get(idx)?.to_owned();
        let row = usize::try_from(position.record()).ok()?.checked_sub(1)?;
        let value = reader.records().nth(row)?.ok()?.get(idx)?.to_owned();
        Some(format!("`{column}` is \"{value}\": "))
    });
    format!(":{}: {}{}", position.line(), cell.unwrap_or_default(), error.kind())
}
