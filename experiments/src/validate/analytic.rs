//! The formulas that apply to a cell.

use handoff_sim::cost::BatchShape;
use handoff_sim::engine::{EngineConfig, ModelConfig};

use super::cell::{Cell, Routing};

/// Throughput in tokens/s by a formula, at the step times of the prediction for the mean context; `None` where none applies. Prompts and jitter are
/// left out.
///
/// - The large model alone: C tokens a step (theory page, section 2).
/// - One request that switches every N tokens never waits: 2N tokens in one extend over N + 1 tokens and N - 1 decodes on each side (E1).
///
/// Cells with more requests on two models have no formula at step times that grow with tokens and contexts; `tune` has chains for constant ones.
pub(super) fn throughput(cell: &Cell, config: &EngineConfig) -> Option<f64> {
    let workload = &config.workload;
    let context_tokens = (workload.prompt().mean() + workload.output().mean() / 2.0).round() as u32;
    let seconds = |model: &ModelConfig, shape: BatchShape| {
        (model.latency.step(&shape).ns + model.host.launch_ns + model.host.loop_ns) as f64 * 1e-9
    };
    let large = config.models.last()?;
    match cell.routing {
        Routing::LargeOnly => {
            let step = BatchShape::decode(cell.concurrency, context_tokens);
            Some(f64::from(cell.concurrency) / seconds(large, step))
        }
        Routing::Every(every) if cell.concurrency == 1 => {
            let kept_tokens = context_tokens.saturating_sub(every + 1);
            let visit_s = |model: &ModelConfig| {
                let first = seconds(model, BatchShape::extend(1, every + 1, kept_tokens));
                first + f64::from(every - 1) * seconds(model, BatchShape::decode(1, context_tokens))
            };
            Some(2.0 * f64::from(every) / (visit_s(&config.models[0]) + visit_s(large)))
        }
        Routing::Every(_) | Routing::R2r { .. } => None,
    }
}
