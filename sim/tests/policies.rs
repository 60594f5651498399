//! The published policies, run through the engine: what each commits, drops, extends over and decodes, step by step and in the long run.
#![allow(clippy::unwrap_used)]

mod support;

use handoff_scheduler::{Destination, ModelIdx, RowKind};
use handoff_sim::engine::{EngineConfig, Metrics, Window, replicate_observed};
use handoff_sim::scenario::{Embedded, Scenario, Source};
use support::account::Account;
use support::routes::{Routes, Step};
use support::run;

const SMALL: ModelIdx = ModelIdx(0);
const LARGE: ModelIdx = ModelIdx(1);

/// A scenario of the named policy over `n_models` models, all requests from their beginning, output lengths that differ.
fn scenario(n_models: usize, policy: &str) -> EngineConfig {
    let models: String = (0..n_models)
        .map(|model| {
            format!(
                "[[model]]\nname = \"m{model}\"\ncost = {{ constant_ms = {} }}\njitter_cv = 0.05\n",
                3 * (model + 1)
            )
        })
        .collect();
    let text = format!(
        "{models}[policy]\n{policy}\n[workload]\nconcurrency = 5\nstart = \"in-phase\"\nprompt_tokens = {{ uniform = [1, 40] }}\n\
         output_tokens = {{ uniform = [50, 600] }}\n"
    );
    EngineConfig::from(&Scenario::parse(&Source::new("policy.toml", &text), &Embedded::default()).unwrap())
}

/// The account holds every row and token of the run against the rules shared by all policies; the routes are those of `requests` requests.
fn observe(config: &EngineConfig, requests: u64) -> (Metrics, Routes) {
    let window = Window::Requests { warmup_requests: 0, requests };
    let (metrics, account) = replicate_observed(config, 4, window, Account::of(config, 4)).unwrap();
    assert!(account.finished >= requests);
    let (_, routes) = replicate_observed(config, 4, window, Routes::default()).unwrap();
    assert!(routes.complete().count() as u64 >= requests);
    (metrics, routes)
}

/// Whether `successes` out of `trials` independent trials agree with probability `p` within three standard deviations.
#[track_caller]
fn assert_fraction(successes: u64, trials: u64, p: f64) {
    let (n, fraction) = (trials as f64, successes as f64 / trials as f64);
    let deviation = (p * (1.0 - p) / n).sqrt();
    assert!((fraction - p).abs() <= 3.0 * deviation, "{successes} of {trials} is {fraction}, not {p} +- {deviation}");
}

fn committed(steps: &[Step]) -> u32 {
    steps.iter().map(|step| u32::from(step.outcome.committed)).sum()
}

/// The context of a request before each of its steps: prompt and what was committed so far.
fn context_before(steps: &[Step], step: usize) -> u32 {
    steps[0].new_tokens + committed(&steps[..step])
}

/// R2R, CITER and Co-LLM: each token of the small model is dropped with probability p, and made again by the large one, which returns at once.
#[test]
fn one_token_detours_run_the_small_model_once_a_token_and_the_large_one_once_a_visit() {
    for (policy, p) in [("kind = \"r2r\"", 0.35), ("kind = \"citer\"", 0.20), ("kind = \"co-llm\"", 0.57)] {
        let (metrics, routes) = observe(&scenario(2, policy), 400);
        let [small, large] = &metrics.models[..] else { panic!("two models") };
        assert_fraction(small.handoffs, small.rows(), p);
        assert_eq!((small.dropped_tokens, large.dropped_tokens), (small.handoffs, 0));
        // Each token passes the small model once; that of the large one is the routed fraction.
        assert_fraction(large.committed_tokens, metrics.tokens, p);
        // An extend over one token, its own last, is of kind decode: where the small model's first token after a return is dropped again.
        assert_fraction(large.decode_rows, large.decode_rows + large.extend_rows, p);
        for steps in routes.complete() {
            let at = |model| steps.iter().filter(move |step| step.model == model);
            let tokens = committed(steps);
            assert_eq!(at(SMALL).count() as u32, tokens, "one forward of the small model per output token");
            assert_eq!(at(LARGE).count(), at(SMALL).filter(|step| !step.outcome.committed).count());
            check_one_token_detours(steps);
        }
        // Visits of the small model take 1/p steps, of which the last is dropped; those of the large one take one.
        let visits = small.handoffs as f64;
        let deviation = (1.0 - p).sqrt() / p / visits.sqrt();
        assert!((small.rows() as f64 / visits - 1.0 / p).abs() < 3.0 * deviation, "{policy}");
        assert!(large.visits.abs_diff(large.rows()) <= 5, "{policy}");
    }
}

fn check_one_token_detours(steps: &[Step]) {
    let mut last_large = None;
    for (at, step) in steps.iter().enumerate() {
        let first_here = steps[..at].iter().all(|before| before.model != step.model);
        if first_here {
            assert_eq!((step.kind, step.new_tokens), (RowKind::Prefill, context_before(steps, at)));
        } else if step.model == SMALL {
            // Also on return: the replaced token is decoded like any other.
            assert_eq!((step.kind, step.new_tokens), (RowKind::Decode, 1));
        } else {
            let small_tokens = committed(&steps[last_large.unwrap() + 1..at]);
            assert_eq!(step.new_tokens, 1 + small_tokens, "its own last token and those of the small model since");
            assert_eq!(step.kind, if small_tokens == 0 { RowKind::Decode } else { RowKind::Extend });
        }
        if step.model == LARGE {
            last_large = Some(at);
        }
        match (step.model, step.outcome.destination) {
            (_, Destination::Finished) => assert_eq!(at, steps.len() - 1),
            (SMALL, Destination::Stay) => assert!(step.outcome.committed),
            (SMALL, Destination::To(to)) => assert!(to == LARGE && !step.outcome.committed),
            (_, destination) => assert!(destination == Destination::To(SMALL) && step.outcome.committed),
        }
    }
}

/// R-Stitch: the large model goes on until it is sure; its last token is kept or dropped. The small model extends over the large one's run.
#[test]
fn r_stitch_extends_over_the_run_of_the_other_model() {
    let (a, b) = (0.12, 0.4);
    for commits in [true, false] {
        let policy = format!("kind = \"r-stitch\"\na = {a}\nb = {b}\ncommit_on_return = {commits}");
        let (metrics, routes) = observe(&scenario(2, &policy), 400);
        let [small, large] = &metrics.models[..] else { panic!("two models") };
        assert_fraction(small.handoffs, small.rows(), a);
        assert_fraction(large.handoffs, large.rows() - finished_at(&routes, LARGE), b);
        assert_eq!(small.dropped_tokens, small.handoffs);
        assert_eq!(large.dropped_tokens, if commits { 0 } else { large.handoffs });
        assert!(large.decode_rows > 0 && large.extend_rows > 0 && small.extend_rows > 0);
        for steps in routes.complete() {
            let mut last_at = [None, None];
            for (at, step) in steps.iter().enumerate() {
                let own = last_at[step.model.idx()].replace(at);
                let Some(own) = own else {
                    assert_eq!((step.kind, step.new_tokens), (RowKind::Prefill, context_before(steps, at)));
                    continue;
                };
                // What its last step here made, if it was kept, and all that the other model kept since. A row has at least one token.
                let since = committed(&steps[own..at]);
                assert_eq!(step.new_tokens, since.max(1));
                if step.model == SMALL && at > own + 1 {
                    // The small model's own token was dropped, so these are the tokens of the large one's run.
                    assert!(steps[own + 1..at].iter().all(|between| between.model == LARGE));
                    assert_eq!(since, committed(&steps[own + 1..at]));
                }
            }
        }
    }
}

fn finished_at(routes: &Routes, model: ModelIdx) -> u64 {
    let last = |steps: &[Step]| steps.last().is_some_and(|step| step.model == model);
    routes.complete().filter(|steps| last(steps)).count() as u64
}

/// ME: the model of each token is drawn afresh, whoever made the last one; nothing is dropped. Three models exchange tokens in a ring.
#[test]
fn an_ensemble_of_three_conserves_its_tokens() {
    let (metrics, routes) = observe(&scenario(3, "kind = \"me\""), 500);
    assert_eq!(metrics.dropped_tokens, 0);
    for (own, weight) in metrics.models.iter().zip([0.5, 0.3, 0.2]) {
        // A little off: the first token of each request is the entry model's. 600 requests of 325 tokens.
        let first = if weight == 0.5 { 0.5 } else { -weight } / 325.0;
        let n = metrics.tokens as f64;
        let fraction = own.committed_tokens as f64 / n;
        let deviation = (weight * (1.0 - weight) / n).sqrt();
        assert!((fraction - weight - first).abs() < 3.0 * deviation + first.abs() * 0.1, "{fraction} {weight}");
        assert_fraction(own.handoffs, own.rows(), 1.0 - weight);
    }
    for steps in routes.complete() {
        let mut last_at = [None; 3];
        for (at, step) in steps.iter().enumerate() {
            match last_at[step.model.idx()].replace(at) {
                None => assert_eq!((step.kind, step.new_tokens), (RowKind::Prefill, context_before(steps, at))),
                // Its own last token and those of the others since: all steps in between, for nothing is dropped.
                Some(own) => assert_eq!(step.new_tokens as usize, at - own),
            }
            if let Some(next) = steps.get(at + 1) {
                let stays = step.outcome.destination == Destination::Stay;
                let goes = step.outcome.destination == Destination::To(next.model);
                assert!(if next.model == step.model { stays } else { goes });
            }
        }
    }
}

#[test]
fn an_ensemble_may_enter_at_any_model_and_leave_one_out() {
    let (metrics, routes) = observe(&scenario(3, "kind = \"me\"\nweights = [0.6, 0.4, 0.0]\nentry = 1"), 50);
    assert_eq!(metrics.models[2].rows(), 0);
    assert!(routes.complete().all(|steps| steps[0].model == LARGE));
}

/// Switch every N tokens: a visit is one extend over the model's own last token and all N of the other's, then N - 1 decodes. A prefill takes the
/// place of the extend on the first visit, and yields the first token.
#[test]
fn every_n_has_one_extend_and_then_decodes() {
    for (small, large) in [(1, 1), (2, 2), (16, 16), (5, 1), (1, 4)] {
        let policy = format!("kind = \"every\"\nsmall = {small}\nlarge = {large}");
        let (metrics, routes) = observe(&scenario(2, &policy), 100);
        assert_eq!(metrics.dropped_tokens, 0);
        for steps in routes.complete() {
            for (at, step) in steps.iter().enumerate() {
                let (cycle, in_cycle) = (at / (small + large), at % (small + large));
                let (model, in_visit, others) =
                    if in_cycle < small { (SMALL, in_cycle, large) } else { (LARGE, in_cycle - small, small) };
                assert_eq!(step.model, model);
                let expected = match (in_visit, cycle) {
                    (0, 0) => (RowKind::Prefill, context_before(steps, at)),
                    (0, _) => (RowKind::Extend, 1 + others as u32),
                    _ => (RowKind::Decode, 1),
                };
                assert_eq!((step.kind, step.new_tokens), expected, "N {small}, {large}, step {at}");
                let leaves = in_visit + 1 == if model == SMALL { small } else { large };
                let last = at + 1 == steps.len();
                assert_eq!(step.outcome.destination == Destination::Stay, !leaves && !last);
            }
            // The token after the prompt comes from the prefill: there are as many steps as tokens.
            assert_eq!(steps.len() as u32, committed(steps));
        }
        let per_token = metrics.handoffs as f64 / metrics.tokens as f64;
        support::assert_close(per_token, 2.0 / (small + large) as f64, 0.03);
    }
}

/// The baselines never leave their model; the other one is never used.
#[test]
fn a_single_model_prefills_once_and_decodes() {
    for (policy, model) in [("kind = \"large-only\"", LARGE), ("kind = \"small-only\"", SMALL)] {
        let (metrics, routes) = observe(&scenario(2, policy), 30);
        assert_eq!((metrics.handoffs, metrics.models[1 - model.idx()].steps), (0, 0));
        for steps in routes.complete() {
            assert!(steps.iter().all(|step| step.model == model));
            assert_eq!(steps[0].kind, RowKind::Prefill);
            assert!(steps[1..].iter().all(|step| (step.kind, step.new_tokens) == (RowKind::Decode, 1)));
        }
    }
}

/// A recorded run, replayed, makes the same steps of every request.
#[test]
fn a_replayed_record_makes_the_recorded_steps() {
    use std::fmt::Write as _;
    let (_, routes) = observe(&scenario(2, "kind = \"r-stitch\"\na = 0.1\nb = 0.5"), 40);
    let recorded: Vec<&[Step]> = routes.complete().collect();
    let mut text = "request,step,model,destination,committed,entropy\n".to_owned();
    for (request, steps) in recorded.iter().enumerate() {
        for (at, step) in steps.iter().enumerate() {
            let destination = match step.outcome.destination {
                Destination::Stay => "stay".to_owned(),
                Destination::To(to) => to.0.to_string(),
                Destination::Finished => "finished".to_owned(),
            };
            writeln!(text, "{request},{at},{},{destination},{},", step.model.0, step.outcome.committed).unwrap();
        }
    }
    let record = handoff_sim::policy::RouteRecord::from_reader(text.as_bytes(), "routes.csv", 2).unwrap();
    let replay = handoff_sim::policy::Replay::new(&record).unwrap();
    let lengths: Vec<u32> = (0..recorded.len() as u64).map(|idx| replay.recorded_tokens(idx)).collect();
    let mut config = scenario(2, "kind = \"r2r\"");
    let prompts: Vec<u32> = recorded.iter().map(|steps| steps[0].new_tokens).collect();
    config.workload = handoff_sim::workload::Workload::new(
        handoff_sim::workload::Arrivals::closed_loop(5).unwrap(),
        40,
        handoff_sim::workload::Lengths::recorded(prompts).unwrap(),
        handoff_sim::workload::Lengths::recorded(lengths).unwrap(),
    )
    .unwrap()
    .with_start(handoff_sim::workload::Start::InPhase);
    config.policy = std::sync::Arc::new(replay);
    let (_, replayed) = observe(&config, 30);
    let mut compared = 0;
    for (idx, steps) in replayed.steps.iter().enumerate().take(recorded.len()) {
        if steps.last().is_some_and(|step| step.outcome.destination == Destination::Finished) {
            assert_eq!(steps.as_slice(), recorded[idx], "request {idx}");
            compared += 1;
        }
    }
    assert!(compared >= 30);
}

/// The same policies give the same fractions whatever the placement and the thresholds: decisions know nothing of scheduling.
#[test]
fn fractions_do_not_depend_on_scheduling() {
    for policy in ["kind = \"r2r\"", "kind = \"r-stitch\"\na = 0.2\nb = 0.3"] {
        let eager = scenario(2, policy);
        let mut delayed = eager.clone();
        delayed.models[1].gate.threshold = handoff_scheduler::Threshold::constant(4);
        let fraction = |config: &EngineConfig| {
            let metrics = run(config, 8, 5, 300).unwrap();
            metrics.models[1].committed_tokens as f64 / metrics.tokens as f64
        };
        support::assert_close(fraction(&delayed), fraction(&eager), 0.01);
    }
}
