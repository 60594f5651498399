//! How the log names requests, rows and decisions.

use handoff_scheduler::{Destination, Outcome, RequestId, Row, RowKind};

pub fn name(request: RequestId) -> String {
    format!("r{}.{}", request.slot, request.generation)
}

pub fn share(row: &Row) -> String {
    match row.kind {
        RowKind::Decode => format!("decode on {}", row.kv_tokens),
        RowKind::Extend => format!("extend {} on {}", row.new_tokens, row.kv_tokens),
        RowKind::Prefill => format!("prefill {}", row.new_tokens),
    }
}

pub fn word(outcome: Outcome) -> String {
    let verb = if outcome.committed { "commit" } else { "drop" };
    match outcome.destination {
        Destination::Stay => format!("{verb}, stay"),
        Destination::To(model) => format!("{verb}, to {}", model.0),
        Destination::Finished => format!("{verb}, finished"),
    }
}
