//! The virtual clock: at one instant all completions, then all deliveries, then launches in the coordinator's order.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use handoff_scheduler::{
    Coordination, Coordinator, HandoffStatus, Input, ModelIdx, Outcome, Output, PeerRequest, Row, Sharing, Subserver,
    SubserverConfig, Timestamp,
};

use super::words::{name, share, word};
use super::{Account, Decision, End, Place, Policy, Random, Setup, launch};

/// More events than any run of the tests has.
const EVENTS_MAX: u32 = 400_000;

#[derive(Clone, Copy, Debug)]
enum Delivery {
    Message { to: ModelIdx, message: PeerRequest },
    NextJob,
    Cancel { job: usize },
}

#[derive(Clone, Copy, Debug)]
struct Flight {
    forward_ends: u64,
    on_device: bool,
    results_at: u64,
    round: u64,
}

pub struct Set {
    pub setup: Setup,
    pub subservers: Vec<Subserver>,
    pub account: Account,
    pub end: Option<End>,
    pub finished: usize,
    pub committed: u64,
    /// What happened, a line each.
    pub log: String,
    policy: Policy,
    coordinator: Coordinator,
    now: u64,
    flights: Vec<Option<Flight>>,
    done_in_round: Vec<ModelIdx>,
    round: u64,
    queue: BTreeMap<(u64, u64), Delivery>,
    n_queued: u64,
    next_job: usize,
    active_told: usize,
    random: Random,
    events: u32,
}

impl Set {
    pub fn new(setup: Setup, policy: Policy) -> Self {
        let n_models = setup.models.len();
        let devices: Vec<u16> = setup.models.iter().map(|model| model.device).collect();
        let subservers = setup.models.iter().enumerate().map(|(model, of)| {
            let model = ModelIdx(model as u8);
            let first = setup.first;
            Subserver::new(SubserverConfig { model, n_models, gate: of.gate.clone(), first, kv: of.kv })
        });
        let mut set = Self {
            subservers: subservers.collect(),
            account: Account::new(n_models),
            end: None,
            finished: 0,
            committed: 0,
            log: String::new(),
            policy,
            coordinator: Coordinator::new(setup.coordination, setup.sharing, &devices),
            now: 0,
            flights: vec![None; n_models],
            done_in_round: Vec::new(),
            round: 0,
            queue: BTreeMap::new(),
            n_queued: 0,
            next_job: 0,
            active_told: 0,
            random: Random::new(setup.seed),
            events: 0,
            setup,
        };
        for _ in 0..set.setup.concurrency.min(set.setup.jobs.len()) {
            set.queue(0, Delivery::NextJob);
        }
        for (at, job) in set.setup.cancels.clone() {
            set.queue(at, Delivery::Cancel { job });
        }
        set
    }

    pub fn run(&mut self) -> End {
        let end = loop {
            self.deliver();
            self.launch();
            if self.setup.finished_max.is_some_and(|finished| self.finished >= finished) {
                break End::Enough;
            }
            let Some(next) = self.next_time() else {
                break if self.account.active == 0 { End::Drained } else { End::Stalled };
            };
            assert!(next > self.now, "time stands still at {next}");
            self.now = next;
            self.complete();
        };
        self.end = Some(end);
        end
    }

    /// The log with a line for the end of the run.
    pub fn finished_log(mut self) -> String {
        let end = self.end.expect("it has run");
        self.log(&format!("{end:?}"));
        self.log
    }

    fn queue(&mut self, at: u64, delivery: Delivery) {
        self.queue.insert((at, self.n_queued), delivery);
        self.n_queued += 1;
    }

    fn at(&self) -> Timestamp {
        Timestamp::from_ns(self.now)
    }

    fn next_time(&self) -> Option<u64> {
        let flights = self
            .flights
            .iter()
            .flatten()
            .filter(|flight| flight.results_at > self.now)
            .map(|flight| if flight.on_device { flight.forward_ends } else { flight.results_at });
        let wakes = self.subservers.iter().filter_map(Subserver::poll_timeout).map(|(at, _)| at.as_ns());
        let queued = self.queue.keys().map(|&(at, _)| at).take(1);
        flights.chain(wakes.filter(|&at| at > self.now)).chain(queued).min()
    }

    fn complete(&mut self) {
        for model in 0..self.flights.len() {
            let idx = ModelIdx(model as u8);
            if self.subservers[model].poll_timeout().is_some_and(|(at, _)| at == self.at()) {
                self.tell(idx, Input::TimedOut);
            }
            let Some(flight) = &mut self.flights[model] else { continue };
            if flight.on_device && flight.forward_ends == self.now {
                flight.on_device = false;
                self.coordinator.left_device(idx);
            }
            if flight.results_at == self.now {
                if self.coordinator.completed(idx) {
                    self.absorb(idx);
                } else {
                    self.done_in_round.push(idx);
                }
            }
        }
    }

    fn absorb(&mut self, model: ModelIdx) {
        self.flights[model.idx()] = None;
        let plan = self.subservers[model.idx()].running().expect("its step is over");
        let (step, rows) = (plan.step, plan.rows.to_vec());
        let mut told = (0, 0);
        let mut line = String::new();
        let outcomes: Vec<Outcome> = rows
            .iter()
            .map(|row| {
                let outcome = self.decide(model, row);
                if !self.account.get(row.request).cancelled {
                    told.0 += u32::from(outcome.committed);
                    told.1 += u32::from(!outcome.committed);
                }
                write!(line, "  {} {}", name(row.request), word(outcome)).expect("strings grow");
                outcome
            })
            .collect();
        self.log(&format!("{model} finishes step {}:{line}", step.0));
        self.committed += u64::from(told.0);
        let outputs = self.tell(model, Input::StepFinished { step, outcomes: &outcomes });
        let emitted = Output::EmitTokens { step, committed: told.0, dropped: told.1 };
        assert_eq!(outputs.first(), Some(&emitted), "the tokens go out first");
        assert_eq!(outputs.iter().filter(|output| matches!(output, Output::EmitTokens { .. })).count(), 1);
    }

    fn decide(&mut self, model: ModelIdx, row: &Row) -> Outcome {
        let request = self.account.get(row.request);
        let decision = Decision { model, row: *row, request, visit_steps: request.visit_steps };
        let mut outcome = (self.policy)(&decision);
        if request.cancelled {
            return outcome;
        }
        if outcome.committed && request.output_tokens_left == 1 {
            outcome = Outcome::FINISHED;
        }
        self.account.decided(self.now, model, row.request, outcome.committed);
        outcome
    }

    fn deliver(&mut self) {
        while let Some(entry) = self.queue.first_entry().filter(|entry| entry.key().0 <= self.now) {
            match entry.remove() {
                Delivery::Message { to, message } => self.hand_over(to, message),
                Delivery::NextJob => self.arrive(),
                Delivery::Cancel { job } => self.cancel(job),
            }
        }
        if self.active_told != self.account.active {
            self.active_told = self.account.active;
            for model in 0..self.subservers.len() {
                self.tell(ModelIdx(model as u8), Input::ActiveChanged { n: self.active_told as u32 });
            }
        }
    }

    fn hand_over(&mut self, to: ModelIdx, message: PeerRequest) {
        self.account.delivered(self.now, to, &message);
        let context_tokens_max = self.account.get(message.request).context_tokens_max;
        self.tell(to, Input::HandoffArrived { message, context_tokens_max });
    }

    fn arrive(&mut self) {
        let Some(&job) = self.setup.jobs.get(self.next_job) else { return };
        let request = self.account.open(self.now, self.next_job, job);
        self.log(&format!("{} arrives at {} with {} tokens", name(request), job.entry, job.prompt_tokens));
        self.next_job += 1;
        let context_tokens_max = job.prompt_tokens + job.output_tokens;
        let context_tokens = job.prompt_tokens;
        self.tell(job.entry, Input::RequestArrived { request, context_tokens, context_tokens_max });
    }

    fn cancel(&mut self, job: usize) {
        // A job that has not arrived yet, or is done, has no client who could give up.
        let Some(request) = self.account.by_job(job) else { return };
        self.account.get_mut(request).cancelled = true;
        let place = self.account.get(request).place;
        self.account.close(request);
        self.log(&format!("{} is cancelled, {place:?}", name(request)));
        for model in 0..self.subservers.len() {
            self.tell_unchecked(ModelIdx(model as u8), Input::RequestCancelled { request });
        }
        self.check();
        self.queue(self.now, Delivery::NextJob);
    }

    fn tell(&mut self, model: ModelIdx, input: Input<'_>) -> Vec<Output> {
        let outputs = self.tell_unchecked(model, input);
        self.check();
        outputs
    }

    fn tell_unchecked(&mut self, model: ModelIdx, input: Input<'_>) -> Vec<Output> {
        self.subservers[model.idx()].handle_input(Timestamp::from_ns(self.now), input);
        self.act(model)
    }

    /// Does what the subserver asks for.
    fn act(&mut self, model: ModelIdx) -> Vec<Output> {
        let (now, mut outputs) = (self.at(), Vec::new());
        while let Some(output) = self.subservers[model.idx()].poll_output(now) {
            match output {
                Output::SendHandoff { to, message } => self.send(to, message),
                Output::EmitTokens { .. } => {}
                Output::ReportFinished { request } => {
                    self.log(&format!("{} is complete", name(request)));
                    self.account.close(request);
                    self.finished += 1;
                    self.queue(self.now, Delivery::NextJob);
                }
                Output::Preempt { request, freed_tokens } => {
                    self.log(&format!("{model} preempts {}, {freed_tokens} KV tokens", name(request)));
                    self.account.freed(model, request, freed_tokens);
                }
                Output::Release { request, freed_tokens } => {
                    self.log(&format!("{model} releases {}, {freed_tokens} KV tokens", name(request)));
                    self.account.freed(model, request, freed_tokens);
                }
            }
            outputs.push(output);
        }
        outputs
    }

    fn send(&mut self, to: ModelIdx, message: PeerRequest) {
        if message.status == HandoffStatus::Active {
            self.account.sent(to, &message);
            let (start, end) = (message.suffix_start, message.context_tokens);
            self.log(&format!("{} -> {to}: {}, tokens {start}..{end}", message.from, name(message.request)));
        } else {
            self.account.get_mut(message.request).messages_in_flight += 1;
        }
        let hop_ns = self.random.between(self.setup.hop_ns);
        self.queue(self.now + hop_ns, Delivery::Message { to, message });
    }

    fn launch(&mut self) {
        loop {
            for position in 0..self.subservers.len() {
                let model = self.coordinator.order(position);
                if self.coordinator.may_launch(model) {
                    self.ask(model);
                }
            }
            if !self.coordinator.is_step_sync() || !self.coordinator.round_is_over() {
                return;
            }
            assert!(self.flights.iter().flatten().all(|flight| flight.results_at <= self.now), "a round ends together");
            self.coordinator.begin_round();
            self.round += 1;
            if self.done_in_round.is_empty() {
                return;
            }
            for model in std::mem::take(&mut self.done_in_round) {
                self.absorb(model);
            }
            self.deliver();
        }
    }

    fn ask(&mut self, model: ModelIdx) {
        let of = &self.setup.models[model.idx()];
        let waiting = self.subservers[model.idx()].waiting();
        let expected = launch::expected(&of.gate, self.setup.first, self.account.active, self.now, waiting);
        let now = self.at();
        let launched = self.subservers[model.idx()].poll_launch(now).map(|plan| (plan.step, plan.rows.to_vec()));
        let when_full = of.kv.when_full;
        let outputs = self.act(model);
        let Some((step, rows)) = launched else {
            assert!(expected.is_empty() && outputs.is_empty(), "{model} holds back {expected:?}");
            self.coordinator.declined(model);
            return;
        };
        launch::check(&self.account, model, when_full, &expected, &rows, &outputs);
        let mut line = String::new();
        for row in &rows {
            self.account.launched(model, row);
            write!(line, "  {} {}", name(row.request), share(row)).expect("strings grow");
        }
        self.log(&format!("{model} launches step {}:{line}", step.0));
        self.check_coordination(model);
        self.coordinator.launched(model);
        let of = &self.setup.models[model.idx()];
        let forward_ends = self.now + of.fixed_ns + of.per_row_ns * rows.len() as u64;
        let results_at = forward_ends + of.loop_ns;
        self.flights[model.idx()] = Some(Flight { forward_ends, on_device: true, results_at, round: self.round });
        self.check();
    }

    /// Whether `model` may launch beside those that run.
    fn check_coordination(&self, model: ModelIdx) {
        let device = |model: usize| self.setup.models[model].device;
        for (other, flight) in
            self.flights.iter().enumerate().filter_map(|(other, flight)| Some((other, flight.as_ref()?)))
        {
            assert_ne!(other, model.idx(), "{model} has a step in flight");
            match self.setup.coordination {
                Coordination::Independent => {}
                Coordination::ModelSync(_) => panic!("{model} launches while model {other} has a step in flight"),
                Coordination::StepSync => assert_eq!(flight.round, self.round, "{model} runs ahead of its round"),
            }
            if matches!(self.setup.sharing, Sharing::Exclusive(_)) && flight.on_device {
                assert_ne!(device(other), device(model.idx()), "two forwards on one exclusive device");
            }
        }
    }

    fn check(&mut self) {
        self.events += 1;
        assert!(self.events < EVENTS_MAX, "the run does not end");
        for subserver in &self.subservers {
            if let Err(broken) = subserver.check() {
                panic!("{} at {} ns: {broken}\n{}", subserver.model(), self.now, self.log);
            }
        }
        self.account.check(&self.subservers);
    }

    /// Requests that are at a subserver, which stalled runs are made of.
    pub fn all_are_at_subservers(&self) -> bool {
        self.account.live().all(|request| matches!(request.place, Place::At(_)))
    }

    fn log(&mut self, line: &str) {
        writeln!(self.log, "{:>5}  {line}", self.now).expect("strings grow");
    }
}
