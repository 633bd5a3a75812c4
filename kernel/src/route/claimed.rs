//! Claims: calls on a descriptor that a driver of the LWK has claimed are executed by the driver,
//! without Linux.
//!
//! A driver says of each call whether it serves it; Linux executes the others, since the descriptor
//! is Linux' as well. The only driver is the tests': boot option `claim=N` gives it descriptor N of
//! every process. It reads zeros and writes to nowhere, as `/dev/zero` does.

use crate::link::pool;
use crate::process::thread::Thread;
use hanare_core::errno;
use hanare_core::link::Outcome;
use hanare_core::syscalls::Row;
use hanare_hal::usercopy::{self, UserAddr};
use linux_raw_sys::general::{__NR_read, __NR_write};

/// Most bytes of one call, as Linux has it.
const BYTES_MAX: u64 = 0x7fff_f000;
/// Bytes that are written to the program's memory at a time.
const CHUNK: usize = 256;

/// Has the driver that has claimed the call's descriptor execute the call of the running thread
/// `me`. `None`: no driver has, or it leaves this call to Linux.
pub fn call(me: &Thread, row: &Row, args: &[u64; 6]) -> Option<Outcome> {
    let [descriptor, buffer, bytes, ..] = *args;
    let is_claimed = pool::options().claim == Some(descriptor as u32);
    if !is_claimed || me.must_end() {
        return None;
    }
    match u32::from(row.number) {
        __NR_read => Some(Outcome::Done(zero(buffer, bytes.min(BYTES_MAX)))),
        __NR_write => Some(Outcome::Done(bytes.min(BYTES_MAX) as i64)),
        _ => None,
    }
}

/// Writes zeros to the program's memory: how many, or `EFAULT`.
fn zero(buffer: u64, bytes: u64) -> i64 {
    let mut done = 0;
    while done < bytes {
        let part = &[0; CHUNK][..CHUNK.min((bytes - done) as usize)];
        if usercopy::write(UserAddr::behind(buffer, done), part).is_err() {
            break;
        }
        done += part.len() as u64;
    }
    if done == 0 && bytes != 0 { errno::EFAULT.as_return() } else { done as i64 }
}
