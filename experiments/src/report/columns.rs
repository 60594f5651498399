//! What the columns of all files mean: the one place where it is written for people.

use super::origin::Origin;

/// Where the values of a column come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// They tell the row from the others: what was asked for.
    Key,
    /// What the run computed or measured, as the manifest's device says.
    Run,
    Simulated,
    Measured,
    Analytic,
    /// By the method that the row names.
    Method,
    Published,
    /// From other columns of the row.
    Derived,
    /// How the row was obtained.
    Fact,
    /// The column is not in the lists below.
    Unknown,
}

/// A column.
#[derive(Clone, Copy, Debug)]
pub(super) struct Meaning {
    pub(super) text: &'static str,
    /// Empty if the value has none.
    pub(super) unit: &'static str,
    pub(super) source: Source,
    /// Whether the column is shown before all columns are asked for.
    pub(super) is_main: bool,
}

type Entry = (&'static str, &'static str, &'static str, Source, bool);

const MAIN: bool = true;
const MORE: bool = false;

/// The column called `name` of a command's file.
pub(super) fn meaning(command: &str, file: &str, name: &str) -> Meaning {
    let own: &[Entry] = match (command, file) {
        (_, "profile.csv") => PROFILE,
        (_, "held_out.csv") => HELD_OUT,
        ("paper", "parameters.csv") => PARAMETERS,
        ("paper", _) => PAPER,
        ("tune", _) => TUNE,
        ("validate", _) => VALIDATE,
        _ => &[],
    };
    let find = |entries: &[Entry]| entries.iter().find(|entry| entry.0 == name).copied();
    let (_, text, unit, source, is_main) =
        find(own).or_else(|| find(COMMON)).unwrap_or(("", "", "", Source::Unknown, MAIN));
    Meaning { text, unit, source, is_main }
}

/// The source in words.
pub(super) fn source_words(source: Source, origin: &Origin) -> String {
    match source {
        Source::Key => "asked for: tells this row from the others".to_owned(),
        Source::Run if origin.is_simulated() => "simulated".to_owned(),
        Source::Run => format!("measured on {}", origin.device),
        Source::Simulated => "simulated".to_owned(),
        Source::Measured => format!("measured on {}", origin.device),
        Source::Analytic => "analytic: a formula or an exact chain".to_owned(),
        Source::Method => "by the method that the row names".to_owned(),
        Source::Published => "published".to_owned(),
        Source::Derived => "derived from other columns of the row".to_owned(),
        Source::Fact => "how the row was obtained".to_owned(),
        Source::Unknown => String::new(),
    }
}

use Source::{Analytic, Derived, Fact, Key, Measured, Method, Published, Run, Simulated};

/// Columns of `sweep`, `simulate` and `measure`, and those that have one meaning everywhere.
const COMMON: &[Entry] = &[
    (
        "placement",
        "where the models run: devices of their own, or one device side by side or one at a time",
        "",
        Key,
        MAIN,
    ),
    ("order", "who goes first where models take turns on one device", "", Key, MAIN),
    ("policy", "who decides where a request goes next", "", Key, MAIN),
    ("mode", "scheduling mode", "", Key, MAIN),
    ("every", "tokens per visit N, for both models", "tokens", Key, MAIN),
    ("concurrency", "requests in the system, C", "requests", Key, MAIN),
    ("grid", "overrides of the --grid axes", "", Key, MAIN),
    ("throughput", "committed tokens per second, mean over replications", "tokens/s", Run, MAIN),
    ("ci_low", "lower end of the throughput's 95 % interval", "tokens/s", Run, MAIN),
    ("ci_high", "upper end of the throughput's 95 % interval", "tokens/s", Run, MAIN),
    ("handoffs_per_token", "changes of model per committed token, in both directions", "", Run, MAIN),
    ("speedup", "throughput over that of the large model alone on one device", "", Derived, MAIN),
    ("baseline_throughput", "throughput of the large model alone on one device", "tokens/s", Run, MAIN),
    ("baseline_ci_low", "lower end of the baseline's 95 % interval", "tokens/s", Run, MORE),
    ("baseline_ci_high", "upper end of the baseline's 95 % interval", "tokens/s", Run, MORE),
    ("speedup_two_replicas", "throughput over that of two large models that share the requests", "", Derived, MORE),
    ("orbit_low", "throughput of the slowest start", "tokens/s", Run, MORE),
    ("orbit_high", "throughput of the fastest start", "tokens/s", Run, MORE),
    ("large_batch_mean", "rows a step of the large model, mean over starts", "rows", Run, MAIN),
    ("large_batch_low", "rows a step of the large model in the start where it is smallest", "rows", Run, MORE),
    ("large_batch_high", "rows a step of the large model in the start where it is largest", "rows", Run, MORE),
    ("small_batch_mean", "rows a step of the entry model, mean over starts", "rows", Run, MORE),
    ("small_utilisation", "share of time that a forward of the entry model ran", "", Run, MORE),
    ("large_utilisation", "share of time that a forward of the large model ran", "", Run, MORE),
    ("small_admission_ms", "mean batch admission delay at the entry model", "ms", Run, MORE),
    ("large_admission_ms", "mean batch admission delay at the large model", "ms", Run, MORE),
    ("large_extend_tokens", "new tokens an extend row of the large model", "tokens", Run, MORE),
    ("dropped_per_token", "dropped tokens per committed token", "", Run, MORE),
    ("ttft_s", "mean time to first token", "s", Run, MORE),
    ("tpot_s", "mean time per output token after the first", "s", Run, MORE),
    ("latency_s", "mean end-to-end latency", "s", Run, MORE),
    ("ttft_mean_s", "mean time to first token", "s", Run, MORE),
    ("ttft_p99_s", "time to first token that 99 % of requests stay below", "s", Run, MORE),
    ("tpot_mean_s", "mean time per output token after the first", "s", Run, MORE),
    ("tpot_p99_s", "time per output token that 99 % of requests stay below", "s", Run, MORE),
    ("latency_mean_s", "mean end-to-end latency", "s", Run, MORE),
    ("latency_p99_s", "end-to-end latency that 99 % of requests stay below", "s", Run, MORE),
    (
        "flagged",
        "the interval is wider than wanted after all replications, or the warm-up could not be found",
        "",
        Fact,
        MAIN,
    ),
    ("extrapolated", "share of steps whose time was read beyond the measured profile", "", Fact, MORE),
    ("replications", "replications, each from its own random start", "", Fact, MORE),
    ("warmup_requests", "finished requests of each warm-up", "requests", Fact, MORE),
    ("tokens", "tokens committed in all windows", "tokens", Fact, MORE),
    ("seconds", "length of all windows together", "s", Fact, MORE),
    ("seed", "the random seed", "", Fact, MORE),
];

const VALIDATE: &[Entry] = &[
    ("placement", "where the models run; `alone` is the large model by itself", "", Key, MAIN),
    ("p", "probability of R2R's law", "", Key, MAIN),
    ("threshold", "threshold B of the large model", "rows", Key, MAIN),
    ("analytic", "throughput by a formula or an exact chain, where one applies", "tokens/s", Analytic, MORE),
    ("predicted", "throughput predicted from the profile alone, mean over starts", "tokens/s", Simulated, MAIN),
    ("predicted_low", "predicted throughput of the slowest start", "tokens/s", Simulated, MORE),
    ("predicted_high", "predicted throughput of the fastest start", "tokens/s", Simulated, MORE),
    ("measured", "measured throughput, mean over starts", "tokens/s", Measured, MAIN),
    ("measured_low", "measured throughput of the slowest start", "tokens/s", Measured, MORE),
    ("measured_high", "measured throughput of the fastest start", "tokens/s", Measured, MORE),
    ("error", "predicted / measured - 1", "", Derived, MAIN),
    ("in_range", "whether the measured mean lies between the lowest and the highest prediction", "", Derived, MAIN),
    ("repeat_spread", "(highest - lowest) / mean of measurements repeated from the same start", "", Measured, MORE),
    (
        "above_saturation",
        "whether the busiest device is predicted to be busy for at least 95 % of the time",
        "",
        Simulated,
        MORE,
    ),
    ("extrapolated", "share of predicted steps beyond the profile", "", Simulated, MORE),
    ("predicted_small_batch", "rows a step of the small model", "rows", Simulated, MORE),
    ("measured_small_batch", "rows a step of the small model", "rows", Measured, MORE),
    ("predicted_large_batch", "rows a step of the large model", "rows", Simulated, MORE),
    ("measured_large_batch", "rows a step of the large model", "rows", Measured, MORE),
    ("predicted_small_step_ms", "mean step latency of the small model", "ms", Simulated, MORE),
    ("measured_small_step_ms", "mean step latency of the small model", "ms", Measured, MORE),
    ("predicted_large_step_ms", "mean step latency of the large model", "ms", Simulated, MORE),
    ("measured_large_step_ms", "mean step latency of the large model", "ms", Measured, MORE),
    ("predicted_small_utilisation", "share of time that a forward of the small model ran", "", Simulated, MORE),
    ("measured_small_utilisation", "share of time that a forward of the small model ran", "", Measured, MORE),
    ("predicted_large_utilisation", "share of time that a forward of the large model ran", "", Simulated, MORE),
    ("measured_large_utilisation", "share of time that a forward of the large model ran", "", Measured, MORE),
    ("predicted_small_admission_ms", "mean batch admission delay at the small model", "ms", Simulated, MORE),
    ("measured_small_admission_ms", "mean batch admission delay at the small model", "ms", Measured, MORE),
    ("predicted_large_admission_ms", "mean batch admission delay at the large model", "ms", Simulated, MORE),
    ("measured_large_admission_ms", "mean batch admission delay at the large model", "ms", Measured, MORE),
    (
        "predicted_routed_fraction",
        "share of the small model's tokens after which the request goes to the large one",
        "",
        Simulated,
        MORE,
    ),
    (
        "measured_routed_fraction",
        "share of the small model's tokens after which the request goes to the large one",
        "",
        Measured,
        MORE,
    ),
    ("predicted_handoffs_per_token", "changes of model per committed token", "", Simulated, MORE),
    ("measured_handoffs_per_token", "changes of model per committed token", "", Measured, MORE),
    ("tokens", "tokens measured, over all starts", "tokens", Fact, MORE),
    ("starts", "random starts, the same on both sides", "", Fact, MORE),
    ("seconds", "time measured for each start, after the warm-up", "s", Fact, MORE),
    ("warmup_seconds", "warm-up of each start", "s", Fact, MORE),
];

const TUNE: &[Entry] = &[
    ("rank", "place in the ranking, the best first", "", Key, MAIN),
    ("thresholds", "threshold of each model, in the order of the scenario", "rows", Key, MAIN),
    ("mode", "scheduling mode; `delayed` with the best thresholds, or `large-only`", "", Key, MAIN),
    ("throughput", "committed tokens per second", "tokens/s", Method, MAIN),
    ("ci_low", "lower end of the 95 % interval; empty for a value without noise", "tokens/s", Method, MAIN),
    ("ci_high", "upper end of the 95 % interval; empty for a value without noise", "tokens/s", Method, MAIN),
    ("loss", "share of throughput lost against the best", "", Derived, MAIN),
    ("method", "where the throughput comes from: exact chain, mean field or simulation", "", Fact, MAIN),
    ("thresholds_by", "method that chose the thresholds; the throughput is simulated everywhere", "", Fact, MAIN),
];

const PROFILE: &[Entry] = &[
    ("device", "what was measured", "", Key, MAIN),
    ("model", "the model that was timed", "", Key, MAIN),
    ("kind", "what was timed: decode, extend, hop, router, host or corun", "", Key, MAIN),
    ("graph", "whether CUDA graphs were on", "", Key, MAIN),
    ("rows", "rows of the batch", "rows", Key, MAIN),
    ("new_tokens", "new tokens of each row", "tokens", Key, MAIN),
    ("kv_tokens", "kept tokens of each row", "tokens", Key, MAIN),
    ("peer_model", "the model that ran beside it", "", Key, MAIN),
    ("peer_rows", "rows of the model beside it", "rows", Key, MAIN),
    ("rate", "speed of a step while the other model runs on the same device, 0 to 1", "", Measured, MAIN),
    ("mean_us", "mean time", "us", Measured, MAIN),
    ("p50_us", "time that half of the repeats stay below", "us", Measured, MAIN),
    ("p99_us", "time that 99 % of the repeats stay below", "us", Measured, MAIN),
    ("repeats", "number of measurements", "", Fact, MAIN),
];

const HELD_OUT: &[Entry] = &[
    ("model", "the model that was timed", "", Key, MAIN),
    ("graph", "whether CUDA graphs were on", "", Key, MAIN),
    ("rows", "rows of the batch", "rows", Key, MAIN),
    ("new_tokens", "new tokens of each row", "tokens", Key, MAIN),
    ("kv_tokens", "kept tokens of each row", "tokens", Key, MAIN),
    ("measured_us", "mean time at a point that the profile does not hold", "us", Measured, MAIN),
    ("predicted_us", "what the profile says there, by interpolation", "us", Derived, MAIN),
    ("error", "predicted / measured - 1", "", Derived, MAIN),
];

const PAPER: &[Entry] = &[
    ("table", "the published table", "", Key, MAIN),
    ("row", "row of the published table", "", Key, MAIN),
    ("column", "column of the published table", "", Key, MAIN),
    ("panel", "panel of the figure that shows the cell", "", Fact, MORE),
    ("line", "line of that panel", "", Fact, MORE),
    ("x", "place of the cell on the horizontal axis", "", Fact, MORE),
    ("published", "the published figure, in the table's own unit", "", Published, MAIN),
    (
        "predicted",
        "the prediction, in the same unit; from a formula at concurrency 1, else simulated",
        "",
        Simulated,
        MAIN,
    ),
    ("error", "predicted / published - 1; empty for cells that a parameter was fitted on", "", Derived, MAIN),
    ("calibrated_on_it", "whether a parameter was fitted on this cell", "", Fact, MAIN),
    ("fit_residual", "predicted / published - 1 of a cell that a parameter was fitted on", "", Derived, MAIN),
    ("threshold", "threshold B of the large model in the prediction", "rows", Fact, MAIN),
    ("claim", "what is claimed in public", "", Key, MAIN),
    ("value", "the numbers", "", Derived, MAIN),
    ("verdict", "what the numbers say of the claim", "", Derived, MAIN),
    ("basis", "where the numbers come from, and what decides", "", Fact, MAIN),
];

const PARAMETERS: &[Entry] = &[
    ("table", "the table that the parameter belongs to; `machine` for all", "", Key, MAIN),
    ("name", "the parameter", "", Key, MAIN),
    ("value", "its value, in the unit of the row", "", Derived, MAIN),
    ("unit", "the unit of the value", "", Fact, MAIN),
    ("fitted_on", "the published cells that it was fitted on", "", Fact, MAIN),
];
