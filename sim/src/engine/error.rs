//! Why a run stopped without a result.

use std::fmt;

use handoff_scheduler::{RequestId, Timestamp};

use super::window::Window;

/// Requests that wait at one subserver when nothing can wake them any more.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Waiting {
    /// The subserver's model.
    pub model: String,
    /// The threshold that the rows do not reach.
    pub threshold: u32,
    /// Requests whose rows the gate holds back, by index in the run, oldest first.
    pub held: Vec<u64>,
    /// Requests that wait for KV, by index in the run.
    pub blocked: Vec<u64>,
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at `{}` (threshold {})", self.model, self.threshold)?;
        if !self.held.is_empty() {
            write!(f, " {} wait for the gate: {:?}", self.held.len(), self.held)?;
        }
        if !self.blocked.is_empty() {
            write!(f, " {} wait for KV: {:?}", self.blocked.len(), self.blocked)?;
        }
        Ok(())
    }
}

/// A run that cannot go on. The result so far is not returned: it would be no steady state.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RunError {
    /// No unfinished request has a future wake-up: thresholds that the active requests cannot reach, or a KV budget that is too small.
    #[error("stalled at {at}: {active} requests are in the system and none can go on; {}", list(waiting))]
    Stalled {
        /// When the last thing happened.
        at: Timestamp,
        /// Requests in the system.
        active: u32,
        /// Who waits where.
        waiting: Vec<Waiting>,
    },
    /// Requests arrive faster than they are served.
    #[error(
        "unstable at {at}: {active} requests are in the system (limit {limit}); they arrive faster than they are served"
    )]
    Unstable {
        /// When the limit was passed.
        at: Timestamp,
        /// Requests in the system.
        active: u32,
        /// The limit.
        limit: u32,
    },
    /// The policy decides by what models measure, and a simulation has none.
    #[error(
        "the policy `{policy}` decides by the entropy of models, which a simulation does not have; expected recorded routes"
    )]
    NeedsEntropy {
        /// The policy.
        policy: &'static str,
    },
    /// The recorded arrivals ended before the wanted number of requests finished.
    #[error("only {finished} requests finished before the recorded arrivals ended; the window wants {window}")]
    OutOfRequests {
        /// Requests that finished.
        finished: u64,
        /// What was to be measured.
        window: Window,
    },
}

fn list(waiting: &[Waiting]) -> String {
    waiting.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// The index in the run of each of `requests`.
pub(super) fn indices(requests: impl Iterator<Item = RequestId>, idx: impl Fn(RequestId) -> u64) -> Vec<u64> {
    requests.map(idx).collect()
}
