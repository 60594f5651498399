//! Which fields of its scenarios `paper` leaves to `--set`.
//!
//! The tables vary the rest, or the calibration fits it, or the closed form for a single request does not know it: overriding such a field would print
//! figures of another setting under the name of the published one.

use crate::failure::Failure;

/// The fields that may be overridden: assumptions that nothing is fitted to and that leave a single request as it is. `*` stands for a model.
const FREE: [&str; 8] = [
    "workload.requests",
    "workload.start",
    "model.*.jitter",
    "model.*.jitter_cv",
    "model.*.hold",
    "model.*.max_wait_ms",
    "scheduler.first",
    "scheduler.mix_extend",
];

/// Checks the overrides of `--set`.
///
/// # Errors
/// If one of them names a field that `paper` owns. What is wrong otherwise the scenario finds.
pub(super) fn check(sets: &[String]) -> Result<(), Failure> {
    for set in sets {
        let Some((path, _)) = set.split_once('=') else { continue };
        let path = path.trim();
        if !FREE.iter().any(|free| matches(free, path)) {
            return Err(Failure::Argument(format!(
                "--set {set}: `{path}` is what the tables vary or the calibration fits, expected one of {}",
                FREE.join(", ")
            )));
        }
    }
    Ok(())
}

fn matches(pattern: &str, path: &str) -> bool {
    let (pattern, path): (Vec<&str>, Vec<&str>) = (pattern.split('.').collect(), path.split('.').collect());
    pattern.len() == path.len() && pattern.iter().zip(&path).all(|(wanted, word)| *wanted == "*" || wanted == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(set: &str) -> Result<(), String> {
        check(&[set.to_owned()]).map_err(|error| error.to_string())
    }

    #[test]
    fn assumptions_are_free() {
        for set in
            ["scheduler.mix_extend=false", " model.large.jitter_cv = 0.1", "model.0.hold=all", "workload.requests=9"]
        {
            assert_eq!(checked(set), Ok(()), "{set}");
        }
    }

    #[test]
    fn what_the_tables_vary_and_what_is_fitted_is_refused_by_name() {
        for path in [
            "workload.concurrency",
            "workload.output_tokens",
            "workload.prompt_tokens",
            "workload.warmup",
            "workload",
            "model.large.threshold",
            "model.small.cost.constant_ms",
            "model.small.device",
            "policy.p",
            "policy.kind",
            "scheduler.corun",
            "scheduler.mode",
            "scheduler.sharing",
            "scheduler.hop_us",
            "seed",
        ] {
            let error = checked(&format!("{path}=1")).unwrap_err();
            assert!(
                error.contains(&format!("`{path}`")) && error.contains("expected one of workload.requests"),
                "{error}"
            );
        }
    }
}
