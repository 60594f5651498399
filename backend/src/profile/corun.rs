//! How much the steps of two models on one device slow each other down.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::bench::{Bench, Clock};
use super::row::{Kind, ProfileRow};
use super::times::Times;
use super::{Control, MeasureError, Point, Progress, Subject};
use crate::driver::ExecutorError;
use crate::runner::RowInput;
use crate::sampling::Sampling;

/// How long to look at a pair of batches: five phases, each of so many steps of each model and at least so long.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CorunEffort {
    /// Steps of each model before the first phase, at least 3 where graphs are captured.
    pub warmup_steps: u32,
    /// Steps of a phase that count, at least; not 0.
    pub steps_min: u32,
    /// Time of a phase, ns.
    pub phase_ns: u64,
}

impl Default for CorunEffort {
    /// 1.5 s a pair, if 20 steps of the slower model take no more than 0.3 s.
    fn default() -> Self {
        Self { warmup_steps: 3, steps_min: 20, phase_ns: 300_000_000 }
    }
}

/// The decode steps of a model, alone and beside those of another one.
#[derive(Clone, PartialEq, Debug)]
pub struct CorunMeasurement {
    /// The model whose steps these are.
    pub model: String,
    /// Whether its CUDA graphs were on.
    pub graph: bool,
    /// Rows of its batch.
    pub rows: u32,
    /// The other model.
    pub peer_model: String,
    /// Rows of the other model's batch.
    pub peer_rows: u32,
    /// Steps while the peer was idle, before and after those beside it.
    pub alone: Times,
    /// Steps during all of which the peer was stepping too.
    pub beside: Times,
    /// Share of that time in which a step of the peer was in flight; the rest is what the host does between two steps. The rate is too high
    /// by about as much as this is below 1.
    pub peer_busy: f64,
}

impl CorunMeasurement {
    /// Time alone over time beside the peer; see [`corun_rate`].
    #[must_use]
    pub fn rate(&self) -> f64 {
        corun_rate(self.alone.mean_ns, self.beside.mean_ns)
    }

    /// The `corun` row of the profile. Its times are those beside the peer.
    #[must_use]
    pub fn row(&self, device: &str) -> ProfileRow {
        ProfileRow {
            graph: Some(self.graph),
            rows: Some(self.rows),
            peer_model: self.peer_model.clone(),
            peer_rows: Some(self.peer_rows),
            rate: Some(self.rate()),
            ..ProfileRow::new(device, &self.model, Kind::Corun, &self.beside)
        }
    }
}

/// The speed of a step beside a peer: time alone over time beside, to four decimals. Company never makes a step faster, so noise above 1
/// is 1, and a rate of 0 would be a step that never ends.
///
/// ```
/// use handoff_backend::profile::corun_rate;
/// assert_eq!((corun_rate(2.0, 5.0), corun_rate(2.0, 1.9)), (0.4, 1.0));
/// ```
#[must_use]
pub fn corun_rate(alone_ns: f64, beside_ns: f64) -> f64 {
    ((alone_ns / beside_ns * 1e4).round() / 1e4).clamp(1e-4, 1.0)
}

/// Measures decode steps of two models on one device for pairs of row counts, each row on `kv_tokens` kept tokens: first `a` beside `b`, then `b`
/// beside `a`, for one pair after the other.
///
/// For each pair both step alone, then side by side, each on a thread of its own as in a run, and alone again, so that a steady drift cancels. Side
/// by side both go on until both have enough; steps that were not wholly within the time in which both did are left out.
///
/// # Errors
/// [`MeasureError`]: a batch does not fit, a setting makes no sense, an executor fails, or it was stopped.
pub fn measure_corun<'e>(
    a: &mut Subject<'e>,
    b: &mut Subject<'e>,
    pairs: &[(u32, u32)],
    kv_tokens: u32,
    effort: &CorunEffort,
    control: &mut Control<'_>,
) -> Result<Vec<CorunMeasurement>, MeasureError> {
    let decode = |rows: u32| Point { rows, new_tokens: 1, kv_tokens };
    if effort.steps_min == 0 {
        return Err(MeasureError::Setting { field: "steps_min", value: "0".into(), expected: "at least 1" });
    }
    for &(rows_a, rows_b) in pairs {
        for (subject, rows) in [(&*a, rows_a), (&*b, rows_b)] {
            let (model, point) = (subject.model.clone(), decode(rows));
            if rows == 0 {
                return Err(MeasureError::Setting { field: "rows", value: "0".into(), expected: "at least 1" });
            }
            subject.check(point).map_err(|reason| MeasureError::Unfit { model, point, reason })?;
        }
    }
    let what = format!("{} beside {}", a.model, b.model);
    let clock = Clock::real();
    let mut benches = [Bench::new(a, control.waiting, clock.clone())?, Bench::new(b, control.waiting, clock)?];
    let mut found = Vec::with_capacity(2 * pairs.len());
    for (idx, &(rows_a, rows_b)) in pairs.iter().enumerate() {
        let points = [decode(rows_a), decode(rows_b)];
        found.extend(measure_pair(&mut benches, points, effort, control)?);
        (control.progress)(Progress { what: &what, done: idx + 1, total: pairs.len() });
    }
    Ok(found)
}

fn measure_pair(
    benches: &mut [Bench<'_, '_>; 2],
    points: [Point; 2],
    effort: &CorunEffort,
    control: &Control<'_>,
) -> Result<[CorunMeasurement; 2], MeasureError> {
    let batches = [benches[0].prepare(points[0])?, benches[1].prepare(points[1])?];
    let rows = [batches[0].rows(Sampling::Greedy), batches[1].rows(Sampling::Greedy)];
    for (bench, rows) in benches.iter_mut().zip(&rows) {
        for _ in 0..effort.warmup_steps {
            bench.step(rows)?;
        }
    }
    let mut alone = [Vec::new(), Vec::new()];
    step_alone(benches, &rows, &mut alone, effort, control)?;
    let steps = step_side_by_side(benches, &rows, effort, control)?;
    step_alone(benches, &rows, &mut alone, effort, control)?;

    let window = overlap(&steps);
    let measured = |own: usize| -> Result<CorunMeasurement, MeasureError> {
        let (subject, peer) = (benches[own].subject(), benches[1 - own].subject());
        let beside = within(&steps[own], window);
        let no_overlap = || MeasureError::NoOverlap { model: subject.model.clone(), peer_model: peer.model.clone() };
        Ok(CorunMeasurement {
            model: subject.model.clone(),
            graph: subject.graph,
            rows: points[own].rows,
            peer_model: peer.model.clone(),
            peer_rows: points[1 - own].rows,
            alone: Times::of(&alone[own]).expect("each phase has at least one step"),
            beside: Times::of(&beside).ok_or_else(no_overlap)?,
            peer_busy: busy(&steps[1 - own], window),
        })
    };
    Ok([measured(0)?, measured(1)?])
}

/// One model after the other, while the other one is idle.
fn step_alone(
    benches: &mut [Bench<'_, '_>; 2],
    rows: &[Vec<RowInput<'_>>; 2],
    samples: &mut [Vec<u64>; 2],
    effort: &CorunEffort,
    control: &Control<'_>,
) -> Result<(), MeasureError> {
    for ((bench, rows), samples) in benches.iter_mut().zip(rows).zip(samples) {
        // The first one wakes the device up.
        let (_, began_ns) = bench.step(rows)?;
        for n_steps in 1.. {
            control.check()?;
            let (start_ns, end_ns) = bench.step(rows)?;
            samples.push(end_ns - start_ns);
            if n_steps >= effort.steps_min && end_ns - began_ns >= effort.phase_ns {
                break;
            }
        }
    }
    Ok(())
}

/// Start and end of a step, ns.
type Step = (u64, u64);

fn step_side_by_side(
    benches: &mut [Bench<'_, '_>; 2],
    rows: &[Vec<RowInput<'_>>; 2],
    effort: &CorunEffort,
    control: &Control<'_>,
) -> Result<[Vec<Step>; 2], MeasureError> {
    let enough = [const { AtomicBool::new(false) }; 2];
    let together = Barrier::new(2);
    let should_stop = &*control.should_stop;
    let models = [benches[0].subject().model.clone(), benches[1].subject().model.clone()];
    let [found_a, found_b] = thread::scope(|scope| {
        let threads = benches.iter_mut().zip(rows).enumerate().map(|(own, (bench, rows))| {
            let (enough, together) = (&enough, &together);
            scope.spawn(move || keep_stepping(bench, rows, own, enough, together, effort, should_stop))
        });
        let threads: Vec<_> = threads.collect();
        let mut found = threads.into_iter().zip(models).map(|(thread, model)| {
            let panicked = MeasureError::Executor { model, source: Box::new(ExecutorError::Panicked) };
            thread.join().unwrap_or(Err(panicked))
        });
        [found.next(), found.next()].map(|found| found.expect("there are two threads"))
    });
    Ok([found_a?, found_b?])
}

/// Says that its thread needs no more, even if the thread ends too early: the other one must not wait for it for ever.
struct Leaving<'a>(&'a AtomicBool);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

fn keep_stepping(
    bench: &mut Bench<'_, '_>,
    rows: &[RowInput<'_>],
    own: usize,
    enough: &[AtomicBool; 2],
    together: &Barrier,
    effort: &CorunEffort,
    should_stop: &(dyn Fn() -> bool + Sync),
) -> Result<Vec<Step>, MeasureError> {
    let _leaving = Leaving(&enough[own]);
    // One at each end may not count.
    let n_steps_min = effort.steps_min as usize + 2;
    let mut steps = Vec::with_capacity(4 * n_steps_min);
    together.wait();
    let began_ns = bench.now_ns();
    while !enough.iter().all(|enough| enough.load(Ordering::Acquire)) {
        if should_stop() {
            return Err(MeasureError::Stopped);
        }
        let step = bench.step(rows)?;
        steps.push(step);
        if steps.len() >= n_steps_min && step.1 - began_ns >= effort.phase_ns {
            enough[own].store(true, Ordering::Release);
        }
    }
    Ok(steps)
}

/// From when both had begun until the first of them was done.
fn overlap(steps: &[Vec<Step>; 2]) -> Step {
    let first = |steps: &Vec<Step>| steps.first().map_or(u64::MAX, |step| step.0);
    let last = |steps: &Vec<Step>| steps.last().map_or(0, |step| step.1);
    (first(&steps[0]).max(first(&steps[1])), last(&steps[0]).min(last(&steps[1])))
}

/// Durations of the steps that lie in the window, without the first of all: its thread may still be waking up.
fn within(steps: &[Step], window: Step) -> Vec<u64> {
    let inside = steps.iter().skip(1).filter(|(start, end)| *start >= window.0 && *end <= window.1);
    inside.map(|(start, end)| end - start).collect()
}

/// The share of the window that is covered by steps.
fn busy(steps: &[Step], window: Step) -> f64 {
    let covered = |&(start, end): &Step| end.min(window.1).saturating_sub(start.max(window.0));
    steps.iter().map(covered).sum::<u64>() as f64 / window.1.saturating_sub(window.0).max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_at_most_one_and_never_zero() {
        assert_eq!(corun_rate(1_970.0, 4_820.0), 0.4087);
        assert_eq!((corun_rate(5.0, 4.0), corun_rate(5.0, 5.0), corun_rate(1.0, 1e9)), (1.0, 1.0, 1e-4));
    }

    #[test]
    fn only_steps_during_which_both_were_stepping_count() {
        // The first has steps of 10 from 0 to 60, the second of 15 from 12 to 57 with gaps of 1 in front of the second and third.
        let first: Vec<Step> = (0..6).map(|idx| (10 * idx, 10 * idx + 10)).collect();
        let second = vec![(12, 26), (27, 41), (42, 57)];
        let steps = [first, second];
        let window = overlap(&steps);
        assert_eq!(window, (12, 57));
        assert_eq!(within(&steps[0], window), [10, 10, 10]);
        assert_eq!(within(&steps[1], window), [14, 15]);
        assert_eq!(busy(&steps[0], window), 1.0);
        assert_eq!(busy(&steps[1], window), 43.0 / 45.0);
    }

    #[test]
    fn steps_that_never_met_do_not_count() {
        let steps = [vec![(0, 10), (10, 20)], vec![(30, 40), (40, 50)]];
        let window = overlap(&steps);
        assert!(within(&steps[0], window).is_empty() && within(&steps[1], window).is_empty());
        assert_eq!(busy(&steps[0], window), 0.0);
        let nothing = overlap(&[vec![], vec![(1, 2)]]);
        assert!(within(&steps[0], nothing).is_empty());
    }
}
