//! `plot`: the figure of a sweep again, from its rows.

use std::fs;
use std::path::Path;

use crate::cli::{self, Plot};
use crate::failure::Failure;
use crate::figure::png;
use crate::message::say;
use crate::output::StoreError;
use crate::output::atomic;
use crate::output::cells::from_csv;
use crate::output::journal::ROWS_FILE;
use crate::output::manifest::{MANIFEST_FILE, Manifest};
use crate::sweep::{Row, caption, figure};

/// Draws the figure that the arguments name.
pub(crate) fn run(arguments: &Plot) -> Result<(), Failure> {
    check_out(&arguments.out)?;
    let rows_path = if arguments.from.is_dir() { arguments.from.join(ROWS_FILE) } else { arguments.from.clone() };
    let bytes = fs::read(&rows_path).map_err(|error| {
        Failure::Argument(format!("`{}`: {error}, expected the rows.csv of a sweep", rows_path.display()))
    })?;
    let rows: Vec<Row> = from_csv(&bytes).map_err(|error| {
        Failure::Argument(format!("{}{}, expected rows of a sweep", rows_path.display(), place(&bytes, &error)))
    })?;
    if rows.is_empty() {
        return Err(Failure::Argument(format!(
            "`{}` has no row, expected at least one cell of a sweep",
            rows_path.display()
        )));
    }
    let svg = figure(&rows, &provenance(&rows_path.with_file_name(MANIFEST_FILE), &rows))
        .map_err(|error| Failure::Argument(format!("`{}`: {error}", rows_path.display())))?;
    let image = png::rasterise(&svg)?;
    let out = &arguments.out;
    fs::create_dir_all(out).map_err(|error| Failure::Argument(format!("--out {}: {error}", out.display())))?;
    for (name, content) in [("figure.svg", svg.as_bytes()), ("figure.png", &image)] {
        let path = out.join(name);
        atomic::write_file(&path, content).map_err(|source| StoreError::Io { action: "write", path, source })?;
    }
    say(format_args!("wrote figure.svg and figure.png to `{}`", out.display()));
    Ok(())
}

/// Line, column and what is wrong there.
fn place(bytes: &[u8], error: &csv::Error) -> String {
    let csv::ErrorKind::Deserialize { pos: Some(position), err: error } = error.kind() else {
        return format!(": {error}");
    };
    let mut reader = csv::Reader::from_reader(bytes);
    let cell = error.field().and_then(|field| {
        let idx = usize::try_from(field).ok()?;
        let column = reader.headers().ok()?.get(idx)?.to_owned();
        let row = usize::try_from(position.record()).ok()?.checked_sub(1)?;
        let value = reader.records().nth(row)?.ok()?.get(idx)?.to_owned();
        Some(format!("`{column}` is \"{value}\": "))
    });
    format!(":{}: {}{}", position.line(), cell.unwrap_or_default(), error.kind())
}

/// Refuses to write into a folder of results, whose manifest says what its figure is.
fn check_out(out: &Path) -> Result<(), Failure> {
    cli::check_out(out)?;
    if !out.join(MANIFEST_FILE).exists() {
        return Ok(());
    }
    let message = format!("--out {}: the folder holds the results of a run, expected another one", out.display());
    Err(Failure::Argument(message))
}

/// The caption that the run itself would have written, as far as the folder tells.
fn provenance(manifest: &Path, rows: &[Row]) -> Vec<String> {
    let known: Option<Manifest> = fs::read(manifest).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
    let seed = known.as_ref().map(|manifest| manifest.seed).or(rows.first().map(|row| row.seed));
    let scenario = known.as_ref().map_or("unknown", |manifest| &manifest.scenario.name);
    caption(scenario, seed.unwrap_or(0), rows, known.as_ref().map(|manifest| &manifest.program))
}
