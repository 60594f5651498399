//! What a run on the real clock needs besides the engine's configuration.

use std::sync::Arc;

use crate::prompts::Prompts;

/// How threads wait for each other.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Waiting {
    /// Asleep, until they are woken. A wake-up costs some microseconds.
    #[default]
    Blocking,
    /// Busy, so that nothing is lost; needs a core for every model and one for the scheduler.
    Spinning,
}

/// How the next token is chosen.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub enum Choice {
    /// The most likely token.
    #[default]
    Greedy,
    /// A draw at this temperature, above 0, from a seed of its own for every request and position: the same weights make the same token
    /// whenever and wherever it is drawn.
    Tempered(f32),
}

/// A client that gives up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cancellation {
    /// Index of the request in the run.
    pub request_idx: u64,
    /// The client gives up at the first instant at which this many steps, of all models together, have been launched and the request is in
    /// the system. Nothing happens if it has finished by then.
    pub after_steps: u64,
}

/// What a run on the real clock needs besides the engine's configuration.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct DriverOptions {
    /// How threads wait for each other.
    pub waiting: Waiting,
    /// How the next token is chosen.
    pub choice: Choice,
    /// Time that a message is held back before it is delivered, ns, as if the models were on machines of their own. The engine's `hop_ns`
    /// is a prediction and is not added here.
    pub hop_ns: u64,
    /// Whether a log is kept, for replays and figures. It grows with every step.
    pub keep_log: bool,
    /// Whether the tokens of finished requests are kept.
    pub keep_tokens: bool,
    /// What requests ask; without them prompts are random token ids. The workload's prompt lengths must be theirs: see
    /// [`Prompts::workload`].
    pub prompts: Option<Arc<Prompts>>,
    /// Clients that give up.
    pub cancellations: Vec<Cancellation>,
}
