//! What a table says beside its cells: what it borrows, errors of parts, sizes of effects, and what other assumptions would give.

use std::io::{self, Write};

use serde::Serialize;

use super::report::{Cell, Parameter, TableReport, percent};
use crate::output::table::{Table, significant, terminal_width};

/// Everything beside the cells; what a table does not have is empty.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Details {
    /// Parameters that were fitted on cells of another table.
    pub(super) borrowed: Vec<Borrowed>,
    /// Errors of parts of the table.
    pub(super) parts: Vec<Part>,
    /// Ratios of two cells, whose sizes are judged apart from those of the cells.
    pub(super) effects: Vec<Effect>,
    /// What single cells would give for a parameter. Nothing is predicted with these.
    pub(super) implied: Vec<Implied>,
    /// What would be predicted under other assumptions.
    pub(super) alternatives: Vec<Alternative>,
}

/// A parameter of another table.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Borrowed {
    /// The table that it is fitted on.
    pub(super) table: &'static str,
    #[serde(flatten)]
    pub(super) parameter: Parameter,
}

/// What a cell would give for a parameter.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Implied {
    pub(super) parameter: &'static str,
    pub(super) value: f64,
    pub(super) unit: &'static str,
    /// Whose cell.
    pub(super) by: String,
    /// Which cell.
    pub(super) cell: String,
}

/// Errors of some of a table's cells, without those that a parameter was fitted on.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Part {
    part: String,
    cells: usize,
    mean_absolute_error: f64,
    max_absolute_error: f64,
}

/// One cell over another.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Effect {
    /// What is over what.
    effect: &'static str,
    pub(super) row: String,
    pub(super) concurrency: u32,
    /// The ratio of the published throughputs.
    pub(super) published: f64,
    /// The ratio of the predicted ones.
    pub(super) predicted: f64,
    /// predicted / published - 1; nothing where a parameter was fitted on both cells.
    error: Option<f64>,
    pub(super) calibrated_on_it: bool,
}

/// How well the effects of a table are predicted that nothing was fitted on.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct EffectScore {
    effects: usize,
    /// Above 1, or below, as published.
    signs_right: usize,
    /// Of the ratios.
    mean_absolute_error: f64,
    /// Mean of the published ratios.
    published_mean: f64,
    /// Mean of the predicted ratios.
    predicted_mean: f64,
}

/// What would be predicted under another assumption: of one cell, or of the whole table.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Alternative {
    pub(super) assumption: String,
    /// The cells meant.
    pub(super) cells: String,
    published: Option<f64>,
    pub(super) predicted: Option<f64>,
    /// Whether the prediction is above that of the large model alone, where this is asked.
    pub(super) above_large_only: Option<bool>,
    mean_absolute_error: Option<f64>,
    max_absolute_error: Option<f64>,
}

impl Borrowed {
    pub(super) fn all(table: &'static str, parameters: Vec<Parameter>) -> Vec<Self> {
        parameters.into_iter().map(|parameter| Self { table, parameter }).collect()
    }
}

impl Part {
    /// The part of a table that `wanted` picks.
    pub(super) fn new(report: &TableReport, part: &str, wanted: impl Fn(&Cell) -> bool) -> Self {
        let cells = report.cells.iter().filter(|cell| wanted(cell) && cell.error().is_some()).count();
        let (mean_absolute_error, max_absolute_error) =
            report.errors(wanted).unwrap_or_else(|| panic!("something is predicted in `{part}`"));
        Self { part: part.to_owned(), cells, mean_absolute_error, max_absolute_error }
    }

    pub(super) fn words(&self) -> String {
        format!("{} {} (largest {})", self.part, percent(self.mean_absolute_error), percent(self.max_absolute_error))
    }
}

impl Effect {
    /// `cell` over `base`.
    pub(super) fn new(effect: &'static str, row: &str, concurrency: u32, cell: &Cell, base: &Cell) -> Self {
        let predicted = |cell: &Cell| cell.predicted.unwrap_or(f64::NAN);
        let (published, predicted) = (cell.published / base.published, predicted(cell) / predicted(base));
        let calibrated_on_it = cell.calibrated_on_it && base.calibrated_on_it;
        let error = (!calibrated_on_it).then_some(predicted / published - 1.0);
        Self { effect, row: row.to_owned(), concurrency, published, predicted, error, calibrated_on_it }
    }

    /// Whether the effect goes the way that was published.
    pub(super) fn has_right_sign(&self) -> bool {
        (self.published - 1.0) * (self.predicted - 1.0) > 0.0
    }

    /// Published (predicted).
    pub(super) fn words(&self) -> String {
        format!("{} {:.2} ({:.2})", self.row, self.published, self.predicted)
    }
}

impl EffectScore {
    /// Over the effects that nothing was fitted on, at `concurrency` or at all; nothing if there are none.
    pub(super) fn of(effects: &[Effect], concurrency: Option<u32>) -> Option<Self> {
        let judged: Vec<&Effect> = effects
            .iter()
            .filter(|effect| !effect.calibrated_on_it && concurrency.is_none_or(|wanted| wanted == effect.concurrency))
            .collect();
        let mean = |value: &dyn Fn(&Effect) -> f64| {
            judged.iter().map(|effect| value(effect)).sum::<f64>() / judged.len() as f64
        };
        (!judged.is_empty()).then(|| Self {
            effects: judged.len(),
            signs_right: judged.iter().filter(|effect| effect.has_right_sign()).count(),
            mean_absolute_error: mean(&|effect| effect.error.map_or(0.0, f64::abs)),
            published_mean: mean(&|effect| effect.published),
            predicted_mean: mean(&|effect| effect.predicted),
        })
    }

    pub(super) fn words(&self) -> String {
        format!(
            "{} of {} signs are right, the ratios are {} off on average, their means {:.3} published and {:.3} predicted",
            self.signs_right,
            self.effects,
            percent(self.mean_absolute_error),
            self.published_mean,
            self.predicted_mean
        )
    }
}

impl Alternative {
    /// Of one cell, beside what the large model alone is predicted to make.
    pub(super) fn of_cell(assumption: String, cell: String, published: f64, predicted: f64, large_only: f64) -> Self {
        let error = (predicted / published - 1.0).abs();
        Self {
            assumption,
            cells: cell,
            published: Some(published),
            predicted: Some(predicted),
            above_large_only: Some(predicted > large_only),
            mean_absolute_error: Some(error),
            max_absolute_error: Some(error),
        }
    }

    /// Of a whole table; nothing where the assumption has no solution.
    pub(super) fn of_table(assumption: String, errors: Option<(f64, f64)>) -> Self {
        Self {
            assumption,
            cells: "all".to_owned(),
            published: None,
            predicted: None,
            above_large_only: None,
            mean_absolute_error: errors.map(|(mean, _)| mean),
            max_absolute_error: errors.map(|(_, worst)| worst),
        }
    }

    /// Mean and largest absolute error, if there is a prediction.
    pub(super) fn errors(&self) -> Option<(f64, f64)> {
        self.mean_absolute_error.zip(self.max_absolute_error)
    }

    /// Words for a list of alternatives to a whole table.
    pub(super) fn table_words(&self) -> String {
        let errors = self
            .errors()
            .map_or_else(|| "none".to_owned(), |(mean, worst)| format!("{} and {}", percent(mean), percent(worst)));
        format!("{errors} ({})", self.assumption)
    }
}

impl Details {
    /// What the terminal shows, each part as lines of its own.
    pub(super) fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        for Borrowed { table, parameter: Parameter { name, value, unit, .. } } in &self.borrowed {
            writeln!(out, "  borrowed from {table}: {name} = {} {unit}", significant(*value, 4))?;
        }
        for Part { part, cells, mean_absolute_error, max_absolute_error } in &self.parts {
            let [mean, worst] = [*mean_absolute_error, *max_absolute_error].map(percent);
            writeln!(out, "  {part}: mean error {mean} over {cells} cells, largest {worst}")?;
        }
        for Implied { parameter, value, unit, by, cell } in &self.implied {
            writeln!(out, "  {by} at {cell} alone would give {parameter} = {} {unit}", significant(*value, 4))?;
        }
        if !self.effects.is_empty() {
            let mut shown =
                Table::new().text("effect").text("row").number("C").key().number("published").number("predicted");
            shown = shown.number("error");
            for effect in &self.effects {
                shown.row([
                    effect.effect.to_owned(),
                    effect.row.clone(),
                    effect.concurrency.to_string(),
                    format!("{:.2}", effect.published),
                    format!("{:.2}", effect.predicted),
                    effect.error.map_or_else(|| "*".to_owned(), |error| format!("{:+.1} %", error * 100.0)),
                ]);
            }
            writeln!(out, "{}", shown.render(terminal_width()))?;
        }
        if !self.alternatives.is_empty() {
            let mut shown = Table::new().text("other assumption").text("cells").key();
            shown = shown.number("published").number("predicted").text("above large-only");
            shown = shown.number("mean error").number("largest");
            for alternative in &self.alternatives {
                let number = |value: Option<f64>| value.map_or_else(String::new, |value| significant(value, 4));
                let share = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), percent);
                shown.row([
                    alternative.assumption.clone(),
                    alternative.cells.clone(),
                    number(alternative.published),
                    number(alternative.predicted),
                    alternative.above_large_only.map_or("", |above| if above { "yes" } else { "no" }).to_owned(),
                    share(alternative.mean_absolute_error),
                    share(alternative.max_absolute_error),
                ]);
            }
            writeln!(out, "{}", shown.render(terminal_width()))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn effect(concurrency: u32, cells: [(f64, f64); 2], is_calibrated: bool) -> Effect {
        let [cell, base] =
            cells.map(|(published, predicted)| Cell::new("", "", published, predicted).calibrated(is_calibrated));
        Effect::new("two over one", "R2R", concurrency, &cell, &base)
    }

    /// Published 0.9, predicted 0.99 and 1.08: ratios are 10 % and 20 % off, and one sign is wrong.
    #[test]
    fn effects_are_judged_by_their_ratios() {
        let effects = [
            effect(4, [(90.0, 99.0), (100.0, 100.0)], false),
            effect(4, [(90.0, 108.0), (100.0, 100.0)], false),
            effect(1, [(50.0, 50.0), (100.0, 100.0)], true),
        ];
        let score = EffectScore::of(&effects, None).unwrap();
        assert_eq!((score.effects, score.signs_right), (2, 1));
        assert!((score.mean_absolute_error - 0.15).abs() < 1e-12);
        assert!((score.published_mean - 0.9).abs() < 1e-12 && (score.predicted_mean - 1.035).abs() < 1e-12);
        assert!(EffectScore::of(&effects, Some(1)).is_none(), "fitted effects are not judged");
        assert!(effects[2].error.is_none());
    }

    #[test]
    fn an_alternative_tells_its_sign_and_its_error() {
        let of = |predicted| Alternative::of_cell("b = 1".to_owned(), "cell".to_owned(), 100.0, predicted, 110.0);
        assert_eq!((of(120.0).above_large_only, of(105.0).above_large_only), (Some(true), Some(false)));
        assert!((of(80.0).errors().unwrap().0 - 0.2).abs() < 1e-12);
        assert_eq!(Alternative::of_table("x".to_owned(), None).table_words(), "none (x)");
    }
}
