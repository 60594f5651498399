//! Wrong inputs: exit status 2, one message on standard error that says where, which field, its value and what was expected, nothing on
//! standard output, and no file touched. The messages are kept in snapshots.

mod arguments;
mod files;
mod folders;
mod reports;
mod scenarios;

use std::fmt::Write as _;

use super::support::{PAIR, Workbench};

/// A call that is refused.
struct Case {
    /// What is wrong, in words.
    what: &'static str,
    /// Files beside `pair.toml`.
    files: Vec<(&'static str, Vec<u8>)>,
    /// Calls that come first and are done, their words separated by blanks.
    before: &'static [&'static str],
    /// Files that are written after those.
    edits: Vec<(&'static str, Vec<u8>)>,
    /// The call.
    arguments: Vec<String>,
    /// What the message must name: the place, the field, the value, what was expected.
    named: &'static [&'static str],
}

/// The call `words`, separated by blanks.
fn call(what: &'static str, words: &str, named: &'static [&'static str]) -> Case {
    let arguments = words.split_whitespace().map(str::to_owned).collect();
    Case { what, files: Vec::new(), before: &[], edits: Vec::new(), arguments, named }
}

/// `simulate` on `pair.toml`, its line `line` replaced by `instead`.
fn edited(what: &'static str, line: &str, instead: &str, named: &'static [&'static str]) -> Case {
    assert_eq!(PAIR.matches(line).count(), 1, "`{line}` stands once in the scenario");
    call(what, "simulate --scenario wrong.toml", named).with("wrong.toml", PAIR.replace(line, instead))
}

impl Case {
    fn with(mut self, name: &'static str, content: impl Into<Vec<u8>>) -> Self {
        self.files.push((name, content.into()));
        self
    }

    /// One more argument, which may hold blanks.
    fn and(mut self, argument: &str) -> Self {
        self.arguments.push(argument.to_owned());
        self
    }

    fn after(self, before: &'static [&'static str]) -> Self {
        Self { before, ..self }
    }

    fn then(mut self, name: &'static str, content: impl Into<Vec<u8>>) -> Self {
        self.edits.push((name, content.into()));
        self
    }

    /// Runs the call and reports its message, and what is not as it should be.
    fn check(&self, problems: &mut Vec<String>) -> String {
        let bench = Workbench::new();
        for (name, content) in &self.files {
            bench.write(name, content);
        }
        for words in self.before {
            bench.run_words(words, &[]).done();
        }
        for (name, content) in &self.edits {
            bench.write(name, content);
        }
        let files = bench.files();
        let run = bench.run(&self.arguments);
        let what = self.what;
        let mut expect = |is_so: bool, problem: &str| {
            if !is_so {
                problems.push(format!("{what}: {problem}: {}", run.stderr));
            }
        };
        expect(run.status == Some(2), "the exit status is not 2");
        expect(run.stdout.is_empty(), "standard output is for results");
        expect(run.stderr.starts_with("error: "), "the message does not begin with `error: `");
        expect(bench.files() == files, "a file was written");
        for named in self.named {
            expect(run.stderr.contains(named), &format!("`{named}` is missing"));
        }
        let shown: Vec<String> = self
            .arguments
            .iter()
            .map(|word| if word.contains([' ', '{']) || word.is_empty() { format!("'{word}'") } else { word.clone() })
            .collect();
        format!("# {what}\n$ handoff {}\n{}\n", shown.join(" "), run.stderr.trim_end())
    }
}

/// Checks the cases and compares their messages with the snapshot `name`.
fn check(name: &str, cases: &[Case]) {
    let (mut report, mut problems) = (String::new(), Vec::new());
    for case in cases {
        writeln!(report, "{}", case.check(&mut problems)).expect("a string takes everything");
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    insta::with_settings!({ omit_expression => true, prepend_module_to_snapshot => true }, {
        insta::assert_snapshot!(name, report);
    });
}

#[test]
fn scenarios() {
    check("scenarios", &scenarios::cases());
}

#[test]
fn files() {
    check("files", &files::cases());
}

#[test]
fn arguments() {
    check("arguments", &arguments::cases());
}

#[test]
fn folders() {
    check("folders", &folders::cases());
}

#[test]
fn reports() {
    check("reports", &reports::cases());
}
