//! `[policy]`: hands the fields to the policy that `kind` names, and says where in the file its complaints belong.

use std::path::Path;
use std::sync::Arc;

use handoff_scheduler::ModelIdx;
use toml::{Table, Value};

use super::check::Checker;
use super::error::{ScenarioError, nearest};
use super::values::quoted_list;
use crate::policy::{self, Policy, PolicyError, REGISTRY, Replay, Setting};

/// The policy as the scenario gives it: its name and its parameters, names of models replaced by indices.
#[derive(Clone, PartialEq, Debug)]
pub struct PolicyConfig {
    kind: &'static str,
    parameters: Table,
}

impl PolicyConfig {
    /// The name, for instance "r2r".
    #[must_use]
    pub fn kind(&self) -> &'static str {
        self.kind
    }

    /// The parameters that are given; the others have the defaults of the kind.
    #[must_use]
    pub fn parameters(&self) -> &Table {
        &self.parameters
    }

    /// The number called `name`, if it is given.
    #[must_use]
    pub fn number(&self, name: &str) -> Option<f64> {
        match self.parameters.get(name)? {
            Value::Integer(number) => Some(*number as f64),
            Value::Float(number) => Some(*number),
            _ => None,
        }
    }
}

/// The policy of the scenario. `names` are those of the models.
pub(super) fn validate(
    check: &Checker<'_, '_>,
    raw: &Table,
    names: &[String],
) -> Result<(Arc<dyn Policy>, PolicyConfig), ScenarioError> {
    let mut parameters = raw.clone();
    let kind = match parameters.remove("kind") {
        Some(Value::String(kind)) => kind,
        Some(_) => return Err(check.error("policy.kind", "expected the name of a policy")),
        None => default_kind(check, names.len())?.to_owned(),
    };
    let Some(kind) = REGISTRY.iter().map(|entry| entry.kind).find(|known| *known == kind) else {
        let known: Vec<&str> = REGISTRY.iter().map(|entry| entry.kind).collect();
        let error = check.error("policy.kind", format!("unknown value, expected one of {}", quoted_list(&known)));
        return Err(match nearest(&kind, &known) {
            Some(near) => error.with_hint(format!("did you mean `{near}`?")),
            None => error,
        });
    };
    name_to_idx(check, "policy", &mut parameters, names)?;
    if kind == "every" {
        default_visits(&mut parameters);
    }
    let policy = build(check, kind, &parameters, names.len())?;
    Ok((policy, PolicyConfig { kind, parameters }))
}

/// Why a simulation cannot run the policy, if it cannot.
pub(super) fn not_simulable(check: &Checker<'_, '_>, policy: &dyn Policy) -> Option<ScenarioError> {
    (!policy.is_simulable()).then(|| {
        let message = "a simulation has no models whose entropy could be measured, \
             expected `a` and `b` to stand in for it, or the routes of a run on models with kind = \"replay\"";
        check.error("policy.signal", message)
    })
}

fn default_kind(check: &Checker<'_, '_>, n_models: usize) -> Result<&'static str, ScenarioError> {
    match n_models {
        1 => Ok("large-only"),
        2 => Ok("r2r"),
        n => Err(check.error("policy.kind", format!("missing, expected the name of a policy for {n} models"))),
    }
}

/// Visits of one token; as many at the large model as at the small one.
fn default_visits(parameters: &mut Table) {
    let given = ["small", "large"].iter().find_map(|field| parameters.get(*field)).cloned();
    let visit = given.unwrap_or(Value::Integer(1));
    for field in ["small", "large"] {
        parameters.entry(field).or_insert_with(|| visit.clone());
    }
}

/// Replaces the name of an entry model by its index, in the policy and in its phases.
fn name_to_idx(
    check: &Checker<'_, '_>,
    path: &str,
    parameters: &mut Table,
    names: &[String],
) -> Result<(), ScenarioError> {
    for (field, value) in parameters.iter_mut() {
        let path = format!("{path}.{field}");
        match value {
            Value::String(name) if field == "entry" => match names.iter().position(|other| other == name) {
                Some(idx) => *value = Value::Integer(idx as i64),
                None => {
                    return Err(check.error(&path, format!("no such model, expected one of {}", quoted_list(names))));
                }
            },
            Value::Array(list) => {
                for (idx, element) in list.iter_mut().enumerate() {
                    if let Value::Table(table) = element {
                        name_to_idx(check, &format!("{path}.{idx}"), table, names)?;
                    }
                }
            }
            _ => {}
        }
    }
    Ok(())
}

fn build(
    check: &Checker<'_, '_>,
    kind: &'static str,
    parameters: &Table,
    n_models: usize,
) -> Result<Arc<dyn Policy>, ScenarioError> {
    if kind == "replay" {
        return replay(check, parameters, n_models);
    }
    let attempt = |fields: Table| policy::build(kind, Setting { n_models, directory: Path::new(""), fields });
    match attempt(parameters.clone()) {
        Ok(policy) => Ok(policy.into()),
        Err(PolicyError::Parameters { problem, .. }) => {
            // Only the policy knows its fields: the one at fault is the one without which the complaint is another.
            let is_cured_without = |field: &&String| {
                let mut fields = parameters.clone();
                fields.remove(field.as_str());
                !matches!(attempt(fields), Err(PolicyError::Parameters { problem: other, .. }) if other == problem)
            };
            let about_a_field = problem.starts_with("invalid") || problem.starts_with("unknown");
            if let Some(field) = parameters.keys().filter(|_| about_a_field).find(is_cured_without) {
                Err(check.readable_error(&path_of(field), &problem))
            } else if let Some(field) = between(&problem, "missing field `", "`") {
                Err(check.error(&path_of(field), format!("missing, but `{kind}` needs it")))
            } else if let Some(field) = between(&problem, "`", "`: ") {
                Err(check.readable_error(&path_of(field), &problem))
            } else {
                Err(check.error("policy", problem))
            }
        }
        Err(error) => Err(located(check, &error)),
    }
}

/// Recorded routes come through the resolver, as every other file does.
fn replay(check: &Checker<'_, '_>, parameters: &Table, n_models: usize) -> Result<Arc<dyn Policy>, ScenarioError> {
    let mut entry = None;
    let mut file = None;
    for (field, value) in parameters {
        match (field.as_str(), value) {
            ("file", Value::String(name)) => file = Some(name),
            ("file", _) => return Err(check.error("policy.file", "expected the name of a file")),
            ("entry", Value::Integer(idx)) if usize::try_from(*idx).is_ok_and(|idx| idx < n_models) => {
                entry = u8::try_from(*idx).ok()
            }
            ("entry", _) => {
                return Err(
                    check.error("policy.entry", format!("expected the name of a model or an index below {n_models}"))
                );
            }
            _ => {
                return Err(check.error(&format!("policy.{field}"), "unknown field, `replay` takes `file` and `entry`"));
            }
        }
    }
    let Some(file) = file else {
        return Err(check.error("policy.file", "missing, expected the name of a route record"));
    };
    let record =
        check.files.routes(file, n_models, check.resolver).map_err(|message| check.error("policy.file", message))?;
    let replay = Replay::new(&record).and_then(|replay| match entry {
        Some(entry) => replay.with_entry(ModelIdx(entry)),
        None => Ok(replay),
    });
    match replay {
        Ok(replay) => Ok(Arc::new(replay)),
        Err(error @ PolicyError::EntryNotRecorded { .. }) => Err(check.error("policy.entry", error.to_string())),
        Err(error) => Err(check.error("policy.file", error.to_string())),
    }
}

/// The path of a field as policies name it, `routes[0]`.
fn path_of(field: &str) -> String {
    format!("policy.{}", field.replace('[', ".").replace(']', ""))
}

/// What stands between `open`, at the very start of `text`, and the next `close`.
fn between<'a>(text: &'a str, open: &str, close: &str) -> Option<&'a str> {
    text.strip_prefix(open)?.split_once(close).map(|(inner, _)| inner)
}

/// A complaint of the policy at the field that it is about.
fn located(check: &Checker<'_, '_>, error: &PolicyError) -> ScenarioError {
    match error {
        PolicyError::Size { field, found, expected } => {
            check.error(&path_of(field), format!("the list has {found} entries, expected {expected}"))
        }
        PolicyError::Range { field, expected, .. } => check.error(&path_of(field), format!("expected {expected}")),
        PolicyError::Sum { field, sum } => {
            check.error(&path_of(field), format!("the row sums to {sum}, expected 1 within 1e-9"))
        }
        PolicyError::Period { field, expected, .. } => check.error(&path_of(field), format!("expected {expected}")),
        PolicyError::EntryModel { .. } => check.error("policy.entry", error.to_string()),
        PolicyError::PhaseMismatch { phase, .. } => check.error(&format!("policy.phase.{phase}"), error.to_string()),
        PolicyError::ModelCount { .. } | PolicyError::UnknownKind { .. } => {
            check.error("policy.kind", error.to_string())
        }
        _ => check.error("policy", error.to_string()),
    }
}
