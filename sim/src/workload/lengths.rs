//! How long prompts and outputs are.

use statrs::distribution::{ContinuousCDF, Normal};

use crate::rng::Stream;

/// The longest prompt or output in tokens: far beyond any context window, and small enough that sums over many requests
/// stay exact.
pub const TOKENS_MAX: u32 = 1 << 24;

/// Where a lognormal is cut off, in standard deviations of the logarithm: a share 0.00003 of it lies beyond.
const CUT_OFF: f64 = 4.0;
const CV_MAX: f64 = 10.0;
/// Up to this bound the mean of a rounded lognormal is summed term by term; beyond, rounding does not matter.
const SUMMED_MAX: u32 = 1 << 16;

/// A distribution of lengths in tokens.
///
/// Every kind takes exactly one number from the stream per draw, and a larger number never gives a shorter length. So
/// two workloads that differ in a length's distribution only, under the same seed, have long requests in the same places
/// (common random numbers).
///
/// ```
/// use handoff_sim::rng::{Purpose, Stream};
/// use handoff_sim::workload::Lengths;
///
/// let lengths = Lengths::uniform(50, 150)?;
/// let mut stream = Stream::new(1, Purpose::Length, 7);
/// assert!((50..=150).contains(&lengths.draw(7, &mut stream)));
/// assert_eq!((lengths.mean(), lengths.max()), (100.0, 150));
/// # Ok::<(), handoff_sim::workload::LengthsError>(())
/// ```
#[derive(Clone, PartialEq, Debug)]
pub enum Lengths {
    /// Always the same.
    Constant(u32),
    /// Lognormal, cut off four standard deviations of the logarithm above its median, rounded to whole tokens, at
    /// least 1.
    ///
    /// The cut lowers the mean a little, by 0.02 % at a `cv` of 0.5, 0.07 % at 1 and 0.3 % at 2. [`Lengths::mean`] is the
    /// mean of what is drawn.
    Lognormal {
        /// The mean in tokens of the lognormal itself, not of its logarithm.
        mean: f64,
        /// The coefficient of variation, standard deviation over mean, of the lognormal itself; 0 is a constant.
        cv: f64,
    },
    /// Whole numbers from `low` to `high`, both included, all equally likely.
    Uniform {
        /// The shortest.
        low: u32,
        /// The longest.
        high: u32,
    },
    /// Recorded lengths: request i has length number i, modulo how many there are.
    Recorded(Vec<u32>),
}

/// Why [`Lengths`] cannot be used.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum LengthsError {
    /// A length is 0 or absurdly large.
    #[error("{what} is {tokens}, expected a whole number from 1 to {TOKENS_MAX}")]
    Tokens {
        /// Which of the numbers it is.
        what: String,
        /// Its value.
        tokens: u32,
    },
    /// The bounds are the wrong way round.
    #[error("`uniform` is [{low}, {high}], expected the lower bound first")]
    Reversed {
        /// The first number.
        low: u32,
        /// The second number.
        high: u32,
    },
    /// The mean of the lognormal is not usable.
    #[error("`mean` of `lognormal` is {0}, expected a number from 1 to {TOKENS_MAX}")]
    Mean(f64),
    /// The coefficient of variation is not usable.
    #[error("`cv` of `lognormal` is {0}, expected a number from 0 to {CV_MAX}")]
    Cv(f64),
    /// The lognormal reaches too far.
    #[error(
        "`lognormal` with `mean` {mean} and `cv` {cv} reaches {bound:.0} tokens, expected at most {TOKENS_MAX}: lower one of them"
    )]
    Bound {
        /// The mean.
        mean: f64,
        /// The coefficient of variation.
        cv: f64,
        /// Where it is cut off, in tokens.
        bound: f64,
    },
    /// There is no recorded length.
    #[error("the list of recorded lengths is empty, expected at least one")]
    Empty,
}

impl Lengths {
    /// Always `tokens`.
    ///
    /// # Errors
    /// If `tokens` is 0 or above [`TOKENS_MAX`].
    pub fn constant(tokens: u32) -> Result<Self, LengthsError> {
        Self::Constant(tokens).validated()
    }

    /// A lognormal by its own mean and coefficient of variation, see [`Lengths::Lognormal`].
    ///
    /// # Errors
    /// If `mean` is not a number from 1 to [`TOKENS_MAX`], `cv` is not a number from 0 to 10, or the bound at which the
    /// distribution is cut off is above [`TOKENS_MAX`].
    pub fn lognormal(mean: f64, cv: f64) -> Result<Self, LengthsError> {
        Self::Lognormal { mean, cv }.validated()
    }

    /// Whole numbers from `low` to `high`, both included.
    ///
    /// # Errors
    /// If `low` is above `high`, or one of them is 0 or above [`TOKENS_MAX`].
    pub fn uniform(low: u32, high: u32) -> Result<Self, LengthsError> {
        Self::Uniform { low, high }.validated()
    }

    /// Recorded lengths, taken in turn by the index of the request.
    ///
    /// # Errors
    /// If there is none, or one is 0 or above [`TOKENS_MAX`].
    pub fn recorded(tokens: Vec<u32>) -> Result<Self, LengthsError> {
        Self::Recorded(tokens).validated()
    }

    /// Whether this can be drawn from.
    ///
    /// # Errors
    /// As the constructor of each kind.
    pub fn validate(&self) -> Result<(), LengthsError> {
        let check = |tokens: u32, what: &dyn Fn() -> String| {
            let fits = (1..=TOKENS_MAX).contains(&tokens);
            if fits { Ok(()) } else { Err(LengthsError::Tokens { what: what(), tokens }) }
        };
        match self {
            Self::Constant(tokens) => check(*tokens, &|| "the constant length".to_owned()),
            Self::Lognormal { mean, cv } => Lognormal::new(*mean, *cv).validate(),
            Self::Uniform { low, high } => {
                check(*low, &|| "the lower bound of `uniform`".to_owned())?;
                check(*high, &|| "the upper bound of `uniform`".to_owned())?;
                if low <= high { Ok(()) } else { Err(LengthsError::Reversed { low: *low, high: *high }) }
            }
            Self::Recorded(recorded) if recorded.is_empty() => Err(LengthsError::Empty),
            Self::Recorded(recorded) => recorded
                .iter()
                .enumerate()
                .try_for_each(|(index, tokens)| check(*tokens, &|| format!("recorded length {index}"))),
        }
    }

    /// The length of request number `request_idx`, from 1 to [`Self::max`].
    ///
    /// `stream` must be the request's own length stream, so that lengths do not depend on the order of service;
    /// [`Workload::lengths`](super::Workload::lengths) sees to that.
    #[must_use]
    pub fn draw(&self, request_idx: u64, stream: &mut Stream) -> u32 {
        // Drawn even where it is not used: whatever is drawn next from the stream must not depend on the kind.
        let unit = stream.unit();
        let tokens = match self {
            Self::Constant(tokens) => *tokens,
            Self::Lognormal { mean, cv } => Lognormal::new(*mean, *cv).quantile(unit),
            Self::Uniform { low, high } => {
                let n = u64::from(high.saturating_sub(*low)) + 1;
                // At most `high - low`, since `unit` is below 1 and n below 2^53.
                low.saturating_add((unit * n as f64) as u32)
            }
            Self::Recorded(recorded) => {
                let idx = request_idx.checked_rem(recorded.len() as u64).unwrap_or(0);
                recorded.get(idx as usize).copied().unwrap_or(1)
            }
        };
        tokens.max(1)
    }

    /// The longest that can be drawn.
    #[must_use]
    pub fn max(&self) -> u32 {
        let tokens = match self {
            Self::Constant(tokens) => *tokens,
            Self::Lognormal { mean, cv } => Lognormal::new(*mean, *cv).max(),
            Self::Uniform { low, high } => *high.max(low),
            Self::Recorded(recorded) => recorded.iter().copied().max().unwrap_or(1),
        };
        tokens.max(1)
    }

    /// The mean of what is drawn; of all recorded lengths if recorded.
    #[must_use]
    pub fn mean(&self) -> f64 {
        match self {
            Self::Constant(tokens) => f64::from((*tokens).max(1)),
            Self::Lognormal { mean, cv } => Lognormal::new(*mean, *cv).mean_drawn(),
            Self::Uniform { low, high } => f64::midpoint(f64::from(*low), f64::from(*high)),
            Self::Recorded(recorded) if recorded.is_empty() => 1.0,
            Self::Recorded(recorded) => recorded.iter().copied().map(f64::from).sum::<f64>() / recorded.len() as f64,
        }
    }

    fn validated(self) -> Result<Self, LengthsError> {
        self.validate()?;
        Ok(self)
    }
}

/// A lognormal with the mean and deviation of its logarithm: for mean m and coefficient of variation c of the lognormal
/// itself, `deviation^2 = ln(1 + c^2)` and `location = ln m - deviation^2 / 2` (Johnson, Kotz and Balakrishnan, *Continuous
/// Univariate Distributions* 1, chapter 14).
struct Lognormal {
    mean: f64,
    cv: f64,
    location: f64,
    deviation: f64,
}

impl Lognormal {
    fn new(mean: f64, cv: f64) -> Self {
        let variance = (cv * cv).ln_1p();
        Self { mean, cv, location: mean.ln() - variance / 2.0, deviation: variance.sqrt() }
    }

    fn validate(&self) -> Result<(), LengthsError> {
        if !(1.0..=f64::from(TOKENS_MAX)).contains(&self.mean) {
            return Err(LengthsError::Mean(self.mean));
        }
        if !(0.0..=CV_MAX).contains(&self.cv) {
            return Err(LengthsError::Cv(self.cv));
        }
        if self.bound() > f64::from(TOKENS_MAX) + 0.5 {
            return Err(LengthsError::Bound { mean: self.mean, cv: self.cv, bound: self.bound() });
        }
        Ok(())
    }

    /// The length below which a share `unit` of the cut-off distribution lies.
    fn quantile(&self, unit: f64) -> u32 {
        let normal = Normal::standard();
        let z = normal.inverse_cdf(unit * normal.cdf(CUT_OFF));
        // At `unit` 0 z is minus infinity, and with a deviation of 0 the product would be NaN.
        let logarithm = if self.deviation > 0.0 { self.location + z * self.deviation } else { self.location };
        tokens_from(logarithm.exp()).min(self.max())
    }

    /// Where the distribution is cut off, before rounding.
    fn bound(&self) -> f64 {
        (self.location + CUT_OFF * self.deviation).exp()
    }

    fn max(&self) -> u32 {
        tokens_from(self.bound())
    }

    /// The mean of what [`Self::quantile`] yields.
    fn mean_drawn(&self) -> f64 {
        if self.deviation == 0.0 {
            return f64::from(self.max());
        }
        let normal = Normal::standard();
        let kept = normal.cdf(CUT_OFF);
        if self.max() > SUMMED_MAX {
            return self.mean * normal.cdf(CUT_OFF - self.deviation) / kept;
        }
        // The sum over k >= 1 of P(length >= k); a value is rounded to k or more from k - 1/2 on.
        let at_least = |k: u32| {
            let z = ((f64::from(k) - 0.5).ln() - self.location) / self.deviation;
            1.0 - normal.cdf(z.min(CUT_OFF)) / kept
        };
        1.0 + (2..=self.max()).map(at_least).sum::<f64>()
    }
}

/// The nearest whole number of tokens from 1 to [`TOKENS_MAX`]. NaN, which only unvalidated parameters give, becomes 0 in
/// the conversion.
fn tokens_from(value: f64) -> u32 {
    (value.round().clamp(1.0, f64::from(TOKENS_MAX)) as u32).max(1)
}

#[cfg(test)]
mod tests;
