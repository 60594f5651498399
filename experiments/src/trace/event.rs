//! What a trace keeps in memory until it is written: small records, in the order in which things began.

use handoff_scheduler::{ModelIdx, RowKind, StepId};

/// The end of a slice that has not ended.
pub(super) const OPEN: u64 = u64::MAX;

/// A line of the file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Event {
    /// ns since the start of the run.
    pub(super) at_ns: u64,
    pub(super) kind: EventKind,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum EventKind {
    /// A step, by its position among all steps.
    Step(u32),
    /// The forward of a step.
    Forward { step: u32, ended_ns: u64 },
    /// The life of a request, by its position among all lives.
    Life(u32),
    /// A part of a life.
    Stay { life: u32, stay: Stay, ended_ns: u64 },
    /// A request leaves; `arrived` once a step of the receiver carries it.
    FlowStart { model: ModelIdx, handoff: u32, arrived: bool },
    /// The step that carries it has begun.
    FlowEnd { model: ModelIdx, handoff: u32 },
    /// The state of a subserver changed.
    Counts { model: ModelIdx, counts: Counts },
    /// The measured window begins or ends.
    Window { begins: bool },
}

/// Where a request stays.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stay {
    /// Its row waits for a launch, or for KV.
    Waiting(ModelIdx),
    /// A step, by its position among all steps, carries its row.
    Running(ModelIdx, u32, RowKind),
    /// It is on its way to a model.
    InTransit(ModelIdx),
}

/// Rows at a subserver.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Counts {
    /// Rows that wait for a launch or for KV.
    pub(super) waiting: u32,
    /// Rows of the step in flight.
    pub(super) running: u32,
    /// Requests that left and may come back.
    pub(super) pending: u32,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub(super) model: ModelIdx,
    pub(super) id: StepId,
    pub(super) ended_ns: u64,
    pub(super) decode_rows: u32,
    pub(super) extend_rows: u32,
    pub(super) prefill_rows: u32,
    pub(super) new_tokens: u64,
    pub(super) kv_tokens: u64,
    /// Where the indices of its requests begin among those of all steps; there is one a row.
    pub(super) requests_start: usize,
    /// Outcomes, once the step has ended.
    pub(super) committed: u32,
    pub(super) handed_off: u32,
}

impl Step {
    pub(super) const fn rows(&self) -> u32 {
        self.decode_rows + self.extend_rows + self.prefill_rows
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Life {
    /// Index of the request in the run.
    pub(super) request_idx: u64,
    pub(super) slot: u32,
    pub(super) ended_ns: u64,
    pub(super) cancelled: bool,
    pub(super) committed: u32,
    pub(super) dropped: u32,
    pub(super) handoffs: u32,
}
