//! Files that a scenario names: profiles, lengths, arrivals, routes; and the rows that `plot` reads.

use super::{Case, call, edited};
use crate::support::Workbench;

const HEADER: &str =
    "device,model,kind,graph,rows,new_tokens,kv_tokens,peer_model,peer_rows,rate,mean_us,p50_us,p99_us,repeats\n";

pub(super) fn cases() -> Vec<Case> {
    let mut cases = scenarios();
    cases.extend(profiles());
    cases.extend(recorded());
    cases.extend(rows());
    cases
}

fn scenarios() -> Vec<Case> {
    vec![
        call(
            "a missing scenario",
            "simulate --scenario gone.toml",
            &["--scenario gone.toml: no such file", "`h200` or `a100-paper`"],
        ),
        call("a folder for a scenario", "sweep --scenario folder", &["folder: cannot read the scenario", "directory"])
            .with("folder/other.toml", ""),
    ]
}

fn profile(what: &'static str, rows: &str, named: &'static [&'static str]) -> Case {
    let cost = "{ profile = \"profile.csv\", model = \"m\" }";
    edited(what, "{ constant_ms = 6.0 }", cost, named).with("profile.csv", format!("{HEADER}{rows}"))
}

fn profiles() -> Vec<Case> {
    let at_line = |what, rows, named| profile(what, rows, named);
    vec![
        edited(
            "a missing profile",
            "{ constant_ms = 6.0 }",
            "{ profile = \"gone.csv\", model = \"m\" }",
            &[
                "wrong.toml:13: model.small.cost.profile = \"gone.csv\"",
                "no such file, looked in ., ../profiles and the embedded files (h200.csv, cpu-tiny.csv)",
            ],
        ),
        at_line(
            "a profile of another model",
            "x,n,decode,true,1,1,16,,,,4000,4000,,\n",
            &["wrong.toml:13: model.small.cost.model = \"m\"", "profile.csv", "`n`"],
        ),
        at_line(
            "a profile without rows",
            "",
            &["wrong.toml:13: model.small.cost.profile = \"profile.csv\"", "profile.csv"],
        ),
        at_line(
            "a negative time in a profile",
            "x,m,decode,true,1,1,16,,,,-4000,4000,,\n",
            &["wrong.toml:13: model.small.cost.profile", "profile.csv:2", "mean_us", "-4000", "expected"],
        ),
        at_line(
            "no number in a profile",
            "x,m,decode,true,1,1,16,,,,NaN,4000,,\n",
            &["profile.csv:2", "mean_us", "NaN", "expected"],
        ),
        at_line("a row too short in a profile", "x,m,decode,true,1,1,16\n", &["profile.csv:2", "expected"]),
        edited(
            "an empty profile",
            "{ constant_ms = 6.0 }",
            "{ profile = \"profile.csv\", model = \"m\" }",
            &["wrong.toml:13: model.small.cost.profile", "profile.csv"],
        )
        .with("profile.csv", ""),
        edited(
            "a profile that is no table",
            "{ constant_ms = 6.0 }",
            "{ profile = \"profile.csv\", model = \"m\" }",
            &["profile.csv:1", "unknown column"],
        )
        .with("profile.csv", "speed\nfast\n"),
        edited(
            "a folder for a profile",
            "{ constant_ms = 6.0 }",
            "{ profile = \"profiles\", model = \"m\" }",
            &["wrong.toml:13: model.small.cost.profile = \"profiles\"", "cannot read"],
        )
        .with("profiles/m.csv", ""),
    ]
}

fn recorded() -> Vec<Case> {
    let lengths = |what, content: &str, named| {
        edited(what, "output_tokens = 24", "output_tokens = { csv = \"lengths.csv\" }", named)
            .with("lengths.csv", content)
    };
    let routes = |what, content: &str, named| {
        let replay = "kind = \"replay\"\nfile = \"routes.csv\"";
        edited(what, "kind = \"every\"\nsmall = 2\nlarge = 2", replay, named).with("routes.csv", content)
    };
    let trace = |what, content: &str, named| {
        let arrivals = "arrivals = { process = \"trace\", csv = \"trace.csv\" }";
        edited(what, "concurrency = 4", arrivals, named).with("trace.csv", content)
    };
    vec![
        lengths(
            "an empty file of lengths",
            "",
            &["wrong.toml:7: workload.output_tokens.csv", "lengths.csv: the file is empty", "`output_tokens`"],
        ),
        lengths(
            "lengths without rows",
            "\u{feff}output_tokens\n",
            &["lengths.csv: there are no rows", "expected at least one `output_tokens`"],
        ),
        lengths(
            "lengths in another column",
            "tokens\n3\n",
            &["lengths.csv:1: the columns are \"tokens\"", "expected `output_tokens`"],
        ),
        lengths(
            "a length of nothing",
            "output_tokens\n3\n0\n",
            &["lengths.csv:3: `output_tokens` is \"0\"", "expected"],
        ),
        lengths(
            "a length in words",
            "output_tokens\nthree\n",
            &["lengths.csv:2: `output_tokens` is \"three\"", "expected"],
        ),
        lengths(
            "a length beyond all limits",
            "output_tokens\n99999999999999999999\n",
            &["lengths.csv:2: `output_tokens` is \"99999999999999999999\"", "expected"],
        ),
        trace(
            "arrivals that go back in time",
            "arrival_s\n1.0\n0.5\n",
            &["wrong.toml:4: workload.arrivals.csv", "trace.csv:3", "0.5", "expected"],
        ),
        trace(
            "fewer arrivals than requests",
            "arrival_s\n0.0\n0.5\n",
            &["wrong.toml:3: workload", "`requests` is 5", "expected at most 2"],
        ),
        routes(
            "a model that does not exist in recorded routes",
            "request,step,model,destination,committed,entropy\n0,0,0,7,true,\n",
            &["wrong.toml:25: policy.file = \"routes.csv\"", "routes.csv:2", "destination", "7"],
        ),
        routes(
            "recorded routes that skip a step",
            "request,step,model,destination,committed,entropy\n0,0,0,stay,true,\n0,2,0,stay,true,\n",
            &["routes.csv:3", "step", "2"],
        ),
        routes("empty recorded routes", "", &["wrong.toml:25: policy.file = \"routes.csv\"", "routes.csv"]),
    ]
}

fn rows() -> Vec<Case> {
    const SWEEP: &[&str] = &["sweep --scenario pair.toml --every 1 --concurrency 1 --out out"];
    let swept = Workbench::new().run_words(SWEEP[0], &["--format", "csv"]).done();
    let row = |throughput: &str| with_throughput(&swept, throughput);
    vec![
        call("no rows to plot", "plot gone.csv", &["`gone.csv`", "expected the rows of a run"]),
        call("a folder without rows to plot", "plot folder", &["`folder/rows.csv`", "expected the rows of a run"])
            .with("folder/notes.txt", ""),
        call("an empty file to plot", "plot rows.csv", &["`rows.csv` has no row", "expected at least one cell"])
            .with("rows.csv", ""),
        call(
            "a header without rows to plot",
            "plot rows.csv",
            &["`rows.csv` has no row", "expected at least one cell"],
        )
        .with("rows.csv", swept.lines().next().expect("a header")),
        call(
            "another table to plot",
            "plot rows.csv",
            &["`rows.csv`", "the columns are a, b", "expected those of a sweep (placement, every,"],
        )
        .with("rows.csv", "a,b\n1,2\n"),
        call(
            "a sweep without a column",
            "plot rows.csv",
            &["rows.csv:2: missing field `seed`", "expected rows of a sweep"],
        )
        .with("rows.csv", without_last_column(&swept)),
        call(
            "thresholds that are no numbers",
            "plot rows.csv",
            &["`thresholds` of rank 1 is \"one\"", "whole numbers"],
        )
        .with("rows.csv", TUNED),
        call(
            "a table that nobody published",
            "plot rows.csv",
            &["`rows.csv`", "`table` is \"mine\"", "expected one of threshold,"],
        )
        .with("rows.csv", TABLE),
        call("figures of rows that nobody wrote", "plot rows.csv --in-place", &["--in-place", "no manifest beside it"])
            .with("rows.csv", row("100")),
        call(
            "figures of a folder whose rows were edited",
            "plot out --in-place",
            &["--in-place", "`out/rows.csv`", "manifest"],
        )
        .after(SWEEP)
        .then("out/rows.csv", row("100")),
        call("two places for a figure", "plot out --in-place --out other", &["--in-place", "--out"]).after(SWEEP),
        call(
            "the rows of another command to plot",
            "plot out",
            &["`out/rows.csv`", "expected those of a sweep (", "results of `simulate`, which draws no figure"],
        )
        .after(&["simulate --scenario pair.toml --out out"]),
        call(
            "a word for a throughput to plot",
            "plot rows.csv",
            &["rows.csv:2: `throughput` is \"fast\"", "expected rows of a sweep"],
        )
        .with("rows.csv", row("fast")),
        call(
            "a throughput that is no number to plot",
            "plot rows.csv",
            &["`rows.csv`", "throughput", "NaN", "expected a finite number"],
        )
        .with("rows.csv", row("NaN")),
        call(
            "a throughput of nothing to plot",
            "plot rows.csv",
            &["`rows.csv`", "throughput", "0", "expected a positive number"],
        )
        .with("rows.csv", row("0")),
        call("bytes to plot that are no text", "plot rows.csv", &["rows.csv", "UTF-8"])
            .with("rows.csv", b"placement\n\xff\n".to_vec()),
        call("a figure beside results", "plot out --out out", &["--out out", "holds the results of a run"])
            .after(SWEEP),
        call(
            "a figure below a file",
            "plot out --out pair.toml/figure",
            &["--out pair.toml/figure", "`pair.toml` is a file"],
        )
        .after(SWEEP),
    ]
}

/// A row of `tune` with a word for its thresholds.
const TUNED: &str = "rank,placement,order,concurrency,thresholds,throughput,ci_low,ci_high,loss,method,replications\n\
    1,separate,,4,one,100.0,,,0.0,exact,0\n";

/// A row of `paper` of an unknown table.
const TABLE: &str = "table,row,column,published,predicted,error,calibrated_on_it,fit_residual,threshold,panel,line,x\n\
    mine,a,b,1.0,1.0,0.0,false,,,,a,1.0\n";

/// The rows without the column `seed`, which is the last one.
fn without_last_column(rows: &str) -> String {
    rows.lines().map(|line| format!("{}\n", line.rsplit_once(',').expect("several columns").0)).collect()
}

/// The rows of a sweep with another throughput in each.
pub(super) fn with_throughput(rows: &str, throughput: &str) -> String {
    let (header, records) = rows.split_once('\n').expect("a header");
    let column = header.split(',').position(|name| name == "throughput").expect("a column");
    let changed = records.lines().map(|record| {
        let cells = record.split(',').enumerate();
        cells.map(|(idx, cell)| if idx == column { throughput } else { cell }).collect::<Vec<_>>().join(",") + "\n"
    });
    format!("{header}\n{}", changed.collect::<String>())
}
