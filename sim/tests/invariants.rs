//! Laws that hold in every run, whatever the policy, the costs and the scheduler's settings, on a few hundred random configurations (theory, sections
//! 1 and 2).
//!
//! A window cuts through steps, waits and messages. Each cut is bounded by what the run itself had as its longest step, wait and message, so the
//! tolerances below are bounds, not guesses; where times are jittered, four standard deviations are added.
#![allow(clippy::unwrap_used)]

mod support;

use std::fmt::Write as _;
use std::sync::Arc;

use handoff_scheduler::{
    Coordination, FirstKind, GateConfig, Hold, KvConfig, KvFull, ModelIdx, Order, Sharing, Threshold,
};
use handoff_sim::analytic::Affine;
use handoff_sim::analytic::bounds::{self, Demand};
use handoff_sim::cost::{AffineLatency, CorunRates, HostCost, Jitter};
use handoff_sim::engine::{EngineConfig, FreshCost, Metrics, ModelConfig, Window, replicate_observed};
use handoff_sim::policy::{
    Every, Markov, Phases, Policy, Replay, RouteRecord, Solo, citer, co_llm, ensemble, r_stitch, r2r,
};
use handoff_sim::rng::{Purpose, Stream};
use handoff_sim::workload::{Arrivals, Lengths, Start, Workload};
use support::account::Account;

const CONFIGURATIONS: u64 = 360;
/// Steps of a run, about.
const STEPS: f64 = 15_000.0;

/// Coefficients of an affine step time, ns: every one a whole number, so that multiples are exact.
#[derive(Clone, Copy, Debug)]
struct Cost {
    fixed_ns: u64,
    per_row_ns: u64,
    per_new_token_ns: u64,
    per_kv_token_ns: u64,
}

#[derive(Debug)]
struct Case {
    name: String,
    config: EngineConfig,
    costs: Vec<Cost>,
    rates: Option<[f64; 2]>,
    requests: u64,
}

/// A seeded source of choices.
struct Dice(Stream);

impl Dice {
    fn chance(&mut self, probability: f64) -> bool {
        self.0.unit() < probability
    }

    fn from(&mut self, low: u32, high: u32) -> u32 {
        low + self.0.below(high - low + 1)
    }

    fn real(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.0.unit()
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.0.below(of.len() as u32) as usize]
    }

    fn order(&mut self) -> Order {
        self.pick(&[Order::LargeFirst, Order::SmallFirst, Order::Alternate])
    }

    /// Probabilities that sum to 1, all above 0.
    fn distribution(&mut self, n: usize) -> Vec<f64> {
        let parts: Vec<f64> = (0..n).map(|_| self.real(0.05, 1.0)).collect();
        let sum: f64 = parts.iter().sum();
        parts.iter().map(|part| part / sum).collect()
    }

    fn markov(&mut self, n: usize, entry: ModelIdx) -> Markov {
        let routes = (0..n).map(|_| self.distribution(n)).collect();
        let commits = (0..n).map(|_| (0..n).map(|_| self.pick(&[1.0, 1.0, 0.0, 0.5])).collect()).collect();
        // All tokens dropped is refused; then all are kept.
        Markov::new(routes, commits, entry).unwrap_or_else(|_| r2r::new(0.3).unwrap())
    }

    fn policy(&mut self) -> Arc<dyn Policy> {
        let p = self.real(0.02, 0.7);
        match self.from(0, 14) {
            0 | 1 => {
                let (small, large) = (self.from(1, 20), self.from(1, 8));
                let entry = ModelIdx(u8::from(self.chance(0.2)));
                Arc::new(Every::new(small, large).unwrap().with_entry(entry).unwrap())
            }
            2 | 3 => Arc::new(r2r::new(p).unwrap()),
            4 => Arc::new(citer::new(citer::P).unwrap()),
            5 => Arc::new(co_llm::new(co_llm::P).unwrap()),
            6 | 7 => {
                let (b, commits) = (self.real(0.1, 0.9), self.chance(0.5));
                Arc::new(r_stitch::new(p, b, commits).unwrap())
            }
            8 => Arc::new(ensemble::new(&self.distribution(2), ModelIdx(0)).unwrap()),
            9 | 10 => {
                let entry = ModelIdx(self.pick(&[0, 0, 1, 2]));
                Arc::new(ensemble::new(&ensemble::WEIGHTS, entry).unwrap())
            }
            11 => {
                let n = self.pick(&[2, 3]);
                Arc::new(self.markov(n, ModelIdx(0)))
            }
            12 => {
                let phases = [r2r::new(p).unwrap(), r2r::new(0.05).unwrap()];
                Arc::new(Phases::two(phases, [self.real(5.0, 30.0), self.real(20.0, 200.0)]).unwrap())
            }
            13 => Arc::new(Replay::new(&self.record()).unwrap()),
            _ => Arc::new(if self.chance(0.5) { Solo::large_only(2) } else { Solo::small_only(2) }.unwrap()),
        }
    }

    /// Routes of a few requests over two models, all of which end.
    fn record(&mut self) -> RouteRecord {
        let mut text = "request,step,model,destination,committed,entropy\n".to_owned();
        for request in 0..self.from(1, 5) {
            let mut model = 0;
            for step in 0..self.from(20, 60) {
                let leaves = self.chance(0.3);
                let destination = if leaves { (1 - model).to_string() } else { "stay".to_owned() };
                let committed = !leaves || model == 1 || self.chance(0.5);
                writeln!(text, "{request},{step},{model},{destination},{committed},").unwrap();
                model = if leaves { 1 - model } else { model };
            }
        }
        RouteRecord::from_reader(text.as_bytes(), "routes.csv", 2).unwrap()
    }

    fn lengths(&mut self, mean: u32) -> Lengths {
        match self.from(0, 2) {
            0 => Lengths::constant(mean),
            1 => Lengths::uniform(1, 2 * mean),
            _ => Lengths::lognormal(f64::from(mean), 0.7),
        }
        .unwrap()
    }

    fn case(&mut self, number: u64) -> Case {
        let policy = self.policy();
        let n = policy.n_models();
        let concurrency = self.from(1, 24);
        let mean_tokens = self.from(30, 150);
        let workload =
            Workload::new(Arrivals::closed_loop(concurrency).unwrap(), 1, self.lengths(50), self.lengths(mean_tokens));
        let start = self.pick(&[Start::Random, Start::Random, Start::InPhase, Start::Spread]);
        let workload = workload.unwrap().with_start(start);
        let coordination = match self.from(0, 9) {
            0 => Coordination::StepSync,
            1 => Coordination::ModelSync(self.order()),
            _ => Coordination::Independent,
        };
        // 0: each model on a device of its own; 1: one exclusive device; 2: one overlapped device; 3: of three models two share a device.
        let place = match (self.from(0, 3), n) {
            (0, _) => 0,
            (1, _) => 1,
            (_, 2) => 2,
            _ => 3,
        };
        let exclusive = place == 1 || place == 3;
        let sharing = if exclusive { Sharing::Exclusive(self.order()) } else { Sharing::Overlapped };
        let rates = (place == 2).then(|| [self.real(0.2, 1.0), self.real(0.2, 1.0)]);
        let jitter = if self.chance(0.4) { Jitter::lognormal(self.real(0.01, 0.2)).unwrap() } else { Jitter::none() };
        let thresholds = self.thresholds(n, concurrency, coordination);
        let preempts = self.chance(0.1);
        let host = if self.chance(0.3) {
            let us = |dice: &mut Self, high| u64::from(dice.from(0, high)) * 1_000;
            HostCost { launch_ns: us(self, 300), loop_ns: us(self, 300), message_ns: us(self, 100) }
        } else {
            HostCost::default()
        };
        let mut costs = Vec::new();
        let models = thresholds.into_iter().enumerate().map(|(idx, threshold)| {
            let cost = Cost {
                fixed_ns: 1_000 * u64::from(if idx == 0 { self.from(500, 6_000) } else { self.from(500, 40_000) }),
                per_row_ns: 1_000 * u64::from(self.pick(&[0_u32, 20, 150, 900])),
                per_new_token_ns: if self.chance(0.3) { 1_000 * u64::from(self.from(1, 50)) } else { 0 },
                per_kv_token_ns: if self.chance(0.2) { u64::from(self.from(1, 500)) } else { 0 },
            };
            costs.push(cost);
            let kv = if preempts {
                let longest = u64::from(workload.tokens_max());
                KvConfig {
                    budget_tokens: longest + longest * u64::from(self.from(0, 3)) / 4,
                    when_full: KvFull::Preempt,
                }
            } else {
                KvConfig { budget_tokens: 1 << 40, when_full: KvFull::Wait }
            };
            ModelConfig {
                name: format!("model-{idx}"),
                latency: latency(cost),
                router: None,
                jitter: jitter.clone(),
                host,
                gate: GateConfig {
                    threshold: Threshold::constant(threshold),
                    wait_ns_max: self.chance(0.2).then(|| 1_000_000 * u64::from(self.from(1, 50))),
                    hold: self.pick(&[Hold::Both, Hold::Both, Hold::Decode, Hold::Extend, Hold::All]),
                },
                kv,
                device: match place {
                    0 => idx as u16,
                    1 | 2 => 0,
                    _ => u16::from(idx == 2),
                },
            }
        });
        let models: Vec<ModelConfig> = models.collect();
        let config = EngineConfig {
            models,
            policy,
            coordination,
            sharing,
            corun: rates.map(|rates| CorunRates::constant(rates).unwrap()),
            first: self.pick(&[None, None, Some(FirstKind::Extend), Some(FirstKind::Decode)]),
            fused: self.chance(0.2),
            fresh: self.chance(0.1).then_some(FreshCost { fixed_ns: 1_000_000, per_context_token_ns: 1_000.0 }),
            hop_ns: if self.chance(0.4) { 1_000 * u64::from(self.from(0, 5_000)) } else { 0 },
            hop_bytes_per_ns: None,
            workload,
        };
        let name = format!(
            "case {number}: {} C {concurrency} {coordination:?} {sharing:?} place {place} rates {rates:?} jitter {:.2} thresholds {:?} preempts {preempts} {costs:?}",
            config.policy.kind(),
            jitter.cv(),
            config.models.iter().map(|model| model.gate.threshold.at(concurrency)).collect::<Vec<_>>(),
        );
        let rows_per_step = f64::from(concurrency).sqrt();
        let requests = (STEPS * rows_per_step / f64::from(mean_tokens)).max(30.0) as u64;
        Case { name, config, costs, rates, requests }
    }

    /// Random thresholds that cannot stall: the sum of (threshold - 1) stays below the concurrency.
    fn thresholds(&mut self, n: usize, concurrency: u32, coordination: Coordination) -> Vec<u32> {
        let mut thresholds = vec![1; n];
        if coordination != Coordination::Independent || self.chance(0.4) {
            return thresholds;
        }
        let mut slack = concurrency - 1;
        let first = self.from(0, n as u32 - 1) as usize;
        for k in 0..n {
            let more = self.from(0, slack);
            thresholds[(first + k) % n] += more;
            slack -= more;
        }
        thresholds
    }
}

fn latency(cost: Cost) -> Arc<AffineLatency> {
    let ms = |ns: u64| ns as f64 * 1e-6;
    let per_kv_token_us = cost.per_kv_token_ns as f64 * 1e-3;
    let latency =
        AffineLatency::new(ms(cost.fixed_ns), ms(cost.per_row_ns), ms(cost.per_new_token_ns), per_kv_token_us);
    Arc::new(latency.unwrap())
}

fn run(case: &Case, seed: u64) -> (Metrics, Account<'_>) {
    let generation = u64::from(case.config.workload.arrivals().concurrency().unwrap());
    let window = Window::Requests { warmup_requests: generation, requests: case.requests };
    replicate_observed(&case.config, seed, window, Account::of(&case.config, seed))
        .unwrap_or_else(|error| panic!("{}: {error}", case.name))
}

#[test]
fn every_random_run_obeys_the_laws() {
    let mut tightness = [0.0_f64; 3];
    let mut slacks = Vec::new();
    for number in 0..CONFIGURATIONS {
        let case = Dice(Stream::new(20, Purpose::Start, number)).case(number);
        let seed = 1_000 + number;
        let (metrics, account) = run(&case, seed);
        let context = |what: &str| format!("{what} in {}", case.name);
        check_counts(&case, &metrics, &account, &context);
        slacks.push(check_numbers_in_system(&case, &metrics, &account, &context));
        check_utilisation(&case, &metrics, &account, &context);
        let ratio = check_bound(&case, &metrics, &account, &context);
        let kind =
            if case.rates.is_some() { 2 } else { usize::from(matches!(case.config.sharing, Sharing::Exclusive(_))) };
        tightness[kind] = tightness[kind].max(ratio);
    }
    // The tolerances must mean something, and the bounds be met somewhere in every placement: separate, exclusive, overlapped.
    slacks.sort_by(f64::total_cmp);
    let at = |percent: usize| slacks[slacks.len() * percent / 100];
    assert!(at(50) < 3e-3 && at(90) < 3e-2, "{} {}", at(50), at(90));
    assert!(tightness.iter().all(|&ratio| ratio > 0.98), "{tightness:?}");
}

/// Tokens, rows and handoffs are counted once, and each account agrees with the others.
fn check_counts(case: &Case, metrics: &Metrics, account: &Account<'_>, context: &dyn Fn(&str) -> String) {
    let sum = |value: &dyn Fn(&handoff_sim::engine::ModelMetrics) -> u64| metrics.models.iter().map(value).sum::<u64>();
    assert_eq!(sum(&|own| own.committed_tokens), metrics.tokens, "{}", context("committed tokens"));
    assert_eq!(sum(&|own| own.dropped_tokens), metrics.dropped_tokens, "{}", context("dropped tokens"));
    assert_eq!(sum(&|own| own.handoffs), metrics.handoffs, "{}", context("handoffs"));
    assert_eq!(metrics.tokens + metrics.dropped_tokens, sum(&|own| own.rows()), "{}", context("one token a row"));
    // Several requests can end at the instant at which the warm-up is over.
    let generation = u64::from(case.config.workload.arrivals().concurrency().unwrap());
    assert!(account.finished >= generation + case.requests, "{}", context("finished"));
    assert!(metrics.finished <= account.finished - generation, "{}", context("finished"));
    for (own, all) in metrics.models.iter().zip(&account.models) {
        // L1 is the mean batch times the steps.
        assert_eq!(own.batch.n(), own.steps, "{}", context("steps"));
        let (rows, squared) = own.batch.iter().fold((0, 0), |(rows, squared), (batch, steps)| {
            (rows + u64::from(batch) * steps, squared + u128::from(batch).pow(2) * u128::from(steps))
        });
        assert_eq!((rows, squared), (own.rows(), own.rows_squared), "{}", context("rows"));
        assert_eq!(own.committed_tokens + own.dropped_tokens, own.rows(), "{}", context("one token a row"));
        assert!(own.steps <= all.steps && own.rows() <= all.rows && own.committed_tokens <= all.committed);
        // Each visit is admitted once; at the edges of the window a request may be in between.
        assert!(own.admission.n().abs_diff(own.visits) <= generation, "{}", context("visits"));
    }
}

/// L4: C = sum of (in service + waiting) + on their way. Returns the relative tolerance.
fn check_numbers_in_system(
    case: &Case,
    metrics: &Metrics,
    account: &Account<'_>,
    context: &dyn Fn(&str) -> String,
) -> f64 {
    let concurrency = case.config.workload.arrivals().concurrency().unwrap();
    let in_service: u128 = metrics.models.iter().map(|own| own.in_service_row_ns).sum();
    let waiting: u128 = metrics.models.iter().map(|own| own.waiting_row_ns).sum();
    let counted = (in_service + waiting + metrics.in_transit_ns) as f64;
    let all = f64::from(concurrency) * metrics.window_ns() as f64;
    let slack = account.out_of_service_ns_max(metrics.window_end_ns) as f64 / metrics.window_ns() as f64;
    assert!((counted / all - 1.0).abs() <= slack + 1e-12, "{}: {counted} of {all}, {slack}", context("L4"));
    slack
}

/// L2: U_k = a_k r_k + b_k n_k X_c, and L3: B_k = a_k n_k X_c + b_k r_k E[b^2], both per window.
fn check_utilisation(case: &Case, metrics: &Metrics, account: &Account<'_>, context: &dyn Fn(&str) -> String) {
    let window_ns = metrics.window_ns() as f64;
    let config = &case.config;
    let busy_ns: u64 = metrics.models.iter().map(|own| own.busy_ns).sum();
    let device_ns: u64 = metrics.device_busy_ns.iter().sum();
    let overlap_ns = (busy_ns - device_ns) as f64;
    assert!(case.rates.is_some() || overlap_ns == 0.0, "{}", context("one forward at a time on a device"));
    for (idx, (own, cost)) in metrics.models.iter().zip(&case.costs).enumerate() {
        let all = &account.models[idx];
        assert!(own.busy_ns as f64 <= window_ns, "{}", context("utilisation"));
        let cv = config.models[idx].jitter.cv();
        // With 4 deviations per case and hundreds of cases a failure by chance is as good as excluded.
        let noise = if own.steps == 0 { 0.0 } else { 4.0 * cv / (own.steps as f64).sqrt() };
        let new_tokens = own.decode_rows + own.extend_tokens + own.prefill_tokens;
        if cost.per_kv_token_ns == 0 && own.steps > 0 {
            let (fixed, rows) = (cost.fixed_ns * own.steps, cost.per_row_ns * own.rows());
            let work_ns = (fixed + rows + cost.per_new_token_ns * new_tokens) as f64;
            let slower_ns = case.rates.map_or(0.0, |rates| overlap_ns * (1.0 - rates[idx]));
            let edge_ns = 2.0 * all.service_ns_max as f64;
            let tolerance = edge_ns + noise * work_ns + own.steps as f64 * if case.rates.is_some() { 4.0 } else { 0.0 };
            let done_ns = own.busy_ns as f64 - slower_ns;
            assert!((done_ns - work_ns).abs() <= tolerance, "{}: {done_ns} and {work_ns}, {tolerance}", context("L2"));
        }
        let in_rows_only = cost.per_kv_token_ns == 0 && cost.per_new_token_ns == 0;
        if in_rows_only && case.rates.is_none() && !config.fused && config.coordination != Coordination::StepSync {
            let host = config.models[idx].host;
            let held_ns = (cost.fixed_ns + host.launch_ns + host.loop_ns) as f64;
            let service_ns = held_ns * own.rows() as f64 + cost.per_row_ns as f64 * own.rows_squared as f64;
            let concurrency = f64::from(config.workload.arrivals().concurrency().unwrap());
            // A row of a large batch weighs as much as the batch, so noise counts for the square root of the mean square.
            let noise_ns = 8.0 * noise * service_ns;
            let tolerance = 2.0 * concurrency * all.service_ns_max as f64 + noise_ns;
            let measured_ns = own.in_service_row_ns as f64;
            assert!((measured_ns - service_ns).abs() <= tolerance, "{}: {measured_ns} {service_ns}", context("L3"));
        }
    }
}

/// Throughput against the upper bound of section 2, with the visits as realised. Returns the ratio.
fn check_bound(case: &Case, metrics: &Metrics, account: &Account<'_>, context: &dyn Fn(&str) -> String) -> f64 {
    let concurrency = case.config.workload.arrivals().concurrency().unwrap();
    let tokens = metrics.tokens as f64;
    // A cycle of the formulas is a token here. New tokens beyond one a row, KV and host times only make steps longer.
    let demands = metrics.models.iter().zip(&case.costs).map(|(own, cost)| Demand {
        steps_per_cycle: own.rows() as f64 / tokens,
        step: Affine {
            fixed_s: cost.fixed_ns as f64 * 1e-9,
            per_row_s: (cost.per_row_ns + cost.per_new_token_ns) as f64 * 1e-9,
        },
    });
    let demands: Vec<Demand> = demands.collect();
    let transit_s = metrics.in_transit_ns as f64 * 1e-9 / tokens;
    let one_device = case.config.models.iter().all(|model| model.device == 0);
    let bound = match case.rates {
        Some(rates) => {
            let both: [Demand; 2] = [demands[0], demands[1]];
            // Under model-sync the two never run side by side, so there is nothing to gain.
            bounds::overlapped(concurrency, &both, rates, transit_s)
        }
        None if one_device => bounds::exclusive(concurrency, &demands),
        None => bounds::separate(concurrency, &demands, transit_s),
    };
    let ratio = metrics.throughput() / bound.unwrap();
    let longest_ns = account.models.iter().map(|own| own.service_ns_max).max().unwrap_or(0);
    let edges = (2 * longest_ns + account.transit_ns_max) as f64 / metrics.window_ns() as f64;
    let steps: u64 = metrics.models.iter().map(|own| own.steps).sum();
    let noise = 4.0 * case.config.models[0].jitter.cv() / (steps as f64).sqrt() * 2.0;
    assert!(ratio <= 1.0 + edges + noise, "{}: {ratio}", context("bound"));
    ratio
}

/// L5: with every time multiplied by a whole number, a run makes the same steps in the same order, and takes exactly so much longer.
#[test]
fn a_run_scales_with_its_times() {
    let mut compared = 0;
    for number in 0..CONFIGURATIONS {
        let case = Dice(Stream::new(21, Purpose::Start, number)).case(number);
        // Jitter and co-run rates round to whole nanoseconds.
        if case.rates.is_some() || case.config.models[0].jitter.cv() > 0.0 || compared == 60 {
            continue;
        }
        compared += 1;
        let factor = [2, 3, 7][number as usize % 3];
        let seed = 2_000 + number;
        let short = Case { requests: case.requests / 4 + 1, ..case };
        let longer = scaled(&short, factor);
        let (one, account) = run(&short, seed);
        let generation = u64::from(short.config.workload.arrivals().concurrency().unwrap());
        let window = Window::Requests { warmup_requests: generation, requests: short.requests };
        let observer = Account::of(&longer.config, seed).with_scale(factor);
        let (other, scaled_account) = replicate_observed(&longer.config, seed, window, observer).unwrap();
        assert_eq!(account.digest, scaled_account.digest, "{}", short.name);
        assert_eq!((one.tokens, one.handoffs, one.finished), (other.tokens, other.handoffs, other.finished));
        assert_eq!(
            [one.window_start_ns * factor, one.window_end_ns * factor],
            [other.window_start_ns, other.window_end_ns],
            "{}",
            short.name
        );
        support::assert_close(one.throughput(), other.throughput() * factor as f64, 1e-12);
    }
    assert_eq!(compared, 60);
}

fn scaled(case: &Case, factor: u64) -> Case {
    let costs: Vec<Cost> = case
        .costs
        .iter()
        .map(|cost| Cost {
            fixed_ns: cost.fixed_ns * factor,
            per_row_ns: cost.per_row_ns * factor,
            per_new_token_ns: cost.per_new_token_ns * factor,
            per_kv_token_ns: cost.per_kv_token_ns * factor,
        })
        .collect();
    let mut config = case.config.clone();
    for (model, &cost) in config.models.iter_mut().zip(&costs) {
        model.latency = latency(cost);
        model.gate.wait_ns_max = model.gate.wait_ns_max.map(|ns| ns * factor);
        let HostCost { launch_ns, loop_ns, message_ns } = model.host;
        model.host =
            HostCost { launch_ns: launch_ns * factor, loop_ns: loop_ns * factor, message_ns: message_ns * factor };
    }
    config.hop_ns *= factor;
    config.fresh = config.fresh.map(|fresh| FreshCost {
        fixed_ns: fresh.fixed_ns * factor,
        per_context_token_ns: fresh.per_context_token_ns * factor as f64,
    });
    Case { name: case.name.clone(), config, costs, rates: case.rates, requests: case.requests }
}
