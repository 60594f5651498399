//! What `simulate` prints for people.

use std::io::{self, Write};

use super::document::{Document, Latency, Mean, Row};
use crate::output::table::{Table, significant, terminal_width};

/// The report of one scenario.
pub(super) fn write_report(out: &mut dyn Write, document: &Document) -> io::Result<()> {
    let order = document.order.as_ref().map_or_else(String::new, |order| format!(", {order}"));
    let load =
        document.concurrency.map_or_else(|| "open loop".to_owned(), |concurrency| format!("concurrency {concurrency}"));
    writeln!(
        out,
        "policy {}, mode {}, placement {}{order}, {load}, seed {}",
        document.policy, document.mode, document.placement, document.seed
    )?;
    writeln!(
        out,
        "throughput {} tokens/s (95 % interval {} to {}; {} replications of {} warm-up requests, {} tokens in {} simulated s)",
        significant(document.throughput, 5),
        significant(document.ci_low, 5),
        significant(document.ci_high, 5),
        document.replications,
        document.warmup_requests,
        document.tokens,
        significant(document.seconds, 5),
    )?;
    writeln!(
        out,
        "throughput of the slowest and the fastest start: {} and {} tokens/s",
        significant(document.orbit_low, 5),
        significant(document.orbit_high, 5)
    )?;
    writeln!(
        out,
        "handoffs per token {}, dropped per token {}, preemptions {}",
        interval(document.handoffs_per_token),
        interval(document.dropped_per_token),
        document.preemptions
    )?;
    if document.flagged {
        let why = if document.warmup_unsure {
            "the run is too short to tell where its warm-up ends"
        } else {
            "the interval is wider than wanted after all replications"
        };
        writeln!(out, "flagged: {why}")?;
    }
    if document.extrapolated > 0.0 {
        writeln!(
            out,
            "extrapolated: {} % of steps lie beyond the measured profile",
            significant(document.extrapolated * 100.0, 3)
        )?;
    }
    let mut latencies = Table::new()
        .text("latency (s)")
        .key()
        .number("mean")
        .number("95 % low")
        .number("95 % high")
        .number("p50")
        .number("p90")
        .number("p99");
    for (name, latency) in [
        ("time to first token", document.ttft),
        ("time per output token", document.tpot),
        ("end to end", document.latency),
    ] {
        latencies.row(std::iter::once(name.to_owned()).chain(latency_cells(latency)));
    }
    for model in &document.models {
        latencies.row(
            std::iter::once(format!("admission delay, {}", model.name)).chain(latency_cells(model.admission_delay_s)),
        );
    }
    write!(out, "\n{}", latencies.render(terminal_width()))?;
    let mut table = Table::new().text("model").key();
    for title in [
        "utilisation",
        "batch (rows)",
        "lowest start",
        "highest start",
        "in service",
        "waiting",
        "token share",
        "run length (tokens)",
        "extend (tokens)",
        "routed",
        "dropped",
        "decode rows",
        "extend rows",
        "prefill rows",
    ] {
        table = table.number(title);
    }
    for model in &document.models {
        let means = [model.utilisation, model.batch].map(|mean| significant(mean.mean, 4));
        let ends = [model.batch_low, model.batch_high].map(|value| significant(value, 4));
        let more = [
            model.in_service,
            model.waiting,
            model.token_share,
            model.run_length_tokens,
            model.extend_tokens,
            model.routed_fraction,
            model.dropped_fraction,
        ]
        .map(|mean| significant(mean.mean, 4));
        let rows = [model.rows.decode, model.rows.extend, model.rows.prefill].map(|rows| rows.to_string());
        table.row(std::iter::once(model.name.clone()).chain(means).chain(ends).chain(more).chain(rows));
    }
    write!(out, "\n{}", table.render(terminal_width()))
}

/// A row a cell.
pub(crate) fn write_grid(out: &mut dyn Write, rows: &[Row]) -> io::Result<()> {
    let mut table = Table::new().text("grid").key();
    for title in [
        "throughput (tokens/s)",
        "95 % low",
        "95 % high",
        "handoffs per token",
        "small batch",
        "large batch",
        "TTFT (s)",
        "TPOT (s)",
        "latency (s)",
        "replications",
    ] {
        table = table.number(title);
    }
    for row in rows {
        let flag = if row.flagged { "*" } else { "" };
        let means = [
            row.ci_low,
            row.ci_high,
            row.handoffs_per_token,
            row.small_batch_mean,
            row.large_batch_mean,
            row.ttft_mean_s,
            row.tpot_mean_s,
            row.latency_mean_s,
        ];
        table.row(
            [row.grid.clone(), format!("{}{flag}", significant(row.throughput, 5))]
                .into_iter()
                .chain(means.map(|value| significant(value, 4)))
                .chain([row.replications.to_string()]),
        );
    }
    write!(out, "{}", table.render(terminal_width()))
}

fn latency_cells(latency: Latency) -> [String; 6] {
    let shown = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| significant(value, 4));
    let Latency { mean: Mean { mean, ci_low, ci_high }, p50, p90, p99 } = latency;
    [significant(mean, 4), shown(ci_low), shown(ci_high), shown(p50), shown(p90), shown(p99)]
}

fn interval(mean: Mean) -> String {
    match (mean.ci_low, mean.ci_high) {
        (Some(low), Some(high)) => {
            format!("{} ({} to {})", significant(mean.mean, 4), significant(low, 4), significant(high, 4))
        }
        _ => significant(mean.mean, 4),
    }
}
