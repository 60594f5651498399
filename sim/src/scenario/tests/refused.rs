//! Scenarios that are refused, each with the text of its error (snapshots/refused.snap).

use std::fmt::Write as _;

use super::super::*;
use super::{EXAMPLE, parse, parse_with_sets};

/// What is wrong: a line of the example, what stands there instead, and what the error must name.
struct Case {
    line: &'static str,
    instead: &'static str,
    at: At,
    field: &'static str,
    value: &'static str,
}

/// Where the error is.
enum At {
    /// So many lines below the replaced line.
    Below(usize),
    /// In the line of the example that begins so: the error is about two fields and stands at the other one, or about
    /// one that is missing.
    Line(&'static str),
}

const fn case(line: &'static str, instead: &'static str, field: &'static str, value: &'static str) -> Case {
    Case { line, instead, at: At::Below(0), field, value }
}

const fn below(
    below: usize,
    line: &'static str,
    instead: &'static str,
    field: &'static str,
    value: &'static str,
) -> Case {
    Case { line, instead, at: At::Below(below), field, value }
}

const fn elsewhere(
    at: &'static str,
    line: &'static str,
    instead: &'static str,
    field: &'static str,
    value: &'static str,
) -> Case {
    Case { line, instead, at: At::Line(at), field, value }
}

const CASES: &[Case] = &[
    case("seed = 1", "seed = -1", "seed", "-1"),
    case("seed = 1", "seed = 1.5", "seed", "1.5"),
    case("seed = 1", "seed = 99999999999999999999999999999999999999999999999999", "seed", "9999999999"),
    case("seed = 1", "sede = 1", "sede", "1"),
    case("concurrency = 4", "concurrency = 0", "workload.concurrency", "0"),
    case("concurrency = 4", "concurrency = -3", "workload.concurrency", "-3"),
    case("concurrency = 4", "concurrency = \"four\"", "workload.concurrency", "\"four\""),
    case("concurrency = 4", "concurrency = 4000000000", "workload.concurrency", "4000000000"),
    below(
        1,
        "concurrency = 4",
        "arrivals = { process = \"poisson\", rate_per_s = 2.0 }\nconcurrency = 4",
        "workload.concurrency",
        "4",
    ),
    case(
        "concurrency = 4",
        "arrivals = { process = \"poisson\", rate_per_s = 0.0 }",
        "workload.arrivals.rate_per_s",
        "0.0",
    ),
    case(
        "concurrency = 4",
        "arrivals = { process = \"poisson\", rate_per_s = nan }",
        "workload.arrivals.rate_per_s",
        "nan",
    ),
    case(
        "concurrency = 4",
        "arrivals = { process = \"gamma\", rate_per_s = 2.0 }",
        "workload.arrivals.process",
        "\"gamma\"",
    ),
    case("concurrency = 4", "arrivals = { process = \"poisson\" }", "workload.arrivals", "{ process = \"poisson\" }"),
    case(
        "concurrency = 4",
        "arrivals = { process = \"trace\", csv = \"no.csv\" }",
        "workload.arrivals.csv",
        "\"no.csv\"",
    ),
    case("requests = 200", "requests = 0", "workload.requests", "0"),
    case("requests = 200", "requests = 5000000000", "workload.requests", "5000000000"),
    case("prompt_tokens = 100", "prompt_tokens = 0", "workload.prompt_tokens", "0"),
    case("prompt_tokens = 100", "prompt_tokens = 4294967296", "workload.prompt_tokens", "4294967296"),
    case(
        "prompt_tokens = 100",
        "prompt_tokens = { lognormal = { mean = 0.0, cv = 0.5 } }",
        "workload.prompt_tokens.lognormal.mean",
        "0.0",
    ),
    case(
        "prompt_tokens = 100",
        "prompt_tokens = { lognormal = { mean = 9.0, cv = -1 } }",
        "workload.prompt_tokens.lognormal.cv",
        "-1",
    ),
    case(
        "prompt_tokens = 100",
        "prompt_tokens = { lognormal = { mean = 1e6, cv = 9.0 } }",
        "workload.prompt_tokens.lognormal",
        "{ mean = 1e6, cv = 9.0 }",
    ),
    case("prompt_tokens = 100", "prompt_tokens = { uniform = [9, 3] }", "workload.prompt_tokens.uniform.1", "3"),
    case("prompt_tokens = 100", "prompt_tokens = { uniform = [9] }", "workload.prompt_tokens", "{ uniform = [9] }"),
    case(
        "prompt_tokens = 100",
        "prompt_tokens = { csv = \"missing.csv\" }",
        "workload.prompt_tokens.csv",
        "\"missing.csv\"",
    ),
    case(
        "prompt_tokens = 100",
        "prompt_tokens = { csv = \"arrivals.csv\" }",
        "workload.prompt_tokens.csv",
        "\"arrivals.csv\"",
    ),
    case(
        "prompt_tokens = 100",
        "prompt_tokens = { csv = \"lengths.csv\", uniform = [1, 2] }",
        "workload.prompt_tokens",
        "lengths.csv",
    ),
    case("start = \"random\"", "start = \"somewhere\"", "workload.start", "\"somewhere\""),
    case("warmup = \"auto\"", "warmup = \"none\"", "workload.warmup", "\"none\""),
    case("precision = 0.01", "precision = 0.0", "workload.precision", "0.0"),
    case("precision = 0.01", "precision = inf", "workload.precision", "inf"),
    case("precision = 0.01", "replications_min = 1", "workload.replications_min", "1"),
    below(1, "precision = 0.01", "replications_min = 20\nreplications_max = 10", "workload.replications_max", "10"),
    case("name = \"small\"", "name = \"1st\"", "model.1st.name", "\"1st\""),
    case("name = \"small\"", "name = \"\"", "model.0.name", "\"\""),
    case("name = \"large\"", "name = \"small\"", "model.small.name", "\"small\""),
    case("cost = { constant_ms = 6.0 }", "cost = { constant_ms = 0.0 }", "model.small.cost.constant_ms", "0.0"),
    case("cost = { constant_ms = 6.0 }", "cost = { constant_ms = 1e300 }", "model.small.cost.constant_ms", "1e300"),
    case("cost = { constant_ms = 6.0 }", "cost = { constant_ms = nan }", "model.small.cost.constant_ms", "nan"),
    case("cost = { constant_ms = 6.0 }", "cost = {}", "model.small.cost", "{}"),
    case("cost = { constant_ms = 6.0 }", "cost = 6.0", "model.small.cost", "6.0"),
    case(
        "cost = { constant_ms = 6.0 }",
        "cost = { constant_ms = 6.0, affine = { fixed_ms = 3.0 } }",
        "model.small.cost",
        "affine",
    ),
    case(
        "cost = { constant_ms = 6.0 }",
        "cost = { constant_ms = 6.0, graph = true }",
        "model.small.cost.graph",
        "true",
    ),
    case(
        "cost = { constant_ms = 6.0 }",
        "cost = { affine = { fixed_ms = -3.0 } }",
        "model.small.cost.affine.fixed_ms",
        "-3.0",
    ),
    case(
        "cost = { constant_ms = 6.0 }",
        "cost = { affine = { per_kv_token_us = 1.0 } }",
        "model.small.cost.affine",
        "per_kv_token_us",
    ),
    case("cost = { constant_ms = 6.0 }", "cost = { affine = { fixed = 1.0 } }", "model.small.cost.affine.fixed", "1.0"),
    case(
        "cost = { constant_ms = 6.0 }",
        "cost = { profile = \"none.csv\", model = \"m\" }",
        "model.small.cost.profile",
        "\"none.csv\"",
    ),
    case(
        "cost = { constant_ms = 6.0 }",
        "cost = { profile = \"broken.csv\", model = \"m\" }",
        "model.small.cost.profile",
        "\"broken.csv\"",
    ),
    case("cost = { constant_ms = 6.0 }", "cost = { profile = \"profile.csv\" }", "model.small.cost.model", ""),
    case(
        "cost = { constant_ms = 6.0 }",
        "cost = { profile = \"profile.csv\", model = \"q\" }",
        "model.small.cost.model",
        "\"q\"",
    ),
    case(
        "cost = { constant_ms = 6.0 }",
        "cost = { profile = \"profile.csv\", model = \"m\", graph = false }",
        "model.small.cost.graph",
        "false",
    ),
    case(
        "cost = { constant_ms = 6.0 }",
        "cost = { profile = \"profile.csv\", model = \"m\", device = \"A100\" }",
        "model.small.cost.device",
        "\"A100\"",
    ),
    case(
        "cost = { constant_ms = 6.0 }",
        "cost = { roofline = { model = \"Qwen3-0.6\", device = \"H200\" } }",
        "model.small.cost.roofline.model",
        "\"Qwen3-0.6\"",
    ),
    case(
        "cost = { constant_ms = 6.0 }",
        "cost = { roofline = { model = \"Qwen3-0.6B\" } }",
        "model.small.cost.roofline.device",
        "",
    ),
    case("threshold = 1", "threshold = 0", "model.small.threshold", "0"),
    case("threshold = 1", "threshold = []", "model.small.threshold", "[]"),
    case("threshold = 1", "threshold = [1, 0]", "model.small.threshold.1", "0"),
    case("threshold = 1", "threshold = [1, 2, 9]", "model.small.threshold.2", "9"),
    case("threshold = 1", "threshold = 9", "model.small.threshold", "9"),
    below(1, "threshold = 3", "threshold = 3\nkv_tokens = 100", "model.large.kv_tokens", "100"),
    elsewhere("threshold = 3", "threshold = 1", "threshold = 3", "model.large.threshold", "3"),
    case("max_wait_ms = 0.0", "max_wait_ms = -1", "model.small.max_wait_ms", "-1"),
    case("max_wait_ms = 0.0", "jitter_cv = -0.1", "model.small.jitter_cv", "-0.1"),
    case("max_wait_ms = 0.0", "jitter = \"strong\"", "model.small.jitter", "\"strong\""),
    below(1, "max_wait_ms = 0.0", "jitter_cv = 0.1\njitter = \"measured\"", "model.small.jitter", "\"measured\""),
    case("max_wait_ms = 0.0", "jitter = \"measured\"", "model.small.jitter", "\"measured\""),
    case("max_wait_ms = 0.0", "host = \"profile\"", "model.small.host", "\"profile\""),
    case("max_wait_ms = 0.0", "host = { launch_us = inf }", "model.small.host.launch_us", "inf"),
    case(
        "max_wait_ms = 0.0",
        "router = { profile = \"profile.csv\", model = \"n\" }",
        "model.small.router.model",
        "\"n\"",
    ),
    case("hold = \"both\"", "hold = \"prompts\"", "model.small.hold", "\"prompts\""),
    case("kv_tokens = 200000", "kv_tokens = 2147", "model.small.kv_tokens", "2147"),
    case("device = 0", "device = 70000", "model.small.device", "70000"),
    elsewhere("[scheduler]", "device = 1", "device = 0", "scheduler.corun", ""),
    case("kind = \"r2r\"", "kind = \"r3r\"", "policy.kind", "\"r3r\""),
    case("p = 0.35", "p = 1.5", "policy.p", "1.5"),
    case("p = 0.35", "p = nan", "policy.p", "nan"),
    case("p = 0.35", "p = \"often\"", "policy.p", "\"often\""),
    case("p = 0.35", "q = 0.35", "policy.q", "0.35"),
    elsewhere("[policy]", "kind = \"r2r\"\np = 0.35", "kind = \"r-stitch\"\na = 0.1", "policy.b", ""),
    below(1, "kind = \"r2r\"\np = 0.35", "kind = \"r-stitch\"\nsignal = \"entropy\"", "policy.signal", "\"entropy\""),
    below(2, "kind = \"r2r\"\np = 0.35", "kind = \"r-stitch\"\nsignal = \"measured\"\ntau = 1.5", "policy.tau", "1.5"),
    below(3, "kind = \"r2r\"\np = 0.35", "kind = \"r-stitch\"\na = 0.1\nb = 0.2\ntau = 0.5", "policy.tau", "0.5"),
    below(1, "kind = \"r2r\"\np = 0.35", "kind = \"every\"\nsmall = 0", "policy.small", "0"),
    below(1, "kind = \"r2r\"\np = 0.35", "kind = \"me\"\nweights = [0.5, 0.4]", "policy.weights", "[0.5, 0.4]"),
    case("kind = \"r2r\"\np = 0.35", "kind = \"me\"\nweights = [0.5, 0.3, 0.2]", "policy.kind", "\"me\""),
    below(
        1,
        "kind = \"r2r\"\np = 0.35",
        "kind = \"markov\"\nroutes = [[0.5, 0.4], [1, 0]]\ncommits = [[1, 1], [1, 1]]",
        "policy.routes.0",
        "[0.5, 0.4]",
    ),
    below(
        3,
        "kind = \"r2r\"\np = 0.35",
        "kind = \"markov\"\nroutes = [[0.5, 0.5], [1, 0]]\ncommits = [[1, 1], [1, 1]]\nentry = \"medium\"",
        "policy.entry",
        "\"medium\"",
    ),
    below(1, "kind = \"r2r\"\np = 0.35", "kind = \"replay\"\nfile = \"gone.csv\"", "policy.file", "\"gone.csv\""),
    case("mode = \"delayed\"", "mode = \"lazy\"", "scheduler.mode", "\"lazy\""),
    case("mode = \"delayed\"", "mode = 3", "scheduler.mode", "3"),
    case("sharing = \"overlapped\"", "sharing = \"shared\"", "scheduler.sharing", "\"shared\""),
    case("sharing = \"overlapped\"", "corun = [0.41]", "scheduler.corun", "[0.41]"),
    case("sharing = \"overlapped\"", "corun = [0.41, 1.5]", "scheduler.corun.1", "1.5"),
    case("mix_extend = true", "mix_extend = 1", "scheduler.mix_extend", "1"),
    case("mix_extend = true", "first = \"prefill\"", "scheduler.first", "\"prefill\""),
    case("loops = \"decoupled\"", "loops = \"three\"", "scheduler.loops", "\"three\""),
    case("handoff = \"resume\"", "handoff = \"copy\"", "scheduler.handoff", "\"copy\""),
    case("handoff = \"resume\"", "fresh = { fixed_ms = -4 }", "scheduler.fresh.fixed_ms", "-4"),
    case("hop_us = 0.0", "hop_us = 1e30", "scheduler.hop_us", "1e30"),
    case("hop_us = 0.0", "hop_gb_per_s = 0", "scheduler.hop_gb_per_s", "0"),
    case("hop_us = 0.0", "kv_full = \"drop\"", "scheduler.kv_full", "\"drop\""),
];

#[test]
fn each_error_names_file_line_field_and_value() {
    let mut report = String::new();
    for Case { line, instead, at, field, value } in CASES {
        let start = line_start(EXAMPLE, line);
        let text = format!("{}{instead}{}", &EXAMPLE[..start], &EXAMPLE[start + line.len()..]);
        let error = parse(&text).expect_err(instead);
        writeln!(report, "{instead}\n    {error}").expect("a string takes everything");

        let shown = error.to_string();
        let line_number = match at {
            At::Below(below) => line_number(&text, start) + below,
            At::Line(other) => {
                line_number(&text, text.rfind(&format!("\n{other}")).expect("a line of the example") + 1)
            }
        };
        let expected = Origin::File { name: "scenario.toml".to_owned(), line: Some(line_number), column: None };
        assert_eq!(error.origin(), &expected, "{shown}");
        assert_eq!(error.field(), Some(*field), "{shown}");
        assert!(error.value().unwrap_or_default().contains(value), "{shown}\nexpected value {value}");
        assert!(shown.starts_with(&format!("scenario.toml:{line_number}: {field}")), "{shown}");
    }
    snapshot("refused", report);
}

/// What needs more than one line, or another way in: overrides on the example.
const SETS: &[&[&str]] = &[
    &["model.large.threshold=9"],
    &["model.1.threshold=9", "workload.concurrency=8"],
    &["model.large={ name = \"large\", cost = { constant_ms = 27.9 }, threshold = 9 }"],
    &["model.small.threshold=4", "model.large.threshold=6", "workload.concurrency=8"],
    &["model.large.threshold=[1, 2, 3, 4, 5]", "model.small.threshold=[1, 1, 1, 2]", "workload.concurrency=5"],
    &["scheduler.mode=eager"],
    &["scheduler.mode=step-sync"],
    &["scheduler.mode=model-sync"],
    &["workload.arrivals={ process = \"poisson\", rate_per_s = 2.0 }"],
    &["scheduler.sharing=exclusive", "model.small.device=1"],
    &["scheduler.order=middle-first"],
    &[
        "model=[{ cost = { constant_ms = 1 }, device = 0 }, { cost = { constant_ms = 2 }, device = 0 }, { cost = { constant_ms = 3 }, device = 0 }]",
        "policy={ kind = \"me\" }",
    ],
    &[
        "model=[{ cost = { constant_ms = 1 } }, { cost = { constant_ms = 2 } }, { cost = { constant_ms = 3 } }]",
        "policy={ kind = \"r2r\" }",
    ],
    &["model=[{}, {}, {}]"],
    &["model=[]"],
    &["model=3"],
    &["model.medium.threshold=2"],
    &["model.7.threshold=2"],
    &["model.large.threshold.0=2"],
    &["model.large.threshold=[1, 2]", "model.large.threshold.5=2"],
    &[
        "workload.output_tokens=16777216",
        "workload.prompt_tokens=16777216",
        "model.large.kv_tokens=20000000",
        "model.small.kv_tokens=40000000",
    ],
    &["policy={ kind = \"phases\", phase = [{ kind = \"r2r\", p = 2 }], transitions = [[1]] }"],
    &["policy={ kind = \"markov\", routes = [[0, 1], [1, 0]], commits = [[0, 0], [0, 0]] }"],
    &["policy={ kind = \"replay\", file = \"lengths.csv\" }"],
    &["policy={ kind = \"replay\", file = \"routes.csv\", entry = \"large\" }"],
    &["policy={ kind = \"phases\", phase = [{ kind = \"r2r\" }] }"],
    &["policy={ kind = \"me\", weights = 1 }"],
    &["policy=every"],
    &["policy.kind=[1]"],
    &["policy.n=3"],
    &["model.small.cost={ profile = \"profile.csv\", model = \"m\" }", "model.small.device=1"],
    &["seed"],
    &["seed="],
    &["seed=[1"],
    &["seed=one two"],
    &["se ed=1"],
];

#[test]
fn errors_of_overrides_name_the_option() {
    let mut report = String::new();
    for sets in SETS {
        let error = parse_with_sets(EXAMPLE, sets).expect_err(sets[0]);
        writeln!(report, "{}\n    {error}", sets.join("  ")).expect("a string takes everything");
    }
    snapshot("refused_overrides", report);
}

#[test]
fn texts_that_are_no_toml_are_refused_with_line_and_column() {
    let mut report = String::new();
    for text in [
        "",
        "  \n\t\n",
        "\u{feff}seed = 1",
        "seed = ",
        "seed = 1\nseed = 2",
        "[workload\nconcurrency = 4",
        "seed = 1\n\u{e9} = 2",
        "a = \"x",
        "\0",
        "[policy]\np = 1e",
        "x = [[[[[[[[[[",
    ] {
        let error = parse(text).expect_err(text);
        assert!(matches!(error.origin(), Origin::File { .. }));
        writeln!(report, "{text:?}\n    {error}").expect("a string takes everything");
    }
    let bytes = Source::from_bytes("scenario.toml", b"seed = 1\nname = \"\xff\"").expect_err("not UTF-8");
    let utf16 = Source::from_bytes("scenario.toml", b"\xff\xfes\0").expect_err("not UTF-8");
    writeln!(report, "bytes\n    {bytes}\n    {utf16}").expect("a string takes everything");
    snapshot("refused_texts", report);
}

#[test]
fn a_missing_scenario_is_named() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("gone.toml");
    let error = Source::read(&path).expect_err("no such file").to_string();
    assert!(error.starts_with(&format!("{}: cannot read the scenario: ", path.display())), "{error}");
}

#[test]
fn nested_input_is_refused_and_not_followed_to_the_end_of_the_stack() {
    let text = format!("x = {}", "[".repeat(100_000));
    assert!(parse(&text).is_err());
    let set = format!("seed={}", "{a=".repeat(100_000));
    assert!(parse_with_sets(EXAMPLE, &[&set]).is_err());
}

fn line_start(text: &str, line: &str) -> usize {
    let found =
        if text.starts_with(line) { Some(0) } else { text.find(&format!("\n{line}")).map(|newline| newline + 1) };
    found.unwrap_or_else(|| panic!("no line {line}"))
}

fn line_number(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

fn snapshot(name: &str, report: String) {
    insta::with_settings!({ snapshot_path => "../snapshots", prepend_module_to_snapshot => false, omit_expression => true }, {
        insta::assert_snapshot!(name, report);
    });
}
