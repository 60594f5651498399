//! A step time from the model's shape and the device's two limits.

use super::{
    BatchShape, DeviceSpec, ModelShape, NS_PER_MS, NS_PER_S, ParameterError, StepCost, StepLatency, step_cost,
};

/// max(bytes / bandwidth, operations / rate) / tensor-parallel devices + overhead (Williams, Waterman, Patterson, CACM
/// 52(4), 2009).
///
/// - bytes = weights read once a step + kept KV read once + KV of the new tokens written. Activations are left out:
///   they stay in cache at the batch sizes of decoding.
/// - operations = 2 x weights of the layers x new tokens + 2 x weights of the head x rows (only a row's last token
///   needs logits) + attention.
/// - attention = 4 x layers x heads x head width for each pair of a new token and a token that it sees. A batch shape
///   knows sums only, so the kept prefix is taken as equal in all rows, and the new tokens of extend rows too.
/// - tensor parallelism divides both by the number of devices. Its communication belongs into the overhead.
///
/// With no overhead it is a lower bound of what a kernel can reach; launch, norms and small kernels come on top.
#[derive(Clone, PartialEq, Debug)]
pub struct RooflineLatency {
    fixed_overhead_ns: f64,
    ns_per_byte: f64,
    ns_per_flop: f64,
    weight_bytes: f64,
    kv_bytes_per_token: f64,
    flops_per_new_token: f64,
    flops_per_row: f64,
    attention_flops_per_pair: f64,
}

impl RooflineLatency {
    /// The roofline of `model` on one `device`, without overhead.
    #[must_use]
    pub fn new(model: &ModelShape, device: &DeviceSpec) -> Self {
        Self {
            fixed_overhead_ns: 0.0,
            ns_per_byte: NS_PER_S / device.bandwidth_bytes_per_s,
            ns_per_flop: NS_PER_S / device.rate_flops_per_s,
            weight_bytes: model.read_bytes_per_step() as f64,
            kv_bytes_per_token: model.kv_bytes_per_token() as f64,
            flops_per_new_token: 2.0 * model.layer_weights() as f64,
            flops_per_row: 2.0 * model.head_weights() as f64,
            attention_flops_per_pair: model.attention_flops_per_pair() as f64,
        }
    }

    /// Adds a fixed time to every step: launches, small kernels, communication.
    ///
    /// # Errors
    /// If `fixed_overhead_ms` is negative or not finite.
    pub fn with_overhead_ms(mut self, fixed_overhead_ms: f64) -> Result<Self, ParameterError> {
        let ms = ParameterError::check_not_negative("fixed_overhead_ms", fixed_overhead_ms)?;
        self.fixed_overhead_ns = ms * NS_PER_MS;
        Ok(self)
    }

    /// Spreads weights, KV and arithmetic evenly over `n_devices`.
    ///
    /// # Errors
    /// If `n_devices` is 0.
    pub fn with_tensor_parallel(mut self, n_devices: u32) -> Result<Self, ParameterError> {
        let n_devices = ParameterError::check_positive("tensor_parallel", f64::from(n_devices))?;
        self.ns_per_byte /= n_devices;
        self.ns_per_flop /= n_devices;
        Ok(self)
    }

    /// The time in nanoseconds, not rounded.
    #[must_use]
    pub fn step_ns(&self, shape: &BatchShape) -> f64 {
        let rows = f64::from(shape.rows.max(1));
        let new_tokens = shape.new_tokens as f64;
        let kv_tokens = shape.kv_tokens as f64;
        let decode_rows = f64::from(shape.decode_rows);
        let extend_rows = f64::from(shape.rows.saturating_sub(shape.decode_rows));
        let extend_tokens = (new_tokens - decode_rows).max(0.0);

        // Every new token sees its row's kept prefix, itself, and the new tokens before it.
        let seen_among_new =
            if extend_rows > 0.0 { extend_tokens * (extend_tokens / extend_rows + 1.0) / 2.0 } else { 0.0 };
        let pairs = new_tokens * (kv_tokens / rows) + decode_rows + seen_among_new;

        let bytes = self.weight_bytes + self.kv_bytes_per_token * (kv_tokens + new_tokens);
        let flops =
            self.flops_per_new_token * new_tokens + self.flops_per_row * rows + self.attention_flops_per_pair * pairs;
        (bytes * self.ns_per_byte).max(flops * self.ns_per_flop) + self.fixed_overhead_ns
    }
}

impl StepLatency for RooflineLatency {
    #[inline]
    fn step(&self, shape: &BatchShape) -> StepCost {
        step_cost(self.step_ns(shape), false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A model small enough to count by hand: one layer, width 2, one head of width 1, feed-forward 1, vocabulary 3.
    const TINY: ModelShape = ModelShape {
        name: "tiny",
        hidden: 2,
        intermediate: 1,
        layers: 1,
        heads: 1,
        kv_heads: 1,
        head_dim: 1,
        vocabulary: 3,
    };

    fn roofline(bandwidth_bytes_per_s: f64, rate_flops_per_s: f64) -> RooflineLatency {
        RooflineLatency::new(&TINY, &DeviceSpec { name: "any", bandwidth_bytes_per_s, rate_flops_per_s })
    }

    #[test]
    fn counts_bytes() {
        // Layer: q, o of 2 each, k, v of 2 each, three of 2 in the feed-forward layer: 14. Head: 6. So 40 bytes of
        // weights, and 4 bytes of KV a token: 40 + 4 x (10 + 2) = 88 bytes at one byte a nanosecond.
        let shape = BatchShape::decode(2, 5);
        assert_eq!(roofline(1e9, 1e30).step_ns(&shape), 88.0);
    }

    #[test]
    fn counts_operations() {
        // One decode on 5 kept tokens and one extend over 3 on 5: 4 new tokens.
        // Layers 2 x 14 x 4 = 112; head 2 x 6 x 2 = 24; pairs (5 + 1) + (6 + 7 + 8) = 27, times 4 = 108. Total 244.
        let shape = BatchShape { rows: 2, decode_rows: 1, new_tokens: 4, kv_tokens: 10 };
        assert_eq!(roofline(1e30, 1e9).step_ns(&shape).round(), 244.0);
    }

    #[test]
    fn takes_the_slower_limit_then_divides_then_adds_the_overhead() {
        let shape = BatchShape { rows: 2, decode_rows: 1, new_tokens: 4, kv_tokens: 10 };
        let latency = roofline(1e9, 1e9).with_tensor_parallel(2).unwrap().with_overhead_ms(1.0).unwrap();
        assert_eq!(latency.step(&shape), StepCost { ns: 1_000_122, extrapolated: false });
    }

    #[test]
    fn small_batches_on_an_h200_take_the_time_to_read_the_weights() {
        let device = DeviceSpec::named("H200").unwrap();
        for (name, ms) in [("Qwen3-0.6B", 0.28), ("Qwen3-32B", 15.2)] {
            let latency = RooflineLatency::new(ModelShape::named(name).unwrap(), device);
            let predicted_ms = latency.step_ns(&BatchShape::decode(1, 0)) / NS_PER_MS;
            assert!((predicted_ms / ms - 1.0).abs() < 0.02, "{name}: {predicted_ms}");
        }
    }

    #[test]
    fn a_long_prefill_is_bound_by_arithmetic() {
        let latency = RooflineLatency::new(ModelShape::named("Qwen3-32B").unwrap(), DeviceSpec::named("H200").unwrap());
        let ms = latency.step_ns(&BatchShape::extend(1, 4096, 0)) / NS_PER_MS;
        // 2 x 31.2e9 x 4096 / 790e12 = 323 ms, and 4 x 64 x 8192 x 4096^2 / 2 / 790e12 = 22 ms of attention.
        assert!((ms - 345.0).abs() < 5.0, "{ms}");
    }

    #[test]
    fn refuses_what_makes_no_sense() {
        let error = roofline(1e9, 1e9).with_tensor_parallel(0).unwrap_err();
        assert_eq!(error.to_string(), "`tensor_parallel` is 0 but must be a finite number larger than 0");
        let error = roofline(1e9, 1e9).with_overhead_ms(-0.1).unwrap_err();
        assert_eq!(error.to_string(), "`fixed_overhead_ms` is -0.1 but must be a finite number, 0 or more");
    }
}
