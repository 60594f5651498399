//! What a subserver's loops take on the host.

use super::{HostPart, LookupError, Profile, round_ns};

/// Host time around forwards and messages, in nanoseconds. All 0 by default.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct HostCost {
    /// Before the forward starts, per step.
    pub launch_ns: u64,
    /// After the forward, before its results are acted on, per step.
    pub loop_ns: u64,
    /// Handling one peer or client message.
    pub message_ns: u64,
}

impl HostCost {
    /// The same with all of it before a launch. A driver that gives a device to the next forward only once it knows the results of the last one, and
    /// that hands messages over within the same instant, spends its time between results and the next launch; with a loop time the
    /// device would be free before the results are known, and under exclusive placement a batch would be cut in two.
    #[must_use]
    pub fn between_steps(self) -> Self {
        Self { launch_ns: self.launch_ns + self.loop_ns, loop_ns: 0, message_ns: 0 }
    }

    /// The host's times that `profile` measured on `device` (`None`: its only one). `None` if it has no `host` rows.
    ///
    /// # Errors
    /// If only some of the three were measured.
    pub fn from_profile(profile: &Profile, device: Option<&str>) -> Result<Option<Self>, LookupError> {
        let device = profile.device(device)?;
        let on_device = || profile.hosts().iter().filter(|point| point.device == device);
        if on_device().next().is_none() {
            return Ok(None);
        }
        let mut ns = [0; HostPart::ALL.len()];
        for (ns, (part, name)) in ns.iter_mut().zip(HostPart::ALL) {
            let point = on_device().find(|point| point.part == part).ok_or_else(|| LookupError::NoHostRow {
                file: profile.name().to_owned(),
                device: device.to_owned(),
                part: name,
            })?;
            *ns = round_ns(point.time.mean_ns());
        }
        let [launch_ns, loop_ns, message_ns] = ns;
        Ok(Some(Self { launch_ns, loop_ns, message_ns }))
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
    fn takes_the_three_parts_of_the_device() {
        let rows = ["H200,loop,host,,,,,,,,7.5,,,", "H200,message,host,,,,,,,,0.25,,,", "H200,launch,host,,,,,,,,3,,,"];
        let cost = HostCost::from_profile(&profile(&rows), Some("H200")).unwrap();
        assert_eq!(cost, Some(HostCost { launch_ns: 3000, loop_ns: 7500, message_ns: 250 }));
        let error = HostCost::from_profile(&profile(&rows[..2]), None).unwrap_err();
        assert_eq!(
            error.to_string(),
            "p.csv: has no host row `launch` on H200; expected launch, loop and message, or none of them"
        );
    }

    #[test]
    fn none_measured_is_none() {
        let profile = profile(&["H200,,hop,,,,,,,,20,,,"]);
        assert_eq!(HostCost::from_profile(&profile, None), Ok(None));
        let error = HostCost::from_profile(&profile, Some("A100-80G")).unwrap_err();
        assert_eq!(error.to_string(), "p.csv: has no device `A100-80G`; it has H200");
    }
}
