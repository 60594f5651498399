//! `[workload]`: arrivals, lengths, start, warm-up and stopping.

use super::check::Checker;
use super::error::ScenarioError;
use super::raw::{RawArrivals, RawTokens, RawWarmup, RawWorkload};
use super::values::StartKind;
use crate::workload::{Arrivals, CONCURRENCY_MAX, LengthColumn, Lengths, Start, TOKENS_MAX, Warmup, Workload};

/// The most replications that a scenario may ask for.
const REPLICATIONS_MAX: u32 = 10_000;

/// How many replications are run: until the interval is narrow enough, but at least `min` and at most `max`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Replications {
    /// Run in any case; at least 2, so that there is an interval.
    pub min: u32,
    /// Where a cell stops and is flagged.
    pub max: u32,
}

pub(super) fn validate(check: &Checker<'_, '_>, raw: &RawWorkload) -> Result<Workload, ScenarioError> {
    let prompt = lengths(check, "workload.prompt_tokens", raw.prompt_tokens.as_ref(), 100, LengthColumn::PromptTokens)?;
    let output =
        lengths(check, "workload.output_tokens", raw.output_tokens.as_ref(), 2048, LengthColumn::OutputTokens)?;
    let requests = check.whole("workload.requests", raw.requests.unwrap_or(200), 1..=u32::MAX)?;
    let precision = raw.precision.unwrap_or(Workload::PRECISION);
    let start = match raw.start.unwrap_or(StartKind::Random) {
        StartKind::InPhase => Start::InPhase,
        StartKind::Spread => Start::Spread,
        StartKind::Random => Start::Random,
    };
    let warmup = match raw.warmup {
        None | Some(RawWarmup::Auto) => Warmup::Auto,
        Some(RawWarmup::Requests(requests)) => Warmup::Requests(requests),
    };
    let workload = Workload::new(arrivals(check, raw)?, requests, prompt, output);
    let workload = workload.and_then(|workload| workload.with_start(start).with_warmup(warmup));
    let workload = workload.map_err(|error| check.error("workload", error.to_string()))?;
    let expected = "expected a number above 0 and below 1";
    workload.with_precision(precision).map_err(|_| check.error("workload.precision", expected))
}

pub(super) fn replications(check: &Checker<'_, '_>, raw: &RawWorkload) -> Result<Replications, ScenarioError> {
    let min = check.whole("workload.replications_min", raw.replications_min.unwrap_or(10), 2..=REPLICATIONS_MAX)?;
    // Whoever asks for more than the default maximum raises it.
    let max = raw.replications_max.unwrap_or(min.max(30));
    Ok(Replications { min, max: check.whole("workload.replications_max", max, min..=REPLICATIONS_MAX)? })
}

fn arrivals(check: &Checker<'_, '_>, raw: &RawWorkload) -> Result<Arrivals, ScenarioError> {
    match &raw.arrivals {
        None => {
            let concurrency = check.whole("workload.concurrency", raw.concurrency.unwrap_or(4), 1..=CONCURRENCY_MAX)?;
            Ok(Arrivals::ClosedLoop { concurrency })
        }
        Some(_) if raw.concurrency.is_some() => {
            let message = "both `concurrency` and `arrivals` are given, expected one of them";
            Err(check
                .error("workload.concurrency", message)
                .with_hint("a number of requests in the system makes a closed loop"))
        }
        Some(raw) => open_arrivals(check, raw),
    }
}

fn open_arrivals(check: &Checker<'_, '_>, raw: &RawArrivals) -> Result<Arrivals, ScenarioError> {
    let path = "workload.arrivals";
    match (raw.process.as_str(), raw.rate_per_s, &raw.csv) {
        ("poisson", Some(rate_per_s), None) => {
            let expected = "expected a number from 0.000001 to 1000000000";
            Arrivals::poisson(rate_per_s).map_err(|_| check.error("workload.arrivals.rate_per_s", expected))
        }
        ("poisson", ..) => Err(check.error(
            path,
            "a Poisson process is given by its `rate_per_s`, expected { process = \"poisson\", rate_per_s = 2.0 }",
        )),
        ("trace", None, Some(file)) => {
            let at_file = |message: String| check.error("workload.arrivals.csv", message);
            let arrivals_ns = check.files.arrivals(file, check.resolver).map_err(at_file)?;
            Arrivals::trace(arrivals_ns.to_vec()).map_err(|error| at_file(error.to_string()))
        }
        ("trace", ..) => {
            Err(check
                .error(path, "a trace is given by its `csv`, expected { process = \"trace\", csv = \"trace.csv\" }"))
        }
        _ => {
            let message = "unknown value, expected one of `poisson`, `trace`";
            Err(check.error("workload.arrivals.process", message).with_hint("a closed loop is concurrency = 4"))
        }
    }
}

fn lengths(
    check: &Checker<'_, '_>,
    path: &str,
    raw: Option<&RawTokens>,
    default: u32,
    column: LengthColumn,
) -> Result<Lengths, ScenarioError> {
    match raw {
        None => Ok(Lengths::Constant(default)),
        Some(&RawTokens::Constant(tokens)) => check.whole(path, tokens, 1..=TOKENS_MAX).map(Lengths::Constant),
        Some(&RawTokens::Lognormal { mean, cv }) => {
            let path = format!("{path}.lognormal");
            check.number(&format!("{path}.mean"), mean, 1.0..=f64::from(TOKENS_MAX))?;
            check.number(&format!("{path}.cv"), cv, 0.0..=10.0)?;
            Lengths::lognormal(mean, cv).map_err(|error| check.error(&path, error.to_string()))
        }
        Some(&RawTokens::Uniform { low, high }) => {
            check.whole(&format!("{path}.uniform.0"), low, 1..=TOKENS_MAX)?;
            check.whole(&format!("{path}.uniform.1"), high, low..=TOKENS_MAX)?;
            Ok(Lengths::Uniform { low, high })
        }
        Some(RawTokens::Csv(file)) => {
            let at_file = |message: String| check.error(&format!("{path}.csv"), message);
            let recorded = check.files.lengths(file, column, check.resolver).map_err(at_file)?;
            Lengths::recorded(recorded.to_vec()).map_err(|error| at_file(error.to_string()))
        }
    }
}
