//! An axis: where a value lies along it, and its ticks.

use super::Scale;

/// A tick of an axis: a value and its label.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tick {
    pub(super) value: f64,
    pub(super) label: String,
}

/// A range of values laid out along a line.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Axis {
    scale: Scale,
    low: f64,
    high: f64,
    pub(super) ticks: Vec<Tick>,
    /// Ticks are words rather than numbers: their letters become smaller before one is left out, for the others do not tell what it was.
    pub(super) is_words: bool,
}

/// Room on each side of the outermost values, as a part of the whole axis.
const PADDING: f64 = 0.06;

/// The most places that are ticks: with more the labels would be grey.
const PLACES_MAX: usize = 24;

impl Axis {
    /// An axis over the places where points stand, all of which the scale can show. They are its ticks, so that each can be read off;
    /// round numbers are where they are too many.
    pub(super) fn of_places(scale: Scale, places: impl IntoIterator<Item = f64>) -> Self {
        let mut places: Vec<f64> = places.into_iter().collect();
        places.sort_by(f64::total_cmp);
        let (low, high) = places.first().copied().zip(places.last().copied()).unwrap_or((1.0, 1.0));
        let axis = Self::of_range(scale, low, high);
        let mut ticks: Vec<Tick> = places.into_iter().map(|value| Tick { value, label: plain(value) }).collect();
        ticks.dedup_by(|next, tick| next.label == tick.label);
        if ticks.len() > PLACES_MAX { axis } else { Self { ticks, ..axis } }
    }

    /// An axis of words, the first at 0, the next at 1, and so on.
    pub(super) fn of_words(words: &[String]) -> Self {
        let ticks: Vec<Tick> =
            (0..).zip(words).map(|(place, word)| Tick { value: f64::from(place), label: word.clone() }).collect();
        let high = ticks.last().map_or(0.0, |tick| tick.value) + 0.5;
        Self { scale: Scale::Linear, low: -0.5, high, ticks, is_words: true }
    }

    /// An axis from `low` to `high`, both of which the scale can show, with ticks at round numbers.
    pub(super) fn of_range(scale: Scale, low: f64, high: f64) -> Self {
        let (low, high) = padded(scale, (low, high));
        let values = match scale {
            Scale::Linear => linear_ticks(low, high),
            Scale::Log => log_ticks(low, high),
        };
        let ticks = values.into_iter().map(|value| Tick { value, label: plain(value) }).collect();
        Self { scale, low, high, ticks, is_words: false }
    }

    /// How far along the axis a value lies: 0 at its start, 1 at its end. A value beyond the axis is put on its end.
    pub(super) fn position(&self, value: f64) -> f64 {
        let along = |value: f64| match self.scale {
            Scale::Linear => value,
            Scale::Log => value.max(f64::MIN_POSITIVE).ln(),
        };
        let (low, high) = (along(self.low), along(self.high));
        ((along(value) - low) / (high - low)).clamp(0.0, 1.0)
    }
}

/// Values that differ by less, relative to themselves, differ by rounding alone.
const ROUNDING: f64 = 1e-6;

/// The ends with some room outside; a single value gets a unit of the scale on both sides.
fn padded(scale: Scale, (low, high): (f64, f64)) -> (f64, f64) {
    let is_single = high - low <= ROUNDING * low.abs().max(high.abs());
    match scale {
        Scale::Log => {
            let factor = if is_single { 2.0 } else { (high / low).powf(PADDING) };
            (low / factor, high * factor)
        }
        Scale::Linear => {
            let room = if is_single { (low.abs() * 0.5).max(1.0) } else { (high - low) * PADDING };
            // Zero is a natural end: an axis of amounts does not begin below it.
            (if low >= 0.0 { (low - room).max(0.0) } else { low - room }, high + room)
        }
    }
}

/// 1, 2 and 5 times the powers of ten, or more steps of each decade where these are too few to read values off.
fn log_ticks(low: f64, high: f64) -> Vec<f64> {
    const STEPS: [&[f64]; 3] = [&[1.0, 2.0, 5.0], &[1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0], &[1.0]];
    let within = |steps: &[f64]| {
        let decades = power(low)..=power(high);
        let ticks = decades.flat_map(|exponent| steps.iter().map(move |step| step * 10_f64.powi(exponent)));
        ticks.filter(|tick| (low..=high).contains(tick)).collect::<Vec<f64>>()
    };
    let usual = within(STEPS[0]);
    match usual.len() {
        0..=2 => {
            let finer = within(STEPS[1]);
            // Within a small factor even these are too far apart, and the scale is nearly linear.
            if finer.len() < 3 { linear_ticks(low, high) } else { finer }
        }
        3..=10 => usual,
        _ => within(STEPS[2]),
    }
}

/// The exponent of the power of ten at or below `value`.
fn power(value: f64) -> i32 {
    // The exponent of a finite positive f64 lies between -324 and 308.
    format!("{value:e}").rsplit('e').next().and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// Three to ten multiples of 1, 2 or 5 times a power of ten.
fn linear_ticks(low: f64, high: f64) -> Vec<f64> {
    let rough = (high - low) / 5.0;
    let unit = 10_f64.powi(power(rough));
    let step = [1.0, 2.0, 5.0, 10.0].map(|multiple| multiple * unit).into_iter().find(|step| *step >= rough * 0.6);
    let step = step.unwrap_or(unit * 10.0);
    // Multiples are counted rather than added up, so that rounding errors do not grow.
    let first = (low / step).ceil();
    (0..20).map(|idx| (first + f64::from(idx)) * step).take_while(|tick| *tick <= high).collect()
}

/// A number as people write it: no exponent for everyday sizes, no trailing zeros, no rounding dust.
fn plain(value: f64) -> String {
    if value != 0.0 && !(1e-4..1e7).contains(&value.abs()) {
        return format!("{value:e}");
    }
    let text = format!("{value:.6}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn labels(axis: &Axis) -> Vec<&str> {
        axis.ticks.iter().map(|tick| tick.label.as_str()).collect()
    }

    #[test]
    fn values_that_differ_by_rounding_are_one() {
        for scale in [Scale::Linear, Scale::Log] {
            let value = 200.0_f64;
            let axis = Axis::of_range(scale, value, value.next_up());
            assert!(axis.position(value) > 0.1 && axis.position(value.next_up()) < 0.9, "{axis:?}");
            assert!((2..=10).contains(&axis.ticks.len()), "{axis:?}");
            assert!(axis.ticks.windows(2).all(|pair| pair[0].label != pair[1].label), "{axis:?}");
        }
    }

    #[test]
    fn a_grid_is_its_own_ticks() {
        let axis = Axis::of_places(Scale::Log, [64.0, 1.0, 3.0, 1.0]);
        assert_eq!(labels(&axis), ["1", "3", "64"]);
        let places: Vec<f64> = [1.0, 8.0, 64.0].map(|value| axis.position(value)).to_vec();
        assert!(((places[0] + places[2]) / 2.0 - places[1]).abs() < 1e-12, "equal factors take equal room");
        assert!(places[0] > 0.02 && places[2] < 0.98);
    }

    #[test]
    fn thresholds_are_whole_numbers_and_many_places_are_round_ones() {
        assert_eq!(labels(&Axis::of_places(Scale::Linear, [1.0, 2.0, 3.0, 4.0])), ["1", "2", "3", "4"]);
        assert_eq!(labels(&Axis::of_places(Scale::Linear, [0.1, 0.35])), ["0.1", "0.35"]);
        let many = Axis::of_places(Scale::Linear, (0..100).map(f64::from));
        assert_eq!(labels(&many), ["0", "20", "40", "60", "80", "100"]);
    }

    #[test]
    fn words_stand_in_their_order_with_equal_room() {
        let axis = Axis::of_words(&["eager", "delayed"].map(str::to_owned));
        assert_eq!(labels(&axis), ["eager", "delayed"]);
        assert_eq!([0.0, 1.0].map(|place| axis.position(place)), [0.25, 0.75]);
        assert!((Axis::of_words(&["alone".to_owned()]).position(0.0) - 0.5).abs() < 1e-12);
    }

    #[test]
    fn one_value_lies_in_the_middle() {
        assert!((Axis::of_places(Scale::Log, [8.0]).position(8.0) - 0.5).abs() < 1e-12);
        assert!((Axis::of_range(Scale::Log, 50.0, 50.0).position(50.0) - 0.5).abs() < 1e-12);
        assert!((Axis::of_range(Scale::Linear, 50.0, 50.0).position(50.0) - 0.5).abs() < 1e-12);
    }

    #[test]
    fn ticks_are_round_plain_numbers() {
        let log = |low, high| labels(&Axis::of_range(Scale::Log, low, high)).join(" ");
        assert_eq!(log(30.0, 2000.0), "50 100 200 500 1000 2000");
        assert_eq!(log(300.0, 900.0), "300 400 500 700");
        assert_eq!(log(0.004, 0.9), "0.005 0.01 0.02 0.05 0.1 0.2 0.5 1");
        assert_eq!(log(1.0, 1.0e9), "1 10 100 1000 10000 100000 1000000 1e7 1e8 1e9");
        assert_eq!(log(100.0, 104.0), "100 101 102 103 104");
        let linear = |low, high| labels(&Axis::of_range(Scale::Linear, low, high)).join(" ");
        assert_eq!(linear(0.0, 1.0), "0 0.2 0.4 0.6 0.8 1");
        assert_eq!(linear(31.0, 1990.0), "0 500 1000 1500 2000");
        assert_eq!(linear(-0.1, 0.1), "-0.1 -0.05 0 0.05 0.1");
    }

    #[test]
    fn values_beyond_the_axis_are_put_on_its_end() {
        let axis = Axis::of_range(Scale::Log, 10.0, 100.0);
        assert_eq!([-5.0, 0.0, 1.0, 1e9].map(|value| axis.position(value)), [0.0, 0.0, 0.0, 1.0]);
    }

    proptest! {
        #[test]
        fn every_axis_has_a_few_rising_ticks_within(low in 1e-6..1e6_f64, factor in 1.0..1e4_f64, log in any::<bool>()) {
            let scale = if log { Scale::Log } else { Scale::Linear };
            let axis = Axis::of_range(scale, low, low * factor);
            prop_assert!((2..=12).contains(&axis.ticks.len()), "{:?}", axis.ticks);
            prop_assert!(axis.ticks.windows(2).all(|pair| pair[0].value < pair[1].value && pair[0].label != pair[1].label), "{:?}", axis.ticks);
            prop_assert!(axis.ticks.iter().all(|tick| tick.value >= axis.low && tick.value <= axis.high));
        }

        #[test]
        fn positions_rise_with_values(low in 1e-3..1e3_f64, factor in 1.0..1e3_f64, a in 0.0..1.0_f64, b in 0.0..1.0_f64) {
            for scale in [Scale::Log, Scale::Linear] {
                let axis = Axis::of_range(scale, low, low * factor);
                let at = |part: f64| axis.position(low * (1.0 + (factor - 1.0) * part));
                prop_assert!((a <= b) == (at(a) <= at(b)) || (at(a) - at(b)).abs() < 1e-9);
                prop_assert!((0.0..=1.0).contains(&at(a)));
            }
        }
    }
}
