//! Records what was built, for the manifest of every run: the commit, whether the sources differ from it, the compiler
//! and the target. Each value is `unknown` where it cannot be had, for example in a source archive without git.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What the binary is made of, relative to the workspace: a change elsewhere leaves the program the same.
const SOURCES: [&str; 6] = ["Cargo.toml", "Cargo.lock", "sim", "backend", "experiments", ".cargo"];

fn main() {
    let package = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it for every build script"));
    let workspace = package.parent().unwrap_or(&package).to_path_buf();

    // Every source is watched, not the commit alone: an edit turns a clean build into a changed one.
    for source in SOURCES.iter().map(|name| workspace.join(name)).filter(|path| path.exists()) {
        watch(&source);
    }
    let (commit, state) = match repository(&workspace) {
        Some(git_folder) => {
            watch_head(&workspace, &git_folder);
            (head(&workspace), state(&workspace))
        }
        None => (None, None),
    };
    set("HANDOFF_COMMIT", commit);
    set("HANDOFF_SOURCES", state);
    set("HANDOFF_RUSTC", env::var_os("RUSTC").and_then(|rustc| output(Command::new(rustc).arg("--version"))));
    set("HANDOFF_TARGET", env::var("TARGET").ok());
}

fn set(name: &str, value: Option<String>) {
    println!("cargo::rustc-env={name}={}", value.as_deref().unwrap_or("unknown"));
}

fn watch(path: &Path) {
    println!("cargo::rerun-if-changed={}", path.display());
}

/// The git folder of the workspace itself. An archive unpacked inside some other repository must not take that
/// repository's commit for its own.
fn repository(workspace: &Path) -> Option<PathBuf> {
    let top = git(workspace, &["rev-parse", "--show-toplevel"])?;
    let own = Path::new(&top).canonicalize().ok()? == workspace.canonicalize().ok()?;
    let git_folder = git(workspace, &["rev-parse", "--absolute-git-dir"])?;
    own.then(|| PathBuf::from(git_folder))
}

/// Reruns when HEAD moves: by a checkout, by a commit on its branch, or by a packing of references.
fn watch_head(workspace: &Path, git_folder: &Path) {
    let branch = git(workspace, &["symbolic-ref", "--quiet", "HEAD"]);
    let reference = branch.and_then(|name| git(workspace, &["rev-parse", "--git-path", &name]));
    let packed = git(workspace, &["rev-parse", "--git-path", "packed-refs"]);
    let paths = [Some(git_folder.join("HEAD")), reference.map(PathBuf::from), packed.map(PathBuf::from)];
    for path in paths.into_iter().flatten().map(|path| workspace.join(path)) {
        // Cargo takes a missing path for an eternal change. A branch without commits, or one that is only packed, has
        // no file yet: the folder where the next commit will put it changes then.
        if let Some(existing) = path.ancestors().find(|path| path.exists()).filter(|path| *path != git_folder) {
            watch(existing);
        }
    }
}

fn head(workspace: &Path) -> Option<String> {
    git(workspace, &["rev-parse", "--verify", "HEAD"])
}

/// `clean`, or `changed` when a source differs from the commit or is not part of it.
fn state(workspace: &Path) -> Option<String> {
    head(workspace)?;
    // Without optional locks: a build must not write into the repository.
    let mut arguments = vec!["--no-optional-locks", "status", "--porcelain", "--"];
    arguments.extend(SOURCES.iter().filter(|name| workspace.join(name).exists()));
    let changes = git(workspace, &arguments)?;
    Some(if changes.is_empty() { "clean" } else { "changed" }.to_owned())
}

fn git(workspace: &Path, arguments: &[&str]) -> Option<String> {
    output(Command::new("git").arg("-C").arg(workspace).args(arguments))
}

fn output(command: &mut Command) -> Option<String> {
    let finished = command.output().ok()?;
    let text = String::from_utf8(finished.stdout).ok()?;
    finished.status.success().then(|| text.trim().to_owned())
}
