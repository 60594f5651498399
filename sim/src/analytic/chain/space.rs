//! The states that can be reached, and the transitions between them.

use super::outcomes::Outcomes;
use super::solve::{OrderedChain, Stationary};
use super::{ChainError, ChainSolution, ChainSpec, LaunchRule, ModelBehaviour, Order};

/// What one model does between two completions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Station {
    /// Requests that wait for admission.
    pub(super) waiting: u32,
    /// Requests in the running batch; 0 if none runs.
    pub(super) running: u32,
    /// Grid units until the batch completes.
    pub(super) residual: u32,
}

/// All states reachable from the start, with their transitions.
#[derive(Debug)]
pub(super) struct Space {
    layout: Layout,
    outcomes: Outcomes,
    keys: Vec<u128>,
    /// Per state, the index of its table of outcomes.
    tables: Vec<u32>,
    /// Where the targets of state i begin; one more entry than states.
    starts: Vec<usize>,
    /// Next states, one per outcome of the state's table and in its order.
    targets: Vec<u32>,
    /// Longest step of each model, in reduced grid units.
    longest: Vec<u32>,
    /// The models by descending longest step.
    slowest_first: Vec<usize>,
}

impl Space {
    /// Breadth-first search from "all requests have just arrived at the entry model".
    pub(super) fn explore(spec: &ChainSpec, max_transitions: u64) -> Result<Self, ChainError> {
        let n = spec.steps.len();
        let divisor = common_divisor(spec);
        let longest: Vec<u32> = (0..n).map(|i| longest(spec, i) / divisor).collect();
        let layout = Layout::new(spec.concurrency, &longest)?;
        let launcher = Launcher { spec, divisor };
        let mut outcomes = Outcomes::new(&spec.routes);
        let mut states = Interner::default();
        let (mut tables, mut starts, mut targets) = (Vec::new(), vec![0], Vec::new());

        let mut stations = vec![Station::default(); n];
        stations[spec.entry].waiting = spec.concurrency;
        launcher.launch(&mut stations, spec.entry);
        states.insert(layout.pack(&stations));

        let mut completing = vec![0; n];
        let mut next = stations.clone();
        let mut idx = 0;
        while idx < states.keys.len() {
            layout.unpack(states.keys[idx], &mut stations);
            let last = complete(&mut stations, &mut completing);
            let table_idx = outcomes.idx(&completing);
            for (arrivals, _) in outcomes.table(table_idx).iter(n) {
                next.copy_from_slice(&stations);
                for (station, arrived) in next.iter_mut().zip(arrivals) {
                    station.waiting += arrived;
                }
                launcher.launch(&mut next, last);
                targets.push(states.insert(layout.pack(&next)));
            }
            if targets.len() as u64 > max_transitions {
                return Err(ChainError::TooManyTransitions { limit: max_transitions });
            }
            tables.push(table_idx);
            starts.push(targets.len());
            idx += 1;
        }
        let mut slowest_first: Vec<usize> = (0..n).collect();
        slowest_first.sort_by_key(|&i| std::cmp::Reverse(longest[i]));
        Ok(Self { layout, outcomes, keys: states.keys, tables, starts, targets, longest, slowest_first })
    }

    pub(super) fn n_states(&self) -> usize {
        self.keys.len()
    }

    /// Room for one state.
    pub(super) fn scratch(&self) -> Vec<Station> {
        vec![Station::default(); self.longest.len()]
    }

    pub(super) fn targets(&self, state: u32) -> &[u32] {
        &self.targets[self.starts[state as usize]..self.starts[state as usize + 1]]
    }

    pub(super) fn probabilities(&self, state: u32) -> &[f64] {
        &self.outcomes.table(self.tables[state as usize]).probabilities
    }

    /// A key such that, by ascending keys, few transitions lead backward: by the progress of the slowest model, then of the next one. While a model
    /// runs, its residual falls with each transition; while it is idle, its queue only grows. So only launches lead backward, and among those only
    /// launches of the slower models. The fastest model is ordered the other way round: alone, it goes from the rest of a step to a full one.
    pub(super) fn order_key(&self, state: u32, stations: &mut [Station]) -> u128 {
        self.layout.unpack(self.keys[state as usize], stations);
        let mut key = 0;
        for (place, &i) in self.slowest_first.iter().enumerate() {
            let Station { waiting, running, residual } = stations[i];
            let progress = if running == 0 {
                waiting
            } else if place + 1 == self.slowest_first.len() {
                residual
            } else {
                self.longest[i] - residual
            };
            key = key << 1 | u128::from(running == 0);
            key = key << self.layout.residual_bits[i] | u128::from(progress);
            key = key << self.layout.request_bits | u128::from(waiting);
        }
        key
    }

    /// Rewards per transition and per second under a stationary distribution.
    pub(super) fn solution(&self, chain: &OrderedChain, stationary: &Stationary, spec: &ChainSpec) -> ChainSolution {
        let n = spec.steps.len();
        let tokens_per_row: Vec<f64> = (0..n)
            .map(|i| spec.routes[i].iter().zip(&spec.commits[i]).map(|(route, commit)| route * commit).sum())
            .collect();
        let mut stations = vec![Station::default(); n];
        let mut completing = vec![0; n];
        let (mut mass, mut time, mut tokens) = (0.0, 0.0, 0.0);
        let mut busy = vec![0.0; n];
        let mut waiting = vec![0.0; n];
        let mut steps = vec![0.0; n];
        let mut rows = vec![0.0; n];
        for (&state, &weight) in chain.states.iter().zip(&stationary.weights) {
            self.layout.unpack(self.keys[state as usize], &mut stations);
            let holding = weight * f64::from(holding(&stations));
            mass += weight;
            time += holding;
            for i in 0..n {
                waiting[i] += holding * f64::from(stations[i].waiting);
                if stations[i].running > 0 {
                    busy[i] += holding;
                }
            }
            complete(&mut stations, &mut completing);
            for i in 0..n {
                if completing[i] > 0 {
                    steps[i] += weight;
                    rows[i] += weight * f64::from(completing[i]);
                    tokens += weight * f64::from(completing[i]) * tokens_per_row[i];
                }
            }
        }
        let unit_s = spec.grid_s * f64::from(common_divisor(spec));
        let models = (0..n)
            .map(|i| ModelBehaviour {
                utilisation: busy[i] / time,
                steps_per_s: steps[i] / (time * unit_s),
                mean_batch: if steps[i] > 0.0 { rows[i] / steps[i] } else { 0.0 },
                mean_waiting: waiting[i] / time,
                mean_wait_s: if rows[i] > 0.0 { waiting[i] * unit_s / rows[i] } else { 0.0 },
            })
            .collect();
        ChainSolution {
            tokens_per_s: tokens / (time * unit_s),
            mean_holding_s: time * unit_s / mass,
            models,
            n_states: self.n_states(),
            n_recurrent: chain.states.len(),
            n_transitions: chain.n_transitions(),
            residual: stationary.residual,
            passes: stationary.passes,
            rounding: spec.steps.iter().map(super::GridSteps::rounding).collect(),
        }
    }
}

/// Number of states, counted with generating functions in the number of requests: at a completion every model is idle with less than its threshold,
/// has just launched all that waited, or is in the middle of a step; not all of them can be in the middle.
pub(super) fn count_separate(spec: &ChainSpec) -> f64 {
    let n_requests = spec.concurrency as usize;
    let divisor = common_divisor(spec);
    let mut all = vec![0.0; n_requests + 1];
    all[0] = 1.0;
    let mut all_in_the_middle = all.clone();
    for (steps, &threshold) in spec.steps.iter().zip(&spec.thresholds) {
        let mut middle = vec![0.0; n_requests + 1];
        let mut in_flight = 0.0;
        for rows in 1..=spec.concurrency {
            // A batch of b leaves all larger numbers of requests at this model possible, the rest waiting.
            in_flight += f64::from(steps.units(rows).unwrap_or(0) / divisor) - 1.0;
            middle[rows as usize] = in_flight;
        }
        let any: Vec<f64> = (0..=n_requests)
            .map(|requests| {
                let idle = if (requests as u64) < u64::from(threshold) { 1.0 } else { 0.0 };
                let launched = if requests > 0 { 1.0 } else { 0.0 };
                middle[requests] + idle + launched
            })
            .collect();
        all = multiply(&all, &any);
        all_in_the_middle = multiply(&all_in_the_middle, &middle);
    }
    all[n_requests] - all_in_the_middle[n_requests]
}

/// Number of states on an exclusive device: one model has just launched, the others have any queue.
pub(super) fn count_exclusive(spec: &ChainSpec) -> f64 {
    let n_requests = spec.concurrency as usize;
    let any = vec![1.0; n_requests + 1];
    let mut launched = any.clone();
    launched[0] = 0.0;
    let one = spec.steps.iter().skip(1).fold(launched, |product, _| multiply(&product, &any));
    spec.steps.len() as f64 * one[n_requests]
}

fn multiply(a: &[f64], b: &[f64]) -> Vec<f64> {
    (0..a.len()).map(|total| (0..=total).map(|part| a[part] * b[total - part]).sum()).collect()
}

/// The largest number that divides every step time; counting in multiples of it changes nothing but the size of the state space.
fn common_divisor(spec: &ChainSpec) -> u32 {
    let mut divisor = 0;
    for steps in &spec.steps {
        for rows in 1..=spec.concurrency {
            let (mut a, mut b) = (divisor, steps.units(rows).unwrap_or(0));
            while b > 0 {
                (a, b) = (b, a % b);
            }
            divisor = a;
        }
    }
    divisor.max(1)
}

fn longest(spec: &ChainSpec, model: usize) -> u32 {
    (1..=spec.concurrency).filter_map(|rows| spec.steps[model].units(rows)).max().unwrap_or(0)
}

fn holding(stations: &[Station]) -> u32 {
    let running = stations.iter().filter(|station| station.running > 0);
    running.map(|station| station.residual).min().expect("some model runs: the thresholds cannot all hold back")
}

/// Lets the holding time pass and takes the completing batches out. Writes their sizes (0: none) and returns the last model that completed.
fn complete(stations: &mut [Station], completing: &mut [u32]) -> usize {
    let holding = holding(stations);
    let mut last = 0;
    for (i, station) in stations.iter_mut().enumerate() {
        completing[i] = 0;
        if station.running > 0 {
            station.residual -= holding;
            if station.residual == 0 {
                completing[i] = station.running;
                station.running = 0;
                last = i;
            }
        }
    }
    last
}

struct Launcher<'a> {
    spec: &'a ChainSpec,
    divisor: u32,
}

impl Launcher<'_> {
    /// Launches what may be launched; `last` is the model that has just completed.
    fn launch(&self, stations: &mut [Station], last: usize) {
        let n = stations.len();
        match self.spec.launch {
            LaunchRule::Separate => {
                for i in 0..n {
                    self.launch_one(stations, i);
                }
            }
            LaunchRule::Exclusive(Order::LargeFirst) => {
                let _ = (0..n).rev().any(|i| self.launch_one(stations, i));
            }
            LaunchRule::Exclusive(Order::SmallFirst) => {
                let _ = (0..n).any(|i| self.launch_one(stations, i));
            }
            LaunchRule::Exclusive(Order::Alternate) => {
                let _ = (1..=n).any(|offset| self.launch_one(stations, (last + offset) % n));
            }
        }
    }

    fn launch_one(&self, stations: &mut [Station], i: usize) -> bool {
        let station = &mut stations[i];
        if station.running > 0 || station.waiting == 0 || station.waiting < self.spec.thresholds[i] {
            return false;
        }
        let units = self.spec.steps[i].units(station.waiting).expect("the specification covers every batch size");
        *station = Station { waiting: 0, running: station.waiting, residual: units / self.divisor };
        true
    }
}

/// How a state is packed into 128 bits.
#[derive(Debug)]
struct Layout {
    request_bits: u32,
    residual_bits: Vec<u32>,
}

impl Layout {
    fn new(concurrency: u32, longest: &[u32]) -> Result<Self, ChainError> {
        let width = |value: u32| u32::BITS - value.leading_zeros();
        let request_bits = width(concurrency);
        // As wide as a number of requests, so that the key of the order fits wherever a state does.
        let residual_bits: Vec<u32> = longest.iter().map(|&units| width(units).max(request_bits)).collect();
        let bits = residual_bits.iter().map(|bits| bits + 2 * request_bits).sum();
        if bits > u128::BITS {
            Err(ChainError::StateTooWide { bits })
        } else {
            Ok(Self { request_bits, residual_bits })
        }
    }

    fn pack(&self, stations: &[Station]) -> u128 {
        let mut key = 0;
        for (station, &residual_bits) in stations.iter().zip(&self.residual_bits) {
            key = key << self.request_bits | u128::from(station.waiting);
            key = key << self.request_bits | u128::from(station.running);
            key = key << residual_bits | u128::from(station.residual);
        }
        key
    }

    fn unpack(&self, mut key: u128, stations: &mut [Station]) {
        let mut take = |bits: u32| {
            let value = (key & ((1 << bits) - 1)) as u32;
            key >>= bits;
            value
        };
        for (station, &residual_bits) in stations.iter_mut().zip(&self.residual_bits).rev() {
            station.residual = take(residual_bits);
            station.running = take(self.request_bits);
            station.waiting = take(self.request_bits);
        }
    }
}

/// Numbers distinct keys in the order of their first appearance. An open hash table: the search is the hot part of building a chain.
#[derive(Debug)]
struct Interner {
    keys: Vec<u128>,
    /// Number of the key + 1; 0: free. The length is a power of two.
    slots: Vec<u32>,
}

impl Default for Interner {
    fn default() -> Self {
        Self { keys: Vec::new(), slots: vec![0; 1 << 10] }
    }
}

impl Interner {
    fn insert(&mut self, key: u128) -> u32 {
        if 2 * self.keys.len() >= self.slots.len() {
            self.grow();
        }
        let mut slot = self.slot(key);
        while self.slots[slot] > 0 {
            let number = self.slots[slot] - 1;
            if self.keys[number as usize] == key {
                return number;
            }
            slot = (slot + 1) & (self.slots.len() - 1);
        }
        self.keys.push(key);
        let count = u32::try_from(self.keys.len()).expect("the limit on transitions keeps the states below 2^32");
        self.slots[slot] = count;
        count - 1
    }

    fn grow(&mut self) {
        self.slots = vec![0; 2 * self.slots.len()];
        for idx in 0..self.keys.len() {
            let mut slot = self.slot(self.keys[idx]);
            while self.slots[slot] > 0 {
                slot = (slot + 1) & (self.slots.len() - 1);
            }
            self.slots[slot] = idx as u32 + 1;
        }
    }

    fn slot(&self, key: u128) -> usize {
        const MULTIPLIER: u64 = 0x9E37_79B9_7F4A_7C15;
        let folded = (key as u64) ^ ((key >> 64) as u64).wrapping_mul(MULTIPLIER);
        let mixed = (folded ^ (folded >> 32)).wrapping_mul(MULTIPLIER);
        (mixed >> (u64::BITS - self.slots.len().trailing_zeros())) as usize
    }
}
