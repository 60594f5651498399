//! What it costs to choose a token by a draw instead of taking the most likely one.

use super::bench::{Bench, Clock};
use super::times::Times;
use super::{Control, Effort, MeasureError, Point, Progress, Subject};
use crate::sampling::Sampling;

/// Any temperature costs the same.
const TEMPERATURE: f32 = 0.8;

/// The same batch with greedy and with tempered choice, step by step in turn.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ChoiceCost {
    /// The batch.
    pub point: Point,
    /// Steps with greedy choice.
    pub greedy: Times,
    /// Steps with tempered choice.
    pub tempered: Times,
    /// Mean of tempered less greedy within a pair of steps, ns; may come out below 0 if there is no difference.
    pub difference_ns: f64,
    /// Standard error of that mean, ns: the standard deviation of the differences over the root of their number.
    pub standard_error_ns: f64,
}

/// Measures what a tempered choice costs beside a greedy one in steps of the shape `point`. Pairs of steps alternate in who comes first, so
/// that a drift cancels. A visit of `effort` holds pairs here, and there is one visit.
///
/// # Errors
/// [`MeasureError`]: the point does not fit, a setting makes no sense, the executor fails, or it was stopped.
pub fn measure_choice(
    subject: &mut Subject<'_>,
    point: Point,
    effort: &Effort,
    control: &mut Control<'_>,
) -> Result<ChoiceCost, MeasureError> {
    measure_by(Clock::real(), subject, point, effort, control)
}

fn measure_by(
    clock: Clock,
    subject: &mut Subject<'_>,
    point: Point,
    effort: &Effort,
    control: &mut Control<'_>,
) -> Result<ChoiceCost, MeasureError> {
    effort.check()?;
    let model = subject.model.clone();
    if point.rows == 0 || point.new_tokens == 0 {
        let value = point.to_string();
        return Err(MeasureError::Setting { field: "point", value, expected: "at least one row and one new token" });
    }
    subject.check(point).map_err(|reason| MeasureError::Unfit { model: model.clone(), point, reason })?;
    let mut bench = Bench::new(subject, control.waiting, clock)?;
    let batch = bench.prepare(point)?;
    let greedy = batch.rows(Sampling::Greedy);
    let tempered = batch.rows(Sampling::Temperature { temperature: TEMPERATURE, seed: 1 });
    for _ in 0..effort.warmup_steps {
        bench.step(&greedy)?;
        bench.step(&tempered)?;
    }
    let mut samples = [Vec::new(), Vec::new()];
    let began_ns = bench.now_ns();
    loop {
        control.check()?;
        let n_pairs = samples[0].len();
        let order = if n_pairs.is_multiple_of(2) { [0, 1] } else { [1, 0] };
        for which in order {
            let (start_ns, end_ns) = bench.step([&greedy, &tempered][which])?;
            samples[which].push(end_ns - start_ns);
        }
        let n_pairs = n_pairs + 1;
        let is_late = bench.now_ns() - began_ns >= effort.visit_ns && n_pairs >= effort.repeats_min as usize;
        if is_late || n_pairs >= effort.repeats_max.max(effort.repeats_min) as usize {
            break;
        }
    }
    (control.progress)(Progress { what: &model, done: 1, total: 1 });
    let differences: Vec<f64> =
        samples[0].iter().zip(&samples[1]).map(|(&greedy, &tempered)| tempered as f64 - greedy as f64).collect();
    let (difference_ns, standard_error_ns) = mean_and_error(&differences);
    let [greedy, tempered] = samples.map(|samples| Times::of(&samples).expect("there is at least one pair"));
    Ok(ChoiceCost { point, greedy, tempered, difference_ns, standard_error_ns })
}

/// The mean of some numbers and its standard error, which is not finite for a single number.
fn mean_and_error(numbers: &[f64]) -> (f64, f64) {
    let n = numbers.len() as f64;
    let mean = numbers.iter().sum::<f64>() / n;
    let squares: f64 = numbers.iter().map(|number| (number - mean).powi(2)).sum();
    (mean, if numbers.len() < 2 { f64::INFINITY } else { (squares / (n - 1.0) / n).sqrt() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::Waiting;
    use crate::profile::bench::tests::Scripted;

    const POINT: Point = Point { rows: 3, new_tokens: 1, kv_tokens: 20 };

    fn effort(repeats_max: u32) -> Effort {
        Effort { warmup_steps: 3, repeats_min: 2, repeats_max, visit_ns: 1_000_000_000 }
    }

    fn measure(executor: &mut Scripted, point: Point, effort: &Effort) -> Result<ChoiceCost, MeasureError> {
        let clock = executor.clock();
        measure_by(clock, &mut executor.subject(), point, effort, &mut Control::new(Waiting::Blocking))
    }

    #[test]
    fn the_difference_survives_a_drift() {
        // A draw takes 700 ns more; every step takes 100 ns more than the one before.
        let mut executor =
            Scripted::new(|step, _, sampling| 10_000 + 100 * step + if sampling == Sampling::Greedy { 0 } else { 700 });
        let cost = measure(&mut executor, POINT, &effort(40)).unwrap();
        assert_eq!((cost.difference_ns, cost.greedy.n, cost.tempered.n), (700.0, 40, 40));
        // Within a pair the second step is 100 ns late: differences of 600 and 800.
        assert!((cost.standard_error_ns - 100.0 / 39.0_f64.sqrt()).abs() < 1e-9);
        assert_eq!(executor.steps.len(), 1 + 2 * 3 + 2 * 40);
        assert!(executor.steps[1..].iter().all(|&point| point == POINT));
    }

    #[test]
    fn rows_draw_from_seeds_of_their_own() {
        let mut executor = Scripted::new(|_, _, _| 1);
        let clock = executor.clock();
        let mut subject = executor.subject();
        let mut bench = Bench::new(&mut subject, Waiting::Blocking, clock).unwrap();
        let batch = bench.prepare(POINT).unwrap();
        let rows = batch.rows(Sampling::Temperature { temperature: 0.5, seed: 9 });
        let seeds: Vec<u64> = rows
            .iter()
            .map(|row| match row.sampling {
                Sampling::Temperature { temperature: 0.5, seed } => seed,
                other => panic!("{other:?}"),
            })
            .collect();
        assert!(seeds[0] != seeds[1] && seeds[1] != seeds[2] && seeds[0] != seeds[2]);
    }

    #[test]
    fn what_makes_no_sense_or_does_not_fit_is_refused() {
        let error =
            |point, effort: &Effort| measure(&mut Scripted::new(|_, _, _| 1), point, effort).unwrap_err().to_string();
        let too_many = Point { rows: 9, ..POINT };
        let expected = "`scripted` cannot be measured at 9 x 1 new on 20 kept tokens: it has 9 rows but the executor holds 8 requests";
        assert_eq!(error(too_many, &effort(3)), expected);
        assert!(error(Point { rows: 0, ..POINT }, &effort(3)).contains("expected at least one row"));
        assert!(error(POINT, &Effort { repeats_min: 0, ..effort(3) }).contains("`repeats_min` is 0"));
    }

    #[test]
    fn means_with_their_errors() {
        // Variance of 1, 2, 3, 4 is 5/3.
        let (mean, error) = mean_and_error(&[1.0, 2.0, 3.0, 4.0]);
        assert!(mean == 2.5 && (error - (5.0_f64 / 12.0).sqrt()).abs() < 1e-12);
        assert_eq!(mean_and_error(&[3.0]), (3.0, f64::INFINITY));
    }
}
