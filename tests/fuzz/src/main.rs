//! Coverage-guided fuzzing of the parsers of foreign data, by libFuzzer.
//!
//! ```text
//! fuzz --list              names of the targets
//! fuzz --seeds NAME DIR    writes the seed corpus of a target, made from real data
//! fuzz NAME hex:BYTES      one input
//! fuzz NAME [FILE]         one input, as libFuzzer keeps it
//! fuzz NAME [-FLAG=N]... DIR...    fuzzes; see -help=1
//! ```
//!
//! A target reads its input, which may be anything, and panics where a property of what it reads
//! does not hold. `tests/fuzz/run` runs all of them for a while.

mod input;
mod memory;
mod sys;
mod target;
mod targets;
mod trace;

use std::ffi::{CString, c_char, c_int};
use std::path::Path;
use std::process::ExitCode;
use std::sync::OnceLock;

use target::Target;
use targets::TARGETS;

// Its library has the driver, and `LLVMFuzzerTestOneInput`, which calls the function below.
use libfuzzer_sys as _;

type OneInput = unsafe extern "C" fn(*const u8, usize) -> c_int;

unsafe extern "C" {
    fn LLVMFuzzerRunDriver(argc: *mut c_int, argv: *mut *mut *mut c_char, one: OneInput) -> c_int;
    fn LLVMFuzzerTestOneInput(data: *const u8, size: usize) -> c_int;
}

static TARGET: OnceLock<&'static Target> = OnceLock::new();

// SAFETY: no other function has that name; libfuzzer-sys declares it like this.
#[unsafe(no_mangle)]
fn rust_fuzzer_test_input(input: &[u8]) -> i32 {
    if let Some(target) = TARGET.get() {
        (target.check)(input);
    }
    0
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    let words: Vec<&str> = arguments.iter().skip(1).map(String::as_str).collect();
    let named = |name: &str| TARGETS.iter().find(|target| target.name == name);
    match words[..] {
        ["--list"] => TARGETS.iter().for_each(|target| println!("{}", target.name)),
        ["--seeds", name, folder] => {
            let Some(target) = named(name) else { return no_target(name) };
            if let Err(error) = write_seeds(target, Path::new(folder)) {
                eprintln!("fuzz: {folder}: {error}");
                return ExitCode::FAILURE;
            }
        }
        [name, ref rest @ ..] => {
            let Some(target) = named(name) else { return no_target(name) };
            if let [one] = rest
                && let Some(hex) = one.strip_prefix("hex:")
            {
                let Some(input) = input::from_hex(hex) else {
                    eprintln!("fuzz: '{hex}' is not hexadecimal");
                    return ExitCode::FAILURE;
                };
                (target.check)(&input);
                return ExitCode::SUCCESS;
            }
            return fuzz(target, &arguments[0], rest);
        }
        [] => {
            eprintln!("fuzz: NAME [FILE]; --list shows the names");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

fn no_target(name: &str) -> ExitCode {
    let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
    eprintln!("fuzz: there is no target '{name}'; there are: {}", names.join(" "));
    ExitCode::FAILURE
}

fn write_seeds(target: &Target, folder: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)?;
    for (at, seed) in (target.seeds)().iter().enumerate() {
        std::fs::write(folder.join(format!("seed-{at:02}")), seed)?;
    }
    Ok(())
}

fn fuzz(target: &'static Target, program: &str, flags: &[&str]) -> ExitCode {
    // Before anything is unwound, so that libFuzzer still knows the input.
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        report(panic);
        std::process::abort();
    }));
    let _ = TARGET.set(target);
    let size_max = format!("-max_len={}", target.size_max);
    let words = [program, &size_max].into_iter().chain(flags.iter().copied());
    let Ok(words) = words.map(CString::new).collect::<Result<Vec<_>, _>>() else {
        return ExitCode::FAILURE; // there is no argument with a zero in it
    };
    let mut pointers: Vec<*mut c_char> =
        words.into_iter().map(CString::into_raw).chain([std::ptr::null_mut()]).collect();
    let (mut argc, mut argv) = (pointers.len() as c_int - 1, pointers.as_mut_ptr());
    // SAFETY: as `main` gets them: `argc` strings that live on, and a null pointer.
    let status =
        unsafe { LLVMFuzzerRunDriver(&raw mut argc, &raw mut argv, LLVMFuzzerTestOneInput) };
    ExitCode::from(status as u8)
}
