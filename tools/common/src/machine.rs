//! Facts about this machine, as Linux reports them.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::time::{ClockId, clock_gettime};

use crate::cpu_list::CpuList;

const CPUS: &str = "/sys/devices/system/cpu";

/// `CLOCK_MONOTONIC`, s; the LWK's programs read the same.
pub fn monotonic_s() -> f64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
}

/// A small file as trimmed text.
pub fn read(path: impl AsRef<Path>) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

/// `uname -r`.
pub fn kernel_release() -> String {
    rustix::system::uname().release().to_string_lossy().into_owned()
}

/// CPUs that Linux runs on.
pub fn online_cpus() -> CpuList {
    listed_cpus("online")
}

/// CPUs that a file of `/sys/devices/system/cpu` lists, e.g. `isolated`, `nohz_full`; none where it
/// does not.
pub fn listed_cpus(file: &str) -> CpuList {
    read(Path::new(CPUS).join(file)).and_then(|list| list.parse().ok()).unwrap_or_default()
}

/// The data caches of `cpu`: their level, and the CPUs that share each.
pub fn caches_of(cpu: u32) -> Vec<(u32, CpuList)> {
    let Ok(entries) = fs::read_dir(Path::new(CPUS).join(format!("cpu{cpu}/cache"))) else {
        return Vec::new();
    };
    let caches = entries.flatten().filter_map(|entry| {
        let said = |file: &str| read(entry.path().join(file));
        if said("type")? == "Instruction" {
            return None;
        }
        Some((said("level")?.parse().ok()?, said("shared_cpu_list")?.parse().ok()?))
    });
    caches.collect()
}

/// Model of the first CPU.
pub fn processor() -> String {
    let text = read("/proc/cpuinfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("model name"));
    line.and_then(|line| line.split_once(':'))
        .map_or_else(String::new, |(_, name)| name.trim().into())
}

/// Load average of one, five and fifteen minutes.
pub fn load() -> Option<[f64; 3]> {
    load_of(&read("/proc/loadavg")?)
}

/// Load averages out of the text of /proc/loadavg (proc(5)).
pub fn load_of(text: &str) -> Option<[f64; 3]> {
    let mut numbers = text.split_whitespace().map(|word| word.parse().ok());
    Some([numbers.next()??, numbers.next()??, numbers.next()??])
}

/// Load average of the last minute.
pub fn load_average() -> f64 {
    load().map_or(0.0, |[minute, ..]| minute)
}

/// Whether Linux can take `cpu` offline.
pub fn can_go_offline(cpu: u32) -> bool {
    cpu != 0 && Path::new(CPUS).join(format!("cpu{cpu}/online")).exists()
}

/// Package, die and core of `cpu`; siblings have the same. Also of an instance's CPUs: the module
/// keeps it there.
pub fn core_of(cpu: u32) -> Option<(u32, u32, u32)> {
    let folder = Path::new(CPUS).join(format!("cpu{cpu}/topology"));
    let number = |name: &str| read(folder.join(name))?.parse::<u32>().ok();
    Some((number("physical_package_id")?, number("die_id").unwrap_or(0), number("core_id")?))
}

/// NUMA node of `cpu`.
pub fn node_of(cpu: u32) -> Option<u32> {
    let entries = fs::read_dir(Path::new(CPUS).join(format!("cpu{cpu}"))).ok()?;
    let names = entries.flatten().map(|entry| entry.file_name());
    names.filter_map(|name| name.to_str()?.strip_prefix("node")?.parse().ok()).next()
}

/// Bytes of memory that a NUMA node has.
pub fn node_memory(node: u32) -> Option<u64> {
    let text = read(format!("/sys/devices/system/node/node{node}/meminfo"))?;
    let line = text.lines().find_map(|line| line.split_once("MemTotal:"))?.1;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok().map(|kib| kib << 10)
}

/// Bytes of a line of /proc/meminfo.
pub fn meminfo(name: &str) -> Option<u64> {
    let text = read("/proc/meminfo")?;
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok().map(|kib| kib << 10)
}

/// Whether the first CPU has a flag in /proc/cpuinfo.
pub fn cpu_flag(flag: &str) -> bool {
    let text = read("/proc/cpuinfo").unwrap_or_default();
    let flags = text.lines().find(|line| line.starts_with("flags"));
    flags.is_some_and(|line| line.split_whitespace().any(|word| word == flag))
}

/// Lockdown mode of Linux: the word that `/sys/kernel/security/lockdown` has in brackets.
pub fn lockdown() -> Option<String> {
    let text = read("/sys/kernel/security/lockdown")?;
    Some(text.split_once('[')?.1.split_once(']')?.0.to_owned())
}

/// Whether a file ends as one that the kernel's `sign-file` has signed.
pub fn is_signed(path: &Path) -> bool {
    const MARK: &[u8] = b"~Module signature appended~\n";
    fs::read(path).is_ok_and(|bytes| bytes.ends_with(MARK))
}

/// Whether the module, or Linux of modules, wants signatures.
pub fn wants_signatures() -> bool {
    let is_set =
        |parameter: &str| read(Path::new("/sys/module").join(parameter)).as_deref() == Some("Y");
    is_set("hanare/parameters/require_signature")
        || is_set("module/parameters/sig_enforce")
        || lockdown().is_some_and(|mode| mode != "none")
}

/// Whether the firmware booted with Secure Boot on.
pub fn secure_boot() -> bool {
    let variable = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c";
    fs::read(variable).is_ok_and(|bytes| bytes.get(4) == Some(&1))
}

/// hanare.ko of the running kernel: $HANARE_KO, or installed.
pub fn module_file() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os("HANARE_KO").map(PathBuf::from) {
        return path.is_file().then_some(path);
    }
    let folder = PathBuf::from("/lib/modules").join(kernel_release());
    let folders = ["extra", "updates", "updates/dkms", "misc", "."].map(|name| folder.join(name));
    let names = ["hanare.ko", "hanare.ko.xz", "hanare.ko.zst", "hanare.ko.gz"];
    folders
        .iter()
        .flat_map(|folder| names.map(|name| folder.join(name)))
        .find(|path| path.is_file())
}

/// Whether the module is loaded.
pub fn module_loaded() -> bool {
    Path::new("/sys/module/hanare").exists()
}

/// Whether this process is root.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
