//! `manifest.json`: how the files of a result folder were obtained.

use std::path::{Component, Path};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::cells::sha256_hex;

/// Raised whenever a field of the manifest changes its meaning or goes.
pub(crate) const MANIFEST_SCHEMA: u32 = 1;

/// The file name of the manifest.
pub(crate) const MANIFEST_FILE: &str = "manifest.json";

/// Everything that is needed to obtain the files of a folder again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Manifest {
    /// The version of this layout.
    pub(crate) schema: u32,
    /// The program and its arguments, without paths of the machine.
    pub(crate) command: Vec<String>,
    /// What ran.
    pub(crate) program: Program,
    /// When the folder was finished, in UTC: `2026-01-31T23:59:59Z`. The only field that a second run changes.
    pub(crate) created_utc: String,
    /// What the numbers were obtained on: `simulated`, or the name of a device.
    pub(crate) device: String,
    /// The seed of the run.
    pub(crate) seed: u64,
    /// The scenario as it was in effect, with every default and override.
    pub(crate) scenario: ScenarioText,
    /// The profiles that costs were read from.
    pub(crate) profiles: Vec<Profile>,
    /// The fingerprint that the folder is bound to.
    pub(crate) fingerprint: Value,
    /// The other files of the folder.
    pub(crate) files: Vec<FileEntry>,
    /// Who drew figures again after the run; the rows stay those of `program`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) redrawn: Option<Redrawn>,
}

/// Figures that were drawn again from the rows of a finished folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Redrawn {
    /// What drew them.
    pub(crate) program: Program,
    /// When, in UTC.
    pub(crate) created_utc: String,
    /// Their paths relative to the folder.
    pub(crate) files: Vec<String>,
}

/// The scenario of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ScenarioText {
    /// The name of its file without folders, or that of the embedded scenario.
    pub(crate) name: String,
    /// Its effective text.
    pub(crate) text: String,
}

/// A measured profile, by content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Profile {
    /// Its name in the scenario.
    pub(crate) name: String,
    /// The SHA-256 digest of its bytes.
    pub(crate) sha256: String,
}

/// A file of the folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileEntry {
    /// Its path relative to the folder.
    pub(crate) path: String,
    /// Its size.
    pub(crate) bytes: u64,
    /// The SHA-256 digest of its bytes.
    pub(crate) sha256: String,
}

/// The build that ran. A value is `unknown` where the build could not tell, for example without git.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Program {
    /// The version of the package.
    pub(crate) version: String,
    /// The commit that it was built from.
    pub(crate) commit: String,
    /// `clean` if the sources were those of the commit, `changed` if not.
    pub(crate) sources: String,
    /// The compiler.
    pub(crate) rustc: String,
    /// The target triple that it was built for.
    pub(crate) target: String,
}

/// What the caller knows about a run.
#[derive(Clone, Debug)]
pub(crate) struct RunFacts {
    /// The program and its arguments as given.
    pub(crate) command: Vec<String>,
    /// `simulated`, or the name of a device.
    pub(crate) device: String,
    /// The seed of the run.
    pub(crate) seed: u64,
    /// The effective scenario.
    pub(crate) scenario: ScenarioText,
    /// The profiles that costs were read from.
    pub(crate) profiles: Vec<Profile>,
}

impl Program {
    /// The running program.
    pub(crate) fn current() -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            commit: env!("HANDOFF_COMMIT").to_owned(),
            sources: env!("HANDOFF_SOURCES").to_owned(),
            rustc: env!("HANDOFF_RUSTC").to_owned(),
            target: env!("HANDOFF_TARGET").to_owned(),
        }
    }
}

impl Profile {
    /// The profile called `name` with this content.
    pub(crate) fn new(name: &str, bytes: &[u8]) -> Self {
        Self { name: name.to_owned(), sha256: sha256_hex(bytes) }
    }
}

impl FileEntry {
    /// The file at `path`, relative to its folder, with this content.
    pub(crate) fn new(path: &str, bytes: &[u8]) -> Self {
        let size = u64::try_from(bytes.len()).expect("no file in memory is larger than 2^64 bytes");
        Self { path: path.to_owned(), bytes: size, sha256: sha256_hex(bytes) }
    }
}

impl Manifest {
    /// The manifest of `folder`, finished at `created`.
    pub(crate) fn new(
        facts: RunFacts,
        folder: &Path,
        fingerprint: Value,
        files: Vec<FileEntry>,
        created: SystemTime,
    ) -> Self {
        Self {
            schema: MANIFEST_SCHEMA,
            command: portable_command(&facts.command, folder),
            program: Program::current(),
            created_utc: utc(created),
            device: facts.device,
            seed: facts.seed,
            scenario: facts.scenario,
            profiles: facts.profiles,
            fingerprint,
            files,
            redrawn: None,
        }
    }

    /// Takes over figures that this program has drawn again at `created`.
    pub(crate) fn redraw(&mut self, figures: Vec<FileEntry>, created: SystemTime) {
        let files = figures.iter().map(|figure| figure.path.clone()).collect();
        for figure in figures {
            match self.files.iter_mut().find(|file| file.path == figure.path) {
                Some(file) => *file = figure,
                None => self.files.push(figure),
            }
        }
        self.redrawn = Some(Redrawn { program: Program::current(), created_utc: utc(created), files });
    }
}

/// The call without paths of this machine: the program by its name, an absolute path by its way from `folder` if it
/// lies inside, else by its file name. Relative paths stay as they were given.
fn portable_command(command: &[String], folder: &Path) -> Vec<String> {
    let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    let mut words = command.iter();
    let program = words.next().map(|_| env!("CARGO_PKG_NAME").to_owned());
    program.into_iter().chain(words.map(|word| portable_word(word, &folder))).collect()
}

/// A path may stand behind `=` (`--out=/tmp/x`) and between commas (`--grid file=/a,/b`).
fn portable_word(word: &str, folder: &Path) -> String {
    let pieces = word.split_inclusive(['=', ',']).map(|piece| {
        let (text, end) = match piece.strip_suffix(['=', ',']) {
            Some(text) => (text, &piece[text.len()..]),
            None => (piece, ""),
        };
        format!("{}{end}", portable_path(text, folder))
    });
    pieces.collect()
}

fn portable_path(text: &str, folder: &Path) -> String {
    let path = Path::new(text);
    if !path.is_absolute() {
        return text.to_owned();
    }
    match path.strip_prefix(folder) {
        Ok(inside) if inside.as_os_str().is_empty() => ".".to_owned(),
        Ok(inside) => inside.display().to_string(),
        Err(_) => match path.components().next_back() {
            Some(Component::Normal(name)) => name.to_string_lossy().into_owned(),
            _ => ".".to_owned(),
        },
    }
}

/// `2026-01-31T23:59:59Z`. A time before 1970 gives the start of 1970.
fn utc(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_secs());
    let (days, second_of_day) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = date(days);
    let (hour, minute, second) = (second_of_day / 3_600, second_of_day / 60 % 60, second_of_day % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// Year, month (1 to 12) and day (1 to 31) of the Gregorian calendar, `days` after 1 January 1970.
fn date(days: u64) -> (u64, usize, u64) {
    let is_leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let (mut year, mut left) = (1970, days);
    loop {
        let in_year = if is_leap(year) { 366 } else { 365 };
        if left < in_year {
            break;
        }
        left -= in_year;
        year += 1;
    }
    let february = if is_leap(year) { 29 } else { 28 };
    for (month, in_month) in (1..).zip([31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]) {
        if left < in_month {
            return (year, month, left + 1);
        }
        left -= in_month;
    }
    unreachable!("the days left are fewer than those of the year")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn dates_follow_the_calendar() {
        // Seconds from `date -u -d ... +%s`: around leap days, the century rule and the end of a year.
        let cases = [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_709_251_199, "2024-02-29T23:59:59Z"),
            (1_767_225_599, "2025-12-31T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ];
        for (seconds, expected) in cases {
            assert_eq!(utc(UNIX_EPOCH + Duration::from_secs(seconds)), expected);
        }
    }

    #[test]
    fn the_command_holds_no_path_of_the_machine() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let command =
            words("/opt/x/handoff sweep --scenario /home/a/s.toml --out=/home/a/run --set model.0.cost=a.csv ../b");
        let expected = words("handoff sweep --scenario s.toml --out=. --set model.0.cost=a.csv ../b");
        assert_eq!(portable_command(&command, Path::new("/home/a/run")), expected);
        assert_eq!(
            portable_word("profile=/home/a/run/x/p.csv,/b/q.csv,r", Path::new("/home/a/run")),
            "profile=x/p.csv,q.csv,r"
        );
        assert_eq!(portable_word("/", Path::new("/home")), ".");
    }

    #[test]
    fn the_build_is_known() {
        let program = Program::current();
        assert!(program.rustc.starts_with("rustc "), "{}", program.rustc);
        assert!(program.target.contains('-'), "{}", program.target);
        assert!(program.commit == "unknown" || program.commit.len() >= 40, "{}", program.commit);
        assert_eq!(program.commit == "unknown", program.sources == "unknown");
    }
}
