//! Rows of a grid: the key of a cell, and `rows.csv`.
//!
//! A row type is a flat struct: csv has no nesting. Floats are written in the shortest form that reads back as the same
//! number, a missing value as an empty cell.

use std::fmt::{self, Display, Write as _};

use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};

/// The longest name that is used as a file name; file systems allow 255 bytes, some of which go to a suffix.
const MAX_STEM_BYTES: usize = 180;

/// Tells a cell of a grid from all others, for example `placement=separate,every=4,concurrency=16`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CellKey(String);

impl CellKey {
    /// The key of the cell at these coordinates: a name and a value for each axis of the grid, in the order of the axes.
    pub(crate) fn new<'a>(coordinates: impl IntoIterator<Item = (&'a str, &'a dyn Display)>) -> Self {
        let parts: Vec<String> = coordinates.into_iter().map(|(name, value)| format!("{name}={value}")).collect();
        Self(parts.join(","))
    }

    /// The key as text.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// The key as the name of a file without its suffix: different keys give different names. A character that could
    /// mean something to a file system is written as `%` and its code.
    pub(crate) fn file_stem(&self) -> String {
        let mut stem = String::new();
        for byte in self.0.bytes() {
            // Upper case is escaped too, because some file systems do not tell it from lower case.
            if byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_=,.".contains(&byte) {
                stem.push(char::from(byte));
            } else {
                write!(stem, "%{byte:02x}").expect("writing to a string does not fail");
            }
        }
        if stem.len() <= MAX_STEM_BYTES { stem } else { sha256_hex(self.0.as_bytes()) }
    }
}

impl Display for CellKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Rows as CSV with a header; no rows, no header.
pub(crate) fn to_csv<R: Serialize>(rows: &[R]) -> Result<Vec<u8>, csv::Error> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    for row in rows {
        writer.serialize(row)?;
    }
    writer.into_inner().map_err(|error| csv::Error::from(error.into_error()))
}

/// Reads what `to_csv` wrote. An error names the line and the column.
pub(crate) fn from_csv<R: DeserializeOwned>(bytes: &[u8]) -> Result<Vec<R>, csv::Error> {
    csv::Reader::from_reader(bytes).deserialize().collect()
}

/// The SHA-256 digest of `bytes` in lower-case hexadecimal.
pub(crate) fn sha256_hex(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in Sha256::digest(bytes) {
        write!(text, "{byte:02x}").expect("writing to a string does not fail");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde::Deserialize;

    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    struct Row {
        placement: String,
        order: Option<String>,
        every: u32,
        throughput: f64,
        speedup: Option<f64>,
        flagged: bool,
    }

    fn any_row() -> impl Strategy<Value = Row> {
        let finite = prop::num::f64::NORMAL | prop::num::f64::ZERO | prop::num::f64::SUBNORMAL;
        // An empty text reads back as absent, so the names are not empty.
        (
            "\\PC{1,8}",
            prop::option::of("[a-z\",\n]{1,8}"),
            any::<u32>(),
            finite,
            prop::option::of(finite),
            any::<bool>(),
        )
            .prop_map(|(placement, order, every, throughput, speedup, flagged)| Row {
                placement,
                order,
                every,
                throughput,
                speedup,
                flagged,
            })
    }

    proptest! {
        #[test]
        fn rows_read_back_as_written(rows in prop::collection::vec(any_row(), 0..8)) {
            let bytes = to_csv(&rows).unwrap();
            let read: Vec<Row> = from_csv(&bytes).unwrap();
            prop_assert_eq!(&read, &rows);
            prop_assert_eq!(to_csv(&read).unwrap(), bytes);
        }

        #[test]
        fn different_keys_have_different_file_names(a in "\\PC{0,120}", b in "\\PC{0,120}") {
            let stem = |text: &str| CellKey(text.to_owned()).file_stem();
            prop_assert_eq!(a == b, stem(&a) == stem(&b));
            prop_assert!(stem(&a).len() <= MAX_STEM_BYTES);
            prop_assert!(stem(&a).chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_=,.%".contains(c)));
        }
    }

    #[test]
    fn floats_are_written_in_the_shortest_form() {
        let bytes = to_csv(&[(0.1_f64 + 0.2, 100.0_f64, 1.0e-9_f64)]).unwrap();
        assert_eq!(String::from_utf8(bytes).unwrap(), "0.30000000000000004,100.0,1e-9\n");
    }

    #[test]
    fn a_wrong_cell_is_named() {
        let text = "placement,order,every,throughput,speedup,flagged\nseparate,,four,1.0,,false\n";
        let error = from_csv::<Row>(text.as_bytes()).unwrap_err().to_string();
        assert!(error.contains("line: 2") && error.contains("field 2"), "{error}");
    }

    #[test]
    fn a_key_spells_out_its_coordinates() {
        let key = CellKey::new([("placement", &"separate" as &dyn Display), ("every", &4), ("cost", &"a/B")]);
        assert_eq!(key.as_str(), "placement=separate,every=4,cost=a/B");
        assert_eq!(key.file_stem(), "placement=separate,every=4,cost=a%2f%42");
    }

    #[test]
    fn the_digest_is_that_of_fips_180_2() {
        // FIPS 180-2, appendix B.1: the one-block message "abc".
        assert_eq!(sha256_hex(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }
}
