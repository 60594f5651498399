//! Messages for people, on standard error: standard output carries results alone.

use std::fmt::Display;
use std::io::{self, Write};

/// Prints a line. Nobody may be listening any more, which is no reason to stop: `eprintln!` would panic.
pub(crate) fn say(message: impl Display) {
    let _ = writeln!(io::stderr(), "{message}");
}
