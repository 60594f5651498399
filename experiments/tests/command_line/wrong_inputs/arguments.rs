//! Arguments: overrides, grids, the axes of a sweep, and what the command line itself refuses.

use super::{Case, call, edited};

pub(super) fn cases() -> Vec<Case> {
    let mut cases = command_line();
    cases.extend(overrides());
    cases.extend(grids());
    cases.extend(axes());
    cases.extend(traces());
    cases
}

fn command_line() -> Vec<Case> {
    vec![
        call("an unknown command", "simulat", &["'simulat'", "'simulate'"]),
        call("an unknown argument", "sweep --evry 1", &["--evry", "--every"]),
        call("an argument without its value", "sweep --every", &["--every <LIST>"]),
        call("an unknown format", "sweep --format xml", &["--format <FORMAT>", "xml", "table, json, csv"]),
        call("no thread", "sweep --threads 0", &["--threads <N>", "0 is not in 1..=1024"]),
        call("too many threads", "simulate --threads 100000", &["--threads <N>", "100000 is not in 1..=1024"]),
        call("a negative seed", "simulate --seed=-1", &["--seed <N>", "-1"]),
        call("nothing to plot", "plot", &["<FROM>"]),
    ]
}

fn overrides() -> Vec<Case> {
    let set = |what, set: &str, named| call(what, "simulate --scenario pair.toml --set", named).and(set);
    vec![
        set("an override without a value", "seed", &["--set seed", "expected path=value"]),
        set("an override of nothing", "seed=", &["--set seed=", "no value"]),
        set(
            "an override of an unknown field",
            "workload.concurency=3",
            &["--set workload.concurency=3", "did you mean `concurrency`"],
        ),
        set(
            "an override of an unknown model",
            "model.medium.threshold=2",
            &["--set model.medium.threshold=2", "`small`, `large`"],
        ),
        set(
            "an override with a wrong value",
            "workload.precision=2",
            &["--set workload.precision=2", "above 0 and below 1"],
        ),
        set("an override that is no TOML", "policy={ kind =", &["--set policy={ kind =", "no TOML"]),
        call(
            "an override of the default scenario",
            "sweep --set model.large.cost.graf=true",
            &["--set model.large.cost.graf=true", "unknown field `graf`"],
        ),
    ]
}

fn grids() -> Vec<Case> {
    let grid = |what, words: &str, named| call(what, &format!("sweep --scenario pair.toml {words}"), named);
    vec![
        grid("a grid without a list", "--grid policy.small", &["--grid policy.small", "expected path=list"]),
        grid("a grid with a gap", "--grid policy.small=1,,2", &["--grid policy.small=1,,2", "no value"]),
        grid(
            "a range that runs backwards",
            "--grid policy.small=8..1",
            &["--grid policy.small=8..1", "runs backwards"],
        ),
        grid("a value twice", "--grid policy.small=1..3,2", &["--grid policy.small=1..3,2", "`2` appears twice"]),
        grid(
            "a path twice",
            "--grid policy.small=1,2 --grid policy.small=3",
            &["--grid policy.small", "appears twice"],
        ),
        grid(
            "a field by two paths",
            "--grid model.large.threshold=1,2 --grid model.1.threshold=1,2",
            &["--grid model.1.threshold", "`model.large.threshold`", "expected one list"],
        ),
        grid(
            "a grid over an unknown field",
            "--grid policy.medium=1,2",
            &["cell policy.medium=1", "--set policy.medium=1", "unknown field `medium`"],
        ),
        grid(
            "a grid with a cell that cannot run",
            "--grid model.large.threshold=1..5",
            &["cell model.large.threshold=5", "--set model.large.threshold=5", "only 4 requests are in the system"],
        ),
        grid("a grid that never ends", "--grid seed=1..20001", &["the grid has 20001 cells", "expected at most 20000"]),
        grid(
            "a sweep that never ends",
            "--grid seed=1..300 --every 1..10 --concurrency 1..7",
            &["the grid has 21000 cells", "expected at most 20000"],
        ),
        call(
            "a simulated grid that never ends",
            "simulate --grid seed=1..200 --grid workload.concurrency=1..200",
            &["the grid has 40000 cells", "expected at most 20000"],
        ),
        call(
            "a simulated grid with a cell that cannot run",
            "simulate --scenario pair.toml --grid workload.requests=5,0",
            &["cell workload.requests=0", "--set workload.requests=0", "from 1 to"],
        ),
        grid(
            "N by two arguments",
            "--every 1,2 --grid policy.small=1,2",
            &["--grid policy.small", "--every sets it already"],
        ),
        grid(
            "a concurrency by two arguments",
            "--concurrency 1,2 --grid workload.concurrency=3,4",
            &["--grid workload.concurrency", "--concurrency sets it already"],
        ),
        grid(
            "a placement by two arguments",
            "--placement exclusive --grid scheduler.order=large-first,small-first",
            &["--grid scheduler.order", "--placement sets it already"],
        ),
        grid(
            "a device by two arguments",
            "--placement separate --grid model.large.device=0,1",
            &["--grid model.large.device", "--placement sets it already"],
        ),
    ]
}

fn axes() -> Vec<Case> {
    let sweep = |what, words: &str, named| call(what, &format!("sweep --scenario pair.toml {words}"), named);
    vec![
        sweep("visits of no token", "--every 0,1", &["--every 0,1", "`0` is not a whole number from 1"]),
        sweep("visits of half a token", "--every 0.5", &["--every 0.5", "`0.5` is not a whole number from 1"]),
        sweep("visits in words", "--every 1,two", &["--every 1,two", "`two` is not a whole number from 1"]),
        sweep("visits with a gap", "--every 1,,2", &["--every 1,,2", "no value"]),
        sweep("visits twice", "--every 1,2,01", &["--every 1,2,01", "each value once"]),
        sweep("visits backwards", "--every 4..1", &["--every 4..1", "runs backwards"]),
        sweep(
            "visits beyond all limits",
            "--every 4294967296",
            &["--every 4294967296", "`4294967296` is not a whole number from 1"],
        ),
        sweep("an empty list of visits", "--every", &["--every", "no value"]).and(""),
        sweep("nobody in the system", "--concurrency 0", &["--concurrency 0", "`0` is not a whole number from 1"]),
        sweep(
            "too many in the system",
            "--concurrency 2000000",
            &["cell workload.concurrency=2000000", "from 1 to 1048576"],
        ),
        sweep(
            "an unknown placement",
            "--placement nearby",
            &["--placement nearby", "`nearby`", "`separate`, `overlapped`"],
        ),
        sweep(
            "an unknown order",
            "--placement exclusive:middle-first",
            &["--placement exclusive:middle-first", "`exclusive:large-first`"],
        ),
        sweep("an empty placement", "--placement separate,", &["--placement separate,", "expected one of `separate`"]),
        sweep(
            "a placement without co-run rates",
            "--placement separate,overlapped",
            &["cell placement=overlapped", "scheduler.corun", "expected two rates"],
        ),
        sweep(
            "a threshold that one request never reaches",
            "--concurrency 1,4 --set model.large.threshold=2 --set scheduler.mode=delayed",
            &["cell workload.concurrency=1", "model.large.threshold=2", "only 1 request is in the system"],
        ),
        edited(
            "a concurrency for an open loop",
            "concurrency = 4",
            "arrivals = { process = \"poisson\", rate_per_s = 2.0 }",
            &["--concurrency", "open loop"],
        )
        .instead("sweep --scenario wrong.toml --concurrency 1,2"),
        call(
            "visits of one model",
            "sweep --set policy.kind=large-only --every 1 --set",
            &["--every", "the scenario has 1 model, expected 2 models"],
        )
        .and("model=[{ cost = { constant_ms = 3 } }]"),
        call(
            "a placement of one model",
            "sweep --set policy.kind=large-only --grid seed=1,2 --placement all --set",
            &["--placement all", "1 model"],
        )
        .and("model=[{ cost = { constant_ms = 3 } }]"),
    ]
}

fn traces() -> Vec<Case> {
    let trace = |what, words: &str, named| call(what, &format!("simulate --scenario pair.toml --trace {words}"), named);
    vec![
        trace(
            "a trace of many cells",
            "trace.json --grid policy.small=1,2",
            &["--trace trace.json", "--grid policy.small=1,2", "expected --trace without --grid"],
        ),
        trace("a trace that is a folder", ".", &["--trace .", "is a folder", "expected a file"]),
        trace("a trace without a name", "a/..", &["--trace a/..", "names no file", "expected a file"]),
        trace(
            "a trace below a file",
            "pair.toml/a.json",
            &["--trace pair.toml/a.json", "`pair.toml`", "expected a file"],
        ),
    ]
}

impl Case {
    /// The same files with another call.
    fn instead(mut self, words: &str) -> Self {
        self.arguments = words.split(' ').map(str::to_owned).collect();
        self
    }
}
