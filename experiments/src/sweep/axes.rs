//! The axes of a sweep.

use handoff_sim::scenario::{Order, Placement, Scenario, cells};
use serde::Serialize;

use crate::cli::Sweep;
use crate::failure::Failure;
use crate::input::{Input, check_size, whole_numbers};

const EVERY: [u32; 8] = [1, 2, 4, 8, 16, 32, 64, 128];
const CONCURRENCY: [u32; 5] = [1, 2, 4, 8, 16];
const ALL_PLACEMENTS: [Placement; 4] = [
    Placement::Separate,
    Placement::Overlapped,
    Placement::Exclusive(Order::SmallFirst),
    Placement::Exclusive(Order::LargeFirst),
];

/// What a sweep runs over; `None` leaves the scenario's own value.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Axes {
    #[serde(serialize_with = "placement_names")]
    pub(super) placements: Vec<Option<Placement>>,
    pub(super) concurrencies: Vec<Option<u32>>,
    pub(super) every: Vec<Option<u32>>,
    /// One list of overrides a combination of the `--grid` axes.
    pub(super) grid: Vec<Vec<String>>,
}

impl Axes {
    pub(super) fn of(arguments: &Sweep, input: &Input, scenario: &Scenario) -> Result<Self, Failure> {
        let has_grid = !input.axes.is_empty();
        let numbers = |name: &str, given: Option<&str>, default: &[u32]| -> Result<Vec<Option<u32>>, Failure> {
            match given {
                Some(list) => Ok(whole_numbers(name, list)?.into_iter().map(Some).collect()),
                None if has_grid => Ok(vec![None]),
                None => Ok(default.iter().copied().map(Some).collect()),
            }
        };
        let concurrencies = match scenario.workload().arrivals().concurrency() {
            Some(_) => numbers("--concurrency", arguments.concurrency.as_deref(), &CONCURRENCY)?,
            None if arguments.concurrency.is_some() => {
                let message =
                    "--concurrency: the scenario's arrivals are an open loop, expected `workload.concurrency` in it";
                return Err(Failure::Argument(message.to_owned()));
            }
            None => vec![None],
        };
        let every = numbers("--every", arguments.every.as_deref(), &EVERY)?;
        if scenario.models().len() != 2 && every.iter().any(Option::is_some) {
            let message = format!(
                "--every: the scenario has {}, expected 2 models; sweep another field with --grid",
                if scenario.models().len() == 1 {
                    "1 model".to_owned()
                } else {
                    format!("{} models", scenario.models().len())
                }
            );
            return Err(Failure::Argument(message));
        }
        let placements = match arguments.placement.as_deref() {
            Some(list) if scenario.models().len() > 1 => placements(list)?.into_iter().map(Some).collect(),
            Some(list) => {
                let message = format!("--placement {list}: the scenario has 1 model, expected several to place");
                return Err(Failure::Argument(message));
            }
            None if arguments.common.scenario.is_none() && !has_grid => ALL_PLACEMENTS.map(Some).to_vec(),
            None => vec![None],
        };
        input.axes.iter().try_for_each(|axis| refuse_second(axis.path(), arguments))?;
        let grid = cells(&input.axes)?;
        let sizes = [placements.len(), concurrencies.len(), every.len(), grid.len()];
        check_size(sizes.into_iter().fold(1, usize::saturating_mul))?;
        Ok(Self { placements, concurrencies, every, grid })
    }
}

/// Refuses a `--grid` over what another argument sets as well: that one would win, and the rows would name values that were not in effect.
fn refuse_second(path: &str, arguments: &Sweep) -> Result<(), Failure> {
    let is_below = |table: &str| path == table || path.strip_prefix(table).is_some_and(|rest| rest.starts_with('.'));
    let is_device = path == "model" || path.starts_with("model.") && path.ends_with(".device");
    let arrives = path == "workload" || path == "workload.concurrency" || is_below("workload.arrivals");
    let shares = ["scheduler", "scheduler.sharing", "scheduler.order"].contains(&path);
    let given = [
        ("--every", arguments.every.is_some() && is_below("policy")),
        ("--concurrency", arguments.concurrency.is_some() && arrives),
        ("--placement", arguments.placement.is_some() && (shares || is_device)),
    ];
    match given.into_iter().find(|(_, given)| *given) {
        None => Ok(()),
        Some((argument, _)) => {
            Err(Failure::Argument(format!("--grid {path}: {argument} sets it already, expected one of the two")))
        }
    }
}

/// The placements of a list of `--placement`, each once.
pub(crate) fn placements(list: &str) -> Result<Vec<Placement>, Failure> {
    let mut placements = Vec::new();
    for word in list.split(',').map(str::trim) {
        match word {
            "all" => placements.extend(ALL_PLACEMENTS),
            "exclusive" => placements.extend([Order::SmallFirst, Order::LargeFirst].map(Placement::Exclusive)),
            _ => placements
                .push(word.parse().map_err(|error| Failure::Argument(format!("--placement {list}: {error}")))?),
        }
    }
    let mut seen = Vec::new();
    for placement in placements {
        if !seen.contains(&placement) {
            seen.push(placement);
        }
    }
    Ok(seen)
}

fn placement_names<S: serde::Serializer>(placements: &[Option<Placement>], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(placements.iter().map(|placement| placement.map(|placement| placement.to_string())))
}
