//! The page: what stands where.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use maud::{Markup, PreEscaped, html};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::drawing::{self, Drawing};
use super::folder::{Folder, Results};
use super::notes;
use super::origin::Origin;
use super::summary::Block;
use super::table::Table;
use crate::output::journal::ROWS_FILE;

const SCRIPT: &str = include_str!("report.js");
const STYLE: &str = include_str!("report.css");

/// Rows of a table up to which it stands open on the page.
const OPEN_ROWS_MAX: usize = 60;

/// The page of `folders`, without its doctype.
pub(super) fn html(title: &str, folders: &[Folder]) -> String {
    let drawings = folders.iter().filter_map(|folder| folder.results.as_ref()).flat_map(|results| &results.drawings);
    let style =
        format!("{STYLE}@media screen and (prefers-color-scheme: dark){{\n{}}}\n", drawing::dark_rules(drawings));
    let anchors = anchors(folders);
    let is_many = folders.len() > 1;
    let page = html! {
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(policy(&style));
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="generator" content={ "handoff " (env!("CARGO_PKG_VERSION")) };
                title { (title) " - Handoff" }
                style { (PreEscaped(&style)) }
            }
            body {
                a.skip href="#main" { "Skip to the results" }
                header {
                    p.eyebrow { "Handoff report" }
                    h1 { (title) }
                    @if let [Folder { results: Some(results), .. }] = folders { p.lede { (results.summary.headline) } }
                }
                main #main {
                    @if is_many { (overview(folders)) }
                    @for folder in folders { (section(folder, is_many, &anchors)) }
                }
                footer {
                    p {
                        "Made from the files of the folder by " code { "handoff report" } ". "
                        "Point at a value, tap it or move to it with the keyboard to see where it comes from."
                    }
                }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    };
    page.into_string()
}

/// Nothing is loaded from anywhere, and no script or style runs but those of this program.
fn policy(style: &str) -> String {
    let digest = |text: &str| STANDARD.encode(Sha256::digest(text));
    format!(
        "default-src 'none'; script-src 'sha256-{}'; style-src 'sha256-{}'; base-uri 'none'; form-action 'none'",
        digest(SCRIPT),
        digest(style)
    )
}

/// The id of a folder or file on the page.
pub(super) fn anchor(way: &str) -> String {
    let id: String =
        way.chars().map(|c| if c.is_ascii_alphanumeric() || "-_./".contains(c) { c } else { '-' }).collect();
    if id.is_empty() { "results".to_owned() } else { id }
}

/// A file of the folder `way`.
pub(super) fn below(way: &str, file: &str) -> String {
    if way.is_empty() { file.to_owned() } else { format!("{way}/{file}") }
}

/// Ways of everything on the page that a link may lead to.
fn anchors(folders: &[Folder]) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    for folder in folders {
        anchors.insert(folder.way.clone());
        if let Some(results) = &folder.results {
            anchors.extend(results.tables.iter().map(|table| below(&folder.way, &table.file)));
            anchors.extend(results.drawings.iter().map(|drawing| below(&folder.way, &drawing.file)));
        }
    }
    anchors
}

/// One line a run.
fn overview(folders: &[Folder]) -> Markup {
    let runs = folders.iter().filter_map(|folder| Some((folder, folder.results.as_ref()?)));
    html! {
        section.card aria-labelledby="runs" {
            h2 #runs { "Runs" }
            (scroll("runs", &html! {
                table {
                    thead {
                        tr {
                            @for title in ["folder", "what ran", "result", "seed", "commit"] { th scope="col" { (title) } }
                        }
                    }
                    tbody {
                        @for (folder, results) in runs {
                            tr {
                                th scope="row" { a href={ "#" (anchor(&folder.way)) } { (name(folder)) } }
                                td { (results.origin.what()) }
                                td.finding {
                                    (results.summary.headline)
                                    @if !results.warnings.is_empty() { " (see its warnings)" }
                                }
                                td { (results.origin.seed_text()) }
                                td { (short_commit(&results.origin)) }
                            }
                        }
                    }
                }
            }))
        }
    }
}

fn name(folder: &Folder) -> &str {
    if folder.way.is_empty() { "this folder" } else { &folder.way }
}

fn short_commit(origin: &Origin) -> String {
    origin.commit_words().trim_start_matches("commit ").to_owned()
}

fn section(folder: &Folder, is_many: bool, anchors: &BTreeSet<String>) -> Markup {
    let id = anchor(&folder.way);
    html! {
        section.run id=(id) {
            @if is_many && !(folder.way.is_empty() && folder.results.is_none()) { h2 { (name(folder)) } }
            @if let Some(results) = &folder.results { (findings(results)) }
            @if let Some(text) = &folder.notes {
                details.card.notes {
                    summary { "README of the folder" }
                    (notes::markup(text, &folder.way, anchors))
                }
            }
            @if let Some(results) = &folder.results {
                @for drawing in &results.drawings { (figure(drawing, &folder.way)) }
                @for table in &results.tables { (table_view(table, results, &folder.way)) }
                (provenance(results))
            }
        }
    }
}

fn findings(results: &Results) -> Markup {
    let origin = &results.origin;
    html! {
        div.card.summary {
            p.what { (origin_words(origin)) }
            @for warning in &results.warnings { p.warning role="note" { strong { "Warning: " } (warning) } }
            @for block in &results.summary.blocks { (block_markup(block)) }
            @if !origin.command.is_empty() { (command(origin)) }
        }
    }
}

/// What ran, in a sentence.
fn origin_words(origin: &Origin) -> String {
    let how = if origin.is_simulated() { "simulated".to_owned() } else { format!("on {}", origin.device) };
    let seed = match origin.seed_text() {
        seed if seed.is_empty() => String::new(),
        seed => format!(", seed {seed}"),
    };
    let when = origin.created_utc.as_ref().map_or_else(String::new, |created| {
        format!(", finished {}", created.replace('T', "\u{a0}").replace('Z', "\u{a0}UTC").replace('-', "\u{2011}"))
    });
    format!("{}{seed}, {how}; handoff {}, {}{when}.", origin.what(), origin.program.version, origin.commit_words())
}

fn block_markup(block: &Block) -> Markup {
    match block {
        Block::Text(text) => html! { p { (glued(text)) } },
        Block::List(items) => html! { ul { @for item in items { li { (glued(item)) } } } },
        Block::Grid { caption, header, rows } => {
            let is_number = |idx: usize| rows.iter().all(|row| is_number(&row[idx]));
            let table = html! {
                table {
                    thead {
                        tr {
                            @for (idx, title) in header.iter().enumerate() {
                                th scope="col" .number[is_number(idx)] { (title) }
                            }
                        }
                    }
                    tbody {
                        @for row in rows {
                            tr {
                                @for (idx, value) in row.iter().enumerate() {
                                    @if idx == 0 {
                                        th scope="row" { (glued(value)) }
                                    } @else {
                                        td .number[is_number(idx)] { (glued(value)) }
                                    }
                                }
                            }
                        }
                    }
                }
            };
            // Outside the box, so that it stays where the table scrolls.
            html! {
                p.caption { (caption) }
                (scroll(caption, &table))
            }
        }
    }
}

/// Whether a value is set as a number: one, several, a share, or none.
fn is_number(value: &str) -> bool {
    matches!(value, "-" | "none") || value.chars().all(|c| c.is_ascii_digit() || "+-. %".contains(c))
}

/// The text with its numbers kept beside what belongs to them.
fn glued(text: &str) -> String {
    text.replace(" = ", "\u{a0}=\u{a0}").replace(" %", "\u{a0}%").replace(" tokens/s", "\u{a0}tokens/s")
}

/// A box that scrolls sideways, so that the page does not.
fn scroll(label: &str, inside: &Markup) -> Markup {
    html! { div.scroll tabindex="0" role="region" aria-label=(label) { (inside) } }
}

fn command(origin: &Origin) -> Markup {
    html! {
        div.command {
            span.label { "Made by" }
            pre tabindex="0" { code { (origin.call()) } }
            button.copy type="button" hidden { "Copy" }
        }
    }
}

fn figure(drawing: &Drawing, way: &str) -> Markup {
    html! {
        figure.card.figure id=(anchor(&below(way, &drawing.file))) {
            div.scroll tabindex="0" role="region" aria-label={ "figure " (drawing.title) } { (drawing.markup) }
            figcaption { (drawing.file) @if !drawing.title.is_empty() { ": " (drawing.title) } }
            button.fit type="button" hidden { "Fit to width" }
        }
    }
}

fn table_view(table: &Table, results: &Results, way: &str) -> Markup {
    let is_open = table.file == ROWS_FILE || table.rows.len() <= OPEN_ROWS_MAX;
    let document = table.document(&results.origin, results.altered.contains(&table.file));
    html! {
        details.card.rows id=(anchor(&below(way, &table.file))) open[is_open] {
            summary { (table.file) span.count { (table.rows.len()) " rows, " (table.header.len()) " columns" } }
            div.view { noscript { p { "The rows are in " (table.file) "; this page shows them with a script." } } }
            script type="application/json" { (data(&document)) }
        }
    }
}

/// JSON inside a script element: no text of it can end the element.
fn data(document: &Value) -> Markup {
    PreEscaped(document.to_string().replace('<', "\\u003c"))
}

fn provenance(results: &Results) -> Markup {
    let origin = &results.origin;
    let program = &origin.program;
    let axes = &origin.fingerprint["configuration"]["axes"];
    let facts = [
        ("version", Some(program.version.clone())),
        ("commit", Some(program.commit.clone())),
        ("sources", Some(program.sources.clone())),
        ("compiler", program.rustc.clone()),
        ("target", program.target.clone()),
        ("finished", origin.created_utc.clone()),
        ("device", Some(origin.device.clone())),
        ("seed", Some(origin.seed_text()).filter(|seed| !seed.is_empty())),
        ("scenario", origin.scenario.as_ref().map(|scenario| scenario.name.clone())),
    ];
    html! {
        details.card.provenance {
            summary { "Provenance" }
            dl {
                @for (name, value) in facts.iter().filter_map(|(name, value)| Some((name, value.as_ref()?))) {
                    dt { (name) }
                    dd { (value) }
                }
                @for profile in origin.profiles_read() {
                    dt { "profile" }
                    dd { (profile.name) " " code { (profile.sha256) } }
                }
            }
            @if let Some(scenario) = &origin.scenario {
                (folded("The scenario as it was in effect", &scenario.text))
            }
            @if !axes.is_null() {
                (folded("What else was asked for", &serde_json::to_string_pretty(axes).unwrap_or_default()))
            }
            @if !origin.files.is_empty() {
                (scroll("files", &html! {
                    table {
                        caption { "Files that the manifest lists" }
                        thead {
                            tr {
                                th scope="col" { "file" }
                                th.number scope="col" { "bytes" }
                                th scope="col" { "sha256" }
                                th scope="col" { "is it the one?" }
                            }
                        }
                        tbody {
                            @for file in &origin.files {
                                tr {
                                    th scope="row" { (file.path) }
                                    td.number { (file.bytes) }
                                    td { code { (file.sha256) } }
                                    td { (state(results, &file.path)) }
                                }
                            }
                        }
                    }
                }))
            }
        }
    }
}

/// A long text that opens on demand.
fn folded(title: &str, text: &str) -> Markup {
    html! {
        details {
            summary { (title) }
            pre tabindex="0" { (text) }
        }
    }
}

fn state(results: &Results, file: &str) -> &'static str {
    if results.missing.iter().any(|name| name == file) {
        "missing"
    } else if results.altered.iter().any(|name| name == file) {
        "no, altered"
    } else {
        "yes"
    }
}
