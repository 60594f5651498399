//! The sweep behind two claims: throughput and time a token against handoffs.

use super::super::Paper;
use super::super::fit::{Line, line};
use super::super::machine::Model;
use super::super::published::{LARGE_STEP_MS, SMALL_STEP_MS};
use super::super::setting::{Routing, Setting};
use crate::failure::Failure;

/// Tokens a visit.
pub(super) const EVERY: [u32; 9] = [1, 2, 3, 4, 6, 8, 16, 32, 64];
/// Requests in the system, as in the paper's ablation.
pub(super) const CONCURRENCY: [u32; 3] = [1, 4, 8];

/// Where a curve was computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Where {
    /// The paper's own parameters: constant steps of 6.0 and 27.9 ms, each model on a device of its own.
    Published,
    /// The calibrated machine: the pair shares two GPUs.
    Shared,
}

/// Throughput against N at one place and concurrency.
#[derive(Clone, Debug)]
pub(super) struct Curve {
    pub(super) place: Where,
    pub(super) concurrency: u32,
    pub(super) points: Vec<Point>,
}

/// A point of a curve.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point {
    pub(super) every: u32,
    /// Throughput over that of the large model alone.
    pub(super) speedup: f64,
    /// Time of a token of a request, ms: concurrency over throughput.
    pub(super) token_ms: f64,
    pub(super) handoffs_per_token: f64,
    /// Mean wait at the small and at the large model on arrival, ms.
    pub(super) wait_ms: [f64; 2],
    /// Rows a step of the large model.
    pub(super) large_batch: f64,
}

impl Where {
    pub(super) const ALL: [Self; 2] = [Self::Published, Self::Shared];

    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Published => "published steps, separate devices",
            Self::Shared => "calibrated machine, shared GPUs",
        }
    }

    fn setting(self, paper: &Paper, routing: Routing, concurrency: u32) -> Setting {
        match self {
            Self::Published => {
                let models = [SMALL_STEP_MS, LARGE_STEP_MS].map(Model::constant);
                let setting = Setting::shared(models, [1.0; 2], routing, concurrency).separate();
                // The paper's model launches all that waits.
                Setting { mixed: true, ..setting }
            }
            Self::Shared => Setting::shared(paper.machine.pair(), paper.machine.corun, routing, concurrency),
        }
    }
}

/// All curves.
pub(super) fn curves(paper: &Paper) -> Result<Vec<Curve>, Failure> {
    let mut curves = Vec::new();
    for place in Where::ALL {
        for concurrency in CONCURRENCY {
            let setting = |routing: Routing| place.setting(paper, routing, concurrency);
            let alone = paper.player.play(&setting(Routing::LargeOnly).separate())?.throughput;
            let settings: Vec<Setting> = EVERY.map(|tokens| setting(Routing::Every { tokens })).to_vec();
            let played = paper.player.play_all(&settings)?;
            let points = EVERY.iter().zip(played).map(|(&every, played)| Point {
                every,
                speedup: played.throughput / alone,
                token_ms: f64::from(concurrency) * 1e3 / played.throughput,
                handoffs_per_token: played.handoffs_per_token,
                wait_ms: played.wait_ms,
                large_batch: played.batch[1],
            });
            curves.push(Curve { place, concurrency, points: points.collect() });
        }
    }
    Ok(curves)
}

impl Curve {
    pub(super) fn at(&self, every: u32) -> &Point {
        self.points.iter().find(|point| point.every == every).expect("N is one of the sweep")
    }

    /// The smallest N from which every larger one beats the large model alone.
    pub(super) fn break_even(&self) -> Option<u32> {
        let wins = self.points.iter().rev().take_while(|point| point.speedup >= 1.0);
        wins.last().map(|point| point.every)
    }

    /// Time a token against handoffs a token, as a straight line.
    pub(super) fn line(&self) -> Line {
        let points: Vec<(f64, f64)> =
            self.points.iter().map(|point| (point.handoffs_per_token, point.token_ms)).collect();
        line(&points)
    }

    /// The point that lies farthest from the line, relative to it, and by how much.
    pub(super) fn farthest(&self) -> (u32, f64) {
        let line = self.line();
        let residual = |point: &Point| point.token_ms / (line.intercept + line.slope * point.handoffs_per_token) - 1.0;
        let residuals = self.points.iter().map(|point| (point.every, residual(point)));
        residuals.max_by(|one, other| one.1.abs().total_cmp(&other.1.abs())).expect("a curve has points")
    }
}
