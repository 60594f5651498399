//! `[scheduler]`: modes, sharing of devices, loops and handoffs.

use super::check::Checker;
use super::cost::CostConfig;
use super::error::ScenarioError;
use super::model::ModelSpec;
use super::raw::RawScheduler;
use super::units::{NS_PER_MS, NS_PER_US};
use super::values::{First, HandoffKind, KvFull, Loops, Mode, Order, Sharing};
use crate::cost::CorunRates;

/// How subservers are coordinated and what handoffs cost.
#[derive(Clone, Debug)]
pub struct SchedulerSpec {
    /// When a subserver may launch, relative to the others.
    pub mode: Mode,
    /// How models on the same device share it; without effect where no device is shared.
    pub sharing: Sharing,
    /// Who goes first on an exclusive device and under model-sync; `None` where neither applies and none was given.
    pub order: Option<Order>,
    /// The rates at which models on one device slow each other; `None` where they never overlap.
    pub corun: Option<CorunRates>,
    /// Whether one forward may carry decode and extend rows.
    pub mix_extend: bool,
    /// Which kind goes first where it may not.
    pub first: First,
    /// Whether message handling overlaps the forward.
    pub loops: Loops,
    /// What a returning request pays.
    pub handoff: Handoff,
    /// Latency of one message between subservers, ns.
    pub hop_ns: u64,
    /// Bandwidth between subservers, 10^9 bytes per second; `None` is unlimited.
    pub hop_gb_per_s: Option<f64>,
    /// What happens when the KV budget is exhausted.
    pub kv_full: KvFull,
}

/// What a request that comes back to a model pays besides its extend.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Handoff {
    /// Nothing: its KV was kept and it goes on.
    Resume,
    /// It is a new request each time: prefix matching and admission (defaults inferred from published step times, see
    /// the scenario's documentation).
    Fresh {
        /// Per return, ns.
        fixed_ns: u64,
        /// Per token of its context, ns.
        per_context_token_ns: f64,
    },
}

/// Who runs where: a scenario's devices and sharing in one word, as results name it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Placement {
    /// Each model on its own device.
    Separate,
    /// At least two models on one device, forwards side by side.
    Overlapped,
    /// At least two models on one device, one forward at a time in this order.
    Exclusive(Order),
}

impl Placement {
    /// "separate", "overlapped" or "exclusive".
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Separate => "separate",
            Self::Overlapped => "overlapped",
            Self::Exclusive(_) => "exclusive",
        }
    }

    /// The order of an exclusive placement.
    #[must_use]
    pub const fn order(self) -> Option<Order> {
        match self {
            Self::Exclusive(order) => Some(order),
            Self::Separate | Self::Overlapped => None,
        }
    }
}

/// `separate`, `overlapped`, `exclusive:large-first`.
impl std::fmt::Display for Placement {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Exclusive(order) => f.pad(&format!("exclusive:{order}")),
            _ => f.pad(self.as_str()),
        }
    }
}

/// As displayed; `exclusive` alone is refused because its order matters.
impl std::str::FromStr for Placement {
    type Err = PlacementError;
    fn from_str(text: &str) -> Result<Self, PlacementError> {
        match text.split_once(':') {
            None if text == "separate" => Ok(Self::Separate),
            None if text == "overlapped" => Ok(Self::Overlapped),
            Some(("exclusive", order)) => {
                order.parse().map(Self::Exclusive).map_err(|_| PlacementError(text.to_owned()))
            }
            _ => Err(PlacementError(text.to_owned())),
        }
    }
}

/// Text that names no placement.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "no placement `{0}`, expected one of `separate`, `overlapped`, `exclusive:large-first`, `exclusive:small-first`, `exclusive:alternate`"
)]
pub struct PlacementError(String);

/// The latency of matching a returning request's prefix again: 4 ms and 15 us per context token, inferred from the
/// published time of one small-model step when every returning token is a new request.
const FRESH_FIXED_MS: f64 = 4.0;
const FRESH_PER_CONTEXT_TOKEN_US: f64 = 15.0;

pub(super) fn validate(
    check: &Checker<'_, '_>,
    raw: &RawScheduler,
    models: &[ModelSpec],
) -> Result<SchedulerSpec, ScenarioError> {
    let mode = raw.mode.unwrap_or(Mode::Delayed);
    let sharing = raw.sharing.unwrap_or(Sharing::Overlapped);
    let shared = shared_devices(models);
    check_thresholds_of_mode(check, mode, models)?;
    let order = order(check, raw, mode, sharing, &shared, models)?;
    let needs_rates = sharing == Sharing::Overlapped && mode != Mode::ModelSync;
    let corun = corun(check, raw, needs_rates, &shared, models)?;
    let fixed_ns =
        check.duration_ns("scheduler.fresh.fixed_ms", raw.fresh.fixed_ms.unwrap_or(FRESH_FIXED_MS), "ms", NS_PER_MS)?;
    let per_context_token_us = raw.fresh.per_context_token_us.unwrap_or(FRESH_PER_CONTEXT_TOKEN_US);
    check.duration_ns("scheduler.fresh.per_context_token_us", per_context_token_us, "us", NS_PER_US)?;
    let handoff = match raw.handoff.unwrap_or(HandoffKind::Resume) {
        HandoffKind::Resume => Handoff::Resume,
        HandoffKind::Fresh => Handoff::Fresh { fixed_ns, per_context_token_ns: per_context_token_us * NS_PER_US },
    };
    if let Some(gb_per_s) = raw.hop_gb_per_s {
        // Below a byte a second a message would take longer than any run.
        check.number("scheduler.hop_gb_per_s", gb_per_s, 1e-9..=1e9)?;
    }
    Ok(SchedulerSpec {
        mode,
        sharing,
        order,
        corun,
        mix_extend: raw.mix_extend.unwrap_or(true),
        first: raw.first.unwrap_or(First::Extend),
        loops: raw.loops.unwrap_or(Loops::Decoupled),
        handoff,
        hop_ns: check.duration_ns("scheduler.hop_us", raw.hop_us.unwrap_or(0.0), "us", NS_PER_US)?,
        hop_gb_per_s: raw.hop_gb_per_s,
        kv_full: raw.kv_full.unwrap_or(KvFull::Wait),
    })
}

/// The models of each device that several share, by device, then by index.
pub(super) fn shared_devices(models: &[ModelSpec]) -> Vec<Vec<usize>> {
    let mut devices: Vec<u16> = models.iter().map(|model| model.device).collect();
    devices.sort_unstable();
    devices.dedup();
    let on = |device: u16| (0..models.len()).filter(|&idx| models[idx].device == device).collect::<Vec<_>>();
    devices.into_iter().map(on).filter(|models| models.len() > 1).collect()
}

/// Modes without a gate would ignore thresholds.
fn check_thresholds_of_mode(check: &Checker<'_, '_>, mode: Mode, models: &[ModelSpec]) -> Result<(), ScenarioError> {
    if mode == Mode::Delayed {
        return Ok(());
    }
    match models.iter().enumerate().find(|(_, model)| model.thresholds.max() > 1) {
        None => Ok(()),
        Some((idx, model)) => {
            let message = format!("mode `{mode}` ignores thresholds, expected a `threshold` of 1 for `{}`", model.name);
            Err(check.error(&format!("model.{idx}.threshold"), message).with_hint("thresholds need mode = \"delayed\""))
        }
    }
}

fn order(
    check: &Checker<'_, '_>,
    raw: &RawScheduler,
    mode: Mode,
    sharing: Sharing,
    shared: &[Vec<usize>],
    models: &[ModelSpec],
) -> Result<Option<Order>, ScenarioError> {
    match (raw.order, mode, sharing, shared.first()) {
        (Some(order), ..) => Ok(Some(order)),
        (None, Mode::ModelSync, ..) => Ok(Some(Order::LargeFirst)),
        (None, _, Sharing::Exclusive, Some(group)) => {
            let message = format!(
                "{} share device {} exclusively, expected an order: one of {}",
                check.names(group, models),
                models[group[0]].device,
                super::values::quoted_list(Order::NAMES)
            );
            Err(check
                .error("scheduler.order", message)
                .with_hint("it matters as much as the threshold, so there is no default"))
        }
        (None, ..) => Ok(None),
    }
}

fn corun(
    check: &Checker<'_, '_>,
    raw: &RawScheduler,
    needs_rates: bool,
    shared: &[Vec<usize>],
    models: &[ModelSpec],
) -> Result<Option<CorunRates>, ScenarioError> {
    let given = match raw.corun.as_deref() {
        None => None,
        Some(&[first, second]) => {
            for (idx, rate) in [first, second].into_iter().enumerate() {
                if !(rate > 0.0 && rate <= 1.0) {
                    return Err(check.error(&format!("scheduler.corun.{idx}"), "expected a rate above 0 and at most 1"));
                }
            }
            Some([first, second])
        }
        Some(rates) => {
            let message = format!(
                "the list has {} rates, expected two: the speed of each model while the other runs",
                rates.len()
            );
            return Err(check.error("scheduler.corun", message));
        }
    };
    let Some(group) = shared.first().filter(|_| needs_rates) else {
        return Ok(None);
    };
    if let Some(crowded) = shared.iter().find(|group| group.len() > 2) {
        let message = format!(
            "{} share device {}: more than two overlapping models need a rate for each set of running models, expected at most two or `sharing` = \"exclusive\"",
            check.names(crowded, models),
            models[crowded[0]].device
        );
        return Err(check.error("scheduler.sharing", message));
    }
    match given {
        Some(rates) if models.len() == 2 => {
            CorunRates::constant(rates).map(Some).map_err(|error| check.error("scheduler.corun", error.to_string()))
        }
        Some(_) => {
            let message = format!(
                "two rates do not say which of {} models they are for, expected costs from one profile, whose rates are used",
                models.len()
            );
            Err(check.error("scheduler.corun", message))
        }
        None => measured_corun(check, group, models).map(Some),
    }
}

/// The rates of the one profile that all costs come from.
fn measured_corun(check: &Checker<'_, '_>, group: &[usize], models: &[ModelSpec]) -> Result<CorunRates, ScenarioError> {
    let refuse = |why: String| {
        let names = check.names(group, models);
        let message = format!("missing, but {names} overlap on device {}: {why}", models[group[0]].device);
        check
            .error("scheduler.corun", message)
            .with_hint("give each model a device, or set sharing = \"exclusive\" with an order")
    };
    let mut of_models = Vec::with_capacity(models.len());
    let mut one: Option<(&str, Option<String>)> = None;
    for model in models {
        let CostConfig::Profile { file, selection } = &model.cost else {
            return Err(refuse(format!(
                "expected two rates, corun = [0.41, 0.89], because the cost of `{}` is not from a profile",
                model.name
            )));
        };
        let profile = check.profile("scheduler.corun", file)?;
        let only_device = || profile.devices().first().map(|device| (*device).to_owned());
        let found = (file.as_str(), selection.device.clone().or_else(only_device));
        if *one.get_or_insert_with(|| found.clone()) != found {
            return Err(refuse(
                "expected two rates, corun = [0.41, 0.89], because the costs are not from the same profile and device"
                    .to_owned(),
            ));
        }
        of_models.push((selection.model.as_str(), selection.graph));
    }
    let (file, device) = one.expect("there are at least two models");
    let profile = check.profile("scheduler.corun", file)?;
    CorunRates::from_profile(&profile, device.as_deref(), &of_models).map_err(|error| refuse(error.to_string()))
}
