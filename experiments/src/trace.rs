//! Timelines: a run as Chrome-trace JSON, which <https://ui.perfetto.dev> and `chrome://tracing` open.
//!
//! [`TraceObserver`] watches a simulated run ([`replicate_observed`]) or is told about a recorded one (`RunLog::watch` of the backend), so
//! both look alike side by side. [`write_file`] turns what it saw into a file:
//!
//! | process | thread | slices |
//! |---|---|---|
//! | `subservers` | a model | a step, from its launch until its decisions are absorbed: kinds, rows, tokens, request indices |
//! | `devices` | a device; where forwards run side by side, a device and a model | a forward, without the host's part around it |
//! | `requests` | a slot, which one request after the other uses | the life of a request; within it where it runs, waits for a launch or travels |
//!
//! A *flow arrow* leads from the end of the step that hands a request off to the step of the receiver that carries it. A handoff whose
//! receiver did not launch before the end of the trace has no arrow. *Counters* of each model: rows that wait (for a launch or for KV), rows
//! that run, and requests that are pending there.
//!
//! What is still open at the end of the trace is cut there and has the argument `unfinished`. A forward is shown once it has ended. The trace
//! stops after [`EVENTS_MAX`] events, and says so in `otherData.stopped`; memory is bounded by it.

mod event;
mod json;
mod recorder;
#[cfg(test)]
mod tests;

use std::fs;
use std::path::Path;

use handoff_sim::engine::{EngineConfig, Metrics, RunError, Window, replicate_observed};
use serde::Serialize;

use crate::failure::Failure;
use crate::message::say;
use crate::output::StoreError;
use crate::output::atomic;
use crate::output::manifest::Program;

pub(crate) use recorder::TraceObserver;

/// The most events of a trace: a file of some 300 MB.
pub(crate) const EVENTS_MAX: usize = 2_000_000;

/// Where a trace comes from: its `otherData`, beside the build.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Provenance {
    /// The name of the scenario's file without folders, or that of the embedded scenario.
    pub(crate) scenario: String,
    /// The scenario's effective text, overrides as comments.
    pub(crate) scenario_text: String,
    /// The seed of the scenario.
    pub(crate) seed: u64,
    /// The seed of this run, derived from the scenario's.
    pub(crate) run_seed: u64,
    /// `simulated`, or the name of a device.
    pub(crate) device: String,
    /// The measured window, ns since the start of the run: what came before was the warm-up, and the run ended with it.
    pub(crate) window_ns: (u64, u64),
}

/// `otherData`: provenance and build, and whether the trace is whole.
#[derive(Debug, Serialize)]
struct OtherData<'a> {
    program: Program,
    #[serde(flatten)]
    provenance: &'a Provenance,
    /// Present if the trace reached its largest number of events.
    #[serde(skip_serializing_if = "Option::is_none")]
    stopped: Option<Stopped>,
}

/// Where a trace stopped before the run did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct Stopped {
    /// ns since the start of the run.
    pub(crate) at_ns: u64,
    /// The largest number of events.
    pub(crate) events_max: usize,
}

/// Runs one replication of `config` under `run_seed` and watches it.
///
/// # Errors
/// If the run stalls, is unstable, or runs out of recorded arrivals.
pub(crate) fn simulated(
    config: &EngineConfig,
    run_seed: u64,
    window: Window,
) -> Result<(Metrics, TraceObserver), RunError> {
    replicate_observed(config, run_seed, window, TraceObserver::of(config))
}

/// Refuses a `--trace` that cannot become a file. Folders that are missing are made when the file is written.
pub(crate) fn check_path(path: &Path) -> Result<(), Failure> {
    let refuse = |found: String| Failure::Argument(format!("--trace {}: {found}, expected a file", path.display()));
    if path.is_dir() {
        return Err(refuse("is a folder".to_owned()));
    }
    if path.file_name().is_none() {
        return Err(refuse("names no file".to_owned()));
    }
    match path.ancestors().skip(1).find(|folder| folder.exists()) {
        Some(folder) if !folder.is_dir() => {
            Err(refuse(format!("lies below `{}`, which is no folder", folder.display())))
        }
        _ => Ok(()),
    }
}

/// Writes the trace to `path`, whole or not at all, and says so on standard error.
pub(crate) fn write_file(path: &Path, trace: TraceObserver, provenance: &Provenance) -> Result<(), Failure> {
    let stopped = trace.stopped();
    let failed = |action| move |source| StoreError::Io { action, path: path.to_owned(), source };
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(failed("create the folder of"))?;
    }
    atomic::write_file_with(path, |out| trace.into_json(provenance, out)).map_err(failed("write"))?;
    if let Some(Stopped { at_ns, events_max }) = stopped {
        say(format_args!(
            "the trace stops at {:.3} s of the run, after {events_max} events; shorten the run to see it whole, as with `workload.requests`",
            at_ns as f64 * 1e-9
        ));
    }
    say(format_args!("wrote the timeline to `{}`", path.display()));
    Ok(())
}
