use super::*;

fn workload(prompt: Lengths, output: Lengths) -> Workload {
    Workload::new(Arrivals::ClosedLoop { concurrency: 4 }, 200, prompt, output).unwrap()
}

fn constant(tokens: u32) -> Lengths {
    Lengths::Constant(tokens)
}

#[test]
fn defaults_are_those_of_a_scenario() {
    let workload = workload(constant(100), constant(2_048));
    assert_eq!((workload.start(), workload.warmup(), workload.precision()), (Start::Random, Warmup::Auto, 0.01));
    assert_eq!((workload.requests(), workload.tokens_max()), (200, 2_148));
}

#[test]
fn a_request_has_the_same_lengths_whoever_asks_and_when() {
    let workload = workload(Lengths::Lognormal { mean: 100.0, cv: 0.5 }, Lengths::Uniform { low: 1, high: 5_000 });
    let forward: Vec<_> = (0..50).map(|request_idx| workload.lengths(7, request_idx)).collect();
    let backward: Vec<_> = (0..50).rev().map(|request_idx| workload.lengths(7, request_idx)).collect();
    assert!(forward.iter().eq(backward.iter().rev()));
    assert_ne!(forward, (0..50).map(|request_idx| workload.lengths(8, request_idx)).collect::<Vec<_>>());
    assert_ne!(forward[0], forward[1]);
}

#[test]
fn changing_the_prompts_leaves_the_outputs_alone() {
    let output = Lengths::Lognormal { mean: 500.0, cv: 1.0 };
    let outputs = |prompt: Lengths| -> Vec<u32> {
        let workload = workload(prompt, output.clone());
        (0..50).map(|request_idx| workload.lengths(7, request_idx).1).collect()
    };
    let expected = outputs(constant(3));
    assert_eq!(outputs(Lengths::Lognormal { mean: 100.0, cv: 2.0 }), expected);
    assert_eq!(outputs(Lengths::Uniform { low: 5, high: 70 }), expected);
    assert_eq!(outputs(Lengths::Recorded(vec![1, 2, 3])), expected);
}

#[test]
fn refuses_parts_that_cannot_be_run() {
    let closed = || Arrivals::ClosedLoop { concurrency: 4 };
    let text = |result: Result<Workload, WorkloadError>| result.unwrap_err().to_string();
    assert_eq!(
        text(Workload::new(Arrivals::ClosedLoop { concurrency: 0 }, 1, constant(1), constant(1))),
        "`concurrency` is 0, expected a whole number from 1 to 1048576"
    );
    assert_eq!(
        text(Workload::new(closed(), 1, constant(0), constant(1))),
        "`prompt_tokens`: the constant length is 0, expected a whole number from 1 to 16777216"
    );
    assert_eq!(
        text(Workload::new(closed(), 1, constant(1), Lengths::Uniform { low: 150, high: 50 })),
        "`output_tokens`: `uniform` is [150, 50], expected the lower bound first"
    );
    assert_eq!(text(Workload::new(closed(), 0, constant(1), constant(1))), "`requests` is 0, expected at least 1");
    let workload = workload(constant(1), constant(1));
    for (precision, shown) in [(0.0, "0"), (1.0, "1"), (f64::NAN, "NaN"), (-0.5, "-0.5")] {
        assert_eq!(
            text(workload.clone().with_precision(precision)),
            format!("`precision` is {shown}, expected a number above 0 and below 1")
        );
    }
}

#[test]
fn a_trace_must_last_for_the_run() {
    let trace = Arrivals::Trace { arrivals_ns: vec![0, 10, 20] };
    let workload = Workload::new(trace.clone(), 2, constant(1), constant(1)).unwrap();
    assert!(workload.clone().with_warmup(Warmup::Requests(1)).is_ok());
    assert_eq!(
        workload.with_warmup(Warmup::Requests(2)).unwrap_err().to_string(),
        "`requests` is 2 after a `warmup` of 2, expected at most 3 together: the trace has no more arrivals"
    );
    assert_eq!(
        Workload::new(trace, 4, constant(1), constant(1)).unwrap_err(),
        WorkloadError::TraceTooShort { requests: 4, warmup: 0, arrivals: 3 }
    );
}
