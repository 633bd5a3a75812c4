//! The initial stack of a program: strings, auxiliary vector, environment and
//! argument pointers, laid out as Linux' `fs/exec.c` and `create_elf_tables`.

use alloc::vec::Vec;

use crate::addr::page_up;
use crate::errno::{E2BIG, EFAULT, Result};
use crate::limits::{ARG_MAX_TOTAL, ARG_MIN_TOTAL, MAX_ARG_STRINGS, MAX_ARG_STRLEN};
use crate::lists;

/// `AT_*` keys of the auxiliary vector (`uapi/linux/auxvec.h`).
pub mod at {
    /// End of the vector.
    pub const NULL: u64 = 0;
    /// Descriptor of the file that the program interprets.
    pub const EXECFD: u64 = 2;
    /// Address of the program headers.
    pub const PHDR: u64 = 3;
    /// Bytes of one program header.
    pub const PHENT: u64 = 4;
    /// Number of program headers.
    pub const PHNUM: u64 = 5;
    /// Page size.
    pub const PAGESZ: u64 = 6;
    /// Load address of the interpreter.
    pub const BASE: u64 = 7;
    /// Flags.
    pub const FLAGS: u64 = 8;
    /// A flag of [`FLAGS`]: the arguments have the interpreted file's own first one, too
    /// (`AT_FLAGS_PRESERVE_ARGV0`).
    pub const FLAGS_PRESERVE_ARGV0: u64 = 1;
    /// Entry point of the program.
    pub const ENTRY: u64 = 9;
    /// Real user id.
    pub const UID: u64 = 11;
    /// Effective user id.
    pub const EUID: u64 = 12;
    /// Real group id.
    pub const GID: u64 = 13;
    /// Effective group id.
    pub const EGID: u64 = 14;
    /// Address of the platform's name.
    pub const PLATFORM: u64 = 15;
    /// CPU capabilities.
    pub const HWCAP: u64 = 16;
    /// Ticks per second of `times()`.
    pub const CLKTCK: u64 = 17;
    /// 1: the program has more rights than its caller.
    pub const SECURE: u64 = 23;
    /// Address of 16 random bytes.
    pub const RANDOM: u64 = 25;
    /// More CPU capabilities.
    pub const HWCAP2: u64 = 26;
    /// Address of the program's path.
    pub const EXECFN: u64 = 31;
    /// Address of the vDSO.
    pub const SYSINFO_EHDR: u64 = 33;
    /// Smallest signal stack, bytes.
    pub const MINSIGSTKSZ: u64 = 51;
}

/// The name behind `AT_PLATFORM`.
pub const PLATFORM: &[u8] = b"x86_64";

/// The initial stack's content.
#[derive(Debug, PartialEq, Eq)]
pub struct StackImage {
    /// Initial `rsp`, 16-byte aligned: points to `argc`.
    pub sp: u64,
    /// Contents of `sp..top`.
    pub bytes: Vec<u8>,
    /// First byte of the argument strings.
    pub arg_start: u64,
    /// End of the argument strings; the environment follows.
    pub arg_end: u64,
    /// First byte of the environment strings.
    pub env_start: u64,
    /// End of the environment strings.
    pub env_end: u64,
    /// Where the auxiliary vector lies (for `/proc/self/auxv`).
    pub auxv_start: u64,
    /// End of the auxiliary vector, its terminator included.
    pub auxv_end: u64,
    /// Address of the program's path (`AT_EXECFN`).
    pub execfn: u64,
}

impl StackImage {
    /// Builds the stack that ends at `top` (16-byte aligned), with `shift` bytes left out
    /// below the strings. Strings come without their zero. `auxv`
    /// is given without `AT_NULL`; `AT_RANDOM`, `AT_EXECFN` and `AT_PLATFORM` get their values,
    /// in their places if they are there. `stack_limit`: RLIMIT_STACK in bytes. Without
    /// arguments an empty one is passed, as Linux does.
    ///
    /// # Errors `E2BIG`: a string has [`MAX_ARG_STRLEN`] bytes or more with its zero. Or all
    /// strings with their pointers take more than a quarter of the stack limit (at least 128 KiB,
    /// at most 6 MiB), or the strings more than the whole of it. `EFAULT`: `top` is too low or not
    /// aligned. `ENOMEM`: there is no memory for all of it in one piece.
    pub fn build(
        top: u64,
        argv: &[&[u8]],
        envp: &[&[u8]],
        auxv: &[(u64, u64)],
        exec_name: &[u8],
        random: [u8; 16],
        stack_limit: u64,
        shift: usize,
    ) -> Result<Self> {
        let argv = if argv.is_empty() { &[&b""[..]] } else { argv };
        check_limits(argv, envp, exec_name, stack_limit)?;
        if !top.is_multiple_of(16) {
            return Err(EFAULT);
        }

        // From the top: 8 zero bytes, path, environment, arguments.
        let below = |address: u64, bytes: usize| address.checked_sub(bytes as u64).ok_or(EFAULT);
        let size = |strings: &[&[u8]]| strings.iter().map(|s| s.len() + 1).sum::<usize>();
        let execfn = below(top, 8 + exec_name.len() + 1)?;
        let env_end = execfn;
        let env_start = below(env_end, size(envp))?;
        let arg_start = below(env_start, size(argv))?;
        let platform = below(below(arg_start, shift)? & !15, PLATFORM.len() + 1)?;
        let random_at = below(platform, 16)?;

        let own = [(at::RANDOM, random_at), (at::EXECFN, execfn), (at::PLATFORM, platform)];
        let in_place = |&(key, value): &(u64, u64)| {
            let known = own.iter().find(|(other, _)| *other == key);
            (key, known.map_or(value, |&(_, value)| value))
        };
        let given = auxv.iter().filter(|(key, _)| *key != at::NULL);
        let missing = own.iter().filter(|(key, _)| auxv.iter().all(|(other, _)| key != other));
        let auxv =
            lists::collected(given.map(in_place).chain(missing.copied()).chain([(at::NULL, 0)]))?;

        let words = 1 + argv.len() + 1 + envp.len() + 1 + 2 * auxv.len();
        let sp = below(random_at & !15, words * 8)? & !15;
        if sp == 0 {
            return Err(EFAULT);
        }

        let bytes = lists::filled((top - sp) as usize, 0)?;
        let mut image = Self {
            sp,
            bytes,
            arg_start,
            arg_end: env_start,
            env_start,
            env_end,
            auxv_start: 0,
            auxv_end: 0,
            execfn,
        };
        image.put(execfn, exec_name);
        image.put(platform, PLATFORM);
        image.put(random_at, &random);
        let mut cursor = sp;
        image.put_word(&mut cursor, argv.len() as u64);
        image.put_strings(&mut cursor, arg_start, argv);
        image.put_strings(&mut cursor, env_start, envp);
        image.auxv_start = cursor;
        for (key, value) in auxv {
            image.put_word(&mut cursor, key);
            image.put_word(&mut cursor, value);
        }
        image.auxv_end = cursor;
        Ok(image)
    }

    fn put(&mut self, address: u64, bytes: &[u8]) {
        let at = (address - self.sp) as usize;
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn put_word(&mut self, cursor: &mut u64, value: u64) {
        self.put(*cursor, &value.to_le_bytes());
        *cursor += 8;
    }

    /// Writes the strings from `address` on and their pointers, with a null, at `cursor`.
    fn put_strings(&mut self, cursor: &mut u64, mut address: u64, strings: &[&[u8]]) {
        for string in strings {
            self.put(address, string);
            self.put_word(cursor, address);
            address += string.len() as u64 + 1;
        }
        self.put_word(cursor, 0);
    }
}

/// The checks of Linux' `bprm_stack_limits` and `copy_strings`, which come before the program
/// is looked for.
///
/// # Errors
/// `E2BIG`: see [`StackImage::build`].
pub fn check_limits<S: AsRef<[u8]>>(
    argv: &[S],
    envp: &[S],
    name: &[u8],
    stack_limit: u64,
) -> Result<()> {
    if argv.len() > MAX_ARG_STRINGS || envp.len() > MAX_ARG_STRINGS {
        return Err(E2BIG);
    }
    let limit = (stack_limit / 4).clamp(ARG_MIN_TOTAL, ARG_MAX_TOTAL);
    let mut strings = name.len() as u64 + 1;
    for string in argv.iter().chain(envp).map(AsRef::as_ref) {
        if string.len() >= MAX_ARG_STRLEN {
            return Err(E2BIG);
        }
        strings += string.len() as u64 + 1;
    }
    let pointers = (argv.len().max(1) + envp.len()) as u64 * 8;
    // However small the limit of the stack is: the strings have to lie in it.
    let fits = strings + pointers <= limit && page_up(strings + 8) <= stack_limit;
    if fits { Ok(()) } else { Err(E2BIG) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Default RLIMIT_STACK, bytes.
    const STACK_LIMIT: u64 = 8 << 20;
    use alloc::vec;
    use proptest::prelude::*;

    const TOP: u64 = 0x7cff_ffff_f000;

    fn word(image: &StackImage, address: u64) -> u64 {
        let at = (address - image.sp) as usize;
        u64::from_le_bytes(image.bytes[at..at + 8].try_into().unwrap())
    }

    fn string(image: &StackImage, address: u64) -> Vec<u8> {
        let at = (address - image.sp) as usize;
        image.bytes[at..].iter().copied().take_while(|&byte| byte != 0).collect()
    }

    fn check(image: &StackImage, argv: &[&[u8]], envp: &[&[u8]], auxv: &[(u64, u64)], name: &[u8]) {
        assert_eq!(image.sp % 16, 0);
        assert_eq!(image.sp + image.bytes.len() as u64, TOP);
        let mut at = image.sp;
        let mut next = || {
            at += 8;
            word(image, at - 8)
        };
        assert_eq!(next(), argv.len() as u64);
        let mut expected = image.arg_start;
        for (strings, end) in [(argv, image.arg_end), (envp, image.env_end)] {
            for text in strings {
                let address = next();
                assert_eq!(address, expected);
                assert_eq!(string(image, address), *text);
                expected += text.len() as u64 + 1;
            }
            assert_eq!(next(), 0);
            assert_eq!(expected, end);
        }
        for pair in auxv {
            assert_eq!((next(), next()), *pair);
        }
        assert_eq!(next(), at::RANDOM);
        let random = next();
        assert_eq!(&image.bytes[(random - image.sp) as usize..][..16], &[7; 16]);
        assert_eq!(next(), at::EXECFN);
        assert_eq!(string(image, next()), name);
        assert_eq!(next(), at::PLATFORM);
        assert_eq!(string(image, next()), b"x86_64");
        assert_eq!((next(), next()), (0, 0));
        assert_eq!(at, image.auxv_end);
        assert!(at <= random && image.bytes.ends_with(&[0; 8]));
    }

    #[test]
    fn a_stack_holds_arguments_environment_and_auxv() {
        let (argv, envp) = ([&b"ls"[..], b"-l", b""], [&b"PATH=/bin"[..], b"HOME=/root"]);
        let auxv = [(at::PAGESZ, 4096), (at::ENTRY, 0x40_1000)];
        let image =
            StackImage::build(TOP, &argv, &envp, &auxv, b"/bin/ls", [7; 16], STACK_LIMIT, 160)
                .unwrap();
        check(&image, &argv, &envp, &auxv, b"/bin/ls");
        let none = StackImage::build(TOP, &[], &[], &[], b"x", [7; 16], STACK_LIMIT, 0).unwrap();
        check(&none, &[b""], &[], &[], b"x");
    }

    #[test]
    fn arguments_beyond_the_limits_are_e2big() {
        let build = |argv: &[&[u8]], limit| {
            StackImage::build(TOP, argv, &[], &[], b"x", [7; 16], limit, 0).map(|_| ())
        };
        let long = vec![b'a'; MAX_ARG_STRLEN];
        assert_eq!(build(&[&long], STACK_LIMIT), Err(E2BIG));
        assert_eq!(build(&[&long[1..]], STACK_LIMIT), Ok(()));
        assert_eq!(build(&[&long[1..]; 16], STACK_LIMIT), Err(E2BIG));
        assert_eq!(build(&[&long[1..]; 16], 64 << 20), Ok(()));
        assert_eq!(build(&[&long[1..]; 48], u64::MAX), Err(E2BIG));
        assert_eq!(build(&[&long[1..100_000]], 128 << 10), Ok(()));
        assert_eq!(build(&[&long[1..100_000]], 64 << 10), Err(E2BIG));
        assert_eq!(
            StackImage::build(64, &[], &[], &[], b"x", [0; 16], STACK_LIMIT, 0),
            Err(EFAULT)
        );
        assert_eq!(
            StackImage::build(TOP + 1, &[], &[], &[], b"x", [0; 16], STACK_LIMIT, 0),
            Err(EFAULT)
        );
    }

    #[test]
    fn without_memory_there_is_no_stack() {
        let build = || StackImage::build(TOP, &[], &[], &[], b"x", [7; 16], STACK_LIMIT, 0);
        assert!(crate::lists::failing::each(|| build().map(drop)) > 1);
    }

    proptest! {
        #[test]
        fn any_strings_are_found_again_on_the_stack(
            argv in proptest::collection::vec(proptest::collection::vec(1u8.., 0..40), 1..12),
            envp in proptest::collection::vec(proptest::collection::vec(1u8.., 0..40), 0..12),
            name in proptest::collection::vec(1u8.., 1..40),
            pairs in proptest::collection::vec((40u64..60, any::<u64>()), 0..6),
        ) {
            let argv: Vec<&[u8]> = argv.iter().map(|s| &s[..]).collect();
            let envp: Vec<&[u8]> = envp.iter().map(|s| &s[..]).collect();
            let image = StackImage::build(TOP, &argv, &envp, &pairs, &name, [7; 16], STACK_LIMIT, 0).unwrap();
            check(&image, &argv, &envp, &pairs, &name);
        }
    }
}
