//! Claims about ablation.csv.

use super::super::published::Published;
use super::{Claim, Verdict};

const CONCURRENCIES: [u32; 3] = [1, 4, 8];

fn throughput(published: &Published, row: &str, concurrency: u32) -> f64 {
    let row = published.ablation(row);
    match concurrency {
        1 => row.concurrency_1,
        4 => row.concurrency_4,
        8 => row.concurrency_8,
        other => panic!("ablation.csv has no concurrency {other}"),
    }
}

/// The rows from the one that lacks everything to the one that lacks nothing, each with what it has that the one before lacks.
const STEPS: [(&str, &str); 6] = [
    ("and_without_slm_graph", ""),
    ("and_without_llm_graph", "the small model's CUDA graph"),
    ("and_without_router_graph", "the large model's CUDA graph"),
    ("and_without_async", "the router's CUDA graph"),
    ("without_delayed_batching", "asynchronous execution"),
    ("tokenrouter", "delayed batching"),
];

/// What brings the throughput from one value to another at a concurrency, if both are in the column.
fn between(published: &Published, from: f64, to: f64, concurrency: u32) -> Vec<&'static str> {
    let position = |value: f64| STEPS.iter().position(|(row, _)| throughput(published, row, concurrency) == value);
    match (position(from), position(to)) {
        (Some(from), Some(to)) if from < to => STEPS[from + 1..=to].iter().map(|(_, what)| *what).collect(),
        _ => Vec::new(),
    }
}

pub(super) fn claims(published: &Published) -> Vec<Claim> {
    vec![steps(published), at_concurrency_1(published), whole_gain(published)]
}

fn steps(published: &Published) -> Claim {
    let claimed = [
        (132.78, 228.10, "the router's CUDA graph"),
        (228.10, 230.79, "asynchronous execution"),
        (296.86, 372.48, "delayed batching"),
    ];
    let column: Vec<String> = STEPS
        .iter()
        .map(|(row, what)| {
            let value = throughput(published, row, 8);
            if what.is_empty() { format!("{value:.2}") } else { format!("-> {value:.2} by {what}") }
        })
        .collect();
    let right = claimed.map(|(from, to, what)| between(published, from, to, 8) == [what]);
    Claim::new(
        "the steps are 132.78 -> 228.10 by the router's CUDA graph -> 230.79 by asynchronous execution -> 296.86 -> 372.48 by delayed batching (compare the row names)",
        format!(
            "concurrency 8: {}; {} of the 3 named steps has its right name",
            column.join(" "),
            right.iter().filter(|right| **right).count()
        ),
        // A chain of steps is right if each step is.
        Verdict::of(right.iter().all(|right| *right)),
        "ablation: a row lacks what its name says and all that rows above it lack. The figures are those of the table, but the names slipped by a row: 132.78 -> 228.10 are the graphs of both models, the router's graph is 228.10 -> 230.79, asynchrony is 230.79 -> 296.86",
    )
}

fn at_concurrency_1(published: &Published) -> Claim {
    let column: Vec<f64> = STEPS.iter().map(|(row, _)| throughput(published, row, 1)).collect();
    let all_but_two = column.iter().filter(|value| **value == 73.02).count() + 2 >= column.len();
    let graph_lowers =
        throughput(published, "and_without_router_graph", 1) < throughput(published, "and_without_llm_graph", 1);
    let delayed_raises = throughput(published, "tokenrouter", 1) > throughput(published, "without_delayed_batching", 1);
    let value = column.iter().map(|value| format!("{value:.2}")).collect::<Vec<_>>().join(", ");
    let where_75: Vec<String> = CONCURRENCIES
        .iter()
        .flat_map(|&concurrency| STEPS.iter().map(move |(row, _)| (row, concurrency)))
        .filter(|(row, concurrency)| throughput(published, row, *concurrency) == 75.54)
        .map(|(row, concurrency)| format!("{row} at concurrency {concurrency}"))
        .collect();
    Claim::new(
        "at concurrency 1 every configuration gives 73.02, except that the large model's CUDA graph makes it fall to 51.22 and delayed batching makes it rise to 75.54 (compare: which way do rows accumulate, and which column is 75.54 in?)",
        format!("concurrency 1, from no optimisation to all: {value}; 75.54 is {}", where_75.join(", ")),
        Verdict::of_parts(&[all_but_two, graph_lowers, delayed_raises]),
        "ablation: rows take away, so the large model's graph raises 51.22 to 72.62 and the small one's 34.20 to 51.22; delayed batching changes nothing at concurrency 1; 75.54 is in the column of concurrency 4",
    )
}

fn whole_gain(published: &Published) -> Claim {
    let gains = CONCURRENCIES.map(|concurrency| {
        let of = |row: &str| throughput(published, row, concurrency);
        [
            of("and_without_async") / of("and_without_slm_graph"),
            of("without_delayed_batching") / of("and_without_async"),
            of("tokenrouter") / of("without_delayed_batching"),
        ]
    });
    let words: Vec<String> = CONCURRENCIES
        .iter()
        .zip(&gains)
        .map(|(concurrency, [graphs, asynchrony, delayed])| {
            format!(
                "concurrency {concurrency}: {:.2} = graphs {graphs:.2} x asynchrony {asynchrony:.2} x delayed batching {delayed:.2}",
                graphs * asynchrony * delayed
            )
        })
        .collect();
    let alone: f64 = gains[0].iter().product();
    let logarithms = gains.map(|parts| parts.iter().product::<f64>().ln());
    Claim::new(
        "the whole gain comes from concurrency; for a single request the optimisations are useless (split the gain at each concurrency into graphs, asynchrony, delayed batching)",
        format!(
            "{}; a single request has {:.0} % of the logarithm of the gain at concurrency 4, and {:.0} % of that at 8",
            words.join("; "),
            100.0 * logarithms[0] / logarithms[1],
            100.0 * logarithms[0] / logarithms[2]
        ),
        Verdict::of(alone <= 1.0),
        "ablation: tokenrouter over and_without_slm_graph. A single request gains by CUDA graphs alone, and more by them than concurrent ones do; asynchrony and delayed batching need concurrency",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the basis says: 2.14 against 1.90 and 1.74.
    #[test]
    fn graphs_give_a_single_request_the_most() {
        let published = Published::read();
        let graphs = CONCURRENCIES.map(|concurrency| {
            throughput(&published, "and_without_async", concurrency)
                / throughput(&published, "and_without_slm_graph", concurrency)
        });
        assert!(graphs[0] > graphs[1] && graphs[1] > graphs[2], "{graphs:?}");
    }
}
