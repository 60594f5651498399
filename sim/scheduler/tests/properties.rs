//! What holds for every set of models, gate, budget, coordination and policy. The harness checks the account of every request, the rows of
//! every launch, the coordination and the order of those who wait for KV after each event; here is what the end of a run must be.

mod support;

use handoff_scheduler::{
    Coordination, Destination, FirstKind, Hold, KvFull, ModelIdx, Order, Outcome, Sharing, Threshold,
};
use proptest::prelude::*;
use proptest::sample::select;
use support::{Decision, End, Job, Model, Random, Set, Setup};

/// Thresholds can stop a run only if so many requests may wait below them: the sum of (B - 1) over the models.
fn held_max(models: &[Model], active: usize) -> usize {
    models.iter().map(|model| model.gate.threshold.at(active as u32) as usize - 1).sum()
}

/// A policy that moves, drops and stops early as chance has it.
#[derive(Clone, Copy, Debug)]
struct Chances {
    move_percent: u64,
    drop_percent: u64,
    stop_percent: u64,
    seed: u64,
}

fn random_policy(n_models: usize, chances: Chances) -> impl FnMut(&Decision<'_>) -> Outcome {
    let mut random = Random::new(chances.seed);
    move |decision| {
        let committed = decision.request.dropped_tokens >= 20 || !random.percent(chances.drop_percent);
        let destination = if random.percent(chances.stop_percent) {
            Destination::Finished
        } else if n_models > 1 && random.percent(chances.move_percent) {
            let step = 1 + random.below(n_models as u64 - 1) as usize;
            Destination::To(ModelIdx(((decision.model.idx() + step) % n_models) as u8))
        } else {
            Destination::Stay
        };
        Outcome { destination, committed }
    }
}

/// The longest context of the jobs that `setups` makes, tokens.
const CONTEXT_MAX: u64 = 60;

fn orders() -> impl Strategy<Value = Order> {
    select(vec![Order::LargeFirst, Order::SmallFirst, Order::Alternate])
}

fn models(concurrency: usize, feasible: bool) -> impl Strategy<Value = Vec<Model>> {
    let threshold = move || prop::collection::vec(1..=concurrency as u32, 1..=4);
    let holds = select(vec![Hold::Both, Hold::Both, Hold::Decode, Hold::Extend, Hold::All]);
    let gate = (threshold(), holds, prop::option::weighted(0.3, 0..60_u64));
    let budget = prop_oneof![Just(1 << 40), CONTEXT_MAX..3 * CONTEXT_MAX];
    let kv = (budget, select(vec![KvFull::Wait, KvFull::Preempt]));
    let times = (1..12_u64, 0..3_u64, 0..3_u64);
    let model =
        (gate, kv, times, 0..3_u16).prop_map(|((rows, hold, wait_ns_max), (budget, when_full), times, device)| {
            let mut model = Model::new(device, times.0).kv(budget, when_full);
            (model.per_row_ns, model.loop_ns) = (times.1, times.2);
            model.gate.threshold = Threshold::by_active(&rows);
            (model.gate.hold, model.gate.wait_ns_max) = (hold, wait_ns_max);
            model
        });
    prop::collection::vec(model, 1..=4).prop_map(move |mut models| {
        if feasible {
            make_feasible(&mut models, concurrency);
        }
        models
    })
}

/// Lowers thresholds until no number of requests can wait below them, and gives the KV that would stop a run otherwise.
fn make_feasible(models: &mut [Model], concurrency: usize) {
    let wanted: Vec<Threshold> = models.iter().map(|model| model.gate.threshold.clone()).collect();
    let mut left: Vec<usize> = (0..concurrency).collect();
    for (model, wanted) in models.iter_mut().zip(wanted) {
        let rows = (1..=concurrency).zip(&mut left).map(|(active, left)| {
            let rows = wanted.at(active as u32).min(*left as u32 + 1);
            *left -= rows as usize - 1;
            rows
        });
        model.gate.threshold = Threshold::by_active(&rows.collect::<Vec<u32>>());
        if model.kv.when_full == KvFull::Wait {
            model.kv.budget_tokens = concurrency as u64 * CONTEXT_MAX;
        }
    }
}

fn setups(feasible: bool) -> impl Strategy<Value = Setup> {
    (1..=9_usize).prop_flat_map(move |concurrency| {
        let job = (1..=35_u32, 1..=25_u32, 0..4_u8);
        let jobs = prop::collection::vec(job, concurrency..=2 * concurrency + 4);
        let coordination = prop_oneof![
            2 => Just(Coordination::Independent),
            1 => Just(Coordination::StepSync),
            1 => orders().prop_map(Coordination::ModelSync),
        ];
        let sharing = prop_oneof![Just(Sharing::Overlapped), orders().prop_map(Sharing::Exclusive)];
        let first = select(vec![None, Some(FirstKind::Extend), Some(FirstKind::Decode)]);
        let cancels = prop::collection::vec((0..400_u64, 0..16_usize), 0..6);
        let hop = prop_oneof![Just((0, 0)), Just((3, 3)), Just((0, 15))];
        (models(concurrency, feasible), jobs, coordination, sharing, first, cancels, hop, any::<u64>()).prop_map(
            move |(models, jobs, coordination, sharing, first, cancels, hop_ns, seed)| {
                let n_models = models.len() as u8;
                let job = |(prompt_tokens, output_tokens, entry)| Job {
                    prompt_tokens,
                    output_tokens,
                    entry: ModelIdx(entry % n_models),
                };
                let jobs = jobs.into_iter().map(job).collect();
                Setup { first, coordination, sharing, hop_ns, cancels, seed, ..Setup::new(models, concurrency, jobs) }
            },
        )
    })
}

fn chances() -> impl Strategy<Value = Chances> {
    (0..100_u64, select(vec![0, 10, 40]), select(vec![0, 0, 5]), any::<u64>()).prop_map(
        |(move_percent, drop_percent, stop_percent, seed)| Chances { move_percent, drop_percent, stop_percent, seed },
    )
}

fn run(setup: Setup, chances: Chances) -> Set {
    let n_models = setup.models.len();
    setup.run(random_policy(n_models, chances))
}

/// Nothing is left anywhere.
fn check_drained(set: &Set) {
    assert_eq!(set.account.live().count(), 0);
    for subserver in &set.subservers {
        assert_eq!((subserver.kv_used_tokens(), subserver.kv_reserved_tokens()), (0, 0));
        assert!(subserver.waiting().is_empty() && !subserver.is_in_flight() && subserver.poll_timeout().is_none());
    }
}

/// Everybody waits at some subserver, behind a gate without limit or for KV that others hold, and the thresholds or the KV are why.
fn check_stalled(set: &Set) {
    assert!(set.all_are_at_subservers());
    let blocked: usize = set.subservers.iter().map(|subserver| subserver.blocked().count()).sum();
    let waiting: usize = set.subservers.iter().map(|subserver| subserver.waiting().len()).sum();
    assert_eq!(waiting + blocked, set.account.active);
    for (subserver, model) in set.subservers.iter().zip(&set.setup.models) {
        let threshold = model.gate.threshold.at(set.account.active as u32);
        assert_eq!(subserver.threshold_now(), threshold);
        assert!(subserver.waiting().len() < threshold as usize);
        assert!(subserver.waiting().is_empty() || model.gate.wait_ns_max.is_none());
        assert!(subserver.blocked().count() == 0 || subserver.kv_reserved_tokens() > 0);
    }
    assert!(blocked > 0 || held_max(&set.setup.models, set.account.active) >= set.account.active);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn with_feasible_thresholds_and_room_every_run_drains(setup in setups(true), chances in chances()) {
        let set = run(setup, chances);
        prop_assert_eq!(set.end, Some(End::Drained), "{}", set.log);
        check_drained(&set);
    }

    #[test]
    fn every_run_drains_or_stalls_for_a_reason(setup in setups(false), chances in chances()) {
        let set = run(setup, chances);
        match set.end {
            Some(End::Drained) => check_drained(&set),
            end => {
                prop_assert_eq!(end, Some(End::Stalled));
                check_stalled(&set);
            }
        }
    }

    #[test]
    fn the_same_facts_yield_the_same_decisions(setup in setups(false), chances in chances()) {
        prop_assert_eq!(run(setup.clone(), chances).log, run(setup, chances).log);
    }

    /// Two requests that each hold what the other waits for need two ways in, or three models.
    #[test]
    fn reservations_do_not_lock_up_where_all_enter_at_one_of_two_models(
        setup in setups(true),
        chances in chances(),
        budgets in [CONTEXT_MAX..3 * CONTEXT_MAX, CONTEXT_MAX..3 * CONTEXT_MAX],
    ) {
        let models = budgets.iter().zip(0..).map(|(&budget, device)| {
            let of = &setup.models[device as usize % setup.models.len()];
            let mut model = Model { device, ..of.clone() }.kv(budget, KvFull::Wait);
            model.gate.threshold = Threshold::constant(1);
            model
        });
        let jobs = setup.jobs.iter().map(|job| Job { entry: ModelIdx(0), ..*job });
        let set = run(Setup { models: models.collect(), jobs: jobs.collect(), ..setup.clone() }, chances);
        prop_assert_eq!(set.end, Some(End::Drained), "{}", set.log);
    }

    /// Without cancelled requests and early stops, every output token is committed once.
    #[test]
    fn no_token_is_lost_or_made_twice(setup in setups(true), chances in chances()) {
        let setup = Setup { cancels: Vec::new(), ..setup };
        let wanted: u64 = setup.jobs.iter().map(|job| u64::from(job.output_tokens)).sum();
        let set = run(setup, Chances { stop_percent: 0, ..chances });
        prop_assert_eq!((set.committed, set.finished), (wanted, set.setup.jobs.len()));
    }
}

/// With endless requests that move at random, thresholds stop the run exactly where sum (B - 1) >= concurrency: then all requests can
/// come to wait below them, and sooner or later do.
#[test]
fn thresholds_stop_a_run_exactly_where_they_are_infeasible() {
    for concurrency in [1, 2, 3, 5] {
        for small in 1..=concurrency as u32 {
            for large in 1..=concurrency as u32 {
                let models = vec![Model::new(0, 6).threshold(small), Model::new(1, 28).threshold(large)];
                let setup = Setup {
                    finished_max: Some(60),
                    ..Setup::new(models, concurrency, vec![Job::new(10, 60); 60 + concurrency])
                };
                let infeasible = held_max(&setup.models, concurrency) >= concurrency;
                let chances = Chances { move_percent: 40, drop_percent: 0, stop_percent: 0, seed: 7 };
                let end = run(setup, chances).end;
                let expected = if infeasible { End::Stalled } else { End::Enough };
                assert_eq!(end, Some(expected), "concurrency {concurrency}, thresholds {small} and {large}");
            }
        }
    }
}
