//! What models need of a device's memory, and how several share what is free. Computed before anything is allocated.

use thiserror::Error;

use crate::kv::PAGE_TOKENS;
use crate::qwen3::Qwen3Config;

/// Memory kept free for the driver's context, modules and graphs, bytes.
const RESERVE_BYTES: u64 = 2 << 30;
/// Tokens of the widest forward, whose activations need room.
const FORWARD_TOKENS: u64 = 512;
/// Rows whose logits need room, in f32.
const LOGITS_ROWS_MAX: u64 = 512;

/// What one model needs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Need {
    /// The model's name in errors.
    pub model: String,
    /// Bytes of its weights.
    pub weight_bytes: u64,
    /// Bytes of activations, logits and the pages that requests leave partly empty.
    pub workspace_bytes: u64,
    /// Bytes of the keys and values of one token.
    pub kv_bytes_per_token: u64,
    /// Tokens that it would use, if there is room.
    pub kv_tokens_wanted: u64,
    /// Tokens without which it cannot work: the longest request.
    pub kv_tokens_least: u64,
}

/// Models that do not fit. Nothing was allocated.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum MemoryError {
    /// Not even the weights fit.
    #[error(
        "{} do not fit: their weights and buffers need {}, but {device} has {} free, of which {} stay reserved",
        .models.join(" and "), gib(*.needed_bytes), gib(*.free_bytes), gib(RESERVE_BYTES)
    )]
    Weights {
        /// The models.
        models: Vec<String>,
        /// The device.
        device: String,
        /// Bytes of all weights and buffers.
        needed_bytes: u64,
        /// Bytes that were free.
        free_bytes: u64,
    },
    /// The weights fit, but what is left holds no request.
    #[error(
        "`{model}` has room for {kv_tokens} tokens of KV on {device} beside all weights, expected at least {kv_tokens_least}: prompt and output of the longest request"
    )]
    Kv {
        /// The model.
        model: String,
        /// The device.
        device: String,
        /// Tokens that there is room for.
        kv_tokens: u64,
        /// Tokens of the longest request.
        kv_tokens_least: u64,
    },
}

fn gib(bytes: u64) -> String {
    format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30))
}

impl Need {
    /// What `config` needs with elements of `element_bytes` (2 for bf16, 4 for f32), for so many requests at once.
    #[must_use]
    pub fn of(model: &str, config: &Qwen3Config, element_bytes: u64, n_slots: u64, kv_tokens_least: u64) -> Self {
        let kv_bytes_per_token = config.kv_elements_per_token() as u64 * element_bytes;
        let widths = config.hidden * 2 + config.q_width() * 2 + config.kv_width() * 2 + config.intermediate * 3;
        let logits = n_slots.clamp(16, LOGITS_ROWS_MAX) * config.vocabulary as u64 * 4;
        Self {
            model: model.to_owned(),
            weight_bytes: config.n_parameters() as u64 * element_bytes,
            workspace_bytes: FORWARD_TOKENS * widths as u64 * 4
                + logits
                + n_slots * PAGE_TOKENS as u64 * kv_bytes_per_token,
            kv_bytes_per_token,
            kv_tokens_wanted: kv_tokens_least * n_slots,
            kv_tokens_least,
        }
    }
}

/// KV tokens for each model on one device with `free_bytes` free: what each wants if that fits; otherwise all of them get the same number of tokens,
/// since a request that both models work on needs room at both, and those that want less get that.
///
/// # Errors
/// [`MemoryError`].
pub fn share(device: &str, free_bytes: u64, needs: &[Need]) -> Result<Vec<u64>, MemoryError> {
    let fixed: u64 = needs.iter().map(|need| need.weight_bytes + need.workspace_bytes).sum();
    let Some(left) = free_bytes.checked_sub(fixed + RESERVE_BYTES.min(free_bytes / 8)) else {
        return Err(MemoryError::Weights {
            models: needs.iter().map(|need| format!("`{}`", need.model)).collect(),
            device: device.to_owned(),
            needed_bytes: fixed,
            free_bytes,
        });
    };
    let bytes = |tokens: u64| -> u128 {
        needs
            .iter()
            .map(|need| u128::from(need.kv_tokens_wanted.min(tokens)) * u128::from(need.kv_bytes_per_token))
            .sum()
    };
    let (mut fits, mut too_many) = (0, needs.iter().map(|need| need.kv_tokens_wanted).max().unwrap_or(0) + 1);
    while too_many - fits > 1 {
        let middle = fits + (too_many - fits) / 2;
        if bytes(middle) <= u128::from(left) { fits = middle } else { too_many = middle }
    }
    needs
        .iter()
        .map(|need| {
            let kv_tokens = need.kv_tokens_wanted.min(fits);
            if kv_tokens >= need.kv_tokens_least {
                return Ok(kv_tokens);
            }
            let (model, device) = (need.model.clone(), device.to_owned());
            Err(MemoryError::Kv { model, device, kv_tokens, kv_tokens_least: need.kv_tokens_least })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn needs(kv_tokens_wanted: [u64; 2]) -> Vec<Need> {
        let need = |model: &str, kv_bytes_per_token, kv_tokens_wanted| Need {
            model: model.to_owned(),
            weight_bytes: 1_000,
            workspace_bytes: 0,
            kv_bytes_per_token,
            kv_tokens_wanted,
            kv_tokens_least: 10,
        };
        vec![need("small", 1, kv_tokens_wanted[0]), need("large", 3, kv_tokens_wanted[1])]
    }

    #[test]
    fn what_fits_is_given_and_what_does_not_is_shared_by_tokens() {
        // An eighth of 4000 bytes stays free, so 1500 are left for KV.
        assert_eq!(share("H200", 4_000, &needs([100, 200])), Ok(vec![100, 200]));
        assert_eq!(share("H200", 4_000, &needs([1_000, 1_000])), Ok(vec![375, 375]));
        assert_eq!(share("H200", 4_000, &needs([60, 1_000])), Ok(vec![60, 480]));
    }

    #[test]
    fn models_that_do_not_fit_are_named_with_the_numbers() {
        let error = share("H200", 2_000, &needs([20, 20])).unwrap_err();
        assert!(matches!(error, MemoryError::Weights { needed_bytes: 2_000, free_bytes: 2_000, .. }), "{error:?}");
        assert!(
            error.to_string().starts_with("`small` and `large` do not fit: their weights and buffers need"),
            "{error}"
        );
        let error = share("H200", 2_300, &needs([20, 20])).unwrap_err();
        assert_eq!(
            error.to_string(),
            "`small` has room for 3 tokens of KV on H200 beside all weights, expected at least 10: prompt and output of the longest request"
        );
    }

    #[test]
    fn the_published_pair_fits_an_h200_once_and_not_twice() {
        let config = |name| Qwen3Config::built_in(name).unwrap();
        let need = |name| Need::of(name, &config(name), 2, 32, 4_096);
        let free_bytes = 139 << 30;
        let tokens = share("H200", free_bytes, &[need("Qwen3-0.6B"), need("Qwen3-32B")]).unwrap();
        assert_eq!(tokens, [32 * 4_096; 2]);
        let twice = [need("Qwen3-32B"), need("Qwen3-32B"), need("Qwen3-32B")];
        assert!(matches!(share("H200", free_bytes, &twice), Err(MemoryError::Weights { .. })));
    }
}
