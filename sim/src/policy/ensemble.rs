//! ME (arXiv 2605.00419): an ensemble of two or more models; fixed weights draw the model of each token.

use handoff_scheduler::ModelIdx;
use serde::Deserialize;

use super::error::check_row;
use super::{Markov, PolicyError, Setting};

/// Default weights of an ensemble of three models (published). Any other number of models must give its own.
pub const WEIGHTS: [f64; 3] = [0.5, 0.3, 0.2];

/// Each token is made by a model drawn afresh with the given weights, whichever made the last one; every token is committed. The first
/// token is the entry model's.
///
/// Every row of P is `weights`; C is 1 throughout. A visit to model i takes 1 / (1 - `weights[i]`) steps.
///
/// # Errors
/// If there are no weights or more than 256, one is no probability or closer to 0 or 1 than a 32-bit draw can tell, they do not sum to 1
/// within 1e-9, or `entry` is no model.
pub fn new(weights: &[f64], entry: ModelIdx) -> Result<Markov, PolicyError> {
    check_row("weights", weights)?;
    let n_models = weights.len();
    Markov::named("me", vec![weights.to_vec(); n_models], vec![vec![1.0; n_models]; n_models], entry)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Parameters {
    weights: Option<Vec<f64>>,
    #[serde(default)]
    entry: u8,
}

/// Builds the policy from a scenario's fields `weights` and `entry`.
pub(super) fn from_setting(setting: Setting<'_>) -> Result<Markov, PolicyError> {
    let n_models = setting.n_models;
    let Parameters { weights, entry } = setting.parameters("me")?;
    let weights = match weights {
        Some(weights) => weights,
        None if n_models == WEIGHTS.len() => WEIGHTS.to_vec(),
        None => {
            let problem = format!("missing field `weights`, expected one weight for each of {n_models} models");
            return Err(PolicyError::Parameters { kind: "me", problem });
        }
    };
    new(&weights, ModelIdx(entry))
}
