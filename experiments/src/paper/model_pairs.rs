//! model_pairs.csv: R2R at concurrency 4 on four pairs of Qwen3 models.
//!
//! Nothing is fitted here; the official code takes four times from ablation. The pairs differ in the rooflines of their models and in their layers; the routing probability is taken as published for
//! Qwen3-0.6B + Qwen3-32B, for no other was published. What a step of the official code takes longer without CUDA graphs is taken as it is on
//! that pair, whatever the model: launches of a framework, not work of a layer.

use super::Paper;
use super::ablation::Removed;
use super::detail::{Borrowed, Details, Effect, EffectScore};
use super::machine::{shape_of, tensor_parallel_of};
use super::published::R2R_P;
use super::report::{Cell, TableReport};
use super::setting::{Routing, Setting, Turns};
use crate::failure::Failure;

pub(super) fn report(paper: &Paper) -> Result<TableReport, Failure> {
    let (machine, removed) = (&paper.machine, Removed::fit(&paper.published));
    let mut cells = Vec::new();
    for (pair, number) in paper.published.model_pairs.iter().zip(1_u32..) {
        let [small, large] = [shape_of(&pair.small_model), shape_of(&pair.large_model)];
        let models = [machine.small(small, 1), machine.model(large, tensor_parallel_of(large))];
        let routing = Routing::Detour { p: R2R_P };
        let row = format!("{number}: {small} + {large}");
        let setting = Setting::shared(models, machine.corun, routing, pair.concurrency);
        let official = Setting { models: removed.official(models), ..setting.clone().turns(Turns::ModelSync) };
        let played = paper.player.play(&official)?;
        cells.push(Cell::new(&row, "r2r_official", pair.r2r_official, played.throughput).at(
            "",
            "r2r official",
            f64::from(number - 1),
        ));
        let (threshold, played) = paper.player.best(&setting)?;
        cells.push(Cell::new(&row, "tokenrouter", pair.tokenrouter, played.throughput).with_threshold(threshold).at(
            "",
            "tokenrouter",
            f64::from(number - 1),
        ));
    }
    let mut report = TableReport::new("model_pairs", cells);
    report.details = Details {
        borrowed: Borrowed::all("ablation", removed.parameters()),
        effects: effects(&report),
        ..Details::default()
    };
    let effects: Vec<String> = report.details.effects.iter().map(Effect::words).collect();
    let score = EffectScore::of(&report.details.effects, None).expect("nothing was fitted on a pair");
    report.reading = format!(
        "{}, with no parameter of its own but the {} of ablation for the official code. Serving system over official code, published (predicted): {}; {}.",
        report.error_words(),
        report.details.borrowed.len(),
        effects.join(", "),
        score.words()
    );
    Ok(report)
}

/// The serving system over the official code, by pair.
fn effects(report: &TableReport) -> Vec<Effect> {
    let mut rows: Vec<&str> = report.cells.iter().map(|cell| cell.row.as_str()).collect();
    rows.dedup();
    let effect = |row: &str| {
        let (system, official) = (report.cell(row, "tokenrouter"), report.cell(row, "r2r_official"));
        Effect::new("serving system over official code", row, 4, system, official)
    };
    rows.into_iter().map(effect).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::table;
    use super::*;

    #[test]
    fn pairs_rank_as_published_and_sizes_are_near() {
        let report = table("model_pairs");
        assert!(report.details.effects.iter().all(|effect| effect.published > 1.0 && effect.predicted > 1.0));
        let system: Vec<&Cell> = report.cells.iter().filter(|cell| cell.column == "tokenrouter").collect();
        for one in &system {
            for other in &system {
                let sign = (one.published - other.published) * (one.predicted.unwrap() - other.predicted.unwrap());
                assert!(sign >= 0.0, "{} and {}", one.row, other.row);
            }
        }
        let (mean, _) = report.errors(|_| true).unwrap();
        assert!(mean < 0.10, "{mean}");
        assert_eq!(report.cells.iter().filter(|cell| cell.error().is_some()).count(), 8);
    }
}
