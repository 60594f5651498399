use super::*;
use crate::rng::Purpose;
use proptest::prelude::*;

fn draws(lengths: &Lengths, n: u64) -> Vec<u32> {
    (0..n).map(|idx| lengths.draw(idx, &mut Stream::new(3, Purpose::Length, idx))).collect()
}

fn sample_mean_and_cv(lengths: &Lengths, n: u64) -> (f64, f64) {
    let values: Vec<f64> = draws(lengths, n).into_iter().map(f64::from).collect();
    let mean = values.iter().sum::<f64>() / n as f64;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1) as f64;
    (mean, variance.sqrt() / mean)
}

#[test]
fn a_lognormal_has_the_mean_and_cv_asked_for() {
    // With 100 000 draws the standard error of the mean is cv / 316, that of the cv below 1 % up to a cv of 1.
    for (mean, cv) in [(100.0, 0.5), (2_048.0, 0.3), (2_048.0, 1.0), (37.5, 0.8)] {
        let (sample_mean, sample_cv) = sample_mean_and_cv(&Lengths::lognormal(mean, cv).unwrap(), 100_000);
        assert!((sample_mean / mean - 1.0).abs() < 0.01, "mean {sample_mean}, asked for {mean}");
        assert!((sample_cv / cv - 1.0).abs() < 0.03, "cv {sample_cv}, asked for {cv}");
    }
}

#[test]
fn the_median_of_a_lognormal_is_below_its_mean() {
    // Median = mean / sqrt(1 + cv^2) = 100 / sqrt(2).
    let mut values = draws(&Lengths::lognormal(100.0, 1.0).unwrap(), 20_001);
    values.sort_unstable();
    assert!((69..=73).contains(&values[10_000]), "median {}", values[10_000]);
}

#[test]
fn the_stated_mean_is_that_of_the_draws() {
    // Small means are where rounding and the least length of 1 count; (400, 5) is beyond the summed range.
    for (mean, cv) in [(1.0, 1.0), (1.5, 0.5), (3.0, 2.0), (100.0, 0.5), (400.0, 5.0)] {
        let lengths = Lengths::lognormal(mean, cv).unwrap();
        let (sample_mean, sample_cv) = sample_mean_and_cv(&lengths, 200_000);
        let standard_error = sample_mean * sample_cv / 200_000_f64.sqrt();
        assert!((lengths.mean() - sample_mean).abs() < 4.0 * standard_error, "{} {sample_mean}", lengths.mean());
    }
    assert_eq!(Lengths::Uniform { low: 50, high: 151 }.mean(), 100.5);
    assert_eq!(Lengths::Recorded(vec![1, 2, 6]).mean(), 3.0);
    assert_eq!(Lengths::Constant(9).mean(), 9.0);
}

#[test]
fn the_two_ways_to_the_mean_agree_where_they_meet() {
    // Bounds of 65 529 and 65 541 tokens: just inside and just outside the summed range.
    let bound_over_mean = f64::from(Lengths::lognormal(10_000.0, 1.0).unwrap().max()) / 10_000.0;
    let ratio = |bound: f64| {
        let mean = bound / bound_over_mean;
        Lengths::lognormal(mean, 1.0).unwrap().mean() / mean
    };
    assert!((ratio(65_500.0) - ratio(65_600.0)).abs() < 1e-6);
    assert!((ratio(65_500.0) - 0.99926).abs() < 1e-4, "{}", ratio(65_500.0));
}

#[test]
fn a_cv_of_0_is_a_constant() {
    let lengths = Lengths::lognormal(41.6, 0.0).unwrap();
    assert_eq!(draws(&lengths, 5), [42; 5]);
    assert_eq!((lengths.max(), lengths.mean()), (42, 42.0));
}

#[test]
fn the_bound_of_a_lognormal_is_four_deviations_up() {
    // deviation^2 = ln 1.25, location = ln 100 - deviation^2 / 2: exp(4.493598 + 4 * 0.472381) = 591.8.
    assert_eq!(Lengths::lognormal(100.0, 0.5).unwrap().max(), 592);
}

#[test]
fn uniform_lengths_are_equally_likely_and_reach_both_ends() {
    let mut counts = [0_u32; 6];
    for tokens in draws(&Lengths::uniform(3, 8).unwrap(), 60_000) {
        counts[tokens as usize - 3] += 1;
    }
    // 10 000 each with a standard deviation of 91.
    assert!(counts.iter().all(|count| count.abs_diff(10_000) < 400), "{counts:?}");
}

#[test]
fn recorded_lengths_are_taken_in_turn() {
    assert_eq!(draws(&Lengths::recorded(vec![5, 7, 9]).unwrap(), 7), [5, 7, 9, 5, 7, 9, 5]);
    let mut stream = Stream::new(3, Purpose::Length, 0);
    assert_eq!(Lengths::recorded(vec![5, 7, 9]).unwrap().draw(u64::MAX, &mut stream), 5);
}

#[test]
fn refuses_what_cannot_be_drawn() {
    let text = |result: Result<Lengths, LengthsError>| result.unwrap_err().to_string();
    assert_eq!(text(Lengths::constant(0)), "the constant length is 0, expected a whole number from 1 to 16777216");
    assert_eq!(
        text(Lengths::uniform(0, 4)),
        "the lower bound of `uniform` is 0, expected a whole number from 1 to 16777216"
    );
    assert_eq!(
        text(Lengths::uniform(1, u32::MAX)),
        "the upper bound of `uniform` is 4294967295, expected a whole number from 1 to 16777216"
    );
    assert_eq!(text(Lengths::uniform(150, 50)), "`uniform` is [150, 50], expected the lower bound first");
    assert_eq!(
        text(Lengths::lognormal(0.5, 0.5)),
        "`mean` of `lognormal` is 0.5, expected a number from 1 to 16777216"
    );
    assert_eq!(
        text(Lengths::lognormal(f64::NAN, 0.5)),
        "`mean` of `lognormal` is NaN, expected a number from 1 to 16777216"
    );
    assert_eq!(text(Lengths::lognormal(100.0, -1.0)), "`cv` of `lognormal` is -1, expected a number from 0 to 10");
    assert_eq!(
        text(Lengths::lognormal(1e7, 0.5)),
        "`lognormal` with `mean` 10000000 and `cv` 0.5 reaches 59177194 tokens, expected at most 16777216: lower one of them"
    );
    assert_eq!(text(Lengths::recorded(vec![])), "the list of recorded lengths is empty, expected at least one");
    assert_eq!(
        text(Lengths::recorded(vec![4, 0])),
        "recorded length 1 is 0, expected a whole number from 1 to 16777216"
    );
}

/// Any value at all, sensible or not.
fn any_lengths() -> impl Strategy<Value = Lengths> {
    prop_oneof![
        any::<u32>().prop_map(Lengths::Constant),
        (any::<f64>(), any::<f64>()).prop_map(|(mean, cv)| Lengths::Lognormal { mean, cv }),
        (1.0..10_000.0, 0.0..3.0).prop_map(|(mean, cv)| Lengths::Lognormal { mean, cv }),
        (any::<u32>(), any::<u32>()).prop_map(|(low, high)| Lengths::Uniform { low, high }),
        prop::collection::vec(any::<u32>(), 0..4).prop_map(Lengths::Recorded),
    ]
}

proptest! {
    #[test]
    fn draws_are_never_0_nor_beyond_the_maximum(lengths in any_lengths(), seed: u64, request_idx: u64) {
        let tokens = lengths.draw(request_idx, &mut Stream::new(seed, Purpose::Length, request_idx));
        prop_assert!((1..=lengths.max()).contains(&tokens), "{} of {}", tokens, lengths.max());
        if lengths.validate().is_ok() {
            prop_assert!(lengths.max() <= TOKENS_MAX);
            prop_assert!((1.0..=f64::from(lengths.max())).contains(&lengths.mean()), "mean {}", lengths.mean());
        }
    }

    #[test]
    fn every_kind_takes_one_number_from_the_stream(lengths in any_lengths(), seed: u64) {
        let mut stream = Stream::new(seed, Purpose::Length, 0);
        let mut reference = stream.clone();
        let _ = lengths.draw(0, &mut stream);
        let _ = reference.unit();
        prop_assert_eq!(stream.next_u32(), reference.next_u32());
    }

    #[test]
    fn longer_distributions_give_longer_lengths(seed: u64, mean in 1.0..5_000.0, cv in 0.0..2.0, factor in 1.0..4.0) {
        let draw = |mean: f64| Lengths::Lognormal { mean, cv }.draw(0, &mut Stream::new(seed, Purpose::Length, 0));
        prop_assert!(draw(mean) <= draw(mean * factor));
    }
}
