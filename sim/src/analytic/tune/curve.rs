//! Throughput against the threshold of one model, by every method that describes the scenario.

use super::super::fluid::{self, Placement as FluidPlacement};
use super::exact::ExactModel;
use super::race::Racer;
use super::search::{mean_field_law, mean_field_value};
use super::space::Space;
use super::system::System;
use super::{TuneError, TuneOptions};
use crate::scenario::{Order, Placement, Scenario};
use crate::stats::Estimate;

/// A line of the figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// The method, `exact`, `mean field`, `fluid` or `simulated`.
    pub name: &'static str,
    /// By rising threshold; at least one.
    pub points: Vec<CurvePoint>,
}

/// A point of a curve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CurvePoint {
    /// The threshold.
    pub threshold: u32,
    /// Tokens per second.
    pub throughput: f64,
    /// Half the width of the 95 % interval of a simulated value.
    pub half_width: Option<f64>,
}

/// Replications of a simulated point.
const REPLICATIONS: usize = 6;
/// A curve of more points is simulated at some of them only.
const POINTS_MAX: usize = 40;

/// Throughput against the threshold of `model`, the others held at `thresholds`: exact where the chain describes the scenario and all its points
/// together fit the budget of `options`, mean field and fluid where they are valid, and simulated. `exact` is drawn for fixed times also where steps
/// jitter: the distance to the simulated line is what the jitter does.
///
/// # Errors
/// As for [`super::tune`].
pub fn curves(
    scenario: &Scenario,
    model: usize,
    thresholds: &[u32],
    options: &TuneOptions,
) -> Result<Vec<Curve>, TuneError> {
    let system = System::of(scenario)?;
    let space = Space::new(system.n_models(), system.concurrency);
    let all: Vec<u32> = (1..=system.concurrency).collect();
    let line = space.line(thresholds, model, &all);
    let mut curves = Vec::new();
    curves.extend(exact(&system, &line, model, options)?);
    curves.extend(mean_field(&system, &line, model));
    curves.extend(fluid_curve(&system, &line, model));
    curves.push(simulated(&system, &line, model, thresholds)?);
    Ok(curves)
}

fn curve(name: &'static str, points: Vec<CurvePoint>) -> Option<Curve> {
    (!points.is_empty()).then_some(Curve { name, points })
}

fn exact(
    system: &System<'_>,
    line: &[Vec<u32>],
    model: usize,
    options: &TuneOptions,
) -> Result<Option<Curve>, TuneError> {
    let states_max = (options.states_max / line.len() as f64).min(options.limits.max_states as f64);
    let Ok(chain) = ExactModel::new(system, options, states_max) else { return Ok(None) };
    let Ok(values) = chain.solve(line, options) else { return Ok(None) };
    let point = |(vector, (throughput, _)): (&Vec<u32>, (f64, f64))| CurvePoint {
        threshold: vector[model],
        throughput,
        half_width: None,
    };
    Ok(curve("exact", line.iter().zip(values).map(point).collect()))
}

fn mean_field(system: &System<'_>, line: &[Vec<u32>], model: usize) -> Option<Curve> {
    let law = mean_field_law(system).ok()?;
    let point = |vector: &Vec<u32>| {
        let throughput = mean_field_value(system, law, vector).ok()?.tokens_per_s;
        Some(CurvePoint { threshold: vector[model], throughput, half_width: None })
    };
    curve("mean field", line.iter().filter_map(point).collect())
}

fn fluid_curve(system: &System<'_>, line: &[Vec<u32>], model: usize) -> Option<Curve> {
    let law = system.r2r_law().filter(|_| model == 1 && line.iter().all(|vector| vector[0] == 1))?;
    let placement = match system.scenario.placement() {
        Placement::Separate => FluidPlacement::Separate,
        Placement::Exclusive(Order::LargeFirst) => FluidPlacement::Exclusive,
        Placement::Exclusive(_) => return None,
        Placement::Overlapped => {
            let [small_rate, large_rate] = system.corun_rates()?;
            FluidPlacement::Overlapped { small_rate, large_rate }
        }
    };
    let (small, large) = (system.affine(0).0, system.affine(1).0);
    let point = |vector: &Vec<u32>| {
        let value = fluid::binding_threshold(system.concurrency, law, small, large, vector[1], placement);
        Some(CurvePoint { threshold: vector[1], throughput: value.ok()?, half_width: None })
    };
    curve("fluid", line.iter().filter_map(point).collect())
}

fn simulated(system: &System<'_>, line: &[Vec<u32>], model: usize, thresholds: &[u32]) -> Result<Curve, TuneError> {
    // Evenly thinned, with the ends and the chosen one.
    let step = line.len().div_ceil(POINTS_MAX).max(1);
    let kept = |idx: usize| idx.is_multiple_of(step) || idx + 1 == line.len() || line[idx] == thresholds;
    let chosen: Vec<Vec<u32>> = (0..line.len()).filter(|&idx| kept(idx)).map(|idx| line[idx].clone()).collect();
    let mut racer = Racer::new(system, system.scenario.seed(), REPLICATIONS as u32)?;
    racer.run(&chosen, REPLICATIONS)?;
    let point = |vector: &Vec<u32>| {
        let estimate = Estimate::of(racer.values(vector).expect("every vector has run"));
        CurvePoint { threshold: vector[model], throughput: estimate.mean, half_width: estimate.half_width }
    };
    Ok(Curve { name: "simulated", points: chosen.iter().map(point).collect() })
}
