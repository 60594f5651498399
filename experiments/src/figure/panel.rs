//! Draws one panel: its axes, and its curves with their bands, levels, marks and labels.

use super::FigureError;
use super::axis::Axis;
use super::canvas::{Canvas, Lettering, Pen, Point, Side};
use super::font::{self, Weight};
use super::labels;
use super::legend;
use super::sheet::{Curve, CurvePoint, Stroke, fitting};
use super::style;

/// Where the area between the axes is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    pub(super) left: f64,
    pub(super) top: f64,
    pub(super) width: f64,
    pub(super) height: f64,
}

/// From the frame to the text of a label: the line that leads to it, and its marker.
pub(super) const LABEL_START: f64 = 32.0;

/// A line that leads over a larger share of the frame to its label is dotted, so that nobody takes it for a part of the curve.
const LEADER_MAX: f64 = 0.2;

/// The least distance of the middles of two labels.
const LABEL_GAP: f64 = style::LABEL_SIZE + 3.0;

/// From the frame to the middle of the y axis' title.
fn y_title_distance(y_axis: &Axis) -> f64 {
    let labels = y_axis.ticks.iter().map(|tick| font::width(&tick.label, style::TICK_SIZE, Weight::Regular));
    (labels.fold(0.0, f64::max) + 9.0 + 12.0).max(52.0)
}

/// Room for the labels and the title of the y axis.
pub(super) fn left_of_frame(y_axis: &Axis) -> f64 {
    y_title_distance(y_axis) + 10.0
}

impl Frame {
    fn right(&self) -> f64 {
        self.left + self.width
    }

    fn bottom(&self) -> f64 {
        self.top + self.height
    }

    fn x(&self, axis: &Axis, value: f64) -> f64 {
        self.left + self.width * axis.position(value)
    }

    fn y(&self, axis: &Axis, value: f64) -> f64 {
        self.bottom() - self.height * axis.position(value)
    }
}

/// Sizes of letters for words along the x axis: the first in which all of them fit, and one for words of which some must be left out.
const WORD_SIZES: [f64; 5] = [style::TICK_SIZE, 11.0, 10.0, 9.0, 8.0];
const WORD_SIZE_MIN: f64 = 9.0;

/// Grid lines, ticks, tick labels and titles of both axes.
pub(super) fn draw_axes(
    canvas: &Canvas<'_>,
    frame: &Frame,
    (x_axis, x_title): (&Axis, &str),
    (y_axis, y_title): (&Axis, &str),
) -> Result<(), FigureError> {
    let grid = Pen::new(style::GRID, style::HAIRLINE);
    let ink = Pen::new(style::SOFT_INK, style::HAIRLINE);
    let letters = |size, side| Lettering { size, weight: Weight::Regular, color: style::INK, side };
    let (bottom, right) = (frame.bottom(), frame.right());

    let centres: Vec<f64> = x_axis.ticks.iter().map(|tick| frame.x(x_axis, tick.value)).collect();
    let widths = |size: f64| -> Vec<f64> {
        x_axis.ticks.iter().map(|tick| font::width(&tick.label, size, Weight::Regular)).collect()
    };
    let fits = |size: &f64| labels::thin(&centres, &widths(*size), 6.0).iter().all(|printed| *printed);
    let tick_size = match x_axis.is_words {
        true => WORD_SIZES.into_iter().find(fits).unwrap_or(WORD_SIZE_MIN),
        false => style::TICK_SIZE,
    };
    let printed = labels::thin(&centres, &widths(tick_size), 6.0);
    for ((tick, &x), printed) in x_axis.ticks.iter().zip(&centres).zip(printed) {
        canvas.line(&[(x, frame.top), (x, bottom)], grid)?;
        canvas.line(&[(x, bottom), (x, bottom + 5.0)], ink)?;
        if printed {
            canvas.text(&tick.label, (x, bottom + 14.0), letters(tick_size, Side::Middle))?;
        }
    }
    for tick in &y_axis.ticks {
        let y = frame.y(y_axis, tick.value);
        canvas.line(&[(frame.left, y), (right, y)], grid)?;
        canvas.line(&[(frame.left - 5.0, y), (frame.left, y)], ink)?;
        canvas.text(&tick.label, (frame.left - 9.0, y), letters(style::TICK_SIZE, Side::End))?;
    }
    canvas.line(&[(frame.left, frame.top), (frame.left, bottom), (right, bottom)], ink)?;
    let middle = (frame.left + frame.width / 2.0, frame.top + frame.height / 2.0);
    let size = |title: &str, room: f64| fitting(title, style::AXIS_TITLE_SIZE, Weight::Regular, room);
    // The title of the x axis may go on below the labels at the right.
    let x_size = size(x_title, frame.width + LABEL_START);
    canvas.text(x_title, (middle.0, bottom + 34.0), letters(x_size, Side::Middle))?;
    let y_size = size(y_title, frame.height);
    canvas.text(y_title, (frame.left - y_title_distance(y_axis), middle.1), letters(y_size, Side::Upwards))
}

/// The curves, from what may be covered to what must be seen: bands, levels, lines, markers, stars, labels.
pub(super) fn draw_curves(
    canvas: &Canvas<'_>,
    frame: &Frame,
    x_axis: &Axis,
    y_axis: &Axis,
    curves: &[Curve],
) -> Result<(), FigureError> {
    let place = |point: &CurvePoint| (frame.x(x_axis, point.x), frame.y(y_axis, point.y));
    for curve in curves {
        let outer = |point: &CurvePoint| point.outer;
        let inner = |point: &CurvePoint| point.inner;
        draw_band(canvas, curve, style::OUTER_OPACITY, &band(frame, x_axis, y_axis, curve, outer))?;
        draw_band(canvas, curve, style::INNER_OPACITY, &band(frame, x_axis, y_axis, curve, inner))?;
    }
    for curve in curves {
        if let Some(level) = curve.level {
            let y = frame.y(y_axis, level);
            let pen = Pen::new(curve.look.color, style::LEVEL_WIDTH);
            canvas.dashed_line(&[(frame.left, y), (frame.right(), y)], style::DASH, pen)?;
            // In grey, the small marker tells whose level it is.
            canvas.marker(curve.look.marker, (frame.left, y), style::MARKER_RADIUS - 1.2, curve.look.color, false)?;
        }
    }
    for curve in curves {
        let points: Vec<Point> = curve.points.iter().map(place).collect();
        let pen = Pen::new(curve.look.color, style::CURVE_WIDTH);
        match curve.stroke {
            Stroke::Solid => canvas.line(&points, pen)?,
            Stroke::Dashed => canvas.dashed_line(&points, style::DASH, pen)?,
            Stroke::Absent => {}
        }
    }
    let marked: Vec<&Curve> = curves.iter().filter(|curve| curve.has_markers).collect();
    let places: Vec<Vec<Point>> = marked.iter().map(|curve| curve.points.iter().map(place).collect()).collect();
    for (curve_idx, curve) in marked.into_iter().enumerate() {
        for (point, &centre) in curve.points.iter().zip(&places[curve_idx]) {
            if let Some((low, high)) = point.bar {
                let x = frame.x(x_axis, point.x);
                let pen = Pen::new(curve.look.color, style::CURVE_WIDTH);
                canvas.line(&[(x, frame.y(y_axis, low)), (x, frame.y(y_axis, high))], pen)?;
            }
            let radius = marker_radius(centre, places[curve_idx + 1..].iter().flatten().copied());
            canvas.marker(curve.look.marker, centre, radius, curve.look.color, point.hollow)?;
        }
    }
    for curve in curves {
        draw_marks(canvas, curve, place)?;
    }
    draw_labels(canvas, frame, x_axis, y_axis, curves)
}

/// The radius of a marker: larger where others will lie on it, so that all of them can be seen.
fn marker_radius((x, y): Point, later: impl Iterator<Item = Point>) -> f64 {
    const SAME_PLACE: f64 = 1.5;
    const SEEN_MAX: usize = 3;
    let above = later.filter(|(other_x, other_y)| (other_x - x).abs().max((other_y - y).abs()) <= SAME_PLACE);
    let n_above = u32::try_from(above.take(SEEN_MAX).count()).expect("at most 3");
    style::MARKER_RADIUS + style::MARKER_STEP * f64::from(n_above)
}

/// The star of a curve, and the rings around its flagged points.
fn draw_marks(canvas: &Canvas<'_>, curve: &Curve, place: impl Fn(&CurvePoint) -> Point) -> Result<(), FigureError> {
    for (point_idx, point) in curve.points.iter().enumerate() {
        let star = curve.star.filter(|star| star.point_idx == point_idx);
        if let Some(star) = star {
            // The star covers the marker, and must say what it said.
            let color = if point.hollow { style::PAPER } else { curve.look.color };
            if star.open_to_the_left {
                legend::draw_open_star(canvas, place(point), color)?;
            } else {
                canvas.star(place(point), style::STAR_RADIUS, color, style::INK)?;
            }
        }
        if point.ringed {
            let radius = if star.is_some() { style::STAR_RADIUS + 4.0 } else { style::RING_RADIUS };
            legend::draw_ring(canvas, place(point), radius)?;
        }
    }
    Ok(())
}

/// The upper and the lower edge of a band, one run for each stretch of points that have one.
fn band(
    frame: &Frame,
    x_axis: &Axis,
    y_axis: &Axis,
    curve: &Curve,
    ends: impl Fn(&CurvePoint) -> Option<(f64, f64)>,
) -> Vec<(Vec<Point>, Vec<Point>)> {
    let mut runs = vec![(Vec::new(), Vec::new())];
    for point in &curve.points {
        let Some((low, high)) = ends(point) else {
            runs.push((Vec::new(), Vec::new()));
            continue;
        };
        let x = frame.x(x_axis, point.x);
        let (upper, lower) = runs.last_mut().expect("there is always a run");
        upper.push((x, frame.y(y_axis, high)));
        lower.push((x, frame.y(y_axis, low)));
    }
    runs.retain(|(upper, _)| !upper.is_empty());
    runs
}

fn draw_band(
    canvas: &Canvas<'_>,
    curve: &Curve,
    opacity: f64,
    runs: &[(Vec<Point>, Vec<Point>)],
) -> Result<(), FigureError> {
    // A point without neighbours gets a band as wide as its marker.
    const HALF_WIDTH: f64 = style::MARKER_RADIUS + 2.0;
    for (upper, lower) in runs {
        let widen = |edge: &[Point]| match edge {
            [(x, y)] => vec![(x - HALF_WIDTH, *y), (x + HALF_WIDTH, *y)],
            _ => edge.to_vec(),
        };
        let (upper, lower) = (widen(upper), widen(lower));
        let around: Vec<Point> = upper.iter().chain(lower.iter().rev()).copied().collect();
        canvas.polygon(&around, Pen::fill(curve.look.color, opacity))?;
        let edge = Pen { opacity: opacity * 1.5, ..Pen::new(curve.look.color, style::HAIRLINE) };
        canvas.line(&upper, edge)?;
        canvas.line(&lower, edge)?;
    }
    Ok(())
}

/// The names of the curves beside their right ends, moved apart where they would overlap.
fn draw_labels(
    canvas: &Canvas<'_>,
    frame: &Frame,
    x_axis: &Axis,
    y_axis: &Axis,
    curves: &[Curve],
) -> Result<(), FigureError> {
    let mut ends: Vec<(Point, &Curve)> = curves
        .iter()
        .filter(|curve| curve.has_markers)
        .filter_map(|curve| curve.points.last().map(|last| (last, curve)))
        .map(|(last, curve)| ((frame.x(x_axis, last.x), frame.y(y_axis, last.y)), curve))
        .collect();
    ends.sort_by(|a, b| a.0.1.total_cmp(&b.0.1));
    let wanted: Vec<f64> = ends.iter().map(|((_, y), _)| *y).collect();
    let places = labels::spread(&wanted, LABEL_GAP, frame.top, frame.bottom());
    let gap = places.windows(2).map(|pair| pair[1] - pair[0]).fold(LABEL_GAP, f64::min);
    // Smaller letters rather than letters on top of each other.
    let size = style::LABEL_SIZE.min(gap * style::LABEL_SIZE / LABEL_GAP);
    for (((x, y), curve), label_y) in ends.into_iter().zip(places) {
        let look = curve.look;
        let marker_x = frame.right() + LABEL_START - 11.0;
        let leader = [(x + style::RING_RADIUS + 1.0, y), (frame.right(), y), (marker_x - 8.0, label_y)];
        let pen = Pen { opacity: 0.6, ..Pen::new(look.color, style::HAIRLINE) };
        if frame.right() - x > LEADER_MAX * frame.width {
            canvas.dashed_line(&leader, style::DOTS, pen)?;
        } else {
            canvas.line(&leader, pen)?;
        }
        canvas.marker(look.marker, (marker_x, label_y), style::MARKER_RADIUS.min(size / 2.0), look.color, false)?;
        let letters = Lettering { size, weight: Weight::Bold, color: look.text_color(), side: Side::Start };
        canvas.text(&curve.label, (frame.right() + LABEL_START, label_y), letters)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_marker_below_others_is_larger() {
        let radius = |later: &[Point]| marker_radius((10.0, 10.0), later.iter().copied());
        assert_eq!(radius(&[]), style::MARKER_RADIUS);
        assert_eq!(radius(&[(10.0, 13.0), (12.0, 10.0)]), style::MARKER_RADIUS);
        assert_eq!(radius(&[(10.0, 11.0)]), style::MARKER_RADIUS + style::MARKER_STEP);
        assert_eq!(radius(&[(10.0, 10.0); 9]), style::MARKER_RADIUS + 3.0 * style::MARKER_STEP);
    }
}
