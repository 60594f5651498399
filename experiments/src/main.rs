//! The command line of Handoff: `handoff simulate | sweep | tune | profile | measure | validate | paper | plot | report | completions | man`.

mod cli;
mod failure;
mod figure;
mod input;
mod interrupt;
mod machine;
mod manual;
mod measure;
mod message;
mod output;
mod paper;
mod plot;
mod profile;
mod report;
mod simulate;
mod sweep;
mod trace;
mod tune;
mod validate;

use std::process::ExitCode;

use clap::Parser;

use cli::{Cli, Command};

fn main() -> ExitCode {
    // Wrong arguments end here: clap prints them and exits with status 2.
    let cli = Cli::parse();
    let done = match cli.command {
        Command::Simulate(arguments) => simulate::run(&arguments),
        Command::Sweep(arguments) => sweep::run(&arguments),
        Command::Tune(arguments) => tune::run(&arguments),
        Command::Completions(arguments) => manual::completions(&arguments),
        Command::Man(arguments) => manual::pages(&arguments),
        Command::Measure(arguments) => measure::run(&arguments),
        Command::Paper(arguments) => paper::run(&arguments),
        Command::Plot(arguments) => plot::run(&arguments),
        Command::Profile(arguments) => profile::run(&arguments),
        Command::Report(arguments) => report::run(&arguments),
        Command::Validate(arguments) => validate::run(&arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if !failure.is_closed_pipe() {
                message::say(format_args!("error: {failure}"));
            }
            failure.exit_code()
        }
    }
}
