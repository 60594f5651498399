//! One run on the machine, and what decides it.

use std::sync::Arc;

use handoff_backend::Prompts;
use handoff_backend::driver::{DriverOptions, Executor, Measurement, measure};
use handoff_backend::record::RunLog;
use handoff_sim::engine::{EngineConfig, Window};
use handoff_sim::scenario::Scenario;
use handoff_sim::workload::Warmup;

use crate::cli::Measure;
use crate::failure::Failure;
use crate::machine::{Limits, Plan};
use crate::message::say;
use crate::output::StoreError;
use crate::output::atomic;
use crate::trace::{self, Provenance, TraceObserver};

/// Seconds that a cell takes, instead of a number of requests.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Span {
    /// Before measurement starts.
    pub(crate) warmup_seconds: f64,
    /// Measured.
    pub(crate) seconds: f64,
}

impl Span {
    /// What `--seconds` and `--warmup-seconds` ask for.
    pub(crate) fn of(seconds: Option<f64>, warmup_seconds: f64) -> Result<Option<Self>, Failure> {
        const LONGEST: f64 = 86_400.0;
        if !(0.0..=LONGEST).contains(&warmup_seconds) {
            let message = format!("--warmup-seconds {warmup_seconds}: expected a number from 0 to {LONGEST}");
            return Err(Failure::Argument(message));
        }
        match seconds {
            None => Ok(None),
            Some(seconds) if seconds > 0.0 && seconds <= LONGEST => Ok(Some(Self { warmup_seconds, seconds })),
            Some(seconds) => {
                Err(Failure::Argument(format!("--seconds {seconds}: expected a number above 0 and at most {LONGEST}")))
            }
        }
    }

    /// The window of a run.
    pub(crate) fn window(self) -> Window {
        let ns = |seconds: f64| (seconds * 1e9).round() as u64;
        Window::Time { warmup_ns: ns(self.warmup_seconds), measured_ns: ns(self.seconds) }
    }
}

/// The window that the scenario asks for, unless `span` gives one. An automatic warm-up is one generation of a closed loop: a pilot run, as the
/// simulator makes it, would take as long as the measurement.
pub(crate) fn window_of(config: &EngineConfig, span: Option<Span>) -> Window {
    let workload = &config.workload;
    span.map_or_else(
        || Window::Requests {
            warmup_requests: match workload.warmup() {
                Warmup::Requests(requests) => u64::from(requests),
                Warmup::Auto => u64::from(workload.arrivals().concurrency().unwrap_or(0)),
            },
            requests: u64::from(workload.requests()),
        },
        Span::window,
    )
}

/// The most that a scenario asks of the machine.
pub(crate) fn limits_of(scenario: &Scenario) -> Limits {
    /// Requests of an open loop that are there at once before they have to wait.
    const OPEN_REQUESTS: u32 = 256;
    let workload = scenario.workload();
    Limits {
        requests: workload.arrivals().concurrency().unwrap_or(OPEN_REQUESTS),
        request_tokens: workload.tokens_max(),
        new_tokens: NEW_TOKENS,
    }
}

/// Longest extend row whose shapes are warmed up; longer ones are rare and run without a graph.
const NEW_TOKENS: u32 = 128;

impl Limits {
    /// Enough for both.
    pub(crate) fn or(self, other: Self) -> Self {
        Self {
            requests: self.requests.max(other.requests),
            request_tokens: self.request_tokens.max(other.request_tokens),
            new_tokens: self.new_tokens.max(other.new_tokens),
        }
    }
}

/// One run.
pub(crate) struct Run<'a> {
    /// What runs, with the budgets that the machine has.
    pub(crate) config: &'a EngineConfig,
    /// Of routes, lengths and the start.
    pub(crate) seed: u64,
    /// What is measured.
    pub(crate) window: Window,
    /// Whether every event is kept. A run that is timed keeps none.
    pub(crate) keep_log: bool,
    /// What requests ask, instead of random token ids.
    pub(crate) prompts: Option<Arc<Prompts>>,
}

impl Run<'_> {
    /// Runs it. `cell` begins the text of an error.
    pub(crate) fn measure(
        &self,
        plan: &Plan,
        executors: &mut [Box<dyn Executor>],
        cell: &str,
    ) -> Result<Measurement, Failure> {
        let options = DriverOptions {
            waiting: plan.waiting,
            hop_ns: self.config.hop_ns,
            keep_log: self.keep_log,
            prompts: self.prompts.clone(),
            ..DriverOptions::default()
        };
        let measured = measure(self.config, executors, self.seed, self.window, &options);
        let measurement = measured.map_err(|error| Failure::Driver { cell: cell.to_owned(), error })?;
        if measurement.metrics.window_ns() == 0 {
            return Err(Failure::NoTime { cell: cell.to_owned() });
        }
        Ok(measurement)
    }
}

/// Writes what `--routes` and `--trace` ask for.
pub(super) fn write_logs(
    arguments: &Measure,
    config: &EngineConfig,
    log: &RunLog,
    provenance: impl FnOnce() -> Provenance,
) -> Result<(), Failure> {
    if let Some(path) = &arguments.trace {
        let mut observer = TraceObserver::of(config);
        log.watch(&mut observer);
        trace::write_file(path, observer, &provenance())?;
    }
    if let Some(path) = &arguments.routes {
        let mut bytes = Vec::new();
        log.write_routes(&mut bytes)?;
        atomic::write_file(path, &bytes).map_err(|source| StoreError::Io {
            action: "write",
            path: path.clone(),
            source,
        })?;
        say(format_args!("wrote the route record to `{}`", path.display()));
    }
    Ok(())
}
