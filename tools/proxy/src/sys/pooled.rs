//! A pooled proxy's memory for packed calls, and what it has to find again when a task has given it
//! back.

use core::sync::atomic::{AtomicU64, Ordering};

use hanare_abi::PAGE_SIZE;
use hanare_abi::layout::CONTROL_END;
use hanare_abi::pooled::{MEMBER_BASE, Member, PACKED_BASE, PACKED_PAGES};
use hanare_core::marshal::{PAYLOAD_BYTES, Page};
use hanare_ikc::MemberRef;
use linux_raw_sys::errno::{EACCES, EMFILE, ENOMEM};
use linux_raw_sys::general::*;

use super::call::{Errno, Result, check, plain, raw_call};
use super::shared::Window;

impl Window {
    /// The page that says whose this pooled proxy is. The device must be mapped there
    /// (`attach::map_messages`).
    pub fn member(self) -> MemberRef<'static> {
        // SAFETY: mapped for good, aligned, and touched by nothing else here.
        unsafe { MemberRef::from_raw(MEMBER_BASE as *mut Member) }
    }

    /// Does something with the pages of the call that is being served. The LWK names none that is
    /// not there.
    pub fn with_pages<R>(self, f: impl FnOnce(&mut [Page]) -> R) -> R {
        let pages = PACKED_BASE as *mut Page;
        // SAFETY: memory that the LWK has for this process' only worker, and does not touch between
        // question and answer; bytes of any value. System calls do not write there.
        f(unsafe { core::slice::from_raw_parts_mut(pages, PACKED_PAGES as usize) })
    }
}

/// Bytes of the longest message, and of whole pages for it.
const MESSAGE_BYTES: usize = PACKED_PAGES as usize * PAYLOAD_BYTES;
const BUFFER_BYTES: u64 = (MESSAGE_BYTES as u64).next_multiple_of(PAGE_SIZE);

/// Where a message lies while its call is executed, with nothing mapped behind it; 0: not yet.
static BUFFER: AtomicU64 = AtomicU64::new(0);

/// Makes memory for messages, once.
pub fn make_buffer() -> Result<()> {
    let (protection, flags) = (PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE);
    let bytes = BUFFER_BYTES + PAGE_SIZE;
    let at = plain(__NR_mmap, [0, bytes, protection.into(), flags.into(), u64::MAX, 0])?;
    if at < CONTROL_END {
        return Err(Errno(ENOMEM));
    }
    plain(__NR_mprotect, [at + BUFFER_BYTES, PAGE_SIZE, PROT_NONE.into(), 0, 0, 0])?;
    BUFFER.store(at, Ordering::Relaxed);
    Ok(())
}

/// Does something with memory for a message of so many bytes, whose address is given, too: at the
/// start of pages, or so that it ends where memory ends. `None`: it is too long, or there is no
/// memory.
pub fn with_buffer<R>(
    bytes: usize,
    has_guard: bool,
    f: impl FnOnce(u64, &mut [u8]) -> R,
) -> Option<R> {
    let start = BUFFER.load(Ordering::Relaxed);
    if start == 0 || bytes > MESSAGE_BYTES {
        return None;
    }
    let at = start + if has_guard { BUFFER_BYTES - bytes as u64 } else { 0 };
    // SAFETY: mapped for the only thread of this process, which does one thing at a time; system
    // calls write to it while nothing borrows it.
    Some(f(at, unsafe { core::slice::from_raw_parts_mut(at as *mut u8, bytes) }))
}

/// State that a pooled proxy was started with, as far as calls may change it.
pub struct Inherited {
    /// Copies of descriptors 0, 1 and 2; `None`: there was none.
    standard: [Option<u32>; 3],
    directory: Option<u32>,
    umask: u64,
}

impl Inherited {
    /// Keeps it, in descriptors that `copy` makes.
    ///
    /// # Errors
    /// There is no descriptor for a copy.
    pub fn keep(copy: impl Fn(u32) -> Option<u32>) -> Result<Self> {
        let mut standard = [None; 3];
        for (fd, kept) in (0u32..).zip(&mut standard) {
            let is_open = plain(__NR_fcntl, [fd.into(), F_GETFD.into(), 0, 0, 0, 0]).is_ok();
            if is_open {
                *kept = Some(copy(fd).ok_or(Errno(EMFILE))?);
            }
        }
        let umask = plain(__NR_umask, [0; 6]).unwrap_or(0);
        let _ = plain(__NR_umask, [umask, 0, 0, 0, 0, 0]);
        Ok(Self { standard, directory: Self::directory(copy)?, umask })
    }

    /// The working directory; `None`: it cannot be opened.
    fn directory(copy: impl Fn(u32) -> Option<u32>) -> Result<Option<u32>> {
        let flags = u64::from(O_PATH | O_DIRECTORY | O_CLOEXEC);
        let here = c".".as_ptr() as u64;
        // SAFETY: a string of our own, which Linux only reads.
        let fd = match check(unsafe { raw_call(__NR_open, [here, flags, 0, 0, 0, 0]) }) {
            Err(Errno(EACCES)) => return Ok(None),
            opened => opened?,
        };
        let high = copy(fd as u32);
        let _ = plain(__NR_close, [fd, 0, 0, 0, 0, 0]);
        high.ok_or(Errno(EMFILE)).map(Some)
    }

    /// The descriptors that this is in, and `kept`, which calls of tasks do not get at.
    fn own(&self, kept: u32) -> impl Iterator<Item = u64> {
        let own = self.standard.into_iter().chain([self.directory, Some(kept)]);
        own.flatten().map(u64::from)
    }

    /// Whether a descriptor is one of those, or `kept`.
    pub fn is_own(&self, fd: u32, kept: u32) -> bool {
        self.own(kept).any(|own| own == u64::from(fd))
    }

    /// close_range(2) of descriptors `first` to `last` that are none of those.
    ///
    /// # Errors
    /// As of close_range(2).
    pub fn close_range(&self, first: u32, last: u32, flags: u64, kept: u32) -> Result<u64> {
        let close = |first, last| plain(__NR_close_range, [first, last, flags, 0, 0, 0]);
        let (mut next, last) = (u64::from(first), u64::from(last));
        // The few that stay lie together: one range below each.
        while let Some(own) = self.own(kept).filter(|fd| (next..=last).contains(fd)).min() {
            if own > next {
                close(next, own - 1)?;
            }
            next = own + 1;
            if next > last {
                return Ok(0);
            }
        }
        close(next, last)
    }

    /// Closes what is not one of these descriptors, nor `kept`.
    pub fn close_others(&self, kept: u32) {
        let _ = self.close_range(3, u32::MAX, 0, kept);
    }

    /// Has the process be as it was: descriptors, working directory, file mode mask.
    ///
    /// # Errors
    /// It cannot be, and is of no use to others.
    pub fn restore(&self, kept: u32) -> Result<()> {
        for (fd, copy) in (0u64..).zip(self.standard) {
            match copy {
                Some(copy) => plain(__NR_dup3, [copy.into(), fd, 0, 0, 0, 0]).map(drop)?,
                None => drop(plain(__NR_close, [fd, 0, 0, 0, 0, 0])),
            }
        }
        self.close_others(kept);
        let directory = self.directory.ok_or(Errno(EACCES))?;
        plain(__NR_fchdir, [directory.into(), 0, 0, 0, 0, 0])?;
        plain(__NR_umask, [self.umask, 0, 0, 0, 0, 0]).map(drop)
    }
}

/// A pipe: the end that is read, the end that is written.
pub fn pipe() -> Result<(u32, u32)> {
    let mut ends = [0u32; 2];
    let flags = u64::from(O_CLOEXEC);
    // SAFETY: Linux writes two descriptors.
    check(unsafe { raw_call(__NR_pipe2, [ends.as_mut_ptr() as u64, flags, 0, 0, 0, 0]) })?;
    Ok((ends[0], ends[1]))
}

/// Takes a child that has ended off Linux' list.
pub fn reap(pid: u32, waits: bool) {
    let options = __WALL | if waits { 0 } else { WNOHANG };
    let _ = plain(__NR_wait4, [pid.into(), 0, options.into(), 0, 0, 0]);
}
