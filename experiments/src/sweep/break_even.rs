//! Break-even: from which N on routing beats the large model alone.

use serde::Serialize;

use super::row::Row;

/// Where routing starts to pay, for one line of the figure.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct BreakEven {
    /// `separate`, `overlapped` or `exclusive`.
    pub(crate) placement: String,
    /// The order of an exclusive placement.
    pub(crate) order: Option<String>,
    /// Requests in the system.
    pub(crate) concurrency: Option<u32>,
    /// Overrides of the `--grid` axes.
    pub(crate) grid: String,
    /// The smallest N of the grid from which every larger N of the grid has a speed-up of at least 1; null if none.
    pub(crate) every: Option<u32>,
    /// Every N of the grid with a speed-up of at least 1.
    pub(crate) wins: Vec<u32>,
    /// The break-even is the smallest N of the grid: the true one may be smaller.
    pub(crate) at_grid_edge: bool,
}

/// One break-even a line, in the order of the rows. Rows of another policy than every-N have none.
pub(crate) fn break_evens(rows: &[Row]) -> Vec<BreakEven> {
    lines(rows).iter().filter_map(|line| break_even(line)).collect()
}

/// The rows that differ in N alone, each group by rising N.
pub(crate) fn lines(rows: &[Row]) -> Vec<Vec<&Row>> {
    let mut lines: Vec<Vec<&Row>> = Vec::new();
    for row in rows {
        match lines.iter_mut().find(|line| same_line(line[0], row)) {
            Some(line) => line.push(row),
            None => lines.push(vec![row]),
        }
    }
    lines.iter_mut().for_each(|line| line.sort_by_key(|row| row.every));
    lines
}

fn same_line(left: &Row, right: &Row) -> bool {
    (&left.placement, &left.order, left.concurrency, &left.grid)
        == (&right.placement, &right.order, right.concurrency, &right.grid)
}

/// Whether a speed-up is at least 1. Two systems that are equally fast on paper differ in the last digits of their means.
pub(crate) fn wins(speedup: f64) -> bool {
    const ROUNDING: f64 = 1e-9;
    speedup >= 1.0 - ROUNDING
}

/// The smallest N from which every larger one wins, of speed-ups by rising N.
pub(crate) fn smallest_every(speedups: &[(u32, f64)]) -> Option<u32> {
    let from = speedups.iter().rposition(|&(_, speedup)| !wins(speedup)).map_or(0, |position| position + 1);
    speedups.get(from).map(|&(every, _)| every)
}

fn break_even(line: &[&Row]) -> Option<BreakEven> {
    let first = line.first()?;
    let speedups: Option<Vec<(u32, f64)>> =
        line.iter().map(|row| row.every.map(|every| (every, row.speedup))).collect();
    let speedups = speedups?;
    let every = smallest_every(&speedups);
    Some(BreakEven {
        placement: first.placement.clone(),
        order: first.order.clone(),
        concurrency: first.concurrency,
        grid: first.grid.clone(),
        every,
        wins: speedups.iter().filter(|(_, speedup)| wins(*speedup)).map(|(every, _)| *every).collect(),
        at_grid_edge: every.is_some() && every == speedups.first().map(|&(every, _)| every),
    })
}
