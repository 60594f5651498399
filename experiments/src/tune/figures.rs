//! The figures of `tune`.

use super::compare_document::CompareDocument;
use super::document::{Document, spaced};
use crate::figure::chart::{AxisTitle, ChartLine, ChartPoint, LineChart, StarAt};
use crate::figure::{FigureError, Scale};
use crate::output::manifest::Program;

/// Throughput against the threshold of the last model, a line a method; the winner has a star.
pub(super) fn thresholds(document: &Document, scenario: &str) -> Result<String, FigureError> {
    let last = document.models.len() - 1;
    let mut lines: Vec<ChartLine> = document
        .curves
        .iter()
        .map(|curve| ChartLine {
            label: curve.method.to_owned(),
            points: curve
                .points
                .iter()
                .map(|point| ChartPoint {
                    x: f64::from(point.threshold),
                    y: point.throughput,
                    band: point.ci_low.zip(point.ci_high),
                })
                .collect(),
            dashed: curve.method != "simulated",
        })
        .collect();
    // What is drawn last lies on top: predictions in dashes over what was simulated.
    lines.sort_by_key(|line| line.dashed);
    let best = f64::from(document.best.thresholds[last]);
    let wanted = if document.best.method.as_str() == "exact" { "exact" } else { "simulated" };
    let on_line = |name: &str| lines.iter().position(|line| line.label == name);
    let star = on_line(wanted).or(on_line("simulated")).map(|line_idx| StarAt {
        line_idx,
        x: best,
        text: format!("best: thresholds {}", spaced(&document.best.thresholds)),
    });
    let mut others: Vec<String> = Vec::new();
    for (name, threshold) in document.models.iter().zip(&document.best.thresholds).take(last) {
        others.push(format!("threshold {threshold} at {name}"));
    }
    let chart = LineChart {
        title: format!(
            "Throughput against the threshold of {}: {}, {}, C = {}",
            document.models[last],
            document.policy,
            place(&document.placement, document.order.as_deref()),
            document.concurrency
        ),
        x: AxisTitle {
            title: format!("threshold B of {}{}", document.models[last], suffix(&others)),
            scale: Scale::Linear,
        },
        y: AxisTitle { title: "throughput (tokens/s)".to_owned(), scale: Scale::Linear },
        lines,
        band: "95 % interval".to_owned(),
        caption: caption(scenario, document.seed),
    };
    chart.svg_with_star(star.as_ref())
}

/// Throughput at the best thresholds against concurrency, a line a placement; dashed the large model alone.
pub(super) fn comparison(document: &CompareDocument, scenario: &str) -> Result<String, FigureError> {
    let mut lines: Vec<ChartLine> = Vec::new();
    for cell in document.cells.iter().filter(|cell| cell.mode == "delayed" || cell.mode == "large-only") {
        let dashed = cell.mode == "large-only";
        let label = if dashed { cell.placement.clone() } else { place(&cell.placement, cell.order.as_deref()) };
        let point =
            ChartPoint { x: f64::from(cell.concurrency), y: cell.throughput, band: cell.ci_low.zip(cell.ci_high) };
        match lines.iter_mut().find(|line| line.label == label) {
            Some(line) => line.points.push(point),
            None => lines.push(ChartLine { label, points: vec![point], dashed }),
        }
    }
    LineChart {
        title: format!("Throughput at the best thresholds against concurrency: {}", document.policy),
        x: AxisTitle { title: "concurrency C".to_owned(), scale: Scale::Log },
        y: AxisTitle { title: "throughput (tokens/s)".to_owned(), scale: Scale::Log },
        lines,
        band: "95 % interval".to_owned(),
        caption: caption(scenario, document.seed),
    }
    .svg()
}

fn place(placement: &str, order: Option<&str>) -> String {
    order.map_or_else(|| placement.to_owned(), |order| format!("{placement}, {order}"))
}

fn suffix(others: &[String]) -> String {
    if others.is_empty() { String::new() } else { format!(" ({})", others.join(", ")) }
}

fn caption(scenario: &str, seed: u64) -> Vec<String> {
    let program = Program::current();
    let commit: String = program.commit.chars().take(10).collect();
    let changed = if program.sources == "changed" { " with changes" } else { "" };
    vec![format!("scenario {scenario}, seed {seed}"), format!("handoff {}, commit {commit}{changed}", program.version)]
}
