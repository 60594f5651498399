//! R-Stitch (arXiv 2507.17307): whichever model holds the request, its entropy says whether the other one goes on.

use handoff_scheduler::ModelIdx;
use serde::Deserialize;

use super::error::check_probability;
use super::{Markov, PolicyError, Setting};

/// Default of `commit_on_return`: the large model's low-entropy token is kept (inferred).
pub const COMMIT_ON_RETURN: bool = true;

/// The small model's token is dropped with probability `a` (high entropy) and the large model takes over; that one returns with probability
/// `b` a step (low entropy). The token that makes it return is committed if `commit_on_return`, else dropped and made again.
///
/// P = [[1 - a, a], [b, 1 - b]], C = [[1, 0], [c, 1]] with c = 1 or 0. A visit takes 1/a steps on the small model and 1/b on the large.
/// Published numbers (entropy threshold 0.03 on Qwen3-0.6B / 32B) do not determine `a` and `b`, so they have no default.
///
/// # Errors
/// If `a` or `b` is no probability or closer to 0 or 1 than a 32-bit draw can tell, or if every token would be dropped
/// (`a` = `b` = 1 without `commit_on_return`).
pub fn new(a: f64, b: f64, commit_on_return: bool) -> Result<Markov, PolicyError> {
    check_probability(|| "a".to_owned(), a)?;
    check_probability(|| "b".to_owned(), b)?;
    let routes = vec![vec![1.0 - a, a], vec![b, 1.0 - b]];
    let commits = vec![vec![1.0, 0.0], vec![f64::from(u8::from(commit_on_return)), 1.0]];
    Markov::named("r-stitch", routes, commits, ModelIdx(0))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Parameters {
    a: f64,
    b: f64,
    commit_on_return: Option<bool>,
}

/// Builds the policy from a scenario's fields `a`, `b` and `commit_on_return`.
pub(super) fn from_setting(setting: Setting<'_>) -> Result<Markov, PolicyError> {
    let Parameters { a, b, commit_on_return } = setting.parameters("r-stitch")?;
    new(a, b, commit_on_return.unwrap_or(COMMIT_ON_RETURN))
}
