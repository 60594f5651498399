//! `tune`: the best delayed-batching thresholds of a scenario, by the best method that fits.

mod compare;
mod compare_document;
mod compare_tables;
mod document;
mod figures;
mod tables;

use std::path::Path;

use handoff_sim::analytic::tune::{
    Method, TuneOptions, by_active, check, confirm, curves, sensitivity, statements, tune,
};
use handoff_sim::scenario::Scenario;
use serde::Serialize;

use crate::cli::{Common, Format, Tune, TuneMethod};
use crate::failure::Failure;
use crate::figure::Drawing;
use crate::input::{Input, whole_numbers};
use crate::message::say;
use crate::output::cells::to_csv;
use crate::output::document::{write_csv, write_json};
use crate::output::fingerprint::Fingerprint;
use crate::output::folder::{Opened, ResultFolder, named};
use crate::output::manifest::RunFacts;
use crate::output::origin::Origin;
use crate::sweep::{Configuration, default_folder, facts};

pub(crate) use compare_document::CompareRow;
pub(crate) use document::Row;
pub(crate) use figures::{Shown, comparison};

use document::Document;

/// Raised whenever a field of a JSON document changes its meaning or goes.
const SCHEMA: u32 = 1;

const FILES: [&str; 4] = ["rows.csv", "report.json", "figure.svg", "figure.png"];

/// What `tune` runs without `--scenario`: the models, costs and device of the embedded default, under a law that thresholds matter for.
const DEFAULTS: [&str; 2] = ["policy={ kind = \"r2r\", p = 0.35 }", "scheduler.mode=delayed"];
const DEFAULTS_IN_WORDS: &str =
    "without --scenario: the models of the embedded scenario h200 with policy r2r, p = 0.35, mode delayed";

/// Replications behind a confirmation and behind an elasticity.
const CONFIRM_REPLICATIONS: u32 = 32;
const SENSITIVITY_REPLICATIONS: u32 = 16;

/// Runs what the arguments describe.
pub(crate) fn run(arguments: &Tune) -> Result<(), Failure> {
    arguments.common.check_out()?;
    if let Some(grid) = arguments.common.grids.first() {
        return Err(Failure::Argument(format!(
            "--grid {grid}: tune runs over the thresholds itself, expected --set for another field, or --compare with --concurrency"
        )));
    }
    let common = with_defaults(&arguments.common);
    let input = Input::read(&common)?;
    let base = input.scenario()?;
    if arguments.compare {
        return compare::run(arguments, &input, &base);
    }
    if let Some(list) = &arguments.placement {
        return Err(Failure::Argument(format!(
            "--placement {list}: goes with --compare; otherwise the scenario's own placement is tuned"
        )));
    }
    let scenario = match &arguments.concurrency {
        None => base,
        Some(list) => {
            let concurrency = whole_numbers("--concurrency", list)?;
            let [concurrency] = concurrency[..] else {
                return Err(Failure::Argument(format!(
                    "--concurrency {list}: expected one number; a list goes with --compare"
                )));
            };
            input.build(base.variant().thresholds(&vec![1; base.models().len()]).concurrency(concurrency))?
        }
    };
    let options = options(arguments)?;
    let asked = Asked::of(arguments)?;
    check(&scenario, &options)?;
    let fingerprint = Fingerprint::new("tune", &Configuration::of(&input, &asked))?;
    let path = common.out.clone().unwrap_or_else(|| default_folder("tune", &fingerprint));
    let folder = open(&path, fingerprint)?;
    let pool = common.pool()?;
    let name = input.scenario_text().name;
    let document = pool.install(|| compute(&name, &scenario, &options, &asked))?;
    if common.format != Format::Table {
        // The table carries them.
        document.notes.iter().for_each(say);
    }
    if let Some(folder) = folder {
        let facts = facts(&input, scenario.seed(), "simulated");
        let (rows, json) = (document.rows(), json(&document)?);
        let shown = Shown::new(&rows, Some(&json)).expect("thresholds are written as they are read");
        publish(&folder, &rows, json, shown.figure(&Origin::of_run(&facts))?, facts)?;
    }
    let mut out = std::io::stdout().lock();
    match common.format {
        Format::Json => write_json(&mut out, SCHEMA, &document)?,
        Format::Csv => write_csv(&mut out, &document.rows())?,
        Format::Table => tables::write(&mut out, &document, arguments.top)?,
    }
    Ok(())
}

/// The user's arguments, and what stands for a scenario where none is named. What the user sets comes later and wins.
fn with_defaults(common: &Common) -> Common {
    let mut common = common.clone();
    if common.scenario.is_none() {
        say(DEFAULTS_IN_WORDS);
        common.sets.splice(0..0, DEFAULTS.map(str::to_owned));
    }
    common
}

/// What is asked of a run beside its scenario: a result folder is bound to it.
#[derive(Clone, Debug, Serialize)]
struct Asked {
    concurrency: Option<String>,
    method: Option<Method>,
    step_grid_ms: Option<f64>,
    confirm: Option<usize>,
    sensitivity: bool,
    by_active: bool,
}

impl Asked {
    fn of(arguments: &Tune) -> Result<Self, Failure> {
        if arguments.confirm.is_some_and(|n| n < 2) {
            return Err(Failure::Argument(
                "--confirm 1: expected at least 2 candidates, so that there is something to compare the choice with"
                    .to_owned(),
            ));
        }
        Ok(Self {
            concurrency: arguments.concurrency.clone(),
            method: arguments.method.method(),
            step_grid_ms: arguments.step_grid_ms,
            confirm: arguments.confirm,
            sensitivity: arguments.sensitivity,
            by_active: arguments.by_active,
        })
    }
}

impl TuneMethod {
    fn method(self) -> Option<Method> {
        match self {
            Self::Auto => None,
            Self::Exact => Some(Method::Exact),
            Self::MeanField => Some(Method::MeanField),
            Self::Simulate => Some(Method::Simulate),
        }
    }
}

fn options(arguments: &Tune) -> Result<TuneOptions, Failure> {
    let grid_s = match arguments.step_grid_ms {
        Some(ms) if !(1e-6..=1e3).contains(&ms) => {
            return Err(Failure::Argument(format!("--step-grid-ms {ms}: expected a number from 0.000001 to 1000")));
        }
        given => given.map(|ms| ms * 1e-3),
    };
    Ok(TuneOptions { method: arguments.method.method(), grid_s, ..TuneOptions::default() })
}

fn compute(name: &str, scenario: &Scenario, options: &TuneOptions, asked: &Asked) -> Result<Document, Failure> {
    let tuning = tune(scenario, options)?;
    let best = tuning.best().thresholds.clone();
    let curves = curves(scenario, scenario.models().len() - 1, &best, options)?;
    let statements = statements(scenario)?;
    let confirmation = match asked.confirm {
        None => None,
        Some(n) => {
            let mut others: Vec<Vec<u32>> =
                tuning.candidates.iter().skip(1).take(n - 1).map(|candidate| candidate.thresholds.clone()).collect();
            let eager = vec![1; best.len()];
            if best != eager && !others.contains(&eager) {
                others.push(eager);
            }
            Some(confirm(scenario, &best, &others, CONFIRM_REPLICATIONS)?)
        }
    };
    let sensitivity = asked.sensitivity.then(|| sensitivity(scenario, &best, SENSITIVITY_REPLICATIONS)).transpose()?;
    let by_active = asked
        .by_active
        .then(|| by_active(scenario, options, |active| say(format_args!("tuned for {active} active requests"))))
        .transpose()?;
    Ok(Document::new(name, scenario, tuning, &curves, &statements, confirmation, sensitivity, by_active))
}

/// The folder to write to; nothing if it holds this very run already.
fn open(path: &Path, fingerprint: Fingerprint) -> Result<Option<ResultFolder>, Failure> {
    match ResultFolder::open(path, fingerprint, &FILES)? {
        Opened::Unfinished(folder) => Ok(Some(folder)),
        Opened::UpToDate(_) => {
            say(format_args!(
                "`{}` already holds this run; it is computed again for the terminal only",
                path.display()
            ));
            Ok(None)
        }
    }
}

fn json<D: Serialize>(document: &D) -> Result<Vec<u8>, Failure> {
    let mut json = Vec::new();
    write_json(&mut json, SCHEMA, document)?;
    Ok(json)
}

fn publish<R: Serialize>(
    folder: &ResultFolder,
    rows: &[R],
    report: Vec<u8>,
    drawing: Drawing,
    facts: RunFacts,
) -> Result<(), Failure> {
    let csv = to_csv(rows).map_err(std::io::Error::from)?;
    let mut files = vec![(FILES[0].to_owned(), csv), (FILES[1].to_owned(), report)];
    files.extend(drawing.files()?);
    folder.publish(&named(&files), facts)?;
    say(format_args!("wrote {} and manifest.json to `{}`", FILES.join(", "), folder.path().display()));
    Ok(())
}
