//! A sweep: where routing pays.

use super::{Block, Summary, counted, enumerated, place};
use crate::failure::Failure;
use crate::output::table::significant;
use crate::report::table::Table;
use crate::sweep::{BreakEven, Row, break_even_words, break_evens};

pub(super) fn summary(rows: &Table) -> Result<Summary, Failure> {
    let rows: Vec<Row> = rows.typed("a sweep")?;
    let Some(best) = rows.iter().reduce(|best, row| if row.speedup > best.speedup { row } else { best }) else {
        return Ok(Summary { headline: "no cell".to_owned(), blocks: Vec::new() });
    };
    let worst = rows.iter().map(|row| row.speedup).fold(f64::INFINITY, f64::min);
    let cells = counted(rows.len(), "cell", "cells");
    let headline = format!("{cells}, speed-up over the large model alone {worst:.2} to {:.2}", best.speedup);
    let mut blocks = vec![Block::Text(format!(
        "{cells} of {}. The best one against the large model alone is {}: {} tokens/s (95 % interval {} to {}), {:.2} times the {} tokens/s \
         of the large model. The worst one has a speed-up of {worst:.2}.",
        extent(&rows),
        name(best),
        significant(best.throughput, 4),
        significant(best.ci_low, 4),
        significant(best.ci_high, 4),
        best.speedup,
        significant(best.baseline_throughput, 4),
    ))];
    let found = break_evens(&rows);
    if !found.is_empty() {
        let text = "Break-even, the smallest N of the grid from which every larger N beats the large model alone:";
        blocks.push(Block::Text(text.to_owned()));
        blocks.push(Block::List(lines(&found)));
    }
    let flagged = rows.iter().filter(|row| row.flagged).count();
    if flagged > 0 {
        blocks.push(Block::Text(format!(
            "{} flagged: after all replications the interval is still wider than wanted, because starts lead to different orbits, or \
             the warm-up is unsure.",
            if flagged == 1 { "1 cell is".to_owned() } else { format!("{flagged} cells are") }
        )));
    }
    let extrapolated = rows.iter().filter(|row| row.extrapolated > EXTRAPOLATED_SHARE).count();
    if extrapolated > 0 {
        blocks.push(Block::Text(format!(
            "{extrapolated} of {cells} read more than {} % of their steps beyond the measured profile (column extrapolated).",
            EXTRAPOLATED_SHARE * 100.0
        )));
    }
    Ok(Summary { headline, blocks })
}

/// Share of steps beyond the profile from which on a cell is named.
const EXTRAPOLATED_SHARE: f64 = 0.02;

/// Placements, N and C of the grid.
fn extent(rows: &[Row]) -> String {
    let mut places: Vec<String> = Vec::new();
    for row in rows {
        let place = place(&row.placement, row.order.as_deref());
        if !places.contains(&place) {
            places.push(place);
        }
    }
    let numbers = |values: &dyn Fn(&Row) -> Option<u32>| {
        let mut values: Vec<u32> = rows.iter().filter_map(values).collect();
        values.sort_unstable();
        values.dedup();
        values.iter().map(u32::to_string).collect::<Vec<_>>()
    };
    let (every, concurrency) = (numbers(&|row| row.every), numbers(&|row| row.concurrency));
    let mut parts = vec![format!("placement {}", enumerated(&places))];
    if !every.is_empty() {
        parts.push(format!("N = {}", enumerated(&every)));
    }
    if !concurrency.is_empty() {
        parts.push(format!("C = {}", enumerated(&concurrency)));
    }
    parts.join("; ")
}

fn name(row: &Row) -> String {
    let mut parts = vec![place(&row.placement, row.order.as_deref())];
    parts.extend(row.every.map(|every| format!("N = {every}")));
    parts.extend(row.concurrency.map(|concurrency| format!("C = {concurrency}")));
    parts.extend(Some(row.grid.clone()).filter(|grid| !grid.is_empty()));
    parts.join(", ")
}

/// One line a placement, concurrencies of the same break-even together.
fn lines(found: &[BreakEven]) -> Vec<String> {
    let key = |found: &BreakEven| (place(&found.placement, found.order.as_deref()), found.grid.clone());
    let mut keys: Vec<(String, String)> = Vec::new();
    for line in found {
        if !keys.contains(&key(line)) {
            keys.push(key(line));
        }
    }
    let line = |wanted: &(String, String)| {
        let mut groups: Vec<(String, Vec<String>)> = Vec::new();
        for line in found.iter().filter(|line| key(line) == *wanted) {
            let words = break_even_words(line);
            let concurrency =
                line.concurrency.map_or_else(|| "open loop".to_owned(), |concurrency| concurrency.to_string());
            match groups.iter_mut().find(|group| group.0 == words) {
                Some(group) => group.1.push(concurrency),
                None => groups.push((words, vec![concurrency])),
            }
        }
        let groups =
            groups.iter().map(|(words, concurrencies)| format!("{words} at C = {}", enumerated(concurrencies)));
        let (place, grid) = wanted;
        let name = if grid.is_empty() { place.clone() } else { format!("{place}, {grid}") };
        format!("{name}: {}", groups.collect::<Vec<_>>().join("; "))
    };
    keys.iter().map(line).collect()
}
