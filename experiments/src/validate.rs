//! `validate`: the same cells predicted and measured, side by side.
//!
//! The machine is profiled (or a profile is taken), each cell runs on it from several random starts, and the simulator predicts the same starts
//! over the same stretch of time from the profile and nothing else. Each finished cell is kept in the journal of the result folder.

mod analytic;
mod axes;
mod cell;
mod compare;
mod figures;
mod report;
mod row;
mod side;

use std::path::Path;

use handoff_backend::driver::Executor;
use handoff_sim::cost::Profile as MachineProfile;
use serde::Serialize;

use crate::cli::{Format, Validate};
use crate::failure::Failure;
use crate::input::Input;
use crate::interrupt;
use crate::machine::{Limits, Plan};
use crate::measure::{Span, limits_of};
use crate::message::say;
use crate::output::StoreError;
use crate::output::atomic;
use crate::output::cells::CellKey;
use crate::output::document::{write_csv, write_json};
use crate::output::fingerprint::Fingerprint;
use crate::output::folder::{Opened, named};
use crate::output::journal::{Journal, read_rows};
use crate::output::manifest::Profile;
use crate::output::origin::Origin;
use crate::profile::{PROFILE_FILE, measure_profile};
use crate::sweep::{Configuration, default_folder, facts};

pub(crate) use figures::figures;
pub(crate) use row::Row;

use cell::Cell;
use side::{Sides, Starts};

/// Raised whenever a field of the JSON document changes its meaning or goes.
const SCHEMA: u32 = 1;

const REPORT_FILE: &str = "report.json";
const FIGURES: [&str; 4] = ["figure.svg", "figure.png", "thresholds.svg", "thresholds.png"];

#[derive(Serialize)]
struct Settings<'a> {
    grid: &'a cell::Grid,
    device: &'a str,
    weights: &'static str,
    /// A profile that was given; `None` if it is measured.
    profile: Option<Profile>,
    starts: u32,
    repeats: u32,
    seconds: f64,
    warmup_seconds: f64,
}

/// Runs what the arguments describe.
pub(crate) fn run(arguments: &Validate) -> Result<(), Failure> {
    let common = &arguments.common;
    common.check_out()?;
    if !common.grids.is_empty() {
        let message =
            "--grid: expected the lists of a validation: --every, --concurrency, --placement, --r2r, --thresholds";
        return Err(Failure::Argument(message.to_owned()));
    }
    let input = Input::read_or(common, "tiny")?;
    let scenario = input.scenario()?;
    let grid = axes::grid(arguments, &scenario)?;
    let cells = cell::cells(&input, &scenario, &grid)?;
    let span = Span::of(Some(arguments.seconds), arguments.warmup_seconds)?.expect("seconds were given");
    let limits = cells.iter().map(|cell| limits_of(&cell.scenario)).reduce(Limits::or);
    let limits = limits.ok_or_else(|| Failure::Argument("the grid has no cell, expected at least one".to_owned()))?;
    let limits = Limits { new_tokens: grid.every.iter().copied().max().unwrap_or(1) + 1, ..limits };
    let plan = Plan::of(&scenario, input.folder(), arguments.machine, limits)?;
    let given = arguments.profile.as_deref().map(|path| axes::read_profile(path, &plan)).transpose()?;
    let settings = Settings {
        grid: &grid,
        device: &plan.device,
        weights: plan.weights(),
        profile: given.as_ref().map(|(bytes, _)| Profile::new(PROFILE_FILE, bytes)),
        starts: arguments.starts,
        repeats: arguments.repeats,
        seconds: arguments.seconds,
        warmup_seconds: arguments.warmup_seconds,
    };
    let fingerprint = Fingerprint::new("validate", &Configuration::of(&input, &settings))?;
    let folder = common.out.clone().unwrap_or_else(|| default_folder("validate", &fingerprint));
    let keys: Vec<CellKey> = cells.iter().map(Cell::key).collect();
    let names: Vec<&str> = [PROFILE_FILE, REPORT_FILE].into_iter().chain(FIGURES).collect();
    let rows: Vec<Row> = match Journal::open(&folder, fingerprint, keys, &names)? {
        Opened::UpToDate(_) => {
            say(format_args!("`{}` already holds this validation; nothing was run again", folder.display()));
            read_rows(&folder)?
        }
        Opened::Unfinished(journal) => {
            interrupt::watch();
            let mut executors = plan.load()?;
            let bytes = match given {
                Some((bytes, _)) => bytes,
                None => profile_of(arguments, &plan, limits, &folder, &mut executors)?,
            };
            let profile = MachineProfile::parse(&bytes, PROFILE_FILE)
                .map_err(|error| Failure::Machine(format!("the measured profile: {error}")))?;
            let starts = Starts { n: arguments.starts, repeats: arguments.repeats, span, seed: scenario.seed() };
            compute(&cells, &plan, &profile, starts, &journal, &folder, &mut executors)?;
            let rows: Vec<Row> = journal.rows()?;
            let facts = facts(&input, scenario.seed(), &plan.described());
            let mut report = Vec::new();
            write_json(&mut report, SCHEMA, &report::Document::of(&rows, &plan.device, plan.weights()))?;
            let mut files = vec![(PROFILE_FILE.to_owned(), bytes), (REPORT_FILE.to_owned(), report)];
            for drawing in figures(&rows, &Origin::of_run(&facts))? {
                files.extend(drawing.files()?);
            }
            let written: Vec<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
            journal.finish(&named(&files), facts)?;
            say(format_args!("wrote rows.csv, {} and manifest.json to `{}`", written.join(", "), folder.display()));
            rows
        }
    };
    let mut out = std::io::stdout().lock();
    match common.format {
        Format::Table => report::write_tables(&mut out, &rows, &plan.device, plan.weights())?,
        Format::Csv => write_csv(&mut out, &rows)?,
        Format::Json => write_json(&mut out, SCHEMA, &report::Document::of(&rows, &plan.device, plan.weights()))?,
    }
    Ok(())
}

/// The profile of this folder: measured now, unless an interrupted run has left it there.
fn profile_of(
    arguments: &Validate,
    plan: &Plan,
    limits: Limits,
    folder: &Path,
    executors: &mut [Box<dyn Executor>],
) -> Result<Vec<u8>, Failure> {
    let path = folder.join(PROFILE_FILE);
    if let Ok(bytes) = std::fs::read(&path) {
        say(format_args!("going on with the profile in `{}`", folder.display()));
        return Ok(bytes);
    }
    say(format_args!("measuring step times, co-run rates and host time on {}", plan.device));
    let extent = axes::extent(arguments.machine.device, limits, plan.models.len());
    let bytes = measure_profile(plan, executors, &extent, false)?.csv()?;
    atomic::write_file(&path, &bytes).map_err(|source| StoreError::Io { action: "write", path, source })?;
    Ok(bytes)
}

/// Runs the cells that the journal does not hold yet, one after the other: each has the machine for itself.
fn compute(
    cells: &[Cell],
    plan: &Plan,
    profile: &MachineProfile,
    starts: Starts,
    journal: &Journal,
    folder: &Path,
    executors: &mut [Box<dyn Executor>],
) -> Result<(), Failure> {
    let open: Vec<&Cell> = cells.iter().filter(|cell| !journal.was_finished(&cell.key())).collect();
    let mut finished = cells.len() - open.len();
    if finished > 0 {
        say(format_args!("going on in `{}`: {finished} of {} cells are finished", folder.display(), cells.len()));
    }
    for cell in open {
        if interrupt::requested() {
            let folder = folder.display().to_string();
            return Err(Failure::Interrupted { finished, total: cells.len(), folder });
        }
        let sides = Sides::of(cell, plan, profile, starts, executors)?;
        let row = sides.row(cell, starts);
        finished += 1;
        say(format_args!(
            "{finished}/{} {}: predicted {:.1}, measured {:.1} tokens/s ({:+.1} %)",
            cells.len(),
            cell.key(),
            row.predicted,
            row.measured,
            row.error * 100.0
        ));
        journal.record(&cell.key(), &row)?;
    }
    Ok(())
}
