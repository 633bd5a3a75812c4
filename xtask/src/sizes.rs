//! How big the parts are: lines of source, bytes in memory.

use std::fs;
use std::process::ExitCode;

use crate::sources::{self, Source};

struct Part {
    name: &'static str,
    /// Folders; of what lies in several parts' folders, the longest one counts.
    folders: &'static [&'static str],
    /// What is built of it, under build/.
    product: Option<&'static str>,
}

const PARTS: &[Part] = &[
    Part { name: "module (C)", folders: &["module/"], product: Some("module/6.1/hanare.ko") },
    Part { name: "LWK: kernel", folders: &["kernel/"], product: Some("lwk/hanare-lwk") },
    Part { name: "LWK: core", folders: &["kernel/core/"], product: None },
    Part { name: "LWK: hal", folders: &["kernel/hal/"], product: None },
    Part { name: "abi, ikc", folders: &["abi/", "ikc/"], product: None },
    Part { name: "proxy", folders: &["tools/proxy/"], product: Some("bin/hanare-proxy") },
    Part { name: "command, sdk", folders: &["tools/cli/", "sdk/"], product: Some("bin/hanare") },
    Part { name: "tests", folders: &["tests/", "tools/cli/tests/"], product: None },
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
    /// Of tests, in files or modules of their own.
    tests: usize,
    /// All.
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
    for source in sources.iter().filter(|source| counts(source)) {
        if let Some(part) = part_of(&source.path) {
            add(&mut lines[part], source);
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

fn add(lines: &mut Lines, source: &Source) {
    lines.all += source.lines();
    let mut tests = source.path.contains("tests/") || source.path.ends_with("tests.rs");
    let mut comment = false;
    for line in source.text.lines().map(str::trim) {
        tests |= line.starts_with("#[cfg(test)]") || line.starts_with("#[cfg(all(test");
        comment |= line.starts_with("/*");
        let blank = comment || line.is_empty() || line.starts_with("//") || is_hash_comment(line);
        comment &= !line.contains("*/");
        match (blank, tests) {
            (true, _) => {}
            (false, true) => lines.tests += 1,
            (false, false) => lines.code += 1,
        }
    }
}

/// Of scripts; not attributes, not directives of C.
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
        let mut lines = Lines::default();
        add(&mut lines, &Source { path: "a.rs".into(), text: text.into() });
        assert_eq!((lines.code, lines.tests, lines.all), (2, 2, 9));
    }

    #[test]
    fn this_test_is_an_elf_file() {
        let file = fs::read(std::env::current_exe().unwrap()).unwrap();
        assert!(elf_bytes(&file).is_some_and(|bytes| bytes > 10_000 && bytes < 1 << 30));
        assert_eq!(elf_bytes(b"#!/bin/sh"), None);
    }
}
