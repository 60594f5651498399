//! Writes a file so that a reader, and a run killed at any moment, sees either the old content or the whole new one.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// How the name of a half-written file ends. It never ends the name of a result.
const TEMPORARY_SUFFIX: &str = ".handoff-tmp";

/// Writes `bytes` to `path`: into a temporary file of the same folder, to the disk, then renamed over `path`. The
/// folder must exist.
pub(crate) fn write_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    write_file_with(path, |file| file.write_all(bytes))
}

/// As [`write_file`], with what `fill` writes: for content that is not held in memory.
pub(crate) fn write_file_with(path: &Path, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    Staged::new(path, fill)?.commit()
}

/// Removes the temporary files that killed runs left in `folder`. A missing folder holds none.
pub(crate) fn remove_leftovers(folder: &Path) -> io::Result<()> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    for entry in entries {
        let entry = entry?;
        let is_temporary = entry.file_name().to_str().is_some_and(|name| name.ends_with(TEMPORARY_SUFFIX));
        if is_temporary && entry.file_type()?.is_file() {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Brings the names of a folder (created, renamed and removed files) to the disk.
pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    // Only Unix opens a folder as a file; elsewhere a rename is as durable as the system makes it.
    if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
}

/// New content on the disk under a temporary name, not yet in place.
#[derive(Debug)]
struct Staged {
    temporary: PathBuf,
    target: PathBuf,
}

impl Staged {
    fn new(target: &Path, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<Self> {
        let staged = Self { temporary: temporary_path(target)?, target: target.to_owned() };
        let file = OpenOptions::new().write(true).create_new(true).open(&staged.temporary)?;
        let mut writer = BufWriter::new(file);
        fill(&mut writer)?;
        // Without this a power cut after the rename could leave an empty file under the final name.
        writer.into_inner()?.sync_all()?;
        Ok(staged)
    }

    fn commit(self) -> io::Result<()> {
        fs::rename(&self.temporary, &self.target)?;
        sync_folder(folder_of(&self.target))
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        // After a commit the temporary name is gone and this does nothing.
        let _ = fs::remove_file(&self.temporary);
    }
}

/// A name beside `target` that no other file of this or another live process has.
fn temporary_path(target: &Path) -> io::Result<PathBuf> {
    static N_FILES: AtomicU64 = AtomicU64::new(0);
    let name = target.file_name().ok_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidInput, format!("`{}` does not name a file", target.display()))
    })?;
    let mut temporary = OsString::from(".");
    temporary.push(name);
    let file_idx = N_FILES.fetch_add(1, Ordering::Relaxed);
    temporary.push(format!(".{}-{file_idx}{TEMPORARY_SUFFIX}", std::process::id()));
    Ok(folder_of(target).join(temporary))
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<_> =
            fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn replaces_a_file_and_leaves_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.csv");
        write_file(&path, b"old").unwrap();
        write_file(&path, b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(names(folder.path()), ["rows.csv"]);
    }

    #[test]
    fn a_crash_before_the_rename_keeps_the_old_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.csv");
        write_file(&path, b"old").unwrap();
        // A killed process runs no destructor.
        std::mem::forget(Staged::new(&path, |file| file.write_all(b"new")).unwrap());
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(names(folder.path()).len(), 2);

        remove_leftovers(folder.path()).unwrap();
        assert_eq!(names(folder.path()), ["rows.csv"]);
        write_file(&path, b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
    }

    #[test]
    fn an_error_before_the_rename_removes_the_temporary_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.csv");
        fs::create_dir_all(path.join("not empty")).unwrap();
        assert!(write_file(&path, b"new").is_err());
        assert_eq!(names(folder.path()), ["rows.csv"]);
    }

    #[test]
    fn leftovers_are_told_from_results_by_their_suffix_alone() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["rows.csv", ".hidden", "notes.tmp"] {
            fs::write(folder.path().join(name), "kept").unwrap();
        }
        remove_leftovers(folder.path()).unwrap();
        assert_eq!(names(folder.path()), [".hidden", "notes.tmp", "rows.csv"]);
        remove_leftovers(&folder.path().join("missing")).unwrap();
    }
}
