//! A chart of lines over one variable, for whatever a command runs over a grid of it.

use super::axis::Axis;
use super::legend::Sample;
use super::looks::Looks;
use super::sheet::{Curve, CurvePoint, Panel, Sheet, Star, Stroke};
use super::{FigureError, Scale, interval, placed};

/// Everything that the chart shows.
#[derive(Clone, Debug)]
pub(crate) struct LineChart {
    /// What the chart is about, in one line.
    pub(crate) title: String,
    /// The variable.
    pub(crate) x: AxisTitle,
    /// What stands at 0, 1 and so on of a variable whose values are words; empty for numbers.
    pub(crate) x_words: Vec<String>,
    /// What is plotted against it.
    pub(crate) y: AxisTitle,
    /// At least one line.
    pub(crate) lines: Vec<ChartLine>,
    /// What the bands are, if lines have any: `95 % interval`.
    pub(crate) band: String,
    /// Parts of the line below the chart: scenario, seed, version, notes.
    pub(crate) caption: Vec<String>,
}

/// The name of an axis and its scale.
#[derive(Clone, Debug)]
pub(crate) struct AxisTitle {
    /// The quantity with its unit: `batch admission delay (ms)`.
    pub(crate) title: String,
    /// How values are laid out.
    pub(crate) scale: Scale,
}

/// A line with its name.
#[derive(Clone, Debug)]
pub(crate) struct ChartLine {
    /// Printed beside its right end.
    pub(crate) label: String,
    /// In any order.
    pub(crate) points: Vec<ChartPoint>,
    /// Drawn in dashes, as a prediction beside a measurement.
    pub(crate) dashed: bool,
}

/// A point of a line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChartPoint {
    /// Place along the x axis.
    pub(crate) x: f64,
    /// Place along the y axis.
    pub(crate) y: f64,
    /// Ends of the band around it.
    pub(crate) band: Option<(f64, f64)>,
}

/// A point that is marked with a star.
#[derive(Clone, Debug)]
pub(crate) struct StarAt {
    /// Which of the lines it is on.
    pub(crate) line_idx: usize,
    /// Its place along the x axis; without a point there is no star.
    pub(crate) x: f64,
    /// What the star means, for the legend.
    pub(crate) text: String,
}

impl LineChart {
    /// The chart as SVG.
    ///
    /// # Errors
    /// When there is nothing to draw, or a value is not a number or cannot stand on a logarithmic axis. The error names
    /// the line.
    pub(crate) fn svg(&self) -> Result<String, FigureError> {
        self.svg_with_star(None)
    }

    /// The same with a star on one of its points.
    ///
    /// # Errors
    /// As for [`Self::svg`].
    pub(crate) fn svg_with_star(&self, star: Option<&StarAt>) -> Result<String, FigureError> {
        let mut sheet = self.sheet()?;
        if let Some(star) = star
            && let Some(curve) = sheet.panels[0].curves.get_mut(star.line_idx)
            && let Some(point_idx) = curve.points.iter().position(|point| point.x == star.x)
        {
            curve.star = Some(Star { point_idx, open_to_the_left: false });
            sheet.legend.push((Sample::Star, star.text.clone()));
        }
        sheet.svg()
    }

    fn sheet(&self) -> Result<Sheet, FigureError> {
        if self.lines.is_empty() {
            return Err(FigureError::Empty { place: "the chart".to_owned(), missing: "lines" });
        }
        let looks = Looks::of(self.lines.iter().map(|line| line.label.as_str()));
        let curves = self.lines.iter().map(|line| self.curve(line, &looks));
        let curves = curves.collect::<Result<Vec<_>, _>>()?;
        let points = || curves.iter().flat_map(|curve| &curve.points);
        let bands = points().filter_map(|point| point.inner).flat_map(|(low, high)| [low, high]);
        // An end of a band that a logarithmic axis cannot show is cut off.
        let shown = bands.filter(|end| self.y.scale == Scale::Linear || *end > 0.0);
        let (y_low, y_high) = ends(points().map(|point| point.y).chain(shown));
        let has_bands = points().any(|point| point.inner.is_some());
        Ok(Sheet {
            title: self.title.clone(),
            legend: if has_bands { vec![(Sample::Inner, self.band.clone())] } else { Vec::new() },
            x: match self.x_words.as_slice() {
                [] => Axis::of_places(self.x.scale, points().map(|point| point.x)),
                words => Axis::of_words(words),
            },
            x_title: self.x.title.clone(),
            y: Axis::of_range(self.y.scale, y_low, y_high),
            y_title: self.y.title.clone(),
            panels: vec![Panel { title: String::new(), notes: Vec::new(), curves }],
            caption: self.caption.clone(),
        })
    }

    fn curve(&self, line: &ChartLine, looks: &Looks) -> Result<Curve, FigureError> {
        let place = format!("line `{}`", line.label);
        if line.points.is_empty() {
            return Err(FigureError::Empty { place, missing: "points" });
        }
        let point = |point: &ChartPoint| {
            let inner = point.band.map(|(low, high)| interval(low, high, &place, "band"));
            Ok(CurvePoint {
                x: placed(point.x, self.x.scale, &place, "x")?,
                y: placed(point.y, self.y.scale, &place, "y")?,
                inner: inner.transpose()?,
                outer: None,
                bar: None,
                hollow: false,
                ringed: false,
            })
        };
        let mut points = line.points.iter().map(point).collect::<Result<Vec<CurvePoint>, FigureError>>()?;
        points.sort_by(|a, b| a.x.total_cmp(&b.x));
        let (label, look) = (line.label.clone(), looks.look(&line.label));
        let stroke = if line.dashed { Stroke::Dashed } else { Stroke::Solid };
        Ok(Curve { label, look, stroke, has_markers: true, points, level: None, star: None })
    }
}

fn ends(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)))
}

#[cfg(test)]
mod tests;
