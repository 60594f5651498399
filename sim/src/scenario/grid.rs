//! `--grid path=list`: one axis of many scenarios.

use super::error::ScenarioError;
use super::source::{check_path, parse_value};

/// The most values of an axis, and the most cells of a grid.
const CELLS_MAX: usize = 1_000_000;

/// A field and the values that it takes in turn.
///
/// ```
/// use handoff_sim::scenario::Axis;
/// let axis = Axis::parse("policy.small=1..4,8,16")?;
/// assert_eq!(axis.values(), ["1", "2", "3", "4", "8", "16"]);
/// assert_eq!(axis.sets().next().as_deref(), Some("policy.small=1"));
/// # Ok::<(), handoff_sim::scenario::ScenarioError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Axis {
    path: String,
    values: Vec<String>,
}

impl Axis {
    /// Reads `path=list`. The list holds values as `--set` takes them, separated by commas; `1..8` stands for all whole
    /// numbers from 1 to 8.
    ///
    /// # Errors
    /// If the text is not of this form, a range runs backwards, a value appears twice, or there are too many.
    pub fn parse(text: &str) -> Result<Self, ScenarioError> {
        let error = |message: String| ScenarioError::in_option("--grid", text, message);
        let Some((path, list)) = text.split_once('=') else {
            return Err(error("expected path=list".to_owned())
                .with_hint("for example --grid policy.p=0.1,0.2 or --grid workload.concurrency=1..8"));
        };
        check_path(path.trim()).map_err(error)?;
        let values = parse_list(list).map_err(error)?;
        Ok(Self { path: path.trim().to_owned(), values })
    }

    /// The path of the field, as it was written.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The values as they are written in `--set`, in the given order.
    #[must_use]
    pub fn values(&self) -> &[String] {
        &self.values
    }

    /// One override for each value, as [`super::Source::with_set`] takes it.
    pub fn sets(&self) -> impl Iterator<Item = String> {
        self.values.iter().map(|value| format!("{}={value}", self.path))
    }
}

/// A list of values: `1..8`, `1,2,4`, `0.5,1.0`, `eager,delayed`, `[1,1,2],[1,2,3]`. Ranges are written out.
///
/// # Errors
/// A text that says what is wrong with the list.
pub fn parse_list(list: &str) -> Result<Vec<String>, String> {
    let mut values: Vec<String> = Vec::new();
    for item in split_at_commas(list) {
        match parse_range(item) {
            Some(range) => values.extend(range?.map(|number| number.to_string())),
            None => {
                parse_value(item).map_err(|message| format!("`{}`: {message}", super::error::abridge(item)))?;
                values.push(item.to_owned());
            }
        }
        if values.len() > CELLS_MAX {
            return Err(format!("more than {CELLS_MAX} values"));
        }
    }
    let mut sorted: Vec<&str> = values.iter().map(String::as_str).collect();
    sorted.sort_unstable();
    match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(format!("`{}` appears twice", super::error::abridge(pair[0]))),
        None => Ok(values),
    }
}

/// The overrides of each cell of a grid over `axes`; the last axis varies fastest. Without axes there is one cell
/// without overrides.
///
/// # Errors
/// If two axes name the same path or there are too many cells.
pub fn cells(axes: &[Axis]) -> Result<Vec<Vec<String>>, ScenarioError> {
    for (idx, axis) in axes.iter().enumerate() {
        if axes[..idx].iter().any(|other| other.path == axis.path) {
            return Err(ScenarioError::in_option(
                "--grid",
                &axis.path,
                "the path appears twice, expected one list for each path",
            ));
        }
    }
    let mut cells: Vec<Vec<String>> = vec![Vec::new()];
    for axis in axes {
        if cells.len().saturating_mul(axis.values.len()) > CELLS_MAX {
            return Err(ScenarioError::in_option(
                "--grid",
                &axis.path,
                format!("the grid has more than {CELLS_MAX} cells"),
            ));
        }
        cells = cells.iter().flat_map(|cell| axis.sets().map(move |set| [cell.as_slice(), &[set]].concat())).collect();
    }
    Ok(cells)
}

/// Splits at commas outside of brackets and quotes.
fn split_at_commas(list: &str) -> Vec<&str> {
    let mut items = Vec::new();
    let (mut start, mut depth, mut quote) = (0, 0_usize, None);
    for (at, char) in list.char_indices() {
        match (quote, char) {
            (Some(open), _) => quote = (char != open).then_some(open),
            (None, '"' | '\'') => quote = Some(char),
            (None, '[' | '{') => depth += 1,
            (None, ']' | '}') => depth = depth.saturating_sub(1),
            (None, ',') if depth == 0 => {
                items.push(list[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    items.push(list[start..].trim());
    items
}

/// `1..8`; `None` if the item is no range.
fn parse_range(item: &str) -> Option<Result<std::ops::RangeInclusive<i64>, String>> {
    let (low, high) = item.split_once("..")?;
    let is_number =
        |text: &str| !text.is_empty() && text.chars().all(|char| char.is_ascii_digit() || "+-._eE".contains(char));
    if !(is_number(low) && is_number(high)) {
        return None;
    }
    Some(match (low.parse::<i64>(), high.parse::<i64>()) {
        (Ok(low), Ok(high)) if low > high => {
            Err(format!("the range `{item}` runs backwards, expected the smaller number first"))
        }
        (Ok(low), Ok(high)) if high.abs_diff(low) >= CELLS_MAX as u64 => {
            Err(format!("the range `{item}` has more than {CELLS_MAX} values"))
        }
        (Ok(low), Ok(high)) => Ok(low..=high),
        _ => Err(format!(
            "the range `{}` is not of whole numbers, expected for instance 1..8",
            super::error::abridge(item)
        )),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_hold_ranges_numbers_words_and_lists() {
        let list = |text: &str| parse_list(text).map(|values| values.join(" "));
        assert_eq!(list("1..4").as_deref(), Ok("1 2 3 4"));
        assert_eq!(list("1, 2,4").as_deref(), Ok("1 2 4"));
        assert_eq!(list("3..3,8").as_deref(), Ok("3 8"));
        assert_eq!(list("0.1,0.25").as_deref(), Ok("0.1 0.25"));
        assert_eq!(list("eager,delayed").as_deref(), Ok("eager delayed"));
        assert_eq!(
            parse_list("[1,1,2],[1,2,3]").as_deref(),
            Ok(["[1,1,2]".to_owned(), "[1,2,3]".to_owned()].as_slice())
        );
        assert_eq!(parse_list("\"a,b\",c").as_deref(), Ok(["\"a,b\"".to_owned(), "c".to_owned()].as_slice()));
        assert_eq!(list("../a.csv,b.csv").as_deref(), Ok("../a.csv b.csv"));
    }

    #[test]
    fn wrong_lists_are_refused() {
        for (wrong, expected) in [
            ("", "no value"),
            ("1,,2", "no value"),
            ("1,2,", "no value"),
            ("8..1", "runs backwards"),
            ("0.1..0.5", "not of whole numbers"),
            ("1..99999999999", "more than"),
            ("-9223372036854775808..9223372036854775807", "more than"),
            ("1,2,1", "`1` appears twice"),
            ("1..3,2", "`2` appears twice"),
            ("[1,2", "no TOML"),
        ] {
            let error = parse_list(wrong).expect_err(wrong);
            assert!(error.contains(expected), "{wrong}: {error}");
        }
        let error = Axis::parse("policy.p=0.1,,0.2").expect_err("an empty item").to_string();
        assert!(error.starts_with("--grid policy.p=0.1,,0.2: "), "{error}");
        assert!(Axis::parse("policy.p").is_err());
        assert!(Axis::parse("a b=1").is_err());
    }

    #[test]
    fn cells_are_all_combinations_with_the_last_axis_fastest() {
        let axes = [Axis::parse("a=1..2").expect("a range"), Axis::parse("b=x,y").expect("a list")];
        let cells = cells(&axes).expect("a small grid");
        assert_eq!(
            cells.iter().map(|cell| cell.join(" ")).collect::<Vec<_>>(),
            ["a=1 b=x", "a=1 b=y", "a=2 b=x", "a=2 b=y"]
        );
        assert_eq!(super::cells(&[]).expect("no axis"), [Vec::<String>::new()]);
        assert!(super::cells(&[axes[0].clone(), axes[0].clone()]).is_err());
        let wide = Axis::parse("c=1..2000").expect("a range");
        let wider = Axis::parse("d=1..2000").expect("a range");
        assert!(super::cells(&[wide, wider]).is_err());
    }
}
