//! The batch sizes for which a CUDA graph exists.

/// The row counts that were captured as CUDA graphs, ascending. A batch runs in the smallest graph that holds it; the
/// rows beyond it are padding that computes one throw-away token each and reads no KV.
///
/// ```
/// use handoff_sim::cost::Buckets;
/// let buckets = Buckets::default();
/// assert_eq!((buckets.pad(5), buckets.pad(8), buckets.pad(9)), (8, 8, 16));
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Buckets(Vec<u32>);

impl Buckets {
    /// Buckets from captured row counts in any order; zeros and repetitions are dropped. Without any, nothing is
    /// padded.
    #[must_use]
    pub fn new(mut rows: Vec<u32>) -> Self {
        rows.retain(|&rows| rows > 0);
        rows.sort_unstable();
        rows.dedup();
        Self(rows)
    }

    /// The row count of the graph that runs `rows` rows. A batch larger than every graph runs as it is.
    #[inline]
    #[must_use]
    pub fn pad(&self, rows: u32) -> u32 {
        let idx = self.0.partition_point(|&bucket| bucket < rows);
        self.0.get(idx).copied().unwrap_or(rows)
    }

    /// The row counts, ascending.
    #[must_use]
    pub fn rows(&self) -> &[u32] {
        &self.0
    }
}

/// The powers of two up to 256 and, from 16 on, the sizes halfway between them: beyond 16 rows, less than a third of a
/// batch is padding.
impl Default for Buckets {
    fn default() -> Self {
        Self(vec![1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pads_to_the_next_captured_size() {
        let buckets = Buckets::new(vec![8, 1, 4, 4, 0]);
        assert_eq!(buckets.rows(), [1, 4, 8]);
        let padded: Vec<u32> = (1..=9).map(|rows| buckets.pad(rows)).collect();
        assert_eq!(padded, [1, 4, 4, 4, 8, 8, 8, 8, 9]);
    }

    #[test]
    fn without_graphs_nothing_is_padded() {
        assert_eq!(Buckets::new(vec![]).pad(7), 7);
    }
}
