use super::*;
use crate::kv::PAGE_TOKENS;

fn runner(dtype: DType) -> Runner {
    let config = Qwen3Config::built_in("tiny").unwrap();
    Runner::cpu(&config, &Weights::dummy_sensitive(5), dtype, RunnerOptions::for_tests()).unwrap()
}

fn row(slot: u32, tokens: &[u32], position: u32) -> RowInput<'_> {
    RowInput { slot, tokens, position, sampling: Sampling::Greedy }
}

/// Some tokens, another run of them for each `salt`.
fn tokens(salt: u32, n: u32) -> Vec<u32> {
    (0..n).map(|idx| (idx * 37 + salt * 101 + idx * idx) % 512).collect()
}

fn logits_of(runner: &mut Runner, rows: &[RowInput<'_>]) -> Vec<Vec<f32>> {
    runner.step(rows).unwrap();
    (0..rows.len()).map(|row| runner.logits(row).unwrap()).collect()
}

#[test]
fn an_extend_equals_single_decodes_to_the_bit() {
    for dtype in [DType::F32, DType::F64] {
        // Crosses one page boundary and ends on another.
        let all = tokens(1, 2 * PAGE_TOKENS as u32);
        let mut at_once = runner(dtype);
        let whole = logits_of(&mut at_once, &[row(0, &all, 0)]);
        let mut in_parts = runner(dtype);
        in_parts.step(&[row(3, &all[..5], 0)]).unwrap();
        in_parts.step(&[row(3, &all[5..17], 5)]).unwrap();
        let mut last = Vec::new();
        for position in 17..all.len() {
            last = logits_of(&mut in_parts, &[row(3, &all[position..=position], position as u32)]);
        }
        assert_eq!(last, whole);
    }
}

#[test]
fn a_batch_equals_its_rows_alone_to_the_bit() {
    let rows = [tokens(1, 1), tokens(2, 16), tokens(3, 17), tokens(4, 50)];
    let mut together = runner(DType::F32);
    let inputs: Vec<_> = (0..).zip(&rows).map(|(slot, tokens)| row(slot, tokens, 0)).collect();
    let batch = logits_of(&mut together, &inputs);
    for (input, batch) in inputs.iter().zip(batch) {
        assert_eq!(logits_of(&mut runner(DType::F32), &[*input])[0], batch);
    }
    // The same again for a step that mixes decode and extend rows on kept prefixes.
    let next = [tokens(5, 1), tokens(6, 3), tokens(7, 1), tokens(8, 20)];
    let inputs: Vec<_> =
        (0..).zip(rows.iter().zip(&next)).map(|(slot, (old, new))| row(slot, new, old.len() as u32)).collect();
    let batch = logits_of(&mut together, &inputs);
    for (slot, batch) in batch.into_iter().enumerate() {
        let mut alone = runner(DType::F32);
        alone.step(&[row(0, &rows[slot], 0)]).unwrap();
        assert_eq!(logits_of(&mut alone, &[row(0, &next[slot], rows[slot].len() as u32)])[0], batch);
    }
}

#[test]
fn an_early_token_changes_later_logits() {
    let mut prompt = tokens(1, 60);
    let before = logits_of(&mut runner(DType::F32), &[row(0, &prompt, 0)]);
    prompt[0] += 1;
    let after = logits_of(&mut runner(DType::F32), &[row(0, &prompt, 0)]);
    let largest = before[0].iter().zip(&after[0]).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(largest > 1e-2, "{largest}");
}

#[test]
fn the_order_of_early_tokens_matters() {
    let mut prompt = tokens(1, 20);
    let before = logits_of(&mut runner(DType::F32), &[row(0, &prompt, 0)]);
    prompt.swap(2, 9);
    assert_ne!(logits_of(&mut runner(DType::F32), &[row(0, &prompt, 0)]), before);
}

#[test]
fn a_truncated_request_goes_on_as_if_it_had_never_been_longer() {
    for kept in [1, 15, 16, 17, 31, 32] {
        let (first, wrong, right) = (tokens(1, kept), tokens(2, 20), tokens(3, 4));
        let mut detour = runner(DType::F32);
        detour.step(&[row(0, &first, 0)]).unwrap();
        detour.step(&[row(0, &wrong, kept)]).unwrap();
        detour.truncate(0, kept as usize).unwrap();
        let mut straight = runner(DType::F32);
        straight.step(&[row(0, &first, 0)]).unwrap();
        assert_eq!(logits_of(&mut detour, &[row(0, &right, kept)]), logits_of(&mut straight, &[row(0, &right, kept)]));
    }
}

#[test]
fn reused_pages_leave_no_trace() {
    let options = RunnerOptions { kv_tokens: 64, slots: 2, request_tokens_max: 64 };
    let config = Qwen3Config::built_in("tiny").unwrap();
    let mut reused = Runner::cpu(&config, &Weights::dummy_sensitive(5), DType::F32, options).unwrap();
    for slot in [0, 1] {
        reused.step(&[row(slot, &tokens(slot, 33), 0)]).unwrap();
    }
    reused.free(0).unwrap();
    reused.free(1).unwrap();
    let again = logits_of(&mut reused, &[row(1, &tokens(9, 40), 0)]);
    assert_eq!(again, logits_of(&mut runner(DType::F32), &[row(1, &tokens(9, 40), 0)]));
}

#[test]
fn a_full_cache_is_an_error_and_changes_nothing() {
    let options = RunnerOptions { kv_tokens: 16, slots: 1, request_tokens_max: 100 };
    let config = Qwen3Config::built_in("tiny").unwrap();
    let mut small = Runner::cpu(&config, &Weights::dummy(5), DType::F32, options).unwrap();
    small.step(&[row(0, &tokens(1, 30), 0)]).unwrap();
    let error = small.launch(&[row(0, &tokens(1, 3), 30)]).unwrap_err();
    assert!(matches!(error, RunnerError::Kv(KvError::Exhausted { wanted_pages: 1, free_pages: 0, .. })));
    assert_eq!(small.pages().kv_tokens(0).unwrap(), 30);
    small.step(&[row(0, &tokens(1, 2), 30)]).unwrap();
}

#[test]
fn wrong_rows_are_refused_by_name() {
    let mut runner = runner(DType::F32);
    runner.step(&[row(0, &[1, 2], 0)]).unwrap();
    let hot = Sampling::Temperature { temperature: 0.0, seed: 0 };
    let cases: [(&[RowInput<'_>], &str); 8] = [
        (&[], "at least one row"),
        (&[row(1, &[], 0)], "slot 1 has no new tokens"),
        (&[row(0, &[1], 2), row(0, &[1], 3)], "slot 0 has two rows"),
        (&[row(0, &[1], 1)], "starts at position 1 but 2 tokens are kept"),
        (&[row(0, &[512], 2)], "token 512 but the vocabulary ends at 512"),
        (&[row(16, &[1], 0)], "slot 16 does not exist"),
        (&[row(1, &[1; 1025], 0)], "at most 1024"),
        (&[RowInput { sampling: hot, ..row(0, &[1], 2) }], "temperature 0"),
    ];
    for (rows, wanted) in cases {
        let error = runner.launch(rows).unwrap_err().to_string();
        assert!(error.contains(wanted), "{error}");
    }
    runner.step(&[row(0, &[3], 2)]).unwrap();
}

#[test]
fn one_step_is_in_flight_at_a_time() {
    let mut runner = runner(DType::F32);
    assert!(matches!(runner.poll(), Err(RunnerError::Idle)));
    assert!(matches!(runner.logits(0), Err(RunnerError::Idle)));
    runner.launch(&[row(0, &[1], 0)]).unwrap();
    assert!(matches!(runner.launch(&[row(1, &[1], 0)]), Err(RunnerError::Busy)));
    assert!(matches!(runner.free(0), Err(RunnerError::Busy)));
    runner.free(1).unwrap();
    assert_eq!(runner.poll().unwrap().map(<[_]>::len), Some(1));
    assert!(matches!(runner.poll(), Err(RunnerError::Idle)));
    runner.free(0).unwrap();
}

#[test]
fn tempered_sampling_repeats_with_its_seed_and_varies_with_it() {
    let draw = |seed| {
        let sampling = Sampling::Temperature { temperature: 5.0, seed };
        runner(DType::F32).step(&[RowInput { sampling, ..row(0, &[1, 2], 0) }]).unwrap()[0].token
    };
    assert_eq!(draw(1), draw(1));
    assert!((2..10).any(|seed| draw(seed) != draw(1)));
}

#[test]
fn other_number_types_are_refused() {
    let config = Qwen3Config::built_in("tiny").unwrap();
    let error = Runner::cpu(&config, &Weights::dummy(1), DType::BF16, RunnerOptions::for_tests()).unwrap_err();
    assert!(error.to_string().contains("F32 or F64"), "{error}");
}

/// A driver gives each model a thread of its own.
#[test]
fn a_runner_may_move_to_another_thread() {
    let mut runner = runner(DType::F32);
    let token = runner.step(&[row(0, &[1, 2], 0)]).unwrap()[0].token;
    let moved = std::thread::spawn(move || runner.step(&[row(0, &[token], 2)]).map(<[_]>::len).unwrap());
    assert_eq!(moved.join().unwrap(), 1);
}
