//! Statistics of runs: warm-up deletion, confidence intervals, when to stop replicating, histograms, and how well a
//! predicted curve agrees with a measured one.
//!
//! Everything here is pure: values in, values out, no clock and no hidden random numbers. What is drawn (the bootstrap)
//! is drawn from a stream that the caller gives.
//!
//! | question | answer |
//! |---|---|
//! | where does the warm-up of a run end? | [`BinnedSeries`], then [`mser5`] |
//! | how sure is a mean over replications? | [`Estimate::of`], and [`StoppingRule`] says whether more are needed |
//! | how sure is a mean over one long run? | [`BatchMeans::of`] |
//! | how are latencies and batch sizes spread? | [`LatencyHistogram`], [`CountHistogram`] |
//! | does a prediction agree with a measurement? | [`Agreement`], [`equivalence`], [`kendall_tau_b`], [`top_1_regret`] |

mod agreement;
mod batch_means;
mod bootstrap;
mod histogram;
mod interval;
mod ranking;
mod series;
mod stopping;
mod warmup;

pub use agreement::{Agreement, AgreementError, Equivalence, MaxError, equivalence, log_ratios};
pub use batch_means::BatchMeans;
pub use bootstrap::{Bootstrap, BootstrapInterval};
pub use histogram::{CEILING_NS, COUNT_MAX, CountHistogram, LatencyHistogram};
pub use interval::{Estimate, t_critical};
pub use ranking::{kendall_tau_b, sign_agreement, top_1_regret};
pub use series::BinnedSeries;
pub use stopping::{StoppingRule, StoppingRuleError, Verdict};
pub use warmup::{Truncation, mser5};
