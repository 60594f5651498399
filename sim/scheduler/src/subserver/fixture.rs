//! One subserver for the unit tests, with its gate and its budget as the test wants them.

use alloc::vec::Vec;

use crate::event::{HandoffStatus, Input, Outcome, Output, PeerRequest};
use crate::gate::{GateConfig, Hold, Threshold};
use crate::ids::{ModelIdx, RequestId, StepId};
use crate::kv::{KvConfig, KvFull};
use crate::plan::{Row, RowKind};
use crate::subserver::{FirstKind, Subserver, SubserverConfig};
use crate::time::Timestamp;

pub(super) const OTHER: ModelIdx = ModelIdx(1);

/// Subserver 0 of three, eager and with room for everything until told otherwise.
pub(super) struct Fixture {
    pub(super) subserver: Subserver,
    pub(super) now_ns: u64,
}

impl Fixture {
    pub(super) fn new(configure: impl FnOnce(&mut SubserverConfig)) -> Self {
        let mut config = SubserverConfig {
            model: ModelIdx(0),
            n_models: 3,
            gate: GateConfig { threshold: Threshold::constant(1), wait_ns_max: None, hold: Hold::Both },
            first: None,
            kv: KvConfig { budget_tokens: 1_000, when_full: KvFull::Wait },
        };
        configure(&mut config);
        Self { subserver: Subserver::new(config), now_ns: 0 }
    }

    pub(super) fn eager() -> Self {
        Self::new(|_| {})
    }

    pub(super) fn kinds_apart(first: FirstKind) -> Self {
        Self::new(|config| config.first = Some(first))
    }

    pub(super) fn with_kv(budget_tokens: u64, when_full: KvFull) -> Self {
        Self::new(|config| config.kv = KvConfig { budget_tokens, when_full })
    }

    /// Hands a fact in and gives back what comes out.
    pub(super) fn tell(&mut self, input: Input<'_>) -> Vec<Output> {
        let now = Timestamp::from_ns(self.now_ns);
        self.subserver.handle_input(now, input);
        self.outputs()
    }

    pub(super) fn outputs(&mut self) -> Vec<Output> {
        let now = Timestamp::from_ns(self.now_ns);
        self.subserver.check().expect("every invariant holds");
        core::iter::from_fn(|| self.subserver.poll_output(now)).collect()
    }

    /// A prompt; the request may grow by 10 tokens.
    pub(super) fn arrive(&mut self, request: RequestId, context_tokens: u32) {
        let context_tokens_max = context_tokens + 10;
        assert_eq!(self.tell(Input::RequestArrived { request, context_tokens, context_tokens_max }), []);
    }

    /// A handoff from [`OTHER`]; the request may grow by 10 tokens.
    pub(super) fn hand_over(&mut self, request: RequestId, suffix_start: u32, context_tokens: u32) -> Vec<Output> {
        let status = HandoffStatus::Active;
        let message = PeerRequest { request, from: OTHER, status, context_tokens, suffix_start };
        self.tell(Input::HandoffArrived { message, context_tokens_max: context_tokens + 10 })
    }

    pub(super) fn finish_elsewhere(&mut self, request: RequestId) -> Vec<Output> {
        let status = HandoffStatus::Finished;
        let message = PeerRequest { request, from: OTHER, status, context_tokens: 1, suffix_start: 1 };
        self.tell(Input::HandoffArrived { message, context_tokens_max: 0 })
    }

    pub(super) fn launch(&mut self) -> Vec<Row> {
        let plan = self.subserver.poll_launch(Timestamp::from_ns(self.now_ns));
        let rows = plan.map_or_else(Vec::new, |plan| plan.rows.to_vec());
        self.subserver.check().expect("every invariant holds");
        rows
    }

    /// Slots and kinds of the rows of the next launch.
    pub(super) fn launched(&mut self) -> Vec<(u32, RowKind)> {
        self.launch().iter().map(|row| (row.request.slot, row.kind)).collect()
    }

    pub(super) fn step(&self) -> StepId {
        self.subserver.running().expect("a step is in flight").step
    }

    pub(super) fn finish_step(&mut self, outcomes: &[Outcome]) -> Vec<Output> {
        self.now_ns += 10;
        let step = self.step();
        self.tell(Input::StepFinished { step, outcomes })
    }

    pub(super) fn cancel(&mut self, request: RequestId) -> Vec<Output> {
        self.tell(Input::RequestCancelled { request })
    }
}

/// The first user of a slot.
pub(super) const fn request(slot: u32) -> RequestId {
    RequestId { slot, generation: 0 }
}

/// What the subserver puts out when it frees the share of a request.
pub(super) const fn release(request: RequestId, freed_tokens: u32) -> Output {
    Output::Release { request, freed_tokens }
}
