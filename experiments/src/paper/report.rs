//! What a table's prediction consists of: cells, parameters, errors, a reading.

use serde::{Deserialize, Serialize};

use super::detail::{Details, EffectScore};
use super::headings::{Heading, heading};

/// A published table beside its prediction.
#[derive(Clone, Debug)]
pub(super) struct TableReport {
    /// Its name, and what is written beside its figure.
    pub(super) heading: &'static Heading,
    pub(super) cells: Vec<Cell>,
    /// Parameters that this table adds to those of the machines.
    pub(super) parameters: Vec<Parameter>,
    /// What it says beside its cells.
    pub(super) details: Details,
    /// What the table says, in a line or two.
    pub(super) reading: String,
}

/// A published figure and its prediction.
#[derive(Clone, Debug)]
pub(super) struct Cell {
    pub(super) row: String,
    pub(super) column: String,
    pub(super) published: f64,
    /// Nothing where the model has no prediction to offer.
    pub(super) predicted: Option<f64>,
    /// A parameter was fitted on this cell.
    pub(super) calibrated_on_it: bool,
    /// The threshold of the large model that the prediction runs with, if it has one.
    pub(super) threshold: Option<u32>,
    /// Panel, line and place along the x axis in the figure.
    place: Option<(String, String, f64)>,
}

/// A parameter, and where it comes from.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Parameter {
    /// Its name.
    pub(super) name: String,
    /// Its value.
    pub(super) value: f64,
    /// The unit of the value; empty for a ratio or a probability.
    pub(super) unit: &'static str,
    /// The published cells that it was fitted on.
    pub(super) fitted_on: String,
}

/// A cell as documents and `rows.csv` have it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Row {
    pub(super) table: String,
    pub(super) row: String,
    pub(super) column: String,
    pub(super) published: f64,
    pub(super) predicted: Option<f64>,
    /// predicted / published - 1; nothing for cells that a parameter was fitted on.
    pub(super) error: Option<f64>,
    pub(super) calibrated_on_it: bool,
    /// predicted / published - 1 of a cell that a parameter was fitted on.
    pub(super) fit_residual: Option<f64>,
    pub(super) threshold: Option<u32>,
    /// The panel of the figure, if it has several.
    pub(super) panel: Option<String>,
    /// The line of the figure; nothing for a cell that the figure does not show.
    pub(super) line: Option<String>,
    /// The place along the figure's x axis.
    pub(super) x: Option<f64>,
}

/// A table as documents have it.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Summary<'a> {
    table: &'static str,
    title: &'static str,
    /// Cells that were predicted.
    cells: usize,
    /// Cells that a parameter was fitted on, left out of the errors.
    calibrated_cells: usize,
    mean_absolute_error: Option<f64>,
    max_absolute_error: Option<f64>,
    /// Parameters beside those of the machines: the table's own and those that it borrows.
    n_parameters: usize,
    /// Fitted on this table.
    parameters: &'a [Parameter],
    #[serde(flatten)]
    pub(super) details: &'a Details,
    /// How well the effects are predicted that nothing was fitted on.
    effect_score: Option<EffectScore>,
    reading: &'a str,
}

impl<'a> Summary<'a> {
    /// The table's parameters, each with the table's name.
    pub(super) fn named_parameters(&self) -> impl Iterator<Item = (&'static str, &'a Parameter)> + use<'a> {
        let table = self.table;
        self.parameters.iter().map(move |parameter| (table, parameter))
    }
}

impl Parameter {
    pub(super) fn new(name: &str, value: f64, unit: &'static str, fitted_on: &str) -> Self {
        Self { name: name.to_owned(), value, unit, fitted_on: fitted_on.to_owned() }
    }
}

impl Cell {
    pub(super) fn new(row: &str, column: &str, published: f64, predicted: f64) -> Self {
        Self {
            row: row.to_owned(),
            column: column.to_owned(),
            published,
            predicted: Some(predicted),
            calibrated_on_it: false,
            threshold: None,
            place: None,
        }
    }

    /// A cell that the model has no prediction for.
    pub(super) fn unpredicted(row: &str, column: &str, published: f64) -> Self {
        Self { predicted: None, ..Self::new(row, column, published, f64::NAN) }
    }

    /// Marks a cell that a parameter was fitted on.
    pub(super) fn calibrated(self, calibrated_on_it: bool) -> Self {
        Self { calibrated_on_it, ..self }
    }

    /// Notes the threshold that the prediction runs with.
    pub(super) fn with_threshold(self, threshold: u32) -> Self {
        Self { threshold: Some(threshold), ..self }
    }

    /// Places the cell in the figure.
    pub(super) fn at(self, panel: &str, line: &str, x: f64) -> Self {
        Self { place: Some((panel.to_owned(), line.to_owned(), x)), ..self }
    }

    /// predicted / published - 1.
    pub(super) fn deviation(&self) -> Option<f64> {
        self.predicted.map(|predicted| predicted / self.published - 1.0)
    }

    /// The deviation, unless a parameter was fitted on the cell.
    pub(super) fn error(&self) -> Option<f64> {
        self.deviation().filter(|_| !self.calibrated_on_it)
    }
}

impl TableReport {
    /// The cells of a table under its heading, and nothing else yet.
    pub(super) fn new(table: &str, cells: Vec<Cell>) -> Self {
        let (parameters, details, reading) = (Vec::new(), Details::default(), String::new());
        Self { heading: heading(table), cells, parameters, details, reading }
    }

    pub(super) fn rows(&self) -> impl Iterator<Item = Row> + '_ {
        self.cells.iter().map(|cell| Row {
            table: self.heading.table.to_owned(),
            row: cell.row.clone(),
            column: cell.column.clone(),
            published: cell.published,
            predicted: cell.predicted,
            error: cell.error(),
            calibrated_on_it: cell.calibrated_on_it,
            fit_residual: cell.deviation().filter(|_| cell.calibrated_on_it),
            threshold: cell.threshold,
            panel: cell.place.as_ref().map(|(panel, ..)| panel.clone()).filter(|panel| !panel.is_empty()),
            line: cell.place.as_ref().map(|(_, line, _)| line.clone()),
            x: cell.place.as_ref().map(|(.., x)| *x),
        })
    }

    /// Mean and largest absolute error over the cells that no parameter was fitted on and that `wanted` picks; nothing if there are none.
    pub(super) fn errors(&self, wanted: impl Fn(&Cell) -> bool) -> Option<(f64, f64)> {
        let errors: Vec<f64> =
            self.cells.iter().filter(|cell| wanted(cell)).filter_map(Cell::error).map(f64::abs).collect();
        let mean = errors.iter().sum::<f64>() / errors.len() as f64;
        let worst = errors.iter().copied().fold(0.0, f64::max);
        (!errors.is_empty()).then_some((mean, worst))
    }

    /// The cell of this row and column.
    pub(super) fn cell(&self, row: &str, column: &str) -> &Cell {
        let found = self.cells.iter().find(|cell| (cell.row.as_str(), cell.column.as_str()) == (row, column));
        found.unwrap_or_else(|| panic!("{} has a cell `{row}`, `{column}`", self.heading.table))
    }

    pub(super) fn summary(&self) -> Summary<'_> {
        let errors = self.errors(|_| true);
        Summary {
            table: self.heading.table,
            title: self.heading.title,
            cells: self.cells.iter().filter(|cell| cell.error().is_some()).count(),
            calibrated_cells: self.cells.iter().filter(|cell| cell.calibrated_on_it).count(),
            mean_absolute_error: errors.map(|(mean, _)| mean),
            max_absolute_error: errors.map(|(_, worst)| worst),
            n_parameters: self.parameters.len() + self.details.borrowed.len(),
            parameters: &self.parameters,
            details: &self.details,
            effect_score: EffectScore::of(&self.details.effects, None),
            reading: &self.reading,
        }
    }
}

/// `12.3 %`
pub(super) fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

#[cfg(test)]
mod tests {
    use super::super::detail::Borrowed;
    use super::*;

    fn report() -> TableReport {
        TableReport {
            heading: heading("ablation"),
            cells: vec![
                Cell::new("a", "1", 100.0, 101.0).calibrated(true).at("", "a", 1.0),
                Cell::new("a", "4", 200.0, 180.0).with_threshold(2).at("", "a", 4.0),
                Cell::new("b", "4", 200.0, 204.0).at("", "b", 4.0),
                Cell::unpredicted("c", "4", 10.0),
            ],
            parameters: vec![Parameter::new("speed", 2.0, "m/s", "row a")],
            details: Details {
                borrowed: Borrowed::all("other", vec![Parameter::new("mass", 1.0, "kg", "row b")]),
                ..Details::default()
            },
            reading: String::new(),
        }
    }

    #[test]
    fn a_fitted_cell_has_a_residual_and_no_error() {
        let rows: Vec<Row> = report().rows().collect();
        assert_eq!((rows[0].error, rows[0].calibrated_on_it), (None, true));
        assert!((rows[0].fit_residual.unwrap() - 0.01).abs() < 1e-12);
        assert!((rows[1].error.unwrap() + 0.1).abs() < 1e-12 && rows[1].fit_residual.is_none());
        assert_eq!((rows[1].threshold, rows[3].predicted, rows[3].error), (Some(2), None, None));
    }

    #[test]
    fn errors_are_those_of_predicted_cells() {
        let report = report();
        let (mean, worst) = report.errors(|_| true).unwrap();
        assert!((mean - 0.06).abs() < 1e-12 && (worst - 0.1).abs() < 1e-12);
        assert_eq!(report.errors(|cell| cell.row == "c"), None);
        let summary = serde_json::to_value(report.summary()).unwrap();
        assert_eq!((summary["cells"].as_u64(), summary["calibrated_cells"].as_u64()), (Some(2), Some(1)));
        assert_eq!(
            (summary["n_parameters"].as_u64(), summary["borrowed"][0]["table"].as_str()),
            (Some(2), Some("other"))
        );
    }

    #[test]
    fn rows_say_where_they_stand_in_the_figure() {
        let rows: Vec<Row> = report().rows().collect();
        assert_eq!((rows[1].panel.as_deref(), rows[1].line.as_deref(), rows[1].x), (None, Some("a"), Some(4.0)));
        assert_eq!((rows[3].line.as_deref(), rows[3].x), (None, None));
    }
}
