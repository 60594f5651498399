//! A README of the folder as part of the page.

use std::collections::BTreeSet;

use maud::{Markup, PreEscaped};
use pulldown_cmark::{CowStr, Event, HeadingLevel, Options, Parser, Tag, TagEnd, html};

/// Renders `markdown`, the README of the folder `way` (relative to the page's folder). HTML in it is shown as text; a link stays if it leads to the
/// web or to something that is on this page (`anchors`: ways of folders and files), images become their description.
pub(super) fn markup(markdown: &str, way: &str, anchors: &BTreeSet<String>) -> Markup {
    let mut kept = Vec::new();
    let events = Parser::new_ext(markdown, Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH);
    let events = events.filter_map(|event| match event {
        Event::Start(Tag::Heading { level, id, classes, attrs }) => {
            Some(Event::Start(Tag::Heading { level: lowered(level), id, classes, attrs }))
        }
        Event::End(TagEnd::Heading(level)) => Some(Event::End(TagEnd::Heading(lowered(level)))),
        Event::Html(text) | Event::InlineHtml(text) => Some(Event::Text(text)),
        Event::Start(Tag::HtmlBlock | Tag::Image { .. }) | Event::End(TagEnd::HtmlBlock | TagEnd::Image) => None,
        Event::Start(Tag::Link { link_type, dest_url, title, id }) => {
            let target = target(&dest_url, way, anchors);
            kept.push(target.is_some());
            let dest_url: CowStr<'_> = target?.into();
            Some(Event::Start(Tag::Link { link_type, dest_url, title, id }))
        }
        Event::End(TagEnd::Link) => kept.pop().unwrap_or(false).then_some(Event::End(TagEnd::Link)),
        other => Some(other),
    });
    let mut text = String::new();
    html::push_html(&mut text, events);
    // A wide table scrolls in a box of its own, which the keyboard reaches.
    let text = text
        .replace("<table>", "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"table\"><table>")
        .replace("</table>", "</table></div>");
    PreEscaped(text)
}

/// Where a link leads on this page, or in the web.
fn target(url: &str, way: &str, anchors: &BTreeSet<String>) -> Option<String> {
    if url.starts_with("https://") || url.starts_with("http://") {
        return Some(url.to_owned());
    }
    let mut parts: Vec<&str> = way.split('/').filter(|part| !part.is_empty()).collect();
    for part in url.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    let there = parts.join("/");
    anchors.contains(&there).then(|| format!("#{}", super::page::anchor(&there)))
}

/// The page's own headings stand above those of a README.
fn lowered(level: HeadingLevel) -> HeadingLevel {
    match level {
        HeadingLevel::H1 => HeadingLevel::H3,
        HeadingLevel::H2 => HeadingLevel::H4,
        HeadingLevel::H3 => HeadingLevel::H5,
        _ => HeadingLevel::H6,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered(markdown: &str) -> String {
        let anchors = BTreeSet::from(["runs/overlapped".to_owned(), "runs/overlapped/profile.csv".to_owned()]);
        markup(markdown, "runs", &anchors).into_string()
    }

    #[test]
    fn html_is_text_and_scripts_are_no_links() {
        let html = rendered(
            "<script>alert(1)</script>\n\na <img src=x onerror=alert(2)> [b](javascript:alert(3)) ![c](d.png)",
        );
        assert!(html.contains("&lt;script&gt;alert(1)&lt;/script&gt;"), "{html}");
        assert!(!html.contains("<img") && !html.contains("javascript:") && !html.contains("<a"), "{html}");
        assert!(html.contains(" b c"), "{html}");
    }

    #[test]
    fn links_lead_to_the_web_or_to_places_on_the_page() {
        let html =
            rendered("[a](https://example.org/x) [b](overlapped) [c](overlapped/profile.csv) [d](elsewhere) [e](../x)");
        let expected = "<a href=\"https://example.org/x\">a</a> <a href=\"#runs/overlapped\">b</a> \
             <a href=\"#runs/overlapped/profile.csv\">c</a> d e";
        assert!(html.contains(expected), "{html}");
    }

    #[test]
    fn headings_stand_below_those_of_the_page() {
        assert_eq!(rendered("# a\n## b"), "<h3>a</h3>\n<h4>b</h4>\n");
    }
}
