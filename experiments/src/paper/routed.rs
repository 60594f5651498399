//! Routing probabilities from a published throughput at concurrency 1, where a token takes the time of its steps and nothing else.

use super::machine::{Model, mean_context};
use super::setting::Routing;

/// R-Stitch has two probabilities and the published figures determine one: this one is fixed.
pub(super) const STITCH_B: f64 = 0.5;

/// The algorithms by their published names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Algorithm {
    R2r,
    Citer,
    CoLlm,
    RStitch,
}

impl Algorithm {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::R2r => "R2R",
            Self::Citer => "CITER",
            Self::CoLlm => "Co-LLM",
            Self::RStitch => "R-Stitch",
        }
    }

    /// The routing at which `models` make `throughput` tokens/s at concurrency 1, with requests of so many tokens.
    ///
    /// With S and L the times of a step and T that of a token: p = (T - S) / L; and from S/a + L/b = T (1/a - 1 + 1/b),
    /// a = (T - S) / (L/b - T (1/b - 1)).
    pub(super) fn routing(self, models: &[Model; 2], throughput: f64, output_tokens: u32) -> Routing {
        let context = mean_context(output_tokens);
        let [small_ms, large_ms] = [models[0].step_ms(1, context), models[1].step_ms(1, context)];
        let token_ms = 1e3 / throughput;
        match self {
            Self::R2r | Self::Citer | Self::CoLlm => Routing::Detour { p: (token_ms - small_ms) / large_ms },
            Self::RStitch => {
                let b = STITCH_B;
                let a = (token_ms - small_ms) / (large_ms / b - token_ms * (1.0 / b - 1.0));
                Routing::Stitch { a, b }
            }
        }
    }
}

/// The name and the value of the probability that was fitted.
pub(super) fn fitted(algorithm: Algorithm, routing: Routing) -> (String, f64) {
    match routing {
        Routing::Detour { p } => (format!("p of {}", algorithm.name()), p),
        Routing::Stitch { a, b } => (format!("a of {} (b = {b})", algorithm.name()), a),
        Routing::Every { .. } | Routing::LargeOnly => unreachable!("an algorithm routes by probabilities"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::machine::Machine;
    use super::super::setting::Setting;
    use super::*;

    #[test]
    fn the_routing_found_makes_the_throughput() {
        let machine = Machine { layer_ms: 0.13, row_ms: 0.4, routing_ms: 0.5, corun: [0.8, 0.75] };
        for algorithm in [Algorithm::R2r, Algorithm::Citer, Algorithm::CoLlm, Algorithm::RStitch] {
            let routing = algorithm.routing(&machine.pair(), 60.0, 2048);
            let setting = Setting::shared(machine.pair(), machine.corun, routing, 1);
            assert!((setting.alone() - 60.0).abs() < 1e-9, "{algorithm:?}");
        }
    }
}
