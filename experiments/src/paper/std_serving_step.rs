//! std_serving_step.csv: one step of the small model in a standard server, to which every returning token is a new request.
//!
//! A list of operations of one step is nothing that a simulation of batches predicts. The table tells the price of a fresh handoff instead, in two
//! parameters: what walks the cache, and the rest.

use super::published::Published;
use super::report::{Cell, Parameter, TableReport};

/// The operations that find again what a request had in the cache.
const CACHE: [&str; 4] = ["prefix_matching", "locking_cache_nodes", "releasing_locks", "updating_radix_cache"];

/// What of the step does not walk the cache, ms: everything but that and inference.
fn fixed_ms(published: &Published) -> f64 {
    ms(published, "other")
}

/// What walks the cache, ms: matching the prefix, locking and releasing nodes, updating the tree.
fn cache_ms(published: &Published) -> f64 {
    CACHE.iter().map(|operation| ms(published, operation)).sum()
}

fn ms(published: &Published, operation: &str) -> f64 {
    let step = published.std_serving_step.iter().find(|step| step.operation == operation);
    step.unwrap_or_else(|| panic!("std_serving_step.csv has an operation `{operation}`")).ms
}

/// What a handoff costs in this server beside inference, ms.
pub(super) fn fresh_ms(published: &Published) -> f64 {
    fixed_ms(published) + cache_ms(published)
}

pub(super) fn report(published: &Published) -> TableReport {
    let cells = published
        .std_serving_step
        .iter()
        .zip(0_u32..)
        .map(|(step, number)| {
            // Every operation but inference gives one of the two parameters.
            Cell::unpredicted(&step.operation, "time", step.ms).calibrated(step.operation != "inference").at(
                "",
                "operations",
                f64::from(number),
            )
        })
        .collect();
    let (fresh_ms, inference_ms) = (fresh_ms(published), ms(published, "inference"));
    TableReport {
        parameters: vec![
            Parameter::new("fresh_fixed_ms", fixed_ms(published), "ms", "other"),
            Parameter::new("fresh_cache_ms", cache_ms(published), "ms", &CACHE.join(" + ")),
        ],
        reading: format!(
            "Nothing is predicted: the parts give the parameters. A fresh handoff costs {fresh_ms:.2} ms beside {inference_ms:.2} ms of inference, {:.0} % of the step; what resumes on kept KV pays none of it. For how many tokens of context the cache is walked was not published, so no price a token follows.",
            100.0 * fresh_ms / (fresh_ms + inference_ms)
        ),
        ..TableReport::new("std_serving_step", cells)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fresh_handoff_is_nearly_all_of_the_step() {
        let published = Published::read();
        let report = report(&published);
        assert!((cache_ms(&published) - 31.52).abs() < 1e-9 && (fixed_ms(&published) - 4.08).abs() < 1e-9);
        assert!(report.cells.iter().all(|cell| cell.error().is_none()), "no cell is a prediction");
        assert_eq!(report.cells.iter().filter(|cell| cell.calibrated_on_it).count(), 5);
        assert!(report.reading.contains("96 %"), "{}", report.reading);
    }
}
