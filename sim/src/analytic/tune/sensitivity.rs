//! How throughput answers to each quantity of a scenario: elasticities by central differences under common random numbers.
//!
//! The elasticity of X to a quantity v is d ln X / d ln v: at -0.4, a tenth more of v costs four per cent. It is taken as
//! (ln X(v e^h) - ln X(v e^-h)) / 2h, in logarithms, where X is closer to a straight line. Multiplying every time by f divides X by f (theory,
//! section 1, L5), so the elasticities to all times add to -1 (with two times exactly, by the symmetry of the differences). Steps are jittered: with fixed commensurate times single values are artefacts of the
//! lattice (theory, section 4).

use std::sync::Arc;

use handoff_scheduler::Threshold;
use rayon::prelude::*;

use super::TuneError;
use super::scaled::{ScaledLatency, scaled_ns};
use super::system::System;
use crate::cost::Jitter;
use crate::engine::{EngineConfig, Window, choose_warmup, replicate};
use crate::rng::Stream;
use crate::scenario::Scenario;
use crate::stats::Estimate;

/// Half the logarithmic distance between the two values of a quantity: about 10 % to either side. Noise falls with it, and what it adds by curvature
/// is of third order.
const HALF_STEP: f64 = 0.1;
/// Jitter that steps have at least, as a coefficient of variation. With less, X is no smooth function of a time at the scale of the step above; so
/// much changes X itself by half a per cent at most under the R2R law (theory, section 11).
const JITTER_CV: f64 = 0.1;

/// What throughput is sensitive to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Quantity {
    /// The step time of a model, by index, with its routing signal.
    StepTime(usize),
    /// The host's time around steps and for messages, of all models.
    HostTime,
    /// The time of a message between subservers.
    HopTime,
    /// What a returning request pays as a fresh one.
    FreshTime,
    /// The longest waits at all gates.
    MaxWait,
    /// A parameter of the policy, by name.
    Policy(&'static str),
    /// The threshold of a model, by index.
    Threshold(usize),
}

impl Quantity {
    /// Whether it is a time: the elasticities to all of them add to -1.
    #[must_use]
    pub fn is_time(&self) -> bool {
        !matches!(self, Self::Policy(_) | Self::Threshold(_))
    }
}

/// The answer to one quantity.
#[derive(Clone, Debug, PartialEq)]
pub struct Elasticity {
    /// The quantity.
    pub quantity: Quantity,
    /// Its name with the model's: `step time of large`.
    pub name: String,
    /// d ln throughput / d ln quantity.
    pub elasticity: f64,
    /// Half the width of its 95 % interval.
    pub half_width: f64,
}

/// The answers to all quantities at given thresholds.
#[derive(Clone, Debug, PartialEq)]
pub struct Sensitivity {
    /// Times first, then the policy, then thresholds. Times that are 0 are left out.
    pub elasticities: Vec<Elasticity>,
    /// Sum over the times: -1 but for noise and the curvature of X.
    pub times_sum: f64,
    /// Half the width of the sum's 95 % interval.
    pub times_sum_half_width: f64,
    /// What was changed for the purpose.
    pub notes: Vec<String>,
}

/// Elasticities of throughput at `thresholds`, one a model. Each quantity is moved by 10 % to either side; a threshold by one, where that is feasible.
/// `replications` (at least 4) runs a value, under common random numbers.
///
/// # Errors
/// As for [`super::tune`].
pub fn sensitivity(scenario: &Scenario, thresholds: &[u32], replications: u32) -> Result<Sensitivity, TuneError> {
    let system = System::of(scenario)?;
    let mut base = system.config(thresholds);
    let mut notes = Vec::new();
    for model in base.models.iter_mut().filter(|model| model.jitter.cv() < JITTER_CV) {
        model.jitter = Jitter::lognormal(JITTER_CV).expect("the constant is in range");
        notes.push(format!(
            "steps of `{}` are given a jitter of {JITTER_CV}: without any, elasticities measure the lattice",
            model.name
        ));
    }
    let seed = Stream::replication_seed(scenario.seed(), u32::MAX - 2);
    let failed = |error| TuneError::Run { thresholds: thresholds.to_vec(), error };
    let warmup = choose_warmup(&base, Stream::replication_seed(seed, u32::MAX)).map_err(failed)?;
    // Counted in requests, so that both values of a quantity measure the same requests on the same routes.
    let requests = u64::from(scenario.workload().requests());
    let window = Window::Requests { warmup_requests: warmup.requests, requests };
    let moves = moves(&system, scenario, &base, thresholds)?;
    let replications = replications.max(4);
    let jobs: Vec<(usize, u32)> =
        (0..moves.len()).flat_map(|idx| (0..replications).map(move |replication| (idx, replication))).collect();
    let slope = |&(idx, replication): &(usize, u32)| {
        let Move { down, up, log_distance, .. } = &moves[idx];
        let run = |config: &EngineConfig| {
            replicate(config, Stream::replication_seed(seed, replication), window).map(|metrics| metrics.throughput())
        };
        Ok(((run(up).map_err(failed)?).ln() - run(down).map_err(failed)?.ln()) / log_distance)
    };
    let slopes = jobs.par_iter().map(slope).collect::<Result<Vec<f64>, TuneError>>()?;
    let mut sums = vec![0.0; replications as usize];
    let mut elasticities = Vec::new();
    for (moved, values) in moves.iter().zip(slopes.chunks_exact(replications as usize)) {
        if moved.quantity.is_time() {
            sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
        }
        let estimate = Estimate::of(values);
        elasticities.push(Elasticity {
            quantity: moved.quantity.clone(),
            name: moved.name.clone(),
            elasticity: estimate.mean,
            half_width: estimate.half_width.unwrap_or(f64::NAN),
        });
    }
    let sum = Estimate::of(&sums);
    Ok(Sensitivity {
        elasticities,
        times_sum: sum.mean,
        times_sum_half_width: sum.half_width.unwrap_or(f64::NAN),
        notes,
    })
}

/// A quantity at two values.
struct Move {
    quantity: Quantity,
    name: String,
    down: EngineConfig,
    up: EngineConfig,
    /// ln of the upper over the lower value.
    log_distance: f64,
}

fn moves(
    system: &System<'_>,
    scenario: &Scenario,
    base: &EngineConfig,
    thresholds: &[u32],
) -> Result<Vec<Move>, TuneError> {
    let mut moves = Vec::new();
    let mut scaled = |quantity: Quantity, name: String, change: &dyn Fn(&mut EngineConfig, f64)| {
        let at = |factor: f64| {
            let mut config = base.clone();
            change(&mut config, factor);
            config
        };
        let (down, up) = (at((-HALF_STEP).exp()), at(HALF_STEP.exp()));
        moves.push(Move { quantity, name, down, up, log_distance: 2.0 * HALF_STEP });
    };
    for (idx, model) in base.models.iter().enumerate() {
        scaled(Quantity::StepTime(idx), format!("step time of {}", model.name), &|config, factor| {
            let model = &mut config.models[idx];
            let scale = |inner: &Arc<_>| Arc::new(ScaledLatency { inner: Arc::clone(inner), factor });
            model.latency = scale(&model.latency);
            model.router = model.router.as_ref().map(|router| scale(router) as _);
        });
    }
    if base.models.iter().any(|model| model.host.launch_ns + model.host.loop_ns + model.host.message_ns > 0) {
        scaled(Quantity::HostTime, "host time".to_owned(), &|config, factor| {
            for host in config.models.iter_mut().map(|model| &mut model.host) {
                for ns in [&mut host.launch_ns, &mut host.loop_ns, &mut host.message_ns] {
                    *ns = scaled_ns(*ns, factor);
                }
            }
        });
    }
    if base.hop_ns > 0 || base.hop_bytes_per_ns.is_some() {
        scaled(Quantity::HopTime, "hop time".to_owned(), &|config, factor| {
            config.hop_ns = scaled_ns(config.hop_ns, factor);
            config.hop_bytes_per_ns = config.hop_bytes_per_ns.map(|rate| rate / factor);
        });
    }
    if base.fresh.is_some() {
        scaled(Quantity::FreshTime, "fresh time".to_owned(), &|config, factor| {
            if let Some(fresh) = &mut config.fresh {
                fresh.fixed_ns = scaled_ns(fresh.fixed_ns, factor);
                fresh.per_context_token_ns *= factor;
            }
        });
    }
    if base.models.iter().any(|model| model.gate.wait_ns_max.is_some()) {
        scaled(Quantity::MaxWait, "longest wait".to_owned(), &|config, factor| {
            for gate in config.models.iter_mut().map(|model| &mut model.gate) {
                gate.wait_ns_max = gate.wait_ns_max.map(|ns| scaled_ns(ns, factor).max(1));
            }
        });
    }
    moves.extend(policy_moves(scenario, base)?);
    moves.extend(threshold_moves(system, base, thresholds));
    Ok(moves)
}

/// The probabilities of routing, where the policy has some by name.
fn policy_moves(scenario: &Scenario, base: &EngineConfig) -> Result<Vec<Move>, TuneError> {
    let Some(markov) = scenario.policy().as_markov() else { return Ok(Vec::new()) };
    let (kind, routes) = (scenario.policy().kind(), markov.routes());
    let named: &[(&'static str, f64)] = match kind {
        "r2r" | "citer" | "co-llm" => &[("p", routes[0][1])],
        "r-stitch" => &[("a", routes[0][1]), ("b", routes[1][0])],
        _ => &[],
    };
    // A probability near 1 has no room above.
    let movable = named.iter().filter(|(_, value)| *value > 0.0 && *value * HALF_STEP.exp() < 1.0);
    movable
        .map(|&(name, value)| {
            let at = |factor: f64| -> Result<EngineConfig, TuneError> {
                let variant = scenario.variant().set(&format!("policy.{name}={}", value * factor)).build()?;
                Ok(EngineConfig { policy: Arc::clone(variant.policy()), ..base.clone() })
            };
            Ok(Move {
                quantity: Quantity::Policy(name),
                name: format!("{name} of {kind}"),
                down: at((-HALF_STEP).exp())?,
                up: at(HALF_STEP.exp())?,
                log_distance: 2.0 * HALF_STEP,
            })
        })
        .collect()
}

/// One request less and one more, as far as that is feasible.
fn threshold_moves(system: &System<'_>, base: &EngineConfig, thresholds: &[u32]) -> Vec<Move> {
    let held_back: u32 = thresholds.iter().map(|threshold| threshold - 1).sum();
    let mut moves = Vec::new();
    for (idx, &threshold) in thresholds.iter().enumerate() {
        let low = (threshold - 1).max(1);
        let high = if held_back + 1 < system.concurrency { threshold + 1 } else { threshold };
        if low == high {
            continue;
        }
        let at = |threshold: u32| {
            let mut config = base.clone();
            config.models[idx].gate.threshold = Threshold::constant(threshold);
            config
        };
        moves.push(Move {
            quantity: Quantity::Threshold(idx),
            name: format!("threshold of {} ({low} to {high})", base.models[idx].name),
            down: at(low),
            up: at(high),
            log_distance: (f64::from(high) / f64::from(low)).ln(),
        });
    }
    moves
}
