//! The vDSO: Linux' clocks without a trap, from the clock page that the module
//! keeps (`abi::clock`) and the TSC.
//!
//! Built by `kernel/build.rs` as a shared object of its own with the symbols and
//! versions of vdso(7). The clock page is mapped right below the image.
#![no_std]

#[path = "../../abi/src/clock.rs"]
mod clock;

use clock::ClockPage;
use core::arch::asm;
use core::sync::atomic::{AtomicU32, Ordering, fence};

/// The page below the image; `vvar_page` comes from the linker script.
fn page() -> *const ClockPage {
    let page;
    // SAFETY: only computes an address.
    unsafe { asm!("lea {}, [rip + vvar_page]", out(reg) page, options(nomem, nostack, preserves_flags)) };
    page
}

// Numbers of system calls, of linux-raw-sys.
const SYS_GETTIMEOFDAY: u64 = number(env!("SYS_GETTIMEOFDAY"));
const SYS_TIME: u64 = number(env!("SYS_TIME"));
const SYS_CLOCK_GETTIME: u64 = number(env!("SYS_CLOCK_GETTIME"));
const SYS_CLOCK_GETRES: u64 = number(env!("SYS_CLOCK_GETRES"));
const SYS_GETCPU: u64 = number(env!("SYS_GETCPU"));
const SECOND_NS: u64 = 1_000_000_000;

const fn number(decimal: &str) -> u64 {
    match u64::from_str_radix(decimal, 10) {
        Ok(number) => number,
        Err(_) => panic!("build.rs writes a number"),
    }
}

/// `struct timespec` or `struct timeval`.
#[repr(C)]
pub struct Pair {
    seconds: i64,
    part: i64,
}

fn syscall(number: u64, a: u64, b: u64) -> i64 {
    let result: i64;
    // SAFETY: a system call that the caller asked for, with its own pointers.
    unsafe {
        asm!("syscall", inlateout("rax") number as i64 => result, in("rdi") a, in("rsi") b, out("rcx") _, out("r11") _, options(nostack));
    }
    result
}

/// Nanoseconds of a clock that the page has.
fn now(id: i32) -> Option<u64> {
    let page = page();
    loop {
        // SAFETY: the page is mapped below the image, readable; its fields are
        // plain words that the module changes under the sequence.
        let (before, value) = unsafe {
            let sequence = AtomicU32::from_ptr((&raw const (*page).sequence).cast_mut());
            let before = sequence.load(Ordering::Acquire);
            let base = match id {
                0 | 5 => &raw const (*page).realtime_ns,
                1 | 6 => &raw const (*page).monotonic_ns,
                4 => &raw const (*page).raw_ns,
                7 => &raw const (*page).boottime_ns,
                11 => &raw const (*page).tai_ns,
                _ => return None,
            }
            .read_volatile();
            let (tsc, mult, shift) = ((&raw const (*page).tsc).read_volatile(), (&raw const (*page).mult).read_volatile(), (&raw const (*page).shift).read_volatile());
            fence(Ordering::Acquire);
            let now = core::arch::x86_64::_rdtsc();
            let delta = now.wrapping_sub(tsc);
            let delta = if (delta as i64) < 0 { 0 } else { delta };
            let ns = ((u128::from(delta) * u128::from(mult)) >> (shift & 127)) as u64;
            fence(Ordering::Acquire);
            if sequence.load(Ordering::Relaxed) != before {
                continue;
            }
            // Without a rate it is the page of a process whose clocks are its own.
            let value = base + ns;
            let value = match id {
                5 => clock::coarse_ns((&raw const (*page).realtime_coarse_ns).read_volatile(), value),
                6 => clock::coarse_ns((&raw const (*page).monotonic_coarse_ns).read_volatile(), value),
                _ => value,
            };
            (before, (mult != 0).then_some(value))
        };
        if before & 1 == 0 {
            return value;
        }
        core::hint::spin_loop();
    }
}

/// clock_gettime(2).
#[unsafe(no_mangle)]
pub extern "C" fn __vdso_clock_gettime(id: i32, to: *mut Pair) -> i32 {
    match now(id) {
        Some(ns) => {
            // SAFETY: the caller's pointer, as for the system call.
            unsafe { to.write(Pair { seconds: (ns / SECOND_NS) as i64, part: (ns % SECOND_NS) as i64 }) };
            0
        }
        None => syscall(SYS_CLOCK_GETTIME, id as u32 as u64, to as u64) as i32,
    }
}

/// gettimeofday(2).
#[unsafe(no_mangle)]
pub extern "C" fn __vdso_gettimeofday(to: *mut Pair, zone: *mut [i32; 2]) -> i32 {
    if !zone.is_null() {
        return syscall(SYS_GETTIMEOFDAY, to as u64, zone as u64) as i32;
    }
    let Some(ns) = now(0) else { return syscall(SYS_GETTIMEOFDAY, to as u64, 0) as i32 };
    if !to.is_null() {
        // SAFETY: the caller's pointer.
        unsafe { to.write(Pair { seconds: (ns / SECOND_NS) as i64, part: (ns % SECOND_NS / 1000) as i64 }) };
    }
    0
}

/// time(2).
#[unsafe(no_mangle)]
pub extern "C" fn __vdso_time(to: *mut i64) -> i64 {
    // The coarse clock, as on Linux: files get no older time than a program just read.
    let Some(ns) = now(5) else { return syscall(SYS_TIME, to as u64, 0) };
    let seconds = (ns / SECOND_NS) as i64;
    if !to.is_null() {
        // SAFETY: the caller's pointer.
        unsafe { to.write(seconds) };
    }
    seconds
}

/// clock_getres(2).
#[unsafe(no_mangle)]
pub extern "C" fn __vdso_clock_getres(id: i32, to: *mut Pair) -> i32 {
    syscall(SYS_CLOCK_GETRES, id as u32 as u64, to as u64) as i32
}

/// getcpu(2). Programs ask Linux' vDSO for it without another way; those that ask often have it
/// from rseq(2).
#[unsafe(no_mangle)]
pub extern "C" fn __vdso_getcpu(cpu: *mut u32, node: *mut u32, _cache: *mut u8) -> i64 {
    syscall(SYS_GETCPU, cpu as u64, node as u64)
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {
        core::hint::spin_loop();
    }
}
