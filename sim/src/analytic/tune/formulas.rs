//! What closed forms say about a scenario of two models: how long to wait, and where routing pays, in words.

use super::super::bounds::{self, Demand};
use super::super::mean_field::{self, MeanField};
use super::super::{Affine, RoutingLaw, break_even, fluid, lambert, renewal};
use super::TuneError;
use super::system::System;
use crate::policy::Markov;
use crate::scenario::{Order, Placement, Scenario};

/// Up to this concurrency it is looked where routing stops paying, and thresholds are enumerated.
const CONCURRENCY_MAX: u32 = 256;

/// One result of a formula, with its condition in words.
#[derive(Clone, Debug, PartialEq)]
pub struct Statement {
    /// The placement that it is about: `separate`, `overlapped`, `exclusive`, or `any`.
    pub placement: &'static str,
    /// What it is: `upper bound (tokens/s)`, `N*`, `C*`, `kappa`, ...
    pub name: &'static str,
    /// Its value; `None` where it does not exist or is beyond all that was looked at.
    pub value: Option<f64>,
    /// Whether routing, or waiting, pays by it at the scenario's concurrency; `None` where it says nothing about that.
    pub pays: Option<bool>,
    /// The condition, and what it means here.
    pub text: String,
}

/// The statements that hold for `scenario`, whichever of the placements it names: bounds for Markov policies, and for two models under the R2R law
/// the waiting rules and both break-evens. Step times enter as straight lines in the rows at the mean context; where they are none, the text says
/// "about". A formula outside its range is left out.
///
/// # Errors
/// If the arrivals are an open loop or the mode has no thresholds.
pub fn statements(scenario: &Scenario) -> Result<Vec<Statement>, TuneError> {
    let system = System::of(scenario)?;
    let mut statements = Vec::new();
    if let Some(markov) = system.markov() {
        statements.extend(upper_bound(&system, markov));
    }
    if system.n_models() == 2 {
        statements.extend(run_length(&system));
    }
    if let Some(law) = system.r2r_law() {
        let two = TwoModels::of(&system, law);
        statements.extend(two.waiting(&system));
        statements.extend(two.folded());
        statements.extend(two.separate_limit());
        statements.extend(two.exclusive_limit());
        statements.extend(two.exclusive_best());
        statements.extend(two.overlapped_limit());
    }
    Ok(statements)
}

/// Section 2. Steps per committed token stand for steps per cycle, so the bound is in tokens.
fn upper_bound(system: &System<'_>, markov: &Markov) -> Option<Statement> {
    let stationary = markov.stationary();
    let lines: Vec<(Affine, bool)> = (0..system.n_models()).map(|model| system.affine(model)).collect();
    let demands: Vec<Demand> = lines
        .iter()
        .zip(&stationary.step_fractions)
        .map(|((step, _), fraction)| Demand { steps_per_cycle: fraction / stationary.commits_per_step, step: *step })
        .collect();
    let hops_s = stationary.handoffs_per_token * system.hop_s();
    let (concurrency, placement) = (system.concurrency, system.scenario.placement());
    let value = match (placement, demands.as_slice()) {
        (Placement::Separate, _) => bounds::separate(concurrency, &demands, hops_s),
        (Placement::Exclusive(_), _) => bounds::exclusive(concurrency, &demands),
        (Placement::Overlapped, &[first, second]) => {
            bounds::overlapped(concurrency, &[first, second], system.corun_rates()?, hops_s)
        }
        (Placement::Overlapped, _) => return None,
    };
    let value = value.ok()?;
    let about = if lines.iter().all(|(_, exact)| *exact) { "" } else { "about " };
    Some(Statement {
        placement: placement.as_str(),
        name: "upper bound (tokens/s)",
        value: Some(value),
        pays: None,
        text: format!("no thresholds and no order of launches yield more than {about}{value:.1} tokens/s"),
    })
}

/// Section 7: N*, for visits of a fixed length.
fn run_length(system: &System<'_>) -> Option<Statement> {
    let (small_s, large_s) = (system.decode_s(0, 1), system.decode_s(1, 1));
    let overhead_s = 2.0 * system.hop_s();
    let costs = format!(
        "a small step instead of a large one saves {:.3} - {:.3} ms, and the two handoffs of a cycle cost {:.3} ms",
        large_s * 1e3,
        small_s * 1e3,
        overhead_s * 1e3
    );
    let statement = |value, pays, rest: &str| Statement {
        placement: "any",
        name: "N* (steps)",
        value,
        pays,
        text: format!("{costs}: {rest}"),
    };
    Some(match break_even::visit_length(small_s, large_s, overhead_s) {
        Ok(0.0) => {
            statement(Some(0.0), Some(true), "visits of any length pay for one request, or for a batch in lock-step")
        }
        Ok(steps) => {
            let rest = format!(
                "one request, or a batch in lock-step, pays from visits of N = {:.0} small steps on (N* = {steps:.2})",
                steps.floor() + 1.0
            );
            statement(Some(steps), None, &rest)
        }
        Err(_) => statement(None, Some(false), "no visit is long enough to pay"),
    })
}

/// Two models under the R2R law, as the formulas see them.
struct TwoModels {
    concurrency: u32,
    law: RoutingLaw,
    small: Affine,
    large: Affine,
    /// The large model alone, decoding.
    decode: Affine,
    handoff_s: f64,
    rates: Option<[f64; 2]>,
    about: &'static str,
}

impl TwoModels {
    fn of(system: &System<'_>, law: RoutingLaw) -> Self {
        let [(small, small_exact), (large, large_exact)] = [system.affine(0), system.affine(1)];
        let (decode, decode_exact) = system.decode_affine(1);
        Self {
            concurrency: system.concurrency,
            law,
            small,
            large,
            decode,
            handoff_s: system.hop_s(),
            rates: system.corun_rates(),
            about: if small_exact && large_exact && decode_exact { "" } else { "about " },
        }
    }

    /// Sections 5.3 and 5.4: kappa and what follows from it for the scenario's own placement.
    fn waiting(&self, system: &System<'_>) -> Option<Statement> {
        let kappa = lambert::kappa(self.law, self.small, self.large).ok()?;
        let placement = system.scenario.placement();
        let (pays, text) = match placement {
            Placement::Separate => {
                let gain = fluid::separate_waiting_gain(kappa).ok()?;
                let helps = kappa > 2.0;
                let words = match (gain - 1.0) * 100.0 {
                    per_cent if per_cent >= 1.0 => {
                        format!("exceeds 2, so with many requests a threshold gains up to about {per_cent:.0} % on separate devices")
                    }
                    _ if helps => "is about 2, from where on a threshold gains with many requests on separate devices; with few it can gain more".to_owned(),
                    _ => "does not exceed 2, so with many requests a threshold gains little on separate devices; with few it can gain more".to_owned(),
                };
                (Some(helps), words)
            }
            Placement::Exclusive(Order::LargeFirst) => {
                match lambert::best_threshold(self.concurrency, self.law, self.small, self.large) {
                    Ok(best) => (
                        Some(best.threshold > 1),
                        format!(
                            "puts the best threshold of the large model at {:.2} x C = {}, for about {:.1} tokens/s",
                            best.threshold_exact / f64::from(self.concurrency),
                            best.threshold,
                            best.tokens_per_s
                        ),
                    ),
                    Err(_) => {
                        let share = 1.0 - 1.0 / lambert::waiting_factor(kappa).ok()?;
                        (
                            None,
                            format!(
                                "puts the best threshold of the large model near {share:.2} x C; below C = 8 the formula is not to be trusted"
                            ),
                        )
                    }
                }
            }
            Placement::Exclusive(_) => {
                (None, "matters less here: the small model runs until nobody waits there anyway".to_owned())
            }
            Placement::Overlapped => (None, "has no closed rule on an overlapped device".to_owned()),
        };
        Some(Statement {
            placement: placement.as_str(),
            name: "kappa",
            value: Some(kappa),
            pays,
            text: format!("kappa = lambda a_L / a_S = {}{kappa:.2} {text}", self.about),
        })
    }

    /// Section 7: handoff and large step are one forward, so N* is 0 and one condition is left.
    fn folded(&self) -> Option<Statement> {
        let (small_s, large_s) = (self.small.step_s(1.0), self.large.step_s(1.0));
        let condition = break_even::folded_condition(self.law, small_s, large_s, self.handoff_s).ok()?;
        Some(Statement {
            placement: "any",
            name: "break-even of one request",
            value: Some(condition.saving_s / condition.cost_s),
            pays: Some(condition.holds()),
            text: format!("{condition} (p (t_L + 2z) < t_L - t_S)"),
        })
    }

    /// Section 8, separate: the concurrency up to which eager routing beats as many large models as it has devices, by the mean field.
    fn separate_limit(&self) -> Option<Statement> {
        let against = |replicas: u32| {
            self.last_paying(4, |concurrency| {
                let system = MeanField {
                    concurrency,
                    law: self.law,
                    small: self.small,
                    large: self.large,
                    threshold: 1,
                    handoff_s: self.handoff_s,
                };
                let routed = mean_field::solve(&system).ok()?.tokens_per_s;
                Some(routed > break_even::large_only(concurrency, self.decode, replicas).ok()?)
            })
        };
        let (one, two) = (against(1)?, against(2)?);
        Some(Statement {
            placement: "separate",
            name: "C*",
            value: one.value(),
            pays: Some(one.pays_at(self.concurrency)),
            text: format!(
                "eager, mean field from C = 4: beats one large device {}, two large devices that share the requests {}",
                one.words(self.about),
                two.words(self.about)
            ),
        })
    }

    /// Section 8, exclusive with the large model first: E5 against the large model alone.
    fn exclusive_limit(&self) -> Option<Statement> {
        let speedup = |concurrency| {
            break_even::exclusive_eager_speedup(concurrency, self.law, self.small, self.large, self.decode).ok()
        };
        let limit = self.last_paying(1, |concurrency| Some(speedup(concurrency)? > 1.0))?;
        let closed = break_even::concurrency_limit(self.law, self.small, self.large).ok();
        let closed = closed
            .map_or_else(String::new, |limit| format!("; if weights dominate, C* = ln(a_L/a_S)/lambda = {limit:.1}"));
        let here = speedup(self.concurrency)?;
        // Extends and decodes of one fixed time are what the printed condition is for.
        let condition =
            break_even::exclusive_eager_condition(self.concurrency, self.law, self.small, self.large, self.decode);
        let condition = condition.map_or_else(|_| String::new(), |condition| format!("; here {condition}"));
        Some(Statement {
            placement: "exclusive",
            name: "C*",
            value: limit.value(),
            pays: Some(here > 1.0),
            text: format!(
                "eager, large model first: beats the large model alone {}{closed}{condition}",
                limit.words(self.about)
            ),
        })
    }

    /// Section 8, exclusive with the best threshold, by E7.
    fn exclusive_best(&self) -> Option<Statement> {
        if self.concurrency > CONCURRENCY_MAX {
            return None;
        }
        let time = |step: Affine| move |rows: u32| step.step_s(f64::from(rows));
        let best = |concurrency| {
            renewal::exclusive_best_threshold(concurrency, self.law, time(self.small), time(self.large)).ok()
        };
        let (threshold, tokens_per_s) = best(self.concurrency)?;
        let speedup = tokens_per_s / break_even::large_only(self.concurrency, self.decode, 1).ok()?;
        let limit = break_even::exclusive_best_speedup(self.law, self.small, self.large).ok()?;
        Some(Statement {
            placement: "exclusive",
            name: "speed-up at the best threshold",
            value: Some(speedup),
            pays: Some(speedup > 1.0),
            text: format!(
                "large model first, threshold {threshold}: {}{speedup:.2} times the large model alone; if weights dominate, lambda a_L / (u a_S p) = {limit:.2} at any C",
                self.about
            ),
        })
    }

    /// Section 2, overlapped: beyond this concurrency even the upper bound loses.
    fn overlapped_limit(&self) -> Option<Statement> {
        let rates = self.rates?;
        let demands = bounds::r2r_demands(self.law, self.small, self.large).ok()?;
        let limit = self.last_paying(1, |concurrency| {
            let cycles = bounds::overlapped(concurrency, &demands, rates, 2.0 * self.handoff_s).ok()?;
            Some(cycles / self.law.p > break_even::large_only(concurrency, self.decode, 1).ok()?)
        })?;
        Some(Statement {
            placement: "overlapped",
            name: "C* at most",
            value: limit.value(),
            pays: (!limit.pays_at(self.concurrency)).then_some(false),
            text: format!(
                "rates {:.2} and {:.2}: even the upper bound beats the large model alone only {}",
                rates[0],
                rates[1],
                limit.words(self.about)
            ),
        })
    }

    /// The largest concurrency from `first` on up to which `pays` holds without a gap; `None` if it cannot be asked at all.
    fn last_paying(&self, first: u32, pays: impl Fn(u32) -> Option<bool>) -> Option<Limit> {
        let mut limit = Limit { first, last: None, is_open: false };
        for concurrency in first..=CONCURRENCY_MAX {
            if !pays(concurrency)? {
                return Some(limit);
            }
            limit.last = Some(concurrency);
        }
        limit.is_open = true;
        Some(limit)
    }
}

/// Up to where something pays.
struct Limit {
    first: u32,
    last: Option<u32>,
    is_open: bool,
}

impl Limit {
    fn value(&self) -> Option<f64> {
        self.last.filter(|_| !self.is_open).map(f64::from)
    }

    fn pays_at(&self, concurrency: u32) -> bool {
        self.is_open || self.last.is_some_and(|last| concurrency <= last)
    }

    fn words(&self, about: &str) -> String {
        match self.last {
            None => format!("not even at C = {}", self.first),
            Some(_) if self.is_open => format!("at every C up to {CONCURRENCY_MAX}"),
            Some(last) => format!("up to {about}C = {last}"),
        }
    }
}
