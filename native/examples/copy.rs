//! `copy FROM TO`: copies a file, its content and its permissions.
#![no_std]
#![no_main]
#![forbid(unsafe_code)]

extern crate alloc;

use alloc::vec;
use core::ffi::CStr;

use hanare_native::{Failure, File, Flags, Kept, Kind, OrFail, Program, Proxy, path, quoted};

hanare_native::entry!(main);

/// How much is read and written at once. A call carries less than 1 MiB.
const BUFFER_BYTES: usize = 256 << 10;

fn main(program: Program) -> Result<(), Failure> {
    let mut arguments = program.arguments();
    let (Some(from), Some(to), None) = (arguments.next(), arguments.next(), arguments.next())
    else {
        return Err(Failure::usage("FROM TO"));
    };
    let kept = Proxy::keep().or_fail(format_args!("cannot keep a proxy"))?;
    copy(&kept, from, to)
}

fn copy(kept: &Kept, from: &CStr, to: &CStr) -> Result<(), Failure> {
    let source =
        kept.open(from, Flags::READ).or_fail(format_args!("cannot open {}", quoted(from)))?;
    let status = source.status().or_fail(format_args!("cannot look at {}", quoted(from)))?;
    if status.kind() == Kind::Directory {
        return Err(Failure::new(&alloc::format!("{} is a directory", quoted(from))));
    }
    if path::status(to).is_ok_and(|there| there.is_same_file(&status)) {
        let text = alloc::format!("{} and {} are the same file", quoted(from), quoted(to));
        return Err(Failure::new(&text));
    }
    // Only the owner may look at it before it has its permissions.
    let flags = Flags::WRITE | Flags::CREATE | Flags::TRUNCATE;
    let target = kept
        .open_with_mode(to, flags, status.mode() & 0o700)
        .or_fail(format_args!("cannot create {}", quoted(to)))?;
    transfer(&source, from, &target, to)?;
    target
        .set_mode(status.mode())
        .or_fail(format_args!("cannot set the permissions of {}", quoted(to)))?;
    target.close().or_fail(format_args!("cannot write {}", quoted(to)))
}

fn transfer(source: &File, from: &CStr, target: &File, to: &CStr) -> Result<(), Failure> {
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        let length =
            source.read(&mut buffer).or_fail(format_args!("cannot read {}", quoted(from)))?;
        if length == 0 {
            return Ok(());
        }
        target.write_all(&buffer[..length]).or_fail(format_args!("cannot write {}", quoted(to)))?;
    }
}
