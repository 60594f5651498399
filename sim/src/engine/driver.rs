//! The driver with a virtual clock: executes what the scheduler asks for, at the times that the cost models say.

use handoff_scheduler::{
    Coordinator, HandoffStatus, Input, ModelIdx, Origin, Outcome, Output, PeerRequest, RequestId, StepPlan, Subserver,
    SubserverConfig, Timestamp,
};

use super::config::EngineConfig;
use super::device::{Flights, Phase, Work};
use super::error::{RunError, Waiting, indices};
use super::metrics::Metrics;
use super::observer::Observer;
use super::queue::MessageQueue;
use super::requests::Requests;
use super::start::place_first;
use super::window::Window;
use crate::cost::BatchShape;
use crate::rng::{Purpose, Stream};
use crate::stats::BinnedSeries;
use crate::workload::Arrivals;

/// The most requests in the system before a run is called unstable.
const ACTIVE_MAX: u32 = 1_000_000;

pub(super) struct Driver<'c, O> {
    config: &'c EngineConfig,
    seed: u64,
    window: Window,
    now: Timestamp,
    subservers: Vec<Subserver>,
    coordinator: Coordinator,
    flights: Flights<'c>,
    queue: MessageQueue,
    /// When the next request of an open loop arrives; `Timestamp::MAX` in a closed loop.
    next_arrival: Timestamp,
    arrival_stream: Stream,
    requests: Requests,
    /// When the inter-model loop of each subserver is free to handle the next message.
    loop_free_at: Vec<Timestamp>,
    /// Host time that messages add to the next launch, ns (loops fused).
    host_debt_ns: Vec<u64>,
    jitter_streams: Vec<Stream>,
    /// Step-sync: steps of this round that are done.
    done_in_round: Vec<ModelIdx>,
    active_announced: u32,
    measuring: bool,
    finished: u64,
    wakes: bool,
    metrics: Metrics,
    /// Committed tokens over time, for the choice of the warm-up.
    pub(super) series: Option<BinnedSeries>,
    /// Finished requests over time, beside `series`.
    pub(super) finished_series: Option<BinnedSeries>,
    observer: O,
    /// Models whose step was absorbed at this instant and whose outputs are still to be acted on, in order.
    absorbed: Vec<ModelIdx>,
    /// Requests of the closed loop that arrive at this instant.
    arrivals_due: u32,
    outputs: Vec<Output>,
    outcomes: Vec<Outcome>,
}

impl<'c, O: Observer> Driver<'c, O> {
    pub(super) fn new(config: &'c EngineConfig, seed: u64, window: Window, observer: O) -> Self {
        let n_models = config.models.len();
        let devices: Vec<u16> = config.models.iter().map(|model| model.device).collect();
        let subservers = config.models.iter().enumerate().map(|(idx, model)| {
            Subserver::new(SubserverConfig {
                model: ModelIdx(idx as u8),
                n_models,
                gate: model.gate.clone(),
                first: config.first,
                kv: model.kv,
            })
        });
        let flights = Flights::new(&devices, config.corun.as_ref());
        let n_devices = devices.iter().map(|&device| usize::from(device) + 1).max().unwrap_or(0);
        Self {
            config,
            seed,
            window,
            now: Timestamp::ZERO,
            subservers: subservers.collect(),
            coordinator: Coordinator::new(config.coordination, config.sharing, &devices),
            flights,
            queue: MessageQueue::default(),
            next_arrival: Timestamp::MAX,
            arrival_stream: Stream::new(seed, Purpose::Arrival, 0),
            requests: Requests::default(),
            loop_free_at: vec![Timestamp::ZERO; n_models],
            host_debt_ns: vec![0; n_models],
            jitter_streams: (0..n_models as u64).map(|model| Stream::new(seed, Purpose::Jitter, model)).collect(),
            done_in_round: Vec::with_capacity(n_models),
            active_announced: 0,
            measuring: window.opens_at_once(),
            finished: 0,
            wakes: config.models.iter().any(|model| model.gate.wait_ns_max.is_some()),
            metrics: Metrics::new(n_models, n_devices),
            series: None,
            finished_series: None,
            observer,
            absorbed: Vec::with_capacity(n_models),
            arrivals_due: 0,
            outputs: Vec::new(),
            outcomes: Vec::new(),
        }
    }

    /// Runs until the window is over.
    pub(super) fn run(&mut self) -> Result<(), RunError> {
        self.start();
        loop {
            self.deliver();
            self.launch();
            if self.window.is_full(self.finished) || !self.advance()? {
                self.close_window();
                return Ok(());
            }
            // One after the other, for the end of a forward can bring the end of the one beside it from a nanosecond later to now.
            while let Some(model) = self.flights.next_due(self.now) {
                self.end_phase(model);
            }
        }
    }

    pub(super) fn into_parts(self) -> (Metrics, O) {
        (self.metrics, self.observer)
    }

    /// The first requests: all of a closed loop, or the first arrival of an open one.
    fn start(&mut self) {
        let Some(concurrency) = self.config.workload.arrivals().concurrency() else {
            self.schedule_arrival();
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

    /// Draws the lengths of the next request and opens its entry.
    fn new_request(&mut self) -> (RequestId, u32) {
        let workload = &self.config.workload;
        let (prompt_tokens, output_tokens) = workload.lengths(self.seed, self.requests.n_arrived);
        let request =
            self.requests.arrive(self.now, self.seed, output_tokens, prompt_tokens.saturating_add(output_tokens));
        (request, prompt_tokens)
    }

    fn admit(&mut self, model: ModelIdx, request: RequestId, context_tokens: u32) {
        let context_tokens_max = self.requests.get(request).context_tokens_max;
        if self.measuring {
            self.metrics.models[model.idx()].visits += 1;
        }
        self.observer.arrived(self.now, model, request, self.requests.get(request).idx);
        let input = Input::RequestArrived { request, context_tokens, context_tokens_max };
        self.subservers[model.idx()].handle_input(self.now, input);
    }

    fn schedule_arrival(&mut self) {
        self.next_arrival = match self.config.workload.arrivals() {
            Arrivals::ClosedLoop { .. } => Timestamp::MAX,
            arrivals => arrivals
                .next_ns(self.now.as_ns(), self.requests.n_arrived, &mut self.arrival_stream)
                .map_or(Timestamp::MAX, Timestamp::from_ns),
        };
    }

    /// Moves the clock to the next thing that happens, or to the end of the window if that comes before: then it answers false.
    #[inline]
    fn advance(&mut self) -> Result<bool, RunError> {
        let mut next = self.flights.next_time().min(self.queue.next_time()).min(self.next_arrival);
        if self.wakes {
            for subserver in &self.subservers {
                if let Some((at, _)) = subserver.poll_timeout() {
                    // A wait that has ended but cannot launch (its device is held) ends with the step that holds it.
                    if at > self.now {
                        next = next.min(at);
                    }
                }
            }
        }
        if next == Timestamp::MAX {
            return Err(self.stalled());
        }
        if self.requests.active > ACTIVE_MAX {
            return Err(RunError::Unstable { at: self.now, active: self.requests.active, limit: ACTIVE_MAX });
        }
        if let Some((opens_at, closes_at)) = self.window.times() {
            if !self.measuring && next > opens_at {
                self.open_window(opens_at);
            }
            if next > closes_at {
                self.now = closes_at;
                return Ok(false);
            }
        }
        self.now = next;
        Ok(true)
    }

    fn open_window(&mut self, at: Timestamp) {
        self.measuring = true;
        self.metrics.window_start_ns = at.as_ns();
    }

    #[inline]
    fn end_phase(&mut self, model: ModelIdx) {
        match self.flights.get(model).phase {
            Phase::Idle => {}
            Phase::Launch => self.flights.begin_forward(self.now, model),
            Phase::Forward => {
                let loop_ns = self.config.models[model.idx()].host.loop_ns;
                let forward_at = self.flights.get(model).forward_at;
                self.observer.forward_ended(self.now, model, forward_at, self.now);
                let freed = self.flights.end_forward(self.now, model, loop_ns);
                self.coordinator.left_device(model);
                if self.measuring {
                    let start = Timestamp::from_ns(self.metrics.window_start_ns);
                    self.metrics.models[model.idx()].busy_ns += self.now - forward_at.max(start);
                    if let Some(since) = freed {
                        self.metrics.device_busy_ns[self.flights.device(model)] += self.now - since.max(start);
                    }
                }
                if loop_ns == 0 {
                    self.end_phase(model);
                }
            }
            Phase::Loop => {
                self.flights.end(model);
                if self.coordinator.completed(model) {
                    self.absorb(model);
                } else {
                    self.done_in_round.push(model);
                }
            }
        }
    }

    /// Decides about the rows of a finished step and hands the decisions to the scheduler.
    #[inline]
    fn absorb(&mut self, model: ModelIdx) {
        let subserver = &mut self.subservers[model.idx()];
        let plan = subserver.running().expect("a finished step was in flight");
        let StepPlan { step, sums, .. } = plan;
        self.config.policy.decide_step(model, plan.rows, &mut self.requests.routes, &mut self.outcomes);
        if self.requests.n_without_first > 0 {
            note_first_tokens(&mut self.requests, &plan, &self.outcomes, self.now);
        }
        self.observer.finished(self.now, model, &plan, &self.outcomes);
        if self.measuring {
            let flight = self.flights.get(model);
            let start = Timestamp::from_ns(self.metrics.window_start_ns);
            let metrics = &mut self.metrics.models[model.idx()];
            metrics.steps += 1;
            metrics.decode_rows += u64::from(sums.decode_rows);
            metrics.prefill_rows += u64::from(sums.prefill_rows);
            metrics.extend_rows += u64::from(sums.extend_rows());
            metrics.prefill_tokens += sums.prefill_tokens;
            metrics.extend_tokens += sums.new_tokens - sums.prefill_tokens - u64::from(sums.decode_rows);
            metrics.rows_squared += u128::from(sums.rows) * u128::from(sums.rows);
            metrics.in_service_row_ns += u128::from(sums.rows) * u128::from(self.now - flight.launched_at.max(start));
            metrics.batch.record(sums.rows);
            metrics.extrapolated_steps += u64::from(flight.extrapolated);
        }
        subserver.handle_input(self.now, Input::StepFinished { step, outcomes: &self.outcomes });
        self.absorbed.push(model);
    }

    /// Acts on everything that a subserver has to say.
    #[inline]
    fn act_on_outputs(&mut self, model: ModelIdx) {
        let mut outputs = std::mem::take(&mut self.outputs);
        self.subservers[model.idx()].take_outputs(&mut outputs);
        for output in &outputs {
            self.act(model, output);
        }
        self.outputs = outputs;
    }

    #[inline]
    fn act(&mut self, model: ModelIdx, output: &Output) {
        match *output {
            Output::SendHandoff { to, ref message } => self.send(to, message),
            Output::EmitTokens { committed, dropped, .. } => {
                if self.measuring {
                    self.metrics.tokens += u64::from(committed);
                    self.metrics.dropped_tokens += u64::from(dropped);
                    let metrics = &mut self.metrics.models[model.idx()];
                    metrics.committed_tokens += u64::from(committed);
                    metrics.dropped_tokens += u64::from(dropped);
                }
                if let Some(series) = &mut self.series {
                    series.add(self.now.as_ns(), u64::from(committed));
                }
            }
            Output::ReportFinished { request } => self.finish(request),
            Output::Preempt { .. } => self.metrics.preemptions += u64::from(self.measuring),
            // Pages exist in the real backend only.
            Output::Release { .. } => {}
        }
    }

    /// Puts a message on its way: the hop, then the receiver's inter-model loop.
    #[inline]
    fn send(&mut self, to: ModelIdx, message: &PeerRequest) {
        let active = message.status == HandoffStatus::Active;
        if active {
            if self.measuring {
                self.metrics.handoffs += 1;
                self.metrics.models[message.from.idx()].handoffs += 1;
            }
            self.observer.handed_off(self.now, to, message, self.requests.get(message.request).idx);
        }
        let arrives = self.now + self.config.hop_ns(message.context_tokens - message.suffix_start);
        let mut handling_ns = self.config.models[to.idx()].host.message_ns;
        if let (true, Some(fresh)) = (active, self.config.fresh) {
            handling_ns +=
                fresh.fixed_ns + (f64::from(message.context_tokens) * fresh.per_context_token_ns).round() as u64;
        }
        let at = if self.config.fused {
            self.host_debt_ns[to.idx()] += handling_ns;
            arrives
        } else if handling_ns > 0 {
            // One loop handles one message after the other.
            let free_at = &mut self.loop_free_at[to.idx()];
            *free_at = arrives.max(*free_at) + handling_ns;
            *free_at
        } else {
            arrives
        };
        if self.measuring && active {
            self.metrics.in_transit_ns += u128::from(at - self.now);
        }
        if at <= self.now {
            self.hand_over(to, message);
        } else {
            self.queue.send(at, to, *message);
        }
    }

    /// Delivers what is due at this instant: messages that travelled, then what the steps that just ended have to say, then arrivals.
    /// Deliveries send nothing, so one pass is enough.
    #[inline]
    fn deliver(&mut self) {
        while let Some((to, message)) = self.queue.pop_due(self.now) {
            self.hand_over(to, &message);
        }
        for position in 0..self.absorbed.len() {
            self.act_on_outputs(self.absorbed[position]);
        }
        self.absorbed.clear();
        for _ in 0..std::mem::take(&mut self.arrivals_due) {
            self.arrive();
        }
        while self.next_arrival <= self.now {
            self.arrive();
            self.schedule_arrival();
        }
        if self.requests.active != self.active_announced {
            self.active_announced = self.requests.active;
            for subserver in &mut self.subservers {
                subserver.handle_input(self.now, Input::ActiveChanged { n: self.active_announced });
            }
        }
    }

    #[inline]
    fn hand_over(&mut self, to: ModelIdx, message: &PeerRequest) {
        let request = message.request;
        if message.status == HandoffStatus::Active {
            if self.measuring {
                self.metrics.models[to.idx()].visits += 1;
            }
            self.observer.delivered(self.now, to, message, self.requests.get(request).idx);
        }
        let context_tokens_max = self.requests.get(request).context_tokens_max;
        let subserver = &mut self.subservers[to.idx()];
        subserver.handle_input(self.now, Input::HandoffArrived { message: *message, context_tokens_max });
        if message.status == HandoffStatus::Finished {
            self.requests.share_freed(request);
        }
    }

    fn arrive(&mut self) {
        let (request, prompt_tokens) = self.new_request();
        self.config.policy.begin(&mut self.requests.routes[request.idx()]);
        let entry = self.config.policy.entry();
        if self.config.fused {
            self.host_debt_ns[entry.idx()] += self.config.models[entry.idx()].host.message_ns;
        }
        self.admit(entry, request, prompt_tokens);
    }

    fn finish(&mut self, request: RequestId) {
        let entry = *self.requests.get(request);
        if self.measuring && entry.whole {
            self.metrics.ttft.record(entry.first_token_at - entry.arrived_at);
            self.metrics.latency.record(self.now - entry.arrived_at);
            if entry.output_tokens > 1 {
                self.metrics.tpot.record((self.now - entry.first_token_at) / u64::from(entry.output_tokens - 1));
            }
        }
        self.metrics.finished += u64::from(self.measuring);
        self.finished += 1;
        if let Some(series) = &mut self.finished_series {
            series.add(self.now.as_ns(), 1);
        }
        self.requests.finish(request, self.subservers.len() as u32 - 1);
        if self.config.workload.arrivals().concurrency().is_some() {
            self.arrivals_due += 1;
        }
    }

    /// Asks for launches, last at an instant, and opens the window once the warm-up is over.
    #[inline]
    fn launch(&mut self) {
        loop {
            if !self.measuring && self.window.is_warm(self.finished) {
                self.open_window(self.now);
            }
            for position in 0..self.subservers.len() {
                let model = self.coordinator.order(position);
                if self.coordinator.may_launch(model) {
                    self.ask(model);
                }
            }
            if !self.coordinator.is_step_sync() || !self.coordinator.round_is_over() {
                return;
            }
            self.coordinator.begin_round();
            if self.done_in_round.is_empty() {
                return;
            }
            for model in std::mem::take(&mut self.done_in_round) {
                self.absorb(model);
            }
            self.deliver();
            if self.window.is_full(self.finished) {
                return;
            }
        }
    }

    #[inline]
    fn ask(&mut self, model: ModelIdx) {
        let subserver = &mut self.subservers[model.idx()];
        let Some(plan) = subserver.poll_launch(self.now) else {
            // A launch that KV pressure emptied has preempted somebody all the same.
            self.act_on_outputs(model);
            self.coordinator.declined(model);
            return;
        };
        let config = &self.config.models[model.idx()];
        let sums = plan.sums;
        let shape = BatchShape {
            rows: sums.rows,
            decode_rows: sums.decode_rows,
            new_tokens: sums.new_tokens,
            kv_tokens: sums.kv_tokens,
        };
        let cost = config.latency.step(&shape);
        let router = config.router.as_ref().map(|router| router.step(&shape));
        let router_ns = router.map_or(0, |router| router.ns);
        let forward_ns = config.jitter.apply(cost.ns + router_ns, &mut self.jitter_streams[model.idx()]);
        let launch_ns = config.host.launch_ns + std::mem::take(&mut self.host_debt_ns[model.idx()]);
        if self.measuring {
            let metrics = &mut self.metrics.models[model.idx()];
            metrics.waiting_row_ns += u128::from(sums.waited_ns(self.now));
            if sums.client_rows + sums.peer_rows > 0 {
                for row in plan.rows.iter().filter(|row| row.origin != Origin::Resident) {
                    metrics.admission.record(self.now - row.ready_at);
                }
            }
        }
        self.observer.launched(self.now, model, &plan);
        self.coordinator.launched(model);
        let work = Work {
            rows: sums.rows,
            tokens: u32::try_from(sums.new_tokens).unwrap_or(u32::MAX),
            launch_ns,
            forward_ns,
            extrapolated: cost.extrapolated || router.is_some_and(|router| router.extrapolated),
        };
        self.flights.launch(self.now, model, work);
        // Preemptions, and releases of shares whose request ended elsewhere.
        self.act_on_outputs(model);
    }

    fn close_window(&mut self) {
        self.metrics.window_end_ns = self.now.as_ns();
        let start = Timestamp::from_ns(self.metrics.window_start_ns);
        for model in 0..self.subservers.len() {
            let flight = self.flights.get(ModelIdx(model as u8));
            let metrics = &mut self.metrics.models[model];
            if flight.phase == Phase::Forward {
                metrics.busy_ns += self.now - flight.forward_at.max(start);
            }
            if flight.phase != Phase::Idle {
                let in_flight_ns = self.now - flight.launched_at.max(start);
                metrics.in_service_row_ns += u128::from(flight.rows) * u128::from(in_flight_ns);
            }
        }
        for (device, since) in self.flights.busy_devices() {
            self.metrics.device_busy_ns[device] += self.now - since.max(start);
        }
    }

    fn stalled(&self) -> RunError {
        let idx = |request: RequestId| self.requests.get(request).idx;
        if self.requests.active == 0 {
            return RunError::OutOfRequests { finished: self.finished, window: self.window };
        }
        let waiting = self.subservers.iter().zip(&self.config.models).map(|(subserver, model)| Waiting {
            model: model.name.clone(),
            threshold: subserver.threshold_now(),
            held: indices(subserver.waiting().iter().map(|row| row.request), idx),
            blocked: indices(subserver.blocked(), idx),
        });
        RunError::Stalled { at: self.now, active: self.requests.active, waiting: waiting.collect() }
    }
}

/// Notes the first committed token of the requests that had none.
#[cold]
fn note_first_tokens(requests: &mut Requests, plan: &StepPlan<'_>, outcomes: &[Outcome], now: Timestamp) {
    for (row, outcome) in plan.rows.iter().zip(outcomes) {
        if outcome.committed {
            let request = requests.get_mut(row.request);
            if request.first_token_at == Timestamp::MAX {
                request.first_token_at = now;
                requests.n_without_first -= 1;
            }
        }
    }
}
