use super::*;

/// A tokenizer that knows five words.
const TOKENIZER: &str = r#"{
    "version": "1.0",
    "truncation": { "direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 0 },
    "padding": null,
    "added_tokens": [],
    "normalizer": null,
    "pre_tokenizer": { "type": "Whitespace" },
    "post_processor": null,
    "decoder": null,
    "model": {
        "type": "WordLevel",
        "vocab": { "[UNK]": 0, "how": 1, "many": 2, "tokens": 3, "fit": 4 },
        "unk_token": "[UNK]"
    }
}"#;

/// Reads `lines` with the tokenizer.
fn read(lines: &str, vocabulary: u32) -> Result<Prompts, String> {
    let folder = tempfile::tempdir().unwrap();
    let (file, tokenizer) = (folder.path().join("p.jsonl"), folder.path().join("tokenizer.json"));
    fs::write(&file, lines).unwrap();
    fs::write(&tokenizer, TOKENIZER).unwrap();
    let prompts = Prompts::read(&file, Some(&tokenizer), vocabulary);
    prompts.map_err(|error| error.to_string().replace(&format!("{}/", folder.path().display()), ""))
}

#[test]
fn text_is_tokenised_and_token_ids_are_taken() {
    let lines =
        "{\"prompt\": \"how many tokens fit\", \"id\": 7}\n\n{\"text\": \"fit\\nwhere\"}\r\n{\"tokens\": [4, 4, 0]}";
    let prompts = read(lines, 5).unwrap();
    // Not truncated to two tokens, as the tokenizer's file asks for.
    assert_eq!(prompts.prompts, [vec![1, 2, 3, 4], vec![4, 0], vec![4, 4, 0]]);
    assert_eq!((prompts.n_prompts(), prompts.lengths(), prompts.token_max()), (3, vec![4, 2, 3], 4));
    assert_eq!(prompts.of_request(4), [4, 0]);
    assert_eq!(prompts.of_request(u64::MAX), prompts.of_request(u64::MAX % 3));
}

#[test]
fn the_workload_has_the_lengths_of_the_prompts() {
    let prompts = read("{\"tokens\": [1, 2]}\n{\"tokens\": [3]}", 5).unwrap();
    let lengths = |tokens| Lengths::uniform(tokens, 3 * tokens).unwrap();
    let arrivals = handoff_sim::workload::Arrivals::closed_loop(2).unwrap();
    let before = Workload::new(arrivals, 10, lengths(50), lengths(20)).unwrap();
    let after = prompts.workload(&before).unwrap();
    for request_idx in 0..20 {
        let expected = (2 - u32::try_from(request_idx % 2).unwrap(), before.lengths(9, request_idx).1);
        assert_eq!(after.lengths(9, request_idx), expected);
    }
}

#[test]
fn wrong_lines_are_named() {
    let long = format!("{{\"tokens\": [0, \"{}\"]}}", "x".repeat(200));
    let cases = [
        ("", "p.jsonl: there are no prompts, expected a JSON object a line"),
        (" \n\t\n", "p.jsonl: there are no prompts, expected a JSON object a line"),
        (
            "{\"tokens\": [1]}\n{\"tokens\": [1}\n",
            "p.jsonl:2: expected a JSON object: expected `,` or `]` at column 14",
        ),
        ("\n[1, 2]\n", "p.jsonl:2: expected a JSON object: found [1,2]"),
        (
            "{\"question\": \"how\"}",
            "p.jsonl:1: there is no prompt, expected one of the fields `prompt`, `text` or `tokens`",
        ),
        (
            "{\"text\": \"how\", \"prompt\": \"many\"}",
            "p.jsonl:1: `prompt` and `text` are both given, expected one of them",
        ),
        ("{\"prompt\": [\"how\"]}", "p.jsonl:1: `prompt` = [\"how\"]: expected text"),
        ("{\"text\": null}", "p.jsonl:1: `text` = null: expected text"),
        ("{\"tokens\": \"how\"}", "p.jsonl:1: `tokens` = \"how\": expected a list of token ids"),
        ("{\"tokens\": [0, 5]}", "p.jsonl:1: `tokens[1]` = 5: expected a token id, a whole number below 5"),
        ("{\"tokens\": [-1]}", "p.jsonl:1: `tokens[0]` = -1: expected a token id, a whole number below 5"),
        ("{\"tokens\": [1.5]}", "p.jsonl:1: `tokens[0]` = 1.5: expected a token id, a whole number below 5"),
        ("{\"tokens\": []}", "p.jsonl:1: `tokens` has 0 tokens, expected 1 to 16777216"),
        ("{\"prompt\": \" \"}", "p.jsonl:1: `prompt` has 0 tokens, expected 1 to 16777216"),
    ];
    for (lines, expected) in cases {
        assert_eq!(read(lines, 5).unwrap_err(), expected, "{lines}");
    }
    let error = read(&long, 5).unwrap_err();
    assert!(error.contains("xxx...: expected a token id"), "{error}");
}

#[test]
fn a_tokenizer_of_another_model_is_noticed() {
    let expected = "p.jsonl:1: `prompt` has token 4, expected ids below 4: the tokenizer is that of another model";
    assert_eq!(read("{\"prompt\": \"how fit\"}", 4).unwrap_err(), expected);
}

#[test]
fn files_that_cannot_be_used_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("p.jsonl"), "{\"tokens\": [1]}\n{\"text\": \"how\"}").unwrap();
    fs::write(path("broken.json"), "{\"version\": \"1.0\"}").unwrap();
    let error = |file: &str, tokenizer: Option<&str>| {
        Prompts::read(&path(file), tokenizer.map(path).as_deref(), 9).unwrap_err().to_string()
    };
    assert!(error("none.jsonl", None).contains("none.jsonl: "));
    assert!(error("p.jsonl", Some("none.json")).contains("none.json: "));
    assert!(error("p.jsonl", Some("broken.json")).contains("broken.json: no tokenizer: "));
    assert!(error("p.jsonl", None).ends_with(
        "p.jsonl:2: `text` is text and there is no tokenizer, expected a tokenizer.json beside the model, or `tokens`"
    ));
}
