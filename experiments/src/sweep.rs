//! `sweep`: throughput against handoff frequency, beside the large model alone.
//!
//! A sweep is a grid of cells: placements x concurrencies x N x whatever `--grid` names. All cells are validated before anything runs; each cell
//! is computed on its own thread and kept in the journal of the result folder as soon as it is finished. Every cell sees the same random
//! streams (common random numbers), so a cell's row depends on nothing but its scenario.

mod axes;
mod baseline;
mod break_even;
mod cell;
mod figures;
mod report;
mod row;

use std::path::{Path, PathBuf};

use indicatif::{ProgressBar, ProgressStyle};
use rayon::ThreadPool;
use rayon::prelude::*;
use serde::Serialize;

use crate::cli::{Format, Sweep};
use crate::failure::Failure;
use crate::input::{Input, ScenarioParts};
use crate::interrupt;
use crate::message::say;
use crate::output::fingerprint::Fingerprint;
use crate::output::folder::{Opened, named};
use crate::output::journal::{Journal, read_rows};
use crate::output::manifest::{Profile, Program, RunFacts};
use crate::output::origin::Origin;
use crate::output::{cells, document};

pub(crate) use cell::run as run_scenario;
pub(crate) use figures::figure;
pub(crate) use report::break_even_words;
pub(crate) use row::Row;

use axes::Axes;
pub(crate) use axes::placements;
use baseline::Baselines;
pub(crate) use break_even::{BreakEven, break_evens, smallest_every, wins};
use cell::Cell;

/// Raised whenever a field of the JSON document changes its meaning or goes.
const SCHEMA: u32 = 1;

const FIGURES: [&str; 2] = ["figure.svg", "figure.png"];

/// Runs the sweep that the arguments describe.
pub(crate) fn run(arguments: &Sweep) -> Result<(), Failure> {
    let common = &arguments.common;
    common.check_out()?;
    let mut input = Input::read(common)?;
    if !input.names("scheduler.mode") {
        // Thresholds are what the mode `delayed` is for.
        let mode = if input.has_threshold_axis() { "delayed" } else { "eager" };
        input = input.with_set(&format!("scheduler.mode={mode}"))?;
    }
    let scenario = input.scenario()?;
    let axes = Axes::of(arguments, &input, &scenario)?;
    let cells = cell::cells(&input, &scenario, &axes)?;
    let pool = common.pool()?;
    let fingerprint = Fingerprint::new("sweep", &Configuration::of(&input, &axes))?;
    let folder = common.out.clone().unwrap_or_else(|| default_folder("sweep", &fingerprint));
    let grid = cells.iter().map(Cell::key).collect();
    let rows = match Journal::open(&folder, fingerprint, grid, &FIGURES)? {
        Opened::UpToDate(_) => {
            say(format_args!("`{}` already holds this sweep; nothing was computed again", folder.display()));
            read_rows(&folder)?
        }
        Opened::Unfinished(journal) => {
            compute(&pool, &cells, &journal, &folder)?;
            let rows: Vec<Row> = journal.rows()?;
            let facts = facts(&input, scenario.seed(), "simulated");
            let files = figure(&rows, &Origin::of_run(&facts))?.files()?;
            journal.finish(&named(&files), facts)?;
            say(format_args!("wrote rows.csv, figure.svg, figure.png and manifest.json to `{}`", folder.display()));
            rows
        }
    };
    print(common.format, &rows)
}

/// What a result folder is bound to, beside the build: a folder of one build is not continued by another, so that the rows of one file come
/// from one program.
#[derive(Serialize)]
pub(crate) struct Configuration<'a, A> {
    scenario: ScenarioParts,
    profiles: Vec<Profile>,
    axes: &'a A,
    /// Digest of the executable where it was not built from a commit as it stands.
    executable: Option<String>,
}

impl<'a, A> Configuration<'a, A> {
    /// After all cells are built: only then is it known which files they read.
    pub(crate) fn of(input: &Input, axes: &'a A) -> Self {
        let executable = (Program::current().sources != "clean").then(executable_digest).flatten();
        Self { scenario: input.scenario_parts(), profiles: input.profiles(), axes, executable }
    }
}

/// Digest of the executable that runs, if it can be read.
pub(crate) fn executable_digest() -> Option<String> {
    let path = std::env::current_exe().ok()?;
    std::fs::read(path).ok().map(|bytes| cells::sha256_hex(&bytes))
}

/// Where results go without `--out`: a folder of their own for each configuration of a command.
pub(crate) fn default_folder(command: &str, fingerprint: &Fingerprint) -> PathBuf {
    let digest = cells::sha256_hex(fingerprint.as_value().to_string().as_bytes());
    PathBuf::from("out").join(format!("{command}-{}", &digest[..8]))
}

/// What the manifest of a run says about it. `device` is `simulated` or what was measured.
pub(crate) fn facts(input: &Input, seed: u64, device: &str) -> RunFacts {
    RunFacts {
        // An argument that is no text is shown as far as it is one: `args` would panic.
        command: std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect(),
        device: device.to_owned(),
        seed,
        scenario: input.scenario_text(),
        profiles: input.profiles(),
    }
}

/// Computes the cells that the journal does not hold yet.
fn compute(pool: &ThreadPool, cells: &[Cell], journal: &Journal, folder: &Path) -> Result<(), Failure> {
    interrupt::watch();
    let open: Vec<&Cell> = cells.iter().filter(|cell| !journal.was_finished(&cell.key())).collect();
    if open.len() < cells.len() {
        say(format_args!(
            "going on in `{}`: {} of {} cells are finished",
            folder.display(),
            cells.len() - open.len(),
            cells.len()
        ));
    }
    let bar = ProgressBar::new(open.len() as u64);
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} cells, {eta} left");
    bar.set_style(style.expect("the template is well formed"));
    let done: Result<(), Failure> = pool.install(|| {
        let baselines = Baselines::compute(&open)?;
        // Long cells first, so that no thread is left with one at the end.
        let mut order = open.clone();
        order.sort_by_key(|cell| std::cmp::Reverse(cell.effort()));
        order.into_par_iter().try_for_each(|cell| {
            if interrupt::requested() {
                return Ok(());
            }
            let row = cell.run(&baselines)?;
            journal.record(&cell.key(), &row)?;
            bar.inc(1);
            Ok(())
        })
    });
    let finished = cells.len() - open.len() + usize::try_from(bar.position()).unwrap_or(usize::MAX);
    bar.finish_and_clear();
    done?;
    if finished < cells.len() {
        return Err(Failure::Interrupted { finished, total: cells.len(), folder: folder.display().to_string() });
    }
    Ok(())
}

fn print(format: Format, rows: &[Row]) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    match format {
        Format::Table => report::write_tables(&mut out, rows)?,
        Format::Csv => document::write_csv(&mut out, rows)?,
        Format::Json => {
            let body = report::Document { cells: rows, break_even: break_evens(rows) };
            document::write_json(&mut out, SCHEMA, &body)?;
        }
    }
    Ok(())
}
