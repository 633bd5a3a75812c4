//! Requests of clone(2) and clone3(2).

use hanare_abi::layout::USER_MAX;
use hanare_core::clone::{Request, flag};
use hanare_core::errno::{E2BIG, EFAULT, EINVAL};

use crate::input::Input;
use crate::memory::Memory;
use crate::target::Target;

pub const TARGET: Target = Target { name: "clone", check, size_max: 600, seeds };

/// Bytes of the structure that are known.
const KNOWN: u64 = 88;

/// A thread, a child, one of `vfork`, and one of namespaces, each in structures of three sizes.
fn seeds() -> Vec<Vec<u8>> {
    let thread = [0x3d_0f00u64, 0, 0x1000, 0x1000, 0, 0x7000, 0x4000, 0x9000, 0, 0, 0];
    let child = [0x120_0000, 0, 0x1000, 0, 17, 0, 0, 0, 0x1000, 1, 0];
    let vfork = [0x4100, 0, 0, 0, 17, 0, 0, 0, 0, 0, 0];
    let apart = [0x2_7e02_1080, 0x1000, 0, 0, 17, 0, 0, 0, 0, 0, 5];
    let seed = |words: [u64; 11], size: u16| {
        let mut seed = vec![0];
        seed.extend_from_slice(&size.to_le_bytes());
        seed.extend_from_slice(&0u32.to_le_bytes());
        words.iter().for_each(|word| seed.extend_from_slice(&word.to_le_bytes()));
        seed.resize(7 + usize::from(size).clamp(88, 500), 0);
        seed
    };
    let of = |words| [64, 88, 128].map(|size| seed(words, size));
    [thread, child, vfork, apart].into_iter().flat_map(of).collect()
}

fn check(input: &[u8]) {
    let mut input = Input::new(input);
    let changes = input.byte() & 1 != 0;
    let (size, at) = (u64::from(input.u16()), u64::from(input.u32()));
    let bytes = input.clone().rest();
    let old = Request::of_clone(&std::array::from_fn(|_| input.u64()));
    let memory = Memory::new(bytes, changes);
    let byte = |index: u64| memory.first(at + index);
    let new = Request::of_clone3(&memory, at, size);
    assert!(memory.most() <= KNOWN as usize);
    match new {
        Ok(asked) => {
            assert!((64..=4096).contains(&size) && (0..size).all(|i| byte(i).is_some()));
            assert!(changes || (KNOWN..size).all(|i| byte(i) == Some(0)), "an unknown field");
            assert!(asked.set_tid_size <= 32 && (asked.set_tid == 0) == (asked.set_tid_size == 0));
            assert!(asked.flags & flag::INTO_CGROUP == 0 || asked.cgroup <= i32::MAX as u64);
            assert!(asked.flags & flag::INTO_CGROUP == 0 || size >= KNOWN);
            assert_eq!(asked.flags & (0x7f | flag::DETACHED), 0);
        }
        Err(EFAULT) => assert!((0..size).any(|i| byte(i).is_none())),
        Err(E2BIG) => assert!(size > 4096 || changes || (KNOWN..size).any(|i| byte(i) != Some(0))),
        Err(error) => assert_eq!(error, EINVAL),
    }
    for asked in [old, new].into_iter().flatten() {
        assert!(asked.exit_signal <= 64 && asked.stack <= USER_MAX || Ok(asked) == old);
        assert!([0, asked.parent_tid].contains(&asked.parent_tid_in_child()));
        let has = |bits| asked.flags & bits == bits;
        if asked.check().is_ok() {
            assert!(!has(flag::THREAD) || has(flag::SIGHAND | flag::VM), "{asked:x?}");
            assert!(!has(flag::SIGHAND) || has(flag::VM), "{asked:x?}");
        }
    }
    if let Ok(asked) = old {
        assert!(asked.exit_signal <= 64 && asked.flags & !0xffff_ff00 == 0);
        assert!(asked.pidfd == 0 || asked.flags & flag::PIDFD != 0);
    }
}
