//! The shape of a Qwen3 dense model: published sizes, small ones for a CPU, or a checkpoint's `config.json`.

use std::path::Path;

use serde::Deserialize;
use thiserror::Error;

/// Everything that decides the shapes and the arithmetic of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct Qwen3Config {
    /// Rows of the embedding, columns of the logits.
    pub vocabulary: usize,
    /// Width of the residual stream.
    pub hidden: usize,
    /// Width inside the feed-forward block.
    pub intermediate: usize,
    /// Transformer blocks.
    pub layers: usize,
    /// Query heads.
    pub heads: usize,
    /// Key and value heads; each serves `heads / kv_heads` query heads.
    pub kv_heads: usize,
    /// Width of one head. `heads * head_dim` need not equal `hidden`.
    pub head_dim: usize,
    /// Base of the rotary embedding's wavelengths.
    pub rope_theta: f64,
    /// Added to the mean square inside every RMS norm.
    pub rms_norm_eps: f64,
    /// Whether the output head is the embedding.
    pub tied_head: bool,
    /// Longest context that the model was made for, in tokens.
    pub positions_max: usize,
}

/// Why there is no usable configuration.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// The name is none of [`Qwen3Config::NAMES`].
    #[error("there is no built-in model `{name}`: expected one of {}", Qwen3Config::NAMES.join(", "))]
    UnknownName {
        /// The name asked for.
        name: String,
    },
    /// `config.json` could not be read.
    #[error("{file}: {source}")]
    Read {
        /// The file.
        file: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// `config.json` is no JSON, lacks a field, or a field has the wrong type.
    #[error("{file}: {source}")]
    Parse {
        /// The file.
        file: String,
        /// Line, column and field.
        source: serde_json::Error,
    },
    /// A field has a value that this crate does not run.
    #[error("{file}: `{field}` is {value} but {expected}")]
    Unsupported {
        /// The file, or the built-in name.
        file: String,
        /// Its name in `config.json`.
        field: &'static str,
        /// What it says.
        value: String,
        /// What is possible.
        expected: String,
    },
}

impl Qwen3Config {
    /// The names that [`Qwen3Config::built_in`] knows: the published dense sizes, then sizes made up for a CPU.
    pub const NAMES: [&'static str; 8] =
        ["Qwen3-0.6B", "Qwen3-1.7B", "Qwen3-4B", "Qwen3-8B", "Qwen3-14B", "Qwen3-32B", "tiny", "small"];

    /// The shape with this name.
    ///
    /// # Errors
    /// [`ConfigError::UnknownName`].
    pub fn built_in(name: &str) -> Result<Self, ConfigError> {
        // hidden, intermediate, layers, heads, tied head
        let (hidden, intermediate, layers, heads, tied_head) = match name {
            "Qwen3-0.6B" => (1024, 3072, 28, 16, true),
            "Qwen3-1.7B" => (2048, 6144, 28, 16, true),
            "Qwen3-4B" => (2560, 9728, 36, 32, true),
            "Qwen3-8B" => (4096, 12288, 36, 32, false),
            "Qwen3-14B" => (5120, 17408, 40, 40, false),
            "Qwen3-32B" => (5120, 25600, 64, 64, false),
            "tiny" => return Ok(Self::made_up(64, 192, 2, 4, 2, 16, true)),
            "small" => return Ok(Self::made_up(128, 384, 4, 8, 2, 32, false)),
            _ => return Err(ConfigError::UnknownName { name: name.into() }),
        };
        let published =
            Self { vocabulary: 151_936, positions_max: 40_960, ..Self::made_up(0, 0, 0, 0, 8, 128, tied_head) };
        Ok(Self { hidden, intermediate, layers, heads, ..published })
    }

    /// Reads `config.json` in a checkpoint's folder.
    ///
    /// # Errors
    /// All of [`ConfigError`] but `UnknownName`.
    pub fn from_folder(folder: &Path) -> Result<Self, ConfigError> {
        let path = folder.join("config.json");
        let file = path.display().to_string();
        let text = std::fs::read_to_string(&path).map_err(|source| ConfigError::Read { file: file.clone(), source })?;
        Self::from_json(&text, &file)
    }

    /// Reads the text of a `config.json`; `file` names it in errors.
    ///
    /// # Errors
    /// [`ConfigError::Parse`] or [`ConfigError::Unsupported`].
    pub fn from_json(text: &str, file: &str) -> Result<Self, ConfigError> {
        let raw: Raw = serde_json::from_str(text).map_err(|source| ConfigError::Parse { file: file.into(), source })?;
        raw.refuse_unsupported(file)?;
        let rope_theta = raw.rope_theta.or(raw.rope_parameters.and_then(|rope| rope.rope_theta));
        let config = Self {
            vocabulary: raw.vocab_size,
            hidden: raw.hidden_size,
            intermediate: raw.intermediate_size,
            layers: raw.num_hidden_layers,
            heads: raw.num_attention_heads,
            kv_heads: raw.num_key_value_heads,
            head_dim: raw.head_dim.unwrap_or(128),
            rope_theta: rope_theta.unwrap_or(1e6),
            rms_norm_eps: raw.rms_norm_eps.unwrap_or(1e-6),
            tied_head: raw.tie_word_embeddings.unwrap_or(false),
            positions_max: raw.max_position_embeddings.unwrap_or(40_960),
        };
        config.check(file)?;
        Ok(config)
    }

    /// Width of all query heads together.
    #[must_use]
    pub fn q_width(&self) -> usize {
        self.heads * self.head_dim
    }

    /// Width of all key heads together; the value heads are as wide.
    #[must_use]
    pub fn kv_width(&self) -> usize {
        self.kv_heads * self.head_dim
    }

    /// Query heads per key head.
    #[must_use]
    pub fn group(&self) -> usize {
        self.heads / self.kv_heads
    }

    /// Numbers that the KV cache keeps per token: a key and a value of every KV head in every layer.
    #[must_use]
    pub fn kv_elements_per_token(&self) -> usize {
        2 * self.layers * self.kv_width()
    }

    /// Parameters, a tied head counted once.
    #[must_use]
    pub fn n_parameters(&self) -> usize {
        super::weights::tensors(self).iter().map(|(_, shape)| shape.iter().product::<usize>()).sum()
    }

    fn made_up(
        hidden: usize,
        intermediate: usize,
        layers: usize,
        heads: usize,
        kv_heads: usize,
        head_dim: usize,
        tied_head: bool,
    ) -> Self {
        Self {
            vocabulary: 512,
            hidden,
            intermediate,
            layers,
            heads,
            kv_heads,
            head_dim,
            rope_theta: 1e6,
            rms_norm_eps: 1e-6,
            tied_head,
            positions_max: 4096,
        }
    }

    fn check(&self, file: &str) -> Result<(), ConfigError> {
        let unsupported = |field, value: &dyn std::fmt::Display, expected: &str| {
            Err(ConfigError::Unsupported {
                file: file.into(),
                field,
                value: value.to_string(),
                expected: expected.into(),
            })
        };
        for (field, value) in [
            ("vocab_size", self.vocabulary),
            ("hidden_size", self.hidden),
            ("intermediate_size", self.intermediate),
            ("num_hidden_layers", self.layers),
            ("num_attention_heads", self.heads),
            ("num_key_value_heads", self.kv_heads),
            ("head_dim", self.head_dim),
            ("max_position_embeddings", self.positions_max),
        ] {
            if value == 0 || value > 1 << 24 {
                return unsupported(field, &value, "must lie between 1 and 16777216");
            }
        }
        if !self.heads.is_multiple_of(self.kv_heads) {
            let expected = format!("must be a multiple of `num_key_value_heads`, which is {}", self.kv_heads);
            return unsupported("num_attention_heads", &self.heads, &expected);
        }
        if !self.head_dim.is_multiple_of(2) {
            return unsupported("head_dim", &self.head_dim, "must be even: rotary embedding turns pairs");
        }
        if !(self.rope_theta.is_finite() && self.rope_theta > 1.0) {
            return unsupported("rope_theta", &self.rope_theta, "must be greater than 1");
        }
        if !(self.rms_norm_eps.is_finite() && self.rms_norm_eps > 0.0) {
            return unsupported("rms_norm_eps", &self.rms_norm_eps, "must be greater than 0");
        }
        Ok(())
    }
}

/// The fields of `config.json` that matter; all others are ignored.
#[derive(Deserialize)]
struct Raw {
    model_type: String,
    vocab_size: usize,
    hidden_size: usize,
    intermediate_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    num_key_value_heads: usize,
    head_dim: Option<usize>,
    rope_theta: Option<f64>,
    rope_parameters: Option<RawRope>,
    rope_scaling: Option<serde_json::Value>,
    rms_norm_eps: Option<f64>,
    tie_word_embeddings: Option<bool>,
    max_position_embeddings: Option<usize>,
    attention_bias: Option<bool>,
    use_sliding_window: Option<bool>,
    hidden_act: Option<String>,
}

#[derive(Deserialize)]
struct RawRope {
    rope_theta: Option<f64>,
    rope_type: Option<String>,
}

impl Raw {
    fn refuse_unsupported(&self, file: &str) -> Result<(), ConfigError> {
        let refuse = |field, value: String, expected: &str| {
            Err(ConfigError::Unsupported { file: file.into(), field, value, expected: expected.into() })
        };
        if self.model_type != "qwen3" {
            return refuse("model_type", format!("`{}`", self.model_type), "only `qwen3` (dense) is supported");
        }
        if self.attention_bias == Some(true) {
            return refuse("attention_bias", "true".into(), "Qwen3 dense models have no biases");
        }
        if self.use_sliding_window == Some(true) {
            return refuse("use_sliding_window", "true".into(), "only full attention is supported");
        }
        if let Some(scaling) = self.rope_scaling.as_ref().filter(|value| !value.is_null()) {
            return refuse("rope_scaling", scaling.to_string(), "only plain rotary embedding is supported");
        }
        let rope_type = self.rope_parameters.as_ref().and_then(|rope| rope.rope_type.as_deref());
        if let Some(other) = rope_type.filter(|&kind| kind != "default") {
            return refuse("rope_parameters.rope_type", format!("`{other}`"), "only `default` is supported");
        }
        match self.hidden_act.as_deref() {
            None | Some("silu") => Ok(()),
            Some(other) => refuse("hidden_act", format!("`{other}`"), "only `silu` is supported"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const JSON: &str = r#"{"model_type": "qwen3", "vocab_size": 512, "hidden_size": 64, "intermediate_size": 192, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "tie_word_embeddings": true, "max_position_embeddings": 4096,
        "rope_theta": 1000000, "rms_norm_eps": 1e-06, "attention_bias": false, "rope_scaling": null, "hidden_act": "silu"}"#;

    #[test]
    fn every_name_is_known_and_consistent() {
        for name in Qwen3Config::NAMES {
            Qwen3Config::built_in(name).unwrap().check(name).unwrap();
        }
        let error = Qwen3Config::built_in("Qwen3-7B").unwrap_err().to_string();
        assert!(error.contains("Qwen3-7B") && error.contains("Qwen3-8B"), "{error}");
    }

    /// Parameter counts of the model cards: 0.6B (0.44B without the embedding), 8.2B, 32.8B.
    #[test]
    fn published_sizes_have_their_published_parameters() {
        let billions = |name| (Qwen3Config::built_in(name).unwrap().n_parameters() as f64 / 1e7).round() / 100.0;
        assert_eq!(billions("Qwen3-0.6B"), 0.60);
        assert_eq!(billions("Qwen3-8B"), 8.19);
        assert_eq!(billions("Qwen3-32B"), 32.76);
    }

    /// KV per token in bf16: 112 KiB for 0.6B and 256 KiB for 32B.
    #[test]
    fn kv_per_token_matches_the_published_shapes() {
        let kib = |name| Qwen3Config::built_in(name).unwrap().kv_elements_per_token() * 2 / 1024;
        assert_eq!((kib("Qwen3-0.6B"), kib("Qwen3-32B")), (112, 256));
    }

    #[test]
    fn config_json_is_read() {
        assert_eq!(Qwen3Config::from_json(JSON, "c").unwrap(), Qwen3Config::built_in("tiny").unwrap());
    }

    #[test]
    fn the_newer_place_of_rope_theta_is_read() {
        let text = JSON.replace(
            "\"rope_theta\": 1000000",
            "\"rope_parameters\": {\"rope_theta\": 5000, \"rope_type\": \"default\"}",
        );
        assert_eq!(Qwen3Config::from_json(&text, "c").unwrap().rope_theta, 5000.0);
    }

    #[test]
    fn wrong_values_are_named() {
        for (from, to, wanted) in [
            ("\"qwen3\"", "\"qwen2\"", "`model_type` is `qwen2`"),
            ("\"attention_bias\": false", "\"attention_bias\": true", "`attention_bias` is true"),
            (
                "\"rope_scaling\": null",
                "\"rope_scaling\": {\"type\": \"yarn\"}",
                "`rope_scaling` is {\"type\":\"yarn\"}",
            ),
            ("\"silu\"", "\"gelu\"", "`hidden_act` is `gelu`"),
            (
                "\"num_key_value_heads\": 2",
                "\"num_key_value_heads\": 3",
                "`num_attention_heads` is 4 but must be a multiple",
            ),
            ("\"head_dim\": 16", "\"head_dim\": 15", "`head_dim` is 15 but must be even"),
            ("\"hidden_size\": 64", "\"hidden_size\": 0", "`hidden_size` is 0"),
            ("\"hidden_size\": 64", "\"hidden_size\": -1", "c: invalid value"),
            ("\"vocab_size\": 512, ", "", "missing field `vocab_size`"),
            ("1e-06", "0", "`rms_norm_eps` is 0"),
            ("1000000", "1", "`rope_theta` is 1 but"),
        ] {
            assert!(JSON.contains(from), "{from}");
            let error = Qwen3Config::from_json(&JSON.replace(from, to), "c").unwrap_err().to_string();
            assert!(error.contains(wanted), "{error}");
        }
    }
}
