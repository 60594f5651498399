//! The legend: one sample and its meaning per item, shared by all panels.

use super::FigureError;
use super::canvas::{Canvas, Lettering, Pen, Point, Side};
use super::font::{self, Weight};
use super::style::{self, Marker};

/// What an item of the legend shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sample {
    /// A line with a marker.
    Curve,
    /// A dashed line.
    Level,
    /// A band of the darker kind.
    Inner,
    /// A band of the lighter kind.
    Outer,
    /// A star.
    Star,
    /// A star with an arrow to the left.
    OpenStar,
    /// A hollow marker.
    Hollow,
    /// A marker in a ring.
    Ringed,
    /// A marker with a bar through it, on no line.
    Bar,
    /// A marker on no line.
    Point,
}

/// Between two items.
pub(super) const GAP: f64 = 22.0;

const BESIDE_TEXT: f64 = 7.0;

/// The width of an item.
pub(super) fn width(sample: Sample, text: &str) -> f64 {
    sample_width(sample) + BESIDE_TEXT + font::width(text, style::NOTE_SIZE, Weight::Regular)
}

fn sample_width(sample: Sample) -> f64 {
    match sample {
        Sample::Curve | Sample::Level | Sample::Inner | Sample::Outer => 30.0,
        Sample::OpenStar => 34.0,
        Sample::Star | Sample::Ringed => 20.0,
        Sample::Hollow | Sample::Bar | Sample::Point => 12.0,
    }
}

/// Draws an item whose left end is at `(x, y)`, centred on the height `y`.
pub(super) fn draw(canvas: &Canvas<'_>, sample: Sample, text: &str, (x, y): Point) -> Result<(), FigureError> {
    let width = sample_width(sample);
    let middle = (x + width / 2.0, y);
    let line = [(x, y), (x + width, y)];
    let pen = Pen::new(style::SAMPLE, style::CURVE_WIDTH);
    match sample {
        Sample::Curve => {
            canvas.line(&line, pen)?;
            canvas.marker(Marker::Circle, middle, style::MARKER_RADIUS, style::SAMPLE, false)?;
        }
        Sample::Level => {
            canvas.dashed_line(&line, style::DASH, Pen::new(style::SAMPLE, style::LEVEL_WIDTH))?;
        }
        Sample::Inner => band(canvas, (x, y), width, style::INNER_OPACITY)?,
        Sample::Outer => band(canvas, (x, y), width, style::OUTER_OPACITY)?,
        Sample::Star => canvas.star(middle, style::STAR_RADIUS, style::PAPER, style::INK)?,
        Sample::OpenStar => draw_open_star(canvas, (x + width - style::STAR_RADIUS - 2.0, y), style::PAPER)?,
        Sample::Point => canvas.marker(Marker::Circle, middle, style::MARKER_RADIUS, style::SAMPLE, false)?,
        Sample::Hollow => canvas.marker(Marker::Circle, middle, style::MARKER_RADIUS, style::SAMPLE, true)?,
        Sample::Bar => {
            canvas.line(&[(middle.0, y - 8.0), (middle.0, y + 8.0)], pen)?;
            canvas.marker(Marker::Circle, middle, style::MARKER_RADIUS, style::SAMPLE, false)?;
        }
        Sample::Ringed => {
            canvas.marker(Marker::Circle, middle, style::MARKER_RADIUS, style::SAMPLE, false)?;
            draw_ring(canvas, middle, style::RING_RADIUS)?;
        }
    }
    let letters = Lettering { size: style::NOTE_SIZE, weight: Weight::Regular, color: style::INK, side: Side::Start };
    canvas.text(text, (x + width + BESIDE_TEXT, y), letters)
}

/// The ring around a flagged point.
pub(super) fn draw_ring(canvas: &Canvas<'_>, centre: Point, radius: f64) -> Result<(), FigureError> {
    canvas.ring(centre, radius, Pen::new(style::INK, 1.3))
}

/// A star with an arrow that points to the left.
pub(super) fn draw_open_star(canvas: &Canvas<'_>, (x, y): Point, color: style::Color) -> Result<(), FigureError> {
    let tip = x - ARROW_LENGTH;
    canvas.line(&[(tip + 4.0, y), (x, y)], Pen::new(style::INK, 2.0))?;
    canvas.polygon(&[(tip, y), (tip + 7.0, y - 4.5), (tip + 7.0, y + 4.5)], Pen::fill(style::INK, 1.0))?;
    canvas.star((x, y), style::STAR_RADIUS, color, style::INK)
}

/// From the centre of a star to the tip of its arrow.
pub(super) const ARROW_LENGTH: f64 = 22.0;

fn band(canvas: &Canvas<'_>, (x, y): Point, width: f64, opacity: f64) -> Result<(), FigureError> {
    let corners = [(x, y - 6.0), (x + width, y - 6.0), (x + width, y + 6.0), (x, y + 6.0)];
    canvas.polygon(&corners, Pen::fill(style::SAMPLE, opacity))?;
    // The edge that a band has in the panels.
    for edge in [y - 6.0, y + 6.0] {
        canvas.line(&[(x, edge), (x + width, edge)], Pen { opacity, ..Pen::new(style::SAMPLE, style::HAIRLINE) })?;
    }
    Ok(())
}
