//! A sweep that survives being killed.
//!
//! While it runs, its folder holds `sweep.json`, the fingerprint, and in `cells/` one small file per finished cell. When
//! all cells are there, `rows.csv` and the figures are written, then the manifest, then the journal is removed. A run
//! killed at any moment is resumed by running it again:
//!
//! | killed | what the next run finds | what it does |
//! |---|---|---|
//! | before `sweep.json` | an empty folder | begins |
//! | during a cell | the finished cells, perhaps a temporary file | computes the others |
//! | during the results | all cells, some results | writes the results again |
//! | after the manifest | a finished folder, some of the journal | removes the journal |
//!
//! `rows.csv` is put together from the bytes in `cells/`, in the order of the grid, and so is the same in all cases.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::StoreError;
use super::atomic;
use super::cells::{self, CellKey};
use super::fingerprint::Fingerprint;
use super::folder::{self, NamedFile, Opened, ResultFolder};
use super::manifest::{Manifest, RunFacts};

/// The rows of all cells.
pub(crate) const ROWS_FILE: &str = "rows.csv";

const HEADER_FILE: &str = "sweep.json";
const CELLS_FOLDER: &str = "cells";
const JOURNAL_SCHEMA: u32 = 1;

/// The journal of a sweep in its folder, locked against other processes.
#[derive(Debug)]
pub(crate) struct Journal {
    folder: ResultFolder,
    grid: Vec<CellKey>,
    finished: BTreeSet<CellKey>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Header {
    schema: u32,
    fingerprint: Value,
}

/// A finished cell: its key and the two lines that csv makes of its row. As JSON, so that a file cut short by whatever
/// cause does not pass for a shorter row.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Fragment {
    schema: u32,
    cell: String,
    header: String,
    record: String,
}

impl Journal {
    /// Begins or resumes the sweep of `grid` (its cells in the order of the rows) in the folder `path`. `figures` names
    /// the files that will stand beside `rows.csv`.
    ///
    /// # Errors
    /// As [`ResultFolder::open`]; a journal of another configuration is refused too.
    pub(crate) fn open(
        path: &Path,
        fingerprint: Fingerprint,
        grid: Vec<CellKey>,
        figures: &[&str],
    ) -> Result<Opened<Self>, StoreError> {
        let header = read_header(path)?;
        // Results beside a journal are those of this sweep, written shortly before it was killed.
        let names: Vec<&str> = match header {
            Some(_) => Vec::new(),
            None => figures.iter().copied().chain([ROWS_FILE, CELLS_FOLDER]).collect(),
        };
        let folder = match ResultFolder::open(path, fingerprint.clone(), &names)? {
            Opened::Unfinished(folder) => folder,
            Opened::UpToDate(manifest) => {
                remove_journal(path)?;
                return Ok(Opened::UpToDate(manifest));
            }
        };
        match header {
            Some(there) => folder::check_fingerprint(path, &there, &fingerprint)?,
            None => write_header(path, &fingerprint)?,
        }
        let cells = path.join(CELLS_FOLDER);
        fs::create_dir_all(&cells).map_err(StoreError::io("create", &cells))?;
        atomic::remove_leftovers(&cells).map_err(StoreError::io("clean", &cells))?;
        let mut finished = BTreeSet::new();
        for key in &grid {
            if read_fragment(&cells, key)?.is_some() {
                finished.insert(key.clone());
            }
        }
        Ok(Opened::Unfinished(Self { folder, grid, finished }))
    }

    /// Whether the cell was finished by an earlier run. Cells recorded since the journal was opened do not count.
    pub(crate) fn was_finished(&self, key: &CellKey) -> bool {
        self.finished.contains(key)
    }

    /// Whether the cell is finished, by whichever run.
    pub(crate) fn is_there(&self, key: &CellKey) -> bool {
        matches!(read_fragment(&self.cells(), key), Ok(Some(_)))
    }

    /// Keeps the row of a finished cell. Cells may be recorded from several threads, in any order.
    pub(crate) fn record<R: Serialize>(&self, key: &CellKey, row: &R) -> Result<(), StoreError> {
        let fragment = Fragment::new(key, row)?;
        let path = fragment_path(&self.cells(), key);
        let text =
            serde_json::to_vec(&fragment).map_err(|source| StoreError::Json { what: "a finished cell", source })?;
        atomic::write_file(&path, &text).map_err(StoreError::io("write", &path))
    }

    /// The rows of the whole grid, in its order.
    ///
    /// # Errors
    /// When a cell is not finished yet, or its row is not an `R`.
    pub(crate) fn rows<R: DeserializeOwned>(&self) -> Result<Vec<R>, StoreError> {
        let bytes = self.rows_csv()?;
        cells::from_csv(&bytes).map_err(|source| StoreError::Row { place: ROWS_FILE.to_owned(), source })
    }

    /// Writes `rows.csv`, the figures and the manifest, then removes the journal.
    ///
    /// # Errors
    /// When a cell is not finished yet, or a file cannot be written; the journal is then kept.
    pub(crate) fn finish(self, figures: &[NamedFile<'_>], facts: RunFacts) -> Result<Manifest, StoreError> {
        let rows = self.rows_csv()?;
        let mut files: Vec<NamedFile<'_>> = vec![(ROWS_FILE, &rows)];
        files.extend_from_slice(figures);
        let manifest = self.folder.publish(&files, facts)?;
        remove_journal(self.folder.path())?;
        Ok(manifest)
    }

    fn cells(&self) -> PathBuf {
        self.folder.path().join(CELLS_FOLDER)
    }

    /// Read back from the disk, also for the cells of this run: what is published is what a resumed run would publish.
    fn rows_csv(&self) -> Result<Vec<u8>, StoreError> {
        let cells = self.cells();
        let mut text = String::new();
        let mut header = None;
        for key in &self.grid {
            let fragment =
                read_fragment(&cells, key)?.ok_or_else(|| StoreError::MissingCell { cell: key.to_string() })?;
            match &header {
                None => {
                    text.push_str(&fragment.header);
                    header = Some(fragment.header);
                }
                Some(header) if *header == fragment.header => {}
                Some(header) => {
                    let reason =
                        format!("its columns are `{}`, expected `{}`", fragment.header.trim_end(), header.trim_end());
                    return Err(StoreError::Unreadable { path: fragment_path(&cells, key), reason });
                }
            }
            text.push_str(&fragment.record);
        }
        Ok(text.into_bytes())
    }
}

/// The rows of a finished folder.
pub(crate) fn read_rows<R: DeserializeOwned>(folder: &Path) -> Result<Vec<R>, StoreError> {
    let path = folder.join(ROWS_FILE);
    let bytes = fs::read(&path).map_err(StoreError::io("read", &path))?;
    cells::from_csv(&bytes).map_err(|source| StoreError::Row { place: ROWS_FILE.to_owned(), source })
}

/// What the folder of a run that has not finished holds so far.
#[derive(Debug)]
pub(crate) struct Unfinished {
    /// What the folder is bound to.
    pub(crate) fingerprint: Value,
    /// Finished cells.
    pub(crate) n_cells: usize,
    /// Their rows as CSV, in the order of the names of their files.
    pub(crate) rows: Vec<u8>,
}

/// Reads the journal in `folder` without locking it, so that a run can be looked at while it goes on; nothing if there is none.
pub(crate) fn read_unfinished(folder: &Path) -> Result<Option<Unfinished>, StoreError> {
    let Some(fingerprint) = read_header(folder)? else { return Ok(None) };
    let cells = folder.join(CELLS_FOLDER);
    let mut paths = Vec::new();
    if cells.is_dir() {
        for entry in fs::read_dir(&cells).map_err(StoreError::io("read", &cells))? {
            paths.push(entry.map_err(StoreError::io("read", &cells))?.path());
        }
    }
    paths.sort();
    let (mut n_cells, mut rows) = (0, String::new());
    for path in paths {
        // A file that is not whole is a cell that is not finished.
        let bytes = folder::read_if_there(&path)?;
        let Some(fragment) = bytes.and_then(|bytes| serde_json::from_slice::<Fragment>(&bytes).ok()) else { continue };
        if n_cells == 0 {
            rows.push_str(&fragment.header);
        }
        rows.push_str(&fragment.record);
        n_cells += 1;
    }
    let fingerprint = fingerprint.as_value().clone();
    Ok(Some(Unfinished { fingerprint, n_cells, rows: rows.into_bytes() }))
}

impl Fragment {
    fn new<R: Serialize>(key: &CellKey, row: &R) -> Result<Self, StoreError> {
        let row_error = |source| StoreError::Row { place: key.to_string(), source };
        let bytes = cells::to_csv(std::slice::from_ref(row)).map_err(row_error)?;
        let text = String::from_utf8(bytes).expect("csv makes valid text of valid text");
        // Names of columns hold no line break, so the first one ends the header.
        let header_end = text.find('\n').map_or(text.len(), |idx| idx + 1);
        let (header, record) = text.split_at(header_end);
        assert!(!record.is_empty(), "a row is a struct, whose fields name the columns");
        Ok(Self { schema: JOURNAL_SCHEMA, cell: key.to_string(), header: header.to_owned(), record: record.to_owned() })
    }
}

fn fragment_path(cells: &Path, key: &CellKey) -> PathBuf {
    cells.join(format!("{}.json", key.file_stem()))
}

/// Nothing if the cell is not finished; a file that is not whole counts as that.
fn read_fragment(cells: &Path, key: &CellKey) -> Result<Option<Fragment>, StoreError> {
    let bytes = folder::read_if_there(&fragment_path(cells, key))?;
    let fragment: Option<Fragment> = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    Ok(fragment.filter(|fragment| fragment.schema == JOURNAL_SCHEMA && fragment.cell == key.as_str()))
}

fn read_header(folder: &Path) -> Result<Option<Fingerprint>, StoreError> {
    let path = folder.join(HEADER_FILE);
    let Some(bytes) = folder::read_if_there(&path)? else { return Ok(None) };
    let unreadable = |reason: String| StoreError::Unreadable { path: path.clone(), reason };
    let header: Header = serde_json::from_slice(&bytes).map_err(|error| unreadable(error.to_string()))?;
    if header.schema != JOURNAL_SCHEMA {
        return Err(unreadable(format!("`schema` is {}, expected {JOURNAL_SCHEMA}", header.schema)));
    }
    Ok(Some(Fingerprint::from_value(header.fingerprint)))
}

fn write_header(folder: &Path, fingerprint: &Fingerprint) -> Result<(), StoreError> {
    let header = Header { schema: JOURNAL_SCHEMA, fingerprint: fingerprint.as_value().clone() };
    let text = serde_json::to_vec_pretty(&header).map_err(|source| StoreError::Json { what: "the journal", source })?;
    let path = folder.join(HEADER_FILE);
    atomic::write_file(&path, &text).map_err(StoreError::io("write", &path))
}

/// The header goes last: cells without it would be taken for files of unknown origin.
fn remove_journal(folder: &Path) -> Result<(), StoreError> {
    let gone = |result: io::Result<()>| match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    };
    let cells = folder.join(CELLS_FOLDER);
    let header = folder.join(HEADER_FILE);
    if !header.exists() {
        return Ok(());
    }
    gone(fs::remove_dir_all(&cells)).map_err(StoreError::io("remove", &cells))?;
    gone(fs::remove_file(&header)).map_err(StoreError::io("remove", &header))?;
    atomic::sync_folder(folder).map_err(StoreError::io("sync", folder))
}

#[cfg(test)]
mod tests;
