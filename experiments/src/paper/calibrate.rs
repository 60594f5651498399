//! The parameters of the published machines, from cells that no table is judged on.
//!
//! | parameter | fitted on |
//! |---|---|
//! | `layer_ms`, `row_ms` | the eight large-only cells of original_settings.csv, by least squares on relative errors |
//! | `routing_ms` | the three published runs of R2R at concurrency 1, on their mean time a token |
//! | two co-run rates | the published step latencies, 6.0 and 27.9 ms, as means over the nine settings of threshold.csv (not over what was measured in them) |
//!
//! The last fit reads the published latencies as what they are in a running system: a step that shares its GPU takes longer than alone. The paper
//! gives one pair of values for all nine settings, so it is compared with the mean over these. Alone, the fitted steps are shorter: with 6.0 and 27.9 ms
//! at concurrency 1, a token would take 15.8 ms, but 13.6 to 14.1 ms were published.

use super::fit::{Equation, least_squares};
use super::machine::{Machine, OUTPUT_TOKENS, PROMPT_TOKENS, layers, mean_context, shape_of, tensor_parallel_of};
use super::published::{LARGE_STEP_MS, Published, R2R_P, SMALL_STEP_MS, throughput_at};
use super::routed::Algorithm;
use super::setting::{Player, Routing, Setting, alone_ms};
use crate::failure::Failure;

/// How far the mean step latencies may be from the published ones, as a share of them.
const LATENCY_TOLERANCE: f64 = 0.01;

/// Co-run rates are sought from here to 1.
const CORUN_MIN: f64 = 0.05;

/// Fits all parameters.
///
/// # Errors
/// If no co-run rates give the published step latencies.
pub(super) fn machine(player: &Player, published: &Published) -> Result<Machine, Failure> {
    let [layer_ms, row_ms] = large_only(published);
    let machine = Machine { layer_ms, row_ms, ..Machine::NOTHING };
    let times_ms = r2r_alone(published).map(|throughput| 1e3 / throughput);
    let machine = with_routing(machine, times_ms.iter().sum::<f64>() / times_ms.len() as f64);
    with_corun(machine, player, &nine_settings(published))?.map_err(|latencies| {
        Failure::Argument(format!(
            "{}no co-run rates from {CORUN_MIN} to 1 make the steps of the nine settings of threshold.csv take {SMALL_STEP_MS} and {LARGE_STEP_MS} ms on average, as published; the nearest is {latencies}",
            player.sets.iter().map(|set| format!("--set {set}: ")).collect::<String>(),
        ))
    })
}

/// The published runs of R2R at concurrency 1 on the pair that shares two GPUs, tokens/s: in ablation, placement and parallel.
pub(super) fn r2r_alone(published: &Published) -> [f64; 3] {
    let parallel = published.parallel.iter().find(|row| (row.total_gpus, row.slm_tp, row.llm_tp) == (2, 1, 2));
    [
        published.ablation("tokenrouter").concurrency_1,
        throughput_at(&published.placement, "shared", 1, Algorithm::R2r),
        parallel.expect("parallel.csv has this row").concurrency_1,
    ]
}

/// `layer_ms` and `row_ms` from the large models alone.
///
/// A closed loop of C requests with n output tokens, each of which begins with a prompt that stops the others for one step: while a request is
/// there, C prompts and n - 1 decodes of C rows run. So C n / X = C P + (n - 1) D with P and D the time of a prompt and of a decode, linear in both
/// parameters.
fn large_only(published: &Published) -> [f64; 2] {
    let equations: Vec<Equation> = published
        .original_settings
        .iter()
        .filter(|row| row.implementation == "llm_only")
        .filter_map(|row| {
            let shape = shape_of(&row.large_model);
            let tensor_parallel = tensor_parallel_of(shape);
            let requests = f64::from(row.concurrency);
            let tokens = row.tokens_per_request()?;
            let prompts = requests / tokens;
            let decodes = (tokens - 1.0) / tokens;
            let context = mean_context(tokens.round() as u32);
            let roofline = Machine::NOTHING.model(shape, tensor_parallel);
            let roofline_ms =
                prompts * roofline.step_ms(1, PROMPT_TOKENS) + decodes * roofline.step_ms(row.concurrency, context);
            let token_ms = requests * 1e3 / row.throughput?;
            let steps = prompts + decodes;
            let rows = prompts + decodes * requests;
            let coefficients = [steps * f64::from(layers(shape)), rows];
            Some(Equation { coefficients, value: token_ms - roofline_ms, scale: token_ms })
        })
        .collect();
    least_squares(&equations)
}

/// `routing_ms` such that R2R at concurrency 1 takes `token_ms` a token.
pub(super) fn with_routing(machine: Machine, token_ms: f64) -> Machine {
    let without = Machine { routing_ms: 0.0, ..machine };
    let routing_ms = token_ms - alone_ms(&without.pair(), Routing::Detour { p: R2R_P }, OUTPUT_TOKENS, None);
    Machine { routing_ms, ..machine }
}

/// Mean latencies of the steps of the small and of the large model that are not the published ones, and the co-run rates that come nearest.
#[derive(Clone, Copy, Debug)]
pub(super) struct Latencies {
    means_ms: [f64; 2],
    corun: [f64; 2],
}

impl std::fmt::Display for Latencies {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ([small_ms, large_ms], [small, large]) = (self.means_ms, self.corun);
        write!(f, "{small_ms:.2} and {large_ms:.2} ms at rates {small:.2} and {large:.2}")
    }
}

/// The co-run rates at which steps take, over these settings (concurrency and threshold), 6.0 and 27.9 ms on average; or how near one gets.
///
/// # Errors
/// If a setting cannot be simulated.
pub(super) fn with_corun(
    machine: Machine,
    player: &Player,
    settings: &[(u32, u32)],
) -> Result<Result<Machine, Latencies>, Failure> {
    // A fixed point that is near after a few rounds; the rest is below what the routes drawn move.
    let mut machine = Machine { corun: [1.0, 1.0], ..machine };
    for _ in 0..12 {
        let [small, large] = step_means_ms(&machine, player, settings)?;
        let next = |rate: f64, mean_ms: f64, wanted_ms: f64| (rate * mean_ms / wanted_ms).clamp(CORUN_MIN, 1.0);
        machine.corun = [next(machine.corun[0], small, SMALL_STEP_MS), next(machine.corun[1], large, LARGE_STEP_MS)];
    }
    let means_ms = step_means_ms(&machine, player, settings)?;
    let is_near = means_ms
        .iter()
        .zip([SMALL_STEP_MS, LARGE_STEP_MS])
        .all(|(ms, wanted)| (ms / wanted - 1.0).abs() <= LATENCY_TOLERANCE);
    Ok(if is_near { Ok(machine) } else { Err(Latencies { means_ms, corun: machine.corun }) })
}

/// Concurrency and threshold of the nine settings of threshold.csv.
pub(super) fn nine_settings(published: &Published) -> Vec<(u32, u32)> {
    published.threshold.iter().map(|cell| (cell.concurrency, cell.b1)).collect()
}

/// Step latencies as part of the running system: means over these settings, ms.
pub(super) fn step_means_ms(machine: &Machine, player: &Player, settings: &[(u32, u32)]) -> Result<[f64; 2], Failure> {
    let routing = Routing::Detour { p: R2R_P };
    let setting = |&(concurrency, threshold): &(u32, u32)| {
        Setting::shared(machine.pair(), machine.corun, routing, concurrency).threshold(threshold)
    };
    let played = player.play_all(&settings.iter().map(setting).collect::<Vec<Setting>>())?;
    let mean = |model: usize| played.iter().map(|played| played.step_ms[model]).sum::<f64>() / played.len() as f64;
    Ok([mean(0), mean(1)])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn player() -> Player {
        Player::new(1, Vec::new())
    }

    /// The closed form that the fit uses, against the simulator, on the short and the long requests.
    #[test]
    fn the_fitted_large_models_run_alone_as_published() {
        let published = Published::read();
        let [layer_ms, row_ms] = large_only(&published);
        assert!((0.10..0.16).contains(&layer_ms) && (0.2..0.6).contains(&row_ms), "{layer_ms} {row_ms}");
        let machine = Machine { layer_ms, row_ms, routing_ms: 0.0, corun: [1.0, 1.0] };
        for row in published.original_settings.iter().filter(|row| row.implementation == "llm_only") {
            let shape = shape_of(&row.large_model);
            let model = machine.model(shape, tensor_parallel_of(shape));
            let setting = Setting {
                output_tokens: row.tokens_per_request().unwrap().round() as u32,
                ..Setting::shared([model; 2], [1.0; 2], Routing::LargeOnly, row.concurrency).separate()
            };
            let player = Player { replications: 2, ..player() };
            let error = player.play(&setting).unwrap().throughput / row.throughput.unwrap() - 1.0;
            assert!(error.abs() < 0.07, "{} at {}: {error}", row.algorithm, row.concurrency);
        }
    }

    #[test]
    fn routing_makes_the_published_time_a_token() {
        let machine = Machine { layer_ms: 0.13, row_ms: 0.4, routing_ms: 9.0, corun: [1.0, 1.0] };
        let setting = |machine: &Machine| Setting::shared(machine.pair(), [1.0; 2], Routing::Detour { p: R2R_P }, 1);
        assert!((setting(&with_routing(machine, 13.7)).alone() - 1e3 / 13.7).abs() < 1e-9);
    }

    #[test]
    fn steps_that_share_a_gpu_take_what_was_published() {
        let published = Published::read();
        let machine = machine(&player(), &published).unwrap();
        let [small, large] = step_means_ms(&machine, &player(), &nine_settings(&published)).unwrap();
        assert!((small / SMALL_STEP_MS - 1.0).abs() < 0.01 && (large / LARGE_STEP_MS - 1.0).abs() < 0.01);
        assert!(machine.corun.iter().all(|rate| (0.5..0.98).contains(rate)), "{:?}", machine.corun);
        assert!(machine.routing_ms > 0.0, "{}", machine.routing_ms);
    }

    /// A small step that takes longer than the published one already alone has no co-run rate.
    #[test]
    fn latencies_that_no_rate_gives_are_told() {
        let machine = Machine { layer_ms: 0.13, row_ms: 0.4, routing_ms: 9.0, corun: [1.0, 1.0] };
        let player = Player { replications: 1, tokens: 4096, ..player() };
        let nearest = with_corun(machine, &player, &[(2, 1)]).unwrap().unwrap_err();
        assert!(nearest.means_ms[0] > SMALL_STEP_MS && nearest.corun[0] == 1.0, "{nearest}");
    }
}
