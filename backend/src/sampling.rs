//! From logits to a token and to a signal of doubt.

use crate::qwen3::weights::mix;

/// How a row's next token is chosen from its logits.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Sampling {
    /// The token with the highest logit; of equals, the one with the lowest id.
    #[default]
    Greedy,
    /// A draw from softmax(logits / temperature). The same seed and logits give the same token, whatever else is in the batch.
    Temperature {
        /// Greater than 0.
        temperature: f32,
        /// The caller's draw; give every token of every request another one.
        seed: u64,
    },
}

/// The chosen token.
///
/// A tempered draw adds Gumbel noise to every logit over the temperature and takes the highest, which is a draw from the softmax (Maddison,
/// Tarlow and Minka, "A* sampling", 2014). The noise is a hash of seed and token id, so a GPU can draw in parallel and agree.
///
/// # Panics
/// If there are no logits.
#[must_use]
pub fn choose(logits: &[f64], sampling: Sampling) -> u32 {
    assert!(!logits.is_empty(), "a model has a vocabulary");
    let score = |(idx, &logit): (u32, &f64)| match sampling {
        Sampling::Greedy => logit,
        Sampling::Temperature { temperature, seed } => logit / f64::from(temperature) + gumbel(seed, idx),
    };
    let mut best = (0, f64::NEG_INFINITY);
    for entry in (0..).zip(logits) {
        let score = score(entry);
        if score > best.1 {
            best = (entry.0, score);
        }
    }
    best.0
}

/// Entropy of softmax(logits) over the entropy of a uniform choice among as many tokens: 0 is certain, 1 is no idea.
///
/// With m the highest logit, s the sum of e^(x - m) and w the sum of (x - m) e^(x - m), the entropy is ln s - w / s.
#[must_use]
pub fn normalised_entropy(logits: &[f64]) -> f64 {
    if logits.len() < 2 {
        return 0.0;
    }
    let highest = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let (mut sum, mut weighted) = (0.0, 0.0);
    for &logit in logits {
        let below = logit - highest;
        let share = below.exp();
        sum += share;
        // A logit of minus infinity has no share and adds nothing.
        weighted += if share > 0.0 || below.is_nan() { below * share } else { 0.0 };
    }
    ((sum.ln() - weighted / sum) / (logits.len() as f64).ln()).clamp(0.0, 1.0)
}

/// Standard Gumbel noise from a hash of seed and token id.
fn gumbel(seed: u64, token: u32) -> f64 {
    let hash = mix(seed ^ u64::from(token).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let uniform = ((hash >> 40) as f64 + 0.5) / 16_777_216.0;
    -(-uniform.ln()).ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn greedy_takes_the_highest_and_of_equals_the_first() {
        assert_eq!(choose(&[0.0, 3.0, -1.0, 3.0], Sampling::Greedy), 1);
        assert_eq!(choose(&[f64::NEG_INFINITY, -5.0], Sampling::Greedy), 1);
    }

    #[test]
    fn entropy_is_zero_when_certain_and_one_when_uniform() {
        assert_eq!(normalised_entropy(&[800.0, 0.0, 0.0]), 0.0);
        assert!((normalised_entropy(&[2.0; 7]) - 1.0).abs() < 1e-12);
        assert!(normalised_entropy(&[f64::NEG_INFINITY, 1.0]) < 1e-12);
        assert!(normalised_entropy(&[f64::NAN, 1.0]).is_nan());
    }

    /// Probabilities 1/2, 1/4, 1/4: 1.5 bits of at most log2(3).
    #[test]
    fn entropy_of_a_known_distribution() {
        let logits = [0.5_f64.ln() + 9.0, 0.25_f64.ln() + 9.0, 0.25_f64.ln() + 9.0];
        assert!((normalised_entropy(&logits) - 1.5 / 3.0_f64.log2()).abs() < 1e-12);
    }

    fn frequencies(temperature: f32) -> [f64; 3] {
        const DRAWS: u64 = 40_000;
        let mut counts = [0.0; 3];
        for draw in 0..DRAWS {
            let token = choose(&[0.0, 1.0, 2.0], Sampling::Temperature { temperature, seed: mix(draw) });
            counts[token as usize] += 1.0 / DRAWS as f64;
        }
        counts
    }

    #[test]
    fn tempered_draws_follow_the_softmax() {
        for temperature in [0.5_f32, 1.0, 3.0] {
            let weights = [0.0, 1.0, 2.0].map(|logit: f64| (logit / f64::from(temperature)).exp());
            let total: f64 = weights.iter().sum();
            for (found, weight) in frequencies(temperature).iter().zip(weights) {
                // Five standard errors of a frequency near 1/2.
                assert!((found - weight / total).abs() < 0.0125, "{temperature}: {found} and {}", weight / total);
            }
        }
    }

    #[test]
    fn a_seed_repeats() {
        let sampling = Sampling::Temperature { temperature: 1.0, seed: 9 };
        assert_eq!(choose(&[0.0; 50], sampling), choose(&[0.0; 50], sampling));
    }
}
