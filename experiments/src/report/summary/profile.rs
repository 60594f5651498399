//! A profile: what was timed, and how well it predicts points that it does not hold.

use serde::Deserialize;

use super::{Block, Summary, counted, percent, signed_percent};
use crate::failure::Failure;
use crate::output::table::significant;

#[derive(Debug, Deserialize)]
pub(super) struct Document {
    device: String,
    weights: String,
    models: Vec<Model>,
    corun: Vec<Corun>,
    launch_us: f64,
    loop_us: f64,
    hop_us: f64,
}

#[derive(Debug, Deserialize)]
struct Model {
    model: String,
    graph: bool,
    points: usize,
    spread_median: f64,
    spread_max: f64,
    held_out: Option<HeldOut>,
}

#[derive(Debug, Deserialize)]
struct HeldOut {
    points: usize,
    mape: f64,
    bias: f64,
    max_error: f64,
    worst: String,
}

#[derive(Debug, Deserialize)]
struct Corun {
    model: String,
    rows: u32,
    peer_model: String,
    peer_rows: u32,
    rate: f64,
    alone_us: f64,
    beside_us: f64,
}

pub(super) fn summary(document: &Document) -> Result<Summary, Failure> {
    let points: usize = document.models.iter().map(|model| model.points).sum();
    let mut names: Vec<String> = Vec::new();
    for model in &document.models {
        if !names.contains(&model.model) {
            names.push(model.model.clone());
        }
    }
    let text = format!(
        "Step times of {} on {} with {} weights, by the host's clock from launch to results: {}. Host time {} us before and {} us after a forward; a \
         message between two threads {} us.",
        super::enumerated(&names),
        document.device,
        document.weights,
        counted(points, "point", "points"),
        significant(document.launch_us, 3),
        significant(document.loop_us, 3),
        significant(document.hop_us, 3),
    );
    let mut blocks = vec![Block::Text(text), models(&document.models)];
    if !document.corun.is_empty() {
        blocks.push(corun(&document.corun));
    }
    let headline = format!("{} of {}", counted(points, "point", "points"), super::enumerated(&names));
    Ok(Summary { headline, blocks })
}

fn models(models: &[Model]) -> Block {
    let row = |model: &Model| {
        let held_out =
            |words: &dyn Fn(&HeldOut) -> String| model.held_out.as_ref().map_or_else(|| "-".to_owned(), words);
        vec![
            model.model.clone(),
            if model.graph { "on" } else { "off" }.to_owned(),
            model.points.to_string(),
            percent(model.spread_median),
            percent(model.spread_max),
            held_out(&|found| found.points.to_string()),
            held_out(&|found| percent(found.mape)),
            held_out(&|found| signed_percent(found.bias)),
            held_out(&|found| format!("{} ({})", percent(found.max_error), found.worst)),
        ]
    };
    Block::Grid {
        caption: "Points, spread of two visits, and the error of the profile at points held out of it".to_owned(),
        header: vec![
            "model",
            "graphs",
            "points",
            "spread, median",
            "largest",
            "held out",
            "mean absolute error",
            "bias",
            "worst",
        ],
        rows: models.iter().map(row).collect(),
    }
}

fn corun(corun: &[Corun]) -> Block {
    let row = |found: &Corun| {
        vec![
            found.model.clone(),
            found.peer_model.clone(),
            found.rows.to_string(),
            found.peer_rows.to_string(),
            significant(found.alone_us * 1e-3, 4),
            significant(found.beside_us * 1e-3, 4),
            significant(found.rate, 3),
        ]
    };
    Block::Grid {
        caption: "Co-run rates: speed of a step while the other model runs on the same device".to_owned(),
        header: vec!["model", "beside", "rows", "its rows", "alone (ms)", "beside it (ms)", "rate"],
        rows: corun.iter().map(row).collect(),
    }
}
