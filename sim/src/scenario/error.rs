//! What is wrong with a scenario, and where.

use std::fmt;

/// Where a value came from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Origin {
    /// The scenario file.
    File {
        /// The file as it was named.
        name: String,
        /// Line, counted from 1; `None` where the error concerns the file as a whole.
        line: Option<usize>,
        /// Column in characters, counted from 1; given for errors of syntax.
        column: Option<usize>,
    },
    /// An override or a grid, as it was typed: `--set path=value`.
    Option {
        /// The option and its argument.
        text: String,
    },
}

/// The first thing that is wrong with a scenario. Its text is one line: where, which field, its value, what was
/// expected.
///
/// ```
/// use handoff_sim::scenario::{Embedded, Scenario, Source};
/// let source = Source::new("scenario.toml", "[workload]\nconcurrency = 0\n");
/// let error = Scenario::parse(&source, &Embedded::default()).unwrap_err();
/// assert_eq!(error.to_string(), "scenario.toml:2: workload.concurrency = 0: expected a whole number from 1 to 1048576");
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScenarioError(Box<Parts>);

#[derive(Clone, PartialEq, Eq, Debug)]
struct Parts {
    origin: Origin,
    field: Option<String>,
    value: Option<String>,
    /// The origin is an option whose text is `field=value` already.
    is_said_by_origin: bool,
    message: String,
    hint: Option<String>,
}

impl ScenarioError {
    pub(super) fn new(origin: Origin, message: impl Into<String>) -> Self {
        Self(Box::new(Parts {
            origin,
            field: None,
            value: None,
            is_said_by_origin: false,
            message: message.into(),
            hint: None,
        }))
    }

    pub(super) fn in_file(name: &str, message: impl Into<String>) -> Self {
        Self::new(Origin::File { name: name.to_owned(), line: None, column: None }, message)
    }

    pub(super) fn in_option(option: &str, argument: &str, message: impl Into<String>) -> Self {
        Self::new(Origin::Option { text: format!("{option} {}", abridge(argument)) }, message)
    }

    pub(super) fn with_field(mut self, field: String) -> Self {
        self.0.field = Some(field);
        self
    }

    pub(super) fn with_value(mut self, value: &str) -> Self {
        self.0.value = Some(abridge(value));
        self
    }

    pub(super) fn said_by_origin(mut self) -> Self {
        self.0.is_said_by_origin = true;
        self
    }

    pub(super) fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = Some(hint.into());
        self
    }

    /// Where the wrong value came from.
    #[must_use]
    pub fn origin(&self) -> &Origin {
        &self.0.origin
    }

    /// The path of the field, models by their names; `None` where the error concerns no field.
    #[must_use]
    pub fn field(&self) -> Option<&str> {
        self.0.field.as_deref()
    }

    /// The value as it was written, shortened if it is long.
    #[must_use]
    pub fn value(&self) -> Option<&str> {
        self.0.value.as_deref()
    }

    /// What is wrong and what was expected.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// What might help.
    #[must_use]
    pub fn hint(&self) -> Option<&str> {
        self.0.hint.as_deref()
    }
}

impl std::error::Error for ScenarioError {}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Parts { origin, field, value, is_said_by_origin, message, hint } = &*self.0;
        match origin {
            Origin::File { name, line, column } => {
                f.write_str(name)?;
                for number in [line, column].into_iter().flatten() {
                    write!(f, ":{number}")?;
                }
            }
            Origin::Option { text } => f.write_str(text)?,
        }
        f.write_str(": ")?;
        match (field, value) {
            _ if *is_said_by_origin => {}
            (Some(field), Some(value)) => write!(f, "{field} = {value}: ")?,
            (Some(field), None) => write!(f, "{field}: ")?,
            (None, _) => {}
        }
        f.write_str(message)?;
        match hint {
            Some(hint) => write!(f, " (hint: {hint})"),
            None => Ok(()),
        }
    }
}

/// The longest excerpt of a value in an error text, in characters.
const EXCERPT_CHARS_MAX: usize = 60;

/// `text` on one line, cut where it is long.
pub(super) fn abridge(text: &str) -> String {
    let mut line = String::new();
    for word in text.split_whitespace() {
        if !line.is_empty() {
            line.push(' ');
        }
        line.extend(
            word.chars().map(|char| if char.is_control() { '\u{fffd}' } else { char }).take(EXCERPT_CHARS_MAX + 1),
        );
        if line.chars().count() > EXCERPT_CHARS_MAX {
            line = line.chars().take(EXCERPT_CHARS_MAX).collect();
            line.push_str("...");
            break;
        }
    }
    line
}

/// serde's message in the words of someone who writes a scenario, and a hint where a name was probably misspelt.
pub(super) fn readable(message: &str) -> (String, Option<String>) {
    const WORDS: [(&str, &str); 10] = [
        ("expected u32", "expected a whole number from 0 to 4294967295"),
        ("expected u64", "expected a whole number from 0 to 18446744073709551615"),
        ("expected f64", "expected a number"),
        ("expected a sequence", "expected a list"),
        ("expected a map", "expected a table"),
        ("expected a boolean", "expected true or false"),
        ("invalid type: map", "invalid type: table"),
        ("invalid type: sequence", "invalid type: list"),
        ("integer number overflowed", "the number has too many digits, expected at most 18446744073709551615"),
        ("floating-point number overflowed", "the number is too large, expected a finite number"),
    ];
    let names: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    let hint = match names.split_first() {
        Some((wrong, allowed)) if message.starts_with("unknown") => {
            nearest(wrong, allowed).map(|name| format!("did you mean `{name}`?"))
        }
        _ => None,
    };
    // A wrong value is quoted in full at the start, what was expected stands at the end.
    let chars: Vec<char> = message.chars().map(|char| if char.is_control() { '\u{fffd}' } else { char }).collect();
    let shortened: String = match chars.len() {
        0..=MESSAGE_CHARS_MAX => chars.into_iter().collect(),
        n => chars[..80].iter().chain(&['.', '.', '.']).chain(&chars[n - (MESSAGE_CHARS_MAX - 80)..]).collect(),
    };
    (WORDS.iter().fold(shortened, |text, (from, to)| text.replace(from, to)), hint)
}

/// The longest message of serde's that is given in full, in characters.
const MESSAGE_CHARS_MAX: usize = 500;

/// The name of `names` that `wrong` was probably meant to be.
pub(super) fn nearest<'a, S: AsRef<str>>(wrong: &str, names: &'a [S]) -> Option<&'a str> {
    let distance_max = |name: &str| wrong.chars().count().max(name.chars().count()) / 3;
    names
        .iter()
        .map(|name| (edit_distance(wrong, name.as_ref()), name.as_ref()))
        .filter(|&(distance, name)| distance <= distance_max(name))
        .min()
        .map(|(_, name)| name)
}

/// Insertions, deletions, replacements and swaps of neighbours that turn `left` into `right` (optimal string
/// alignment).
fn edit_distance(left: &str, right: &str) -> usize {
    let left: Vec<char> = left.chars().take(EXCERPT_CHARS_MAX).collect();
    let right: Vec<char> = right.chars().take(EXCERPT_CHARS_MAX).collect();
    let mut rows = vec![vec![0; right.len() + 1]; left.len() + 1];
    for i in 0..=left.len() {
        for j in 0..=right.len() {
            rows[i][j] = if i == 0 || j == 0 {
                i + j
            } else {
                let replaced = rows[i - 1][j - 1] + usize::from(left[i - 1] != right[j - 1]);
                let mut least = replaced.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
                if i > 1 && j > 1 && left[i - 1] == right[j - 2] && left[i - 2] == right[j - 1] {
                    least = least.min(rows[i - 2][j - 2] + 1);
                }
                least
            };
        }
    }
    rows[left.len()][right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_the_one_meant() {
        let names = ["threshold", "kv_tokens", "device", "hold"];
        assert_eq!(nearest("treshold", &names), Some("threshold"));
        assert_eq!(nearest("devcie", &names), Some("device"));
        assert_eq!(nearest("colour", &names), None);
        assert_eq!(nearest("q", &["p"]), None);
        assert_eq!(edit_distance("", "abc"), 3);
    }

    #[test]
    fn long_values_are_cut_and_line_breaks_removed() {
        assert_eq!(abridge("[1,\n  2]"), "[1, 2]");
        assert_eq!(abridge(&"9".repeat(500)).chars().count(), EXCERPT_CHARS_MAX + 3);
        assert_eq!(abridge("a\u{7}b"), "a\u{fffd}b");
    }

    #[test]
    fn the_text_names_place_field_value_and_hint() {
        let origin = Origin::File { name: "s.toml".into(), line: Some(3), column: None };
        let error = ScenarioError::new(origin, "expected 1 or more")
            .with_field("model.large.threshold".into())
            .with_value("0")
            .with_hint("1 is no threshold");
        assert_eq!(
            error.to_string(),
            "s.toml:3: model.large.threshold = 0: expected 1 or more (hint: 1 is no threshold)"
        );
    }
}
