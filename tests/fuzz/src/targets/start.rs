//! The start block that a proxy writes.

use hanare_abi::layout::START_SIZE;
use hanare_abi::start::StartBlock;
use hanare_core::start::{Strings, strings_size};

use crate::input::Input;
use crate::target::Target;

pub const TARGET: Target = Target { name: "start", check, size_max: 1024, seeds };

/// Start block of a shell as a proxy would write it, cut to what [`read`] reads of it.
fn seeds() -> Vec<Vec<u8>> {
    let with = |argc: u32, envc: u32, strings: &[u8]| {
        let header = size_of::<StartBlock>() as u32;
        let mut seed = hanare_abi::MAGIC.to_le_bytes().to_vec();
        for word in [hanare_abi::VERSION, header, header + strings.len() as u32, 0, argc, envc] {
            seed.extend_from_slice(&word.to_le_bytes());
        }
        seed.extend_from_slice(strings);
        seed
    };
    let mut own = b"/bin/sh\0sh\0-c\0echo\0".to_vec();
    for (key, value) in std::env::vars().take(4) {
        own.extend_from_slice(format!("{key}={value}\0").as_bytes());
    }
    vec![
        with(3, std::env::vars().take(4).count() as u32, &own),
        with(0, 0, b"/bin/true\0"),
        with(1, 1, b"\0\0\0"),
        with(2, 0, b"/bin/a\0a"),
    ]
}

fn read(input: &mut Input) -> StartBlock {
    let (magic, version, strings_offset) = (input.u64(), input.u32(), input.u32());
    StartBlock {
        magic,
        version,
        strings_offset,
        total_size: input.u64(),
        argc: input.u32(),
        envc: input.u32(),
        secure: 0,
        control_fd: 3,
        sigmask: 0,
        sigignore: 0,
        stack_soft: 8 << 20,
        stack_hard: u64::MAX,
        as_soft: u64::MAX,
        data_soft: u64::MAX,
        random: [0; 32],
        hwcap: 0,
        hwcap2: 0,
        clktck: 100,
        flags: 0,
        cpu_soft: u64::MAX,
        cpu_hard: u64::MAX,
    }
}

fn check(input: &[u8]) {
    let mut input = Input::new(input);
    let block = read(&mut input);
    let size = match strings_size(&block) {
        Err(_) => return,
        Ok(size) => size,
    };
    assert!(block.magic == hanare_abi::MAGIC && block.version == hanare_abi::VERSION);
    assert!(u64::from(block.strings_offset) >= size_of::<StartBlock>() as u64);
    assert_eq!(u64::from(block.strings_offset) + size, block.total_size);
    assert!(block.total_size <= START_SIZE);

    let bytes = input.rest();
    let bytes = &bytes[..bytes.len().min(size as usize)];
    let mut strings = Strings::new(bytes);
    let mut written = Vec::new();
    while let Ok(string) = strings.take() {
        assert!(!string.contains(&0));
        written.extend_from_slice(string);
        written.push(0);
    }
    assert!(bytes.starts_with(&written), "read, written");
    assert!(!bytes[written.len()..].contains(&0), "to the last one");
    assert!(strings.take().is_err());
}
