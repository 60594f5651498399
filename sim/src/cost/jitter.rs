//! Relative jitter of step times.

use std::sync::Arc;

use statrs::function::erf::{erf_inv, erfc};

use super::{LookupError, ParameterError, Profile, round_ns};
use crate::rng::Stream;

/// A random factor with mean 1 on every step time: none, or lognormal.
///
/// The lognormal distribution is cut into 4096 parts of equal probability, and each draw is the mean of one of them.
/// That keeps the mean exact, costs one 32-bit draw and one multiplication a step, and gives the same numbers whatever
/// the order of other draws. What is lost is the spread within a part: the coefficient of variation comes out 0.002 %
/// low at 0.1, 0.2 % low at 1 and 5 % low at 3, where the rare long steps of the last part count most.
///
/// ```
/// use handoff_sim::cost::Jitter;
/// use handoff_sim::rng::{Purpose, Stream};
/// let mut stream = Stream::new(1, Purpose::Jitter, 0);
/// assert_eq!(Jitter::none().apply(6_000_000, &mut stream), 6_000_000);
/// assert_ne!(Jitter::lognormal(0.02)?.apply(6_000_000, &mut stream), 6_000_000);
/// # Ok::<(), handoff_sim::cost::ParameterError>(())
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct Jitter {
    cv: f64,
    /// The factors, ascending; `None` if there is no jitter.
    factors: Option<Arc<[f32]>>,
}

const N_PARTS_LOG2: u32 = 12;
const N_PARTS: u32 = 1 << N_PARTS_LOG2;

/// Far beyond any step time; above it the parts would misrepresent the distribution.
const CV_MAX: f64 = 3.0;

/// The standard normal's 99th percentile.
const Z_P99: f64 = 2.326_347_874_040_841;

impl Jitter {
    /// No jitter: times stay as they are and nothing is drawn.
    #[must_use]
    pub const fn none() -> Self {
        Self { cv: 0.0, factors: None }
    }

    /// Lognormal jitter with coefficient of variation `cv` (standard deviation over mean); 0 is [`Jitter::none`].
    ///
    /// # Errors
    /// If `cv` is not between 0 and 3.
    pub fn lognormal(cv: f64) -> Result<Self, ParameterError> {
        if !(0.0..=CV_MAX).contains(&cv) {
            return Err(ParameterError { field: "jitter", value: cv, expected: "a number from 0 to 3" });
        }
        if cv == 0.0 {
            return Ok(Self::none());
        }
        Ok(Self { cv, factors: Some(factors(cv)) })
    }

    /// The jitter of a model's steps with the given graph setting, as `profile` measured it on `device` (`None`: its
    /// only one).
    ///
    /// A lognormal has ln(p99 / p50) = 2.326 x sigma and cv = sqrt(exp(sigma^2) - 1). The median of sigma over the
    /// points is taken, so that single disturbed points do not matter. Without points that have both percentiles there
    /// is no jitter.
    ///
    /// # Errors
    /// If the device is not in the profile, or if the spread is too wild to be jitter.
    pub fn measured(profile: &Profile, device: Option<&str>, model: &str, graph: bool) -> Result<Self, LookupError> {
        let device = profile.device(device)?;
        let mut sigmas: Vec<f64> = profile
            .steps()
            .iter()
            .filter(|point| point.device == device && point.model == model && point.graph == graph)
            .filter_map(|point| Some((point.time.p99_us? / point.time.p50_us?).ln() / Z_P99))
            .collect();
        sigmas.sort_unstable_by(f64::total_cmp);
        let n = sigmas.len();
        if n == 0 {
            return Ok(Self::none());
        }
        let sigma = (sigmas[(n - 1) / 2] + sigmas[n / 2]) / 2.0;
        let cv = (sigma * sigma).exp_m1().sqrt();
        Self::lognormal(cv).map_err(|_| LookupError::WildJitter {
            file: profile.name().to_owned(),
            device: device.to_owned(),
            model: model.to_owned(),
            cv,
            cv_max: CV_MAX,
        })
    }

    /// The coefficient of variation; 0 without jitter.
    #[must_use]
    pub fn cv(&self) -> f64 {
        self.cv
    }

    /// `ns` times the next factor, at least 1. Draws 32 bits from `stream`, or nothing if there is no jitter.
    #[inline]
    #[must_use]
    pub fn apply(&self, ns: u64, stream: &mut Stream) -> u64 {
        let Some(factors) = &self.factors else { return ns };
        let part = stream.next_u32() >> (32 - N_PARTS_LOG2);
        round_ns(ns as f64 * f64::from(factors[part as usize])).max(1)
    }
}

/// The means of the parts. With Y = exp(sigma Z - sigma^2 / 2), the mean of Y between two quantiles a < b of Z is
/// (Phi(b - sigma) - Phi(a - sigma)) / P(a < Z < b).
fn factors(cv: f64) -> Arc<[f32]> {
    let sigma = (cv * cv).ln_1p().sqrt();
    let n_parts = f64::from(N_PARTS);
    let mean_up_to = |part: u32| {
        let quantile = std::f64::consts::SQRT_2 * erf_inv(2.0 * f64::from(part) / n_parts - 1.0);
        erfc((sigma - quantile) / std::f64::consts::SQRT_2) / 2.0
    };
    let mut below = 0.0;
    let mut factors = Vec::with_capacity(N_PARTS as usize);
    for part in 1..N_PARTS {
        let up_to = mean_up_to(part);
        factors.push(((up_to - below) * n_parts) as f32);
        below = up_to;
    }
    factors.push(((1.0 - below) * n_parts) as f32);
    factors.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Purpose;

    fn moments(jitter: &Jitter) -> (f64, f64) {
        let factors = jitter.factors.as_ref().unwrap();
        let n = factors.len() as f64;
        let mean = factors.iter().map(|&factor| f64::from(factor)).sum::<f64>() / n;
        let variance = factors.iter().map(|&factor| (f64::from(factor) - mean).powi(2)).sum::<f64>() / n;
        (mean, variance.sqrt() / mean)
    }

    #[test]
    fn factors_have_mean_one_and_the_wanted_spread() {
        for (cv, loss_max) in [(0.001, 1e-4), (0.02, 1e-4), (0.1, 1e-4), (0.5, 3e-4), (1.0, 2.5e-3), (3.0, 0.05)] {
            let jitter = Jitter::lognormal(cv).unwrap();
            let (mean, realised) = moments(&jitter);
            assert!((mean - 1.0).abs() < 1e-7, "{cv}: {mean}");
            assert!((realised / cv - 1.0).abs() < loss_max, "{cv}: {realised}");
        }
    }

    #[test]
    fn factors_ascend_and_are_lognormal() {
        let jitter = Jitter::lognormal(0.3).unwrap();
        let factors = jitter.factors.as_ref().unwrap();
        assert!(factors.is_sorted());
        // Median exp(-sigma^2 / 2) = 1 / sqrt(1.09) and 99th percentile exp(2.326 sigma) times that.
        let median = 1.0 / 1.09_f64.sqrt();
        let p99 = median * (Z_P99 * 1.09_f64.ln().sqrt()).exp();
        assert!((f64::from(factors[2047]) / median - 1.0).abs() < 1e-3);
        assert!((f64::from(factors[4055]) / p99 - 1.0).abs() < 1e-2);
    }

    #[test]
    fn applied_times_have_mean_one_and_the_wanted_spread() {
        let jitter = Jitter::lognormal(0.1).unwrap();
        let mut stream = Stream::new(7, Purpose::Jitter, 0);
        let n = 200_000;
        let times: Vec<f64> = (0..n).map(|_| jitter.apply(1_000_000, &mut stream) as f64 / 1e6).collect();
        let mean = times.iter().sum::<f64>() / f64::from(n);
        let variance = times.iter().map(|time| (time - mean).powi(2)).sum::<f64>() / f64::from(n);
        assert!((mean - 1.0).abs() < 0.001, "{mean}");
        assert!((variance.sqrt() - 0.1).abs() < 0.001, "{}", variance.sqrt());
    }

    #[test]
    fn none_draws_nothing() {
        let mut stream = Stream::new(7, Purpose::Jitter, 0);
        assert_eq!(Jitter::none().apply(123, &mut stream), 123);
        assert_eq!(Jitter::lognormal(0.0).unwrap().apply(123, &mut stream), 123);
        assert_eq!(stream.next_u32(), Stream::new(7, Purpose::Jitter, 0).next_u32());
    }

    #[test]
    fn a_draw_takes_32_bits() {
        let mut stream = Stream::new(7, Purpose::Jitter, 0);
        let mut other = stream.clone();
        let _ = Jitter::lognormal(0.5).unwrap().apply(123, &mut stream);
        other.next_u32();
        assert_eq!(stream.next_u32(), other.next_u32());
    }

    #[test]
    fn extremes_stay_durations() {
        let mut stream = Stream::new(7, Purpose::Jitter, 0);
        let jitter = Jitter::lognormal(3.0).unwrap();
        for ns in [1, u64::MAX] {
            for _ in 0..10_000 {
                assert!(jitter.apply(ns, &mut stream) >= 1);
            }
        }
    }

    #[test]
    fn refuses_what_is_no_spread() {
        for cv in [-0.1, 3.1, f64::NAN] {
            assert_eq!(
                Jitter::lognormal(cv).unwrap_err().to_string(),
                format!("`jitter` is {cv} but must be a number from 0 to 3")
            );
        }
    }

    fn profile(times: &[&str]) -> Profile {
        let mut text = super::super::COLUMNS.join(",");
        for (idx, times) in times.iter().enumerate() {
            text += &format!("\nH200,m,decode,true,{},1,0,,,,{times},", idx + 1);
        }
        Profile::parse(text.as_bytes(), "p.csv").unwrap()
    }

    #[test]
    fn measured_is_the_median_over_the_points() {
        // ln(p99 / p50) = 2.326 sigma: sigma 0.01, 0.03 and 0.5. The point without percentiles does not count.
        let p99 = |sigma: f64| format!("100,100,{}", 100.0 * (Z_P99 * sigma).exp());
        let profile = profile(&[&p99(0.5), &p99(0.01), "100,100,", &p99(0.03)]);
        let jitter = Jitter::measured(&profile, None, "m", true).unwrap();
        assert!((jitter.cv() - 0.03_f64.powi(2).exp_m1().sqrt()).abs() < 1e-12);
        assert_eq!(Jitter::measured(&profile, None, "m", false).unwrap(), Jitter::none());
    }

    #[test]
    fn measured_refuses_what_is_no_jitter() {
        let profile = profile(&["100,100,10000"]);
        let error = Jitter::measured(&profile, Some("H200"), "m", true).unwrap_err();
        assert_eq!(
            error.to_string(),
            "p.csv: p99_us over p50_us of `m` on H200 means a coefficient of variation of 7.0; expected at most 3"
        );
    }
}
