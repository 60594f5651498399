//! Scenarios: fields, values, and what does not go together.

use super::{Case, call, edited};
use crate::support::PAIR;

pub(super) fn cases() -> Vec<Case> {
    let mut cases = fields();
    cases.extend(combinations());
    cases.extend(texts());
    cases
}

fn fields() -> Vec<Case> {
    vec![
        edited(
            "an unknown field",
            "requests = 5",
            "request = 5",
            &["wrong.toml:5: workload.request = 5", "did you mean `requests`"],
        ),
        edited("an unknown table", "[scheduler]", "[schedule]", &["wrong.toml:28: schedule", "`scheduler`"]),
        edited(
            "a word for a number",
            "requests = 5",
            "requests = \"five\"",
            &["wrong.toml:5: workload.requests = \"five\"", "expected a whole number"],
        ),
        edited(
            "no concurrency",
            "concurrency = 4",
            "concurrency = 0",
            &["wrong.toml:4: workload.concurrency = 0", "from 1 to"],
        ),
        edited(
            "a negative time",
            "{ constant_ms = 6.0 }",
            "{ constant_ms = -6.0 }",
            &["wrong.toml:13: model.small.cost.constant_ms = -6.0", "expected a finite time"],
        ),
        edited(
            "no number",
            "{ constant_ms = 6.0 }",
            "{ constant_ms = nan }",
            &["wrong.toml:13: model.small.cost.constant_ms = nan", "expected"],
        ),
        edited(
            "an infinite time",
            "{ constant_ms = 10.0 }",
            "{ affine = { fixed_ms = inf } }",
            &["wrong.toml:19: model.large.cost.affine.fixed_ms = inf", "expected"],
        ),
        edited(
            "a step without time",
            "{ constant_ms = 10.0 }",
            "{ constant_ms = 0.0 }",
            &["wrong.toml:19: model.large.cost.constant_ms = 0.0", "larger than 0"],
        ),
        edited(
            "an overflow",
            "seed = 1",
            "seed = 99999999999999999999999",
            &["wrong.toml:1: seed = 99999999999999999999999", "to 18446744073709551615"],
        ),
        edited(
            "too many tokens",
            "output_tokens = 24",
            "output_tokens = 4294967295",
            &["wrong.toml:7: workload.output_tokens = 4294967295", "from 1 to"],
        ),
        edited(
            "a mean below one token",
            "prompt_tokens = 10",
            "prompt_tokens = { lognormal = { mean = 0.5, cv = 1 } }",
            &["wrong.toml:6: workload.prompt_tokens.lognormal.mean = 0.5", "expected a number from 1"],
        ),
        edited(
            "a range that runs backwards",
            "prompt_tokens = 10",
            "prompt_tokens = { uniform = [9, 3] }",
            &["wrong.toml:6: workload.prompt_tokens.uniform.1 = 3", "from 9"],
        ),
        edited(
            "one name for two models",
            "name = \"large\"",
            "name = \"small\"",
            &["wrong.toml:18: model.small.name = \"small\"", "is the name of model 0"],
        ),
        edited(
            "two forms of a cost",
            "{ constant_ms = 6.0 }",
            "{ constant_ms = 6.0, affine = { fixed_ms = 1.0 } }",
            &["wrong.toml:13: model.small.cost", "exactly one of"],
        ),
        edited(
            "an unknown device of a roofline",
            "{ constant_ms = 6.0 }",
            "{ roofline = { model = \"Qwen3-0.6B\", device = \"B200\" } }",
            &["wrong.toml:13: model.small.cost.roofline.device = \"B200\"", "expected one of"],
        ),
        edited(
            "an unknown policy",
            "kind = \"every\"",
            "kind = \"each\"",
            &["wrong.toml:24: policy.kind = \"each\"", "expected one of"],
        ),
        edited(
            "a visit of no token",
            "small = 2\nlarge = 2",
            "small = 0\nlarge = 2",
            &["wrong.toml:25: policy.small = 0", "expected"],
        ),
        edited(
            "a parameter of another policy",
            "small = 2\nlarge = 2",
            "p = 0.35",
            &["wrong.toml:25: policy.p = 0.35", "unknown field"],
        ),
        edited(
            "a probability above 1",
            "kind = \"every\"\nsmall = 2\nlarge = 2",
            "kind = \"r2r\"\np = 1.5",
            &["wrong.toml:25: policy.p = 1.5", "expected"],
        ),
        edited(
            "probabilities that sum to 1.1",
            "kind = \"every\"\nsmall = 2\nlarge = 2",
            "kind = \"markov\"\nroutes = [[0.5, 0.6], [1, 0]]\ncommits = [[1, 1], [1, 1]]",
            &["wrong.toml:25: policy.routes.0 = [0.5, 0.6]", "1.1"],
        ),
        edited(
            "a policy that lacks a parameter",
            "kind = \"every\"\nsmall = 2\nlarge = 2",
            "kind = \"r-stitch\"\na = 0.1",
            &["wrong.toml:23: policy.b", "missing"],
        ),
        edited(
            "a policy that needs models",
            "kind = \"every\"\nsmall = 2\nlarge = 2",
            "kind = \"r-stitch\"\nsignal = \"measured\"",
            &["wrong.toml:25: policy.signal = \"measured\"", "expected `a` and `b`", "kind = \"replay\""],
        ),
        edited(
            "an unknown mode",
            "sharing = \"overlapped\"",
            "mode = \"lazy\"",
            &["wrong.toml:29: scheduler.mode = \"lazy\"", "expected one of"],
        ),
        edited(
            "a co-run rate above 1",
            "sharing = \"overlapped\"",
            "corun = [0.4, 1.2]",
            &["wrong.toml:29: scheduler.corun.1 = 1.2", "at most 1"],
        ),
    ]
}

fn combinations() -> Vec<Case> {
    let large = "cost = { constant_ms = 10.0 }\nthreshold = 1\ndevice = 1";
    vec![
        edited("a threshold that is never reached", "threshold = 1\ndevice = 0", "threshold = 5", &["wrong.toml:14: model.small.threshold = 5", "only 4 requests are in the system"]),
        call(
            "thresholds that are never reached together",
            "simulate --scenario pair.toml --set model.small.threshold=3 --set model.large.threshold=3",
            &["--set model.large.threshold=3", "3 of `small` and 3 of `large`", "only 4 requests are in the system"],
        ),
        edited("a list whose end is never reached", "threshold = 1\ndevice = 1", "threshold = [1, 2, 4]\ndevice = 1", &["wrong.toml:20: model.large.threshold.2 = 4", "only 3 requests are in the system"]),
        edited("thresholds that the mode ignores", "threshold = 1\ndevice = 1", "threshold = 2\ndevice = 1", &["wrong.toml:20: model.large.threshold = 2", "mode `eager` ignores thresholds"])
            .and("--set")
            .and("scheduler.mode=eager"),
        edited("models on one device without co-run rates", large, &large.replace("device = 1", "device = 0"), &["wrong.toml:28: scheduler.corun", "`small` and `large` overlap on device 0"]),
        call(
            "models that take turns in no order",
            "simulate --scenario pair.toml --set model.large.device=0 --set scheduler.sharing=exclusive",
            &["scheduler.order", "expected an order: one of `large-first`, `small-first`, `alternate`"],
        ),
        call(
            "three models side by side",
            "simulate --scenario pair.toml --set policy={kind=\"me\"} --set",
            &["scheduler.sharing", "more than two overlapping models"],
        )
        .and("model=[{ cost = { constant_ms = 1 }, device = 0 }, { cost = { constant_ms = 2 }, device = 0 }, { cost = { constant_ms = 3 }, device = 0 }]"),
        edited(
            "a threshold that open-loop arrivals may never reach",
            "concurrency = 4",
            "arrivals = { process = \"poisson\", rate_per_s = 2.0 }",
            &["--set model.large.threshold=2", "expected a `max_wait_ms` above 0"],
        )
        .and("--set")
        .and("model.large.threshold=2"),
        edited(
            "a closed and an open loop",
            "concurrency = 4",
            "concurrency = 4\narrivals = { process = \"poisson\", rate_per_s = 2.0 }",
            &["wrong.toml:4: workload.concurrency = 4", "expected one of them"],
        ),
        edited("too little KV memory for one request", "device = 1", "device = 1\nkv_tokens = 33", &["wrong.toml:22: model.large.kv_tokens = 33", "34 tokens"]),
        edited("measured jitter of what was not measured", "device = 1", "device = 1\njitter = \"measured\"", &["wrong.toml:22: model.large.jitter = \"measured\"", "expected a `cost` from a profile"]),
    ]
}

fn texts() -> Vec<Case> {
    let not_utf8 = [PAIR.as_bytes(), b"# \xff\n"].concat();
    vec![
        edited("no TOML", "[workload]", "[workload", &["wrong.toml:3:", "expected"]),
        edited("a field given twice", "requests = 5", "requests = 5\nrequests = 6", &["wrong.toml:6:", "requests"]),
        call("bytes that are no text", "simulate --scenario wrong.toml", &["wrong.toml:30:3: byte 0xff is not UTF-8"])
            .with("wrong.toml", not_utf8),
        call("an empty scenario", "sweep --scenario wrong.toml", &["wrong.toml", "expected"]).with("wrong.toml", ""),
    ]
}
