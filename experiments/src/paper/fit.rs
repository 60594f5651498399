//! Fits by linear least squares.

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
}
