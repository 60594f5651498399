//! Plain-text tables for the terminal: numbers aligned on the right, units in the header, no colours.
//!
//! A table wider than the terminal is printed in blocks of columns, one below the other, each of which repeats the
//! leading columns that tell the rows apart.

use std::io::IsTerminal;

/// Between two columns.
const GAP: usize = 2;

/// The width of the terminal behind standard output; nothing when standard output is a file or a pipe, where lines are
/// never folded.
pub(crate) fn terminal_width() -> Option<usize> {
    if !std::io::stdout().is_terminal() {
        return None;
    }
    terminal_size::terminal_size().map(|(width, _)| usize::from(width.0))
}

/// `value` with `digits` significant digits, in plain notation where that is readable; `-` for a value that is not a
/// number.
pub(crate) fn significant(value: f64, digits: usize) -> String {
    if value.is_nan() {
        return "-".to_owned();
    }
    if value == 0.0 || value.is_infinite() {
        return format!("{value}");
    }
    // Through the exponent form, so that 9.996 with three digits counts as 10.0 and not as 10.00.
    let rounded = format!("{value:.*e}", digits.saturating_sub(1));
    let exponent: i64 = rounded.rsplit('e').next().and_then(|text| text.parse().ok()).unwrap_or(0);
    if !(-4..9).contains(&exponent) {
        return rounded;
    }
    let decimals = i64::try_from(digits).unwrap_or(i64::MAX).saturating_sub(1).saturating_sub(exponent);
    format!("{value:.*}", usize::try_from(decimals).unwrap_or(0))
}

/// How the cells of a column line up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Align {
    Left,
    Right,
}

#[derive(Clone, Debug)]
struct Column {
    /// The words of the header, one line each, as many lines as the column needs to stay narrow.
    title: String,
    align: Align,
}

/// A table under construction: columns first, then rows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    columns: Vec<Column>,
    n_keys: usize,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table without columns.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Adds a column of words, aligned on the left.
    pub(crate) fn text(mut self, title: &str) -> Self {
        self.columns.push(Column { title: title.to_owned(), align: Align::Left });
        self
    }

    /// Adds a column of numbers, aligned on the right. The title carries the unit: `throughput (tokens/s)`.
    pub(crate) fn number(mut self, title: &str) -> Self {
        self.columns.push(Column { title: title.to_owned(), align: Align::Right });
        self
    }

    /// Makes the columns added so far the key: they are repeated in every block of a folded table.
    pub(crate) fn key(mut self) -> Self {
        self.n_keys = self.columns.len();
        self
    }

    /// Adds a row. One cell per column: a different number is a mistake of the caller.
    pub(crate) fn row<I: IntoIterator<Item = String>>(&mut self, cells: I) {
        let cells: Vec<String> = cells.into_iter().collect();
        assert_eq!(cells.len(), self.columns.len(), "a row has one cell per column");
        self.rows.push(cells);
    }

    /// The table as text that ends in a line break, folded to `width_chars` if that is given.
    pub(crate) fn render(&self, width_chars: Option<usize>) -> String {
        let widths: Vec<usize> = (0..self.columns.len()).map(|column_idx| self.column_width(column_idx)).collect();
        let blocks = self.blocks(&widths, width_chars.unwrap_or(usize::MAX));
        let texts: Vec<String> = blocks.iter().map(|block| self.render_block(block, &widths)).collect();
        texts.join("\n")
    }

    fn column_width(&self, column_idx: usize) -> usize {
        let words = self.columns[column_idx].title.split_whitespace().map(width_of);
        words.chain(self.rows.iter().map(|row| width_of(&row[column_idx]))).max().unwrap_or(0)
    }

    /// Which columns stand beside each other. A block always takes one column beside its keys, even one too wide.
    fn blocks(&self, widths: &[usize], limit: usize) -> Vec<Vec<usize>> {
        let keys: Vec<usize> = (0..self.n_keys).collect();
        let total = |columns: &[usize]| columns.iter().map(|&column_idx| widths[column_idx] + GAP).sum::<usize>();
        let mut blocks = vec![keys.clone()];
        for (column_idx, width) in widths.iter().enumerate().skip(self.n_keys) {
            let last = blocks.last_mut().expect("there is always a block");
            let fits = total(last) + width <= limit;
            if fits || last.len() == self.n_keys {
                last.push(column_idx);
            } else {
                blocks.push(keys.iter().copied().chain([column_idx]).collect());
            }
        }
        blocks
    }

    fn render_block(&self, block: &[usize], widths: &[usize]) -> String {
        let titles: Vec<Vec<String>> =
            block.iter().map(|&column_idx| fold(&self.columns[column_idx].title, widths[column_idx])).collect();
        let n_title_lines = titles.iter().map(Vec::len).max().unwrap_or(0);
        let mut text = String::new();
        for line_idx in 0..n_title_lines {
            // Titles stand on the line above the rule, so a short one starts further down.
            let cells = titles.iter().map(|lines| {
                let skipped = n_title_lines - lines.len();
                line_idx.checked_sub(skipped).map_or("", |idx| lines[idx].as_str())
            });
            self.push_line(&mut text, block, widths, cells);
        }
        let rules: Vec<String> = block.iter().map(|&column_idx| "-".repeat(widths[column_idx])).collect();
        self.push_line(&mut text, block, widths, rules.iter().map(String::as_str));
        for row in &self.rows {
            self.push_line(&mut text, block, widths, block.iter().map(|&column_idx| row[column_idx].as_str()));
        }
        text
    }

    fn push_line<'a>(
        &self,
        text: &mut String,
        block: &[usize],
        widths: &[usize],
        cells: impl Iterator<Item = &'a str>,
    ) {
        let mut line = String::new();
        for (position, (&column_idx, cell)) in block.iter().zip(cells).enumerate() {
            if position > 0 {
                line.push_str(&" ".repeat(GAP));
            }
            let padding = " ".repeat(widths[column_idx].saturating_sub(width_of(cell)));
            match self.columns[column_idx].align {
                Align::Left => line.extend([cell, &padding]),
                Align::Right => line.extend([padding.as_str(), cell]),
            }
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
}

/// Breaks a title at its spaces into lines of at most `width` characters.
fn fold(title: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in title.split_whitespace() {
        match lines.last_mut() {
            Some(line) if width_of(line) + 1 + width_of(word) <= width => line.extend([" ", word]),
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

fn width_of(text: &str) -> usize {
    text.chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Table {
        let mut table =
            Table::new().text("placement").number("N").key().number("throughput (tokens/s)").number("speedup");
        for (placement, every, throughput, speedup) in
            [("separate", "1", "91.2", "0.35"), ("overlapped", "128", "1043", "≥ 1.10")]
        {
            table.row([placement, every, throughput, speedup].map(str::to_owned));
        }
        table
    }

    #[test]
    fn aligns_numbers_on_the_right_and_folds_titles() {
        let expected = "                 throughput
placement     N  (tokens/s)  speedup
----------  ---  ----------  -------
separate      1        91.2     0.35
overlapped  128        1043   ≥ 1.10
";
        assert_eq!(sample().render(None), expected);
        assert_eq!(sample().render(Some(36)), expected);
    }

    #[test]
    fn a_narrow_terminal_gets_blocks_that_repeat_the_keys() {
        let expected = "                 throughput
placement     N  (tokens/s)
----------  ---  ----------
separate      1        91.2
overlapped  128        1043

placement     N  speedup
----------  ---  -------
separate      1     0.35
overlapped  128   ≥ 1.10
";
        assert_eq!(sample().render(Some(35)), expected);
        assert_eq!(sample().render(Some(1)), expected);
    }

    #[test]
    fn a_table_without_rows_is_its_header() {
        assert_eq!(Table::new().text("model").number("steps").render(None), "model  steps\n-----  -----\n");
    }

    #[test]
    #[should_panic(expected = "one cell per column")]
    fn a_short_row_is_a_mistake() {
        sample().row(["separate".to_owned()]);
    }

    #[test]
    fn significant_digits() {
        let cases = [
            (1043.26, 4, "1043"),
            (91.2345, 4, "91.23"),
            (9.996, 3, "10.0"),
            (0.001234, 2, "0.0012"),
            (123456.7, 3, "123457"),
            (0.0, 4, "0"),
            (-2.5, 3, "-2.50"),
            (1.0e-7, 3, "1.00e-7"),
            (f64::NAN, 3, "-"),
            (f64::INFINITY, 3, "inf"),
        ];
        for (value, digits, expected) in cases {
            assert_eq!(significant(value, digits), expected, "{value} with {digits} digits");
        }
    }
}
