//! A sheet: title, legend, panels side by side, caption. What every figure is turned into before it is drawn.

use super::FigureError;
use super::axis::Axis;
use super::canvas::{self, Canvas, Lettering, Side};
use super::font::{self, Weight};
use super::labels;
use super::legend::{self, Sample};
use super::panel::{self, Frame};
use super::style::{self, Color, Look};

/// A whole figure. All panels share their axes, so that they can be compared at a glance.
pub(super) struct Sheet {
    pub(super) title: String,
    pub(super) legend: Vec<(Sample, String)>,
    pub(super) panels: Vec<Panel>,
    pub(super) x: Axis,
    pub(super) x_title: String,
    pub(super) y: Axis,
    pub(super) y_title: String,
    pub(super) caption: Vec<String>,
}

/// One pair of axes with its curves.
pub(super) struct Panel {
    pub(super) title: String,
    /// Short texts below the title, each in a colour of its own.
    pub(super) notes: Vec<(String, Color)>,
    pub(super) curves: Vec<Curve>,
}

/// A line with what belongs to it.
pub(super) struct Curve {
    pub(super) label: String,
    pub(super) look: Look,
    pub(super) stroke: Stroke,
    /// Without its points' markers it is a line alone, and has no name of its own.
    pub(super) has_markers: bool,
    /// In rising order of x, at least one.
    pub(super) points: Vec<CurvePoint>,
    /// A dashed level across the panel.
    pub(super) level: Option<f64>,
    pub(super) star: Option<Star>,
}

/// A point of a curve.
#[derive(Clone, Copy, Debug)]
pub(super) struct CurvePoint {
    pub(super) x: f64,
    pub(super) y: f64,
    /// Ends of the darker band.
    pub(super) inner: Option<(f64, f64)>,
    /// Ends of the lighter band.
    pub(super) outer: Option<(f64, f64)>,
    /// Ends of a bar through the point.
    pub(super) bar: Option<(f64, f64)>,
    pub(super) hollow: bool,
    pub(super) ringed: bool,
}

/// How the points of a curve are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stroke {
    Solid,
    Dashed,
    /// Not at all.
    Absent,
}

/// A star on a point of a curve.
#[derive(Clone, Copy, Debug)]
pub(super) struct Star {
    pub(super) point_idx: usize,
    /// With an arrow to the left: what is marked may lie beyond the axis.
    pub(super) open_to_the_left: bool,
}

/// Heights and widths around the frames of the panels, in pixels.
const TITLE_HEIGHT: f64 = 34.0;
const LEGEND_LINE: f64 = 22.0;
const PANEL_TITLE_HEIGHT: f64 = 26.0;
const NOTE_LINE: f64 = 17.0;
const BELOW_FRAME: f64 = 48.0;
const BETWEEN_PANELS: f64 = 26.0;
const CAPTION_LINE: f64 = 16.0;
const NOTE_GAP: f64 = 12.0;

impl Sheet {
    /// The figure as SVG.
    pub(super) fn svg(&self) -> Result<String, FigureError> {
        if self.panels.is_empty() {
            return Err(FigureError::Empty { place: "the figure".to_owned(), missing: "panels" });
        }
        let layout = Layout::new(self);
        canvas::picture((style::WIDTH, layout.height), &self.title, |canvas| self.draw(canvas, &layout))
    }

    fn draw(&self, canvas: &Canvas<'_>, layout: &Layout) -> Result<(), FigureError> {
        let left = style::MARGIN;
        let room = style::WIDTH - 2.0 * style::MARGIN;
        let heading = lettering(fitting(&self.title, style::TITLE_SIZE, Weight::Bold, room), Weight::Bold, style::INK);
        canvas.text(&self.title, (left, style::MARGIN + style::TITLE_SIZE / 2.0), heading)?;
        for ((sample, text), &(x, line_idx)) in self.legend.iter().zip(&layout.legend) {
            let y = style::MARGIN + TITLE_HEIGHT + LEGEND_LINE * (count(line_idx) + 0.5);
            legend::draw(canvas, *sample, text, (left + x, y))?;
        }
        for (panel, place) in self.panels.iter().zip(&layout.panels) {
            self.draw_panel(canvas, panel, place)?;
        }
        let small = lettering(style::CAPTION_SIZE, Weight::Regular, style::SOFT_INK);
        for (line_idx, line) in layout.caption.iter().enumerate() {
            canvas.text(line, (left, layout.caption_top + CAPTION_LINE * (count(line_idx) + 0.5)), small)?;
        }
        Ok(())
    }

    fn draw_panel(&self, canvas: &Canvas<'_>, panel: &Panel, place: &PanelPlace) -> Result<(), FigureError> {
        let frame = &place.frame;
        let size = fitting(&panel.title, style::PANEL_TITLE_SIZE, Weight::Bold, place.title_width);
        let heading = lettering(size, Weight::Bold, style::INK);
        canvas.text(&panel.title, (frame.left, place.top + PANEL_TITLE_HEIGHT / 2.0 - 1.0), heading)?;
        for ((text, color), &(x, line_idx)) in panel.notes.iter().zip(&place.notes) {
            let y = place.top + PANEL_TITLE_HEIGHT + NOTE_LINE * (count(line_idx) + 0.5) - 3.0;
            canvas.text(text, (frame.left + x, y), lettering(style::NOTE_SIZE, Weight::Regular, *color))?;
        }
        panel::draw_axes(canvas, frame, (&self.x, &self.x_title), (&self.y, &self.y_title))?;
        panel::draw_curves(canvas, frame, &self.x, &self.y, &panel.curves)
    }
}

/// Where everything goes.
struct Layout {
    legend: Vec<(f64, usize)>,
    panels: Vec<PanelPlace>,
    caption: Vec<String>,
    caption_top: f64,
    height: f64,
}

struct PanelPlace {
    top: f64,
    title_width: f64,
    frame: Frame,
    notes: Vec<(f64, usize)>,
}

impl Layout {
    fn new(sheet: &Sheet) -> Self {
        let inner_width = style::WIDTH - 2.0 * style::MARGIN;
        let legend_widths: Vec<f64> = sheet.legend.iter().map(|(sample, text)| legend::width(*sample, text)).collect();
        let legend = labels::flow(&legend_widths, legend::GAP, inner_width);
        let legend_height = n_lines(&legend) * LEGEND_LINE;

        let (n_columns, frame_height) = match sheet.panels.len() {
            1 => (1, 460.0),
            2 => (2, 380.0),
            _ => (2, 290.0),
        };
        let column_width = (inner_width - BETWEEN_PANELS * count(n_columns - 1)) / count(n_columns);
        let left_of_frame = panel::left_of_frame(&sheet.y);
        let frame_width = column_width - left_of_frame - right_of_frame(sheet);
        let title_width = column_width - left_of_frame;
        let flow_notes = |panel: &Panel| {
            let widths: Vec<f64> =
                panel.notes.iter().map(|(text, _)| font::width(text, style::NOTE_SIZE, Weight::Regular)).collect();
            labels::flow(&widths, NOTE_GAP, title_width)
        };
        let notes: Vec<_> = sheet.panels.iter().map(flow_notes).collect();
        // The same for all panels, so that their frames are level.
        let notes_height = notes.iter().map(|places| n_lines(places)).fold(0.0, f64::max) * NOTE_LINE;

        let panels_top = style::MARGIN + TITLE_HEIGHT + legend_height + 12.0;
        let has_titles = sheet.panels.iter().any(|panel| !panel.title.is_empty());
        let title_height = if has_titles { PANEL_TITLE_HEIGHT } else { 0.0 };
        let above_frame = title_height + notes_height + 2.0;
        let row_height = above_frame + frame_height + BELOW_FRAME;
        let place = |(panel_idx, notes): (usize, Vec<(f64, usize)>)| {
            let (row_idx, column_idx) = (panel_idx / n_columns, panel_idx % n_columns);
            let top = panels_top + count(row_idx) * (row_height + BETWEEN_PANELS / 2.0);
            let left = style::MARGIN + count(column_idx) * (column_width + BETWEEN_PANELS) + left_of_frame;
            let frame = Frame { left, top: top + above_frame, width: frame_width, height: frame_height };
            PanelPlace { top, title_width, frame, notes }
        };
        let panels: Vec<PanelPlace> = notes.into_iter().enumerate().map(place).collect();

        let bottom = panels.last().map_or(panels_top, |place| place.frame.top + frame_height + BELOW_FRAME);
        let caption = wrap_caption(&sheet.caption, inner_width);
        let caption_top = bottom + 12.0;
        let height = (caption_top + count(caption.len()) * CAPTION_LINE + style::MARGIN - 6.0).ceil();
        Self { legend, panels, caption, caption_top, height }
    }
}

/// Room for the longest label at the end of a curve, with its marker and the line that leads to it.
fn right_of_frame(sheet: &Sheet) -> f64 {
    let curves = sheet.panels.iter().flat_map(|panel| &panel.curves);
    let widths = curves.map(|curve| font::width(&curve.label, style::LABEL_SIZE, Weight::Bold));
    panel::LABEL_START + widths.fold(0.0, f64::max) + 2.0
}

/// Letters as large as `size`, or as small as the text needs to fit into `room`.
pub(super) fn fitting(text: &str, size: f64, weight: Weight, room: f64) -> f64 {
    let width = font::width(text, size, weight);
    if width > room { size * room / width } else { size }
}

/// The parts of the caption joined by dots, broken between words into lines that fit.
fn wrap_caption(parts: &[String], line_width: f64) -> Vec<String> {
    let parts: Vec<&str> = parts.iter().map(|part| part.trim()).filter(|part| !part.is_empty()).collect();
    let text = parts.join("  ·  ");
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        let longer = lines.last().map(|line| format!("{line} {word}"));
        match (lines.last_mut(), longer) {
            (Some(line), Some(longer)) if font::width(&longer, style::CAPTION_SIZE, Weight::Regular) <= line_width => {
                *line = longer;
            }
            _ if word.is_empty() => {}
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

fn lettering(size: f64, weight: Weight, color: Color) -> Lettering {
    Lettering { size, weight, color, side: Side::Start }
}

fn n_lines(places: &[(f64, usize)]) -> f64 {
    places.last().map_or(0.0, |(_, line_idx)| count(line_idx + 1))
}

fn count(n: usize) -> f64 {
    f64::from(u32::try_from(n).expect("a figure has fewer than 2^32 parts"))
}
