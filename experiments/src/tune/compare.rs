//! `tune --compare`: every placement with its own best thresholds, beside the other scheduling modes and the large model alone.

use handoff_sim::analytic::tune::{Candidate, TuneOptions, check, tune};
use handoff_sim::scenario::{Order, Placement, Scenario, ScenarioError, Variant};
use serde::Serialize;

use super::compare_document::{Change, CompareCell, CompareDocument, Winner};
use super::document::spaced;
use super::{SCHEMA, compare_tables, figures, json, open, options, publish};
use crate::cli::{Format, Tune};
use crate::failure::Failure;
use crate::input::{Input, whole_numbers};
use crate::message::say;
use crate::output::document::{write_csv, write_json};
use crate::output::fingerprint::Fingerprint;
use crate::output::origin::Origin;
use crate::sweep::{Configuration, default_folder, facts, placements, run_scenario};

const CONCURRENCIES: [u32; 6] = [1, 2, 4, 8, 16, 32];

const PLACEMENTS: [Placement; 4] = [
    Placement::Separate,
    Placement::Overlapped,
    Placement::Exclusive(Order::LargeFirst),
    Placement::Exclusive(Order::SmallFirst),
];

/// Placements that differ by less are as good as each other.
const TIE: f64 = 0.002;

/// What is asked of a comparison beside its scenario.
#[derive(Serialize)]
struct Asked {
    compare: bool,
    concurrencies: Vec<u32>,
    placements: Vec<String>,
    options: String,
}

pub(super) fn run(arguments: &Tune, input: &Input, base: &Scenario) -> Result<(), Failure> {
    let common = &arguments.common;
    if base.models().len() < 2 {
        return Err(Failure::Argument("--compare: the scenario has 1 model, expected several to place".to_owned()));
    }
    let concurrencies = match &arguments.concurrency {
        Some(list) => whole_numbers("--concurrency", list)?,
        None => CONCURRENCIES.to_vec(),
    };
    let placed = match &arguments.placement {
        Some(list) => placements(list)?,
        None => PLACEMENTS.to_vec(),
    };
    let options = options(arguments)?;
    let mut notes = Vec::new();
    let mut plans = Vec::new();
    for &placement in &placed {
        // All cells are validated before any runs.
        match plan(input, base, placement, &concurrencies, &options) {
            Ok(cells) => plans.push((placement, cells)),
            // Step times alone do not say how fast two forwards are beside each other, and no method but simulation knows all placements.
            Err(reason) if arguments.placement.is_none() => {
                notes.push(format!("{placement} placement is left out: {reason}"))
            }
            Err(reason) => return Err(Failure::Argument(format!("cell placement={placement}: {reason}"))),
        }
    }
    if plans.is_empty() {
        return Err(Failure::Argument(format!("--compare: no placement is left; {}", notes.join("; "))));
    }
    let alone =
        concurrencies.iter().map(|&concurrency| Alone::new(input, base, concurrency)).collect::<Result<Vec<_>, _>>()?;
    let asked = Asked {
        compare: true,
        concurrencies: concurrencies.clone(),
        placements: plans.iter().map(|(placement, _): &(Placement, Vec<Plan>)| placement.to_string()).collect(),
        options: format!("{:?}, {:?}", arguments.method, arguments.step_grid_ms),
    };
    let fingerprint = Fingerprint::new("tune", &Configuration::of(input, &asked))?;
    let path = common.out.clone().unwrap_or_else(|| default_folder("tune", &fingerprint));
    let folder = open(&path, fingerprint)?;
    let cells = common.pool()?.install(|| compute(&plans, &alone, &options))?;
    notes.iter().for_each(say);
    let facts = facts(input, base.seed(), "simulated");
    let document = CompareDocument {
        scenario: facts.scenario.name.clone(),
        policy: base.policy().kind().to_owned(),
        models: base.models().iter().map(|model| model.name.clone()).collect(),
        seed: base.seed(),
        winners: concurrencies.iter().filter_map(|&concurrency| winner(&cells, concurrency)).collect(),
        changes: changes(&cells, &concurrencies),
        cells,
        notes,
    };
    if let Some(folder) = folder {
        let (rows, json) = (document.rows(), json(&document)?);
        let drawing = figures::comparison(&rows, Some(&json), &Origin::of_run(&facts))?;
        publish(&folder, &rows, json, drawing, facts)?;
    }
    let mut out = std::io::stdout().lock();
    match common.format {
        Format::Json => write_json(&mut out, SCHEMA, &document)?,
        Format::Csv => write_csv(&mut out, &document.rows())?,
        Format::Table => compare_tables::write(&mut out, &document)?,
    }
    Ok(())
}

/// All cells of one placement, or what is wrong with the first that is.
fn plan(
    input: &Input,
    base: &Scenario,
    placement: Placement,
    concurrencies: &[u32],
    options: &TuneOptions,
) -> Result<Vec<Plan>, String> {
    let cell = |&concurrency: &u32| {
        let plan = Plan::new(input, base, placement, concurrency).map_err(|error| error.to_string())?;
        check(&plan.tuned, options).map_err(|error| format!("concurrency {concurrency}: {error}"))?;
        Ok(plan)
    };
    concurrencies.iter().map(cell).collect()
}

/// The scenarios of one placement at one concurrency.
struct Plan {
    concurrency: u32,
    tuned: Scenario,
    /// Modes without thresholds, by name; one that the placement does not allow is missing.
    others: Vec<(&'static str, Scenario)>,
}

impl Plan {
    fn new(input: &Input, base: &Scenario, placement: Placement, concurrency: u32) -> Result<Self, ScenarioError> {
        let eager = || eager(base).concurrency(concurrency).placement(placement);
        let tuned = input.build(eager())?;
        let mode = |name: &'static str| {
            Ok::<_, ScenarioError>((name, input.build(eager().set(&format!("scheduler.mode={name}")))?))
        };
        Ok(Self { concurrency, tuned, others: vec![mode("step-sync")?, mode("model-sync")?] })
    }
}

/// The large model alone on one device, and on two that share the requests.
struct Alone {
    concurrency: u32,
    one: Scenario,
    halves: Vec<Scenario>,
}

impl Alone {
    fn new(input: &Input, base: &Scenario, concurrency: u32) -> Result<Self, ScenarioError> {
        let of = |requests: u32| input.build(base.variant().concurrency(requests).policy_large_only());
        let halves = [concurrency.div_ceil(2), concurrency / 2].into_iter().filter(|&requests| requests > 0);
        Ok(Self { concurrency, one: of(concurrency)?, halves: halves.map(of).collect::<Result<_, _>>()? })
    }
}

/// The scenario with threshold 1 everywhere: its own may not be feasible at another concurrency.
fn eager(base: &Scenario) -> Variant {
    base.variant().thresholds(&vec![1; base.models().len()])
}

/// Thresholds come from the best method for each placement; throughput is simulated for all alike, on the same seeds, so that placements differ by
/// nothing else.
fn compute(
    plans: &[(Placement, Vec<Plan>)],
    alone: &[Alone],
    options: &TuneOptions,
) -> Result<Vec<CompareCell>, Failure> {
    let mut cells = Vec::new();
    for (placement, plans) in plans {
        for plan in plans {
            let cell = |mode: &str, scenario: &Scenario, tuned: Option<&Candidate>| {
                let report = run_scenario(scenario, &format!("{placement}, {mode}, C = {}: ", plan.concurrency))?;
                Ok::<_, Failure>(CompareCell {
                    order: placement.order().map(|order| order.to_string()),
                    thresholds: tuned.map(|candidate| candidate.thresholds.clone()),
                    thresholds_by: tuned.map(|candidate| candidate.method),
                    ..CompareCell::new(plan.concurrency, placement.as_str(), mode, &report)
                })
            };
            let tuning = tune(&plan.tuned, options)?;
            let best = tuning.best();
            let scenario = plan.tuned.variant().thresholds(&best.thresholds).build()?;
            let tuned = cell("delayed", &scenario, Some(best))?;
            say(format_args!(
                "C = {}, {placement}: thresholds {}, {:.1} tokens/s",
                plan.concurrency,
                spaced(&best.thresholds),
                tuned.throughput
            ));
            cells.push(tuned);
            cells.push(cell("eager", &plan.tuned, None)?);
            for (mode, scenario) in &plan.others {
                cells.push(cell(mode, scenario, None)?);
            }
        }
    }
    for own in alone {
        let run = |scenario: &Scenario| run_scenario(scenario, &format!("large-only, C = {}: ", own.concurrency));
        let one = CompareCell::new(own.concurrency, "large model alone", "large-only", &run(&own.one)?);
        let halves =
            own.halves.iter().map(|half| Ok(run(half)?.throughput.mean)).collect::<Result<Vec<f64>, Failure>>()?;
        let two = CompareCell {
            placement: "two large models".to_owned(),
            throughput: halves.iter().sum(),
            ci_low: None,
            ci_high: None,
            ..one.clone()
        };
        cells.extend([one, two]);
    }
    Ok(cells)
}

/// The placements with their best thresholds at one concurrency, best first.
fn ranked(cells: &[CompareCell], concurrency: u32) -> Vec<&CompareCell> {
    let mut ranked: Vec<&CompareCell> =
        cells.iter().filter(|cell| cell.mode == "delayed" && cell.concurrency == concurrency).collect();
    ranked.sort_by(|a, b| b.throughput.total_cmp(&a.throughput));
    ranked
}

fn winner(cells: &[CompareCell], concurrency: u32) -> Option<Winner> {
    let ranked = ranked(cells, concurrency);
    let first = ranked.first()?;
    let on_one_device = ranked.iter().find(|cell| cell.placement != "separate");
    let tied = ranked.iter().skip(1).filter(|cell| cell.throughput >= first.throughput * (1.0 - TIE));
    let names = |cell: &CompareCell| (cell.place(), cell.thresholds.clone().unwrap_or_default());
    let (placement, thresholds) = names(first);
    Some(Winner {
        concurrency,
        placement,
        thresholds,
        throughput: first.throughput,
        tied_with: tied.map(|cell| cell.place()).collect(),
        one_device_placement: on_one_device.map(|cell| names(cell).0),
        one_device_thresholds: on_one_device.map(|cell| names(cell).1),
        one_device_throughput: on_one_device.map(|cell| cell.throughput),
    })
}

/// Where the order of two placements changes between neighbouring concurrencies.
fn changes(cells: &[CompareCell], concurrencies: &[u32]) -> Vec<Change> {
    let places: Vec<String> = ranked(cells, concurrencies[0]).iter().map(|cell| cell.place()).collect();
    let throughput = |place: &str, concurrency: u32| {
        ranked(cells, concurrency).iter().find(|cell| cell.place() == place).map(|cell| cell.throughput)
    };
    let mut changes = Vec::new();
    for (idx, first) in places.iter().enumerate() {
        for second in &places[idx + 1..] {
            // Whether the first is ahead; nothing in a tie.
            let lead = |concurrency: u32| {
                let ratio = throughput(first, concurrency)? / throughput(second, concurrency)?;
                ((ratio - 1.0).abs() >= TIE).then_some(ratio > 1.0)
            };
            for pair in concurrencies.windows(2) {
                let (before, after) = (lead(pair[0]), lead(pair[1]));
                let (event, first_acts) = match (before, after) {
                    (before, after) if before == after => continue,
                    (None, Some(first_leads)) => ("pulls ahead of", first_leads),
                    (Some(_), Some(first_leads)) => ("overtakes", first_leads),
                    (Some(first_led), None) => ("draws level with", !first_led),
                    (None, None) => continue,
                };
                let (who, whom) = if first_acts { (first, second) } else { (second, first) };
                changes.push(Change {
                    from_concurrency: pair[0],
                    to_concurrency: pair[1],
                    placement: who.clone(),
                    event: event.to_owned(),
                    other: whom.clone(),
                });
            }
        }
    }
    changes.sort_by_key(|change| (change.from_concurrency, change.to_concurrency));
    changes
}
