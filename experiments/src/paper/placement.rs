//! placement.csv: both models on shared GPUs, and on separate ones.
//!
//! A routing probability an algorithm is fitted on the shared placement at concurrency 1 (R2R has its published one), and `switch_ms` on R2R at
//! concurrency 1: what every step takes longer on a GPU that another process uses too, even while that one waits. Everything at concurrency 4 and
//! all other separate cells are predicted.

use super::Paper;
use super::headings::heading;
use super::machine::{Machine, Model};
use super::published::{self, Placement, R2R_P};
use super::report::{Cell, Parameter, TableReport};
use super::routed::{Algorithm, fitted};
use super::setting::{Routing, Setting};
use crate::failure::Failure;

const ALGORITHMS: [Algorithm; 4] = [Algorithm::R2r, Algorithm::RStitch, Algorithm::CoLlm, Algorithm::Citer];

/// What every step of a model takes longer where another process has the GPU too, ms. From R2R at concurrency 1: the difference of the times a
/// token, over the 1 + p steps of a token.
pub(super) fn switch_ms() -> f64 {
    let r2r = |placement: &str| 1e3 / row(1, placement).r2r;
    (r2r("shared") - r2r("separate")) / (1.0 + R2R_P)
}

/// The pair with each model on GPUs of its own.
pub(super) fn separate_pair(machine: &Machine) -> [Model; 2] {
    machine.pair().map(|model| model.plus_ms(-switch_ms()))
}

fn row(concurrency: u32, placement: &str) -> Placement {
    let of = |row: &Placement| (row.concurrency, row.placement.as_str()) == (concurrency, placement);
    published::placement().into_iter().find(of).expect("placement.csv has both placements at concurrency 1 and 4")
}

fn published_of(row: &Placement, algorithm: Algorithm) -> f64 {
    match algorithm {
        Algorithm::R2r => row.r2r,
        Algorithm::RStitch => row.r_stitch,
        Algorithm::CoLlm => row.co_llm,
        Algorithm::Citer => row.citer,
    }
}

/// The routing of an algorithm on the pair, from one of its cells at concurrency 1; R2R has its published one.
pub(super) fn routing(algorithm: Algorithm, models: &[Model; 2], throughput: f64) -> Routing {
    match algorithm {
        Algorithm::R2r => Routing::Detour { p: R2R_P },
        _ => algorithm.routing(models, throughput, super::machine::OUTPUT_TOKENS),
    }
}

pub(super) fn report(paper: &Paper) -> Result<TableReport, Failure> {
    let machine = &paper.machine;
    let mut parameters =
        vec![Parameter::new("switch_ms", switch_ms(), "ms", "concurrency 1, R2R, separate against shared")];
    let mut cells = Vec::new();
    for algorithm in ALGORITHMS {
        let routing = routing(algorithm, &machine.pair(), published_of(&row(1, "shared"), algorithm));
        if algorithm != Algorithm::R2r {
            let (name, value) = fitted(algorithm, routing);
            let on = format!("concurrency 1, {}, shared", algorithm.name());
            parameters.push(Parameter::new(&name, value, "", &on));
        }
        for placement in ["shared", "separate"] {
            let setting = |concurrency: u32| {
                let shared = Setting::shared(machine.pair(), machine.corun, routing, concurrency);
                match placement {
                    "shared" => shared,
                    _ => Setting { models: separate_pair(machine), ..shared.separate() },
                }
            };
            for concurrency in [1, 4] {
                let cell = |predicted: f64| {
                    let published = published_of(&row(concurrency, placement), algorithm);
                    Cell::new(algorithm.name(), &column(placement, concurrency), published, predicted).at(
                        placement,
                        algorithm.name(),
                        f64::from(concurrency),
                    )
                };
                cells.push(if concurrency == 1 {
                    let is_calibrated = placement == "shared" || algorithm == Algorithm::R2r;
                    cell(setting(1).alone()).calibrated(is_calibrated)
                } else {
                    let (threshold, played) = paper.player.best(&setting(concurrency))?;
                    cell(played.throughput).with_threshold(threshold)
                });
            }
        }
    }
    let mut report = TableReport { heading: heading("placement"), cells, parameters, reading: String::new() };
    let gains = ALGORITHMS.map(|algorithm| {
        let (published, predicted) = gain(&report, algorithm, 4);
        format!("{} {published:.2} ({predicted:.2})", algorithm.name())
    });
    let words = report.error_words();
    report.reading =
        format!("{words}. Separate over shared at concurrency 4, published (predicted): {}.", gains.join(", "));
    Ok(report)
}

fn column(placement: &str, concurrency: u32) -> String {
    format!("{placement}, concurrency {concurrency}")
}

/// Throughput on separate GPUs over that on shared ones: published, predicted.
fn gain(report: &TableReport, algorithm: Algorithm, concurrency: u32) -> (f64, f64) {
    let cell = |placement: &str| report.cell(algorithm.name(), &column(placement, concurrency));
    let (separate, shared) = (cell("separate"), cell("shared"));
    let predicted = |cell: &Cell| cell.predicted.unwrap_or(f64::NAN);
    (separate.published / shared.published, predicted(separate) / predicted(shared))
}

#[cfg(test)]
mod tests {
    use super::super::tests::paper;
    use super::*;

    #[test]
    fn separate_gpus_are_faster_for_every_algorithm_and_the_size_is_near() {
        let report = report(paper()).unwrap();
        for algorithm in ALGORITHMS {
            for concurrency in [1, 4] {
                let (published, predicted) = gain(&report, algorithm, concurrency);
                assert!(published > 1.0 && predicted > 1.0, "{algorithm:?} at {concurrency}: {predicted}");
            }
        }
        let (mean, _) = report.errors(|_| true).unwrap();
        assert!(mean < 0.10, "{mean}");
        // 16 cells, of which the four shared ones at concurrency 1 and one of R2R were fitted on.
        assert_eq!(report.cells.iter().filter(|cell| cell.error().is_some()).count(), 11);
    }
}
