//! The JSON document and the CSV rows of `tune --compare`. Throughput is in tokens per second.

use handoff_sim::analytic::tune::Method;
use handoff_sim::engine::Report;
use serde::{Deserialize, Serialize};

/// One placement in one mode at one concurrency, or the large model alone.
#[derive(Clone, Debug, Serialize)]
pub(super) struct CompareCell {
    pub(super) concurrency: u32,
    /// `separate`, `overlapped`, `exclusive`; in mode `large-only`, how many large models there are.
    pub(super) placement: String,
    pub(super) order: Option<String>,
    /// `delayed` with the best thresholds, `eager`, `step-sync`, `model-sync`, or `large-only`.
    pub(super) mode: String,
    pub(super) thresholds: Option<Vec<u32>>,
    /// The method that chose the thresholds; throughput is simulated everywhere.
    pub(super) thresholds_by: Option<Method>,
    pub(super) throughput: f64,
    pub(super) ci_low: Option<f64>,
    pub(super) ci_high: Option<f64>,
}

/// A row of rows.csv.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct CompareRow {
    pub(super) concurrency: u32,
    pub(super) placement: String,
    pub(super) order: Option<String>,
    pub(super) mode: String,
    /// One threshold a model, separated by blanks.
    pub(super) thresholds: String,
    pub(super) throughput: f64,
    pub(super) ci_low: Option<f64>,
    pub(super) ci_high: Option<f64>,
    pub(super) thresholds_by: Option<String>,
}

/// The best placement at one concurrency, and the best of those on one device.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Winner {
    pub(super) concurrency: u32,
    pub(super) placement: String,
    pub(super) thresholds: Vec<u32>,
    pub(super) throughput: f64,
    /// Placements within 0.2 % of it.
    pub(super) tied_with: Vec<String>,
    pub(super) one_device_placement: Option<String>,
    pub(super) one_device_thresholds: Option<Vec<u32>>,
    pub(super) one_device_throughput: Option<f64>,
}

/// The order of two placements changes on the way from one concurrency to the next. Within 0.2 % they are level.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Change {
    pub(super) from_concurrency: u32,
    pub(super) to_concurrency: u32,
    pub(super) placement: String,
    /// `overtakes`, `pulls ahead of` or `draws level with`.
    pub(super) event: String,
    pub(super) other: String,
}

/// The whole document.
#[derive(Clone, Debug, Serialize)]
pub(super) struct CompareDocument {
    pub(super) scenario: String,
    pub(super) policy: String,
    pub(super) models: Vec<String>,
    pub(super) seed: u64,
    pub(super) cells: Vec<CompareCell>,
    pub(super) winners: Vec<Winner>,
    pub(super) changes: Vec<Change>,
    pub(super) notes: Vec<String>,
}

impl CompareCell {
    /// A cell without thresholds.
    pub(super) fn new(concurrency: u32, placement: &str, mode: &str, report: &Report) -> Self {
        Self {
            concurrency,
            placement: placement.to_owned(),
            order: None,
            mode: mode.to_owned(),
            thresholds: None,
            thresholds_by: None,
            throughput: report.throughput.mean,
            ci_low: report.throughput.low(),
            ci_high: report.throughput.high(),
        }
    }

    /// The placement with its order, as the command line takes it.
    pub(super) fn place(&self) -> String {
        self.order.as_ref().map_or_else(|| self.placement.clone(), |order| format!("{}:{order}", self.placement))
    }
}

impl CompareDocument {
    pub(super) fn rows(&self) -> Vec<CompareRow> {
        let row = |cell: &CompareCell| CompareRow {
            concurrency: cell.concurrency,
            placement: cell.placement.clone(),
            order: cell.order.clone(),
            mode: cell.mode.clone(),
            thresholds: cell.thresholds.as_deref().map_or_else(String::new, super::document::spaced),
            throughput: cell.throughput,
            ci_low: cell.ci_low,
            ci_high: cell.ci_high,
            thresholds_by: cell.thresholds_by.map(|method| method.to_string()),
        };
        self.cells.iter().map(row).collect()
    }
}
