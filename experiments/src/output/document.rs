//! Documents on standard output: one JSON document, or rows as CSV.

use std::io::{self, Write};

use serde::Serialize;

use super::cells;

/// A document together with the number of its schema, which is raised whenever a field changes its meaning or goes.
#[derive(Debug, Serialize)]
struct Document<'a, T> {
    schema: u32,
    #[serde(flatten)]
    body: &'a T,
}

/// Writes `body`, which must serialise to an object, as one JSON document that begins with `schema`. Values that are
/// not numbers (an undefined mean, say) become null.
pub(crate) fn write_json<T: Serialize>(out: &mut dyn Write, schema: u32, body: &T) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, &Document { schema, body }).map_err(io::Error::from)?;
    writeln!(out)?;
    out.flush()
}

/// Writes rows as CSV with a header, exactly as `rows.csv` holds them.
pub(crate) fn write_csv<R: Serialize>(out: &mut dyn Write, rows: &[R]) -> io::Result<()> {
    out.write_all(&cells::to_csv(rows).map_err(io::Error::from)?)?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize)]
    struct Body {
        throughput: f64,
        speedup: Option<f64>,
        ci_low: f64,
    }

    const BODY: Body = Body { throughput: 0.1, speedup: None, ci_low: f64::NAN };

    #[test]
    fn json_begins_with_its_schema_and_has_null_for_what_is_not_a_number() {
        let mut out = Vec::new();
        write_json(&mut out, 3, &BODY).unwrap();
        let expected = "{\n  \"schema\": 3,\n  \"throughput\": 0.1,\n  \"speedup\": null,\n  \"ci_low\": null\n}\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn csv_has_a_header_and_empty_cells() {
        let mut out = Vec::new();
        write_csv(&mut out, &[BODY]).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "throughput,speedup,ci_low\n0.1,,NaN\n");
    }
}
