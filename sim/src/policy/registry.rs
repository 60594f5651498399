//! Policies by name, as a scenario's `[policy]` asks for them.

use std::path::Path;

use serde::de::DeserializeOwned;
use toml::Table;

use super::{Markov, Policy, PolicyError, citer, co_llm, ensemble, every, markov, phases, r_stitch, r2r, replay, solo};

/// What a policy is built from.
#[derive(Clone, Debug)]
pub struct Setting<'a> {
    /// Models of the scenario.
    pub n_models: usize,
    /// Where relative file names start: the scenario's directory.
    pub directory: &'a Path,
    /// The fields of `[policy]` without `kind`.
    pub fields: Table,
}

impl Setting<'_> {
    /// The fields as a parameter struct of the policy `kind`.
    pub(super) fn parameters<P: DeserializeOwned>(self, kind: &'static str) -> Result<P, PolicyError> {
        self.fields.try_into().map_err(|error| PolicyError::Parameters { kind, problem: error.message().to_owned() })
    }
}

/// One policy of the registry.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The name.
    pub kind: &'static str,
    /// The parameters with their defaults, for help texts.
    pub parameters: &'static str,
    build: Build,
}

type Builder<P> = fn(Setting<'_>) -> Result<P, PolicyError>;

#[derive(Clone, Copy, Debug)]
enum Build {
    /// A Markov policy; may serve as a phase of `phases`.
    Markov(Builder<Markov>),
    /// A policy that is a Markov policy with some parameters, and may then serve as a phase.
    Either(Builder<Box<dyn Policy>>, Builder<Markov>),
    Other(Builder<Box<dyn Policy>>),
}

/// Every policy there is.
pub const REGISTRY: &[Entry] = &[
    Entry { kind: "every", parameters: "small, large, entry = 0", build: Build::Other(every::from_setting) },
    Entry { kind: "markov", parameters: "routes, commits, entry = 0", build: Build::Markov(markov::from_setting) },
    Entry { kind: "r2r", parameters: "p = 0.35", build: Build::Markov(r2r::from_setting) },
    Entry { kind: "citer", parameters: "p = 0.20", build: Build::Markov(citer::from_setting) },
    Entry { kind: "co-llm", parameters: "p = 0.57", build: Build::Markov(co_llm::from_setting) },
    Entry {
        kind: "r-stitch",
        parameters: "a, b, commit_on_return = true; or signal = measured, tau = 0.03",
        build: Build::Either(r_stitch::from_setting, r_stitch::synthetic_from_setting),
    },
    Entry { kind: "me", parameters: "weights, entry = 0", build: Build::Markov(ensemble::from_setting) },
    Entry {
        kind: "phases",
        parameters: "phase, transitions or mean_tokens, start_phase = 0",
        build: Build::Other(phases::from_setting),
    },
    Entry { kind: "replay", parameters: "file, entry", build: Build::Other(replay::from_setting) },
    Entry { kind: "large-only", parameters: "none", build: Build::Other(solo::large_from_setting) },
    Entry { kind: "small-only", parameters: "none", build: Build::Other(solo::small_from_setting) },
];

/// Builds the policy named `kind`.
///
/// ```
/// use std::path::Path;
/// use handoff_sim::policy::{Setting, build};
///
/// let fields = "p = 0.2".parse().expect("valid TOML");
/// let policy = build("r2r", Setting { n_models: 2, directory: Path::new("."), fields })?;
/// assert_eq!(policy.kind(), "r2r");
/// # Ok::<(), handoff_sim::policy::PolicyError>(())
/// ```
///
/// # Errors
/// If no policy has that name, a field is missing, unknown, of the wrong type or out of range, the policy is for another number of models,
/// or a file that it names cannot be read.
pub fn build(kind: &str, setting: Setting<'_>) -> Result<Box<dyn Policy>, PolicyError> {
    let models = setting.n_models;
    let policy = match entry(kind)?.build {
        Build::Markov(build) => Box::new(build(setting)?),
        Build::Either(build, _) | Build::Other(build) => build(setting)?,
    };
    if policy.n_models() == models {
        Ok(policy)
    } else {
        Err(PolicyError::ModelCount { kind: policy.kind(), policy: policy.n_models(), models })
    }
}

/// Builds the Markov policy named `kind`, a phase of the policy `of`.
pub(super) fn build_phase(of: &'static str, kind: &str, setting: Setting<'_>) -> Result<Markov, PolicyError> {
    match entry(kind)?.build {
        Build::Markov(build) | Build::Either(_, build) => build(setting),
        Build::Other(_) => {
            let markovian = REGISTRY.iter().filter(|entry| !matches!(entry.build, Build::Other(_)));
            let problem = format!("a phase of `kind` {kind}, expected one of {}", names(markovian));
            Err(PolicyError::Parameters { kind: of, problem })
        }
    }
}

fn entry(kind: &str) -> Result<&'static Entry, PolicyError> {
    let found = REGISTRY.iter().find(|entry| entry.kind == kind);
    found.ok_or_else(|| PolicyError::UnknownKind { kind: kind.to_owned(), known: names(REGISTRY.iter()) })
}

fn names<'a>(entries: impl Iterator<Item = &'a Entry>) -> String {
    entries.map(|entry| entry.kind).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn build_from(kind: &str, n_models: usize, fields: &str) -> Result<Box<dyn Policy>, PolicyError> {
        build(kind, Setting { n_models, directory: Path::new("."), fields: fields.parse().unwrap() })
    }

    #[test]
    fn each_kind_builds_a_policy_of_its_name() {
        let fields = |kind| match kind {
            "every" => "small = 4\nlarge = 4",
            "markov" => "routes = [[0.5, 0.5], [1, 0]]\ncommits = [[1, 1], [1, 1]]",
            "r-stitch" => "a = 0.1\nb = 0.2",
            "me" => "weights = [0.5, 0.5]",
            "phases" => "phase = [{ kind = \"r2r\" }, { kind = \"citer\" }]\nmean_tokens = [10, 100]",
            _ => "",
        };
        // A replay needs a file; replay.rs has its test.
        for entry in REGISTRY.iter().filter(|entry| entry.kind != "replay") {
            let policy = build_from(entry.kind, 2, fields(entry.kind)).unwrap();
            assert_eq!(policy.kind(), entry.kind);
            assert_eq!(policy.n_models(), 2);
        }
        assert_eq!(build_from("me", 3, "").unwrap().as_markov().unwrap().routes()[2], [0.5, 0.3, 0.2]);
    }

    #[test]
    fn a_measured_signal_is_simulable_with_probabilities_beside_it() {
        let measured = build_from("r-stitch", 2, "signal = \"measured\"").unwrap();
        assert!(measured.needs_entropy() && !measured.is_simulable() && measured.as_markov().is_none());
        let both = build_from("r-stitch", 2, "signal = \"measured\"\na = 0.1\nb = 0.2").unwrap();
        assert!(both.needs_entropy() && both.is_simulable());
        assert_eq!(both.as_markov().unwrap().routes()[1], [0.2, 0.8]);
        let synthetic = build_from("r-stitch", 2, "signal = \"synthetic\"\na = 0.1\nb = 0.2").unwrap();
        assert!(!synthetic.needs_entropy() && synthetic.is_simulable());
    }

    #[test]
    fn wrong_fields_are_refused_by_name() {
        let cases = [
            (
                "r2-r",
                2,
                "",
                "`kind` is `r2-r`, expected one of every, markov, r2r, citer, co-llm, r-stitch, me, phases, replay, large-only, small-only",
            ),
            ("r2r", 2, "q = 0.1", "r2r: unknown field `q`, expected `p`"),
            ("r2r", 2, "p = 1.5", "`p` is 1.5, expected 0, 1, or a probability from 2^-32 to 1 - 2^-32"),
            ("r2r", 3, "", "r2r: the policy routes over 2 models, but there are 3"),
            ("every", 2, "small = 1", "every: missing field `large`"),
            ("every", 2, "small = 0\nlarge = 1", "`small` is 0, expected 1 or more"),
            ("r-stitch", 2, "a = 0.1", "r-stitch: missing field `b`"),
            ("r-stitch", 2, "b = 0.1\nsignal = \"measured\"", "r-stitch: missing field `a`"),
            ("r-stitch", 2, "signal = \"measured\"\ntau = 2", "`tau` is 2, expected a number from 0 to 1"),
            ("r-stitch", 3, "signal = \"measured\"", "r-stitch: the policy routes over 2 models, but there are 3"),
            (
                "r-stitch",
                2,
                "signal = \"entropy\"",
                "r-stitch: unknown variant `entropy`, expected `synthetic` or `measured`",
            ),
            (
                "r-stitch",
                2,
                "a = 0.1\nb = 0.1\ntau = 0.1",
                "r-stitch: `tau`: is a threshold for signal = \"measured\", but the signal is synthetic",
            ),
            (
                "phases",
                2,
                "phase = [{ kind = \"r-stitch\", signal = \"measured\" }]\nmean_tokens = [10]",
                "phases: `phase[0]`: r-stitch: `signal`: is measured, expected \"synthetic\" for a phase",
            ),
            ("me", 2, "", "me: missing field `weights`, expected one weight for each of 2 models"),
            ("me", 2, "weights = [0.5, 0.4]", "`weights` sums to 0.9, expected 1 within 1e-9"),
            ("large-only", 2, "model = 1", "large-only: unknown field `model`, there are no fields"),
        ];
        for (kind, n_models, fields, expected) in cases {
            assert_eq!(build_from(kind, n_models, fields).unwrap_err().to_string(), expected);
        }
    }
}
