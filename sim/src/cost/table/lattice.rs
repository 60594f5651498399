//! The grid of measured points, and the look-up in it. `TableLatency` documents what the numbers mean.

use std::collections::BTreeMap;

use super::curve::Curve;
use crate::cost::StepPoint;
use crate::cost::interpolate::{bracket, lerp};

/// A measured forward: `new_tokens` and `kv_tokens` per row.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point {
    pub(super) rows: u32,
    pub(super) new_tokens: u32,
    pub(super) kv_tokens: u32,
    pub(super) ns: f64,
}

impl From<&StepPoint> for Point {
    fn from(point: &StepPoint) -> Self {
        Self { rows: point.rows, new_tokens: point.new_tokens, kv_tokens: point.kv_tokens, ns: point.time.mean_ns() }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Lattice {
    /// KV tokens per row at which most decodes were measured.
    reference_kv: f64,
    /// Row counts of the planes, ascending.
    rows: Vec<f64>,
    planes: Vec<Plane>,
    /// How far the grids of a plane and the next both go, per row, below and above 0.
    shared_new: Vec<(f64, f64)>,
    shared_kv: Vec<(f64, f64)>,
    new_curve: Curve,
    kv_curve: Curve,
}

/// The points of one row count: a grid over extra new and extra KV tokens, both summed over the batch.
#[derive(Clone, Debug)]
struct Plane {
    extra_new: Vec<f64>,
    extra_kv: Vec<f64>,
    /// One row of `extra_kv.len()` values per extra new, in nanoseconds.
    ns: Vec<f64>,
}

impl Lattice {
    /// The lattice through `points`; `None` if there is no decode among them.
    pub(super) fn new(points: &[Point]) -> Option<Self> {
        let reference_kv = reference_kv(points)?;
        let mut measured: BTreeMap<u32, Measured> = BTreeMap::new();
        for point in points {
            let rows = i64::from(point.rows);
            let extra_new = rows * (i64::from(point.new_tokens) - 1);
            let extra_kv = rows * (i64::from(point.kv_tokens) - i64::from(reference_kv));
            measured.entry(point.rows).or_default().insert((extra_new, extra_kv), point.ns);
        }
        let base = BaseCurve::new(&measured);

        let differences = kv_differences(&measured, &base);
        let kv_curve = Curve::pooled(&differences);
        let differences = new_differences(&measured, &base, &kv_curve);
        let new_curve = Curve::pooled(&differences);

        let rows: Vec<f64> = measured.keys().map(|&rows| f64::from(rows)).collect();
        let planes: Vec<Plane> = measured
            .iter()
            .map(|(&rows, measured)| Plane::new(measured, base.at(rows), &new_curve, &kv_curve))
            .collect();
        let shared = |axis: fn(&Plane) -> &[f64]| -> Vec<(f64, f64)> {
            let per_row = |idx: usize| {
                let (min, max) = ends(axis(&planes[idx]));
                (min / rows[idx], max / rows[idx])
            };
            let both = |idx: usize| {
                let ((min, max), (next_min, next_max)) = (per_row(idx), per_row(idx + 1));
                (min.max(next_min), max.min(next_max))
            };
            (1..rows.len()).map(|next_idx| both(next_idx - 1)).collect()
        };
        Some(Self {
            reference_kv: f64::from(reference_kv),
            shared_new: shared(|plane| &plane.extra_new),
            shared_kv: shared(|plane| &plane.extra_kv),
            rows,
            planes,
            new_curve,
            kv_curve,
        })
    }

    /// Nanoseconds of a step of `rows` rows with `extra_new` tokens beyond one a row on `kv_tokens` in all, and whether
    /// that is beyond what was measured.
    #[inline]
    pub(super) fn at(&self, rows: u32, extra_new: f64, kv_tokens: f64) -> (f64, bool) {
        let rows = f64::from(rows);
        let extra_kv = kv_tokens - rows * self.reference_kv;
        let (idx, weight) = bracket(&self.rows, rows);
        if weight == 0.0 {
            let is_outside = rows != self.rows[idx];
            let (ns, is_beyond) = self.plane_at(idx, extra_new, extra_kv);
            return (ns, is_beyond || is_outside);
        }
        let new = Spread::new(extra_new, rows, self.shared_new[idx]);
        let kv = Spread::new(extra_kv, rows, self.shared_kv[idx]);
        let at = |idx: usize| self.plane_at(idx, new.over(self.rows[idx]), kv.over(self.rows[idx]));
        let ((ns, is_beyond), (next_ns, next_is_beyond)) = (at(idx), at(idx + 1));
        (ns + (next_ns - ns) * weight, is_beyond || next_is_beyond)
    }

    #[inline]
    fn plane_at(&self, idx: usize, extra_new: f64, extra_kv: f64) -> (f64, bool) {
        let plane = &self.planes[idx];
        let (new_min, new_max) = ends(&plane.extra_new);
        let (kv_min, kv_max) = ends(&plane.extra_kv);
        let own_new = extra_new.clamp(new_min, new_max);
        let own_kv = extra_kv.clamp(kv_min, kv_max);
        let mut ns = plane.at(own_new, own_kv);
        let mut is_beyond = false;
        if extra_new > own_new {
            ns += self.new_curve.at(extra_new) - self.new_curve.at(own_new);
            is_beyond |= extra_new > self.new_curve.end();
        }
        if extra_kv != own_kv {
            ns += self.kv_curve.at(extra_kv) - self.kv_curve.at(own_kv);
            is_beyond |= extra_kv > own_kv && extra_kv > self.kv_curve.end();
        }
        (ns, is_beyond)
    }
}

/// An extra of a batch, for look-ups at other row counts: a part in proportion to the rows and the rest as a total.
#[derive(Clone, Copy)]
struct Spread {
    per_row: f64,
    rest: f64,
}

impl Spread {
    /// `shared` is how far, per row, the grids of both neighbouring row counts go, below and above 0.
    #[inline]
    fn new(extra: f64, rows: f64, shared: (f64, f64)) -> Self {
        let per_row = (extra / rows).clamp(shared.0, shared.1);
        Self { per_row, rest: extra - per_row * rows }
    }

    #[inline]
    fn over(self, rows: f64) -> f64 {
        self.per_row * rows + self.rest
    }
}

/// First and last of a non-empty axis.
#[inline]
fn ends(axis: &[f64]) -> (f64, f64) {
    (axis[0], axis[axis.len() - 1])
}

impl Plane {
    /// The full grid of a row count. `base` is the decode at the reference, or what is known of it: if it was neither
    /// measured nor lies between two measured ones, it follows from the point nearest to it.
    fn new(measured: &Measured, base: Option<f64>, new_curve: &Curve, kv_curve: &Curve) -> Self {
        let estimate = |(&(new, kv), ns): (&(i64, i64), &f64)| ns - new_curve.at(new as f64) - kv_curve.at(kv as f64);
        let nearest = || measured.iter().min_by_key(|((new, kv), _)| (*new, kv.abs())).map(estimate);
        let base = base.or_else(nearest).expect("a plane is made from at least one point");

        let axis = |extras: &mut dyn Iterator<Item = i64>| -> Vec<i64> {
            let mut axis: Vec<i64> = extras.chain([0]).collect();
            axis.sort_unstable();
            axis.dedup();
            axis
        };
        let extra_new = axis(&mut measured.keys().map(|&(new, _)| new));
        let extra_kv = axis(&mut measured.keys().map(|&(_, kv)| kv));

        let edge_kv = |kv: i64| measured.get(&(0, kv)).copied().unwrap_or(base + kv_curve.at(kv as f64));
        let edge_new = |new: i64| {
            let of_new = measured.range((new, i64::MIN)..=(new, i64::MAX));
            let nearest = of_new.min_by_key(|((_, kv), _)| kv.abs());
            nearest.map_or(base, |(&(_, kv), ns)| ns - (edge_kv(kv) - base))
        };
        let mut ns = Vec::with_capacity(extra_new.len() * extra_kv.len());
        for &new in &extra_new {
            let edge = edge_new(new);
            for &kv in &extra_kv {
                ns.push(measured.get(&(new, kv)).copied().unwrap_or_else(|| edge + edge_kv(kv) - base));
            }
        }
        let to_floats = |axis: Vec<i64>| axis.into_iter().map(|extra| extra as f64).collect();
        let mut plane = Self { extra_new: to_floats(extra_new), extra_kv: to_floats(extra_kv), ns };
        plane.raise_to_monotone();
        plane
    }

    /// Raises every value to the largest one at no more new and no more KV tokens.
    fn raise_to_monotone(&mut self) {
        let n_kv = self.extra_kv.len();
        for idx in 0..self.ns.len() {
            if idx % n_kv > 0 {
                self.ns[idx] = self.ns[idx].max(self.ns[idx - 1]);
            }
            if idx >= n_kv {
                self.ns[idx] = self.ns[idx].max(self.ns[idx - n_kv]);
            }
        }
    }

    #[inline]
    fn at(&self, extra_new: f64, extra_kv: f64) -> f64 {
        let n_kv = self.extra_kv.len();
        let (new_idx, new_weight) = bracket(&self.extra_new, extra_new);
        let (kv_idx, kv_weight) = bracket(&self.extra_kv, extra_kv);
        let ns = lerp(&self.ns[new_idx * n_kv..], kv_idx, kv_weight);
        if new_weight == 0.0 {
            return ns;
        }
        let next_ns = lerp(&self.ns[(new_idx + 1) * n_kv..], kv_idx, kv_weight);
        ns + (next_ns - ns) * new_weight
    }
}

/// Nanoseconds by (extra new tokens, extra KV tokens).
type Measured = BTreeMap<(i64, i64), f64>;

/// The KV length per row at which decodes were measured at most row counts; the shortest such.
fn reference_kv(points: &[Point]) -> Option<u32> {
    let mut n_by_kv: BTreeMap<u32, usize> = BTreeMap::new();
    for point in points.iter().filter(|point| point.new_tokens == 1) {
        *n_by_kv.entry(point.kv_tokens).or_default() += 1;
    }
    n_by_kv.into_iter().max_by_key(|&(kv, n)| (n, std::cmp::Reverse(kv))).map(|(kv, _)| kv)
}

/// Decodes at the reference over the row counts at which they were measured.
struct BaseCurve {
    rows: Vec<f64>,
    ns: Vec<f64>,
}

impl BaseCurve {
    fn new(measured: &BTreeMap<u32, Measured>) -> Self {
        let at_reference = measured.iter().filter_map(|(&rows, points)| Some((f64::from(rows), *points.get(&(0, 0))?)));
        let (rows, ns) = at_reference.unzip();
        Self { rows, ns }
    }

    /// `None` outside of the measured row counts.
    fn at(&self, rows: u32) -> Option<f64> {
        let rows = f64::from(rows);
        if rows < *self.rows.first()? || rows > *self.rows.last()? {
            return None;
        }
        let (idx, weight) = bracket(&self.rows, rows);
        Some(lerp(&self.ns, idx, weight))
    }
}

/// What extra KV tokens take: decodes against the base and, of KV lengths without a decode, extends against the extend
/// at the reference.
fn kv_differences(measured: &BTreeMap<u32, Measured>, base: &BaseCurve) -> Vec<(i64, f64)> {
    let mut differences = Vec::new();
    for (&rows, points) in measured {
        for (&(new, kv), ns) in points.iter().filter(|((_, kv), _)| *kv != 0) {
            let compared = match new {
                0 => base.at(rows),
                _ if points.contains_key(&(0, kv)) => None,
                _ => points.get(&(new, 0)).copied(),
            };
            differences.extend(compared.map(|compared| (kv, ns - compared)));
        }
    }
    differences
}

/// What extra new tokens take: extends at the reference against the base and, of new tokens without such an extend,
/// extends at other KV lengths, less what their KV takes.
fn new_differences(measured: &BTreeMap<u32, Measured>, base: &BaseCurve, kv_curve: &Curve) -> Vec<(i64, f64)> {
    let mut differences = Vec::new();
    for (&rows, points) in measured {
        let Some(base) = base.at(rows) else { continue };
        for (&(new, kv), ns) in points.iter().filter(|((new, _), _)| *new != 0) {
            if kv == 0 || !points.contains_key(&(new, 0)) {
                differences.push((new, ns - base - kv_curve.at(kv as f64)));
            }
        }
    }
    differences
}
