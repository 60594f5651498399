//! The parsed text with the overrides put into it, which still knows where every value came from.
//!
//! The text of the file, of each override and of the default models are laid one after the other, and every value keeps
//! its byte range in the whole. So one number tells line, option, field path and written value, for our own errors and
//! for those of serde alike.

use std::ops::Range;

use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};

use super::error::{Origin, ScenarioError, abridge, nearest, readable};
use super::source::{Override, Source, check_path, parse_value, position};

/// The models of a scenario that names none: the published pair (Qwen3-0.6B and Qwen3-32B on A100, 6.0 and 27.9 ms a
/// step).
const DEFAULT_MODELS: &str = "[[model]]\nname = \"small\"\n[[model]]\nname = \"large\"\n";

/// All texts, one after the other.
pub(super) struct Texts<'s> {
    source: &'s Source,
    all: String,
    /// Where the text of override i starts.
    override_starts: Vec<usize>,
    default_start: usize,
}

impl<'s> Texts<'s> {
    pub(super) fn new(source: &'s Source) -> Self {
        let mut all = source.text().to_owned();
        let mut override_starts = Vec::new();
        for set in source.overrides() {
            // The gap keeps the ranges of neighbours apart.
            all.push('\n');
            override_starts.push(all.len());
            all.push_str(set.text());
        }
        all.push('\n');
        let default_start = all.len();
        all.push_str(DEFAULT_MODELS);
        Self { source, all, override_starts, default_start }
    }
}

type Key<'t> = Spanned<std::borrow::Cow<'t, str>>;
type Value<'t> = Spanned<DeValue<'t>>;

/// The tree of all values.
pub(super) struct Tree<'t> {
    texts: &'t Texts<'t>,
    root: DeTable<'t>,
}

impl<'t> Tree<'t> {
    /// Parses the file and applies the overrides.
    pub(super) fn parse(texts: &'t Texts<'t>) -> Result<Self, ScenarioError> {
        let source = texts.source;
        let text = source.text();
        if text.starts_with('\u{feff}') {
            let message = "the file starts with a byte order mark, expected plain UTF-8";
            return Err(ScenarioError::in_file(source.name(), message).with_hint("save it without a byte order mark"));
        }
        if text.trim().is_empty() {
            let message = "the file is empty, expected a scenario with [workload], [[model]], [policy] and [scheduler]";
            return Err(ScenarioError::in_file(source.name(), message));
        }
        let root = DeTable::parse(&texts.all[..text.len()]).map_err(|error| {
            let (line, column) = position(text, error.span().map_or(0, |span| span.start));
            let origin = Origin::File { name: source.name().to_owned(), line: Some(line), column: Some(column) };
            let found = abridge(error.span().and_then(|span| text.get(span)).unwrap_or_default());
            let found = if found.is_empty() { found } else { format!(", found `{found}`") };
            ScenarioError::new(origin, format!("no valid TOML: {}{found}", error.message()))
        })?;
        let mut tree = Self { texts, root: root.into_inner() };
        tree.add_default_models();
        for (set, &start) in source.overrides().iter().zip(&texts.override_starts) {
            tree.apply(set, start)?;
        }
        Ok(tree)
    }

    /// Reads the raw structs.
    pub(super) fn deserialize<T: Deserialize<'t>>(&self) -> Result<T, ScenarioError> {
        let whole = Spanned::new(0..self.texts.all.len(), DeValue::Table(self.root.clone()));
        T::deserialize(ValueDeserializer::from(whole)).map_err(|error| {
            let span = error.span().unwrap_or(0..0);
            let (message, hint) = readable(error.message());
            let error = match find_in_table(&self.root, &span) {
                Some(path) => self.error(&path, message),
                None => ScenarioError::new(self.origin(span.start).0, message),
            };
            match hint {
                Some(hint) => error.with_hint(hint),
                None => error,
            }
        })
    }

    /// An error about the field at `path` (words separated by dots, models by index); where the field is not given, it
    /// points at the table around it.
    pub(super) fn error(&self, path: &str, message: impl Into<String>) -> ScenarioError {
        let shown = self.shown(path);
        let Some((_, value)) = self.entry(path) else {
            let around = path.rmatch_indices('.').map(|(end, _)| &path[..end]).find_map(|around| self.entry(around));
            let origin = around.map_or_else(
                || self.origin(usize::MAX).0,
                |(key, value)| self.origin(key.unwrap_or(value.span()).start).0,
            );
            return ScenarioError::new(origin, message).with_field(shown);
        };
        let span = value.span();
        let (origin, set_path) = self.origin(span.start);
        let written = self.texts.all.get(span).unwrap_or_default();
        let mut error = ScenarioError::new(origin, message).with_field(shown);
        // The text of a table with a header is the header, which says nothing.
        if !written.is_empty() && (!value.get_ref().is_table() || written.starts_with('{')) {
            error = error.with_value(written);
        }
        let is_path_of_override = set_path.is_some_and(|set_path| self.resolved(set_path).as_deref() == Some(path));
        if is_path_of_override { error.said_by_origin() } else { error }
    }

    /// Whether the field at `path` is given.
    pub(super) fn has(&self, path: &str) -> bool {
        self.entry(path).is_some()
    }

    /// `path` as it is shown: models by name.
    pub(super) fn shown(&self, path: &str) -> String {
        let mut words: Vec<String> = path.split('.').map(str::to_owned).collect();
        if words[0] == "model"
            && words.len() > 1
            && let Some(name) =
                words[1].parse().ok().and_then(|idx: usize| self.model_names().into_iter().nth(idx).flatten())
        {
            words[1] = name;
        }
        words.join(".")
    }

    /// The names of the models as far as they are given.
    fn model_names(&self) -> Vec<Option<String>> {
        let Some(DeValue::Array(models)) = self.root.get("model").map(Spanned::get_ref) else { return Vec::new() };
        let name = |model: &Value<'_>| match model.get_ref().get("name").map(Spanned::get_ref) {
            Some(DeValue::String(name)) if check_path(name).is_ok() => Some(name.to_string()),
            _ => None,
        };
        models.iter().map(name).collect()
    }

    /// `path` with models by index.
    fn resolved(&self, path: &str) -> Option<String> {
        let mut words: Vec<String> = path.split('.').map(str::to_owned).collect();
        if words[0] == "model" && words.len() > 1 {
            words[1] = self.model_idx(&words[1])?.to_string();
        }
        Some(words.join("."))
    }

    fn model_idx(&self, word: &str) -> Option<usize> {
        let names = self.model_names();
        let by_name = names.iter().position(|name| name.as_deref() == Some(word));
        by_name.or_else(|| word.parse().ok().filter(|&idx: &usize| idx < names.len()))
    }

    fn entry(&self, path: &str) -> Option<(Option<Range<usize>>, &Value<'t>)> {
        let mut words = path.split('.');
        let first = words.next()?;
        let (key, mut value) = self.root.get_key_value(first)?;
        let mut key = Some(key.span());
        for word in words {
            (key, value) = match value.get_ref() {
                DeValue::Table(table) => table.get_key_value(word).map(|(key, value)| (Some(key.span()), value))?,
                DeValue::Array(list) => (None, list.get(word.parse::<usize>().ok()?)?),
                _ => return None,
            };
        }
        Some((key, value))
    }

    /// Where the byte `at` of all texts came from, and the path of the override if it came from one.
    fn origin(&self, at: usize) -> (Origin, Option<&'t str>) {
        let texts = self.texts;
        let file = |line| Origin::File { name: texts.source.name().to_owned(), line, column: None };
        if at < texts.source.text().len() {
            return (file(Some(position(texts.source.text(), at).0)), None);
        }
        if at >= texts.default_start {
            return (file(None), None);
        }
        let idx = texts.override_starts.partition_point(|&start| start <= at).saturating_sub(1);
        match texts.source.overrides().get(idx) {
            Some(set) => {
                let text = format!("--set {}", abridge(set.text()));
                (Origin::Option { text }, Some(&set.text()[..set.path_length()]))
            }
            None => (file(None), None),
        }
    }

    fn add_default_models(&mut self) {
        if self.root.contains_key("model") {
            return;
        }
        let start = self.texts.default_start;
        let models = DeTable::parse(&self.texts.all[start..]).expect("the default models are valid TOML").into_inner();
        for (key, value) in models {
            self.root.insert(shift_key(key, start), shift(value, start));
        }
    }

    fn apply(&mut self, set: &'t Override, start: usize) -> Result<(), ScenarioError> {
        let text = &self.texts.all[start..start + set.text().len()];
        let (path, value) = (&text[..set.path_length()], &text[set.path_length() + 1..]);
        let error = |message: String| ScenarioError::in_option("--set", set.text(), message);
        let value = shift(parse_value(value).map_err(error)?, start + set.path_length() + 1);
        let model_word = path.strip_prefix("model.").and_then(|rest| rest.split('.').next());
        let model_idx = model_word.and_then(|word| self.model_idx(word));
        if let (Some(word), None, Some(DeValue::Array(_))) =
            (model_word, model_idx, self.root.get("model").map(Spanned::get_ref))
        {
            let names: Vec<String> = self.model_names().into_iter().flatten().collect();
            let wrong = error(format!(
                "no model `{word}`, expected a name ({}) or an index",
                super::values::quoted_list(&names)
            ));
            return Err(match nearest(word, &names) {
                Some(name) => wrong.with_hint(format!("did you mean `{name}`?")),
                None => wrong,
            });
        }
        let override_start = self.texts.override_starts[0];
        let mut words = Vec::new();
        let mut at = start;
        for (depth, word) in path.split('.').enumerate() {
            let name = match (depth, model_idx) {
                (1, Some(idx)) => std::borrow::Cow::Owned(idx.to_string()),
                _ => word.into(),
            };
            words.push(Spanned::new(at..at + word.len(), name));
            at += word.len() + 1;
        }
        insert(&mut self.root, &words, value, override_start).map_err(error)
    }
}

/// Puts `value` at the path `words` below `table`, making tables on the way.
fn insert<'t>(
    table: &mut DeTable<'t>,
    words: &[Key<'t>],
    value: Value<'t>,
    override_start: usize,
) -> Result<(), String> {
    let (word, rest) = words.split_first().expect("a path has at least one word");
    drop_alternatives(table, word.get_ref(), rest, &value, override_start);
    if rest.is_empty() {
        // The key moves with the value, so that an error about the name points here too.
        table.remove(&**word.get_ref());
        table.insert(word.clone(), value);
        return Ok(());
    }
    if !table.contains_key(&**word.get_ref()) {
        table.insert(word.clone(), Spanned::new(word.span(), DeValue::Table(DeTable::new())));
    }
    let child = table.get_mut(&**word.get_ref()).expect("it was there or has just been made");
    insert_below(child, word.get_ref(), rest, value, override_start)
}

fn insert_below<'t>(
    parent: &mut Value<'t>,
    name: &str,
    words: &[Key<'t>],
    value: Value<'t>,
    override_start: usize,
) -> Result<(), String> {
    match parent.get_mut() {
        DeValue::Table(table) => insert(table, words, value, override_start),
        DeValue::Array(list) => {
            let (word, rest) = words.split_first().expect("a path has at least one word here");
            let len = list.len();
            let Some(element) = word.get_ref().parse::<usize>().ok().and_then(|idx| list.get_mut(idx)) else {
                return Err(format!(
                    "`{name}` is a list of {len}, expected an index below {len} and not `{}`",
                    word.get_ref()
                ));
            };
            if rest.is_empty() {
                *element = value;
                Ok(())
            } else {
                insert_below(element, word.get_ref(), rest, value, override_start)
            }
        }
        other => Err(format!("`{name}` is of type {} and has no fields", other.type_str())),
    }
}

/// Removes what the file says where `word` is about to be set and excludes it.
fn drop_alternatives(table: &mut DeTable<'_>, word: &str, rest: &[Key<'_>], value: &Value<'_>, override_start: usize) {
    let is_new_kind = || match (table.get("kind").map(Spanned::get_ref), value.get_ref()) {
        (Some(DeValue::String(old)), DeValue::String(new)) => old != new,
        _ => true,
    };
    let all: Vec<&str> = table.keys().map(|key| &**key.get_ref()).collect();
    let excluded: &[&str] = match word {
        "kind" if rest.is_empty() && is_new_kind() => &all,
        "concurrency" => &["arrivals"],
        "arrivals" => &["concurrency"],
        "jitter" => &["jitter_cv"],
        "jitter_cv" => &["jitter"],
        "constant_ms" => &["affine", "roofline", "profile", "model", "graph", "extend_graph", "device"],
        "affine" => &["constant_ms", "roofline", "profile", "model", "graph", "extend_graph", "device"],
        "roofline" => &["constant_ms", "affine", "profile", "model", "graph", "extend_graph", "device"],
        "profile" => &["constant_ms", "affine", "roofline"],
        _ => &[],
    };
    let is_in_file = |name: &str| table.get_key_value(name).is_some_and(|(key, _)| key.span().start < override_start);
    let dropped: Vec<String> = excluded.iter().filter(|name| is_in_file(name)).map(|name| (*name).to_owned()).collect();
    for name in dropped {
        table.remove(name.as_str());
    }
}

/// The path of the key or value with exactly this range.
fn find_in_table(table: &DeTable<'_>, span: &Range<usize>) -> Option<String> {
    table.iter().find_map(|(key, value)| {
        let name: &str = key.get_ref();
        let below = find_in_value(value, span);
        match below {
            Some(below) if below.is_empty() => Some(name.to_owned()),
            Some(below) => Some(format!("{name}.{below}")),
            None if key.span() == *span => Some(name.to_owned()),
            None => None,
        }
    })
}

fn find_in_value(value: &Value<'_>, span: &Range<usize>) -> Option<String> {
    let below = match value.get_ref() {
        DeValue::Table(table) => find_in_table(table, span),
        DeValue::Array(list) => list.iter().enumerate().find_map(|(idx, element)| {
            find_in_value(element, span)
                .map(|below| if below.is_empty() { idx.to_string() } else { format!("{idx}.{below}") })
        }),
        _ => None,
    };
    below.or_else(|| (value.span() == *span).then(String::new))
}

fn shift_key(key: Key<'_>, by: usize) -> Key<'_> {
    let span = key.span();
    Spanned::new(span.start + by..span.end + by, key.into_inner())
}

/// The value with every range moved by `by` bytes.
fn shift(value: Value<'_>, by: usize) -> Value<'_> {
    let span = value.span();
    let moved = match value.into_inner() {
        DeValue::Array(list) => DeValue::Array(list.into_iter().map(|element| shift(element, by)).collect()),
        DeValue::Table(table) => {
            DeValue::Table(table.into_iter().map(|(key, value)| (shift_key(key, by), shift(value, by))).collect())
        }
        scalar => scalar,
    };
    Spanned::new(span.start + by..span.end + by, moved)
}
