//! What `profile` prints.

use std::io::{self, Write};

use super::measured::Measured;
use crate::output::table::{Table, significant, terminal_width};

/// Step times of decodes, agreement at held-out points, co-run rates, host.
pub(super) fn write_tables(out: &mut dyn Write, measured: &Measured) -> io::Result<()> {
    writeln!(
        out,
        "{}, {} weights; times of the host's clock, from launch to results",
        measured.device, measured.weights
    )?;
    let mut table = Table::new()
        .text("model")
        .text("graphs")
        .key()
        .number("points")
        .number("skipped")
        .number("spread of two visits, median (%)")
        .number("largest (%)")
        .number("held-out points")
        .number("mean error (%)")
        .number("largest error (%)")
        .number("tempered choice (us)");
    let percent = |share: f64| significant(share * 100.0, 2);
    for model in &measured.models {
        let held_out = |value: &dyn Fn(&super::measured::HeldOutSummary) -> String| {
            model.held_out.as_ref().map_or_else(|| "-".to_owned(), value)
        };
        table.row([
            model.model.clone(),
            model.graph.to_string(),
            model.points.to_string(),
            model.skipped.to_string(),
            percent(model.spread_median),
            percent(model.spread_max),
            held_out(&|found| found.points.to_string()),
            held_out(&|found| percent(found.mape)),
            held_out(&|found| percent(found.max_error)),
            significant(model.choice_us, 2),
        ]);
    }
    writeln!(out, "{}", table.render(terminal_width()))?;
    let mut steps = Table::new()
        .text("model")
        .text("kind")
        .text("graphs")
        .number("rows")
        .number("new tokens a row")
        .number("kept tokens a row")
        .key()
        .number("mean (ms)")
        .number("p50 (ms)")
        .number("p99 (ms)");
    let ms = |us: Option<f64>| us.map_or_else(|| "-".to_owned(), |us| significant(us * 1e-3, 4));
    let number = |value: Option<u32>| value.map_or_else(String::new, |value| value.to_string());
    for row in measured.rows.iter().filter(|row| row.new_tokens.is_some()) {
        steps.row([
            row.model.clone(),
            if row.new_tokens == Some(1) { "decode" } else { "extend" }.to_owned(),
            row.graph.map_or_else(String::new, |graph| graph.to_string()),
            number(row.rows),
            number(row.new_tokens),
            number(row.kv_tokens),
            ms(Some(row.mean_us)),
            ms(row.p50_us),
            ms(row.p99_us),
        ]);
    }
    writeln!(out, "{}", steps.render(terminal_width()))?;
    if !measured.corun.is_empty() {
        let mut corun = Table::new()
            .text("model")
            .number("rows")
            .text("beside")
            .number("its rows")
            .key()
            .number("alone (ms)")
            .number("beside (ms)")
            .number("rate")
            .number("peer busy");
        for found in &measured.corun {
            corun.row([
                found.model.clone(),
                found.rows.to_string(),
                found.peer_model.clone(),
                found.peer_rows.to_string(),
                significant(found.alone_us * 1e-3, 4),
                significant(found.beside_us * 1e-3, 4),
                significant(found.rate, 3),
                significant(found.peer_busy, 3),
            ]);
        }
        writeln!(out, "{}", corun.render(terminal_width()))?;
    }
    writeln!(
        out,
        "host: {} us before and {} us after a forward; a message between two threads {} us",
        significant(measured.launch_us, 3),
        significant(measured.loop_us, 3),
        significant(measured.hop_us, 3)
    )
}
