//! Which part of a run is measured.

use std::fmt;

use handoff_scheduler::Timestamp;

/// When measurement begins and when a run is over. Tokens count that are committed after the beginning and not after the end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Window {
    /// Counted in finished requests: for steady means.
    Requests {
        /// Finished requests before measurement starts.
        warmup_requests: u64,
        /// Finished requests measured.
        requests: u64,
    },
    /// A stretch of time: for runs that must fit into the time that a machine is there, and for comparing a run with its own prediction,
    /// which then see the same stretch of the same start.
    Time {
        /// Time before measurement starts, ns.
        warmup_ns: u64,
        /// Time measured, ns.
        measured_ns: u64,
    },
}

impl Window {
    /// Whether there is no warm-up.
    #[must_use]
    pub fn opens_at_once(self) -> bool {
        matches!(self, Self::Requests { warmup_requests: 0, .. } | Self::Time { warmup_ns: 0, .. })
    }

    /// Whether so many finished requests end the warm-up.
    #[inline]
    #[must_use]
    pub fn is_warm(self, finished: u64) -> bool {
        matches!(self, Self::Requests { warmup_requests, .. } if finished >= warmup_requests)
    }

    /// Whether so many finished requests end the run.
    #[inline]
    #[must_use]
    pub fn is_full(self, finished: u64) -> bool {
        matches!(self, Self::Requests { warmup_requests, requests } if finished >= warmup_requests + requests)
    }

    /// When measurement starts and ends, if time says so.
    #[inline]
    #[must_use]
    pub fn times(self) -> Option<(Timestamp, Timestamp)> {
        match self {
            Self::Requests { .. } => None,
            Self::Time { warmup_ns, measured_ns } => {
                let opens_at = Timestamp::from_ns(warmup_ns);
                Some((opens_at, opens_at + measured_ns))
            }
        }
    }
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Requests { warmup_requests, requests } => {
                write!(f, "{requests} requests after {warmup_requests} of warm-up")
            }
            Self::Time { warmup_ns, measured_ns } => {
                write!(f, "{} s after {} s of warm-up", measured_ns as f64 * 1e-9, warmup_ns as f64 * 1e-9)
            }
        }
    }
}
