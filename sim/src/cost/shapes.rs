//! Catalogue of model shapes and devices for the roofline.

/// The shape of a dense decoder with grouped-query attention and a gated feed-forward layer, 2 bytes a weight and KV
/// value.
///
/// Norms and biases are left out: together they are below 0.1 % of the weights of every model here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ModelShape {
    /// Name, as a profile's `model` column gives it.
    pub name: &'static str,
    /// Width of the residual stream.
    pub hidden: u32,
    /// Width of the feed-forward layer.
    pub intermediate: u32,
    /// Decoder layers.
    pub layers: u32,
    /// Query heads.
    pub heads: u32,
    /// Key and value heads.
    pub kv_heads: u32,
    /// Width of a head. `heads` x `head_dim` may differ from `hidden`.
    pub head_dim: u32,
    /// Rows of the output head.
    pub vocabulary: u32,
}

const BYTES_PER_VALUE: u64 = 2;

impl ModelShape {
    /// The catalogue: the dense Qwen3 models, then those that published routing results used.
    pub const ALL: &'static [Self] = &[
        qwen3("Qwen3-0.6B", 1024, 3072, 28, 16),
        qwen3("Qwen3-1.7B", 2048, 6144, 28, 16),
        qwen3("Qwen3-4B", 2560, 9728, 36, 32),
        qwen3("Qwen3-8B", 4096, 12288, 36, 32),
        qwen3("Qwen3-14B", 5120, 17408, 40, 40),
        qwen3("Qwen3-32B", 5120, 25600, 64, 64),
        shape("Llama-2-7B", 4096, 11008, 32, 32, 32, 32000),
        shape("Llama-2-70B", 8192, 28672, 80, 64, 8, 32000),
        shape("Qwen2-1.5B", 1536, 8960, 28, 12, 2, 151_936),
        shape("Qwen2-72B", 8192, 29568, 80, 64, 8, 152_064),
        shape("R1-Distill-Qwen-1.5B", 1536, 8960, 28, 12, 2, 151_936),
        shape("R1-Distill-Qwen-32B", 5120, 27648, 64, 40, 8, 152_064),
    ];

    /// The catalogue's entry of that name, if there is one.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        Self::ALL.iter().find(|shape| shape.name == name)
    }

    /// Weights of the decoder layers: those that work on every new token.
    #[must_use]
    pub fn layer_weights(&self) -> u64 {
        let hidden = u64::from(self.hidden);
        let head_dim = u64::from(self.head_dim);
        let query_width = u64::from(self.heads) * head_dim;
        let kv_width = u64::from(self.kv_heads) * head_dim;
        let attention = 2 * hidden * query_width + 2 * hidden * kv_width;
        let feed_forward = 3 * hidden * u64::from(self.intermediate);
        u64::from(self.layers) * (attention + feed_forward)
    }

    /// Weights of the output head: they work on one token a row, the last. A tied head is the embedding table itself;
    /// of an untied embedding only single rows are read, which is left out.
    #[must_use]
    pub fn head_weights(&self) -> u64 {
        u64::from(self.vocabulary) * u64::from(self.hidden)
    }

    /// Bytes of weights that a step reads, whatever its batch.
    #[must_use]
    pub fn read_bytes_per_step(&self) -> u64 {
        BYTES_PER_VALUE * (self.layer_weights() + self.head_weights())
    }

    /// Bytes of keys and values per token.
    #[must_use]
    pub fn kv_bytes_per_token(&self) -> u64 {
        2 * BYTES_PER_VALUE * u64::from(self.layers) * u64::from(self.kv_heads) * u64::from(self.head_dim)
    }

    /// Operations of attention for one (new token, visible token) pair: a multiply and an add per query value for the
    /// score, and again for the weighted sum.
    #[must_use]
    pub fn attention_flops_per_pair(&self) -> u64 {
        4 * u64::from(self.layers) * u64::from(self.heads) * u64::from(self.head_dim)
    }
}

/// What the roofline needs to know of a device.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct DeviceSpec {
    /// Name, as a profile's `device` column gives it.
    pub name: &'static str,
    /// Memory bandwidth in bytes per second.
    pub bandwidth_bytes_per_s: f64,
    /// Dense bf16 matrix rate in operations per second.
    pub rate_flops_per_s: f64,
}

impl DeviceSpec {
    /// H200 by measured copy bandwidth and measured bf16 matrix rate; A100-80G by data sheet, which no kernel reaches.
    pub const ALL: &'static [Self] = &[
        Self { name: "H200", bandwidth_bytes_per_s: 4.2e12, rate_flops_per_s: 790e12 },
        Self { name: "A100-80G", bandwidth_bytes_per_s: 2.04e12, rate_flops_per_s: 312e12 },
    ];

    /// The catalogue's entry of that name, if there is one.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        Self::ALL.iter().find(|device| device.name == name)
    }
}

const fn qwen3(name: &'static str, hidden: u32, intermediate: u32, layers: u32, heads: u32) -> ModelShape {
    shape(name, hidden, intermediate, layers, heads, 8, 151_936)
}

/// All of the catalogue has heads of width 128.
const fn shape(
    name: &'static str,
    hidden: u32,
    intermediate: u32,
    layers: u32,
    heads: u32,
    kv_heads: u32,
    vocabulary: u32,
) -> ModelShape {
    ModelShape { name, hidden, intermediate, layers, heads, kv_heads, head_dim: 128, vocabulary }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Read per step in GB and KV per token in KiB, from the models' published configurations.
    #[test]
    fn qwen3_reads_what_its_configuration_says() {
        let expected = [
            ("Qwen3-0.6B", 1.19, 112),
            ("Qwen3-1.7B", 3.44, 112),
            ("Qwen3-4B", 8.05, 144),
            ("Qwen3-8B", 15.14, 144),
            ("Qwen3-14B", 27.98, 160),
            ("Qwen3-32B", 63.97, 256),
        ];
        for (name, read_gb, kv_kib) in expected {
            let shape = ModelShape::named(name).unwrap();
            let gb = shape.read_bytes_per_step() as f64 / 1e9;
            assert!((gb - read_gb).abs() < 0.01, "{name}: {gb}");
            assert_eq!(shape.kv_bytes_per_token(), kv_kib * 1024, "{name}");
        }
    }

    /// Published parameter counts in billions; an untied embedding counts twice in them and once here.
    #[test]
    fn other_shapes_have_their_published_size() {
        let expected = [
            ("Llama-2-7B", 6.738, true),
            ("Llama-2-70B", 68.977, true),
            ("Qwen2-1.5B", 1.544, false),
            ("Qwen2-72B", 72.706, true),
            ("R1-Distill-Qwen-1.5B", 1.777, true),
            ("R1-Distill-Qwen-32B", 32.764, true),
        ];
        for (name, billions, is_untied) in expected {
            let shape = ModelShape::named(name).unwrap();
            let heads = if is_untied { 2 } else { 1 };
            let counted = (shape.layer_weights() + heads * shape.head_weights()) as f64 / 1e9;
            assert!((counted / billions - 1.0).abs() < 1e-3, "{name}: {counted}");
        }
    }

    #[test]
    fn names_are_unique_and_unknown_names_are_none() {
        for (idx, shape) in ModelShape::ALL.iter().enumerate() {
            assert!(ModelShape::ALL[..idx].iter().all(|other| other.name != shape.name));
        }
        assert_eq!(ModelShape::named("Qwen3-9B"), None);
        assert_eq!(DeviceSpec::named("H100"), None);
    }
}
