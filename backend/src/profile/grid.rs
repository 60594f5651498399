//! Which batches are measured: a grid for the profile, and points between its nodes to check the reading of it.

use std::collections::BTreeSet;
use std::fmt;

use super::MeasureError;

/// A batch of equal rows. Ordered by kept KV first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Point {
    /// Rows.
    pub rows: u32,
    /// New tokens per row; 1 is a decode.
    pub new_tokens: u32,
    /// Kept KV tokens per row.
    pub kv_tokens: u32,
}

impl Point {
    /// New tokens of all rows.
    #[must_use]
    pub fn new_tokens_total(self) -> u64 {
        u64::from(self.rows) * u64::from(self.new_tokens)
    }

    /// Kept and new tokens of all rows.
    #[must_use]
    pub fn tokens_total(self) -> u64 {
        u64::from(self.rows) * (u64::from(self.kv_tokens) + u64::from(self.new_tokens))
    }

    fn key(self) -> (u32, u32, u32) {
        (self.kv_tokens, self.new_tokens, self.rows)
    }
}

impl PartialOrd for Point {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Point {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rows, new_tokens, kv_tokens } = self;
        write!(f, "{rows} x {new_tokens} new on {kv_tokens} kept tokens")
    }
}

/// A full product of row counts, new tokens and KV lengths, cut off where a batch has too many new tokens.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Axes {
    /// Rows, at least 1.
    pub rows: Vec<u32>,
    /// New tokens per row, at least 1.
    pub new_tokens: Vec<u32>,
    /// Kept KV tokens per row; 0 is a prefill.
    pub kv_tokens: Vec<u32>,
    /// Points with more new tokens over all rows are left out.
    pub new_tokens_total_max: u32,
}

/// The points of a profile: decodes, short extends on a kept prefix (what a handoff brings), and long ones (prompts, and first visits
/// to a model that must take in a whole context). Points that several of the three name are measured once.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Grid {
    /// Decodes: `new_tokens` is 1.
    pub decode: Axes,
    /// Extends over a few tokens.
    pub extend: Axes,
    /// Extends over many tokens on little or no KV.
    pub prefill: Axes,
}

impl Axes {
    /// Decodes at one row and no KV; meant to be filled in.
    #[must_use]
    pub fn decode() -> Self {
        Self { rows: vec![1], new_tokens: vec![1], kv_tokens: vec![0], new_tokens_total_max: u32::MAX }
    }

    fn points(&self) -> impl Iterator<Item = Point> {
        let rows_by_new = self.rows.iter().flat_map(|&rows| self.new_tokens.iter().map(move |&new| (rows, new)));
        let all = rows_by_new.flat_map(|(rows, new_tokens)| {
            self.kv_tokens.iter().map(move |&kv_tokens| Point { rows, new_tokens, kv_tokens })
        });
        all.filter(|point| point.new_tokens_total() <= u64::from(self.new_tokens_total_max))
    }

    /// Points in the middle of the grid's cells: each middle of two row counts (and the least row count itself) with a middle of new
    /// tokens and of KV, so that all middles of the longest axis occur. Many rows go with few new tokens.
    fn middles(&self) -> Vec<Point> {
        let mut rows = middles(&self.rows);
        let (new_tokens, kv_tokens) = (middles(&self.new_tokens), middles(&self.kv_tokens));
        rows.extend(self.rows.iter().min().filter(|least| !rows.contains(least)).copied());
        rows.sort_unstable();
        let n = rows.len().max(new_tokens.len()).max(kv_tokens.len());
        let point = |idx: usize| Point {
            rows: rows[idx % rows.len()],
            new_tokens: new_tokens[new_tokens.len() - 1 - idx % new_tokens.len()],
            kv_tokens: kv_tokens[idx % kv_tokens.len()],
        };
        let fits = |point: &Point| point.new_tokens_total() <= u64::from(self.new_tokens_total_max);
        (0..n).map(point).filter(fits).collect()
    }

    fn check(&self, names: [&'static str; 3]) -> Result<(), MeasureError> {
        for (field, axis, least) in
            [(names[0], &self.rows, 1), (names[1], &self.new_tokens, 1), (names[2], &self.kv_tokens, 0)]
        {
            if axis.is_empty() || axis.iter().any(|&value| value < least) {
                let expected = if least == 0 { "at least one number" } else { "numbers of at least 1" };
                return Err(MeasureError::Setting { field, value: format!("{axis:?}"), expected });
            }
        }
        Ok(())
    }
}

/// Whole numbers halfway between neighbours of an axis that have room for one; the axis itself if no two have.
fn middles(axis: &[u32]) -> Vec<u32> {
    let sorted: Vec<u32> = axis.iter().copied().collect::<BTreeSet<u32>>().into_iter().collect();
    let middle = |pair: &[u32]| (pair[1] - pair[0] >= 2).then(|| pair[0] + (pair[1] - pair[0]) / 2);
    let found: Vec<u32> = sorted.windows(2).filter_map(middle).collect();
    if found.is_empty() { sorted } else { found }
}

impl Grid {
    /// For the published sizes on a GPU: minutes. The row counts are those for which CUDA graphs exist, because the simulator pads a batch
    /// to the next row count that was measured with graphs.
    #[must_use]
    pub fn for_gpu() -> Self {
        let rows = vec![1, 2, 4, 8, 16, 24, 32, 48, 64];
        Self {
            decode: Axes { rows: rows.clone(), kv_tokens: vec![128, 1024, 2048], ..Axes::decode() },
            extend: Axes {
                rows,
                new_tokens: vec![2, 4, 8, 16, 32, 64],
                kv_tokens: vec![128, 1024, 2048],
                new_tokens_total_max: 512,
            },
            prefill: Axes {
                rows: vec![1, 2, 4, 8],
                new_tokens: vec![64, 128, 256, 512, 1024, 2048],
                kv_tokens: vec![0],
                new_tokens_total_max: 4096,
            },
        }
    }

    /// For the made-up sizes on a CPU: seconds.
    #[must_use]
    pub fn for_cpu() -> Self {
        let rows = vec![1, 2, 4, 8];
        Self {
            decode: Axes { rows: rows.clone(), kv_tokens: vec![16, 64, 192], ..Axes::decode() },
            extend: Axes {
                rows,
                new_tokens: vec![2, 4, 8, 16],
                kv_tokens: vec![16, 64, 192],
                new_tokens_total_max: 64,
            },
            prefill: Axes {
                rows: vec![1, 4],
                new_tokens: vec![16, 32, 64, 128],
                kv_tokens: vec![0],
                new_tokens_total_max: 256,
            },
        }
    }

    /// The points of the profile, each once, ascending.
    #[must_use]
    pub fn points(&self) -> Vec<Point> {
        let all = self.decode.points().chain(self.extend.points()).chain(self.prefill.points());
        all.collect::<BTreeSet<Point>>().into_iter().collect()
    }

    /// Points between those of the profile, none of which belongs to it, each once, ascending.
    #[must_use]
    pub fn held_out(&self) -> Vec<Point> {
        let on_grid: BTreeSet<Point> = self.points().into_iter().collect();
        let all: BTreeSet<Point> =
            [&self.decode, &self.extend, &self.prefill].into_iter().flat_map(Axes::middles).collect();
        all.difference(&on_grid).copied().collect()
    }

    pub(super) fn check(&self) -> Result<(), MeasureError> {
        self.decode.check(["decode.rows", "decode.new_tokens", "decode.kv_tokens"])?;
        self.extend.check(["extend.rows", "extend.new_tokens", "extend.kv_tokens"])?;
        self.prefill.check(["prefill.rows", "prefill.new_tokens", "prefill.kv_tokens"])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(rows: u32, new_tokens: u32, kv_tokens: u32) -> Point {
        Point { rows, new_tokens, kv_tokens }
    }

    fn grid() -> Grid {
        Grid {
            decode: Axes { rows: vec![1, 2, 6], kv_tokens: vec![10, 30], ..Axes::decode() },
            extend: Axes { rows: vec![1, 2], new_tokens: vec![4, 8], kv_tokens: vec![10], new_tokens_total_max: 8 },
            prefill: Axes { rows: vec![1], new_tokens: vec![8, 20], kv_tokens: vec![0, 10], new_tokens_total_max: 50 },
        }
    }

    #[test]
    fn the_points_are_products_without_the_widest_and_without_repetitions() {
        let decodes = [point(1, 1, 10), point(2, 1, 10), point(6, 1, 10)];
        let extends = [point(1, 4, 10), point(2, 4, 10), point(1, 8, 10), point(1, 20, 10)];
        let longer = [point(1, 1, 30), point(2, 1, 30), point(6, 1, 30)];
        let prefills = [point(1, 8, 0), point(1, 20, 0)];
        assert_eq!(grid().points(), [&prefills[..], &decodes, &extends, &longer].concat());
    }

    #[test]
    fn held_out_points_lie_between_and_never_on_the_grid() {
        // Decodes at rows 1 and 4 on 20; extends over 6; prefills over 14 on 5.
        assert_eq!(grid().held_out(), [point(1, 14, 5), point(1, 6, 10), point(1, 1, 20), point(4, 1, 20)]);
        for grid in [Grid::for_gpu(), Grid::for_cpu()] {
            let (points, held_out) = (grid.points(), grid.held_out());
            assert!(held_out.iter().all(|point| !points.contains(point)));
            for (axes, name) in [(&grid.decode, "decode"), (&grid.extend, "extend"), (&grid.prefill, "prefill")] {
                let n = axes.middles().iter().filter(|point| held_out.contains(point)).count();
                assert!(n >= 3, "{name} has {n} held-out points");
            }
        }
    }

    #[test]
    fn middles_need_room() {
        assert_eq!(middles(&[8, 1, 2, 4]), [3, 6]);
        assert_eq!(middles(&[1, 2]), [1, 2]);
        assert_eq!(middles(&[7]), [7]);
    }

    #[test]
    fn empty_and_zero_axes_are_named() {
        grid().check().unwrap();
        let error = |grid: Grid| grid.check().unwrap_err().to_string();
        let empty = Grid { decode: Axes { rows: vec![], ..Axes::decode() }, ..grid() };
        assert_eq!(error(empty), "`decode.rows` is [], expected numbers of at least 1");
        let zero = Grid { extend: Axes { new_tokens: vec![2, 0], ..grid().extend }, ..grid() };
        assert_eq!(error(zero), "`extend.new_tokens` is [2, 0], expected numbers of at least 1");
        let none = Grid { prefill: Axes { kv_tokens: vec![], ..grid().prefill }, ..grid() };
        assert_eq!(error(none), "`prefill.kv_tokens` is [], expected at least one number");
    }

    #[test]
    fn extends_are_measured_on_the_lengths_of_decodes() {
        // A new token reads all kept ones, so the cost of an extend grows with both: a length without extends would be read too fast.
        for grid in [Grid::for_gpu(), Grid::for_cpu()] {
            assert_eq!(grid.extend.kv_tokens, grid.decode.kv_tokens);
        }
    }
}
