//! What a validation runs over, from its arguments.

use std::path::Path;

use handoff_backend::profile::{Axes, Grid as ProfileGrid};
use handoff_sim::cost::Profile;
use handoff_sim::scenario::{Placement, Scenario};

use super::cell::Grid;
use super::side::prediction;
use crate::cli::Validate;
use crate::failure::Failure;
use crate::input::{numbers, whole_numbers, whole_numbers_or_none};
use crate::machine::{DeviceKind, Limits, Plan};
use crate::profile::{Extent, for_limits};
use crate::sweep::placements;

/// The grid that the arguments describe.
pub(super) fn grid(arguments: &Validate, scenario: &Scenario) -> Result<Grid, Failure> {
    let own = scenario.placement();
    let placements = match &arguments.placement {
        Some(list) => placements(list)?,
        // Both ways to share a device, if the scenario shares one.
        None if own == Placement::Separate => vec![own],
        None => placements("overlapped,exclusive:large-first")?,
    };
    let p = numbers("--r2r", &arguments.r2r)?;
    if let Some(wrong) = p.iter().find(|p| !(**p > 0.0 && **p < 1.0)) {
        return Err(Failure::Argument(format!("--r2r {wrong}: expected probabilities above 0 and below 1")));
    }
    let grid = Grid {
        every: whole_numbers_or_none("--every", &arguments.every)?,
        concurrencies: whole_numbers_or_none("--concurrency", &arguments.concurrency)?,
        p,
        thresholds: whole_numbers("--thresholds", &arguments.thresholds)?,
        threshold_concurrency: arguments.threshold_concurrency,
        placements,
    };
    if grid.every.is_empty() != grid.concurrencies.is_empty() {
        let message = "--every and --concurrency go together: expected both lists, or \"none\" for both";
        return Err(Failure::Argument(message.to_owned()));
    }
    Ok(grid)
}

/// A profile that the user has, checked against the scenario before anything runs.
pub(super) fn read_profile(path: &Path, plan: &Plan) -> Result<(Vec<u8>, Profile), Failure> {
    let name = path.display().to_string();
    let bytes = std::fs::read(path).map_err(|error| Failure::Argument(format!("--profile {name}: {error}")))?;
    let profile = Profile::parse(&bytes, &name).map_err(|error| Failure::Argument(error.to_string()))?;
    prediction(plan.unprofiled(), plan, &profile)?;
    Ok((bytes, profile))
}

/// What has to be profiled so that no cell asks for more, as far as a grid of some minutes goes.
pub(super) fn extent(device: DeviceKind, limits: Limits, n_models: usize) -> Extent {
    let rows = doubling(1, limits.requests);
    let new_tokens: Vec<u32> = doubling(2, limits.new_tokens.max(4));
    let longest = limits.request_tokens;
    // The same lengths for decodes and extends: an extend's new tokens each read the kept ones, so what they cost grows with both.
    let last = longest.saturating_sub(limits.new_tokens + 1).max(3);
    let kv_tokens = vec![(last / 8).max(1), (last / 2).max(2), last];
    let grid = ProfileGrid {
        decode: Axes { rows: rows.clone(), kv_tokens: kv_tokens.clone(), ..Axes::decode() },
        extend: Axes { rows: rows.clone(), new_tokens, kv_tokens, new_tokens_total_max: 512 },
        prefill: Axes {
            rows,
            new_tokens: vec![(longest / 4).max(2), longest.saturating_sub(1).max(3)],
            kv_tokens: vec![0],
            // All requests of a closed loop bring their prompts at once when a run begins.
            new_tokens_total_max: 8_192,
        },
    };
    let pairs = (0..n_models).flat_map(|one| (one + 1..n_models).map(move |other| (one, other))).collect();
    Extent { pairs, ..for_limits(device, grid, limits) }
}

/// `first`, twice that, and so on up to `last`, which is always there.
fn doubling(first: u32, last: u32) -> Vec<u32> {
    let mut values: Vec<u32> =
        std::iter::successors(Some(first), |value| value.checked_mul(2)).take_while(|value| *value < last).collect();
    values.push(last.max(first));
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubling_ends_at_the_last_value() {
        assert_eq!(doubling(1, 16), [1, 2, 4, 8, 16]);
        assert_eq!(doubling(1, 6), [1, 2, 4, 6]);
        assert_eq!(doubling(2, 65), [2, 4, 8, 16, 32, 64, 65]);
        assert_eq!(doubling(1, 1), [1]);
    }

    #[test]
    fn the_extent_covers_what_cells_ask_for() {
        let limits = Limits { requests: 16, request_tokens: 600, new_tokens: 65 };
        let extent = extent(DeviceKind::Cuda, limits, 2);
        let points = extent.grid.points();
        assert!(points.iter().any(|point| (point.rows, point.new_tokens, point.kv_tokens) == (16, 1, 534)));
        assert!(points.iter().any(|point| point.new_tokens >= 65));
        assert!(points.iter().all(|point| point.new_tokens + point.kv_tokens <= 601), "a request has no more room");
        assert_eq!(extent.pairs, [(0, 1)]);
    }
}
