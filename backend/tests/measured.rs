//! R-Stitch on the entropy of the tiny model: what it decides, and what a simulator makes of its routes.
#![allow(missing_docs, clippy::unwrap_used)]

mod driver_support;
mod model_support;

use std::sync::Arc;

use driver_support::*;
use handoff_backend::driver::{Measurement, measure};
use handoff_scheduler::{Destination, ModelIdx, Outcome, RequestId, StepPlan, Timestamp};
use handoff_sim::engine::{EngineConfig, Observer, replicate_observed};
use handoff_sim::policy::{Policy, Replay, RouteRecord};
use model_support::*;

const REQUESTS: u64 = 16;

fn run(policy: impl Policy + 'static, concurrency: u32) -> (EngineConfig, Measurement) {
    let config = in_phase(config(policy, concurrency));
    let run = measure(&config, &mut tiny_models(2), SEED, window(0, REQUESTS), &logged()).unwrap();
    (config, run)
}

#[test]
fn a_threshold_of_0_sends_all_to_the_large_model_and_one_of_1_nothing() {
    for concurrency in [1, 4, 9] {
        let metrics = run(measured(0.0, true), concurrency).1.metrics;
        assert_eq!((metrics.models[0].committed_tokens, metrics.models[1].committed_tokens), (0, metrics.tokens));
        // The small model's only token of each request is dropped.
        assert_eq!(metrics.dropped_tokens, metrics.models[0].dropped_tokens);
        assert!(metrics.handoffs >= REQUESTS && metrics.handoffs == metrics.dropped_tokens);
        let metrics = run(measured(1.0, true), concurrency).1.metrics;
        assert_eq!((metrics.models[0].committed_tokens, metrics.models[1].steps), (metrics.tokens, 0));
        assert_eq!((metrics.dropped_tokens, metrics.handoffs), (0, 0));
    }
}

#[test]
fn the_measured_entropy_decides() {
    let tau = median_entropy(&mut Alone::new());
    for commit_on_return in [true, false] {
        let log = run(measured(tau.into(), commit_on_return), 4).1.log.unwrap();
        let mut decided = [0; 4];
        for row in &log.routes {
            let is_unsure = row.entropy.unwrap() > tau;
            let Outcome { destination, committed } = row.outcome;
            match (row.model.0, destination) {
                (_, Destination::Finished) => {}
                (0, Destination::Stay) => assert!(!is_unsure && committed),
                (0, _) => assert!(is_unsure && !committed),
                (_, Destination::Stay) => assert!(is_unsure && committed),
                // The first token of a visit is kept in any case.
                (_, _) => assert!(!is_unsure && (committed || !commit_on_return)),
            }
            decided[usize::from(row.model.0) * 2 + usize::from(destination != Destination::Stay)] += 1;
        }
        assert!(decided.iter().all(|&n| n > 10), "{decided:?}");
    }
}

/// What became of each request, by its index in the run: handoffs, tokens committed and dropped, and whether it finished.
#[derive(Default)]
struct ByRequest {
    idx_of_slot: Vec<u64>,
    found: Vec<Found>,
}

#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct Found {
    handoffs: u32,
    committed: u32,
    dropped: u32,
    finished: bool,
}

impl ByRequest {
    fn decided(&mut self, idx: u64, outcome: Outcome) {
        let idx = idx as usize;
        self.found.resize(self.found.len().max(idx + 1), Found::default());
        let found = &mut self.found[idx];
        found.handoffs += u32::from(matches!(outcome.destination, Destination::To(_)));
        found.committed += u32::from(outcome.committed);
        found.dropped += u32::from(!outcome.committed);
        found.finished |= outcome.destination == Destination::Finished;
    }
}

impl Observer for ByRequest {
    fn arrived(&mut self, _now: Timestamp, _model: ModelIdx, request: RequestId, idx: u64) {
        self.idx_of_slot.resize(self.idx_of_slot.len().max(request.idx() + 1), 0);
        self.idx_of_slot[request.idx()] = idx;
    }

    fn finished(&mut self, _now: Timestamp, _model: ModelIdx, plan: &StepPlan<'_>, outcomes: &[Outcome]) {
        for (row, &outcome) in plan.rows.iter().zip(outcomes) {
            self.decided(self.idx_of_slot[row.request.idx()], outcome);
        }
    }
}

#[test]
fn a_simulator_hands_off_as_the_models_did() {
    let tau = median_entropy(&mut Alone::new());
    for (concurrency, commit_on_return) in [(1, true), (1, false), (4, true), (9, false)] {
        let (config, run) = run(measured(tau.into(), commit_on_return), concurrency);
        let log = run.log.unwrap();
        let mut text = Vec::new();
        log.write_routes(&mut text).unwrap();
        let record = RouteRecord::from_reader(text.as_slice(), "routes.csv", 2).unwrap();
        // The simulator's own step times, so batches and order are others.
        let config = EngineConfig { policy: Arc::new(Replay::new(&record).unwrap()), ..config };
        let (predicted, simulated) =
            replicate_observed(&config, SEED, window(0, REQUESTS), ByRequest::default()).unwrap();
        let mut measured = ByRequest::default();
        log.routes.iter().for_each(|row| measured.decided(row.request, row.outcome));
        let both: Vec<_> = measured
            .found
            .iter()
            .zip(&simulated.found)
            .filter(|(measured, simulated)| measured.finished && simulated.finished)
            .collect();
        assert!(both.len() as u64 + u64::from(concurrency) > REQUESTS, "{}", both.len());
        assert!(both.iter().all(|(measured, simulated)| measured == simulated), "{both:?}");
        assert!(both.iter().map(|(measured, _)| measured.handoffs).sum::<u32>() > 50);
        if concurrency == 1 {
            let per_token = |handoffs, tokens| handoffs as f64 / tokens as f64;
            let (predicted, measured) = (&predicted, &run.metrics);
            assert_eq!(per_token(predicted.handoffs, predicted.tokens), per_token(measured.handoffs, measured.tokens));
            assert_eq!(predicted.dropped_tokens, measured.dropped_tokens);
        }
    }
}
