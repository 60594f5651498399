//! A row of a validation: one cell, predicted and measured.

use serde::{Deserialize, Serialize};

/// A cell as both sides see it. Means are over the starts; `low` and `high` are the lowest and the highest start. The small model is the first of the
/// set, the large one the last.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Row {
    /// `separate`, `overlapped`, `exclusive`, or `alone` for the large model alone.
    pub(crate) placement: String,
    /// Of an exclusive placement.
    pub(crate) order: Option<String>,
    /// `every`, `r2r` or `large-only`.
    pub(crate) policy: String,
    /// Tokens per visit.
    pub(crate) every: Option<u32>,
    /// Probability of R2R's law.
    pub(crate) p: Option<f64>,
    /// Threshold of the large model.
    pub(crate) threshold: u32,
    /// Requests in the system.
    pub(crate) concurrency: u32,
    /// Tokens/s by a formula or an exact chain, where one applies.
    pub(crate) analytic: Option<f64>,
    /// Simulated tokens/s from the profile alone.
    pub(crate) predicted: f64,
    pub(crate) predicted_low: f64,
    pub(crate) predicted_high: f64,
    /// Measured tokens/s.
    pub(crate) measured: f64,
    pub(crate) measured_low: f64,
    pub(crate) measured_high: f64,
    /// `predicted / measured - 1`.
    pub(crate) error: f64,
    /// Whether the measured mean lies between the lowest and the highest prediction.
    pub(crate) in_range: bool,
    /// (highest - lowest) / mean of measurements repeated from the same start.
    pub(crate) repeat_spread: Option<f64>,
    /// Whether the busiest device is predicted to be busy for at least 95 % of the time.
    pub(crate) above_saturation: bool,
    /// Share of predicted steps beyond the profile.
    pub(crate) extrapolated: f64,
    pub(crate) predicted_small_batch: f64,
    pub(crate) measured_small_batch: f64,
    pub(crate) predicted_large_batch: f64,
    pub(crate) measured_large_batch: f64,
    pub(crate) predicted_small_step_ms: f64,
    pub(crate) measured_small_step_ms: f64,
    pub(crate) predicted_large_step_ms: f64,
    pub(crate) measured_large_step_ms: f64,
    pub(crate) predicted_small_utilisation: f64,
    pub(crate) measured_small_utilisation: f64,
    pub(crate) predicted_large_utilisation: f64,
    pub(crate) measured_large_utilisation: f64,
    pub(crate) predicted_small_admission_ms: f64,
    pub(crate) measured_small_admission_ms: f64,
    pub(crate) predicted_large_admission_ms: f64,
    pub(crate) measured_large_admission_ms: f64,
    pub(crate) predicted_routed_fraction: f64,
    pub(crate) measured_routed_fraction: f64,
    pub(crate) predicted_handoffs_per_token: f64,
    pub(crate) measured_handoffs_per_token: f64,
    /// Tokens measured, over all starts.
    pub(crate) tokens: u64,
    /// Random starts, the same on both sides.
    pub(crate) starts: u32,
    /// Seconds measured for each start, after the warm-up.
    pub(crate) seconds: f64,
    pub(crate) warmup_seconds: f64,
    pub(crate) seed: u64,
}

impl Row {
    /// Whether it is a baseline and no cell.
    pub(crate) fn is_baseline(&self) -> bool {
        self.policy == "large-only"
    }

    /// Whether the two rows differ in N alone.
    pub(crate) fn same_line(&self, other: &Self) -> bool {
        (&self.placement, &self.order, &self.policy, self.concurrency)
            == (&other.placement, &other.order, &other.policy, other.concurrency)
            && self.p == other.p
    }

    /// The placement with its order.
    pub(crate) fn place(&self) -> String {
        match &self.order {
            Some(order) => format!("{}, {order}", self.placement),
            None => self.placement.clone(),
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A cell of no particular kind, whose predictions spread by 5 %.
    pub(in crate::validate) fn row(predicted: f64, measured: f64) -> Row {
        let (low, high) = (predicted * 0.95, predicted * 1.05);
        Row {
            placement: "overlapped".into(),
            order: None,
            policy: "every".into(),
            every: None,
            p: None,
            threshold: 1,
            concurrency: 4,
            analytic: None,
            predicted,
            predicted_low: low,
            predicted_high: high,
            measured,
            measured_low: measured,
            measured_high: measured,
            error: predicted / measured - 1.0,
            in_range: (low..=high).contains(&measured),
            repeat_spread: None,
            above_saturation: false,
            extrapolated: 0.0,
            predicted_small_batch: 1.0,
            measured_small_batch: 1.0,
            predicted_large_batch: 1.0,
            measured_large_batch: 1.0,
            predicted_small_step_ms: 1.0,
            measured_small_step_ms: 1.0,
            predicted_large_step_ms: 1.0,
            measured_large_step_ms: 1.0,
            predicted_small_utilisation: 0.5,
            measured_small_utilisation: 0.5,
            predicted_large_utilisation: 0.5,
            measured_large_utilisation: 0.5,
            predicted_small_admission_ms: 1.0,
            measured_small_admission_ms: 1.0,
            predicted_large_admission_ms: 1.0,
            measured_large_admission_ms: 1.0,
            predicted_routed_fraction: 0.5,
            measured_routed_fraction: 0.5,
            predicted_handoffs_per_token: 0.5,
            measured_handoffs_per_token: 0.5,
            tokens: 1,
            starts: 3,
            seconds: 1.0,
            warmup_seconds: 0.0,
            seed: 1,
        }
    }
}
