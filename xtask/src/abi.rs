//! `cargo xtask abi [--check]`: writes `module/hanare_abi.h` from the `abi` crate.

use std::fmt::Write;
use std::{fs, path::Path, process::ExitCode};

struct File {
    name: &'static str,
    docs: &'static str,
    items: &'static [Item],
}

/// Columns of a line of the header that is a comment.
const COLUMNS_MAX: usize = 100;

enum Item {
    Const {
        name: &'static str,
        ty: &'static str,
        docs: &'static str,
        value: i128,
    },
    Struct {
        name: &'static str,
        docs: &'static str,
        size: usize,
        align: usize,
        fields: &'static [Field],
    },
}

struct Field {
    name: &'static str,
    docs: &'static str,
    ty: &'static str,
    len: &'static str,
    offset: usize,
}

include!(concat!(env!("OUT_DIR"), "/table.rs"));

fn snake(camel: &str) -> String {
    let mut s = String::new();
    for (i, c) in camel.char_indices() {
        if c.is_ascii_uppercase() && i > 0 {
            s.push('_');
        }
        s.push(c.to_ascii_lowercase());
    }
    s
}

fn comment(out: &mut String, indent: &str, text: &str) {
    let text = text.replace("[`", "`").replace("`]", "`").replace("*/", "* /").replace("/*", "/ *");
    let lines: Vec<&str> = text.lines().collect();
    match lines.as_slice() {
        [] => {}
        [one] if indent.len() * 8 + one.chars().count() <= COLUMNS_MAX - "/*  */".len() => {
            writeln!(out, "{indent}/* {one} */").unwrap();
        }
        many => {
            writeln!(out, "{indent}/*").unwrap();
            for line in many {
                writeln!(out, "{indent} * {line}").map(|()| ()).unwrap();
            }
            writeln!(out, "{indent} */").unwrap();
        }
    }
}

fn c_type(rust: &str) -> String {
    match rust {
        "u8" | "u16" | "u32" | "u64" => format!("__u{}", &rust[1..]),
        "i32" | "i64" => format!("__s{}", &rust[1..]),
        "Extent" | "GivenPage" | "PhysFrame" => String::from("__u64"),
        name => format!("struct hanare_{}", snake(name)),
    }
}

fn c_len(len: &str) -> String {
    match len {
        "" => String::new(),
        n if n.starts_with(|c: char| c.is_ascii_digit()) => format!("[{n}]"),
        name => format!("[HANARE_{}]", name.rsplit(':').next().unwrap().trim()),
    }
}

fn c_value(ty: &str, value: i128) -> String {
    let number = match value {
        -9..=9 => value.to_string(),
        v if v < 0 || v < 1 << 14 => v.to_string(),
        v => format!("{v:#x}"),
    };
    match ty {
        "u64" => format!("{number}ULL"),
        "i64" => format!("({number}LL)"),
        "u32" => format!("{number}U"),
        "i32" => number,
        // Counts and lengths: plain numbers, for array bounds and comparisons.
        "usize" => number,
        other => panic!("constant of type {other}"),
    }
}

fn header() -> String {
    let mut out = String::from(
        "/* SPDX-License-Identifier: GPL-2.0 OR MIT */\n\
         /* Written by `cargo xtask abi` from the abi crate. Do not edit. */\n\
         #ifndef HANARE_ABI_H\n#define HANARE_ABI_H\n\n#include <linux/types.h>\n",
    );
    let mut asserts = String::new();
    for file in FILES {
        writeln!(out, "\n/* ---- {} ---- */\n", file.name).unwrap();
        comment(&mut out, "", file.docs);
        // Constants first: array bounds name them.
        for item in file.items {
            if let Item::Const { name, ty, docs, value } = item {
                comment(&mut out, "", docs);
                writeln!(out, "#define HANARE_{name} {}", c_value(ty, *value)).unwrap();
            }
        }
        for item in file.items {
            let Item::Struct { name, docs, size, align, fields } = item else {
                continue;
            };
            let tag = snake(name);
            out.push('\n');
            comment(&mut out, "", docs);
            writeln!(out, "struct hanare_{tag} {{").unwrap();
            for f in *fields {
                comment(&mut out, "\t", f.docs);
                writeln!(out, "\t{} {}{};", c_type(f.ty), f.name, c_len(f.len)).unwrap();
                writeln!(
                    asserts,
                    "_Static_assert(__builtin_offsetof(struct hanare_{tag}, {n}) == {o}, \"{name}.{n}\");",
                    n = f.name,
                    o = f.offset
                )
                .unwrap();
            }
            match align {
                0 => out.push_str("};\n"),
                n => writeln!(out, "}} __attribute__((aligned({n})));").unwrap(),
            }
            writeln!(asserts, "_Static_assert(sizeof(struct hanare_{tag}) == {size}, \"{name}\");")
                .unwrap();
        }
    }
    out.push_str("\n/* ---- what Rust computed ---- */\n\n");
    out.push_str(&asserts);
    out.push_str("\n#endif\n");
    // No line ends in a blank: checkpatch, and editors that strip them.
    out.lines().map(|l| format!("{}\n", l.trim_end())).collect()
}

pub fn run(check: bool) -> ExitCode {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../module/hanare_abi.h");
    let wanted = header();
    if fs::read_to_string(&path).is_ok_and(|have| have == wanted) {
        return ExitCode::SUCCESS;
    }
    if check {
        eprintln!(
            "module/hanare_abi.h differs from the abi crate: run `cargo xtask abi` and commit it"
        );
        return ExitCode::FAILURE;
    }
    fs::write(&path, wanted).expect("write module/hanare_abi.h");
    ExitCode::SUCCESS
}
