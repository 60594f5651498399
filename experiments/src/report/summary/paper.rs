//! The published tables, predicted; or the claims about them.

use serde::Deserialize;

use super::{Block, Summary, counted, percent};
use crate::failure::Failure;
use crate::output::table::significant;

/// Tables or claims; the other list is empty.
#[derive(Debug, Deserialize)]
pub(super) struct Document {
    #[serde(default)]
    tables: Vec<Table>,
    #[serde(default)]
    machine: Vec<Parameter>,
    #[serde(default)]
    claims: Vec<Claim>,
}

#[derive(Debug, Deserialize)]
struct Table {
    table: String,
    title: String,
    cells: usize,
    calibrated_cells: usize,
    mean_absolute_error: Option<f64>,
    max_absolute_error: Option<f64>,
    n_parameters: usize,
    reading: String,
}

#[derive(Debug, Deserialize)]
struct Parameter {
    name: String,
    value: f64,
    unit: String,
    fitted_on: String,
}

#[derive(Debug, Deserialize)]
struct Claim {
    claim: String,
    value: String,
    verdict: String,
    basis: String,
}

pub(super) fn summary(document: &Document) -> Result<Summary, Failure> {
    if !document.claims.is_empty() {
        return Ok(claims(&document.claims));
    }
    let tables = counted(document.tables.len(), "table", "tables");
    let cells: usize = document.tables.iter().map(|table| table.cells).sum();
    let fitted: usize = document.tables.iter().map(|table| table.calibrated_cells).sum();
    let worst = document.tables.iter().filter_map(|table| table.max_absolute_error).fold(0.0, f64::max);
    let judged = counted(cells, "cell", "cells");
    let headline = format!("{tables}, {judged} judged, worst error {}", percent(worst));
    let text = format!(
        "{tables} of arXiv 2610.12242, predicted. {judged} are judged; {fitted} more had a parameter fitted on them and are left out of the errors. The worst \
         error is {}.",
        percent(worst)
    );
    let found = |share: Option<f64>| share.map_or_else(|| "-".to_owned(), percent);
    let row = |table: &Table| {
        vec![
            table.table.clone(),
            table.title.clone(),
            table.cells.to_string(),
            table.calibrated_cells.to_string(),
            found(table.mean_absolute_error),
            found(table.max_absolute_error),
            table.n_parameters.to_string(),
        ]
    };
    let errors = Block::Grid {
        caption: "Errors by table, predicted / published - 1".to_owned(),
        header: vec![
            "table",
            "what it shows",
            "cells judged",
            "fitted on",
            "mean absolute error",
            "worst",
            "parameters of its own",
        ],
        rows: document.tables.iter().map(row).collect(),
    };
    let readings = document.tables.iter().map(|table| format!("{}: {}", table.table, table.reading)).collect();
    let parameter = |parameter: &Parameter| {
        let Parameter { name, value, unit, fitted_on } = parameter;
        let unit = if unit.is_empty() { String::new() } else { format!(" {unit}") };
        format!("{name} = {}{unit}, from {fitted_on}", significant(*value, 4))
    };
    let mut blocks = vec![Block::Text(text), errors, Block::List(readings)];
    if !document.machine.is_empty() {
        blocks.push(Block::Text("Parameters of the machines, shared by all tables:".to_owned()));
        blocks.push(Block::List(document.machine.iter().map(parameter).collect()));
    }
    Ok(Summary { headline, blocks })
}

fn claims(claims: &[Claim]) -> Summary {
    let mut verdicts: Vec<(&str, usize)> = Vec::new();
    for claim in claims {
        match verdicts.iter_mut().find(|(verdict, _)| *verdict == claim.verdict) {
            Some((_, n)) => *n += 1,
            None => verdicts.push((&claim.verdict, 1)),
        }
    }
    let verdicts: Vec<String> = verdicts.iter().map(|(verdict, n)| format!("{verdict}: {n}")).collect();
    let headline = format!("{}; {}", counted(claims.len(), "claim", "claims"), verdicts.join("; "));
    let row =
        |claim: &Claim| vec![claim.claim.clone(), claim.verdict.clone(), claim.value.clone(), claim.basis.clone()];
    let grid = Block::Grid {
        caption: "What is claimed in public, and what the numbers say".to_owned(),
        header: vec!["claim", "verdict", "value", "basis"],
        rows: claims.iter().map(row).collect(),
    };
    Summary { headline: headline.clone(), blocks: vec![Block::Text(format!("{headline}.")), grid] }
}
