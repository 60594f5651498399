//! What is claimed in public about the published figures, computed from them or from a sweep.
//!
//! Verdicts are conditions on numbers, not opinions: each follows from the comparison that its basis names.

mod ablation;
mod original;
mod own;
pub(super) mod sweep;

use serde::Serialize;

use super::Paper;
use crate::failure::Failure;
use sweep::Curve;

/// A claim with its verdict.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Claim {
    /// What is claimed.
    pub(super) claim: String,
    /// The numbers.
    pub(super) value: String,
    /// What they say of it.
    pub(super) verdict: Verdict,
    /// Where they come from, and what decides.
    pub(super) basis: String,
}

/// What the numbers say of a claim.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub(super) enum Verdict {
    #[serde(rename = "holds")]
    Holds,
    #[serde(rename = "does not hold")]
    Fails,
    #[serde(rename = "holds only under a condition")]
    Conditional,
    #[serde(rename = "cannot be decided from these figures")]
    Undecided,
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Holds => "holds",
            Self::Fails => "does not hold",
            Self::Conditional => "holds only under a condition",
            Self::Undecided => "cannot be decided from these figures",
        })
    }
}

impl Verdict {
    /// Of a claim with parts: all hold, some do, none does.
    fn of_parts(parts: &[bool]) -> Self {
        match parts.iter().filter(|&&holds| holds).count() {
            0 => Self::Fails,
            n if n == parts.len() => Self::Holds,
            _ => Self::Conditional,
        }
    }

    /// Of a claim that is true or not.
    fn of(holds: bool) -> Self {
        Self::of_parts(&[holds])
    }
}

impl Claim {
    fn new(claim: &str, value: String, verdict: Verdict, basis: &str) -> Self {
        Self { claim: claim.to_owned(), value, verdict, basis: basis.to_owned() }
    }
}

/// Every claim, in the order in which they are listed, and the sweep that some rest on.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Claims {
    pub(super) claims: Vec<Claim>,
    pub(super) sweep: Vec<Curve>,
}

impl Claims {
    pub(super) fn new(paper: &Paper) -> Result<Self, Failure> {
        let sweep = sweep::curves(paper)?;
        Ok(Self { claims: all(paper, &sweep), sweep })
    }
}

fn all(paper: &Paper, curves: &[Curve]) -> Vec<Claim> {
    let mut claims = original::claims(paper);
    claims.extend(ablation::claims(&paper.published));
    claims.extend(own::claims(&paper.published, curves));
    claims
}

/// Whether a value is the claimed one to the decimals that it is claimed with.
fn agrees(value: f64, claimed: f64, decimals: i32) -> bool {
    // One unit of the last decimal: a claim may be rounded or cut.
    (value - claimed).abs() < 10_f64.powi(-decimals)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{curves, paper};
    use super::*;

    #[test]
    fn every_claim_has_numbers_and_a_verdict() {
        let claims = all(paper(), curves());
        assert_eq!(claims.len(), 13);
        for claim in &claims {
            assert!(!claim.basis.is_empty() && claim.value.chars().any(|char| char.is_ascii_digit()), "{claim:?}");
        }
        let verdict = |part: &str| {
            let found: Vec<&Claim> = claims.iter().filter(|claim| claim.claim.contains(part)).collect();
            assert_eq!(found.len(), 1, "{part}");
            found[0].verdict
        };
        assert_eq!(verdict("2.73 times the official code"), Verdict::Holds);
        assert_eq!(verdict("only one of the algorithms"), Verdict::Fails);
        assert_eq!(verdict("CITER loses"), Verdict::Fails);
        assert_eq!(verdict("Co-LLM and R-Stitch lose"), Verdict::Conditional);
        assert_eq!(verdict("39 times slower"), Verdict::Conditional);
        assert_eq!(verdict("76 times over"), Verdict::Fails);
        assert_eq!(verdict("denser"), Verdict::Conditional);
        assert_eq!(verdict("132.78 -> 228.10"), Verdict::Fails);
        assert_eq!(verdict("every configuration gives 73.02"), Verdict::Fails);
        assert_eq!(verdict("whole gain"), Verdict::Fails);
        assert_eq!(verdict("near N = 2"), Verdict::Conditional);
        assert_eq!(verdict("linearly per handoff"), Verdict::Fails);
        assert_eq!(verdict("first time"), Verdict::Undecided);
    }

    #[test]
    fn parts_decide_together() {
        assert_eq!(Verdict::of_parts(&[true, true]), Verdict::Holds);
        assert_eq!(Verdict::of_parts(&[true, false]), Verdict::Conditional);
        assert_eq!(Verdict::of_parts(&[false, false]), Verdict::Fails);
        assert!(agrees(2.7289, 2.73, 2) && agrees(0.9346, 0.93, 2) && !agrees(21.97, 76.0, 0));
    }
}
