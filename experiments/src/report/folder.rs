//! What a folder holds: results with their figures and tables, a README.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::drawing::Drawing;
use super::origin::Origin;
use super::summary::{self, Summary};
use super::table::Table;
use super::{PAGE_FILE, entries, page, read, read_text, slashed, wrong};
use crate::failure::Failure;
use crate::output::StoreError;
use crate::output::journal::{ROWS_FILE, read_unfinished};
use crate::output::manifest::{FileEntry, MANIFEST_FILE};

const NOTES_FILE: &str = "README.md";

/// A folder that has something to show.
#[derive(Debug)]
pub(super) struct Folder {
    /// Where it lies below the folder of the page, with slashes; empty for that folder itself.
    pub(super) way: String,
    pub(super) results: Option<Results>,
    /// Its README.
    pub(super) notes: Option<String>,
}

/// The results of one run.
#[derive(Debug)]
pub(super) struct Results {
    pub(super) origin: Origin,
    pub(super) is_finished: bool,
    pub(super) summary: Summary,
    pub(super) warnings: Vec<String>,
    pub(super) drawings: Vec<Drawing>,
    pub(super) tables: Vec<Table>,
    /// Names of the files that are not those that the manifest lists.
    pub(super) altered: Vec<String>,
    /// Names of files that the manifest lists and the folder lacks.
    pub(super) missing: Vec<String>,
}

/// `root` and all folders below it that have results or a README, in the order of their names. A README stays only where results are.
pub(super) fn read_all(root: &Path) -> Result<Vec<Folder>, Failure> {
    let mut folders = Vec::new();
    collect(root, root, &mut folders)?;
    Ok(folders)
}

/// Whether there are results in `path` or below it.
fn collect(root: &Path, path: &Path, folders: &mut Vec<Folder>) -> Result<bool, Failure> {
    let (mut files, mut below) = (BTreeMap::new(), Vec::new());
    for (entry, is_folder) in entries(path)? {
        let name = entry.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        if is_folder {
            below.push((name, entry));
        } else {
            files.insert(name, entry);
        }
    }
    let way = slashed(path.strip_prefix(root).unwrap_or(path));
    let results = Results::read(path, &way, &files)?;
    let notes = files.get(NOTES_FILE).map(|path| read_text(path)).transpose()?;
    let is_finished = results.as_ref().is_none_or(|results| results.is_finished);
    let (mut has_results, position) = (results.is_some(), folders.len());
    folders.push(Folder { way, results, notes });
    for (name, folder) in below {
        // The journal of a run that has not finished is no folder of results.
        if !(name.starts_with('.') || name == "cells" && !is_finished) {
            has_results |= collect(root, &folder, folders)?;
        }
    }
    if !has_results || (folders[position].results.is_none() && folders[position].notes.is_none()) {
        folders.remove(position);
    }
    Ok(has_results)
}

impl Results {
    /// Nothing if the folder holds neither a manifest nor the journal of a run.
    fn read(path: &Path, way: &str, files: &BTreeMap<String, PathBuf>) -> Result<Option<Self>, Failure> {
        if let Some(manifest) = files.get(MANIFEST_FILE) {
            return Self::finished(Origin::read(manifest)?, path, way, files).map(Some);
        }
        let unfinished = read_unfinished(path).map_err(|error| match error {
            // Its hint speaks of another --out.
            StoreError::Unreadable { path, reason } => wrong(&path, &reason),
            other => Failure::Store(other),
        })?;
        let Some(unfinished) = unfinished else { return Ok(None) };
        let mut tables = Vec::new();
        if unfinished.n_cells > 0 {
            tables.push(Table::parse(&unfinished.rows, &path.join(ROWS_FILE), ROWS_FILE)?);
        }
        let cells = summary::counted(unfinished.n_cells, "cell", "cells");
        let warning = format!(
            "This run has not finished: there is no {MANIFEST_FILE} yet. It has {cells} so far; the same command goes on from there."
        );
        Ok(Some(Self {
            origin: Origin::unfinished(unfinished.fingerprint),
            is_finished: false,
            summary: Summary { headline: format!("not finished, {cells} so far"), blocks: Vec::new() },
            warnings: vec![warning],
            drawings: Vec::new(),
            tables,
            altered: Vec::new(),
            missing: Vec::new(),
        }))
    }

    fn finished(origin: Origin, path: &Path, way: &str, files: &BTreeMap<String, PathBuf>) -> Result<Self, Failure> {
        let (mut warnings, mut altered, mut missing) = (Vec::new(), Vec::new(), Vec::new());
        for listed in &origin.files {
            let name = &listed.path;
            match files.get(name) {
                Some(file) if FileEntry::new(name, &read(file)?) == *listed => {}
                Some(_) => {
                    warnings
                        .push(format!("{name} is not the file that {MANIFEST_FILE} lists: its digest is another one."));
                    altered.push(name.clone());
                }
                None if is_kind(name, "csv") => {
                    let message = format!("there is no `{name}`, expected the file that {MANIFEST_FILE} lists");
                    return Err(wrong(path, &message));
                }
                None => {
                    warnings.push(format!("{name} is listed in {MANIFEST_FILE}, but it is not there."));
                    missing.push(name.clone());
                }
            }
        }
        let own = [MANIFEST_FILE, NOTES_FILE, PAGE_FILE];
        for name in files.keys() {
            let is_listed = origin.files.iter().any(|listed| listed.path == *name);
            if !is_listed && !own.contains(&name.as_str()) {
                warnings.push(format!("{name} is not listed in {MANIFEST_FILE}: where it comes from is not known."));
                altered.push(name.clone());
            }
        }
        let of_kind = |suffix, first: &str| {
            let mut found: Vec<(&String, &PathBuf)> = files.iter().filter(|(name, _)| is_kind(name, suffix)).collect();
            found.sort_by_key(|(name, _)| *name != first);
            found
        };
        let tables = of_kind("csv", ROWS_FILE)
            .into_iter()
            .map(|(name, file)| Table::read(file, name))
            .collect::<Result<Vec<_>, _>>()?;
        let drawing = |(name, file): (&String, &PathBuf)| {
            let prefix = format!("{}-", page::anchor(&page::below(way, name)));
            Drawing::read(file, name, &prefix)
        };
        let drawings = of_kind("svg", "figure.svg").into_iter().map(drawing).collect::<Result<_, _>>()?;
        let summary = summary::of(path, &origin, &tables)?;
        Ok(Self { origin, is_finished: true, summary, warnings, drawings, tables, altered, missing })
    }
}

fn is_kind(name: &str, suffix: &str) -> bool {
    Path::new(name).extension().is_some_and(|found| found == suffix)
}
