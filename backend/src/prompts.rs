//! Prompts from a file: JSON lines, tokenised by the model's own tokenizer or given as token ids.
//!
//! Each line is one JSON object with one of the fields `prompt` (text), `text` (the same) or `tokens` (a list of token ids); other fields are
//! ignored, blank lines are skipped. Text is tokenised by the `tokenizer.json` of the model's folder, with the special tokens that it adds itself
//! and without its truncation and padding. No chat template is applied: write it into the text.
//!
//! ```
//! use handoff_backend::Prompts;
//! use handoff_sim::workload::{Arrivals, Lengths, Workload};
//!
//! let folder = tempfile::tempdir()?;
//! let file = folder.path().join("prompts.jsonl");
//! std::fs::write(&file, "{ \"tokens\": [5, 6, 7] }\n{ \"tokens\": [1] }\n")?;
//! let prompts = Prompts::read(&file, None, 10)?;
//! assert_eq!(prompts.of_request(2), [5, 6, 7]);
//!
//! let workload = Workload::new(Arrivals::closed_loop(1)?, 4, Lengths::constant(100)?, Lengths::constant(8)?)?;
//! assert_eq!(prompts.workload(&workload)?.lengths(1, 1), (1, 8));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::fs;
use std::path::Path;

use handoff_sim::workload::{Lengths, TOKENS_MAX, Workload, WorkloadError};
use serde_json::{Map, Value};
use thiserror::Error;
use tokenizers::Tokenizer;

/// The fields of which a line has one.
const FIELDS: [&str; 3] = ["prompt", "text", "tokens"];

/// Prompts as token ids: at least one, and each has at least one token. Request i of a run takes prompt i modulo their number.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Prompts {
    prompts: Vec<Vec<u32>>,
}

/// Why there are no prompts.
#[derive(Debug, Error)]
pub enum PromptsError {
    /// A file could not be read.
    #[error("{file}: {source}")]
    Read {
        /// The file.
        file: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// The tokenizer could not be made.
    #[error("{file}: no tokenizer: {reason}")]
    Tokenizer {
        /// The file.
        file: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The file has only blank lines.
    #[error("{file}: there are no prompts, expected a JSON object a line")]
    Empty {
        /// The file.
        file: String,
    },
    /// A line is wrong.
    #[error("{file}:{line}: {problem}")]
    Line {
        /// The file.
        file: String,
        /// The line, counted from 1.
        line: usize,
        /// What is wrong with it.
        problem: PromptProblem,
    },
}

/// What is wrong with a prompt.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum PromptProblem {
    /// The line is no JSON object.
    #[error("expected a JSON object: {reason}")]
    NoObject {
        /// What it is, or where it stops being JSON.
        reason: String,
    },
    /// None of the fields is there.
    #[error("there is no prompt, expected one of the fields `prompt`, `text` or `tokens`")]
    NoField,
    /// Several of the fields are there.
    #[error("`{first}` and `{second}` are both given, expected one of them")]
    SeveralFields {
        /// One of them.
        first: &'static str,
        /// Another.
        second: &'static str,
    },
    /// A field is not of its type.
    #[error("`{field}` = {value}: expected {expected}")]
    Value {
        /// The field.
        field: String,
        /// Its value, shortened.
        value: String,
        /// What was expected.
        expected: String,
    },
    /// There is text but no tokenizer.
    #[error("`{field}` is text and there is no tokenizer, expected a tokenizer.json beside the model, or `tokens`")]
    NoTokenizer {
        /// The field.
        field: &'static str,
    },
    /// The tokenizer refused the text.
    #[error("`{field}` = {value}: the tokenizer refuses: {reason}")]
    Refused {
        /// The field.
        field: &'static str,
        /// Its value, shortened.
        value: String,
        /// What the tokenizer said.
        reason: String,
    },
    /// The number of tokens is out of range.
    #[error("`{field}` has {tokens} tokens, expected 1 to {TOKENS_MAX}")]
    Length {
        /// The field.
        field: &'static str,
        /// Tokens.
        tokens: usize,
    },
    /// The text has a token that the model does not know.
    #[error("`{field}` has token {token}, expected ids below {vocabulary}: the tokenizer is that of another model")]
    Vocabulary {
        /// The field.
        field: &'static str,
        /// The token.
        token: u32,
        /// The vocabulary of the model.
        vocabulary: u32,
    },
}

impl Prompts {
    /// Reads the prompts of `file` for models whose token ids lie below `vocabulary`. Text needs `tokenizer`, a `tokenizer.json`.
    ///
    /// # Errors
    /// [`PromptsError`], with file, line, field, value and what was expected.
    pub fn read(file: &Path, tokenizer: Option<&Path>, vocabulary: u32) -> Result<Self, PromptsError> {
        let name = file.display().to_string();
        let tokenizer = tokenizer.map(open_tokenizer).transpose()?;
        let text = fs::read_to_string(file).map_err(|source| PromptsError::Read { file: name.clone(), source })?;
        let mut prompts = Vec::new();
        for (idx, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let prompt = tokens_of_line(line, tokenizer.as_ref(), vocabulary);
            prompts.push(prompt.map_err(|problem| PromptsError::Line {
                file: name.clone(),
                line: idx + 1,
                problem,
            })?);
        }
        if prompts.is_empty() {
            return Err(PromptsError::Empty { file: name });
        }
        Ok(Self { prompts })
    }

    /// Number of prompts, at least 1.
    #[must_use]
    pub fn n_prompts(&self) -> usize {
        self.prompts.len()
    }

    /// The token ids with which request `request_idx` of a run arrives.
    #[must_use]
    pub fn of_request(&self, request_idx: u64) -> &[u32] {
        let idx = request_idx % self.prompts.len() as u64;
        &self.prompts[usize::try_from(idx).expect("below the number of prompts")]
    }

    /// Tokens of each prompt, from 1 to [`TOKENS_MAX`].
    #[must_use]
    pub fn lengths(&self) -> Vec<u32> {
        self.prompts.iter().map(|prompt| u32::try_from(prompt.len()).expect("at most TOKENS_MAX")).collect()
    }

    /// The largest token id of all prompts.
    #[must_use]
    pub fn token_max(&self) -> u32 {
        self.prompts.iter().flatten().copied().max().unwrap_or_default()
    }

    /// `workload` with the lengths of these prompts, as a run with them and its simulation must have it. All else stays.
    ///
    /// # Errors
    /// Never for prompts that were read; the type is that of [`Workload::with_prompt`].
    pub fn workload(&self, workload: &Workload) -> Result<Workload, WorkloadError> {
        workload.clone().with_prompt(Lengths::Recorded(self.lengths()))
    }
}

fn open_tokenizer(path: &Path) -> Result<Tokenizer, PromptsError> {
    let file = path.display().to_string();
    let text = fs::read(path).map_err(|source| PromptsError::Read { file: file.clone(), source })?;
    let wrong = |error: tokenizers::Error| PromptsError::Tokenizer { file: file.clone(), reason: error.to_string() };
    let mut tokenizer = Tokenizer::from_bytes(text).map_err(wrong)?;
    tokenizer.with_truncation(None).map_err(wrong)?;
    tokenizer.with_padding(None);
    Ok(tokenizer)
}

fn tokens_of_line(line: &str, tokenizer: Option<&Tokenizer>, vocabulary: u32) -> Result<Vec<u32>, PromptProblem> {
    let object = match serde_json::from_str(line) {
        Ok(Value::Object(object)) => object,
        Ok(other) => return Err(PromptProblem::NoObject { reason: format!("found {}", shown(&other)) }),
        Err(error) => return Err(PromptProblem::NoObject { reason: at_column(&error) }),
    };
    let (field, value) = field_of(&object)?;
    let tokens = match value {
        Value::Array(ids) if field == "tokens" => {
            ids.iter().enumerate().map(|(idx, id)| token(idx, id, vocabulary)).collect::<Result<Vec<_>, _>>()?
        }
        Value::String(text) if field != "tokens" => tokenise(field, text, tokenizer, vocabulary)?,
        other => {
            let expected = if field == "tokens" { "a list of token ids" } else { "text" }.to_owned();
            return Err(PromptProblem::Value { field: field.to_owned(), value: shown(other), expected });
        }
    };
    if tokens.is_empty() || tokens.len() > TOKENS_MAX as usize {
        return Err(PromptProblem::Length { field, tokens: tokens.len() });
    }
    Ok(tokens)
}

/// The only one of [`FIELDS`] that is there.
fn field_of(object: &Map<String, Value>) -> Result<(&'static str, &Value), PromptProblem> {
    let mut given = FIELDS.into_iter().filter_map(|field| object.get(field).map(|value| (field, value)));
    let first = given.next().ok_or(PromptProblem::NoField)?;
    match given.next() {
        Some((second, _)) => Err(PromptProblem::SeveralFields { first: first.0, second }),
        None => Ok(first),
    }
}

fn token(idx: usize, id: &Value, vocabulary: u32) -> Result<u32, PromptProblem> {
    let token = id.as_u64().and_then(|id| u32::try_from(id).ok()).filter(|&id| id < vocabulary);
    token.ok_or_else(|| PromptProblem::Value {
        field: format!("tokens[{idx}]"),
        value: shown(id),
        expected: format!("a token id, a whole number below {vocabulary}"),
    })
}

fn tokenise(
    field: &'static str,
    text: &str,
    tokenizer: Option<&Tokenizer>,
    vocabulary: u32,
) -> Result<Vec<u32>, PromptProblem> {
    let tokenizer = tokenizer.ok_or(PromptProblem::NoTokenizer { field })?;
    let encoding = tokenizer.encode_fast(text, true).map_err(|error| PromptProblem::Refused {
        field,
        value: shown(&Value::from(text)),
        reason: error.to_string(),
    })?;
    let tokens = encoding.get_ids().to_vec();
    match tokens.iter().copied().find(|&token| token >= vocabulary) {
        Some(token) => Err(PromptProblem::Vocabulary { field, token, vocabulary }),
        None => Ok(tokens),
    }
}

/// A value on one line, cut where it is long.
fn shown(value: &Value) -> String {
    const CHARS_MAX: usize = 60;
    let text = value.to_string();
    if text.chars().count() <= CHARS_MAX {
        return text;
    }
    text.chars().take(CHARS_MAX).chain("...".chars()).collect()
}

/// What serde says, with the column alone: every line of the file is a text of one line.
fn at_column(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let what = text.split(" at line ").next().unwrap_or(&text);
    format!("{what} at column {}", error.column())
}

#[cfg(test)]
mod tests;
