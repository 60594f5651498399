//! Decision logs, line by line as the harness saw them. Times are in ns of the virtual clock; `r0.1` is the request in slot 0, generation 1.
//! A change in a log is a change of what the scheduler decides.

mod support;

use handoff_scheduler::{Coordination, FirstKind, Hold, KvFull, ModelIdx, Order, Outcome, Sharing, Threshold};
use support::{Decision, Job, Model, Random, Setup, every};

/// A small model of 6 ns a step and a large one of 28 ns, on devices of their own.
fn small_and_large() -> Vec<Model> {
    vec![Model::new(0, 6), Model::new(1, 28)]
}

/// The small model's token is dropped with the given chance and made again by the large one, which commits one token and hands back.
fn r2r(percent: u64) -> impl FnMut(&Decision<'_>) -> Outcome {
    let mut random = Random::new(5);
    move |decision| match decision.model {
        ModelIdx(1) => Outcome::commit_to(ModelIdx(0)),
        _ if random.percent(percent) => Outcome::drop_to(ModelIdx(1)),
        _ => Outcome::STAY,
    }
}

/// Compares the log of a run, with its end, to `snapshots/golden__{name}.snap`.
fn golden(name: &str, setup: Setup, policy: impl FnMut(&Decision<'_>) -> Outcome + 'static) {
    let log = setup.run(policy).finished_log();
    insta::assert_snapshot!(name, log);
}

#[test]
fn r2r_eager() {
    golden("r2r_eager", Setup::new(small_and_large(), 3, vec![Job::new(100, 5); 4]), r2r(35));
}

#[test]
fn r2r_delayed_until_three_wait_at_the_large_model_while_there_are_three() {
    let mut models = small_and_large();
    models[1].gate.threshold = Threshold::by_active(&[1, 2, 3]);
    golden("r2r_delayed", Setup::new(models, 4, vec![Job::new(100, 5); 5]), r2r(35));
}

#[test]
fn held_rows_go_once_the_longest_wait_is_over() {
    let mut models = small_and_large();
    models[1] = models[1].clone().threshold(3);
    models[1].gate.wait_ns_max = Some(20);
    golden("longest_wait", Setup::new(models, 2, vec![Job::new(100, 4); 2]), every(&[1, 1]));
}

#[test]
fn infeasible_thresholds_stop_the_run() {
    let models = vec![Model::new(0, 6).threshold(2), Model::new(1, 28).threshold(2)];
    let one_moves = |decision: &Decision<'_>| match decision.request.job {
        0 => Outcome::commit_to(ModelIdx(1)),
        _ => Outcome::STAY,
    };
    golden("stall", Setup::new(models, 2, vec![Job::new(100, 6); 2]), one_moves);
}

/// Visits of `large` tokens to the large model; visits to the small one grow from request to request, so that the requests fall out of step.
fn uneven(large: u32) -> impl FnMut(&Decision<'_>) -> Outcome {
    move |decision| {
        let (run_length, peer) = match decision.model {
            ModelIdx(0) => (1 + decision.request.job as u32, ModelIdx(1)),
            _ => (large, ModelIdx(0)),
        };
        if decision.visit_steps < run_length { Outcome::STAY } else { Outcome::commit_to(peer) }
    }
}

/// Every visit to the large model is an extend and a decode.
fn kinds_apart(name: &str, first: FirstKind) {
    let models = vec![Model::new(0, 20), Model::new(1, 28)];
    let setup = Setup::new(models, 3, vec![Job::new(100, 8); 3]);
    golden(name, Setup { first: Some(first), ..setup }, uneven(2));
}

#[test]
fn kinds_apart_extend_first() {
    kinds_apart("kinds_apart_extend_first", FirstKind::Extend);
}

#[test]
fn kinds_apart_decode_first() {
    kinds_apart("kinds_apart_decode_first", FirstKind::Decode);
}

#[test]
fn preemption_takes_from_the_latest_arrival() {
    let mut models = small_and_large();
    models[0] = models[0].clone().kv(36, KvFull::Preempt);
    let jobs = vec![Job::new(12, 5), Job::new(14, 4), Job::new(12, 5), Job::new(9, 3)];
    golden("preemption", Setup::new(models, 3, jobs), every(&[2, 1]));
}

#[test]
fn requests_wait_for_kv_in_the_order_of_their_arrival() {
    let mut models = small_and_large();
    models[0] = models[0].clone().kv(40, KvFull::Wait);
    let jobs = vec![Job::new(20, 3), Job::new(15, 3), Job::new(5, 3), Job::new(1, 2)];
    golden("blocked", Setup::new(models, 4, jobs), every(&[1, 1]));
}

#[test]
fn two_requests_that_hold_what_the_other_waits_for_stop_the_run() {
    let models = small_and_large().into_iter().map(|model| model.kv(40, KvFull::Wait)).collect();
    let jobs = vec![Job::new(20, 9), Job { entry: ModelIdx(1), ..Job::new(20, 9) }];
    golden("reservations_lock_up", Setup::new(models, 2, jobs), every(&[1, 1]));
}

#[test]
fn a_request_is_cancelled_while_its_message_is_in_flight() {
    let mut setup = Setup::new(small_and_large(), 1, vec![Job::new(100, 4); 3]);
    setup.hop_ns = (5, 5);
    // The first step ends at 6 and its message arrives at 11. The second client gives up once its request is pending at the small model.
    setup.cancels = vec![(8, 0), (22, 1)];
    golden("cancelled_in_flight", setup, every(&[1, 1]));
}

#[test]
fn three_models_in_a_ring() {
    let models = vec![Model::new(0, 5), Model::new(1, 10), Model::new(2, 20)];
    let mut setup = Setup::new(models, 2, vec![Job::new(50, 9), Job::new(60, 7)]);
    setup.hop_ns = (1, 1);
    golden("three_models_in_a_ring", setup, every(&[2, 1, 1]));
}

#[test]
fn step_sync_rounds_wait_for_the_slowest() {
    let mut setup = Setup::new(small_and_large(), 3, vec![Job::new(100, 4), Job::new(100, 5), Job::new(100, 3)]);
    setup.coordination = Coordination::StepSync;
    golden("step_sync", setup, r2r(40));
}

#[test]
fn model_sync_stalls_the_other_model() {
    let mut setup = Setup::new(small_and_large(), 3, vec![Job::new(100, 4), Job::new(100, 5), Job::new(100, 3)]);
    setup.coordination = Coordination::ModelSync(Order::LargeFirst);
    golden("model_sync", setup, r2r(40));
}

#[test]
fn held_prompts_wait_and_count_towards_the_threshold() {
    let mut models = small_and_large();
    models[0].gate.threshold = Threshold::by_active(&[1, 2]);
    models[0].gate.hold = Hold::All;
    // The first request waits at the small model from 0 on; the second comes there from the large one.
    let jobs = vec![Job::new(10, 2), Job { entry: ModelIdx(1), ..Job::new(20, 4) }];
    golden("held_prompts", Setup::new(models, 2, jobs), |decision: &Decision<'_>| match decision.model {
        ModelIdx(1) => Outcome::commit_to(ModelIdx(0)),
        _ => Outcome::STAY,
    });
}

/// One device for both models.
fn exclusive(name: &str, order: Order) {
    let mut models = small_and_large();
    models[1].device = 0;
    let setup = Setup::new(models, 3, vec![Job::new(100, 6); 3]);
    golden(name, Setup { sharing: Sharing::Exclusive(order), ..setup }, uneven(2));
}

#[test]
fn exclusive_large_first() {
    exclusive("exclusive_large_first", Order::LargeFirst);
}

#[test]
fn exclusive_small_first() {
    exclusive("exclusive_small_first", Order::SmallFirst);
}

#[test]
fn exclusive_alternate() {
    exclusive("exclusive_alternate", Order::Alternate);
}
