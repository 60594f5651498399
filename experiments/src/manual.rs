//! `completions` and `man`: what a shell and a reader of manual pages learn from the arguments.

use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

use clap::{Command, CommandFactory as _};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};

use crate::cli::help::{self, Line};
use crate::cli::{self, Cli};
use crate::failure::Failure;
use crate::message::say;
use crate::output::StoreError;
use crate::output::atomic;

/// Prints the completions of a shell.
pub(crate) fn completions(arguments: &cli::Completions) -> Result<(), Failure> {
    // Into memory first: a closed pipe is no reason to panic.
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Cli::command(), env!("CARGO_PKG_NAME"), &mut script);
    io::stdout().lock().write_all(&script)?;
    Ok(())
}

/// Writes a page for the program and one for each command.
pub(crate) fn pages(arguments: &cli::Man) -> Result<(), Failure> {
    let out = &arguments.out;
    cli::check_out(out)?;
    check_pages(out)?;
    // `handoff help` has nothing to say that the pages do not.
    let mut program = Cli::command().disable_help_subcommand(true);
    program.build();
    let commands = std::iter::once(&program).chain(program.get_subcommands());
    let pages = commands.map(page).collect::<io::Result<Vec<_>>>()?;
    fs::create_dir_all(out).map_err(|error| Failure::Argument(format!("--out {}: {error}", out.display())))?;
    for (name, text) in &pages {
        let path = out.join(name);
        atomic::write_file(&path, text).map_err(|source| StoreError::Io { action: "write", path, source })?;
    }
    say(format_args!("wrote {} pages to `{}`", pages.len(), out.display()));
    Ok(())
}

/// Refuses a folder that is for something else than manual pages of section 1.
fn check_pages(out: &Path) -> Result<(), Failure> {
    let Ok(entries) = fs::read_dir(out) else { return Ok(()) };
    for entry in entries {
        let name = entry?.file_name();
        let name = name.to_string_lossy();
        if !(name.ends_with(".1") || name.ends_with(".1.gz")) {
            return Err(Failure::Argument(format!(
                "--out {}: the folder holds `{name}`, expected manual pages of section 1 or nothing",
                out.display()
            )));
        }
    }
    Ok(())
}

/// The name and the text of a page.
fn page(command: &Command) -> io::Result<(String, Vec<u8>)> {
    let version = env!("CARGO_PKG_VERSION");
    let page = Man::new(command.clone()).source(format!("handoff {version}")).manual("Handoff");
    let mut text = Vec::new();
    page.render_title(&mut text)?;
    page.render_name_section(&mut text)?;
    page.render_synopsis_section(&mut text)?;
    page.render_description_section(&mut text)?;
    page.render_options_section(&mut text)?;
    if command.has_subcommands() {
        page.render_subcommands_section(&mut text)?;
    }
    below(command).to_writer(&mut text)?;
    Ok((page.get_filename(), text))
}

/// What stands below the options. Calls keep their lines, and everything else is filled.
fn below(command: &Command) -> Roff {
    let mut roff = Roff::new();
    let lines = help::lines(command);
    let is_heading = |line: &Line| matches!(line, Line::Text(text) if text == "Examples:");
    if lines.first().is_some_and(|line| !is_heading(line)) {
        roff.control("SH", ["NOTES"]);
    }
    for line in &lines {
        match line {
            line if is_heading(line) => {
                roff.control("SH", ["EXAMPLES"]);
            }
            Line::Text(text) if text.is_empty() => {}
            Line::Text(text) => {
                roff.control("PP", []);
                roff.text([roman(text.as_str())]);
            }
            Line::Call(call) => {
                roff.control("RS", ["4"]);
                roff.control("nf", []);
                roff.text([roman(call.as_str())]);
                roff.control("fi", []);
                roff.control("RE", []);
            }
        }
    }
    roff
}
