//! Fits by linear least squares.

use statrs::distribution::{ContinuousCDF, FisherSnedecor};

/// One equation of a linear least-squares problem in two unknowns: `coefficients` x unknowns = `value`, with the residual counted in units of
/// `scale`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Equation {
    pub(super) coefficients: [f64; 2],
    pub(super) value: f64,
    pub(super) scale: f64,
}

/// The two unknowns that make the sum of squared scaled residuals least, by the normal equations.
pub(super) fn least_squares(equations: &[Equation]) -> [f64; 2] {
    let (mut matrix, mut right) = ([[0.0_f64; 2]; 2], [0.0_f64; 2]);
    for equation in equations {
        let coefficients = equation.coefficients.map(|coefficient| coefficient / equation.scale);
        let value = equation.value / equation.scale;
        for row in 0..2 {
            right[row] += coefficients[row] * value;
            for column in 0..2 {
                matrix[row][column] += coefficients[row] * coefficients[column];
            }
        }
    }
    let determinant = matrix[0][0] * matrix[1][1] - matrix[0][1] * matrix[1][0];
    [
        (right[0] * matrix[1][1] - right[1] * matrix[0][1]) / determinant,
        (matrix[0][0] * right[1] - matrix[1][0] * right[0]) / determinant,
    ]
}

/// A straight line through points, and how well it describes them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line {
    pub(super) intercept: f64,
    pub(super) slope: f64,
    /// Share of the variance that the line explains.
    pub(super) r_squared: f64,
    /// Largest relative residual.
    pub(super) worst: f64,
}

/// The line of least squares through `(x, y)`.
pub(super) fn line(points: &[(f64, f64)]) -> Line {
    let equations: Vec<Equation> =
        points.iter().map(|&(x, y)| Equation { coefficients: [1.0, x], value: y, scale: 1.0 }).collect();
    let [intercept, slope] = least_squares(&equations);
    let mean = points.iter().map(|(_, y)| y).sum::<f64>() / points.len() as f64;
    let residual = |&(x, y): &(f64, f64)| y - intercept - slope * x;
    let left: f64 = points.iter().map(|point| residual(point).powi(2)).sum();
    let all: f64 = points.iter().map(|(_, y)| (y - mean).powi(2)).sum();
    let worst = points.iter().map(|point| (residual(point) / point.1).abs()).fold(0.0, f64::max);
    Line { intercept, slope, r_squared: if all > 0.0 { 1.0 - left / all } else { 1.0 }, worst }
}

/// The F test of lack of fit: what a straight line leaves between groups, against how values differ within a group.
#[derive(Clone, Copy, Debug)]
pub(super) struct LackOfFit {
    /// Mean square of what the line leaves of the group means, over the mean square within groups.
    pub(super) f: f64,
    /// Degrees of freedom of both.
    pub(super) degrees: [usize; 2],
    /// How likely so large an F is if a line describes the means.
    pub(super) p: f64,
}

/// The test for groups of values that share an x. At least three groups, one of them with two values that differ.
pub(super) fn lack_of_fit(groups: &[(f64, &[f64])]) -> LackOfFit {
    let points: Vec<(f64, f64)> = groups.iter().flat_map(|&(x, values)| values.iter().map(move |&y| (x, y))).collect();
    let Line { intercept, slope, .. } = line(&points);
    let (mut between, mut within) = (0.0, 0.0);
    for &(x, values) in groups {
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        between += values.len() as f64 * (mean - intercept - slope * x).powi(2);
        within += values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
    }
    let degrees = [groups.len() - 2, points.len() - groups.len()];
    let [between_degrees, within_degrees] = degrees.map(|degrees| degrees as f64);
    let f = (between / between_degrees) / (within / within_degrees);
    let distribution = FisherSnedecor::new(between_degrees, within_degrees).expect("degrees of freedom are positive");
    LackOfFit { f, degrees, p: distribution.sf(f) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn least_squares_weighs_by_scale() {
        let equation = |coefficients, value, scale| Equation { coefficients, value, scale };
        let exact = least_squares(&[equation([1.0, 2.0], 5.0, 1.0), equation([3.0, -1.0], 1.0, 2.0)]);
        assert!((exact[0] - 1.0).abs() < 1e-12 && (exact[1] - 2.0).abs() < 1e-12, "{exact:?}");
        // Two contradicting values of the first unknown: with scales 1 and 2 their weights are 1 and 1/4.
        let weighted = least_squares(&[
            equation([1.0, 0.0], 0.0, 1.0),
            equation([1.0, 0.0], 5.0, 2.0),
            equation([0.0, 1.0], 7.0, 1.0),
        ]);
        assert!((weighted[0] - 1.0).abs() < 1e-12 && (weighted[1] - 7.0).abs() < 1e-12, "{weighted:?}");
    }

    #[test]
    fn a_line_tells_what_it_leaves() {
        let straight = line(&[(0.0, 1.0), (1.0, 3.0), (2.0, 5.0)]);
        assert!((straight.intercept - 1.0).abs() < 1e-12 && (straight.slope - 2.0).abs() < 1e-12);
        assert!(straight.worst < 1e-12 && straight.r_squared > 1.0 - 1e-12);
        // A peak: the best line is flat at 4/3, and the peak lies 2/3 of its 2 above.
        let peak = line(&[(0.0, 1.0), (1.0, 2.0), (2.0, 1.0)]);
        assert!(peak.slope.abs() < 1e-12 && peak.r_squared.abs() < 1e-12 && (peak.worst - 1.0 / 3.0).abs() < 1e-12);
    }

    /// Three groups of two: means 1, 2, 1 at 0, 1, 2 leave residuals of -1/3, 2/3, -1/3 of the flat line at 4/3, so 2 x 2/3 between with one degree;
    /// within 6 x 0.01 with three degrees. F = (4/3) / 0.02 = 66.7, and F(1, 3) exceeds 34.1 with probability 0.01.
    #[test]
    fn a_peak_is_no_line() {
        let peak = lack_of_fit(&[(0.0, &[0.9, 1.1]), (1.0, &[1.9, 2.1]), (2.0, &[0.9, 1.1])]);
        assert!((peak.f - 200.0 / 3.0).abs() < 1e-9 && peak.degrees == [1, 3], "{peak:?}");
        assert!((0.001..0.01).contains(&peak.p), "{peak:?}");
        let straight = lack_of_fit(&[(0.0, &[0.9, 1.1]), (1.0, &[1.9, 2.1]), (2.0, &[2.9, 3.1])]);
        assert!(straight.f < 1e-9 && straight.p > 0.99, "{straight:?}");
    }
}
