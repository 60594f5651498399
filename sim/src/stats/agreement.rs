//! How far a predicted curve lies from a measured one, point by point.

use statrs::distribution::ContinuousCDF;

use super::interval::{mean_and_deviation, students_t, t_critical};

/// Why two curves cannot be compared.
#[derive(Clone, Copy, PartialEq, Debug, thiserror::Error)]
pub enum AgreementError {
    /// The curves are not over the same points.
    #[error("{predicted} predicted values stand against {measured} measured ones, expected as many of each")]
    Lengths {
        /// How many predicted values there are.
        predicted: usize,
        /// How many measured values there are.
        measured: usize,
    },
    /// There is nothing to compare.
    #[error("no point to compare, expected at least one")]
    Empty,
    /// A logarithm needs a positive number.
    #[error("`{side}` value {index} is {value}, expected a finite number above 0")]
    NotPositive {
        /// `predicted` or `measured`.
        side: &'static str,
        /// The position of the value, from 0.
        index: usize,
        /// The value.
        value: f64,
    },
}

/// The point with the largest error.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct MaxError {
    /// The position of the point, from 0; the first of equals.
    pub index: usize,
    /// Its log ratio: above 0 if the prediction is too high.
    pub log_ratio: f64,
}

/// Bias and spread of a prediction, from the log ratios d = ln(predicted / measured) of its points.
///
/// A log ratio treats "twice as much" and "half as much" alike and is close to the relative error where that is small.
///
/// ```
/// use handoff_sim::stats::Agreement;
///
/// let agreement = Agreement::of(&[110.0, 90.0], &[100.0, 100.0]).unwrap();
/// assert!((agreement.mape - 0.1).abs() < 1e-12);
/// assert_eq!(agreement.max_error.index, 1); // |ln 0.9| > ln 1.1
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Agreement {
    /// How many points were compared.
    pub n: usize,
    /// The mean log ratio: above 0 if predictions are too high on the whole.
    pub bias: f64,
    /// The sample standard deviation of the log ratios; `None` with a single point.
    pub spread: Option<f64>,
    /// The mean absolute relative error, |predicted - measured| / measured; 0.1 is 10 %.
    pub mape: f64,
    /// The point with the largest absolute log ratio.
    pub max_error: MaxError,
}

impl Agreement {
    /// Compares two curves over the same points.
    ///
    /// # Errors
    /// If the curves differ in length, are empty, or hold a value that is not finite and above 0.
    pub fn of(predicted: &[f64], measured: &[f64]) -> Result<Self, AgreementError> {
        let log_ratios = log_ratios(predicted, measured)?;
        let (bias, spread) = mean_and_deviation(&log_ratios);
        let errors = predicted.iter().zip(measured).map(|(predicted, measured)| (predicted / measured - 1.0).abs());
        let mape = errors.sum::<f64>() / log_ratios.len() as f64;
        let mut max_error = MaxError { index: 0, log_ratio: 0.0 };
        for (index, &log_ratio) in log_ratios.iter().enumerate() {
            if log_ratio.abs() > max_error.log_ratio.abs() {
                max_error = MaxError { index, log_ratio };
            }
        }
        Ok(Self { n: log_ratios.len(), bias, spread, mape, max_error })
    }
}

/// The log ratios ln(predicted / measured) of two curves over the same points.
///
/// # Errors
/// If the curves differ in length, are empty, or hold a value that is not finite and above 0.
pub fn log_ratios(predicted: &[f64], measured: &[f64]) -> Result<Vec<f64>, AgreementError> {
    if predicted.len() != measured.len() {
        return Err(AgreementError::Lengths { predicted: predicted.len(), measured: measured.len() });
    }
    if predicted.is_empty() {
        return Err(AgreementError::Empty);
    }
    for (side, values) in [("predicted", predicted), ("measured", measured)] {
        if let Some(index) = values.iter().position(|value| !(value.is_finite() && *value > 0.0)) {
            return Err(AgreementError::NotPositive { side, index, value: values[index] });
        }
    }
    // The difference of logarithms, because the quotient of two extreme numbers may overflow.
    Ok(predicted.iter().zip(measured).map(|(predicted, measured)| predicted.ln() - measured.ln()).collect())
}

/// The verdict of [`equivalence`].
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Equivalence {
    /// Whether the mean log ratio is shown to lie within the margin.
    pub equivalent: bool,
    /// The larger of the two one-sided p-values: equivalent if it is below the level.
    pub p_value: f64,
    /// The lower end of the interval of confidence 1 - 2 * level.
    pub low: f64,
    /// The upper end of that interval.
    pub high: f64,
}

/// Two one-sided t tests (TOST): whether the mean log ratio lies within plus and minus `margin`, at the level `level`.
///
/// The burden of proof is on the prediction: few or scattered points do not show equivalence, however small the mean.
/// Fix the margin before looking, ln(1.05) or ln(1.10). About ((1.645 + 1.28) * SD / margin)^2 points are needed for a
/// power of 90 %. Points of one curve are not independent: give one mean per cluster (pair of models and placement).
/// `None` with fewer than two log ratios, or if `margin` is not above 0 or `level` not between 0 and 0.5.
///
/// Sources: Schuirmann, *A comparison of the two one-sided tests procedure and the power approach*, J. Pharmacokinetics
/// and Biopharmaceutics 15, 1987; Robinson and Froese, *Model validation using equivalence tests*, Ecological Modelling
/// 176, 2004.
#[must_use]
pub fn equivalence(log_ratios: &[f64], margin: f64, level: f64) -> Option<Equivalence> {
    if !(margin > 0.0 && level > 0.0 && level < 0.5) {
        return None;
    }
    let (mean, deviation) = mean_and_deviation(log_ratios);
    let error = deviation? / (log_ratios.len() as f64).sqrt();
    let freedom = log_ratios.len() - 1;
    let p_value = if error > 0.0 {
        // The nearer of the two margins decides.
        students_t(freedom).sf((margin - mean.abs()) / error)
    } else if mean.abs() < margin {
        0.0
    } else {
        1.0
    };
    let half_width = t_critical(freedom, 1.0 - 2.0 * level) * error;
    Some(Equivalence { equivalent: p_value < level, p_value, low: mean - half_width, high: mean + half_width })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn compares_point_by_point() {
        // ln 1.1 = 0.0953102, ln 0.8 = -0.2231436, ln 1 = 0: mean -0.0426111, sum of squares about it 0.0534300,
        // spread sqrt(0.0267150) = 0.163447; MAPE (0.1 + 0.2 + 0) / 3.
        let agreement = Agreement::of(&[110.0, 40.0, 7.0], &[100.0, 50.0, 7.0]).unwrap();
        assert_eq!(agreement.n, 3);
        assert!((agreement.bias + 0.0426111).abs() < 1e-6);
        assert!((agreement.spread.unwrap() - 0.163447).abs() < 1e-6);
        assert!((agreement.mape - 0.1).abs() < 1e-12);
        assert_eq!(agreement.max_error.index, 1);
        assert!((agreement.max_error.log_ratio + 0.2231436).abs() < 1e-6);
    }

    #[test]
    fn perfect_predictions_have_no_error() {
        let agreement = Agreement::of(&[3.0], &[3.0]).unwrap();
        let max_error = MaxError { index: 0, log_ratio: 0.0 };
        assert_eq!(agreement, Agreement { n: 1, bias: 0.0, spread: None, mape: 0.0, max_error });
    }

    #[test]
    fn refuses_what_cannot_be_compared() {
        let text = |predicted: &[f64], measured: &[f64]| Agreement::of(predicted, measured).unwrap_err().to_string();
        assert_eq!(
            text(&[1.0], &[1.0, 2.0]),
            "1 predicted values stand against 2 measured ones, expected as many of each"
        );
        assert_eq!(text(&[], &[]), "no point to compare, expected at least one");
        assert_eq!(text(&[1.0, 0.0], &[1.0, 1.0]), "`predicted` value 1 is 0, expected a finite number above 0");
        assert_eq!(text(&[1.0], &[f64::NAN]), "`measured` value 0 is NaN, expected a finite number above 0");
        assert_eq!(text(&[f64::INFINITY], &[1.0]), "`predicted` value 0 is inf, expected a finite number above 0");
    }

    #[test]
    fn equivalence_matches_a_hand_computed_case() {
        // Mean 0.02, s = 0.01581139, error s / sqrt(5) = 0.00707107, margin 0.04: t = 2.828427 with 4 degrees of freedom.
        // The t distribution with 4 degrees has the tail 1/2 - u (3 - u^2) / 4 with u = t / sqrt(4 + t^2) = 0.8164966:
        // 0.0237103. t_4 at 90 % is 2.131847: interval 0.02 -+ 0.0150744.
        let verdict = equivalence(&[0.0, 0.01, 0.02, 0.03, 0.04], 0.04, 0.05).unwrap();
        assert!((verdict.p_value - 0.0237103).abs() < 1e-6, "{}", verdict.p_value);
        assert!(verdict.equivalent);
        assert!((verdict.low - 0.0049256).abs() < 1e-6 && (verdict.high - 0.0350744).abs() < 1e-6);
        assert!(!equivalence(&[0.0, 0.01, 0.02, 0.03, 0.04], 0.04, 0.02).unwrap().equivalent);
        assert!(!equivalence(&[0.0, 0.01, 0.02, 0.03, 0.04], 0.03, 0.05).unwrap().equivalent);
    }

    #[test]
    fn equivalence_puts_the_burden_of_proof_on_the_prediction() {
        // A mean of 0, but scattered.
        assert!(!equivalence(&[-0.2, 0.2], 0.05, 0.05).unwrap().equivalent);
        assert!(equivalence(&[0.01; 2], 0.05, 0.05).unwrap().equivalent);
        assert!(!equivalence(&[0.06; 9], 0.05, 0.05).unwrap().equivalent);
        assert_eq!(equivalence(&[0.0], 0.05, 0.05), None);
        assert_eq!(equivalence(&[0.0; 3], 0.0, 0.05), None);
        assert_eq!(equivalence(&[0.0; 3], 0.05, 0.5), None);
    }

    proptest! {
        #[test]
        fn equivalent_exactly_if_the_interval_lies_within_the_margin(
            log_ratios in prop::collection::vec(-0.2..0.2, 2..20),
            margin in 0.01..0.3,
        ) {
            let verdict = equivalence(&log_ratios, margin, 0.05).unwrap();
            let distance = (verdict.low + margin).min(margin - verdict.high);
            prop_assume!(distance.abs() > 1e-9);
            prop_assert_eq!(verdict.equivalent, distance > 0.0);
        }
    }
}
