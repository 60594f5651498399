//! `plot`: the figure of a sweep again, from its rows.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use crate::cli::Plot;
use crate::failure::Failure;
use crate::figure::png;
use crate::output::atomic;
use crate::output::cells::from_csv;
use crate::output::journal::ROWS_FILE;
use crate::output::manifest::MANIFEST_FILE;
use crate::sweep::{Row, caption, figure};

/// Draws the figure that the arguments name.
pub(crate) fn run(arguments: &Plot) -> Result<(), Failure> {
    let rows_path = if arguments.from.is_dir() { arguments.from.join(ROWS_FILE) } else { arguments.from.clone() };
    let bytes = fs::read(&rows_path).map_err(|error| {
        Failure::Argument(format!("`{}`: {error}, expected the rows.csv of a sweep", rows_path.display()))
    })?;
    let rows: Vec<Row> = from_csv(&bytes).map_err(|error| {
        Failure::Argument(format!("`{}`: {error}, expected the columns of a sweep", rows_path.display()))
    })?;
    if rows.is_empty() {
        return Err(Failure::Argument(format!(
            "`{}` has no row, expected at least one cell of a sweep",
            rows_path.display()
        )));
    }
    let svg = figure(&rows, &provenance(&rows_path.with_file_name(MANIFEST_FILE), &rows))?;
    let image = png::rasterise(&svg)?;
    let out = &arguments.out;
    fs::create_dir_all(out).map_err(|error| Failure::Argument(format!("--out {}: {error}", out.display())))?;
    for (name, content) in [("figure.svg", svg.as_bytes()), ("figure.png", &image)] {
        atomic::write_file(&out.join(name), content)?;
    }
    eprintln!("wrote figure.svg and figure.png to `{}`", out.display());
    Ok(())
}

/// The caption that the run itself would have written, as far as the folder tells.
fn provenance(manifest: &PathBuf, rows: &[Row]) -> Vec<String> {
    let seed = rows.first().map_or(0, |row| row.seed);
    let known: Option<Value> = fs::read(manifest).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
    let text = |path: &str| known.as_ref().and_then(|manifest| manifest.pointer(path)).and_then(Value::as_str);
    caption(text("/scenario/name").unwrap_or("unknown"), seed, rows, text("/program/commit"))
}
