//! Reading an ELF program: what to map where. Same verdicts as Linux'
//! `fs/binfmt_elf.c`; no panic on any input.
//!
//! Two stages, because the program headers can lie anywhere: [`ElfHeader::parse`]
//! of the file's first bytes says where they are, [`ElfPlan::new`] reads them. The file's
//! structures and constants are those of `object`. Its own readers of headers are not used: they
//! look at what Linux does not (class, version), and their errors do not say which `errno` it is.

use alloc::vec::Vec;

use crate::addr::{PAGE_SIZE, align_down, align_up, is_page_aligned, page_down};
use crate::errno::{self, Errno};
use crate::limits::{MAX_PHDR_BYTES, PATH_MAX, USER_MAX};
use crate::lists;
use crate::vma::Prot;
use object::LittleEndian;
use object::elf::{
    ELFMAG, EM_X86_64, ET_DYN, ET_EXEC, FileHeader64, PF_R, PF_W, PF_X, PT_GNU_STACK, PT_INTERP,
    PT_LOAD, ProgramHeader64,
};
use object::pod::{from_bytes, slice_from_bytes};

type FileHeader = FileHeader64<LittleEndian>;
type ProgramHeader = ProgramHeader64<LittleEndian>;

/// Bytes of the ELF header that [`ElfHeader::parse`] needs.
pub const HEADER_SIZE: usize = size_of::<FileHeader>();
/// Bytes of one program header.
pub const PHDR_SIZE: usize = size_of::<ProgramHeader>();

/// Why a file is not loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElfError {
    /// The file does not start with the ELF magic.
    NotElf,
    /// The file ends before the header does.
    Truncated,
    /// Neither an executable nor a shared object.
    BadType,
    /// For another machine (or 32-bit): `e_machine`.
    OtherMachine(u16),
    /// Program headers of another size, none at all, too many, or not in the file.
    BadProgramHeaders,
    /// The interpreter's path is too short, too long or not zero-terminated.
    BadInterpreter,
    /// There is no memory for what the headers describe.
    NoMemory,
}

impl ElfError {
    /// Error of `execve` for the program itself.
    #[must_use]
    pub const fn errno(self) -> Errno {
        match self {
            Self::NotElf
            | Self::Truncated
            | Self::BadType
            | Self::OtherMachine(_)
            | Self::BadProgramHeaders
            | Self::BadInterpreter => errno::ENOEXEC,
            Self::NoMemory => errno::ENOMEM,
        }
    }

    /// Error of `execve` where the interpreter is at fault; `None`: Linux notices that behind the
    /// point of no return.
    #[must_use]
    pub const fn interpreter_errno(self) -> Option<Errno> {
        Some(match self {
            Self::Truncated => errno::EIO,
            Self::NotElf | Self::OtherMachine(_) | Self::BadProgramHeaders => errno::ELIBBAD,
            Self::NoMemory => errno::ENOMEM,
            Self::BadType | Self::BadInterpreter => return None,
        })
    }
}

impl From<ElfError> for Errno {
    fn from(error: ElfError) -> Self {
        error.errno()
    }
}

/// Stage 1: what the ELF header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ElfHeader {
    /// Loadable at any address (`ET_DYN`): position-independent program or library.
    pub is_pie: bool,
    /// Entry point, before relocation by the load bias.
    pub entry: u64,
    /// Offset of the program headers in the file.
    pub phoff: u64,
    /// Number of program headers, 1..=1170.
    pub phnum: u16,
    /// Bytes of one program header: always [`PHDR_SIZE`].
    pub phentsize: u16,
}

impl ElfHeader {
    /// Reads the first bytes of a file ([`HEADER_SIZE`] suffice).
    ///
    /// # Errors
    /// See [`ElfError`].
    pub fn parse(head: &[u8]) -> Result<Self, ElfError> {
        let (file, _) = from_bytes::<FileHeader>(head).map_err(|()| ElfError::Truncated)?;
        if !head.starts_with(&ELFMAG) {
            return Err(ElfError::NotElf);
        }
        let kind = file.e_type.get(LittleEndian);
        if kind != ET_EXEC && kind != ET_DYN {
            return Err(ElfError::BadType);
        }
        let machine = file.e_machine.get(LittleEndian);
        if machine != EM_X86_64 {
            return Err(ElfError::OtherMachine(machine.0));
        }
        let header = Self {
            is_pie: kind == ET_DYN,
            entry: file.e_entry.get(LittleEndian),
            phoff: file.e_phoff.get(LittleEndian),
            phentsize: file.e_phentsize.get(LittleEndian),
            phnum: file.e_phnum.get(LittleEndian),
        };
        let bytes = header.phdr_bytes();
        // a 32-bit file for this machine (x32) has smaller ones
        if usize::from(header.phentsize) != PHDR_SIZE || bytes == 0 || bytes > MAX_PHDR_BYTES {
            return Err(ElfError::BadProgramHeaders);
        }
        if i64::try_from(header.phoff).is_err() {
            return Err(ElfError::BadProgramHeaders);
        }
        Ok(header)
    }

    /// Bytes to read at `phoff` for [`ElfPlan::new`].
    #[must_use]
    pub const fn phdr_bytes(&self) -> usize {
        self.phnum as usize * PHDR_SIZE
    }
}

/// A loadable segment. Addresses are those of the file: the load bias comes on top.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// First byte in memory.
    pub vaddr: u64,
    /// Bytes in memory, > 0.
    pub mem_size: u64,
    /// First byte in the file. May lie behind its end: the access is SIGBUS then.
    pub file_offset: u64,
    /// Bytes from the file, at most `mem_size`; zeros follow.
    pub file_size: u64,
    /// Rights.
    pub prot: Prot,
}

impl Segment {
    /// Start of its first page.
    #[must_use]
    pub const fn map_start(&self) -> u64 {
        page_down(self.vaddr)
    }

    /// End of its last page.
    #[must_use]
    pub const fn map_end(&self) -> u64 {
        // ElfPlan::new saw that vaddr + mem_size is below USER_MAX
        crate::addr::page_up(self.vaddr + self.mem_size)
    }

    /// File offset of the first page; meaningful if `file_size` > 0.
    #[must_use]
    pub const fn map_offset(&self) -> u64 {
        self.file_offset.wrapping_sub(self.vaddr - self.map_start())
    }

    /// End of the last page that has bytes of the file; `map_start` if there is none.
    #[must_use]
    pub const fn file_map_end(&self) -> u64 {
        if self.file_size == 0 {
            self.map_start()
        } else {
            crate::addr::page_up(self.vaddr + self.file_size)
        }
    }

    /// Bytes of the last file page to be cleared: from the end of the file's part
    /// to the end of that page or of the segment's last page. Empty if
    /// `mem_size == file_size` (the page keeps what the file has there).
    #[must_use]
    pub const fn clear_range(&self) -> (u64, u64) {
        if self.file_size == 0 || self.mem_size == self.file_size {
            let end = self.file_map_end();
            return (end, end);
        }
        (self.vaddr + self.file_size, self.file_map_end())
    }
}

/// Stage 2: what to map.
#[cfg_attr(test, derive(Clone))]
#[derive(Debug, PartialEq, Eq)]
pub struct ElfPlan {
    /// Loadable segments, in the file's order; later ones replace earlier ones
    /// where they share a page.
    pub segments: Vec<Segment>,
    /// Path of the interpreter: offset in the file, bytes with the zero (2..=4096).
    pub interpreter: Option<(u64, usize)>,
    /// Entry point, before the load bias.
    pub entry: u64,
    /// Address of the program headers in memory (`AT_PHDR`), before the load bias.
    pub phdr_vaddr: Option<u64>,
    /// Number of program headers (`AT_PHNUM`).
    pub phnum: u16,
    /// Loadable at any address.
    pub is_pie: bool,
    /// Largest sensible alignment a segment asks for, at least 4096.
    pub align: u64,
    /// `PT_GNU_STACK` asks for an executable stack.
    pub exec_stack: bool,
    /// A segment cannot be loaded, or there is none to say where a movable program goes. A segment
    /// cannot be loaded that is larger in the file than in memory, does not fit into the address
    /// space, or whose file offset does not match its address. Linux notices that behind the
    /// point of no return, and ends the process by SIGSEGV. Such segments are left out here.
    pub is_broken: bool,
}

impl ElfPlan {
    /// Reads the program headers: `phdrs` are the bytes at `header.phoff`.
    ///
    /// # Errors
    /// See [`ElfError`].
    pub fn new(header: &ElfHeader, phdrs: &[u8]) -> Result<Self, ElfError> {
        let (phdrs, _) = slice_from_bytes::<ProgramHeader>(phdrs, header.phnum.into())
            .map_err(|()| ElfError::BadProgramHeaders)?;
        let mut plan = Self {
            segments: Vec::new(),
            interpreter: None,
            entry: header.entry,
            phdr_vaddr: None,
            phnum: header.phnum,
            is_pie: header.is_pie,
            align: PAGE_SIZE,
            exec_stack: false,
            is_broken: false,
        };
        for phdr in phdrs {
            plan.add(header, phdr)?;
        }
        plan.is_broken |= plan.segments.is_empty() && plan.is_pie;
        Ok(plan)
    }

    /// Both stages, for a file that is in memory as a whole or from its start on.
    ///
    /// # Errors
    /// See [`ElfError`].
    pub fn parse(file: &[u8]) -> Result<Self, ElfError> {
        let header = ElfHeader::parse(file)?;
        let phdrs = usize::try_from(header.phoff).ok().and_then(|phoff| file.get(phoff..));
        Self::new(&header, phdrs.ok_or(ElfError::BadProgramHeaders)?)
    }

    fn add(&mut self, header: &ElfHeader, phdr: &ProgramHeader) -> Result<(), ElfError> {
        let flags = phdr.p_flags.get(LittleEndian);
        let offset = phdr.p_offset.get(LittleEndian);
        let vaddr = phdr.p_vaddr.get(LittleEndian);
        let file_size = phdr.p_filesz.get(LittleEndian);
        let mem_size = phdr.p_memsz.get(LittleEndian);
        let align = phdr.p_align.get(LittleEndian);
        match phdr.p_type.get(LittleEndian) {
            PT_INTERP if self.interpreter.is_none() => {
                if !(2..=PATH_MAX as u64).contains(&file_size) {
                    return Err(ElfError::BadInterpreter);
                }
                self.interpreter = Some((offset, file_size as usize));
            }
            PT_GNU_STACK => self.exec_stack = flags.contains(PF_X),
            PT_LOAD => {
                if offset <= header.phoff
                    && offset.checked_add(file_size).is_none_or(|end| header.phoff < end)
                {
                    self.phdr_vaddr = Some(vaddr.wrapping_add(header.phoff - offset));
                }
                // Linux ignores alignments that are no power of two
                if align.is_power_of_two() {
                    self.align = self.align.max(align.min(1 << 30));
                }
                if mem_size == 0 && file_size == 0 {
                    return Ok(());
                }
                let mut prot = Prot::empty();
                prot.set(Prot::READ, flags.contains(PF_R));
                prot.set(Prot::WRITE, flags.contains(PF_W));
                prot.set(Prot::EXEC, flags.contains(PF_X));
                let segment = Segment { vaddr, mem_size, file_offset: offset, file_size, prot };
                if is_loadable(&segment) {
                    lists::push(&mut self.segments, segment).map_err(|_| ElfError::NoMemory)?;
                } else {
                    self.is_broken = true;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Page-aligned range from the lowest to the highest address of all segments,
    /// before the load bias; (0, 0) if there is none.
    #[must_use]
    pub fn span(&self) -> (u64, u64) {
        let min = self.segments.iter().map(Segment::map_start).min().unwrap_or(0);
        let max = self.segments.iter().map(Segment::map_end).max().unwrap_or(0);
        (min, max)
    }

    /// End of the highest segment, not rounded, before the load bias: where the
    /// heap (`brk`) starts when placed right behind the program.
    #[must_use]
    pub fn data_end(&self) -> u64 {
        self.segments.iter().map(|s| s.vaddr + s.mem_size).max().unwrap_or(0)
    }

    /// Number that is added to every address so that the program lies at or above `base` with its
    /// alignment; 0 for a program with fixed addresses.
    #[must_use]
    pub fn bias_above(&self, base: u64) -> Option<u64> {
        if !self.is_pie {
            return Some(0);
        }
        let (min, max) = self.span();
        let start = align_up(base, self.align)?.checked_add(min - align_down(min, self.align))?;
        let bias = start.wrapping_sub(min);
        (start.checked_add(max - min)? <= USER_MAX).then_some(bias)
    }
}

fn is_loadable(segment: &Segment) -> bool {
    let Segment { vaddr, mem_size, file_offset, file_size, .. } = *segment;
    let most = if cfg!(feature = "mutant") { u64::MAX - PAGE_SIZE } else { USER_MAX };
    let fits = |size: u64| vaddr.checked_add(size).is_some_and(|end| end <= most);
    if file_size > mem_size || !fits(mem_size) {
        return false;
    }
    // offsets are signed in Linux; the page before and the page behind must exist
    file_size == 0
        || (is_page_aligned(file_offset.wrapping_sub(vaddr))
            && file_offset.checked_add(file_size + PAGE_SIZE).is_some_and(|end| end < 1 << 63))
}

/// The interpreter's path out of the bytes that [`ElfPlan::interpreter`] points to.
///
/// # Errors
/// `BadInterpreter`: the last byte is not zero, or the path is empty.
pub fn interpreter_path(bytes: &[u8]) -> Result<&[u8], ElfError> {
    if bytes.last() != Some(&0) {
        return Err(ElfError::BadInterpreter);
    }
    bytes.split(|&byte| byte == 0).next().ok_or(ElfError::BadInterpreter)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec;

    fn put(file: &mut [u8], at: usize, value: u64, size: usize) {
        file[at..at + size].copy_from_slice(&value.to_le_bytes()[..size]);
    }

    /// A small program: one PT_LOAD over the headers.
    fn program() -> Vec<u8> {
        let mut file = vec![0u8; 0x1000];
        file[..4].copy_from_slice(b"\x7fELF");
        put(&mut file, 16, 2, 2);
        put(&mut file, 18, 62, 2);
        put(&mut file, 24, 0x40_1000, 8);
        put(&mut file, 32, 64, 8);
        put(&mut file, 54, 56, 2);
        put(&mut file, 56, 3, 2);
        for (index, fields) in [
            [1, 5, 0, 0x40_0000, 0x1000, 0x1000, 0x1000],
            [1, 6, 0xff0, 0x60_0ff0, 0x10, 0x5000, 0x20_0000],
            [PT_GNU_STACK.0.into(), 6, 0, 0, 0, 0, 16],
        ]
        .iter()
        .enumerate()
        {
            let at = 64 + index * 56;
            put(&mut file, at, fields[0], 4);
            put(&mut file, at + 4, fields[1], 4);
            put(&mut file, at + 8, fields[2], 8);
            put(&mut file, at + 16, fields[3], 8);
            put(&mut file, at + 32, fields[4], 8);
            put(&mut file, at + 40, fields[5], 8);
            put(&mut file, at + 48, fields[6], 8);
        }
        file
    }

    #[test]
    fn a_plan_says_where_segments_go() {
        let plan = ElfPlan::parse(&program()).unwrap();
        assert_eq!(plan.entry, 0x40_1000);
        assert_eq!(plan.phdr_vaddr, Some(0x40_0040));
        assert!(!plan.is_pie && !plan.exec_stack);
        assert_eq!(plan.align, 0x20_0000);
        assert_eq!(plan.span(), (0x40_0000, 0x60_6000));
        assert_eq!(plan.data_end(), 0x60_5ff0);
        let data = plan.segments[1];
        assert_eq!(data.prot, Prot::READ | Prot::WRITE);
        assert_eq!(
            (data.map_start(), data.map_offset(), data.file_map_end()),
            (0x60_0000, 0, 0x60_1000)
        );
        assert_eq!(data.clear_range(), (0x60_1000, 0x60_1000));
        assert_eq!(plan.bias_above(0x5555_0000_0000), Some(0));
    }

    #[test]
    fn without_memory_there_is_no_plan() {
        let parse = || ElfPlan::parse(&program()).map(drop).map_err(Errno::from);
        assert!(crate::lists::failing::each(parse) > 0);
    }

    #[test]
    fn a_file_that_does_not_fit_is_refused_with_its_reason() {
        let with = |at: usize, value: u64, size: usize| {
            let mut file = program();
            put(&mut file, at, value, size);
            ElfPlan::parse(&file).map(|plan| plan.is_broken)
        };
        assert_eq!(with(0, 0, 1), Err(ElfError::NotElf));
        assert_eq!(with(16, 1, 2), Err(ElfError::BadType));
        assert_eq!(with(18, 183, 2), Err(ElfError::OtherMachine(183)));
        assert_eq!(with(54, 32, 2), Err(ElfError::BadProgramHeaders));
        assert_eq!(with(56, 0, 2), Err(ElfError::BadProgramHeaders));
        assert_eq!(with(56, 1171, 2), Err(ElfError::BadProgramHeaders));
        assert_eq!(with(56, 100, 2), Err(ElfError::BadProgramHeaders));
        assert_eq!(with(32, u64::MAX, 8), Err(ElfError::BadProgramHeaders));
        assert_eq!(with(32, 0x1000, 8), Err(ElfError::BadProgramHeaders));
        // file size above memory size; offset not matching the address; outside
        assert_eq!(with(64 + 32, 0x1001, 8), Ok(true));
        assert_eq!(with(64 + 8, 8, 8), Ok(true));
        assert_eq!(with(64 + 16, !0xfff, 8), Ok(true));
        assert_eq!(with(64 + 40, USER_MAX, 8), Ok(true));
        // the program headers lie in no segment
        let mut apart = program();
        put(&mut apart, 64 + 32, 64, 8);
        assert_eq!(ElfPlan::parse(&apart).unwrap().phdr_vaddr, None);
        // a segment behind the end of the file is loaded
        assert_eq!(with(64 + 8, 0x100_0000, 8), Ok(false));
        // the class is not looked at, as on Linux
        assert_eq!(with(4, 1, 1), Ok(false));
        assert_eq!(ElfError::NotElf.errno(), errno::ENOEXEC);
        assert_eq!(ElfPlan::parse(&program()[..63]), Err(ElfError::Truncated));
        assert_eq!(ElfPlan::parse(b""), Err(ElfError::Truncated));
        assert_eq!(ElfError::Truncated.interpreter_errno(), Some(errno::EIO));
        assert_eq!(ElfError::BadProgramHeaders.interpreter_errno(), Some(errno::ELIBBAD));
        assert_eq!(ElfError::BadType.interpreter_errno(), None);
        assert_eq!(interpreter_path(b"/lib/ld.so\0"), Ok(&b"/lib/ld.so"[..]));
        assert_eq!(interpreter_path(b"/lib/ld.so"), Err(ElfError::BadInterpreter));
        assert_eq!(interpreter_path(b""), Err(ElfError::BadInterpreter));
    }

    #[test]
    fn programs_of_this_machine_are_loadable() {
        for path in ["/bin/true", "/bin/busybox", "/lib64/ld-linux-x86-64.so.2", "/usr/bin/python3"]
        {
            let Ok(file) = std::fs::read(path) else {
                continue;
            };
            let plan = ElfPlan::parse(&file).unwrap();
            let (min, max) = plan.span();
            assert!(min < max && plan.phdr_vaddr.is_some(), "{path}");
            assert!(plan.segments.iter().any(|s| plan.entry.wrapping_sub(s.vaddr) < s.mem_size));
            if let Some((offset, len)) = plan.interpreter {
                let bytes = &file[offset as usize..offset as usize + len];
                assert_eq!(interpreter_path(bytes), Ok(&b"/lib64/ld-linux-x86-64.so.2"[..]));
            }
            if plan.is_pie {
                let bias = plan.bias_above(0x5555_5555_4000).unwrap();
                assert!(min.wrapping_add(bias) >= 0x5555_5555_4000);
                assert_eq!(bias % plan.align, 0);
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn any_file_is_refused_or_stays_among_user_addresses(
            real in any::<bool>(),
            changes in proptest::collection::vec((0usize..1024, any::<u8>()), 0..8),
            words in proptest::collection::vec((0usize..100, prop_oneof![
                any::<u64>(), 0u64..0x10000, Just(u64::MAX), Just(1 << 63), (0u64..4096).prop_map(|x| USER_MAX - x)
            ]), 0..4),
            cut in 0usize..1100,
        ) {
            let mut file = match std::fs::read("/bin/true") {
                Ok(file) if real => file,
                _ => program(),
            };
            file.truncate(2048);
            for (at, value) in changes {
                if at >= 4 { file[at] = value; }
            }
            for (index, value) in words {
                put(&mut file, 64 + index * 8, value, 8);
            }
            if cut < 1024 { file.truncate(cut); }
            if let Ok(plan) = ElfPlan::parse(&file) {
                let (min, max) = plan.span();
                prop_assert!(min <= max && max <= USER_MAX);
                prop_assert!(plan.align.is_power_of_two());
                let _ = plan.bias_above(0x5555_5555_4000);
                prop_assert!(plan.data_end() <= USER_MAX);
                for segment in &plan.segments {
                    prop_assert!(segment.map_start() <= segment.file_map_end());
                    prop_assert!(segment.file_map_end() <= segment.map_end());
                    let (from, to) = segment.clear_range();
                    prop_assert!(from <= to);
                    if segment.file_size > 0 {
                        prop_assert!(is_page_aligned(segment.map_offset()));
                        prop_assert!(segment.map_offset() <= segment.file_offset);
                    }
                }
            }
        }
    }
}
