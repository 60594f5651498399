//! What must be true of every request, kept from the events alone.

use handoff_scheduler::{ModelIdx, Origin, PeerRequest, RequestId, Row, Subserver, VisitState};

use super::Job;

/// Where a request is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    At(ModelIdx),
    /// In a message.
    Travelling,
    /// Finished or cancelled.
    Gone,
}

#[derive(Clone, Debug)]
pub struct Request {
    pub id: RequestId,
    pub job: usize,
    pub place: Place,
    /// Prompt and committed output.
    pub context_tokens: u32,
    pub context_tokens_max: u32,
    pub output_tokens_left: u32,
    pub dropped_tokens: u32,
    pub visit_steps: u32,
    /// How, and at which ns, the request came to be ready for its next step.
    ready: (Origin, u64),
    pub messages_in_flight: u32,
    /// By model: tokens that the subserver has been told or has made.
    known: Vec<u32>,
    /// By model: KV tokens kept.
    kept: Vec<u32>,
    /// By model: when the request first arrived there, counted per model.
    pub arrivals: Vec<Option<u64>>,
    /// By pair of models: what each knows the other to have seen.
    exchanged: Vec<u32>,
    pub cancelled: bool,
}

/// All requests in the system and those whose slot is not free yet, by slot.
#[derive(Debug, Default)]
pub struct Account {
    slots: Vec<Option<Request>>,
    generations: Vec<u32>,
    n_arrivals: Vec<u64>,
    pub active: usize,
}

impl Account {
    pub fn new(n_models: usize) -> Self {
        Self { n_arrivals: vec![0; n_models], ..Self::default() }
    }

    /// A new request in the lowest free slot.
    pub fn open(&mut self, now_ns: u64, job: usize, of: Job) -> RequestId {
        let Job { prompt_tokens: context_tokens, output_tokens, entry } = of;
        let n = self.n_arrivals.len();
        let slot = self.slots.iter().position(Option::is_none).unwrap_or_else(|| {
            self.slots.push(None);
            self.generations.push(0);
            self.slots.len() - 1
        });
        let id = RequestId { slot: slot as u32, generation: self.generations[slot] };
        self.generations[slot] += 1;
        let mut request = Request {
            id,
            job,
            place: Place::At(entry),
            context_tokens,
            context_tokens_max: context_tokens + output_tokens,
            output_tokens_left: output_tokens,
            dropped_tokens: 0,
            visit_steps: 0,
            ready: (Origin::Client, now_ns),
            messages_in_flight: 0,
            known: vec![0; n],
            kept: vec![0; n],
            arrivals: vec![None; n],
            exchanged: vec![0; n * n],
            cancelled: false,
        };
        request.arrive(entry, &mut self.n_arrivals);
        self.slots[slot] = Some(request);
        self.active += 1;
        id
    }

    pub fn get(&self, id: RequestId) -> &Request {
        let request = self.slots[id.idx()].as_ref().expect("the slot is in use");
        assert_eq!(request.id, id, "the slot has another user");
        request
    }

    pub fn get_mut(&mut self, id: RequestId) -> &mut Request {
        let request = self.slots[id.idx()].as_mut().expect("the slot is in use");
        assert_eq!(request.id, id, "the slot has another user");
        request
    }

    pub fn live(&self) -> impl Iterator<Item = &Request> {
        self.slots.iter().flatten()
    }

    pub fn by_job(&self, job: usize) -> Option<RequestId> {
        self.live().find(|request| request.job == job && request.place != Place::Gone).map(|request| request.id)
    }

    /// The request is finished or cancelled.
    pub fn close(&mut self, id: RequestId) {
        self.get_mut(id).place = Place::Gone;
        self.active -= 1;
    }

    /// A message leaves `from`; the token counts that it names must be right.
    pub fn sent(&mut self, to: ModelIdx, message: &PeerRequest) {
        let n = self.n_arrivals.len();
        let from = message.from;
        let request = self.get_mut(message.request);
        request.place = Place::Travelling;
        request.messages_in_flight += 1;
        let context_tokens = request.context_tokens;
        assert_eq!(message.context_tokens, context_tokens, "a handoff tells the whole context");
        let exchanged = &mut request.exchanged;
        let (there, back) = (from.idx() * n + to.idx(), to.idx() * n + from.idx());
        let seen = exchanged[there].max(exchanged[back]);
        assert_eq!(message.suffix_start, seen, "the suffix starts where the two last met");
        exchanged[there] = context_tokens;
        assert!(message.suffix_start <= request.known[to.idx()], "the receiver misses tokens");
    }

    pub fn delivered(&mut self, now_ns: u64, to: ModelIdx, message: &PeerRequest) {
        let Some(request) = self.slots[message.request.idx()].as_mut() else { panic!("the slot was freed too early") };
        request.messages_in_flight -= 1;
        if request.place == Place::Travelling {
            request.place = Place::At(to);
            request.visit_steps = 0;
            request.ready = (Origin::Peer, now_ns);
            request.arrive(to, &mut self.n_arrivals);
        }
    }

    /// A row is launched: it must extend over its own last token plus all that the model has not processed.
    pub fn launched(&mut self, model: ModelIdx, row: &Row) {
        let request = self.get_mut(row.request);
        assert_eq!(request.place, Place::At(model), "{} runs where it is not", row.request);
        let kept = request.kept_at(model);
        let new_tokens = request.context_tokens - kept;
        assert_eq!((row.kv_tokens, row.new_tokens), (kept, new_tokens), "{row:?} against {request:?}");
        assert_eq!((row.origin, row.ready_at.as_ns()), request.ready, "{row:?} against {request:?}");
        request.kept[model.idx()] = request.context_tokens;
        request.visit_steps += 1;
    }

    /// The step is over; `committed` says whether its token is kept.
    pub fn decided(&mut self, now_ns: u64, model: ModelIdx, id: RequestId, committed: bool) {
        let request = self.get_mut(id);
        request.ready = (Origin::Resident, now_ns);
        if committed {
            request.context_tokens += 1;
            request.output_tokens_left -= 1;
        } else {
            request.dropped_tokens += 1;
        }
        request.known[model.idx()] = request.context_tokens;
    }

    /// KV of the request is freed at `model`. A dropped token's KV may be gone already, where the token is made again.
    pub fn freed(&mut self, model: ModelIdx, id: RequestId, freed_tokens: u32) {
        let context_tokens = self.get(id).context_tokens;
        let kept = std::mem::take(&mut self.get_mut(id).kept[model.idx()]);
        assert!(freed_tokens == kept || freed_tokens + 1 == kept && kept == context_tokens, "{freed_tokens} of {kept}");
    }

    /// What the requests' states must be after an event. Slots that nobody uses any more become free.
    pub fn check(&mut self, subservers: &[Subserver]) {
        for slot in &mut self.slots {
            let Some(request) = slot else { continue };
            request.check(subservers);
            let absent = |subserver: &Subserver| subserver.visit_state(request.id) == VisitState::Absent;
            if request.place == Place::Gone && request.messages_in_flight == 0 && subservers.iter().all(absent) {
                assert!(request.kept.iter().all(|&kept| kept == 0), "KV is left behind: {request:?}");
                *slot = None;
            }
        }
        for subserver in subservers {
            self.check_blocked(subserver);
        }
    }

    /// Those who wait for KV are in the order of their arrival, and nobody who came later was let in.
    fn check_blocked(&self, subserver: &Subserver) {
        let arrival = |request: &Request| request.arrivals[subserver.model().idx()];
        let blocked: Vec<Option<u64>> = subserver.blocked().map(|request| arrival(self.get(request))).collect();
        assert!(blocked.is_sorted(), "{blocked:?} wait for KV");
        let let_in = self
            .live()
            .filter(|request| !matches!(subserver.visit_state(request.id), VisitState::Absent | VisitState::Blocked));
        if let (Some(&first), Some(last)) = (blocked.first(), let_in.map(arrival).max()) {
            assert!(last < first, "{last:?} got KV at {} before {first:?}", subserver.model());
        }
    }
}

impl Request {
    /// KV tokens that the request keeps at `model`. A dropped token's KV goes once the token is to be made again there.
    pub fn kept_at(&self, model: ModelIdx) -> u32 {
        let kept = self.kept[model.idx()];
        if self.place == Place::At(model) { kept.min(self.context_tokens - 1) } else { kept }
    }

    fn arrive(&mut self, model: ModelIdx, n_arrivals: &mut [u64]) {
        self.known[model.idx()] = self.context_tokens;
        if self.arrivals[model.idx()].is_none() {
            self.arrivals[model.idx()] = Some(n_arrivals[model.idx()]);
            n_arrivals[model.idx()] += 1;
        }
    }

    /// A request is in one place, and every subserver that it left keeps its share.
    fn check(&self, subservers: &[Subserver]) {
        for (model, subserver) in subservers.iter().enumerate() {
            let state = subserver.visit_state(self.id);
            let visited = self.arrivals[model].is_some();
            let right = match self.place {
                Place::At(at) if at.idx() == model => {
                    matches!(state, VisitState::Blocked | VisitState::Waiting | VisitState::Running)
                }
                Place::At(_) | Place::Travelling if visited => state == VisitState::Pending,
                Place::At(_) | Place::Travelling => state == VisitState::Absent,
                // Only a step in flight delays a cancelled request's end; a finished one's news may still be on its way.
                Place::Gone if self.cancelled => matches!(state, VisitState::Absent | VisitState::Running),
                Place::Gone => matches!(state, VisitState::Absent | VisitState::Pending),
            };
            assert!(right, "{state:?} at model {model}: {self:?}");
        }
    }
}
