//! What holds for all tables together: nothing leaks from a judged cell into its prediction, and docs/paper.md says what the code computes.

use std::sync::OnceLock;

use super::claims::sweep;
use super::*;

mod page;

/// One calibration for all tests.
pub(super) fn paper() -> &'static Paper {
    static PAPER: OnceLock<Paper> = OnceLock::new();
    PAPER.get_or_init(|| Paper::new(Player::new(SEED, Vec::new()), Published::read()).unwrap())
}

/// One sweep for all tests.
pub(super) fn curves() -> &'static [sweep::Curve] {
    static CURVES: OnceLock<Vec<sweep::Curve>> = OnceLock::new();
    CURVES.get_or_init(|| sweep::curves(paper()).unwrap())
}

/// All tables, once for all tests.
fn tables() -> &'static [TableReport] {
    static TABLES: OnceLock<Vec<TableReport>> = OnceLock::new();
    TABLES.get_or_init(|| PaperTable::TABLES.iter().map(|&table| paper().table(table).unwrap()).collect())
}

/// One of them.
pub(super) fn table(name: &str) -> &'static TableReport {
    tables().iter().find(|report| report.heading.table == name).unwrap()
}

/// The published figures with all that is judged made larger by this factor: what was measured for the threshold table, the pairs, and everything at
/// concurrency 4 and 8 but the large models alone, which `layer_ms` and `row_ms` are fitted on.
fn judged_cells_scaled(factor: f64) -> Published {
    let mut published = Published::read();
    published.threshold.iter_mut().for_each(|cell| cell.hardware *= factor);
    for row in &mut published.ablation {
        row.concurrency_4 *= factor;
        row.concurrency_8 *= factor;
    }
    for row in published.original_settings.iter_mut().filter(|row| row.implementation != "llm_only") {
        if row.concurrency == 4 {
            row.throughput = row.throughput.map(|throughput| throughput * factor);
            row.latency = row.latency.map(|latency| latency * factor);
        }
    }
    for row in published.placement.iter_mut().chain(&mut published.multi_node).filter(|row| row.concurrency == 4) {
        for throughput in [&mut row.r2r, &mut row.r_stitch, &mut row.citer] {
            *throughput *= factor;
        }
        row.co_llm = row.co_llm.map(|throughput| throughput * factor);
    }
    for pair in &mut published.model_pairs {
        pair.r2r_official *= factor;
        pair.tokenrouter *= factor;
    }
    published.parallel.iter_mut().for_each(|row| row.concurrency_4 *= factor);
    published
}

/// The rule of threshold.csv, and of all others: what is judged is used nowhere. With every judged cell changed, machines, parameters and predictions
/// are the same to the last bit.
#[test]
fn no_prediction_knows_a_judged_cell() {
    let scaled = Paper::new(paper().player.clone(), judged_cells_scaled(1.5)).unwrap();
    assert_eq!(scaled.machine, paper().machine);
    let values = |report: &TableReport| {
        let parameters: Vec<f64> = report.parameters.iter().map(|parameter| parameter.value).collect();
        let predicted: Vec<Option<f64>> = report.cells.iter().map(|cell| cell.predicted).collect();
        (parameters, predicted)
    };
    for (table, report) in PaperTable::TABLES.iter().zip(tables()) {
        let other = scaled.table(*table).unwrap();
        assert_eq!(values(&other), values(report), "{}", report.heading.table);
        for (cell, other) in report.cells.iter().zip(&other.cells) {
            let is_changed = (other.published / cell.published - 1.5).abs() < 1e-9;
            // Every cell that is judged was changed, but those at concurrency 1 that other cells at concurrency 1 predict.
            assert!(is_changed || cell.error().is_none() || cell.column.ends_with("concurrency 1"), "{cell:?}");
        }
    }
}

/// That the test above can fail: cells that parameters are fitted on do move them.
#[test]
fn fitted_cells_move_the_machines() {
    let mut published = Published::read();
    published.ablation.iter_mut().for_each(|row| row.concurrency_1 *= 0.99);
    let player = Player { replications: 1, tokens: 4096, ..paper().player.clone() };
    let [plain, scaled] =
        [Published::read(), published].map(|published| Paper::new(player.clone(), published).unwrap());
    assert_ne!(scaled.machine.routing_ms, plain.machine.routing_ms);
    assert_eq!(scaled.machine.layer_ms, plain.machine.layer_ms);
}

/// With R2R at concurrency 1 slowed by a fifth, all of which `routing_ms` takes up, a small step alone is longer than the published 6.0 ms.
#[test]
fn machines_without_co_run_rates_are_refused() {
    let mut published = Published::read();
    published.ablation.iter_mut().for_each(|row| row.concurrency_1 *= 0.8);
    published.placement.iter_mut().for_each(|row| row.r2r *= 0.8);
    published.parallel.iter_mut().for_each(|row| row.concurrency_1 *= 0.8);
    let player =
        Player { replications: 1, tokens: 4096, ..Player::new(SEED, vec!["scheduler.first=decode".to_owned()]) };
    let error = Paper::new(player, published).unwrap_err().to_string();
    for part in ["--set scheduler.first=decode: no co-run rates from 0.05 to 1", "6 and 27.9 ms", "at rates 1.00"] {
        assert!(error.contains(part), "{part}: {error}");
    }
}

/// Borrowed parameters count in each table that uses them and once in all.
#[test]
fn parameters_are_counted_once() {
    let n_parameters = |tables| {
        let document = Document::new(tables, paper().parameters());
        let count = serde_json::to_value(&document).unwrap()["n_parameters"].as_u64().unwrap() as usize;
        assert_eq!(document.parameter_rows().len(), count);
        count
    };
    let own: usize = tables().iter().map(|table| table.parameters.len()).sum();
    let borrowed: usize = tables().iter().map(|table| table.details.borrowed.len()).sum();
    assert_eq!((own, borrowed), (21, 9));
    assert_eq!(n_parameters(tables()), 5 + own);
    // A table alone counts what it borrows.
    assert_eq!((tables()[4].heading.table, n_parameters(&tables()[4..5])), ("model_pairs", 5 + 4));
}

/// One measurement that stands in several tables is named, so that nobody counts its errors as independent.
#[test]
fn figures_that_repeat_are_named() {
    let document = serde_json::to_value(Document::new(tables(), paper().parameters())).unwrap();
    let repeats = document["repeats"].as_array().unwrap();
    for (figure, cells) in [(197.40, 3), (228.94, 2), (116.14, 2), (308.36, 2)] {
        let found: Vec<_> = repeats.iter().filter(|repeat| repeat["published"] == figure).collect();
        assert_eq!(found.len(), 1, "{figure}");
        assert_eq!(
            (found[0]["cells"].as_array().unwrap().len(), found[0]["judged"].as_u64()),
            (cells, Some(cells as u64))
        );
    }
    assert!(
        repeats.iter().all(|repeat| repeat["published"] != 73.02),
        "a figure that one table has twice is no repeat"
    );
}

#[test]
fn the_same_seed_gives_the_same_bytes_on_any_number_of_threads() {
    let pool = |threads| rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
    let rows = |threads| {
        let computed = compute(&pool(threads), Player::new(3, Vec::new()), Some(PaperTable::Threshold)).unwrap();
        to_csv(&computed.document().rows).unwrap()
    };
    assert_eq!(rows(1), rows(2));
}
