//! `paper`: the published tables of token-level routing, predicted; and what is said about them in public, computed.
//!
//! A table is predicted from the parameters of the published machines (`calibrate`) and from as few of its own as possible. A cell that a parameter
//! was fitted on is marked, and left out of the errors.

mod ablation;
mod calibrate;
mod claims;
mod detail;
mod document;
mod figures;
mod fit;
mod headings;
mod machine;
mod model_pairs;
mod multi_node;
mod original_settings;
mod overrides;
mod parallel;
mod placement;
mod places;
mod published;
mod report;
mod routed;
mod setting;
mod std_serving_step;
mod threshold;

use rayon::ThreadPool;
use serde::Serialize;

use crate::cli::{self, PaperTable};
use crate::failure::Failure;
use crate::message::say;
use crate::output::cells::to_csv;
use crate::output::fingerprint::Fingerprint;
use crate::output::folder::{Opened, ResultFolder, named};
use crate::output::manifest::{Program, RunFacts, ScenarioText};
use crate::output::origin::Origin;
use crate::sweep::{default_folder, executable_digest};

pub(crate) use figures::figures;
pub(crate) use report::Row;

use claims::Claims;
use document::Document;
use machine::Machine;
use published::Published;
use report::{Parameter, TableReport};
use setting::{Player, Routing, Setting};

/// The seed unless another one is given.
const SEED: u64 = 1;

/// What every table works with.
#[derive(Clone, Debug)]
struct Paper {
    /// The published figures.
    published: Published,
    /// How settings are simulated.
    player: Player,
    /// The calibrated machines.
    machine: Machine,
}

/// What a result folder is bound to.
#[derive(Serialize)]
struct Configuration<'a> {
    table: &'static str,
    seed: u64,
    sets: &'a [String],
    /// Digest of the executable where it was not built from a commit as it stands.
    executable: Option<String>,
}

/// Runs what the arguments describe.
pub(crate) fn run(arguments: &cli::Paper) -> Result<(), Failure> {
    let common = &arguments.common;
    common.check_out()?;
    if let Some(scenario) = &common.scenario {
        let message = format!("--scenario {}: the paper has scenarios of its own, expected none", scenario.display());
        return Err(Failure::Argument(message));
    }
    if let Some(grid) = common.grids.first() {
        return Err(Failure::Argument(format!("--grid {grid}: the paper's tables are the grid, expected none")));
    }
    overrides::check(&common.sets)?;
    let pool = common.pool()?;
    let seed = common.seed.unwrap_or(SEED);
    let table = arguments.table;
    let name = table.map_or("all", PaperTable::name);
    let configuration = Configuration {
        table: name,
        seed,
        sets: &common.sets,
        executable: (Program::current().sources != "clean").then(executable_digest).flatten(),
    };
    let fingerprint = Fingerprint::new("paper", &configuration)?;
    let folder = common.out.clone().unwrap_or_else(|| default_folder("paper", &fingerprint));
    let names = file_names(table);
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    // Refused before anything is computed. What the folder holds already is computed again all the same: it takes seconds.
    let opened = ResultFolder::open(&folder, fingerprint, &names)?;
    let computed = compute(&pool, Player::new(seed, common.sets.clone()), table)?;
    match opened {
        Opened::UpToDate(_) => say(format_args!("`{}` already holds these results", folder.display())),
        Opened::Unfinished(folder) => {
            let facts = computed.facts(seed)?;
            publish(&folder, &computed.files(&Origin::of_run(&facts))?, facts)?;
        }
    }
    computed.print(common.format)
}

/// The tables that are predicted.
fn wanted(table: Option<PaperTable>) -> Vec<PaperTable> {
    match table {
        None => PaperTable::TABLES.to_vec(),
        Some(PaperTable::Claims) => Vec::new(),
        Some(table) => vec![table],
    }
}

/// The files of the result folder, in the order in which they are written.
fn file_names(table: Option<PaperTable>) -> Vec<String> {
    let figures =
        wanted(table).into_iter().flat_map(|table| ["svg", "png"].map(|suffix| format!("{}.{suffix}", table.name())));
    ["rows.csv", "parameters.csv", "report.json"].map(str::to_owned).into_iter().chain(figures).collect()
}

fn publish(folder: &ResultFolder, files: &[(String, Vec<u8>)], facts: RunFacts) -> Result<(), Failure> {
    folder.publish(&named(files), facts)?;
    let names: Vec<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
    say(format_args!("wrote {} and manifest.json to `{}`", names.join(", "), folder.path().display()));
    Ok(())
}

/// Tables, or claims.
struct Computed {
    paper: Paper,
    tables: Vec<TableReport>,
    claims: Option<Claims>,
}

fn compute(pool: &ThreadPool, player: Player, table: Option<PaperTable>) -> Result<Computed, Failure> {
    pool.install(|| {
        let paper = Paper::new(player, Published::read())?;
        let tables = wanted(table).into_iter().map(|table| paper.table(table)).collect::<Result<_, _>>()?;
        let claims = (table == Some(PaperTable::Claims)).then(|| Claims::new(&paper)).transpose()?;
        Ok(Computed { paper, tables, claims })
    })
}

impl Paper {
    /// Calibrates the machines on the published figures.
    fn new(player: Player, published: Published) -> Result<Self, Failure> {
        let machine = calibrate::machine(&player, &published)?;
        Ok(Self { published, player, machine })
    }

    fn table(&self, table: PaperTable) -> Result<TableReport, Failure> {
        match table {
            PaperTable::Threshold => threshold::report(self),
            PaperTable::Ablation => ablation::report(self),
            PaperTable::OriginalSettings => original_settings::report(self),
            PaperTable::Placement => placement::report(self),
            PaperTable::ModelPairs => model_pairs::report(self),
            PaperTable::MultiNode => multi_node::report(self),
            PaperTable::Parallel => parallel::report(self),
            PaperTable::StdServingStep => Ok(std_serving_step::report(&self.published)),
            PaperTable::Claims => unreachable!("claims are no table"),
        }
    }

    /// R2R at p = 0.35 on the pair that shares two GPUs.
    fn r2r(&self, concurrency: u32) -> Setting {
        Setting::shared(self.machine.pair(), self.machine.corun, Routing::Detour { p: published::R2R_P }, concurrency)
    }

    /// The parameters of the machines.
    fn parameters(&self) -> Vec<Parameter> {
        let Machine { layer_ms, row_ms, routing_ms, corun: [small, large] } = self.machine;
        let large_only = "original_settings, the 8 cells llm_only";
        let alone = "R2R at concurrency 1 in ablation, placement (shared) and parallel (1 and 2 GPUs)";
        let latency = "published step latencies, as means over the nine settings of threshold";
        vec![
            Parameter::new("layer_ms", layer_ms, "ms", large_only),
            Parameter::new("row_ms", row_ms, "ms", large_only),
            Parameter::new("routing_ms", routing_ms, "ms", alone),
            Parameter::new("corun_small", small, "", latency),
            Parameter::new("corun_large", large, "", latency),
        ]
    }
}

impl Computed {
    /// The files of the result folder.
    fn files(&self, origin: &Origin) -> Result<Vec<(String, Vec<u8>)>, Failure> {
        let mut json = Vec::new();
        self.write_json(&mut json)?;
        let mut files = Vec::new();
        let csv = match &self.claims {
            Some(claims) => to_csv(&claims.claims),
            None => to_csv(&self.document().rows),
        };
        files.push(("rows.csv".to_owned(), csv.map_err(std::io::Error::from)?));
        files.push((
            "parameters.csv".to_owned(),
            to_csv(&self.document().parameter_rows()).map_err(std::io::Error::from)?,
        ));
        files.push(("report.json".to_owned(), json));
        for drawing in figures(&self.document().rows, origin)? {
            files.extend(drawing.files()?);
        }
        Ok(files)
    }

    fn facts(&self, seed: u64) -> Result<RunFacts, Failure> {
        let base = self.paper.r2r(4).threshold(3);
        let scenario = self.paper.player.scenario(&base)?;
        let sets: String = self.paper.player.sets.iter().map(|set| format!("# --set {set}\n")).collect();
        let note = "# One of many: R2R on the shared pair at concurrency 4, threshold 3. Each cell of each table is a scenario of its own, which differs\n# from this one in its models, policy, scheduling and workload; rows.csv names the cell, parameters.csv what it was made from.\n\n";
        Ok(RunFacts {
            command: std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect(),
            device: "simulated".to_owned(),
            seed,
            scenario: ScenarioText {
                name: "paper.toml".to_owned(),
                text: format!("{note}{}{sets}", scenario.source().text()),
            },
            profiles: Vec::new(),
        })
    }

    fn document(&self) -> Document<'_> {
        Document::new(&self.tables, self.paper.parameters())
    }
}

#[cfg(test)]
mod tests;
