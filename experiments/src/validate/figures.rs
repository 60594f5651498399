//! The figures of a validation from its rows.

use super::row::Row;
use crate::figure::validation::{ValidationFigure, ValidationLine, ValidationPanel, ValidationPoint};
use crate::figure::{FigureError, Scale};
use crate::machine::Plan;
use crate::output::manifest::Program;

/// Share of predicted steps beyond the profile from which on a point is drawn hollow.
const EXTRAPOLATED_SHARE: f64 = 0.02;

/// The lines below the figures.
pub(super) fn caption(scenario: &str, plan: &Plan, rows: &[Row], program: &Program) -> Vec<String> {
    let first = rows.first();
    let commit: String = program.commit.chars().take(10).collect();
    let changed = if program.sources == "changed" { " with changes" } else { "" };
    vec![
        format!("scenario {scenario}, {}", plan.described()),
        format!(
            "{} random starts of {} s each, seed {}",
            first.map_or(0, |row| row.starts),
            first.map_or(0.0, |row| row.seconds),
            first.map_or(0, |row| row.seed)
        ),
        format!("handoff {}, commit {commit}{changed}", program.version),
    ]
}

/// Throughput against N, a panel for each placement and a line for each concurrency; `None` without such cells.
pub(super) fn over_every(rows: &[Row], caption: &[String]) -> Option<Result<String, FigureError>> {
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
pub(super) fn over_thresholds(rows: &[Row], caption: &[String]) -> Option<Result<String, FigureError>> {
    let rows: Vec<&Row> = rows.iter().filter(|row| row.policy == "r2r").collect();
    let place = |row: &Row| row.place();
    let line = |row: &Row| (row.p.unwrap_or(0.0), format!("p = {}", row.p.unwrap_or(0.0)));
    let x = |row: &Row| f64::from(row.threshold);
    let panels = panels(&rows, &place, &line, &x);
    (!panels.is_empty()).then(|| {
        ValidationFigure {
            title: "Predicted and measured throughput against the threshold of the large model".to_owned(),
            x_title: format!("threshold of the large model, at concurrency {}", rows[0].concurrency),
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
    order.dedup();
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
            None => {
                let look_idx = order.iter().position(|(_, other)| *other == label).unwrap_or(0);
                lines.push(ValidationLine { label, look_idx, points: vec![point] });
            }
        }
    }
    panels
}
