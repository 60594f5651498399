//! Steps before the first measured one: on a GPU the first step of a shape sets libraries up and the second captures its graph.

use handoff_backend::driver::{Executor, ExecutorError};
use handoff_backend::{RowInput, Sampling};

use super::Limits;

/// Sizes between which a GPU's steps are padded; on a processor they are as good as any.
const SIZES: [u32; 13] = [1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256];
/// One to set up, one to capture, one to replay.
const TURNS: usize = 3;

/// Runs every shape of step that a run within `limits` can come to.
pub(crate) fn warm_up(executor: &mut dyn Executor, limits: Limits) -> Result<(), ExecutorError> {
    executor.reset()?;
    let vocabulary = executor.vocabulary().max(2);
    let mut outputs = Vec::new();
    let up_to = |n: u32| SIZES.into_iter().take_while(move |&size| size < n).chain([n]);
    let tokens_max = limits.requests.saturating_mul(limits.new_tokens).min(SIZES[SIZES.len() - 1]);
    for rows in up_to(limits.requests) {
        for tokens in up_to(tokens_max.max(rows)).filter(|&tokens| tokens >= rows) {
            let first = tokens - (rows - 1);
            if first >= limits.request_tokens {
                continue;
            }
            let prompt: Vec<u32> = (0..first).map(|position| position % vocabulary).collect();
            for _ in 0..TURNS {
                let row = |slot: u32| {
                    let tokens = if slot == 0 { &prompt[..] } else { &prompt[..1] };
                    RowInput { slot, tokens, position: 0, sampling: Sampling::Greedy }
                };
                let batch: Vec<RowInput<'_>> = (0..rows).map(row).collect();
                executor.launch(&batch)?;
                executor.poll(true, &mut outputs)?;
                executor.reset()?;
            }
        }
    }
    Ok(())
}
