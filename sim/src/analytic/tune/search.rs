//! The search over the space of thresholds, with whatever method values come from.

use std::collections::BTreeMap;

use super::super::mean_field::{self, MeanField};
use super::super::{OutOfRange, RoutingLaw};
use super::exact::{ExactModel, is_beyond_the_chain};
use super::race::Racer;
use super::space::Space;
use super::system::System;
use super::{Candidate, Method, TuneError, TuneOptions, Tuning};
use crate::scenario::Placement;

/// Refinements around the best vectors.
const ROUNDS_MAX: usize = 8;
/// Vectors that a refinement looks around: regimes of cohorts can make two distant vectors nearly as good as each other.
const CENTRES: usize = 3;

/// Tries all vectors, or a coarse set and then what lies around the best of them.
pub(super) fn run(space: &Space, options: &TuneOptions, evaluator: &mut Evaluator<'_, '_>) -> Result<(), TuneError> {
    if let Engine::MeanField(_) = evaluator.engine {
        // A value takes microseconds.
        let thresholds: Vec<u32> = (1..=evaluator.system.concurrency).collect();
        return evaluator.evaluate(&space.line(&space.eager(), 1, &thresholds));
    }
    if tries_all(space, options) {
        return evaluator.evaluate(&space.all());
    }
    let coarse = space.coarse();
    evaluator.notes.push(format!(
        "{:.0} vectors are feasible: a coarse set of {}, then everything around the best of them",
        space.count(),
        coarse.len()
    ));
    evaluator.evaluate(&coarse)?;
    for _ in 0..ROUNDS_MAX {
        let centres = evaluator.leaders(CENTRES);
        let around = centres.iter().flat_map(|centre| space.around(centre));
        let mut fresh: Vec<Vec<u32>> = around.filter(|vector| !evaluator.knows(vector)).collect();
        fresh.sort();
        fresh.dedup();
        if fresh.is_empty() {
            break;
        }
        fresh.extend(centres.iter().cloned());
        evaluator.evaluate(&fresh)?;
        if evaluator.leaders(1) == centres[..1] {
            break;
        }
    }
    Ok(())
}

fn tries_all(space: &Space, options: &TuneOptions) -> bool {
    space.count() <= options.vectors_max as f64
}

/// Gives vectors their throughput, and keeps it.
#[derive(Debug)]
pub(super) struct Evaluator<'a, 's> {
    system: &'a System<'s>,
    options: &'a TuneOptions,
    engine: Engine<'a, 's>,
    notes: Vec<String>,
}

#[derive(Debug)]
enum Engine<'a, 's> {
    Exact { model: ExactModel, values: BTreeMap<Vec<u32>, (f64, f64)> },
    MeanField(BTreeMap<Vec<u32>, f64>),
    Simulate { racer: Racer<'a, 's>, screened: BTreeMap<Vec<u32>, f64> },
}

impl<'a, 's> Evaluator<'a, 's> {
    /// The method of the options, or the best one that fits.
    pub(super) fn new(system: &'a System<'s>, space: &Space, options: &'a TuneOptions) -> Result<Self, TuneError> {
        let mut notes = Vec::new();
        let engine = match options.method {
            Some(Method::Exact) => {
                notes.extend(left_out(Method::Exact, &system.beyond_the_chain()));
                Engine::Exact { model: wanted_exact(system, options)?, values: BTreeMap::new() }
            }
            Some(Method::MeanField) => {
                wanted_mean_field(system)?;
                notes.extend(left_out(Method::MeanField, &system.beyond_the_mean_field()));
                notes.push("mean-field: thresholds of the small model above 1 are not covered".to_owned());
                Engine::MeanField(BTreeMap::new())
            }
            Some(Method::Simulate) => simulated(system, options)?,
            None => match exact_if_it_fits(system, space, options) {
                Ok(model) => Engine::Exact { model, values: BTreeMap::new() },
                Err(reason) => {
                    notes.push(format!("not exact: {reason}"));
                    simulated(system, options)?
                }
            },
        };
        Ok(Self { system, options, engine, notes })
    }

    fn knows(&self, thresholds: &[u32]) -> bool {
        match &self.engine {
            Engine::Exact { values, .. } => values.contains_key(thresholds),
            Engine::MeanField(values) => values.contains_key(thresholds),
            Engine::Simulate { racer, screened } => racer.knows(thresholds) || screened.contains_key(thresholds),
        }
    }

    /// The `n` best vectors so far, best first.
    fn leaders(&self, n: usize) -> Vec<Vec<u32>> {
        let mut candidates = self.candidates();
        candidates.sort_by(|a, b| b.throughput.total_cmp(&a.throughput));
        candidates.into_iter().take(n).map(|candidate| candidate.thresholds).collect()
    }

    fn evaluate(&mut self, vectors: &[Vec<u32>]) -> Result<(), TuneError> {
        match &mut self.engine {
            Engine::Exact { model, values } => {
                let fresh: Vec<Vec<u32>> =
                    vectors.iter().filter(|vector| !values.contains_key(*vector)).cloned().collect();
                match model.solve(&fresh, self.options) {
                    Ok(solved) => values.extend(fresh.into_iter().zip(solved)),
                    Err(error) if self.options.method.is_none() && is_beyond_the_chain(&error) => {
                        self.notes.push(format!("not exact: {error}"));
                        self.engine = simulated(self.system, self.options)?;
                        return self.evaluate(vectors);
                    }
                    Err(error) => return Err(error),
                }
            }
            Engine::MeanField(values) => {
                let law = wanted_mean_field(self.system)?;
                let mut refused = None;
                for vector in vectors {
                    match mean_field_value(self.system, law, vector) {
                        Ok(solution) => {
                            values.insert(vector.clone(), solution.tokens_per_s);
                        }
                        Err(error) => refused = refused.or(Some((vector.clone(), error))),
                    }
                }
                if let Some((vector, error)) = refused {
                    self.notes.push(format!("mean-field: from thresholds {vector:?} on it says nothing: {error}"));
                }
            }
            Engine::Simulate { racer, screened } => {
                let mut racing = Vec::new();
                for (vector, value) in screen(self.system, vectors) {
                    match value {
                        Some(value) => {
                            screened.insert(vector, value);
                        }
                        None => racing.push(vector),
                    }
                }
                racer.race(&racing)?;
            }
        }
        Ok(())
    }

    fn candidates(&self) -> Vec<Candidate> {
        let known = |method: Method| {
            move |(thresholds, throughput): (&Vec<u32>, f64)| Candidate {
                thresholds: thresholds.clone(),
                throughput,
                method,
                half_width: None,
                replications: 0,
                loss: 0.0,
            }
        };
        match &self.engine {
            Engine::Exact { values, .. } => {
                values.iter().map(|(thresholds, value)| (thresholds, value.0)).map(known(Method::Exact)).collect()
            }
            Engine::MeanField(values) => {
                values.iter().map(|(thresholds, value)| (thresholds, *value)).map(known(Method::MeanField)).collect()
            }
            Engine::Simulate { racer, screened } => {
                let mut candidates = racer.candidates();
                // What was screened out has a value of another method, and must not rank above what it was screened against.
                let best = candidates.iter().map(|candidate| candidate.throughput).fold(0.0, f64::max);
                let screened = screened.iter().map(|(thresholds, value)| (thresholds, value.min(best * (1.0 - 1e-6))));
                candidates.extend(screened.map(known(Method::MeanField)));
                candidates
            }
        }
    }

    /// All candidates, ranked.
    pub(super) fn tuning(self, space: &Space) -> Tuning {
        let mut candidates = self.candidates();
        // Stable: equal throughputs stay in the order of their thresholds.
        candidates.sort_by(|a, b| b.throughput.total_cmp(&a.throughput));
        let best = candidates[0].throughput;
        candidates.iter_mut().for_each(|candidate| candidate.loss = 1.0 - candidate.throughput / best);
        let (grid_steps, residual) = match &self.engine {
            Engine::Exact { model, values } => {
                (model.grid_steps(), Some(values.values().map(|(_, residual)| *residual).fold(0.0, f64::max)))
            }
            Engine::MeanField(_) | Engine::Simulate { .. } => (Vec::new(), None),
        };
        let mut notes = self.notes;
        if let Engine::Simulate { screened, .. } = &self.engine
            && !screened.is_empty()
        {
            notes.push(format!(
                "{} vectors were not simulated: by the mean field they lose more than its tolerance",
                screened.len()
            ));
        }
        Tuning { method: candidates[0].method, n_feasible: space.count(), candidates, notes, grid_steps, residual }
    }
}

/// Whether the method of the options applies, without running anything.
pub(super) fn check(system: &System<'_>, options: &TuneOptions) -> Result<(), TuneError> {
    match options.method {
        Some(Method::Exact) => wanted_exact(system, options).map(|_| ()),
        Some(Method::MeanField) => wanted_mean_field(system).map(|_| ()),
        Some(Method::Simulate) | None => Ok(()),
    }
}

fn wanted_exact(system: &System<'_>, options: &TuneOptions) -> Result<ExactModel, TuneError> {
    ExactModel::new(system, options, options.limits.max_states as f64).map_err(|reason| TuneError::NotApplicable {
        method: Method::Exact,
        reason: format!("{reason}; left to itself, tuning falls back to {}", fallback(system)),
    })
}

/// The law of a mean field that says something at threshold 1 at least.
fn wanted_mean_field(system: &System<'_>) -> Result<RoutingLaw, TuneError> {
    let refused = |reason: String| TuneError::NotApplicable { method: Method::MeanField, reason };
    let law = mean_field_law(system).map_err(refused)?;
    mean_field_value(system, law, &vec![1; system.n_models()]).map_err(|error| refused(error.to_string()))?;
    Ok(law)
}

fn simulated<'a, 's>(system: &'a System<'s>, options: &TuneOptions) -> Result<Engine<'a, 's>, TuneError> {
    let racer = Racer::new(system, system.scenario.seed(), options.replications)?;
    Ok(Engine::Simulate { racer, screened: BTreeMap::new() })
}

/// The chain, if it leaves nothing out and the whole search fits its budget.
fn exact_if_it_fits(system: &System<'_>, space: &Space, options: &TuneOptions) -> Result<ExactModel, String> {
    // Asked first, because it is the better reason.
    system.launch_rule()?;
    if let Some(first) = system.beyond_the_chain().into_iter().next() {
        return Err(first);
    }
    let n_vectors = if tries_all(space, options) { space.count() } else { space.coarse().len() as f64 };
    let states_max = (options.states_max / n_vectors).min(options.limits.max_states as f64);
    let fallback = fallback(system);
    ExactModel::new(system, options, states_max)
        .map_err(|reason| format!("{reason}; it is tuned by {fallback} instead"))
}

/// What takes over where the chain is too large.
fn fallback(system: &System<'_>) -> &'static str {
    match mean_field_law(system) {
        Ok(_) if system.beyond_the_mean_field().is_empty() => "simulation after screening by the mean field",
        _ => "simulation",
    }
}

/// The law under which the mean field describes this scenario.
pub(super) fn mean_field_law(system: &System<'_>) -> Result<RoutingLaw, String> {
    if system.scenario.placement() != Placement::Separate {
        return Err(format!("placement is {}, expected separate", system.scenario.placement()));
    }
    system.r2r_law().ok_or_else(|| {
        format!(
            "policy `{}` does not follow the R2R law, where one large step makes each token that a small step drops",
            system.scenario.policy().kind()
        )
    })
}

pub(super) fn mean_field_value(
    system: &System<'_>,
    law: RoutingLaw,
    thresholds: &[u32],
) -> Result<mean_field::MeanFieldSolution, OutOfRange> {
    super::super::require(
        thresholds[0] == 1,
        "threshold of the small model",
        f64::from(thresholds[0]),
        "1: the mean field knows a threshold of the large model only",
    )?;
    mean_field::solve(&MeanField {
        concurrency: system.concurrency,
        law,
        small: system.affine(0).0,
        large: system.affine(1).0,
        threshold: thresholds[1],
        handoff_s: system.hop_s(),
    })
}

/// The vectors with their mean-field value if by it they are worse than the best of them by more than both tolerances.
fn screen(system: &System<'_>, vectors: &[Vec<u32>]) -> Vec<(Vec<u32>, Option<f64>)> {
    let law = mean_field_law(system).ok().filter(|_| system.beyond_the_mean_field().is_empty());
    let value = |vector: &Vec<u32>| mean_field_value(system, law?, vector).ok();
    let values: Vec<_> = vectors.iter().map(value).collect();
    let sure = |solution: &mean_field::MeanFieldSolution| solution.tokens_per_s * (1.0 - solution.tolerance);
    let best = values.iter().flatten().map(sure).fold(0.0, f64::max);
    let lost = |solution: &mean_field::MeanFieldSolution| solution.tokens_per_s * (1.0 + solution.tolerance) < best;
    vectors
        .iter()
        .cloned()
        .zip(values)
        .map(|(vector, value)| (vector, value.filter(lost).map(|solution| solution.tokens_per_s)))
        .collect()
}

fn left_out(method: Method, clauses: &[String]) -> Option<String> {
    (!clauses.is_empty()).then(|| format!("{method} leaves out: {}", clauses.join("; ")))
}
