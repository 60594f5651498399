//! How much two models on one device slow each other down.

use handoff_scheduler::ModelIdx;

use super::interpolate::{bracket, lerp};
use super::{CorunPoint, LookupError, ParameterError, Profile};

/// The speed of each model's steps while another model's step runs on the same device: 1 is full speed.
///
/// It depends on the new tokens of both steps. Nearly all of a forward are matrix products over its tokens, which run the same kernels whether
/// the tokens are 16 decodes or an extend over 16; how much of the device such a kernel leaves to others changes with its size, and jumps where
/// a model changes from one kind of kernel to another.
///
/// ```
/// use handoff_scheduler::ModelIdx;
/// use handoff_sim::cost::CorunRates;
/// let rates = CorunRates::constant([0.41, 0.89])?;
/// assert_eq!(rates.rate(ModelIdx(0), 4, ModelIdx(1), 1), 0.41);
/// # Ok::<(), handoff_sim::cost::ParameterError>(())
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct CorunRates {
    n_models: usize,
    /// By model, then by peer; `None` on the diagonal.
    pairs: Vec<Option<Pair>>,
}

/// A co-run rate and how well it is known.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CorunRate {
    /// Progress of the step per time, above 0 and at most 1.
    pub rate: f64,
    /// Whether one of the batches is smaller or larger than all that were measured. Always false for constant rates.
    pub extrapolated: bool,
}

impl CorunRates {
    /// The same rate for every batch: `rates[0]` for model 0 beside model 1, and `rates[1]` for model 1 beside model 0.
    ///
    /// # Errors
    /// If a rate is not above 0 and at most 1.
    pub fn constant(rates: [f64; 2]) -> Result<Self, ParameterError> {
        for rate in rates {
            if !(rate > 0.0 && rate <= 1.0) {
                let expected = "a number above 0 and at most 1";
                return Err(ParameterError { field: "corun", value: rate, expected });
            }
        }
        let [first, second] = rates.map(|rate| Some(Pair::Constant(rate)));
        Ok(Self { n_models: 2, pairs: vec![None, first, second, None] })
    }

    /// The rates that `profile` measured on `device` (`None`: its only one), between any two of `models`, each given as
    /// its name and its graph setting.
    ///
    /// Rates are measured with decodes, whose rows are their tokens. Measured points rarely fill a grid. A pair that was not measured takes
    /// the rate of the point nearest in log2(tokens) and log2(peer tokens), the mean if several are equally near; in between, rates are
    /// interpolated bilinearly.
    ///
    /// # Errors
    /// If a pair was not measured in both directions.
    pub fn from_profile(profile: &Profile, device: Option<&str>, models: &[(&str, bool)]) -> Result<Self, LookupError> {
        let device = profile.device(device)?;
        let mut pairs = Vec::with_capacity(models.len() * models.len());
        for (idx, &(model, graph)) in models.iter().enumerate() {
            for (peer_idx, &(peer_model, _)) in models.iter().enumerate() {
                if idx == peer_idx {
                    pairs.push(None);
                    continue;
                }
                let points: Vec<&CorunPoint> = (profile.coruns().iter())
                    .filter(|point| point.device == device && point.model == model && point.graph == graph)
                    .filter(|point| point.peer_model == peer_model)
                    .collect();
                if points.is_empty() {
                    return Err(LookupError::NoCorunRows {
                        file: profile.name().to_owned(),
                        device: device.to_owned(),
                        model: model.to_owned(),
                        graph,
                        peer_model: peer_model.to_owned(),
                        known: measured_pairs(profile, device),
                    });
                }
                pairs.push(Some(Pair::Measured(Grid::new(&points))));
            }
        }
        Ok(Self { n_models: models.len(), pairs })
    }

    /// The speed of a step of `model` over `tokens` new tokens while a step of `peer` over `peer_tokens` runs.
    ///
    /// # Panics
    /// As [`CorunRates::lookup`].
    #[inline]
    #[must_use]
    pub fn rate(&self, model: ModelIdx, tokens: u32, peer: ModelIdx, peer_tokens: u32) -> f64 {
        self.lookup(model, tokens, peer, peer_tokens).rate
    }

    /// As [`CorunRates::rate`], and whether the rate was measured at such batches.
    ///
    /// # Panics
    /// If the two models are the same or one of them was not there when the rates were made.
    #[inline]
    #[must_use]
    pub fn lookup(&self, model: ModelIdx, tokens: u32, peer: ModelIdx, peer_tokens: u32) -> CorunRate {
        assert!(model.idx() < self.n_models && peer.idx() < self.n_models, "rates exist for every model of the run");
        let pair = self.pairs[model.idx() * self.n_models + peer.idx()].as_ref();
        match pair.expect("a model runs one step at a time, so never beside itself") {
            Pair::Constant(rate) => CorunRate { rate: *rate, extrapolated: false },
            Pair::Measured(grid) => grid.at(f64::from(tokens), f64::from(peer_tokens)),
        }
    }
}

#[derive(Clone, PartialEq, Debug)]
enum Pair {
    Constant(f64),
    Measured(Grid),
}

/// A full grid over tokens and peer tokens, both ascending; where it was measured, those are rows.
#[derive(Clone, PartialEq, Debug)]
struct Grid {
    rows: Vec<f64>,
    peer_rows: Vec<f64>,
    /// One row of `peer_rows.len()` rates per row count.
    rates: Vec<f64>,
}

impl Grid {
    fn new(points: &[&CorunPoint]) -> Self {
        let axis = |count: fn(&CorunPoint) -> u32| -> Vec<u32> {
            let mut axis: Vec<u32> = points.iter().map(|point| count(point)).collect();
            axis.sort_unstable();
            axis.dedup();
            axis
        };
        let (rows, peer_rows) = (axis(|point| point.rows), axis(|point| point.peer_rows));
        let rates = rows
            .iter()
            .flat_map(|&rows| peer_rows.iter().map(move |&peer_rows| nearest_rate(points, rows, peer_rows)))
            .collect();
        let to_floats = |axis: Vec<u32>| axis.into_iter().map(f64::from).collect();
        Self { rows: to_floats(rows), peer_rows: to_floats(peer_rows), rates }
    }

    #[inline]
    fn at(&self, tokens: f64, peer_tokens: f64) -> CorunRate {
        let n_peer_rows = self.peer_rows.len();
        let (idx, weight) = bracket(&self.rows, tokens);
        let (peer_idx, peer_weight) = bracket(&self.peer_rows, peer_tokens);
        let mut rate = lerp(&self.rates[idx * n_peer_rows..], peer_idx, peer_weight);
        if weight != 0.0 {
            let next_rate = lerp(&self.rates[(idx + 1) * n_peer_rows..], peer_idx, peer_weight);
            rate += (next_rate - rate) * weight;
        }
        let is_outside = |axis: &[f64], x: f64| x < axis[0] || x > axis[axis.len() - 1];
        let extrapolated = is_outside(&self.rows, tokens) || is_outside(&self.peer_rows, peer_tokens);
        CorunRate { rate, extrapolated }
    }
}

fn nearest_rate(points: &[&CorunPoint], rows: u32, peer_rows: u32) -> f64 {
    let octaves = |a: u32, b: u32| f64::from(a).log2() - f64::from(b).log2();
    let distance = |point: &CorunPoint| octaves(point.rows, rows).hypot(octaves(point.peer_rows, peer_rows));
    let least = points.iter().map(|point| distance(point)).fold(f64::INFINITY, f64::min);
    // Distances that are equal on paper may differ in their last bits.
    let near = points.iter().filter(|point| distance(point) <= least + 1e-9);
    let (sum, n) = near.fold((0.0, 0.0), |(sum, n), point| (sum + point.rate, n + 1.0));
    sum / n
}

/// The measured pairs of a device, for an error.
fn measured_pairs(profile: &Profile, device: &str) -> String {
    let mut pairs: Vec<String> = (profile.coruns().iter())
        .filter(|point| point.device == device)
        .map(|point| format!("`{}` (graph = {}) beside `{}`", point.model, point.graph, point.peer_model))
        .collect();
    pairs.sort_unstable();
    pairs.dedup();
    if pairs.is_empty() { "none".to_owned() } else { pairs.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: ModelIdx = ModelIdx(0);
    const LARGE: ModelIdx = ModelIdx(1);

    /// `rows,peer_rows,rate` of the small model beside the large one; the large one has rate 0.9 at (1, 1) only.
    fn profile(points: &[(u32, u32, f64)]) -> Profile {
        let mut text = super::super::COLUMNS.join(",");
        for (rows, peer_rows, rate) in points {
            text += &format!("\nH200,small,corun,true,{rows},,,large,{peer_rows},{rate},,,,");
        }
        text += "\nH200,large,corun,false,1,,,small,1,0.9,,,,";
        Profile::parse(text.as_bytes(), "p.csv").unwrap()
    }

    fn rates(points: &[(u32, u32, f64)]) -> CorunRates {
        CorunRates::from_profile(&profile(points), None, &[("small", true), ("large", false)]).unwrap()
    }

    #[test]
    fn constants_hold_for_every_batch() {
        let rates = CorunRates::constant([0.41, 0.89]).unwrap();
        assert_eq!(rates.lookup(SMALL, 1, LARGE, 64), CorunRate { rate: 0.41, extrapolated: false });
        assert_eq!(rates.lookup(LARGE, 64, SMALL, 1), CorunRate { rate: 0.89, extrapolated: false });
    }

    #[test]
    fn refuses_what_is_no_rate() {
        for rate in [0.0, -0.5, 1.01, f64::NAN] {
            let error = CorunRates::constant([0.5, rate]).unwrap_err();
            assert_eq!(error.to_string(), format!("`corun` is {rate} but must be a number above 0 and at most 1"));
        }
    }

    #[test]
    fn interpolates_bilinearly() {
        let rates = rates(&[(1, 1, 0.4), (5, 1, 0.5), (1, 3, 0.6), (5, 3, 0.9)]);
        // Half way in peer rows: 0.5 and 0.7; a quarter of the way in rows: 0.55.
        let rate = rates.lookup(SMALL, 2, LARGE, 2);
        assert!((rate.rate - 0.55).abs() < 1e-12 && !rate.extrapolated, "{rate:?}");
        assert_eq!(rates.rate(SMALL, 5, LARGE, 3), 0.9);
    }

    #[test]
    fn is_flat_and_flagged_outside() {
        let rates = rates(&[(2, 1, 0.4), (4, 1, 0.5)]);
        assert_eq!(rates.lookup(SMALL, 1, LARGE, 1), CorunRate { rate: 0.4, extrapolated: true });
        assert_eq!(rates.lookup(SMALL, 4, LARGE, 2), CorunRate { rate: 0.5, extrapolated: true });
        assert_eq!(rates.lookup(SMALL, 9, LARGE, 1), CorunRate { rate: 0.5, extrapolated: true });
        assert_eq!(rates.lookup(LARGE, 1, SMALL, 1), CorunRate { rate: 0.9, extrapolated: false });
    }

    #[test]
    fn an_unmeasured_corner_takes_the_nearest_point() {
        let rates = rates(&[(1, 1, 0.4), (4, 4, 0.6), (32, 4, 0.8)]);
        // (1, 4) is two octaves from both (1, 1) and (4, 4); (32, 1) is nearest to (32, 4).
        assert!((rates.rate(SMALL, 1, LARGE, 4) - 0.5).abs() < 1e-12);
        assert_eq!(rates.rate(SMALL, 32, LARGE, 1), 0.8);
    }

    #[test]
    fn a_missing_pair_is_an_error() {
        let profile = profile(&[(1, 1, 0.4)]);
        let error = |models: &[(&str, bool)]| CorunRates::from_profile(&profile, None, models).unwrap_err().to_string();
        assert_eq!(
            error(&[("small", true), ("large", true)]),
            "p.csv: has no corun rows of `large` (graph = true) beside `small` on H200; it has `large` (graph = false) \
             beside `small`, `small` (graph = true) beside `large`"
        );
        assert_eq!(
            error(&[("small", true), ("tiny", true)]),
            "p.csv: has no corun rows of `small` (graph = true) beside `tiny` on H200; it has `large` (graph = false) \
             beside `small`, `small` (graph = true) beside `large`"
        );
    }
}
