//! multi_node.csv: both models in one node, and in two.
//!
//! Each model has GPUs of its own. A routing probability an algorithm is fitted in one node at concurrency 1 (R2R has its published one), and the
//! latency of a message between the nodes on R2R in two nodes at concurrency 1; its bandwidth is published.

use super::Paper;
use super::headings::heading;
use super::placement::{routing, separate_pair};
use super::published::{self, MultiNode, NODES_GB_PER_S, R2R_P};
use super::report::{Cell, Parameter, TableReport};
use super::routed::{Algorithm, fitted};
use super::setting::Setting;
use crate::failure::Failure;

const ALGORITHMS: [Algorithm; 3] = [Algorithm::RStitch, Algorithm::R2r, Algorithm::Citer];

fn row(concurrency: u32, nodes: &str) -> MultiNode {
    let of = |row: &MultiNode| (row.concurrency, row.nodes.as_str()) == (concurrency, nodes);
    published::multi_node().into_iter().find(of).expect("multi_node.csv has one and two nodes at concurrency 1 and 4")
}

fn published_of(row: &MultiNode, algorithm: Algorithm) -> f64 {
    match algorithm {
        Algorithm::R2r => row.r2r,
        Algorithm::RStitch => row.r_stitch,
        Algorithm::Citer => row.citer,
        Algorithm::CoLlm => unreachable!("multi_node.csv has no Co-LLM"),
    }
}

/// Latency of a message between two nodes, us: the difference of the times a token of R2R, over the 2 p handoffs of a token.
fn hop_us() -> f64 {
    let token_us = |nodes: &str| 1e6 / row(1, nodes).r2r;
    (token_us("two") - token_us("one")) / (2.0 * R2R_P)
}

pub(super) fn report(paper: &Paper) -> Result<TableReport, Failure> {
    let machine = &paper.machine;
    let models = separate_pair(machine);
    let mut parameters = vec![Parameter::new("hop_us", hop_us(), "us", "concurrency 1, R2R, two nodes against one")];
    let mut cells = Vec::new();
    for algorithm in ALGORITHMS {
        let routing = routing(algorithm, &models, published_of(&row(1, "one"), algorithm));
        if algorithm != Algorithm::R2r {
            let (name, value) = fitted(algorithm, routing);
            let on = format!("concurrency 1, {}, one node", algorithm.name());
            parameters.push(Parameter::new(&name, value, "", &on));
        }
        for nodes in ["one", "two"] {
            let setting = |concurrency: u32| Setting {
                hop: (nodes == "two").then_some((hop_us(), NODES_GB_PER_S)),
                ..Setting::shared(models, machine.corun, routing, concurrency).separate()
            };
            for concurrency in [1, 4] {
                let cell = |predicted: f64| {
                    let published = published_of(&row(concurrency, nodes), algorithm);
                    Cell::new(algorithm.name(), &column(nodes, concurrency), published, predicted).at(
                        &format!("nodes: {nodes}"),
                        algorithm.name(),
                        f64::from(concurrency),
                    )
                };
                cells.push(if concurrency == 1 {
                    let is_calibrated = nodes == "one" || algorithm == Algorithm::R2r;
                    cell(setting(1).alone()).calibrated(is_calibrated)
                } else {
                    let (threshold, played) = paper.player.best(&setting(concurrency))?;
                    cell(played.throughput).with_threshold(threshold)
                });
            }
        }
    }
    let mut report = TableReport { heading: heading("multi_node"), cells, parameters, reading: String::new() };
    let losses = ALGORITHMS.map(|algorithm| {
        let (published, predicted) = ratio(&report, algorithm, 4);
        format!("{} {published:.2} ({predicted:.2})", algorithm.name())
    });
    let words = report.error_words();
    report.reading =
        format!("{words}. Two nodes over one at concurrency 4, published (predicted): {}.", losses.join(", "));
    Ok(report)
}

fn column(nodes: &str, concurrency: u32) -> String {
    format!("nodes: {nodes}, concurrency {concurrency}")
}

/// Throughput in two nodes over that in one: published, predicted.
fn ratio(report: &TableReport, algorithm: Algorithm, concurrency: u32) -> (f64, f64) {
    let cell = |nodes: &str| report.cell(algorithm.name(), &column(nodes, concurrency));
    let (two, one) = (cell("two"), cell("one"));
    let predicted = |cell: &Cell| cell.predicted.unwrap_or(f64::NAN);
    (two.published / one.published, predicted(two) / predicted(one))
}

#[cfg(test)]
mod tests {
    use super::super::tests::paper;
    use super::*;

    #[test]
    fn a_second_node_costs_and_the_size_is_near() {
        let report = report(paper()).unwrap();
        for algorithm in ALGORITHMS {
            for concurrency in [1, 4] {
                let (published, predicted) = ratio(&report, algorithm, concurrency);
                assert!(published < 1.0 && predicted < 1.0, "{algorithm:?} at {concurrency}: {predicted}");
            }
        }
        let (mean, _) = report.errors(|_| true).unwrap();
        assert!(mean < 0.10, "{mean}");
    }

    /// 74.90 against 69.92 tokens/s are 0.951 ms a token, over 0.7 handoffs.
    #[test]
    fn a_message_between_nodes_takes_more_than_a_millisecond() {
        assert!((hop_us() - 1358.0).abs() < 5.0, "{}", hop_us());
    }
}
