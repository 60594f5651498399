//! The figure of a sweep from its rows.

use super::break_even::{break_evens, lines};
use super::report::caption;
use super::row::Row;
use crate::figure::chart::{AxisTitle, ChartLine, ChartPoint, LineChart};
use crate::figure::sweep::{BreakEven, SweepFigure, SweepLine, SweepPanel, SweepPoint};
use crate::figure::{Drawing, FigureError, Scale};
use crate::output::origin::Origin;

/// Share of steps beyond the measured profile above which a point is drawn hollow. Prompts and a few long extends lie beyond almost any
/// profile and decide nothing; rows.csv has the exact share.
pub(super) const EXTRAPOLATED_SHARE: f64 = 0.02;

/// The name of the figure's files.
const FIGURE: &str = "figure";

/// A figure of more is as large as a poster, or too large to be drawn, and nobody reads it; rows.csv has everything.
const PANELS_MAX: usize = 16;
const LINES_MAX: usize = 32;

/// The figure: throughput against N where the sweep ran over N, otherwise throughput against the first `--grid` axis.
pub(crate) fn figure(rows: &[Row], origin: &Origin) -> Result<Drawing, FigureError> {
    let caption = caption(rows, origin);
    let svg = if rows.iter().all(|row| row.every.is_some() && row.concurrency.is_some()) {
        sweep_figure(rows, &caption).svg()
    } else {
        grid_figure(rows, &caption).svg()
    };
    Ok(Drawing { stem: FIGURE.to_owned(), svg: svg? })
}

fn sweep_figure(rows: &[Row], caption: &[String]) -> SweepFigure {
    let break_evens = break_evens(rows);
    let mut panels: Vec<SweepPanel> = Vec::new();
    for line in lines(rows) {
        let first = line[0];
        let found = break_evens.iter().find(|found| {
            (&found.placement, &found.order, found.concurrency, &found.grid)
                == (&first.placement, &first.order, first.concurrency, &first.grid)
        });
        let break_even =
            found.and_then(|found| Some(BreakEven { every: found.every?, at_grid_edge: found.at_grid_edge }));
        let drawn = SweepLine {
            concurrency: first.concurrency.unwrap_or_default(),
            points: line.iter().map(|row| point(row)).collect(),
            large_only: Some(first.baseline_throughput),
            break_even,
        };
        let title = panel_title(first);
        match panels.iter_mut().find(|panel| panel.title == title) {
            Some(panel) => panel.lines.push(drawn),
            None => panels.push(SweepPanel { title, lines: vec![drawn] }),
        }
    }
    let mut caption = caption.to_vec();
    cut(&mut panels, PANELS_MAX, "panels", &mut caption);
    let longest = panels.iter_mut().max_by_key(|panel| panel.lines.len());
    longest.into_iter().for_each(|panel| cut(&mut panel.lines, LINES_MAX, "lines of a panel", &mut caption));
    panels.iter_mut().for_each(|panel| panel.lines.truncate(LINES_MAX));
    SweepFigure {
        title: "Throughput against handoff frequency, beside the large model alone".to_owned(),
        panels,
        y_scale: Scale::Log,
        caption,
    }
}

/// Keeps the first `most` of `things`, and says so.
fn cut<T>(things: &mut Vec<T>, most: usize, name: &str, caption: &mut Vec<String>) {
    if things.len() > most {
        caption.push(format!("only the first {most} of {} {name} are drawn", things.len()));
        things.truncate(most);
    }
}

fn panel_title(row: &Row) -> String {
    let placement = match (row.placement.as_str(), &row.order) {
        ("separate", _) => "separate: a device for each model".to_owned(),
        ("overlapped", _) => "overlapped: one device, forwards side by side".to_owned(),
        (other, Some(order)) => format!("{other}, {order}: one device, one forward at a time"),
        (other, None) => other.to_owned(),
    };
    if row.grid.is_empty() { placement } else { format!("{placement} ({})", row.grid) }
}

fn point(row: &Row) -> SweepPoint {
    SweepPoint {
        every: row.every.unwrap_or_default(),
        throughput: row.throughput,
        ci_low: row.ci_low,
        ci_high: row.ci_high,
        orbit_low: row.orbit_low,
        orbit_high: row.orbit_high,
        flagged: row.flagged,
        extrapolated: row.extrapolated > EXTRAPOLATED_SHARE,
    }
}

/// Throughput against N in an open loop, else against the first `--grid` axis; a line for each combination of everything else.
fn grid_figure(rows: &[Row], caption: &[String]) -> LineChart {
    let over_every = rows.iter().all(|row| row.every.is_some() && row.grid.is_empty());
    let axis = if over_every { every_axis(rows) } else { first_axis(rows) };
    let mut lines: Vec<ChartLine> = Vec::new();
    for (row, &x) in rows.iter().zip(&axis.places) {
        let parts = [
            Some(row.placement.clone()),
            row.order.clone(),
            row.concurrency.map(|concurrency| format!("C = {concurrency}")),
            row.every.filter(|_| !over_every).map(|every| format!("N = {every}")),
            split_axis(&row.grid).1.map(str::to_owned),
        ];
        let label = parts.into_iter().flatten().collect::<Vec<_>>().join(", ");
        let point = ChartPoint { x, y: row.throughput, band: Some((row.ci_low, row.ci_high)) };
        match lines.iter_mut().find(|line| line.label == label) {
            Some(line) => line.points.push(point),
            None => lines.push(ChartLine { label, points: vec![point], dashed: false }),
        }
    }
    let mut caption = caption.to_vec();
    cut(&mut lines, LINES_MAX, "lines", &mut caption);
    LineChart {
        title: format!("Throughput against {}", axis.name),
        x: AxisTitle { title: axis.title, scale: axis.scale },
        x_words: axis.words,
        y: AxisTitle { title: "throughput (tokens/s)".to_owned(), scale: Scale::Linear },
        lines,
        band: "95 % interval".to_owned(),
        caption,
    }
}

/// Where the rows stand along the x axis.
struct XAxis {
    name: String,
    title: String,
    scale: Scale,
    /// What stands at 0, 1 and so on; empty for numbers.
    words: Vec<String>,
    /// One a row.
    places: Vec<f64>,
}

fn every_axis(rows: &[Row]) -> XAxis {
    let places = rows.iter().map(|row| f64::from(row.every.unwrap_or_default())).collect();
    let title = "tokens per visit N (switch every N tokens)".to_owned();
    XAxis { name: "handoff frequency".to_owned(), title, scale: Scale::Log, words: Vec::new(), places }
}

fn first_axis(rows: &[Row]) -> XAxis {
    let settings: Vec<(&str, &str)> =
        rows.iter().map(|row| split_axis(&row.grid).0).map(|own| own.split_once('=').unwrap_or((own, ""))).collect();
    let name = settings.first().map_or("", |(path, _)| *path);
    let name = if name.is_empty() { "cell" } else { name }.to_owned();
    let numbers: Option<Vec<f64>> = settings.iter().map(|(_, value)| value.parse().ok()).collect();
    if let Some(places) = numbers.filter(|numbers| numbers.iter().all(|number| number.is_finite())) {
        return XAxis { title: with_unit(&name), name, scale: Scale::Linear, words: Vec::new(), places };
    }
    // Words stand in the order in which they were given.
    let mut words: Vec<&str> = Vec::new();
    settings.iter().map(|(_, value)| *value).for_each(|value| {
        if !words.contains(&value) {
            words.push(value);
        }
    });
    let places = settings.iter().map(|(_, value)| words.iter().position(|word| word == value).unwrap_or(0) as f64);
    let (places, words) = (places.collect(), words.iter().map(|&word| word.to_owned()).collect());
    XAxis { title: name.clone(), name, scale: Scale::Linear, words, places }
}

/// A field with its unit. Most names end with it; these do not.
fn with_unit(path: &str) -> String {
    let unit = match path.rsplit('.').next() {
        Some("threshold") => "rows",
        Some("concurrency" | "requests") => "requests",
        Some("small" | "large") if path.starts_with("policy.") => "tokens per visit",
        Some("p" | "a" | "b") if path.starts_with("policy.") => "probability",
        _ => return path.to_owned(),
    };
    format!("{path} ({unit})")
}

/// The override of the first axis and those of the others. A blank between brackets or quotes belongs to a value.
fn split_axis(grid: &str) -> (&str, Option<&str>) {
    let (mut depth, mut quote) = (0_usize, None);
    for (at, char) in grid.char_indices() {
        match (quote, char) {
            (Some(open), _) => quote = (char != open).then_some(open),
            (None, '"' | '\'') => quote = Some(char),
            (None, '[' | '{') => depth += 1,
            (None, ']' | '}') => depth = depth.saturating_sub(1),
            (None, ' ') if depth == 0 => return (&grid[..at], Some(&grid[at + 1..])),
            _ => {}
        }
    }
    (grid, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_whose_name_has_no_unit_gets_one() {
        assert_eq!(with_unit("model.large.threshold"), "model.large.threshold (rows)");
        assert_eq!(with_unit("policy.p"), "policy.p (probability)");
        assert_eq!(with_unit("scheduler.hop_us"), "scheduler.hop_us");
    }

    #[test]
    fn the_first_override_ends_at_a_blank_outside_of_its_value() {
        assert_eq!(split_axis("a=1 b=2 c=3"), ("a=1", Some("b=2 c=3")));
        assert_eq!(
            split_axis("policy={ kind = \"a b\", p = 1 } b=2"),
            ("policy={ kind = \"a b\", p = 1 }", Some("b=2"))
        );
        assert_eq!(split_axis("a='x {' b=2"), ("a='x {'", Some("b=2")));
        assert_eq!(split_axis(""), ("", None));
    }
}
