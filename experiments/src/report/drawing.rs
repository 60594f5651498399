//! The figures of a folder as parts of the page.
//!
//! A figure is not copied: it is parsed and written again from the elements and attributes below, so that nothing in the file can run, load or leave
//! its place. Its ids get a prefix, since many figures share one page. On a dark page every colour is shown at the mirrored lightness, unless it is
//! vivid and light already, by rules that [`dark_rules`] makes for the colours that occur.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use maud::{Escaper, Markup, PreEscaped};
use roxmltree::{Document, Node};

use super::{read_text, wrong};
use crate::failure::Failure;

const ELEMENTS: [&str; 20] = [
    "svg",
    "g",
    "title",
    "desc",
    "text",
    "tspan",
    "rect",
    "line",
    "polyline",
    "polygon",
    "path",
    "circle",
    "ellipse",
    "defs",
    "clipPath",
    "linearGradient",
    "stop",
    "pattern",
    "marker",
    "use",
];

const ATTRIBUTES: [&str; 57] = [
    "id",
    "x",
    "y",
    "x1",
    "y1",
    "x2",
    "y2",
    "dx",
    "dy",
    "cx",
    "cy",
    "r",
    "rx",
    "ry",
    "width",
    "height",
    "viewBox",
    "d",
    "points",
    "transform",
    "fill",
    "fill-opacity",
    "fill-rule",
    "stroke",
    "stroke-width",
    "stroke-opacity",
    "stroke-linejoin",
    "stroke-linecap",
    "stroke-dasharray",
    "stroke-dashoffset",
    "stroke-miterlimit",
    "opacity",
    "paint-order",
    "clip-path",
    "clip-rule",
    "clipPathUnits",
    "offset",
    "stop-color",
    "stop-opacity",
    "gradientUnits",
    "gradientTransform",
    "patternUnits",
    "patternTransform",
    "marker-start",
    "marker-mid",
    "marker-end",
    "markerWidth",
    "markerHeight",
    "refX",
    "refY",
    "orient",
    "font-family",
    "font-size",
    "font-weight",
    "font-style",
    "text-anchor",
    "dominant-baseline",
];

/// One figure.
#[derive(Clone, Debug)]
pub(super) struct Drawing {
    /// The file's name.
    pub(super) file: String,
    /// Its title; empty if it has none.
    pub(super) title: String,
    /// The `svg` element.
    pub(super) markup: Markup,
    /// Its colours, as written.
    colors: BTreeSet<String>,
}

impl Drawing {
    /// Reads the figure at `path`. `prefix` tells its ids from those of other figures.
    pub(super) fn read(path: &Path, file: &str, prefix: &str) -> Result<Self, Failure> {
        Self::parse(&read_text(path)?, file, prefix)
            .map_err(|what| wrong(path, &format!("{what}, expected an SVG figure")))
    }

    fn parse(text: &str, file: &str, prefix: &str) -> Result<Self, String> {
        let document = Document::parse(text).map_err(|error| error.to_string())?;
        let root = document.root_element();
        if root.tag_name().name() != "svg" {
            return Err(format!("its root is `{}`", root.tag_name().name()));
        }
        if root.attribute("viewBox").is_none() {
            return Err("it has no `viewBox`".to_owned());
        }
        let title = root.children().find(|node| node.has_tag_name("title") || node.tag_name().name() == "title");
        let title = title.and_then(|node| node.text()).unwrap_or("").trim().to_owned();
        let mut writer = Writer { html: String::new(), prefix, colors: BTreeSet::new() };
        writer.element(root);
        Ok(Self { file: file.to_owned(), title, markup: PreEscaped(writer.html), colors: writer.colors })
    }
}

struct Writer<'a> {
    html: String,
    prefix: &'a str,
    colors: BTreeSet<String>,
}

impl Writer<'_> {
    fn element(&mut self, node: Node<'_, '_>) {
        let name = node.tag_name().name();
        if !ELEMENTS.contains(&name) {
            return;
        }
        self.html.push('<');
        self.html.push_str(name);
        if node.is_root() || node.parent().is_some_and(|parent| parent.is_root()) {
            self.html.push_str(" role=\"img\"");
        }
        for attribute in node.attributes() {
            // `href` is harmless where it names a part of the same figure.
            let is_known = attribute.namespace().is_none() && ATTRIBUTES.contains(&attribute.name());
            let is_inside = attribute.name() == "href" && attribute.value().starts_with('#');
            if !(is_known || is_inside) {
                continue;
            }
            let Some(value) = self.value(attribute.name(), attribute.value()) else { continue };
            write!(self.html, " {}=\"", attribute.name()).expect("writing to a string does not fail");
            self.text(&value);
            self.html.push('"');
        }
        self.html.push('>');
        for child in node.children() {
            if child.is_element() {
                self.element(child);
            } else if let Some(text) = child.text().filter(|_| child.is_text()) {
                self.text(if matches!(name, "text" | "title") { text.trim() } else { text });
            }
        }
        write!(self.html, "</{name}>").expect("writing to a string does not fail");
    }

    fn text(&mut self, text: &str) {
        Escaper::new(&mut self.html).write_str(text).expect("writing to a string does not fail");
    }

    /// The value with its ids renamed; nothing if it refers to something else.
    fn value(&mut self, name: &str, value: &str) -> Option<String> {
        if matches!(name, "fill" | "stroke" | "stop-color") && mirrored(value).is_some() {
            self.colors.insert(value.to_owned());
        }
        if name == "id" {
            return Some(format!("{}{value}", self.prefix));
        }
        if let Some(id) = value.strip_prefix('#').filter(|_| name == "href") {
            return Some(format!("#{}{id}", self.prefix));
        }
        match value.split_once("url(") {
            None => Some(value.to_owned()),
            Some(("", rest)) => {
                let id = rest.strip_prefix('#')?.strip_suffix(')')?;
                Some(format!("url(#{}{id})", self.prefix))
            }
            Some(_) => None,
        }
    }
}

/// Rules for the colours of `drawings` on a dark page.
pub(super) fn dark_rules<'a>(drawings: impl Iterator<Item = &'a Drawing>) -> String {
    let colors: BTreeSet<&str> = drawings.flat_map(|drawing| drawing.colors.iter().map(String::as_str)).collect();
    let mut css = String::new();
    for color in colors {
        // What is kept of a value was read as a colour, so it cannot end the rule.
        if let Some(dark) = mirrored(color) {
            for (attribute, property) in [("fill", "fill"), ("stroke", "stroke"), ("stop-color", "stop-color")] {
                writeln!(css, ".figure [{attribute}=\"{color}\"]{{{property}:{dark}}}").expect("a string takes all");
            }
        }
    }
    css
}

/// The same hue for a dark ground: white becomes the page's near-black, black a near-white. Nothing for a value that is no `#rrggbb`.
fn mirrored(color: &str) -> Option<String> {
    let digits =
        color.strip_prefix('#').filter(|digits| digits.len() == 6 && digits.chars().all(|c| c.is_ascii_hexdigit()))?;
    let channel = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).ok().map(|value| f64::from(value) / 255.0);
    let rgb = [channel(0)?, channel(2)?, channel(4)?];
    let (high, low) = (rgb.iter().copied().fold(0.0, f64::max), rgb.iter().copied().fold(1.0, f64::min));
    let lightness = f64::midpoint(high, low);
    // From HSL: with the hue and saturation kept, each channel's distance from the lightness scales with the room that the lightness leaves.
    let mirrored = DARKEST + (1.0 - lightness) * (LIGHTEST - DARKEST);
    // A bright line stays bright; grounds, tints and inks change sides.
    let to = if high - low > VIVID { mirrored.max(lightness) } else { mirrored };
    let room = |lightness: f64| 1.0 - (2.0 * lightness - 1.0).abs();
    let scale = if room(lightness) > 0.0 { room(to) / room(lightness) } else { 0.0 };
    let byte = |value: f64| ((to + (value - lightness) * scale).clamp(0.0, 1.0) * 255.0).round() as u8;
    Some(format!("#{:02x}{:02x}{:02x}", byte(rgb[0]), byte(rgb[1]), byte(rgb[2])))
}

/// What white becomes: the ground of a figure on a dark page.
const DARKEST: f64 = 0.09;
/// Distance of a colour's channels from which on it is a colour and no grey or tint.
const VIVID: f64 = 0.2;
/// What black becomes.
const LIGHTEST: f64 = 0.94;

#[cfg(test)]
mod tests {
    use super::*;

    fn html(inside: &str) -> String {
        let text = format!("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 1 1\">{inside}</svg>");
        Drawing::parse(&text, "figure.svg", "p-").unwrap().markup.into_string()
    }

    #[test]
    fn what_could_run_or_load_is_left_out() {
        for inside in [
            "<script>x()</script>",
            "<foreignObject><p>x</p></foreignObject>",
            "<image href=\"https://example.org/x.png\"/>",
            "<style>@import 'x'</style>",
            "<a href=\"javascript:x()\"><text>x</text></a>",
        ] {
            assert_eq!(html(inside), "<svg role=\"img\" viewBox=\"0 0 1 1\"></svg>", "{inside}");
        }
        assert!(
            html("<rect onload=\"x()\" style=\"fill:url(x)\" fill=\"url(https://x)\" x=\"1\"/>")
                .contains("<rect x=\"1\">")
        );
        assert!(html("<text>&lt;/svg&gt;&lt;script&gt;</text>").contains("<text>&lt;/svg&gt;&lt;script&gt;</text>"));
        assert!(html("<use href=\"other.svg#a\"/>").contains("<use></use>"));
    }

    #[test]
    fn ids_are_told_apart() {
        let html = html("<clipPath id=\"a\"/><g clip-path=\"url(#a)\"/><use href=\"#a\"/>");
        assert!(
            html.contains("id=\"p-a\"") && html.contains("clip-path=\"url(#p-a)\"") && html.contains("href=\"#p-a\""),
            "{html}"
        );
    }

    #[test]
    fn colours_are_mirrored() {
        assert_eq!(mirrored("#FFFFFF").as_deref(), Some("#171717"));
        assert_eq!(mirrored("#000000").as_deref(), Some("#f0f0f0"));
        // The blue of the palette stays blue and becomes lighter.
        let blue = mirrored("#0072B2").unwrap();
        let channel = |at: usize| u8::from_str_radix(&blue[at..at + 2], 16).unwrap();
        assert!(channel(1) < channel(3) && channel(3) < channel(5) && channel(5) > 0xb2, "{blue}");
        // Its pink is light enough as it is.
        assert_eq!(mirrored("#CC79A7").as_deref(), Some("#cc79a7"));
        for other in ["none", "red", "#fff", "#12345é", "url(#a)"] {
            assert_eq!(mirrored(other), None);
        }
    }

    #[test]
    fn what_is_no_figure_is_refused() {
        for (text, expected) in
            [("<html viewBox=\"\"/>", "its root is `html`"), ("<svg/>", "it has no `viewBox`"), ("<svg", "expected")]
        {
            let error = Drawing::parse(text, "figure.svg", "").unwrap_err();
            assert!(error.contains(expected) || text == "<svg", "{error}");
        }
    }
}
