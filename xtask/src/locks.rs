//! The table of lock ranks in `docs/locks.md`, made of the ranks in `kernel/src/base/lock.rs`.

use crate::sources::{read, write};

const RANKS: &str = "kernel/src/base/lock.rs";
const PAGE: &str = "docs/locks.md";
const BEGIN: &str = "<!-- lock order: cargo xtask tidy --update -->\n";
const END: &str = "<!-- end of lock order -->\n";

/// Complains if the table is not that of the ranks; with `update`, writes it anew first.
pub fn check(update: bool) -> Result<Vec<String>, String> {
    let (ranks, page) = (read(RANKS)?, read(PAGE)?);
    let wanted = with_table(&page, &table(&ranks)?)?;
    if page == wanted {
        return Ok(Vec::new());
    }
    if update {
        write(PAGE, &wanted)?;
        return Ok(Vec::new());
    }
    Ok(vec![format!("{PAGE}: the lock order is not that of {RANKS}: cargo xtask tidy --update")])
}

/// A row for each rank, in their order: its name, and its comment.
fn table(ranks: &str) -> Result<String, String> {
    let block = ranks.split_once("\nranks! {\n").and_then(|(_, rest)| rest.split_once("\n}"));
    let (block, _) = block.ok_or(format!("{RANKS}: no ranks! {{ … }}"))?;
    let mut rows = String::from("| lock | what it guards |\n|---|---|\n");
    let mut comment = Vec::new();
    for line in block.lines().map(str::trim) {
        if let Some(text) = line.strip_prefix("///") {
            comment.push(text.trim());
        } else if let Some(name) = line.strip_suffix(',') {
            rows += &format!("| `{name}` | {} |\n", comment.join(" "));
            comment.clear();
        }
    }
    Ok(rows)
}

fn with_table(page: &str, table: &str) -> Result<String, String> {
    let missing = || format!("{PAGE}: no {} … {}", BEGIN.trim_end(), END.trim_end());
    let (before, rest) = page.split_once(BEGIN).ok_or_else(missing)?;
    let (_, after) = rest.split_once(END).ok_or_else(missing)?;
    Ok(format!("{before}{BEGIN}{table}{END}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str =
        "x\nranks! {\n    /// One.\n    /// And more.\n    A,\n    /// Two.\n    B,\n}\n";

    #[test]
    fn a_row_has_a_rank_and_its_comment() {
        let table = table(SOURCE).unwrap();
        assert!(table.ends_with("| `A` | One. And more. |\n| `B` | Two. |\n"), "{table}");
    }

    #[test]
    fn another_order_is_another_page() {
        let page = format!("a\n{BEGIN}{END}b\n");
        let with = |source| with_table(&page, &table(source).unwrap()).unwrap();
        let swapped = SOURCE.replace("A,", "C,").replace("B,", "A,").replace("C,", "B,");
        assert_ne!(with(SOURCE), with(&swapped));
        assert_eq!(with_table(&with(SOURCE), &table(SOURCE).unwrap()).unwrap(), with(SOURCE));
    }
}
