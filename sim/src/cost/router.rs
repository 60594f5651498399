//! What a routing network takes after each step.

use super::interpolate::{bracket, lerp};
use super::{LookupError, Profile, StepCost, step_cost};

/// The time of a model's routing network over the rows of a step: linear between measured row counts, flat and marked
/// `extrapolated` outside.
#[derive(Clone, PartialEq, Debug)]
pub struct RouterLatency {
    rows: Vec<f64>,
    ns: Vec<f64>,
}

impl RouterLatency {
    /// The router that `profile` measured on `device` (`None`: its only one) after steps of `model`, with CUDA graphs
    /// or without. `None` if the model has no `router` rows.
    ///
    /// # Errors
    /// If the router was measured with the other graph setting only.
    pub fn from_profile(
        profile: &Profile,
        device: Option<&str>,
        model: &str,
        graph: bool,
    ) -> Result<Option<Self>, LookupError> {
        let device = profile.device(device)?;
        let of_model = || profile.routers().iter().filter(|point| point.device == device && point.model == model);
        if of_model().next().is_none() {
            return Ok(None);
        }
        let mut points: Vec<(u32, f64)> =
            of_model().filter(|point| point.graph == graph).map(|point| (point.rows, point.time.mean_ns())).collect();
        if points.is_empty() {
            return Err(LookupError::NoRouterRows {
                file: profile.name().to_owned(),
                device: device.to_owned(),
                model: model.to_owned(),
                graph,
            });
        }
        points.sort_unstable_by_key(|&(rows, _)| rows);
        let (rows, ns) = points.into_iter().map(|(rows, ns)| (f64::from(rows), ns)).unzip();
        Ok(Some(Self { rows, ns }))
    }

    /// The cost over `rows` rows.
    #[inline]
    #[must_use]
    pub fn step(&self, rows: u32) -> StepCost {
        let rows = f64::from(rows);
        let (idx, weight) = bracket(&self.rows, rows);
        let is_outside = rows < self.rows[0] || rows > self.rows[self.rows.len() - 1];
        step_cost(lerp(&self.ns, idx, weight), is_outside)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interpolates_in_rows() {
        let text =
            super::super::COLUMNS.join(",") + "\nH200,m,router,true,6,,,,,,50,,,\nH200,m,router,true,2,,,,,,30,,,";
        let profile = Profile::parse(text.as_bytes(), "p.csv").unwrap();
        let router = RouterLatency::from_profile(&profile, None, "m", true).unwrap().unwrap();
        let costs = [1, 2, 3, 6, 7].map(|rows| (router.step(rows).ns, router.step(rows).extrapolated));
        assert_eq!(costs, [(30_000, true), (30_000, false), (35_000, false), (50_000, false), (50_000, true)]);

        assert_eq!(RouterLatency::from_profile(&profile, None, "other", true), Ok(None));
        assert_eq!(
            RouterLatency::from_profile(&profile, None, "m", false).unwrap_err().to_string(),
            "p.csv: has no router rows of `m` on H200 with graph = false, only with graph = true"
        );
    }
}
