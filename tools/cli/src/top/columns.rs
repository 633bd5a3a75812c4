//! A table for a given width: whole columns are left out, a number is never cut.

use hanare_common::output;

/// A column.
pub struct Column {
    /// Heading.
    pub title: &'static str,
    /// Columns with higher ranks go first.
    pub rank: u8,
    /// Least width, so that columns do not come and go with their content.
    pub width: usize,
    /// Whether cells are aligned to the right, as numbers are.
    pub right: bool,
}

/// Least that the last column, which is text and may be cut, shows.
const TEXT_MIN: usize = 8;
/// From this width on there are two blanks between columns.
pub const ROOMY: usize = 60;

/// The heading and the rows, as far as they fit into `width`. The last column is cut, others are
/// left out.
pub fn fit(columns: &[Column], rows: &[Vec<String>], width: usize) -> (String, Vec<String>) {
    let gap = if width < ROOMY { 1 } else { 2 };
    let widest = |index: usize| {
        let cells = rows.iter().map(|row| row[index].chars().count());
        let column: &Column = &columns[index];
        cells.chain([column.title.len(), column.width]).max().unwrap_or(0)
    };
    let last = columns.len() - 1;
    let mut by_rank: Vec<usize> = (0..last).collect();
    by_rank.sort_by_key(|&index| columns[index].rank);
    let mut widths = vec![0; columns.len()];
    let mut left = width;
    for index in by_rank {
        let wanted = widest(index);
        // The first has to be there, beside nothing if need be.
        let beside = if columns[index].rank == 0 { 0 } else { gap + TEXT_MIN };
        if left >= wanted + beside {
            widths[index] = wanted;
            left = left.saturating_sub(wanted + gap);
        }
    }
    if left >= TEXT_MIN {
        widths[last] = left.min(widest(last));
    }
    let line = |cells: &[&str]| {
        let shown = (0..columns.len()).filter(|&index| widths[index] > 0).map(|index| {
            let (cell, width) = (output::cut(cells[index], widths[index]), widths[index]);
            if columns[index].right { format!("{cell:>width$}") } else { format!("{cell:width$}") }
        });
        shown.collect::<Vec<_>>().join(&" ".repeat(gap)).trim_end().to_owned()
    };
    let heading = line(&columns.iter().map(|column| column.title).collect::<Vec<_>>());
    let rows =
        rows.iter().map(|row| line(&row.iter().map(String::as_str).collect::<Vec<_>>())).collect();
    (heading, rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [Column; 4] = [
        Column { title: "PID", rank: 0, width: 5, right: true },
        Column { title: "THREADS", rank: 2, width: 0, right: true },
        Column { title: "%CPU", rank: 1, width: 0, right: true },
        Column { title: "COMMAND", rank: 0, width: 0, right: false },
    ];

    #[test]
    fn a_number_is_whole_or_not_there() {
        let row = ["1234567", "64", "6400.0", "/usr/bin/python3 script.py"];
        let rows =
            [row.map(String::from).to_vec(), ["7", "1", "0.0", "sh"].map(String::from).to_vec()];
        for width in 0..100 {
            let (heading, lines) = fit(&COLUMNS, &rows, width);
            assert!(
                heading.chars().count() <= width
                    && lines.iter().all(|line| line.chars().count() <= width)
            );
            for (line, row) in lines.iter().zip(&rows) {
                let (cells, titles): (Vec<_>, Vec<_>) =
                    (line.split_whitespace().collect(), heading.split_whitespace().collect());
                for (title, number) in COLUMNS[..3].iter().map(|column| column.title).zip(row) {
                    let place = titles.iter().position(|&there| there == title);
                    assert!(
                        place.is_none_or(|place| cells[place] == number),
                        "{width}: {heading:?} {line:?}"
                    );
                }
            }
            assert_eq!(heading.contains("PID"), width >= 7, "{width}");
        }
        assert_eq!(
            fit(&COLUMNS, &rows, 200).1[0],
            "1234567       64  6400.0  /usr/bin/python3 script.py"
        );
        assert_eq!(fit(&COLUMNS, &rows, 23).1[0], "1234567 6400.0 /usr/bi…");
    }
}
