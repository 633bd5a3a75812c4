//! What execve(2) takes away of a thread's rights. The LWK replaces the program, so
//! Linux does not do it by itself.

use linux_raw_sys::general::*;

use super::arch::raw_call;
use super::{check, plain};

const GET_SECUREBITS: u64 = 27;
const SET_KEEPCAPS: u64 = 8;
const CAP_AMBIENT: u64 = 47;
const AMBIENT_IS_SET: u64 = 1;
const NO_ROOT: u64 = 1;
const CAPABILITY_VERSION_3: u32 = 0x2008_0522;
const LAST_CAPABILITY: u32 = 63;

/// Real, effective and saved ids, of users or groups.
fn ids(nr: u32) -> Option<[u32; 3]> {
    let mut ids = [0u32; 3];
    let at = |i: usize| &raw const ids[i] as u64;
    let args = [at(0), at(1), at(2), 0, 0, 0];
    // SAFETY: three words for the three ids.
    check(unsafe { raw_call(nr, args) }).ok()?;
    // Written behind the compiler's back.
    Some(core::hint::black_box(&mut ids).map(|id| id))
}

/// The saved id, and that for file systems, is the effective one.
fn settle_ids(get: u32, set: u32, set_fs: u32) -> bool {
    const KEEP: u64 = u32::MAX as u64;
    let Some([_, effective, saved]) = ids(get) else { return false };
    // A wish that cannot be asks only.
    let of_files = plain(set_fs, [KEEP, 0, 0, 0, 0, 0]);
    if of_files != Ok(effective.into()) {
        let _ = plain(set_fs, [effective.into(), 0, 0, 0, 0, 0]);
    }
    saved != effective && plain(set, [KEEP, KEEP, effective.into(), 0, 0, 0]).is_ok()
}

/// Version and thread; then effective, permitted and inheritable, in two halves.
fn capabilities(nr: u32, sets: &mut [u32; 6]) -> bool {
    let header = [CAPABILITY_VERSION_3, 0];
    let args = [header.as_ptr() as u64, sets.as_mut_ptr() as u64, 0, 0, 0, 0];
    // SAFETY: the two structures of that version.
    check(unsafe { raw_call(nr, args) }).is_ok()
}

fn ambient() -> u64 {
    let is_set = |cap: &u32| plain(__NR_prctl, [CAP_AMBIENT, AMBIENT_IS_SET, (*cap).into(), 0, 0, 0]) == Ok(1);
    (0..=LAST_CAPABILITY).filter(is_set).fold(0, |all, cap| all | 1 << cap)
}

/// A program without rights of its own begins on this thread: the saved ids are the
/// effective ones, and capabilities that were kept beyond a change of user go. Whether
/// something changed.
pub fn settle() -> bool {
    let groups = settle_ids(__NR_getresgid, __NR_setresgid, __NR_setfsgid);
    // Before the ids of users, which decide what capabilities are lost.
    let capabilities = settle_capabilities();
    let users = settle_ids(__NR_getresuid, __NR_setresuid, __NR_setfsuid);
    let _ = plain(__NR_prctl, [SET_KEEPCAPS, 0, 0, 0, 0, 0]);
    groups || users || capabilities
}

fn settle_capabilities() -> bool {
    let Some([real, effective, _]) = ids(__NR_getresuid) else { return false };
    let root_counts = plain(__NR_prctl, [GET_SECUREBITS, 0, 0, 0, 0, 0]).is_ok_and(|bits| bits & NO_ROOT == 0);
    let mut sets = [0u32; 6];
    if effective == 0 && root_counts || !capabilities(__NR_capget, &mut sets) {
        return false;
    }
    let before = core::hint::black_box(&mut sets).map(|half| half);
    let kept = if before[0] | before[1] | before[3] | before[4] == 0 { 0 } else { ambient() };
    for half in 0..2 {
        let kept = (kept >> (32 * half)) as u32;
        sets[3 * half] &= kept;
        if real != 0 || !root_counts {
            sets[3 * half + 1] &= kept;
        }
    }
    sets != before && capabilities(__NR_capset, &mut sets)
}
