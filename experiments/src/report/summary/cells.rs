//! Runs of scenarios, simulated or measured.

use super::{Block, Summary, counted, place};
use crate::failure::Failure;
use crate::output::table::significant;
use crate::report::table::Table;
use crate::simulate::Row;

pub(super) fn summary(rows: &Table) -> Result<Summary, Failure> {
    let rows: Vec<Row> = rows.typed("a run")?;
    let Some(best) = rows.iter().reduce(|best, row| if row.throughput > best.throughput { row } else { best }) else {
        return Ok(Summary { headline: "no cell".to_owned(), blocks: Vec::new() });
    };
    let throughput = format!("{} tokens/s", significant(best.throughput, 5));
    let mut text = format!(
        "Policy {}, mode {}, placement {}{}: {throughput} (95 % interval {} to {}; slowest start {}, fastest {}), {} handoffs and {} dropped \
         tokens per committed token. Mean time to first token {} s, per output token {} s, end to end {} s.",
        best.policy,
        best.mode,
        place(&best.placement, best.order.as_deref()),
        best.concurrency.map_or_else(String::new, |concurrency| format!(", C = {concurrency}")),
        significant(best.ci_low, 5),
        significant(best.ci_high, 5),
        significant(best.orbit_low, 5),
        significant(best.orbit_high, 5),
        significant(best.handoffs_per_token, 3),
        significant(best.dropped_per_token, 3),
        significant(best.ttft_mean_s, 3),
        significant(best.tpot_mean_s, 3),
        significant(best.latency_mean_s, 4),
    );
    let mut headline = throughput;
    if rows.len() > 1 {
        let lowest = rows.iter().map(|row| row.throughput).fold(f64::INFINITY, f64::min);
        let cells = counted(rows.len(), "cell", "cells");
        headline = format!("{cells}, {} to {headline}", significant(lowest, 5));
        text = format!(
            "{cells}. The fastest is {}. {text} The slowest has {} tokens/s.",
            best.grid,
            significant(lowest, 5)
        );
    }
    let mut blocks = vec![Block::Text(text)];
    let flagged = rows.iter().filter(|row| row.flagged).count();
    if flagged > 0 {
        blocks.push(Block::Text(format!(
            "{flagged} of {} flagged: the interval is wider than wanted, or the warm-up is unsure.",
            counted(rows.len(), "cell", "cells")
        )));
    }
    Ok(Summary { headline, blocks })
}
