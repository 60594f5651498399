//! A folder to run the program in, and what comes out of a run.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use sha2::{Digest, Sha256};
use tempfile::TempDir;

/// Two models with constant steps of 6 and 10 ms that swap a request every two tokens; runs take a millisecond.
pub(crate) const PAIR: &str = r#"seed = 1

[workload]
concurrency = 4
requests = 5
prompt_tokens = 10
output_tokens = 24
replications_min = 2
replications_max = 3

[[model]]
name = "small"
cost = { constant_ms = 6.0 }
threshold = 1
device = 0

[[model]]
name = "large"
cost = { constant_ms = 10.0 }
threshold = 1
device = 1

[policy]
kind = "every"
small = 2
large = 2

[scheduler]
sharing = "overlapped"
"#;

/// Overrides that make any scenario small.
pub(crate) const TINY: [&str; 8] = [
    "--set",
    "workload.requests=5",
    "--set",
    "workload.output_tokens=32",
    "--set",
    "workload.replications_min=2",
    "--set",
    "workload.replications_max=3",
];

/// A temporary folder in which the program runs.
pub(crate) struct Workbench(TempDir);

/// How a run ended and what it printed.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) status: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Workbench {
    /// A folder with `pair.toml` in it.
    pub(crate) fn new() -> Self {
        let bench = Self(tempfile::tempdir().expect("a temporary folder"));
        bench.write("pair.toml", PAIR);
        bench
    }

    pub(crate) fn path(&self, name: &str) -> std::path::PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("a file lies in a folder")).expect("a writable folder");
        fs::write(path, content).expect("a writable file");
    }

    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    pub(crate) fn text(&self, name: &str) -> String {
        String::from_utf8(self.read(name)).expect("a text")
    }

    pub(crate) fn json(&self, name: &str) -> Value {
        serde_json::from_slice(&self.read(name)).expect("a JSON document")
    }

    /// All files by their paths, folders with a slash and no content.
    pub(crate) fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let mut files = BTreeMap::new();
        collect(self.0.path(), "", &mut files);
        files
    }

    /// The program, ready to run here.
    pub(crate) fn command<A: AsRef<OsStr>>(&self, arguments: &[A]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_handoff"));
        command.args(arguments).current_dir(self.0.path()).stdin(Stdio::null());
        // Help is folded to the width that it names.
        command.env_remove("COLUMNS");
        command
    }

    /// Runs the program.
    pub(crate) fn run<A: AsRef<OsStr>>(&self, arguments: &[A]) -> Run {
        let output = self.command(arguments).output().expect("the program starts");
        Run {
            status: output.status.code(),
            stdout: String::from_utf8(output.stdout).expect("texts are UTF-8"),
            stderr: String::from_utf8(output.stderr).expect("texts are UTF-8"),
        }
    }

    /// Runs the program with `words`, separated by blanks, and then `more`.
    pub(crate) fn run_words(&self, words: &str, more: &[&str]) -> Run {
        let arguments: Vec<&str> = words.split_whitespace().chain(more.iter().copied()).collect();
        self.run(&arguments)
    }
}

impl Run {
    /// What was printed by a run that was done.
    #[track_caller]
    pub(crate) fn done(self) -> String {
        assert_eq!(self.status, Some(0), "{}", self.stderr);
        self.stdout
    }

    /// The document that was printed by a run that was done.
    #[track_caller]
    pub(crate) fn document(self) -> Value {
        serde_json::from_str(&self.done()).expect("one JSON document")
    }
}

/// The SHA-256 digest as the manifest writes it.
pub(crate) fn sha256_hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The number called `field`.
#[track_caller]
pub(crate) fn number(value: &Value, field: &str) -> f64 {
    value[field].as_f64().unwrap_or_else(|| panic!("`{field}` is {}, expected a number", value[field]))
}

/// The manifest in `folder` after checking that it lists all other files, with their digests.
#[track_caller]
pub(crate) fn checked_manifest(bench: &Workbench, folder: &str) -> Value {
    let manifest = bench.json(&format!("{folder}/manifest.json"));
    let listed: Vec<&str> = manifest["files"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|file| file["path"].as_str().expect("a path"))
        .collect();
    let prefix = format!("{folder}/");
    let mut found: Vec<String> =
        bench.files().keys().filter_map(|path| path.strip_prefix(&prefix).map(str::to_owned)).collect();
    found.retain(|name| !name.is_empty() && name != "manifest.json");
    let mut sorted = listed.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, found, "the manifest lists every file");
    for file in manifest["files"].as_array().expect("a list") {
        let bytes = bench.read(&format!("{folder}/{}", file["path"].as_str().expect("a path")));
        assert_eq!(file["sha256"], sha256_hex(&bytes));
        assert_eq!(file["bytes"], bytes.len());
    }
    manifest
}

fn collect(folder: &Path, prefix: &str, files: &mut BTreeMap<String, Vec<u8>>) {
    for entry in fs::read_dir(folder).expect("a readable folder") {
        let entry = entry.expect("a readable folder");
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        if entry.file_type().expect("a known type").is_dir() {
            let name = format!("{name}/");
            collect(&entry.path(), &name, files);
            files.insert(name, Vec::new());
        } else {
            files.insert(name, fs::read(entry.path()).expect("a readable file"));
        }
    }
}
