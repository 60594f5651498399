//! CITER (arXiv 2502.01976): a small network reads the small model's confidence; the large model makes the doubtful tokens again.

use super::r2r::{Parameters, one_token_detour};
use super::{Markov, PolicyError, Setting};

/// Default routing probability on Qwen3-0.6B / 32B at tau = 0.98 (inferred from published throughput; concurrency 1 and 4 agree).
pub const P: f64 = 0.20;

/// The matrices are R2R's: see [`r2r::new`](super::r2r::new). What differs is the signal, and with it the cost of a decision.
///
/// # Errors
/// If `p` is no probability, or closer to 0 or 1 than a 32-bit draw can tell.
pub fn new(p: f64) -> Result<Markov, PolicyError> {
    one_token_detour("citer", p)
}

/// Builds the policy from a scenario's field `p`.
pub(super) fn from_setting(setting: Setting<'_>) -> Result<Markov, PolicyError> {
    let Parameters { p } = setting.parameters("citer")?;
    new(p.unwrap_or(P))
}
