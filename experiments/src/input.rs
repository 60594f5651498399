//! From arguments to scenarios: files, embedded scenarios, overrides.

use std::path::Path;

use handoff_sim::scenario::{
    Axis, Embedded, Folders, Or, ResolveError, Resolver, Scenario, ScenarioError, Source, Variant,
};

use crate::cli::Common;
use crate::failure::Failure;
use crate::output::manifest::{Profile, ScenarioText};

/// The scenario that runs without `--scenario`.
pub(crate) const DEFAULT_SCENARIO: &str = "h200";

const SCENARIOS: [(&str, &str); 2] =
    [("h200", include_str!("../scenarios/h200.toml")), ("a100-paper", include_str!("../scenarios/a100-paper.toml"))];

const FILES: Embedded = Embedded::new(&[("h200.csv", include_bytes!("../profiles/h200.csv"))]);

/// A scenario as the user gave it, and where its files come from.
pub(crate) struct Input {
    source: Source,
    resolver: Or<Folders, Embedded>,
    /// The axes of `--grid`.
    pub(crate) axes: Vec<Axis>,
}

impl Input {
    /// Reads the scenario that the arguments name.
    pub(crate) fn read(common: &Common) -> Result<Self, Failure> {
        let (source, folders) = match &common.scenario {
            None => (embedded(DEFAULT_SCENARIO).expect("the default scenario is embedded"), Folders::new(Vec::new())),
            Some(path) => match path.to_str().filter(|_| !path.exists()).and_then(embedded) {
                Some(source) => (source, Folders::new(Vec::new())),
                None => (Source::read(path)?, Folders::of_scenario(path)),
            },
        };
        let mut source = source;
        for set in &common.sets {
            source = source.with_set(set)?;
        }
        if let Some(seed) = common.seed {
            source = source.with_set(&format!("seed={seed}"))?;
        }
        let axes = common.grids.iter().map(|grid| Axis::parse(grid)).collect::<Result<_, _>>()?;
        Ok(Self { source, resolver: folders.or(FILES), axes })
    }

    /// Adds an override that stands behind those of the user.
    pub(crate) fn with_set(mut self, text: &str) -> Result<Self, Failure> {
        self.source = self.source.with_set(text)?;
        Ok(self)
    }

    /// Whether the file, an override or an axis says something about `path`.
    pub(crate) fn names(&self, path: &str) -> bool {
        let (table, field) = path.split_once('.').unwrap_or((path, ""));
        // A text that is no TOML is refused when the scenario is parsed.
        let in_file = self.source.text().parse::<toml::Table>().is_ok_and(|document| {
            document.get(table).and_then(|table| table.as_table()).is_some_and(|table| table.contains_key(field))
        });
        let names = |set: &str| set.split('=').next().is_some_and(|left| left.trim() == path || left.trim() == table);
        in_file || self.source.sets().any(names) || self.axes.iter().any(|axis| axis.path() == path)
    }

    /// Whether an axis runs over a threshold.
    pub(crate) fn has_threshold_axis(&self) -> bool {
        self.axes.iter().any(|axis| axis.path().ends_with(".threshold"))
    }

    /// The validated scenario.
    pub(crate) fn scenario(&self) -> Result<Scenario, Failure> {
        Ok(Scenario::parse(&self.source, &self.resolver)?)
    }

    /// Validates a variant of the scenario.
    pub(crate) fn build(&self, variant: Variant) -> Result<Scenario, ScenarioError> {
        variant.build_with(&self.resolver)
    }

    /// The effective text for a manifest: the file, and the overrides as comments.
    pub(crate) fn scenario_text(&self) -> ScenarioText {
        let mut text = self.source.text().to_owned();
        for set in self.source.sets() {
            text.push_str(&format!("# --set {set}\n"));
        }
        let name = Path::new(self.source.name())
            .file_name()
            .map_or_else(|| self.source.name().to_owned(), |name| name.to_string_lossy().into_owned());
        ScenarioText { name, text }
    }

    /// The files that the scenario reads costs, lengths and routes from, by content.
    pub(crate) fn profiles(&self) -> Result<Vec<Profile>, Failure> {
        let mut names = file_names(self.source.text());
        for set in self.source.sets() {
            names.extend(file_names(set.split_once('=').map_or("", |(_, value)| value)));
        }
        names.sort();
        names.dedup();
        let profile = |name: String| match self.resolver.bytes(&name) {
            Ok(bytes) => Some(Ok(Profile::new(&name, &bytes))),
            // A string that looks like a file but is none, or a file that an override replaced.
            Err(ResolveError::NotFound { .. }) => None,
            Err(error) => Some(Err(Failure::Argument(format!("`{name}`: {error}")))),
        };
        names.into_iter().filter_map(profile).collect()
    }
}

fn embedded(name: &str) -> Option<Source> {
    SCENARIOS.iter().find(|(known, _)| *known == name).map(|(name, text)| Source::new(&format!("{name}.toml"), text))
}

/// Quoted names ending in `.csv` outside of comments.
fn file_names(text: &str) -> Vec<String> {
    let code = text.lines().map(|line| line.split('#').next().unwrap_or(""));
    code.flat_map(|line| {
        line.split('"')
            .map(str::trim)
            .filter(|part| part.ends_with(".csv") && !part.contains(' '))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    })
    .collect()
}
