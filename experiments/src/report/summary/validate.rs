//! A validation: how far predictions and measurements are apart.

use serde::Deserialize;

use super::{Block, Summary, counted, percent, place, signed_percent};
use crate::failure::Failure;
use crate::output::table::significant;

/// The parts of the document that are told.
#[derive(Debug, Deserialize)]
pub(super) struct Document {
    device: String,
    weights: String,
    cells: Vec<Cell>,
    groups: Vec<Group>,
    break_even: Vec<BreakEven>,
    thresholds: Vec<Threshold>,
}

#[derive(Debug, Deserialize)]
struct Cell {
    placement: String,
    order: Option<String>,
    every: Option<u32>,
    p: Option<f64>,
    threshold: u32,
    concurrency: u32,
    predicted: f64,
    measured: f64,
    error: f64,
    starts: u32,
    seconds: f64,
}

#[derive(Debug, Deserialize)]
struct Group {
    group: String,
    cells: usize,
    mape: f64,
    max_error: f64,
    bias: f64,
    kendall_tau: Option<f64>,
    in_range: f64,
    repeat_spread: Option<f64>,
}

#[derive(Debug, Deserialize)]
struct BreakEven {
    placement: String,
    order: Option<String>,
    concurrency: u32,
    predicted: Option<u32>,
    /// Not in folders of earlier versions.
    predicted_range: Option<[Option<u32>; 2]>,
    measured: Option<u32>,
    measured_range: Option<[Option<u32>; 2]>,
    predicted_wins: Vec<u32>,
    measured_wins: Vec<u32>,
    same: bool,
}

#[derive(Debug, Deserialize)]
struct Threshold {
    placement: String,
    order: Option<String>,
    p: f64,
    concurrency: u32,
    predicted: u32,
    measured: u32,
    regret: f64,
}

pub(super) fn summary(document: &Document) -> Result<Summary, Failure> {
    let mut blocks = Vec::new();
    let all = document.groups.first().filter(|group| group.group == "all cells");
    let headline = all.map_or_else(
        || "no cell beside the large model alone".to_owned(),
        |all| {
            let cells = counted(all.cells, "cell", "cells");
            format!("{cells}: mean absolute error {}, worst {}", percent(all.mape), percent(all.max_error))
        },
    );
    if let Some(all) = all {
        blocks.push(Block::Text(overall(document, all)));
    }
    let worst =
        document.cells.iter().reduce(|worst, cell| if cell.error.abs() > worst.error.abs() { cell } else { worst });
    if let Some(cell) = worst {
        blocks.push(Block::Text(format!(
            "The largest miss is {}: predicted {}, measured {} tokens/s ({}).",
            name(cell),
            significant(cell.predicted, 4),
            significant(cell.measured, 4),
            signed_percent(cell.error)
        )));
    }
    blocks.push(groups(&document.groups));
    if !document.break_even.is_empty() {
        let same = document.break_even.iter().filter(|line| line.same).count();
        blocks.push(Block::Text(format!(
            "Break-even, the smallest N of the grid from which every larger N beats the large model alone, is the same on both sides in {same} of \
             {}.",
            counted(document.break_even.len(), "line", "lines")
        )));
        blocks.push(break_evens(&document.break_even));
    }
    if !document.thresholds.is_empty() {
        let same = document.thresholds.iter().filter(|line| line.predicted == line.measured).count();
        let regret = document.thresholds.iter().map(|line| line.regret).fold(0.0, f64::max);
        blocks.push(Block::Text(format!(
            "The predicted best threshold is the measured one in {same} of {}; the largest regret is {}.",
            counted(document.thresholds.len(), "group", "groups"),
            percent(regret)
        )));
        blocks.push(thresholds(&document.thresholds));
    }
    Ok(Summary { headline, blocks })
}

fn overall(document: &Document, all: &Group) -> String {
    let span = document.cells.first().map_or_else(String::new, |cell| {
        let starts = counted(usize::try_from(cell.starts).unwrap_or(usize::MAX), "start", "starts");
        format!("; {starts} of {}\u{a0}s a cell, the same on both sides", cell.seconds)
    });
    let tau = all.kendall_tau.map_or_else(String::new, |tau| format!(", Kendall's tau {tau:.2}"));
    let spread = all.repeat_spread.map_or_else(String::new, |spread| {
        format!(" Measured again from the same start, cells spread by at most {}.", percent(spread))
    });
    format!(
        "Predicted from a profile and measured on {} with {} weights{span}. Over {} the throughput is off by {} on average and by {} at worst (bias {}{tau}); \
         the measured mean lies between the lowest and the highest predicted start in {} of the cells.{spread}",
        document.device,
        document.weights,
        counted(all.cells, "cell", "cells"),
        percent(all.mape),
        percent(all.max_error),
        signed_percent(all.bias),
        whole_percent(all.in_range),
    )
}

/// A share of cells.
fn whole_percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

fn name(cell: &Cell) -> String {
    let routing = match (cell.every, cell.p) {
        (Some(every), _) => format!("N = {every}"),
        (_, Some(p)) => format!("p = {p}, B = {}", cell.threshold),
        _ => "large-only".to_owned(),
    };
    format!("{}, {routing}, C = {}", place(&cell.placement, cell.order.as_deref()), cell.concurrency)
}

fn groups(groups: &[Group]) -> Block {
    let row = |group: &Group| {
        vec![
            group.group.clone(),
            group.cells.to_string(),
            percent(group.mape),
            percent(group.max_error),
            signed_percent(group.bias),
            group.kendall_tau.map_or_else(|| "-".to_owned(), |tau| format!("{tau:.2}")),
            whole_percent(group.in_range),
        ]
    };
    Block::Grid {
        caption: "Errors, predicted / measured - 1".to_owned(),
        header: vec![
            "cells of",
            "number",
            "mean absolute error",
            "worst",
            "bias",
            "Kendall's tau",
            "in the predicted range",
        ],
        rows: groups.iter().map(row).collect(),
    }
}

fn break_evens(lines: &[BreakEven]) -> Block {
    let found = |every: Option<u32>| every.map_or_else(|| "none".to_owned(), |every| every.to_string());
    let wins = |wins: &[u32]| if wins.is_empty() { "none".to_owned() } else { super::thresholds(wins) };
    let ranged = |every: Option<u32>, range: Option<[Option<u32>; 2]>| match range {
        Some([low, high]) if low != high => format!("{} ({} to {})", found(every), found(low), found(high)),
        _ => found(every),
    };
    let row = |line: &BreakEven| {
        vec![
            place(&line.placement, line.order.as_deref()),
            line.concurrency.to_string(),
            ranged(line.predicted, line.predicted_range),
            ranged(line.measured, line.measured_range),
            if line.same { "yes" } else { "no" }.to_owned(),
            wins(&line.predicted_wins),
            wins(&line.measured_wins),
        ]
    };
    Block::Grid {
        caption: "Break-even N (in brackets: what the random starts leave open), and every N that beats the large model alone"
            .to_owned(),
        header: vec!["placement", "C", "predicted", "measured", "same", "wins, predicted", "wins, measured"],
        rows: lines.iter().map(row).collect(),
    }
}

fn thresholds(lines: &[Threshold]) -> Block {
    let row = |line: &Threshold| {
        vec![
            place(&line.placement, line.order.as_deref()),
            line.p.to_string(),
            line.concurrency.to_string(),
            line.predicted.to_string(),
            line.measured.to_string(),
            percent(line.regret),
        ]
    };
    Block::Grid {
        caption: "Best threshold B of the large model, and what the predicted one loses".to_owned(),
        header: vec!["placement", "p", "C", "predicted", "measured", "regret"],
        rows: lines.iter().map(row).collect(),
    }
}
