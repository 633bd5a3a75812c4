//! Habits that a compiler does not check. Each check is a function over the
//! sources that returns complaints.
//!
//! The limit of a file's length is a ratchet: what is longer stands in
//! `xtask/long-files.txt` and may only get shorter.

use std::collections::BTreeMap;
use std::process::ExitCode;

use crate::allocations;
use crate::fences;
use crate::layers;
use crate::lints;
use crate::locks;
use crate::names;
use crate::panics;
use crate::promises;
use crate::sources::{self, Source, read, write};
use crate::transport;
use crate::words;

/// Lines that a file of ours should not exceed.
const LINES_MAX: usize = 600;
const LONG_FILES: &str = "xtask/long-files.txt";
/// Written by a program.
const GENERATED: &[&str] = &["module/hanare_abi.h", "docs/syscalls.md", "libhanare/src/calls.rs"];
/// Extensions of files that are written by hand.
const OURS: &[&str] = &["rs", "c", "h", "S", "py", "sh", "md"];

/// Checks; with `update`, brings the lists of what is left up to date first.
pub fn run(update: bool) -> ExitCode {
    match check(update) {
        Ok(complaints) if complaints.is_empty() => ExitCode::SUCCESS,
        Ok(complaints) => {
            complaints.iter().for_each(|complaint| eprintln!("{complaint}"));
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("tidy: {error}");
            ExitCode::FAILURE
        }
    }
}

fn check(update: bool) -> Result<Vec<String>, String> {
    let sources = sources::all()?;
    let ours: Vec<&Source> = sources
        .iter()
        .filter(|source| is_ours(source) && !GENERATED.contains(&source.path.as_str()))
        .collect();
    let first_words = words::first_words()?;
    if update {
        for (list, now) in [
            (words::LIST, words::list_of(&ours, &first_words)),
            (LONG_FILES, list_of(&ours)),
            (allocations::LIST, allocations::list_of(&ours)),
        ] {
            write(list, &shrunk(&read(list)?, &now)?)?;
        }
    }
    let mut complaints = lengths(&ours, &allowed(&read(LONG_FILES)?)?);
    complaints.extend(allocations::check(&ours, &allowed(&read(allocations::LIST)?)?));
    complaints.extend(words::check(&ours, &first_words, &allowed(&read(words::LIST)?)?));
    for source in &ours {
        complaints.extend(blanks(source));
        complaints.extend(begins_with_words(source));
        complaints.extend(safety(source));
        complaints.extend(links(source));
    }
    complaints.extend(licences(&ours));
    complaints.extend(fences::check(&sources));
    complaints.extend(transport::check(&ours));
    complaints.extend(lints::check(&sources));
    complaints.extend(names::check(&sources));
    complaints.extend(promises::check(&sources)?);
    complaints.extend(panics::check(&sources)?);
    complaints.extend(layers::check(&sources, update)?);
    complaints.extend(locks::check(update)?);
    Ok(complaints)
}

/// Whether the source is ours: by its extension, or as a script.
fn is_ours(source: &Source) -> bool {
    source.is(OURS) || source.text.starts_with("#!")
}

fn list_of(sources: &[&Source]) -> String {
    let mut text = String::from(
        "# Files longer than the limit, and how long they may be. They may only shrink.\n\
         # `cargo xtask tidy --update` writes this list anew.\n",
    );
    for source in sources.iter().filter(|source| source.lines() > LINES_MAX) {
        text += &format!("{} {}\n", source.lines(), source.path);
    }
    text
}

/// List `now`, with no entry that `before` has not, nor a higher number than it has there.
fn shrunk(before: &str, now: &str) -> Result<String, String> {
    let most = allowed(before)?;
    let mut text = String::new();
    for line in now.lines() {
        let entry = line.split_once(' ').filter(|_| !line.starts_with('#'));
        let number = entry.and_then(|(number, what)| Some((number.parse().ok()?, what)));
        match number
            .map(|(number, what): (usize, _)| (most.get(what).map(|&m| m.min(number)), what))
        {
            None => text += &format!("{line}\n"),
            Some((Some(number), what)) => text += &format!("{number} {what}\n"),
            Some((None, _)) => {}
        }
    }
    Ok(text)
}

fn allowed(list: &str) -> Result<BTreeMap<&str, usize>, String> {
    let lines = list.lines().filter(|line| !line.starts_with('#'));
    let entry = |line| {
        let (lines, path): (&str, &str) = str::split_once(line, ' ')?;
        Some((path, lines.parse().ok()?))
    };
    lines
        .map(|line| {
            entry(line).ok_or_else(|| format!("a list says '{line}', which is not 'NUMBER PATH'"))
        })
        .collect()
}

fn lengths(sources: &[&Source], allowed: &BTreeMap<&str, usize>) -> Vec<String> {
    let length = |source: &&Source| {
        let (lines, path) = (source.lines(), source.path.as_str());
        match allowed.get(path) {
            None if lines > LINES_MAX => {
                Some(format!("{path}: {lines} lines; {LINES_MAX} are the limit: split it"))
            }
            Some(&most) if lines > most => Some(format!(
                "{path}: {lines} lines, {most} before: it is too long already, split it"
            )),
            Some(&most) if lines < most => Some(format!(
                "{path}: {lines} lines, {most} before: keep what was won: cargo xtask tidy --update"
            )),
            _ => None,
        }
    };
    let gone = allowed.keys().filter(|path| !sources.iter().any(|source| source.path == **path));
    let gone = gone.map(|path| format!("{LONG_FILES}: {path} is gone: cargo xtask tidy --update"));
    sources.iter().filter_map(length).chain(gone).collect()
}

/// No white space at the end of a line, a line feed at the end of a file.
fn blanks(source: &Source) -> Vec<String> {
    let path = &source.path;
    let mut complaints: Vec<String> = (1..)
        .zip(source.text.lines())
        .filter(|(_, line)| line.ends_with([' ', '\t']))
        .map(|(number, _)| format!("{path}:{number}: white space at the end"))
        .collect();
    if !source.text.is_empty() && !source.text.ends_with('\n') {
        complaints.push(format!("{path}: the last line does not end"));
    }
    complaints
}

/// Every Rust file says at its start what it is for.
fn begins_with_words(source: &Source) -> Option<String> {
    let silent = source.is(&["rs"])
        && !source.path.contains("tests/")
        && !source.path.ends_with("tests.rs")
        && !source.text.lines().any(|line| line.starts_with("//!"));
    silent.then(|| format!("{}: no //! says what it is for", source.path))
}

/// Every `unsafe` block or impl has its reason in the lines above. Clippy checks this too,
/// where it runs; this check covers all workspaces and targets at once.
fn safety(source: &Source) -> Vec<String> {
    /// How far above: a statement of several lines may lie between.
    const ABOVE: usize = 8;
    if !source.is(&["rs"]) {
        return Vec::new();
    }
    let lines: Vec<&str> = source.text.lines().collect();
    let needs = |line: &str| {
        let code = line.split("//").next().unwrap_or_default();
        !code.contains('"') && (code.contains("unsafe {") || code.contains("unsafe impl"))
    };
    let has = |index: usize| {
        lines[index.saturating_sub(ABOVE)..=index].iter().any(|line| line.contains("SAFETY"))
    };
    (0..lines.len())
        .filter(|&index| needs(lines[index]) && !has(index))
        .map(|index| format!("{}:{}: no SAFETY comment above", source.path, index + 1))
        .collect()
}

/// Links to files lead somewhere.
fn links(source: &Source) -> Vec<String> {
    if !source.is(&["md"]) {
        return Vec::new();
    }
    let root = sources::root();
    let folder = root.join(&source.path);
    let folder = folder.parent().unwrap_or(&root);
    let targets = source.text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    targets
        .map(|target| target.split('#').next().unwrap_or_default())
        .filter(|target| !target.is_empty() && !target.contains("://") && !target.contains(' '))
        .filter(|target| !folder.join(target).exists())
        .map(|target| format!("{}: the link to {target} leads nowhere", source.path))
        .collect()
}

/// The module's files name their licence in the first line, as Linux wants it.
fn licences(sources: &[&Source]) -> Vec<String> {
    let unnamed = |source: &&&Source| {
        source.path.starts_with("module/")
            && source.is(&["c", "h", "S"])
            && !source.text.lines().next().unwrap_or_default().contains("SPDX-License-Identifier")
    };
    let unnamed = sources.iter().filter(unnamed);
    unnamed.map(|source| format!("{}: no SPDX-License-Identifier", source.path)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(path: &str, text: &str) -> Source {
        Source { path: path.into(), text: text.into() }
    }

    #[test]
    fn an_update_lets_nothing_grow() {
        let before = "# Head.\n701 a.rs\n650 b.rs\n";
        let now = "# Head.\n690 a.rs\n651 b.rs\n602 c.rs\n";
        assert_eq!(shrunk(before, now).unwrap(), "# Head.\n690 a.rs\n650 b.rs\n");
    }

    #[test]
    fn long_files_may_only_shrink() {
        let file = source("a.rs", &"x\n".repeat(700));
        let complaints = |list: &str| lengths(&[&file], &allowed(list).unwrap());
        assert_eq!(complaints("700 a.rs\n").len(), 0);
        assert!(complaints("")[0].contains("split"));
        assert!(complaints("699 a.rs")[0].contains("split"));
        assert!(complaints("701 a.rs")[0].contains("--update"));
        assert!(complaints("700 a.rs\n700 b.rs")[0].contains("gone"));
        assert!(allowed("a.rs").is_err());
    }

    #[test]
    fn unsafe_wants_a_reason() {
        let bad = source("a.rs", "fn f() {\n    unsafe { g() }\n}\n");
        assert_eq!(safety(&bad), ["a.rs:2: no SAFETY comment above"]);
        let good = source("a.rs", "// SAFETY: none needed.\nlet x =\n    unsafe { g() };\n");
        assert!(safety(&good).is_empty());
    }

    #[test]
    fn white_space_at_ends_is_a_complaint() {
        assert_eq!(blanks(&source("a.c", "a \nb")).len(), 2);
        assert!(blanks(&source("a.c", "a\nb\n")).is_empty());
    }
}
