//! What happens at an instant, on whatever clock: the scheduler, the requests and the books, without threads and without time.

mod instant;

use std::collections::VecDeque;
use std::sync::Arc;

use handoff_scheduler::{
    Coordinator, Input, ModelIdx, Outcome, Output, PeerRequest, RequestId, Subserver, SubserverConfig, Timestamp,
};
use handoff_sim::engine::{EngineConfig, Metrics, ModelConfig, RunError, Waiting as Held, Window, place_first};
use handoff_sim::rng::{Purpose, Stream};

use super::account::Account;
use super::contexts::{Contexts, Parcel};
use super::options::{Cancellation, Choice};
use super::requests::Requests;
use super::worker::{Job, JobRow};
use crate::prompts::Prompts;
use crate::qwen3::weights::mix;
use crate::record::{Event, RecordedInput, RunLog, Timings};
use crate::runner::RowOutput;
use crate::sampling::Sampling;

/// A request that finished, with its tokens.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FinishedRequest {
    /// Index of the request in the run.
    pub request_idx: u64,
    /// Tokens with which it arrived.
    pub prompt: Vec<u32>,
    /// Tokens that the models made and committed.
    pub output: Vec<u32>,
}

/// Delays that the clock adds to what the scheduler asks for.
#[derive(Debug)]
pub(super) enum Delays<'r> {
    /// Messages are held back for so long, ns; all else comes when it comes.
    Real { hop_ns: u64 },
    /// As recorded.
    Recorded(&'r Timings),
}

#[derive(Debug)]
struct Travelling {
    at: Timestamp,
    sent_at: Timestamp,
    to: ModelIdx,
    message: PeerRequest,
    parcel: Option<Parcel>,
    /// Position among all messages.
    message_idx: usize,
}

pub(super) struct Core<'r> {
    config: &'r EngineConfig,
    seed: u64,
    window: Window,
    delays: Delays<'r>,
    now: Timestamp,
    subservers: Vec<Subserver>,
    coordinator: Coordinator,
    requests: Requests,
    /// `None` where no tokens are made.
    contexts: Option<Contexts>,
    choice: Choice,
    /// In the order of sending, which is the order of delivery: all take the same time.
    travelling: VecDeque<Travelling>,
    n_sent: usize,
    /// When the next request of an open loop arrives, and how late it is taken in.
    next_arrival: Timestamp,
    arrival_stream: Stream,
    n_open_arrivals: usize,
    n_wakes: usize,
    /// Requests of the closed loop that arrive at this instant.
    arrivals_due: u32,
    cancellations: Vec<Cancellation>,
    n_launched: u64,
    /// By model: what its last step found, until that is absorbed.
    results: Vec<Vec<RowOutput>>,
    freed_slots: Vec<Vec<u32>>,
    /// Step-sync: steps of this round that are done.
    done_in_round: Vec<ModelIdx>,
    /// Models whose step was absorbed at this instant.
    absorbed: Vec<ModelIdx>,
    launched_at: Vec<Timestamp>,
    /// Models that launched at this instant.
    launched: Vec<ModelIdx>,
    active_announced: u32,
    finished: u64,
    account: Account,
    log: Option<RunLog>,
    finished_requests: Option<Vec<FinishedRequest>>,
    outputs: Vec<Output>,
    outcomes: Vec<Outcome>,
    /// Of the rows of the step that is absorbed, for a policy that decides by them.
    entropies: Vec<f32>,
}

/// What decides a run.
pub(super) struct Setup<'r> {
    pub(super) config: &'r EngineConfig,
    pub(super) seed: u64,
    pub(super) window: Window,
    pub(super) delays: Delays<'r>,
    /// `None` where no tokens are made.
    pub(super) vocabulary: Option<u32>,
    /// Random token ids if `None`.
    pub(super) prompts: Option<Arc<Prompts>>,
    pub(super) choice: Choice,
    pub(super) cancellations: Vec<Cancellation>,
    pub(super) keep_log: bool,
    pub(super) keep_tokens: bool,
}

impl<'r> Core<'r> {
    pub(super) fn new(setup: Setup<'r>) -> Self {
        let Setup { config, seed, window, delays, vocabulary, prompts, choice, cancellations, keep_log, keep_tokens } =
            setup;
        let n_models = config.models.len();
        let devices: Vec<u16> = config.models.iter().map(|model| model.device).collect();
        let subserver = |(idx, model): (usize, &ModelConfig)| SubserverConfig {
            model: ModelIdx(idx as u8),
            n_models,
            gate: model.gate.clone(),
            first: config.first,
            kv: model.kv,
        };
        let subservers: Vec<SubserverConfig> = config.models.iter().enumerate().map(subserver).collect();
        let fresh = config.fresh.is_some();
        Self {
            config,
            seed,
            window,
            delays,
            now: Timestamp::ZERO,
            subservers: subservers.iter().cloned().map(Subserver::new).collect(),
            coordinator: Coordinator::new(config.coordination, config.sharing, &devices),
            requests: Requests::default(),
            contexts: vocabulary
                .map(|vocabulary| Contexts::new(n_models, vocabulary, seed, prompts, fresh, config.fused)),
            choice,
            travelling: VecDeque::new(),
            n_sent: 0,
            next_arrival: Timestamp::MAX,
            arrival_stream: Stream::new(seed, Purpose::Arrival, 0),
            n_open_arrivals: 0,
            n_wakes: 0,
            arrivals_due: 0,
            cancellations,
            n_launched: 0,
            results: vec![Vec::new(); n_models],
            freed_slots: vec![Vec::new(); n_models],
            done_in_round: Vec::new(),
            absorbed: Vec::new(),
            launched_at: vec![Timestamp::ZERO; n_models],
            launched: Vec::new(),
            active_announced: 0,
            finished: 0,
            account: Account::new(devices, window.opens_at_once()),
            log: keep_log.then(|| RunLog::new(subservers)),
            finished_requests: keep_tokens.then(Vec::new),
            outputs: Vec::new(),
            outcomes: Vec::new(),
            entropies: Vec::new(),
        }
    }

    /// The first requests: all of a closed loop, or the time of the first arrival of an open one.
    pub(super) fn start(&mut self) {
        let Some(concurrency) = self.config.workload.arrivals().concurrency() else {
            self.schedule_arrival(0);
            return;
        };
        let mut stream = Stream::new(self.seed, Purpose::Start, 0);
        for index in 0..concurrency {
            let (request, prompt_tokens) = self.new_request();
            let route = &mut self.requests.routes[request.idx()];
            let (model, behind) = place_first(self.config, index, concurrency, route, &mut stream);
            self.requests.get_mut(request).whole = behind == 0;
            self.admit(model, request, prompt_tokens + behind);
        }
    }

    /// The next time at which something happens by itself, without the end of a step; `Timestamp::MAX` if nothing does.
    pub(super) fn next_time(&self) -> Timestamp {
        let message = self.travelling.front().map_or(Timestamp::MAX, |travelling| travelling.at);
        message.min(self.arrival_at()).min(self.wake_at())
    }

    /// A new instant. What became true by then follows: ends of steps in the order of the models, then [`Self::end_instant`].
    pub(super) fn begin_instant(&mut self, now: Timestamp) {
        debug_assert!(now >= self.now, "time goes on");
        self.open_window_before(now);
        if self.wake_at() <= now {
            let due = self.deadline().unwrap_or(now);
            self.n_wakes += 1;
            if let Some(log) = &mut self.log {
                log.timings.wake_late_ns.push(now - due);
            }
            for model in 0..self.subservers.len() {
                if self.subservers[model].poll_timeout().is_some_and(|(at, _)| at <= now && at > self.now) {
                    self.tell(now, ModelIdx(model as u8), Input::TimedOut);
                }
            }
        }
        self.now = now;
    }

    /// The forward of `model` is over; `outputs` holds what it found, and another vector afterwards.
    pub(super) fn step_ended(&mut self, model: ModelIdx, forward_ns: (u64, u64), outputs: &mut Vec<RowOutput>) {
        std::mem::swap(&mut self.results[model.idx()], outputs);
        self.account.forward_ended(model, forward_ns);
        if let Some(log) = &mut self.log {
            log.timings.step_ns[model.idx()].push(self.now - self.launched_at[model.idx()]);
            log.push(self.now, model, Event::ForwardEnded { forward_ns });
        }
        self.coordinator.left_device(model);
        if self.coordinator.completed(model) {
            self.absorb(model);
        } else {
            self.done_in_round.push(model);
        }
    }

    /// Delivers what is due, then asks for launches.
    pub(super) fn end_instant(&mut self) {
        self.deliver();
        self.launch();
    }

    /// The models that launched at this instant, in order.
    pub(super) fn take_launched(&mut self) -> Vec<ModelIdx> {
        std::mem::take(&mut self.launched)
    }

    /// When the run is over whatever has happened by then; `Timestamp::MAX` if time does not say so.
    pub(super) fn closes_at(&self) -> Timestamp {
        self.window.times().map_or(Timestamp::MAX, |(_, closes_at)| closes_at)
    }

    /// Nothing more happens before the end of the window.
    pub(super) fn run_out(&mut self) {
        self.now = self.closes_at();
        self.open_window_before(self.now + 1);
    }

    /// Opens a window that time opens, if that lies before `now`.
    fn open_window_before(&mut self, now: Timestamp) {
        if let Some((opens_at, _)) = self.window.times()
            && !self.account.measuring
            && opens_at < now
        {
            self.account.open_window(opens_at);
        }
    }

    /// Whether the wanted number of requests has finished.
    pub(super) fn is_done(&self) -> bool {
        self.window.is_full(self.finished)
    }

    /// Writes the step that `model` has just launched into `job`.
    pub(super) fn fill(&mut self, model: ModelIdx, job: &mut Job) {
        job.freed_slots.clear();
        job.freed_slots.append(&mut self.freed_slots[model.idx()]);
        job.rows.clear();
        job.tokens.clear();
        let (Some(contexts), Some(plan)) = (&mut self.contexts, self.subservers[model.idx()].running()) else { return };
        contexts.empty_inbox(model);
        for row in plan.rows {
            job.tokens.extend_from_slice(contexts.new_tokens(model, row));
            let position = row.kv_tokens + row.new_tokens;
            let sampling = match self.choice {
                Choice::Greedy => Sampling::Greedy,
                Choice::Tempered(temperature) => {
                    let request_idx = self.requests.get(row.request).idx;
                    let seed = mix(mix(self.seed ^ mix(request_idx + 1)) ^ u64::from(position));
                    Sampling::Temperature { temperature, seed }
                }
            };
            let (slot, position) = (row.request.slot, row.kv_tokens);
            job.rows.push(JobRow { slot, position, new_tokens: row.new_tokens, sampling });
        }
    }

    /// How many steps `model` has launched so far.
    pub(super) fn step_of(&self, model: ModelIdx) -> Option<usize> {
        self.subservers[model.idx()].running().map(|plan| plan.step.0 as usize)
    }

    /// The end of the run: what was measured, what was logged, which requests finished.
    pub(super) fn close(mut self) -> (Metrics, Option<RunLog>, Vec<FinishedRequest>) {
        self.account.close_window(self.now);
        let (now, log) = (self.now, self.log.take());
        let log = log.map(|log| RunLog { ended_at: now, ..log });
        (self.account.metrics, log, self.finished_requests.unwrap_or_default())
    }

    /// Why nothing can happen any more.
    pub(super) fn stalled(&self) -> RunError {
        if self.requests.active == 0 {
            return RunError::OutOfRequests { finished: self.finished, window: self.window };
        }
        let idx = |request: RequestId| self.requests.get(request).idx;
        let waiting = self.subservers.iter().zip(&self.config.models).map(|(subserver, model)| Held {
            model: model.name.clone(),
            threshold: subserver.threshold_now(),
            held: subserver.waiting().iter().map(|row| idx(row.request)).collect(),
            blocked: subserver.blocked().map(idx).collect(),
        });
        RunError::Stalled { at: self.now, active: self.requests.active, waiting: waiting.collect() }
    }

    /// The earliest wake-up that a subserver asks for. One that has come already waits for the end of a step instead.
    fn deadline(&self) -> Option<Timestamp> {
        let due = self.subservers.iter().filter_map(|subserver| subserver.poll_timeout().map(|(at, _)| at));
        due.filter(|&at| at > self.now).min()
    }

    fn wake_at(&self) -> Timestamp {
        let late_ns = match self.delays {
            Delays::Real { .. } => 0,
            // A wake-up that the recorded run did not live to see never comes.
            Delays::Recorded(timings) => timings.wake_late_ns.get(self.n_wakes).copied().unwrap_or(u64::MAX),
        };
        self.deadline().map_or(Timestamp::MAX, |at| at + late_ns)
    }

    fn arrival_at(&self) -> Timestamp {
        let late_ns = match self.delays {
            Delays::Real { .. } => 0,
            Delays::Recorded(timings) => timings.arrival_late_ns.get(self.n_open_arrivals).copied().unwrap_or(u64::MAX),
        };
        self.next_arrival + late_ns
    }

    fn tell(&mut self, now: Timestamp, model: ModelIdx, input: Input<'_>) {
        if let Some(log) = &mut self.log {
            log.push(now, model, Event::Told(RecordedInput::from(input)));
        }
        self.subservers[model.idx()].handle_input(now, input);
    }

    fn new_request(&mut self) -> (RequestId, u32) {
        let (prompt_tokens, output_tokens) = self.config.workload.lengths(self.seed, self.requests.n_arrived);
        (self.requests.arrive(self.now, self.seed, prompt_tokens, output_tokens), prompt_tokens)
    }

    fn admit(&mut self, model: ModelIdx, request: RequestId, context_tokens: u32) {
        let entry = self.requests.get_mut(request);
        entry.arrived_tokens = context_tokens;
        let (request_idx, context_tokens_max) = (entry.idx, entry.context_tokens_max);
        self.account.visited(model);
        if let Some(contexts) = &mut self.contexts {
            let prompt = contexts.prompt(request, request_idx, context_tokens);
            contexts.deliver(model, prompt);
        }
        self.tell(self.now, model, Input::RequestArrived { request, context_tokens, context_tokens_max });
    }

    fn schedule_arrival(&mut self, previous_ns: u64) {
        let next_ns =
            self.config.workload.arrivals().next_ns(previous_ns, self.requests.n_arrived, &mut self.arrival_stream);
        self.next_arrival = next_ns.map_or(Timestamp::MAX, Timestamp::from_ns);
    }
}
