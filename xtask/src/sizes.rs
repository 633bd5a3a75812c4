//! How big the parts are: lines of source, bytes in memory.

use std::fs;
use std::process::ExitCode;

use crate::sources::{self, Source};

struct Part {
    name: &'static str,
    /// Folders; of what lies in several parts' folders, the longest one counts.
    folders: &'static [&'static str],
    /// File that is built of the part, under build/.
    product: Option<&'static str>,
}

const PARTS: &[Part] = &[
    Part { name: "module (C)", folders: &["module/"], product: Some("module/6.1/hanare.ko") },
    Part { name: "LWK: kernel", folders: &["kernel/"], product: Some("lwk/hanare-lwk") },
    Part { name: "LWK: core", folders: &["kernel/core/"], product: None },
    Part { name: "LWK: hal", folders: &["kernel/hal/"], product: None },
    Part { name: "abi, ikc", folders: &["abi/", "ikc/"], product: None },
    Part { name: "proxy", folders: &["tools/proxy/"], product: Some("bin/hanare-proxy") },
    Part {
        name: "command, sdk",
        folders: &["tools/cli/", "tools/common/", "sdk/"],
        product: Some("bin/hanare"),
    },
    Part { name: "tests", folders: &["tests/", "tools/cli/tests/", "bench/tests/"], product: None },
    Part { name: "tools, bench", folders: &["tools/", "bench/", "xtask/"], product: None },
];

/// Source that counts.
const CODE: &[&str] = &["rs", "c", "h", "S", "py", "sh"];
const GENERATED: &str = "module/hanare_abi.h";

/// Lines of a part.
#[derive(Clone, Copy, Default)]
struct Lines {
    /// Neither blank nor comment, nor of unit tests.
    code: usize,
    /// Lines of tests, in files or modules of their own.
    tests: usize,
    /// All lines.
    all: usize,
}

/// Prints the table, or JSON.
pub fn run(json: bool) -> ExitCode {
    let sources = match sources::all() {
        Ok(sources) => sources,
        Err(error) => {
            eprintln!("sizes: {error}");
            return ExitCode::FAILURE;
        }
    };
    let mut lines = vec![Lines::default(); PARTS.len()];
    let modules: Vec<String> = sources.iter().flat_map(test_modules).collect();
    for source in sources.iter().filter(|source| counts(source)) {
        if let Some(part) = part_of(&source.path) {
            add(&mut lines[part], source, is_test(&source.path, &modules));
        }
    }
    let bytes: Vec<Option<u64>> = PARTS.iter().map(|part| loaded_bytes(part.product?)).collect();
    if json {
        print_json(&lines, &bytes)
    } else {
        print_table(&lines, &bytes)
    }
    ExitCode::SUCCESS
}

fn counts(source: &Source) -> bool {
    (source.is(CODE) || source.text.starts_with("#!")) && source.path != GENERATED
}

fn part_of(path: &str) -> Option<usize> {
    let matching = PARTS.iter().enumerate().flat_map(|(index, part)| {
        let folders = part.folders.iter().filter(|folder| path.starts_with(**folder));
        folders.map(move |folder| (folder.len(), index))
    });
    matching.max().map(|(_, index)| index)
}

/// Modules of tests that a Rust file declares by `#[cfg(test)] mod NAME;`: the paths of their
/// files, without `.rs`.
fn test_modules(source: &Source) -> Vec<String> {
    let Some(path) = source.path.strip_suffix(".rs") else { return Vec::new() };
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    let folder = if matches!(name, "lib" | "main" | "mod") { folder } else { path };
    let mut tests = TestItems::default();
    let declared = source.text.lines().filter(|line| tests.hold(line));
    let names = declared.filter_map(|line| line.strip_suffix(';')?.rsplit_once("mod "));
    names.map(|(_, name)| format!("{folder}/{name}")).collect()
}

/// Whether a file has tests only. `modules`: see [`test_modules`].
fn is_test(path: &str, modules: &[String]) -> bool {
    let within = |module: &String| {
        path.strip_prefix(module.as_str())
            .is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
    };
    path.contains("tests/") || path.ends_with("tests.rs") || modules.iter().any(within)
}

/// Finds the items and statements that only tests have, by their attributes and, since rustfmt has
/// been there, by how far their lines are indented.
#[derive(Default)]
struct TestItems {
    /// How far the attribute of the present one is indented.
    indent: Option<usize>,
    /// Whether the item goes on behind a bracket at the end of a line.
    has_body: bool,
}

impl TestItems {
    /// Whether the next line belongs to one.
    fn hold(&mut self, line: &str) -> bool {
        let (text, indent) = (line.trim(), line.len() - line.trim_start().len());
        let Some(own) = self.indent else {
            let attributes = ["#[cfg(test)]", "#[cfg(all(test", "#[cfg(any(test"];
            let begins = attributes.iter().any(|attribute| text.starts_with(attribute));
            *self = Self { indent: begins.then_some(indent), has_body: false };
            return begins;
        };
        let ends = text.ends_with([';', ',', '}']) && (!self.has_body || indent <= own);
        self.has_body |= text.ends_with(['{', '(', '[']);
        self.indent = self.indent.filter(|_| !ends);
        true
    }
}

/// `is_test`: all of it is of tests.
fn add(lines: &mut Lines, source: &Source, is_test: bool) {
    lines.all += source.lines();
    let (mut tests, mut comment) = (TestItems::default(), false);
    for line in source.text.lines() {
        let is_test = tests.hold(line) || is_test;
        let line = line.trim();
        comment |= line.starts_with("/*");
        let blank = comment || line.is_empty() || line.starts_with("//") || is_hash_comment(line);
        comment &= !line.contains("*/");
        match (blank, is_test) {
            (true, _) => {}
            (false, true) => lines.tests += 1,
            (false, false) => lines.code += 1,
        }
    }
}

/// Whether a line is a comment of a script; attributes and directives of C are not.
fn is_hash_comment(line: &str) -> bool {
    line == "#" || line.starts_with("# ") || line.starts_with("#!/")
}

/// Bytes that an ELF file takes in memory: its allocated sections.
fn loaded_bytes(product: &str) -> Option<u64> {
    elf_bytes(&fs::read(sources::root().join("build").join(product)).ok()?)
}

fn elf_bytes(file: &[u8]) -> Option<u64> {
    const ALLOCATED: u64 = 2;
    let word = |at: usize, bytes: usize| {
        let mut word = [0; 8];
        word[..bytes].copy_from_slice(file.get(at..at + bytes)?);
        Some(u64::from_le_bytes(word))
    };
    if file.get(..5)? != b"\x7fELF\x02" {
        return None;
    }
    let (table, entry, count) = (word(0x28, 8)? as usize, word(0x3a, 2)? as usize, word(0x3c, 2)?);
    let mut sum = 0;
    for index in 0..count as usize {
        let header = table + index * entry;
        if word(header + 8, 8)? & ALLOCATED != 0 {
            sum += word(header + 32, 8)?;
        }
    }
    Some(sum)
}

fn print_table(lines: &[Lines], bytes: &[Option<u64>]) {
    println!("{:14} {:>7} {:>7} {:>7} {:>12}", "PART", "CODE", "TESTS", "LINES", "KIB LOADED");
    for ((part, lines), bytes) in PARTS.iter().zip(lines).zip(bytes) {
        let kib = bytes.map_or("-".into(), |bytes| bytes.div_ceil(1024).to_string());
        println!("{:14} {:7} {:7} {:7} {kib:>12}", part.name, lines.code, lines.tests, lines.all);
    }
    let sum = |of: fn(&Lines) -> usize| lines.iter().map(of).sum::<usize>();
    println!(
        "{:14} {:7} {:7} {:7}",
        "all",
        sum(|lines| lines.code),
        sum(|lines| lines.tests),
        sum(|lines| lines.all)
    );
}

fn print_json(lines: &[Lines], bytes: &[Option<u64>]) {
    let row = |((part, lines), bytes): ((&Part, &Lines), &Option<u64>)| {
        let bytes = bytes.map_or("null".into(), |bytes| bytes.to_string());
        format!(
            "  {{\"part\": \"{}\", \"code\": {}, \"tests\": {}, \"lines\": {}, \"bytes\": {bytes}}}",
            part.name, lines.code, lines.tests, lines.all
        )
    };
    let rows: Vec<String> = PARTS.iter().zip(lines).zip(bytes).map(row).collect();
    println!("[\n{}\n]", rows.join(",\n"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_folder_counts() {
        let name = |path| part_of(path).map(|part| PARTS[part].name);
        assert_eq!(name("kernel/core/src/elf.rs"), Some("LWK: core"));
        assert_eq!(name("kernel/src/main.rs"), Some("LWK: kernel"));
        assert_eq!(name("tools/cli/tests/proxy.rs"), Some("tests"));
        assert_eq!(name("tools/vm"), Some("tools, bench"));
        assert_eq!(name("README.md"), None);
    }

    #[test]
    fn code_is_not_comment_nor_test() {
        let text = "//! A\n\n/* b\n c */\nint d;\n#include <e>\n# f\n#[cfg(test)]\nmod tests {}\n";
        assert_eq!(counted(text), (2, 2, 9));
    }

    fn counted(text: &str) -> (usize, usize, usize) {
        let mut lines = Lines::default();
        add(&mut lines, &Source { path: "a.rs".into(), text: text.into() }, false);
        (lines.code, lines.tests, lines.all)
    }

    #[test]
    fn what_follows_an_item_of_tests_is_code() {
        for (text, code, tests) in [
            ("#[cfg(test)]\nmod world;\nmod process;\n", 1, 2),
            ("#[cfg(test)]\nmod a {\n    fn f() {\n    }\n}\nfn g() {}\n", 1, 5),
            (
                "#[cfg(all(test, loom))]\n#[allow(x)]\nfn f(\n    a: u8,\n) {\n    b();\n}\nc();\n",
                1,
                7,
            ),
            ("{\n    #[cfg(test)]\n    let a =\n        b(c);\n    d();\n}\n", 3, 3),
            ("    #[cfg(test)]\n    A if b => c,\n    D => e,\n", 1, 2),
            ("    #[cfg(test)]\n    if a {\n        b;\n    }\n    c;\n", 1, 4),
        ] {
            assert_eq!(counted(text), (code, tests, code + tests), "{text}");
        }
    }

    #[test]
    fn a_file_of_a_test_module_is_tests() {
        let declared =
            |path: &str, text: &str| test_modules(&Source { path: path.into(), text: text.into() });
        let text = "#[cfg(test)]\nmod world;\nmod process;\n#[cfg(all(test, loom))]\npub mod b;\n";
        assert_eq!(declared("a/life.rs", text), ["a/life/world", "a/life/b"]);
        assert_eq!(declared("a/mod.rs", text), ["a/world", "a/b"]);
        assert!(declared("a/life.py", text).is_empty());
        let modules = declared("a/life.rs", text);
        for (path, expected) in [
            ("a/life/world.rs", true),
            ("a/life/world/checks.rs", true),
            ("a/life/worlds.rs", false),
            ("a/life/process.rs", false),
            ("a/life.rs", false),
            ("a/tests.rs", true),
        ] {
            assert_eq!(is_test(path, &modules), expected, "{path}");
        }
    }

    #[test]
    fn this_test_is_an_elf_file() {
        let file = fs::read(std::env::current_exe().unwrap()).unwrap();
        assert!(elf_bytes(&file).is_some_and(|bytes| bytes > 10_000 && bytes < 1 << 30));
        assert_eq!(elf_bytes(b"#!/bin/sh"), None);
    }
}
