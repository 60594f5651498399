//! What `paper` prints: tables, rows, the JSON document.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use serde::Serialize;

use super::Computed;
use super::claims::Claim;
use super::report::{Cell, Parameter, Row, Summary, TableReport, percent};
use crate::cli::Format;
use crate::failure::Failure;
use crate::output::document::{write_csv, write_json};
use crate::output::table::{Table, significant, terminal_width};

/// Raised whenever a field of the JSON documents changes its meaning or goes.
const SCHEMA: u32 = 1;

/// The JSON document of tables.
#[derive(Serialize)]
pub(super) struct Document<'a> {
    /// Every cell of every table asked for.
    pub(super) rows: Vec<Row>,
    /// One a table.
    tables: Vec<Summary<'a>>,
    /// Parameters of the machines, which all tables share.
    machine: Vec<Parameter>,
    /// All fitted parameters, each once: those of the machines and those that the tables asked for fit or borrow.
    n_parameters: usize,
    /// Published figures that stand in more than one of the tables asked for. Where the settings are the same they are one measurement and no two.
    repeats: Vec<Repeat>,
}

/// A published figure that stands in several tables.
#[derive(Serialize)]
struct Repeat {
    published: f64,
    /// Where it stands.
    cells: Vec<String>,
    /// How many of these cells are predicted and judged.
    judged: usize,
}

/// A row of `parameters.csv`.
#[derive(Serialize)]
pub(super) struct ParameterRow<'a> {
    table: &'a str,
    name: &'a str,
    value: f64,
    unit: &'static str,
    fitted_on: &'a str,
}

impl<'a> Document<'a> {
    pub(super) fn new(tables: &'a [TableReport], machine: Vec<Parameter>) -> Self {
        let mut document = Self {
            repeats: repeats(tables),
            rows: tables.iter().flat_map(TableReport::rows).collect(),
            tables: tables.iter().map(TableReport::summary).collect(),
            machine,
            n_parameters: 0,
        };
        document.n_parameters = document.parameter_rows().len();
        document
    }

    /// All fitted parameters, each once: what a table borrows is named with the table that it is fitted on.
    pub(super) fn parameter_rows(&self) -> Vec<ParameterRow<'_>> {
        let own = self.tables.iter().flat_map(Summary::named_parameters);
        let borrowed = self.tables.iter().flat_map(|table| &table.details.borrowed);
        let borrowed = borrowed.map(|borrowed| (borrowed.table, &borrowed.parameter));
        let mut seen = BTreeSet::new();
        let of_tables = own.chain(borrowed).filter(|(table, parameter)| seen.insert((*table, parameter.name.as_str())));
        let all = self.machine.iter().map(|parameter| ("machine", parameter)).chain(of_tables);
        all.map(|(table, parameter)| ParameterRow {
            table,
            name: &parameter.name,
            value: parameter.value,
            unit: parameter.unit,
            fitted_on: &parameter.fitted_on,
        })
        .collect()
    }
}

/// The figures that stand in several tables, to the last digit.
fn repeats(tables: &[TableReport]) -> Vec<Repeat> {
    let mut by_figure: BTreeMap<u64, Vec<(&'static str, &Cell)>> = BTreeMap::new();
    for (table, cell) in tables.iter().flat_map(|table| table.cells.iter().map(|cell| (table.heading.table, cell))) {
        // Positive floats sort as their bits do.
        by_figure.entry(cell.published.to_bits()).or_default().push((table, cell));
    }
    let several = by_figure.into_values().filter(|cells| cells.iter().any(|(table, _)| *table != cells[0].0));
    several
        .map(|cells| Repeat {
            published: cells[0].1.published,
            cells: cells.iter().map(|(table, cell)| format!("{table}: {}, {}", cell.row, cell.column)).collect(),
            judged: cells.iter().filter(|(_, cell)| cell.error().is_some()).count(),
        })
        .collect()
}

impl Computed {
    pub(super) fn write_json(&self, out: &mut dyn Write) -> io::Result<()> {
        match &self.claims {
            Some(claims) => write_json(out, SCHEMA, claims),
            None => write_json(out, SCHEMA, &self.document()),
        }
    }

    pub(super) fn print(&self, format: Format) -> Result<(), Failure> {
        let mut out = io::stdout().lock();
        match (format, &self.claims) {
            (Format::Json, _) => self.write_json(&mut out)?,
            (Format::Csv, Some(claims)) => write_csv(&mut out, &claims.claims)?,
            (Format::Csv, None) => write_csv(&mut out, &self.document().rows)?,
            (Format::Table, Some(claims)) => write_claims(&mut out, &claims.claims)?,
            (Format::Table, None) => self.write_tables(&mut out)?,
        }
        Ok(())
    }

    fn write_tables(&self, out: &mut dyn Write) -> io::Result<()> {
        for table in &self.tables {
            writeln!(out, "{}: {}", table.heading.table, table.heading.title)?;
            writeln!(out, "{}", cells(table).render(terminal_width()))?;
            if table.cells.iter().any(|cell| cell.calibrated_on_it) {
                writeln!(out, "* a parameter was fitted on this cell: no error, left out of the means")?;
            }
            write_parameters(out, "parameters of this table", &table.parameters)?;
            table.details.write(out)?;
            writeln!(out, "{}\n", table.reading)?;
        }
        let machine = self.paper.parameters();
        write_parameters(out, "parameters of the machines, shared by all tables", &machine)?;
        let Document { n_parameters, repeats, .. } = self.document();
        writeln!(out, "{n_parameters} parameters in all, each counted once")?;
        for Repeat { published, cells, judged } in repeats {
            let figure = significant(published, 5);
            writeln!(
                out,
                "{figure} stands in {} cells, {judged} of them predicted: {}",
                cells.len(),
                cells.join("; ")
            )?;
        }
        Ok(())
    }
}

fn cells(table: &TableReport) -> Table {
    let mut shown = Table::new()
        .text("row")
        .text("column")
        .key()
        .number(&format!("published, {}", table.heading.y_title))
        .number("predicted")
        .number("error")
        .number("threshold");
    for cell in &table.cells {
        shown.row([
            cell.row.clone(),
            cell.column.clone(),
            significant(cell.published, 4),
            cell.predicted.map_or_else(|| "-".to_owned(), |predicted| significant(predicted, 4)),
            match cell.error() {
                Some(error) => format!("{:+.1} %", error * 100.0),
                None if cell.calibrated_on_it => "*".to_owned(),
                None => "-".to_owned(),
            },
            cell.threshold.map_or_else(String::new, |threshold| threshold.to_string()),
        ]);
    }
    shown
}

fn write_parameters(out: &mut dyn Write, title: &str, parameters: &[Parameter]) -> io::Result<()> {
    if parameters.is_empty() {
        return Ok(());
    }
    writeln!(out, "{} {title}:", parameters.len())?;
    for Parameter { name, value, unit, fitted_on } in parameters {
        writeln!(out, "  {name} = {} {unit}, from {fitted_on}", significant(*value, 4))?;
    }
    Ok(())
}

fn write_claims(out: &mut dyn Write, claims: &[Claim]) -> io::Result<()> {
    for Claim { claim, value, verdict, basis } in claims {
        writeln!(out, "{claim}\n  value    {value}\n  verdict  {verdict}\n  basis    {basis}\n")?;
    }
    Ok(())
}

impl TableReport {
    /// The errors in words, for a reading.
    pub(super) fn error_words(&self) -> String {
        self.errors(|_| true).map_or_else(
            || "Nothing is predicted".to_owned(),
            |(mean, worst)| format!("Mean error {}, largest {}", percent(mean), percent(worst)),
        )
    }
}
