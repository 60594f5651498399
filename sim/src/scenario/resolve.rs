//! Where the files that a scenario names come from: profiles, lengths, recorded routes.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::cost::Profile;
use crate::policy::RouteRecord;
use crate::workload::{LengthColumn, parse_arrivals, parse_lengths};

/// Gives the bytes of the files that a scenario names.
pub trait Resolver {
    /// The bytes of the file that the scenario calls `name`.
    ///
    /// # Errors
    /// If there is no such file or it cannot be read. The error says where it was looked for.
    fn bytes(&self, name: &str) -> Result<Vec<u8>, ResolveError>;

    /// This resolver, and `fallback` for the names that it does not find.
    fn or<R: Resolver>(self, fallback: R) -> Or<Self, R>
    where
        Self: Sized,
    {
        Or(self, fallback)
    }
}

/// Why a file was not found or could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ResolveError {
    /// There is no such file.
    #[error("no such file, looked in {looked_in}")]
    NotFound {
        /// Where it was looked for.
        looked_in: String,
    },
    /// The file is there but cannot be read.
    #[error("cannot read {path}: {error}")]
    Unreadable {
        /// The file.
        path: String,
        /// The operating system's reason.
        error: std::io::Error,
    },
}

/// Looks in folders of the file system, one after the other. Absolute names stand for themselves.
#[derive(Clone, Debug)]
pub struct Folders(Vec<PathBuf>);

impl Folders {
    /// Looks in the given folders.
    #[must_use]
    pub fn new(folders: Vec<PathBuf>) -> Self {
        Self(folders)
    }

    /// Looks beside the scenario file `scenario`, then in the folder `profiles` beside the scenario's folder.
    #[must_use]
    pub fn of_scenario(scenario: &Path) -> Self {
        let folder = scenario.parent().unwrap_or(Path::new("")).to_owned();
        let profiles = folder.join("..").join("profiles");
        Self(vec![folder, profiles])
    }
}

impl Resolver for Folders {
    fn bytes(&self, name: &str) -> Result<Vec<u8>, ResolveError> {
        for folder in &self.0 {
            let path = folder.join(name);
            match read_file(&path) {
                Ok(bytes) => return Ok(bytes),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => return Err(ResolveError::Unreadable { path: path.display().to_string(), error }),
            }
        }
        let shown = |folder: &PathBuf| {
            if folder.as_os_str().is_empty() { ".".to_owned() } else { folder.display().to_string() }
        };
        let folders: Vec<String> = self.0.iter().map(shown).collect();
        Err(ResolveError::NotFound { looked_in: folders.join(", ") })
    }
}

/// The largest file that is read, in bytes; devices and pipes may have no end.
const BYTES_MAX: u64 = 256 << 20;

/// The bytes of a file that is not too large.
pub(super) fn read_file(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    std::fs::File::open(path)?.take(BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > BYTES_MAX {
        return Err(std::io::Error::other(format!("larger than {BYTES_MAX} bytes")));
    }
    Ok(bytes)
}

/// Files that are part of the program. The default has none.
#[derive(Clone, Copy, Default, Debug)]
pub struct Embedded {
    files: &'static [(&'static str, &'static [u8])],
}

impl Embedded {
    /// The given files, as pairs of name and bytes.
    #[must_use]
    pub const fn new(files: &'static [(&'static str, &'static [u8])]) -> Self {
        Self { files }
    }
}

impl Resolver for Embedded {
    fn bytes(&self, name: &str) -> Result<Vec<u8>, ResolveError> {
        match self.files.iter().find(|(file, _)| *file == name) {
            Some((_, bytes)) => Ok(bytes.to_vec()),
            None => {
                let names: Vec<&str> = self.files.iter().map(|(file, _)| *file).collect();
                let looked_in = if names.is_empty() {
                    "no embedded files".to_owned()
                } else {
                    format!("the embedded files ({})", names.join(", "))
                };
                Err(ResolveError::NotFound { looked_in })
            }
        }
    }
}

/// Two resolvers, the second for what the first does not find. Made by [`Resolver::or`].
#[derive(Clone, Debug)]
pub struct Or<A, B>(A, B);

impl<A: Resolver, B: Resolver> Resolver for Or<A, B> {
    fn bytes(&self, name: &str) -> Result<Vec<u8>, ResolveError> {
        match self.0.bytes(name) {
            Err(ResolveError::NotFound { looked_in: first }) => match self.1.bytes(name) {
                Err(ResolveError::NotFound { looked_in: second }) => {
                    Err(ResolveError::NotFound { looked_in: format!("{first} and {second}") })
                }
                other => other,
            },
            other => other,
        }
    }
}

/// What has been read and parsed, so that the variants of a scenario read each file once.
#[derive(Default, Debug)]
pub(super) struct Files {
    profiles: Cache<Profile>,
    prompt_lengths: Cache<Vec<u32>>,
    output_lengths: Cache<Vec<u32>>,
    arrivals: Cache<Vec<u64>>,
    routes: Cache<RouteRecord>,
}

impl Files {
    /// The profile called `name`.
    pub(super) fn profile(&self, name: &str, resolver: &dyn Resolver) -> Result<Arc<Profile>, String> {
        self.profiles.get(name, resolver, |bytes| Profile::parse(bytes, name).map_err(|error| error.to_string()))
    }

    /// The lengths in a column of the file called `name`.
    pub(super) fn lengths(
        &self,
        name: &str,
        column: LengthColumn,
        resolver: &dyn Resolver,
    ) -> Result<Arc<Vec<u32>>, String> {
        let cache = match column {
            LengthColumn::PromptTokens => &self.prompt_lengths,
            LengthColumn::OutputTokens => &self.output_lengths,
        };
        cache.get(name, resolver, |bytes| {
            parse_lengths(Path::new(name), bytes, column).map_err(|error| error.to_string())
        })
    }

    /// The arrivals in the file called `name`.
    pub(super) fn arrivals(&self, name: &str, resolver: &dyn Resolver) -> Result<Arc<Vec<u64>>, String> {
        self.arrivals
            .get(name, resolver, |bytes| parse_arrivals(Path::new(name), bytes).map_err(|error| error.to_string()))
    }

    /// The routes over `n_models` models in the file called `name`.
    pub(super) fn routes(
        &self,
        name: &str,
        n_models: usize,
        resolver: &dyn Resolver,
    ) -> Result<Arc<RouteRecord>, String> {
        let record = self.routes.get(name, resolver, |bytes| {
            RouteRecord::from_reader(bytes, name, n_models).map_err(|error| error.to_string())
        })?;
        if record.n_models() == n_models {
            return Ok(record);
        }
        // An override changed the number of models.
        let bytes = resolver.bytes(name).map_err(|error| error.to_string())?;
        RouteRecord::from_reader(&*bytes, name, n_models).map(Arc::new).map_err(|error| error.to_string())
    }
}

/// Parsed files by name.
#[derive(Debug)]
struct Cache<T>(Mutex<BTreeMap<String, Arc<T>>>);

impl<T> Default for Cache<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> Cache<T> {
    fn get(
        &self,
        name: &str,
        resolver: &dyn Resolver,
        parse: impl FnOnce(&[u8]) -> Result<T, String>,
    ) -> Result<Arc<T>, String> {
        // Held while reading, so that two threads do not read the same file. A panic elsewhere leaves the map whole.
        let mut files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(parsed) = files.get(name) {
            return Ok(Arc::clone(parsed));
        }
        let bytes = resolver.bytes(name).map_err(|error| error.to_string())?;
        let parsed = Arc::new(parse(&bytes)?);
        files.insert(name.to_owned(), Arc::clone(&parsed));
        Ok(parsed)
    }
}

/// Finds nothing: the resolver of a variant, whose files are in the cache unless an override named a new one.
#[derive(Clone, Copy, Debug)]
pub(super) struct LoadedOnly;

impl Resolver for LoadedOnly {
    fn bytes(&self, _name: &str) -> Result<Vec<u8>, ResolveError> {
        Err(ResolveError::NotFound { looked_in: "the files of the scenario that this one is a variant of".to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_file_says_where_it_was_looked_for() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        std::fs::write(folder.path().join("here.csv"), "x").expect("writable");
        let resolver = Folders::new(vec![folder.path().to_owned()]).or(Embedded::new(&[("there.csv", b"y")]));
        assert_eq!(resolver.bytes("here.csv").expect("in the folder"), b"x");
        assert_eq!(resolver.bytes("there.csv").expect("embedded"), b"y");
        let error = resolver.bytes("nowhere.csv").expect_err("no such file").to_string();
        assert_eq!(
            error,
            format!("no such file, looked in {} and the embedded files (there.csv)", folder.path().display())
        );
    }

    #[test]
    fn a_folder_is_no_file() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let error = Folders::new(vec![folder.path().to_owned()]).bytes(".").expect_err("a folder");
        assert!(matches!(error, ResolveError::Unreadable { .. }), "{error}");
    }

    #[test]
    fn profiles_lie_beside_the_scenario_or_in_the_folder_profiles_next_to_its_folder() {
        let root = tempfile::tempdir().expect("a temporary folder");
        for folder in ["scenarios", "profiles"] {
            std::fs::create_dir(root.path().join(folder)).expect("writable");
            std::fs::write(root.path().join(folder).join(format!("{folder}.csv")), folder).expect("writable");
        }
        let resolver = Folders::of_scenario(&root.path().join("scenarios/s.toml"));
        assert_eq!(resolver.bytes("profiles.csv").expect("in profiles"), b"profiles");
        assert_eq!(resolver.bytes("scenarios.csv").expect("beside the scenario"), b"scenarios");
    }
}
