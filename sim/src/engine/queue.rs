//! Messages on their way, ordered by (time, sequence).

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use handoff_scheduler::{ModelIdx, PeerRequest, Timestamp};

#[derive(Clone, Copy, Debug)]
struct Entry {
    at: Timestamp,
    sequence: u64,
    to: ModelIdx,
    message: PeerRequest,
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

/// Messages that arrive later than they were sent. Those that arrive at once never come here.
#[derive(Clone, Debug, Default)]
pub(super) struct MessageQueue {
    later: BinaryHeap<Reverse<Entry>>,
    n_sent: u64,
}

impl MessageQueue {
    pub(super) fn send(&mut self, at: Timestamp, to: ModelIdx, message: PeerRequest) {
        self.later.push(Reverse(Entry { at, sequence: self.n_sent, to, message }));
        self.n_sent += 1;
    }

    #[inline]
    pub(super) fn next_time(&self) -> Timestamp {
        self.later.peek().map_or(Timestamp::MAX, |Reverse(entry)| entry.at)
    }

    /// The next message that is due at `now`, in the order in which they were sent.
    #[inline]
    pub(super) fn pop_due(&mut self, now: Timestamp) -> Option<(ModelIdx, PeerRequest)> {
        if self.next_time() > now {
            return None;
        }
        self.later.pop().map(|Reverse(entry)| (entry.to, entry.message))
    }
}
