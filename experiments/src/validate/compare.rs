//! How well predictions agree with measurements, over groups of cells.

use handoff_sim::stats::{Agreement, kendall_tau_b};
use serde::Serialize;

use super::row::Row;
use crate::sweep::{smallest_every, wins};

/// Agreement over a group of cells. Errors are relative; 0.05 is 5 %.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Group {
    /// Which cells.
    pub(super) group: String,
    /// How many.
    pub(super) cells: usize,
    /// Mean of the absolute errors.
    pub(super) mape: f64,
    /// Largest absolute error.
    pub(super) max_error: f64,
    /// Mean of the errors: above 0 if predictions are too high.
    pub(super) bias: f64,
    /// Rank correlation of predictions and measurements; null with one cell.
    pub(super) kendall_tau: Option<f64>,
    /// Share of cells whose measured mean lies in the predicted range.
    pub(super) in_range: f64,
    /// Largest spread of measurements repeated from the same start.
    pub(super) repeat_spread: Option<f64>,
}

/// Where routing starts to pay, from both sides.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct BothBreakEven {
    pub(super) placement: String,
    pub(super) order: Option<String>,
    pub(super) concurrency: u32,
    /// The smallest N from which every larger N has a predicted speed-up of at least 1; null if none.
    pub(super) predicted: Option<u32>,
    /// The same if each start of the line were its fastest and each of the large model alone its slowest, and the other way round. Two ends that
    /// differ mean that the starts do not settle it.
    pub(super) predicted_range: [Option<u32>; 2],
    /// As `predicted`, from measurements.
    pub(super) measured: Option<u32>,
    /// As `predicted_range`, from measurements.
    pub(super) measured_range: [Option<u32>; 2],
    pub(super) predicted_wins: Vec<u32>,
    pub(super) measured_wins: Vec<u32>,
    /// Whether the two are the same step of the grid.
    pub(super) same: bool,
    /// The measured speed-up closest to 1 among the cells on whose side of 1 the two disagree; null where they agree.
    pub(super) closest_disagreement: Option<f64>,
}

/// The best threshold, from both sides.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct BothThreshold {
    pub(super) placement: String,
    pub(super) order: Option<String>,
    pub(super) p: f64,
    pub(super) concurrency: u32,
    pub(super) predicted: u32,
    pub(super) measured: u32,
    /// Share of the measured best that the predicted threshold loses.
    pub(super) regret: f64,
}

/// Agreement of the cells that `belongs` picks; none if there are none.
pub(super) fn group(name: &str, rows: &[Row], belongs: impl Fn(&Row) -> bool) -> Option<Group> {
    let rows: Vec<&Row> = rows.iter().filter(|row| belongs(row)).collect();
    let (predicted, measured): (Vec<f64>, Vec<f64>) = rows.iter().map(|row| (row.predicted, row.measured)).unzip();
    let agreement = Agreement::of(&predicted, &measured).ok()?;
    let n = rows.len() as f64;
    Some(Group {
        group: name.to_owned(),
        cells: rows.len(),
        mape: agreement.mape,
        max_error: rows.iter().map(|row| row.error.abs()).fold(0.0, f64::max),
        bias: rows.iter().map(|row| row.error).sum::<f64>() / n,
        kendall_tau: kendall_tau_b(&predicted, &measured, 0.0),
        in_range: rows.iter().filter(|row| row.in_range).count() as f64 / n,
        repeat_spread: rows.iter().filter_map(|row| row.repeat_spread).reduce(f64::max),
    })
}

/// All groups that have cells.
pub(super) fn groups(rows: &[Row]) -> Vec<Group> {
    let all = group("all cells", rows, |row| !row.is_baseline());
    let below = group("below saturation", rows, |row| !row.is_baseline() && !row.above_saturation);
    let above = group("above saturation", rows, |row| !row.is_baseline() && row.above_saturation);
    let every = group("every N", rows, |row| row.policy == "every");
    let r2r = group("r2r", rows, |row| row.policy == "r2r");
    let alone = group("large-only", rows, Row::is_baseline);
    let mut found: Vec<Group> = [all, every, r2r, below, above, alone].into_iter().flatten().collect();
    let mut places: Vec<String> = Vec::new();
    for row in rows.iter().filter(|row| !row.is_baseline()) {
        let place = row.place();
        if !places.contains(&place) {
            places.push(place);
        }
    }
    if places.len() > 1 {
        found.extend(
            places.iter().filter_map(|place| group(place, rows, |row| !row.is_baseline() && row.place() == *place)),
        );
    }
    found
}

/// Break-evens of the every-N cells, one a placement and concurrency.
pub(super) fn break_evens(rows: &[Row]) -> Vec<BothBreakEven> {
    let baseline = |row: &Row| rows.iter().find(|other| other.is_baseline() && other.concurrency == row.concurrency);
    let mut lines: Vec<Vec<&Row>> = Vec::new();
    for row in rows.iter().filter(|row| row.policy == "every") {
        match lines.iter_mut().find(|line| line[0].same_line(row)) {
            Some(line) => line.push(row),
            None => lines.push(vec![row]),
        }
    }
    lines
        .into_iter()
        .filter_map(|mut line| {
            line.sort_by_key(|row| row.every);
            let alone = baseline(line[0])?;
            let speedups = |of: &dyn Fn(&Row) -> f64, of_alone: &dyn Fn(&Row) -> f64| -> Vec<(u32, f64)> {
                line.iter().filter_map(|row| Some((row.every?, of(row) / of_alone(alone)))).collect()
            };
            let range = |low: &dyn Fn(&Row) -> f64, high: &dyn Fn(&Row) -> f64| {
                [smallest_every(&speedups(high, low)), smallest_every(&speedups(low, high))]
            };
            let predicted = speedups(&|row| row.predicted, &|row| row.predicted);
            let measured = speedups(&|row| row.measured, &|row| row.measured);
            let both = predicted.iter().zip(&measured);
            let disagreeing = both.filter(|(one, other)| wins(one.1) != wins(other.1)).map(|(_, cell)| cell.1);
            let closest = disagreeing.min_by(|left, right| (left - 1.0).abs().total_cmp(&(right - 1.0).abs()));
            Some(BothBreakEven {
                placement: line[0].placement.clone(),
                order: line[0].order.clone(),
                concurrency: line[0].concurrency,
                same: smallest_every(&predicted) == smallest_every(&measured),
                predicted: smallest_every(&predicted),
                predicted_range: range(&|row| row.predicted_low, &|row| row.predicted_high),
                measured: smallest_every(&measured),
                measured_range: range(&|row| row.measured_low, &|row| row.measured_high),
                predicted_wins: winners(&predicted),
                measured_wins: winners(&measured),
                closest_disagreement: closest,
            })
        })
        .collect()
}

fn winners(speedups: &[(u32, f64)]) -> Vec<u32> {
    speedups.iter().filter(|&&(_, speedup)| wins(speedup)).map(|&(every, _)| every).collect()
}

/// The best threshold of each group of R2R cells that differ in nothing else.
pub(super) fn thresholds(rows: &[Row]) -> Vec<BothThreshold> {
    let mut lines: Vec<Vec<&Row>> = Vec::new();
    for row in rows.iter().filter(|row| row.policy == "r2r") {
        match lines.iter_mut().find(|line| line[0].same_line(row)) {
            Some(line) => line.push(row),
            None => lines.push(vec![row]),
        }
    }
    lines
        .into_iter()
        .filter(|line| line.len() > 1)
        .filter_map(|line| {
            let best = |value: &dyn Fn(&Row) -> f64| {
                line.iter().copied().reduce(|best, row| if value(row) > value(best) { row } else { best })
            };
            let predicted = best(&|row| row.predicted)?;
            let measured = best(&|row| row.measured)?;
            Some(BothThreshold {
                placement: line[0].placement.clone(),
                order: line[0].order.clone(),
                p: line[0].p?,
                concurrency: line[0].concurrency,
                predicted: predicted.threshold,
                measured: measured.threshold,
                regret: 1.0 - predicted.measured / measured.measured,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::row::tests::row;
    use super::*;

    fn every(every: u32, predicted: f64, measured: f64) -> Row {
        Row { policy: "every".into(), every: Some(every), ..row(predicted, measured) }
    }

    fn alone(predicted: f64, measured: f64) -> Row {
        Row { policy: "large-only".into(), placement: "alone".into(), ..row(predicted, measured) }
    }

    #[test]
    fn a_group_counts_its_cells_alone() {
        let rows = [alone(100.0, 200.0), every(1, 110.0, 100.0), every(2, 96.0, 100.0)];
        let all = group("all cells", &rows, |row| !row.is_baseline()).unwrap();
        assert_eq!((all.cells, all.in_range), (2, 0.5));
        assert!((all.mape - 0.07).abs() < 1e-12 && (all.bias - 0.03).abs() < 1e-12);
        assert!((all.max_error - 0.1).abs() < 1e-12);
        assert_eq!(group("none", &rows, |_| false), None);
        let names: Vec<String> = groups(&rows).into_iter().map(|group| group.group).collect();
        assert_eq!(names, ["all cells", "every N", "below saturation", "large-only"]);
    }

    #[test]
    fn break_evens_compare_each_side_with_its_own_baseline() {
        let rows = [alone(100.0, 50.0), every(4, 120.0, 55.0), every(1, 90.0, 52.0), every(2, 101.0, 49.0)];
        let [found] = &break_evens(&rows)[..] else { panic!("one line") };
        assert_eq!((found.predicted, found.measured, found.same), (Some(2), Some(4), false));
        assert_eq!((&found.predicted_wins[..], &found.measured_wins[..]), (&[2, 4][..], &[1, 4][..]));
        assert_eq!(found.closest_disagreement, Some(0.98));
        let losing = [alone(100.0, 100.0), every(1, 90.0, 91.0)];
        let [found] = &break_evens(&losing)[..] else { panic!("one line") };
        assert_eq!((found.predicted, found.measured, found.same, found.closest_disagreement), (None, None, true, None));
    }

    #[test]
    fn starts_that_differ_leave_the_break_even_open() {
        let spread = |row: Row, by: f64| Row {
            measured_low: row.measured - by,
            measured_high: row.measured + by,
            predicted_low: row.predicted,
            predicted_high: row.predicted,
            ..row
        };
        let rows = [alone(100.0, 100.0), every(1, 90.0, 90.0), every(2, 99.5, 100.5), every(4, 101.5, 102.5)];
        let of = |by: f64| {
            let rows: Vec<Row> = rows.iter().map(|row| spread(row.clone(), by)).collect();
            let [found] = &break_evens(&rows)[..] else { panic!("one line") };
            (found.predicted_range, found.measured_range)
        };
        assert_eq!(of(0.1), ([Some(4); 2], [Some(2); 2]));
        assert_eq!(of(1.0), ([Some(4); 2], [Some(2), Some(4)]));
        assert_eq!(of(2.0), ([Some(4); 2], [Some(2), None]));
    }

    #[test]
    fn regret_is_what_the_predicted_threshold_loses() {
        let r2r = |threshold, predicted, measured| Row {
            policy: "r2r".into(),
            p: Some(0.35),
            threshold,
            ..row(predicted, measured)
        };
        let rows = [r2r(1, 100.0, 90.0), r2r(2, 120.0, 98.0), r2r(3, 110.0, 100.0)];
        let [found] = &thresholds(&rows)[..] else { panic!("one group") };
        assert_eq!((found.predicted, found.measured), (2, 3));
        assert!((found.regret - 0.02).abs() < 1e-12);
        assert!(thresholds(&rows[..1]).is_empty(), "one threshold is no choice");
    }
}
