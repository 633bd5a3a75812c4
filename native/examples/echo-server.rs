//! `echo-server ADDRESS:PORT CONNECTIONS`: sends back what it is sent, for so many connections, one
//! after the other.
#![no_std]
#![no_main]
#![forbid(unsafe_code)]

extern crate alloc;

use alloc::vec;
use core::ffi::CStr;
use core::net::SocketAddr;
use core::str::FromStr;

use hanare_native::{Failure, OrFail, Program, Proxy, Stream, println};

hanare_native::entry!(main);

const BUFFER_BYTES: usize = 64 << 10;

fn main(program: Program) -> Result<(), Failure> {
    let mut arguments = program.arguments();
    let (address, count) = (arguments.next().and_then(read), arguments.next().and_then(read));
    let (Some(address), Some(count), None) = (address, count, arguments.next()) else {
        return Err(Failure::usage("ADDRESS:PORT CONNECTIONS"));
    };
    serve(address, count)
}

/// Value of an argument.
fn read<T: FromStr>(argument: &CStr) -> Option<T> {
    argument.to_str().ok()?.parse().ok()
}

fn serve(address: SocketAddr, count: u32) -> Result<(), Failure> {
    let kept = Proxy::keep().or_fail(format_args!("cannot keep a proxy"))?;
    let listener = kept.listen(address).or_fail(format_args!("cannot listen at {address}"))?;
    let address = listener.address().or_fail(format_args!("cannot tell the address"))?;
    println!("listening at {address}").or_fail(format_args!("cannot write to standard output"))?;
    let mut sum = 0;
    for _ in 0..count {
        let stream = listener.accept().or_fail(format_args!("cannot accept a connection"))?;
        sum += echo(&stream).or_fail(format_args!("a connection has failed"))?;
    }
    println!("{count} connections, {sum} bytes")
        .or_fail(format_args!("cannot write to standard output"))
}

/// Sends back what comes until the other side writes no more; gives how much it was.
fn echo(stream: &Stream) -> hanare_native::Result<u64> {
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut sum = 0;
    loop {
        let length = stream.read(&mut buffer)?;
        if length == 0 {
            return Ok(sum);
        }
        stream.write_all(&buffer[..length])?;
        sum += length as u64;
    }
}
