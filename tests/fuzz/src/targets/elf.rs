//! ELF programs: header and program headers of the file that `execve` names.

use hanare_core::addr::{PAGE_SIZE, is_page_aligned};
use hanare_core::elf::{ElfHeader, ElfPlan, HEADER_SIZE, PHDR_SIZE, Segment, interpreter_path};
use hanare_core::limits::{MAX_PHDR_BYTES, PATH_MAX, USER_MAX};
use hanare_core::vma::Prot;

use crate::target::{Target, heads};

pub const TARGET: Target = Target { name: "elf", check, size_max: 2048, seeds };

/// Headers of programs and libraries of this machine: with fixed and with any addresses, static
/// and dynamic, and other kinds of ELF file.
fn seeds() -> Vec<Vec<u8>> {
    const FILES: [&str; 10] = [
        "/bin/true",
        "/bin/bash",
        "/bin/busybox",
        "/usr/bin/python3",
        "/usr/bin/perl",
        "/usr/bin/gdb",
        "/sbin/ldconfig",
        "/lib64/ld-linux-x86-64.so.2",
        "/lib/x86_64-linux-gnu/libc.so.6",
        "/usr/lib/x86_64-linux-gnu/crt1.o",
    ];
    let mut all = heads(&FILES, HEADER_SIZE + 16 * PHDR_SIZE);
    let plans: Vec<ElfPlan> = all.iter().filter_map(|file| ElfPlan::parse(file).ok()).collect();
    all.extend(plans.iter().map(file_of));
    all
}

fn check(input: &[u8]) {
    let _ = interpreter_path(input).inspect(|path| {
        assert!(path.len() < input.len() && !path.contains(&0));
    });
    let Ok(header) = ElfHeader::parse(input) else {
        assert!(ElfPlan::parse(input).is_err());
        return;
    };
    assert!((PHDR_SIZE..=MAX_PHDR_BYTES).contains(&header.phdr_bytes()));
    assert_eq!(ElfHeader::parse(&input[..HEADER_SIZE]), Ok(header));
    let Ok(plan) = ElfPlan::parse(input) else { return };
    in_range(&plan);
    for segment in &plan.segments {
        of_pages(segment);
    }
    moved(&plan);
    finds_headers(&header, &plan);
    let again = ElfPlan::parse(&file_of(&plan)).expect("what was read, written");
    assert!(plan.is_broken || !again.is_broken, "written, it is broken");
    // By a segment that is left out: the file that is written has none such.
    let is_broken = plan.is_broken;
    let again = ElfPlan { phnum: plan.phnum, phdr_vaddr: plan.phdr_vaddr, is_broken, ..again };
    assert_eq!(again, plan, "read, written and read");
}

fn in_range(plan: &ElfPlan) {
    assert!(plan.segments.len() <= usize::from(plan.phnum));
    assert!(!plan.is_pie || !plan.segments.is_empty() || plan.is_broken);
    assert!(plan.align.is_power_of_two() && (PAGE_SIZE..=1 << 30).contains(&plan.align));
    if let Some((_, size)) = plan.interpreter {
        assert!((2..=PATH_MAX).contains(&size)); // whatever offset: Linux reads there, and says EINVAL
    }
    let (start, end) = plan.span();
    assert!(is_page_aligned(start) && is_page_aligned(end) && start <= end && end <= USER_MAX);
    assert!(plan.data_end() <= end && end - plan.data_end() < PAGE_SIZE);
    for segment in &plan.segments {
        assert!(start <= segment.map_start() && segment.map_end() <= end);
    }
}

/// Checks the pages of a segment: mapped ones, those of the file, and the bytes that are cleared.
fn of_pages(segment: &Segment) {
    let Segment { vaddr, mem_size, file_offset, file_size, .. } = *segment;
    let (start, end, file_end) = (segment.map_start(), segment.map_end(), segment.file_map_end());
    assert!(mem_size > 0 && file_size <= mem_size);
    assert!(is_page_aligned(start) && is_page_aligned(end) && is_page_aligned(file_end));
    assert!(start <= vaddr && vaddr - start < PAGE_SIZE);
    assert!(vaddr + mem_size <= end && end - (vaddr + mem_size) < PAGE_SIZE);
    assert!(start <= file_end && file_end <= end);
    let (from, to) = segment.clear_range();
    assert!(start <= from && from <= to && to <= file_end && to - from < PAGE_SIZE);
    if file_size > 0 {
        assert!(is_page_aligned(segment.map_offset()) && segment.map_offset() <= file_offset);
        let last = segment.map_offset().checked_add(file_end - start);
        assert!(last.is_some_and(|last| last < 1 << 63), "offsets are signed in Linux");
        if mem_size > file_size {
            assert_eq!((from, to), (vaddr + file_size, file_end));
        }
    }
}

fn moved(plan: &ElfPlan) {
    let (start, end) = plan.span();
    for base in [0, 0x1_0000, 0x5555_5555_4000, USER_MAX - PAGE_SIZE, USER_MAX, u64::MAX] {
        let Some(bias) = plan.bias_above(base) else { continue };
        if !plan.is_pie {
            assert_eq!(bias, 0);
            continue;
        }
        let (low, high) = (start.wrapping_add(bias), end.wrapping_add(bias));
        assert!(base <= low && low <= high && high <= USER_MAX, "{base:#x} {bias:#x}");
        assert_eq!(high - low, end - start);
        assert!(bias.is_multiple_of(plan.align), "{bias:#x}");
    }
}

/// `AT_PHDR` is where a segment has the program headers.
fn finds_headers(header: &ElfHeader, plan: &ElfPlan) {
    let at = |segment: &Segment| {
        let inside = header.phoff.checked_sub(segment.file_offset)?;
        (inside < segment.file_size).then(|| segment.vaddr + inside)
    };
    // A broken program's headers may be in a segment that is left out.
    if !plan.is_broken {
        assert_eq!(plan.phdr_vaddr, plan.segments.iter().rev().find_map(at));
    }
}

/// A file with that plan, whose program headers lie behind the header.
fn file_of(plan: &ElfPlan) -> Vec<u8> {
    // One without anything to load has an alignment, too.
    let mut rows: Vec<[u64; 7]> = vec![[1, 4, 0, 0, 0, 0, plan.align]];
    if let Some((offset, size)) = plan.interpreter {
        rows.push([3, 4, offset, 0, size as u64, 0, 1]);
    }
    rows.push([0x6474_e551, 6 | u64::from(plan.exec_stack), 0, 0, 0, 0, plan.align]);
    for segment in &plan.segments {
        let flag = |prot, bit| if segment.prot.contains(prot) { bit } else { 0 };
        let flags = flag(Prot::READ, 4) | flag(Prot::WRITE, 2) | flag(Prot::EXEC, 1);
        let Segment { vaddr, mem_size, file_offset, file_size, .. } = *segment;
        rows.push([1, flags, file_offset, vaddr, file_size, mem_size, plan.align]);
    }
    let mut file = vec![0; HEADER_SIZE];
    file[..4].copy_from_slice(b"\x7fELF");
    file[16] = if plan.is_pie { 3 } else { 2 };
    file[18] = 62;
    file[24..32].copy_from_slice(&plan.entry.to_le_bytes());
    file[32..40].copy_from_slice(&(HEADER_SIZE as u64).to_le_bytes());
    file[54] = PHDR_SIZE as u8;
    file[56..58].copy_from_slice(&(rows.len() as u16).to_le_bytes());
    for [kind, flags, offset, vaddr, file_size, mem_size, align] in rows {
        file.extend_from_slice(&(kind as u32).to_le_bytes());
        file.extend_from_slice(&(flags as u32).to_le_bytes());
        for field in [offset, vaddr, 0, file_size, mem_size, align] {
            file.extend_from_slice(&field.to_le_bytes());
        }
    }
    file
}
