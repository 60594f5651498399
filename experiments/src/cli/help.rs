//! What the help of each command ends with: what is worth knowing, then worked examples. A line of an example is at most 96 letters long, so that
//! it is not folded and can be copied.

use clap::Command;

pub(super) const PROGRAM: &str = "\
Examples:
  The main job: when does switching every N tokens pay? Table, CSV, figure and break-even
    handoff sweep
  One scenario in detail, and its best thresholds
    handoff simulate --scenario a100-paper
    handoff tune --scenario a100-paper
  A figure again from its CSV
    handoff plot results/sweep-h200/default --out out/figure";

pub(super) const SIMULATE: &str = "\
Examples:
  The published pair at threshold 3: throughput, latency, batches, delays
    handoff simulate --scenario a100-paper
  The same for 3 to 8 requests in the system
    handoff simulate --scenario a100-paper --grid workload.concurrency=3..8
  Another threshold, and a timeline that ui.perfetto.dev opens
    handoff simulate --scenario a100-paper --set model.large.threshold=2 --trace run.json";

pub(super) const SWEEP: &str = "\
Without --scenario the pair Qwen3-0.6B + Qwen3-32B on one or two H200 is swept over all placements. With a scenario, its own placement is swept \
unless --placement names others, in mode eager unless the scenario or an override names another mode, or --grid runs over a threshold. With \
--grid, axes that are not given stay as the scenario has them.

Examples:
  The default pair over all placements
    handoff sweep
  A small grid of another scenario
    handoff sweep --scenario a100-paper --every 1,2,4 --concurrency 4,8 --placement separate
  Any other field, here the threshold of the large model
    handoff sweep --scenario a100-paper --grid model.large.threshold=1..4";

pub(super) const TUNE: &str = "\
Without --scenario the models of the embedded scenario h200 are tuned with policy r2r, p = 0.35, mode delayed. The thresholds of the scenario \
itself do not matter. Notes say which method was taken and why.

Examples:
  The default pair
    handoff tune
  The best candidates again on fresh seeds, what throughput depends on, lists by active requests
    handoff tune --scenario a100-paper --confirm 5 --sensitivity --by-active
  Which placement wins with its own best thresholds
    handoff tune --compare --concurrency 1,4 --placement separate,exclusive";

pub(super) const PROFILE: &str = "\
The models are those of the scenario, by default a pair of made-up ones on the processor. A scenario takes the result with \
cost = { profile = \"out/h200/profile.csv\", model = \"Qwen3-0.6B\" }.

Examples:
  The made-up pair on this processor
    handoff profile --out out/here
  Two models with dummy weights on a GPU
    handoff profile --device cuda --models Qwen3-0.6B,Qwen3-32B --out out/h200";

pub(super) const MEASURE: &str = "\
Without --scenario a pair of made-up models runs on the processor.

Examples:
  The made-up pair, with its timeline and the routes that it took
    handoff measure --trace run.json --routes routes.csv
  A grid on a GPU
    handoff measure --scenario h200 --device cuda --seconds 4 --grid policy.small=1,4,16";

pub(super) const VALIDATE: &str = "\
Without --scenario a pair of made-up models runs on the processor, within some minutes. The machine is profiled first unless --profile gives a \
profile of it; predictions use the profile and nothing else.

Examples:
  The made-up pair on this processor
    handoff validate
  A pair on a GPU
    handoff validate --scenario h200 --device cuda --every 1,4,16 --concurrency 1,4,16 --seconds 3";

pub(super) const PAPER: &str = "\
Without a table all of them are predicted. The figures of arXiv 2610.12242 are part of the program; every cell says whether a parameter was \
fitted on it. --set overrides an assumption in every scenario that is simulated, and co-run rates are fitted again; a field that the tables vary is refused \
with a list of those that are free. Cells at concurrency 1 come from exact formulas and do not see it.

Examples:
  All tables, with figures
    handoff paper --out out/paper
  One of them, and the claims about all
    handoff paper threshold
    handoff paper claims";

pub(super) const PLOT: &str = "\
The columns tell what a CSV holds: a sweep, a validation, tune, tune --compare, paper. Title and caption come from manifest.json and report.json \
beside it, as far as they are there; a figure of rows that nobody changed is the same to the byte.

Examples:
  The figure of a sweep
    handoff plot results/sweep-h200/default --out out/figure
  Predicted and measured throughput against thresholds, from the CSV
    handoff plot results/validate-h200/thresholds/rows.csv --out out/thresholds";

pub(super) const REPORT: &str = "\
The page needs no network and no other file. A folder of folders becomes one page with a section for each.

Examples:
  One page of a sweep, written into its folder
    handoff report results/sweep-h200/default
  Several folders on one page
    handoff report results/validate-h200 --out out/validation.html";

pub(super) const COMPLETIONS: &str = "\
Examples:
  For one user of bash, zsh and fish
    handoff completions bash > ~/.local/share/bash-completion/completions/handoff
    handoff completions zsh > ~/.zfunc/_handoff
    handoff completions fish > ~/.config/fish/completions/handoff.fish";

pub(super) const MAN: &str = "\
A page for the program and one for each command. The folder may hold other pages of section 1, but nothing else.

Examples:
  For one user, so that `man handoff-sweep` finds them
    handoff man --out ~/.local/share/man/man1";

/// A line of what stands below the options of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// Prose; empty between paragraphs.
    Text(String),
    /// A call to copy.
    Call(String),
}

/// What stands below the options of a command, line by line.
pub(crate) fn lines(command: &Command) -> Vec<Line> {
    let text = command.get_after_long_help().or(command.get_after_help()).map(ToString::to_string).unwrap_or_default();
    let line = |line: &str| {
        let line = line.trim();
        let call = line.strip_prefix("Example:").map_or(line, str::trim);
        let is_call = call.starts_with(concat!(env!("CARGO_PKG_NAME"), " "));
        if is_call { Line::Call(call.to_owned()) } else { Line::Text(line.to_owned()) }
    };
    text.lines().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::super::Cli;
    use super::*;
    use clap::{CommandFactory as _, Parser as _};

    fn calls(command: &Command) -> Vec<String> {
        let call = |line| if let Line::Call(call) = line { Some(call) } else { None };
        lines(command).into_iter().filter_map(call).collect()
    }

    #[test]
    fn every_command_has_examples_that_it_understands() {
        let program = Cli::command();
        assert!(!calls(&program).is_empty());
        for call in calls(&program) {
            Cli::try_parse_from(call.split_whitespace()).unwrap_or_else(|error| panic!("{call}: {error}"));
        }
        for command in program.get_subcommands() {
            let name = command.get_name();
            let calls = calls(command);
            assert!(!calls.is_empty(), "{name} shows no example");
            for call in calls {
                assert!(call.starts_with(&format!("handoff {name}")), "{call} is no example of {name}");
                assert!(call.len() <= 96, "{call} would be folded");
                // What stands behind it is the shell's.
                let words = call.split(" > ").next().expect("a split has a first part");
                Cli::try_parse_from(words.split_whitespace()).unwrap_or_else(|error| panic!("{call}: {error}"));
            }
        }
    }
}
