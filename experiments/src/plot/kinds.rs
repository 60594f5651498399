//! What a CSV may hold, told by its columns, and the figures of each kind.

use super::source::Source;
use crate::failure::Failure;
use crate::figure::Drawing;
use crate::{paper, sweep, tune, validate};

/// Rows that have figures.
struct Kind {
    /// As errors name it.
    name: &'static str,
    /// Columns that no other kind has all of.
    columns: &'static [&'static str],
    draw: fn(&Source, &str) -> Result<Vec<Drawing>, Failure>,
}

const KINDS: [Kind; 5] = [
    Kind { name: "a sweep", columns: &["placement", "every", "grid", "baseline_throughput"], draw: draw_sweep },
    Kind { name: "a validation", columns: &["policy", "threshold", "predicted", "measured"], draw: draw_validation },
    Kind { name: "tune", columns: &["rank", "thresholds", "method"], draw: draw_thresholds },
    Kind { name: "tune --compare", columns: &["mode", "thresholds", "thresholds_by"], draw: draw_comparison },
    Kind { name: "paper", columns: &["table", "published", "panel", "line", "x"], draw: draw_tables },
];

/// The figures of a CSV.
///
/// # Errors
/// When it is of no known kind, or its rows cannot be drawn.
pub(super) fn draw(source: &Source) -> Result<Vec<Drawing>, Failure> {
    let has = |column: &&str| source.columns.iter().any(|found| found == column);
    let Some(kind) = KINDS.iter().find(|kind| kind.columns.iter().all(has)) else {
        let known = KINDS.iter().map(|kind| format!("{} ({})", kind.name, kind.columns.join(", ")));
        return Err(source.unknown(&known.collect::<Vec<String>>().join(", or of ")));
    };
    let drawings = (kind.draw)(source, kind.name).map_err(|failure| match failure {
        Failure::Figure(error) => source.wrong(error),
        other => other,
    })?;
    if drawings.is_empty() {
        return Err(
            source.wrong(format_args!("no row of {} has a place in a figure, expected at least one", kind.name))
        );
    }
    Ok(drawings)
}

fn draw_sweep(source: &Source, kind: &str) -> Result<Vec<Drawing>, Failure> {
    let rows: Vec<sweep::Row> = source.rows(kind)?;
    Ok(vec![sweep::figure(&rows, &source.origin(rows.first().map(|row| row.seed)))?])
}

fn draw_validation(source: &Source, kind: &str) -> Result<Vec<Drawing>, Failure> {
    let rows: Vec<validate::Row> = source.rows(kind)?;
    Ok(validate::figures(&rows, &source.origin(rows.first().map(|row| row.seed)))?)
}

fn draw_thresholds(source: &Source, kind: &str) -> Result<Vec<Drawing>, Failure> {
    let rows: Vec<tune::Row> = source.rows(kind)?;
    let shown = tune::Shown::new(&rows, source.report().as_deref()).map_err(|wrong| source.wrong(wrong))?;
    Ok(vec![shown.figure(&source.origin(None))?])
}

fn draw_comparison(source: &Source, kind: &str) -> Result<Vec<Drawing>, Failure> {
    let rows: Vec<tune::CompareRow> = source.rows(kind)?;
    Ok(vec![tune::comparison(&rows, source.report().as_deref(), &source.origin(None))?])
}

fn draw_tables(source: &Source, kind: &str) -> Result<Vec<Drawing>, Failure> {
    let rows: Vec<paper::Row> = source.rows(kind)?;
    paper::figures(&rows, &source.origin(None)).map_err(|failure| match failure {
        Failure::Argument(wrong) => source.wrong(wrong),
        other => other,
    })
}
