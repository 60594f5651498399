//! A result folder: bound to one fingerprint, finished once its manifest is there.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::StoreError;
use super::atomic;
use super::fingerprint::Fingerprint;
use super::manifest::{FileEntry, MANIFEST_FILE, MANIFEST_SCHEMA, Manifest, RunFacts};

/// What a folder is when a run opens it.
#[derive(Debug)]
pub(crate) enum Opened<Unfinished> {
    /// The same run was finished there before: its files are whole and need not be computed again.
    UpToDate(Box<Manifest>),
    /// The folder is this run's to fill.
    Unfinished(Unfinished),
}

/// A folder that is being filled. While it lives, no other process can open the folder.
#[derive(Debug)]
pub(crate) struct ResultFolder {
    path: PathBuf,
    fingerprint: Fingerprint,
    _lock: Option<File>,
}

/// The name and the content of a file to publish.
pub(crate) type NamedFile<'a> = (&'a str, &'a [u8]);

/// The files as they are published.
pub(crate) fn named(files: &[(String, Vec<u8>)]) -> Vec<NamedFile<'_>> {
    files.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice())).collect()
}

impl ResultFolder {
    /// Opens or creates `path` for a run that will write files with these `names`.
    ///
    /// # Errors
    /// When the folder belongs to another configuration or another run is using it, when it holds a file of one of the
    /// names without a manifest, and when a finished folder was altered. Nothing is overwritten then.
    pub(crate) fn open(path: &Path, fingerprint: Fingerprint, names: &[&str]) -> Result<Opened<Self>, StoreError> {
        fs::create_dir_all(path).map_err(StoreError::io("create", path))?;
        let lock = lock(path)?;
        atomic::remove_leftovers(path).map_err(StoreError::io("clean", path))?;
        if let Some(manifest) = read_manifest(path)? {
            check_fingerprint(path, &Fingerprint::from_value(manifest.fingerprint.clone()), &fingerprint)?;
            check_files(path, &manifest)?;
            return Ok(Opened::UpToDate(Box::new(manifest)));
        }
        if let Some(name) = names.iter().find(|name| path.join(name).exists()) {
            return Err(StoreError::Unexplained { folder: path.to_owned(), file: (*name).to_owned() });
        }
        Ok(Opened::Unfinished(Self { path: path.to_owned(), fingerprint, _lock: lock }))
    }

    /// Where the folder is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the files, then the manifest that lists them: from then on the folder is finished.
    pub(crate) fn publish(&self, files: &[NamedFile<'_>], facts: RunFacts) -> Result<Manifest, StoreError> {
        for (name, bytes) in files {
            let path = self.path.join(name);
            atomic::write_file(&path, bytes).map_err(StoreError::io("write", &path))?;
        }
        let fingerprint = self.fingerprint.as_value().clone();
        let manifest = Manifest::new(facts, &self.path, fingerprint, entries(files), SystemTime::now());
        write_manifest(&self.path, &manifest)?;
        Ok(manifest)
    }
}

/// Puts figures that were drawn again into the finished folder `path`, and notes in its manifest who drew them; returns whether anything
/// changed.
///
/// # Errors
/// When the folder is not finished, or another run is using it.
pub(crate) fn replace_figures(path: &Path, files: &[NamedFile<'_>]) -> Result<bool, StoreError> {
    let _lock = lock(path)?;
    let manifest_path = path.join(MANIFEST_FILE);
    let missing = || StoreError::Unreadable { path: manifest_path.clone(), reason: "it is not there".to_owned() };
    let mut manifest = read_manifest(path)?.ok_or_else(missing)?;
    let figures = entries(files);
    let mut is_same = figures.iter().all(|figure| manifest.files.contains(figure));
    for (name, bytes) in files {
        is_same &= read_if_there(&path.join(name))?.as_deref() == Some(*bytes);
    }
    if is_same {
        return Ok(false);
    }
    for (name, bytes) in files {
        let path = path.join(name);
        atomic::write_file(&path, bytes).map_err(StoreError::io("write", &path))?;
    }
    manifest.redraw(figures, SystemTime::now());
    write_manifest(path, &manifest)?;
    Ok(true)
}

fn entries(files: &[NamedFile<'_>]) -> Vec<FileEntry> {
    files.iter().map(|(name, bytes)| FileEntry::new(name, bytes)).collect()
}

fn write_manifest(folder: &Path, manifest: &Manifest) -> Result<(), StoreError> {
    let mut text =
        serde_json::to_vec_pretty(manifest).map_err(|source| StoreError::Json { what: "the manifest", source })?;
    text.push(b'\n');
    let path = folder.join(MANIFEST_FILE);
    atomic::write_file(&path, &text).map_err(StoreError::io("write", &path))
}

/// The system releases the lock when the process ends, however it ends, so a killed run leaves nothing to clean up.
fn lock(path: &Path) -> Result<Option<File>, StoreError> {
    // Only Unix opens a folder as a file; elsewhere two runs at once are not detected.
    if !cfg!(unix) {
        return Ok(None);
    }
    let file = File::open(path).map_err(StoreError::io("open", path))?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Err(StoreError::Busy { folder: path.to_owned() }),
        // Some network file systems have no locks; that is no reason to refuse the work.
        Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => Ok(None),
        Err(TryLockError::Error(error)) => Err(StoreError::io("lock", path)(error)),
    }
}

/// Refuses when the folder at `path` was made by another run than the one with the fingerprint `here`.
pub(super) fn check_fingerprint(path: &Path, there: &Fingerprint, here: &Fingerprint) -> Result<(), StoreError> {
    match there.difference(here) {
        None => Ok(()),
        Some(found) => Err(StoreError::OtherConfiguration {
            folder: path.to_owned(),
            field: found.field,
            there: found.first,
            here: found.second,
        }),
    }
}

/// Reads a file that need not exist.
pub(super) fn read_if_there(path: &Path) -> Result<Option<Vec<u8>>, StoreError> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(StoreError::io("read", path)(error)),
    }
}

fn read_manifest(folder: &Path) -> Result<Option<Manifest>, StoreError> {
    let path = folder.join(MANIFEST_FILE);
    let Some(bytes) = read_if_there(&path)? else { return Ok(None) };
    let unreadable = |reason: String| StoreError::Unreadable { path: path.clone(), reason };
    let value: serde_json::Value = serde_json::from_slice(&bytes).map_err(|error| unreadable(error.to_string()))?;
    // Asked first, because another layout would fail with a less telling error.
    if value["schema"] != MANIFEST_SCHEMA {
        return Err(unreadable(format!("`schema` is {}, expected {MANIFEST_SCHEMA}", value["schema"])));
    }
    serde_json::from_value(value).map(Some).map_err(|error| unreadable(error.to_string()))
}

fn check_files(folder: &Path, manifest: &Manifest) -> Result<(), StoreError> {
    for listed in &manifest.files {
        let found = read_if_there(&folder.join(&listed.path))?;
        if found.is_none_or(|bytes| FileEntry::new(&listed.path, &bytes) != *listed) {
            return Err(StoreError::Altered { folder: folder.to_owned(), file: listed.path.clone() });
        }
    }
    Ok(())
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::manifest::{Profile, Program, ScenarioText};
    use super::*;
    use serde_json::json;

    pub(in crate::output) fn facts() -> RunFacts {
        RunFacts {
            command: vec!["handoff".to_owned(), "sweep".to_owned()],
            device: "simulated".to_owned(),
            seed: 7,
            scenario: ScenarioText { name: "default".to_owned(), text: "seed = 7\n".to_owned() },
            profiles: vec![Profile::new("h200.csv", b"device,model\n")],
        }
    }

    pub(in crate::output) fn fingerprint(prompt_tokens: u32) -> Fingerprint {
        Fingerprint::new("sweep", &json!({ "workload": { "prompt_tokens": prompt_tokens } })).unwrap()
    }

    fn open(folder: &Path, prompt_tokens: u32) -> Result<Opened<ResultFolder>, StoreError> {
        ResultFolder::open(folder, fingerprint(prompt_tokens), &["rows.csv"])
    }

    fn publish(folder: &Path, prompt_tokens: u32) -> Manifest {
        match open(folder, prompt_tokens).unwrap() {
            Opened::Unfinished(folder) => folder.publish(&[("rows.csv", b"a\n1\n")], facts()).unwrap(),
            Opened::UpToDate(_) => panic!("the folder is new"),
        }
    }

    #[test]
    fn a_finished_folder_is_up_to_date() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b");
        let written = publish(&path, 100);
        assert_eq!(written.files, [FileEntry::new("rows.csv", b"a\n1\n")]);
        assert_eq!(written.files[0].bytes, 4);
        match open(&path, 100).unwrap() {
            Opened::UpToDate(read) => assert_eq!(*read, written),
            Opened::Unfinished(_) => panic!("the folder is finished"),
        }
    }

    #[test]
    fn figures_drawn_again_are_noted_beside_the_rows_of_the_run() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        let written = publish(path, 100);
        assert!(replace_figures(path, &[("figure.svg", b"<svg/>")]).unwrap());
        match open(path, 100).unwrap() {
            Opened::UpToDate(read) => {
                assert_eq!(read.files, [written.files[0].clone(), FileEntry::new("figure.svg", b"<svg/>")]);
                let redrawn = read.redrawn.unwrap();
                assert_eq!((redrawn.program, redrawn.files), (Program::current(), vec!["figure.svg".to_owned()]));
            }
            Opened::Unfinished(_) => panic!("the folder is finished"),
        }
        assert!(!replace_figures(path, &[("figure.svg", b"<svg/>")]).unwrap(), "nothing changes");
        let unfinished = tempfile::tempdir().unwrap();
        assert!(replace_figures(unfinished.path(), &[("figure.svg", b"<svg/>")]).is_err());
        assert_eq!(fs::read_dir(unfinished.path()).unwrap().count(), 0, "nothing is written");
    }

    #[test]
    fn another_configuration_is_refused_and_nothing_is_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        publish(folder.path(), 100);
        let before = fs::read(folder.path().join(MANIFEST_FILE)).unwrap();
        let error = open(folder.path(), 200).unwrap_err();
        let text = error.to_string().replace(&folder.path().display().to_string(), "DIR");
        assert_eq!(
            text,
            "`DIR` holds the results of another run: `workload.prompt_tokens` is 100 there, but 200 was asked for\n\
             hint: choose another folder with --out, or remove `DIR`"
        );
        assert!(error.is_wrong_input());
        assert_eq!(fs::read(folder.path().join(MANIFEST_FILE)).unwrap(), before);
    }

    #[test]
    fn files_of_unknown_origin_are_not_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("notes.txt"), "kept").unwrap();
        assert!(matches!(open(folder.path(), 1), Ok(Opened::Unfinished(_))));
        fs::write(folder.path().join("rows.csv"), "kept").unwrap();
        let error = open(folder.path(), 1).unwrap_err();
        assert!(matches!(&error, StoreError::Unexplained { file, .. } if file == "rows.csv"), "{error}");
        assert_eq!(fs::read(folder.path().join("rows.csv")).unwrap(), b"kept");
    }

    #[test]
    fn an_altered_or_missing_file_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        publish(folder.path(), 1);
        let rows = folder.path().join("rows.csv");
        fs::write(&rows, "a\n2\n").unwrap();
        assert!(matches!(open(folder.path(), 1), Err(StoreError::Altered { .. })));
        fs::remove_file(&rows).unwrap();
        assert!(matches!(open(folder.path(), 1), Err(StoreError::Altered { .. })));
    }

    #[test]
    fn a_manifest_that_makes_no_sense_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let manifest = folder.path().join(MANIFEST_FILE);
        for (text, expected) in [
            ("{", "EOF while parsing"),
            (r#"{"schema": 9}"#, "`schema` is 9, expected 1"),
            (r#"{"schema": 1}"#, "missing field"),
        ] {
            fs::write(&manifest, text).unwrap();
            let error = open(folder.path(), 1).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn two_runs_cannot_share_a_folder() {
        let folder = tempfile::tempdir().unwrap();
        let first = open(folder.path(), 1).unwrap();
        assert!(matches!(open(folder.path(), 1), Err(StoreError::Busy { .. })));
        drop(first);
        assert!(matches!(open(folder.path(), 1), Ok(Opened::Unfinished(_))));
    }
}
