//! From arguments to scenarios: files, embedded scenarios, overrides.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use handoff_sim::scenario::{
    Axis, Embedded, Folders, Or, ResolveError, Resolver, Scenario, ScenarioError, Source, Variant, parse_list,
};
use serde::Serialize;

use crate::cli::Common;
use crate::failure::Failure;
use crate::output::manifest::{Profile, ScenarioText};

/// The scenario that runs without `--scenario`.
pub(crate) const DEFAULT_SCENARIO: &str = "h200";

/// The most cells of a grid. All are validated and held in memory before the first one runs.
pub(crate) const CELLS_MAX: usize = 20_000;

const SCENARIOS: [(&str, &str); 3] = [
    ("h200", include_str!("../scenarios/h200.toml")),
    ("a100-paper", include_str!("../scenarios/a100-paper.toml")),
    ("tiny", include_str!("../scenarios/tiny.toml")),
];

const FILES: Embedded = Embedded::new(&[
    ("h200.csv", include_bytes!("../profiles/h200.csv")),
    ("cpu-tiny.csv", include_bytes!("../profiles/cpu-tiny.csv")),
]);

/// A scenario as the user gave it, and where its files come from.
pub(crate) struct Input {
    source: Source,
    folder: Option<PathBuf>,
    is_default: bool,
    files: Recorded<Or<Folders, Embedded>>,
    /// The axes of `--grid`.
    pub(crate) axes: Vec<Axis>,
}

impl Input {
    /// Reads the scenario that the arguments name, or the default one.
    pub(crate) fn read(common: &Common) -> Result<Self, Failure> {
        Self::read_or(common, DEFAULT_SCENARIO)
    }

    /// Reads the scenario that the arguments name, or the embedded one called `default`.
    pub(crate) fn read_or(common: &Common, default: &str) -> Result<Self, Failure> {
        let (mut source, folders) = match &common.scenario {
            None => (embedded(default).expect("the default scenario is embedded"), Folders::new(Vec::new())),
            // A folder may well have the name of an embedded scenario.
            Some(path) => match path.to_str().filter(|_| !path.is_file()).and_then(embedded) {
                Some(source) => (source, Folders::new(Vec::new())),
                None if !path.exists() => return Err(no_scenario(path)),
                None => (Source::read(path)?, Folders::of_scenario(path)),
            },
        };
        for set in &common.sets {
            source = source.with_set(set)?;
        }
        if let Some(seed) = common.seed {
            source = source.with_set(&format!("seed={seed}"))?;
        }
        let axes = common.grids.iter().map(|grid| Axis::parse(grid)).collect::<Result<_, _>>()?;
        let folder =
            common.scenario.as_deref().filter(|path| path.is_file()).and_then(Path::parent).map(Path::to_owned);
        Ok(Self {
            source,
            folder,
            is_default: common.scenario.is_none(),
            files: Recorded::new(folders.or(FILES)),
            axes,
        })
    }

    /// Adds an override that stands behind those of the user.
    pub(crate) fn with_set(mut self, text: &str) -> Result<Self, Failure> {
        self.source = self.source.with_set(text)?;
        Ok(self)
    }

    /// The folder of the scenario file, from which the folders that it names are reached.
    pub(crate) fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// Whether the user says something about `path`: in a scenario file, an override or an axis.
    pub(crate) fn names(&self, path: &str) -> bool {
        let (table, field) = path.split_once('.').unwrap_or((path, ""));
        // A text that is no TOML is refused when the scenario is parsed.
        let in_file = !self.is_default
            && self.source.text().parse::<toml::Table>().is_ok_and(|document| {
                document.get(table).and_then(|table| table.as_table()).is_some_and(|table| table.contains_key(field))
            });
        let is_named = |named: &str| named == path || named == table;
        in_file
            || self.source.sets().any(|set| set.split('=').next().is_some_and(|left| is_named(left.trim())))
            || self.axes.iter().any(|axis| is_named(axis.path()))
    }

    /// Whether an axis runs over a threshold.
    pub(crate) fn has_threshold_axis(&self) -> bool {
        self.axes.iter().any(|axis| axis.path().ends_with(".threshold"))
    }

    /// The validated scenario.
    pub(crate) fn scenario(&self) -> Result<Scenario, Failure> {
        let scenario = Scenario::parse(&self.source, &self.files)?;
        for (idx, axis) in self.axes.iter().enumerate() {
            // The last one would win, and the rows would name values that were not in effect.
            let is_same = |other: &&Axis| {
                path_words(&scenario, other.path()) == path_words(&scenario, axis.path()) && other.path() != axis.path()
            };
            if let Some(other) = self.axes[..idx].iter().find(is_same) {
                let message = format!("--grid {}: is the field `{}` of another --grid", axis.path(), other.path());
                return Err(Failure::Argument(message + ", expected one list for each field"));
            }
        }
        Ok(scenario)
    }

    /// Validates a variant of the scenario.
    pub(crate) fn build(&self, variant: Variant) -> Result<Scenario, ScenarioError> {
        variant.build_with(&self.files)
    }

    /// The effective text for a manifest: the file, and the overrides as comments.
    pub(crate) fn scenario_text(&self) -> ScenarioText {
        let mut text = self.source.text().to_owned();
        if !text.ends_with('\n') {
            text.push('\n');
        }
        for set in self.source.sets() {
            text.push_str(&format!("# --set {}\n", set.replace('\n', "\n# ")));
        }
        let name = Path::new(self.source.name())
            .file_name()
            .map_or_else(|| self.source.name().to_owned(), |name| name.to_string_lossy().into_owned());
        ScenarioText { name, text }
    }

    /// The same in parts.
    pub(crate) fn scenario_parts(&self) -> ScenarioParts {
        let ScenarioText { name, .. } = self.scenario_text();
        let lines = self.source.text().lines().enumerate();
        let sets: Vec<(String, String)> = self
            .source
            .sets()
            .filter_map(|set| set.split_once('='))
            .map(|(path, value)| (path.to_owned(), value.to_owned()))
            .collect();
        ScenarioParts {
            name,
            line: lines.map(|(idx, line)| (idx + 1, line.to_owned())).collect(),
            order: sets.iter().map(|(path, _)| path.clone()).collect(),
            set: sets.into_iter().collect(),
        }
    }

    /// The files that the scenarios built so far read costs, lengths and routes from, by content.
    pub(crate) fn profiles(&self) -> Vec<Profile> {
        self.files.read.borrow().values().cloned().collect()
    }
}

/// The effective scenario in parts small enough to be shown where two of them differ.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ScenarioParts {
    name: String,
    /// The lines of the file by number.
    line: BTreeMap<usize, String>,
    /// The overrides by path; the last one of a path wins.
    set: BTreeMap<String, String>,
    /// Their paths in the order in which they were made, which matters where one replaces a whole table.
    order: Vec<String>,
}

/// The words of a field's path, models by index.
pub(crate) fn path_words(scenario: &Scenario, path: &str) -> Vec<String> {
    let mut words: Vec<String> = path.split('.').map(str::to_owned).collect();
    if let [table, model, ..] = words.as_mut_slice()
        && table == "model"
        && let Some(idx) = scenario.model_idx(model)
    {
        *model = idx.to_string();
    }
    words
}

/// Refuses a grid of more cells than are run at once.
pub(crate) fn check_size(n_cells: usize) -> Result<(), Failure> {
    if n_cells <= CELLS_MAX {
        return Ok(());
    }
    Err(Failure::Argument(format!("the grid has {n_cells} cells, expected at most {CELLS_MAX}; split it")))
}

/// The whole numbers of an argument's list, rising.
pub(crate) fn whole_numbers(name: &str, list: &str) -> Result<Vec<u32>, Failure> {
    let wrong = |reason: String| Failure::Argument(format!("{name} {list}: {reason}"));
    let mut numbers = Vec::new();
    for value in parse_list(list).map_err(wrong)? {
        match value.parse::<u32>() {
            Ok(number) if number > 0 => numbers.push(number),
            _ => return Err(wrong(format!("`{value}` is not a whole number from 1 to {}", u32::MAX))),
        }
    }
    numbers.sort_unstable();
    let n = numbers.len();
    numbers.dedup();
    if numbers.len() < n {
        return Err(wrong("expected each value once".to_owned()));
    }
    Ok(numbers)
}

/// The numbers of an argument's list, in its order.
pub(crate) fn numbers(name: &str, list: &str) -> Result<Vec<f64>, Failure> {
    if list == NONE {
        return Ok(Vec::new());
    }
    let number = |value: &str| match value.trim().parse::<f64>() {
        Ok(number) if number.is_finite() => Ok(number),
        _ => Err(Failure::Argument(format!("{name} {list}: `{value}` is not a number"))),
    };
    list.split(',').map(number).collect()
}

/// As [`whole_numbers`], or none at all.
pub(crate) fn whole_numbers_or_none(name: &str, list: &str) -> Result<Vec<u32>, Failure> {
    if list == NONE { Ok(Vec::new()) } else { whole_numbers(name, list) }
}

/// The list without elements.
const NONE: &str = "none";

fn embedded(name: &str) -> Option<Source> {
    SCENARIOS.iter().find(|(known, _)| *known == name).map(|(name, text)| Source::new(&format!("{name}.toml"), text))
}

fn no_scenario(path: &Path) -> Failure {
    let names: Vec<String> = SCENARIOS.iter().map(|(name, _)| format!("`{name}`")).collect();
    Failure::Argument(format!(
        "--scenario {}: no such file, expected a scenario file or an embedded scenario: {}",
        path.display(),
        names.join(" or ")
    ))
}

/// Remembers what has been read, since only the reader of a scenario knows which files it comes to need.
struct Recorded<R> {
    files: R,
    read: RefCell<BTreeMap<String, Profile>>,
}

impl<R> Recorded<R> {
    fn new(files: R) -> Self {
        Self { files, read: RefCell::default() }
    }
}

impl<R: Resolver> Resolver for Recorded<R> {
    fn bytes(&self, name: &str) -> Result<Vec<u8>, ResolveError> {
        let bytes = self.files.bytes(name)?;
        self.read.borrow_mut().insert(name.to_owned(), Profile::new(name, &bytes));
        Ok(bytes)
    }
}
