//! The figures of the tables, from their rows.

use super::headings::{self, Heading};
use super::report::Row;
use crate::failure::Failure;
use crate::figure::published::{PublishedFigure, PublishedLine, PublishedPanel, PublishedPoint};
use crate::figure::{Drawing, FigureError};
use crate::output::origin::Origin;

/// A figure for each table that has cells with a place: published points on predicted lines.
///
/// # Errors
/// When a table has no known name, or a value cannot be drawn.
pub(crate) fn figures(rows: &[Row], origin: &Origin) -> Result<Vec<Drawing>, Failure> {
    let mut tables: Vec<(&str, Vec<&Row>)> = Vec::new();
    for row in rows {
        match tables.iter_mut().find(|(table, _)| *table == row.table) {
            Some((_, rows)) => rows.push(row),
            None => tables.push((&row.table, vec![row])),
        }
    }
    let mut drawings = Vec::new();
    for (table, rows) in tables {
        let heading = headings::find(table).ok_or_else(|| {
            Failure::Argument(format!("`table` is \"{table}\", expected one of {}", headings::names()))
        })?;
        if let Some(svg) = figure(heading, &rows, &caption(&rows, origin)) {
            drawings.push(Drawing { stem: table.to_owned(), svg: svg? });
        }
    }
    Ok(drawings)
}

fn caption(rows: &[&Row], origin: &Origin) -> Vec<String> {
    if rows.iter().any(|row| row.x.is_some() && row.predicted.is_some()) {
        let how = "published: arXiv 2610.12242; predicted: simulated";
        return origin.caption(how, None, &["lines join predictions and mean nothing in between"]);
    }
    origin.caption("published: arXiv 2610.12242", None, &[])
}

/// Nothing if no cell has a place in the figure.
fn figure(heading: &Heading, rows: &[&Row], caption: &[String]) -> Option<Result<String, FigureError>> {
    let mut panels: Vec<PublishedPanel> = Vec::new();
    for (row, line, x) in rows.iter().filter_map(|row| Some((row, row.line.as_ref()?, row.x?))) {
        let title = row.panel.clone().unwrap_or_default();
        let panel_idx = panels.iter().position(|found| found.title == title).unwrap_or_else(|| {
            panels.push(PublishedPanel { title, lines: Vec::new() });
            panels.len() - 1
        });
        let lines = &mut panels[panel_idx].lines;
        let line_idx = lines.iter().position(|found| found.label == *line).unwrap_or_else(|| {
            lines.push(PublishedLine { label: line.clone(), points: Vec::new() });
            lines.len() - 1
        });
        lines[line_idx].points.push(PublishedPoint {
            x,
            published: row.published,
            predicted: row.predicted,
            calibrated: row.calibrated_on_it,
        });
    }
    let figure = PublishedFigure {
        title: heading.title.to_owned(),
        x_title: heading.x_title.to_owned(),
        x_words: heading.x_words.iter().map(|&word| word.to_owned()).collect(),
        y_title: heading.y_title.to_owned(),
        panels,
        caption: caption.to_vec(),
    };
    (!figure.panels.is_empty()).then(|| figure.svg())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(table: &str, x: Option<f64>) -> Row {
        Row {
            table: table.to_owned(),
            row: "a".to_owned(),
            column: "1".to_owned(),
            published: 100.0,
            predicted: Some(101.0),
            error: Some(0.01),
            calibrated_on_it: false,
            fit_residual: None,
            threshold: None,
            panel: None,
            line: x.map(|_| "a".to_owned()),
            x,
        }
    }

    #[test]
    fn a_table_has_a_figure_if_a_cell_has_a_place() {
        let rows = [row("ablation", Some(1.0)), row("ablation", None), row("threshold", None)];
        let drawn = figures(&rows, &Origin::unknown(None)).unwrap();
        assert_eq!(drawn.iter().map(|drawing| drawing.stem.as_str()).collect::<Vec<_>>(), ["ablation"]);
        assert!(drawn[0].svg.contains("R2R without one optimisation after another"));
    }

    #[test]
    fn an_unknown_table_is_named() {
        let error = figures(&[row("mine", None)], &Origin::unknown(None)).unwrap_err().to_string();
        assert!(error.starts_with("`table` is \"mine\", expected one of threshold, ablation"), "{error}");
    }
}
