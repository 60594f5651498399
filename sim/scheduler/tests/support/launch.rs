//! Which rows a launch must carry, said once more and plainly.

use handoff_scheduler::{FirstKind, GateConfig, Hold, KvFull, ModelIdx, Origin, Output, RequestId, Row, RowKind};

use super::account::Account;

/// The rows of `waiting` that an idle subserver launches at `now_ns`, if KV is no limit.
pub fn expected(gate: &GateConfig, first: Option<FirstKind>, active: usize, now_ns: u64, waiting: &[Row]) -> Vec<Row> {
    let is_prompt = |row: &Row| row.origin == Origin::Client;
    let is_decode = |row: &Row| row.kind == RowKind::Decode;
    let held = |row: &Row| match gate.hold {
        Hold::All => true,
        _ if is_prompt(row) => false,
        Hold::Both => true,
        Hold::Decode => is_decode(row),
        Hold::Extend => !is_decode(row),
    };
    let counted = waiting.iter().filter(|row| gate.hold == Hold::All || !is_prompt(row)).count();
    let too_old =
        |row: &Row| gate.wait_ns_max.is_some_and(|limit_ns| row.ready_at.as_ns().saturating_add(limit_ns) <= now_ns);
    let open =
        counted >= gate.threshold.at(active as u32) as usize || waiting.iter().any(|row| held(row) && too_old(row));
    let mut rows: Vec<Row> = waiting.iter().copied().filter(|row| open || !held(row)).collect();
    if let Some(first) = first {
        let wanted = first == FirstKind::Decode;
        let kind = if rows.iter().any(|row| is_decode(row) == wanted) { wanted } else { !wanted };
        rows.retain(|row| is_decode(row) == kind);
    }
    rows
}

/// Checks the rows that were launched against the expected ones, and the preemptions that made room for them.
pub fn check(
    account: &Account,
    model: ModelIdx,
    when_full: KvFull,
    expected: &[Row],
    launched: &[Row],
    preempted: &[Output],
) {
    let requests = |rows: &[Row]| rows.iter().map(|row| row.request).collect::<Vec<RequestId>>();
    let arrival = |request: RequestId| account.get(request).arrivals[model.idx()].expect("it has arrived");
    let (expected, launched) = (requests(expected), requests(launched));
    if preempted.is_empty() && (when_full == KvFull::Wait || expected.len() == launched.len()) {
        assert_eq!(expected, launched);
        return;
    }
    assert_eq!(when_full, KvFull::Preempt);
    let still: Vec<RequestId> = expected.iter().copied().filter(|request| launched.contains(request)).collect();
    assert_eq!(still, launched, "rows in their order");
    let oldest = expected.iter().copied().min_by_key(|&request| arrival(request)).expect("something was selected");
    assert!(launched.contains(&oldest), "the oldest request is launched in any case");
    // Whoever arrived after one that had to give way has given way too.
    let gave_way = preempted.iter().map(|output| match output {
        Output::Preempt { request, .. } => *request,
        other => panic!("a launch put out {other:?}"),
    });
    let deferred = expected.iter().copied().filter(|request| !launched.contains(request));
    let earliest = gave_way.chain(deferred).map(arrival).min().expect("somebody gave way");
    for request in account.live().filter(|request| request.kept_at(model) > 0 || launched.contains(&request.id)) {
        assert!(
            request.id == oldest || arrival(request.id) < earliest,
            "{} kept its KV though it came later",
            request.id
        );
    }
}
