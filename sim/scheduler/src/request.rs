//! A request's visit to one subserver, and the transitions that it may make.

/// Where a visit stands. Ownership belongs to the visit, not to a flag on the request: two subservers may each hold one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum VisitState {
    /// The subserver holds nothing of the request.
    Absent,
    /// The request is here but its KV does not fit yet.
    Blocked,
    /// The request's row waits for a launch.
    Waiting,
    /// A step in flight carries the request's row.
    Running,
    /// The request went to a peer; its KV stays here.
    Pending,
}

impl VisitState {
    /// Whether a visit may go from this state to `next`.
    #[must_use]
    pub const fn may_become(self, next: Self) -> bool {
        use VisitState::{Absent, Blocked, Pending, Running, Waiting};
        matches!(
            (self, next),
            (Absent, Blocked | Waiting)
                | (Blocked, Waiting | Absent)
                | (Waiting, Running | Absent)
                | (Running, Waiting | Pending | Absent)
                | (Pending, Waiting | Absent)
        )
    }
}

/// A subserver's share of one request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Visit {
    pub(crate) generation: u32,
    pub(crate) state: VisitState,
    /// The client gave up. The share goes as soon as no step carries it, and messages that are still on their way are thrown away on
    /// arrival. Holds until the slot's next user.
    pub(crate) cancelled: bool,
    /// Tokens of the request that this subserver knows: prompt and committed output.
    pub(crate) context_tokens: u32,
    /// Tokens whose KV is kept here. Covers at most the whole context; a row covers at least the last token.
    pub(crate) kv_tokens: u32,
    /// Budget held for the request when KV is reserved ahead; 0 while it is blocked.
    pub(crate) reserved_tokens: u32,
    /// Counts first arrivals here; the latest arrival is preempted first.
    pub(crate) admission: u64,
}

impl Visit {
    pub(crate) const ABSENT: Self = Self {
        generation: 0,
        state: VisitState::Absent,
        cancelled: false,
        context_tokens: 0,
        kv_tokens: 0,
        reserved_tokens: 0,
        admission: 0,
    };

    #[inline]
    pub(crate) fn become_state(&mut self, next: VisitState) {
        debug_assert!(self.state.may_become(next), "a visit went from {:?} to {next:?}", self.state);
        self.state = next;
    }
}

#[cfg(test)]
mod tests {
    use super::VisitState::{self, Absent, Blocked, Pending, Running, Waiting};

    const STATES: [VisitState; 5] = [Absent, Blocked, Waiting, Running, Pending];

    #[test]
    fn the_legal_transitions_are_these_and_no_others() {
        // Rows: from; columns: to, both in the order of STATES. A pending request keeps its reservation, so it is never blocked again.
        let legal = [
            [false, true, true, false, false],
            [true, false, true, false, false],
            [true, false, false, true, false],
            [true, false, true, false, true],
            [true, false, true, false, false],
        ];
        let table = STATES.map(|from| STATES.map(|to| from.may_become(to)));
        assert_eq!(table, legal);
    }
}
