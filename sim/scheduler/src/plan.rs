//! What a launch carries: rows, one a request.

use crate::ids::{RequestId, StepId};
use crate::time::Timestamp;

/// What a row does to the request's KV.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum RowKind {
    /// No prefix is kept: the whole context goes through the model.
    Prefill,
    /// Two or more new tokens on top of a kept prefix.
    Extend,
    /// One new token on top of a kept prefix.
    Decode,
}

/// How a row came to wait.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Origin {
    /// A new prompt, from the client loop.
    Client,
    /// A peer request, from the inter-model loop.
    Peer,
    /// The request stayed after its last step here.
    Resident,
}

/// One request's share of a step: a forward over `new_tokens` tokens on top of `kv_tokens` kept ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Row {
    /// The request.
    pub request: RequestId,
    /// When the row became ready; its batch admission delay counts from here.
    pub ready_at: Timestamp,
    /// Tokens that go through the model, at least 1. The last of them yields the row's output token.
    pub new_tokens: u32,
    /// Tokens of the kept KV prefix.
    pub kv_tokens: u32,
    /// Prefill, extend or decode.
    pub kind: RowKind,
    /// How the row came to wait.
    pub origin: Origin,
}

/// Sums over the rows of a batch, kept while the batch gathers so that a launch costs nothing per row.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct BatchSums {
    /// Rows, one a request.
    pub rows: u32,
    /// Rows of kind decode.
    pub decode_rows: u32,
    /// Rows of kind prefill.
    pub prefill_rows: u32,
    /// Rows that came through the client loop.
    pub client_rows: u32,
    /// Rows that came through the inter-model loop.
    pub peer_rows: u32,
    /// New tokens over all rows; a decode row counts 1.
    pub new_tokens: u64,
    /// New tokens of the prefill rows.
    pub prefill_tokens: u64,
    /// Kept KV tokens over all rows.
    pub kv_tokens: u64,
    /// Sum of the rows' `ready_at` in ns, modulo 2^64: `rows * now - ready_at_sum_ns` is the rows' total wait.
    pub ready_at_sum_ns: u64,
}

impl BatchSums {
    /// Adds a row.
    #[inline]
    pub fn add(&mut self, row: &Row) {
        self.rows += 1;
        match row.kind {
            RowKind::Decode => self.decode_rows += 1,
            RowKind::Extend => {}
            RowKind::Prefill => {
                self.prefill_rows += 1;
                self.prefill_tokens += u64::from(row.new_tokens);
            }
        }
        match row.origin {
            Origin::Client => self.client_rows += 1,
            Origin::Peer => self.peer_rows += 1,
            Origin::Resident => {}
        }
        self.new_tokens += u64::from(row.new_tokens);
        self.kv_tokens += u64::from(row.kv_tokens);
        self.ready_at_sum_ns = self.ready_at_sum_ns.wrapping_add(row.ready_at.as_ns());
    }

    /// The sums of `rows`.
    #[must_use]
    pub fn of(rows: &[Row]) -> Self {
        let mut sums = Self::default();
        rows.iter().for_each(|row| sums.add(row));
        sums
    }

    /// Rows of kind extend.
    #[must_use]
    pub const fn extend_rows(&self) -> u32 {
        self.rows - self.decode_rows - self.prefill_rows
    }

    /// Total time in ns that the rows have waited at `now`.
    #[must_use]
    pub const fn waited_ns(&self, now: Timestamp) -> u64 {
        (self.rows as u64).wrapping_mul(now.as_ns()).wrapping_sub(self.ready_at_sum_ns)
    }
}

/// A launch: the driver executes one forward over `rows` and answers with `Input::StepFinished`.
#[derive(Clone, Copy, Debug)]
pub struct StepPlan<'a> {
    /// The step, counted per subserver from 0.
    pub step: StepId,
    /// The rows, in the order in which they became ready.
    pub rows: &'a [Row],
    /// Sums over the rows.
    pub sums: BatchSums,
}
