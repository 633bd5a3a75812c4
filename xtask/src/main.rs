//! Tasks of this repository that are easier in Rust than in make: `cargo xtask TASK`.

mod abi;
mod allocations;
mod fences;
mod layers;
mod lints;
mod locks;
mod names;
mod panics;
mod posted;
mod promises;
mod reach;
mod rights;
mod sizes;
mod sources;
mod syscalls;
mod tidy;
mod transport;
mod words;

use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args.as_slice() {
        ["abi"] => abi::run(false),
        ["abi", "--check"] => abi::run(true),
        ["syscalls"] => syscalls::run(false),
        ["syscalls", "--check"] => syscalls::run(true),
        ["sizes"] => sizes::run(false),
        ["sizes", "--json"] => sizes::run(true),
        ["layers", arguments @ ..] => layers::run(arguments),
        ["tidy"] => tidy::run(false),
        ["tidy", "--update"] => tidy::run(true),
        _ => {
            eprintln!(
                "usage: cargo xtask abi [--check]         write (or check) module/hanare_abi.h"
            );
            eprintln!(
                "       cargo xtask syscalls [--check]    write (or check) docs/syscalls.md, docs/forged-slots.md, the libraries' tables"
            );
            eprintln!("       cargo xtask layers [PART]         show the layers as a picture");
            eprintln!(
                "       cargo xtask layers --arrows FILE  which lines lead from this file to others, and back"
            );
            eprintln!("       cargo xtask layers --json         all of that for tools");
            eprintln!(
                "       cargo xtask tidy [--update]       check habits and layers (or shorten the lists of what"
            );
            eprintln!(
                "                                         is left: long files, exceptions from the layers, allocations, words)"
            );
            eprintln!("       cargo xtask sizes [--json]        lines and bytes of each part");
            ExitCode::from(2)
        }
    }
}
