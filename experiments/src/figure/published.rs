//! The figure of a published table: published points on predicted lines.

use super::axis::Axis;
use super::legend::Sample;
use super::looks::Looks;
use super::sheet::{Curve, CurvePoint, Panel, Sheet, Stroke};
use super::{FigureError, Scale, placed};

/// Everything that the figure shows.
#[derive(Clone, Debug)]
pub(crate) struct PublishedFigure {
    /// What the table shows, in one line.
    pub(crate) title: String,
    /// The variable of all panels with its unit.
    pub(crate) x_title: String,
    /// What stands at 0, 1 and so on of a variable whose values are words; empty for numbers, which are laid out by factors.
    pub(crate) x_words: Vec<String>,
    /// What was published, with its unit.
    pub(crate) y_title: String,
    /// At least one.
    pub(crate) panels: Vec<PublishedPanel>,
    /// Parts of the line below the panels.
    pub(crate) caption: Vec<String>,
}

/// The lines of one panel.
#[derive(Clone, Debug)]
pub(crate) struct PublishedPanel {
    /// What its lines have in common; may be empty.
    pub(crate) title: String,
    /// At least one.
    pub(crate) lines: Vec<PublishedLine>,
}

/// A row of the table.
#[derive(Clone, Debug)]
pub(crate) struct PublishedLine {
    /// Printed beside its right end.
    pub(crate) label: String,
    /// In any order, at least one.
    pub(crate) points: Vec<PublishedPoint>,
}

/// A cell of the table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PublishedPoint {
    /// A concurrency, a threshold, or the number of a word.
    pub(crate) x: f64,
    /// What was published.
    pub(crate) published: f64,
    /// What was predicted, if anything was.
    pub(crate) predicted: Option<f64>,
    /// A parameter was fitted on this cell: drawn hollow.
    pub(crate) calibrated: bool,
}

impl PublishedFigure {
    /// The figure as SVG.
    ///
    /// # Errors
    /// When there is nothing to draw, or a value is not positive. The error names the line.
    pub(crate) fn svg(&self) -> Result<String, FigureError> {
        self.sheet()?.svg()
    }

    fn points(&self) -> impl Iterator<Item = &PublishedPoint> {
        self.panels.iter().flat_map(|panel| &panel.lines).flat_map(|line| &line.points)
    }

    fn sheet(&self) -> Result<Sheet, FigureError> {
        if self.panels.is_empty() {
            return Err(FigureError::Empty { place: "the figure".to_owned(), missing: "panels" });
        }
        let lines = self.panels.iter().flat_map(|panel| &panel.lines);
        let looks = Looks::of(lines.map(|line| line.label.as_str()));
        let x_scale = if self.x_words.is_empty() { Scale::Log } else { Scale::Linear };
        let panels = self.panels.iter().map(|own| panel(own, &looks, x_scale)).collect::<Result<Vec<_>, _>>()?;
        let values = self.points().flat_map(|point| [Some(point.published), point.predicted]).flatten();
        let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
            (f64::min(low, value), f64::max(high, value))
        });
        let items = [
            (self.points().any(|point| point.predicted.is_some()), Sample::Level, "predicted"),
            (true, Sample::Point, "published"),
            (
                self.points().any(|point| point.calibrated),
                Sample::Hollow,
                "published, and a parameter was fitted on it",
            ),
        ];
        let legend = items.into_iter().filter(|(present, ..)| *present);
        Ok(Sheet {
            title: self.title.clone(),
            legend: legend.map(|(_, sample, text)| (sample, text.to_owned())).collect(),
            panels,
            x: match self.x_words.as_slice() {
                [] => Axis::of_places(x_scale, self.points().map(|point| point.x)),
                words => Axis::of_words(words),
            },
            x_title: self.x_title.clone(),
            y: Axis::of_range(Scale::Log, low, high),
            y_title: self.y_title.clone(),
            caption: self.caption.clone(),
        })
    }
}

fn panel(panel: &PublishedPanel, looks: &Looks, x_scale: Scale) -> Result<Panel, FigureError> {
    let mut curves = Vec::new();
    for line in &panel.lines {
        let place = format!("line `{}` in panel `{}`", line.label, panel.title);
        if line.points.is_empty() {
            return Err(FigureError::Empty { place, missing: "points" });
        }
        let mut points = line.points.clone();
        points.sort_by(|left, right| left.x.total_cmp(&right.x));
        let point = |x: f64, y: f64, field: &'static str, hollow: bool| {
            let (x, y) = (placed(x, x_scale, &place, "x")?, placed(y, Scale::Log, &place, field)?);
            Ok::<_, FigureError>(CurvePoint { x, y, inner: None, outer: None, bar: None, hollow, ringed: false })
        };
        let curve = |stroke, has_markers, points| Curve {
            label: line.label.clone(),
            look: looks.look(&line.label),
            stroke,
            has_markers,
            points,
            level: None,
            star: None,
        };
        let predicted = points.iter().filter_map(|cell| Some((cell.x, cell.predicted?)));
        let predicted: Vec<CurvePoint> =
            predicted.map(|(x, y)| point(x, y, "predicted", false)).collect::<Result<_, _>>()?;
        if !predicted.is_empty() {
            curves.push(curve(Stroke::Dashed, false, predicted));
        }
        let published = points.iter().map(|cell| point(cell.x, cell.published, "published", cell.calibrated));
        curves.push(curve(Stroke::Absent, true, published.collect::<Result<_, _>>()?));
    }
    if curves.is_empty() {
        return Err(FigureError::Empty { place: format!("panel `{}`", panel.title), missing: "lines" });
    }
    Ok(Panel { title: panel.title.clone(), notes: Vec::new(), curves })
}

#[cfg(test)]
mod tests {
    use super::super::readable::assert_readable;
    use super::*;

    fn figure(published: f64) -> PublishedFigure {
        let point =
            |x: f64| PublishedPoint { x, published, predicted: (x < 8.0).then_some(100.0 + x), calibrated: x < 2.0 };
        let line = PublishedLine { label: "tokenrouter".to_owned(), points: [8.0, 1.0, 4.0].map(point).to_vec() };
        PublishedFigure {
            title: "Ablation".to_owned(),
            x_title: "concurrency".to_owned(),
            x_words: Vec::new(),
            y_title: "throughput (tokens/s)".to_owned(),
            panels: vec![PublishedPanel { title: String::new(), lines: vec![line] }],
            caption: Vec::new(),
        }
    }

    #[test]
    fn published_points_stand_on_predicted_lines() {
        let sheet = figure(95.0).sheet().unwrap();
        let [predicted, published] = &sheet.panels[0].curves[..] else { panic!("two curves a line") };
        assert_eq!((predicted.stroke, predicted.has_markers), (Stroke::Dashed, false));
        assert_eq!(
            predicted.points.iter().map(|point| (point.x, point.y)).collect::<Vec<_>>(),
            [(1.0, 101.0), (4.0, 104.0)]
        );
        assert_eq!(published.points.iter().map(|point| point.hollow).collect::<Vec<_>>(), [true, false, false]);
        assert_eq!(sheet.legend.len(), 3);
        let svg = figure(95.0).svg().unwrap();
        assert!(svg.contains("tokenrouter"));
        assert_readable(&svg);
    }

    #[test]
    fn a_cell_that_cannot_be_placed_is_named() {
        let error = figure(0.0).svg().unwrap_err().to_string();
        assert!(error.contains("`published` of line `tokenrouter`") && error.contains("is 0"), "{error}");
        let nothing = PublishedFigure { panels: Vec::new(), ..figure(1.0) };
        assert!(nothing.svg().unwrap_err().to_string().contains("panels"));
    }
}
