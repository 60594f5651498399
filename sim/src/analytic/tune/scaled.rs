//! A step latency whose every time is multiplied by a factor.

use std::sync::Arc;

use crate::cost::{BatchShape, StepCost, StepLatency};

#[derive(Clone, Debug)]
pub(super) struct ScaledLatency {
    pub(super) inner: Arc<dyn StepLatency>,
    pub(super) factor: f64,
}

impl StepLatency for ScaledLatency {
    fn step(&self, shape: &BatchShape) -> StepCost {
        let cost = self.inner.step(shape);
        StepCost { ns: scaled_ns(cost.ns, self.factor).max(1), ..cost }
    }
}

/// `ns` times `factor`, to the nearest nanosecond.
pub(super) fn scaled_ns(ns: u64, factor: f64) -> u64 {
    (ns as f64 * factor).round() as u64
}
