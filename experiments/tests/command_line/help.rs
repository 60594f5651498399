//! Help texts.

use super::support::Workbench;

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
    for command in ["simulate", "sweep", "tune", "plot", "profile", "measure", "validate", "paper"] {
        assert_eq!(bench.run(&["help", command]).done(), bench.run(&[command, "--help"]).done());
    }
}

/// Every example in the help of a command is one that the program accepts.
#[test]
fn examples_work() {
    let bench = Workbench::new();
    bench.run_words("sweep --every 1 --concurrency 1 --out results/sweep-h200/default", &super::support::TINY).done();
    let mut n_examples = 0;
    for command in ["simulate", "sweep", "tune", "plot"] {
        let help = bench.run(&[command, "--help"]).done();
        let (_, examples) = help.split_once("Example").expect("each command shows an example");
        // Help is folded: an example goes on until a blank line or the next one.
        let examples = examples.split("\n\n").next().expect("a split has a first part").replace('\n', " ");
        for example in examples.split("handoff ").skip(1) {
            let tiny: &[&str] = if command == "plot" { &[] } else { &super::support::TINY };
            let run = bench.run_words(example, tiny);
            assert_eq!(run.status, Some(0), "handoff {example}: {}", run.stderr);
            n_examples += 1;
        }
    }
    assert_eq!(n_examples, 8);
}

#[test]
fn the_version_is_that_of_the_package() {
    assert_eq!(Workbench::new().run(&["--version"]).done(), format!("handoff {}\n", env!("CARGO_PKG_VERSION")));
}
