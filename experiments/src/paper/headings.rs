//! What is written above and beside the figure of a published table.

/// The words of a table's figure.
#[derive(Debug)]
pub(super) struct Heading {
    /// The table's name on the command line.
    pub(super) table: &'static str,
    /// What it shows, in one line.
    pub(super) title: &'static str,
    /// The variable of the figure, with its unit.
    pub(super) x_title: &'static str,
    /// What stands at 0, 1 and so on of a variable whose values are words; empty for numbers.
    pub(super) x_words: &'static [&'static str],
    /// What is published, with its unit.
    pub(super) y_title: &'static str,
}

const CONCURRENCY: &str = "concurrency C (requests)";
const THROUGHPUT: &str = "throughput (tokens/s)";

/// In the order in which tables are shown.
const HEADINGS: [Heading; 8] = [
    Heading {
        table: "threshold",
        title: "R2R against the threshold of the large model",
        x_title: "threshold B1 of the large model (rows)",
        x_words: &[],
        y_title: THROUGHPUT,
    },
    Heading {
        table: "ablation",
        title: "R2R without one optimisation after another",
        x_title: CONCURRENCY,
        x_words: &[],
        y_title: THROUGHPUT,
    },
    Heading {
        table: "original_settings",
        title: "Each algorithm on its own models and data",
        x_title: CONCURRENCY,
        x_words: &[],
        y_title: THROUGHPUT,
    },
    Heading {
        table: "placement",
        title: "Both models on shared GPUs, and on separate ones",
        x_title: CONCURRENCY,
        x_words: &[],
        y_title: THROUGHPUT,
    },
    Heading {
        table: "model_pairs",
        title: "R2R at concurrency 4 on four pairs of Qwen3 models",
        x_title: "small + large model, Qwen3",
        x_words: &["0.6B + 8B", "0.6B + 32B", "1.7B + 8B", "4B + 8B"],
        y_title: THROUGHPUT,
    },
    Heading {
        table: "multi_node",
        title: "Both models in one node, and in two",
        x_title: CONCURRENCY,
        x_words: &[],
        y_title: THROUGHPUT,
    },
    Heading {
        table: "parallel",
        title: "R2R by tensor-parallel sizes: GPUs of the small + of the large model",
        x_title: CONCURRENCY,
        x_words: &[],
        y_title: THROUGHPUT,
    },
    Heading {
        table: "std_serving_step",
        title: "One step of the small model where every returning token is a new request",
        x_title: "operation of the step",
        x_words: &[
            "prefix matching",
            "locking cache nodes",
            "inference",
            "releasing locks",
            "updating radix cache",
            "other",
        ],
        y_title: "time (ms)",
    },
];

/// The heading of the table of this name.
pub(super) fn find(table: &str) -> Option<&'static Heading> {
    HEADINGS.iter().find(|heading| heading.table == table)
}

/// The heading of a table that this program predicts.
pub(super) fn heading(table: &str) -> &'static Heading {
    find(table).unwrap_or_else(|| panic!("`{table}` is a table"))
}

/// The names of all tables.
pub(super) fn names() -> String {
    HEADINGS.map(|heading| heading.table).join(", ")
}

#[cfg(test)]
mod tests {
    use super::super::published::{ModelPair, Published};
    use super::*;
    use crate::cli::PaperTable;

    #[test]
    fn every_table_has_its_heading() {
        assert_eq!(PaperTable::TABLES.map(PaperTable::name), HEADINGS.map(|heading| heading.table));
    }

    #[test]
    fn words_are_those_of_the_published_rows() {
        let published = Published::read();
        let operations: Vec<String> =
            published.std_serving_step.iter().map(|step| step.operation.replace('_', " ")).collect();
        assert_eq!(heading("std_serving_step").x_words, operations);
        let pair = |row: &ModelPair| {
            let size = |model: &str| model.trim_start_matches("Qwen3-").to_owned();
            format!("{} + {}", size(&row.small_model), size(&row.large_model))
        };
        let pairs: Vec<String> = published.model_pairs.iter().map(pair).collect();
        assert_eq!(heading("model_pairs").x_words, pairs);
    }
}
