//! Where results come from: the manifest of a finished folder, or what an unfinished one says.

use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use super::{read, wrong};
use crate::failure::Failure;
use crate::output::manifest::{FileEntry, MANIFEST_SCHEMA, Profile, ScenarioText};
use crate::profile::PROFILE_FILE;

/// What a manifest says. Fields that some other writer of manifests may lack are optional.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Origin {
    /// The program and its arguments; in a manifest of many calls, one call each.
    pub(super) command: Vec<String>,
    pub(super) program: Program,
    #[serde(default)]
    pub(super) created_utc: Option<String>,
    /// `simulated`, or what was measured on.
    pub(super) device: String,
    #[serde(default)]
    pub(super) seed: Value,
    #[serde(default)]
    pub(super) scenario: Option<ScenarioText>,
    #[serde(default)]
    pub(super) profiles: Vec<Profile>,
    #[serde(default)]
    pub(super) fingerprint: Value,
    pub(super) files: Vec<FileEntry>,
}

/// The build that ran.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Program {
    pub(super) version: String,
    pub(super) commit: String,
    pub(super) sources: String,
    #[serde(default)]
    pub(super) rustc: Option<String>,
    #[serde(default)]
    pub(super) target: Option<String>,
}

impl Origin {
    /// Reads the manifest at `path`.
    pub(super) fn read(path: &Path) -> Result<Self, Failure> {
        let place = |error: &serde_json::Error| format!("line {}: {error}", error.line());
        let value: Value = serde_json::from_slice(&read(path)?).map_err(|error| wrong(path, &place(&error)))?;
        // Asked first, because another layout would fail with a less telling error.
        if value["schema"] != MANIFEST_SCHEMA {
            return Err(wrong(path, &format!("`schema` is {}, expected {MANIFEST_SCHEMA}", value["schema"])));
        }
        serde_json::from_value(value).map_err(|error| wrong(path, &format!("{error}, expected a manifest")))
    }

    /// What is known of a run that has not finished, from the fingerprint that its journal carries.
    pub(super) fn unfinished(fingerprint: Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or("unknown").to_owned();
        let (program, scenario) = (&fingerprint["program"], &fingerprint["configuration"]["scenario"]);
        let lines = scenario["line"].as_object().into_iter().flatten();
        let scenario_text: String =
            lines.filter_map(|(_, line)| line.as_str()).map(|line| format!("{line}\n")).collect();
        Self {
            command: Vec::new(),
            program: Program {
                version: text(&program["version"]),
                commit: text(&program["commit"]),
                sources: text(&program["sources"]),
                rustc: None,
                target: None,
            },
            created_utc: None,
            device: "not said before the run has finished".to_owned(),
            seed: Value::Null,
            scenario: Some(ScenarioText { name: text(&scenario["name"]), text: scenario_text }),
            profiles: serde_json::from_value(fingerprint["configuration"]["profiles"].clone()).unwrap_or_default(),
            files: Vec::new(),
            fingerprint,
        }
    }

    /// The command of this program that ran, `sweep` for example; empty if it was another program.
    pub(super) fn command_name(&self) -> &str {
        let from_call = || match self.command.as_slice() {
            [program, name, ..] if program == "handoff" => Some(name.as_str()),
            _ => None,
        };
        self.fingerprint["command"].as_str().or_else(from_call).unwrap_or("")
    }

    /// Command and scenario, in words.
    pub(super) fn what(&self) -> String {
        let command = match self.command_name() {
            "" => "results",
            name => name,
        };
        match self.scenario_name() {
            // These name their models and machines themselves.
            Some(scenario) if !matches!(command, "paper" | "profile") => format!("{command} of {scenario}"),
            _ => command.to_owned(),
        }
    }

    /// The scenario's name without the suffix of its file.
    pub(super) fn scenario_name(&self) -> Option<&str> {
        self.scenario.as_ref().map(|scenario| scenario.name.trim_end_matches(".toml"))
    }

    /// Whether the numbers were simulated, not measured.
    pub(super) fn is_simulated(&self) -> bool {
        self.device == "simulated"
    }

    /// The profiles that step times were read from. A validation predicts from the profile in its own folder, whatever its scenario names.
    pub(super) fn profiles_read(&self) -> Vec<Profile> {
        let own = self.files.iter().find(|file| self.command_name() == "validate" && file.path == PROFILE_FILE);
        own.map_or_else(
            || self.profiles.clone(),
            |file| vec![Profile { name: file.path.clone(), sha256: file.sha256.clone() }],
        )
    }

    /// The seed as text; empty if the manifest has none.
    pub(super) fn seed_text(&self) -> String {
        match &self.seed {
            Value::Null => String::new(),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        }
    }

    /// The commit, short, and whether the sources were those of the commit.
    pub(super) fn commit_words(&self) -> String {
        let commit: String = self.program.commit.chars().take(10).collect();
        match self.program.sources.as_str() {
            _ if commit == "unknown" => "an unknown commit".to_owned(),
            "changed" => format!("commit {commit} with changes"),
            _ => format!("commit {commit}"),
        }
    }

    /// The call, ready to be pasted into a shell.
    pub(super) fn call(&self) -> String {
        // Another program's manifest holds one whole call a line.
        if self.command.first().is_none_or(|program| program != "handoff") {
            return self.command.join("\n");
        }
        self.command.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
    }
}

/// A word as a POSIX shell reads it back.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=,:+@%".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_for_a_shell() {
        let cases =
            [("--every=1,2", "--every=1,2"), ("a b", "'a b'"), ("it's", r"'it'\''s'"), ("", "''"), ("$x", "'$x'")];
        for (word, expected) in cases {
            assert_eq!(quoted(word), expected);
        }
    }
}
