//! Ctrl-C: the first one lets the cells in flight finish, the second one ends the process at once.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::message;

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Watches for SIGINT and SIGTERM from now on.
pub(crate) fn watch() {
    let handler = || {
        if INTERRUPTED.swap(true, Ordering::SeqCst) {
            std::process::exit(130);
        }
        message::say("stopping once the cells in flight are finished; a second interrupt stops at once");
    };
    // Without a handler the signal simply ends the process; finished cells are kept all the same.
    if let Err(error) = ctrlc::set_handler(handler) {
        message::say(format_args!("warning: an interrupt will not wait for the cells in flight: {error}"));
    }
}

/// Whether the user has asked to stop.
pub(crate) fn requested() -> bool {
    INTERRUPTED.load(Ordering::SeqCst)
}
