//! Co-LLM (arXiv 2403.03870): one extra logit of the small model defers single tokens to the large one.

use super::r2r::{Parameters, one_token_detour};
use super::{Markov, PolicyError, Setting};

/// Default routing probability on Qwen3-0.6B / 32B at eta = 0.15 (inferred from published throughput, which puts it between 0.5 and 0.65;
/// concurrency 1 and 4 disagree).
pub const P: f64 = 0.57;

/// The matrices are R2R's: see [`r2r::new`](super::r2r::new). What differs is the signal, and with it the cost of a decision.
///
/// # Errors
/// If `p` is no probability, or closer to 0 or 1 than a 32-bit draw can tell.
pub fn new(p: f64) -> Result<Markov, PolicyError> {
    one_token_detour("co-llm", p)
}

/// Builds the policy from a scenario's field `p`.
pub(super) fn from_setting(setting: Setting<'_>) -> Result<Markov, PolicyError> {
    let Parameters { p } = setting.parameters("co-llm")?;
    new(p.unwrap_or(P))
}
