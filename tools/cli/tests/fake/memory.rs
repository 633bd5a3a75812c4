//! Memory of the program under test.

use std::ffi::CString;
use std::mem::size_of;

pub fn read_string(pid: u32, address: u64) -> CString {
    let bytes: Vec<u8> =
        (address..).map(|at| copy_in::<u8>(pid, at)).take_while(|&byte| byte != 0).collect();
    CString::new(bytes).unwrap()
}

pub fn copy_in<T: Copy>(pid: u32, address: u64) -> T {
    let mut value = std::mem::MaybeUninit::<T>::zeroed();
    transfer(libc::SYS_process_vm_readv, pid, address, value.as_mut_ptr().cast(), size_of::<T>());
    // SAFETY: used for integers and structures of integers.
    unsafe { value.assume_init() }
}

pub fn copy_out<T: Copy>(pid: u32, address: u64, value: &T) {
    let at = std::ptr::from_ref(value).cast_mut().cast();
    transfer(libc::SYS_process_vm_writev, pid, address, at, size_of::<T>());
}

fn transfer(call: i64, pid: u32, address: u64, at: *mut u8, size: usize) {
    let local = libc::iovec { iov_base: at.cast(), iov_len: size };
    let remote = libc::iovec { iov_base: address as *mut _, iov_len: size };
    // SAFETY: `at` is valid for `size` bytes. A proxy that was just killed gives an error.
    unsafe { libc::syscall(call, pid as usize, &local, 1usize, &remote, 1usize, 0usize) };
}
