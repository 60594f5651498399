//! Where the first requests of a closed loop stand when a run begins.

use handoff_scheduler::ModelIdx;

use super::config::EngineConfig;
use crate::policy::{Route, StartRule};
use crate::rng::Stream;
use crate::workload::Start;

/// Places request `index` of the first `concurrency` ones: sets its route and returns the model where it begins and the output tokens that
/// lie behind it already. Every driver places requests with this, so that a real run and its simulation start alike.
pub fn place_first(
    config: &EngineConfig,
    index: u32,
    concurrency: u32,
    route: &mut Route,
    stream: &mut Stream,
) -> (ModelIdx, u32) {
    let rule = match config.workload.start() {
        Start::InPhase => StartRule::InPhase,
        Start::Spread => StartRule::Spread { index, n: concurrency },
        Start::Random => StartRule::Random,
    };
    let model = config.policy.begin_at(rule, route, stream);
    let output_tokens = route.remaining_tokens;
    if rule == StartRule::Random {
        route.remaining_tokens = 1 + stream.below(output_tokens);
    }
    (model, output_tokens - route.remaining_tokens)
}
