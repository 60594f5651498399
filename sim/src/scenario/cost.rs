//! `cost = { .. }` and `router = { .. }`: the forms of a step's cost, and the domain objects made of them.

use std::sync::Arc;

use super::check::Checker;
use super::error::{ScenarioError, nearest};
use super::raw::{RawCost, RawRoofline};
use super::units::{NS_PER_MS, NS_PER_US};
use super::values::quoted_list;
use crate::cost::{
    AffineLatency, BatchShape, ConstantLatency, DeviceSpec, HostCost, Jitter, LookupError, ModelShape, ParameterError,
    RooflineLatency, RouterLatency, Selection, StepCost, StepLatency, TableLatency,
};

/// The cost of a step as the scenario gives it.
#[derive(Clone, PartialEq, Debug)]
pub enum CostConfig {
    /// Every step takes the same time.
    Constant {
        /// Milliseconds.
        constant_ms: f64,
    },
    /// A sum of terms.
    Affine {
        /// Per step, milliseconds.
        fixed_ms: f64,
        /// Per row, milliseconds.
        per_row_ms: f64,
        /// Per new token (a decode row counts 1), milliseconds.
        per_new_token_ms: f64,
        /// Per kept KV token, microseconds.
        per_kv_token_us: f64,
    },
    /// What was measured.
    Profile {
        /// The profile, as the scenario names it.
        file: String,
        /// The points to take.
        selection: Selection,
    },
    /// Bandwidth and arithmetic rate of hardware that was never measured.
    Roofline {
        /// Name of the model's shape.
        model: String,
        /// Name of the device.
        device: String,
        /// Devices that the model is spread over.
        tensor_parallel: u32,
        /// Added to every step, milliseconds.
        fixed_ms: f64,
    },
}

/// Reads one form of `cost`; `path` is where it stands.
pub(super) fn validate(check: &Checker<'_, '_>, path: &str, raw: &RawCost) -> Result<CostConfig, ScenarioError> {
    const FORMS: [&str; 4] = ["constant_ms", "affine", "profile", "roofline"];
    let given: Vec<&str> = FORMS.into_iter().filter(|form| check.tree.has(&format!("{path}.{form}"))).collect();
    if given.len() != 1 {
        let found = if given.is_empty() { "none".to_owned() } else { quoted_list(&given) };
        return Err(check.error(path, format!("expected exactly one of {}, found {found}", quoted_list(&FORMS))));
    }
    if raw.profile.is_none() {
        let beside = ["model", "graph", "extend_graph", "device"]
            .into_iter()
            .find(|field| check.tree.has(&format!("{path}.{field}")));
        if let Some(field) = beside {
            let message = format!("`{field}` goes with `profile`, but the cost is given by `{}`", given[0]);
            return Err(check.error(&format!("{path}.{field}"), message));
        }
    }
    match raw {
        RawCost { constant_ms: Some(constant_ms), .. } => Ok(CostConfig::Constant { constant_ms: *constant_ms }),
        RawCost { affine: Some(affine), .. } => Ok(CostConfig::Affine {
            fixed_ms: affine.fixed_ms,
            per_row_ms: affine.per_row_ms,
            per_new_token_ms: affine.per_new_token_ms,
            per_kv_token_us: affine.per_kv_token_us,
        }),
        RawCost { roofline: Some(roofline), .. } => validate_roofline(check, &format!("{path}.roofline"), roofline),
        RawCost { profile: Some(file), .. } => {
            let graph = raw.graph.unwrap_or(true);
            let Some(model) = raw.model.clone() else {
                return Err(
                    check.error(&format!("{path}.model"), "missing, expected the name of a model of the profile")
                );
            };
            let selection = Selection {
                device: raw.device.clone(),
                model,
                graph,
                extend_graph: raw.extend_graph.unwrap_or(graph),
                buckets: None,
            };
            Ok(CostConfig::Profile { file: file.clone(), selection })
        }
        _ => unreachable!("one of the forms is given"),
    }
}

fn validate_roofline(check: &Checker<'_, '_>, path: &str, raw: &RawRoofline) -> Result<CostConfig, ScenarioError> {
    let named = |field: &str, given: &Option<String>, known: &[&str]| match given {
        Some(name) if known.contains(&name.as_str()) => Ok(name.clone()),
        Some(name) => {
            let error = check
                .error(&format!("{path}.{field}"), format!("unknown {field}, expected one of {}", quoted_list(known)));
            Err(match nearest(name, known) {
                Some(near) => error.with_hint(format!("did you mean `{near}`?")),
                None => error,
            })
        }
        None => {
            Err(check.error(&format!("{path}.{field}"), format!("missing, expected one of {}", quoted_list(known))))
        }
    };
    let models: Vec<&str> = ModelShape::ALL.iter().map(|shape| shape.name).collect();
    let devices: Vec<&str> = DeviceSpec::ALL.iter().map(|device| device.name).collect();
    Ok(CostConfig::Roofline {
        model: named("model", &raw.model, &models)?,
        device: named("device", &raw.device, &devices)?,
        tensor_parallel: check.whole(&format!("{path}.tensor_parallel"), raw.tensor_parallel.unwrap_or(1), 1..=1024)?,
        fixed_ms: raw.fixed_ms,
    })
}

/// The step latency of a cost.
pub(super) fn latency(
    check: &Checker<'_, '_>,
    path: &str,
    cost: &CostConfig,
) -> Result<Arc<dyn StepLatency>, ScenarioError> {
    let parameter = |path: String| {
        move |error: ParameterError| {
            check.error(&format!("{path}.{}", error.field), format!("expected {}", error.expected))
        }
    };
    match cost {
        CostConfig::Constant { constant_ms } => {
            check.duration_ns(&format!("{path}.constant_ms"), *constant_ms, "ms", NS_PER_MS)?;
            Ok(Arc::new(ConstantLatency::from_ms(*constant_ms).map_err(parameter(path.to_owned()))?))
        }
        &CostConfig::Affine { fixed_ms, per_row_ms, per_new_token_ms, per_kv_token_us } => {
            let path = format!("{path}.affine");
            for (field, value, unit, ns_per_unit) in [
                ("fixed_ms", fixed_ms, "ms", NS_PER_MS),
                ("per_row_ms", per_row_ms, "ms", NS_PER_MS),
                ("per_new_token_ms", per_new_token_ms, "ms", NS_PER_MS),
                ("per_kv_token_us", per_kv_token_us, "us", NS_PER_US),
            ] {
                check.duration_ns(&format!("{path}.{field}"), value, unit, ns_per_unit)?;
            }
            if fixed_ms + per_row_ms + per_new_token_ms <= 0.0 {
                return Err(check.error(
                    &path,
                    "a step would take no time, expected one of `fixed_ms`, `per_row_ms`, `per_new_token_ms` above 0",
                ));
            }
            let latency = AffineLatency::new(fixed_ms, per_row_ms, per_new_token_ms, per_kv_token_us);
            Ok(Arc::new(latency.map_err(parameter(path))?))
        }
        CostConfig::Profile { file, selection } => {
            let profile = check.profile(&format!("{path}.profile"), file)?;
            let latency =
                TableLatency::from_profile(&profile, selection).map_err(|error| lookup_error(check, path, &error))?;
            Ok(Arc::new(latency))
        }
        CostConfig::Roofline { model, device, tensor_parallel, fixed_ms } => {
            let path = format!("{path}.roofline");
            check.duration_ns(&format!("{path}.fixed_ms"), *fixed_ms, "ms", NS_PER_MS)?;
            let shape = ModelShape::named(model).expect("the name was checked");
            let device = DeviceSpec::named(device).expect("the name was checked");
            let latency = RooflineLatency::new(shape, device)
                .with_tensor_parallel(*tensor_parallel)
                .and_then(|latency| latency.with_overhead_ms(*fixed_ms));
            Ok(Arc::new(latency.map_err(parameter(path))?))
        }
    }
}

/// The cost of the routing signal. A profile gives it in its `router` rows.
pub(super) fn router(
    check: &Checker<'_, '_>,
    path: &str,
    raw: &RawCost,
) -> Result<Arc<dyn StepLatency>, ScenarioError> {
    let cost = validate(check, path, raw)?;
    let CostConfig::Profile { file, selection } = &cost else {
        return latency(check, path, &cost);
    };
    let profile = check.profile(&format!("{path}.profile"), file)?;
    let Selection { device, model, graph, .. } = selection;
    match RouterLatency::from_profile(&profile, device.as_deref(), model, *graph) {
        Ok(Some(router)) => Ok(Arc::new(PerRow(router))),
        Ok(None) => Err(check.error(&format!("{path}.model"), format!("{file} has no router rows of `{model}`"))),
        Err(error) => Err(lookup_error(check, path, &error)),
    }
}

/// A router's cost depends on the rows only.
#[derive(Debug)]
struct PerRow(RouterLatency);

impl StepLatency for PerRow {
    fn step(&self, shape: &BatchShape) -> StepCost {
        self.0.step(shape.rows)
    }
}

/// The jitter that the profile of a cost at `cost_path` measured; `path` is where it was asked for.
pub(super) fn measured_jitter(
    check: &Checker<'_, '_>,
    path: &str,
    cost_path: &str,
    cost: &CostConfig,
) -> Result<Jitter, ScenarioError> {
    let CostConfig::Profile { file, selection } = cost else {
        return Err(check.error(path, "nothing was measured, expected a `cost` from a profile or a `jitter_cv`"));
    };
    let profile = check.profile(&format!("{cost_path}.profile"), file)?;
    Jitter::measured(&profile, selection.device.as_deref(), &selection.model, selection.graph)
        .map_err(|error| check.error(path, error.to_string()))
}

/// The host's times that the profile of a cost at `cost_path` measured, as the driver that measured them spends them; `path` is where they were asked for.
pub(super) fn measured_host(
    check: &Checker<'_, '_>,
    path: &str,
    cost_path: &str,
    cost: &CostConfig,
) -> Result<HostCost, ScenarioError> {
    let CostConfig::Profile { file, selection } = cost else {
        return Err(
            check.error(path, "nothing was measured, expected a `cost` from a profile or { launch_us, loop_us }")
        );
    };
    let profile = check.profile(&format!("{cost_path}.profile"), file)?;
    match HostCost::from_profile(&profile, selection.device.as_deref()) {
        Ok(Some(host)) => Ok(host.between_steps()),
        Ok(None) => Err(check.error(path, format!("{file} has no host rows, expected {{ launch_us, loop_us }}"))),
        Err(error) => Err(check.error(path, error.to_string())),
    }
}

/// What a profile lacks, at the field that asked for it.
fn lookup_error(check: &Checker<'_, '_>, path: &str, error: &LookupError) -> ScenarioError {
    let field = match error {
        LookupError::UnknownDevice { .. } | LookupError::AmbiguousDevice { .. } => "device",
        LookupError::UnknownModel { .. } => "model",
        LookupError::NoDecodeRows { .. } | LookupError::NoRouterRows { .. } => "graph",
        _ => "profile",
    };
    check.error(&format!("{path}.{field}"), error.to_string())
}
