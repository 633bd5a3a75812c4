//! Restartable sequences (rseq(2); Linux' `kernel/rseq.c`, as 6.1 has it): what is
//! registered, and what becomes of a critical section whose thread was preempted,
//! moved or signalled.

use crate::errno::{self, Result};

/// Bytes of a `struct rseq`, and its alignment.
pub const SIZE: u64 = 32;
/// Where the address of the running critical section lies in a `struct rseq`.
pub const SECTION_OFFSET: u64 = 8;
/// Offset of the flags in a `struct rseq`.
pub const FLAGS_OFFSET: u64 = 16;
/// `cpu_id` of an area that is not kept up to date.
pub const UNINITIALIZED: u32 = u32::MAX;

const UNREGISTER: u64 = 1;

/// A registered area of user memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Area {
    /// Address of the area.
    pub addr: u64,
    /// Signature that stands before every abort handler.
    pub signature: u32,
}

/// The area that is registered after a call of rseq(2), where `now` was before; `None` after an
/// unregistration. `limit`: end of user addresses.
///
/// # Errors
/// `EINVAL`, `EPERM`, `EBUSY`, `EFAULT`, as Linux has them.
pub fn change(
    now: Option<Area>,
    addr: u64,
    len: u64,
    flags: u64,
    signature: u32,
    limit: u64,
) -> Result<Option<Area>> {
    if flags & UNREGISTER != 0 {
        if flags != UNREGISTER || len != SIZE {
            return Err(errno::EINVAL);
        }
        let area = now.filter(|a| a.addr == addr).ok_or(errno::EINVAL)?;
        return if area.signature == signature { Ok(None) } else { Err(errno::EPERM) };
    }
    if flags != 0 {
        return Err(errno::EINVAL);
    }
    if let Some(area) = now {
        return Err(match area {
            _ if area.addr != addr || len != SIZE => errno::EINVAL,
            _ if area.signature != signature => errno::EPERM,
            _ => errno::EBUSY,
        });
    }
    if !addr.is_multiple_of(SIZE) || len != SIZE {
        return Err(errno::EINVAL);
    }
    if addr.checked_add(SIZE).is_none_or(|end| end > limit) {
        return Err(errno::EFAULT);
    }
    Ok(Some(Area { addr, signature }))
}

/// A critical section (`struct rseq_cs`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Section {
    start: u64,
    len: u64,
    /// Flags, which Linux has given up: a thread inside may have none.
    pub flags: u32,
    /// Address where a thread goes on that was disturbed inside.
    pub abort: u64,
}

impl Section {
    /// Reads a section from words of user memory. `EINVAL`: the section is one for which Linux ends
    /// the program.
    ///
    /// # Errors
    /// `EINVAL`
    pub fn parse(words: [u64; 4], limit: u64) -> Result<Section> {
        let [version_and_flags, start, len, abort] = words;
        let end = start.checked_add(len).ok_or(errno::EINVAL)?;
        let (version, flags) = (version_and_flags as u32, (version_and_flags >> 32) as u32);
        let section = Section { start, len, flags, abort };
        if version != 0
            || start >= limit
            || end >= limit
            || abort >= limit
            || abort < 4
            || section.contains(abort)
        {
            return Err(errno::EINVAL);
        }
        Ok(section)
    }

    /// Whether an instruction lies in it.
    #[must_use]
    pub const fn contains(&self, ip: u64) -> bool {
        ip.wrapping_sub(self.start) < self.len
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: u64 = 1 << 47;

    fn section(version: u32, flags: u32, start: u64, len: u64, abort: u64) -> Result<Section> {
        let version_and_flags = u64::from(version) | u64::from(flags) << 32;
        Section::parse([version_and_flags, start, len, abort], LIMIT)
    }

    #[test]
    fn a_section_holds_its_instructions_and_not_its_end() {
        let s = section(0, 0, 0x1000, 0x10, 0x2000).unwrap();
        assert!(s.contains(0x1000) && s.contains(0x100f));
        assert!(!s.contains(0x1010) && !s.contains(0xfff) && !s.contains(0));
        assert_eq!((s.flags, section(0, 8, 0x1000, 0x10, 0x2000).unwrap().flags), (0, 8));
    }

    #[test]
    fn what_linux_ends_a_program_for_is_refused() {
        assert!(section(1, 0, 0x1000, 0x10, 0x2000).is_err());
        assert!(section(0, 0, 0x1000, 0x10, 0x1008).is_err());
        assert!(section(0, 0, u64::MAX - 4, 0x10, 0x2000).is_err());
        assert!(section(0, 0, LIMIT, 0x10, 0x2000).is_err());
        assert!(section(0, 0, 0x1000, LIMIT, 0x2000).is_err());
        assert!(section(0, 0, 0x1000, 0x10, LIMIT).is_err());
        assert!(section(0, 0, 0x1000, 0x10, 0).is_err());
    }

    #[test]
    fn an_area_is_registered_and_unregistered_as_on_linux() {
        let area = Area { addr: 0x2000, signature: 7 };
        assert_eq!(change(None, 0x2000, 32, 0, 7, LIMIT), Ok(Some(area)));
        assert_eq!(change(None, 0x2010, 32, 0, 7, LIMIT), Err(errno::EINVAL));
        assert_eq!(change(None, 0x2000, 31, 0, 7, LIMIT), Err(errno::EINVAL));
        assert_eq!(change(None, 0x2000, 32, 2, 7, LIMIT), Err(errno::EINVAL));
        assert_eq!(change(None, LIMIT, 32, 0, 7, LIMIT), Err(errno::EFAULT));
        assert_eq!(change(None, 0x2000, 32, 1, 7, LIMIT), Err(errno::EINVAL));
        assert_eq!(change(Some(area), 0x2000, 32, 0, 7, LIMIT), Err(errno::EBUSY));
        assert_eq!(change(Some(area), 0x2000, 32, 0, 8, LIMIT), Err(errno::EPERM));
        assert_eq!(change(Some(area), 0x3000, 32, 0, 7, LIMIT), Err(errno::EINVAL));
        assert_eq!(change(Some(area), 0x3000, 32, 1, 7, LIMIT), Err(errno::EINVAL));
        assert_eq!(change(Some(area), 0x2000, 32, 1, 8, LIMIT), Err(errno::EPERM));
        assert_eq!(change(Some(area), 0x2000, 16, 1, 7, LIMIT), Err(errno::EINVAL));
        assert_eq!(change(Some(area), 0x2000, 32, 3, 7, LIMIT), Err(errno::EINVAL));
        assert_eq!(change(Some(area), 0x2000, 32, 1, 7, LIMIT), Ok(None));
    }
}
