//! Linear interpolation on an axis.

/// The place of `x` on a non-empty ascending `axis`: the index before it and how far it is on the way to the next, from
/// 0 to below 1. Outside, the nearer end.
#[inline]
pub(super) fn bracket(axis: &[f64], x: f64) -> (usize, f64) {
    let after = axis.partition_point(|&knot| knot <= x);
    if after == 0 {
        (0, 0.0)
    } else if after == axis.len() {
        (after - 1, 0.0)
    } else {
        let (before, next) = (axis[after - 1], axis[after]);
        (after - 1, (x - before) / (next - before))
    }
}

/// The value at a place that [`bracket`] found.
#[inline]
pub(super) fn lerp(values: &[f64], idx: usize, weight: f64) -> f64 {
    if weight == 0.0 { values[idx] } else { values[idx] + (values[idx + 1] - values[idx]) * weight }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_interval_and_is_flat_outside() {
        let (axis, values) = ([1.0, 2.0, 6.0], [10.0, 30.0, 20.0]);
        let at = |x| {
            let (idx, weight) = bracket(&axis, x);
            lerp(&values, idx, weight)
        };
        assert_eq!([0.0, 1.0, 1.5, 2.0, 3.0, 6.0, 9.0].map(at), [10.0, 10.0, 20.0, 30.0, 27.5, 20.0, 20.0]);
    }
}
