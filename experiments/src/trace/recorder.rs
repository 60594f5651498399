//! Watches a run and keeps what its timeline shows.

use handoff_scheduler::{
    Coordination, Destination, ModelIdx, Outcome, PeerRequest, RequestId, Sharing, StepPlan, Timestamp,
};
use handoff_sim::engine::{EngineConfig, Observer};

use super::event::{Counts, Event, EventKind, Life, OPEN, Stay, Step};
use super::{EVENTS_MAX, Stopped};

/// A model, and the track that shows its forwards.
#[derive(Clone, Debug)]
pub(super) struct ModelTrack {
    pub(super) name: String,
    /// The thread of the process `devices`, counted from 0.
    pub(super) lane: usize,
}

/// Watches a run and keeps what its timeline shows; see the [module](super).
#[derive(Debug)]
pub(crate) struct TraceObserver {
    pub(super) models: Vec<ModelTrack>,
    /// Names of the threads of the process `devices`.
    pub(super) lanes: Vec<String>,
    events_max: usize,
    pub(super) events: Vec<Event>,
    pub(super) steps: Vec<Step>,
    /// Indices of the requests of all steps, one a row.
    pub(super) step_requests: Vec<u64>,
    pub(super) lives: Vec<Life>,
    /// The requests in the system, by slot.
    present: Vec<Option<Present>>,
    /// By model: the step in flight, by its position among all steps.
    in_flight: Vec<Option<u32>>,
    counts: Vec<Counts>,
    /// By model: what the last counter event said.
    counts_shown: Vec<Option<Counts>>,
    n_handoffs: u32,
    now: Timestamp,
    stopped_at: Option<Timestamp>,
}

/// A request in the system.
#[derive(Clone, Copy, Debug)]
struct Present {
    generation: u32,
    /// Position among all lives.
    life: u32,
    stay: Stay,
    since: Timestamp,
    /// Its last handoff, until a step of the receiver carries it: the position of the event, and the number of the handoff.
    flow: Option<(usize, u32)>,
    /// The models where it is pending, as a bit mask; a coordinator handles at most 32 models.
    pending_at: u32,
    cancelled: bool,
}

impl TraceObserver {
    /// Watches a run of `config`.
    pub(crate) fn of(config: &EngineConfig) -> Self {
        let n_models = config.models.len();
        // Where no two forwards of a device run at the same time, one track shows them all.
        let one_at_a_time = matches!(config.sharing, Sharing::Exclusive(_))
            || matches!(config.coordination, Coordination::ModelSync(_));
        let mut places: Vec<(u16, usize)> = Vec::new();
        let place = |idx: usize| {
            let device = config.models[idx].device;
            let first = config.models.iter().position(|other| other.device == device).expect("the model's own device");
            (device, if one_at_a_time { first } else { idx })
        };
        places.extend((0..n_models).map(place));
        places.sort_unstable();
        places.dedup();
        let lane_name = |&(device, model): &(u16, usize)| {
            let alone = places.iter().filter(|(other, _)| *other == device).count() == 1;
            if alone { format!("device {device}") } else { format!("device {device}, {}", config.models[model].name) }
        };
        let lane = |idx| places.binary_search(&place(idx)).expect("every model has a place");
        let models = config.models.iter().enumerate();
        Self {
            models: models.map(|(idx, model)| ModelTrack { name: model.name.clone(), lane: lane(idx) }).collect(),
            lanes: places.iter().map(lane_name).collect(),
            events_max: EVENTS_MAX,
            events: Vec::new(),
            steps: Vec::new(),
            step_requests: Vec::new(),
            lives: Vec::new(),
            present: Vec::new(),
            in_flight: vec![None; n_models],
            counts: vec![Counts::default(); n_models],
            counts_shown: vec![None; n_models],
            n_handoffs: 0,
            now: Timestamp::ZERO,
            stopped_at: None,
        }
    }

    /// Stops the trace at the first thing that happens after so many events.
    #[cfg(test)]
    pub(crate) fn with_events_max(self, events_max: usize) -> Self {
        Self { events_max, ..self }
    }

    /// Where the trace stopped, if the run went on beyond it.
    pub(crate) fn stopped(&self) -> Option<Stopped> {
        self.stopped_at.map(|at| Stopped { at_ns: at.as_ns(), events_max: self.events_max })
    }

    /// The last instant of the trace, ns.
    pub(super) const fn ended_ns(&self) -> u64 {
        self.now.as_ns()
    }

    /// Ends the trace where the run ended, if it did not stop before. What is open is cut there.
    pub(super) fn close(&mut self, ran_until: Timestamp) {
        self.show_counts();
        if self.stopped_at.is_none() {
            self.now = self.now.max(ran_until);
        }
        for slot in 0..self.present.len() {
            if let Some(present) = self.present[slot].take() {
                self.show_stay(&present, OPEN);
            }
        }
    }

    /// Comes to an instant. Whether the trace goes on.
    fn goes_on(&mut self, now: Timestamp) -> bool {
        if self.stopped_at.is_some() {
            return false;
        }
        if now > self.now {
            // Once an instant, with what all of it came to.
            self.show_counts();
            self.now = now;
        }
        if self.events.len() >= self.events_max {
            self.stopped_at = Some(now);
        }
        self.stopped_at.is_none()
    }

    fn show_counts(&mut self) {
        let at_ns = self.now.as_ns();
        for (idx, (&counts, shown)) in self.counts.iter().zip(&mut self.counts_shown).enumerate() {
            if *shown != Some(counts) {
                *shown = Some(counts);
                let kind = EventKind::Counts { model: ModelIdx(idx as u8), counts };
                self.events.push(Event { at_ns, kind });
            }
        }
    }

    fn push(&mut self, kind: EventKind) {
        self.events.push(Event { at_ns: self.now.as_ns(), kind });
    }

    fn present(&mut self, request: RequestId) -> Option<&mut Present> {
        let entry = self.present.get_mut(request.idx())?.as_mut();
        entry.filter(|present| present.generation == request.generation)
    }

    /// The request goes from where it stayed to `stay`. `None` if it is not in the system any more.
    fn move_to(&mut self, request: RequestId, stay: Stay) -> Option<()> {
        let now = self.now;
        let present = self.present(request)?;
        let before = *present;
        (present.stay, present.since) = (stay, now);
        self.leave(&before);
        self.change_count(stay, 1);
        Some(())
    }

    /// The request is no longer where it stayed.
    fn leave(&mut self, stayed: &Present) {
        self.change_count(stayed.stay, -1);
        self.show_stay(stayed, self.now.as_ns());
    }

    /// A stay until `ended_ns`. Waiting for no time is no waiting.
    fn show_stay(&mut self, stayed: &Present, ended_ns: u64) {
        if stayed.since < self.now || matches!(stayed.stay, Stay::Running(..)) {
            let kind = EventKind::Stay { life: stayed.life, stay: stayed.stay, ended_ns };
            self.events.push(Event { at_ns: stayed.since.as_ns(), kind });
        }
    }

    fn change_count(&mut self, stay: Stay, by: i32) {
        let count = match stay {
            Stay::Waiting(model) => &mut self.counts[model.idx()].waiting,
            Stay::Running(model, ..) => &mut self.counts[model.idx()].running,
            Stay::InTransit(_) => return,
        };
        *count = count.checked_add_signed(by).expect("a request leaves where it was");
    }

    /// The request leaves the system.
    fn end_life(&mut self, request: RequestId) {
        let Some(&mut present) = self.present(request) else { return };
        self.present[request.idx()] = None;
        self.leave(&present);
        for (idx, counts) in self.counts.iter_mut().enumerate() {
            counts.pending -= present.pending_at >> idx & 1;
        }
        let life = &mut self.lives[present.life as usize];
        (life.ended_ns, life.cancelled) = (self.now.as_ns(), present.cancelled);
    }

    /// The request leaves `from` for `to`.
    fn hand_off(&mut self, request: RequestId, from: ModelIdx, to: ModelIdx) {
        if self.move_to(request, Stay::InTransit(to)).is_none() {
            return;
        }
        let (flow, handoff) = (self.events.len(), self.n_handoffs);
        self.n_handoffs += 1;
        self.push(EventKind::FlowStart { model: from, handoff, arrived: false });
        self.counts[from.idx()].pending += 1;
        let present = self.present(request).expect("it has just moved");
        present.flow = Some((flow, handoff));
        present.pending_at |= 1 << from.0;
    }
}

impl Observer for TraceObserver {
    fn arrived(&mut self, now: Timestamp, model: ModelIdx, request: RequestId, idx: u64) {
        if !self.goes_on(now) {
            return;
        }
        let slot = request.idx();
        if slot >= self.present.len() {
            self.present.resize(slot + 1, None);
        }
        debug_assert!(self.present[slot].is_none(), "{request} took a slot that is in use");
        let life = self.lives.len() as u32;
        self.lives.push(Life {
            request_idx: idx,
            slot: request.slot,
            ended_ns: OPEN,
            cancelled: false,
            committed: 0,
            dropped: 0,
            handoffs: 0,
        });
        self.push(EventKind::Life(life));
        let stay = Stay::Waiting(model);
        self.present[slot] = Some(Present {
            generation: request.generation,
            life,
            stay,
            since: now,
            flow: None,
            pending_at: 0,
            cancelled: false,
        });
        self.change_count(stay, 1);
    }

    fn launched(&mut self, now: Timestamp, model: ModelIdx, plan: &StepPlan<'_>) {
        if !self.goes_on(now) {
            return;
        }
        let step = self.steps.len() as u32;
        let sums = &plan.sums;
        self.steps.push(Step {
            model,
            id: plan.step,
            ended_ns: OPEN,
            decode_rows: sums.decode_rows,
            extend_rows: sums.extend_rows(),
            prefill_rows: sums.prefill_rows,
            new_tokens: sums.new_tokens,
            kv_tokens: sums.kv_tokens,
            requests_start: self.step_requests.len(),
            committed: 0,
            handed_off: 0,
        });
        self.in_flight[model.idx()] = Some(step);
        self.push(EventKind::Step(step));
        for row in plan.rows {
            let present = self.present(row.request).expect("a row's request is in the system");
            let (life, flow) = (present.life, present.flow.take());
            self.step_requests.push(self.lives[life as usize].request_idx);
            self.move_to(row.request, Stay::Running(model, step, row.kind));
            if let Some((flow, handoff)) = flow {
                if let EventKind::FlowStart { arrived, .. } = &mut self.events[flow].kind {
                    *arrived = true;
                }
                self.push(EventKind::FlowEnd { model, handoff });
            }
        }
    }

    fn forward_ended(&mut self, now: Timestamp, model: ModelIdx, began: Timestamp, ended: Timestamp) {
        if !self.goes_on(now) {
            return;
        }
        if let Some(step) = self.in_flight[model.idx()] {
            let kind = EventKind::Forward { step, ended_ns: ended.as_ns() };
            self.events.push(Event { at_ns: began.as_ns(), kind });
        }
    }

    fn finished(&mut self, now: Timestamp, model: ModelIdx, plan: &StepPlan<'_>, outcomes: &[Outcome]) {
        if !self.goes_on(now) {
            return;
        }
        let Some(step) = self.in_flight[model.idx()].take() else { return };
        self.steps[step as usize].ended_ns = now.as_ns();
        for (row, outcome) in plan.rows.iter().zip(outcomes) {
            let Some(&mut Present { life, cancelled, .. }) = self.present(row.request) else { continue };
            if cancelled {
                self.end_life(row.request);
                continue;
            }
            let life = &mut self.lives[life as usize];
            let step = &mut self.steps[step as usize];
            life.committed += u32::from(outcome.committed);
            life.dropped += u32::from(!outcome.committed);
            step.committed += u32::from(outcome.committed);
            match outcome.destination {
                Destination::Stay => {
                    self.move_to(row.request, Stay::Waiting(model));
                }
                Destination::To(to) => {
                    life.handoffs += 1;
                    step.handed_off += 1;
                    self.hand_off(row.request, model, to);
                }
                Destination::Finished => self.end_life(row.request),
            }
        }
    }

    // What left, and for where, the outcomes of the step have said already.

    fn delivered(&mut self, now: Timestamp, to: ModelIdx, message: &PeerRequest, _idx: u64) {
        if !self.goes_on(now) {
            return;
        }
        if self.move_to(message.request, Stay::Waiting(to)).is_none() {
            // The client gave up meanwhile.
            return;
        }
        let present = self.present(message.request).expect("it has just moved");
        let was_pending = present.pending_at >> to.0 & 1;
        present.pending_at &= !(1 << to.0);
        self.counts[to.idx()].pending -= was_pending;
    }

    fn cancelled(&mut self, now: Timestamp, request: RequestId) {
        if !self.goes_on(now) {
            return;
        }
        let Some(present) = self.present(request) else { return };
        present.cancelled = true;
        // The step that carries it goes on with it.
        if !matches!(present.stay, Stay::Running(..)) {
            self.end_life(request);
        }
    }
}
