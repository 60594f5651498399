//! The long run of a finite Markov chain.

/// Why a chain has no single long run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum NoLongRun {
    /// Several sets of states can be reached that are never left again.
    SeveralClosedSets,
    /// A share is too small for double precision.
    Degenerate,
}

/// The long-run fraction of steps at each state of a chain that begins at `entry`; 0 for states that are left for ever or never reached.
///
/// `rows` is a stochastic matrix, each row up to a common factor. The chain may be periodic. The fractions solve pi P = pi by the
/// elimination of Grassmann, Taksar and Heyman (Operations Research 33(5), 1985), which subtracts nothing and so loses no digits.
///
/// # Errors
/// If the states that can be reached do not lead into exactly one closed set, or a fraction is beyond double precision.
pub(super) fn long_run(rows: &[Vec<f64>], entry: usize) -> Result<Vec<f64>, NoLongRun> {
    let closed = closed_set(rows, entry).ok_or(NoLongRun::SeveralClosedSets)?;
    let mut p: Vec<Vec<f64>> = closed.iter().map(|&from| closed.iter().map(|&to| rows[from][to]).collect()).collect();

    for k in (1..p.len()).rev() {
        let (above, below) = p.split_at_mut(k);
        let leaving = &below[0][..k];
        let total: f64 = leaving.iter().sum();
        for row in above {
            row[k] /= total;
            let through = row[k];
            for (entry, &share) in row.iter_mut().zip(leaving) {
                *entry += through * share;
            }
        }
    }
    let mut weights = vec![1.0];
    for k in 1..p.len() {
        weights.push(weights.iter().zip(&p).map(|(weight, row)| weight * row[k]).sum());
    }
    let total: f64 = weights.iter().sum();
    // Not `total.is_finite()` alone: a fraction that underflows to 0 would silently drop a state.
    if !total.is_finite() || weights.iter().any(|&weight| weight / total <= 0.0) {
        return Err(NoLongRun::Degenerate);
    }

    let mut fractions = vec![0.0; rows.len()];
    for (&state, weight) in closed.iter().zip(weights) {
        fractions[state] = weight / total;
    }
    Ok(fractions)
}

/// The one set of states that is entered for good from `entry`; none if there are several.
fn closed_set(rows: &[Vec<f64>], entry: usize) -> Option<Vec<usize>> {
    let n = rows.len();
    let reached = reach(n, entry, |from, to| rows[from][to] > 0.0);
    // Search backwards from each state not yet seen. If some state can be reached from all others, the last start is such a state.
    let mut seen = vec![false; n];
    let mut last = entry;
    for state in (0..n).filter(|&state| reached[state]) {
        if !seen[state] {
            last = state;
            let backwards = reach(n, state, |from, to| reached[to] && rows[to][from] > 0.0);
            seen.iter_mut().zip(backwards).for_each(|(seen, new)| *seen |= new);
        }
    }
    let leads_to_last = reach(n, last, |from, to| reached[to] && rows[to][from] > 0.0);
    if (0..n).any(|state| reached[state] && !leads_to_last[state]) {
        return None;
    }
    let closed = reach(n, last, |from, to| rows[from][to] > 0.0);
    Some((0..n).filter(|&state| closed[state]).collect())
}

/// Which states can be reached from `start`, itself included.
fn reach(n: usize, start: usize, edge: impl Fn(usize, usize) -> bool) -> Vec<bool> {
    let mut reached = vec![false; n];
    let mut open = vec![start];
    reached[start] = true;
    while let Some(from) = open.pop() {
        for (to, reached) in reached.iter_mut().enumerate() {
            if !*reached && edge(from, to) {
                *reached = true;
                open.push(to);
            }
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(rows: &[&[f64]], entry: usize, expected: &[f64]) {
        let rows: Vec<Vec<f64>> = rows.iter().map(|row| row.to_vec()).collect();
        let found = long_run(&rows, entry).unwrap();
        assert!(found.iter().zip(expected).all(|(x, y)| (x - y).abs() < 1e-15), "{found:?}, expected {expected:?}");
    }

    #[test]
    fn known_chains() {
        check(&[&[1.0]], 0, &[1.0]);
        // R2R at p = 1/4: one step in five is the large model's.
        check(&[&[0.75, 0.25], &[1.0, 0.0]], 0, &[0.8, 0.2]);
        // Periodic.
        check(&[&[0.0, 1.0], &[1.0, 0.0]], 0, &[0.5, 0.5]);
        check(&[&[0.0, 1.0, 0.0], &[0.0, 0.0, 1.0], &[1.0, 0.0, 0.0]], 1, &[1.0 / 3.0; 3]);
        // One-way: the entry is left for ever.
        check(&[&[0.9, 0.1], &[0.0, 1.0]], 0, &[0.0, 1.0]);
        // Two closed sets, of which only one can be reached from the entry.
        check(&[&[1.0, 0.0, 0.0], &[0.0, 0.5, 0.5], &[0.0, 0.5, 0.5]], 2, &[0.0, 0.5, 0.5]);
    }

    #[test]
    fn several_closed_sets_are_refused() {
        let rows = [vec![0.0, 0.5, 0.5], vec![0.0, 1.0, 0.0], vec![0.0, 0.0, 1.0]];
        assert_eq!(long_run(&rows, 0), Err(NoLongRun::SeveralClosedSets));
        assert_eq!(long_run(&rows, 1), Ok(vec![0.0, 1.0, 0.0]));
    }

    #[test]
    fn a_vanishing_share_is_refused() {
        let n = 40;
        let rare = 1e-9;
        let rows: Vec<Vec<f64>> = (0..n)
            .map(|from| {
                let mut row = vec![0.0; n];
                row[0] = 1.0 - rare;
                row[(from + 1) % n] += rare;
                row
            })
            .collect();
        assert_eq!(long_run(&rows, 0), Err(NoLongRun::Degenerate));
    }

    proptest! {
        #[test]
        fn fractions_balance(weights in prop::collection::vec(prop::collection::vec(0.0_f64..1.0, 7), 7), entry in 0_usize..7) {
            let rows: Vec<Vec<f64>> = weights
                .iter()
                .map(|row| {
                    // Half the entries become 0, so that reducible chains come up too.
                    let kept: Vec<f64> = row.iter().map(|&w| if w < 0.5 { 0.0 } else { w }).collect();
                    let total: f64 = kept.iter().sum();
                    if total > 0.0 { kept.iter().map(|w| w / total).collect() } else { vec![1.0 / 7.0; 7] }
                })
                .collect();
            if let Ok(fractions) = long_run(&rows, entry) {
                prop_assert!((fractions.iter().sum::<f64>() - 1.0).abs() < 1e-12);
                for to in 0..7 {
                    let inflow: f64 = (0..7).map(|from| fractions[from] * rows[from][to]).sum();
                    prop_assert!((inflow - fractions[to]).abs() < 1e-12, "state {}: {} {}", to, inflow, fractions[to]);
                }
            }
        }
    }
}
