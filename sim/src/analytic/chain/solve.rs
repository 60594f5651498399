//! The stationary distribution of a chain, by elimination along time and a Krylov iteration on what is left.
//!
//! The states are ordered so that almost every transition leads forward (see `Space::order_key`). One pass through them in that order, pushing each
//! state's flow to its successors, then solves the balance equations exactly for every state but the few that transitions lead back to: a
//! Gauss-Seidel sweep. What a pass leaves behind is a linear map of the flow that enters those few states, whose fixed point is wanted. Repeating the
//! map may never converge (the chain may be periodic) or be very slow (step times of two busy models drift past one another), so the fixed point is
//! found with restarted GMRES, for which periodicity is no obstacle.

use super::space::Space;
use super::{ChainError, ChainLimits};

/// Recurrent states and their transitions in an order in which almost all lead forward.
#[derive(Debug)]
pub(super) struct OrderedChain<'a> {
    space: &'a Space,
    /// Number in `Space` of each position.
    pub(super) states: Vec<u32>,
    starts: Vec<usize>,
    /// Positions of the next states.
    targets: Vec<u32>,
    /// Probability of leaving a position, summed without cancellation.
    leaving: Vec<f64>,
    /// Positions that some transition leads back to.
    entries: Vec<u32>,
}

/// A solution of the balance equations.
#[derive(Debug)]
pub(super) struct Stationary {
    /// Weight of each position, adding to 1.
    pub(super) weights: Vec<f64>,
    /// |pi P - pi|, summed over all positions.
    pub(super) residual: f64,
    pub(super) passes: u32,
}

impl<'a> OrderedChain<'a> {
    pub(super) fn new(space: &'a Space, recurrent: &[u32]) -> Self {
        let mut states = recurrent.to_vec();
        let mut scratch = space.scratch();
        states.sort_by_cached_key(|&state| space.order_key(state, &mut scratch));
        let mut position_of = vec![u32::MAX; space.n_states()];
        for (position, &state) in states.iter().enumerate() {
            position_of[state as usize] = position as u32;
        }
        let (mut starts, mut targets, mut leaving) = (vec![0], Vec::new(), Vec::new());
        let mut is_entry = vec![false; states.len()];
        for (position, &state) in states.iter().enumerate() {
            let mut leaves = 0.0;
            for (&target, &probability) in space.targets(state).iter().zip(space.probabilities(state)) {
                let target = position_of[target as usize];
                targets.push(target);
                if target as usize != position {
                    leaves += probability;
                    is_entry[target as usize] |= (target as usize) < position;
                }
            }
            starts.push(targets.len());
            leaving.push(leaves);
        }
        let entries = (0..states.len() as u32).filter(|&position| is_entry[position as usize]).collect();
        Self { space, states, starts, targets, leaving, entries }
    }

    pub(super) fn n_transitions(&self) -> usize {
        self.targets.len()
    }

    /// # Errors
    /// If the residual stays above the tolerance.
    pub(super) fn stationary(&self, limits: &ChainLimits) -> Result<Stationary, ChainError> {
        // The drift of two step times past one another shows as that many eigenvalues on a circle, and the space must hold them all to converge fast;
        // what bounds it is memory, 128 MB.
        let restart = ((1 << 24) / self.entries.len().max(1)).clamp(20, 150);
        let n = self.states.len();
        if n == 1 {
            return Ok(Stationary { weights: vec![1.0], residual: 0.0, passes: 0 });
        }
        let mut sweep = Sweep { chain: self, inflow: vec![0.0; n], weights: vec![0.0; n], passes: 0 };
        let mut flow = vec![1.0 / self.entries.len() as f64; self.entries.len()];
        let mut after = vec![0.0; flow.len()];
        loop {
            // A plain pass keeps the flow positive; the Krylov correction below need not.
            for value in &mut flow {
                *value = value.max(0.0);
            }
            sweep.apply(&flow, &mut after);
            std::mem::swap(&mut flow, &mut after);
            sweep.apply(&flow, &mut after);
            let total: f64 = sweep.weights.iter().sum();
            let mut difference: Vec<f64> = flow.iter().zip(&after).map(|(before, after)| after - before).collect();
            let residual = difference.iter().map(|value| value.abs()).sum::<f64>() / total;
            if residual <= limits.tolerance {
                let weights = sweep.weights.iter().map(|weight| weight / total).collect();
                return Ok(Stationary { weights, residual, passes: sweep.passes });
            }
            if sweep.passes >= limits.max_passes || !residual.is_finite() {
                return Err(ChainError::NotConverged { residual, tolerance: limits.tolerance, passes: sweep.passes });
            }
            let goal = 0.1 * limits.tolerance / residual;
            gmres(&mut sweep, &mut flow, &mut difference, restart, goal);
        }
    }
}

/// The linear map from the flow into the entry positions to what one pass through all positions leaves there.
struct Sweep<'a> {
    chain: &'a OrderedChain<'a>,
    inflow: Vec<f64>,
    /// Weights of all positions in the last pass.
    weights: Vec<f64>,
    passes: u32,
}

impl Sweep<'_> {
    fn apply(&mut self, flow: &[f64], after: &mut [f64]) {
        let chain = self.chain;
        self.inflow.fill(0.0);
        for (&position, &value) in chain.entries.iter().zip(flow) {
            self.inflow[position as usize] = value;
        }
        for position in 0..chain.states.len() {
            let weight = self.inflow[position] / chain.leaving[position];
            self.weights[position] = weight;
            let targets = &chain.targets[chain.starts[position]..chain.starts[position + 1]];
            for (&target, &probability) in targets.iter().zip(chain.space.probabilities(chain.states[position])) {
                self.inflow[target as usize] += weight * probability;
            }
            // What was there has been passed on, and a transition to itself is in `leaving`. What later positions add is for the next pass.
            self.inflow[position] = 0.0;
        }
        for (&position, value) in chain.entries.iter().zip(after) {
            *value = self.inflow[position as usize];
        }
        self.passes += 1;
    }
}

/// One cycle of GMRES: adds to `flow` the correction c from the Krylov space of `residual` = T flow - flow that makes |residual - (c - T c)|
/// smallest. Stops early when that has fallen by the factor `goal`. Saad and Schultz (1986), with Givens rotations.
fn gmres(sweep: &mut Sweep, flow: &mut [f64], residual: &mut [f64], restart: usize, goal: f64) {
    let norm = |vector: &[f64]| vector.iter().map(|value| value * value).sum::<f64>().sqrt();
    let first = norm(residual);
    let mut basis = vec![residual.iter().map(|value| value / first).collect::<Vec<f64>>()];
    let mut columns: Vec<Vec<f64>> = Vec::new();
    let mut rotations: Vec<(f64, f64)> = Vec::new();
    let mut rhs = vec![first];
    for step in 0..restart {
        let mut next = vec![0.0; flow.len()];
        sweep.apply(&basis[step], &mut next);
        for (value, old) in next.iter_mut().zip(&basis[step]) {
            *value = old - *value;
        }
        let size = norm(&next);
        let mut column = Vec::with_capacity(step + 2);
        for vector in &basis {
            let dot: f64 = vector.iter().zip(&next).map(|(a, b)| a * b).sum();
            for (value, part) in next.iter_mut().zip(vector) {
                *value -= dot * part;
            }
            column.push(dot);
        }
        let rest = norm(&next);
        for (row, &(cosine, sine)) in rotations.iter().enumerate() {
            let (upper, lower) = (column[row], column[row + 1]);
            column[row] = cosine * upper + sine * lower;
            column[row + 1] = cosine * lower - sine * upper;
        }
        let length = column[step].hypot(rest);
        if length <= f64::EPSILON * size {
            // This direction is invariant and lies in the kernel: it cannot reduce the residual.
            break;
        }
        let (cosine, sine) = (column[step] / length, rest / length);
        column[step] = length;
        rotations.push((cosine, sine));
        columns.push(column);
        let last = rhs[step];
        rhs[step] = cosine * last;
        rhs.push(-sine * last);
        if rest <= f64::EPSILON * size || (sine * last).abs() <= goal * first {
            break;
        }
        for value in &mut next {
            *value /= rest;
        }
        basis.push(next);
    }
    let n = columns.len();
    let mut coefficients = vec![0.0; n];
    for row in (0..n).rev() {
        let known: f64 = (row + 1..n).map(|other| columns[other][row] * coefficients[other]).sum();
        coefficients[row] = (rhs[row] - known) / columns[row][row];
    }
    for (coefficient, vector) in coefficients.iter().zip(&basis) {
        for (value, part) in flow.iter_mut().zip(vector) {
            *value += coefficient * part;
        }
    }
}
