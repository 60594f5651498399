//! What all parts of the validation share: errors at fields, ranges, names.

use std::ops::RangeInclusive;
use std::sync::Arc;

use super::error::{ScenarioError, readable};
use super::model::ModelSpec;
use super::resolve::{Files, Resolver};
use super::tree::Tree;
use super::units::{duration_expected, duration_ns};
use crate::cost::Profile;

/// The tree that errors point into, and the files that the scenario names.
pub(super) struct Checker<'c, 't> {
    pub(super) tree: &'c Tree<'t>,
    pub(super) files: &'c Files,
    pub(super) resolver: &'c dyn Resolver,
}

impl Checker<'_, '_> {
    /// An error about the field at `path`, models by index.
    pub(super) fn error(&self, path: &str, message: impl Into<String>) -> ScenarioError {
        self.tree.error(path, message)
    }

    /// As [`Self::error`], with a message of serde's.
    pub(super) fn readable_error(&self, path: &str, message: &str) -> ScenarioError {
        let (message, hint) = readable(message);
        let error = self.error(path, message);
        match hint {
            Some(hint) => error.with_hint(hint),
            None => error,
        }
    }

    /// The profile `file`, named by the field at `path`.
    pub(super) fn profile(&self, path: &str, file: &str) -> Result<Arc<Profile>, ScenarioError> {
        self.files.profile(file, self.resolver).map_err(|message| self.error(path, message))
    }

    /// `value` in nanoseconds.
    pub(super) fn duration_ns(
        &self,
        path: &str,
        value: f64,
        unit: &str,
        ns_per_unit: f64,
    ) -> Result<u64, ScenarioError> {
        duration_ns(value, ns_per_unit).ok_or_else(|| self.error(path, duration_expected(unit, ns_per_unit)))
    }

    /// `value` if it lies in `range`; no NaN does.
    pub(super) fn number(&self, path: &str, value: f64, range: RangeInclusive<f64>) -> Result<f64, ScenarioError> {
        if range.contains(&value) {
            return Ok(value);
        }
        let (low, high) = (range.start(), range.end());
        Err(self.error(path, format!("expected a number from {low} to {high}")))
    }

    /// `value` if it lies in `range`.
    pub(super) fn whole<T: PartialOrd + std::fmt::Display>(
        &self,
        path: &str,
        value: T,
        range: RangeInclusive<T>,
    ) -> Result<T, ScenarioError> {
        if range.contains(&value) {
            return Ok(value);
        }
        let (low, high) = (range.start(), range.end());
        Err(self.error(path, format!("expected a whole number from {low} to {high}")))
    }

    /// "`small` and `large`".
    pub(super) fn names(&self, group: &[usize], models: &[ModelSpec]) -> String {
        joined(group.iter().map(|&idx| format!("`{}`", models[idx].name)).collect())
    }
}

/// "a, b and c".
pub(super) fn joined(mut words: Vec<String>) -> String {
    match words.pop() {
        Some(last) if words.is_empty() => last,
        Some(last) => format!("{} and {last}", words.join(", ")),
        None => String::new(),
    }
}
