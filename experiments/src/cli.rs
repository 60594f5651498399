//! Arguments.

pub(crate) mod help;

use std::path::{Path, PathBuf};

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::failure::Failure;
use crate::machine::MachineArguments;

/// What does a handoff between two language models cost, and how often can they hand a request back and forth before routing stops paying?
#[derive(Debug, Parser)]
#[command(name = "handoff", version, about, long_about = None, after_help = help::PROGRAM)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run one scenario and report throughput, latency, batches, delays and handoffs with their 95 % intervals.
    Simulate(Simulate),
    /// Throughput against handoff frequency: switch every N tokens, beside the large model alone, with the break-even.
    Sweep(Sweep),
    /// The best delayed-batching thresholds of a scenario, by exact chain, mean field or simulation; and which placement wins.
    Tune(Tune),
    /// Measure step times, co-run rates and host cost on this machine, as the profile that the simulator reads.
    Profile(Profile),
    /// Run a scenario with real models and report it in the columns of a simulated run.
    Measure(Measure),
    /// Predict and measure the same cells side by side: errors, break-even, best thresholds.
    Validate(Validate),
    /// Predict the published tables of token-level routing, and compute what is claimed about them.
    Paper(Paper),
    /// Draw the figures of a sweep, a validation, tune or paper again from their CSV.
    Plot(Plot),
    /// Write one self-contained HTML page for a folder of results: summary, figures, tables, provenance.
    Report(Report),
    /// Print the completions of a shell.
    Completions(Completions),
    /// Write the manual pages.
    Man(Man),
}

/// How results are printed on standard output.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
pub(crate) enum Format {
    /// Aligned text.
    #[default]
    Table,
    /// One JSON document.
    Json,
    /// Rows as in rows.csv.
    Csv,
}

/// What every command takes.
#[derive(Clone, Debug, Args)]
pub(crate) struct Common {
    /// A scenario file (TOML), or the name of an embedded one: h200, a100-paper, tiny.
    #[arg(long, value_name = "FILE")]
    pub(crate) scenario: Option<PathBuf>,
    /// Override a field of the scenario; may be given many times.
    #[arg(long = "set", value_name = "PATH=VALUE")]
    pub(crate) sets: Vec<String>,
    /// Run every value of a field: 1..8, or 1,2,4; given many times, every combination.
    #[arg(long = "grid", value_name = "PATH=LIST")]
    pub(crate) grids: Vec<String>,
    /// The random seed; overrides the scenario's.
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// Where results are written. Without it, a sweep writes into a folder of its own below out/, simulate nowhere.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// How results are printed on standard output.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
    /// Threads, at most 1024; by default one per core. Results do not depend on it.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) threads: Option<u16>,
}

impl Common {
    /// Refuses an `--out` that cannot become a folder.
    pub(crate) fn check_out(&self) -> Result<(), Failure> {
        self.out.as_deref().map_or(Ok(()), check_out)
    }

    /// The threads that cells run on.
    pub(crate) fn pool(&self) -> Result<ThreadPool, Failure> {
        let threads = self.threads.map_or(0, usize::from);
        let pool = ThreadPoolBuilder::new().num_threads(threads).build();
        pool.map_err(|error| Failure::Argument(format!("--threads {threads}: {error}")))
    }
}

/// Refuses a folder to write to that is a file, or lies below one.
pub(crate) fn check_out(out: &Path) -> Result<(), Failure> {
    match out.ancestors().find(|path| path.exists()) {
        Some(path) if !path.is_dir() => Err(Failure::Argument(format!(
            "--out {}: `{}` is a file, expected a folder, which need not exist",
            out.display(),
            path.display()
        ))),
        _ => Ok(()),
    }
}

/// Arguments of `simulate`.
#[derive(Debug, Args)]
#[command(after_help = help::SIMULATE)]
pub(crate) struct Simulate {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Write the timeline of the first replication to this file: Chrome-trace JSON, which ui.perfetto.dev opens; not with --grid.
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
}

/// Arguments of `sweep`.
#[derive(Debug, Args)]
#[command(after_help = help::SWEEP)]
pub(crate) struct Sweep {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Tokens per visit N, for both models; default 1,2,4,8,16,32,64,128.
    #[arg(long, value_name = "LIST")]
    pub(crate) every: Option<String>,
    /// Requests in the system; default 1,2,4,8,16.
    #[arg(long, value_name = "LIST")]
    pub(crate) concurrency: Option<String>,
    /// Placements: separate, overlapped, exclusive (both orders), exclusive:large-first, exclusive:small-first, exclusive:alternate, or all.
    #[arg(long, value_name = "LIST")]
    pub(crate) placement: Option<String>,
}

/// Arguments of `measure`.
#[derive(Debug, Args)]
#[command(after_help = help::MEASURE)]
pub(crate) struct Measure {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(flatten)]
    pub(crate) machine: MachineArguments,
    /// Measure for so long, instead of until the scenario's number of requests has finished.
    #[arg(long, value_name = "SECONDS")]
    pub(crate) seconds: Option<f64>,
    /// Run for so long before that. Without --seconds the warm-up is the scenario's, or one generation of requests.
    #[arg(long, value_name = "SECONDS", default_value_t = 0.5)]
    pub(crate) warmup_seconds: f64,
    /// Runs of each cell, each from a start of its own.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) replications: u32,
    /// Prompts instead of random token ids: one JSON object a line with `prompt`, tokenised by the tokenizer.json in the entry model's folder, or
    /// with `tokens`. Their lengths replace the scenario's.
    #[arg(long, value_name = "FILE")]
    pub(crate) prompts: Option<PathBuf>,
    /// Write the timeline of the run, for Perfetto.
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
    /// Write the route record of the run, from which `policy = { kind = "replay" }` takes the same routes.
    #[arg(long, value_name = "FILE")]
    pub(crate) routes: Option<PathBuf>,
}

/// Which steps are profiled.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
pub(crate) enum GraphKind {
    /// With and without CUDA graphs; on a processor without.
    #[default]
    Both,
    /// With CUDA graphs.
    On,
    /// Without.
    Off,
}

/// Arguments of `profile`.
#[derive(Debug, Args)]
#[command(after_help = help::PROFILE)]
pub(crate) struct Profile {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(flatten)]
    pub(crate) machine: MachineArguments,
    /// Shapes with dummy weights, instead of the scenario's models, all on device 0.
    #[arg(long, value_name = "LIST")]
    pub(crate) models: Option<String>,
    /// Steps with CUDA graphs, without, or both.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) graph: GraphKind,
    /// Rows of the batches.
    #[arg(long, value_name = "LIST")]
    pub(crate) rows: Option<String>,
    /// New tokens of each row of an extend.
    #[arg(long, value_name = "LIST")]
    pub(crate) new_tokens: Option<String>,
    /// Kept tokens of each row.
    #[arg(long, value_name = "LIST")]
    pub(crate) kv_tokens: Option<String>,
    /// Rows of the batches that run side by side; default 1,4,8.
    #[arg(long, value_name = "LIST")]
    pub(crate) corun_rows: Option<String>,
}

/// Arguments of `validate`.
#[derive(Debug, Args)]
#[command(after_help = help::VALIDATE)]
pub(crate) struct Validate {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(flatten)]
    pub(crate) machine: MachineArguments,
    /// A profile of this machine; without it, one is measured.
    #[arg(long, value_name = "FILE")]
    pub(crate) profile: Option<PathBuf>,
    /// Tokens per visit N of the every-N cells, or none.
    #[arg(long, value_name = "LIST", default_value = "1,4,16")]
    pub(crate) every: String,
    /// Requests in the system of the every-N cells, or none.
    #[arg(long, value_name = "LIST", default_value = "1,4")]
    pub(crate) concurrency: String,
    /// Placements as in a sweep; default: both ways to share a device.
    #[arg(long, value_name = "LIST")]
    pub(crate) placement: Option<String>,
    /// Probabilities p of the R2R cells, or none.
    #[arg(long, value_name = "LIST", default_value = "0.35")]
    pub(crate) r2r: String,
    /// Thresholds of the large model in the R2R cells.
    #[arg(long, value_name = "LIST", default_value = "1..4")]
    pub(crate) thresholds: String,
    /// Requests in the system of the R2R cells.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) threshold_concurrency: u32,
    /// Random starts of each cell, the same on both sides.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) starts: u32,
    /// Measurements of the first start, which tell by how much the machine itself varies.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) repeats: u32,
    /// Seconds measured for each start.
    #[arg(long, value_name = "SECONDS", default_value_t = 0.5)]
    pub(crate) seconds: f64,
    /// Seconds before that.
    #[arg(long, value_name = "SECONDS", default_value_t = 0.1)]
    pub(crate) warmup_seconds: f64,
}

/// Where throughput comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
pub(crate) enum TuneMethod {
    /// The best one that fits.
    #[default]
    Auto,
    /// The Markov chain: fixed step times, separate or exclusive placement, small systems.
    Exact,
    /// R2R-like policies on separate devices, from concurrency 4 on.
    MeanField,
    /// Everything, under common random numbers.
    Simulate,
}

/// Arguments of `tune`.
#[derive(Debug, Args)]
#[command(after_help = help::TUNE)]
pub(crate) struct Tune {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Where throughput comes from.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) method: TuneMethod,
    /// Requests in the system; with --compare a list, by default 1,2,4,8,16,32.
    #[arg(long, value_name = "LIST")]
    pub(crate) concurrency: Option<String>,
    /// Tune every placement, beside the other scheduling modes and the large model alone, and say which wins where.
    #[arg(long, conflicts_with_all = ["confirm", "sensitivity", "by_active"])]
    pub(crate) compare: bool,
    /// With --compare: separate, overlapped, exclusive (both orders), exclusive:large-first, exclusive:small-first, exclusive:alternate; default all of the first three.
    #[arg(long, value_name = "LIST")]
    pub(crate) placement: Option<String>,
    /// Simulate the best K candidates again on fresh seeds and report the regret of the choice; 5 without a number.
    #[arg(long, value_name = "K", num_args = 0..=1, default_missing_value = "5")]
    pub(crate) confirm: Option<usize>,
    /// Elasticity of throughput to each step time, the handoff, the policy and the thresholds.
    #[arg(long)]
    pub(crate) sensitivity: bool,
    /// Tune every number of active requests up to the concurrency and print the thresholds as lists that a scenario takes.
    #[arg(long)]
    pub(crate) by_active: bool,
    /// Rows of the ranking that are printed; rows.csv has all.
    #[arg(long, value_name = "K", default_value_t = 10)]
    pub(crate) top: usize,
    /// Grid of the exact method in ms; by default the step times' own divisor, or the finest grid that fits.
    #[arg(long, value_name = "MS")]
    pub(crate) step_grid_ms: Option<f64>,
}

/// A published table, or the claims about them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum PaperTable {
    /// R2R against the threshold of the large model.
    Threshold,
    /// R2R without one optimisation after another.
    Ablation,
    /// Each algorithm on its own models and data.
    OriginalSettings,
    /// Both models on shared GPUs, and on separate ones.
    Placement,
    /// R2R on four pairs of models.
    ModelPairs,
    /// One node, and two.
    MultiNode,
    /// R2R by tensor-parallel sizes.
    Parallel,
    /// One step of the small model in a standard server.
    StdServingStep,
    /// What is claimed about these figures in public, each claim with a verdict.
    Claims,
}

impl PaperTable {
    /// All tables, in the order in which they are shown.
    pub(crate) const TABLES: [Self; 8] = [
        Self::Threshold,
        Self::Ablation,
        Self::OriginalSettings,
        Self::Placement,
        Self::ModelPairs,
        Self::MultiNode,
        Self::Parallel,
        Self::StdServingStep,
    ];

    /// The name on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Threshold => "threshold",
            Self::Ablation => "ablation",
            Self::OriginalSettings => "original_settings",
            Self::Placement => "placement",
            Self::ModelPairs => "model_pairs",
            Self::MultiNode => "multi_node",
            Self::Parallel => "parallel",
            Self::StdServingStep => "std_serving_step",
            Self::Claims => "claims",
        }
    }
}

/// Arguments of `paper`.
#[derive(Debug, Args)]
#[command(after_help = help::PAPER)]
pub(crate) struct Paper {
    #[command(flatten)]
    pub(crate) common: Common,
    /// The table to predict, or the claims.
    #[arg(value_enum, value_name = "TABLE")]
    pub(crate) table: Option<PaperTable>,
}

/// Arguments of `plot`.
#[derive(Debug, Args)]
#[command(after_help = help::PLOT)]
pub(crate) struct Plot {
    /// A result folder, or a CSV that holds its rows.
    pub(crate) from: PathBuf,
    /// Where the figures are written, as SVG and PNG.
    #[arg(long, value_name = "DIR", default_value = "out/plot")]
    pub(crate) out: PathBuf,
    /// Replace the figures of the result folder itself, and note in its manifest which build drew them.
    #[arg(long, conflicts_with = "out")]
    pub(crate) in_place: bool,
}

/// Arguments of `completions`.
#[derive(Debug, Args)]
#[command(after_help = help::COMPLETIONS)]
pub(crate) struct Completions {
    /// The shell.
    pub(crate) shell: Shell,
}

/// Arguments of `man`.
#[derive(Debug, Args)]
#[command(after_help = help::MAN)]
pub(crate) struct Man {
    /// Where the pages are written.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
}

/// Arguments of `report`.
#[derive(Debug, Args)]
#[command(after_help = help::REPORT)]
pub(crate) struct Report {
    /// A folder that a command has written, or a folder of such folders.
    #[arg(value_name = "DIR")]
    pub(crate) from: PathBuf,
    /// The file to write; report.html in the folder by default.
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
}
