//! How requests arrive.

use crate::rng::Stream;

/// The largest concurrency of a closed loop.
pub const CONCURRENCY_MAX: u32 = 1 << 20;
/// The latest arrival in a trace, in seconds after the start of the run (about 31 years): as nanoseconds it fits 64 bits
/// with room to run on.
pub const SECONDS_MAX: f64 = 1e9;

const RATE_MIN: f64 = 1e-6;
const RATE_MAX: f64 = 1e9;
const NS_PER_S: f64 = 1e9;

/// How requests arrive.
///
/// ```
/// use handoff_sim::rng::{Purpose, Stream};
/// use handoff_sim::workload::Arrivals;
///
/// let trace = Arrivals::trace(vec![0, 1_500, 9_000])?;
/// let mut stream = Stream::new(1, Purpose::Arrival, 0);
/// assert_eq!(trace.next_ns(1_500, 2, &mut stream), Some(9_000));
/// assert_eq!(trace.next_ns(9_000, 3, &mut stream), None);
/// # Ok::<(), handoff_sim::workload::ArrivalsError>(())
/// ```
#[derive(Clone, PartialEq, Debug)]
pub enum Arrivals {
    /// A fixed number of requests is in the system; a finished one is replaced at once.
    ClosedLoop {
        /// Requests in the system.
        concurrency: u32,
    },
    /// Open loop with independent exponential times between arrivals.
    Poisson {
        /// Mean arrivals per second.
        rate_per_s: f64,
    },
    /// Open loop with recorded arrivals; the run sees no request beyond the last.
    Trace {
        /// Nanoseconds from the start of the run to each arrival, never decreasing.
        arrivals_ns: Vec<u64>,
    },
}

/// Why [`Arrivals`] cannot be used.
#[derive(Clone, Copy, PartialEq, Debug, thiserror::Error)]
pub enum ArrivalsError {
    /// The closed loop is empty or absurdly large.
    #[error("`concurrency` is {0}, expected a whole number from 1 to {CONCURRENCY_MAX}")]
    Concurrency(u32),
    /// The rate is not usable.
    #[error("`rate_per_s` is {0}, expected a number from 0.000001 to 1000000000")]
    Rate(f64),
    /// The trace has no arrival.
    #[error("the arrival trace is empty, expected at least one arrival")]
    NoArrivals,
    /// The trace goes back in time.
    #[error("arrival {index} of the trace is at {ns} ns, expected at least {previous_ns} ns as the one before")]
    Decreasing {
        /// The position of the arrival, from 0.
        index: usize,
        /// Its time in nanoseconds.
        ns: u64,
        /// The time of the arrival before it in nanoseconds.
        previous_ns: u64,
    },
    /// The trace goes on for too long.
    #[error("arrival {index} of the trace is at {ns} ns, expected at most {SECONDS_MAX} s")]
    TooLate {
        /// The position of the arrival, from 0.
        index: usize,
        /// Its time in nanoseconds.
        ns: u64,
    },
}

impl Arrivals {
    /// A closed loop with `concurrency` requests in the system.
    ///
    /// # Errors
    /// If `concurrency` is 0 or above [`CONCURRENCY_MAX`].
    pub fn closed_loop(concurrency: u32) -> Result<Self, ArrivalsError> {
        Self::ClosedLoop { concurrency }.validated()
    }

    /// A Poisson process with `rate_per_s` arrivals per second.
    ///
    /// # Errors
    /// If the rate is not a number from 1e-6 to 1e9.
    pub fn poisson(rate_per_s: f64) -> Result<Self, ArrivalsError> {
        Self::Poisson { rate_per_s }.validated()
    }

    /// Recorded arrivals, in nanoseconds after the start of the run.
    ///
    /// # Errors
    /// If there is no arrival, one is earlier than the one before, or one is later than [`SECONDS_MAX`].
    pub fn trace(arrivals_ns: Vec<u64>) -> Result<Self, ArrivalsError> {
        Self::Trace { arrivals_ns }.validated()
    }

    /// Whether this can be run.
    ///
    /// # Errors
    /// As [`Self::closed_loop`], [`Self::poisson`] and [`Self::trace`].
    pub fn validate(&self) -> Result<(), ArrivalsError> {
        match self {
            Self::ClosedLoop { concurrency } if (1..=CONCURRENCY_MAX).contains(concurrency) => Ok(()),
            Self::ClosedLoop { concurrency } => Err(ArrivalsError::Concurrency(*concurrency)),
            Self::Poisson { rate_per_s } if (RATE_MIN..=RATE_MAX).contains(rate_per_s) => Ok(()),
            Self::Poisson { rate_per_s } => Err(ArrivalsError::Rate(*rate_per_s)),
            Self::Trace { arrivals_ns } => validate_trace(arrivals_ns),
        }
    }

    /// The requests in the system of a closed loop; `None` for an open one.
    #[must_use]
    pub fn concurrency(&self) -> Option<u32> {
        match self {
            Self::ClosedLoop { concurrency } => Some(*concurrency),
            Self::Poisson { .. } | Self::Trace { .. } => None,
        }
    }

    /// When request number `request_idx` of an open loop arrives, in nanoseconds after the start of the run, given the time
    /// `previous_ns` at which the one before arrived (0 for the first). `None` for a closed loop, whose requests arrive as others finish, and
    /// past the end of a trace.
    ///
    /// Call it once per request, in order, with the arrival stream of the replication.
    #[must_use]
    pub fn next_ns(&self, previous_ns: u64, request_idx: u64, stream: &mut Stream) -> Option<u64> {
        match self {
            Self::ClosedLoop { .. } => None,
            Self::Poisson { .. } => Some(previous_ns.saturating_add(self.gap_ns(stream))),
            Self::Trace { arrivals_ns } => {
                usize::try_from(request_idx).ok().and_then(|idx| arrivals_ns.get(idx)).copied()
            }
        }
    }

    /// The time to the next arrival of a Poisson process in nanoseconds; `u64::MAX` (never) for the other kinds, whose
    /// arrivals are not drawn.
    ///
    /// The exponential distribution is inverted, -ln(1 - u) / rate, with one draw per gap: with the same stream, twice
    /// the rate gives the same arrivals in half the time.
    #[must_use]
    pub fn gap_ns(&self, stream: &mut Stream) -> u64 {
        match self {
            // Validated rates give at most 3.7e16 ns; a conversion from float saturates.
            Self::Poisson { rate_per_s } => (-(-stream.unit()).ln_1p() / rate_per_s * NS_PER_S).round() as u64,
            Self::ClosedLoop { .. } | Self::Trace { .. } => u64::MAX,
        }
    }

    fn validated(self) -> Result<Self, ArrivalsError> {
        self.validate()?;
        Ok(self)
    }
}

/// The nanoseconds of a number of seconds from 0 to [`SECONDS_MAX`], to the nearest; `None` outside.
pub(super) fn ns_from_seconds(seconds: f64) -> Option<u64> {
    (0.0..=SECONDS_MAX).contains(&seconds).then(|| (seconds * NS_PER_S).round() as u64)
}

fn validate_trace(arrivals_ns: &[u64]) -> Result<(), ArrivalsError> {
    let mut previous_ns = *arrivals_ns.first().ok_or(ArrivalsError::NoArrivals)?;
    for (index, &ns) in arrivals_ns.iter().enumerate() {
        if ns < previous_ns {
            return Err(ArrivalsError::Decreasing { index, ns, previous_ns });
        }
        if ns as f64 > SECONDS_MAX * NS_PER_S {
            return Err(ArrivalsError::TooLate { index, ns });
        }
        previous_ns = ns;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Purpose;

    fn stream() -> Stream {
        Stream::new(1, Purpose::Arrival, 0)
    }

    fn poisson(rate_per_s: f64, n: u64) -> Vec<u64> {
        let (arrivals, mut stream, mut now_ns) = (Arrivals::Poisson { rate_per_s }, stream(), 0);
        (0..n)
            .map(|request_idx| {
                now_ns = arrivals.next_ns(now_ns, request_idx, &mut stream).unwrap();
                now_ns
            })
            .collect()
    }

    #[test]
    fn gaps_of_a_poisson_process_are_exponential() {
        let arrivals = Arrivals::Poisson { rate_per_s: 4.0 };
        let mut stream = stream();
        let gaps_ns: Vec<f64> = (0..100_000).map(|_| arrivals.gap_ns(&mut stream) as f64).collect();
        let mean = gaps_ns.iter().sum::<f64>() / 1e5;
        let variance = gaps_ns.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / 1e5;
        // The standard error of the mean is 0.3 %. The distribution's deviation equals its mean.
        assert!((mean / 2.5e8 - 1.0).abs() < 0.01, "mean {mean}");
        assert!((variance.sqrt() / mean - 1.0).abs() < 0.02, "cv {}", variance.sqrt() / mean);
        // P(gap > 2 means) = e^-2.
        let long = gaps_ns.iter().filter(|gap| **gap > 5e8).count() as f64 / 1e5;
        assert!((long - (-2.0_f64).exp()).abs() < 0.005, "{long}");
    }

    #[test]
    fn twice_the_rate_halves_the_times() {
        for (slow_ns, fast_ns) in poisson(2.0, 100).into_iter().zip(poisson(4.0, 100)) {
            assert!(slow_ns.abs_diff(2 * fast_ns) <= 200, "{slow_ns} {fast_ns}");
        }
    }

    #[test]
    fn the_slowest_rate_stays_in_range() {
        assert!(*poisson(RATE_MIN, 100).last().unwrap() < u64::MAX / 2);
    }

    #[test]
    fn a_trace_is_replayed_to_its_end() {
        let trace = Arrivals::trace(vec![5, 5, 9]).unwrap();
        let times: Vec<_> = (0..4).map(|request_idx| trace.next_ns(0, request_idx, &mut stream())).collect();
        assert_eq!(times, [Some(5), Some(5), Some(9), None]);
        assert_eq!((trace.gap_ns(&mut stream()), trace.concurrency()), (u64::MAX, None));
    }

    #[test]
    fn a_closed_loop_has_no_arrivals_of_its_own() {
        let closed = Arrivals::closed_loop(4).unwrap();
        assert_eq!((closed.next_ns(0, 0, &mut stream()), closed.concurrency()), (None, Some(4)));
        assert_eq!(closed.gap_ns(&mut stream()), u64::MAX);
    }

    #[test]
    fn refuses_what_cannot_be_run() {
        let text = |result: Result<Arrivals, ArrivalsError>| result.unwrap_err().to_string();
        assert_eq!(
            text(Arrivals::closed_loop(1 << 21)),
            "`concurrency` is 2097152, expected a whole number from 1 to 1048576"
        );
        for (rate, shown) in [(0.0, "0"), (-2.0, "-2"), (f64::NAN, "NaN"), (f64::INFINITY, "inf")] {
            assert_eq!(
                text(Arrivals::poisson(rate)),
                format!("`rate_per_s` is {shown}, expected a number from 0.000001 to 1000000000")
            );
        }
        assert_eq!(text(Arrivals::trace(vec![])), "the arrival trace is empty, expected at least one arrival");
        assert_eq!(
            text(Arrivals::trace(vec![3, 7, 6])),
            "arrival 2 of the trace is at 6 ns, expected at least 7 ns as the one before"
        );
        assert_eq!(
            text(Arrivals::trace(vec![0, u64::MAX])),
            "arrival 1 of the trace is at 18446744073709551615 ns, expected at most 1000000000 s"
        );
    }
}
