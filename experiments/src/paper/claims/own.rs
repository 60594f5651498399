//! Claims that are settled by a sweep of the project's own, and one that no figure settles.

use super::super::published::Published;
use super::sweep::Curve;
use super::{Claim, Verdict};

/// A line describes time a token if no point is farther from it than this share, or none farther than replications explain.
const LINEAR: f64 = 0.05;
/// What replications explain: an F this likely or likelier.
const LIKELY: f64 = 0.01;

pub(super) fn claims(published: &Published, curves: &[Curve]) -> Vec<Claim> {
    vec![near_two(curves), linear(curves), first(published)]
}

fn near_two(curves: &[Curve]) -> Claim {
    let at_two: Vec<bool> = curves.iter().map(|curve| curve.break_even().to == Some(2)).collect();
    let words: Vec<String> = curves
        .iter()
        .map(|curve| {
            let speedups = [1, 2, 3, 4, 8, 64].map(|every| curve.at(every).words());
            format!("{}: {} ({})", curve.words(), speedups.join(", "), curve.break_even_words())
        })
        .collect();
    Claim::new(
        "with \"switch every N tokens\" the curve already equals large-only near N = 2",
        format!(
            "speed-up over large-only at N = 1, 2, 3, 4, 8, 64, in brackets the slowest and the fastest start where they differ: {}",
            words.join("; ")
        ),
        Verdict::of_parts(&at_two),
        "own sweep: every N = 1 to 64 at concurrency 1, 4, 8, with the published steps and on the calibrated machine, with and without extends and decodes in one forward, 32 starts a cell. A win or a loss is more than 1 %. The claim holds of a curve if N = 2 is the smallest N from which every larger one wins from every start. A single request waits for nobody and wins at every N. With more of them N = 1 makes two groups that take turns, and only reaches large-only; N = 2 is not equal to it but above",
    )
}

fn linear(curves: &[Curve]) -> Claim {
    let words: Vec<String> = curves
        .iter()
        .filter(|curve| curve.concurrency > 1)
        .map(|curve| {
            let (line, lack, (every, residual)) = (curve.line(), curve.lack_of_fit(), curve.farthest());
            let (dense, rare) = (curve.at(1), curve.at(64));
            let [between, within] = lack.degrees;
            format!(
                "{}: {:.1} ms a token + {:.1} ms a handoff, R2 {:.2}, farthest N = {every} ({:+.0} %), lack of fit F({between}, {within}) = {:.0} (p {}), wait at the large model {:.1} ms at N = 1 and {:.1} ms at N = 64, its batch {:.2} and {:.2}",
                curve.words(),
                line.intercept,
                line.slope,
                line.r_squared,
                residual * 100.0,
                lack.f,
                if lack.p < 0.001 { "< 0.001".to_owned() } else { format!("= {:.3}", lack.p) },
                dense.wait_ms[1],
                rare.wait_ms[1],
                dense.large_batch,
                rare.large_batch
            )
        })
        .collect();
    // A single request is no evidence: nobody waits and messages are free in the model, so the line is flat by construction.
    let fits: Vec<bool> = curves
        .iter()
        .filter(|curve| curve.concurrency > 1)
        .map(|curve| curve.line().worst <= LINEAR || curve.lack_of_fit().p >= LIKELY)
        .collect();
    Claim::new(
        "the system's overhead is paid linearly per handoff (time per token against handoffs per token: linear fit, residuals, lack of fit, and where it fails: waiting, fragmentation, orbits)",
        format!(
            "{} of {} curves of more than one request are straight: {}",
            fits.iter().filter(|fits| **fits).count(),
            fits.len(),
            words.join("; ")
        ),
        Verdict::of_parts(&fits),
        "own sweep: a straight line through nine N with 32 starts each. A curve is not straight if a point is farther than 5 % and the lack of fit is more than starts explain (p below 0.01); starts spread less at some N than at others, so F tells that and not how much. A single request is left out: its line is flat by construction, for nobody waits and a message within a node costs nothing in the model. With more requests a handoff costs a wait for the step in flight and a fragment of a batch, and how much depends on the orbit that N and the step times lead to",
    )
}

fn first(published: &Published) -> Claim {
    let large_only = |algorithm: &str, concurrency: u32| {
        let row = published.original_settings.iter().find(|row| {
            (row.algorithm.as_str(), row.implementation.as_str(), row.concurrency)
                == (algorithm, "llm_only", concurrency)
        });
        row.and_then(|row| row.throughput)
    };
    let wins = published
        .original_settings
        .iter()
        .filter(|row| row.implementation == "official")
        .filter_map(|row| {
            let large = large_only(&row.algorithm, row.concurrency)?;
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
    use super::super::super::tests::curves;
    use super::super::sweep::Where;

    /// Nobody waits at concurrency 1: half of the tokens at 6.0 and half at 27.9 ms against all at 27.9, at every N.
    #[test]
    fn a_single_request_gains_the_same_at_every_n() {
        let alone = curves().iter().find(|curve| curve.place == Where::Published && curve.concurrency == 1).unwrap();
        for point in &alone.points {
            assert!((point.speedup / (27.9 / 16.95) - 1.0).abs() < 0.02, "{point:?}");
        }
        assert!(alone.line().worst < 0.02 && alone.line().slope.abs() < 0.5, "{:?}", alone.line());
        assert_eq!(alone.break_even().to, Some(1));
    }

    #[test]
    fn handoffs_cost_more_where_requests_meet() {
        for curve in curves().iter().filter(|curve| curve.concurrency > 1) {
            assert!(curve.at(1).wait_ms[1] > 1.0, "{curve:?}");
            assert!(curve.at(1).speedup < curve.at(64).speedup, "{curve:?}");
        }
    }

    /// Each place and concurrency is there with both mixings, so that neither place has a switch that the other lacks.
    #[test]
    fn places_are_compared_with_the_same_switch() {
        let settings = |place: Where| {
            let of = curves().iter().filter(move |curve| curve.place == place);
            of.map(|curve| (curve.concurrency, curve.mixed)).collect::<Vec<_>>()
        };
        assert_eq!(settings(Where::Published), [(1, true), (4, true), (4, false), (8, true), (8, false)]);
        assert_eq!(settings(Where::Published), settings(Where::Calibrated));
    }
}
