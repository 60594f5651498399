//! The figures of `tune`, from its files: what a run has just written is drawn as it is drawn again later.

use serde::Deserialize;

use super::compare_document::CompareRow;
use super::document::Row;
use crate::figure::chart::{AxisTitle, ChartLine, ChartPoint, LineChart, StarAt};
use crate::figure::{Drawing, FigureError, Scale};
use crate::output::origin::Origin;

/// The name of the figure's files.
const FIGURE: &str = "figure";

/// What the figure of the thresholds shows: the part of `report.json` that it needs.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Shown {
    policy: Option<String>,
    placement: String,
    order: Option<String>,
    concurrency: u32,
    models: Vec<String>,
    best: ShownBest,
    candidates: Vec<ShownCandidate>,
    curves: Vec<ShownCurve>,
}

#[derive(Clone, Debug, Deserialize)]
struct ShownBest {
    thresholds: Vec<u32>,
    method: String,
}

#[derive(Clone, Debug, Deserialize)]
struct ShownCandidate {
    thresholds: Vec<u32>,
    throughput: f64,
}

/// Throughput against the threshold of the last model by one method.
#[derive(Clone, Debug, Deserialize)]
struct ShownCurve {
    method: String,
    points: Vec<ShownPoint>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
struct ShownPoint {
    threshold: u32,
    throughput: f64,
    ci_low: Option<f64>,
    ci_high: Option<f64>,
}

impl Shown {
    /// What the report of the run says, if it is the report of these rows; what the rows say otherwise.
    ///
    /// # Errors
    /// When a row has no thresholds; the text says which and what was expected.
    pub(crate) fn new(rows: &[Row], report: Option<&[u8]>) -> Result<Self, String> {
        let report: Option<Self> = report.and_then(|bytes| serde_json::from_slice(bytes).ok());
        match report.filter(|report| report.is_of(rows)) {
            Some(report) => Ok(report),
            None => Self::of_rows(rows),
        }
    }

    fn is_of(&self, rows: &[Row]) -> bool {
        // JSON may change the last digit of a float.
        let same = |left: f64, right: f64| (left - right).abs() <= 1e-12 * left.abs();
        self.candidates.len() == rows.len()
            && self.candidates.iter().zip(rows).all(|(candidate, row)| {
                row.vector().is_ok_and(|thresholds| thresholds == candidate.thresholds)
                    && same(candidate.throughput, row.throughput)
            })
    }

    /// The line of the candidates that differ from the best in the last threshold alone, by the methods that ranked them.
    fn of_rows(rows: &[Row]) -> Result<Self, String> {
        let vectors = rows.iter().map(Row::vector).collect::<Result<Vec<_>, _>>()?;
        let best = rows.iter().zip(&vectors).max_by(|(a, _), (b, _)| a.throughput.total_cmp(&b.throughput));
        let (best_row, best) = best.ok_or("no row")?;
        let n_models = best.len();
        let mut curves: Vec<ShownCurve> = Vec::new();
        for (row, vector) in rows.iter().zip(&vectors) {
            if vector.len() != n_models {
                return Err(format!(
                    "`thresholds` is \"{}\", expected {n_models} numbers as elsewhere",
                    row.thresholds
                ));
            }
            if vector[..n_models - 1] != best[..n_models - 1] {
                continue;
            }
            let point = ShownPoint {
                threshold: vector[n_models - 1],
                throughput: row.throughput,
                ci_low: row.ci_low,
                ci_high: row.ci_high,
            };
            let method = curve_name(&row.method);
            match curves.iter_mut().find(|curve| curve.method == method) {
                Some(curve) => curve.points.push(point),
                None => curves.push(ShownCurve { method: method.to_owned(), points: vec![point] }),
            }
        }
        let models = match n_models {
            1 => vec!["the model".to_owned()],
            // Rows do not name the models.
            n => (1..n).map(|number| format!("model {number}")).chain(["the last model".to_owned()]).collect(),
        };
        Ok(Self {
            policy: None,
            placement: best_row.placement.clone(),
            order: best_row.order.clone(),
            concurrency: best_row.concurrency,
            models,
            best: ShownBest { thresholds: best.clone(), method: best_row.method.clone() },
            candidates: Vec::new(),
            curves,
        })
    }

    /// Throughput against the threshold of the last model, a line a method; the winner has a star.
    pub(crate) fn figure(&self, origin: &Origin) -> Result<Drawing, FigureError> {
        let empty = |missing| FigureError::Empty { place: "the report".to_owned(), missing };
        let (last, others) = self.models.split_last().ok_or_else(|| empty("models"))?;
        let best = *self.best.thresholds.last().ok_or_else(|| empty("best thresholds"))?;
        let mut lines: Vec<ChartLine> = self.curves.iter().map(line).collect();
        // What is drawn last lies on top: predictions in dashes over what was simulated.
        lines.sort_by_key(|line| line.dashed);
        let wanted = if self.best.method == "exact" { "exact" } else { "simulated" };
        let on_line = |name: &str| lines.iter().position(|line| line.label == name);
        let star =
            on_line(wanted).or(on_line("simulated")).or(on_line(curve_name(&self.best.method))).map(|line_idx| {
                StarAt {
                    line_idx,
                    x: f64::from(best),
                    text: format!("best: thresholds {}", super::document::spaced(&self.best.thresholds)),
                }
            });
        let others = others.iter().zip(&self.best.thresholds);
        let others: Vec<String> = others.map(|(name, threshold)| format!("threshold {threshold} at {name}")).collect();
        let policy = self.policy.as_ref().map_or_else(String::new, |policy| format!("{policy}, "));
        let chart = LineChart {
            title: format!(
                "Throughput against the threshold of {last}: {policy}{}, C = {}",
                place(&self.placement, self.order.as_deref()),
                self.concurrency
            ),
            x: AxisTitle { title: format!("threshold B of {last} (rows){}", suffix(&others)), scale: Scale::Linear },
            x_words: Vec::new(),
            y: throughput(Scale::Linear),
            lines,
            band: "95 % interval".to_owned(),
            caption: origin.caption("each line by the method that it names", None, &[]),
        };
        Ok(Drawing { stem: FIGURE.to_owned(), svg: chart.svg_with_star(star.as_ref())? })
    }
}

fn line(curve: &ShownCurve) -> ChartLine {
    let points = curve.points.iter().map(|point| ChartPoint {
        x: f64::from(point.threshold),
        y: point.throughput,
        band: point.ci_low.zip(point.ci_high),
    });
    ChartLine { label: curve.method.clone(), points: points.collect(), dashed: curve.method != "simulated" }
}

/// The name of the curve of a method.
fn curve_name(method: &str) -> &str {
    match method {
        "mean-field" => "mean field",
        "simulate" => "simulated",
        other => other,
    }
}

/// The part of a comparison's `report.json` that its figure needs.
#[derive(Debug, Deserialize)]
struct ComparedPolicy {
    policy: String,
}

/// Throughput at the best thresholds against concurrency, a line a placement; dashed the large model alone.
pub(crate) fn comparison(rows: &[CompareRow], report: Option<&[u8]>, origin: &Origin) -> Result<Drawing, FigureError> {
    let mut lines: Vec<ChartLine> = Vec::new();
    for row in rows.iter().filter(|row| row.mode == "delayed" || row.mode == "large-only") {
        let dashed = row.mode == "large-only";
        let label = if dashed { row.placement.clone() } else { place(&row.placement, row.order.as_deref()) };
        let point = ChartPoint { x: f64::from(row.concurrency), y: row.throughput, band: row.ci_low.zip(row.ci_high) };
        match lines.iter_mut().find(|line| line.label == label) {
            Some(line) => line.points.push(point),
            None => lines.push(ChartLine { label, points: vec![point], dashed }),
        }
    }
    let policy: Option<ComparedPolicy> = report.and_then(|bytes| serde_json::from_slice(bytes).ok());
    let policy = policy.map_or_else(String::new, |found| format!(": {}", found.policy));
    let chart = LineChart {
        title: format!("Throughput at the best thresholds against concurrency{policy}"),
        x: AxisTitle { title: "concurrency C (requests)".to_owned(), scale: Scale::Log },
        x_words: Vec::new(),
        y: throughput(Scale::Log),
        lines,
        band: "95 % interval".to_owned(),
        caption: origin.caption("simulated", None, &["dashed: without routing"]),
    };
    Ok(Drawing { stem: FIGURE.to_owned(), svg: chart.svg()? })
}

fn throughput(scale: Scale) -> AxisTitle {
    AxisTitle { title: "throughput (tokens/s)".to_owned(), scale }
}

fn place(placement: &str, order: Option<&str>) -> String {
    order.map_or_else(|| placement.to_owned(), |order| format!("{placement}, {order}"))
}

fn suffix(others: &[String]) -> String {
    if others.is_empty() { String::new() } else { format!("; {}", others.join(", ")) }
}
