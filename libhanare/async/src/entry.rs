//! From the registers of a system call to [`crate::hook`], and back.

use crate::calls::Verdict;
use crate::hook;
use crate::rewrite::{self, DONE_BYTES, WATCHED_BYTES};
use crate::sys::entry::{self, Frame};

extern "C" fn ask(frame: &mut Frame) {
    match hook::ask(frame.rax as i64, &mut frame.args) {
        Verdict::Make => {}
        Verdict::Watch => frame.resume -= WATCHED_BYTES,
        Verdict::Done(result) => {
            frame.rax = result as u64;
            frame.resume += DONE_BYTES;
        }
    }
}

extern "C" fn tell(frame: &mut Frame) {
    frame.rax = hook::tell(frame.rax as i64) as u64;
}

/// Leads stubs here, before the first one. `false`: the CPU cannot keep its registers for us.
pub fn prepare() -> bool {
    rewrite::lead_to(entry::ask, entry::tell);
    entry::prepare(ask, tell)
}
