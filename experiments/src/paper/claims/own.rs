//! Claims that are settled by a sweep of the project's own, and one that no figure settles.

use super::super::Paper;
use super::super::published;
use super::sweep::{Curve, EVERY, curves};
use super::{Claim, Verdict};
use crate::failure::Failure;

/// A line describes time a token if no point is farther from it than this share.
const LINEAR: f64 = 0.05;

pub(super) fn claims(paper: &Paper) -> Result<Vec<Claim>, Failure> {
    let curves = curves(paper)?;
    Ok(vec![near_two(&curves), linear(&curves), first()])
}

fn near_two(curves: &[Curve]) -> Claim {
    let at_two: Vec<bool> = curves.iter().map(|curve| curve.break_even() == Some(2)).collect();
    let words: Vec<String> = curves
        .iter()
        .map(|curve| {
            let speedups: Vec<String> =
                [1, 2, 3, 4, 8, 64].map(|every| format!("{:.2}", curve.at(every).speedup)).to_vec();
            let from = match curve.break_even() {
                None => "never for good".to_owned(),
                Some(every) if every == EVERY[0] => "from N = 1 on".to_owned(),
                Some(every) => format!("from N = {every} on"),
            };
            format!("{}, C = {}: {} (wins {from})", curve.place.words(), curve.concurrency, speedups.join(", "))
        })
        .collect();
    Claim::new(
        "with \"switch every N tokens\" the curve already equals large-only near N = 2",
        format!("speed-up over large-only at N = 1, 2, 3, 4, 8, 64: {}", words.join("; ")),
        Verdict::of_parts(&at_two),
        "own sweep: every N = 1 to 64 at concurrency 1, 4, 8, with the published steps and on the calibrated machine. The claim holds of a curve if N = 2 is its break-even, the smallest N from which every larger one beats large-only. A single request waits for nobody and wins at every N. With more of them N = 1 makes two groups that take turns, and only reaches large-only; N = 2 is not equal to it but well above",
    )
}

fn linear(curves: &[Curve]) -> Claim {
    let words: Vec<String> = curves
        .iter()
        .map(|curve| {
            let (line, (every, residual)) = (curve.line(), curve.farthest());
            let (dense, rare) = (curve.at(1), curve.at(64));
            format!(
                "{}, C = {}: {:.1} ms a token + {:.1} ms a handoff, R2 {:.2}, farthest N = {every} ({:+.0} %), wait at the large model {:.1} ms at N = 1 and {:.1} ms at N = 64, its batch {:.2} and {:.2}",
                curve.place.words(),
                curve.concurrency,
                line.intercept,
                line.slope,
                line.r_squared,
                residual * 100.0,
                dense.wait_ms[1],
                rare.wait_ms[1],
                dense.large_batch,
                rare.large_batch
            )
        })
        .collect();
    let fits: Vec<bool> = curves.iter().map(|curve| curve.line().worst <= LINEAR).collect();
    Claim::new(
        "the system's overhead is paid linearly per handoff (time per token against handoffs per token: linear fit, residuals, lack of fit, and where it fails: waiting, fragmentation, orbits)",
        words.join("; "),
        Verdict::of_parts(&fits),
        "own sweep: a straight line through nine N; linear means that no point is farther than 5 %. At concurrency 1 time is linear in handoffs because nobody waits. With more requests a handoff costs a wait for the step in flight and a fragment of a batch, and how much depends on the orbit that N and the step times lead to",
    )
}

fn first() -> Claim {
    let wins = published::original_settings()
        .iter()
        .filter(|row| row.implementation == "official")
        .filter_map(|row| {
            let large = published::original(&row.algorithm, "llm_only", row.concurrency).throughput?;
            (row.throughput? > large).then(|| format!("{} at concurrency {}", row.algorithm, row.concurrency))
        })
        .collect::<Vec<_>>();
    Claim::new(
        "this is the first time that token-level routing beats not routing in a real system",
        format!("{} official code above large-only in the same table: {}", wins.len(), wins.join(", ")),
        Verdict::Undecided,
        "no figure here speaks of earlier systems. Even within original_settings, the official code of R2R beats large-only at concurrency 1",
    )
}

#[cfg(test)]
mod tests {
    use super::super::super::tests::paper;
    use super::super::sweep::Where;
    use super::*;

    /// Nobody waits at concurrency 1: half of the tokens at 6.0 and half at 27.9 ms against all at 27.9, at every N.
    #[test]
    fn a_single_request_gains_the_same_at_every_n() {
        let curves = curves(paper()).unwrap();
        let alone = curves.iter().find(|curve| curve.place == Where::Published && curve.concurrency == 1).unwrap();
        for point in &alone.points {
            assert!((point.speedup / (27.9 / 16.95) - 1.0).abs() < 0.02, "{point:?}");
        }
        assert!(alone.line().worst < 0.02);
        assert_eq!(alone.break_even(), Some(1));
    }

    #[test]
    fn handoffs_cost_more_where_requests_meet() {
        let curves = curves(paper()).unwrap();
        for curve in curves.iter().filter(|curve| curve.concurrency > 1) {
            assert!(curve.at(1).wait_ms[1] > 1.0, "{curve:?}");
            assert!(curve.at(1).speedup < curve.at(64).speedup, "{curve:?}");
        }
    }
}
