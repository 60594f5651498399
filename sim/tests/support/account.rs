//! An independent account of a run, kept by watching it: what every request committed, what every subserver has seen of it, who waits where and for
//! how long. It panics at the first event that breaks a rule.

use handoff_scheduler::{
    Destination, KvFull, ModelIdx, Origin, Outcome, PeerRequest, RequestId, RowKind, StepPlan, Timestamp,
};
use handoff_sim::cost::BatchShape;
use handoff_sim::engine::{EngineConfig, Observer};
use handoff_sim::workload::Start;

/// Where a request is.
#[derive(Clone, Copy, PartialEq, Debug)]
enum At {
    Nowhere,
    /// In a message since then, or waiting at the model.
    Waiting(ModelIdx, Timestamp),
    Running(ModelIdx),
}

/// One request in the system.
#[derive(Clone, Debug)]
struct Request {
    generation: u32,
    idx: u64,
    at: At,
    /// Tokens of prompt and committed output; unknown until the first launch of a request that was under way at the start.
    context_tokens: Option<u32>,
    committed: u32,
    /// Per model: context at its last launch there, whose KV it keeps; 0 if it was never there.
    kept_tokens: Vec<u32>,
    /// Per pair (sender, receiver): context of the last message between the two, in either direction.
    exchanged_tokens: Vec<u32>,
}

/// Sums over all steps of one model, warm-up included.
#[derive(Clone, Default, Debug)]
pub struct StepSums {
    pub steps: u64,
    pub rows: u64,
    pub committed: u64,
    pub dropped: u64,
    pub kv_tokens: u64,
    pub service_ns_max: u64,
}

/// The account. Make it with [`Account::of`], pass it to `replicate_observed`, then ask [`Account::close`].
#[derive(Clone, Debug)]
pub struct Account<'c> {
    config: &'c EngineConfig,
    seed: u64,
    requests: Vec<Request>,
    launched_at: Vec<Option<Timestamp>>,
    pub models: Vec<StepSums>,
    pub finished: u64,
    /// Longest time that a row waited for a launch, from when it became ready, ns.
    pub wait_ns_max: u64,
    /// Longest time from a handoff until its row was ready, ns.
    pub transit_ns_max: u64,
    /// Depends on every launch, its time and order, and on every decision.
    pub digest: u64,
    scale: u64,
}

impl<'c> Account<'c> {
    pub fn of(config: &'c EngineConfig, seed: u64) -> Self {
        let n = config.models.len();
        Self {
            config,
            seed,
            requests: Vec::new(),
            launched_at: vec![None; n],
            models: vec![StepSums::default(); n],
            finished: 0,
            wait_ns_max: 0,
            transit_ns_max: 0,
            digest: 0,
            scale: 1,
        }
    }

    /// The same for a run whose times were all multiplied by `scale`, so that its digest is that of the run it was made from.
    pub fn with_scale(self, scale: u64) -> Self {
        Self { scale, ..self }
    }

    /// The longest that a request was on its way or waited, those included that still do at `end_ns`.
    pub fn out_of_service_ns_max(&self, end_ns: u64) -> u64 {
        let end = Timestamp::from_ns(end_ns);
        let still = self.requests.iter().filter_map(|request| match request.at {
            At::Waiting(_, since) => Some(end - since),
            At::Nowhere | At::Running(_) => None,
        });
        still.max().unwrap_or(0).max(self.wait_ns_max + self.transit_ns_max)
    }

    /// Whether the time of a step follows from its batch alone.
    fn exact_service(&self, model: ModelIdx) -> bool {
        let config = self.config;
        let steady = config.models[model.idx()].jitter.cv() == 0.0 && config.corun.is_none() && !config.fused;
        steady && config.coordination != handoff_scheduler::Coordination::StepSync
    }

    fn request(&mut self, request: RequestId) -> &mut Request {
        let entry = &mut self.requests[request.idx()];
        assert_eq!(entry.generation, request.generation, "{request} is not the present user of its slot");
        entry
    }

    fn note(&mut self, values: &[u64]) {
        for value in values {
            self.digest = (self.digest ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        }
    }
}

impl Observer for Account<'_> {
    fn arrived(&mut self, now: Timestamp, model: ModelIdx, request: RequestId, idx: u64) {
        let fresh = Request {
            generation: request.generation,
            idx,
            at: At::Waiting(model, now),
            context_tokens: None,
            committed: 0,
            kept_tokens: vec![0; self.config.models.len()],
            exchanged_tokens: vec![0; self.config.models.len().pow(2)],
        };
        if request.idx() == self.requests.len() {
            self.requests.push(fresh);
        } else {
            let former = &mut self.requests[request.idx()];
            assert_eq!(
                (former.at, former.generation + 1),
                (At::Nowhere, request.generation),
                "{request} took a used slot"
            );
            *former = fresh;
        }
    }

    fn launched(&mut self, now: Timestamp, model: ModelIdx, plan: &StepPlan<'_>) {
        let before = self.launched_at[model.idx()].replace(now);
        assert_eq!(before, None, "{model} launched while a step was in flight");
        assert!(!plan.rows.is_empty());
        assert_eq!(handoff_scheduler::BatchSums::of(plan.rows), plan.sums);
        let preempts = self.config.models[model.idx()].kv.when_full == KvFull::Preempt;
        let (seed, start) = (self.seed, self.config.workload.start());
        for row in plan.rows {
            let (prompt_tokens, _) = self.config.workload.lengths(seed, self.requests[row.request.idx()].idx);
            let request = self.request(row.request);
            let At::Waiting(at, since) = request.at else { panic!("{row:?} launched from {:?}", request.at) };
            assert_eq!(at, model, "{row:?} waits elsewhere");
            request.at = At::Running(model);
            let context_tokens = row.kv_tokens + row.new_tokens;
            let expected = *request.context_tokens.get_or_insert_with(|| {
                // Under a random start the first requests have some tokens behind them, which nobody announces.
                if start != Start::Random {
                    assert_eq!(context_tokens, prompt_tokens);
                }
                assert!(context_tokens >= prompt_tokens);
                context_tokens
            });
            assert_eq!(context_tokens, expected, "{row:?} covers the whole context");
            // The last token a model knows has no KV yet, however often its successor was dropped.
            let kept_tokens = request.kept_tokens[model.idx()].min(context_tokens - 1);
            if !(preempts && row.kv_tokens == 0) {
                assert_eq!(row.kv_tokens, kept_tokens, "{row:?} keeps what was computed");
            }
            request.kept_tokens[model.idx()] = context_tokens;
            let kind = match (row.kv_tokens, row.new_tokens) {
                (0, _) => RowKind::Prefill,
                (_, 1) => RowKind::Decode,
                _ => RowKind::Extend,
            };
            assert_eq!(row.kind, kind);
            assert!(row.ready_at >= since && row.ready_at <= now, "{row:?} was sent or arrived at {since}");
            if row.origin != Origin::Peer {
                assert_eq!(row.ready_at, since);
            }
            self.wait_ns_max = self.wait_ns_max.max(now - row.ready_at);
            self.transit_ns_max = self.transit_ns_max.max(row.ready_at - since);
            self.models[model.idx()].kv_tokens += u64::from(row.kv_tokens);
            self.note(&[u64::from(row.request.slot), u64::from(row.new_tokens), u64::from(row.kv_tokens)]);
        }
        assert_eq!(now.as_ns() % self.scale, 0, "{now} is no multiple of the scale");
        self.note(&[u64::from(model.0), now.as_ns() / self.scale]);
    }

    fn finished(&mut self, now: Timestamp, model: ModelIdx, plan: &StepPlan<'_>, outcomes: &[Outcome]) {
        let launched_at = self.launched_at[model.idx()].take().expect("a step in flight");
        let service_ns = now - launched_at;
        if self.exact_service(model) {
            let own = &self.config.models[model.idx()];
            let shape = BatchShape {
                rows: plan.sums.rows,
                decode_rows: plan.sums.decode_rows,
                new_tokens: plan.sums.new_tokens,
                kv_tokens: plan.sums.kv_tokens,
            };
            let forward_ns =
                own.latency.step(&shape).ns + own.router.as_ref().map_or(0, |router| router.step(&shape).ns);
            assert_eq!(service_ns, own.host.launch_ns + forward_ns + own.host.loop_ns, "{plan:?}");
        }
        let n_models = self.config.models.len();
        let sums = &mut self.models[model.idx()];
        sums.service_ns_max = sums.service_ns_max.max(service_ns);
        sums.steps += 1;
        sums.rows += plan.rows.len() as u64;
        assert_eq!(plan.rows.len(), outcomes.len());
        for (row, outcome) in plan.rows.iter().zip(outcomes) {
            let sums = &mut self.models[model.idx()];
            sums.committed += u64::from(outcome.committed);
            sums.dropped += u64::from(!outcome.committed);
            let (_, output_tokens) = self.config.workload.lengths(self.seed, self.requests[row.request.idx()].idx);
            let under_way = self.config.workload.start() == Start::Random
                && self
                    .config
                    .workload
                    .arrivals()
                    .concurrency()
                    .is_some_and(|n| u64::from(n) > self.requests[row.request.idx()].idx);
            let request = self.request(row.request);
            assert_eq!(request.at, At::Running(model));
            let committed = u32::from(outcome.committed);
            request.committed += committed;
            request.context_tokens = request.context_tokens.map(|tokens| tokens + committed);
            assert!(request.committed <= output_tokens);
            match outcome.destination {
                Destination::Stay => request.at = At::Waiting(model, now),
                Destination::To(to) => {
                    assert!(to != model && to.idx() < n_models);
                    request.at = At::Waiting(to, now);
                }
                Destination::Finished => {
                    assert!(outcome.committed);
                    assert!(request.committed == output_tokens || under_way, "request {} ended early", request.idx);
                    request.at = At::Nowhere;
                    self.finished += 1;
                }
            }
            if !under_way && outcome.destination != Destination::Finished {
                assert!(self.request(row.request).committed < output_tokens, "{} goes on after its end", row.request);
            }
            let to = match outcome.destination {
                Destination::Stay => 100,
                Destination::To(to) => u64::from(to.0),
                Destination::Finished => 200,
            };
            self.note(&[to, u64::from(committed)]);
        }
    }

    fn handed_off(&mut self, now: Timestamp, to: ModelIdx, message: &PeerRequest, idx: u64) {
        let n_models = self.config.models.len();
        let request = self.request(message.request);
        assert_eq!(request.at, At::Waiting(to, now));
        assert_eq!(request.idx, idx);
        assert_eq!(Some(message.context_tokens), request.context_tokens);
        // The suffix begins where the last exchange of the two ended.
        let from = message.from;
        let exchanged = &mut request.exchanged_tokens;
        assert_eq!(message.suffix_start, exchanged[from.idx() * n_models + to.idx()], "{message:?} to {to}");
        exchanged[from.idx() * n_models + to.idx()] = message.context_tokens;
        exchanged[to.idx() * n_models + from.idx()] = message.context_tokens;
    }
}
