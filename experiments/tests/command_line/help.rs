//! Help texts.

use std::path::Path;

use super::support::{TINY, Workbench};

const COMMANDS: [&str; 11] =
    ["simulate", "sweep", "tune", "plot", "profile", "measure", "validate", "paper", "report", "completions", "man"];

#[test]
fn help_is_as_documented() {
    let bench = Workbench::new();
    for (name, arguments) in [
        ("help", &["--help"][..]),
        ("help_simulate", &["simulate", "--help"]),
        ("help_sweep", &["sweep", "--help"]),
        ("help_tune", &["tune", "--help"]),
        ("help_plot", &["plot", "--help"]),
        ("help_profile", &["profile", "--help"]),
        ("help_measure", &["measure", "--help"]),
        ("help_validate", &["validate", "--help"]),
        ("help_paper", &["paper", "--help"]),
        ("help_report", &["report", "--help"]),
        ("help_completions", &["completions", "--help"]),
        ("help_man", &["man", "--help"]),
    ] {
        let run = bench.run(arguments);
        assert_eq!(run.stderr, "", "help is a result");
        insta::with_settings!({ omit_expression => true }, { insta::assert_snapshot!(name, run.done()) });
    }
}

/// `handoff help sweep` and `handoff sweep --help` say the same.
#[test]
fn help_can_be_asked_for_in_two_ways() {
    let bench = Workbench::new();
    for command in COMMANDS {
        assert_eq!(bench.run(&["help", command]).done(), bench.run(&[command, "--help"]).done());
    }
}

/// The examples at the end of a command's help, each on a line of its own.
fn examples(help: &str) -> Vec<String> {
    let (_, examples) = help.split_once("Examples:\n").expect("each command shows examples");
    let calls = examples.lines().filter_map(|line| line.trim().strip_prefix("handoff "));
    calls.map(str::to_owned).collect()
}

/// Every example in the help of a command is one that the program accepts. Those that need a GPU, or a minute and more of a quiet machine, are
/// read by a test of the arguments alone.
#[test]
fn examples_work() {
    let bench = Workbench::new();
    let run = |words: &str, more: &[&str]| {
        let run = bench.run_words(words, more);
        assert_eq!(run.status, Some(0), "handoff {words}: {}", run.stderr);
    };
    // A fresh clone has these.
    run("sweep --every 1 --concurrency 1 --out results/sweep-h200/default", &TINY);
    for file in ["rows.csv", "manifest.json"] {
        let name = format!("results/validate-h200/thresholds/{file}");
        bench
            .write(&name, std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(&name)).expect("a file"));
    }
    let mut n_examples = 0;
    for command in ["", "simulate", "sweep", "tune", "paper", "plot", "completions", "measure"] {
        let help = if command.is_empty() { vec!["--help"] } else { vec![command, "--help"] };
        for example in examples(&bench.run(&help).done()) {
            if example.contains("cuda") {
                continue;
            }
            // What stands behind it is the shell's.
            let words = example.split(" > ").next().expect("a split has a first part");
            let is_run = ["simulate", "sweep", "tune", "measure"].iter().any(|name| words.starts_with(name));
            run(words, if is_run { &TINY } else { &[] });
            n_examples += 1;
        }
    }
    assert_eq!(n_examples, 4 + 3 + 3 + 3 + 3 + 2 + 3 + 1);
}

#[test]
fn the_version_is_that_of_the_package() {
    assert_eq!(Workbench::new().run(&["--version"]).done(), format!("handoff {}\n", env!("CARGO_PKG_VERSION")));
}
