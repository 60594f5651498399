//! The command line of Handoff: `handoff simulate | sweep | plot`.

mod cli;
mod failure;
mod figure;
mod input;
mod interrupt;
mod message;
mod output;
mod plot;
mod simulate;
mod sweep;

use std::process::ExitCode;

use clap::Parser;

use cli::{Cli, Command};

fn main() -> ExitCode {
    // Wrong arguments end here: clap prints them and exits with status 2.
    let cli = Cli::parse();
    let done = match cli.command {
        Command::Simulate(arguments) => simulate::run(&arguments),
        Command::Sweep(arguments) => sweep::run(&arguments),
        Command::Plot(arguments) => plot::run(&arguments),
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
