//! The models of a scenario: step costs, gate, KV budget, device.

use std::sync::Arc;

use super::check::Checker;
use super::cost::{self, CostConfig};
use super::error::ScenarioError;
use super::raw::{RawHost, RawModel};
use super::thresholds::Thresholds;
use super::units::{NS_PER_MS, NS_PER_US};
use super::values::Hold;
use crate::cost::{HostCost, Jitter, StepLatency};

/// The most models of a scenario.
const MODELS_MAX: usize = 16;
/// The KV budget of a model that names none: no limit in practice.
const KV_TOKENS_DEFAULT: u64 = 1_000_000_000_000;
/// Step times of the published pair, taken by the two models of a scenario that names no cost.
const PUBLISHED_MS: [f64; 2] = [6.0, 27.9];

/// One model and the subserver around it.
#[derive(Clone, Debug)]
pub struct ModelSpec {
    /// Its name in results and errors.
    pub name: String,
    /// The cost of a step as the scenario gives it.
    pub cost: CostConfig,
    /// Time of one forward of one batch.
    pub latency: Arc<dyn StepLatency>,
    /// Time of the routing signal, added to every step.
    pub router: Option<Arc<dyn StepLatency>>,
    /// Jitter of step times.
    pub jitter: Jitter,
    /// Host time around a forward and per message.
    pub host: HostCost,
    /// Delayed batching: rows that must wait before an idle subserver launches.
    pub thresholds: Thresholds,
    /// The longest that a held row waits, ns; `None` is no limit.
    pub max_wait_ns: Option<u64>,
    /// Which rows the gate holds back.
    pub hold: Hold,
    /// KV budget, tokens.
    pub kv_tokens: u64,
    /// Models with the same number share a device.
    pub device: u16,
    /// What a run on a real machine loads; a simulation does not look at it. `None` where neither it nor the cost names a model.
    pub checkpoint: Option<Checkpoint>,
}

/// Where a real model's shape and weights come from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Checkpoint {
    /// A shape by name, with dummy weights.
    Shape(String),
    /// A folder with `config.json` and safetensors, as the scenario names it: relative to the scenario file.
    Folder(String),
}

/// Reads all `[[model]]`s. `message_ns` is the host's time per message if it is given, `context_tokens_max` the most that one request
/// may need of a KV budget.
pub(super) fn validate(
    check: &Checker<'_, '_>,
    raw: &[RawModel],
    message_ns: Option<u64>,
    context_tokens_max: u32,
) -> Result<Vec<ModelSpec>, ScenarioError> {
    if raw.is_empty() || raw.len() > MODELS_MAX {
        return Err(check.error("model", format!("the number of models is {}, expected 1 to {MODELS_MAX}", raw.len())));
    }
    let names = names(check, raw)?;
    let mut models = Vec::with_capacity(raw.len());
    for (idx, (raw_model, name)) in raw.iter().zip(names).enumerate() {
        let default_ms = PUBLISHED_MS.get(idx).copied().filter(|_| raw.len() == PUBLISHED_MS.len());
        models.push(validate_one(check, idx, raw_model, name, default_ms, message_ns)?);
    }
    for (idx, model) in models.iter().enumerate() {
        if model.kv_tokens < u64::from(context_tokens_max) {
            let message = format!(
                "expected room for at least one request: prompt and output may reach {context_tokens_max} tokens"
            );
            return Err(check.error(&format!("model.{idx}.kv_tokens"), message));
        }
    }
    Ok(models)
}

fn names(check: &Checker<'_, '_>, raw: &[RawModel]) -> Result<Vec<String>, ScenarioError> {
    let mut names: Vec<String> = Vec::with_capacity(raw.len());
    for (idx, model) in raw.iter().enumerate() {
        let path = format!("model.{idx}.name");
        let name = match &model.name {
            Some(name) => name.clone(),
            None if raw.len() == 2 => ["small", "large"][idx].to_owned(),
            None => format!("model-{idx}"),
        };
        let is_word = |char: char| char.is_ascii_alphanumeric() || char == '-' || char == '_';
        if !name.starts_with(|char: char| char.is_ascii_alphabetic()) || !name.chars().all(is_word) || name.len() > 64 {
            return Err(check.error(&path, "expected a name of letters, digits, `-` and `_` that starts with a letter"));
        }
        if let Some(first) = names.iter().position(|other| *other == name) {
            return Err(check.error(&path, format!("`{name}` is the name of model {first} already, expected another")));
        }
        names.push(name);
    }
    Ok(names)
}

fn validate_one(
    check: &Checker<'_, '_>,
    idx: usize,
    raw: &RawModel,
    name: String,
    default_ms: Option<f64>,
    message_ns: Option<u64>,
) -> Result<ModelSpec, ScenarioError> {
    let path = |field: &str| format!("model.{idx}.{field}");
    let cost = match (&raw.cost, default_ms) {
        (Some(raw), _) => cost::validate(check, &path("cost"), raw)?,
        (None, Some(constant_ms)) => CostConfig::Constant { constant_ms },
        (None, None) => return Err(check.error(&path("cost"), "missing, expected for instance { constant_ms = 6.0 }")),
    };
    let latency = cost::latency(check, &path("cost"), &cost)?;
    let router = raw.router.as_ref().map(|raw| cost::router(check, &path("router"), raw)).transpose()?;
    let max_wait_ns = check.duration_ns(&path("max_wait_ms"), raw.max_wait_ms.unwrap_or(0.0), "ms", NS_PER_MS)?;
    let device = check.whole(&path("device"), raw.device.unwrap_or(idx as u32), 0..=u32::from(u16::MAX))?;
    Ok(ModelSpec {
        router,
        jitter: jitter(check, idx, raw, &cost)?,
        host: host(check, idx, raw, &cost, message_ns)?,
        thresholds: Thresholds::validate(check, &path("threshold"), raw.threshold.as_ref())?,
        max_wait_ns: (max_wait_ns > 0).then_some(max_wait_ns),
        hold: raw.hold.unwrap_or(Hold::Both),
        kv_tokens: raw.kv_tokens.unwrap_or(KV_TOKENS_DEFAULT),
        device: u16::try_from(device).expect("the range was checked"),
        checkpoint: checkpoint(check, idx, raw, &cost)?,
        name,
        cost,
        latency,
    })
}

/// What the scenario names, or the model that its cost is that of.
fn checkpoint(
    check: &Checker<'_, '_>,
    idx: usize,
    raw: &RawModel,
    cost: &CostConfig,
) -> Result<Option<Checkpoint>, ScenarioError> {
    match (&raw.shape, &raw.folder) {
        (Some(_), Some(_)) => Err(check.error(&format!("model.{idx}.folder"), "expected either `shape` or `folder`")),
        (Some(shape), None) => Ok(Some(Checkpoint::Shape(shape.clone()))),
        (None, Some(folder)) => Ok(Some(Checkpoint::Folder(folder.clone()))),
        (None, None) => Ok(match cost {
            CostConfig::Profile { selection, .. } => Some(Checkpoint::Shape(selection.model.clone())),
            CostConfig::Roofline { model, .. } => Some(Checkpoint::Shape(model.clone())),
            CostConfig::Constant { .. } | CostConfig::Affine { .. } => None,
        }),
    }
}

fn jitter(check: &Checker<'_, '_>, idx: usize, raw: &RawModel, cost: &CostConfig) -> Result<Jitter, ScenarioError> {
    let path = format!("model.{idx}.jitter");
    match (raw.jitter.as_deref(), raw.jitter_cv) {
        (Some(_), Some(_)) => Err(check.error(&path, "expected either `jitter` or `jitter_cv`")),
        (Some("measured"), None) => cost::measured_jitter(check, &path, &format!("model.{idx}.cost"), cost),
        (Some(_), None) => {
            Err(check.error(&path, "unknown value, expected `measured`").with_hint("a number is jitter_cv = 0.05"))
        }
        (None, cv) => Jitter::lognormal(cv.unwrap_or(0.0))
            .map_err(|error| check.error(&format!("model.{idx}.jitter_cv"), format!("expected {}", error.expected))),
    }
}

fn host(
    check: &Checker<'_, '_>,
    idx: usize,
    raw: &RawModel,
    cost: &CostConfig,
    message_ns: Option<u64>,
) -> Result<HostCost, ScenarioError> {
    let path = format!("model.{idx}.host");
    let host = match &raw.host {
        None => HostCost::default(),
        Some(RawHost::Given { launch_us, loop_us }) => HostCost {
            launch_ns: check.duration_ns(&format!("{path}.launch_us"), *launch_us, "us", NS_PER_US)?,
            loop_ns: check.duration_ns(&format!("{path}.loop_us"), *loop_us, "us", NS_PER_US)?,
            message_ns: 0,
        },
        Some(RawHost::Named(name)) if name == "profile" => {
            cost::measured_host(check, &path, &format!("model.{idx}.cost"), cost)?
        }
        Some(RawHost::Named(_)) => {
            return Err(check.error(&path, "unknown value, expected `profile` or { launch_us, loop_us }"));
        }
    };
    Ok(HostCost { message_ns: message_ns.unwrap_or(host.message_ns), ..host })
}
