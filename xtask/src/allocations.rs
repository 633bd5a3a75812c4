//! Exceptions from the rule that what a program can cause allocates so that it can be refused.
//!
//! Clippy knows by type what allocates (`kernel/clippy.toml`). Where something does all the same it
//! says `#[expect(clippy::disallowed_methods, reason = "…")]`; those are counted here, and may only
//! become fewer. `kernel/src/base` and `kernel/core/src/lists.rs`, where the functions are that ask
//! first, do not count.

use std::collections::BTreeMap;

use crate::sources::Source;

/// The list: how many exceptions a file may have.
pub const LIST: &str = "xtask/allocations.txt";

fn counts(source: &Source) -> bool {
    let in_kernel = ["kernel/src/", "kernel/hal/", "kernel/core/"]
        .iter()
        .any(|part| source.path.starts_with(part));
    let asks = ["kernel/src/base/", "kernel/core/src/lists.rs"];
    in_kernel && source.is(&["rs"]) && !asks.iter().any(|part| source.path.starts_with(part))
}

/// Text between the brackets of each attribute that makes an exception.
fn attributes(text: &str) -> impl Iterator<Item = &str> {
    let outer = text.split("#[").skip(1);
    let all = outer.chain(text.split("#![").skip(1)).filter_map(|rest| rest.split(")]").next());
    all.filter(|attribute| {
        ["expect(", "allow("].iter().any(|level| attribute.starts_with(level))
            && attribute.contains("clippy::disallowed_")
    })
}

/// The list as it is now.
pub fn list_of(sources: &[&Source]) -> String {
    let mut text = String::from(
        "# Exceptions from kernel/clippy.toml (what allocates can be refused). They may only become fewer.\n\
         # `cargo xtask tidy --update` writes this list anew.\n",
    );
    for source in sources.iter().filter(|source| counts(source)) {
        let count = attributes(&source.text).count();
        if count > 0 {
            text += &format!("{count} {}\n", source.path);
        }
    }
    text
}

/// Complaints.
pub fn check(sources: &[&Source], allowed: &BTreeMap<&str, usize>) -> Vec<String> {
    let mut complaints = Vec::new();
    for source in sources.iter().filter(|source| counts(source)) {
        let path = source.path.as_str();
        let count = attributes(&source.text).count();
        let most = allowed.get(path).copied().unwrap_or(0);
        if count > most {
            complaints.push(format!(
                "{path}: {count} exceptions from kernel/clippy.toml, {most} before: use base::lists, base::heap or core's lists"
            ));
        } else if count < most {
            complaints.push(format!(
                "{path}: {count} exceptions from kernel/clippy.toml, {most} before: keep what was won: cargo xtask tidy --update"
            ));
        }
        let bare =
            |attribute: &&str| !attribute.starts_with("expect(") || !attribute.contains("reason =");
        if attributes(&source.text).any(|attribute| bare(&attribute)) {
            complaints.push(format!("{path}: an exception is an `expect` with a reason"));
        }
    }
    let gone = allowed.keys().filter(|path| !sources.iter().any(|source| source.path == **path));
    complaints
        .extend(gone.map(|path| format!("{LIST}: {path} is gone: cargo xtask tidy --update")));
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;

    const REASON: &str =
        "#[expect(\n    clippy::disallowed_methods,\n    reason = \"a queue\"\n)]\nfn f() {}\n";

    fn complaints(path: &str, text: &str, allowed: &[(&str, usize)]) -> Vec<String> {
        let source = Source { path: path.into(), text: text.into() };
        check(&[&source], &allowed.iter().copied().collect())
    }

    #[test]
    fn exceptions_may_only_become_fewer() {
        let path = "kernel/src/sched/kick.rs";
        assert!(complaints(path, REASON, &[(path, 1)]).is_empty());
        assert!(complaints(path, REASON, &[])[0].contains("base::lists"));
        assert!(complaints(path, "fn f() {}\n", &[(path, 1)])[0].contains("--update"));
        assert!(complaints(path, REASON, &[(path, 1), ("kernel/src/b.rs", 1)])[0].contains("gone"));
    }

    #[test]
    fn an_exception_has_a_reason() {
        let path = "kernel/src/sched/kick.rs";
        let bare = "#[expect(clippy::disallowed_methods)]\nfn f() {}\n";
        assert!(complaints(path, bare, &[(path, 1)])[0].contains("reason"));
        let silent = "#[allow(clippy::disallowed_macros, reason = \"none\")]\nfn f() {}\n";
        assert!(complaints(path, silent, &[(path, 1)])[0].contains("reason"));
        let inner = "#![allow(clippy::disallowed_methods)]\n";
        assert_eq!(complaints(path, inner, &[]).len(), 2);
    }

    #[test]
    fn base_and_other_lints_do_not_count() {
        assert!(complaints("kernel/src/base/heap.rs", REASON, &[]).is_empty());
        assert!(complaints("kernel/src/a.rs", "#[allow(clippy::cast)]\n", &[]).is_empty());
    }
}
