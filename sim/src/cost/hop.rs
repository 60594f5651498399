//! How long a peer request travels.

use handoff_scheduler::ModelIdx;

use super::{LookupError, NS_PER_US, ParameterError, Profile, round_ns};

/// The time from sending a peer request to its receipt, by sender and receiver.
///
/// ```
/// use handoff_scheduler::ModelIdx;
/// use handoff_sim::cost::HopLatency;
/// assert_eq!(HopLatency::constant_us(12.5)?.ns(ModelIdx(0), ModelIdx(1)), 12_500);
/// # Ok::<(), handoff_sim::cost::ParameterError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HopLatency(Hops);

#[derive(Clone, PartialEq, Eq, Debug)]
enum Hops {
    Constant(u64),
    /// By sender, then by receiver; 0 on the diagonal.
    Measured {
        n_models: usize,
        ns: Vec<u64>,
    },
}

impl HopLatency {
    /// The same time between any two models; 0 is allowed.
    ///
    /// # Errors
    /// If `hop_us` is negative or not finite.
    pub fn constant_us(hop_us: f64) -> Result<Self, ParameterError> {
        let us = ParameterError::check_not_negative("hop_us", hop_us)?;
        Ok(Self(Hops::Constant(round_ns(us * NS_PER_US))))
    }

    /// The hops that `profile` measured from `device` (`None`: its only one) between the models of these names. A row
    /// that names both models counts more than one for any two. `None` if the profile has no hops at all.
    ///
    /// # Errors
    /// If some hops were measured, but none that fits a pair of models.
    pub fn from_profile(profile: &Profile, device: Option<&str>, models: &[&str]) -> Result<Option<Self>, LookupError> {
        let device = profile.device(device)?;
        let on_device = || profile.hops().iter().filter(|point| point.device == device);
        if on_device().next().is_none() {
            return Ok(None);
        }
        let any_two = on_device().find(|point| point.between.is_none());
        let mut ns = Vec::with_capacity(models.len() * models.len());
        for (from_idx, &from) in models.iter().enumerate() {
            for (to_idx, &to) in models.iter().enumerate() {
                if from_idx == to_idx {
                    ns.push(0);
                    continue;
                }
                let is_between = |between: &(String, String)| between.0 == from && between.1 == to;
                let exact = on_device().find(|point| point.between.as_ref().is_some_and(is_between));
                let point = exact.or(any_two).ok_or_else(|| LookupError::NoHopRow {
                    file: profile.name().to_owned(),
                    device: device.to_owned(),
                    from: from.to_owned(),
                    to: to.to_owned(),
                })?;
                ns.push(round_ns(point.time.mean_ns()));
            }
        }
        Ok(Some(Self(Hops::Measured { n_models: models.len(), ns })))
    }

    /// Nanoseconds from model `from` to model `to`.
    ///
    /// # Panics
    /// If the hops were measured and one of the models was not among those asked for.
    #[inline]
    #[must_use]
    pub fn ns(&self, from: ModelIdx, to: ModelIdx) -> u64 {
        match &self.0 {
            Hops::Constant(ns) => *ns,
            Hops::Measured { n_models, ns } => {
                assert!(from.idx() < *n_models && to.idx() < *n_models, "hops exist between all models of the run");
                ns[from.idx() * n_models + to.idx()]
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(rows: &[&str]) -> Profile {
        let text = [&[super::super::COLUMNS.join(",").as_str()], rows].concat().join("\n");
        Profile::parse(text.as_bytes(), "p.csv").unwrap()
    }

    #[test]
    fn the_named_pair_counts_more_than_any_two() {
        let profile = profile(&["H200,,hop,,,,,,,,20,,,", "H200,small,hop,,,,,large,,,35.5,,,"]);
        let hops = HopLatency::from_profile(&profile, None, &["small", "large"]).unwrap().unwrap();
        assert_eq!(hops.ns(ModelIdx(0), ModelIdx(1)), 35_500);
        assert_eq!(hops.ns(ModelIdx(1), ModelIdx(0)), 20_000);
    }

    #[test]
    fn none_measured_is_none_and_one_missing_is_an_error() {
        let without = profile(&["H200,launch,host,,,,,,,,1,,,"]);
        assert_eq!(HopLatency::from_profile(&without, None, &["small", "large"]), Ok(None));
        let one_way = profile(&["H200,small,hop,,,,,large,,,35.5,,,"]);
        assert_eq!(
            HopLatency::from_profile(&one_way, None, &["small", "large"]).unwrap_err().to_string(),
            "p.csv: has no hop row from `large` to `small` on H200, and none for any two models"
        );
    }

    #[test]
    fn refuses_what_is_no_duration() {
        assert_eq!(HopLatency::constant_us(0.0).unwrap().ns(ModelIdx(0), ModelIdx(1)), 0);
        assert_eq!(
            HopLatency::constant_us(-1.0).unwrap_err().to_string(),
            "`hop_us` is -1 but must be a finite number, 0 or more"
        );
    }
}
