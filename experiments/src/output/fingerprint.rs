//! What a result folder is bound to: the program and everything that was asked of it.

use serde::Serialize;
use serde_json::Value;

use super::StoreError;
use super::manifest::Program;

/// The command, the version of the program, and the whole configuration. Two runs with equal fingerprints compute the
/// same rows.
///
/// A build from sources that differ from their commit is told from a clean one, but not from another such build.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Fingerprint(Value);

/// A field in which two fingerprints differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Difference {
    /// The path of the field, with dots between the levels: `workload.prompt_tokens`, `model.1.threshold`.
    pub(crate) field: String,
    /// Its value in the first fingerprint, as JSON; `absent` if it has none.
    pub(crate) first: String,
    /// Its value in the second fingerprint.
    pub(crate) second: String,
}

impl Fingerprint {
    /// The fingerprint of this program running `command` with `configuration`, which must serialise to an object that
    /// holds every field that the rows depend on: the effective scenario, the grid, the digests of the profiles.
    pub(crate) fn new<C: Serialize>(command: &str, configuration: &C) -> Result<Self, StoreError> {
        let program = Program::current();
        let whole = serde_json::json!({
            "program": { "version": program.version, "commit": program.commit, "sources": program.sources },
            "command": command,
            "configuration": to_value(configuration)?,
        });
        // Through text, because a float may come back from it changed in its last digit: what is compared later has
        // been through text too.
        let text = whole.to_string();
        serde_json::from_str(&text).map(Self).map_err(as_store_error)
    }

    /// A fingerprint read from a file.
    pub(crate) fn from_value(value: Value) -> Self {
        Self(value)
    }

    /// The fingerprint as JSON.
    pub(crate) fn as_value(&self) -> &Value {
        &self.0
    }

    /// The first field in which `self` and `other` differ, or nothing if they are equal.
    pub(crate) fn difference(&self, other: &Self) -> Option<Difference> {
        let (field, first, second) = first_difference(String::new(), Some(&self.0), Some(&other.0))?;
        let field = field.strip_prefix("configuration.").map(str::to_owned).unwrap_or(field);
        let show = |value: Option<&Value>| value.map_or_else(|| "absent".to_owned(), Value::to_string);
        Some(Difference { field, first: show(first), second: show(second) })
    }
}

fn to_value<C: Serialize>(configuration: &C) -> Result<Value, StoreError> {
    serde_json::to_value(configuration).map_err(as_store_error)
}

fn as_store_error(source: serde_json::Error) -> StoreError {
    StoreError::Json { what: "the configuration", source }
}

type ValueDifference<'a> = (String, Option<&'a Value>, Option<&'a Value>);

/// Depth first, fields in the order of the first value, then those that only the second one has.
fn first_difference<'a>(
    field: String,
    first: Option<&'a Value>,
    second: Option<&'a Value>,
) -> Option<ValueDifference<'a>> {
    if first == second {
        return None;
    }
    let child = |name: &str| if field.is_empty() { name.to_owned() } else { format!("{field}.{name}") };
    match (first, second) {
        (Some(Value::Object(a)), Some(Value::Object(b))) => {
            let only_in_second = b.keys().filter(|name| !a.contains_key(*name));
            a.keys().chain(only_in_second).find_map(|name| first_difference(child(name), a.get(name), b.get(name)))
        }
        // Lists of another length are shown whole: naming an index would hide that one was cut.
        (Some(Value::Array(a)), Some(Value::Array(b))) if a.len() == b.len() => {
            let pairs = a.iter().zip(b).enumerate();
            pairs.into_iter().find_map(|(idx, (a, b))| first_difference(child(&idx.to_string()), Some(a), Some(b)))
        }
        _ => Some((field, first, second)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn difference(first: Value, second: Value) -> Option<(String, String, String)> {
        let new = |value: &Value| Fingerprint::new("sweep", value).unwrap();
        new(&first).difference(&new(&second)).map(|found| (found.field, found.first, found.second))
    }

    fn named(field: &str, first: &str, second: &str) -> Option<(String, String, String)> {
        Some((field.to_owned(), first.to_owned(), second.to_owned()))
    }

    #[test]
    fn equal_configurations_do_not_differ() {
        let configuration = json!({ "seed": 1, "cost": 0.123_456_789_012_345_68, "model": [{ "threshold": 3 }] });
        assert_eq!(difference(configuration.clone(), configuration), None);
    }

    #[test]
    fn the_differing_field_is_named_by_its_path() {
        let of = |prompt: u32, threshold: u32| json!({ "workload": { "prompt_tokens": prompt }, "model": [{}, { "threshold": threshold }] });
        assert_eq!(difference(of(100, 1), of(200, 1)), named("workload.prompt_tokens", "100", "200"));
        assert_eq!(difference(of(100, 1), of(100, 3)), named("model.1.threshold", "1", "3"));
    }

    #[test]
    fn absent_fields_and_other_lengths_are_shown() {
        assert_eq!(difference(json!({ "a": 1 }), json!({ "a": 1, "b": null })), named("b", "absent", "null"));
        assert_eq!(difference(json!({ "every": [1, 2] }), json!({ "every": [1] })), named("every", "[1,2]", "[1]"));
    }

    #[test]
    fn another_command_or_program_is_another_run() {
        let sweep = Fingerprint::new("sweep", &json!({})).unwrap();
        let tune = Fingerprint::new("tune", &json!({})).unwrap();
        assert_eq!(sweep.difference(&tune).unwrap().field, "command");

        let mut older = sweep.as_value().clone();
        older["program"]["commit"] = json!("0123");
        assert_eq!(Fingerprint::from_value(older).difference(&sweep).unwrap().field, "program.commit");
    }

    #[test]
    fn survives_a_file() {
        let fingerprint = Fingerprint::new("sweep", &json!({ "a": [0.1, 1e-300, 6.02214076e23], "b": "x" })).unwrap();
        let read = serde_json::from_str(&fingerprint.as_value().to_string()).unwrap();
        assert_eq!(Fingerprint::from_value(read).difference(&fingerprint), None);
    }
}
