//! R2R (arXiv 2505.21600): a small network scores each token of the small model; the large model makes the bad ones again.

use handoff_scheduler::ModelIdx;
use serde::Deserialize;

use super::error::check_probability;
use super::{Markov, PolicyError, Setting};

/// Default routing probability on Qwen3-0.6B / 32B (published).
pub const P: f64 = 0.35;

/// Each token of the small model is dropped with probability `p` and made by the large one, which commits one token and returns.
///
/// P = [[1 - p, p], [1, 0]], C = [[1, 0], [1, 0]]. So the small model runs one step per output token, a fraction `p` of the tokens is the
/// large model's, and a visit to the small model takes 1/p steps, of which the last is in vain.
///
/// # Errors
/// If `p` is no probability, or closer to 0 or 1 than a 32-bit draw can tell.
pub fn new(p: f64) -> Result<Markov, PolicyError> {
    one_token_detour("r2r", p)
}

/// The law that R2R, CITER and Co-LLM share: with probability `p` the large model replaces the small model's token.
pub(super) fn one_token_detour(kind: &'static str, p: f64) -> Result<Markov, PolicyError> {
    check_probability(|| "p".to_owned(), p)?;
    let routes = vec![vec![1.0 - p, p], vec![1.0, 0.0]];
    let commits = vec![vec![1.0, 0.0], vec![1.0, 0.0]];
    Markov::named(kind, routes, commits, ModelIdx(0))
}

/// The one parameter of the policies that share this law.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Parameters {
    pub(super) p: Option<f64>,
}

/// Builds the policy from a scenario's field `p`.
pub(super) fn from_setting(setting: Setting<'_>) -> Result<Markov, PolicyError> {
    let Parameters { p } = setting.parameters("r2r")?;
    new(p.unwrap_or(P))
}
