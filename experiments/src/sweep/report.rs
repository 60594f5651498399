//! What a sweep prints.

use std::io::{self, Write};

use serde::Serialize;

use super::break_even::{BreakEven, break_evens};
use super::figures::EXTRAPOLATED_SHARE;
use super::row::Row;
use crate::output::origin::Origin;
use crate::output::table::{Table, significant, terminal_width};

/// The JSON document.
#[derive(Serialize)]
pub(super) struct Document<'a> {
    /// One a cell, in the order of rows.csv.
    pub(super) cells: &'a [Row],
    /// One a line of the figure.
    pub(super) break_even: Vec<BreakEven>,
}

/// The line below the figure.
pub(super) fn caption(rows: &[Row], origin: &Origin) -> Vec<String> {
    let replications = rows.iter().map(|row| row.replications);
    let (fewest, most) = (replications.clone().min().unwrap_or(0), replications.max().unwrap_or(0));
    let starts = if fewest == most { most.to_string() } else { format!("{fewest} to {most}") };
    origin.caption("simulated", Some(&format!("{starts} random starts a point")), &[])
}

/// A table a placement with a row for each N, then the break-evens.
pub(super) fn write_tables(out: &mut dyn Write, rows: &[Row]) -> io::Result<()> {
    let mut groups: Vec<Vec<&Row>> = Vec::new();
    for row in rows {
        match groups.iter_mut().find(|group| place(group[0]) == place(row)) {
            Some(group) => group.push(row),
            None => groups.push(vec![row]),
        }
    }
    let swept = rows.iter().all(|row| row.every.is_some());
    for group in &groups {
        if swept {
            writeln!(
                out,
                "{}: throughput in tokens/s, (speed-up over the large model alone)",
                place_words(place(group[0]))
            )?;
            writeln!(out, "{}", pivot(group).render(terminal_width()))?;
        } else {
            writeln!(out, "{}", place_words(place(group[0])))?;
            writeln!(out, "{}", list(group).render(terminal_width()))?;
        }
    }
    let flagged = rows.iter().any(|row| row.flagged);
    if flagged {
        writeln!(
            out,
            "* the interval is wider than wanted after all replications (starts lead to different orbits), or the warm-up is unsure"
        )?;
    }
    let extrapolated = rows.iter().filter(|row| row.extrapolated > EXTRAPOLATED_SHARE).count();
    if extrapolated > 0 {
        writeln!(
            out,
            "{extrapolated} of {} cells read more than {} % of their steps beyond the measured profile (column `extrapolated` of rows.csv)",
            rows.len(),
            EXTRAPOLATED_SHARE * 100.0
        )?;
    }
    if swept {
        if flagged || extrapolated > 0 {
            writeln!(out)?;
        }
        writeln!(out, "Break-even: the smallest N of the grid from which every larger N beats the large model alone")?;
        write!(out, "{}", break_even_table(rows).render(terminal_width()))?;
    }
    Ok(())
}

/// What the rows of one table have in common. A sweep over N has one for each combination of the `--grid` axes.
fn place(row: &Row) -> (&str, Option<&str>, &str) {
    (&row.placement, row.order.as_deref(), if row.every.is_some() { &row.grid } else { "" })
}

fn place_words((placement, order, grid): (&str, Option<&str>, &str)) -> String {
    let parts = [Some(placement), order, Some(grid).filter(|grid| !grid.is_empty())];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// Rows are N, columns are concurrencies.
fn pivot(group: &[&Row]) -> Table {
    let mut concurrencies: Vec<Option<u32>> = group.iter().map(|row| row.concurrency).collect();
    concurrencies.dedup();
    concurrencies.sort_unstable();
    concurrencies.dedup();
    let mut every: Vec<Option<u32>> = group.iter().map(|row| row.every).collect();
    every.sort_unstable();
    every.dedup();
    let mut table = Table::new().number("N").key();
    for concurrency in &concurrencies {
        table = table
            .number(&concurrency.map_or_else(|| "open loop".to_owned(), |concurrency| format!("C = {concurrency}")));
    }
    let find = |every: Option<u32>, concurrency: Option<u32>| {
        group.iter().find(|row| row.every == every && row.concurrency == concurrency)
    };
    for &every in &every {
        let cell = |&concurrency: &Option<u32>| {
            find(every, concurrency).map_or_else(String::new, |row| {
                let flag = if row.flagged { "*" } else { "" };
                format!("{}{flag} ({:.2}x)", significant(row.throughput, 4), row.speedup)
            })
        };
        let name = every.map_or_else(String::new, |every| every.to_string());
        table.row(std::iter::once(name).chain(concurrencies.iter().map(cell)));
    }
    let baseline = |&concurrency: &Option<u32>| {
        let row = group.iter().find(|row| row.concurrency == concurrency);
        row.map_or_else(String::new, |row| format!("{} (1.00x)", significant(row.baseline_throughput, 4)))
    };
    table.row(std::iter::once("large-only".to_owned()).chain(concurrencies.iter().map(baseline)));
    table
}

/// A row a cell.
fn list(group: &[&Row]) -> Table {
    let titles = [
        "throughput (tokens/s)",
        "95 % low",
        "95 % high",
        "speed-up",
        "handoffs per token",
        "large batch",
        "replications",
    ];
    let mut table = Table::new().text("grid").number("C").key();
    for title in titles {
        table = table.number(title);
    }
    for row in group {
        let flag = if row.flagged { "*" } else { "" };
        table.row([
            row.grid.clone(),
            row.concurrency.map_or_else(|| "-".to_owned(), |concurrency| concurrency.to_string()),
            format!("{}{flag}", significant(row.throughput, 5)),
            significant(row.ci_low, 5),
            significant(row.ci_high, 5),
            format!("{:.3}", row.speedup),
            significant(row.handoffs_per_token, 4),
            significant(row.large_batch_mean, 4),
            row.replications.to_string(),
        ]);
    }
    table
}

fn break_even_table(rows: &[Row]) -> Table {
    let found = break_evens(rows);
    let mut concurrencies: Vec<Option<u32>> = found.iter().map(|found| found.concurrency).collect();
    concurrencies.sort_unstable();
    concurrencies.dedup();
    let mut table = Table::new().text("placement").key();
    for concurrency in &concurrencies {
        table = table
            .number(&concurrency.map_or_else(|| "open loop".to_owned(), |concurrency| format!("C = {concurrency}")));
    }
    let place = |found: &BreakEven| (found.placement.clone(), found.order.clone(), found.grid.clone());
    let mut places: Vec<_> = found.iter().map(place).collect();
    places.dedup();
    for (placement, order, grid) in places {
        let cell = |&concurrency: &Option<u32>| {
            let of_line = |found: &&BreakEven| {
                (&found.placement, &found.order, &found.grid, found.concurrency)
                    == (&placement, &order, &grid, concurrency)
            };
            found.iter().find(of_line).map_or_else(String::new, break_even_words)
        };
        let name = place_words((&placement, order.as_deref(), &grid));
        table.row(std::iter::once(name).chain(concurrencies.iter().map(cell)));
    }
    table
}

/// `N = 8`, `N <= 1` where even the smallest N wins, `none` with the N that win all the same.
pub(crate) fn break_even_words(found: &BreakEven) -> String {
    match found.every {
        Some(every) if found.at_grid_edge => format!("N <= {every}"),
        Some(every) => {
            let smaller: Vec<String> = found.wins.iter().filter(|&&win| win < every).map(u32::to_string).collect();
            if smaller.is_empty() {
                format!("N = {every}")
            } else {
                format!("N = {every} (and {})", smaller.join(", "))
            }
        }
        None if found.wins.is_empty() => "none".to_owned(),
        None => format!("none (wins at {})", found.wins.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")),
    }
}
