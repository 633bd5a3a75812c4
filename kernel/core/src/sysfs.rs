//! Paths of sysfs, and of procfs, that programs of the LWK do not have.

/// The entries that Linux removes from the directory of a CPU that goes offline.
const OF_ONLINE: [&[u8]; 4] = [b"topology", b"cache", b"microcode", b"thermal_throttle"];

/// Bytes of a path that are looked at: the longest of such paths is far shorter.
pub const LOOKED_AT: usize = 256;

/// Whether a path may name something that is Linux' alone, such as `cpu0/topology` or `node/node1` below
/// `/sys/devices/system`, `/sys/kernel/mm/ksm`, or `/proc/PID/map_files`. The module knows whether it does.
#[must_use]
pub fn may_be_hidden(path: &[u8]) -> bool {
    let mut before: &[u8] = b"";
    path.split(|&b| b == b'/').filter(|name| !name.is_empty()).any(|name| {
        let hides = is_numbered(before, b"cpu") && OF_ONLINE.contains(&name)
            || before == b"node" && is_numbered(name, b"node")
            || before == b"mm" && name == b"ksm"
            || name == b"map_files";
        before = name;
        hides
    })
}

fn is_numbered(name: &[u8], prefix: &[u8]) -> bool {
    name.strip_prefix(prefix)
        .is_some_and(|number| !number.is_empty() && number.iter().all(u8::is_ascii_digit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_of_cpus_and_nodes_are_found() {
        let found: [&[u8]; 10] = [
            b"/proc/self/map_files",
            b"map_files/400000-401000",
            b"/sys/kernel/mm/ksm",
            b"/sys/kernel/mm/ksm/run",
            b"/sys/devices/system/cpu/cpu0/topology",
            b"/sys/devices/system/cpu/cpu12/cache/index0/size",
            b"cpu0/topology",
            b"cpu3//cache/",
            b"/sys/devices/system/node/node1",
            b"/sys/devices/system/node/node1/cpulist",
        ];
        assert!(found.iter().all(|path| may_be_hidden(path)));
    }

    #[test]
    fn other_paths_cost_no_question() {
        let others: [&[u8]; 10] = [
            b"/sys/kernel/mm/ksmd",
            b"",
            b"/",
            b"/home/user/.cache/topology",
            b"/sys/devices/system/cpu/cpu0/online",
            b"/sys/devices/system/cpu/online",
            b"/sys/devices/system/node",
            b"/usr/include/node/node.h",
            b"cpu/cache",
            b"/sys/devices/system/cpu/cpu0/topologies",
        ];
        assert!(!others.iter().any(|path| may_be_hidden(path)));
    }
}
