//! Where text goes so that it does not overlap.

/// The places of labels of one size along an axis: as close to where they are wanted as they can be (least squares)
/// while every two are at least `gap` apart and all lie between `low` and `high`. `wanted` must be in rising order, and
/// so is the answer. If the room is too small for the gap, the labels share it evenly.
pub(super) fn spread(wanted: &[f64], gap: f64, low: f64, high: f64) -> Vec<f64> {
    let n_gaps = count(wanted.len().saturating_sub(1));
    let room = (high - low).max(0.0);
    let gap = if n_gaps > 0.0 { gap.min(room / n_gaps) } else { 0.0 };
    // With the gaps taken out, "at least a gap apart" reads "not falling": an isotonic regression. Pooling adjacent
    // violators solves it, and cutting its solution off at the bounds keeps it optimal.
    let mut pools: Vec<(f64, usize)> = Vec::new();
    for (idx, &place) in wanted.iter().enumerate() {
        pools.push((place - count(idx) * gap, 1));
        while let [.., (before, n_before), (last, n_last)] = pools[..] {
            if before <= last {
                break;
            }
            let n = n_before + n_last;
            let mean = (before * count(n_before) + last * count(n_last)) / count(n);
            pools.truncate(pools.len() - 2);
            pools.push((mean, n));
        }
    }
    let places = pools.iter().flat_map(|&(place, n)| std::iter::repeat_n(place, n));
    places.enumerate().map(|(idx, place)| place.clamp(low, (high - n_gaps * gap).max(low)) + count(idx) * gap).collect()
}

/// Which of the labels with these centres and widths to print so that none touches another: the first, and then each
/// that is `gap` away from the last one printed.
pub(super) fn thin(centres: &[f64], widths: &[f64], gap: f64) -> Vec<bool> {
    let mut end = f64::NEG_INFINITY;
    let labels = centres.iter().zip(widths);
    labels
        .map(|(centre, width)| {
            let fits = centre - width / 2.0 >= end + gap;
            if fits {
                end = centre + width / 2.0;
            }
            fits
        })
        .collect()
}

/// The places of items that follow each other like words: how far from the left, and on which line.
pub(super) fn flow(widths: &[f64], gap: f64, line_width: f64) -> Vec<(f64, usize)> {
    let (mut x, mut line_idx) = (0.0, 0);
    let mut places = Vec::new();
    for &width in widths {
        if x > 0.0 && x + width > line_width {
            (x, line_idx) = (0.0, line_idx + 1);
        }
        places.push((x, line_idx));
        x += width + gap;
    }
    places
}

fn count(n: usize) -> f64 {
    f64::from(u32::try_from(n).expect("a figure has fewer than 2^32 labels"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn labels_that_fit_stay() {
        assert_eq!(spread(&[10.0, 30.0, 90.0], 15.0, 0.0, 100.0), [10.0, 30.0, 90.0]);
        assert_eq!(spread(&[], 15.0, 0.0, 100.0), [0.0; 0]);
        assert_eq!(spread(&[50.0], 15.0, 0.0, 100.0), [50.0]);
    }

    #[test]
    fn equal_wishes_are_spread_around_their_mean() {
        assert_eq!(spread(&[50.0, 50.0, 50.0], 10.0, 0.0, 100.0), [40.0, 50.0, 60.0]);
        assert_eq!(spread(&[0.0, 0.0], 10.0, 0.0, 100.0), [0.0, 10.0]);
        assert_eq!(spread(&[99.0, 100.0], 10.0, 0.0, 100.0), [90.0, 100.0]);
    }

    #[test]
    fn too_many_labels_share_the_room() {
        assert_eq!(spread(&[5.0, 5.0, 5.0], 80.0, 0.0, 100.0), [0.0, 50.0, 100.0]);
        assert_eq!(spread(&[5.0, 5.0], 80.0, 10.0, 10.0), [10.0, 10.0]);
    }

    proptest! {
        #[test]
        fn labels_never_overlap(
            mut wanted in prop::collection::vec(-50.0..450.0_f64, 0..20),
            gap in 0.0..18.0_f64,
        ) {
            wanted.sort_by(f64::total_cmp);
            let places = spread(&wanted, gap, 0.0, 400.0);
            prop_assert_eq!(places.len(), wanted.len());
            prop_assert!(places.windows(2).all(|pair| pair[1] - pair[0] >= gap - 1e-9), "{:?}", places);
            prop_assert!(places.iter().all(|&place| (-1e-9..=400.0 + 1e-9).contains(&place)), "{:?}", places);
        }

        /// No other admissible arrangement is closer: moving any run of labels by a little makes it worse.
        #[test]
        fn labels_stay_as_close_as_they_can(
            mut wanted in prop::collection::vec(0.0..400.0_f64, 1..8),
            start in 0..8_usize, n in 1..8_usize, shift in -3.0..3.0_f64,
        ) {
            wanted.sort_by(f64::total_cmp);
            let (gap, low, high) = (20.0, 0.0, 400.0);
            let places = spread(&wanted, gap, low, high);
            let mut moved = places.clone();
            moved.iter_mut().skip(start).take(n).for_each(|place| *place += shift);
            let admissible = moved.windows(2).all(|pair| pair[1] - pair[0] >= gap)
                && moved.iter().all(|place| (low..=high).contains(place));
            let cost = |places: &[f64]| places.iter().zip(&wanted).map(|(a, b)| (a - b).powi(2)).sum::<f64>();
            prop_assert!(!admissible || cost(&moved) >= cost(&places) - 1e-6);
        }

        #[test]
        fn printed_ticks_never_touch(mut centres in prop::collection::vec(0.0..400.0_f64, 0..30), width in 1.0..30.0_f64) {
            centres.sort_by(f64::total_cmp);
            let printed = thin(&centres, &vec![width; centres.len()], 4.0);
            let kept: Vec<f64> = centres.iter().zip(&printed).filter(|(_, kept)| **kept).map(|(c, _)| *c).collect();
            prop_assert_eq!(kept.is_empty(), centres.is_empty());
            prop_assert!(kept.windows(2).all(|pair| pair[1] - pair[0] >= width + 4.0 - 1e-9));
        }

        #[test]
        fn words_stay_within_the_line(widths in prop::collection::vec(1.0..200.0_f64, 0..20)) {
            let places = flow(&widths, 12.0, 300.0);
            for (&(x, _), width) in places.iter().zip(&widths) {
                prop_assert!(x + width <= 300.0);
            }
            for (pair, width) in places.windows(2).zip(&widths) {
                let same_line = pair[0].1 == pair[1].1;
                let follows = same_line && pair[1].0 >= pair[0].0 + width + 12.0 - 1e-9;
                prop_assert!(follows || pair[1] == (0.0, pair[0].1 + 1));
            }
        }
    }
}
