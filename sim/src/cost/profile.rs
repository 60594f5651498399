//! The measured profile of a machine: a csv file, read and checked.
//!
//! One row is one measured point. The header names the columns of [`COLUMNS`], in any order. What a row's columns mean
//! depends on its kind; those that a kind does not use must be empty.
//!
//! | kind | measured | columns besides `device` and the times |
//! |---|---|---|
//! | `decode` | a forward with one new token in each row | `model`, `graph`, `rows`, `new_tokens` = 1, `kv_tokens` |
//! | `extend` | a forward with several new tokens in each row | `model`, `graph`, `rows`, `new_tokens` >= 2, `kv_tokens` |
//! | `corun` | the speed of a model's steps beside a peer's | `model`, `graph`, `rows`, `peer_model`, `peer_rows`, `rate` |
//! | `router` | a model's routing network on a batch | `model`, `graph`, `rows` |
//! | `hop` | a peer request, from send to receipt | `model` and `peer_model`, or neither: any two models |
//! | `host` | a part of the loops around a forward | `model`: `launch`, `loop` or `message`, the part |
//!
//! `new_tokens` and `kv_tokens` are per row of the batch: `rows` = 4, `new_tokens` = 8, `kv_tokens` = 512 is a forward
//! over 32 new tokens of four requests that have each kept 512. `rate` is the time of a step alone over its time beside
//! the peer, both of them decodes: so `rows` and `peer_rows` of a `corun` row are also the new tokens of the two steps. `mean_us` is required (for `corun` optional: the time beside the peer), `p50_us`, `p99_us` and `repeats`
//! are optional. Times are microseconds.

mod error;
mod read;
#[cfg(test)]
mod tests;

pub use error::{LookupError, ProfileError};

use std::io::Read;

use super::NS_PER_US;

/// The columns of a profile, in the order in which they are written.
pub const COLUMNS: [&str; 14] = [
    "device",
    "model",
    "kind",
    "graph",
    "rows",
    "new_tokens",
    "kv_tokens",
    "peer_model",
    "peer_rows",
    "rate",
    "mean_us",
    "p50_us",
    "p99_us",
    "repeats",
];

/// A profile: what was measured, by kind, in the order of the file.
#[derive(Clone, PartialEq, Debug)]
pub struct Profile {
    name: String,
    steps: Vec<StepPoint>,
    coruns: Vec<CorunPoint>,
    routers: Vec<RouterPoint>,
    hops: Vec<HopPoint>,
    hosts: Vec<HostPoint>,
}

/// The time of one point.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Measured {
    /// Mean, in microseconds.
    pub mean_us: f64,
    /// Median, in microseconds.
    pub p50_us: Option<f64>,
    /// 99th percentile, in microseconds; not below the median.
    pub p99_us: Option<f64>,
    /// Repetitions behind the numbers.
    pub repeats: Option<u32>,
}

impl Measured {
    /// The mean, in nanoseconds.
    #[must_use]
    pub fn mean_ns(&self) -> f64 {
        self.mean_us * NS_PER_US
    }
}

/// A `decode` or `extend` row: one forward.
#[derive(Clone, PartialEq, Debug)]
pub struct StepPoint {
    /// Device that it ran on.
    pub device: String,
    /// Model that ran.
    pub model: String,
    /// Whether it was replayed as a CUDA graph.
    pub graph: bool,
    /// Rows of the batch.
    pub rows: u32,
    /// New tokens per row; 1 is a decode.
    pub new_tokens: u32,
    /// Kept KV tokens per row.
    pub kv_tokens: u32,
    /// How long it took.
    pub time: Measured,
}

/// A `corun` row: a model's speed while a peer's steps run on the same device.
#[derive(Clone, PartialEq, Debug)]
pub struct CorunPoint {
    /// Device that both share.
    pub device: String,
    /// The model whose speed it is.
    pub model: String,
    /// Whether that model was replayed as a CUDA graph.
    pub graph: bool,
    /// Rows of its batch, one new token each.
    pub rows: u32,
    /// The other model.
    pub peer_model: String,
    /// Rows of the other model's batch, one new token each.
    pub peer_rows: u32,
    /// Time alone over time together, above 0 and at most 1.
    pub rate: f64,
    /// Time together, if it was kept.
    pub time: Option<Measured>,
}

/// A `router` row: the routing network that decides after a model's step.
#[derive(Clone, PartialEq, Debug)]
pub struct RouterPoint {
    /// Device that it ran on.
    pub device: String,
    /// The model after whose steps it runs.
    pub model: String,
    /// Whether it was replayed as a CUDA graph.
    pub graph: bool,
    /// Rows of the batch.
    pub rows: u32,
    /// How long it took.
    pub time: Measured,
}

/// A `hop` row: a peer request from one subserver to another.
#[derive(Clone, PartialEq, Debug)]
pub struct HopPoint {
    /// Device of the sender.
    pub device: String,
    /// Sender and receiver; `None` stands for any two models.
    pub between: Option<(String, String)>,
    /// From send to receipt.
    pub time: Measured,
}

/// The part of the loops around a forward that a `host` row measures.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum HostPart {
    /// Before the forward starts, per step.
    Launch,
    /// After the forward, before its results are acted on, per step.
    Loop,
    /// Handling one peer or client message.
    Message,
}

impl HostPart {
    /// All parts, with their names in a profile.
    pub const ALL: [(Self, &'static str); 3] =
        [(Self::Launch, "launch"), (Self::Loop, "loop"), (Self::Message, "message")];
}

/// A `host` row.
#[derive(Clone, PartialEq, Debug)]
pub struct HostPoint {
    /// Device of the machine.
    pub device: String,
    /// What was measured.
    pub part: HostPart,
    /// How long it took.
    pub time: Measured,
}

impl Profile {
    /// Reads a profile to the end of `reader`. `name` stands for it in errors: usually the file's path.
    ///
    /// # Errors
    /// If reading fails or the content is no profile; see [`ProfileError`].
    pub fn read(mut reader: impl Read, name: &str) -> Result<Self, ProfileError> {
        let mut bytes = Vec::new();
        reader.read_to_end(&mut bytes).map_err(|source| ProfileError::Read { file: name.to_owned(), source })?;
        Self::parse(&bytes, name)
    }

    /// Reads a profile from the bytes of a csv file. `name` stands for it in errors.
    ///
    /// A point that appears twice with the same numbers counts once.
    ///
    /// # Errors
    /// If the content is no profile; see [`ProfileError`].
    pub fn parse(bytes: &[u8], name: &str) -> Result<Self, ProfileError> {
        read::parse(bytes, name)
    }

    /// What the profile was called when it was read.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The `decode` and `extend` rows.
    #[must_use]
    pub fn steps(&self) -> &[StepPoint] {
        &self.steps
    }

    /// The `corun` rows.
    #[must_use]
    pub fn coruns(&self) -> &[CorunPoint] {
        &self.coruns
    }

    /// The `router` rows.
    #[must_use]
    pub fn routers(&self) -> &[RouterPoint] {
        &self.routers
    }

    /// The `hop` rows.
    #[must_use]
    pub fn hops(&self) -> &[HopPoint] {
        &self.hops
    }

    /// The `host` rows.
    #[must_use]
    pub fn hosts(&self) -> &[HostPoint] {
        &self.hosts
    }

    /// All devices of the profile, in alphabetical order.
    #[must_use]
    pub fn devices(&self) -> Vec<&str> {
        let mut devices: Vec<&str> = (self.steps.iter().map(|point| &point.device))
            .chain(self.coruns.iter().map(|point| &point.device))
            .chain(self.routers.iter().map(|point| &point.device))
            .chain(self.hops.iter().map(|point| &point.device))
            .chain(self.hosts.iter().map(|point| &point.device))
            .map(String::as_str)
            .collect();
        devices.sort_unstable();
        devices.dedup();
        devices
    }

    /// The device asked for, or the only one if none is asked for.
    pub(super) fn device<'a>(&'a self, wanted: Option<&str>) -> Result<&'a str, LookupError> {
        let devices = self.devices();
        let known = || devices.join(", ");
        match wanted {
            Some(wanted) => devices.iter().copied().find(|&device| device == wanted).ok_or_else(|| {
                LookupError::UnknownDevice { file: self.name.clone(), device: wanted.to_owned(), known: known() }
            }),
            None => match devices[..] {
                [only] => Ok(only),
                _ => Err(LookupError::AmbiguousDevice { file: self.name.clone(), known: known() }),
            },
        }
    }
}
