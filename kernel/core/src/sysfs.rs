//! Paths of sysfs, and of procfs, that programs of the LWK do not have.

/// The entries that Linux removes from the directory of a CPU that goes offline.
const OF_ONLINE: [&[u8]; 4] = [b"topology", b"cache", b"microcode", b"thermal_throttle"];

/// Bytes of a path that are looked at: the longest of such paths is far shorter.
pub const LOOKED_AT: usize = 256;

/// Whether a path may name something that is Linux' alone, such as `cpu0/topology` or `node/node1`
/// below `/sys/devices/system`, `/sys/kernel/mm/ksm`, or `/proc/PID/map_files`. The module knows
/// whether it does.
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

/// Link of a process in procfs with which a path begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessLink {
    /// Bytes of the path up to the end of the link's name.
    pub end: usize,
    /// The link itself is there of a thread that has ended, and leads nowhere; one of a descriptor
    /// is not.
    pub outlives: bool,
}

/// The first link in a path by which something is reached that a thread of a process has: its
/// program, directories, namespaces, descriptors. Where the thread has ended there is nothing to be
/// reached, which the module knows.
#[must_use]
pub fn process_link(path: &[u8]) -> Option<ProcessLink> {
    let (mut folder, mut before, mut end): (&[u8], &[u8], _) = (b"", b"", 0);
    for name in path.split(|&b| b == b'/') {
        end += name.len();
        let is_entry_of =
            |of: &[&[u8]]| is_task(folder) && of.contains(&before) && !name.is_empty();
        let outlives = is_task(before) && [&b"exe"[..], b"cwd", b"root"].contains(&name)
            || is_entry_of(&[b"ns"]);
        if outlives || is_entry_of(&[b"fd", b"fdinfo"]) {
            return Some(ProcessLink { end, outlives });
        }
        if !name.is_empty() {
            (folder, before) = (before, name);
        }
        end += 1;
    }
    None
}

/// Whether procfs has a process or a thread by this name.
fn is_task(name: &[u8]) -> bool {
    name == b"self" || name == b"thread-self" || is_numbered(name, b"")
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
    fn links_of_processes_are_found() {
        let found =
            |path: &[u8]| process_link(path).map(|link| (path[..link.end].to_vec(), link.outlives));
        for (path, link, outlives) in [
            ("/proc/self/exe", "/proc/self/exe", true),
            ("/proc//12/task/13//cwd/..", "/proc//12/task/13//cwd", true),
            ("self/root/etc/passwd", "self/root", true),
            ("/proc/thread-self/fd/3", "/proc/thread-self/fd/3", false),
            ("/proc/12/ns/mnt", "/proc/12/ns/mnt", true),
            ("12/fdinfo//3", "12/fdinfo//3", false),
        ] {
            assert_eq!(found(path.as_bytes()), Some((link.into(), outlives)), "{path}");
        }
        for path in [
            "",
            "/",
            "/proc/self/fd",
            "/proc/self/fd/",
            "/proc/self/exec",
            "/usr/12a/exe",
            "exe",
            "/root",
            "/proc/cwd",
        ] {
            assert_eq!(process_link(path.as_bytes()), None, "{path}");
        }
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
