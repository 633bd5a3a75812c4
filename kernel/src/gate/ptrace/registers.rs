//! Registers of a stopped thread, as its tracer reads and sets them.

use super::held::{look, set};
use crate::base::heap;
use crate::base::user::{self, UserAddr, put};
use crate::process::thread::Thread;
use alloc::sync::Arc;
use alloc::vec::Vec;
use hanare_core::errno::{self, Errno, Result};
use hanare_core::ptrace::{
    DEBUG_REGS, FXSAVE, USER_REGS, check_fxsave, check_xsave, index, regset, request, user_offset,
};
use hanare_hal::fpu;
use zerocopy::IntoBytes;

const REGS_BYTES: u64 = (USER_REGS * 8) as u64;
/// Where the state says which components it may have, for debuggers.
const MASK_AT: usize = 464;

/// Requests about registers; others are none that there are (`EIO`).
pub fn request(me: &Thread, thread: &Arc<Thread>, what: u64, addr: u64, data: u64) -> Result<u64> {
    match what {
        request::PEEKUSER => peek_user(me, thread, addr, data),
        request::POKEUSER => poke_user(me, thread, addr, data),
        request::GETREGS => {
            let words = look(me, thread, |s| s.words())?;
            put(UserAddr::of(data), words.as_bytes())
        }
        request::SETREGS => {
            look(me, thread, |_| ())?;
            set_general(me, thread, data, USER_REGS)
        }
        request::GETFPREGS => {
            let bytes = look(me, thread, |s| heap::copied(s.legacy()))??;
            put(UserAddr::of(data), &bytes)
        }
        request::SETFPREGS => {
            look(me, thread, |_| ())?;
            let mut bytes = [0; FXSAVE];
            user::read(UserAddr::of(data), &mut bytes)?;
            set_legacy(me, thread, &bytes)
        }
        request::GETREGSET => get_set(me, thread, addr, data),
        request::SETREGSET => set_set(me, thread, addr, data),
        request::ARCH_PRCTL => bases(me, thread, data, addr),
        _ => look(me, thread, |_| Err(errno::EIO))?,
    }
}

fn peek_user(me: &Thread, thread: &Arc<Thread>, addr: u64, data: u64) -> Result<u64> {
    let words = look(me, thread, |s| s.words())?;
    let at = user_offset(addr)?;
    let word = match words.get((at / 8) as usize) {
        Some(word) => *word,
        None if DEBUG_REGS.contains(&at) => thread.debug.get(debug_register(at)),
        None => 0, // nothing else is known
    };
    put(UserAddr::of(data), &word.to_le_bytes())
}

fn debug_register(at: u64) -> usize {
    ((at - DEBUG_REGS.start) / 8) as usize
}

fn poke_user(me: &Thread, thread: &Arc<Thread>, addr: u64, value: u64) -> Result<u64> {
    look(me, thread, |_| ())?;
    let at = user_offset(addr)?;
    if at < REGS_BYTES {
        return set_word(me, thread, (at / 8) as usize, value);
    }
    if !DEBUG_REGS.contains(&at) {
        return Err(errno::EIO);
    }
    thread.debug.set(debug_register(at), value).map(|()| 0)
}

fn set_word(me: &Thread, thread: &Arc<Thread>, which: usize, value: u64) -> Result<u64> {
    set(me, thread, |s| {
        let mut words = s.words();
        words[which] = value;
        s.set_words(&words)
    })
}

/// Sets the first `count` general registers, as far as they can be read and Linux takes them.
fn set_general(me: &Thread, thread: &Arc<Thread>, from: u64, count: usize) -> Result<u64> {
    let (mut words, mut there) = ([0u64; USER_REGS], count);
    if user::read(UserAddr::of(from), words[..count].as_mut_bytes()).is_err() {
        let word = |i: usize| user::get::<u64>(UserAddr::behind(from, 8 * i as u64));
        there = (0..count).take_while(|&i| word(i).map(|w| words[i] = w).is_ok()).count();
    }
    set(me, thread, |s| s.set_words(&words[..there]))?;
    if there == count { Ok(0) } else { Err(errno::EFAULT) }
}

/// PTRACE_ARCH_PRCTL.
fn bases(me: &Thread, thread: &Arc<Thread>, code: u64, value: u64) -> Result<u64> {
    const SET_GS: u64 = 0x1001;
    const SET_FS: u64 = 0x1002;
    const GET_FS: u64 = 0x1003;
    const GET_GS: u64 = 0x1004;
    let words = look(me, thread, |s| s.words())?;
    match code {
        GET_FS => put(UserAddr::of(value), &words[index::FS_BASE].to_le_bytes()),
        GET_GS => put(UserAddr::of(value), &words[index::GS_BASE].to_le_bytes()),
        SET_FS => set_word(me, thread, index::FS_BASE, value).map_err(|_| errno::EPERM),
        SET_GS => set_word(me, thread, index::GS_BASE, value).map_err(|_| errno::EPERM),
        _ => Err(errno::EINVAL),
    }
}

fn set_legacy(me: &Thread, thread: &Arc<Thread>, bytes: &[u8]) -> Result<u64> {
    check_fxsave(bytes)?;
    set(me, thread, |s| s.set_legacy(bytes))
}

/// The set's content and the size of its elements.
fn content(me: &Thread, thread: &Arc<Thread>, which: u64) -> Result<(Vec<u8>, u64)> {
    match which {
        regset::PRSTATUS => look(me, thread, |s| Ok((heap::copied(s.words().as_bytes())?, 8)))?,
        regset::PRFPREG => look(me, thread, |s| Ok((heap::copied(s.legacy())?, 8)))?,
        regset::X86_XSTATE if fpu::mask() != 0 => look(me, thread, |s| {
            let mut bytes = heap::copied(s.fpu.bytes())?;
            bytes[MASK_AT..FXSAVE].fill(0);
            bytes[MASK_AT..MASK_AT + 8].copy_from_slice(&fpu::mask().to_le_bytes());
            Ok((bytes, 8))
        })?,
        _ => look(me, thread, |_| Err(errno::EINVAL))?,
    }
}

/// Sets that there are and that a thread has nothing of, as on Linux one without ports: `none`, if
/// the size is right.
fn absent(which: u64, size: u64, none: Errno) -> Result<()> {
    if which == regset::X86_IOPERM && size.is_multiple_of(8) { Err(none) } else { Ok(()) }
}

fn get_set(me: &Thread, thread: &Arc<Thread>, which: u64, at: u64) -> Result<u64> {
    look(me, thread, |_| ())?;
    let [to, size]: [u64; 2] = user::get(UserAddr::of(at))?; // struct iovec
    absent(which, size, errno::ENXIO)?;
    let (bytes, element) = content(me, thread, which)?;
    if size % element != 0 {
        return Err(errno::EINVAL);
    }
    let part = &bytes[..bytes.len().min(usize::try_from(size).unwrap_or(usize::MAX))];
    put(UserAddr::of(to), part)?;
    put(UserAddr::behind(at, 8), &(part.len() as u64).to_le_bytes())
}

fn set_set(me: &Thread, thread: &Arc<Thread>, which: u64, at: u64) -> Result<u64> {
    look(me, thread, |_| ())?;
    let [from, size]: [u64; 2] = user::get(UserAddr::of(at))?;
    absent(which, size, errno::EOPNOTSUPP)?;
    let (now, element) = content(me, thread, which)?;
    if size % element != 0 {
        return Err(errno::EINVAL);
    }
    let length = now.len().min(usize::try_from(size).unwrap_or(usize::MAX));
    let read = || -> Result<Vec<u8>> {
        let mut bytes = heap::zeroed(length)?;
        user::read(UserAddr::of(from), &mut bytes)?;
        Ok(bytes)
    };
    match which {
        regset::PRSTATUS => drop(set_general(me, thread, from, length / 8)?),
        // As Linux: these are set as a whole.
        _ if length != now.len() => {
            return Err(if which == regset::PRFPREG { errno::EINVAL } else { errno::EFAULT });
        }
        regset::PRFPREG => drop(set_legacy(me, thread, &read()?)?),
        _ => {
            let bytes = read()?;
            check_xsave(&bytes, fpu::mask())?;
            set(me, thread, |s| {
                s.fpu.set_bytes(&bytes);
                Ok(())
            })?;
        }
    }
    put(UserAddr::behind(at, 8), &(length as u64).to_le_bytes())
}
