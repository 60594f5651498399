//! parallel.csv: R2R by tensor-parallel sizes and sharing of GPUs.
//!
//! Nothing is fitted here but what other tables fitted. A tensor-parallel size divides the roofline; the time of a layer stays.

use super::Paper;
use super::detail::{Borrowed, Details, Part};
use super::machine::PAIR;
use super::placement::{switch, switch_ms};
use super::published::R2R_P;
use super::report::{Cell, TableReport};
use super::setting::{Routing, Setting};
use crate::failure::Failure;

pub(super) fn report(paper: &Paper) -> Result<TableReport, Failure> {
    let (machine, switch_ms) = (&paper.machine, switch_ms(&paper.published));
    let mut cells = Vec::new();
    for row in &paper.published.parallel {
        let shares = row.overlap == "yes";
        let models = [machine.small(PAIR[0], row.slm_tp), machine.model(PAIR[1], row.llm_tp)];
        let setting = |concurrency: u32| {
            let shared = Setting::shared(models, machine.corun, Routing::Detour { p: R2R_P }, concurrency);
            if shares {
                return shared;
            }
            Setting { models: models.map(|model| model.plus_ms(-switch_ms)), ..shared.separate() }
        };
        let name = format!(
            "{} GPUs, small on {}, large on {}, {}",
            row.total_gpus,
            row.slm_tp,
            row.llm_tp,
            if shares { "shared" } else { "separate" }
        );
        let label = format!("{} + {}{}", row.slm_tp, row.llm_tp, if shares { "" } else { ", apart" });
        let panel = format!("{} GPUs", row.total_gpus);
        // One of the three runs of R2R at concurrency 1 that `routing_ms` is fitted on.
        let is_calibrated = (row.total_gpus, row.slm_tp, row.llm_tp) == (2, 1, 2);
        cells.push(
            Cell::new(&name, "concurrency 1", row.concurrency_1, setting(1).alone())
                .calibrated(is_calibrated)
                .at(&panel, &label, 1.0),
        );
        let (threshold, played) = paper.player.best(&setting(4))?;
        cells.push(
            Cell::new(&name, "concurrency 4", row.concurrency_4, played.throughput)
                .with_threshold(threshold)
                .at(&panel, &label, 4.0),
        );
    }
    let mut report = TableReport::new("parallel", cells);
    report.details = Details {
        borrowed: Borrowed::all("placement", vec![switch(&paper.published)]),
        parts: vec![
            Part::new(&report, "two GPUs", |cell| cell.row.starts_with("2 GPUs")),
            Part::new(&report, "eight GPUs", |cell| cell.row.starts_with("8 GPUs")),
        ],
        ..Details::default()
    };
    let words = report.error_words();
    report.reading = format!(
        "{words}, with no parameter of its own ({switch_ms:.2} ms a step for separate GPUs is that of placement). A roofline that divides by the number of GPUs, and a time a layer that does not, say what a tensor-parallel size is worth."
    );
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::super::tests::table;

    #[test]
    fn tensor_parallel_sizes_are_worth_what_was_published() {
        let report = table("parallel");
        let (mean, worst) = report.errors(|_| true).unwrap();
        assert!(mean < 0.10, "{mean} {worst}");
        // Four GPUs for each model beat one for each, predicted as published.
        let of = |row: &str| report.cell(row, "concurrency 4").predicted.unwrap();
        assert!(of("8 GPUs, small on 4, large on 4, separate") > 1.3 * of("2 GPUs, small on 1, large on 1, separate"));
    }
}
