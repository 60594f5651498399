//! The command line of Handoff.
fn main() {}
