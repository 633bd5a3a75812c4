//! Texts of /proc, and paths of /sys.

use hanare_core::sysfs::may_be_hidden;
use hanare_core::time::namespace_offsets;

use crate::target::{Target, heads};

pub const TARGET: Target = Target { name: "texts", check, size_max: 256, seeds };

fn seeds() -> Vec<Vec<u8>> {
    let made: [&[u8]; 6] = [
        b"monotonic           0         0\nboottime            0         0\n",
        b"monotonic -3 999999999\nboottime 9223372036 854775807\n",
        b"boottime 1 2\nmonotonic 9223372037 0\n",
        b"/sys/devices/system/cpu/cpu12/cache/index0/size",
        b"/sys/devices/system/node/node1/cpulist",
        b"cpu0//topology",
    ];
    let own = heads(&["/proc/self/timens_offsets"], 256);
    made.map(<[u8]>::to_vec).into_iter().chain(own).collect()
}

fn check(input: &[u8]) {
    if let Ok(text) = str::from_utf8(input)
        && let Some((monotonic, boottime)) = namespace_offsets(text)
    {
        let line = |clock: &str, ns: i64| {
            format!("{clock} {} {}\n", ns / 1_000_000_000, ns % 1_000_000_000)
        };
        let written = line("monotonic", monotonic) + &line("boottime", boottime);
        assert_eq!(namespace_offsets(&written), Some((monotonic, boottime)), "{written}");
    }
    let hides = may_be_hidden(input);
    let slashes = |text: &[u8]| [b"/", text, b"//"].concat();
    assert_eq!(may_be_hidden(&slashes(input)), hides, "slashes do not count");
    assert!(!hides || may_be_hidden(&[input, b"/x"].concat()), "nor does what lies below");
    let has = |name: &[u8]| input.windows(name.len()).any(|part| part == name);
    assert!(!hides || has(b"cpu") || has(b"node"));
}
