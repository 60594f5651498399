//! What `tune` prints for people.

use std::io::{self, Write};

use super::document::{
    ByActiveDocument, CandidateDocument, ConfirmationDocument, Document, SensitivityDocument, spaced,
};
use crate::output::table::{Table, significant, terminal_width};

/// The ranking with its `top` best, then all that was asked for beside it.
pub(super) fn write(out: &mut dyn Write, document: &Document, top: usize) -> io::Result<()> {
    let order = document.order.as_ref().map_or_else(String::new, |order| format!(", {order}"));
    writeln!(
        out,
        "scenario {}: policy {}, placement {}{order}, concurrency {}, thresholds of {}, seed {}",
        document.scenario,
        document.policy,
        document.placement,
        document.concurrency,
        document.models.join(", "),
        document.seed
    )?;
    for note in &document.notes {
        writeln!(out, "note: {note}")?;
    }
    if let (Some(first), Some(residual)) = (document.grid.first(), document.residual) {
        let steps: Vec<String> = document.grid.iter().map(rounded_step).collect();
        writeln!(
            out,
            "exact on a grid of {} ms: {}; largest residual {residual:.1e}",
            significant(first.grid_ms, 4),
            steps.join(", ")
        )?;
    }
    writeln!(out)?;
    write!(out, "{}", ranking(&document.candidates, top).render(terminal_width()))?;
    if document.candidates.len() > top {
        writeln!(out, "... {} more in rows.csv", document.candidates.len() - top)?;
    }
    writeln!(out)?;
    let best = &document.best;
    write!(
        out,
        "best: thresholds {} ({}), {} tokens/s",
        spaced(&best.thresholds),
        best.method,
        significant(best.throughput, 5)
    )?;
    match document.eager().filter(|eager| eager.thresholds != best.thresholds) {
        Some(eager) => writeln!(
            out,
            ", {} % above threshold 1 everywhere",
            significant(100.0 * (best.throughput / eager.throughput - 1.0), 3)
        )?,
        None => writeln!(out)?,
    }
    if !document.statements.is_empty() {
        writeln!(out, "\nWhat formulas say")?;
        for statement in &document.statements {
            writeln!(out, "  {}, {}: {}", statement.placement, statement.name, statement.text)?;
        }
    }
    if let Some(confirmation) = &document.confirmation {
        write_confirmation(out, confirmation)?;
    }
    if let Some(sensitivity) = &document.sensitivity {
        write_sensitivity(out, sensitivity)?;
    }
    if let Some(by_active) = &document.by_active {
        write_by_active(out, document, by_active)?;
    }
    Ok(())
}

fn rounded_step(step: &super::document::GridDocument) -> String {
    let time = if step.step_low_ms == step.step_high_ms {
        significant(step.step_low_ms, 6)
    } else {
        format!("{} to {}", significant(step.step_low_ms, 6), significant(step.step_high_ms, 6))
    };
    let rounding = if step.rounding_ms < 1e-6 {
        "not rounded".to_owned()
    } else {
        format!("rounded by up to {} ms", significant(step.rounding_ms, 2))
    };
    format!("{} {time} ms ({rounding})", step.model)
}

fn ranking(candidates: &[CandidateDocument], top: usize) -> Table {
    let shown = &candidates[..top.min(candidates.len())];
    let has_intervals = shown.iter().any(|candidate| candidate.ci_low.is_some());
    let mut table = Table::new().number("rank").text("thresholds").key().number("throughput (tokens/s)");
    if has_intervals {
        table = table.number("95 % low").number("95 % high");
    }
    table = table.number("loss (%)").text("method");
    for (position, candidate) in shown.iter().enumerate() {
        let end = |end: Option<f64>| end.map_or_else(|| "-".to_owned(), |end| significant(end, 5));
        let ends = [candidate.ci_low, candidate.ci_high].map(end);
        let first = [(position + 1).to_string(), spaced(&candidate.thresholds), significant(candidate.throughput, 5)];
        let last = [format!("{:.2}", 100.0 * candidate.loss), candidate.method.to_string()];
        table.row(first.into_iter().chain(ends.into_iter().filter(|_| has_intervals)).chain(last));
    }
    table
}

fn write_confirmation(out: &mut dyn Write, confirmation: &ConfirmationDocument) -> io::Result<()> {
    writeln!(out, "\nSimulated on fresh seeds, {} replications each", confirmation.replications)?;
    let mut table = Table::new()
        .text("thresholds")
        .key()
        .number("throughput (tokens/s)")
        .number("95 % low")
        .number("95 % high")
        .number("ahead of the best (%)")
        .number("95 % low")
        .number("95 % high");
    for own in &confirmation.candidates {
        let per_cent = |value: f64| format!("{:.3}", 100.0 * value);
        table.row([
            spaced(&own.thresholds),
            significant(own.throughput, 5),
            significant(own.ci_low, 5),
            significant(own.ci_high, 5),
            per_cent(own.ahead),
            per_cent(own.ahead_low),
            per_cent(own.ahead_high),
        ]);
    }
    write!(out, "{}", table.render(terminal_width()))?;
    writeln!(
        out,
        "regret of the choice {:.3} % (95 % interval {:.3} to {:.3})",
        100.0 * confirmation.regret,
        100.0 * confirmation.regret_low,
        100.0 * confirmation.regret_high
    )
}

fn write_sensitivity(out: &mut dyn Write, sensitivity: &SensitivityDocument) -> io::Result<()> {
    writeln!(out, "\nElasticity of throughput: per cent of throughput for one per cent of the quantity")?;
    let mut table = Table::new().text("quantity").key().number("elasticity").number("95 % low").number("95 % high");
    let mut row = |name: &str, values: [f64; 3]| {
        let [value, low, high] = values.map(|value| format!("{value:.4}"));
        table.row([name.to_owned(), value, low, high]);
    };
    for own in &sensitivity.elasticities {
        row(&own.name, [own.elasticity, own.ci_low, own.ci_high]);
    }
    row("all times together", [sensitivity.times_sum, sensitivity.times_sum_ci_low, sensitivity.times_sum_ci_high]);
    write!(out, "{}", table.render(terminal_width()))?;
    sensitivity.notes.iter().try_for_each(|note| writeln!(out, "note: {note}"))
}

fn write_by_active(out: &mut dyn Write, document: &Document, by_active: &ByActiveDocument) -> io::Result<()> {
    writeln!(out, "\nThresholds by active requests, as a scenario takes them")?;
    for (name, list) in document.models.iter().zip(&by_active.lists) {
        let list: Vec<String> = list.iter().map(u32::to_string).collect();
        writeln!(out, "  {name}: threshold = [{}]", list.join(", "))?;
    }
    Ok(())
}
