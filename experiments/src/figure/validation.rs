//! The figure of a validation: predicted lines and measured points, a panel for each placement.

use super::axis::Axis;
use super::legend::Sample;
use super::looks::Looks;
use super::sheet::{Curve, CurvePoint, Panel, Sheet, Stroke};
use super::style;
use super::{FigureError, Scale, interval, placed};

/// Everything that the figure shows.
#[derive(Clone, Debug)]
pub(crate) struct ValidationFigure {
    /// What the figure is about, in one line.
    pub(crate) title: String,
    /// The variable of all panels with its unit.
    pub(crate) x_title: String,
    /// How the variable is laid out.
    pub(crate) x_scale: Scale,
    /// One for each placement or policy, at least one.
    pub(crate) panels: Vec<ValidationPanel>,
    /// Parts of the line below the panels: scenario, device, seed, version, notes.
    pub(crate) caption: Vec<String>,
}

/// The lines of one panel.
#[derive(Clone, Debug)]
pub(crate) struct ValidationPanel {
    /// What its lines have in common.
    pub(crate) title: String,
    /// At least one.
    pub(crate) lines: Vec<ValidationLine>,
}

/// One line of predictions with its measurements.
#[derive(Clone, Debug)]
pub(crate) struct ValidationLine {
    /// Printed beside its right end; lines of the same label look the same in all panels.
    pub(crate) label: String,
    /// In any order, at least one.
    pub(crate) points: Vec<ValidationPoint>,
}

/// A cell: means over its starts, and the lowest and the highest of them. Tokens per second.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ValidationPoint {
    /// Place along the x axis.
    pub(crate) x: f64,
    /// Mean of the predictions.
    pub(crate) predicted: f64,
    /// Lowest and highest prediction.
    pub(crate) predicted_range: (f64, f64),
    /// Mean of the measurements.
    pub(crate) measured: f64,
    /// Lowest and highest measurement.
    pub(crate) measured_range: (f64, f64),
    /// Whether the prediction went beyond the profile.
    pub(crate) extrapolated: bool,
}

impl ValidationFigure {
    /// The figure as SVG.
    ///
    /// # Errors
    /// When there is nothing to draw, or a value has no place on its axis. The error names the line.
    pub(crate) fn svg(&self) -> Result<String, FigureError> {
        self.sheet()?.svg()
    }

    fn sheet(&self) -> Result<Sheet, FigureError> {
        if self.panels.is_empty() {
            return Err(FigureError::Empty { place: "the figure".to_owned(), missing: "panels" });
        }
        let points = || self.panels.iter().flat_map(|panel| &panel.lines).flat_map(|line| &line.points);
        let shown = |value: &f64| *value > 0.0;
        let values = points().flat_map(|point| {
            let ranges = [point.predicted_range, point.measured_range].map(<[f64; 2]>::from);
            [[point.predicted, point.measured], ranges[0], ranges[1]].concat()
        });
        let (y_low, y_high) = ends(values.filter(shown));
        let lines = self.panels.iter().flat_map(|panel| &panel.lines);
        let looks = Looks::of(lines.map(|line| line.label.as_str()));
        Ok(Sheet {
            title: self.title.clone(),
            legend: self.legend(),
            panels: self.panels.iter().map(|panel| self.panel(panel, &looks)).collect::<Result<_, _>>()?,
            x: Axis::of_places(self.x_scale, points().map(|point| point.x)),
            x_title: self.x_title.clone(),
            y: Axis::of_range(Scale::Log, y_low, y_high),
            y_title: "throughput (tokens/s)".to_owned(),
            caption: self.caption.clone(),
        })
    }

    fn legend(&self) -> Vec<(Sample, String)> {
        let points = || self.panels.iter().flat_map(|panel| &panel.lines).flat_map(|line| &line.points);
        let items = [
            (true, Sample::Level, "predicted (mean over starts)"),
            (true, Sample::Inner, "predicted, lowest to highest start"),
            (true, Sample::Bar, "measured (mean, lowest to highest start)"),
            (points().any(|point| point.extrapolated), Sample::Hollow, "prediction beyond the profile"),
        ];
        let present = items.into_iter().filter(|(present, ..)| *present);
        present.map(|(_, sample, text)| (sample, text.to_owned())).collect()
    }

    fn panel(&self, panel: &ValidationPanel, looks: &Looks) -> Result<Panel, FigureError> {
        let mut curves = Vec::new();
        for line in &panel.lines {
            let place = format!("line `{}` in panel `{}`", line.label, panel.title);
            if line.points.is_empty() {
                return Err(FigureError::Empty { place, missing: "points" });
            }
            let mut points = line.points.clone();
            points.sort_by(|left, right| left.x.total_cmp(&right.x));
            let predicted = |point: &ValidationPoint| self.predicted(point, &place);
            let measured = |point: &ValidationPoint| self.measured(point, &place);
            let look = looks.look(&line.label);
            let curve = |stroke, has_markers, points| Curve {
                label: line.label.clone(),
                look,
                stroke,
                has_markers,
                points,
                level: None,
                star: None,
            };
            curves.push(curve(Stroke::Dashed, false, points.iter().map(predicted).collect::<Result<_, _>>()?));
            curves.push(curve(Stroke::Absent, true, points.iter().map(measured).collect::<Result<_, _>>()?));
        }
        if curves.is_empty() {
            return Err(FigureError::Empty { place: format!("panel `{}`", panel.title), missing: "lines" });
        }
        let unit = ("measured points on predicted lines".to_owned(), style::SOFT_INK);
        Ok(Panel { title: panel.title.clone(), notes: vec![unit], curves })
    }

    fn predicted(&self, point: &ValidationPoint, place: &str) -> Result<CurvePoint, FigureError> {
        let (low, high) = point.predicted_range;
        let inner = Some(interval(low, high, place, "predicted range")?);
        self.curve_point((point.x, point.predicted), place, "predicted", inner, None, false)
    }

    fn measured(&self, point: &ValidationPoint, place: &str) -> Result<CurvePoint, FigureError> {
        let (low, high) = point.measured_range;
        let bar = Some(interval(low, high, place, "measured range")?);
        self.curve_point((point.x, point.measured), place, "measured", None, bar, point.extrapolated)
    }

    fn curve_point(
        &self,
        (x, y): (f64, f64),
        place: &str,
        field: &'static str,
        inner: Option<(f64, f64)>,
        bar: Option<(f64, f64)>,
        hollow: bool,
    ) -> Result<CurvePoint, FigureError> {
        let (x, y) = (placed(x, self.x_scale, place, "x")?, placed(y, Scale::Log, place, field)?);
        Ok(CurvePoint { x, y, inner, outer: None, bar, hollow, ringed: false })
    }
}

fn ends(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)))
}

#[cfg(test)]
mod tests {
    use super::super::readable::assert_readable;
    use super::*;

    fn figure(measured: f64) -> ValidationFigure {
        let point = |x: f64| ValidationPoint {
            x,
            predicted: 100.0 + x,
            predicted_range: (90.0 + x, 110.0 + x),
            measured,
            measured_range: (measured * 0.9, measured * 1.1),
            extrapolated: x > 2.0,
        };
        let line = ValidationLine { label: "C = 4".to_owned(), points: [4.0, 1.0, 2.0].map(point).to_vec() };
        ValidationFigure {
            title: "Predicted and measured".to_owned(),
            x_title: "N".to_owned(),
            x_scale: Scale::Log,
            panels: vec![ValidationPanel { title: "overlapped".to_owned(), lines: vec![line] }],
            caption: vec!["scenario tiny.toml".to_owned()],
        }
    }

    #[test]
    fn a_line_has_its_predictions_and_its_measurements() {
        let sheet = figure(95.0).sheet().unwrap();
        let [predicted, measured] = &sheet.panels[0].curves[..] else { panic!("two curves a line") };
        assert_eq!((predicted.stroke, predicted.has_markers), (Stroke::Dashed, false));
        assert_eq!((measured.stroke, measured.has_markers), (Stroke::Absent, true));
        assert_eq!(predicted.points.iter().map(|point| point.x).collect::<Vec<_>>(), [1.0, 2.0, 4.0]);
        assert_eq!(predicted.points[0].inner, Some((91.0, 111.0)));
        assert_eq!(measured.points.iter().map(|point| point.hollow).collect::<Vec<_>>(), [false, false, true]);
        let svg = figure(95.0).svg().unwrap();
        assert!(svg.contains("C = 4"));
        assert_readable(&svg);
    }

    #[test]
    fn a_measurement_without_tokens_is_named() {
        let error = figure(0.0).svg().unwrap_err().to_string();
        assert!(error.contains("`measured` of line `C = 4` in panel `overlapped` is 0"), "{error}");
    }
}
