//! Rows of a profile, and the csv file that they are.

use serde::{Deserialize, Serialize};

use super::times::Times;
use super::{MeasureError, Point};

/// What a row of a profile measured. `router` is missing: no model here has a routing network.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A forward with one new token in each row.
    Decode,
    /// A forward with several new tokens in each row.
    Extend,
    /// The speed of a model's steps beside a peer's.
    Corun,
    /// A message.
    Hop,
    /// A part of the loops around a forward.
    Host,
}

/// A row of a profile. The fields are the simulator's [`COLUMNS`](handoff_sim::cost::COLUMNS), in their order; what a kind does not use
/// is empty, which is `None` or no text. Times are microseconds.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ProfileRow {
    /// Device that it was measured on.
    pub device: String,
    /// Model that ran; for [`Kind::Host`] the part: `launch`, `loop` or `message`.
    pub model: String,
    /// What was measured.
    pub kind: Kind,
    /// Whether the model's steps replay CUDA graphs.
    pub graph: Option<bool>,
    /// Rows of the batch.
    pub rows: Option<u32>,
    /// New tokens per row.
    pub new_tokens: Option<u32>,
    /// Kept KV tokens per row.
    pub kv_tokens: Option<u32>,
    /// The other model.
    pub peer_model: String,
    /// Rows of the other model's batch.
    pub peer_rows: Option<u32>,
    /// Time alone over time beside the peer, above 0 and at most 1.
    pub rate: Option<f64>,
    /// Mean; for [`Kind::Corun`] of the time beside the peer.
    pub mean_us: f64,
    /// Median.
    pub p50_us: Option<f64>,
    /// 99th percentile.
    pub p99_us: Option<f64>,
    /// Samples behind the numbers.
    pub repeats: Option<u32>,
}

impl ProfileRow {
    /// A row with its times and nothing else.
    pub(super) fn new(device: &str, model: &str, kind: Kind, times: &Times) -> Self {
        Self {
            device: device.to_owned(),
            model: model.to_owned(),
            kind,
            graph: None,
            rows: None,
            new_tokens: None,
            kv_tokens: None,
            peer_model: String::new(),
            peer_rows: None,
            rate: None,
            mean_us: us(times.mean_ns),
            p50_us: Some(us(times.p50_ns)),
            p99_us: times.p99_ns.map(us),
            repeats: Some(times.n),
        }
    }

    /// A `decode` or `extend` row.
    pub(super) fn step(device: &str, model: &str, graph: bool, point: Point, times: &Times) -> Self {
        let kind = if point.new_tokens == 1 { Kind::Decode } else { Kind::Extend };
        Self {
            graph: Some(graph),
            rows: Some(point.rows),
            new_tokens: Some(point.new_tokens),
            kv_tokens: Some(point.kv_tokens),
            ..Self::new(device, model, kind, times)
        }
    }
}

/// Nanoseconds in microseconds, to the nanosecond: a mean has no more to tell.
pub(super) fn us(ns: f64) -> f64 {
    ns.round().max(1.0) / 1e3
}

/// The csv file of some rows, with its header.
///
/// # Errors
/// [`MeasureError::Write`], never for rows that were measured.
pub fn to_csv(rows: &[ProfileRow]) -> Result<Vec<u8>, MeasureError> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    for row in rows {
        writer.serialize(row)?;
    }
    writer.into_inner().map_err(|error| MeasureError::Write(error.into_error().into()))
}

#[cfg(test)]
mod tests {
    use handoff_sim::cost::{COLUMNS, Profile};

    use super::*;

    fn times(samples: &[u64]) -> Times {
        Times::of(samples).unwrap()
    }

    #[test]
    fn the_fields_are_the_simulators_columns() {
        let point = Point { rows: 4, new_tokens: 1, kv_tokens: 512 };
        let bytes = to_csv(&[ProfileRow::step("H200", "m", true, point, &times(&[1_234_567; 20]))]).unwrap();
        let expected = format!("{}\nH200,m,decode,true,4,1,512,,,,1234.567,1234.567,1234.567,20\n", COLUMNS.join(","));
        assert_eq!(String::from_utf8(bytes).unwrap(), expected);
    }

    #[test]
    fn the_simulator_reads_what_was_measured() {
        let few = times(&[400, 2_900]);
        let extend = Point { rows: 2, new_tokens: 8, kv_tokens: 0 };
        let rows = [
            ProfileRow::step("d", "m", false, extend, &few),
            ProfileRow { model: "loop".into(), ..ProfileRow::new("d", "", Kind::Host, &few) },
            ProfileRow::new("d", "", Kind::Hop, &few),
        ];
        let profile = Profile::parse(&to_csv(&rows).unwrap(), "rows").unwrap();
        assert_eq!((profile.steps().len(), profile.hosts().len(), profile.hops().len()), (1, 1, 1));
        let time = profile.steps()[0].time;
        assert_eq!((time.mean_us, time.p50_us, time.p99_us, time.repeats), (1.65, Some(1.65), None, Some(2)));
    }

    #[test]
    fn rows_come_back_from_their_file() {
        let rows = vec![ProfileRow { rate: Some(0.25), ..ProfileRow::new("d", "a", Kind::Corun, &times(&[70; 30])) }];
        let bytes = to_csv(&rows).unwrap();
        let read: Result<Vec<ProfileRow>, _> = csv::Reader::from_reader(&bytes[..]).deserialize().collect();
        assert_eq!(read.unwrap(), rows);
    }

    #[test]
    fn times_have_nanoseconds_and_are_never_zero() {
        assert_eq!((us(1_234.4), us(0.2), us(1e9)), (1.234, 0.001, 1e6));
    }
}
