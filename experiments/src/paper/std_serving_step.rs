//! std_serving_step.csv: one step of the small model in a standard server, to which every returning token is a new request.
//!
//! A list of operations of one step is nothing that a simulation of batches predicts. The table tells the price of a fresh handoff instead, in two
//! parameters, and with them what the published operations add up to.

use super::headings::heading;
use super::published;
use super::report::{Cell, Parameter, TableReport};

/// The published price of a context token in a fresh handoff, us. With it the operations that walk the context stand for 2,101 tokens.
pub(super) const PER_CONTEXT_TOKEN_US: f64 = 15.0;

/// What of the step does not grow with the context, ms: everything but matching, locking and updating the cache, and inference.
pub(super) fn fixed_ms() -> f64 {
    ms("other")
}

/// What walks the context, ms: matching the prefix, locking and releasing nodes, updating the tree.
pub(super) fn context_ms() -> f64 {
    ["prefix_matching", "locking_cache_nodes", "releasing_locks", "updating_radix_cache"].map(ms).iter().sum()
}

/// The forward, ms.
pub(super) fn inference_ms() -> f64 {
    ms("inference")
}

fn ms(operation: &str) -> f64 {
    let step = published::std_serving_step().into_iter().find(|step| step.operation == operation);
    step.unwrap_or_else(|| panic!("std_serving_step.csv has an operation `{operation}`")).ms
}

pub(super) fn report() -> TableReport {
    let mut cells: Vec<Cell> = published::std_serving_step()
        .iter()
        .zip(0_u32..)
        .map(|(step, number)| {
            Cell::unpredicted(&step.operation, "time", step.ms).at("", "operations", f64::from(number))
        })
        .collect();
    let context_tokens = context_ms() * 1e3 / PER_CONTEXT_TOKEN_US;
    let total_ms: f64 = published::std_serving_step().iter().map(|step| step.ms).sum();
    let predicted_ms = fixed_ms() + context_tokens * PER_CONTEXT_TOKEN_US * 1e-3 + inference_ms();
    cells.push(Cell::new("whole step", "time", total_ms, predicted_ms).calibrated(true));
    TableReport {
        heading: heading("std_serving_step"),
        cells,
        parameters: vec![
            Parameter::new("fresh_fixed_ms", fixed_ms(), "ms", "other"),
            Parameter::new(
                "fresh_context_tokens",
                context_tokens,
                "tokens",
                "prefix_matching + locking_cache_nodes + releasing_locks + updating_radix_cache, at 15 us a token",
            ),
        ],
        reading: format!(
            "Nothing is predicted: the parts give the parameters. A fresh handoff costs {:.2} ms beside {:.2} ms of inference, {:.0} % of the step; what resumes on kept KV pays none of it.",
            fixed_ms() + context_ms(),
            inference_ms(),
            100.0 * (fixed_ms() + context_ms()) / total_ms
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fresh_handoff_is_nearly_all_of_the_step() {
        let report = report();
        assert!((context_ms() - 31.52).abs() < 1e-9 && (fixed_ms() - 4.08).abs() < 1e-9);
        assert!((report.parameters[1].value - 2101.3).abs() < 0.1);
        assert!(report.cells.iter().all(|cell| cell.error().is_none()), "no cell is a prediction");
        assert!(report.reading.contains("96 %"), "{}", report.reading);
    }
}
