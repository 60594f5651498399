//! Everything that a profile holds, measured on the models of a plan.

use handoff_backend::driver::Executor;
use handoff_backend::profile::{
    ChoiceCost, Control, CorunEffort, CorunMeasurement, Effort, Grid, HeldOutError, HostLoad, HostOverheads,
    MeasureError, Point, ProfileRow, RepeatSpread, Times, held_out_error, hop_row, measure_choice, measure_corun,
    measure_hop, measure_host, measure_steps, to_csv,
};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use crate::failure::Failure;
use crate::interrupt;
use crate::machine::Plan;

/// How much is measured.
#[derive(Clone, Debug)]
pub(crate) struct Extent {
    /// Step times.
    pub(crate) grid: Grid,
    /// Visits to each point of it.
    pub(crate) effort: Effort,
    /// Pairs of models, by index, whose co-run rates are measured.
    pub(crate) pairs: Vec<(usize, usize)>,
    /// Row counts of their batches, each beside each.
    pub(crate) corun_rows: Vec<u32>,
    /// Kept tokens of their rows.
    pub(crate) corun_kv_tokens: u32,
    /// Visits to each pair of row counts.
    pub(crate) corun_effort: CorunEffort,
    /// Order of the visits.
    pub(crate) seed: u64,
}

/// What was measured beside the rows of the profile.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ModelSummary {
    pub(crate) model: String,
    pub(crate) graph: bool,
    pub(crate) points: usize,
    /// Points that the model has no room for.
    pub(crate) skipped: usize,
    /// Difference of the two visits of a point, relative: the median and the largest.
    pub(crate) spread_median: f64,
    pub(crate) spread_max: f64,
    pub(crate) spread_worst: String,
    pub(crate) held_out: Option<HeldOutSummary>,
    /// What a tempered choice costs beside a greedy one in a decode of one row, and the standard error of that, us.
    pub(crate) choice_us: f64,
    pub(crate) choice_standard_error_us: f64,
}

/// How well the simulator's reading of the profile meets points that are not in it.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct HeldOutSummary {
    pub(crate) points: usize,
    /// Points at the edge of what fits, which do not count.
    pub(crate) beyond: usize,
    pub(crate) mape: f64,
    pub(crate) bias: f64,
    pub(crate) max_error: f64,
    pub(crate) worst: String,
}

/// A co-run rate with what it comes from.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct CorunSummary {
    pub(crate) model: String,
    pub(crate) rows: u32,
    pub(crate) peer_model: String,
    pub(crate) peer_rows: u32,
    pub(crate) rate: f64,
    pub(crate) alone_us: f64,
    pub(crate) beside_us: f64,
    /// Share of the time during which a step of the peer was in flight.
    pub(crate) peer_busy: f64,
}

/// A profile and how it came about.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Measured {
    #[serde(skip)]
    pub(crate) rows: Vec<ProfileRow>,
    #[serde(skip)]
    pub(crate) held_out: Vec<HeldOutRow>,
    pub(crate) device: String,
    pub(crate) weights: &'static str,
    pub(crate) models: Vec<ModelSummary>,
    pub(crate) corun: Vec<CorunSummary>,
    pub(crate) launch_us: f64,
    pub(crate) loop_us: f64,
    pub(crate) hop_us: f64,
}

/// A held-out point.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct HeldOutRow {
    pub(crate) model: String,
    pub(crate) graph: bool,
    pub(crate) rows: u32,
    pub(crate) new_tokens: u32,
    pub(crate) kv_tokens: u32,
    pub(crate) measured_us: f64,
    pub(crate) predicted_us: f64,
    pub(crate) error: f64,
}

impl Measured {
    /// The profile as the simulator reads it.
    pub(crate) fn csv(&self) -> Result<Vec<u8>, Failure> {
        to_csv(&self.rows).map_err(|error| Failure::Machine(format!("the profile cannot be written: {error}")))
    }

    /// Adds what another set of the same models has measured: its steps.
    pub(crate) fn add_steps(&mut self, other: Self) {
        self.rows.extend(other.rows);
        self.held_out.extend(other.held_out);
        self.models.extend(other.models);
    }
}

/// Measures what `extent` says on the loaded models of `plan`. With `steps_only` neither co-run rates nor the host are measured.
pub(crate) fn measure_profile(
    plan: &Plan,
    executors: &mut [Box<dyn Executor>],
    extent: &Extent,
    steps_only: bool,
) -> Result<Measured, Failure> {
    let failed = |error: MeasureError| match error {
        MeasureError::Stopped => Failure::Stopped,
        error => Failure::Machine(format!("profile: {error}")),
    };
    let bar = ProgressBar::new(1);
    let style = ProgressStyle::with_template("{msg} {bar:40} {pos}/{len}, {eta} left");
    bar.set_style(style.expect("the template is well formed"));
    let control = || {
        Control::new(plan.waiting).stop_if(interrupt::requested).on_progress(|progress| {
            bar.set_message(progress.what.to_owned());
            bar.set_length(progress.total as u64);
            bar.set_position(progress.done as u64);
        })
    };
    let device = plan.device.as_str();
    let selections = plan.selections();
    let mut measured = Measured {
        rows: Vec::new(),
        held_out: Vec::new(),
        device: device.to_owned(),
        weights: plan.weights(),
        models: Vec::new(),
        corun: Vec::new(),
        launch_us: f64::NAN,
        loop_us: f64::NAN,
        hop_us: f64::NAN,
    };
    for (idx, executor) in executors.iter_mut().enumerate() {
        let mut subject = plan.subject(idx, executor.as_mut());
        let steps =
            measure_steps(&mut subject, &extent.grid, &extent.effort, extent.seed, &mut control()).map_err(failed)?;
        let point = Point { rows: 1, new_tokens: 1, kv_tokens: extent.corun_kv_tokens };
        let choice = measure_choice(&mut subject, point, &extent.effort, &mut control()).map_err(failed)?;
        let rows = steps.rows(device);
        let error = held_out_error(&rows, &steps, &selections[idx]).map_err(failed)?;
        if let Some(error) = &error {
            measured.held_out.extend(held_out_rows(&steps.model, steps.graph, error));
        }
        let skipped = steps.skipped.len();
        measured.models.push(summary(
            &selections[idx].model,
            steps.graph,
            rows.len(),
            skipped,
            &steps.repeat_spread(),
            error,
            &choice,
        ));
        measured.rows.extend(rows);
    }
    if steps_only {
        bar.finish_and_clear();
        return Ok(measured);
    }
    for &(one, other) in &extent.pairs {
        let [first, second] = executors.get_disjoint_mut([one, other]).expect("a pair is of two models");
        let (mut first, mut second) = (plan.subject(one, first.as_mut()), plan.subject(other, second.as_mut()));
        let pairs: Vec<(u32, u32)> = extent
            .corun_rows
            .iter()
            .flat_map(|&rows| extent.corun_rows.iter().map(move |&peer| (rows, peer)))
            .collect();
        let kv_tokens = extent.corun_kv_tokens;
        let found = measure_corun(&mut first, &mut second, &pairs, kv_tokens, &extent.corun_effort, &mut control())
            .map_err(failed)?;
        measured.rows.extend(found.iter().map(|found| found.row(device)));
        measured.corun.extend(found.iter().map(corun_summary));
    }
    let host = host(plan, executors, extent, &control()).map_err(failed)?;
    measured.rows.extend(host.rows(device));
    measured.launch_us = host.before_forward.mean_ns * 1e-3;
    measured.loop_us = host.after_forward.mean_ns * 1e-3;
    let hop: Times = measure_hop(1_000, &control()).map_err(failed)?;
    measured.rows.push(hop_row(device, &hop));
    measured.hop_us = hop.mean_ns * 1e-3;
    bar.finish_and_clear();
    Ok(measured)
}

/// From a run of the first and the last model, which swap requests; of the only model and a stand-in where there is one.
fn host(
    plan: &Plan,
    executors: &mut [Box<dyn Executor>],
    extent: &Extent,
    control: &Control<'_>,
) -> Result<HostOverheads, MeasureError> {
    let n = executors.len();
    let load = HostLoad {
        concurrency: plan.requests_max().min(4),
        prompt_tokens: 16,
        output_tokens: plan.request_tokens_max().saturating_sub(16).clamp(2, 64),
        requests: 8,
        ..HostLoad::default()
    };
    if n < 2 {
        return measure_host(&mut HostLoad::emulated(), &load, extent.seed, control);
    }
    executors.swap(1, n - 1);
    let found = measure_host(&mut executors[..2], &load, extent.seed, control);
    executors.swap(1, n - 1);
    found
}

fn summary(
    model: &str,
    graph: bool,
    points: usize,
    skipped: usize,
    spread: &RepeatSpread,
    error: Option<HeldOutError>,
    choice: &ChoiceCost,
) -> ModelSummary {
    ModelSummary {
        model: model.to_owned(),
        graph,
        points,
        skipped,
        spread_median: spread.median,
        spread_max: spread.max,
        spread_worst: spread.worst.to_string(),
        held_out: error.map(|error| HeldOutSummary {
            points: error.n,
            beyond: error.n_beyond,
            mape: error.mape,
            bias: error.bias,
            max_error: error.max,
            worst: error.worst.point.to_string(),
        }),
        choice_us: choice.difference_ns * 1e-3,
        choice_standard_error_us: choice.standard_error_ns * 1e-3,
    }
}

fn held_out_rows<'a>(model: &'a str, graph: bool, error: &'a HeldOutError) -> impl Iterator<Item = HeldOutRow> + 'a {
    error.points.iter().map(move |found| HeldOutRow {
        model: model.to_owned(),
        graph,
        rows: found.point.rows,
        new_tokens: found.point.new_tokens,
        kv_tokens: found.point.kv_tokens,
        measured_us: found.measured_us,
        predicted_us: found.predicted_us,
        error: found.error(),
    })
}

fn corun_summary(found: &CorunMeasurement) -> CorunSummary {
    CorunSummary {
        model: found.model.clone(),
        rows: found.rows,
        peer_model: found.peer_model.clone(),
        peer_rows: found.peer_rows,
        rate: found.rate(),
        alone_us: found.alone.mean_ns * 1e-3,
        beside_us: found.beside.mean_ns * 1e-3,
        peer_busy: found.peer_busy,
    }
}
