//! The scenario file as it is written: every field optional, nothing checked but names and types.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{self, Deserializer, MapAccess, SeqAccess, Visitor, value};
use serde::{Deserialize, de::Error as _};

use super::values::{First, HandoffKind, Hold, KvFull, Loops, Mode, Order, Sharing, StartKind};

/// The whole file.
#[derive(Deserialize, Default, Debug)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub(super) struct RawScenario {
    pub(super) seed: Option<u64>,
    pub(super) workload: RawWorkload,
    pub(super) model: Vec<RawModel>,
    /// Read by the policy that `kind` names.
    pub(super) policy: toml::Table,
    pub(super) scheduler: RawScheduler,
}

/// `[workload]`
#[derive(Deserialize, Default, Debug)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub(super) struct RawWorkload {
    pub(super) concurrency: Option<u32>,
    pub(super) arrivals: Option<RawArrivals>,
    pub(super) requests: Option<u32>,
    pub(super) prompt_tokens: Option<RawTokens>,
    pub(super) output_tokens: Option<RawTokens>,
    pub(super) start: Option<StartKind>,
    pub(super) warmup: Option<RawWarmup>,
    pub(super) precision: Option<f64>,
    pub(super) replications_min: Option<u32>,
    pub(super) replications_max: Option<u32>,
}

/// `arrivals = { process = "poisson", rate_per_s = 2.0 }` or `{ process = "trace", csv = "trace.csv" }`
#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields, expecting = "a table { process, rate_per_s }")]
pub(super) struct RawArrivals {
    pub(super) process: String,
    pub(super) rate_per_s: Option<f64>,
    pub(super) csv: Option<String>,
}

/// Numbers of tokens: one number or a distribution.
#[derive(Debug)]
pub(super) enum RawTokens {
    Constant(u32),
    Lognormal { mean: f64, cv: f64 },
    Uniform { low: u32, high: u32 },
    Csv(String),
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default, expecting = "a table with one of lognormal, uniform, csv")]
struct RawTokensTable {
    lognormal: Option<RawLognormal>,
    uniform: Option<Vec<u32>>,
    csv: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table { mean, cv }")]
struct RawLognormal {
    mean: f64,
    cv: f64,
}

/// `warmup = "auto"` or a number of requests.
#[derive(Debug)]
pub(super) enum RawWarmup {
    Auto,
    Requests(u32),
}

/// One `[[model]]`.
#[derive(Deserialize, Default, Debug)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub(super) struct RawModel {
    pub(super) name: Option<String>,
    pub(super) cost: Option<RawCost>,
    pub(super) router: Option<RawCost>,
    pub(super) jitter_cv: Option<f64>,
    pub(super) jitter: Option<String>,
    pub(super) host: Option<RawHost>,
    pub(super) threshold: Option<RawThreshold>,
    pub(super) max_wait_ms: Option<f64>,
    pub(super) hold: Option<Hold>,
    pub(super) kv_tokens: Option<u64>,
    pub(super) device: Option<u32>,
    pub(super) shape: Option<String>,
    pub(super) folder: Option<String>,
}

/// `cost = { .. }`: the keys of all forms; exactly one form may be used.
#[derive(Deserialize, Default, Debug)]
#[serde(deny_unknown_fields, default, expecting = "a table with one of constant_ms, affine, profile, roofline")]
pub(super) struct RawCost {
    pub(super) constant_ms: Option<f64>,
    pub(super) affine: Option<RawAffine>,
    pub(super) profile: Option<String>,
    pub(super) model: Option<String>,
    pub(super) graph: Option<bool>,
    pub(super) extend_graph: Option<bool>,
    pub(super) device: Option<String>,
    pub(super) roofline: Option<RawRoofline>,
}

/// `affine = { .. }`
#[derive(Deserialize, Default, Debug)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub(super) struct RawAffine {
    pub(super) fixed_ms: f64,
    pub(super) per_row_ms: f64,
    pub(super) per_new_token_ms: f64,
    pub(super) per_kv_token_us: f64,
}

/// `roofline = { .. }`
#[derive(Deserialize, Default, Debug)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub(super) struct RawRoofline {
    pub(super) model: Option<String>,
    pub(super) device: Option<String>,
    pub(super) tensor_parallel: Option<u32>,
    pub(super) fixed_ms: f64,
}

/// `host = { launch_us, loop_us }` or `host = "profile"`.
#[derive(Debug)]
pub(super) enum RawHost {
    Given { launch_us: f64, loop_us: f64 },
    Named(String),
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default, expecting = "a table { launch_us, loop_us }")]
struct RawHostTable {
    launch_us: f64,
    loop_us: f64,
}

/// `threshold = 3` or `threshold = [1, 1, 2, 3]`.
#[derive(Debug)]
pub(super) enum RawThreshold {
    Number(u32),
    List(Vec<u32>),
}

/// `[scheduler]`
#[derive(Deserialize, Default, Debug)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub(super) struct RawScheduler {
    pub(super) mode: Option<Mode>,
    pub(super) sharing: Option<Sharing>,
    pub(super) order: Option<Order>,
    pub(super) corun: Option<Vec<f64>>,
    pub(super) mix_extend: Option<bool>,
    pub(super) first: Option<First>,
    pub(super) loops: Option<Loops>,
    pub(super) handoff: Option<HandoffKind>,
    pub(super) fresh: RawFresh,
    pub(super) hop_us: Option<f64>,
    pub(super) hop_gb_per_s: Option<f64>,
    pub(super) message_us: Option<f64>,
    pub(super) kv_full: Option<KvFull>,
}

/// `fresh = { fixed_ms, per_context_token_us }`
#[derive(Deserialize, Default, Debug)]
#[serde(deny_unknown_fields, default, expecting = "a table { fixed_ms, per_context_token_us }")]
pub(super) struct RawFresh {
    pub(super) fixed_ms: Option<f64>,
    pub(super) per_context_token_us: Option<f64>,
}

/// A value whose type tells which form it has. Unlike serde's untagged enums this keeps the position of what is wrong.
trait Form: Sized {
    /// What is allowed, as error texts say it.
    const EXPECTED: &str;

    fn from_integer<E: de::Error>(value: u64) -> Result<Self, E> {
        Err(E::invalid_type(de::Unexpected::Unsigned(value), &Self::EXPECTED))
    }
    fn from_text<E: de::Error>(text: &str) -> Result<Self, E> {
        Err(E::invalid_type(de::Unexpected::Str(text), &Self::EXPECTED))
    }
    fn from_list<'de, A: SeqAccess<'de>>(_list: A) -> Result<Self, A::Error> {
        Err(A::Error::invalid_type(de::Unexpected::Seq, &Self::EXPECTED))
    }
    fn from_table<'de, A: MapAccess<'de>>(_table: A) -> Result<Self, A::Error> {
        Err(A::Error::invalid_type(de::Unexpected::Map, &Self::EXPECTED))
    }
}

struct FormVisitor<T>(PhantomData<T>);

impl<'de, T: Form> Visitor<'de> for FormVisitor<T> {
    type Value = T;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(T::EXPECTED)
    }
    fn visit_i64<E: de::Error>(self, value: i64) -> Result<T, E> {
        match u64::try_from(value) {
            Ok(value) => T::from_integer(value),
            Err(_) => Err(E::invalid_value(de::Unexpected::Signed(value), &self)),
        }
    }
    fn visit_u64<E: de::Error>(self, value: u64) -> Result<T, E> {
        T::from_integer(value)
    }
    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        T::from_text(text)
    }
    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<T, A::Error> {
        T::from_list(list)
    }
    fn visit_map<A: MapAccess<'de>>(self, table: A) -> Result<T, A::Error> {
        T::from_table(table)
    }
}

macro_rules! deserialize_by_form {
    ($($name:ty),+) => {$(
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_any(FormVisitor(PhantomData))
            }
        }
    )+};
}
deserialize_by_form!(RawTokens, RawWarmup, RawHost, RawThreshold);

/// An integer of a form as a `u32`.
fn narrow<T: Form, E: de::Error>(value: u64) -> Result<u32, E> {
    u32::try_from(value).map_err(|_| E::invalid_value(de::Unexpected::Unsigned(value), &T::EXPECTED))
}

impl Form for RawTokens {
    const EXPECTED: &str = "a whole number of tokens below 4294967296, { lognormal = { mean, cv } }, { uniform = [low, high] } or { csv = \"file\" }";

    fn from_integer<E: de::Error>(value: u64) -> Result<Self, E> {
        narrow::<Self, E>(value).map(Self::Constant)
    }
    fn from_table<'de, A: MapAccess<'de>>(table: A) -> Result<Self, A::Error> {
        match RawTokensTable::deserialize(value::MapAccessDeserializer::new(table))? {
            RawTokensTable { lognormal: Some(RawLognormal { mean, cv }), uniform: None, csv: None } => {
                Ok(Self::Lognormal { mean, cv })
            }
            RawTokensTable { lognormal: None, uniform: Some(bounds), csv: None } => match bounds[..] {
                [low, high] => Ok(Self::Uniform { low, high }),
                _ => Err(A::Error::invalid_length(bounds.len(), &"two numbers: uniform = [low, high]")),
            },
            RawTokensTable { lognormal: None, uniform: None, csv: Some(file) } => Ok(Self::Csv(file)),
            _ => Err(A::Error::custom("expected exactly one of `lognormal`, `uniform`, `csv`")),
        }
    }
}

impl Form for RawWarmup {
    const EXPECTED: &str = "\"auto\" or a whole number of requests below 4294967296";

    fn from_integer<E: de::Error>(value: u64) -> Result<Self, E> {
        narrow::<Self, E>(value).map(Self::Requests)
    }
    fn from_text<E: de::Error>(text: &str) -> Result<Self, E> {
        match text {
            "auto" => Ok(Self::Auto),
            _ => Err(E::invalid_value(de::Unexpected::Str(text), &Self::EXPECTED)),
        }
    }
}

impl Form for RawHost {
    const EXPECTED: &str = "\"profile\" or a table { launch_us, loop_us }";

    fn from_text<E: de::Error>(text: &str) -> Result<Self, E> {
        Ok(Self::Named(text.to_owned()))
    }
    fn from_table<'de, A: MapAccess<'de>>(table: A) -> Result<Self, A::Error> {
        let RawHostTable { launch_us, loop_us } = Deserialize::deserialize(value::MapAccessDeserializer::new(table))?;
        Ok(Self::Given { launch_us, loop_us })
    }
}

impl Form for RawThreshold {
    const EXPECTED: &str = "a whole number of requests, 1 or more, or a list of them by active requests";

    fn from_integer<E: de::Error>(value: u64) -> Result<Self, E> {
        narrow::<Self, E>(value).map(Self::Number)
    }
    fn from_list<'de, A: SeqAccess<'de>>(mut list: A) -> Result<Self, A::Error> {
        let mut thresholds = Vec::new();
        while let Some(threshold) = list.next_element()? {
            thresholds.push(threshold);
        }
        Ok(Self::List(thresholds))
    }
}
