//! What leaves the program: tables and documents on standard output, result folders on the disk.
//!
//! A result folder holds the files of one run and a `manifest.json` that says where they come from:
//!
//! - every file is written whole or not at all (`atomic`), the manifest last: a folder with a manifest is finished;
//! - a sweep is journaled cell by cell (`journal`), so that a killed one goes on where it stopped and ends in the same
//!   bytes;
//! - a folder is bound to one configuration (`fingerprint`): another one is refused and nothing is overwritten, the
//!   same one is up to date and is not computed again.

pub(crate) mod atomic;
pub(crate) mod cells;
pub(crate) mod document;
pub(crate) mod fingerprint;
pub(crate) mod folder;
pub(crate) mod journal;
pub(crate) mod manifest;
pub(crate) mod origin;
pub(crate) mod table;

use std::io;
use std::path::{Path, PathBuf};

/// Why a result folder could not be opened or written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StoreError {
    /// A file operation failed.
    #[error("cannot {action} `{}`: {source}", path.display())]
    Io {
        /// What was tried: `write`, `read`, ...
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The folder belongs to a run of another configuration.
    #[error(
        "`{}` holds the results of another run: `{field}` is {there} there, but {here} was asked for\n\
         hint: choose another folder with --out, or remove `{}`",
        folder.display(), folder.display()
    )]
    OtherConfiguration {
        /// The folder.
        folder: PathBuf,
        /// The first field that differs, with dots between the levels.
        field: String,
        /// Its value in the folder, as JSON; `absent` if it has none.
        there: String,
        /// Its value in this run.
        here: String,
    },
    /// A file would be overwritten though nothing says that this program wrote it.
    #[error(
        "`{}` already holds `{file}`, but no manifest.json says where it comes from\n\
         hint: choose another folder with --out, or remove the file",
        folder.display()
    )]
    Unexplained {
        /// The folder.
        folder: PathBuf,
        /// The name of the file in it.
        file: String,
    },
    /// A finished folder lacks a file that its manifest lists, or holds another content.
    #[error(
        "`{}` is finished, but its `{file}` is not the one that manifest.json lists\n\
         hint: restore the file, or remove `{}` to compute it again",
        folder.display(), folder.display()
    )]
    Altered {
        /// The folder.
        folder: PathBuf,
        /// The name of the file in it.
        file: String,
    },
    /// Another process is writing into the folder.
    #[error("another run is writing into `{}`\nhint: wait for it, or choose another folder with --out", folder.display())]
    Busy {
        /// The folder.
        folder: PathBuf,
    },
    /// A file that describes the folder makes no sense.
    #[error("cannot understand `{}`: {reason}\nhint: choose another folder with --out, or remove this one", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// Results were asked for before every cell was finished.
    #[error("cell `{cell}` is not finished")]
    MissingCell {
        /// The key of the cell.
        cell: String,
    },
    /// A row could not be turned into text, or text into a row.
    #[error("row of `{place}`: {source}")]
    Row {
        /// The cell or the file.
        place: String,
        /// What the encoding said.
        source: csv::Error,
    },
    /// A configuration or a manifest could not be turned into JSON.
    #[error("cannot write {what} as JSON: {source}")]
    Json {
        /// What was being written.
        what: &'static str,
        /// What the encoding said.
        source: serde_json::Error,
    },
}

impl StoreError {
    /// Whether the user has to change the call or the folder (exit status 2), as opposed to a run that failed (1).
    pub(crate) fn is_wrong_input(&self) -> bool {
        match self {
            Self::OtherConfiguration { .. }
            | Self::Unexplained { .. }
            | Self::Altered { .. }
            | Self::Busy { .. }
            | Self::Unreadable { .. } => true,
            Self::Io { .. } | Self::MissingCell { .. } | Self::Row { .. } | Self::Json { .. } => false,
        }
    }

    fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { action, path, source }
    }
}
