//! What `tune --compare` prints for people.

use std::io::{self, Write};

use super::compare_document::{CompareCell, CompareDocument};
use super::document::spaced;
use crate::output::table::{Table, significant, terminal_width};

/// A row a placement and mode, a column a concurrency; then who wins, and where the order changes.
pub(super) fn write(out: &mut dyn Write, document: &CompareDocument) -> io::Result<()> {
    writeln!(
        out,
        "scenario {}: policy {}, thresholds of {}, seed {}",
        document.scenario,
        document.policy,
        document.models.join(", "),
        document.seed
    )?;
    for note in &document.notes {
        writeln!(out, "note: {note}")?;
    }
    writeln!(out, "\nThroughput in tokens/s (best thresholds)")?;
    write!(out, "{}", pivot(&document.cells).render(terminal_width()))?;
    writeln!(out)?;
    for winner in &document.winners {
        let thresholds = spaced(&winner.thresholds);
        let throughput = significant(winner.throughput, 4);
        write!(out, "C = {}: ", winner.concurrency)?;
        if winner.tied_with.is_empty() {
            write!(out, "{} wins with thresholds {thresholds}, {throughput} tokens/s", winner.placement)?;
        } else {
            let tied = winner.tied_with.join(", ");
            write!(
                out,
                "{} with thresholds {thresholds}, {throughput} tokens/s; level with it: {tied}",
                winner.placement
            )?;
        }
        match (&winner.one_device_placement, &winner.one_device_thresholds, winner.one_device_throughput) {
            (Some(placement), Some(thresholds), Some(throughput))
                if *placement != winner.placement && !winner.tied_with.contains(placement) =>
            {
                let (thresholds, throughput) = (spaced(thresholds), significant(throughput, 4));
                writeln!(out, "; on one device {placement} with thresholds {thresholds}, {throughput} tokens/s")?;
            }
            _ => writeln!(out)?,
        }
    }
    if document.winners.len() > 1 {
        writeln!(out)?;
        if document.changes.is_empty() {
            writeln!(out, "The order of the placements does not change.")?;
        }
        for change in &document.changes {
            writeln!(
                out,
                "between C = {} and C = {} {} {} {}",
                change.from_concurrency, change.to_concurrency, change.placement, change.event, change.other
            )?;
        }
        writeln!(out, "Placements within 0.2 % of each other are level.")?;
    }
    Ok(())
}

fn pivot(cells: &[CompareCell]) -> Table {
    let mut concurrencies: Vec<u32> = cells.iter().map(|cell| cell.concurrency).collect();
    concurrencies.sort_unstable();
    concurrencies.dedup();
    let mut lines: Vec<(String, String)> = Vec::new();
    for cell in cells {
        let line = (cell.place(), cell.mode.clone());
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    let mut table = Table::new().text("placement").text("mode").key();
    for concurrency in &concurrencies {
        table = table.number(&format!("C = {concurrency}"));
    }
    for (place, mode) in lines {
        let cell = |&concurrency: &u32| {
            let found =
                cells.iter().find(|cell| cell.concurrency == concurrency && cell.place() == place && cell.mode == mode);
            found.map_or_else(String::new, |cell| match &cell.thresholds {
                Some(thresholds) if cell.mode == "delayed" => {
                    format!("{} ({})", significant(cell.throughput, 4), spaced(thresholds))
                }
                _ => significant(cell.throughput, 4),
            })
        };
        let texts: Vec<String> = concurrencies.iter().map(cell).collect();
        table.row([place.clone(), mode.clone()].into_iter().chain(texts));
    }
    table
}
