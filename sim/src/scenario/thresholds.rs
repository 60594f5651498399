//! Thresholds, and whether a system with them can go on for ever.

use super::check::{Checker, joined};
use super::error::ScenarioError;
use super::model::ModelSpec;
use super::raw::RawThreshold;
use crate::workload::Arrivals;

/// The threshold of a subserver, by the number of requests in the system.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Thresholds(Form);

#[derive(Clone, PartialEq, Eq, Debug)]
enum Form {
    Number([u32; 1]),
    List(Vec<u32>),
}

impl Thresholds {
    /// The threshold while `active` requests are in the system: the number, or entry `active` - 1 of the list, or its
    /// last entry beyond its end.
    #[must_use]
    pub fn at(&self, active: u32) -> u32 {
        let entries = self.entries();
        entries[(active.max(1) as usize - 1).min(entries.len() - 1)]
    }

    /// The entries of the list, or the one number. Never empty, and every entry is at least 1.
    #[must_use]
    pub fn entries(&self) -> &[u32] {
        match &self.0 {
            Form::Number(number) => number,
            Form::List(list) => list,
        }
    }

    /// Whether a list by active requests was given.
    #[must_use]
    pub fn is_list(&self) -> bool {
        matches!(self.0, Form::List(_))
    }

    /// The largest entry.
    #[must_use]
    pub fn max(&self) -> u32 {
        self.entries().iter().copied().max().expect("there is at least one entry")
    }

    pub(super) fn validate(
        check: &Checker<'_, '_>,
        path: &str,
        raw: Option<&RawThreshold>,
    ) -> Result<Self, ScenarioError> {
        let expected = "expected a whole number of requests, 1 or more";
        match raw {
            None => Ok(Self(Form::Number([1]))),
            Some(RawThreshold::Number(0)) => Err(check.error(path, expected)),
            Some(RawThreshold::Number(number)) => Ok(Self(Form::Number([*number]))),
            Some(RawThreshold::List(list)) if list.is_empty() => {
                Err(check.error(path, "the list is empty, expected one threshold for each number of active requests"))
            }
            Some(RawThreshold::List(list)) => match list.iter().position(|&threshold| threshold == 0) {
                Some(idx) => Err(check.error(&format!("{path}.{idx}"), expected)),
                None => Ok(Self(Form::List(list.clone()))),
            },
        }
    }
}

/// Refuses thresholds with which all requests can end up waiting for each other: with `active` requests in the system,
/// B - 1 at every model.
///
/// In a closed loop the number in the system is the concurrency, so numbers are checked there; lists are checked for
/// each number of active requests that they speak of, and numbers count for nothing below the concurrency. In an open
/// loop any number may be in the system, so a threshold above 1 needs a longest wait.
pub(super) fn check_feasible(
    check: &Checker<'_, '_>,
    arrivals: &Arrivals,
    models: &[ModelSpec],
) -> Result<(), ScenarioError> {
    match arrivals {
        Arrivals::ClosedLoop { concurrency } => {
            let listed_max = models
                .iter()
                .filter(|model| model.thresholds.is_list())
                .map(|model| model.thresholds.entries().len())
                .max();
            let listed_max = u32::try_from(listed_max.unwrap_or(0)).unwrap_or(u32::MAX);
            let mut counts = (1..=listed_max.min(concurrency - 1)).chain([*concurrency]);
            counts.try_for_each(|active| check_feasible_at(check, active, *concurrency, models))
        }
        Arrivals::Poisson { .. } | Arrivals::Trace { .. } => {
            match models.iter().position(|model| model.thresholds.max() > 1 && model.max_wait_ns.is_none()) {
                None => Ok(()),
                Some(idx) => {
                    let message = "with open-loop arrivals a threshold above 1 may never be reached, expected a `max_wait_ms` above 0";
                    Err(check.error(&format!("model.{idx}.threshold"), message))
                }
            }
        }
    }
}

fn check_feasible_at(
    check: &Checker<'_, '_>,
    active: u32,
    concurrency: u32,
    models: &[ModelSpec],
) -> Result<(), ScenarioError> {
    let counts = |model: &ModelSpec| active == concurrency || model.thresholds.is_list();
    let waiting = |model: &ModelSpec| if counts(model) { u64::from(model.thresholds.at(active) - 1) } else { 0 };
    let sum: u64 = models.iter().map(waiting).sum();
    if sum < u64::from(active) {
        return Ok(());
    }
    let requests = if active == 1 { "1 request is".to_owned() } else { format!("{active} requests are") };
    // A list that lets the system run low names the entry at fault.
    let path = |idx: usize| match models[idx].thresholds.is_list() {
        true => {
            format!("model.{idx}.threshold.{}", (active as usize - 1).min(models[idx].thresholds.entries().len() - 1))
        }
        false => format!("model.{idx}.threshold"),
    };
    if let Some(idx) = models.iter().position(|model| waiting(model) >= u64::from(active)) {
        let model = &models[idx];
        let message = format!(
            "`threshold` of `{}` is {} but only {requests} in the system: it would never launch",
            model.name,
            model.thresholds.at(active)
        );
        return Err(check
            .error(&path(idx), message)
            .with_hint(format!("the sum of (threshold - 1) over all models must be below {active}")));
    }
    let above: Vec<usize> = (0..models.len()).filter(|&idx| waiting(&models[idx]) > 0).collect();
    let named =
        above.iter().map(|&idx| format!("{} of `{}`", models[idx].thresholds.at(active), models[idx].name)).collect();
    let message = format!(
        "the thresholds {} are too high together: only {requests} in the system, and {sum} can wait without any launch",
        joined(named)
    );
    let last = *above.last().expect("the sum is positive, so some model waits");
    Err(check
        .error(&path(last), message)
        .with_hint(format!("the sum of (threshold - 1) over all models must be below {active}")))
}
