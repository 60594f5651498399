//! `simulate`: one scenario, or a grid of them, and everything that a run reports.

mod document;
mod tables;

use std::path::Path;

use handoff_sim::engine::{EngineConfig, Window};
use handoff_sim::rng::Stream;
use handoff_sim::scenario::{Scenario, ScenarioError, cells};
use rayon::prelude::*;

use crate::cli::{Format, Simulate};
use crate::failure::Failure;
use crate::input::{Input, check_size};
use crate::message::say;
use crate::output::cells::to_csv;
use crate::output::document::{write_csv, write_json};
use crate::output::fingerprint::Fingerprint;
use crate::output::folder::{Opened, ResultFolder};
use crate::output::manifest::ScenarioText;
use crate::sweep::{Configuration, facts, run_scenario};
use crate::trace::{self, Provenance};

use document::{CellDocument, GridDocument};

pub(crate) use document::{Document, Row};
pub(crate) use tables::write_grid;

/// Raised whenever a field of the JSON document changes its meaning or goes.
const SCHEMA: u32 = 1;

/// Runs what the arguments describe.
pub(crate) fn run(arguments: &Simulate) -> Result<(), Failure> {
    let common = &arguments.common;
    common.check_out()?;
    check_trace(arguments)?;
    let input = Input::read(common)?;
    let scenario = input.scenario()?;
    let grid = cells(&input.axes)?;
    check_size(grid.len())?;
    let build = |sets: &Vec<String>| {
        let variant = sets.iter().fold(scenario.variant(), |variant, set| variant.set(set));
        let name = |error: ScenarioError| match sets.is_empty() {
            true => Failure::Scenario(error),
            false => Failure::Cell { cell: sets.join(", "), error },
        };
        input.build(variant).and_then(Scenario::simulable).map_err(name)
    };
    // All cells are validated before any runs.
    let scenarios = grid.iter().map(build).collect::<Result<Vec<_>, _>>()?;
    let pool = common.pool()?;
    let folder = match &common.out {
        None => None,
        Some(path) => {
            let configuration = Configuration::of(&input, &grid);
            let names = ["rows.csv", "report.json"];
            match ResultFolder::open(path, Fingerprint::new("simulate", &configuration)?, &names)? {
                Opened::Unfinished(folder) => Some(folder),
                Opened::UpToDate(_) => {
                    say(format_args!(
                        "`{}` already holds this run; it is computed again for the terminal only",
                        path.display()
                    ));
                    None
                }
            }
        }
    };
    let documents = pool.install(|| {
        let cell = |(scenario, sets): (_, &Vec<String>)| {
            let cell = if sets.is_empty() { String::new() } else { format!("cell {}: ", sets.join(", ")) };
            // A report is hundreds of times larger than what is printed of it.
            run_scenario(scenario, &cell).map(|report| Document::of(scenario, &report))
        };
        scenarios.par_iter().zip(&grid).map(cell).collect::<Result<Vec<_>, _>>()
    })?;
    let rows: Vec<Row> = documents.iter().zip(&grid).map(|(document, sets)| Row::of(document, sets)).collect();
    let is_grid = !input.axes.is_empty();
    let cells = || documents.iter().zip(&grid).map(|(document, sets)| CellDocument::of(document, sets)).collect();
    if let Some(folder) = folder {
        let mut json = Vec::new();
        if is_grid {
            write_json(&mut json, SCHEMA, &GridDocument { cells: cells() })?;
        } else {
            write_json(&mut json, SCHEMA, &documents[0])?;
        }
        let csv = to_csv(&rows).map_err(std::io::Error::from)?;
        folder.publish(&[("rows.csv", &csv), ("report.json", &json)], facts(&input, scenario.seed(), "simulated"))?;
        say(format_args!("wrote rows.csv, report.json and manifest.json to `{}`", folder.path().display()));
    }
    if let Some(path) = &arguments.trace {
        write_trace(path, &input, &scenarios[0], documents[0].warmup_requests)?;
    }
    let mut out = std::io::stdout().lock();
    match common.format {
        Format::Json if is_grid => write_json(&mut out, SCHEMA, &GridDocument { cells: cells() })?,
        Format::Json => write_json(&mut out, SCHEMA, &documents[0])?,
        Format::Csv => write_csv(&mut out, &rows)?,
        Format::Table if is_grid => tables::write_grid(&mut out, &rows)?,
        Format::Table => tables::write_report(&mut out, &documents[0])?,
    }
    Ok(())
}

/// Refuses a trace of many cells, and one that cannot become a file.
fn check_trace(arguments: &Simulate) -> Result<(), Failure> {
    let Some(path) = &arguments.trace else { return Ok(()) };
    if let Some(grid) = arguments.common.grids.first() {
        let path = path.display();
        return Err(Failure::Argument(format!(
            "--trace {path}: a trace shows one cell, but --grid {grid} makes many; expected --trace without --grid"
        )));
    }
    trace::check_path(path)
}

/// Runs the first replication again and writes its timeline.
fn write_trace(path: &Path, input: &Input, scenario: &Scenario, warmup_requests: u64) -> Result<(), Failure> {
    let config = EngineConfig::from(scenario);
    let run_seed = Stream::replication_seed(scenario.seed(), 0);
    let window = Window::Requests { warmup_requests, requests: u64::from(config.workload.requests()) };
    let (metrics, trace) = trace::simulated(&config, run_seed, window)
        .map_err(|error| Failure::Run { cell: "the traced replication: ".to_owned(), error })?;
    let ScenarioText { name, text } = input.scenario_text();
    let provenance = Provenance {
        scenario: name,
        scenario_text: text,
        seed: scenario.seed(),
        run_seed,
        device: "simulated".to_owned(),
        window_ns: (metrics.window_start_ns, metrics.window_end_ns),
    };
    trace::write_file(path, trace, &provenance)
}
