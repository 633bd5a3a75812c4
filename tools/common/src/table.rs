//! Columns of text.

use std::io;

use anyhow::Result;

use crate::output;

/// Prints rows with columns as wide as they need to be. On a terminal the last column is cut where
/// that suffices to fit (`ps` does so, too); numbers never are.
pub fn print(header: &[&str], rows: &[Vec<String>]) -> Result<()> {
    output::write(&render(header, rows, output::columns(io::stdout())))
}

/// Least that a cut column shows.
const CUT_MIN: usize = 8;

fn render(header: &[&str], rows: &[Vec<String>], columns: Option<usize>) -> String {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([header[column].len()]).max().unwrap_or(0)
    };
    let mut widths: Vec<usize> = (0..header.len()).map(width).collect();
    let last = widths.len() - 1;
    let before: usize = widths[..last].iter().map(|width| width + 2).sum();
    let is_text = rows.iter().any(|row| row[last].contains(|c: char| !c.is_ascii_digit()));
    if let Some(columns) = columns
        && is_text
        && columns >= before + CUT_MIN
    {
        widths[last] = widths[last].min(columns - before);
    }
    let header: Vec<String> = header.iter().map(|&cell| cell.into()).collect();
    let mut text = String::new();
    for row in std::iter::once(&header).chain(rows) {
        let cells = row
            .iter()
            .zip(&widths)
            .map(|(cell, &width)| format!("{:width$}", output::cut(cell, width)));
        text += cells.collect::<Vec<_>>().join("  ").trim_end();
        text.push('\n');
    }
    text
}

/// A time for people: `12 s`, `3 min 5 s`, `2 h 4 min`, `5 d 3 h`.
pub fn duration(ns: u64) -> String {
    let s = ns / 1_000_000_000;
    match s {
        0..60 => format!("{s} s"),
        60..3600 => format!("{} min {} s", s / 60, s % 60),
        3600..86400 => format!("{} h {} min", s / 3600, s / 60 % 60),
        _ => format!("{} d {} h", s / 86400, s / 3600 % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_shown_in_two_units() {
        let of = |s: u64| duration(s * 1_000_000_000);
        assert_eq!(of(0), "0 s");
        assert_eq!(of(185), "3 min 5 s");
        assert_eq!(of(7_440), "2 h 4 min");
        assert_eq!(of(86_400 * 5 + 3_600 * 3), "5 d 3 h");
    }

    #[test]
    fn only_a_last_column_of_text_is_cut() {
        let rows = [vec!["12345".to_owned(), "python3 script.py".to_owned()]];
        let shown = |columns| render(&["PID", "COMMAND"], &rows, columns);
        assert_eq!(shown(None), "PID    COMMAND\n12345  python3 script.py\n");
        assert_eq!(shown(Some(20)), "PID    COMMAND\n12345  python3 scri…\n");
        assert_eq!(shown(Some(10)), shown(None));
        let rows = [vec!["12345".to_owned(), "1234567890123".to_owned()]];
        assert!(render(&["PID", "CALLS"], &rows, Some(15)).contains("1234567890123"));
    }
}
