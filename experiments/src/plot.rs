//! `plot`: the figures of any command again, from its CSV.

mod kinds;
mod source;

use std::fs;
use std::path::Path;

use crate::cli::{self, Plot};
use crate::failure::Failure;
use crate::message::say;
use crate::output::StoreError;
use crate::output::atomic;
use crate::output::folder::{named, replace_figures};
use crate::output::manifest::MANIFEST_FILE;

use source::Source;

/// Draws the figures that the arguments name.
pub(crate) fn run(arguments: &Plot) -> Result<(), Failure> {
    let out = &arguments.out;
    if !arguments.in_place {
        check_out(out)?;
    }
    let source = Source::open(&arguments.from)?;
    let mut files = Vec::new();
    for drawing in kinds::draw(&source)? {
        files.extend(drawing.files()?);
    }
    let names: Vec<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
    let names = listed(&names);
    if arguments.in_place {
        let folder = source.finished_folder()?;
        if replace_figures(folder, &named(&files))? {
            say(format_args!("drew {names} in `{}` again and noted it in its {MANIFEST_FILE}", folder.display()));
        } else {
            say(format_args!("{names} in `{}` are as this build draws them; nothing was written", folder.display()));
        }
        return Ok(());
    }
    fs::create_dir_all(out).map_err(|error| Failure::Argument(format!("--out {}: {error}", out.display())))?;
    for (name, content) in &files {
        let path = out.join(name);
        atomic::write_file(&path, content).map_err(|source| StoreError::Io { action: "write", path, source })?;
    }
    say(format_args!("wrote {names} to `{}`", out.display()));
    Ok(())
}

/// `a`, `a and b`, `a, b and c`.
fn listed(names: &[&str]) -> String {
    match names {
        [] => "nothing".to_owned(),
        [name] => (*name).to_owned(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// Refuses to write into a folder of results, whose manifest says what its figures are.
fn check_out(out: &Path) -> Result<(), Failure> {
    cli::check_out(out)?;
    if !out.join(MANIFEST_FILE).exists() {
        return Ok(());
    }
    let message = format!(
        "--out {}: the folder holds the results of a run, expected another one; --in-place draws its own figures again",
        out.display()
    );
    Err(Failure::Argument(message))
}
