//! Sizes, colours and markers of all figures. Lengths are CSS pixels.

/// Width of every figure.
pub(super) const WIDTH: f64 = 1200.0;
/// White space around the figure.
pub(super) const MARGIN: f64 = 20.0;

pub(super) const TITLE_SIZE: f64 = 20.0;
pub(super) const PANEL_TITLE_SIZE: f64 = 15.0;
pub(super) const AXIS_TITLE_SIZE: f64 = 13.0;
pub(super) const TICK_SIZE: f64 = 12.0;
pub(super) const LABEL_SIZE: f64 = 13.0;
pub(super) const NOTE_SIZE: f64 = 12.0;
pub(super) const CAPTION_SIZE: f64 = 11.5;

pub(super) const CURVE_WIDTH: f64 = 2.0;
pub(super) const LEVEL_WIDTH: f64 = 1.5;
pub(super) const HAIRLINE: f64 = 1.0;
pub(super) const MARKER_RADIUS: f64 = 4.5;
/// By how much a marker is larger than one that lies on it.
pub(super) const MARKER_STEP: f64 = 2.6;
pub(super) const RING_RADIUS: f64 = 8.5;
pub(super) const STAR_RADIUS: f64 = 9.0;
pub(super) const DASH: (f64, f64) = (7.0, 4.0);
pub(super) const DOTS: (f64, f64) = (1.5, 4.5);

/// Opacity of the band between the ends of the 95 % interval.
pub(super) const INNER_OPACITY: f64 = 0.34;
/// Opacity of the band between the lowest and the highest start.
pub(super) const OUTER_OPACITY: f64 = 0.14;

/// Red, green, blue.
pub(super) type Color = (u8, u8, u8);

pub(super) const INK: Color = (0x1a, 0x1a, 0x1a);
pub(super) const SOFT_INK: Color = (0x4d, 0x4d, 0x4d);
pub(super) const GRID: Color = (0xe3, 0xe3, 0xe3);
pub(super) const PAPER: Color = (0xff, 0xff, 0xff);
/// Samples in the legend that stand for a line of any colour.
pub(super) const SAMPLE: Color = (0x55, 0x55, 0x55);

/// The palette of Okabe and Ito ("Color Universal Design", 2008), told apart with every common colour blindness; its
/// yellow is left out, because it is too faint for a line on white.
const PALETTE: [Color; 7] = [
    (0x00, 0x72, 0xb2),
    (0xe6, 0x9f, 0x00),
    (0x00, 0x9e, 0x73),
    (0xd5, 0x5e, 0x00),
    (0xcc, 0x79, 0xa7),
    (0x56, 0xb4, 0xe9),
    (0x00, 0x00, 0x00),
];

/// The shape drawn at each point of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Marker {
    Circle,
    Square,
    Triangle,
    Diamond,
    DownTriangle,
    Plus,
}

const MARKERS: [Marker; 6] =
    [Marker::Circle, Marker::Square, Marker::Triangle, Marker::Diamond, Marker::DownTriangle, Marker::Plus];

/// How a line looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Look {
    pub(super) color: Color,
    pub(super) marker: Marker,
}

impl Look {
    /// The look of the line with this index. Seven colours and six markers give 42 looks before one comes back.
    pub(super) fn new(line_idx: usize) -> Self {
        Self { color: PALETTE[line_idx % PALETTE.len()], marker: MARKERS[line_idx % MARKERS.len()] }
    }

    /// The colour of text about the line: darker, because letters are thinner than lines.
    pub(super) fn text_color(self) -> Color {
        let darker =
            |channel: u8| u8::try_from(u16::from(channel) * 3 / 4).expect("three quarters of a byte fit a byte");
        (darker(self.color.0), darker(self.color.1), darker(self.color.2))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_repeat_only_after_42_lines() {
        for first in 0..42 {
            for second in 0..first {
                assert_ne!(Look::new(first), Look::new(second), "{first} and {second}");
            }
        }
        assert_eq!(Look::new(42), Look::new(0));
    }
}
