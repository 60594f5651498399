//! What the driver itself costs, outside of forwards.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Instant;

use handoff_scheduler::{Coordination, GateConfig, Hold, KvConfig, KvFull, ModelIdx, Sharing, Threshold};
use handoff_sim::cost::{ConstantLatency, HostCost, HostPart, Jitter};
use handoff_sim::engine::{EngineConfig, ModelConfig, Window};
use handoff_sim::policy::Every;
use handoff_sim::workload::{Arrivals, Lengths, Start, Workload};

use super::row::{Kind, ProfileRow, us};
use super::times::Times;
use super::{Control, MeasureError};
use crate::driver::{DriverOptions, EmulatedExecutor, Executor, Spin, Waiting, measure};
use crate::record::RunLog;

/// Forwards of a log without which it says nothing.
const FORWARDS_MIN: usize = 20;

/// What the driver spends around a forward, as its log tells. Between two forwards of a model that has work there is one of each.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct HostOverheads {
    /// From the instant of a launch until the executor is asked to launch: taking in the results of that instant, routing, delivering
    /// messages, forming batches, and handing the batch to the model's thread. It is the profile's `launch`.
    pub before_forward: Times,
    /// From the results of a forward until the driver's next instant: handing them back and noticing them, and waiting for the end of an instant
    /// that is under way. It is the profile's `loop`.
    pub after_forward: Times,
}

impl HostOverheads {
    /// The overheads in the log of any run on the real clock. The first tenth of each model's forwards, while buffers grow, is left out.
    ///
    /// # Errors
    /// [`MeasureError::ShortLog`] if too few are left.
    pub fn from_log(log: &RunLog) -> Result<Self, MeasureError> {
        let (mut before, mut after) = (Vec::new(), Vec::new());
        for (model, _) in (0..).zip(&log.subservers) {
            let forwards = log.forwards_ns(ModelIdx(model));
            for &(before_ns, _, after_ns) in &forwards[forwards.len() / 10..] {
                before.push(before_ns);
                after.push(after_ns);
            }
        }
        match (Times::of(&before), Times::of(&after)) {
            (Some(before_forward), Some(after_forward)) if before.len() >= FORWARDS_MIN => {
                Ok(Self { before_forward, after_forward })
            }
            _ => Err(MeasureError::ShortLog { n_forwards: before.len(), expected: FORWARDS_MIN }),
        }
    }

    /// The three `host` rows of the profile. This driver handles a message within the instant that launches, so what a message costs is in
    /// `launch` already, and `message` is 1 ns: a profile has no times of 0.
    #[must_use]
    pub fn rows(&self, device: &str) -> Vec<ProfileRow> {
        let row = |(part, name)| match part {
            HostPart::Launch => ProfileRow::new(device, name, Kind::Host, &self.before_forward),
            HostPart::Loop => ProfileRow::new(device, name, Kind::Host, &self.after_forward),
            HostPart::Message => {
                let none = Times { mean_ns: 0.0, p50_ns: 0.0, p99_ns: None, n: 1 };
                ProfileRow {
                    mean_us: us(0.0),
                    p50_us: None,
                    repeats: None,
                    ..ProfileRow::new(device, name, Kind::Host, &none)
                }
            }
        };
        HostPart::ALL.into_iter().map(row).collect()
    }
}

/// The run from which [`measure_host`] takes its log: a closed loop of requests that two models hand to each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HostLoad {
    /// Requests in the system, at least 1.
    pub concurrency: u32,
    /// Prompt of each request, in tokens.
    pub prompt_tokens: u32,
    /// Output of each request, in tokens.
    pub output_tokens: u32,
    /// Tokens between two handoffs, at least 1.
    pub run_length: u32,
    /// Requests after which the run ends.
    pub requests: u64,
}

impl Default for HostLoad {
    /// Some thousand steps.
    fn default() -> Self {
        Self { concurrency: 8, prompt_tokens: 16, output_tokens: 256, run_length: 8, requests: 32 }
    }
}

/// Runs two executors through the driver and tells what the driver cost. Give the executors of real models if there are any: they use caches and cores
/// as a run does. Without, [`HostLoad::emulated`] makes two that only wait.
///
/// Each executor must hold twice as many requests as are in the system, because a slot is free only after both models have let go of it, and
/// the tokens of all.
///
/// # Errors
/// [`MeasureError::Setting`] if the load makes no sense, [`MeasureError::Driver`] if the run fails.
pub fn measure_host(
    executors: &mut [Box<dyn Executor>],
    load: &HostLoad,
    seed: u64,
    control: &Control<'_>,
) -> Result<HostOverheads, MeasureError> {
    control.check()?;
    let options = DriverOptions { waiting: control.waiting, keep_log: true, ..DriverOptions::default() };
    let window = Window::Requests { warmup_requests: 0, requests: load.requests };
    let run = measure(&load.config()?, executors, seed, window, &options)?;
    HostOverheads::from_log(&run.log.expect("it was asked for"))
}

impl HostLoad {
    /// Two executors whose steps take 0.5 and 0.8 ms, whatever the batch: so different that their ends meet at all phases.
    #[must_use]
    pub fn emulated() -> Vec<Box<dyn Executor>> {
        let executor = |step_ms| {
            let latency = ConstantLatency::from_ms(step_ms).expect("it is above 0");
            Box::new(EmulatedExecutor::timed(1000, Arc::new(latency))) as Box<dyn Executor>
        };
        vec![executor(0.5), executor(0.8)]
    }

    fn config(&self) -> Result<EngineConfig, MeasureError> {
        let wrong = |field, value: u64, expected| MeasureError::Setting { field, value: value.to_string(), expected };
        let count = "a whole number of at least 1 and not too large";
        let arrivals = Arrivals::closed_loop(self.concurrency)
            .map_err(|_| wrong("concurrency", u64::from(self.concurrency), count))?;
        let prompt = Lengths::constant(self.prompt_tokens)
            .map_err(|_| wrong("prompt_tokens", u64::from(self.prompt_tokens), count))?;
        let output = Lengths::constant(self.output_tokens)
            .map_err(|_| wrong("output_tokens", u64::from(self.output_tokens), count))?;
        let policy = Every::new(self.run_length, self.run_length)
            .map_err(|_| wrong("run_length", u64::from(self.run_length), count))?;
        let requests = u32::try_from(self.requests).unwrap_or(u32::MAX);
        let workload = Workload::new(arrivals, requests, prompt, output)
            .map_err(|_| wrong("requests", self.requests, count))?
            .with_start(Start::InPhase);
        let tokens = u64::from(self.prompt_tokens) + u64::from(self.output_tokens);
        let model = |idx: u16| ModelConfig {
            name: format!("model {idx}"),
            // A prediction, at which the driver does not look.
            latency: Arc::new(ConstantLatency::from_ms(1.0).expect("it is above 0")),
            router: None,
            jitter: Jitter::none(),
            host: HostCost::default(),
            gate: GateConfig { threshold: Threshold::constant(1), wait_ns_max: None, hold: Hold::Both },
            kv: KvConfig { budget_tokens: tokens * u64::from(self.concurrency), when_full: KvFull::Wait },
            device: idx,
        };
        Ok(EngineConfig {
            models: vec![model(0), model(1)],
            policy: Arc::new(policy),
            coordination: Coordination::Independent,
            sharing: Sharing::Overlapped,
            corun: None,
            first: None,
            fused: false,
            fresh: None,
            hop_ns: 0,
            hop_bytes_per_ns: None,
            workload,
        })
    }
}

/// Measures a message from one thread to another and its receipt: half of a round trip, `n_trips` times (and a tenth of that before, which does
/// not count). The rows for a profile are made by [`hop_row`].
///
/// This driver's subservers share a thread, and a handoff is delivered in the instant in which it is sent. So a simulation of this driver leaves
/// `hop_us` at 0 and takes the `host` rows; the hop says what it would add if every subserver had a thread of its own.
///
/// # Errors
/// [`MeasureError::Setting`] if `n_trips` is 0, [`MeasureError::Stopped`].
pub fn measure_hop(n_trips: u32, control: &Control<'_>) -> Result<Times, MeasureError> {
    if n_trips == 0 {
        return Err(MeasureError::Setting { field: "n_trips", value: "0".into(), expected: "at least 1" });
    }
    let waiting = control.waiting;
    let (there_in, there) = channel::<u32>();
    let (back_in, back) = channel::<u32>();
    thread::scope(|scope| {
        scope.spawn(move || {
            while let Some(message) = receive(&there, waiting) {
                if back_in.send(message).is_err() {
                    return;
                }
            }
        });
        // Moved in here, so that it is dropped and the other thread ends, however this ends.
        let there_in = there_in;
        let n_warmup = n_trips / 10;
        let mut samples = Vec::with_capacity(n_trips as usize);
        for trip in 0..n_warmup + n_trips {
            control.check()?;
            let sent_at = Instant::now();
            there_in.send(trip).expect("the other thread lives as long as this channel");
            receive(&back, waiting).expect("the other thread answers everything");
            let trip_ns = u64::try_from(sent_at.elapsed().as_nanos()).unwrap_or(u64::MAX);
            if trip >= n_warmup {
                samples.push(trip_ns / 2);
            }
        }
        Ok(Times::of(&samples).expect("there is at least one trip"))
    })
}

/// The `hop` row of the profile, for any two models.
#[must_use]
pub fn hop_row(device: &str, hop: &Times) -> ProfileRow {
    ProfileRow::new(device, "", Kind::Hop, hop)
}

/// The next message, or `None` if nobody is left to send one. Waits as the driver does.
fn receive(messages: &std::sync::mpsc::Receiver<u32>, waiting: Waiting) -> Option<u32> {
    use std::sync::mpsc::TryRecvError;
    if waiting == Waiting::Blocking {
        return messages.recv().ok();
    }
    let mut spin = Spin::default();
    loop {
        match messages.try_recv() {
            Ok(message) => return Some(message),
            Err(TryRecvError::Empty) => spin.pause(),
            Err(TryRecvError::Disconnected) => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use handoff_scheduler::{StepId, SubserverConfig, Timestamp};
    use handoff_sim::cost::Profile;

    use super::*;
    use crate::profile::to_csv;
    use crate::record::{Entry, Event, Launch};

    /// Forwards one after the other, each with 3 us before, 100 us on the device and `after_ns` behind.
    fn log(n_forwards: u64, after_ns: impl Fn(u64) -> u64) -> RunLog {
        let config = HostLoad::default().config().unwrap();
        let model = &config.models[0];
        let subserver =
            SubserverConfig { model: ModelIdx(0), n_models: 1, gate: model.gate.clone(), first: None, kv: model.kv };
        let mut log = RunLog { subservers: vec![subserver], ..RunLog::default() };
        let mut now_ns = 0;
        for idx in 0..n_forwards {
            let mut push = |at_ns, event| {
                log.entries.push(Entry { at: Timestamp::from_ns(at_ns), model: ModelIdx(0), event });
            };
            push(now_ns, Event::Launched(Launch { step: StepId(idx), rows: vec![], request_idx: vec![] }));
            let (start, end) = (now_ns + 3_000, now_ns + 103_000);
            now_ns = end + after_ns(idx);
            push(now_ns, Event::ForwardEnded { forward_ns: (start, end) });
        }
        log
    }

    #[test]
    fn overheads_are_what_lies_around_the_forwards_of_a_log() {
        // The first tenth is not typical.
        let overheads = HostOverheads::from_log(&log(40, |idx| if idx < 4 { 1_000_000 } else { 7_000 })).unwrap();
        assert_eq!((overheads.before_forward.mean_ns, overheads.before_forward.n), (3_000.0, 36));
        assert_eq!((overheads.after_forward.mean_ns, overheads.after_forward.p99_ns), (7_000.0, Some(7_000.0)));
        let error = HostOverheads::from_log(&log(20, |_| 1)).unwrap_err().to_string();
        assert_eq!(error, "the run's log has 18 forwards, expected at least 20");
    }

    #[test]
    fn the_simulator_reads_host_and_hop() {
        let overheads = HostOverheads::from_log(&log(40, |_| 7_000)).unwrap();
        let mut rows = overheads.rows("machine");
        rows.push(hop_row("machine", &Times::of(&[4_000, 6_000]).unwrap()));
        let profile = Profile::parse(&to_csv(&rows).unwrap(), "rows").unwrap();
        let host = HostCost::from_profile(&profile, None).unwrap();
        assert_eq!(host, Some(HostCost { launch_ns: 3_000, loop_ns: 7_000, message_ns: 1 }));
        assert_eq!((profile.hops()[0].time.mean_us, profile.hops()[0].between.is_none()), (5.0, true));
    }

    #[test]
    fn a_load_without_sense_is_refused() {
        let refused = |load: HostLoad| load.config().map(drop).unwrap_err().to_string();
        let load = HostLoad::default();
        assert!(refused(HostLoad { concurrency: 0, ..load }).starts_with("`concurrency` is 0, expected"));
        assert!(refused(HostLoad { run_length: 0, ..load }).starts_with("`run_length` is 0, expected"));
        assert!(refused(HostLoad { output_tokens: 0, ..load }).starts_with("`output_tokens` is 0, expected"));
        assert!(refused(HostLoad { requests: 0, ..load }).starts_with("`requests` is 0, expected"));
    }

    #[test]
    fn messages_come_back_however_threads_wait() {
        for waiting in [Waiting::Blocking, Waiting::Spinning] {
            let hop = measure_hop(50, &Control::new(waiting)).unwrap();
            assert!(hop.n == 50 && hop.mean_ns >= 1.0);
        }
        assert!(measure_hop(0, &Control::new(Waiting::Blocking)).is_err());
        let stopped = measure_hop(50, &Control::new(Waiting::Spinning).stop_if(|| true));
        assert!(matches!(stopped, Err(MeasureError::Stopped)));
    }
}
