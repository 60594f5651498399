//! The batch gate: delayed batching, where an idle subserver launches only when enough rows wait.

use alloc::vec::Vec;

use crate::plan::{BatchSums, Origin, Row, RowKind};
use crate::time::Timestamp;

/// The threshold B of a subserver, for each number of requests in the system.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Threshold(Vec<u32>);

impl Threshold {
    /// The same threshold at any number of active requests.
    #[must_use]
    pub fn constant(rows: u32) -> Self {
        Self([rows.max(1)].into())
    }

    /// `rows[n - 1]` is the threshold while n requests are in the system; the last entry holds beyond the list. 0 counts as 1, and so does an empty list.
    #[must_use]
    pub fn by_active(rows: &[u32]) -> Self {
        if rows.is_empty() { Self::constant(1) } else { Self(rows.iter().map(|&row| row.max(1)).collect()) }
    }

    /// The threshold while `active` requests are in the system.
    #[must_use]
    pub fn at(&self, active: u32) -> u32 {
        let last = self.0.len() - 1;
        self.0[(active.max(1) as usize - 1).min(last)]
    }
}

/// Which rows the gate holds back while it is closed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Hold {
    /// Rows with one new token.
    Decode,
    /// Rows with several new tokens.
    Extend,
    /// Decode and extend rows; never a new prompt.
    Both,
    /// All rows, new prompts too; then prompts also count towards the threshold.
    All,
}

/// What may launch, and when.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GateConfig {
    /// The threshold.
    pub threshold: Threshold,
    /// The longest that a held row waits, ns; `None` is no limit.
    pub wait_ns_max: Option<u64>,
    /// Which rows are held back.
    pub hold: Hold,
}

#[derive(Clone, Debug)]
pub(crate) struct Gate {
    config: GateConfig,
    threshold_now: u32,
}

/// Which kinds of row a launch may take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Pass {
    pub(crate) prompts: bool,
    pub(crate) decodes: bool,
    pub(crate) extends: bool,
}

impl Pass {
    pub(crate) const ALL: Self = Self { prompts: true, decodes: true, extends: true };

    #[inline]
    pub(crate) fn admits(self, row: &Row) -> bool {
        match (row.origin, row.kind) {
            (Origin::Client, _) => self.prompts,
            (_, RowKind::Decode) => self.decodes,
            _ => self.extends,
        }
    }

    /// How many of the summed rows pass: decode rows, and others.
    #[inline]
    pub(crate) const fn count(self, sums: &BatchSums) -> (u32, u32) {
        // A row from the client loop is a prefill, so no row is counted twice.
        let extends = sums.rows - sums.client_rows - sums.decode_rows;
        (self.decodes as u32 * sums.decode_rows, self.prompts as u32 * sums.client_rows + self.extends as u32 * extends)
    }
}

impl Gate {
    pub(crate) fn new(config: GateConfig) -> Self {
        let threshold_now = config.threshold.at(1);
        Self { config, threshold_now }
    }

    pub(crate) fn set_active(&mut self, active: u32) {
        self.threshold_now = self.config.threshold.at(active);
    }

    pub(crate) const fn threshold_now(&self) -> u32 {
        self.threshold_now
    }

    /// What may pass, given the rows that wait (`prompts` new prompts, `others` decode and extend rows) and, where the longest wait is
    /// limited, when the oldest held row became ready.
    #[inline]
    pub(crate) fn pass(
        &self,
        now: Timestamp,
        prompts: u32,
        others: u32,
        oldest_held: impl Fn(Pass) -> Option<Timestamp>,
    ) -> Pass {
        let counted = if self.config.hold == Hold::All { prompts + others } else { others };
        if counted >= self.threshold_now {
            return Pass::ALL;
        }
        let closed = self.closed();
        if let Some(limit_ns) = self.config.wait_ns_max
            && oldest_held(closed).is_some_and(|oldest| oldest + limit_ns <= now)
        {
            return Pass::ALL;
        }
        closed
    }

    /// When the longest wait of a row that the closed gate holds ends.
    pub(crate) fn wait_ends(&self, oldest_held: impl Fn(Pass) -> Option<Timestamp>) -> Option<Timestamp> {
        let limit_ns = self.config.wait_ns_max?;
        oldest_held(self.closed()).map(|oldest| oldest + limit_ns)
    }

    const fn closed(&self) -> Pass {
        match self.config.hold {
            Hold::Decode => Pass { prompts: true, decodes: false, extends: true },
            Hold::Extend => Pass { prompts: true, decodes: true, extends: false },
            Hold::Both => Pass { prompts: true, decodes: false, extends: false },
            Hold::All => Pass { prompts: false, decodes: false, extends: false },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_threshold_list_is_indexed_by_active_requests_and_its_last_entry_holds_beyond() {
        let threshold = Threshold::by_active(&[1, 1, 2, 3]);
        let at: Vec<u32> = [0, 1, 2, 3, 4, 9].map(|active| threshold.at(active)).into();
        assert_eq!(at, [1, 1, 1, 2, 3, 3]);
    }

    #[test]
    fn the_longest_wait_opens_the_gate_at_its_end_and_not_before() {
        let gate = Gate::new(GateConfig { threshold: Threshold::constant(3), wait_ns_max: Some(10), hold: Hold::Both });
        let oldest = |_: Pass| Some(Timestamp::from_ns(5));
        assert_eq!(gate.wait_ends(oldest), Some(Timestamp::from_ns(15)));
        assert!(!gate.pass(Timestamp::from_ns(14), 0, 1, oldest).decodes);
        assert_eq!(gate.pass(Timestamp::from_ns(15), 0, 1, oldest), Pass::ALL);
    }

    #[test]
    fn prompts_count_only_when_they_are_held() {
        let gate = |hold| Gate::new(GateConfig { threshold: Threshold::constant(2), wait_ns_max: None, hold });
        let none = |_: Pass| None;
        assert_eq!(
            gate(Hold::Both).pass(Timestamp::ZERO, 5, 1, none),
            Pass { prompts: true, decodes: false, extends: false }
        );
        assert_eq!(gate(Hold::All).pass(Timestamp::ZERO, 1, 1, none), Pass::ALL);
        assert_eq!(
            gate(Hold::Extend).pass(Timestamp::ZERO, 0, 1, none),
            Pass { prompts: true, decodes: true, extends: false }
        );
    }
}
