//! Which look each line has: a name that stands in several figures looks the same in all of them.

use std::collections::BTreeMap;

use super::style::Look;

/// Names with a look of their own, by the index of the look. Names that stand in one figure have different ones.
const NAMED: [(&str, usize); 18] = [
    // Placements, and what they are held against.
    ("separate", 0),
    ("overlapped", 1),
    ("exclusive, large-first", 2),
    ("exclusive, small-first", 3),
    ("exclusive, alternate", 4),
    ("two large models", 5),
    ("large model alone", 6),
    // Where throughput comes from.
    ("simulated", 0),
    ("exact", 1),
    ("mean field", 2),
    ("fluid", 3),
    // Published algorithms, and how they are run.
    ("R2R", 0),
    ("R-Stitch", 1),
    ("Co-LLM", 2),
    ("CITER", 3),
    ("llm_only", 6),
    ("official", 1),
    ("tokenrouter", 0),
];

/// The largest concurrency with a look of its own; all such are powers of two.
const CONCURRENCY_MAX: u32 = 64;

/// The looks of the lines of one figure.
pub(super) struct Looks(BTreeMap<String, usize>);

impl Looks {
    /// The looks of lines with these labels, in the order in which they are drawn; a label may come several times.
    pub(super) fn of<'a>(labels: impl IntoIterator<Item = &'a str>) -> Self {
        let mut distinct: Vec<&str> = Vec::new();
        for label in labels {
            if !distinct.contains(&label) {
                distinct.push(label);
            }
        }
        let mut looks: BTreeMap<String, usize> = BTreeMap::new();
        let mut used: Vec<usize> = Vec::new();
        for label in &distinct {
            if let Some(idx) = reserved(label).filter(|idx| !used.contains(idx)) {
                looks.insert((*label).to_owned(), idx);
                used.push(idx);
            }
        }
        // The others take what is left, in their order.
        for label in distinct {
            if !looks.contains_key(label) {
                let idx = (0..).find(|idx| !used.contains(idx)).expect("there is always a further index");
                looks.insert(label.to_owned(), idx);
                used.push(idx);
            }
        }
        Self(looks)
    }

    /// The look of the line with this label, one of those given.
    pub(super) fn look(&self, label: &str) -> Look {
        Look::new(self.0.get(label).copied().unwrap_or(0))
    }
}

/// The look that a label has in every figure. `C = 4` may be one part of a label among others.
fn reserved(label: &str) -> Option<usize> {
    let named = NAMED.iter().find(|(name, _)| *name == label).map(|(_, idx)| *idx);
    named.or_else(|| label.split(", ").find_map(|part| of_concurrency(part.strip_prefix("C = ")?.parse().ok()?)))
}

fn of_concurrency(concurrency: u32) -> Option<usize> {
    let is_own = concurrency.is_power_of_two() && concurrency <= CONCURRENCY_MAX;
    is_own.then(|| usize::try_from(concurrency.trailing_zeros()).expect("at most 6"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_concurrency_looks_the_same_beside_whatever_others() {
        let all = Looks::of(["C = 1", "C = 2", "C = 4", "C = 8", "C = 16", "C = 32", "C = 64"]);
        let few = Looks::of(["C = 4", "C = 3", "C = 64"]);
        for label in ["C = 4", "C = 64"] {
            assert_eq!(all.look(label), few.look(label));
        }
        assert_eq!(all.look("C = 4"), Looks::of(["separate, C = 4"]).look("separate, C = 4"));
    }

    #[test]
    fn lines_of_one_figure_differ() {
        let labels: Vec<String> = (1..=40).map(|concurrency| format!("C = {concurrency}")).collect();
        let labels: Vec<&str> = labels.iter().map(String::as_str).chain(["simulated", "separate"]).collect();
        let looks = Looks::of(labels.iter().copied());
        for (idx, first) in labels.iter().enumerate() {
            for second in &labels[..idx] {
                assert_ne!(looks.look(first), looks.look(second), "{first} and {second}");
            }
        }
    }

    #[test]
    fn names_keep_their_looks_whichever_come_first() {
        let (one, other) = (Looks::of(["R2R", "x", "CITER"]), Looks::of(["CITER", "R2R", "y"]));
        assert_eq!((one.look("R2R"), one.look("CITER")), (other.look("R2R"), other.look("CITER")));
        assert_eq!(one.look("x"), other.look("y"));
    }
}
