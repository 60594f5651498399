//! Tuned thresholds, and placements compared.

use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use super::{Block, Summary, counted, document, enumerated, percent, place, thresholds};
use crate::failure::Failure;
use crate::output::table::significant;

#[derive(Debug, Deserialize)]
struct Tuned {
    policy: String,
    placement: String,
    order: Option<String>,
    concurrency: u32,
    models: Vec<String>,
    best: Candidate,
    candidates: Vec<Candidate>,
    n_feasible: f64,
    notes: Vec<String>,
    statements: Vec<Statement>,
    confirmation: Option<Confirmation>,
}

#[derive(Debug, Deserialize)]
struct Candidate {
    thresholds: Vec<u32>,
    throughput: f64,
    method: String,
    ci_low: Option<f64>,
    ci_high: Option<f64>,
}

#[derive(Debug, Deserialize)]
struct Statement {
    placement: String,
    text: String,
}

#[derive(Debug, Deserialize)]
struct Confirmation {
    regret: f64,
    regret_low: f64,
    regret_high: f64,
    replications: u32,
    candidates: Vec<Value>,
}

#[derive(Debug, Deserialize)]
struct Compared {
    policy: String,
    models: Vec<String>,
    winners: Vec<Winner>,
    changes: Vec<Change>,
    notes: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Winner {
    concurrency: u32,
    placement: String,
    thresholds: Vec<u32>,
    throughput: f64,
    tied_with: Vec<String>,
    one_device_placement: Option<String>,
    one_device_thresholds: Option<Vec<u32>>,
    one_device_throughput: Option<f64>,
}

#[derive(Debug, Deserialize)]
struct Change {
    from_concurrency: u32,
    to_concurrency: u32,
    placement: String,
    event: String,
    other: String,
}

pub(super) fn summary(folder: &Path) -> Result<Summary, Failure> {
    // Only a comparison has winners.
    let whole: Value = document(folder)?;
    if whole.get("winners").is_some() { Ok(compared(&document(folder)?)) } else { Ok(tuned(&document(folder)?)) }
}

fn tuned(found: &Tuned) -> Summary {
    let best = &found.best;
    let interval = match (best.ci_low, best.ci_high) {
        (Some(low), Some(high)) => format!(", 95 % interval {} to {}", significant(low, 4), significant(high, 4)),
        _ => String::new(),
    };
    let chosen =
        format!("thresholds {} with {} tokens/s", thresholds(&best.thresholds), significant(best.throughput, 4));
    let eager = found.candidates.iter().find(|candidate| candidate.thresholds.iter().all(|&threshold| threshold == 1));
    let gain = eager.map_or_else(String::new, |eager| {
        format!(" That is {} more than with threshold 1 everywhere.", percent(best.throughput / eager.throughput - 1.0))
    });
    let mut blocks = vec![Block::Text(format!(
        "Policy {}, placement {}, C = {}, models {}. The best of {} feasible vectors is {chosen} ({}{interval}).{gain}",
        found.policy,
        place(&found.placement, found.order.as_deref()),
        found.concurrency,
        enumerated(&found.models),
        found.n_feasible,
        best.method,
    ))];
    if let Some(confirmed) = &found.confirmation {
        blocks.push(Block::Text(format!(
            "Simulated again on fresh seeds, {} of {} replications, the choice loses {} of the best of them (95 % interval {} to {}).",
            counted(confirmed.candidates.len(), "candidate", "candidates"),
            confirmed.replications,
            percent(confirmed.regret),
            percent(confirmed.regret_low),
            percent(confirmed.regret_high)
        )));
    }
    let statement = |statement: &Statement| match statement.placement.as_str() {
        "any" => statement.text.clone(),
        placement => format!("{placement}: {}", statement.text),
    };
    push_list(&mut blocks, "Where routing pays:", found.statements.iter().map(statement).collect());
    push_list(&mut blocks, "Notes:", found.notes.clone());
    Summary { headline: format!("best {chosen}"), blocks }
}

fn compared(found: &Compared) -> Summary {
    let mut blocks = vec![Block::Text(format!(
        "Policy {}, models {}: every placement with its best thresholds, throughput simulated.",
        found.policy,
        enumerated(&found.models)
    ))];
    let row = |winner: &Winner| {
        vec![
            placed(&winner.placement),
            winner.concurrency.to_string(),
            thresholds(&winner.thresholds),
            significant(winner.throughput, 4),
            if winner.tied_with.is_empty() {
                "-".to_owned()
            } else {
                enumerated(&winner.tied_with.iter().map(|place| placed(place)).collect::<Vec<_>>())
            },
            winner.one_device_placement.as_deref().map_or_else(|| "-".to_owned(), placed),
            winner.one_device_thresholds.as_deref().map_or_else(|| "-".to_owned(), thresholds),
            winner.one_device_throughput.map_or_else(|| "-".to_owned(), |throughput| significant(throughput, 4)),
        ]
    };
    blocks.push(Block::Grid {
        caption: "The best placement at each concurrency, and the best on one device".to_owned(),
        header: vec![
            "placement",
            "C",
            "thresholds",
            "tokens/s",
            "level with",
            "on one device",
            "thresholds",
            "tokens/s",
        ],
        rows: found.winners.iter().map(row).collect(),
    });
    let change = |change: &Change| {
        format!(
            "from C = {} to {}, {} {} {}",
            change.from_concurrency,
            change.to_concurrency,
            placed(&change.placement),
            change.event,
            placed(&change.other)
        )
    };
    push_list(&mut blocks, "What changes on the way:", found.changes.iter().map(change).collect());
    push_list(&mut blocks, "Notes:", found.notes.clone());
    let mut placements: Vec<String> = Vec::new();
    for winner in &found.winners {
        let place = placed(&winner.placement);
        if !placements.contains(&place) {
            placements.push(place);
        }
    }
    let headline = format!(
        "best placement over {}: {}",
        counted(found.winners.len(), "concurrency", "concurrencies"),
        enumerated(&placements)
    );
    Summary { headline, blocks }
}

/// `exclusive (large-first)` for `exclusive:large-first`.
fn placed(name: &str) -> String {
    match name.split_once(':') {
        Some((placement, order)) => place(placement, Some(order)),
        None => name.to_owned(),
    }
}

fn push_list(blocks: &mut Vec<Block>, title: &str, items: Vec<String>) {
    if !items.is_empty() {
        blocks.push(Block::Text(title.to_owned()));
        blocks.push(Block::List(items));
    }
}
