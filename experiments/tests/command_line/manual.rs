//! Completions and manual pages.

use std::fs;
use std::process::{Command, Stdio};

use super::support::Workbench;

const COMMANDS: [&str; 11] =
    ["simulate", "sweep", "tune", "profile", "measure", "validate", "paper", "plot", "report", "completions", "man"];

fn has(program: &str) -> bool {
    let run = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    run.is_ok_and(|status| status.success())
}

#[test]
fn completions_know_every_command() {
    let bench = Workbench::new();
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = bench.run(&["completions", shell]).done();
        for command in COMMANDS {
            assert!(script.contains(command), "{shell} does not know {command}");
        }
        assert!(script.contains("--concurrency") || script.contains("l concurrency"), "{shell} knows no option");
    }
    assert_eq!(bench.run(&["completions", "tcl"]).status, Some(2));
}

/// The script is not only well formed: bash completes with it.
#[test]
fn bash_completes_a_command_and_an_option() {
    let bench = Workbench::new();
    bench.write("handoff.bash", bench.run(&["completions", "bash"]).done());
    let bash = |script: &str| {
        let output =
            Command::new("bash").args(["-c", script]).current_dir(bench.path("")).output().expect("bash starts");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{script}");
        assert!(output.status.success(), "{script}");
        String::from_utf8(output.stdout).expect("texts are UTF-8")
    };
    assert_eq!(bash("bash -n handoff.bash"), "");
    let completed = |words: &str, word: &str| {
        let last = words.split(' ').count();
        bash(&format!(
            ". ./handoff.bash; COMP_WORDS=({words} {word}); COMP_CWORD={last}; _handoff handoff '{word}' x; \
             printf '%s ' \"${{COMPREPLY[@]}}\""
        ))
    };
    assert_eq!(completed("handoff", "sw"), "sweep ");
    assert_eq!(completed("handoff sweep", "--pla"), "--placement ");
    assert_eq!(completed("handoff paper", "multi"), "multi_node ");
}

#[test]
fn there_is_a_page_for_the_program_and_for_each_command() {
    let bench = Workbench::new();
    let run = bench.run(&["man", "--out", "pages/man1"]);
    let n_pages = fs::read_dir(bench.path("pages/man1")).expect("a folder").count();
    assert!(n_pages > COMMANDS.len(), "{n_pages}");
    assert_eq!(run.stderr, format!("wrote {n_pages} pages to `pages/man1`\n"));
    assert_eq!(run.done(), "");
    let names = COMMANDS.iter().map(|command| format!("handoff-{command}.1")).chain(["handoff.1".to_owned()]);
    for name in names {
        let page = bench.text(&format!("pages/man1/{name}"));
        for section in [".TH ", ".SH NAME", ".SH SYNOPSIS", ".SH DESCRIPTION", ".SH OPTIONS", ".SH EXAMPLES"] {
            assert!(page.lines().any(|line| line.starts_with(section)), "{name} has no {section}");
        }
        assert!(page.contains("\nhandoff "), "{name} shows no call on a line of its own");
        if has("man") && has("groff") {
            let output = Command::new("man")
                .args(["--warnings", "-E", "UTF-8", "-l", "-Tutf8", &name])
                .current_dir(bench.path("pages/man1"))
                .envs([("LC_ALL", "C.UTF-8"), ("MANWIDTH", "80"), ("MANPAGER", "cat")])
                .stdin(Stdio::null())
                .output()
                .expect("man starts");
            assert!(output.status.success(), "{name}");
            assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{name}");
        }
    }
    // Pages of other programs may be there, and a second call renews its own.
    bench.write("pages/man1/other.1", "kept");
    bench.write("pages/man1/handoff.1", "old");
    bench.run(&["man", "--out", "pages/man1"]).done();
    assert_eq!(bench.text("pages/man1/other.1"), "kept");
    assert!(bench.text("pages/man1/handoff.1").contains(".TH handoff 1"));
}

#[test]
fn pages_do_not_go_among_other_files() {
    let bench = Workbench::new();
    let run = bench.run(&["man", "--out", "."]);
    assert_eq!(run.status, Some(2));
    assert!(run.stderr.contains("holds `pair.toml`, expected manual pages"), "{}", run.stderr);
    assert_eq!(fs::read_dir(bench.path("")).expect("a folder").count(), 1, "nothing is written");
    assert_eq!(bench.run(&["man", "--out", "pair.toml"]).status, Some(2));
    assert_eq!(bench.run(&["man"]).status, Some(2));
}
