//! Routing probabilities from a published throughput at concurrency 1, where a token takes the time of its steps and nothing else.

use super::machine::{Model, mean_context};
use super::setting::Routing;

/// R-Stitch has two probabilities and the published figures determine one: this one is prescribed.
pub(super) const STITCH_B: f64 = 0.5;
/// What else it could be: nothing published decides.
pub(super) const STITCH_BS: [f64; 6] = [1.0, 0.75, 0.5, 0.25, 0.1, 0.05];

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
    /// With S and L the times of a step and T that of a token: p = (T - S) / L; for R-Stitch see [`stitch`].
    pub(super) fn routing(self, models: &[Model; 2], throughput: f64, output_tokens: u32) -> Routing {
        match self {
            Self::R2r | Self::Citer | Self::CoLlm => {
                let context = mean_context(output_tokens);
                let [small_ms, large_ms] = models.map(|model| model.step_ms(1, context));
                Routing::Detour { p: (1e3 / throughput - small_ms) / large_ms }
            }
            Self::RStitch => stitch(models, throughput, output_tokens, STITCH_B),
        }
    }
}

/// The routing of R-Stitch with a given `b` at which `models` make `throughput` tokens/s at concurrency 1.
///
/// From S/a + L/b = T (1/a - 1 + 1/b), a = (T - S) / (L/b - T (1/b - 1)).
pub(super) fn stitch(models: &[Model; 2], throughput: f64, output_tokens: u32, b: f64) -> Routing {
    let context = mean_context(output_tokens);
    let [small_ms, large_ms] = models.map(|model| model.step_ms(1, context));
    let token_ms = 1e3 / throughput;
    Routing::Stitch { a: (token_ms - small_ms) / (large_ms / b - token_ms * (1.0 / b - 1.0)), b }
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
        for b in STITCH_BS {
            let setting = Setting::shared(machine.pair(), machine.corun, stitch(&machine.pair(), 60.0, 2048, b), 1);
            assert!((setting.alone() - 60.0).abs() < 1e-9, "b = {b}");
        }
    }
}
