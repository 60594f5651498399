//! The tiny model with sensitive weights on the CPU, what it says alone, and every policy that there is.
#![allow(dead_code, missing_docs, unreachable_pub, clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use candle_core::DType;
use handoff_backend::driver::Executor;
use handoff_backend::{Qwen3Config, RowInput, Runner, RunnerOptions, Sampling, Weights};
use handoff_sim::policy::{Policy, REGISTRY, Setting, build};

/// In f64, so that only a wrong token or position could change another token. The head is not the embedding: with random weights a shared one
/// says the last token once more, whatever came before.
pub fn tiny_model() -> Runner {
    let config = Qwen3Config { tied_head: false, ..Qwen3Config::built_in("tiny").unwrap() };
    let options = RunnerOptions { kv_tokens: 4096, slots: 24, request_tokens_max: 128 };
    Runner::cpu(&config, &Weights::dummy_sensitive(7), DType::F64, options).unwrap()
}

pub fn tiny_models(n: usize) -> Vec<Box<dyn Executor>> {
    (0..n).map(|_| Box::new(tiny_model()) as Box<dyn Executor>).collect()
}

/// What the model alone says: one token at a time, one request at a time.
pub struct Alone {
    model: Runner,
    made: BTreeMap<Vec<u32>, Vec<Made>>,
}

/// A token of the model alone.
#[derive(Clone, Copy, Debug)]
pub struct Made {
    pub token: u32,
    pub entropy: f32,
    /// The best logit less the second best.
    pub margin: f32,
}

impl Alone {
    pub fn new() -> Self {
        Self { model: tiny_model(), made: BTreeMap::new() }
    }

    /// The first `n` tokens after `prompt`.
    pub fn tokens(&mut self, prompt: &[u32], n: usize) -> Vec<u32> {
        self.made(prompt, n).iter().map(|made| made.token).collect()
    }

    /// As [`Self::tokens`], with what stood beside them.
    pub fn made(&mut self, prompt: &[u32], n: usize) -> &[Made] {
        if self.made.get(prompt).is_none_or(|made| made.len() < n) {
            let made = self.make(prompt, n);
            self.made.insert(prompt.to_vec(), made);
        }
        &self.made[prompt][..n]
    }

    /// The smallest margin of all tokens made so far.
    pub fn margin_min(&self) -> f32 {
        self.made.values().flatten().map(|made| made.margin).fold(f32::INFINITY, f32::min)
    }

    fn make(&mut self, prompt: &[u32], n: usize) -> Vec<Made> {
        self.model.free(0).unwrap();
        let (mut made, mut context, mut kept) = (Vec::new(), prompt.to_vec(), 0);
        while made.len() < n {
            let row = RowInput { slot: 0, tokens: &context[kept..], position: kept as u32, sampling: Sampling::Greedy };
            let output = self.model.step(&[row]).unwrap()[0];
            let logits = self.model.logits(0).unwrap();
            let best = logits[output.token as usize];
            let others = logits.iter().enumerate().filter(|&(token, _)| token != output.token as usize);
            let second = others.map(|(_, &logit)| logit).fold(f32::NEG_INFINITY, f32::max);
            kept = context.len();
            context.push(output.token);
            made.push(Made { token: output.token, entropy: output.entropy, margin: best - second });
        }
        made
    }
}

/// A prompt of random tokens that the tiny model knows.
pub fn prompt(seed: u32, n_tokens: u32) -> Vec<u32> {
    (0..n_tokens).map(|position| (position * position * 7 + position * 13 + seed * 101 + 5) % 300).collect()
}

/// The entropy that half of the tokens of the model alone exceed: as a threshold it sends a request back and forth.
pub fn median_entropy(alone: &mut Alone) -> f32 {
    let mut entropies: Vec<f32> =
        (0..8).flat_map(|seed| alone.made(&prompt(seed, 12), 24).to_vec()).map(|made| made.entropy).collect();
    entropies.sort_by(f32::total_cmp);
    entropies[entropies.len() / 2]
}

/// Every policy of the registry, most of them with several settings. `tau` is a threshold of the entropy, and `routes.csv` in `folder` a
/// record of routes over two models.
pub fn policies(tau: f32, folder: &Path) -> Vec<(String, Arc<dyn Policy>)> {
    let settings = |kind: &'static str| {
        let setting = move |(n_models, fields): (usize, String)| {
            let name = format!("{kind} {fields}");
            let setting = Setting { n_models, directory: folder, fields: fields.parse().unwrap() };
            (name, build(kind, setting).unwrap().into())
        };
        settings_of(kind, tau).into_iter().map(setting)
    };
    REGISTRY.iter().flat_map(|entry| settings(entry.kind)).collect()
}

/// Numbers of models and parameters.
fn settings_of(kind: &str, tau: f32) -> Vec<(usize, String)> {
    let two = |fields: &[&str]| fields.iter().map(|&fields| (2, fields.to_owned())).collect();
    match kind {
        "every" => two(&["small = 1\nlarge = 1", "small = 3\nlarge = 2", "small = 2\nlarge = 5\nentry = 1"]),
        "markov" => {
            let mut settings = two(&["routes = [[0.6, 0.4], [0.5, 0.5]]\ncommits = [[0.9, 0.5], [0.7, 0.95]]"]);
            let three = "routes = [[0.4, 0.3, 0.3], [0.5, 0.2, 0.3], [0.3, 0.4, 0.3]]\n\
                 commits = [[0.9, 0.5, 0.4], [0.7, 1, 0.3], [0.8, 0.5, 0.95]]";
            settings.push((3, three.to_owned()));
            settings
        }
        "r2r" | "citer" | "co-llm" => two(&["", "p = 0.8"]),
        "r-stitch" => {
            let mut settings = two(&["a = 0.3\nb = 0.4", "a = 0.6\nb = 0.8\ncommit_on_return = false"]);
            for commits in [true, false] {
                let measured = format!("signal = \"measured\"\ntau = {tau}\ncommit_on_return = {commits}");
                settings.push((2, measured));
            }
            settings
        }
        "me" => vec![(3, String::new()), (2, "weights = [0.4, 0.6]\nentry = 1".to_owned())],
        "phases" => two(&[
            "phase = [{ kind = \"r2r\", p = 0.9 }, { kind = \"r-stitch\", a = 0.2, b = 0.6 }]\nmean_tokens = [3, 4]",
        ]),
        "replay" => two(&["file = \"routes.csv\""]),
        "large-only" | "small-only" => two(&[""]),
        other => panic!("there is no setting for the policy `{other}`: give it one, so that its tokens are checked"),
    }
}
