//! Whatever the input, the answer is a scenario or an error of one line, never a panic.

use proptest::prelude::*;

use super::super::*;
use super::{EXAMPLE, files};

fn check(bytes: &[u8], sets: &[&str]) {
    let parsed = Source::from_bytes("scenario.toml", bytes)
        .and_then(|source| sets.iter().try_fold(source, |source, set| source.with_set(set)))
        .and_then(|source| Scenario::parse(&source, &files()));
    if let Err(error) = parsed {
        let text = error.to_string();
        assert_eq!(text.lines().count(), 1, "{text:?}");
        assert!(text.len() < 4_000, "{text}");
        let is_placed = text.starts_with("scenario.toml") || text.starts_with("--set ");
        assert!(is_placed && !error.message().is_empty(), "{text}");
    }
}

/// Pieces that matter to a scenario, right and wrong.
fn piece() -> impl Strategy<Value = String> {
    const WORDS: &[&str] = &[
        "0",
        "-1",
        "1",
        "3",
        "1e308",
        "1e999",
        "nan",
        "-inf",
        "0.5",
        "99999999999999999999999",
        "\"x\"",
        "\"\"",
        "true",
        "[]",
        "[1]",
        "[0.5, 0.5]",
        "{}",
        "{ csv = \"lengths.csv\" }",
        "{ uniform = [1, 2] }",
        "[[0.5, 0.5], [1, 0]]",
        "\"eager\"",
        "\"exclusive\"",
        "\"every\"",
        "1979-05-27",
        "=",
        "\n",
        ",",
        "'",
        "\"",
        "]",
        "}",
        "#",
        "\u{feff}",
        "\u{0}",
        "[[model]]",
        "[policy]",
        "[a.b]",
        "threshold",
        "cost",
        "é",
    ];
    prop_oneof![4 => prop::sample::select(WORDS).prop_map(str::to_owned), 1 => any::<String>()]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        check(&bytes, &[]);
    }

    #[test]
    fn any_mutation_of_a_valid_scenario(edits in prop::collection::vec((any::<prop::sample::Index>(), 0..40_usize, piece()), 1..4)) {
        let mut text: Vec<char> = EXAMPLE.chars().collect();
        for (at, length, piece) in edits {
            let start = at.index(text.len());
            let end = (start + length).min(text.len());
            text.splice(start..end, piece.chars());
        }
        check(text.into_iter().collect::<String>().as_bytes(), &[]);
    }

    #[test]
    fn any_value_of_any_line(line in any::<prop::sample::Index>(), piece in piece()) {
        let mut lines: Vec<String> = EXAMPLE.lines().map(str::to_owned).collect();
        let idx = line.index(lines.len());
        if let Some((key, _)) = lines[idx].split_once('=') {
            lines[idx] = format!("{key}= {piece}");
        }
        check(lines.join("\n").as_bytes(), &[]);
    }

    #[test]
    fn any_override(path in prop::sample::select([
        "seed", "workload", "workload.concurrency", "workload.requests", "workload.prompt_tokens", "workload.output_tokens.lognormal", "workload.arrivals",
        "model", "model.small", "model.large.cost", "model.0.cost.affine", "model.1.threshold", "model.large.threshold.3", "model.9.device", "model.large.device",
        "model.large.router", "model.small.host", "model.small.kv_tokens", "policy", "policy.kind", "policy.p", "policy.phase.0.entry", "scheduler", "scheduler.mode",
        "scheduler.corun", "scheduler.fresh.fixed_ms", "scheduler.hop_us", "x.y.z",
    ].as_slice()), value in piece()) {
        check(EXAMPLE.as_bytes(), &[&format!("{path}={value}")]);
    }

    #[test]
    fn any_set_and_any_grid(text in any::<String>(), piece in piece()) {
        check(EXAMPLE.as_bytes(), &[&text]);
        for list in [text, piece] {
            let _ = parse_list(&list);
            let _ = Axis::parse(&format!("seed={list}"));
        }
    }
}
