//! How well the simulator reads a profile between its points.

use handoff_sim::cost::{BatchShape, Profile, Selection, StepLatency, TableLatency};

use super::row::{ProfileRow, to_csv};
use super::{MeasureError, Point, StepMeasurements};

/// A held-out point, as measured and as the simulator reads it from the profile.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct HeldOutPoint {
    /// The batch.
    pub point: Point,
    /// Measured mean, us.
    pub measured_us: f64,
    /// The simulator's, us.
    pub predicted_us: f64,
}

impl HeldOutPoint {
    /// Predicted over measured, less 1.
    #[must_use]
    pub fn error(&self) -> f64 {
        self.predicted_us / self.measured_us - 1.0
    }
}

/// The error of the simulator's reading at points that are not in the profile. All errors are relative to the measured time.
#[derive(Clone, PartialEq, Debug)]
pub struct HeldOutError {
    /// Points that count.
    pub n: usize,
    /// Points that do not, because the simulator marks its value as beyond the measured range: a neighbour on the grid was skipped.
    pub n_beyond: usize,
    /// Mean of the absolute errors.
    pub mape: f64,
    /// Mean of the errors: whether the simulator is too slow (above 0) or too fast.
    pub bias: f64,
    /// Largest absolute error.
    pub max: f64,
    /// Where that was.
    pub worst: HeldOutPoint,
    /// All points that count.
    pub points: Vec<HeldOutPoint>,
}

/// Compares the held-out points of `measured` with what the simulator reads from `rows` for `selection`. `None` if no held-out point lies
/// within the measured range.
///
/// With graphs, points between two row counts are meant to come out as the larger one: the simulator pads them as the runner does. The
/// runner also pads the new tokens of a batch, which the simulator does not know of, so extends between two graph sizes come out too fast.
///
/// # Errors
/// [`MeasureError::Profile`] or [`MeasureError::Lookup`] if the simulator cannot use the rows.
pub fn held_out_error(
    rows: &[ProfileRow],
    measured: &StepMeasurements,
    selection: &Selection,
) -> Result<Option<HeldOutError>, MeasureError> {
    let profile = Profile::parse(&to_csv(rows)?, "the measured profile")?;
    let latency = TableLatency::from_profile(&profile, selection)?;
    let mut points = Vec::new();
    for found in &measured.held_out {
        let Point { rows, new_tokens, kv_tokens } = found.point;
        let shape = match new_tokens {
            1 => BatchShape::decode(rows, kv_tokens),
            _ => BatchShape::extend(rows, new_tokens, kv_tokens),
        };
        let cost = latency.step(&shape);
        if !cost.extrapolated {
            let (measured_us, predicted_us) = (found.times.mean_ns / 1e3, cost.ns as f64 / 1e3);
            points.push(HeldOutPoint { point: found.point, measured_us, predicted_us });
        }
    }
    let n = points.len();
    let worst = points.iter().max_by(|one, other| one.error().abs().total_cmp(&other.error().abs()));
    let mean = |error: fn(&HeldOutPoint) -> f64| points.iter().map(error).sum::<f64>() / n as f64;
    Ok(worst.copied().map(|worst| HeldOutError {
        n,
        n_beyond: measured.held_out.len() - n,
        mape: mean(|point| point.error().abs()),
        bias: mean(HeldOutPoint::error),
        max: worst.error().abs(),
        worst,
        points: points.clone(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{MeasuredPoint, Times};

    fn found(rows: u32, kv_tokens: u32, ns: u64) -> MeasuredPoint {
        let point = Point { rows, new_tokens: 1, kv_tokens };
        MeasuredPoint { point, times: Times::of(&[ns]).unwrap(), visits_mean_ns: [ns as f64; 2] }
    }

    fn measurements(held_out: Vec<MeasuredPoint>) -> StepMeasurements {
        // 100 us at one row, 300 us at 5.
        let points = vec![found(1, 8, 100_000), found(5, 8, 300_000)];
        StepMeasurements { model: "m".into(), graph: false, points, held_out, skipped: Vec::new() }
    }

    #[test]
    fn errors_are_relative_to_what_was_measured() {
        // Read: 200 us at 3 rows and 250 us at 4.
        let measured = measurements(vec![found(3, 8, 160_000), found(4, 8, 500_000), found(9, 8, 1)]);
        let error = held_out_error(&measured.rows("d"), &measured, &Selection::new("m", false)).unwrap().unwrap();
        assert_eq!((error.n, error.n_beyond), (2, 1));
        assert!((error.mape - (0.25 + 0.5) / 2.0).abs() < 1e-12 && (error.max - 0.5).abs() < 1e-12);
        assert!((error.bias - (0.25 - 0.5) / 2.0).abs() < 1e-12);
        assert_eq!((error.worst.point.rows, error.worst.measured_us, error.worst.predicted_us), (4, 500.0, 250.0));
    }

    #[test]
    fn nothing_to_compare_is_none_and_a_wrong_selection_is_an_error() {
        let measured = measurements(vec![found(9, 8, 1)]);
        let rows = measured.rows("d");
        assert_eq!(held_out_error(&rows, &measured, &Selection::new("m", false)).unwrap(), None);
        let error = held_out_error(&rows, &measured, &Selection::new("m", true)).unwrap_err().to_string();
        assert!(error.contains("the measured profile"), "{error}");
        assert!(held_out_error(&[], &measured, &Selection::new("m", false)).is_err());
    }
}
