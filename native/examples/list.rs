//! `list [DIRECTORY]`: what is in a directory, by name, with kind and size.
#![no_std]
#![no_main]
#![forbid(unsafe_code)]

extern crate alloc;

use alloc::borrow::ToOwned;
use alloc::ffi::CString;
use alloc::format;
use alloc::vec::Vec;
use core::ffi::CStr;

use hanare_native::{
    Directory, Errno, Failure, Kept, Kind, OrFail, Output, Program, Proxy, Status, quoted,
};

hanare_native::entry!(main);

fn main(program: Program) -> Result<(), Failure> {
    let mut arguments = program.arguments();
    let (path, None) = (arguments.next().unwrap_or(c"."), arguments.next()) else {
        return Err(Failure::usage("[DIRECTORY]"));
    };
    let kept = Proxy::keep().or_fail(format_args!("cannot keep a proxy"))?;
    let text = listed(&kept, path)?;
    // Standard output is every proxy's.
    kept.give_back().or_fail(format_args!("cannot give the proxy back"))?;
    Output::STANDARD.write_all(&text).or_fail(format_args!("cannot write to standard output"))
}

/// The lines about a directory.
fn listed(kept: &Kept, path: &CStr) -> Result<Vec<u8>, Failure> {
    let mut directory =
        kept.directory(path).or_fail(format_args!("cannot open {}", quoted(path)))?;
    let mut text = Vec::new();
    for name in names(&mut directory, path)? {
        let status = match directory.status(&name) {
            Err(Errno::ENOENT) => continue, // removed in the meantime
            status => status.or_fail(format_args!("cannot look at {}", quoted(&name)))?,
        };
        text.extend(format!("{:9} {:12} ", word(&status), status.size_bytes()).bytes());
        text.extend(name.to_bytes());
        text.push(b'\n');
    }
    Ok(text)
}

/// All names, sorted by their bytes.
fn names(directory: &mut Directory, path: &CStr) -> Result<Vec<CString>, Failure> {
    let mut names = Vec::new();
    loop {
        let entry = directory.next_entry().or_fail(format_args!("cannot read {}", quoted(path)))?;
        let Some(entry) = entry else { break };
        names.push(entry.name.to_owned());
    }
    names.sort_unstable();
    Ok(names)
}

fn word(status: &Status) -> &'static str {
    match status.kind() {
        Kind::File => "file",
        Kind::Directory => "directory",
        Kind::Link => "link",
        Kind::Pipe => "pipe",
        Kind::Socket => "socket",
        Kind::BlockDevice => "block",
        Kind::CharacterDevice => "character",
        Kind::Other => "unknown",
    }
}
