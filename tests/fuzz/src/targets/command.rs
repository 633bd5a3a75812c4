//! Command lines: those of `hanare`, and the one with which it starts a proxy.

#[path = "../../../../tools/proxy/src/base/options.rs"]
mod proxy;

use std::ffi::CString;

use hanare_common::cpu_list::CpuList;
use hanare_common::size::{Bytes, Memory};

use crate::sys::shared::Initial;
use crate::target::Target;

pub const TARGET: Target = Target { name: "command", check, size_max: 200, seeds };

fn seeds() -> Vec<Vec<u8>> {
    [
        "0,2-5",
        "1-3,2,8191",
        "512M",
        "2g@1,256MiB@0",
        "16T@4294967295",
        "hanare-proxy\n--instance=a\n--cpus=0,2-5\n--stack=8388608:18446744073709551615\n--stats\n--hold=3\n--\n/bin/sh\nsh\n-c",
        "hanare-proxy\n--\n/bin/true\ntrue",
        "hanare-proxy\n--instance=0123456789012345678901234567890",
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec()
}

fn check(input: &[u8]) {
    let lines = input.split(|&byte| byte == b'\n').map(CString::new);
    if let Ok(lines) = lines.collect::<Result<Vec<_>, _>>() {
        options(lines);
    }
    let Ok(text) = str::from_utf8(input) else { return };
    cpus(text);
    if let Ok(memory) = text.parse::<Memory>() {
        let sum = memory.0.iter().try_fold(0u64, |sum, piece| sum.checked_add(piece.bytes));
        assert_eq!(sum, Some(memory.bytes()));
        for piece in &memory.0 {
            assert!(piece.bytes > 0 && piece.bytes.is_multiple_of(hanare_abi::LARGE_PAGE_SIZE));
            assert!(Bytes(piece.bytes).to_string().ends_with("iB"));
        }
    }
}

/// A list is read again as it is shown, by a proxy as well.
fn cpus(text: &str) {
    let Ok(list) = text.parse::<CpuList>() else { return };
    let (numbers, shown) = (list.numbers(), list.to_string());
    assert!(!numbers.is_empty() && numbers.is_sorted_by(|a, b| a < b));
    assert_eq!(shown.parse().as_ref(), Ok(&list), "{shown}");
    let arguments = ["hanare-proxy", &format!("--cpus={shown}"), "--", "/a", "a"];
    // SAFETY: the options that are made of it are gone before it is.
    let initial = unsafe {
        Initial::new(arguments.map(|text| CString::new(text).expect("no zero")).to_vec())
    };
    let Ok(options) = proxy::parse(&initial) else { panic!("{shown} is no list to a proxy") };
    let bits = options.cpus.count() as usize;
    let is_in = |&cpu: &u32| options.cpus.contains(cpu as usize);
    assert!(bits == numbers.len() && numbers.iter().all(is_in), "{shown}");
}

fn options(arguments: Vec<CString>) {
    let separator = arguments.iter().skip(1).position(|text| text.as_bytes() == b"--");
    // SAFETY: the options that are made of it are gone before it is.
    let initial = unsafe { Initial::new(arguments) };
    let Ok(options) = proxy::parse(&initial) else { return };
    assert_eq!(options.instance.last(), Some(&0), "it ends");
    assert!(options.first_argument < initial.argc, "there is at least one");
    assert_eq!(options.path, initial.argument(options.first_argument - 1));
    // Or there are no options, and nothing that ends them.
    assert_eq!(separator.map(|at| at + 3), Some(options.first_argument));
    let _ = (options.stack, options.hold, options.stats);
}
