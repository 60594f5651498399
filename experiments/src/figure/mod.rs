//! Figures: drawn once as SVG, and the same SVG turned into PNG.
//!
//! A figure is described by plain data (`SweepFigure`, `LineChart`, ...), turned into a `Sheet` of panels with curves, and
//! drawn on a `Canvas` that counts in CSS pixels. Text is measured and rendered with a font that is part of the
//! program, so the result is the same on every machine. Every figure is readable in grey: lines differ by marker as well
//! as by colour, and carry their names; a name that stands in several figures looks the same in all of them (`looks`).

mod axis;
mod canvas;
pub(crate) mod chart;
mod font;
mod labels;
mod legend;
mod looks;
mod panel;
mod png;
pub(crate) mod published;
#[cfg(test)]
mod readable;
mod sheet;
mod style;
pub(crate) mod sweep;
pub(crate) mod validation;

/// How values are laid out along an axis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Scale {
    /// Equal differences take equal room.
    Linear,
    /// Equal factors take equal room. Every value must be positive.
    #[default]
    Log,
}

/// Why a figure could not be drawn.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FigureError {
    /// There is nothing to draw.
    #[error("{place} has no {missing}: there is nothing to draw")]
    Empty {
        /// The figure, panel or line.
        place: String,
        /// What it lacks: `panels`, `lines` or `points`.
        missing: &'static str,
    },
    /// A value has no place on its axis.
    #[error("`{field}` of {place} is {value}, expected {expected}")]
    BadValue {
        /// The point or the line.
        place: String,
        /// The field of it.
        field: &'static str,
        /// Its value.
        value: f64,
        /// What it should have been.
        expected: &'static str,
    },
    /// A break-even is marked where its line has no point.
    #[error("the break-even of {place} is at N = {every}, where the line has no point")]
    NoSuchPoint {
        /// The line.
        place: String,
        /// Where the mark should go.
        every: u32,
    },
    /// A drawing operation failed.
    #[error("cannot draw the figure: {0}")]
    Draw(String),
    /// The SVG could not be turned into PNG.
    #[error("cannot turn the figure into PNG: {0}")]
    Raster(String),
}

/// A figure and the name of its files, without their suffix.
#[derive(Clone, Debug)]
pub(crate) struct Drawing {
    /// `figure`, `thresholds`, the name of a table.
    pub(crate) stem: String,
    /// The figure as SVG.
    pub(crate) svg: String,
}

impl Drawing {
    /// The figure as SVG and as PNG, with the names of the files.
    ///
    /// # Errors
    /// When the SVG cannot be turned into PNG.
    pub(crate) fn files(self) -> Result<[(String, Vec<u8>); 2], FigureError> {
        let image = png::rasterise(&self.svg)?;
        let Self { stem, svg } = self;
        Ok([(format!("{stem}.svg"), svg.into_bytes()), (format!("{stem}.png"), image)])
    }
}

/// `value` if it is a number that the scale can show.
fn placed(value: f64, scale: Scale, place: &str, field: &'static str) -> Result<f64, FigureError> {
    let expected = match scale {
        _ if !value.is_finite() => "a finite number",
        Scale::Log if value <= 0.0 => "a positive number on a logarithmic axis",
        _ => return Ok(value),
    };
    Err(FigureError::BadValue { place: place.to_owned(), field, value, expected })
}

/// The ends of an interval if they are numbers in order. An end that the scale cannot show is cut off by the frame.
fn interval(low: f64, high: f64, place: &str, field: &'static str) -> Result<(f64, f64), FigureError> {
    for value in [low, high] {
        placed(value, Scale::Linear, place, field)?;
    }
    if low <= high {
        return Ok((low, high));
    }
    let expected = "a low end that is not above the high end";
    Err(FigureError::BadValue { place: place.to_owned(), field, value: low, expected })
}
