//! What a validation prints.

use std::io::{self, Write};

use serde::Serialize;

use super::compare::{BothBreakEven, BothThreshold, Group, break_evens, groups, thresholds};
use super::row::Row;
use crate::output::table::{Table, significant, terminal_width};

/// The JSON document. Errors are relative; the first ones are over all cells but baselines.
#[derive(Serialize)]
pub(super) struct Document<'a> {
    device: &'a str,
    weights: &'a str,
    cells: Vec<&'a Row>,
    /// The large model alone.
    baselines: Vec<&'a Row>,
    mape: Option<f64>,
    max_error: Option<f64>,
    bias: Option<f64>,
    kendall_tau: Option<f64>,
    groups: Vec<Group>,
    break_even: Vec<BothBreakEven>,
    thresholds: Vec<BothThreshold>,
}

impl<'a> Document<'a> {
    pub(super) fn of(rows: &'a [Row], device: &'a str, weights: &'a str) -> Self {
        let groups = groups(rows);
        let all = groups.iter().find(|group| group.group == "all cells");
        Self {
            device,
            weights,
            cells: rows.iter().filter(|row| !row.is_baseline()).collect(),
            baselines: rows.iter().filter(|row| row.is_baseline()).collect(),
            mape: all.map(|all| all.mape),
            max_error: all.map(|all| all.max_error),
            bias: all.map(|all| all.bias),
            kendall_tau: all.and_then(|all| all.kendall_tau),
            break_even: break_evens(rows),
            thresholds: thresholds(rows),
            groups,
        }
    }
}

/// Spread of repeated measurements from which on the machine is called noisy.
const NOISY_SPREAD: f64 = 0.05;

/// The cells, what they agree in, and what follows from them on each side.
pub(super) fn write_tables(out: &mut dyn Write, rows: &[Row], device: &str, weights: &str) -> io::Result<()> {
    let (starts, seconds) = rows.first().map_or((0, 0.0), |row| (row.starts, row.seconds));
    writeln!(
        out,
        "throughput in tokens/s on {device}, {weights} weights; {starts} random starts of {seconds} s, the same on both sides"
    )?;
    writeln!(out, "{}", cells(rows).render(terminal_width()))?;
    writeln!(out, "inside: predicted / measured")?;
    writeln!(out, "{}", internals(rows).render(terminal_width()))?;
    writeln!(out, "agreement: error = predicted / measured - 1, in %")?;
    writeln!(out, "{}", agreement(&groups(rows)).render(terminal_width()))?;
    let found = break_evens(rows);
    if !found.is_empty() {
        let mut table = Table::new()
            .text("placement")
            .number("C")
            .key()
            .text("break-even N, predicted")
            .text("measured")
            .text("same")
            .text("wins, predicted")
            .text("wins, measured");
        for line in &found {
            let one = |every: Option<u32>| every.map_or_else(|| "none".to_owned(), |every| every.to_string());
            let shown = |every: Option<u32>, [low, high]: [Option<u32>; 2]| {
                if low == high { one(every) } else { format!("{} ({} to {})", one(every), one(low), one(high)) }
            };
            table.row([
                place(&line.placement, line.order.as_deref()),
                line.concurrency.to_string(),
                shown(line.predicted, line.predicted_range),
                shown(line.measured, line.measured_range),
                if line.same { "yes" } else { "no" }.to_owned(),
                list(&line.predicted_wins),
                list(&line.measured_wins),
            ]);
        }
        writeln!(out, "{}", table.render(terminal_width()))?;
        if found.iter().any(|line| {
            line.predicted_range[0] != line.predicted_range[1] || line.measured_range[0] != line.measured_range[1]
        }) {
            writeln!(out, "in brackets: where the random starts leave it open")?;
        }
    }
    let found = thresholds(rows);
    if !found.is_empty() {
        let mut table = Table::new()
            .text("placement")
            .number("p")
            .number("C")
            .key()
            .number("best threshold, predicted")
            .number("measured")
            .number("regret (%)");
        for line in &found {
            table.row([
                place(&line.placement, line.order.as_deref()),
                line.p.to_string(),
                line.concurrency.to_string(),
                line.predicted.to_string(),
                line.measured.to_string(),
                significant(line.regret * 100.0, 2),
            ]);
        }
        writeln!(out, "{}", table.render(terminal_width()))?;
    }
    let spread = rows.iter().filter_map(|row| row.repeat_spread).fold(0.0, f64::max);
    if spread > NOISY_SPREAD {
        writeln!(
            out,
            "measurements repeated from the same start differ by up to {} %: the machine was not quiet, and errors of that size say nothing",
            significant(spread * 100.0, 2)
        )?;
    }
    let beyond = rows.iter().filter(|row| row.extrapolated > 0.02).count();
    if beyond > 0 {
        writeln!(
            out,
            "{beyond} of {} cells read more than 2 % of their steps beyond the profile (column `extrapolated` of rows.csv)",
            rows.len()
        )?;
    }
    Ok(())
}

fn place(placement: &str, order: Option<&str>) -> String {
    order.map_or_else(|| placement.to_owned(), |order| format!("{placement}, {order}"))
}

fn list(numbers: &[u32]) -> String {
    if numbers.is_empty() {
        "none".to_owned()
    } else {
        numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(" ")
    }
}

/// What tells a row from the others.
fn names(row: &Row) -> [String; 4] {
    let routing = match (row.every, row.p) {
        (Some(every), _) => format!("N = {every}"),
        (_, Some(p)) => format!("p = {p}"),
        _ => "large-only".to_owned(),
    };
    [row.place(), routing, row.threshold.to_string(), row.concurrency.to_string()]
}

fn keyed() -> Table {
    Table::new().text("placement").text("routing").number("B").number("C").key()
}

fn cells(rows: &[Row]) -> Table {
    let mut table = keyed()
        .number("analytic")
        .number("predicted")
        .number("lowest")
        .number("highest")
        .number("measured")
        .number("lowest")
        .number("highest")
        .number("error (%)")
        .text("in range")
        .number("repeat spread (%)");
    let number = |value: f64| significant(value, 4);
    for row in rows {
        let values = [
            row.analytic.map_or_else(|| "-".to_owned(), number),
            number(row.predicted),
            number(row.predicted_low),
            number(row.predicted_high),
            number(row.measured),
            number(row.measured_low),
            number(row.measured_high),
            format!("{:+.1}", row.error * 100.0),
            if row.in_range { "yes" } else { "no" }.to_owned(),
            row.repeat_spread.map_or_else(|| "-".to_owned(), |spread| significant(spread * 100.0, 2)),
        ];
        table.row(names(row).into_iter().chain(values));
    }
    table
}

fn internals(rows: &[Row]) -> Table {
    let mut table = keyed()
        .text("small batch")
        .text("large batch")
        .text("small step (ms)")
        .text("large step (ms)")
        .text("small busy (%)")
        .text("large busy (%)")
        .text("small admission (ms)")
        .text("large admission (ms)")
        .text("routed (%)");
    let both = |predicted: f64, measured: f64| format!("{} / {}", significant(predicted, 3), significant(measured, 3));
    for row in rows {
        let values = [
            both(row.predicted_small_batch, row.measured_small_batch),
            both(row.predicted_large_batch, row.measured_large_batch),
            both(row.predicted_small_step_ms, row.measured_small_step_ms),
            both(row.predicted_large_step_ms, row.measured_large_step_ms),
            both(row.predicted_small_utilisation * 100.0, row.measured_small_utilisation * 100.0),
            both(row.predicted_large_utilisation * 100.0, row.measured_large_utilisation * 100.0),
            both(row.predicted_small_admission_ms, row.measured_small_admission_ms),
            both(row.predicted_large_admission_ms, row.measured_large_admission_ms),
            both(row.predicted_routed_fraction * 100.0, row.measured_routed_fraction * 100.0),
        ];
        table.row(names(row).into_iter().chain(values));
    }
    table
}

fn agreement(groups: &[Group]) -> Table {
    let mut table = Table::new()
        .text("cells")
        .key()
        .number("n")
        .number("mean absolute error (%)")
        .number("largest (%)")
        .number("bias (%)")
        .number("Kendall tau")
        .number("in range (%)")
        .number("repeat spread, largest (%)");
    let percent = |share: f64| significant(share * 100.0, 3);
    for group in groups {
        table.row([
            group.group.clone(),
            group.cells.to_string(),
            percent(group.mape),
            percent(group.max_error),
            format!("{:+.2}", group.bias * 100.0),
            group.kendall_tau.map_or_else(|| "-".to_owned(), |tau| significant(tau, 3)),
            percent(group.in_range),
            group.repeat_spread.map_or_else(|| "-".to_owned(), percent),
        ]);
    }
    table
}
