//! The text of a scenario and the overrides put on it.

use std::path::Path;
use std::sync::Arc;

use toml::Spanned;
use toml::de::DeValue;

use super::error::{Origin, ScenarioError};
use super::resolve::read_file;

/// A scenario file's name and text, and the overrides on it. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Source {
    name: Arc<str>,
    text: Arc<str>,
    overrides: Vec<Override>,
    feasibility_check: bool,
}

impl Source {
    /// A scenario of the given text; `name` is what errors call it.
    #[must_use]
    pub fn new(name: &str, text: &str) -> Self {
        Self { name: name.into(), text: text.into(), overrides: Vec::new(), feasibility_check: true }
    }

    /// As [`Self::new`], from the bytes of a file.
    ///
    /// # Errors
    /// If the bytes are not UTF-8.
    pub fn from_bytes(name: &str, bytes: &[u8]) -> Result<Self, ScenarioError> {
        match std::str::from_utf8(bytes) {
            Ok(text) => Ok(Self::new(name, text)),
            Err(error) => {
                let valid = String::from_utf8_lossy(&bytes[..error.valid_up_to()]);
                let (line, column) = position(&valid, valid.len());
                let origin = Origin::File { name: name.to_owned(), line: Some(line), column: Some(column) };
                Err(ScenarioError::new(
                    origin,
                    format!("byte 0x{:02x} is not UTF-8, expected a TOML file", bytes[error.valid_up_to()]),
                ))
            }
        }
    }

    /// Reads a scenario from a file.
    ///
    /// # Errors
    /// If the file cannot be read (the error names it) or is not UTF-8.
    pub fn read(path: &Path) -> Result<Self, ScenarioError> {
        let name = path.display().to_string();
        let bytes = read_file(path)
            .map_err(|error| ScenarioError::in_file(&name, format!("cannot read the scenario: {error}")))?;
        Self::from_bytes(&name, &bytes)
    }

    /// Adds an override `path=value`, as of `--set`. The path names a field (`model.large.threshold`,
    /// `model.1.threshold`), the value is a TOML value or a bare word. Later overrides win. Where the file chose
    /// another of several exclusive alternatives, the override replaces it: setting `policy.kind` drops the parameters
    /// of the kind in the file, setting `workload.concurrency` drops `arrivals`, setting `model.small.cost.constant_ms`
    /// drops the keys of the other forms of `cost`.
    ///
    /// # Errors
    /// If the text is not of this form. Whether the path exists is found by [`super::Scenario::parse`].
    pub fn with_set(mut self, text: &str) -> Result<Self, ScenarioError> {
        self.overrides.push(Override::parse(text)?);
        Ok(self)
    }

    /// Whether thresholds that can stall the system for ever are refused (the default). For tests of stalled systems
    /// only.
    #[must_use]
    pub fn with_feasibility_check(mut self, check: bool) -> Self {
        self.feasibility_check = check;
        self
    }

    /// What errors call the file.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The text of the file, without overrides.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The overrides as they were typed, `path=value`, in order.
    pub fn sets(&self) -> impl Iterator<Item = &str> {
        self.overrides.iter().map(|set| &*set.text)
    }

    pub(super) fn overrides(&self) -> &[Override] {
        &self.overrides
    }

    pub(super) fn feasibility_check(&self) -> bool {
        self.feasibility_check
    }
}

/// One override, checked for its form.
#[derive(Clone, Debug)]
pub(super) struct Override {
    /// `path=value`, without spaces around the `=`.
    text: Arc<str>,
    path_length: usize,
}

impl Override {
    fn parse(text: &str) -> Result<Self, ScenarioError> {
        let error = |message: String| ScenarioError::in_option("--set", text, message);
        let Some((path, value)) = text.split_once('=') else {
            return Err(error("expected path=value".to_owned()).with_hint("for example --set model.large.threshold=3"));
        };
        let (path, value) = (path.trim(), value.trim());
        check_path(path).map_err(error)?;
        parse_value(value).map_err(error)?;
        Ok(Self { text: format!("{path}={value}").into(), path_length: path.len() })
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// The length of the path at the start of [`Self::text`]; the `=` follows.
    pub(super) fn path_length(&self) -> usize {
        self.path_length
    }
}

/// Checks that a path consists of words separated by dots.
pub(super) fn check_path(path: &str) -> Result<(), String> {
    let is_word =
        |word: &str| !word.is_empty() && word.chars().all(|char| char.is_ascii_alphanumeric() || "_-".contains(char));
    if path.split('.').all(is_word) && path.split('.').count() <= PATH_WORDS_MAX {
        Ok(())
    } else {
        Err("expected a path of words separated by dots, such as model.large.threshold, before the `=`".to_owned())
    }
}

/// No field lies deeper than this.
const PATH_WORDS_MAX: usize = 12;

/// A TOML value, or a bare word taken as a string.
pub(super) fn parse_value(text: &str) -> Result<Spanned<DeValue<'_>>, String> {
    if text.is_empty() {
        return Err("no value after the `=`, expected a TOML value or a word".to_owned());
    }
    match DeValue::parse(text) {
        Ok(value) => Ok(value),
        Err(_) if text.chars().all(|char| char.is_alphanumeric() || "_-./:".contains(char)) => {
            Ok(Spanned::new(0..text.len(), DeValue::String(text.into())))
        }
        Err(error) => Err(format!("the value is no TOML: {}", error.message())),
    }
}

/// Line and column (in characters) of a byte position, both counted from 1.
pub(super) fn position(text: &str, at: usize) -> (usize, usize) {
    let before = text.get(..at).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_toml_or_bare_words() {
        let kind = |text: &str| parse_value(text).map(|value| value.get_ref().type_str());
        assert_eq!(kind("3"), Ok("integer"));
        assert_eq!(kind("0.5"), Ok("float"));
        assert_eq!(kind("true"), Ok("boolean"));
        assert_eq!(kind("[1, 2]"), Ok("array"));
        assert_eq!(kind("{ csv = \"a.csv\" }"), Ok("table"));
        assert_eq!(kind("\"r2r\""), Ok("string"));
        assert_eq!(kind("r2r"), Ok("string"));
        assert_eq!(kind("profiles/h200.csv"), Ok("string"));
        assert!(kind("").is_err());
        assert!(kind("[1, 2").is_err());
        assert!(kind("two words").is_err());
    }

    #[test]
    fn an_override_needs_a_path_and_a_value() {
        for wrong in ["", "=", "=3", "seed", "seed=", "a..b=1", ".a=1", "a b=1", "a.=1", "größe=1"] {
            let error = Source::new("s.toml", "").with_set(wrong).expect_err(wrong).to_string();
            assert!(error.starts_with("--set"), "{error}");
        }
        let source = Source::new("s.toml", "").with_set(" model.large.threshold = 3 ").expect("well-formed");
        assert_eq!(source.sets().collect::<Vec<_>>(), ["model.large.threshold=3"]);
    }

    #[test]
    fn positions_count_characters() {
        assert_eq!(position("", 0), (1, 1));
        assert_eq!(position("a\n\u{e9}b", 4), (2, 2));
        assert_eq!(position("ab", 99), (1, 3));
    }

    #[test]
    fn a_file_that_is_not_utf8_is_refused_with_its_position() {
        let error = Source::from_bytes("s.toml", b"seed = 1\n# \xff").expect_err("not UTF-8").to_string();
        assert_eq!(error, "s.toml:2:3: byte 0xff is not UTF-8, expected a TOML file");
    }
}
