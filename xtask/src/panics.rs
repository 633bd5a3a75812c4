//! Assertions of the LWK: `unwrap`, `expect`, `assert!` and their like, which end it when they
//! fail. `docs/assertions.md` lists how many there are in each file, and why nothing outside of the
//! kernel reaches one.

use std::collections::BTreeMap;

use crate::sources::Source;

const PAGE: &str = "docs/assertions.md";
const FOLDERS: [&str; 3] = ["kernel/src/", "kernel/core/src/", "kernel/hal/src/"];
const WAYS: [&str; 12] = [
    ".unwrap()",
    ".unwrap_err()",
    ".expect(",
    ".expect_err(",
    "assert!(",
    "assert_eq!(",
    "assert_ne!(",
    "panic!(",
    "unreachable!(",
    "todo!(",
    "unimplemented!(",
    "assert_unchecked(",
];

/// Complaints about files whose number is not that of the page.
pub fn check(sources: &[Source]) -> Result<Vec<String>, String> {
    let page = sources.iter().find(|source| source.path == PAGE);
    let page = page.ok_or_else(|| format!("there is no {PAGE}"))?;
    let listed = listed(&page.text)?;
    let tests = test_modules(sources);
    let is_looked_at = |source: &&Source| {
        source.is(&["rs"])
            && FOLDERS.iter().any(|folder| source.path.starts_with(folder))
            && !tests.iter().any(|tests| source.path.starts_with(tests))
    };
    let mut complaints = Vec::new();
    for source in sources.iter().filter(is_looked_at) {
        let (now, before) = (count(&source.text), listed.get(source.path.as_str()).copied());
        if now != before.unwrap_or(0) || now == 0 && before.is_some() {
            complaints.push(format!(
                "{}: {now} assertions, {} in {PAGE}: say there why no input from outside of the kernel reaches them",
                source.path,
                before.unwrap_or(0)
            ));
        }
    }
    let gone = listed.keys().filter(|path| !sources.iter().any(|source| source.path == **path));
    complaints.extend(gone.map(|path| format!("{PAGE}: there is no {path}")));
    Ok(complaints)
}

/// The rows `| `file` | number | reason |`.
fn listed(page: &str) -> Result<BTreeMap<&str, usize>, String> {
    let mut all = BTreeMap::new();
    for row in page.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = row.split(" | ").collect();
        let entry = match cells[..] {
            [path, number, _] => path.strip_prefix("| `").zip(number.parse().ok()),
            _ => None,
        };
        let (path, number) = entry.ok_or_else(|| format!("{PAGE}: no row of a file: {row}"))?;
        all.insert(path.trim_end_matches('`'), number);
    }
    Ok(all)
}

/// Paths of modules that are there for tests only, as they begin.
fn test_modules(sources: &[Source]) -> Vec<String> {
    let mut all = Vec::new();
    for source in sources.iter().filter(|source| source.is(&["rs"])) {
        let path = source.path.trim_end_matches(".rs");
        let folder = match path.rsplit_once('/') {
            Some((folder, "mod" | "lib" | "main")) => folder,
            _ => path,
        };
        let lines: Vec<&str> = source.text.lines().map(str::trim).collect();
        for pair in lines.windows(2).filter(|pair| pair[0].starts_with("#[cfg(test)]")) {
            if let Some((_, name)) = pair[1].trim_end_matches(';').rsplit_once("mod ")
                && pair[1].ends_with(';')
            {
                all.push(format!("{folder}/{name}.rs"));
                all.push(format!("{folder}/{name}/"));
            }
        }
    }
    all
}

/// How many there are in a file, without its tests, and without those that the compiler decides.
fn count(text: &str) -> usize {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let is_test = |pair: &[&str]| {
        pair[0] == "#[cfg(test)]" && pair[1].ends_with('{') && pair[1].contains("mod ")
    };
    let end = lines.windows(2).position(is_test).unwrap_or(lines.len());
    let (mut all, mut is_constant) = (0, false);
    for line in &lines[..end] {
        is_constant |= line.starts_with("const _: () =");
        if !is_constant && !line.starts_with("//") {
            all += WAYS.iter().map(|way| line.matches(way).count()).sum::<usize>();
        }
        is_constant &= *line != "};" && !(line.starts_with("const") && line.ends_with(';'));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assertions_are_counted_outside_of_tests() {
        let text = "// .unwrap()\nlet a = b.unwrap();\ndebug_assert!(c);\nconst _: () = assert!(d);\n\
                    const _: () = {\n    assert!(e);\n};\npanic!(\"f\");\n#[cfg(test)]\nmod tests {\n    g.unwrap();\n}\n";
        assert_eq!(count(text), 3);
    }

    #[test]
    fn a_new_one_is_a_complaint() {
        let source = |path: &str, text: &str| Source { path: path.into(), text: text.into() };
        let page =
            source(PAGE, "| file | n | why |\n|---|---|---|\n| `kernel/src/a.rs` | 1 | Boot. |\n");
        let one = || source("kernel/src/a.rs", "a.unwrap()\n");
        assert!(check(&[page, one()]).unwrap().is_empty());
        let page = || source(PAGE, "");
        assert_eq!(check(&[page(), one()]).unwrap().len(), 1);
        let test = || source("kernel/src/lib.rs", "#[cfg(test)]\nmod a;\n");
        assert!(check(&[page(), one(), test()]).unwrap().is_empty());
        assert_eq!(check(&[source(PAGE, "| `kernel/src/b.rs` | 1 | Boot. |\n")]).unwrap().len(), 1);
    }
}
