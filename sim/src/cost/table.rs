//! Step latency from measured points.

mod curve;
mod lattice;
#[cfg(test)]
mod tests;

use self::lattice::{Lattice, Point};
use super::{
    BatchShape, Buckets, DeviceSpec, LookupError, ModelShape, Profile, RooflineLatency, StepCost, StepLatency,
    StepPoint, step_cost,
};

/// Which points of a profile a [`TableLatency`] is made of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Selection {
    /// Device; `None` if the profile has only one.
    pub device: Option<String>,
    /// Model.
    pub model: String,
    /// Whether decode steps replay CUDA graphs, and so take the points with that setting and pad their rows.
    pub graph: bool,
    /// The same for every step with at least one row that is no decode.
    pub extend_graph: bool,
    /// The captured row counts; `None` stands for those that were measured with graphs.
    pub buckets: Option<Buckets>,
}

impl Selection {
    /// The steps of `model` on the profile's only device, all of them with CUDA graphs or all without.
    #[must_use]
    pub fn new(model: &str, graph: bool) -> Self {
        Self { device: None, model: model.to_owned(), graph, extend_graph: graph, buckets: None }
    }
}

/// Step latency interpolated from the `decode` and `extend` points of a [`Profile`].
///
/// # Within the measured range
///
/// A point is written as (rows, extra new tokens, extra KV tokens), the last two summed over the batch: new tokens
/// beyond one a row, and KV tokens beyond the *reference* of so many a row, the KV length at which most decodes were
/// measured. In these coordinates a plain decode at the reference is (rows, 0, 0), and all decodes at it form the *base
/// curve*.
///
/// - At a measured row count, the points form a grid over extra new and extra KV tokens, and the value is interpolated
///   bilinearly. A node of the grid that was not measured is filled in as if the two extras added up.
/// - An extra that was not measured at this row count follows a curve pooled from all row counts: the mean difference
///   to the base, over the *total* extra. So points at one row inform a batch of eight, and 100 tokens cost the same in
///   one extend as in two. This part is added to the grid's last value.
/// - Between two measured row counts the values are interpolated linearly. Each of the two is asked for the same extra
///   per row as far as the grids of both go, and for the same total beyond. Where all corners of a cell were measured,
///   this is multilinear in rows, new tokens per row and KV tokens per row; and a cost that is affine in rows, total
///   new tokens and total KV tokens comes out exactly.
///
/// With CUDA graphs the rows are padded to the captured size first. A padding row computes one token and reads no KV,
/// so the extra new tokens stay, and the KV that is missing to the reference makes room for more.
///
/// # Noise
///
/// More new tokens or more KV never make a step faster, whatever was measured: pooled curves are made monotone by
/// pooling adjacent violators (least squares), and in the grid of a row count a value below an earlier one is raised to
/// it. Rows are left as measured, since kernels do change with the batch size.
///
/// # Beyond the measured range
///
/// Outside, the value is the larger of the last measured point and the roofline of the model on the device, and is
/// marked `extrapolated`. A model or device that the catalogue does not know has no roofline: then it is the last
/// measured point. Less KV than the least measured is no extrapolation: the step takes as long as with the least
/// measured, which is an upper bound, and too high by at most the time that the missing KV would take.
#[derive(Clone, Debug)]
pub struct TableLatency {
    decode: Table,
    extend: Table,
    roofline: Option<RooflineLatency>,
}

#[derive(Clone, Debug)]
struct Table {
    lattice: Lattice,
    buckets: Option<Buckets>,
}

impl TableLatency {
    /// The step latency that `profile` tells for `selection`.
    ///
    /// # Errors
    /// If the profile does not have the device, the model, or decodes with the graph setting; the error names what it
    /// has.
    pub fn from_profile(profile: &Profile, selection: &Selection) -> Result<Self, LookupError> {
        let device = profile.device(selection.device.as_deref())?;
        let decode = Table::new(profile, device, selection, selection.graph)?;
        let extend = if selection.extend_graph == selection.graph {
            decode.clone()
        } else {
            Table::new(profile, device, selection, selection.extend_graph)?
        };
        let roofline = ModelShape::named(&selection.model)
            .zip(DeviceSpec::named(device))
            .map(|(model, device)| RooflineLatency::new(model, device));
        Ok(Self { decode, extend, roofline })
    }

    /// Replaces the roofline that bounds extrapolated values, for a model or device that the catalogue does not know,
    /// or for several devices.
    #[must_use]
    pub fn with_roofline(mut self, roofline: RooflineLatency) -> Self {
        self.roofline = Some(roofline);
        self
    }

    /// The row counts to which decode steps are padded; `None` without CUDA graphs.
    #[must_use]
    pub fn buckets(&self) -> Option<&Buckets> {
        self.decode.buckets.as_ref()
    }
}

impl StepLatency for TableLatency {
    #[inline]
    fn step(&self, shape: &BatchShape) -> StepCost {
        let table = if shape.decode_rows == shape.rows { &self.decode } else { &self.extend };
        let rows = table.buckets.as_ref().map_or(shape.rows, |buckets| buckets.pad(shape.rows));
        let extra_new = shape.new_tokens.saturating_sub(u64::from(shape.rows));
        let (ns, extrapolated) = table.lattice.at(rows, extra_new as f64, shape.kv_tokens as f64);
        match &self.roofline {
            Some(roofline) if extrapolated => step_cost(ns.max(roofline.step_ns(shape)), true),
            _ => step_cost(ns, extrapolated),
        }
    }
}

impl Table {
    fn new(profile: &Profile, device: &str, selection: &Selection, graph: bool) -> Result<Self, LookupError> {
        let model = selection.model.as_str();
        let of_model = || profile.steps().iter().filter(|point| point.device == device && point.model == model);
        if of_model().next().is_none() {
            return Err(LookupError::UnknownModel {
                file: profile.name().to_owned(),
                device: device.to_owned(),
                model: model.to_owned(),
                known: models(profile, device),
            });
        }
        let points: Vec<Point> = of_model().filter(|point| point.graph == graph).map(Point::from).collect();
        let lattice = Lattice::new(&points).ok_or_else(|| LookupError::NoDecodeRows {
            file: profile.name().to_owned(),
            device: device.to_owned(),
            model: model.to_owned(),
            graph,
            known: counts(of_model()),
        })?;
        let measured = || Buckets::new(points.iter().map(|point| point.rows).collect());
        let buckets = graph.then(|| selection.buckets.clone().unwrap_or_else(measured));
        Ok(Self { lattice, buckets })
    }
}

/// The measured models of a device, each with its points, for an error.
fn models(profile: &Profile, device: &str) -> String {
    let on_device = || profile.steps().iter().filter(|point| point.device == device);
    let mut names: Vec<&str> = on_device().map(|point| point.model.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let lines: Vec<String> = names
        .into_iter()
        .map(|name| format!("`{name}` ({})", counts(on_device().filter(|point| point.model == name))))
        .collect();
    if lines.is_empty() { "no steps at all".to_owned() } else { lines.join(", ") }
}

/// How many points there are of each kind and graph setting, for an error.
fn counts<'a>(points: impl Iterator<Item = &'a StepPoint> + Clone) -> String {
    let mut parts = Vec::new();
    for graph in [false, true] {
        for (kind, is_decode) in [("decode", true), ("extend", false)] {
            let is_such = |point: &&StepPoint| point.graph == graph && (point.new_tokens == 1) == is_decode;
            match points.clone().filter(is_such).count() {
                0 => {}
                n => parts.push(format!("{n} {kind} with graph = {graph}")),
            }
        }
    }
    parts.join(", ")
}
