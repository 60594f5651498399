//! The published machines: what a step takes on them, from a roofline and a few parameters.
//!
//! A step of a model takes
//!
//!   weights and KV read at the bandwidth of its GPUs  +  layers x `layer_ms`  +  rows x `row_ms`  (+ `routing_ms` on the small model)
//!
//! The first term is the roofline of the model's shape on A100-80G by data sheet, as far as it is bound by memory: all batches here are (a test holds it
//! against `handoff_sim::cost::RooflineLatency`). The others are parameters that `calibrate` fits. Where two models share GPUs, a step progresses at its co-run rate while the other model's runs.

use handoff_sim::cost::{DeviceSpec, ModelShape};

/// The GPU of all published figures.
const DEVICE: &str = "A100-80G";
/// Published: about 100 tokens in.
pub(super) const PROMPT_TOKENS: u32 = 100;
/// Published: at most 2,048 tokens out. Every request is taken to make them all.
pub(super) const OUTPUT_TOKENS: u32 = 2048;
/// The pair of most tables.
pub(super) const PAIR: [&str; 2] = ["Qwen3-0.6B", "Qwen3-32B"];

/// The parameters of the published machines.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Machine {
    /// What a layer takes beside reading its weights: small kernels, and the all-reduces of tensor parallelism, ms.
    pub(super) layer_ms: f64,
    /// What each row of a batch adds: sampling, detokenising, the host's work on a request, ms.
    pub(super) row_ms: f64,
    /// What the routing network and the host's handling of its answer add to a step of the small model, ms.
    pub(super) routing_ms: f64,
    /// Speed of the small model's steps while the large model's run on a shared GPU, and the other way round.
    pub(super) corun: [f64; 2],
}

/// What a forward of a model takes, before the rows and the routing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Forward {
    /// A model's roofline and a fixed time.
    Roofline { shape: &'static str, tensor_parallel: u32, fixed_ms: f64 },
    /// A server that does one row after the other.
    Serial { row_ms: f64 },
    /// The same time for every batch, as in the paper's own model.
    Constant { ms: f64 },
}

/// A model of a setting.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Model {
    pub(super) forward: Forward,
    /// Added to every step, ms.
    pub(super) routing_ms: f64,
    /// Added for each row, ms.
    pub(super) row_ms: f64,
}

impl Machine {
    /// Steps that take what reading weights and KV takes.
    pub(super) const NOTHING: Self = Self { layer_ms: 0.0, row_ms: 0.0, routing_ms: 0.0, corun: [1.0, 1.0] };

    /// A model that serves, spread over so many GPUs.
    pub(super) fn model(&self, shape: &'static str, tensor_parallel: u32) -> Model {
        let fixed_ms = self.layer_ms * f64::from(named(shape).layers);
        Model { forward: Forward::Roofline { shape, tensor_parallel, fixed_ms }, routing_ms: 0.0, row_ms: self.row_ms }
    }

    /// A model whose steps end with a routing decision.
    pub(super) fn small(&self, shape: &'static str, tensor_parallel: u32) -> Model {
        Model { routing_ms: self.routing_ms, ..self.model(shape, tensor_parallel) }
    }

    /// The pair of most tables: the small model on one GPU, the large one on two.
    pub(super) fn pair(&self) -> [Model; 2] {
        [self.small(PAIR[0], 1), self.model(PAIR[1], 2)]
    }
}

impl Model {
    /// The same with `ms` more (or less) in every step.
    pub(super) fn plus_ms(self, ms: f64) -> Self {
        match self.forward {
            Forward::Roofline { shape, tensor_parallel, fixed_ms } => {
                Self { forward: Forward::Roofline { shape, tensor_parallel, fixed_ms: fixed_ms + ms }, ..self }
            }
            Forward::Serial { .. } => Self { routing_ms: self.routing_ms + ms, ..self },
            Forward::Constant { ms: own_ms } => Self { forward: Forward::Constant { ms: own_ms + ms }, ..self },
        }
    }

    /// A model whose steps all take `ms`.
    pub(super) fn constant(ms: f64) -> Self {
        Self { forward: Forward::Constant { ms }, routing_ms: 0.0, row_ms: 0.0 }
    }

    /// What a step takes, as parts.
    fn parts(&self) -> Parts {
        let (fixed_ms, row_ms, token_ms) = match self.forward {
            Forward::Roofline { shape, tensor_parallel, fixed_ms } => {
                let per_byte_ms = 1e3 / (device().bandwidth_bytes_per_s * f64::from(tensor_parallel));
                let weights_ms = named(shape).read_bytes_per_step() as f64 * per_byte_ms;
                (weights_ms + fixed_ms, 0.0, named(shape).kv_bytes_per_token() as f64 * per_byte_ms)
            }
            Forward::Serial { row_ms } => (0.0, row_ms, 0.0),
            Forward::Constant { ms } => (ms, 0.0, 0.0),
        };
        Parts { fixed_ms: fixed_ms + self.routing_ms, row_ms: row_ms + self.row_ms, token_ms }
    }

    /// A step of `rows` decode rows that each see `context_tokens` tokens, alone on its GPUs, ms.
    pub(super) fn step_ms(&self, rows: u32, context_tokens: u32) -> f64 {
        let Parts { fixed_ms, row_ms, token_ms } = self.parts();
        fixed_ms + f64::from(rows) * (row_ms + token_ms * f64::from(context_tokens + 1))
    }

    /// The model's table of a scenario.
    pub(super) fn to_toml(self, name: &str, threshold: u32, device: u32) -> String {
        let Parts { fixed_ms, row_ms, token_ms } = self.parts();
        let token_us = token_ms * 1e3;
        format!(
            "[[model]]\nname = \"{name}\"\ncost = {{ affine = {{ fixed_ms = {fixed_ms:?}, per_row_ms = {row_ms:?}, per_new_token_ms = {token_ms:?}, per_kv_token_us = {token_us:?} }} }}\njitter_cv = {JITTER_CV:?}\nthreshold = {threshold}\ndevice = {device}\n\n"
        )
    }
}

/// The parts of a step's time, ms: of each step, of each row, and of each token that is read from or written to the KV.
#[derive(Clone, Copy, Debug)]
struct Parts {
    fixed_ms: f64,
    row_ms: f64,
    token_ms: f64,
}

/// Assumed: no step takes exactly as long as the last one, and constant times with a common divisor would bias how long requests wait.
const JITTER_CV: f64 = 0.02;

fn device() -> &'static DeviceSpec {
    DeviceSpec::named(DEVICE).expect("the device is in the catalogue")
}

/// Layers of a model.
pub(super) fn layers(shape: &str) -> u32 {
    named(shape).layers
}

fn named(shape: &str) -> &'static ModelShape {
    ModelShape::named(shape).unwrap_or_else(|| panic!("the shape {shape} is in the catalogue"))
}

/// The shape of a model by its published name: tuned models keep the shape of what they were tuned from.
pub(super) fn shape_of(published: &str) -> &'static str {
    let name = match published {
        "Llama-2-7B-tuned" => "Llama-2-7B",
        "L1-1.5B-Short" => "R1-Distill-Qwen-1.5B",
        "QwQ-32B" => "R1-Distill-Qwen-32B",
        other => other,
    };
    named(name).name
}

/// GPUs that a large model is spread over: two as published, but four from 70 billion weights on. On two of them reading the weights alone would
/// take 34 to 35 ms, longer than the 28 to 29 ms a token that were published.
pub(super) fn tensor_parallel_of(shape: &str) -> u32 {
    if layers(shape) >= 80 { 4 } else { 2 }
}

/// Tokens that a step sees in the middle of a request.
pub(super) fn mean_context(output_tokens: u32) -> u32 {
    PROMPT_TOKENS + output_tokens / 2
}

#[cfg(test)]
mod tests {
    use handoff_sim::cost::{BatchShape, RooflineLatency};

    use super::*;

    const MACHINE: Machine = Machine { layer_ms: 0.1, row_ms: 0.5, routing_ms: 1.0, corun: [0.8, 0.7] };

    /// Qwen3-0.6B: 1.192 GB at 2.04 TB/s are 0.584 ms, 28 layers 2.8 ms, two rows 1.0 ms, routing 1.0 ms.
    #[test]
    fn a_step_adds_its_parts() {
        let small = MACHINE.small("Qwen3-0.6B", 1);
        let ms = small.step_ms(2, 0);
        assert!((ms - (0.584 + 2.8 + 1.0 + 1.0)).abs() < 0.002, "{ms}");
        assert!((small.plus_ms(-0.3).step_ms(2, 0) - ms + 0.3).abs() < 1e-12);
        // The large one has no routing, and KV of 256 KiB a token: 1000 tokens take 0.064 ms on two GPUs.
        let large = MACHINE.model("Qwen3-32B", 2);
        let kv_ms = large.step_ms(1, 1000) - large.step_ms(1, 0);
        assert!((kv_ms - 0.064).abs() < 0.001, "{kv_ms}");
    }

    /// The largest batches of the tables: eight rows that extend by ten tokens each, and a prompt, are bound by memory.
    #[test]
    fn all_batches_are_bound_by_memory() {
        for shape in ["Qwen3-0.6B", "Qwen3-32B", "Llama-2-70B"] {
            let tensor_parallel = tensor_parallel_of(shape);
            let roofline = RooflineLatency::new(named(shape), device()).with_tensor_parallel(tensor_parallel).unwrap();
            let Parts { fixed_ms, token_ms, .. } = Machine::NOTHING.model(shape, tensor_parallel).parts();
            for batch in
                [BatchShape::extend(8, 10, 1000), BatchShape::extend(1, PROMPT_TOKENS, 0), BatchShape::decode(4, 8000)]
            {
                let ms = fixed_ms + token_ms * (batch.kv_tokens + batch.new_tokens) as f64;
                let expected_ms = roofline.step_ns(&batch) * 1e-6;
                assert!((ms / expected_ms - 1.0).abs() < 1e-9, "{shape} {batch:?}: {ms} {expected_ms}");
            }
        }
    }

    #[test]
    fn every_published_model_has_a_shape() {
        for row in super::super::published::Published::read().original_settings {
            assert!(layers(shape_of(&row.small_model)) < layers(shape_of(&row.large_model)));
        }
        assert_eq!((tensor_parallel_of("Llama-2-70B"), tensor_parallel_of("R1-Distill-Qwen-32B")), (4, 2));
        // Why four: two GPUs cannot read the weights in the published 27.7 ms.
        let weights_ms = |tensor_parallel| Machine::NOTHING.model("Llama-2-70B", tensor_parallel).step_ms(1, 0);
        assert!(weights_ms(2) > 33.0 && weights_ms(4) < 17.0);
    }
}
