//! The figure of a sweep from its rows.

use super::break_even::{break_evens, lines};
use super::row::Row;
use crate::figure::chart::{AxisTitle, ChartLine, ChartPoint, LineChart};
use crate::figure::sweep::{BreakEven, SweepFigure, SweepLine, SweepPanel, SweepPoint};
use crate::figure::{FigureError, Scale};

/// Share of steps beyond the measured profile above which a point is drawn hollow. Prompts and a few long extends lie beyond almost any
/// profile and decide nothing; rows.csv has the exact share.
pub(super) const EXTRAPOLATED_SHARE: f64 = 0.02;

/// The figure as SVG: throughput against N where the sweep ran over N, otherwise throughput against the first `--grid` axis.
pub(crate) fn figure(rows: &[Row], caption: &[String]) -> Result<String, FigureError> {
    if rows.iter().all(|row| row.every.is_some() && row.concurrency.is_some()) {
        sweep_figure(rows, caption).svg()
    } else {
        grid_figure(rows, caption).svg()
    }
}

fn sweep_figure(rows: &[Row], caption: &[String]) -> SweepFigure {
    let break_evens = break_evens(rows);
    let mut panels: Vec<SweepPanel> = Vec::new();
    for line in lines(rows) {
        let first = line[0];
        let found = break_evens.iter().find(|found| {
            (&found.placement, &found.order, found.concurrency, &found.grid)
                == (&first.placement, &first.order, first.concurrency, &first.grid)
        });
        let break_even =
            found.and_then(|found| Some(BreakEven { every: found.every?, at_grid_edge: found.at_grid_edge }));
        let drawn = SweepLine {
            concurrency: first.concurrency.unwrap_or_default(),
            points: line.iter().map(|row| point(row)).collect(),
            large_only: Some(first.baseline_throughput),
            break_even,
        };
        let title = panel_title(first);
        match panels.iter_mut().find(|panel| panel.title == title) {
            Some(panel) => panel.lines.push(drawn),
            None => panels.push(SweepPanel { title, lines: vec![drawn] }),
        }
    }
    SweepFigure {
        title: "Throughput against handoff frequency, beside the large model alone".to_owned(),
        panels,
        y_scale: Scale::Log,
        caption: caption.to_vec(),
    }
}

fn panel_title(row: &Row) -> String {
    let placement = match (row.placement.as_str(), &row.order) {
        ("separate", _) => "separate: a device for each model".to_owned(),
        ("overlapped", _) => "overlapped: one device, forwards side by side".to_owned(),
        (other, Some(order)) => format!("{other}, {order}: one device, one forward at a time"),
        (other, None) => other.to_owned(),
    };
    if row.grid.is_empty() { placement } else { format!("{placement} ({})", row.grid) }
}

fn point(row: &Row) -> SweepPoint {
    SweepPoint {
        every: row.every.unwrap_or_default(),
        throughput: row.throughput,
        ci_low: row.ci_low,
        ci_high: row.ci_high,
        orbit_low: row.orbit_low,
        orbit_high: row.orbit_high,
        flagged: row.flagged,
        extrapolated: row.extrapolated > EXTRAPOLATED_SHARE,
    }
}

/// Throughput against the first `--grid` axis, a line for each combination of the others.
fn grid_figure(rows: &[Row], caption: &[String]) -> LineChart {
    let mut lines: Vec<ChartLine> = Vec::new();
    let path = rows.first().and_then(|row| row.grid.split('=').next()).unwrap_or("").to_owned();
    for (position, row) in rows.iter().enumerate() {
        let (own, others) = row.grid.split_once(' ').unwrap_or((&row.grid, ""));
        // An axis of words is laid out by position.
        let x = own.split_once('=').and_then(|(_, value)| value.parse().ok()).unwrap_or(position as f64);
        let parts = [
            Some(row.placement.clone()),
            row.order.clone(),
            row.concurrency.map(|concurrency| format!("C = {concurrency}")),
            row.every.map(|every| format!("N = {every}")),
            (!others.is_empty()).then(|| others.to_owned()),
        ];
        let label = parts.into_iter().flatten().collect::<Vec<_>>().join(", ");
        let point = ChartPoint { x, y: row.throughput, band: Some((row.ci_low, row.ci_high)) };
        match lines.iter_mut().find(|line| line.label == label) {
            Some(line) => line.points.push(point),
            None => lines.push(ChartLine { label, points: vec![point], dashed: false }),
        }
    }
    let x_title = if path.is_empty() { "cell".to_owned() } else { path };
    LineChart {
        title: format!("Throughput against {x_title}"),
        x: AxisTitle { title: x_title, scale: Scale::Linear },
        y: AxisTitle { title: "throughput (tokens/s)".to_owned(), scale: Scale::Linear },
        lines,
        band: "95 % interval".to_owned(),
        caption: caption.to_vec(),
    }
}
