//! Draws shapes and text into an SVG, in CSS pixels with fractions.

use plotters::backend::SVGBackend;
use plotters::coord::Shift;
use plotters::drawing::{DrawingArea, DrawingAreaErrorKind, IntoDrawingArea};
use plotters::element::{Circle, DashedPathElement, PathElement, Polygon, Text};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color as _, FontFamily, FontStyle, FontTransform, IntoFont, RGBAColor, ShapeStyle};

use super::FigureError;
use super::font::{self, Weight};
use super::style::{Color, Marker, PAPER};

/// Plotters counts in whole units, so that a unit must be finer than a pixel for smooth curves.
const UNITS_PER_PIXEL: f64 = 8.0;

/// Plotters divides the size of a font by this before it writes it into the SVG.
const PLOTTERS_FONT_FACTOR: f64 = 1.24;

/// A place: pixels from the left and from the top.
pub(super) type Point = (f64, f64);

/// What is drawn along a line or in an area.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pen {
    pub(super) color: Color,
    pub(super) opacity: f64,
    pub(super) width: f64,
}

impl Pen {
    /// An opaque pen.
    pub(super) fn new(color: Color, width: f64) -> Self {
        Self { color, opacity: 1.0, width }
    }

    /// The filling of an area.
    pub(super) fn fill(color: Color, opacity: f64) -> Self {
        Self { color, opacity, width: 0.0 }
    }
}

/// How a line of text stands at its place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lettering {
    pub(super) size: f64,
    pub(super) weight: Weight,
    pub(super) color: Color,
    pub(super) side: Side,
}

/// Which part of a text stands at its place; its height is always centred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Start,
    Middle,
    End,
    /// The middle, with the text running upwards.
    Upwards,
}

/// An SVG under construction.
pub(super) struct Canvas<'a> {
    area: DrawingArea<SVGBackend<'a>, Shift>,
}

/// Draws a picture of this size, in pixels, on white paper and returns it as SVG. The title is for readers that do not
/// see the picture.
pub(super) fn picture(
    (width, height): (f64, f64),
    title: &str,
    draw: impl FnOnce(&Canvas<'_>) -> Result<(), FigureError>,
) -> Result<String, FigureError> {
    let units = (size_units(width)?, size_units(height)?);
    let mut svg = String::new();
    {
        let canvas = Canvas { area: SVGBackend::with_string(&mut svg, units).into_drawing_area() };
        let (red, green, blue) = PAPER;
        canvas.area.fill(&RGBAColor(red, green, blue, 1.0)).map_err(draw_error)?;
        draw(&canvas)?;
        canvas.area.present().map_err(draw_error)?;
    }
    // Plotters makes a picture of as many pixels as units. The shapes stay; only the root element is written anew.
    let (_, shapes) = svg.split_once('>').ok_or_else(|| FigureError::Draw("the SVG has no root element".to_owned()))?;
    Ok(format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {} {}\" \
         role=\"img\" stroke-linejoin=\"round\">\n<title>{}</title>{shapes}",
        units.0,
        units.1,
        font::escape(title)
    ))
}

impl Canvas<'_> {
    /// A line through the points.
    pub(super) fn line(&self, points: &[Point], pen: Pen) -> Result<(), FigureError> {
        let points = points.iter().map(|&point| units(point)).collect::<Result<Vec<_>, _>>()?;
        self.area.draw(&PathElement::new(points, shape_style(pen))).map_err(draw_error)
    }

    /// A line through the points, in dashes of the given length and distance.
    pub(super) fn dashed_line(&self, points: &[Point], (dash, gap): (f64, f64), pen: Pen) -> Result<(), FigureError> {
        let points = points.iter().map(|&point| units(point)).collect::<Result<Vec<_>, _>>()?;
        let (dash, gap) = (size_units(dash)?, size_units(gap)?);
        self.area.draw(&DashedPathElement::new(points, dash, gap, shape_style(pen))).map_err(draw_error)
    }

    /// A filled area within the points.
    pub(super) fn polygon(&self, points: &[Point], pen: Pen) -> Result<(), FigureError> {
        let points = points.iter().map(|&point| units(point)).collect::<Result<Vec<_>, _>>()?;
        self.area.draw(&Polygon::new(points, shape_style(pen).filled())).map_err(draw_error)
    }

    /// A circle line.
    pub(super) fn ring(&self, centre: Point, radius: f64, pen: Pen) -> Result<(), FigureError> {
        let radius = size_units(radius)?;
        self.area.draw(&Circle::new(units(centre)?, radius, shape_style(pen))).map_err(draw_error)
    }

    /// A filled circle.
    pub(super) fn disc(&self, centre: Point, radius: f64, color: Color) -> Result<(), FigureError> {
        let style = shape_style(Pen::fill(color, 1.0)).filled();
        self.area.draw(&Circle::new(units(centre)?, size_units(radius)?, style)).map_err(draw_error)
    }

    /// The marker of a point, with a white rim that sets it off from the lines below; hollow, or filled.
    pub(super) fn marker(
        &self,
        marker: Marker,
        centre: Point,
        radius: f64,
        color: Color,
        hollow: bool,
    ) -> Result<(), FigureError> {
        let rim = 1.2;
        self.shape(marker, centre, radius + rim, PAPER)?;
        self.shape(marker, centre, radius, color)?;
        if hollow {
            // As wide a line as that of the curves, whatever the shape.
            self.shape(marker, centre, radius - 1.7, PAPER)?;
        }
        Ok(())
    }

    /// A five-pointed star with a dark outline.
    pub(super) fn star(&self, centre: Point, radius: f64, color: Color, outline: Color) -> Result<(), FigureError> {
        for (radius, color) in [(radius + 2.8, PAPER), (radius + 1.4, outline), (radius - 1.2, color)] {
            self.polygon(&star(centre, radius), Pen::fill(color, 1.0))?;
        }
        Ok(())
    }

    /// A line of text.
    pub(super) fn text(&self, text: &str, at: Point, lettering: Lettering) -> Result<(), FigureError> {
        let text: String = text.chars().map(font::printable).collect();
        let style = match lettering.weight {
            Weight::Regular => FontStyle::Normal,
            Weight::Bold => FontStyle::Bold,
        };
        let size = lettering.size * UNITS_PER_PIXEL * PLOTTERS_FONT_FACTOR;
        let font = (FontFamily::Name(font::FAMILY_LIST), size, style).into_font();
        let (red, green, blue) = lettering.color;
        let (h_pos, transform) = match lettering.side {
            Side::Start => (HPos::Left, FontTransform::None),
            Side::Middle => (HPos::Center, FontTransform::None),
            Side::End => (HPos::Right, FontTransform::None),
            Side::Upwards => (HPos::Center, FontTransform::Rotate270),
        };
        let style =
            font.transform(transform).color(&RGBAColor(red, green, blue, 1.0)).pos(Pos::new(h_pos, VPos::Center));
        self.area.draw(&Text::new(text, units(at)?, style)).map_err(draw_error)
    }

    fn shape(&self, marker: Marker, centre: Point, radius: f64, color: Color) -> Result<(), FigureError> {
        if marker == Marker::Circle {
            return self.disc(centre, radius, color);
        }
        let (x, y) = centre;
        let points: Vec<Point> = outline(marker).iter().map(|(dx, dy)| (x + dx * radius, y + dy * radius)).collect();
        self.polygon(&points, Pen::fill(color, 1.0))
    }
}

/// The corners of a marker of radius 1, scaled so that all markers look equally large.
fn outline(marker: Marker) -> &'static [Point] {
    match marker {
        Marker::Circle => &[],
        Marker::Square => &[(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)],
        Marker::Triangle => &[(0.0, -1.3), (1.15, 0.75), (-1.15, 0.75)],
        Marker::DownTriangle => &[(0.0, 1.3), (1.15, -0.75), (-1.15, -0.75)],
        Marker::Diamond => &[(0.0, -1.3), (1.3, 0.0), (0.0, 1.3), (-1.3, 0.0)],
        Marker::Plus => &[
            (-0.45, -1.25),
            (0.45, -1.25),
            (0.45, -0.45),
            (1.25, -0.45),
            (1.25, 0.45),
            (0.45, 0.45),
            (0.45, 1.25),
            (-0.45, 1.25),
            (-0.45, 0.45),
            (-1.25, 0.45),
            (-1.25, -0.45),
            (-0.45, -0.45),
        ],
    }
}

fn star((x, y): Point, radius: f64) -> Vec<Point> {
    let corner = |idx: u32| {
        let angle = std::f64::consts::PI * (f64::from(idx) / 5.0 - 0.5);
        let distance = if idx.is_multiple_of(2) { radius } else { radius * 0.45 };
        (x + distance * angle.cos(), y + distance * angle.sin())
    };
    (0..10).map(corner).collect()
}

fn shape_style(pen: Pen) -> ShapeStyle {
    let (red, green, blue) = pen.color;
    // A line thinner than a unit is a unit wide.
    let width = size_units(pen.width).unwrap_or(1).max(1);
    ShapeStyle { color: RGBAColor(red, green, blue, pen.opacity).to_rgba(), filled: false, stroke_width: width }
}

fn units((x, y): Point) -> Result<(i32, i32), FigureError> {
    Ok((to_units(x)?, to_units(y)?))
}

fn size_units(length: f64) -> Result<u32, FigureError> {
    u32::try_from(to_units(length)?.max(0)).map_err(|error| FigureError::Draw(error.to_string()))
}

fn to_units(length: f64) -> Result<i32, FigureError> {
    let rounded = (length * UNITS_PER_PIXEL).round();
    if rounded.abs() > 1.0e6 || rounded.is_nan() {
        return Err(FigureError::Draw(format!("{length} pixels is no place on the figure")));
    }
    #[expect(clippy::cast_possible_truncation, reason = "a whole number below 10^6, checked above")]
    Ok(rounded as i32)
}

fn draw_error<E: std::error::Error + Send + Sync>(error: DrawingAreaErrorKind<E>) -> FigureError {
    FigureError::Draw(error.to_string())
}
