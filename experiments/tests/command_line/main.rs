//! The program `handoff` as its users and their scripts see it: arguments in; documents, files, messages and an exit status out.
//!
//! Every test runs the binary in a temporary folder of its own, with runs so small that each takes milliseconds.

mod help;
mod interrupted;
mod machine;
mod manual;
mod paper;
mod plot;
mod report;
mod simulate;
mod support;
mod sweep;
mod sweep_folder;
mod trace;
mod tune;
mod wrong_inputs;
