//! The figures of a validation from its rows.

use super::row::Row;
use crate::figure::validation::{ValidationFigure, ValidationLine, ValidationPanel, ValidationPoint};
use crate::figure::{Drawing, FigureError, Scale};
use crate::output::origin::Origin;

/// Share of predicted steps beyond the profile from which on a point is drawn hollow.
const EXTRAPOLATED_SHARE: f64 = 0.02;

/// All figures that the rows give.
pub(crate) fn figures(rows: &[Row], origin: &Origin) -> Result<Vec<Drawing>, FigureError> {
    let caption = caption(rows, origin);
    let drawn = [("figure", over_every(rows, &caption)), ("thresholds", over_thresholds(rows, &caption))];
    let drawn = drawn.into_iter().filter_map(|(stem, svg)| Some((stem, svg?)));
    drawn.map(|(stem, svg)| Ok(Drawing { stem: stem.to_owned(), svg: svg? })).collect()
}

/// The line below the figures.
fn caption(rows: &[Row], origin: &Origin) -> Vec<String> {
    let (starts, seconds) = rows.first().map_or((0, 0.0), |row| (row.starts, row.seconds));
    let how = format!("predicted, and measured on {}", origin.device);
    origin.caption(&how, Some(&format!("{starts} random starts of {seconds} s each")), &[])
}

/// Throughput against N, a panel for each placement and a line for each concurrency; `None` without such cells.
fn over_every(rows: &[Row], caption: &[String]) -> Option<Result<String, FigureError>> {
    let rows: Vec<&Row> = rows.iter().filter(|row| row.policy == "every").collect();
    let place = |row: &Row| row.place();
    let line = |row: &Row| (f64::from(row.concurrency), format!("C = {}", row.concurrency));
    let x = |row: &Row| f64::from(row.every.unwrap_or(1));
    let panels = panels(&rows, &place, &line, &x);
    (!panels.is_empty()).then(|| {
        ValidationFigure {
            title: "Predicted and measured throughput against handoff frequency".to_owned(),
            x_title: "tokens per visit N (switch every N tokens)".to_owned(),
            x_scale: Scale::Log,
            panels,
            caption: caption.to_vec(),
        }
        .svg()
    })
}

/// Throughput against the large model's threshold, a panel for each placement and a line for each p; `None` without such cells.
fn over_thresholds(rows: &[Row], caption: &[String]) -> Option<Result<String, FigureError>> {
    let rows: Vec<&Row> = rows.iter().filter(|row| row.policy == "r2r").collect();
    let place = |row: &Row| row.place();
    let line = |row: &Row| (row.p.unwrap_or(0.0), format!("p = {}", row.p.unwrap_or(0.0)));
    let x = |row: &Row| f64::from(row.threshold);
    let panels = panels(&rows, &place, &line, &x);
    (!panels.is_empty()).then(|| {
        ValidationFigure {
            title: "Predicted and measured throughput against the threshold of the large model".to_owned(),
            x_title: format!("threshold B of the large model (rows), at C = {}", rows[0].concurrency),
            x_scale: Scale::Linear,
            panels,
            caption: caption.to_vec(),
        }
        .svg()
    })
}

fn panels(
    rows: &[&Row],
    place: &dyn Fn(&Row) -> String,
    line: &dyn Fn(&Row) -> (f64, String),
    x: &dyn Fn(&Row) -> f64,
) -> Vec<ValidationPanel> {
    let mut order: Vec<(f64, String)> = rows.iter().map(|row| line(row)).collect();
    order.sort_by(|left, right| left.0.total_cmp(&right.0));
    let mut panels: Vec<ValidationPanel> = Vec::new();
    for row in rows {
        let (title, (_, label)) = (place(row), line(row));
        let at = match panels.iter().position(|panel| panel.title == title) {
            Some(at) => at,
            None => {
                panels.push(ValidationPanel { title, lines: Vec::new() });
                panels.len() - 1
            }
        };
        let lines = &mut panels[at].lines;
        let point = ValidationPoint {
            x: x(row),
            predicted: row.predicted,
            predicted_range: (row.predicted_low, row.predicted_high),
            measured: row.measured,
            measured_range: (row.measured_low, row.measured_high),
            extrapolated: row.extrapolated > EXTRAPOLATED_SHARE,
        };
        match lines.iter_mut().find(|line| line.label == label) {
            Some(line) => line.points.push(point),
            None => lines.push(ValidationLine { label, points: vec![point] }),
        }
    }
    let position = |label: &str| order.iter().position(|(_, other)| other == label);
    panels.iter_mut().for_each(|panel| panel.lines.sort_by_key(|line| position(&line.label)));
    panels
}
