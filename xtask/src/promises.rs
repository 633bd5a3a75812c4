//! Each promise of `docs/security.md` names its code and its test. A symbol stands in the file that
//! is named behind it. Code font in a row's last cell is a check, a group, a host test, a symbol or
//! a file.

use std::collections::BTreeSet;

use crate::sources::{Source, read};

const PAGE: &str = "docs/security.md";
const CHECKS: &str = "tests/checks.list";
/// A program of `tests/guest` has a check for each of its forms.
const FORMS: [&str; 3] = ["", "-static", "-dynamic"];

/// Complaints about the page.
pub fn check(sources: &[Source]) -> Result<Vec<String>, String> {
    let list = read(CHECKS)?;
    let of = |path: &str| sources.iter().find(|source| source.path == path);
    let page = of(PAGE).ok_or_else(|| format!("there is no {PAGE}"))?;
    let mut complaints = misplaced(&page.text, of);
    let tests = Tests::of(&list, sources);
    let unknown = named_tests(&page.text).filter(|name| !tests.has(name) && of(name).is_none());
    complaints.extend(unknown.map(|name| format!("{PAGE}: there is no test `{name}`")));
    Ok(complaints)
}

/// Symbols that are not in the file behind them: `symbol`, `path/of/a/file`.
fn misplaced<'a>(page: &str, of: impl Fn(&str) -> Option<&'a Source>) -> Vec<String> {
    let parts: Vec<&str> = page.split('`').collect();
    let mut complaints = Vec::new();
    for [symbol, between, path] in parts.windows(3).skip(1).step_by(2).map(|w| [w[0], w[1], w[2]]) {
        let Some(source) = of(path).filter(|_| between == ", " && !symbol.contains('/')) else {
            continue;
        };
        let name = symbol.rsplit("::").next().unwrap_or(symbol);
        if !words_of_code(&source.text).any(|word| word == name) {
            complaints.push(format!("{PAGE}: there is no `{symbol}` in {path}"));
        }
    }
    complaints
}

/// Tests in code font in the last cell of each row.
fn named_tests(page: &str) -> impl Iterator<Item = &str> {
    let rows = page.lines().filter(|line| line.starts_with("| ") && line.ends_with(" |"));
    let last = rows.filter_map(|row| row.trim_end_matches(" |").rsplit(" | ").next());
    last.flat_map(|cell| cell.split('`').skip(1).step_by(2))
}

/// Words of all lines but comments.
fn words_of_code(text: &str) -> impl Iterator<Item = &str> {
    let code = text.lines().filter(|line| !line.trim_start().starts_with(['/', '*']));
    code.flat_map(|line| line.split(|c: char| !c.is_alphanumeric() && c != '_'))
}

/// Checks and symbols by their names.
struct Tests<'a> {
    /// Each `group/check`.
    checks: Vec<&'a str>,
    /// Functions, and modules of tests.
    symbols: BTreeSet<&'a str>,
}

impl<'a> Tests<'a> {
    fn of(list: &'a str, sources: &'a [Source]) -> Self {
        let lines = list.lines().filter(|line| !line.starts_with('#'));
        let checks = lines.filter_map(|line| line.split(' ').nth(1)).collect();
        let code = sources.iter().filter(|source| source.is(&["rs", "c", "h"]));
        Self { checks, symbols: code.flat_map(|source| words_of_code(&source.text)).collect() }
    }

    fn has(&self, name: &str) -> bool {
        let of_group = |check: &str, pattern: &str| {
            let (group, own) = check.split_once('/').unwrap_or_default();
            matches(check, pattern) || matches(own, pattern) || matches(group, pattern)
        };
        let is_symbol = |word: &&str| matches(word, name);
        FORMS.iter().any(|form| {
            let pattern = format!("{name}{form}");
            self.checks.iter().any(|check| of_group(check, &pattern))
        }) || self.symbols.iter().any(is_symbol)
    }
}

/// `*` stands for any characters.
fn matches(text: &str, pattern: &str) -> bool {
    match pattern.split_once('*') {
        None => text == pattern,
        Some((before, rest)) => text.strip_prefix(before).is_some_and(|text| {
            let ends = text.char_indices().map(|(at, _)| at).chain([text.len()]);
            ends.map(|at| &text[at..]).any(|text| matches(text, rest))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_that_is_gone_is_a_complaint() {
        let sources = [Source { path: "a.rs".into(), text: "fn one_of_two() {}".into() }];
        let tests = Tests::of("# List\ntest group/here\nlong other/there-static\n", &sources);
        for name in ["group/here", "here", "group", "other/there", "there*", "other/*", "one_of_*"]
        {
            assert!(tests.has(name), "{name}");
        }
        for name in ["gone", "group/there", "her", "two_*", "other/here*"] {
            assert!(!tests.has(name), "{name}");
        }
    }

    #[test]
    fn a_symbol_has_to_be_in_its_file() {
        let source = Source {
            path: "a/b.rs".into(),
            text: "fn here() {\n    there();\n}\n// gone\n".into(),
        };
        let of = |path: &str| (path == "a/b.rs").then_some(&source);
        let page = "| x | It (`here`, `a/b.rs`; `Type::there`, `a/b.rs`) | `t` |\n";
        assert!(misplaced(page, of).is_empty());
        assert_eq!(
            misplaced("`gone`, `a/b.rs`", of),
            ["docs/security.md: there is no `gone` in a/b.rs"]
        );
        assert_eq!(named_tests(page).collect::<Vec<_>>(), ["t"]);
    }
}
