//! `measure`: a scenario, or a grid of them, with real models on a real machine, reported in the columns of a simulated run.
//!
//! Cells run one after the other, each alone on the machine, and are kept in the journal of the result folder as soon as they are finished.

mod run;

use std::sync::Arc;

use handoff_backend::Prompts;
use handoff_backend::driver::Executor;
use handoff_sim::engine::Report;
use handoff_sim::rng::Stream;
use handoff_sim::scenario::{Scenario, ScenarioError, cells};
use serde::Serialize;

use crate::cli::{Format, Measure};
use crate::failure::Failure;
use crate::input::{Input, check_size};
use crate::interrupt;
use crate::machine::{Limits, Plan};
use crate::message::say;
use crate::output::cells::{CellKey, sha256_hex};
use crate::output::document::{write_csv, write_json};
use crate::output::fingerprint::Fingerprint;
use crate::output::folder::Opened;
use crate::output::journal::{Journal, read_rows};
use crate::simulate::{Document, Row, write_grid};
use crate::sweep::{Configuration, default_folder, facts};
use crate::trace::{self, Provenance};

pub(crate) use run::{Run, Span, limits_of, window_of};

/// Raised whenever a field of the JSON document changes its meaning or goes.
const SCHEMA: u32 = 1;

/// Everything besides the scenario that decides what a measurement means.
#[derive(Serialize)]
struct Axes<'a> {
    grid: &'a [Vec<String>],
    device: &'a str,
    weights: &'static str,
    seconds: Option<f64>,
    warmup_seconds: f64,
    replications: u32,
    /// Digest of the tokens.
    prompts: Option<String>,
}

#[derive(Serialize)]
struct JsonBody<'a> {
    device: &'a str,
    weights: &'static str,
    cells: &'a [Row],
}

/// Runs what the arguments describe.
pub(crate) fn run(arguments: &Measure) -> Result<(), Failure> {
    let common = &arguments.common;
    common.check_out()?;
    let span = Span::of(arguments.seconds, arguments.warmup_seconds)?;
    let input = Input::read_or(common, "tiny")?;
    let scenario = input.scenario()?;
    let grid = cells(&input.axes)?;
    check_size(grid.len())?;
    if let Some(path) = &arguments.trace {
        trace::check_path(path)?;
    }
    let wants_log = arguments.trace.is_some() || arguments.routes.is_some();
    if wants_log && grid.len() > 1 {
        let message = "--trace and --routes show one run, but --grid makes several cells; expected one of the two";
        return Err(Failure::Argument(message.to_owned()));
    }
    let build = |sets: &Vec<String>| {
        let variant = sets.iter().fold(scenario.variant(), |variant, set| variant.set(set));
        let name = |error: ScenarioError| Failure::Cell { cell: sets.join(", "), error };
        input.build(variant).map_err(name)
    };
    let scenarios = grid.iter().map(build).collect::<Result<Vec<_>, _>>()?;
    let limits = scenarios.iter().map(limits_of).reduce(Limits::or).expect("a grid has at least one cell");
    // One set of models serves all cells, so they are the same in all of them.
    let mut plan = Plan::of(&scenario, input.folder(), arguments.machine, limits)?;
    let prompts = arguments.prompts.as_deref().map(|file| plan.prompts(file, &scenario)).transpose()?;
    if let Some(prompts) = &prompts {
        let longest = prompts.lengths().into_iter().max().unwrap_or(0) + scenario.workload().output().max();
        let limits = Limits { request_tokens: longest.max(1), ..limits };
        plan = Plan::of(&scenario, input.folder(), arguments.machine, limits)?;
    }
    let axes = Axes {
        grid: &grid,
        device: &plan.device,
        weights: plan.weights(),
        seconds: arguments.seconds,
        warmup_seconds: arguments.warmup_seconds,
        replications: arguments.replications,
        prompts: prompts.as_ref().map(|prompts| sha256_hex(format!("{prompts:?}").as_bytes())),
    };
    let fingerprint = Fingerprint::new("measure", &Configuration::of(&input, &axes))?;
    let folder = common.out.clone().unwrap_or_else(|| default_folder("measure", &fingerprint));
    let keys: Vec<CellKey> = grid.iter().map(|sets| CellKey::new([("grid", &sets.join(" ") as _)])).collect();
    let rows: Vec<Row> = match Journal::open(&folder, fingerprint, keys.clone(), &[])? {
        Opened::UpToDate(_) => {
            say(format_args!("`{}` already holds this measurement; nothing was run again", folder.display()));
            read_rows(&folder)?
        }
        Opened::Unfinished(journal) => {
            interrupt::watch();
            let mut executors = plan.load()?;
            for ((scenario, sets), key) in scenarios.iter().zip(&grid).zip(&keys) {
                if journal.was_finished(key) {
                    continue;
                }
                if interrupt::requested() {
                    let finished = keys.iter().filter(|key| journal.is_there(key)).count();
                    let folder = folder.display().to_string();
                    return Err(Failure::Interrupted { finished, total: keys.len(), folder });
                }
                if !sets.is_empty() {
                    say(format_args!("measuring {}", sets.join(", ")));
                }
                let row =
                    measure_cell(arguments, &input, &plan, span, (scenario, sets), prompts.as_ref(), &mut executors)?;
                journal.record(key, &row)?;
            }
            let rows = journal.rows()?;
            journal.finish(&[], facts(&input, scenario.seed(), &plan.described()))?;
            say(format_args!("wrote rows.csv and manifest.json to `{}`", folder.display()));
            rows
        }
    };
    let mut out = std::io::stdout().lock();
    match common.format {
        Format::Json => {
            write_json(&mut out, SCHEMA, &JsonBody { device: &plan.device, weights: plan.weights(), cells: &rows })?;
        }
        Format::Csv => write_csv(&mut out, &rows)?,
        Format::Table => write_grid(&mut out, &rows)?,
    }
    Ok(())
}

/// The replications of one cell.
fn measure_cell(
    arguments: &Measure,
    input: &Input,
    plan: &Plan,
    span: Option<Span>,
    (scenario, sets): (&Scenario, &[String]),
    prompts: Option<&Arc<Prompts>>,
    executors: &mut [Box<dyn Executor>],
) -> Result<Row, Failure> {
    let mut config = plan.config(scenario);
    if let Some(prompts) = prompts {
        let workload = prompts.workload(&config.workload);
        config.workload = workload.map_err(|error| Failure::Argument(format!("--prompts: {error}")))?;
    }
    let cell = if sets.is_empty() { String::new() } else { format!("cell {}: ", sets.join(", ")) };
    let mut metrics = Vec::new();
    for replication in 0..arguments.replications {
        let run = Run {
            config: &config,
            seed: Stream::replication_seed(scenario.seed(), replication),
            window: window_of(&config, span),
            // Of the first run alone.
            keep_log: replication == 0 && (arguments.trace.is_some() || arguments.routes.is_some()),
            prompts: prompts.cloned(),
        };
        let measurement = run.measure(plan, executors, &cell)?;
        if let Some(log) = &measurement.log {
            let text = input.scenario_text();
            let window = &measurement.metrics;
            run::write_logs(arguments, &config, log, || Provenance {
                scenario: text.name,
                scenario_text: text.text,
                seed: scenario.seed(),
                run_seed: run.seed,
                device: plan.described(),
                window_ns: (window.window_start_ns, window.window_end_ns),
            })?;
        }
        metrics.push(measurement.metrics);
    }
    let report = Report::of(&config, &metrics);
    Ok(Row::of(&Document::of(scenario, &report), sets))
}
