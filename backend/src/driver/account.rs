//! What a run measures, in the simulator's own terms.

use handoff_scheduler::{ModelIdx, Origin, StepPlan, Timestamp};
use handoff_sim::engine::{Metrics, ModelMetrics};

/// Collects [`Metrics`] from the end of the warm-up on.
#[derive(Debug)]
pub(super) struct Account {
    pub(super) metrics: Metrics,
    pub(super) measuring: bool,
    devices: Vec<u16>,
    in_flight: Vec<Option<InFlight>>,
    /// By device: forwards as disjoint intervals, the latest last.
    busy: Vec<Vec<(u64, u64)>>,
}

#[derive(Clone, Copy, Debug)]
struct InFlight {
    launched_at: Timestamp,
    rows: u32,
    /// The forward is over; its results wait for their round.
    left_device: bool,
}

/// Intervals kept one by one; those before are summed up. No forward reaches back past so many others.
const INTERVALS_MAX: usize = 64;

impl Account {
    pub(super) fn new(devices: Vec<u16>, measuring: bool) -> Self {
        let n_devices = devices.iter().map(|&device| usize::from(device) + 1).max().unwrap_or(0);
        let metrics = Metrics {
            models: vec![ModelMetrics::default(); devices.len()],
            device_busy_ns: vec![0; n_devices],
            ..Metrics::default()
        };
        let in_flight = vec![None; devices.len()];
        Self { metrics, measuring, devices, in_flight, busy: vec![Vec::new(); n_devices] }
    }

    pub(super) fn open_window(&mut self, now: Timestamp) {
        self.measuring = true;
        self.metrics.window_start_ns = now.as_ns();
    }

    pub(super) fn launched(&mut self, now: Timestamp, model: ModelIdx, plan: &StepPlan<'_>) {
        let rows = plan.sums.rows;
        self.in_flight[model.idx()] = Some(InFlight { launched_at: now, rows, left_device: false });
        if self.measuring {
            let metrics = &mut self.metrics.models[model.idx()];
            metrics.waiting_row_ns += u128::from(plan.sums.waited_ns(now));
            for row in plan.rows.iter().filter(|row| row.origin != Origin::Resident) {
                metrics.admission.record(now - row.ready_at);
            }
        }
    }

    /// A forward was on the device of `model` during `forward_ns`.
    pub(super) fn forward_ended(&mut self, model: ModelIdx, forward_ns: (u64, u64)) {
        if let Some(in_flight) = &mut self.in_flight[model.idx()] {
            in_flight.left_device = true;
        }
        if !self.measuring {
            return;
        }
        let (start, end) = (forward_ns.0.max(self.metrics.window_start_ns), forward_ns.1);
        if start >= end {
            return;
        }
        self.metrics.models[model.idx()].busy_ns += end - start;
        let device = usize::from(self.devices[model.idx()]);
        let intervals = &mut self.busy[device];
        let (mut first, mut last) = (start, end);
        while let Some(&(low, high)) = intervals.last()
            && high >= first
        {
            (first, last) = (first.min(low), last.max(high));
            intervals.pop();
        }
        intervals.push((first, last));
        if intervals.len() > INTERVALS_MAX {
            let old: u64 = intervals.drain(..INTERVALS_MAX / 2).map(|(low, high)| high - low).sum();
            self.metrics.device_busy_ns[device] += old;
        }
    }

    pub(super) fn absorbed(&mut self, now: Timestamp, model: ModelIdx, plan: &StepPlan<'_>) {
        let in_flight = self.in_flight[model.idx()].take();
        if !self.measuring {
            return;
        }
        let start = Timestamp::from_ns(self.metrics.window_start_ns);
        let launched_at = in_flight.map_or(now, |in_flight| in_flight.launched_at);
        let (sums, metrics) = (plan.sums, &mut self.metrics.models[model.idx()]);
        metrics.steps += 1;
        metrics.decode_rows += u64::from(sums.decode_rows);
        metrics.prefill_rows += u64::from(sums.prefill_rows);
        metrics.extend_rows += u64::from(sums.extend_rows());
        metrics.prefill_tokens += sums.prefill_tokens;
        metrics.extend_tokens += sums.new_tokens - sums.prefill_tokens - u64::from(sums.decode_rows);
        metrics.rows_squared += u128::from(sums.rows) * u128::from(sums.rows);
        metrics.in_service_row_ns += u128::from(sums.rows) * u128::from(now - launched_at.max(start));
        metrics.batch.record(sums.rows);
    }

    pub(super) fn emitted(&mut self, model: ModelIdx, committed: u32, dropped: u32) {
        if self.measuring {
            self.metrics.tokens += u64::from(committed);
            self.metrics.dropped_tokens += u64::from(dropped);
            let metrics = &mut self.metrics.models[model.idx()];
            metrics.committed_tokens += u64::from(committed);
            metrics.dropped_tokens += u64::from(dropped);
        }
    }

    pub(super) fn visited(&mut self, model: ModelIdx) {
        self.metrics.models[model.idx()].visits += u64::from(self.measuring);
    }

    pub(super) fn handed_off(&mut self, from: ModelIdx) {
        self.metrics.handoffs += u64::from(self.measuring);
        self.metrics.models[from.idx()].handoffs += u64::from(self.measuring);
    }

    pub(super) fn close_window(&mut self, now: Timestamp) {
        self.metrics.window_end_ns = now.as_ns();
        let start = Timestamp::from_ns(self.metrics.window_start_ns);
        for model in 0..self.in_flight.len() {
            let Some(InFlight { launched_at, rows, left_device }) = self.in_flight[model] else { continue };
            let in_flight_ns = now - launched_at.max(start);
            self.metrics.models[model].in_service_row_ns += u128::from(rows) * u128::from(in_flight_ns);
            if !left_device {
                // When its forward began is not known yet; the launch came right before.
                self.forward_ended(ModelIdx(model as u8), (launched_at.as_ns(), now.as_ns()));
            }
        }
        for (busy_ns, intervals) in self.metrics.device_busy_ns.iter_mut().zip(&self.busy) {
            *busy_ns += intervals.iter().map(|(low, high)| high - low).sum::<u64>();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Forwards of models 0 and 1 on one device and of model 2 on another, in the order of their ends.
    fn busy_ns(window_start_ns: u64, forwards: &[(u8, u64, u64)]) -> (Vec<u64>, Vec<u64>) {
        let mut account = Account::new(vec![0, 0, 1], false);
        account.open_window(Timestamp::from_ns(window_start_ns));
        for &(model, start, end) in forwards {
            account.forward_ended(ModelIdx(model), (start, end));
        }
        account.close_window(Timestamp::from_ns(1_000_000));
        (account.metrics.models.iter().map(|model| model.busy_ns).collect(), account.metrics.device_busy_ns)
    }

    #[test]
    fn a_device_is_busy_while_any_of_its_models_computes() {
        let apart = [(0, 10, 20), (1, 30, 50)];
        assert_eq!(busy_ns(0, &apart), (vec![10, 20, 0], vec![30, 0]));
        // A long forward ends after two short ones that it covers in part.
        let beside = [(0, 10, 20), (2, 0, 21), (0, 25, 35), (1, 15, 40)];
        assert_eq!(busy_ns(0, &beside), (vec![20, 25, 21], vec![30, 21]));
        let long = [(0, 20, 30), (0, 40, 50), (1, 10, 60)];
        assert_eq!(busy_ns(0, &long), (vec![20, 50, 0], vec![50, 0]));
        let short_last = [(1, 10, 60), (0, 55, 61)];
        assert_eq!(busy_ns(0, &short_last), (vec![6, 50, 0], vec![51, 0]));
    }

    #[test]
    fn what_lies_before_the_window_does_not_count() {
        assert_eq!(busy_ns(35, &[(0, 10, 20), (1, 30, 50)]), (vec![0, 15, 0], vec![15, 0]));
    }

    #[test]
    fn a_long_run_keeps_few_intervals_and_loses_none() {
        let forwards: Vec<_> = (0..1_000).map(|idx| (0, 10 * idx, 10 * idx + 3)).collect();
        assert_eq!(busy_ns(0, &forwards).1, [3_000, 0]);
    }

    #[test]
    fn a_forward_that_outlives_the_window_counts_up_to_its_end() {
        let mut account = Account::new(vec![0], true);
        account.in_flight[0] = Some(InFlight { launched_at: Timestamp::from_ns(70), rows: 3, left_device: false });
        account.close_window(Timestamp::from_ns(100));
        assert_eq!((account.metrics.models[0].busy_ns, account.metrics.models[0].in_service_row_ns), (30, 90));
        assert_eq!(account.metrics.device_busy_ns, [30]);
    }
}
