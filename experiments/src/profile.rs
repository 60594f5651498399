//! `profile`: what a machine's step times, co-run rates and host cost are, in the form that the simulator reads.

mod measured;
mod report;

use std::io::Write;

use handoff_backend::profile::{CorunEffort, Effort, Grid};
use serde::Serialize;

use crate::cli::{Format, GraphKind, Profile};
use crate::failure::Failure;
use crate::input::Input;
use crate::interrupt;
use crate::machine::{DeviceKind, Limits, Plan, WIDE_SKINNY_TOKENS_MAX};
use crate::measure::limits_of;
use crate::message::say;
use crate::output::cells::to_csv;
use crate::output::document::write_json;
use crate::output::fingerprint::Fingerprint;
use crate::output::folder::{Opened, ResultFolder};
use crate::sweep::{Configuration, default_folder, facts};

pub(crate) use measured::{Extent, Measured, measure_profile};

/// Raised whenever a field of the JSON document changes its meaning or goes.
const SCHEMA: u32 = 1;

/// The file that the simulator reads.
pub(crate) const PROFILE_FILE: &str = "profile.csv";

const FILES: [&str; 3] = [PROFILE_FILE, "held_out.csv", "report.json"];

#[derive(Serialize)]
struct Axes<'a> {
    device: &'a str,
    weights: &'static str,
    models: Vec<&'a str>,
    graphs: Vec<bool>,
    grid: String,
    corun_rows: &'a [u32],
}

/// Runs what the arguments describe.
pub(crate) fn run(arguments: &Profile) -> Result<(), Failure> {
    let common = &arguments.common;
    common.check_out()?;
    if !common.grids.is_empty() {
        let message = "--grid: a profile has a grid of its own, expected --rows, --new-tokens or --kv-tokens";
        return Err(Failure::Argument(message.to_owned()));
    }
    let mut input = Input::read_or(common, "tiny")?;
    if let Some(models) = &arguments.models {
        let tables: Vec<String> = models
            .split(',')
            .map(str::trim)
            .enumerate()
            .map(|(idx, shape)| {
                format!("{{ name = \"model-{idx}\", shape = \"{shape}\", cost = {{ constant_ms = 1.0 }}, device = 0 }}")
            })
            .collect();
        // Their costs are what is to be found out.
        input =
            input.with_set(&format!("model=[{}]", tables.join(", ")))?.with_set("policy={ kind = \"large-only\" }")?;
        input = input.with_set("scheduler={ sharing = \"exclusive\", order = \"large-first\" }")?;
    }
    let scenario = input.scenario()?;
    let extent = extent(arguments, limits_of(&scenario))?;
    let rows_max = extent.grid.decode.rows.iter().copied().max().unwrap_or(1);
    let request_tokens = extent.grid.points().iter().map(|point| point.new_tokens + point.kv_tokens).max().unwrap_or(1);
    let limits = Limits { requests: rows_max, request_tokens: request_tokens + 64, new_tokens: 1 };
    let plan = Plan::of(&scenario, input.folder(), arguments.machine, limits)?;
    let graphs = match (arguments.machine.device, arguments.graph) {
        (DeviceKind::Cpu, GraphKind::Both | GraphKind::Off) => vec![false],
        (DeviceKind::Cpu, GraphKind::On) => {
            return Err(Failure::Argument("--graph on: a processor has no CUDA graphs, expected off".to_owned()));
        }
        (DeviceKind::Cuda, GraphKind::On) => vec![true],
        (DeviceKind::Cuda, GraphKind::Off) => vec![false],
        (DeviceKind::Cuda, GraphKind::Both) => vec![true, false],
    };
    let extent =
        Extent { pairs: if plan.models.len() > 1 { all_pairs(plan.models.len()) } else { Vec::new() }, ..extent };
    let axes = Axes {
        device: &plan.device,
        weights: plan.weights(),
        models: plan.models.iter().map(|model| model.shape.as_str()).collect(),
        graphs: graphs.clone(),
        grid: format!("{:?}", extent.grid),
        corun_rows: &extent.corun_rows,
    };
    let fingerprint = Fingerprint::new("profile", &Configuration::of(&input, &axes))?;
    let folder = common.out.clone().unwrap_or_else(|| default_folder("profile", &fingerprint));
    let folder = match ResultFolder::open(&folder, fingerprint, &FILES)? {
        Opened::Unfinished(folder) => folder,
        Opened::UpToDate(_) => {
            say(format_args!("`{}` already holds this profile; nothing was measured again", folder.display()));
            return Ok(());
        }
    };
    interrupt::watch();
    let mut measured: Option<Measured> = None;
    for graph in graphs {
        let plan = plan.with_graph(graph);
        let mut executors = plan.load()?;
        let found = measure_profile(&plan, &mut executors, &extent, measured.is_some())?;
        match &mut measured {
            None => measured = Some(found),
            Some(measured) => measured.add_steps(found),
        }
    }
    let measured = measured.expect("at least one graph setting");
    let csv = measured.csv()?;
    let held_out = to_csv(&measured.held_out).map_err(std::io::Error::from)?;
    let mut json = Vec::new();
    write_json(&mut json, SCHEMA, &measured)?;
    let facts = facts(&input, scenario.seed(), &plan.described());
    folder.publish(&[(FILES[0], &csv), (FILES[1], &held_out), (FILES[2], &json)], facts)?;
    say(format_args!("wrote {} and manifest.json to `{}`", FILES.join(", "), folder.path().display()));
    let mut out = std::io::stdout().lock();
    match common.format {
        Format::Json => out.write_all(&json)?,
        Format::Csv => out.write_all(&csv)?,
        Format::Table => report::write_tables(&mut out, &measured)?,
    }
    Ok(())
}

fn all_pairs(n: usize) -> Vec<(usize, usize)> {
    (0..n).flat_map(|one| (one + 1..n).map(move |other| (one, other))).collect()
}

/// What to measure: the grid of the device, as far as arguments do not say otherwise.
fn extent(arguments: &Profile, limits: Limits) -> Result<Extent, Failure> {
    let list = |name: &str, text: &Option<String>| {
        text.as_ref().map(|text| super::input::whole_numbers(name, text)).transpose()
    };
    let mut grid = default_grid(arguments.machine.device);
    if let Some(rows) = list("--rows", &arguments.rows)? {
        grid.decode.rows.clone_from(&rows);
        grid.extend.rows = rows;
    }
    if let Some(new_tokens) = list("--new-tokens", &arguments.new_tokens)? {
        grid.extend.new_tokens = new_tokens.into_iter().filter(|&new_tokens| new_tokens > 1).collect();
    }
    if let Some(kv_tokens) = list("--kv-tokens", &arguments.kv_tokens)? {
        let ends = [kv_tokens.iter().min(), kv_tokens.iter().max()];
        grid.extend.kv_tokens = ends.into_iter().flatten().copied().collect();
        grid.extend.kv_tokens.dedup();
        grid.decode.kv_tokens = kv_tokens;
    }
    Ok(Extent {
        corun_rows: list("--corun-rows", &arguments.corun_rows)?.unwrap_or_else(|| vec![1, 4, 8]),
        seed: 1,
        ..for_limits(arguments.machine.device, grid, limits)
    })
}

/// A few batches to step side by side, each pair measured once.
fn corun_rows(device: DeviceKind, limits: Limits) -> Vec<u32> {
    let most = limits.requests.max(1);
    let mut rows = match device {
        DeviceKind::Cpu => vec![1, most.min(4), most],
        // From one token more than the skinny products take, a wide model's steps run in cuBLAS, which leaves much more of the device to the other
        // model. An extend comes to that many tokens with few requests, so both sides of the jump are measured, and one far beyond.
        DeviceKind::Cuda => {
            let jump = WIDE_SKINNY_TOKENS_MAX;
            [1, jump, jump + 1, most.max(32)].map(|rows| rows.min(limits.slots())).to_vec()
        }
    };
    rows.sort_unstable();
    rows.dedup();
    rows
}

fn default_grid(device: DeviceKind) -> Grid {
    match device {
        DeviceKind::Cpu => Grid::for_cpu(),
        DeviceKind::Cuda => Grid::for_gpu(),
    }
}

/// An extent over a grid, at the effort that suits the device.
pub(crate) fn for_limits(device: DeviceKind, grid: Grid, limits: Limits) -> Extent {
    let corun_rows = corun_rows(device, limits);
    let kv_tokens = grid.decode.kv_tokens.get(grid.decode.kv_tokens.len() / 2).copied().unwrap_or(64);
    Extent {
        grid,
        effort: match device {
            DeviceKind::Cpu => Effort { visit_ns: 40_000_000, ..Effort::default() },
            DeviceKind::Cuda => Effort { visit_ns: 50_000_000, repeats_max: 40, ..Effort::default() },
        },
        pairs: Vec::new(),
        corun_rows,
        corun_kv_tokens: kv_tokens,
        corun_effort: match device {
            DeviceKind::Cpu => CorunEffort { phase_ns: 100_000_000, ..CorunEffort::default() },
            DeviceKind::Cuda => CorunEffort::default(),
        },
        seed: 1,
    }
}
