//! The CPU forward against transformers 5.17.0 on PyTorch 2.11.0 in f64 (`tests/fixtures/make_golden.py` wrote the fixture).

use std::path::Path;

use candle_core::DType;
use handoff_backend::{Qwen3Config, RowInput, Runner, RunnerOptions, Sampling, Weights};
use serde::Deserialize;

#[derive(Deserialize)]
struct Golden {
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    prompt: Vec<u32>,
    logits: Vec<f64>,
    entropy: f64,
    greedy: Vec<u32>,
}

fn golden() -> (Runner, Runner, Vec<Case>) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/golden");
    let config = Qwen3Config::from_folder(&folder).expect("the fixture is complete");
    let weights = Weights::open(&folder).expect("the fixture is complete");
    let runner = |dtype| Runner::cpu(&config, &weights, dtype, RunnerOptions::for_tests()).expect("the fixture loads");
    let text = std::fs::read_to_string(folder.join("golden.json")).expect("the fixture is complete");
    let golden: Golden = serde_json::from_str(&text).expect("the fixture is valid");
    (runner(DType::F32), runner(DType::F64), golden.cases)
}

fn row(slot: usize, tokens: &[u32], position: usize) -> RowInput<'_> {
    RowInput { slot: slot as u32, tokens, position: position as u32, sampling: Sampling::Greedy }
}

/// Norm of the difference over norm of the reference.
fn relative_error(found: &[f32], wanted: &[f64]) -> f64 {
    assert_eq!(found.len(), wanted.len());
    let difference: f64 = found.iter().zip(wanted).map(|(&found, &wanted)| (f64::from(found) - wanted).powi(2)).sum();
    (difference / wanted.iter().map(|wanted| wanted.powi(2)).sum::<f64>()).sqrt()
}

#[test]
fn logits_and_entropy_agree() {
    let (narrow, wide, cases) = golden();
    // The fixture keeps seven digits, and its rotary angles were computed in f32.
    for (mut runner, limit) in [(narrow, 1e-4), (wide, 3e-6)] {
        let rows: Vec<_> = cases.iter().enumerate().map(|(slot, case)| row(slot, &case.prompt, 0)).collect();
        let outputs = runner.step(&rows).unwrap().to_vec();
        for (idx, case) in cases.iter().enumerate() {
            let error = relative_error(&runner.logits(idx).unwrap(), &case.logits);
            assert!(error < limit, "a prompt of {} tokens: relative error {error:e}", case.prompt.len());
            assert!((f64::from(outputs[idx].entropy) - case.entropy).abs() < 1e-5);
            assert_eq!(outputs[idx].token, case.greedy[0]);
        }
    }
}

#[test]
fn greedy_tokens_agree_through_a_batch_of_all_prompts() {
    let (_, mut runner, cases) = golden();
    let rows: Vec<_> = cases.iter().enumerate().map(|(slot, case)| row(slot, &case.prompt, 0)).collect();
    let mut last: Vec<u32> = runner.step(&rows).unwrap().iter().map(|output| output.token).collect();
    for step in 1..cases[0].greedy.len() {
        let rows: Vec<_> = cases
            .iter()
            .enumerate()
            .map(|(slot, case)| row(slot, &last[slot..=slot], case.prompt.len() + step - 1))
            .collect();
        last = runner.step(&rows).unwrap().iter().map(|output| output.token).collect();
        let wanted: Vec<u32> = cases.iter().map(|case| case.greedy[step]).collect();
        assert_eq!(last, wanted, "token {step}");
    }
}
