//! Names in backquotes in documents exist: paths of files, and identifiers of the source.

use std::collections::BTreeSet;

use crate::sources::Source;

/// Documents that name many things of Linux, of its tests and of other programs.
const FOREIGN: [&str; 5] = [
    "README.md",
    "docs/compatibility.md",
    "docs/forged-slots.md",
    "docs/pseudo-files.md",
    "docs/syscalls.md",
];
const ENDS: [&str; 7] = [".rs", ".c", ".h", ".py", ".md", ".sh", ".toml"];

/// Complaints about all documents.
pub fn check(sources: &[Source]) -> Vec<String> {
    let (documents, code): (Vec<&Source>, Vec<&Source>) =
        sources.iter().partition(|source| source.is(&["md"]));
    let known: BTreeSet<&str> = code.iter().flat_map(|source| words(&source.text)).collect();
    let paths: Vec<String> = sources.iter().map(|source| format!("/{}", source.path)).collect();
    let is_there = |path: &str| {
        let (file, folder) = (format!("/{path}"), format!("/{}/", path.trim_end_matches('/')));
        paths.iter().any(|path| path.ends_with(&file) || path.contains(&folder))
    };
    let is_ours = |path: &str| {
        let top = format!("/{}/", path.split('/').next().unwrap_or_default());
        paths.iter().any(|path| path.starts_with(&top))
    };
    let is_good = |document: &str, name: &str| {
        let is_file = ENDS.iter().any(|end| name.ends_with(end));
        if is_path(name) && (is_file || name.contains('/') && is_ours(name)) {
            return is_there(name);
        }
        let is_foreign = FOREIGN.contains(&document) || !is_identifier(name);
        is_foreign || words(name).all(|word| known.contains(word))
    };
    let of = |document: &Source| -> Vec<String> {
        let bad = quoted(&document.text).filter(|name| !is_good(&document.path, name));
        bad.map(|name| format!("{}: there is no `{name}`", document.path)).collect()
    };
    documents.into_iter().flat_map(of).collect()
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

/// Names in backquotes, outside of blocks of code.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split("```").step_by(2).flat_map(|part| part.split('`').skip(1).step_by(2))
}

/// `PROPERTY` stands for any name.
fn is_path(name: &str) -> bool {
    name.starts_with(char::is_alphanumeric)
        && name.chars().all(|c| c.is_alphanumeric() || "._-/".contains(c))
        && !name.contains("PROPERTY")
}

/// Whether a name is an identifier, such as `page_up`, `Sight::Unseen`, `SpaceWord`. A name that
/// may be a plain word is none.
fn is_identifier(name: &str) -> bool {
    let pairs = || name.chars().zip(name.chars().skip(1));
    name.starts_with(char::is_alphabetic)
        && name.chars().all(|c| c.is_alphanumeric() || "_:".contains(c))
        && pairs().any(|(a, b)| b == '_' || b == ':' || a.is_lowercase() && b.is_uppercase())
}

#[test]
fn a_name_that_is_gone_is_a_complaint() {
    let source = |path: &str, text: &str| Source { path: path.into(), text: text.into() };
    let code = || source("a/b.rs", "fn page_up() { Sight::Read }");
    let good = "`page_up` `Sight::Read` `b.rs` `a/` `word` `x y_z` `a/PROPERTY`\n```\n`x_y`\n```\n";
    assert!(check(&[code(), source("good.md", good)]).is_empty());
    let bad = source("bad.md", "`page_down` `Sight::Gone` `a/c.rs` `a/c/` `c.rs`");
    assert_eq!(check(&[code(), bad]).len(), 5);
}
