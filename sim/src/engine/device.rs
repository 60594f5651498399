//! Steps in flight: which phase each is in, when it ends, and at which rate it progresses beside others on its device.

use handoff_scheduler::{ModelIdx, Timestamp};

use crate::cost::{CorunRate, CorunRates};

/// What a sum of a few products of nanoseconds and rates can be off by, and more; far below what a forward can be late.
const ROUNDING_NS: f64 = 1e-3;

/// Where a step in flight stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    /// No step is in flight.
    Idle,
    /// The host prepares the launch; the device is held.
    Launch,
    /// The forward runs.
    Forward,
    /// The host reads the results; the device is free for others.
    Loop,
}

/// The step in flight of one model.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flight {
    pub(super) phase: Phase,
    /// When the phase ends; `Timestamp::MAX` when idle.
    pub(super) ends_at: Timestamp,
    pub(super) launched_at: Timestamp,
    /// When the forward started.
    pub(super) forward_at: Timestamp,
    pub(super) rows: u32,
    /// New tokens of all rows together.
    tokens: u32,
    /// Whether its time or a rate beside another step was read beyond what was measured.
    pub(super) extrapolated: bool,
    /// Time of the forward alone on its device, ns.
    pub(super) forward_ns: u64,
    device: u16,
    /// Work that is left of the forward, ns alone on the device, as of `updated_at`.
    work_left_ns: f64,
    /// Share of full speed, in (0, 1].
    rate: f64,
    updated_at: Timestamp,
}

impl Flight {
    const IDLE: Self = Self {
        phase: Phase::Idle,
        ends_at: Timestamp::MAX,
        launched_at: Timestamp::ZERO,
        forward_at: Timestamp::ZERO,
        rows: 0,
        tokens: 0,
        extrapolated: false,
        forward_ns: 0,
        device: 0,
        work_left_ns: 0.0,
        rate: 1.0,
        updated_at: Timestamp::ZERO,
    };
}

/// What a step asks of its device and the host.
#[derive(Clone, Copy, Debug)]
pub(super) struct Work {
    pub(super) rows: u32,
    /// New tokens of all rows together.
    pub(super) tokens: u32,
    /// Time of the host before the forward, ns.
    pub(super) launch_ns: u64,
    /// Time of the forward alone on its device, ns.
    pub(super) forward_ns: u64,
    /// Whether that time was read beyond what was measured.
    pub(super) extrapolated: bool,
}

/// All steps in flight, by model.
#[derive(Debug)]
pub(super) struct Flights<'c> {
    flights: Vec<Flight>,
    /// Whether any two models share an overlapped device.
    corun: Option<&'c CorunRates>,
    /// Forwards on each device, and since when there is one.
    on_device: Vec<(u32, Timestamp)>,
}

impl<'c> Flights<'c> {
    pub(super) fn new(devices: &[u16], corun: Option<&'c CorunRates>) -> Self {
        let n_devices = devices.iter().map(|&device| usize::from(device) + 1).max().unwrap_or(0);
        Self {
            flights: devices.iter().map(|&device| Flight { device, ..Flight::IDLE }).collect(),
            corun,
            on_device: vec![(0, Timestamp::ZERO); n_devices],
        }
    }

    #[inline]
    pub(super) fn get(&self, model: ModelIdx) -> &Flight {
        &self.flights[model.idx()]
    }

    #[inline]
    pub(super) fn next_time(&self) -> Timestamp {
        self.flights.iter().map(|flight| flight.ends_at).min().unwrap_or(Timestamp::MAX)
    }

    /// The first model in index order whose phase ends at `now`.
    #[inline]
    pub(super) fn next_due(&self, now: Timestamp) -> Option<ModelIdx> {
        self.flights.iter().position(|flight| flight.ends_at == now).map(|model| ModelIdx(model as u8))
    }

    /// A step of `model` starts with the host's part, or at once with the forward.
    #[inline]
    pub(super) fn launch(&mut self, now: Timestamp, model: ModelIdx, work: Work) {
        let flight = &mut self.flights[model.idx()];
        flight.launched_at = now;
        flight.rows = work.rows;
        flight.tokens = work.tokens;
        flight.extrapolated = work.extrapolated;
        flight.forward_ns = work.forward_ns.max(1);
        if work.launch_ns > 0 {
            flight.phase = Phase::Launch;
            flight.ends_at = now + work.launch_ns;
        } else {
            self.begin_forward(now, model);
        }
    }

    #[inline]
    pub(super) fn begin_forward(&mut self, now: Timestamp, model: ModelIdx) {
        let flight = &mut self.flights[model.idx()];
        flight.phase = Phase::Forward;
        flight.forward_at = now;
        flight.ends_at = now + flight.forward_ns;
        let (n, since) = &mut self.on_device[usize::from(flight.device)];
        if *n == 0 {
            *since = now;
        }
        *n += 1;
        if let Some(corun) = self.corun {
            let flight = &mut self.flights[model.idx()];
            flight.work_left_ns = flight.forward_ns as f64;
            flight.rate = 1.0;
            flight.updated_at = now;
            self.rescale(now, model, corun);
        }
    }

    /// The forward of `model` is over. Returns since when its device was busy, if it is free now.
    #[inline]
    pub(super) fn end_forward(&mut self, now: Timestamp, model: ModelIdx, loop_ns: u64) -> Option<Timestamp> {
        let flight = &mut self.flights[model.idx()];
        flight.phase = Phase::Loop;
        flight.ends_at = now + loop_ns;
        let (n, since) = &mut self.on_device[usize::from(flight.device)];
        *n -= 1;
        let freed = (*n == 0).then_some(*since);
        if let Some(corun) = self.corun {
            self.rescale(now, model, corun);
        }
        freed
    }

    #[inline]
    pub(super) fn end(&mut self, model: ModelIdx) {
        let flight = &mut self.flights[model.idx()];
        flight.phase = Phase::Idle;
        flight.ends_at = Timestamp::MAX;
    }

    pub(super) fn device(&self, model: ModelIdx) -> usize {
        usize::from(self.flights[model.idx()].device)
    }

    /// Devices that are busy, and since when.
    pub(super) fn busy_devices(&self) -> impl Iterator<Item = (usize, Timestamp)> + '_ {
        self.on_device.iter().enumerate().filter(|(_, (n, _))| *n > 0).map(|(device, &(_, since))| (device, since))
    }

    /// The set of forwards on the device of `changed` changed: the work that is left of each goes on at its new rate.
    fn rescale(&mut self, now: Timestamp, changed: ModelIdx, corun: &CorunRates) {
        let device = self.flights[changed.idx()].device;
        let beside = |flight: &Flight| flight.device == device && flight.phase == Phase::Forward;
        for model in 0..self.flights.len() {
            if !beside(&self.flights[model]) {
                continue;
            }
            // At most two models share an overlapped device: a scenario with more is refused.
            let peer = (0..self.flights.len()).find(|&peer| peer != model && beside(&self.flights[peer]));
            let alone = CorunRate { rate: 1.0, extrapolated: false };
            let CorunRate { rate, extrapolated } = peer.map_or(alone, |peer| {
                let tokens = |model: usize| self.flights[model].tokens;
                corun.lookup(ModelIdx(model as u8), tokens(model), ModelIdx(peer as u8), tokens(peer))
            });
            let flight = &mut self.flights[model];
            flight.extrapolated |= extrapolated;
            if rate == flight.rate {
                continue;
            }
            let done_ns = (now - flight.updated_at) as f64 * flight.rate;
            flight.work_left_ns = (flight.work_left_ns - done_ns).max(0.0);
            flight.updated_at = now;
            flight.rate = rate;
            // A whole number of nanoseconds must not be rounded up by the last bits of a quotient.
            flight.ends_at = now + (flight.work_left_ns / rate - ROUNDING_NS).ceil() as u64;
        }
    }
}
