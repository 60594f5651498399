//! Where the warm-up of a run ends.

/// Observations averaged into one batch: the 5 of MSER-5.
const BATCH: usize = 5;
/// Batches at the end that are never cut off. A tail this short can look calm by chance and would win the search.
const TAIL_BATCHES: usize = 5;
/// The fewest batches the rule is applied to; a shorter series is too short.
const BATCHES_MIN: usize = 2 * TAIL_BATCHES;

/// What the warm-up rule says about a series.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Truncation {
    /// Delete this many observations from the front; a multiple of 5, at most half of the series.
    At(usize),
    /// The best cut lies in the second half of the series, or the series has fewer than 50 observations: no cut can be
    /// trusted, run longer.
    TooShort,
}

/// MSER-5: averages the series in fives and cuts where the estimated standard error of the mean of the rest is
/// smallest.
///
/// With n batches y_1..y_n, the cut after d batches has the score `sum over i > d of (y_i - mean_d)^2 / (n - d)^2`, the
/// squared standard error of the mean of the rest. All d that leave at least 5 batches are scored, the
/// smallest of equal scores with the smallest d wins, and a winner above n / 2 means that the run is too short. A
/// remainder of fewer than five observations at the end is not looked at.
///
/// For deterministic visits of fixed length no rule removes the orbit: the series has no single steady state.
///
/// Sources: White, *An effective truncation heuristic for bias reduction in simulation output*, Simulation 69(6), 1997;
/// Spratt, *An evaluation of contemporary heuristics for the startup problem*, 1998 (fives); Hoad, Robinson and Davies,
/// *Automating warm-up length estimation*, JORS 61, 2010 (comparison, and the uncut tail).
///
/// ```
/// use handoff_sim::stats::{Truncation, mser5};
///
/// let mut series = vec![100.0; 20];
/// series.extend([3.0, 4.0].repeat(100));
/// assert_eq!(mser5(&series), Truncation::At(20));
/// assert_eq!(mser5(&series[..45]), Truncation::TooShort);
/// ```
#[must_use]
pub fn mser5(series: &[f64]) -> Truncation {
    let batches: Vec<f64> = series.chunks_exact(BATCH).map(|batch| batch.iter().sum::<f64>() / BATCH as f64).collect();
    let n = batches.len();
    if n < BATCHES_MIN {
        return Truncation::TooShort;
    }
    // From the back, each batch joins a running mean and sum of squares (Welford): differences of large sums of squares
    // would cancel.
    let (mut mean, mut squares) = (0.0_f64, 0.0_f64);
    let mut best = (f64::INFINITY, n);
    for (cut, &batch) in batches.iter().enumerate().rev() {
        let kept = (n - cut) as f64;
        let step = batch - mean;
        mean += step / kept;
        squares += step * (batch - mean);
        let score = squares / (kept * kept);
        if n - cut >= TAIL_BATCHES && score <= best.0 {
            best = (score, cut);
        }
    }
    if best.1 > n / 2 { Truncation::TooShort } else { Truncation::At(best.1 * BATCH) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::{Purpose, Stream};

    /// A first-order autoregressive series around 100 with coefficient 0.5, plus a transient that falls from `height`
    /// by a factor e every `decay` observations.
    fn series(seed: u64, n: usize, height: f64, decay: f64) -> Vec<f64> {
        let mut stream = Stream::new(seed, Purpose::Jitter, 0);
        let mut state = 0.0;
        (0..n)
            .map(|i| {
                let noise = (0..12).map(|_| stream.unit()).sum::<f64>() - 6.0;
                state = 0.5 * state + noise;
                100.0 + state + height * (-(i as f64) / decay).exp()
            })
            .collect()
    }

    fn cut(series: &[f64]) -> usize {
        match mser5(series) {
            Truncation::At(cut) => cut,
            Truncation::TooShort => panic!("too short"),
        }
    }

    #[test]
    fn finds_the_end_of_a_transient() {
        // The transient is 40 standard deviations high and sinks below one of them after 50 * ln(40) = 184 observations.
        for seed in 0..20 {
            let cut = cut(&series(seed, 2_000, 46.0, 50.0));
            assert!((120..=320).contains(&cut), "seed {seed}: cut at {cut}");
        }
    }

    #[test]
    fn removes_the_bias_of_the_mean() {
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        for seed in 0..20 {
            let values = series(seed, 2_000, -46.0, 50.0);
            let kept = mean(&values[cut(&values)..]);
            assert!((kept - 100.0).abs() < 0.25, "seed {seed}: {kept}");
            assert!((mean(&values) - 100.0).abs() > 0.9, "the uncut mean of seed {seed} is biased");
        }
    }

    #[test]
    fn leaves_a_stationary_series_nearly_whole() {
        let cuts: Vec<usize> = (0..50).map(|seed| cut(&series(seed, 2_000, 0.0, 1.0))).collect();
        let early = cuts.iter().filter(|&&cut| cut <= 200).count();
        assert!(early >= 40, "{cuts:?}");
    }

    #[test]
    fn a_lasting_trend_is_too_short() {
        let trend: Vec<f64> = (0..500).map(f64::from).collect();
        assert_eq!(mser5(&trend), Truncation::TooShort);
        assert_eq!(mser5(&series(1, 300, 2_000.0, 80.0)), Truncation::TooShort);
    }

    #[test]
    fn small_and_constant_series() {
        assert_eq!(mser5(&[]), Truncation::TooShort);
        assert_eq!(mser5(&[1.0; 49]), Truncation::TooShort);
        assert_eq!(mser5(&[1.0; 50]), Truncation::At(0));
        assert_eq!(mser5(&[0.1; 500]), Truncation::At(0));
        assert_eq!(mser5(&[f64::NAN; 500]), Truncation::TooShort);
    }

    #[test]
    fn scores_match_the_definition() {
        // The same search, written straight from the formula.
        for seed in 0..10 {
            let values = series(seed, 403, 9.0, 20.0);
            let batches: Vec<f64> = values.chunks_exact(5).map(|batch| batch.iter().sum::<f64>() / 5.0).collect();
            let score = |cut: usize| {
                let rest = &batches[cut..];
                let mean = rest.iter().sum::<f64>() / rest.len() as f64;
                rest.iter().map(|y| (y - mean).powi(2)).sum::<f64>() / (rest.len() as f64).powi(2)
            };
            let best = (0..=batches.len() - 5).min_by(|&a, &b| score(a).total_cmp(&score(b))).unwrap();
            assert!(best <= batches.len() / 2);
            assert_eq!(mser5(&values), Truncation::At(5 * best));
        }
    }
}
