//! Tasks of this repository that are easier in Rust than in make: `cargo xtask TASK`.

mod abi;
mod syscalls;

use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args.as_slice() {
        ["abi"] => abi::run(false),
        ["abi", "--check"] => abi::run(true),
        ["syscalls"] => syscalls::run(false),
        ["syscalls", "--check"] => syscalls::run(true),
        _ => {
            eprintln!(
                "usage: cargo xtask abi [--check]         write (or check) module/hanare_abi.h"
            );
            eprintln!("       cargo xtask syscalls [--check]    write (or check) docs/syscalls.md");
            ExitCode::from(2)
        }
    }
}
