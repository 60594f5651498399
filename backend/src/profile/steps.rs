//! Step times over a grid.

use super::bench::{Bench, Clock};
use super::row::ProfileRow;
use super::times::{Times, mean, median};
use super::{Control, Grid, MeasureError, Point, Progress, Subject, Unfit};
use crate::qwen3::weights::mix;
use crate::sampling::Sampling;

/// Passes over all points.
const N_PASSES: usize = 2;

/// How long to stay at a point. A visit takes `repeats_min` steps, then goes on until its time or `repeats_max` is over; each point is
/// visited twice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Effort {
    /// Steps of the first visit that do not count, at least 3 where graphs are captured; the second visit takes one.
    pub warmup_steps: u32,
    /// Steps of a visit that count, at least; not 0.
    pub repeats_min: u32,
    /// Steps of a visit that count, at most.
    pub repeats_max: u32,
    /// Time of a visit, ns, without its warm-up.
    pub visit_ns: u64,
}

impl Default for Effort {
    /// At most 2 x 100 steps and, of steps shorter than 80 ms, 0.5 s a point.
    fn default() -> Self {
        Self { warmup_steps: 3, repeats_min: 3, repeats_max: 100, visit_ns: 250_000_000 }
    }
}

/// A point and its times.
#[derive(Clone, PartialEq, Debug)]
pub struct MeasuredPoint {
    /// The batch.
    pub point: Point,
    /// Both visits together.
    pub times: Times,
    /// The mean of each visit, ns.
    pub visits_mean_ns: [f64; N_PASSES],
}

impl MeasuredPoint {
    /// How far apart the means of both visits are, over the smaller one.
    #[must_use]
    pub fn spread(&self) -> f64 {
        let [first, second] = self.visits_mean_ns;
        (first - second).abs() / first.min(second).max(1.0)
    }
}

/// A point that the executor cannot hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Skipped {
    /// The batch.
    pub point: Point,
    /// What it is too large for.
    pub reason: Unfit,
}

/// How well a measurement repeats: relative differences between the two visits of the profile's points.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RepeatSpread {
    /// Of half of the points it is not more than this.
    pub median: f64,
    /// The largest.
    pub max: f64,
    /// Where that was.
    pub worst: Point,
}

/// The steps of a model.
#[derive(Clone, PartialEq, Debug)]
pub struct StepMeasurements {
    /// The model's name.
    pub model: String,
    /// Whether CUDA graphs were on.
    pub graph: bool,
    /// The points of the profile, ascending.
    pub points: Vec<MeasuredPoint>,
    /// Points between them, which are kept out of the profile.
    pub held_out: Vec<MeasuredPoint>,
    /// Points that the executor could not hold, of either kind.
    pub skipped: Vec<Skipped>,
}

impl StepMeasurements {
    /// The rows of the profile. Held-out points are not among them.
    #[must_use]
    pub fn rows(&self, device: &str) -> Vec<ProfileRow> {
        let row = |found: &MeasuredPoint| ProfileRow::step(device, &self.model, self.graph, found.point, &found.times);
        self.points.iter().map(row).collect()
    }

    /// How well the points of the profile repeat.
    #[must_use]
    pub fn repeat_spread(&self) -> RepeatSpread {
        let worst = self.points.iter().max_by(|one, other| one.spread().total_cmp(&other.spread()));
        let worst = worst.expect("a measurement has at least one point");
        let median = median(self.points.iter().map(MeasuredPoint::spread).collect());
        RepeatSpread { median, max: worst.spread(), worst: worst.point }
    }
}

/// Measures the steps of `subject` at the points of `grid` and, between them, at held-out points. Points that do not fit are skipped.
///
/// Every point is visited twice. The first pass goes from short KV to long, so that requests only grow, and the second one back; points of the same KV
/// come in an order drawn from `seed`, another one in each pass. So a device that slowly gets slower changes the two visits of a point in
/// opposite directions and their mean little, and the difference between the two says how well the numbers repeat.
///
/// # Errors
/// [`MeasureError`]: a setting makes no sense, nothing fits, the executor fails, or it was stopped.
pub fn measure_steps(
    subject: &mut Subject<'_>,
    grid: &Grid,
    effort: &Effort,
    seed: u64,
    control: &mut Control<'_>,
) -> Result<StepMeasurements, MeasureError> {
    measure_by(Clock::real(), subject, grid, effort, seed, control)
}

fn measure_by(
    clock: Clock,
    subject: &mut Subject<'_>,
    grid: &Grid,
    effort: &Effort,
    seed: u64,
    control: &mut Control<'_>,
) -> Result<StepMeasurements, MeasureError> {
    grid.check()?;
    effort.check()?;
    let (on_grid, held_out) = (grid.points(), grid.held_out());
    let mut skipped = Vec::new();
    let mut fits = |&point: &Point| match subject.check(point) {
        Ok(()) => true,
        Err(reason) => {
            skipped.push(Skipped { point, reason });
            false
        }
    };
    let mut points: Vec<Point> = on_grid.iter().filter(|point| fits(point)).copied().collect();
    let n_on_grid = points.len();
    points.extend(held_out.iter().filter(|point| fits(point)));
    if n_on_grid == 0 {
        let n_points = on_grid.len();
        let least = skipped[..n_points].iter().min_by_key(|skipped| skipped.point.tokens_total());
        let &Skipped { point, reason } = least.expect("a checked grid has points, and none fits");
        return Err(MeasureError::NothingFits { model: subject.model.clone(), n_points, point, reason });
    }

    let (model, graph) = (subject.model.clone(), subject.graph);
    let mut bench = Bench::new(subject, control.waiting, clock)?;
    // By pass, then by point.
    let mut samples = [const { Vec::new() }; N_PASSES];
    let total = N_PASSES * points.len();
    let mut done = 0;
    for (pass, samples) in samples.iter_mut().enumerate() {
        samples.resize(points.len(), Vec::new());
        let warmup_steps = if pass == 0 { effort.warmup_steps } else { effort.warmup_steps.min(1) };
        for idx in order(&points, pass, seed) {
            samples[idx] = visit(&mut bench, points[idx], warmup_steps, effort, control)?;
            done += 1;
            (control.progress)(Progress { what: &model, done, total });
        }
    }
    let [first, second] = &samples;
    let found = |((&point, first), second): ((&Point, &Vec<u64>), &Vec<u64>)| MeasuredPoint {
        point,
        times: Times::of(&[&first[..], second].concat()).expect("a visit has at least one sample"),
        visits_mean_ns: [mean(first), mean(second)],
    };
    let mut points: Vec<MeasuredPoint> = points.iter().zip(first).zip(second).map(found).collect();
    let held_out = points.split_off(n_on_grid);
    Ok(StepMeasurements { model, graph, points, held_out, skipped })
}

/// The order of a pass, as indices.
fn order(points: &[Point], pass: usize, seed: u64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..points.len()).collect();
    let drawn = |idx: usize| mix(mix(seed ^ (pass as u64 + 1)) ^ idx as u64);
    order.sort_by_key(|&idx| {
        let kv_tokens = i64::from(points[idx].kv_tokens);
        (if pass == 0 { kv_tokens } else { -kv_tokens }, drawn(idx))
    });
    order
}

fn visit(
    bench: &mut Bench<'_, '_>,
    point: Point,
    warmup_steps: u32,
    effort: &Effort,
    control: &Control<'_>,
) -> Result<Vec<u64>, MeasureError> {
    control.check()?;
    let batch = bench.prepare(point)?;
    let rows = batch.rows(Sampling::Greedy);
    for _ in 0..warmup_steps {
        bench.step(&rows)?;
    }
    let mut samples = Vec::with_capacity(effort.repeats_max as usize);
    let began_ns = bench.now_ns();
    loop {
        control.check()?;
        let (start_ns, end_ns) = bench.step(&rows)?;
        samples.push(end_ns - start_ns);
        let n = samples.len();
        let is_late = end_ns - began_ns >= effort.visit_ns && n >= effort.repeats_min as usize;
        if is_late || n >= effort.repeats_max.max(effort.repeats_min) as usize {
            return Ok(samples);
        }
    }
}

impl Effort {
    pub(super) fn check(&self) -> Result<(), MeasureError> {
        if self.repeats_min == 0 {
            return Err(MeasureError::Setting { field: "repeats_min", value: "0".into(), expected: "at least 1" });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use handoff_sim::cost::{AffineLatency, Selection};

    use super::*;
    use crate::driver::Waiting;
    use crate::profile::bench::tests::Scripted;
    use crate::profile::{Axes, held_out_error};

    const EFFORT: Effort = Effort { warmup_steps: 3, repeats_min: 2, repeats_max: 5, visit_ns: 1_000_000 };

    fn grid() -> Grid {
        let rows = vec![1, 2, 6];
        Grid {
            decode: Axes { rows: rows.clone(), kv_tokens: vec![10, 30], ..Axes::decode() },
            extend: Axes { rows, new_tokens: vec![3, 7], kv_tokens: vec![10, 30], new_tokens_total_max: 20 },
            prefill: Axes { rows: vec![1, 2], new_tokens: vec![7, 21], kv_tokens: vec![0], new_tokens_total_max: 60 },
        }
    }

    fn measure(executor: &mut Scripted, effort: &Effort) -> Result<StepMeasurements, MeasureError> {
        let clock = executor.clock();
        let mut control = Control::new(Waiting::Blocking);
        measure_by(clock, &mut executor.subject(), &grid(), effort, 7, &mut control)
    }

    /// 0.1 ms, 10 us a row, 5 us a new token, 0.02 us a kept one: decodes over 6 rows on 30 take 193.6 us.
    fn affine() -> Scripted {
        Scripted::as_predicted(AffineLatency::new(0.1, 0.01, 0.005, 0.02).unwrap())
    }

    #[test]
    fn times_are_those_of_the_steps_and_nothing_else() {
        let measured = measure(&mut affine(), &EFFORT).unwrap();
        let grid = grid();
        assert_eq!(measured.points.iter().map(|found| found.point).collect::<Vec<_>>(), grid.points());
        assert_eq!(measured.held_out.iter().map(|found| found.point).collect::<Vec<_>>(), grid.held_out());
        assert!(measured.skipped.is_empty());
        let wanted = Point { rows: 6, new_tokens: 1, kv_tokens: 30 };
        let found = measured.points.iter().find(|found| found.point == wanted).unwrap();
        let expected_ns = 100_000.0 + 6.0 * 10_000.0 + 6.0 * 5_000.0 + 180.0 * 20.0;
        assert_eq!((found.times.mean_ns, found.times.p50_ns, found.times.n), (expected_ns, expected_ns, 10));
        assert_eq!(measured.repeat_spread().max, 0.0);
    }

    /// What the simulator reads between the points of an affine cost is exact, so the whole way through file and table is.
    #[test]
    fn the_simulator_predicts_an_affine_cost_between_the_points() {
        let measured = measure(&mut affine(), &EFFORT).unwrap();
        let rows = measured.rows("anything");
        for found in &measured.held_out {
            let is_it = |row: &&ProfileRow| {
                (row.rows, row.new_tokens, row.kv_tokens)
                    == (Some(found.point.rows), Some(found.point.new_tokens), Some(found.point.kv_tokens))
            };
            assert_eq!(rows.iter().find(is_it), None, "held-out points stay out of the profile");
        }
        let error = held_out_error(&rows, &measured, &Selection::new("scripted", false)).unwrap().unwrap();
        assert_eq!((error.n, error.n_beyond), (measured.held_out.len(), 0));
        assert!(error.mape < 1e-5 && error.max < 1e-5, "{error:?}");
    }

    #[test]
    fn warm_up_steps_do_not_count() {
        // A new shape is slow twice, as on a runner that captures graphs.
        let mut seen: Vec<Point> = Vec::new();
        let mut executor = Scripted::new(move |_, point, _| {
            let n_before = seen.iter().filter(|&&other| other == point).count();
            seen.push(point);
            if n_before < 2 { 900_000 } else { 1_000 }
        });
        let measured = measure(&mut executor, &EFFORT).unwrap();
        assert!(measured.points.iter().chain(&measured.held_out).all(|found| found.times.mean_ns == 1_000.0));
    }

    #[test]
    fn a_visit_ends_with_its_time_but_not_before_enough_steps() {
        let n_of = |step_ns: u64| {
            let measured = measure(&mut Scripted::new(move |_, _, _| step_ns), &EFFORT).unwrap();
            measured.points[0].times.n
        };
        assert_eq!((n_of(1), n_of(249_999), n_of(250_000), n_of(400_000)), (10, 10, 8, 6));
        assert_eq!(n_of(50_000_000), 4, "two visits of at least two steps");
    }

    #[test]
    fn a_steady_drift_cancels_in_the_mean_and_shows_in_the_spread() {
        // Every step takes a little longer than the one before.
        let one_step = Effort { warmup_steps: 0, repeats_min: 1, repeats_max: 1, visit_ns: 0 };
        let measured = measure(&mut Scripted::new(|step, _, _| 100_000 + 500 * step), &one_step).unwrap();
        let means: Vec<f64> = measured.points.iter().map(|found| found.times.mean_ns).collect();
        let (low, high) = means.iter().fold((f64::MAX, 0.0_f64), |(low, high), &ns| (low.min(ns), high.max(ns)));
        let spread = measured.repeat_spread();
        assert!(high / low - 1.0 < spread.max / 2.0 && spread.median > 0.05, "{low} to {high}, {spread:?}");
    }

    #[test]
    fn the_two_passes_go_up_and_down_in_drawn_orders() {
        let points = grid().points();
        let (up, down) = (order(&points, 0, 7), order(&points, 1, 7));
        assert!(up.windows(2).all(|pair| points[pair[0]].kv_tokens <= points[pair[1]].kv_tokens));
        assert!(down.windows(2).all(|pair| points[pair[0]].kv_tokens >= points[pair[1]].kv_tokens));
        assert_eq!(up, order(&points, 0, 7));
        let back: Vec<usize> = down.iter().rev().copied().collect();
        assert!(up != order(&points, 0, 8) && up != back && !up.is_sorted());
        let mut all = down;
        all.sort_unstable();
        assert!(all.into_iter().eq(0..points.len()));
    }

    #[test]
    fn what_does_not_fit_is_skipped_and_reported() {
        let mut executor = affine();
        let clock = executor.clock();
        let mut subject = Subject { slots: 4, kv_tokens_max: 60, request_tokens_max: 32, ..executor.subject() };
        let mut control = Control::new(Waiting::Blocking);
        let measured = measure_by(clock, &mut subject, &grid(), &EFFORT, 7, &mut control).unwrap();
        let reason = |rows, new_tokens, kv_tokens| {
            let point = Point { rows, new_tokens, kv_tokens };
            measured.skipped.iter().find(|skipped| skipped.point == point).map(|skipped| skipped.reason)
        };
        assert_eq!(reason(6, 1, 10), Some(Unfit::Rows { rows: 6, slots: 4 }));
        assert_eq!(reason(1, 3, 30), Some(Unfit::RequestTokens { tokens: 33, request_tokens_max: 32 }));
        assert_eq!(reason(2, 1, 30), Some(Unfit::KvTokens { tokens: 62, kv_tokens_max: 60 }));
        assert_eq!(reason(2, 7, 10), None);
        let n = measured.points.len() + measured.held_out.len() + measured.skipped.len();
        assert_eq!(n, grid().points().len() + grid().held_out().len());
        assert!(executor.kept_max <= 60);

        let mut subject = Subject { request_tokens_max: 5, ..executor.subject() };
        let clock = Clock::new(|| 0);
        let error = measure_by(clock, &mut subject, &grid(), &EFFORT, 7, &mut control).unwrap_err().to_string();
        let expected = "`scripted` holds none of the 20 points; the smallest is 1 x 7 new on 0 kept tokens: \
                        a row keeps 7 tokens but a request may keep 5";
        assert_eq!(error, expected);
    }

    #[test]
    fn it_tells_of_progress_and_stops_when_told() {
        let mut executor = affine();
        let clock = executor.clock();
        let mut told = Vec::new();
        let mut control = Control::new(Waiting::Blocking).on_progress(|progress| {
            assert_eq!(progress.what, "scripted");
            told.push((progress.done, progress.total));
        });
        measure_by(clock.clone(), &mut executor.subject(), &grid(), &EFFORT, 7, &mut control).unwrap();
        drop(control);
        let total = 2 * (grid().points().len() + grid().held_out().len());
        assert!(told.into_iter().eq((1..=total).map(|done| (done, total))));

        let n_before = executor.steps.len();
        let n_asked = std::sync::atomic::AtomicU32::new(0);
        let third = || n_asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed) == 3;
        let mut control = Control::new(Waiting::Blocking).stop_if(third);
        let stopped = measure_by(clock, &mut executor.subject(), &grid(), &EFFORT, 7, &mut control);
        assert!(matches!(stopped, Err(MeasureError::Stopped)));
        // Asked before the visit and before each counted step: two of them were taken, after a warm-up of three.
        assert_eq!(executor.steps.len() - n_before, 5);
    }

    #[test]
    fn no_repeats_are_refused() {
        let error = measure(&mut affine(), &Effort { repeats_min: 0, ..EFFORT }).unwrap_err().to_string();
        assert_eq!(error, "`repeats_min` is 0, expected at least 1");
    }
}
