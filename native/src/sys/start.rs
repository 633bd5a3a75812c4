//! The program's start: what the kernel has put on its stack, and the functions that compilers call
//! by themselves.

use core::ffi::{CStr, c_char};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, Ordering};

use super::calls::{exit, ignore_broken_pipes};

/// The program's own name, for messages; zero before it is known.
static NAME: AtomicPtr<c_char> = AtomicPtr::new(null_mut());

/// Name, arguments and environment that the program was started with.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    name: &'static CStr,
    arguments: Strings,
    environment: Strings,
}

impl Program {
    /// The name by which the program was called, without folders.
    #[must_use]
    pub fn name(&self) -> &'static CStr {
        self.name
    }

    /// Arguments of the program, without its name.
    #[must_use]
    pub fn arguments(&self) -> Strings {
        self.arguments
    }

    /// Environment of the program: each `NAME=VALUE`.
    #[must_use]
    pub fn environment(&self) -> Strings {
        self.environment
    }

    /// The value of a variable of the program's environment.
    #[must_use]
    pub fn variable(&self, name: &str) -> Option<&'static [u8]> {
        self.environment
            .into_iter()
            .find_map(|entry| entry.to_bytes().strip_prefix(name.as_bytes())?.strip_prefix(b"="))
    }
}

/// Strings that the kernel has put on the stack; an iterator over them.
#[derive(Clone, Copy, Debug)]
pub struct Strings {
    /// Pointer to the next string; the last one is followed by zero.
    next: *const *const c_char,
}

impl Iterator for Strings {
    type Item = &'static CStr;

    fn next(&mut self) -> Option<&'static CStr> {
        // SAFETY: a Strings is made of a list that ends with zero, and goes no further than to
        // that.
        let string = unsafe { *self.next };
        if string.is_null() {
            return None;
        }
        self.next = self.next.wrapping_add(1);
        // SAFETY: the list has addresses of strings that end with a zero; no code changes or frees
        // them.
        Some(unsafe { CStr::from_ptr(string) })
    }
}

/// The program's own name; empty before `run`.
pub(crate) fn name() -> &'static CStr {
    let name = NAME.load(Ordering::Relaxed);
    // SAFETY: what is stored is the address of a CStr that lives as long as the program.
    if name.is_null() { c"" } else { unsafe { CStr::from_ptr(name) } }
}

/// The part of a path behind its last `/`.
fn last_part(path: &'static CStr) -> &'static CStr {
    let bytes = path.to_bytes_with_nul();
    let start = bytes.iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1);
    CStr::from_bytes_with_nul(&bytes[start..]).unwrap_or(path)
}

/// Runs the program, and ends with the status that it gives.
///
/// # Safety
/// `stack` is the stack pointer with which the kernel has started the program.
pub unsafe fn run(stack: *const usize, main: fn(Program) -> u8) -> ! {
    // SAFETY: the kernel puts the number of arguments there; behind it their addresses, zero, those
    // of the environment, zero.
    let program = unsafe {
        let count = *stack;
        let strings = stack.add(1).cast::<*const c_char>();
        Program::new(Strings { next: strings }, Strings { next: strings.add(count + 1) })
    };
    NAME.store(program.name.as_ptr().cast_mut(), Ordering::Relaxed);
    ignore_broken_pipes();
    exit(main(program))
}

impl Program {
    fn new(mut arguments: Strings, environment: Strings) -> Self {
        let name = arguments.next().map_or(c"native", last_part);
        Self { name, arguments, environment }
    }
}

/// Where the kernel starts the program, and what compilers call without being asked: copies of
/// memory, the length of a string; of unwinding only the names, since a panic ends the program.
/// These are weak symbols, so that others may stand for them.
#[doc(hidden)]
#[macro_export]
macro_rules! start_code {
    ($start:path) => {
        ::core::arch::global_asm!(
            ".pushsection .text.hanare_native,\"ax\",@progbits",
            ".globl _start",
            "_start:",
            "xor ebp, ebp",
            "mov rdi, rsp",
            "and rsp, -16",
            "call {start}",
            "ud2",
            ".weak memcpy",
            "memcpy:",
            "mov rax, rdi",
            "mov rcx, rdx",
            "rep movsb",
            "ret",
            ".weak memmove",
            "memmove:",
            "mov rax, rdi",
            "mov rcx, rdx",
            "sub rdi, rsi",
            "cmp rdi, rdx", // the target begins inside of the source: from the end down
            "mov rdi, rax",
            "jb 2f",
            "rep movsb",
            "ret",
            "2:",
            "lea rdi, [rdi + rdx - 1]",
            "lea rsi, [rsi + rdx - 1]",
            "std",
            "rep movsb",
            "cld",
            "ret",
            ".weak memset",
            "memset:",
            "mov r8, rdi",
            "mov eax, esi",
            "mov rcx, rdx",
            "rep stosb",
            "mov rax, r8",
            "ret",
            ".weak memcmp",
            ".weak bcmp",
            "memcmp:",
            "bcmp:",
            "xor eax, eax",
            "test rdx, rdx",
            "jz 3f",
            "mov rcx, rdx",
            "repe cmpsb",
            "movzx eax, byte ptr [rdi - 1]",
            "movzx ecx, byte ptr [rsi - 1]",
            "sub eax, ecx",
            "3:",
            "ret",
            ".weak strlen",
            "strlen:",
            "xor eax, eax",
            "4:",
            "cmp byte ptr [rdi + rax], 0",
            "je 5f",
            "inc rax",
            "jmp 4b",
            "5:",
            "ret",
            ".weak rust_eh_personality",
            "rust_eh_personality:",
            ".weak _Unwind_Resume",
            "_Unwind_Resume:",
            "ud2",
            ".popsection",
            start = sym $start,
        );
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::ptr::null;
    use std::boxed::Box;

    fn strings<const N: usize>(list: [*const c_char; N]) -> Strings {
        assert!(list.last() == Some(&null()));
        Strings { next: Box::leak(Box::new(list)).as_ptr() }
    }

    #[test]
    fn a_program_knows_its_name_arguments_and_variables() {
        let arguments = [c"/bin/x/list".as_ptr(), c"-a".as_ptr(), c"".as_ptr(), null()];
        let environment =
            [c"HOMER=1".as_ptr(), c"HOME=/root=".as_ptr(), c"EMPTY=".as_ptr(), null()];
        let program = Program::new(strings(arguments), strings(environment));
        assert_eq!(program.name(), c"list");
        assert!(program.arguments().eq([c"-a", c""]));
        assert_eq!(program.environment().count(), 3);
        assert_eq!(program.variable("HOME"), Some(&b"/root="[..]));
        assert_eq!(program.variable("EMPTY"), Some(&b""[..]));
        assert_eq!(program.variable("HO"), None);
    }

    #[test]
    fn a_program_without_arguments_has_a_name_all_the_same() {
        let none = strings([null()]);
        let program = Program::new(none, none);
        assert_eq!(program.name(), c"native");
        assert_eq!(program.arguments().next(), None);
    }
}
