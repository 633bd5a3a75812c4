//! The arguments of mmap(2): what the call asks for, then, with what is known of the file, the
//! mapping that it makes. Where a call is wrong in several ways at once the error can be another of
//! them than Linux': that looks at a fixed address before the file and the kind of the mapping.

use crate::addr::{PAGE_SIZE, align_up};
use crate::errno::{EINVAL, ENOMEM, EOPNOTSUPP, EOVERFLOW, EPERM, Result};
use crate::pagerange::PageRange;
use crate::vma::{Prot, VmaFlags};
use hanare_abi::layout::{USER_MAX, USER_MIN};
use linux_raw_sys::general;

/// The mapping is shared.
pub const MAP_SHARED: u64 = general::MAP_SHARED as u64;
/// The mapping is the process' own.
pub const MAP_PRIVATE: u64 = general::MAP_PRIVATE as u64;
/// Like [`MAP_SHARED`]: flags that are not known are refused.
pub const MAP_SHARED_VALIDATE: u64 = general::MAP_SHARED_VALIDATE as u64;
/// Maps at the given address.
pub const MAP_FIXED: u64 = general::MAP_FIXED as u64;
/// Maps memory without a file.
pub const MAP_ANONYMOUS: u64 = general::MAP_ANONYMOUS as u64;
/// Maps in the lowest 2 GiB.
pub const MAP_32BIT: u64 = general::MAP_32BIT as u64;
/// The mapping grows down when the addresses below it are touched.
pub const MAP_GROWSDOWN: u64 = general::MAP_GROWSDOWN as u64;
/// The pages are locked.
pub const MAP_LOCKED: u64 = general::MAP_LOCKED as u64;
/// No memory is promised.
pub const MAP_NORESERVE: u64 = general::MAP_NORESERVE as u64;
/// All pages are brought in.
pub const MAP_POPULATE: u64 = general::MAP_POPULATE as u64;
/// Takes [`MAP_POPULATE`] back.
pub const MAP_NONBLOCK: u64 = general::MAP_NONBLOCK as u64;
/// The mapping is going to be a stack.
pub const MAP_STACK: u64 = general::MAP_STACK as u64;
/// Large pages, or none.
pub const MAP_HUGETLB: u64 = general::MAP_HUGETLB as u64;
/// Maps at the given address, if nothing is mapped there.
pub const MAP_FIXED_NOREPLACE: u64 = general::MAP_FIXED_NOREPLACE as u64;

const KIND: u64 = 0xf;
const MAP_HUGE_SHIFT: u64 = general::MAP_HUGE_SHIFT as u64;
const MAP_HUGE_MASK: u64 = general::MAP_HUGE_MASK as u64;
const LARGE: u64 = 2 << 20;
const GIANT: u64 = 1 << 30;

/// The size of the large pages of a mapping, and its flags.
pub type PageSize = (u64, VmaFlags);

/// The page size that flags with [`MAP_HUGETLB`] ask for.
///
/// # Errors
/// `EINVAL`: no such pages.
pub fn page_size(flags: u64) -> Result<PageSize> {
    match flags >> MAP_HUGE_SHIFT & MAP_HUGE_MASK {
        0 | 21 => Ok((LARGE, VmaFlags::HUGETLB)),
        30 => Ok((GIANT, VmaFlags::HUGETLB | VmaFlags::HUGETLB_1G)),
        _ => Err(EINVAL),
    }
}

/// Flags that ask for pages of a size.
#[must_use]
pub fn with_size(flags: u64, size: u64) -> u64 {
    flags & !(MAP_HUGE_MASK << MAP_HUGE_SHIFT)
        | MAP_HUGETLB
        | u64::from(size.trailing_zeros()) << MAP_HUGE_SHIFT
}

/// The length of a mapping, in whole pages of a size.
///
/// # Errors
/// `EINVAL`: it has no end.
pub fn round(len: u64, size: u64) -> Result<u64> {
    align_up(len, size).ok_or(EINVAL)
}

/// The size of the pages of a mapping that has only large ones.
#[must_use]
pub fn size_of(flags: VmaFlags) -> Option<u64> {
    let size = if flags.contains(VmaFlags::HUGETLB_1G) { GIANT } else { LARGE };
    flags.contains(VmaFlags::HUGETLB).then_some(size)
}

/// The rights that bits of a call name.
#[must_use]
pub fn prot_of(bits: u64) -> Prot {
    Prot::from_bits_truncate(bits as u32 & 7)
}

/// A call of mmap(2), as far as its arguments alone say whether it can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    addr: u64,
    len: u64,
    /// The rights that the call asks for.
    pub prot: Prot,
    flags: u64,
    /// The descriptor of the file.
    pub fd: u64,
    /// The place in the file.
    pub offset: u64,
    huge: Option<PageSize>,
}

/// The file behind a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// A file that is read for a private mapping, which may gain these rights.
    Read(Prot),
    /// A file that Linux maps, with the size of its pages where it has large ones.
    Linux(Option<PageSize>),
}

/// The memory behind a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behind {
    /// The process' own memory.
    Memory,
    /// A file that is read.
    File,
    /// Memory of Linux', which maps it in the proxy, too.
    Linux {
        /// The memory is that of a file or a device.
        of_file: bool,
    },
}

/// The mapping that a call makes, if it may and there is room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The address, or the one that is wished for.
    pub addr: u64,
    /// The length, in whole pages.
    pub len: u64,
    /// The rights.
    pub prot: Prot,
    /// The rights that the mapping may gain.
    pub max_prot: Prot,
    /// The flags of the call.
    pub flags: u64,
    /// The flags of the mapping.
    pub vma_flags: VmaFlags,
    /// Size of the mapping's large pages.
    pub huge: Option<u64>,
    /// Memory behind the mapping.
    pub behind: Behind,
}

impl Request {
    /// The arguments of a call.
    ///
    /// # Errors
    /// `EINVAL`: no length, or no such pages.
    pub fn of(args: &[u64; 6]) -> Result<Request> {
        let [addr, len, prot, flags, fd, offset] = *args;
        if len == 0 {
            return Err(EINVAL);
        }
        let is_huge = flags & (MAP_ANONYMOUS | MAP_HUGETLB) == MAP_ANONYMOUS | MAP_HUGETLB;
        let huge = if is_huge { Some(page_size(flags)?) } else { None };
        Ok(Request { addr, len, prot: prot_of(prot), flags, fd, offset, huge })
    }

    /// Whether the mapping has no file.
    #[must_use]
    pub fn is_anonymous(&self) -> bool {
        self.flags & MAP_ANONYMOUS != 0
    }

    /// Whether the mapping is the process' own.
    #[must_use]
    pub fn is_private(&self) -> bool {
        self.flags & KIND == MAP_PRIVATE
    }

    /// The mapping that the call makes. `source`: the file, unless it is [about
    /// none](Self::is_anonymous), or why there is none. `implies_exec`: what can be read can be
    /// executed, in that process.
    ///
    /// # Errors
    /// Errors of mmap(2) but for what depends on what is mapped already, and that of `source`. The
    /// length is looked at first, as on Linux.
    pub fn plan(self, source: Option<Result<Source>>, implies_exec: bool) -> Result<Plan> {
        let Request { addr, flags, offset, .. } = self;
        let (kind, is_anonymous) = (flags & KIND, self.is_anonymous());
        let huge = match source {
            Some(Ok(Source::Linux(huge))) => huge,
            _ => self.huge,
        };
        let len = align_up(self.len, PAGE_SIZE).ok_or(ENOMEM)?;
        if len > USER_MAX - USER_MIN {
            return Err(ENOMEM);
        }
        let len = round(len, huge.map_or(PAGE_SIZE, |(size, _)| size))?;
        let is_known = matches!(kind, MAP_SHARED | MAP_PRIVATE | MAP_SHARED_VALIDATE);
        if !is_known || is_anonymous && kind == MAP_SHARED_VALIDATE {
            return Err(EINVAL);
        }
        if !is_anonymous && offset.checked_add(len).is_none_or(|end| end > i64::MAX as u64) {
            return Err(EOVERFLOW);
        }
        let source = source.transpose()?;
        let is_implied = implies_exec && self.prot.contains(Prot::READ);
        let implied = self.prot | if is_implied { Prot::EXEC } else { Prot::empty() };
        let max_prot = match source {
            Some(Source::Read(max_prot)) => max_prot,
            _ => Prot::all(),
        };
        let prot = implied & (self.prot | max_prot);
        if flags & MAP_HUGETLB != 0 && huge.is_none()
            || flags & MAP_GROWSDOWN != 0 && !(is_anonymous && self.is_private())
        {
            return Err(EINVAL);
        }
        let behind = match source {
            Some(Source::Read(_)) => Behind::File,
            None if self.is_private() => Behind::Memory,
            _ => Behind::Linux { of_file: !is_anonymous },
        };
        let vma_flags = self.vma_flags(huge);
        let huge = huge.map(|(size, _)| size);
        let plan = Plan { addr, len, prot, max_prot, flags, vma_flags, huge, behind };
        plan.check_fixed().map(|()| plan)
    }

    fn vma_flags(&self, huge: Option<PageSize>) -> VmaFlags {
        let mut all = huge.map_or(VmaFlags::empty(), |(_, flags)| flags);
        let has = |bit| self.flags & bit != 0;
        all.set(VmaFlags::NORESERVE, has(MAP_NORESERVE));
        all.set(VmaFlags::GROWSDOWN, has(MAP_GROWSDOWN));
        // As Linux since 6.7: there may be thousands of stacks, each used a little, at its end.
        all.set(VmaFlags::NOHUGE, has(MAP_STACK) && huge.is_none());
        all.set(VmaFlags::SHARED, !self.is_private());
        all.set(VmaFlags::ANONYMOUS_SHARED, !self.is_private() && self.is_anonymous());
        all
    }
}

impl Plan {
    /// Whether one of some flags of the call is set.
    #[must_use]
    pub const fn has(&self, flags: u64) -> bool {
        self.flags & flags != 0
    }

    /// Whether the mapping is to be at the address that is given.
    #[must_use]
    pub const fn is_fixed(&self) -> bool {
        self.has(MAP_FIXED | MAP_FIXED_NOREPLACE)
    }

    /// Whether the mapping takes the place of what is mapped there.
    #[must_use]
    pub const fn replaces(&self) -> bool {
        self.flags & (MAP_FIXED | MAP_FIXED_NOREPLACE) == MAP_FIXED
    }

    /// Range of a fixed mapping.
    #[must_use]
    pub const fn range(&self) -> PageRange {
        PageRange::of(self.addr, self.addr + self.len)
    }

    fn check_fixed(&self) -> Result<()> {
        if !self.is_fixed() {
            return Ok(());
        }
        self.addr.checked_add(self.len).filter(|&end| end <= USER_MAX).ok_or(ENOMEM)?;
        if !self.addr.is_multiple_of(self.huge.unwrap_or(PAGE_SIZE)) {
            return Err(EINVAL);
        }
        if self.addr < USER_MIN { Err(EPERM) } else { Ok(()) }
    }

    /// Checks a flag that Linux looks at after what is mapped at the address.
    ///
    /// # Errors
    /// `EOPNOTSUPP`: the kind of mapping does not promise to look at that flag.
    pub const fn check_kind(&self) -> Result<()> {
        let is_unknown = self.flags & KIND == MAP_SHARED_VALIDATE && self.has(MAP_FIXED_NOREPLACE);
        if is_unknown { Err(EOPNOTSUPP) } else { Ok(()) }
    }

    /// Whether the mapping counts against RLIMIT_DATA.
    #[must_use]
    pub const fn is_data(&self) -> bool {
        self.flags & (KIND | MAP_GROWSDOWN) == MAP_PRIVATE && self.prot.contains(Prot::WRITE)
    }

    /// Whether its pages come out of Linux' pool of large ones.
    #[must_use]
    pub const fn is_from_pool(&self) -> bool {
        matches!(self.behind, Behind::Linux { of_file: true }) && self.huge.is_some()
    }

    /// Flags by which the mapping's place is chosen.
    #[must_use]
    pub fn flags_of_place(&self) -> u64 {
        self.huge.map_or(self.flags, |size| with_size(self.flags, size))
    }

    /// Whether all pages are to be brought in. `locks`: the flags for memory that is locked.
    #[must_use]
    pub fn is_populated(&self, locks: VmaFlags) -> bool {
        let is_locked = locks & (VmaFlags::LOCKED | VmaFlags::LOCK_ON_FAULT) == VmaFlags::LOCKED;
        self.flags & (MAP_POPULATE | MAP_NONBLOCK) == MAP_POPULATE || is_locked
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addr::is_page_aligned;
    use crate::errno::{EACCES, EBADF, Errno};
    use proptest::prelude::*;

    const PRIVATE: u64 = MAP_PRIVATE | MAP_ANONYMOUS;
    const FILE: Option<Result<Source>> = Some(Ok(Source::Read(Prot::all())));

    fn plan(args: [u64; 6], source: Option<Result<Source>>) -> Result<Plan> {
        Request::of(&args)?.plan(source, false)
    }

    fn anonymous(addr: u64, len: u64, flags: u64) -> Result<Plan> {
        plan([addr, len, 3, flags, u64::MAX, 0], None)
    }

    /// The errors of the manual page, and in which order they come where there are two.
    #[test]
    fn errors_are_those_of_the_manual() {
        let fixed = PRIVATE | MAP_FIXED;
        let large = PRIVATE | MAP_HUGETLB;
        for (addr, len, flags, error) in [
            (0, 0, PRIVATE, EINVAL),
            (0, 0, 0, EINVAL),
            (0, 1, MAP_ANONYMOUS, EINVAL),
            (0, 1, 4 | MAP_ANONYMOUS, EINVAL),
            (0, 1, MAP_SHARED_VALIDATE | MAP_ANONYMOUS, EINVAL),
            (0, 1, MAP_SHARED | MAP_ANONYMOUS | MAP_GROWSDOWN, EINVAL),
            (0, u64::MAX, PRIVATE, ENOMEM),
            (0, u64::MAX, MAP_ANONYMOUS, ENOMEM),
            (0, USER_MAX, PRIVATE, ENOMEM),
            (USER_MIN + 1, 1, fixed, EINVAL),
            (USER_MIN + PAGE_SIZE, 1, large | MAP_FIXED, EINVAL),
            (0, 1, fixed, EPERM),
            (USER_MAX, 1, fixed, ENOMEM),
            (u64::MAX - PAGE_SIZE + 1, PAGE_SIZE, fixed, ENOMEM),
            (USER_MAX + 1, 1, PRIVATE | MAP_FIXED_NOREPLACE, ENOMEM),
            (0, 1, large | 16 << MAP_HUGE_SHIFT, EINVAL),
        ] {
            assert_eq!(anonymous(addr, len, flags), Err(error), "{addr:x} {len:x} {flags:x}");
        }
    }

    #[test]
    fn an_error_of_the_file_comes_after_those_of_length_and_offset() {
        let with = |len, flags, offset, error: Errno| {
            plan([0, len, 1, flags, 3, offset], Some(Err(error)))
        };
        assert_eq!(with(1, MAP_PRIVATE, 0, EBADF), Err(EBADF));
        assert_eq!(with(0, MAP_PRIVATE, 0, EBADF), Err(EINVAL));
        assert_eq!(with(u64::MAX, MAP_PRIVATE, 0, EBADF), Err(ENOMEM));
        assert_eq!(with(1, MAP_PRIVATE, 1 << 63, EACCES), Err(EOVERFLOW));
        assert_eq!(with(1, MAP_PRIVATE, (1 << 63) - PAGE_SIZE, EACCES), Err(EOVERFLOW));
        assert_eq!(with(1, MAP_PRIVATE | MAP_GROWSDOWN, 0, EACCES), Err(EACCES));
        let grows = plan([0, 1, 1, MAP_PRIVATE | MAP_GROWSDOWN, 3, 0], FILE);
        assert_eq!(grows, Err(EINVAL));
        let large = plan([0, 1, 1, MAP_PRIVATE | MAP_HUGETLB, 3, 0], FILE);
        assert_eq!(large, Err(EINVAL), "a file without large pages");
    }

    #[test]
    fn what_lies_behind() {
        let behind = |flags, source| plan([0, 1, 3, flags, 3, 0], source).map(|plan| plan.behind);
        let linux = Some(Ok(Source::Linux(None)));
        assert_eq!(behind(PRIVATE, None), Ok(Behind::Memory));
        assert_eq!(behind(MAP_SHARED | MAP_ANONYMOUS, None), Ok(Behind::Linux { of_file: false }));
        assert_eq!(behind(MAP_SHARED, linux), Ok(Behind::Linux { of_file: true }));
        assert_eq!(behind(MAP_PRIVATE, linux), Ok(Behind::Linux { of_file: true }));
        assert_eq!(behind(MAP_PRIVATE, FILE), Ok(Behind::File));
    }

    #[test]
    fn implied_rights_stop_at_those_of_the_file() {
        let rights = |source| {
            let request = Request::of(&[0, 1, 1, MAP_PRIVATE, 3, 0]).unwrap();
            request.plan(source, true).unwrap().prot
        };
        assert_eq!(rights(FILE), Prot::READ | Prot::EXEC);
        assert_eq!(rights(Some(Ok(Source::Read(Prot::READ | Prot::WRITE)))), Prot::READ);
        assert_eq!(rights(Some(Ok(Source::Linux(None)))), Prot::READ | Prot::EXEC);
    }

    #[test]
    fn only_a_validated_kind_refuses_flags() {
        let kind = |kind| {
            let flags = kind | MAP_FIXED_NOREPLACE;
            let source = Some(Ok(Source::Linux(None)));
            plan([USER_MIN, 1, 1, flags, 3, 0], source).unwrap().check_kind()
        };
        assert_eq!(kind(MAP_SHARED), Ok(()));
        assert_eq!(kind(MAP_SHARED_VALIDATE), Err(EOPNOTSUPP));
    }

    fn arguments() -> impl Strategy<Value = [u64; 6]> {
        let edges = prop_oneof![
            0..4 * PAGE_SIZE,
            (0..8u64).prop_map(|n| USER_MIN + n * PAGE_SIZE),
            (0..0x4000u64).prop_map(|n| USER_MAX - 0x2000 + n),
            any::<u64>(),
            (0..0x2000u64).prop_map(|n| u64::MAX - n),
        ];
        let flags =
            (any::<u32>(), 0..5u64).prop_map(|(flags, kind)| u64::from(flags) & !KIND | kind);
        (edges.clone(), edges.clone(), any::<u64>(), flags, any::<u64>(), edges).prop_map(
            |(addr, len, prot, flags, fd, offset)| [addr, len, prot, flags, fd, offset & !0xfff],
        )
    }

    fn sources() -> impl Strategy<Value = Result<Source>> {
        let large = Some((LARGE, VmaFlags::HUGETLB));
        prop_oneof![
            Just(Ok(Source::Read(Prot::all()))),
            Just(Ok(Source::Read(Prot::READ | Prot::WRITE))),
            Just(Ok(Source::Linux(None))),
            Just(Ok(Source::Linux(large))),
            Just(Err(EBADF)),
        ]
    }

    proptest! {
        /// A mapping that is planned is whole pages, at least as long as was asked for, and lies
        /// in the process' addresses where its address is fixed.
        #[test]
        fn plans_can_be_carried_out(args in arguments(), source in sources(), implies in any::<bool>()) {
            let Ok(request) = Request::of(&args) else { return Ok(()) };
            let source = match source {
                Ok(Source::Read(_)) if !request.is_private() => Ok(Source::Linux(None)),
                source => source,
            };
            let source = (!request.is_anonymous()).then_some(source);
            let Ok(plan) = request.plan(source, implies) else { return Ok(()) };
            let size = plan.huge.unwrap_or(PAGE_SIZE);
            prop_assert!(plan.len >= args[1] && plan.len.is_multiple_of(size) && plan.len > 0);
            prop_assert!(plan.len - args[1] < size + PAGE_SIZE);
            prop_assert_eq!(size_of(plan.vma_flags), plan.huge);
            prop_assert_eq!(plan.flags, args[3]);
            if plan.is_fixed() {
                prop_assert!(is_page_aligned(plan.addr) && plan.addr.is_multiple_of(size));
                prop_assert!(USER_MIN <= plan.addr && plan.range().end() <= USER_MAX);
            }
            let is_shared = plan.vma_flags.contains(VmaFlags::SHARED);
            let is_linux = matches!(plan.behind, Behind::Linux { .. });
            prop_assert!(!is_shared || is_linux);
            prop_assert!(prot_of(args[2]).difference(plan.prot).is_empty());
            if let Some(size) = plan.huge {
                prop_assert_eq!(page_size(plan.flags_of_place()).map(|(size, _)| size), Ok(size));
            }
        }
    }
}
