//! A set of subservers under a virtual clock, with an account of every request that is kept apart from theirs.
//!
//! ```text
//! jobs -> Set (clock, steps, hops, cancellations) -> Subserver, one a model; Coordinator
//!          |                                            after every event: Subserver::check, Account::check
//!          +-> Account: where each request is, what each subserver knows and keeps of it
//! ```
#![allow(dead_code, missing_docs, unreachable_pub)]

mod account;
mod driver;
mod launch;
mod random;
mod words;

pub use account::{Account, Place, Request};
pub use driver::Set;
pub use random::Random;

use handoff_scheduler::{
    Coordination, FirstKind, GateConfig, Hold, KvConfig, KvFull, ModelIdx, Outcome, Row, Sharing, Threshold,
};

/// One model: its gate, its KV, its device, and integer step times.
#[derive(Clone, Debug)]
pub struct Model {
    pub gate: GateConfig,
    pub kv: KvConfig,
    pub device: u16,
    /// A forward takes `fixed_ns + per_row_ns * rows`.
    pub fixed_ns: u64,
    pub per_row_ns: u64,
    /// From the end of the forward until its results are there.
    pub loop_ns: u64,
}

impl Model {
    /// A model on a device of its own number, with threshold 1 and room for everything.
    pub fn new(device: u16, fixed_ns: u64) -> Self {
        Self {
            gate: GateConfig { threshold: Threshold::constant(1), wait_ns_max: None, hold: Hold::Both },
            kv: KvConfig { budget_tokens: 1 << 40, when_full: KvFull::Wait },
            device,
            fixed_ns,
            per_row_ns: 0,
            loop_ns: 0,
        }
    }

    pub fn threshold(mut self, rows: u32) -> Self {
        self.gate.threshold = Threshold::constant(rows);
        self
    }

    pub fn kv(mut self, budget_tokens: u64, when_full: KvFull) -> Self {
        self.kv = KvConfig { budget_tokens, when_full };
        self
    }
}

/// A request to come.
#[derive(Clone, Copy, Debug)]
pub struct Job {
    pub prompt_tokens: u32,
    pub output_tokens: u32,
    pub entry: ModelIdx,
}

impl Job {
    pub const fn new(prompt_tokens: u32, output_tokens: u32) -> Self {
        Self { prompt_tokens, output_tokens, entry: ModelIdx(0) }
    }
}

/// What a run is made of.
#[derive(Clone, Debug)]
pub struct Setup {
    pub models: Vec<Model>,
    pub first: Option<FirstKind>,
    pub coordination: Coordination,
    pub sharing: Sharing,
    /// A message takes `hop_ns.0` to `hop_ns.1`, drawn anew for each.
    pub hop_ns: (u64, u64),
    /// Requests in the system; a finished or cancelled one is replaced by the next job at once.
    pub concurrency: usize,
    pub jobs: Vec<Job>,
    /// At this time the client of this job gives up.
    pub cancels: Vec<(u64, usize)>,
    pub seed: u64,
    /// Ends the run after so many finished requests.
    pub finished_max: Option<usize>,
}

impl Setup {
    /// Eager subservers on devices of their own, without hops.
    pub fn new(models: Vec<Model>, concurrency: usize, jobs: Vec<Job>) -> Self {
        Self {
            models,
            first: None,
            coordination: Coordination::Independent,
            sharing: Sharing::Overlapped,
            hop_ns: (0, 0),
            concurrency,
            jobs,
            cancels: Vec::new(),
            seed: 1,
            finished_max: None,
        }
    }

    pub fn run(self, policy: impl FnMut(&Decision<'_>) -> Outcome + 'static) -> Set {
        let mut set = Set::new(self, Box::new(policy));
        set.run();
        set
    }
}

/// What a policy sees. The set itself turns the outcome of the last token into `Outcome::FINISHED`.
pub struct Decision<'a> {
    pub model: ModelIdx,
    pub row: Row,
    pub request: &'a Request,
    /// Steps of this visit, the present one included.
    pub visit_steps: u32,
}

/// How a run ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// Every job is done.
    Drained,
    /// Nothing will ever happen again, and requests are left.
    Stalled,
    /// As many requests as wanted are done.
    Enough,
}

pub type Policy = Box<dyn FnMut(&Decision<'_>) -> Outcome>;

/// Models take turns: `run_lengths[m]` tokens on model m, then the next one.
pub fn every(run_lengths: &'static [u32]) -> impl FnMut(&Decision<'_>) -> Outcome {
    move |decision| {
        let model = decision.model.idx();
        if decision.visit_steps < run_lengths[model] {
            Outcome::STAY
        } else {
            Outcome::commit_to(ModelIdx(((model + 1) % run_lengths.len()) as u8))
        }
    }
}
