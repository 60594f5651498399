//! Step times as whole numbers of grid units.

/// Step time of one model in whole grid units, constant or per batch size.
#[derive(Clone, Debug, PartialEq)]
pub struct GridSteps {
    /// One entry: constant. More: entry b - 1 is the time of a batch of b requests.
    units: Vec<u32>,
    constant: bool,
    rounding: Rounding,
}

/// What rounding to the grid changed: the largest difference over all batch sizes. Both are 0 for times that were given in grid units.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rounding {
    /// Largest |rounded - given|, in seconds.
    pub largest_s: f64,
    /// Largest |rounded - given| / given.
    pub largest_relative: f64,
}

impl GridSteps {
    /// A step of `units` grid units, whatever the batch.
    #[must_use]
    pub fn constant(units: u32) -> Self {
        Self { units: vec![units], constant: true, rounding: Rounding::default() }
    }

    /// `units[b - 1]` is the time of a batch of b requests, fixed when the batch is launched.
    #[must_use]
    pub fn per_batch(units: Vec<u32>) -> Self {
        Self { units, constant: false, rounding: Rounding::default() }
    }

    /// Rounds a constant step time of `step_s` seconds to the nearest grid point; `None` if it does not fit into 32 bits or is not a time.
    #[must_use]
    pub fn round_constant(step_s: f64, grid_s: f64) -> Option<Self> {
        let mut rounding = Rounding::default();
        let units = round(step_s, grid_s, &mut rounding)?;
        Some(Self { units: vec![units], constant: true, rounding })
    }

    /// Rounds `step_s(b)`, the time in seconds of a batch of b requests, to the nearest grid point for b = 1..=concurrency; `None` if one does not
    /// fit into 32 bits or is not a time.
    #[must_use]
    pub fn round_per_batch(concurrency: u32, grid_s: f64, step_s: impl Fn(u32) -> f64) -> Option<Self> {
        let mut rounding = Rounding::default();
        let units = (1..=concurrency).map(|rows| round(step_s(rows), grid_s, &mut rounding)).collect::<Option<_>>()?;
        Some(Self { units, constant: false, rounding })
    }

    /// Grid units of a step with `rows` requests; `None` if the batch size is not covered.
    #[must_use]
    pub fn units(&self, rows: u32) -> Option<u32> {
        let idx = if self.constant { 0 } else { (rows as usize).checked_sub(1)? };
        self.units.get(idx).copied()
    }

    /// What rounding to the grid changed.
    #[must_use]
    pub fn rounding(&self) -> Rounding {
        self.rounding
    }
}

fn round(step_s: f64, grid_s: f64, rounding: &mut Rounding) -> Option<u32> {
    let rounded = (step_s / grid_s).round();
    if !(0.0..=f64::from(u32::MAX)).contains(&rounded) {
        return None;
    }
    let error_s = (rounded * grid_s - step_s).abs();
    rounding.largest_s = rounding.largest_s.max(error_s);
    rounding.largest_relative = rounding.largest_relative.max(error_s / step_s);
    Some(rounded as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_is_reported() {
        let steps = GridSteps::round_constant(27.94e-3, 1e-4).unwrap();
        assert_eq!(steps.units(7), Some(279));
        assert!((steps.rounding().largest_s - 4e-5).abs() < 1e-12);
        assert!((steps.rounding().largest_relative - 4e-5 / 27.94e-3).abs() < 1e-9);
        assert_eq!(GridSteps::constant(3).rounding(), Rounding::default());
    }

    #[test]
    fn a_batch_size_that_is_not_covered_has_no_time() {
        let steps = GridSteps::round_per_batch(2, 1.0, f64::from).unwrap();
        assert_eq!([steps.units(0), steps.units(1), steps.units(2), steps.units(3)], [None, Some(1), Some(2), None]);
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for step_s in [f64::NAN, -1.0, 1e12] {
            assert_eq!(GridSteps::round_constant(step_s, 1e-4), None, "{step_s}");
        }
    }
}
