//! The choice of `tune` on random scenarios against a simulated full grid.
//!
//! The grid races all feasible thresholds on its own seeds; the choice and the grid's best three then meet on fresh ones, so that luck does not decide.
#![allow(clippy::unwrap_used)]

use handoff_sim::analytic::tune::{Method, TuneOptions, confirm, tune};
use handoff_sim::rng::{Purpose, Stream};
use handoff_sim::scenario::{Embedded, Scenario, Source};

/// A random scenario as text; everything that `auto` tells apart occurs.
fn text(seed: u64, concurrency_max: u32) -> String {
    let mut stream = Stream::new(seed, Purpose::Start, 77);
    let n_models = if stream.below(5) == 0 { 3 } else { 2 };
    let concurrency = 2 + stream.below(if n_models == 3 { 3.min(concurrency_max - 1) } else { concurrency_max - 1 });
    let mut text = format!(
        "seed = {seed}\n[workload]\nconcurrency = {concurrency}\nrequests = {}\nprompt_tokens = 40\noutput_tokens = 400\n",
        3 * concurrency
    );
    let shares_device = stream.below(5) >= 3;
    let is_exclusive = shares_device && (n_models == 3 || stream.below(2) == 0);
    let jitter = if stream.below(2) == 0 { 0.0 } else { 0.05 };
    for model in 0..n_models {
        let fixed_ms = f64::from(if model == 0 { 2 + stream.below(7) } else { 6 + stream.below(40) });
        let cost = match stream.below(4) {
            0 => format!("{{ affine = {{ fixed_ms = {fixed_ms}, per_row_ms = 0.2 }} }}"),
            1 => format!("{{ affine = {{ fixed_ms = {fixed_ms}, per_new_token_ms = 0.1 }} }}"),
            _ => format!("{{ constant_ms = {fixed_ms} }}"),
        };
        let device = if shares_device { 0 } else { model };
        text += &format!("[[model]]\nname = \"m{model}\"\ncost = {cost}\njitter_cv = {jitter}\ndevice = {device}\n");
    }
    let p = 0.05 + 0.5 * stream.unit();
    text += "[policy]\n";
    text += &match (n_models, stream.below(4)) {
        (3, _) => "kind = \"me\"\nweights = [0.5, 0.3, 0.2]\n".to_owned(),
        (_, 0) => format!("kind = \"every\"\nsmall = {}\nlarge = 1\n", 1 + stream.below(8)),
        (_, 1) => format!("kind = \"r-stitch\"\na = {p}\nb = 0.4\n"),
        _ => format!("kind = \"r2r\"\np = {p}\n"),
    };
    text += "[scheduler]\n";
    if is_exclusive {
        let order = ["large-first", "small-first", "alternate"][stream.below(3) as usize];
        text += &format!("sharing = \"exclusive\"\norder = \"{order}\"\n");
    } else if shares_device {
        text += "corun = [0.45, 0.85]\n";
    }
    text
}

fn parse(text: &str) -> Scenario {
    Scenario::parse(&Source::new("random.toml", text), &Embedded::default()).unwrap()
}

/// The regret of each choice over the scenarios of `seeds`.
fn regrets(seeds: std::ops::Range<u64>, concurrency_max: u32, options: &TuneOptions) -> Vec<f64> {
    let full = TuneOptions {
        method: Some(Method::Simulate),
        vectors_max: usize::MAX,
        replications: 8,
        ..TuneOptions::default()
    };
    let mut regrets = Vec::new();
    let mut methods = Vec::new();
    for seed in seeds {
        let scenario = parse(&text(seed, concurrency_max));
        let choice = tune(&scenario, options).unwrap();
        let grid = tune(&scenario.variant().seed(seed + 1_000_000).build().unwrap(), &full).unwrap();
        let others: Vec<Vec<u32>> =
            grid.candidates.iter().take(3).map(|candidate| candidate.thresholds.clone()).collect();
        let confirmed = confirm(&scenario, &choice.best().thresholds, &others, 24).unwrap();
        assert!(
            confirmed.regret <= 0.01,
            "seed {seed}: {:?} by {} loses {} (interval {:?}) against {:?}\n{}",
            choice.best().thresholds,
            choice.method,
            confirmed.regret,
            confirmed.regret_interval,
            confirmed.candidates,
            text(seed, concurrency_max)
        );
        regrets.push(confirmed.regret);
        methods.push(choice.method);
    }
    assert!(methods.contains(&Method::Exact) && methods.contains(&Method::Simulate), "{methods:?}");
    regrets
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

#[test]
fn the_choice_loses_at_most_one_per_cent_on_a_hundred_scenarios() {
    let regrets = regrets(0..100, 6, &TuneOptions::default());
    println!("mean regret {:.5}, largest {:.5}", mean(&regrets), regrets.iter().copied().fold(0.0, f64::max));
    assert!(mean(&regrets) < 0.003, "mean regret {}", mean(&regrets));
}

/// The same where only a coarse set and what lies around its best is tried.
#[test]
fn pruning_loses_no_more() {
    let pruned = TuneOptions { vectors_max: 5, ..TuneOptions::default() };
    let regrets = regrets(200..240, 12, &pruned);
    println!("mean regret {:.5}, largest {:.5}", mean(&regrets), regrets.iter().copied().fold(0.0, f64::max));
    assert!(mean(&regrets) < 0.003, "mean regret {}", mean(&regrets));
}
