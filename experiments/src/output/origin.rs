//! What a figure says about where its rows come from.

use super::manifest::{Manifest, Program, RunFacts};

/// Where the rows of a figure come from.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    /// The name of the scenario.
    pub(crate) scenario: String,
    /// What the numbers were obtained on, as in the manifest.
    pub(crate) device: String,
    seed: u64,
    program: String,
}

impl Origin {
    /// Of rows that this program has just computed.
    pub(crate) fn of_run(facts: &RunFacts) -> Self {
        Self {
            scenario: facts.scenario.name.clone(),
            device: facts.device.clone(),
            seed: facts.seed,
            program: program_words(&Program::current()),
        }
    }

    /// Of rows in a folder with a manifest. Rows that are no longer those that it lists are not said to be of its program.
    pub(crate) fn of_manifest(manifest: &Manifest, is_unchanged: bool) -> Self {
        let program = program_words(&manifest.program);
        Self {
            scenario: manifest.scenario.name.clone(),
            device: manifest.device.clone(),
            seed: manifest.seed,
            program: if is_unchanged { program } else { format!("edited since {program} wrote the rows") },
        }
    }

    /// Of rows that nothing is known about but their seed.
    pub(crate) fn unknown(seed: Option<u64>) -> Self {
        let unknown = || "unknown".to_owned();
        Self {
            scenario: unknown(),
            device: unknown(),
            seed: seed.unwrap_or(0),
            program: "of unknown origin".to_owned(),
        }
    }

    /// The parts of the line below a figure: how its values were obtained with scenario and seed, notes, and the program.
    pub(crate) fn caption(&self, how: &str, detail: Option<&str>, notes: &[&str]) -> Vec<String> {
        let detail = detail.map_or_else(String::new, |detail| format!(", {detail}"));
        let first = format!("{how}, scenario {}, seed {}{detail}", self.scenario, self.seed);
        let notes = notes.iter().map(|note| (*note).to_owned());
        std::iter::once(first).chain(notes).chain([self.program.clone()]).collect()
    }
}

fn program_words(program: &Program) -> String {
    let commit: String = program.commit.chars().take(10).collect();
    let changed = if program.sources == "changed" { " with changes" } else { "" };
    format!("handoff {}, commit {commit}{changed}", program.version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caption_has_scenario_seed_and_commit() {
        let facts = super::super::folder::tests::facts();
        let caption = Origin::of_run(&facts).caption("simulated", Some("10 starts"), &["a note"]);
        assert_eq!(caption[..2], ["simulated, scenario default, seed 7, 10 starts", "a note"]);
        assert!(caption[2].starts_with("handoff ") && caption[2].contains(", commit "), "{caption:?}");
    }

    #[test]
    fn rows_without_a_manifest_are_of_unknown_origin() {
        let caption = Origin::unknown(Some(9)).caption("simulated", None, &[]);
        assert_eq!(caption, ["simulated, scenario unknown, seed 9", "of unknown origin"]);
    }
}
