//! The published figures, as they were re-typed (`experiments/paper/`).

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};

use super::routed::Algorithm;

/// Published routing probability of R2R on Qwen3-0.6B + Qwen3-32B, per step of the small model.
pub(super) const R2R_P: f64 = 0.35;
/// Published step latency of Qwen3-0.6B as part of the serving system, ms.
pub(super) const SMALL_STEP_MS: f64 = 6.0;
/// Published step latency of Qwen3-32B as part of the serving system, ms.
pub(super) const LARGE_STEP_MS: f64 = 27.9;
/// Published bandwidth between two nodes, 10^9 bytes per second.
pub(super) const NODES_GB_PER_S: f64 = 3.7;
/// Published spread between runs of the same cell.
pub(super) const REPEAT_SPREAD: f64 = 0.07;

/// A cell of `threshold.csv`. Throughputs in tokens/s.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(super) struct Threshold {
    pub(super) concurrency: u32,
    /// Launch threshold of the large model.
    pub(super) b1: u32,
    /// The paper's Markov model.
    pub(super) model: f64,
    /// The paper's machines.
    pub(super) hardware: f64,
}

/// A row of `ablation.csv`. Throughputs in tokens/s.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Ablation {
    pub(super) configuration: String,
    pub(super) concurrency_1: f64,
    pub(super) concurrency_4: f64,
    pub(super) concurrency_8: f64,
}

/// A row of `original_settings.csv`; nothing where a figure was not published.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Original {
    pub(super) algorithm: String,
    pub(super) small_model: String,
    pub(super) large_model: String,
    pub(super) concurrency: u32,
    /// `llm_only`, `official` or `tokenrouter`.
    pub(super) implementation: String,
    /// Tokens/s.
    #[serde(deserialize_with = "unless_not_published")]
    pub(super) throughput: Option<f64>,
    /// Mean time from arrival to end, s.
    #[serde(deserialize_with = "unless_not_published")]
    pub(super) latency: Option<f64>,
}

/// A row of `placement.csv` or `multi_node.csv`: algorithms at one place. Throughputs in tokens/s.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Place {
    pub(super) concurrency: u32,
    /// `shared` or `separate`; `one` or `two` nodes.
    #[serde(alias = "placement", alias = "nodes")]
    pub(super) place: String,
    #[serde(rename = "R2R")]
    pub(super) r2r: f64,
    #[serde(rename = "R-Stitch")]
    pub(super) r_stitch: f64,
    /// Not in `multi_node.csv`.
    #[serde(rename = "Co-LLM", default)]
    pub(super) co_llm: Option<f64>,
    #[serde(rename = "CITER")]
    pub(super) citer: f64,
}

/// A row of `model_pairs.csv`. Throughputs in tokens/s.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct ModelPair {
    pub(super) small_model: String,
    pub(super) large_model: String,
    pub(super) concurrency: u32,
    pub(super) r2r_official: f64,
    pub(super) tokenrouter: f64,
}

/// A row of `parallel.csv`. Throughputs in tokens/s.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Parallel {
    pub(super) total_gpus: u32,
    /// Tensor-parallel size of the small model.
    pub(super) slm_tp: u32,
    /// Tensor-parallel size of the large model.
    pub(super) llm_tp: u32,
    /// `yes` where the models share GPUs.
    pub(super) overlap: String,
    pub(super) concurrency_1: f64,
    pub(super) concurrency_4: f64,
}

/// A row of `std_serving_step.csv`.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct ServingStep {
    pub(super) operation: String,
    pub(super) ms: f64,
}

/// All published tables. What is fitted or predicted gets them as an argument, so that a test can show what depends on which cell.
#[derive(Clone, Debug)]
pub(super) struct Published {
    pub(super) threshold: Vec<Threshold>,
    pub(super) ablation: Vec<Ablation>,
    pub(super) original_settings: Vec<Original>,
    pub(super) placement: Vec<Place>,
    pub(super) model_pairs: Vec<ModelPair>,
    pub(super) multi_node: Vec<Place>,
    pub(super) parallel: Vec<Parallel>,
    pub(super) std_serving_step: Vec<ServingStep>,
}

impl Published {
    /// As they are part of the program.
    pub(super) fn read() -> Self {
        Self {
            threshold: rows(include_str!("../../paper/threshold.csv")),
            ablation: rows(include_str!("../../paper/ablation.csv")),
            original_settings: rows(include_str!("../../paper/original_settings.csv")),
            placement: rows(include_str!("../../paper/placement.csv")),
            model_pairs: rows(include_str!("../../paper/model_pairs.csv")),
            multi_node: rows(include_str!("../../paper/multi_node.csv")),
            parallel: rows(include_str!("../../paper/parallel.csv")),
            std_serving_step: rows(include_str!("../../paper/std_serving_step.csv")),
        }
    }

    /// The row of `ablation.csv` with this name.
    pub(super) fn ablation(&self, configuration: &str) -> &Ablation {
        let row = self.ablation.iter().find(|row| row.configuration == configuration);
        row.unwrap_or_else(|| panic!("ablation.csv has a row `{configuration}`"))
    }

    /// The row of `original_settings.csv` of an algorithm, an implementation and a concurrency.
    pub(super) fn original(&self, algorithm: Algorithm, implementation: &str, concurrency: u32) -> &Original {
        let wanted = (algorithm.name(), implementation, concurrency);
        let of = |row: &&Original| (row.algorithm.as_str(), row.implementation.as_str(), row.concurrency) == wanted;
        let row = self.original_settings.iter().find(of);
        row.unwrap_or_else(|| panic!("original_settings.csv has a row {wanted:?}"))
    }
}

/// Throughput of an algorithm at a place of `placement.csv` or `multi_node.csv`.
pub(super) fn throughput_at(rows: &[Place], place: &str, concurrency: u32, algorithm: Algorithm) -> f64 {
    let row = rows.iter().find(|row| (row.place.as_str(), row.concurrency) == (place, concurrency));
    let row = row.unwrap_or_else(|| panic!("there is a row for `{place}` at concurrency {concurrency}"));
    match algorithm {
        Algorithm::R2r => row.r2r,
        Algorithm::RStitch => row.r_stitch,
        Algorithm::CoLlm => row.co_llm.expect("only placement.csv is asked for Co-LLM"),
        Algorithm::Citer => row.citer,
    }
}

fn rows<R: DeserializeOwned>(text: &str) -> Vec<R> {
    read(text).expect("the published figures are part of the program and well formed")
}

fn read<R: DeserializeOwned>(text: &str) -> Result<Vec<R>, csv::Error> {
    csv::Reader::from_reader(text.as_bytes()).into_deserialize().collect()
}

/// A number, or nothing for `n/a`. Anything else is a slip of the pen, not a figure that was not published.
fn unless_not_published<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    let text = String::deserialize(deserializer)?;
    if text == "n/a" {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|_| D::Error::custom(format!("`{text}`, expected a number or n/a")))
}

impl Original {
    /// Output tokens of a request: each of `concurrency` requests gets its share of the throughput for as long as it is there.
    pub(super) fn tokens_per_request(&self) -> Option<f64> {
        Some(self.throughput? * self.latency? / f64::from(self.concurrency))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_is_read_whole() {
        let published = Published::read();
        let sizes = [
            published.threshold.len(),
            published.ablation.len(),
            published.original_settings.len(),
            published.placement.len(),
            published.model_pairs.len(),
            published.multi_node.len(),
            published.parallel.len(),
            published.std_serving_step.len(),
        ];
        assert_eq!(sizes, [9, 7, 24, 4, 4, 4, 8, 6]);
        assert_eq!(published.ablation("and_without_llm_graph").concurrency_4, 95.55);
        assert_eq!(published.original(Algorithm::RStitch, "official", 4).throughput, None);
        assert_eq!(throughput_at(&published.placement, "separate", 4, Algorithm::Citer), 308.36);
        assert_eq!(throughput_at(&published.placement, "shared", 1, Algorithm::CoLlm), 47.46);
        assert_eq!(throughput_at(&published.multi_node, "two", 1, Algorithm::Citer), 93.99);
        assert_eq!(published.std_serving_step[4].ms, 12.12);
    }

    #[test]
    fn only_n_a_is_not_published() {
        let header = "algorithm,small_model,large_model,concurrency,implementation,throughput,latency\n";
        let row = |throughput: &str| read::<Original>(&format!("{header}R2R,s,l,1,official,{throughput},1.0\n"));
        assert_eq!(row("n/a").unwrap()[0].throughput, None);
        assert_eq!(row("3.5").unwrap()[0].throughput, Some(3.5));
        let error = row("na").map(|_| ()).unwrap_err().to_string();
        assert!(error.contains("`na`, expected a number or n/a"), "{error}");
    }

    /// 40.17 tokens/s for 388.12 s; at concurrency 4 a quarter of 145.30 tokens/s for 411.98 s.
    #[test]
    fn tokens_of_a_request_follow_from_throughput_and_latency() {
        let published = Published::read();
        let tokens = |concurrency| published.original(Algorithm::R2r, "llm_only", concurrency).tokens_per_request();
        let (alone, four) = (tokens(1).unwrap(), tokens(4).unwrap());
        assert!((alone - 15_591.0).abs() < 1.0 && (four - 14_965.0).abs() < 1.0, "{alone} {four}");
    }

    /// The paper's own model misses its own hardware by 7.8 % on average and 16.1 % at worst: the figure to beat.
    #[test]
    fn the_published_model_misses_by_what_is_said_of_it() {
        let published = Published::read();
        let errors = published.threshold.iter().map(|cell| (cell.model / cell.hardware - 1.0).abs());
        let mean = errors.clone().sum::<f64>() / errors.len() as f64;
        let worst = errors.fold(0.0, f64::max);
        assert!((mean - 0.078).abs() < 0.0005 && (worst - 0.161).abs() < 0.0005, "{mean} {worst}");
    }
}
