//! Decision replay: the recorded inputs, told to fresh subservers, must yield what was recorded.

use handoff_scheduler::{ModelIdx, Subserver, Timestamp};
use thiserror::Error;

use super::{Event, RunLog};

/// Where a fresh subserver did otherwise than the recorded one.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("entry {entry_idx} at {at}, {model}: expected {expected}, found {found}")]
pub struct Divergence {
    /// Position in the log.
    pub entry_idx: usize,
    /// Its time.
    pub at: Timestamp,
    /// The subserver.
    pub model: ModelIdx,
    /// What was recorded.
    pub expected: String,
    /// What the fresh subserver did.
    pub found: String,
}

impl RunLog {
    /// Tells fresh subservers all recorded inputs and compares their outputs and launches with the recorded ones. Answers how many
    /// outputs and launches were compared.
    ///
    /// # Errors
    /// At the first difference.
    pub fn replay_decisions(&self) -> Result<usize, Divergence> {
        let mut subservers: Vec<Subserver> = self.subservers.iter().cloned().map(Subserver::new).collect();
        let mut compared = 0;
        for (entry_idx, entry) in self.entries.iter().enumerate() {
            let (at, model) = (entry.at, entry.model);
            let subserver = &mut subservers[model.idx()];
            let (expected, found) = match &entry.event {
                Event::Told(input) => {
                    subserver.handle_input(at, input.as_input());
                    continue;
                }
                Event::ForwardEnded { .. } => continue,
                Event::Said(output) => {
                    let found = subserver.poll_output(at);
                    if found == Some(*output) {
                        compared += 1;
                        continue;
                    }
                    (format!("{output:?}"), format!("{found:?}"))
                }
                Event::Launched(launch) => {
                    let found = subserver.poll_launch(at);
                    if found.is_some_and(|plan| plan.step == launch.step && plan.rows == launch.rows) {
                        compared += 1;
                        continue;
                    }
                    (format!("{launch:?}"), format!("{found:?}"))
                }
                Event::Declined => match subserver.poll_launch(at) {
                    None => {
                        compared += 1;
                        continue;
                    }
                    Some(plan) => ("no launch".to_owned(), format!("{plan:?}")),
                },
            };
            return Err(Divergence { entry_idx, at, model, expected, found });
        }
        Ok(compared)
    }
}
