//! Runs whose requests ask the prompts of a file.
#![allow(missing_docs, clippy::unwrap_used)]

mod driver_support;

use std::sync::Arc;

use driver_support::*;
use handoff_backend::Prompts;
use handoff_backend::driver::{DriverError, DriverOptions, EmulatedExecutor, Executor, measure};
use handoff_backend::record::{Event, RecordedInput};
use handoff_scheduler::{ModelIdx, RequestId, RowKind, StepPlan, Timestamp};
use handoff_sim::engine::{EngineConfig, Observer, replicate_observed};

const CONCURRENCY: u32 = 4;
const REQUESTS: u64 = 20;

fn prompts() -> Arc<Prompts> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("prompts.jsonl");
    std::fs::write(&file, "{\"tokens\": [1, 2, 3, 4, 5]}\n{\"tokens\": [996]}\n{\"tokens\": [7, 8]}\n").unwrap();
    Arc::new(Prompts::read(&file, None, 997).unwrap())
}

fn with_prompts(prompts: &Arc<Prompts>) -> (EngineConfig, DriverOptions) {
    let base = config(restless(), CONCURRENCY);
    let workload = prompts.workload(&base.workload).unwrap();
    (EngineConfig { workload, ..base }, DriverOptions { prompts: Some(Arc::clone(prompts)), ..logged() })
}

#[test]
fn requests_ask_the_prompts_in_turn() {
    let prompts = prompts();
    let (config, options) = with_prompts(&prompts);
    let run = measure(&config, &mut instant(2), SEED, window(0, REQUESTS), &options).unwrap();
    let mut n_behind = 0;
    for request in &run.requests {
        let (asked, behind) = request.prompt.split_at(prompts.of_request(request.request_idx).len());
        assert_eq!(asked, prompts.of_request(request.request_idx));
        // Only a request that a random start has put on its way knows more than its prompt.
        assert!(behind.is_empty() || request.request_idx < u64::from(CONCURRENCY));
        n_behind += behind.len();
    }
    assert!(run.requests.len() as u64 >= REQUESTS && n_behind > 0);
}

/// Tokens with which each request arrived, by its index in the run; seen at its first launch.
#[derive(Default)]
struct Arrived {
    idx_of_slot: Vec<usize>,
    tokens: Vec<u32>,
}

impl Observer for Arrived {
    fn arrived(&mut self, _now: Timestamp, _model: ModelIdx, request: RequestId, idx: u64) {
        self.idx_of_slot.resize(self.idx_of_slot.len().max(request.idx() + 1), 0);
        self.idx_of_slot[request.idx()] = idx as usize;
        self.tokens.push(0);
    }

    fn launched(&mut self, _now: Timestamp, _model: ModelIdx, plan: &StepPlan<'_>) {
        for row in plan.rows.iter().filter(|row| row.kind == RowKind::Prefill) {
            let tokens = &mut self.tokens[self.idx_of_slot[row.request.idx()]];
            // The first one: the other model prefills too.
            if *tokens == 0 {
                *tokens = row.new_tokens;
            }
        }
    }
}

#[test]
fn a_simulation_of_the_run_has_the_same_lengths() {
    let (config, options) = with_prompts(&prompts());
    let run = measure(&config, &mut instant(2), SEED, window(0, REQUESTS), &options).unwrap();
    let (_, simulated) = replicate_observed(&config, SEED, window(0, REQUESTS), Arrived::default()).unwrap();
    let told = run.log.unwrap().entries.into_iter().filter_map(|entry| match entry.event {
        Event::Told(RecordedInput::RequestArrived { context_tokens, .. }) => Some(context_tokens),
        _ => None,
    });
    let told: Vec<u32> = told.collect();
    let n = REQUESTS as usize;
    assert_eq!(told[..n], simulated.tokens[..n]);
    // After the first requests, which begin on their way.
    assert_eq!(told[4..10], [1, 2, 5, 1, 2, 5]);
}

#[test]
fn prompts_that_do_not_fit_the_run_are_refused() {
    let (fitting, options) = with_prompts(&prompts());
    let refused = |config: &EngineConfig, executors: &mut [Box<dyn Executor>]| {
        measure(config, executors, SEED, window(0, REQUESTS), &options).unwrap_err()
    };
    let error = refused(&config(restless(), CONCURRENCY), &mut instant(2));
    assert!(matches!(error, DriverError::PromptLengths), "{error}");
    let mut small: Vec<Box<dyn Executor>> =
        (0..2).map(|_| Box::new(EmulatedExecutor::instant(996)) as Box<dyn Executor>).collect();
    let error = refused(&fitting, &mut small);
    assert_eq!(error.to_string(), "a prompt has token 996, expected an id below 996, the vocabulary of the models");
}
