//! The switches of the scheduler: modes that tie models together, and what happens when KV runs out.
#![allow(clippy::unwrap_used)]

mod support;

use handoff_scheduler::{
    Coordination, KvConfig, KvFull, ModelIdx, Order, Outcome, RequestId, Row, Sharing, StepPlan, Timestamp,
};
use handoff_sim::engine::{EngineConfig, Metrics, Observer, Window, replicate_observed};
use handoff_sim::policy::{Every, r_stitch, r2r};
use handoff_sim::workload::Start;
use support::{LARGE_NS, SMALL_NS, accounted, assert_close, pair, run, started};

/// Times of all steps, in the order of their launches.
#[derive(Default)]
struct Spans {
    /// Model, launch, end: when the results counted.
    spans: Vec<(ModelIdx, u64, u64)>,
}

impl Observer for Spans {
    fn launched(&mut self, now: Timestamp, model: ModelIdx, _plan: &StepPlan<'_>) {
        self.spans.push((model, now.as_ns(), u64::MAX));
    }

    fn finished(&mut self, now: Timestamp, model: ModelIdx, _plan: &StepPlan<'_>, _outcomes: &[Outcome]) {
        let open = self.spans.iter_mut().rev().find(|(of, _, _)| *of == model).unwrap();
        open.2 = now.as_ns();
    }
}

fn spans(config: &EngineConfig) -> Vec<(ModelIdx, u64, u64)> {
    let window = Window::Requests { warmup_requests: 0, requests: 30 };
    replicate_observed(config, 5, window, Spans::default()).unwrap().1.spans
}

/// Step-sync: all models launch together, and nobody goes on before the slowest of the round is done.
#[test]
fn step_sync_goes_in_rounds_of_its_slowest_model() {
    for hop_ns in [0, 700_000] {
        let policy = r_stitch::new(0.2, 0.3, true).unwrap();
        let config = EngineConfig { coordination: Coordination::StepSync, hop_ns, ..pair(policy, 9) };
        let spans = spans(&started(config, 60, Start::Random));
        let mut round_end = 0;
        let mut both = 0;
        for rounds in spans.chunk_by(|one, other| one.1 == other.1) {
            let launch = rounds[0].1;
            assert!(launch >= round_end, "a step began at {launch} in a round that ends at {round_end}");
            let slowest_ns =
                rounds.iter().map(|(model, ..)| if model.0 == 0 { SMALL_NS } else { LARGE_NS }).max().unwrap();
            round_end = launch + slowest_ns;
            // All results of a round count at its end; the last round may be cut off.
            assert!(rounds.iter().all(|&(_, _, end)| end == round_end || end == u64::MAX));
            both += usize::from(rounds.len() == 2);
        }
        assert!(both > 100, "{both} rounds of two steps");
    }
    // Two requests apart advance by one token each a round.
    let config = EngineConfig { coordination: Coordination::StepSync, ..pair(Every::new(1, 1).unwrap(), 2) };
    let metrics = run(&started(config, 2_000, Start::Spread), 1, 0, 2).unwrap();
    assert_close(metrics.throughput(), 2.0 / 16e-3, 1e-3);
}

/// Model-sync: never two steps at once, on separate devices either; it is an exclusive device under another name.
#[test]
fn model_sync_runs_one_model_at_a_time() {
    for order in [Order::LargeFirst, Order::SmallFirst, Order::Alternate] {
        let policy = || r_stitch::new(0.2, 0.3, true).unwrap();
        let config =
            EngineConfig { coordination: Coordination::ModelSync(order), hop_ns: 100_000, ..pair(policy(), 9) };
        let config = started(config, 60, Start::Random);
        let spans = spans(&config);
        assert!(spans.windows(2).all(|pair| pair[0].2 <= pair[1].1), "{order:?}");
        assert!(spans.iter().any(|(model, ..)| model.0 == 0) && spans.iter().any(|(model, ..)| model.0 == 1));

        let mut exclusive = EngineConfig {
            coordination: Coordination::Independent,
            sharing: Sharing::Exclusive(order),
            ..config.clone()
        };
        exclusive.models.iter_mut().for_each(|model| model.device = 0);
        assert_eq!(accounted(&config, 5, 0, 60).1, accounted(&exclusive, 5, 0, 60).1, "{order:?}");
    }
}

/// Eager beats both synchronous modes where they make requests wait for others; all modes are the same for one request.
#[test]
fn synchronous_modes_cost_and_do_not_touch_one_request() {
    let with = |coordination, concurrency: u32, warmup_requests| {
        let config = EngineConfig { coordination, ..pair(r2r::new(0.1).unwrap(), concurrency) };
        run(&started(config, 300, Start::InPhase), 5, warmup_requests, 60).unwrap()
    };
    let modes = [Coordination::Independent, Coordination::StepSync, Coordination::ModelSync(Order::LargeFirst)];
    let [eager, step_sync, model_sync] = modes.map(|mode| with(mode, 8, 8).throughput());
    assert!(eager > 1.2 * step_sync && eager > 1.2 * model_sync);
    let [eager, step_sync, model_sync] = modes.map(|mode| {
        let metrics = with(mode, 1, 1);
        (
            metrics.window_start_ns,
            metrics.window_ns(),
            metrics.tokens,
            [0, 1].map(|idx| (metrics.models[idx].steps, metrics.models[idx].busy_ns)),
        )
    });
    assert_eq!(eager, step_sync);
    assert_eq!(eager, model_sync);
}

/// Which requests hold KV at each model: from their first launch there until they are complete.
struct Holders {
    most: [usize; 2],
    now: [Vec<RequestId>; 2],
}

impl Observer for Holders {
    fn launched(&mut self, _now: Timestamp, model: ModelIdx, plan: &StepPlan<'_>) {
        let held = &mut self.now[model.idx()];
        for Row { request, .. } in plan.rows {
            if !held.contains(request) {
                held.push(*request);
            }
        }
        self.most[model.idx()] = self.most[model.idx()].max(held.len());
    }

    fn finished(&mut self, _now: Timestamp, _model: ModelIdx, plan: &StepPlan<'_>, outcomes: &[Outcome]) {
        for (row, outcome) in plan.rows.iter().zip(outcomes) {
            if outcome.destination == handoff_scheduler::Destination::Finished {
                self.now.iter_mut().for_each(|held| held.retain(|request| *request != row.request));
            }
        }
    }
}

/// A budget of k requests' longest contexts admits k; the others wait at the entry, and the system is that of k requests.
#[test]
fn a_kv_budget_admits_as_many_requests_as_it_holds() {
    let with = |concurrency, budgets: [u64; 2]| {
        let mut config = started(pair(r2r::new(0.2).unwrap(), concurrency), 100, Start::InPhase);
        for (model, budget_tokens) in config.models.iter_mut().zip(budgets) {
            model.kv = KvConfig { budget_tokens, when_full: KvFull::Wait };
        }
        config
    };
    let window = Window::Requests { warmup_requests: 10, requests: 100 };
    let observe = |config: &EngineConfig| {
        let holders = Holders { most: [0; 2], now: [Vec::new(), Vec::new()] };
        let (metrics, holders) = replicate_observed(config, 5, window, holders).unwrap();
        accounted(config, 5, 10, 100);
        (metrics, holders.most)
    };
    // Prompt 100 and output 100: 200 tokens each, and 999 hold four.
    let (four, most) = observe(&with(10, [999, 1 << 40]));
    assert_eq!(most[0], 4);
    let (free, _) = observe(&with(4, [1 << 40; 2]));
    assert_eq!((four.tokens, four.window_ns(), four.handoffs), (free.tokens, free.window_ns(), free.handoffs));
    let (_, most) = observe(&with(10, [1 << 40, 600]));
    assert_eq!(most, [10, 3]);
}

/// Without reservations a launch that does not fit takes KV from the latest arrivals, which are computed anew; no token is lost.
#[test]
fn preempted_requests_are_computed_anew_and_conserve_their_tokens() {
    let with = |budget_tokens, when_full| {
        let mut config = started(pair(r_stitch::new(0.2, 0.3, true).unwrap(), 8), 100, Start::InPhase);
        config.models.iter_mut().for_each(|model| model.kv = KvConfig { budget_tokens, when_full });
        config
    };
    let (ample, digest) = accounted(&with(1_600, KvFull::Preempt), 5, 8, 100);
    assert_eq!(ample.preemptions, 0);
    assert_eq!(digest, accounted(&with(1_600, KvFull::Wait), 5, 8, 100).1);
    for budget_tokens in [200, 450, 800] {
        let (tight, _) = accounted(&with(budget_tokens, KvFull::Preempt), 5, 8, 100);
        assert!(tight.preemptions > 20, "{budget_tokens}: {}", tight.preemptions);
        assert_eq!(tight.tokens, tight.models.iter().map(|own| own.committed_tokens).sum::<u64>());
        let prefills = |metrics: &Metrics| metrics.models.iter().map(|own| own.prefill_rows).sum::<u64>();
        assert!(prefills(&tight) > prefills(&ample) + 20);
    }
}
