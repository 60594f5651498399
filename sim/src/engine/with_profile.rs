//! The same run at the costs that a profile tells, and nothing else.

use std::sync::Arc;

use super::config::EngineConfig;
use crate::cost::{CorunRates, HostCost, Jitter, LookupError, Profile, Selection, TableLatency};

impl EngineConfig {
    /// Takes step times, their jitter, host times and co-run rates from `profile`, for model i those of `selections[i]`, and drops whatever
    /// costs the configuration had: what is predicted then depends on the profile and the scheduling alone. `hop_ns` and `hop_bytes_per_ns` stay,
    /// since they say what is wanted of the machine, and no router is left, since a measured step holds all that the model computes.
    ///
    /// # Errors
    /// If the profile lacks a model, or the rates of two models that run side by side.
    ///
    /// # Panics
    /// If there are not as many selections as models.
    pub fn with_profile(mut self, profile: &Profile, selections: &[Selection]) -> Result<Self, LookupError> {
        assert_eq!(self.models.len(), selections.len(), "one selection a model");
        for (model, selection) in self.models.iter_mut().zip(selections) {
            let device = selection.device.as_deref();
            model.latency = Arc::new(TableLatency::from_profile(profile, selection)?);
            model.router = None;
            model.jitter = Jitter::measured(profile, device, &selection.model, selection.graph)?;
            // A profile is of a driver that works between two steps.
            model.host = HostCost::from_profile(profile, device)?.unwrap_or_default().between_steps();
        }
        if self.corun.is_some() {
            let models: Vec<(&str, bool)> =
                selections.iter().map(|selection| (selection.model.as_str(), selection.graph)).collect();
            let device = selections.first().and_then(|selection| selection.device.as_deref());
            self.corun = Some(CorunRates::from_profile(profile, device, &models)?);
        }
        Ok(self)
    }
}
