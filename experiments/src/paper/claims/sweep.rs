//! The sweep behind two claims: throughput and time a token against handoffs.

use serde::Serialize;

use super::super::Paper;
use super::super::fit::{LackOfFit, Line, lack_of_fit, line};
use super::super::machine::Model;
use super::super::published::{LARGE_STEP_MS, SMALL_STEP_MS};
use super::super::setting::{Played, Player, Routing, Setting};
use crate::failure::Failure;

/// Tokens a visit.
pub(super) const EVERY: [u32; 9] = [1, 2, 3, 4, 6, 8, 16, 32, 64];
/// Requests in the system, as in the paper's ablation.
const CONCURRENCY: [u32; 3] = [1, 4, 8];
/// Starts of each cell. Fixed N leads from different starts to different orbits, so that few of them say little.
const REPLICATIONS: u32 = 32;
/// Routing and the large model alone are as fast as each other if they differ by less than this share.
const TIE: f64 = 0.01;

/// Where a curve was computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(in super::super) enum Where {
    /// The paper's own parameters: constant steps of 6.0 and 27.9 ms, each model on a device of its own.
    Published,
    /// The calibrated machine: the pair shares two GPUs.
    Calibrated,
}

/// Throughput against N at one place and concurrency.
#[derive(Clone, Debug, Serialize)]
pub(in super::super) struct Curve {
    pub(in super::super) place: Where,
    /// Whether a forward may carry extends and decodes; otherwise extends go first. A single request does not tell.
    pub(in super::super) mixed: bool,
    pub(in super::super) concurrency: u32,
    pub(in super::super) points: Vec<Point>,
}

/// A point of a curve.
#[derive(Clone, Debug, Serialize)]
pub(in super::super) struct Point {
    pub(in super::super) every: u32,
    /// Throughput over that of the large model alone.
    pub(in super::super) speedup: f64,
    /// The same of the slowest and of the fastest start.
    pub(in super::super) speedup_range: [f64; 2],
    /// How many starts lose, tie and win against the large model alone.
    pub(in super::super) starts: Starts,
    /// Time of a token of a request in each replication, ms: concurrency over throughput.
    #[serde(skip)]
    pub(super) token_ms: Vec<f64>,
    pub(super) handoffs_per_token: f64,
    /// Mean wait at the small and at the large model on arrival, ms.
    pub(super) wait_ms: [f64; 2],
    /// Rows a step of the large model.
    pub(super) large_batch: f64,
}

/// Starts by how they do against the large model alone: within 1 % of it is a tie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(in super::super) struct Starts {
    pub(super) lose: usize,
    pub(super) tie: usize,
    pub(super) win: usize,
}

/// From which N on routing beats the large model alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BreakEven {
    /// The smallest N from which at every larger one some start wins.
    pub(super) from: Option<u32>,
    /// The smallest N from which at every larger one all starts win.
    pub(super) to: Option<u32>,
}

impl Where {
    pub(super) const ALL: [Self; 2] = [Self::Published, Self::Calibrated];

    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Published => "published steps, separate devices",
            Self::Calibrated => "calibrated machine, shared GPUs",
        }
    }

    fn setting(self, paper: &Paper, routing: Routing, concurrency: u32) -> Setting {
        match self {
            Self::Published => {
                let models = [SMALL_STEP_MS, LARGE_STEP_MS].map(Model::constant);
                Setting::shared(models, [1.0; 2], routing, concurrency).separate()
            }
            Self::Calibrated => Setting::shared(paper.machine.pair(), paper.machine.corun, routing, concurrency),
        }
    }
}

/// All curves.
pub(in super::super) fn curves(paper: &Paper) -> Result<Vec<Curve>, Failure> {
    let player = Player { replications: REPLICATIONS, ..paper.player.clone() };
    let mut curves = Vec::new();
    for place in Where::ALL {
        for concurrency in CONCURRENCY {
            let setting = |routing: Routing| place.setting(paper, routing, concurrency);
            let alone = player.play(&setting(Routing::LargeOnly).separate())?.throughput;
            let mixings: &[bool] = if concurrency == 1 { &[true] } else { &[true, false] };
            for &mixed in mixings {
                let settings = EVERY.map(|tokens| Setting { mixed, ..setting(Routing::Every { tokens }) });
                let played = player.play_all(&settings)?;
                let points = EVERY.iter().zip(played).map(|(&every, played)| point(every, concurrency, &played, alone));
                curves.push(Curve { place, mixed, concurrency, points: points.collect() });
            }
        }
    }
    Ok(curves)
}

fn point(every: u32, concurrency: u32, played: &Played, alone: f64) -> Point {
    let (slowest, fastest) = played
        .throughputs
        .iter()
        .fold((f64::INFINITY, 0.0_f64), |(low, high), &throughput| (low.min(throughput), high.max(throughput)));
    Point {
        every,
        speedup: played.throughput / alone,
        speedup_range: [slowest / alone, fastest / alone],
        starts: Starts::of(played.throughputs.iter().map(|throughput| throughput / alone)),
        token_ms: played.throughputs.iter().map(|throughput| f64::from(concurrency) * 1e3 / throughput).collect(),
        handoffs_per_token: played.handoffs_per_token,
        wait_ms: played.wait_ms,
        large_batch: played.batch[1],
    }
}

impl Starts {
    fn of(speedups: impl Iterator<Item = f64>) -> Self {
        let mut starts = Self::default();
        for speedup in speedups {
            let count = if speedup > 1.0 + TIE {
                &mut starts.win
            } else if speedup < 1.0 - TIE {
                &mut starts.lose
            } else {
                &mut starts.tie
            };
            *count += 1;
        }
        starts
    }

    fn all(self) -> usize {
        self.lose + self.tie + self.win
    }
}

impl Point {
    pub(super) fn mean_token_ms(&self) -> f64 {
        self.token_ms.iter().sum::<f64>() / self.token_ms.len() as f64
    }

    /// The speed-up, with its range over replications where that shows.
    pub(in super::super) fn words(&self) -> String {
        let [slowest, fastest] = self.speedup_range.map(|speedup| format!("{speedup:.2}"));
        if slowest == fastest { slowest } else { format!("{:.2} ({slowest}-{fastest})", self.speedup) }
    }
}

impl Curve {
    pub(in super::super) fn at(&self, every: u32) -> &Point {
        self.points.iter().find(|point| point.every == every).expect("N is one of the sweep")
    }

    pub(super) fn words(&self) -> String {
        let mixing = match (self.concurrency, self.mixed) {
            (1, _) => "",
            (_, true) => ", extends and decodes in one forward",
            (_, false) => ", extends apart and first",
        };
        format!("{}{mixing}, C = {}", self.place.words(), self.concurrency)
    }

    pub(super) fn break_even(&self) -> BreakEven {
        let smallest = |holds: &dyn Fn(Starts) -> bool| {
            self.points.iter().rev().take_while(|point| holds(point.starts)).last().map(|point| point.every)
        };
        BreakEven { from: smallest(&|starts| starts.win > 0), to: smallest(&|starts| starts.win == starts.all()) }
    }

    /// The break-even, and what happens at each N below it.
    pub(in super::super) fn break_even_words(&self) -> String {
        let BreakEven { to, .. } = self.break_even();
        let wins = to.map_or_else(|| "never wins for good".to_owned(), |every| format!("wins from N = {every} on"));
        let below = self.points.iter().filter(|point| to.is_none_or(|to| point.every < to));
        let mut parts: Vec<String> = below
            .filter(|point| point.starts.win < point.starts.all())
            .map(|point| {
                let Starts { lose, tie, win } = point.starts;
                let counts = [(lose, "lose"), (tie, "tie"), (win, "win")];
                let named: Vec<String> = counts
                    .iter()
                    .filter(|(count, _)| *count > 0)
                    .map(|(count, how)| format!("{count} {how}"))
                    .collect();
                format!("at N = {} of {} starts {}", point.every, point.starts.all(), named.join(" and "))
            })
            .collect();
        parts.push(wins);
        parts.join(", ")
    }

    /// Time a token against handoffs a token, as a straight line.
    pub(in super::super) fn line(&self) -> Line {
        let points: Vec<(f64, f64)> =
            self.points.iter().map(|point| (point.handoffs_per_token, point.mean_token_ms())).collect();
        line(&points)
    }

    /// Whether that line leaves more than replications differ by.
    pub(in super::super) fn lack_of_fit(&self) -> LackOfFit {
        let groups: Vec<(f64, &[f64])> =
            self.points.iter().map(|point| (point.handoffs_per_token, point.token_ms.as_slice())).collect();
        lack_of_fit(&groups)
    }

    /// The point that lies farthest from the line, relative to it, and by how much.
    pub(in super::super) fn farthest(&self) -> (u32, f64) {
        let line = self.line();
        let residual =
            |point: &Point| point.mean_token_ms() / (line.intercept + line.slope * point.handoffs_per_token) - 1.0;
        let residuals = self.points.iter().map(|point| (point.every, residual(point)));
        residuals.max_by(|one, other| one.1.abs().total_cmp(&other.1.abs())).expect("a curve has points")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A curve with these speed-ups of two starts at N = 1, 2 and 4.
    fn curve(starts: [[f64; 2]; 3]) -> Curve {
        let point = |every: u32, speedups: [f64; 2]| Point {
            every,
            speedup: speedups[0],
            speedup_range: speedups,
            starts: Starts::of(speedups.into_iter()),
            token_ms: vec![1.0],
            handoffs_per_token: 1.0 / f64::from(every),
            wait_ms: [0.0; 2],
            large_batch: 1.0,
        };
        let points = [1, 2, 4].into_iter().zip(starts).map(|(every, speedups)| point(every, speedups)).collect();
        Curve { place: Where::Published, mixed: true, concurrency: 4, points }
    }

    #[test]
    fn a_tie_is_no_win() {
        let tie = curve([[0.995, 1.004], [1.3, 1.4], [1.5, 1.5]]);
        assert_eq!(tie.break_even(), BreakEven { from: Some(2), to: Some(2) });
        assert_eq!(tie.break_even_words(), "at N = 1 of 2 starts 2 tie, wins from N = 2 on");
    }

    #[test]
    fn starts_that_disagree_leave_a_range() {
        let range = curve([[0.5, 0.6], [0.9, 1.2], [1.5, 1.5]]);
        assert_eq!(range.break_even(), BreakEven { from: Some(2), to: Some(4) });
        let words = "at N = 1 of 2 starts 2 lose, at N = 2 of 2 starts 1 lose and 1 win, wins from N = 4 on";
        assert_eq!(range.break_even_words(), words);
        let never = curve([[1.5, 1.6], [1.2, 1.2], [0.9, 0.95]]);
        assert_eq!(never.break_even(), BreakEven { from: None, to: None });
        assert_eq!(never.break_even_words(), "at N = 4 of 2 starts 2 lose, never wins for good");
    }
}
