//! Columns of text.

/// Prints rows with columns as wide as they need to be.
pub fn print(header: &[&str], rows: &[Vec<String>]) {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([header[column].len()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..header.len()).map(width).collect();
    let header: Vec<String> = header.iter().map(|&cell| cell.into()).collect();
    for row in std::iter::once(&header).chain(rows) {
        let cells = row
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("{cell:width$}"));
        println!("{}", cells.collect::<Vec<_>>().join("  ").trim_end());
    }
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
    use super::duration;

    #[test]
    fn durations() {
        let of = |s: u64| duration(s * 1_000_000_000);
        assert_eq!(of(0), "0 s");
        assert_eq!(of(185), "3 min 5 s");
        assert_eq!(of(7_440), "2 h 4 min");
        assert_eq!(of(86_400 * 5 + 3_600 * 3), "5 d 3 h");
    }
}
