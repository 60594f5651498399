//! `report`: one self-contained HTML page for a folder of results.
//!
//! The page is made from the files of the folder and nothing else, so the same folder gives the same bytes. Everything that comes from a file is
//! escaped; figures are taken apart and written again from a list of harmless elements (`drawing`); the page's policy forbids every
//! script but its own and every request.

mod columns;
mod drawing;
mod folder;
mod notes;
mod origin;
mod page;
mod summary;
mod table;

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::cli::Report;
use crate::failure::Failure;
use crate::message::say;
use crate::output::StoreError;
use crate::output::atomic;
use crate::output::manifest::MANIFEST_FILE;

use folder::Folder;

/// The page's name without `--out`.
const PAGE_FILE: &str = "report.html";

/// How every page of this command begins.
const BEGINNING: &str = "<!DOCTYPE html><!-- written by handoff report -->";

/// Writes the page of the folder that the arguments name.
pub(crate) fn run(arguments: &Report) -> Result<(), Failure> {
    let from = &arguments.from;
    let out = arguments.out.clone().unwrap_or_else(|| from.join(PAGE_FILE));
    if !from.is_dir() {
        let what = if from.exists() { "is a file" } else { "no such folder" };
        return Err(wrong(from, &format!("{what}, expected a folder of results")));
    }
    check_out(&out)?;
    let folders = folder::read_all(from)?;
    if folders.iter().all(|folder| folder.results.is_none()) {
        let message = format!("no {MANIFEST_FILE} in it or below it, expected a folder that a command has written");
        return Err(wrong(from, &message));
    }
    let html = page::html(&title(from, &folders), &folders);
    write(&out, format!("{BEGINNING}\n{html}\n").as_bytes())?;
    say(format_args!("wrote `{}`", out.display()));
    Ok(())
}

/// What the page is called: what was run, or the name of the folder of many runs.
fn title(from: &Path, folders: &[Folder]) -> String {
    let name = fs::canonicalize(from).ok().and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
    let name = name.unwrap_or_else(|| "results".to_owned());
    match folders {
        [Folder { results: Some(results), .. }] => match results.origin.what() {
            what if what == name || what == "results" => name,
            what => format!("{what}, {name}"),
        },
        _ => name,
    }
}

/// Only a page of this command is ever overwritten.
fn check_out(out: &Path) -> Result<(), Failure> {
    let refused = |what: &str| {
        Err(Failure::Argument(format!("--out {}: {what}, expected a file to write the page to", out.display())))
    };
    if out.is_dir() {
        return refused("is a folder");
    }
    if let Some(path) = out.ancestors().skip(1).find(|path| path.exists()).filter(|path| !path.is_dir()) {
        return refused(&format!("`{}` is a file", path.display()));
    }
    if !out.exists() {
        return Ok(());
    }
    let mut beginning = Vec::new();
    let read = fs::File::open(out).and_then(|file| file.take(BEGINNING.len() as u64).read_to_end(&mut beginning));
    match read {
        Ok(_) if beginning == BEGINNING.as_bytes() => Ok(()),
        Ok(_) => refused("is there and no page of this command"),
        Err(error) => refused(&error.to_string()),
    }
}

fn write(out: &Path, html: &[u8]) -> Result<(), Failure> {
    let io = |action| move |path: &Path, source| StoreError::Io { action, path: path.to_owned(), source };
    if let Some(parent) = out.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        fs::create_dir_all(parent).map_err(|source| io("create")(parent, source))?;
    }
    atomic::write_file(out, html).map_err(|source| io("write")(out, source))?;
    Ok(())
}

/// A file or folder that is not as it should be.
fn wrong(path: &Path, what: &str) -> Failure {
    Failure::Argument(format!("`{}`: {what}", path.display()))
}

/// Reads a file of the folder.
fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    fs::read(path).map_err(|error| wrong(path, &error.to_string()))
}

/// Reads a text of the folder.
fn read_text(path: &Path) -> Result<String, Failure> {
    String::from_utf8(read(path)?).map_err(|error| {
        let line =
            error.as_bytes()[..error.utf8_error().valid_up_to()].iter().filter(|&&byte| byte == b'\n').count() + 1;
        Failure::Argument(format!("{}:{line}: no UTF-8 text", path.display()))
    })
}

/// `PathBuf` as the page names it: with slashes on every system.
fn slashed(path: &Path) -> String {
    path.iter().map(|part| part.to_string_lossy()).collect::<Vec<_>>().join("/")
}

/// The files and folders in `folder`, by name.
fn entries(folder: &Path) -> Result<Vec<(PathBuf, bool)>, Failure> {
    let failed = |error: std::io::Error| wrong(folder, &error.to_string());
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        // A link is not followed: it could lead out of the folder, or in a circle.
        let kind = entry.file_type().map_err(failed)?;
        if kind.is_dir() || kind.is_file() {
            found.push((entry.path(), kind.is_dir()));
        }
    }
    found.sort();
    Ok(found)
}
