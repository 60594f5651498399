//! The figure of a sweep over "switch every N tokens": throughput against N, a panel per placement, a line per
//! concurrency, beside the level of the large model alone.

use std::collections::BTreeSet;

use super::axis::Axis;
use super::legend::Sample;
use super::looks::Looks;
use super::sheet::{Curve, CurvePoint, Panel, Sheet, Star, Stroke};
use super::style::{self, Look};
use super::{FigureError, Scale, interval, placed};

/// The title of the x axis of every panel.
const X_TITLE: &str = "tokens per visit N (switch every N tokens)";
const Y_TITLE: &str = "throughput (tokens/s)";

/// How far the axis follows the ends of intervals beyond the points themselves; an interval that is wider is cut off,
/// so that one imprecise point does not flatten all curves.
const INTERVAL_ROOM: f64 = 1.3;

/// Everything that the figure shows.
#[derive(Clone, Debug)]
pub(crate) struct SweepFigure {
    /// What the figure is about, in one line.
    pub(crate) title: String,
    /// One per placement; exclusive placement has one per order.
    pub(crate) panels: Vec<SweepPanel>,
    /// How throughput is laid out. Levels usually differ by more than ten times: `Scale::Log`.
    pub(crate) y_scale: Scale,
    /// Parts of the line below the panels: scenario, seed, version, notes.
    pub(crate) caption: Vec<String>,
}

/// The lines of one placement.
#[derive(Clone, Debug)]
pub(crate) struct SweepPanel {
    /// The placement, with its order where it has one.
    pub(crate) title: String,
    /// One per concurrency.
    pub(crate) lines: Vec<SweepLine>,
}

/// Throughput against N at one concurrency.
#[derive(Clone, Debug)]
pub(crate) struct SweepLine {
    /// Requests in the system.
    pub(crate) concurrency: u32,
    /// One per N, in any order.
    pub(crate) points: Vec<SweepPoint>,
    /// Throughput of the large model alone at this concurrency, in tokens per second.
    pub(crate) large_only: Option<f64>,
    /// From where on routing pays.
    pub(crate) break_even: Option<BreakEven>,
}

/// One cell of the sweep. Rates are in tokens per second.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SweepPoint {
    /// Tokens per visit, N.
    pub(crate) every: u32,
    /// Mean throughput.
    pub(crate) throughput: f64,
    /// Lower end of its 95 % interval.
    pub(crate) ci_low: f64,
    /// Upper end of its 95 % interval.
    pub(crate) ci_high: f64,
    /// Throughput of the slowest start.
    pub(crate) orbit_low: f64,
    /// Throughput of the fastest start.
    pub(crate) orbit_high: f64,
    /// The wanted precision was not reached.
    pub(crate) flagged: bool,
    /// A cost was read beyond the measured profile.
    pub(crate) extrapolated: bool,
}

/// The smallest N from which every larger N of the grid has a speed-up of at least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BreakEven {
    /// That N, a value of the grid.
    pub(crate) every: u32,
    /// It is the smallest N of the grid: the true one may be smaller.
    pub(crate) at_grid_edge: bool,
}

impl SweepFigure {
    /// The figure as SVG.
    ///
    /// # Errors
    /// When there is nothing to draw, a value is not a number or cannot stand on a logarithmic axis, or a break-even
    /// names an N without a point. The error names the panel, the line and the N.
    pub(crate) fn svg(&self) -> Result<String, FigureError> {
        self.sheet()?.svg()
    }

    fn sheet(&self) -> Result<Sheet, FigureError> {
        if self.panels.is_empty() {
            return Err(FigureError::Empty { place: "the figure".to_owned(), missing: "panels" });
        }
        let lines = || self.panels.iter().flat_map(|panel| &panel.lines);
        let points = || lines().flat_map(|line| &line.points);
        // The look of a concurrency is the same in all panels, whichever lines each of them has.
        let concurrencies: BTreeSet<u32> = lines().map(|line| line.concurrency).collect();
        let labels: Vec<String> = concurrencies.into_iter().map(label).collect();
        let looks = Looks::of(labels.iter().map(String::as_str));
        let look = |concurrency: u32| looks.look(&label(concurrency));
        let panels = self.panels.iter().map(|panel| self.panel(panel, look)).collect::<Result<Vec<_>, _>>()?;
        Ok(Sheet {
            title: self.title.clone(),
            legend: self.legend(),
            y: self.y_axis(&panels),
            panels,
            x: Axis::of_places(Scale::Log, points().map(|point| f64::from(point.every))),
            x_title: X_TITLE.to_owned(),
            y_title: Y_TITLE.to_owned(),
            caption: self.caption.clone(),
        })
    }

    fn panel(&self, panel: &SweepPanel, look: impl Fn(u32) -> Look) -> Result<Panel, FigureError> {
        if panel.lines.is_empty() {
            return Err(FigureError::Empty { place: format!("panel `{}`", panel.title), missing: "lines" });
        }
        let mut lines: Vec<&SweepLine> = panel.lines.iter().collect();
        lines.sort_by_key(|line| line.concurrency);
        let curve = |line: &&SweepLine| {
            let place = format!("C = {} in panel `{}`", line.concurrency, panel.title);
            self.curve(line, look(line.concurrency), &place)
        };
        let curves = lines.iter().map(curve).collect::<Result<Vec<_>, _>>()?;
        let heading = ("break-even N".to_owned(), style::SOFT_INK);
        let notes = lines.iter().map(|line| (break_even_note(line), look(line.concurrency).text_color()));
        Ok(Panel { title: panel.title.clone(), notes: std::iter::once(heading).chain(notes).collect(), curves })
    }

    fn curve(&self, line: &SweepLine, look: Look, place: &str) -> Result<Curve, FigureError> {
        if line.points.is_empty() {
            return Err(FigureError::Empty { place: place.to_owned(), missing: "points" });
        }
        let mut points: Vec<&SweepPoint> = line.points.iter().collect();
        points.sort_by_key(|point| point.every);
        let level = line.large_only.map(|level| placed(level, self.y_scale, place, "large-only throughput"));
        let curve_points =
            points.iter().map(|point| self.curve_point(point, place)).collect::<Result<Vec<CurvePoint>, _>>()?;
        let star = line.break_even.map(|break_even| {
            let at = points.iter().position(|point| point.every == break_even.every);
            let missing = || FigureError::NoSuchPoint { place: place.to_owned(), every: break_even.every };
            at.ok_or_else(missing).map(|point_idx| Star { point_idx, open_to_the_left: break_even.at_grid_edge })
        });
        Ok(Curve {
            label: label(line.concurrency),
            look,
            stroke: Stroke::Solid,
            has_markers: true,
            points: curve_points,
            level: level.transpose()?,
            star: star.transpose()?,
        })
    }

    fn curve_point(&self, point: &SweepPoint, place: &str) -> Result<CurvePoint, FigureError> {
        let place = format!("N = {}, {place}", point.every);
        Ok(CurvePoint {
            x: placed(f64::from(point.every), Scale::Log, &place, "every")?,
            y: placed(point.throughput, self.y_scale, &place, "throughput")?,
            inner: Some(interval(point.ci_low, point.ci_high, &place, "ci_low, ci_high")?),
            outer: Some(interval(point.orbit_low, point.orbit_high, &place, "orbit_low, orbit_high")?),
            bar: None,
            hollow: point.extrapolated,
            ringed: point.flagged,
        })
    }

    fn y_axis(&self, panels: &[Panel]) -> Axis {
        let curves = || panels.iter().flat_map(|panel| &panel.curves);
        let points = || curves().flat_map(|curve| &curve.points);
        let levels = curves().filter_map(|curve| curve.level);
        let (low, high) = ends(points().map(|point| point.y).chain(levels));
        let intervals = points().flat_map(|point| [point.inner, point.outer]).flatten();
        let (lowest, highest) = ends(intervals.flat_map(|(low, high)| [low, high]));
        Axis::of_range(self.y_scale, lowest.clamp(low / INTERVAL_ROOM, low), highest.clamp(high, high * INTERVAL_ROOM))
    }

    /// Only what the figure has is explained.
    fn legend(&self) -> Vec<(Sample, String)> {
        let lines = || self.panels.iter().flat_map(|panel| &panel.lines);
        let points = || lines().flat_map(|line| &line.points);
        let break_evens = || lines().filter_map(|line| line.break_even);
        let items = [
            (true, Sample::Curve, "switch every N tokens, at concurrency C"),
            (lines().any(|line| line.large_only.is_some()), Sample::Level, "large-only at the same C"),
            (true, Sample::Inner, "95 % interval"),
            (true, Sample::Outer, "spread across starts"),
            (break_evens().any(|found| !found.at_grid_edge), Sample::Star, "break-even N"),
            (break_evens().any(|found| found.at_grid_edge), Sample::OpenStar, "break-even at or below the grid"),
            (points().any(|point| point.flagged), Sample::Ringed, "flagged: precision not reached"),
            (points().any(|point| point.extrapolated), Sample::Hollow, "extrapolated beyond the measured profile"),
        ];
        let present = items.into_iter().filter(|(present, ..)| *present);
        present.map(|(_, sample, text)| (sample, text.to_owned())).collect()
    }
}

fn label(concurrency: u32) -> String {
    format!("C = {concurrency}")
}

fn break_even_note(line: &SweepLine) -> String {
    let concurrency = line.concurrency;
    match line.break_even {
        None => format!("C = {concurrency}: none"),
        Some(found) if found.at_grid_edge => format!("C = {concurrency}: ≤ {}", found.every),
        Some(found) => format!("C = {concurrency}: {}", found.every),
    }
}

fn ends(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)))
}

#[cfg(test)]
mod tests;
