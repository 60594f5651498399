//! Messages on their way, ordered by (time, sequence).

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use handoff_scheduler::{ModelIdx, PeerRequest, Timestamp};

/// What is delivered to a subserver.
#[derive(Clone, Copy, Debug)]
pub(super) enum Delivery {
    /// A peer request.
    Handoff { to: ModelIdx, message: PeerRequest },
    /// A new request of the closed loop, of a Poisson stream or of a trace.
    Arrival,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    at: Timestamp,
    sequence: u64,
    delivery: Delivery,
}

impl Entry {
    const fn key(&self) -> (Timestamp, u64) {
        (self.at, self.sequence)
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}
impl Eq for Entry {}
impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Entry {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

/// Deliveries of the present instant in a list, later ones in a heap; both in the order in which they were sent.
#[derive(Clone, Debug, Default)]
pub(super) struct MessageQueue {
    inbox: Vec<Delivery>,
    later: BinaryHeap<Reverse<Entry>>,
    n_sent: u64,
}

impl MessageQueue {
    #[inline]
    pub(super) fn send(&mut self, now: Timestamp, at: Timestamp, delivery: Delivery) {
        if at <= now {
            self.inbox.push(delivery);
        } else {
            self.later.push(Reverse(Entry { at, sequence: self.n_sent, delivery }));
            self.n_sent += 1;
        }
    }

    #[inline]
    pub(super) fn next_time(&self) -> Timestamp {
        self.later.peek().map_or(Timestamp::MAX, |Reverse(entry)| entry.at)
    }

    /// Takes the deliveries that are due at `now` into `due`: those that travelled first, then those of this instant.
    #[inline]
    pub(super) fn take_due(&mut self, now: Timestamp, due: &mut Vec<Delivery>) {
        due.clear();
        while self.next_time() <= now {
            if let Some(Reverse(entry)) = self.later.pop() {
                due.push(entry.delivery);
            }
        }
        due.append(&mut self.inbox);
    }
}
