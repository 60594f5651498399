//! The font of all figures: DejaVu Sans, cut down to Latin, Greek and a few symbols, embedded in the program.

use std::sync::{Arc, LazyLock};

use resvg::usvg;

/// What the SVG asks for: a viewer without the font takes its own sans serif.
pub(super) const FAMILY_LIST: &str = "DejaVu Sans, sans-serif";

const FAMILY: &str = "DejaVu Sans";
const REGULAR: &[u8] = include_bytes!("../../fonts/DejaVuSans.ttf");
const BOLD: &[u8] = include_bytes!("../../fonts/DejaVuSans-Bold.ttf");

/// The size at which text is measured; widths are proportional to it.
const MEASURED_SIZE: f64 = 100.0;

/// How heavy the strokes of letters are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Weight {
    Regular,
    Bold,
}

/// Options to read an SVG with no font but the embedded one.
pub(super) fn options() -> usvg::Options<'static> {
    static FONTS: LazyLock<Arc<usvg::fontdb::Database>> = LazyLock::new(|| {
        let mut fonts = usvg::fontdb::Database::new();
        fonts.load_font_data(REGULAR.to_vec());
        fonts.load_font_data(BOLD.to_vec());
        fonts.set_sans_serif_family(FAMILY);
        Arc::new(fonts)
    });
    usvg::Options { fontdb: Arc::clone(&FONTS), font_family: FAMILY.to_owned(), ..usvg::Options::default() }
}

/// The width of a line of text in pixels when it is `size` pixels high.
pub(super) fn width(text: &str, size: f64, weight: Weight) -> f64 {
    let style = match weight {
        Weight::Regular => "normal",
        Weight::Bold => "bold",
    };
    let document = format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" width="1" height="1"><text xml:space="preserve" font-weight="{style}" font-size="{MEASURED_SIZE}">{}</text></svg>"#,
        escape(text)
    );
    let tree = usvg::Tree::from_str(&document, &options()).expect("the document is well formed");
    // Text without a visible glyph leaves no node.
    let measured = tree.root().children().first().map_or(0.0, |node| node.bounding_box().width());
    f64::from(measured) / MEASURED_SIZE * size
}

/// Text as it stands between two tags. Characters that XML does not allow become spaces.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::new();
    for letter in text.chars() {
        match letter {
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            '"' => escaped.push_str("&quot;"),
            other => escaped.push(printable(other)),
        }
    }
    escaped
}

/// The letter, or a space in place of one that may not stand in an XML document.
pub(super) fn printable(letter: char) -> char {
    if letter.is_control() || matches!(letter, '\u{fffe}' | '\u{ffff}') { ' ' } else { letter }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_are_those_of_the_font() {
        // Advances of DejaVu Sans 2.37 in units of 1/2048 em: digits 1303, W 2025; of its bold: digits 1425.
        let close = |measured: f64, units: f64| (measured - units / 2048.0 * 20.0).abs() < 0.05;
        assert!(close(width("0123456789", 20.0, Weight::Regular), 13_030.0));
        assert!(close(width("W", 20.0, Weight::Regular), 2_025.0), "{}", width("W", 20.0, Weight::Regular));
        assert!(close(width("12", 20.0, Weight::Bold), 2_850.0), "{}", width("12", 20.0, Weight::Bold));
    }

    #[test]
    fn strange_text_can_be_measured() {
        assert_eq!(width("", 12.0, Weight::Regular), 0.0);
        assert!(width("<&\">\u{1}", 12.0, Weight::Regular) > 20.0);
        assert!(width("\u{4e2d}", 12.0, Weight::Regular) >= 0.0);
    }

    #[test]
    fn the_font_has_every_symbol_that_figures_use() {
        let font = usvg::fontdb::Database::clone(&options().fontdb);
        assert_eq!(font.len(), 2);
        // A missing letter is drawn as the same box whatever it is.
        let missing = width("\u{4e2d}", 100.0, Weight::Regular);
        for symbol in ['≤', '·', '–', '×', '≥', '%'] {
            assert_ne!(width(&symbol.to_string(), 100.0, Weight::Regular), missing, "{symbol}");
        }
    }
}
