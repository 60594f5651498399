//! The parts of an instant: results become decisions, outputs become messages, waiting rows become launches.

use handoff_scheduler::{
    HandoffStatus, Input, ModelIdx, Outcome, Output, PeerRequest, RequestId, StepPlan, VisitState,
};
use handoff_sim::policy::record::RecordRow;

use super::{Core, Delays, FinishedRequest, Travelling};
use crate::record::{Event, Launch};

impl Core<'_> {
    /// Decides about the rows of a finished step and hands the decisions to the scheduler.
    pub(super) fn absorb(&mut self, model: ModelIdx) {
        let plan = self.subservers[model.idx()].running().expect("a finished step was in flight");
        let StepPlan { step, rows, .. } = plan;
        let found = &self.results[model.idx()];
        assert!(self.contexts.is_none() || found.len() == rows.len(), "{step:?} of {model} has one result a row");
        let (policy, routes) = (&self.config.policy, &mut self.requests.routes);
        if policy.needs_entropy() {
            self.entropies.clear();
            self.entropies.extend(found.iter().map(|output| output.entropy));
            policy.decide_step_measured(model, rows, &self.entropies, routes, &mut self.outcomes);
        } else {
            policy.decide_step(model, rows, routes, &mut self.outcomes);
        }
        self.account.absorbed(self.now, model, &plan);
        for (row_idx, (row, outcome)) in rows.iter().zip(&mut self.outcomes).enumerate() {
            let request = self.requests.get_mut(row.request);
            if request.cancelled {
                // Nobody follows it and no route has it, so a replay must not depend on it.
                *outcome = Outcome::STAY;
                continue;
            }
            let outcome = *outcome;
            if outcome.committed {
                request.first_token_at = request.first_token_at.min(self.now);
                if let Some(contexts) = &mut self.contexts {
                    contexts.commit(model, row.request, found[row_idx].token);
                }
            }
            if let Some(log) = &mut self.log {
                let entropy = found.get(row_idx).map(|output| output.entropy);
                log.routes.push(RecordRow { request: request.idx, step: request.steps, model, outcome, entropy });
            }
            request.steps += 1;
        }
        let outcomes = std::mem::take(&mut self.outcomes);
        self.tell(self.now, model, Input::StepFinished { step, outcomes: &outcomes });
        self.outcomes = outcomes;
        self.absorbed.push(model);
    }

    fn act_on_outputs(&mut self, model: ModelIdx) {
        let mut outputs = std::mem::take(&mut self.outputs);
        self.subservers[model.idx()].take_outputs(&mut outputs);
        for output in &outputs {
            if let Some(log) = &mut self.log {
                log.push(self.now, model, Event::Said(*output));
            }
            match *output {
                Output::SendHandoff { to, message } => self.send(to, message),
                Output::EmitTokens { committed, dropped, .. } => self.account.emitted(model, committed, dropped),
                Output::ReportFinished { request } => self.finish(model, request),
                Output::Preempt { request, .. } => {
                    self.account.metrics.preemptions += u64::from(self.account.measuring);
                    self.freed_slots[model.idx()].push(request.slot);
                }
                Output::Release { request, .. } => self.freed_slots[model.idx()].push(request.slot),
            }
        }
        self.outputs = outputs;
    }

    fn send(&mut self, to: ModelIdx, message: PeerRequest) {
        let mut parcel = None;
        if message.status == HandoffStatus::Active {
            self.account.handed_off(message.from);
            parcel = self.contexts.as_mut().map(|contexts| contexts.pack(&message));
        }
        let delay_ns = match self.delays {
            Delays::Real { hop_ns } => hop_ns,
            Delays::Recorded(timings) => timings.message_ns.get(self.n_sent).copied().unwrap_or(u64::MAX),
        };
        if let Some(log) = &mut self.log {
            log.timings.message_ns.push(u64::MAX);
        }
        let (at, message_idx) = (self.now + delay_ns, self.n_sent);
        self.n_sent += 1;
        self.requests.get_mut(message.request).messages += 1;
        let travelling = Travelling { at, sent_at: self.now, to, message, parcel, message_idx };
        if delay_ns == 0 {
            self.hand_over(travelling);
        } else {
            self.travelling.push_back(travelling);
        }
    }

    fn hand_over(&mut self, travelling: Travelling) {
        let Travelling { sent_at, to, message, parcel, message_idx, .. } = travelling;
        if let Some(log) = &mut self.log {
            log.timings.message_ns[message_idx] = self.now - sent_at;
        }
        if let (Some(contexts), Some(parcel)) = (&mut self.contexts, parcel) {
            contexts.deliver(to, parcel);
        }
        if message.status == HandoffStatus::Active {
            self.account.visited(to);
            let in_transit_ns = u128::from(self.now - sent_at);
            self.account.metrics.in_transit_ns += if self.account.measuring { in_transit_ns } else { 0 };
        }
        let request = self.requests.get_mut(message.request);
        request.messages -= 1;
        let context_tokens_max = request.context_tokens_max;
        self.tell(self.now, to, Input::HandoffArrived { message, context_tokens_max });
    }

    /// Delivers what is due: messages that travelled, then what the steps that just ended have to say, then arrivals.
    pub(super) fn deliver(&mut self) {
        while self.travelling.front().is_some_and(|travelling| travelling.at <= self.now) {
            let travelling = self.travelling.pop_front().expect("the front was there");
            self.hand_over(travelling);
        }
        for model in std::mem::take(&mut self.absorbed) {
            self.act_on_outputs(model);
        }
        self.cancel_due();
        // What deliveries and cancellations freed.
        for model in 0..self.subservers.len() {
            self.act_on_outputs(ModelIdx(model as u8));
        }
        let subservers = &self.subservers;
        self.requests.free_slots(|request| {
            subservers.iter().all(|subserver| subserver.visit_state(request) == VisitState::Absent)
        });
        for _ in 0..std::mem::take(&mut self.arrivals_due) {
            self.arrive();
        }
        while self.arrival_at() <= self.now {
            let due = self.next_arrival;
            if let Some(log) = &mut self.log {
                log.timings.arrival_late_ns.push(self.now - due);
            }
            self.n_open_arrivals += 1;
            self.arrive();
            self.schedule_arrival(due.as_ns());
        }
        if self.requests.active != self.active_announced {
            self.active_announced = self.requests.active;
            for model in 0..self.subservers.len() {
                self.tell(self.now, ModelIdx(model as u8), Input::ActiveChanged { n: self.active_announced });
            }
        }
    }

    fn arrive(&mut self) {
        let (request, prompt_tokens) = self.new_request();
        self.config.policy.begin(&mut self.requests.routes[request.idx()]);
        self.admit(self.config.policy.entry(), request, prompt_tokens);
    }

    fn cancel_due(&mut self) {
        let mut cancellations = std::mem::take(&mut self.cancellations);
        cancellations.retain(|cancellation| {
            let Some(request) = self.requests.active_with_idx(cancellation.request_idx) else {
                return cancellation.request_idx >= self.requests.n_arrived;
            };
            if cancellation.after_steps > self.n_launched {
                return true;
            }
            self.requests.end(request, true);
            for model in 0..self.subservers.len() {
                self.tell(self.now, ModelIdx(model as u8), Input::RequestCancelled { request });
            }
            self.replace();
            false
        });
        self.cancellations = cancellations;
    }

    fn replace(&mut self) {
        if self.config.workload.arrivals().concurrency().is_some() {
            self.arrivals_due += 1;
        }
    }

    fn finish(&mut self, model: ModelIdx, request: RequestId) {
        let entry = *self.requests.get(request);
        let metrics = &mut self.account.metrics;
        if self.account.measuring {
            metrics.finished += 1;
            if entry.whole {
                metrics.ttft.record(entry.first_token_at - entry.arrived_at);
                metrics.latency.record(self.now - entry.arrived_at);
                if entry.output_tokens > 1 {
                    metrics.tpot.record((self.now - entry.first_token_at) / u64::from(entry.output_tokens - 1));
                }
            }
        }
        self.finished += 1;
        if let (Some(finished), Some(contexts)) = (&mut self.finished_requests, &self.contexts) {
            let (prompt, output) = contexts.known(model, request).split_at(entry.arrived_tokens as usize);
            finished.push(FinishedRequest { request_idx: entry.idx, prompt: prompt.to_vec(), output: output.to_vec() });
        }
        self.requests.end(request, false);
        self.replace();
    }

    /// Asks for launches, last at an instant, and opens the window once the warm-up is over.
    pub(super) fn launch(&mut self) {
        loop {
            if !self.account.measuring && self.window.is_warm(self.finished) {
                self.account.open_window(self.now);
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
            if self.is_done() {
                return;
            }
        }
    }

    fn ask(&mut self, model: ModelIdx) {
        let Some(plan) = self.subservers[model.idx()].poll_launch(self.now) else {
            if let Some(log) = &mut self.log {
                log.push(self.now, model, Event::Declined);
            }
            self.act_on_outputs(model);
            self.coordinator.declined(model);
            return;
        };
        self.account.launched(self.now, model, &plan);
        if let Some(log) = &mut self.log {
            let request_idx = plan.rows.iter().map(|row| self.requests.get(row.request).idx).collect();
            let launch = Launch { step: plan.step, rows: plan.rows.to_vec(), request_idx };
            log.push(self.now, model, Event::Launched(launch));
        }
        self.coordinator.launched(model);
        self.launched_at[model.idx()] = self.now;
        self.n_launched += 1;
        self.launched.push(model);
        // Preemptions.
        self.act_on_outputs(model);
    }
}
