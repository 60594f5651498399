//! Arguments.

use std::path::{Path, PathBuf};

use clap::{Args, Parser, Subcommand, ValueEnum};
use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::failure::Failure;

/// What does a handoff between two language models cost, and how often can they hand a request back and forth before routing stops paying?
#[derive(Debug, Parser)]
#[command(name = "handoff", version, about, long_about = None)]
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
    /// Draw the figure of a sweep again from its rows.csv.
    Plot(Plot),
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
#[derive(Debug, Args)]
pub(crate) struct Common {
    /// A scenario file (TOML), or the name of an embedded one: h200, a100-paper.
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
#[command(
    after_help = "Example: handoff simulate --scenario a100-paper --set model.large.threshold=2 --grid workload.concurrency=2..8"
)]
pub(crate) struct Simulate {
    #[command(flatten)]
    pub(crate) common: Common,
}

/// Arguments of `sweep`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  handoff sweep\n  handoff sweep --every 1,2,4 --concurrency 4,8 --placement separate --scenario a100-paper\n  \
    handoff sweep --scenario a100-paper --grid model.large.threshold=1..4\n\n\
    Without --scenario the pair Qwen3-0.6B + Qwen3-32B on one or two H200 is swept over all placements. With a scenario, its own placement is \
    swept unless --placement names others, in mode eager unless the scenario or an override names another mode, or --grid runs over a threshold. With --grid, axes that are not \
    given stay as the scenario has them."
)]
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

/// Arguments of `plot`.
#[derive(Debug, Args)]
#[command(after_help = "Example: handoff plot results/sweep-h200/default --out out/figure")]
pub(crate) struct Plot {
    /// A result folder of a sweep, or its rows.csv.
    pub(crate) from: PathBuf,
    /// Where figure.svg and figure.png are written.
    #[arg(long, value_name = "DIR", default_value = "out/plot")]
    pub(crate) out: PathBuf,
}
