//! What the policies have in common: exact averages against simulated decisions, the commit and drop table of each published policy,
//! independence of the batch order, and replay.

use std::collections::BTreeSet;

use handoff_scheduler::{Destination, ModelIdx, Origin, Outcome, RequestId, Row, RowKind, Timestamp};

use super::record::{RecordRow, RecordWriter};
use super::*;
use crate::rng::Purpose;

const BATCHES: usize = 200;
const BATCH_STEPS: usize = 1000;

/// Counts over one batch of decisions.
#[derive(Clone)]
struct Counts {
    steps: Vec<f64>,
    tokens: Vec<f64>,
    handoffs: Vec<f64>,
}

/// 200,000 decisions of one request that begins at a random point.
fn simulate(policy: &dyn Policy, seed: u64) -> Vec<Counts> {
    let mut route = Route::new(u32::MAX, Stream::new(seed, Purpose::Route, 0), 0);
    let mut model = policy.begin_at(StartRule::Random, &mut route, &mut Stream::new(seed, Purpose::Start, 0));
    let zero = vec![0.0; policy.n_models()];
    let mut batch = || {
        let mut counts = Counts { steps: zero.clone(), tokens: zero.clone(), handoffs: zero.clone() };
        for _ in 0..BATCH_STEPS {
            let outcome = policy.decide(model, &mut route);
            counts.steps[model.idx()] += 1.0;
            counts.tokens[model.idx()] += f64::from(u8::from(outcome.committed));
            if let Destination::To(to) = outcome.destination {
                counts.handoffs[model.idx()] += 1.0;
                model = to;
            }
        }
        counts
    };
    (0..BATCHES).map(|_| batch()).collect()
}

/// How far the mean of `samples` is from 0, in standard errors.
fn standard_errors_from_0(samples: &[f64]) -> f64 {
    let n = samples.len() as f64;
    let mean = samples.iter().sum::<f64>() / n;
    let variance = samples.iter().map(|sample| (sample - mean).powi(2)).sum::<f64>() / (n - 1.0);
    // The rounding of the exact values adds up to far less than a thousandth of an event a batch.
    (mean.abs() - 1e-3).max(0.0) / (variance / n).sqrt().max(1e-12)
}

/// Each exact average with its distance, in standard errors, from the simulated decisions.
fn distances(batches: &[Counts], exact: &Stationary) -> Vec<(String, f64)> {
    let mut distances = Vec::new();
    // A ratio a / b has the exact value r if a - r b has mean 0.
    let mut check = |name: String, sample: &dyn Fn(&Counts) -> f64| {
        distances.push((name, standard_errors_from_0(&batches.iter().map(sample).collect::<Vec<_>>())));
    };
    let sum = |counts: &[f64]| counts.iter().sum::<f64>();
    for model in 0..exact.step_fractions.len() {
        check(format!("steps of {model}"), &|c| c.steps[model] - exact.step_fractions[model] * sum(&c.steps));
        check(format!("tokens of {model}"), &|c| c.tokens[model] - exact.token_fractions[model] * sum(&c.tokens));
        if exact.steps_per_visit[model].is_finite() {
            check(format!("visits to {model}"), &|c| c.steps[model] - exact.steps_per_visit[model] * c.handoffs[model]);
        }
    }
    check("commits".to_owned(), &|c| sum(&c.tokens) - exact.commits_per_step * sum(&c.steps));
    check("handoffs".to_owned(), &|c| sum(&c.handoffs) - exact.handoffs_per_token * sum(&c.tokens));
    distances
}

#[track_caller]
fn assert_simulation_agrees(policy: &dyn Policy, exact: &Stationary) {
    for (name, distance) in distances(&simulate(policy, 7), exact) {
        assert!(distance < 4.0, "{}: {name} is {distance} standard errors off", policy.kind());
    }
}

#[track_caller]
fn assert_close(found: &Stationary, expected: &Stationary) {
    let flat = |s: &Stationary| {
        [&s.step_fractions[..], &s.token_fractions, &s.steps_per_visit, &[s.commits_per_step, s.handoffs_per_token]]
            .concat()
    };
    let close = flat(found).iter().zip(flat(expected)).all(|(x, y)| (x - y).abs() <= 1e-12 * y.abs().max(1.0));
    assert!(close, "{found:?}\nexpected {expected:?}");
}

/// The averages of R2R's law, derived by hand: of 1 + p steps per token, p are the large model's.
fn detour(p: f64) -> Stationary {
    Stationary {
        step_fractions: vec![1.0 / (1.0 + p), p / (1.0 + p)],
        token_fractions: vec![1.0 - p, p],
        steps_per_visit: vec![1.0 / p, 1.0],
        commits_per_step: 1.0 / (1.0 + p),
        handoffs_per_token: 2.0 * p,
    }
}

/// The averages of R-Stitch: a cycle has 1/a steps on the small model, of which the last is dropped, and 1/b on the large one.
fn stitch(a: f64, b: f64, commit_on_return: bool) -> Stationary {
    let steps = [1.0 / a, 1.0 / b];
    let tokens = [1.0 / a - 1.0, 1.0 / b - if commit_on_return { 0.0 } else { 1.0 }];
    let (cycle_steps, cycle_tokens) = (steps[0] + steps[1], tokens[0] + tokens[1]);
    Stationary {
        step_fractions: steps.map(|steps| steps / cycle_steps).to_vec(),
        token_fractions: tokens.map(|tokens| tokens / cycle_tokens).to_vec(),
        steps_per_visit: steps.to_vec(),
        commits_per_step: cycle_tokens / cycle_steps,
        handoffs_per_token: 2.0 / cycle_tokens,
    }
}

fn ensemble_of(weights: &[f64]) -> Stationary {
    Stationary {
        step_fractions: weights.to_vec(),
        token_fractions: weights.to_vec(),
        steps_per_visit: weights.iter().map(|weight| 1.0 / (1.0 - weight)).collect(),
        commits_per_step: 1.0,
        handoffs_per_token: 1.0 - weights.iter().map(|weight| weight * weight).sum::<f64>(),
    }
}

#[test]
fn published_policies_have_their_exact_averages() {
    let cases = [
        (r2r::new(r2r::P), detour(0.35)),
        (citer::new(citer::P), detour(0.20)),
        (co_llm::new(co_llm::P), detour(0.57)),
        (r_stitch::new(0.1, 0.25, true), stitch(0.1, 0.25, true)),
        (r_stitch::new(0.1, 0.25, false), stitch(0.1, 0.25, false)),
        (ensemble::new(&ensemble::WEIGHTS, ModelIdx(0)), ensemble_of(&[0.5, 0.3, 0.2])),
        (ensemble::new(&[0.1, 0.2, 0.3, 0.4], ModelIdx(2)), ensemble_of(&[0.1, 0.2, 0.3, 0.4])),
    ];
    for (policy, expected) in cases {
        let policy = policy.unwrap();
        assert_close(policy.stationary(), &expected);
        assert_simulation_agrees(&policy, &expected);
    }
}

#[test]
fn the_comparison_notices_a_small_difference() {
    let batches = simulate(&r2r::new(0.35).unwrap(), 7);
    assert!(distances(&batches, &detour(0.36)).iter().all(|(name, distance)| name == "visits to 1" || *distance > 4.0));
}

#[test]
fn extreme_probabilities_are_exact() {
    let never = r2r::new(0.0).unwrap();
    assert_eq!(never.stationary().token_fractions, [1.0, 0.0]);
    assert_simulation_agrees(&never, never.stationary());
    let always = r2r::new(1.0).unwrap();
    assert_close(always.stationary(), &detour(1.0));
    assert_simulation_agrees(&always, always.stationary());
    let endless = r_stitch::new(1.0, 1.0, false).unwrap_err();
    assert!(matches!(endless, PolicyError::NeverCommits { kind: "r-stitch" }), "{endless}");
}

#[test]
fn a_period_has_its_exact_averages() {
    let policy = Every::new(3, 5).unwrap();
    let exact = policy.stationary();
    assert_eq!(exact.handoffs_per_token, 0.25);
    assert_simulation_agrees(&policy, &exact);
}

#[test]
fn fractional_commits_have_their_exact_averages() {
    let routes = vec![vec![0.2, 0.5, 0.3], vec![0.6, 0.4, 0.0], vec![0.0, 0.9, 0.1]];
    let commits = vec![vec![0.9, 0.5, 0.0], vec![1.0, 0.25, 0.0], vec![0.0, 0.75, 1.0]];
    let policy = Markov::new(routes, commits, ModelIdx(0)).unwrap();
    assert_simulation_agrees(&policy, policy.stationary());
}

#[test]
fn tokens_are_committed_and_dropped_as_published() {
    let small_keeps = (0, Outcome::STAY);
    let small_drops = (0, Outcome::drop_to(ModelIdx(1)));
    let large_returns = (1, Outcome::commit_to(ModelIdx(0)));
    let detour = vec![small_keeps, small_drops, large_returns];
    let cases = [
        (r2r::new(0.35), detour.clone()),
        (citer::new(0.2), detour.clone()),
        (co_llm::new(0.57), detour),
        (r_stitch::new(0.3, 0.4, true), vec![small_keeps, small_drops, (1, Outcome::STAY), large_returns]),
        (
            r_stitch::new(0.3, 0.4, false),
            vec![small_keeps, small_drops, (1, Outcome::STAY), (1, Outcome::drop_to(ModelIdx(0)))],
        ),
        (
            ensemble::new(&[0.6, 0.4], ModelIdx(0)),
            vec![small_keeps, (0, Outcome::commit_to(ModelIdx(1))), (1, Outcome::STAY), large_returns],
        ),
    ];
    let set = |outcomes: Vec<(u8, Outcome)>| -> BTreeSet<String> {
        outcomes.iter().map(|outcome| format!("{outcome:?}")).collect()
    };
    for (policy, expected) in cases {
        let policy = policy.unwrap();
        assert_eq!(policy.entry(), ModelIdx(0));
        let mut route = Route::new(u32::MAX, Stream::new(3, Purpose::Route, 0), 0);
        policy.begin(&mut route);
        let mut model = policy.entry();
        let mut seen = Vec::new();
        for _ in 0..2000 {
            let outcome = policy.decide(model, &mut route);
            seen.push((model.0, outcome));
            if let Destination::To(to) = outcome.destination {
                model = to;
            }
        }
        assert_eq!(set(seen), set(expected), "{}", policy.kind());
    }
}

fn row(slot: usize) -> Row {
    let slot = u32::try_from(slot).unwrap();
    Row {
        request: RequestId { slot, generation: 0 },
        ready_at: Timestamp::ZERO,
        new_tokens: 1,
        kv_tokens: 1,
        kind: RowKind::Decode,
        origin: Origin::Resident,
    }
}

fn routes(policy: &dyn Policy, tokens: &[u32]) -> Vec<Route> {
    let route = |(idx, &tokens): (u64, &u32)| {
        let mut route = Route::new(tokens, Stream::new(5, Purpose::Route, idx), idx);
        policy.begin(&mut route);
        route
    };
    (0..).zip(tokens).map(route).collect()
}

#[test]
fn a_request_ends_with_its_last_committed_token() {
    let policy = r2r::new(0.5).unwrap();
    let mut routes = routes(&policy, &[3; 64]);
    let mut models = [ModelIdx(0); 64];
    let mut committed = [0; 64];
    let mut outcomes = vec![Outcome::STAY; 7];
    let mut finished_at = [false; 2];
    while routes.iter().any(|route| route.remaining_tokens > 0) {
        for model in [ModelIdx(0), ModelIdx(1)] {
            let here = |slot: &usize| routes[*slot].remaining_tokens > 0 && models[*slot] == model;
            let rows: Vec<Row> = (0..64).filter(here).map(row).collect();
            policy.decide_step(model, &rows, &mut routes, &mut outcomes);
            assert_eq!(outcomes.len(), rows.len());
            for (row, outcome) in rows.iter().zip(&outcomes) {
                let slot = row.request.idx();
                committed[slot] += u32::from(outcome.committed);
                assert_eq!(routes[slot].remaining_tokens, 3 - committed[slot]);
                assert_eq!(*outcome == Outcome::FINISHED, committed[slot] == 3);
                match outcome.destination {
                    Destination::To(to) => models[slot] = to,
                    Destination::Stay => {}
                    Destination::Finished => finished_at[model.idx()] = true,
                }
            }
        }
    }
    assert_eq!(finished_at, [true, true], "requests end at either model");
}

#[test]
fn routes_do_not_depend_on_the_batch_order() {
    let policy = ensemble::new(&[0.5, 0.3, 0.2], ModelIdx(0)).unwrap();
    let tokens = [u32::MAX; 8];
    let decide = |order: Vec<usize>| {
        let mut routes = routes(&policy, &tokens);
        let mut taken = vec![Vec::new(); 8];
        for _ in 0..100 {
            let mut outcomes = Vec::new();
            let rows: Vec<Row> = order.iter().map(|&slot| row(slot)).collect();
            // The matrix has equal rows, so any model may be asked.
            policy.decide_step(ModelIdx(1), &rows, &mut routes, &mut outcomes);
            order.iter().zip(outcomes).for_each(|(&slot, outcome)| taken[slot].push(outcome));
        }
        taken
    };
    let forwards = decide((0..8).collect());
    assert_eq!(forwards, decide((0..8).rev().collect()));
    assert_ne!(forwards[0], forwards[1]);
}

/// The outcomes of each request until it finishes, driven on its own.
fn play(policy: &dyn Policy, tokens: &[u32]) -> Vec<Vec<(ModelIdx, Outcome)>> {
    let mut routes = routes(policy, tokens);
    let mut outcomes = Vec::new();
    let mut play_one = |slot| {
        let mut model = policy.entry();
        let mut taken = Vec::new();
        loop {
            policy.decide_step(model, &[row(slot)], &mut routes, &mut outcomes);
            taken.push((model, outcomes[0]));
            match outcomes[0].destination {
                Destination::Stay => {}
                Destination::To(to) => model = to,
                Destination::Finished => return taken,
            }
        }
    };
    (0..tokens.len()).map(&mut play_one).collect()
}

#[test]
fn a_replayed_record_is_identical() {
    let burst = Phases::two([r2r::new(0.8).unwrap(), r2r::new(0.02).unwrap()], [5.0, 40.0]).unwrap();
    let policies: [Box<dyn Policy>; 7] = [
        Box::new(r2r::new(0.35).unwrap()),
        Box::new(r_stitch::new(0.2, 0.1, false).unwrap()),
        Box::new(ensemble::new(&[0.5, 0.5], ModelIdx(1)).unwrap()),
        Box::new(Every::new(3, 2).unwrap()),
        Box::new(Every::new(1, 4).unwrap().with_entry(ModelIdx(1)).unwrap()),
        Box::new(burst),
        Box::new(Solo::large_only(2).unwrap()),
    ];
    let tokens: Vec<u32> = (1..=60).map(|k| 1 + k * k % 97).collect();
    for policy in policies {
        let original = play(&*policy, &tokens);
        let mut writer = RecordWriter::new(Vec::new()).unwrap();
        for (step, idx) in (0..).flat_map(|step| (0..60).map(move |idx| (step, idx))).take(60 * 400) {
            // Mixed as in a real run: the first step of every request, then the second of each that has one, and so on.
            if let Some(&(model, outcome)) = original[idx].get(step) {
                let (request, step) = (10 * idx as u64, u32::try_from(step).unwrap());
                writer.write(&RecordRow { request, step, model, outcome, entropy: None }).unwrap();
            }
        }
        let text = writer.finish().unwrap();
        let replay = Replay::new(&RouteRecord::from_reader(&text[..], "", 2).unwrap()).unwrap();
        let recorded: Vec<u32> = (0..60).map(|idx| replay.recorded_tokens(idx)).collect();
        assert_eq!(recorded, tokens);
        assert_eq!(play(&replay, &recorded), original, "{}", policy.kind());
    }
}

#[test]
fn equal_phases_are_the_markov_policy() {
    let markov = r_stitch::new(0.1, 0.25, false).unwrap();
    let phases = |transitions: &[Vec<f64>]| Phases::new(vec![markov.clone(); 2], transitions, 1).unwrap();

    // Where the next phase is certain, it costs no draw: the very same decisions.
    let fixed = phases(&[vec![0.0, 1.0], vec![1.0, 0.0]]);
    let tokens = [1000; 5];
    assert_eq!(play(&fixed, &tokens), play(&markov, &tokens));
    let drawn = phases(&[vec![0.9, 0.1], vec![0.3, 0.7]]);
    assert_close(drawn.stationary(), markov.stationary());
    assert_simulation_agrees(&drawn, markov.stationary());
}

#[test]
fn phases_have_their_exact_averages() {
    let calm = r2r::new(0.05).unwrap();
    let burst = r_stitch::new(0.7, 0.2, true).unwrap();
    let policy = Phases::two([burst, calm], [10.0, 30.0]).unwrap();
    assert_simulation_agrees(&policy, policy.stationary());
    assert!((policy.phase_fractions().iter().sum::<f64>() - 1.0).abs() < 1e-12);

    // With one detour per phase, tokens split between the phases as their mean lengths do, and routed tokens with them.
    let policy = Phases::two([r2r::new(0.6).unwrap(), r2r::new(0.1).unwrap()], [10.0, 30.0]).unwrap();
    let routed = (10.0 * 0.6 + 30.0 * 0.1) / 40.0;
    assert!((policy.stationary().token_fractions[1] - routed).abs() < 1e-12);
    assert!((policy.stationary().commits_per_step - 1.0 / (1.0 + routed)).abs() < 1e-12);
    assert!((policy.phase_fractions()[0] - 10.0 * 1.6 / (10.0 * 1.6 + 30.0 * 1.1)).abs() < 1e-12);
}

#[test]
fn phases_last_their_mean_number_of_tokens() {
    let policy = Phases::two([r2r::new(0.6).unwrap(), r2r::new(0.1).unwrap()], [10.0, 30.0]).unwrap();
    let mut route = Route::new(u32::MAX, Stream::new(9, Purpose::Route, 0), 0);
    policy.begin(&mut route);
    assert_eq!(route.state.phase, 0);
    let (mut model, mut tokens, mut ends) = (ModelIdx(0), [0.0; 2], [0.0; 2]);
    for _ in 0..200_000 {
        let phase = route.state.phase as usize;
        let outcome = policy.decide(model, &mut route);
        if outcome.committed {
            tokens[phase] += 1.0;
            ends[phase] += f64::from(u8::from(route.state.phase as usize != phase));
        } else {
            assert_eq!(route.state.phase as usize, phase, "a dropped token leaves the phase as it is");
        }
        if let Destination::To(to) = outcome.destination {
            model = to;
        }
    }
    for (phase, mean) in [(0, 10.0_f64), (1, 30.0)] {
        let expected = tokens[phase] / mean;
        let deviation = (expected * (1.0 - 1.0 / mean)).sqrt();
        assert!((ends[phase] - expected).abs() < 4.0 * deviation, "{} {expected}", ends[phase]);
    }
}

#[test]
fn first_requests_of_phases_follow_the_joint_distribution() {
    let policy = Phases::two([r2r::new(0.5).unwrap(), r2r::new(0.1).unwrap()], [20.0, 20.0]).unwrap();
    let mut start = Stream::new(3, Purpose::Start, 0);
    let mut route = Route::new(1, Stream::new(3, Purpose::Route, 0), 0);
    let mut begin_at = |rule| {
        let model = policy.begin_at(rule, &mut route, &mut start);
        (route.state.phase as usize, model.idx())
    };
    assert_eq!(begin_at(StartRule::InPhase), (0, 0));
    // A phase begins at the small model. Steps per 40 tokens: 20 small and 10 large ones in the first phase, 20 and 2 in the second.
    let expected = [[20.0 / 52.0, 10.0 / 52.0], [20.0 / 52.0, 2.0 / 52.0]];
    let spread: Vec<(usize, usize)> = (0..52).map(|index| begin_at(StartRule::Spread { index, n: 52 })).collect();
    let mut random = [[0.0; 2]; 2];
    for _ in 0..100_000 {
        let (phase, model) = begin_at(StartRule::Random);
        random[phase][model] += 1.0;
    }
    for (phase, model) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        let share = expected[phase][model];
        let spread = spread.iter().filter(|&&at| at == (phase, model)).count();
        assert!((spread as f64 - 52.0 * share).abs() <= 1.0, "{phase} {model}: {spread}");
        let mean = 100_000.0 * share;
        assert!((random[phase][model] - mean).abs() < 4.0 * (mean * (1.0 - share)).sqrt(), "{random:?}");
    }
    assert_eq!(spread[0], (0, 0));
}

#[test]
fn wrong_phases_are_refused() {
    let r2r = || r2r::new(0.3).unwrap();
    let stay = [vec![1.0, 0.0], vec![0.0, 1.0]];
    let error = |phases: Vec<Markov>, transitions: &[Vec<f64>], start| {
        Phases::new(phases, transitions, start).unwrap_err().to_string()
    };
    assert_eq!(error(vec![], &[], 0), "`phase` has 0 entries, expected one or more");
    let three = ensemble::new(&[0.5, 0.3, 0.2], ModelIdx(0)).unwrap();
    assert_eq!(error(vec![r2r(), three], &stay, 0), "`phase[1]` has models: 3, expected 2 as in `phase[0]`");
    let other_entry = ensemble::new(&[0.5, 0.5], ModelIdx(1)).unwrap();
    assert_eq!(error(vec![r2r(), other_entry], &stay, 0), "`phase[1]` has entry model 1, expected 0 as in `phase[0]`");
    assert_eq!(error(vec![r2r(), r2r()], &stay[..1], 0), "`transitions` has 1 entries, expected 2, one row a phase");
    assert_eq!(error(vec![r2r()], &stay[..1], 0), "`transitions[0]` has 2 entries, expected 1, one a phase");
    assert_eq!(error(vec![r2r(), r2r()], &stay, 2), "`start_phase` is 2, expected an index of `phase`");
    let leaky = [vec![0.5, 0.4], vec![0.0, 1.0]];
    assert_eq!(error(vec![r2r(), r2r()], &leaky, 0), "`transitions[0]` sums to 0.9, expected 1 within 1e-9");
    assert_eq!(
        error(vec![r2r(); 257], &vec![vec![1.0; 257]; 257], 0),
        "`phase` has 257 entries, expected at most 256 with 2 models"
    );

    // Each phase would end by itself, but the second drops for ever whatever it finds at the large model.
    let keeps = Markov::new(vec![vec![0.5, 0.5], vec![0.5, 0.5]], vec![vec![1.0; 2]; 2], ModelIdx(0)).unwrap();
    let stuck =
        Markov::new(vec![vec![1.0, 0.0], vec![0.0, 1.0]], vec![vec![1.0, 1.0], vec![1.0, 0.0]], ModelIdx(0)).unwrap();
    let never = error(vec![keeps, stuck], &[vec![0.5, 0.5], vec![1.0, 0.0]], 0);
    assert!(never.starts_with("phases: in the long run no token is ever committed"), "{never}");

    let mean = Phases::two([r2r(), r2r()], [0.5, 10.0]).unwrap_err().to_string();
    assert_eq!(mean, "`mean_tokens[0]` is 0.5, expected a number of tokens from 1 to 2^32");
}

#[test]
fn phases_of_a_scenario() {
    let built = |fields: &str| {
        let fields = fields.parse().unwrap();
        build("phases", Setting { n_models: 2, directory: std::path::Path::new("."), fields })
    };
    let phases = "phase = [{ kind = \"r2r\", p = 0.5 }, { kind = \"markov\", routes = [[1, 0], [1, 0]], commits = [[1, 1], [1, 1]] }]\n";
    assert!(built(&format!("{phases}mean_tokens = [10, 90]")).is_ok());
    let policy = built(&format!("{phases}transitions = [[0.9, 0.1], [0, 1]]\nstart_phase = 1")).unwrap();
    let mut route = Route::new(1, Stream::new(3, Purpose::Route, 0), 0);
    policy.begin(&mut route);
    assert_eq!(route.state.phase, 1);

    let error = |fields: &str| built(fields).unwrap_err().to_string();
    assert_eq!(error(phases), "phases: expected one of `transitions` and `mean_tokens`");
    assert_eq!(error("phase = [{ p = 0.5 }]"), "phases: `phase[0]` has no `kind`, expected the name of a policy");
    assert_eq!(
        error("phase = [{ kind = \"every\", small = 1, large = 1 }]"),
        "phases: `phase[0]`: phases: a phase of `kind` every, expected one of markov, r2r, citer, co-llm, r-stitch, me"
    );
    assert_eq!(
        error("phase = [{ kind = \"r2r\", q = 1 }]"),
        "phases: `phase[0]`: r2r: unknown field `q`, expected `p`"
    );
}
