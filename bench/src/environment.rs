//! Description of the machine and its kernels, by which a reader can judge a run's figures.

use std::collections::BTreeMap;
use std::fs;

use raw_cpuid::{CpuId, Hypervisor};
use rustix::time::{ClockId, clock_gettime};

use super::run::{Build, Machine, Side};
use hanare_common::machine;

/// A file for each leak of the CPU.
pub const VULNERABILITIES: &str = "/sys/devices/system/cpu/vulnerabilities";

/// This command.
pub fn build() -> Build {
    Build {
        version: env!("CARGO_PKG_VERSION").into(),
        commit: option_env!("HANARE_COMMIT").filter(|commit| !commit.is_empty()).map(Into::into),
        abi: hanare_abi::VERSION,
    }
}

/// The machine, as long as Linux has all of it; `lwk` is not filled in.
pub fn machine() -> Machine {
    let cpus = machine::online_cpus();
    let hypervisor = hypervisor();
    Machine {
        kernel: machine::kernel_release(),
        kernel_build: rustix::system::uname().version().to_string_lossy().into_owned(),
        processor: machine::processor(),
        model: model(),
        emulated: hypervisor.as_deref().is_some_and(|name| name.starts_with(EMULATOR)),
        hypervisor,
        linux: Side {
            cpu_count: cpus.numbers().len(),
            cpus: cpus.to_string(),
            memory_bytes: machine::meminfo("MemTotal"),
            boot_options: machine::read("/proc/cmdline"),
            mitigations: mitigations(),
            ..Side::default()
        },
        ..Machine::default()
    }
}

/// Maker and model, by the firmware's tables.
fn model() -> Option<String> {
    let field = |name: &str| machine::read(format!("/sys/class/dmi/id/{name}"));
    let words: Vec<String> = ["sys_vendor", "product_name"].into_iter().filter_map(field).collect();
    let text = words.join(" ").trim().to_owned();
    (!text.is_empty()).then_some(text)
}

/// QEMU without hardware virtualisation.
const EMULATOR: &str = "QEMU TCG";

/// By CPUID, else by Linux.
fn hypervisor() -> Option<String> {
    if !machine::cpu_flag("hypervisor") {
        // Xen's paravirtual guests have no flag.
        return machine::read("/sys/hypervisor/type").filter(|name| !name.is_empty());
    }
    let leaf = CpuId::new().get_hypervisor_info();
    Some(leaf.map_or_else(|| "without a name".into(), |leaf| name(&leaf.identify())))
}

fn name(hypervisor: &Hypervisor) -> String {
    match hypervisor {
        Hypervisor::QEMU => format!("{EMULATOR} (emulation)"),
        Hypervisor::Unknown(b, c, d) => {
            let bytes: Vec<u8> = [b, c, d].iter().flat_map(|word| word.to_le_bytes()).collect();
            let text = String::from_utf8_lossy(&bytes);
            let text: String = text.chars().filter(|c| !c.is_control()).collect();
            if text.is_empty() { "without a name".into() } else { text }
        }
        known => format!("{known:?}"),
    }
}

/// Mitigations of Linux against each hardware vulnerability that it lists.
pub fn mitigations() -> BTreeMap<String, String> {
    let entries = fs::read_dir(VULNERABILITIES).into_iter().flatten().flatten();
    let read = |entry: fs::DirEntry| {
        Some((entry.file_name().into_string().ok()?, machine::read(entry.path())?))
    };
    entries.filter_map(read).collect()
}

/// Mitigations out of the output of `grep -H "" FILE...`: `PATH:TEXT` lines.
pub fn mitigations_of(lines: &str) -> BTreeMap<String, String> {
    let entry = |line: &str| {
        let (name, text) =
            line.strip_prefix(VULNERABILITIES)?.strip_prefix('/')?.split_once(':')?;
        Some((name.to_owned(), text.trim().to_owned()))
    };
    lines.lines().filter_map(entry).collect()
}

/// Now, as RFC 3339 has it, UTC.
pub fn now() -> String {
    date(clock_gettime(ClockId::Realtime).tv_sec)
}

/// Seconds since 1970 as a date of the Gregorian calendar (years that begin in March have their odd
/// day last).
fn date(seconds: i64) -> String {
    const DAY: i64 = 86_400;
    const DAYS_OF_400_YEARS: i64 = 146_097;
    const DAYS_FROM_MARCH_0_TO_1970: i64 = 719_468;
    let (days, second) =
        (seconds.div_euclid(DAY) + DAYS_FROM_MARCH_0_TO_1970, seconds.rem_euclid(DAY));
    let (era, day) = (days.div_euclid(DAYS_OF_400_YEARS), days.rem_euclid(DAYS_OF_400_YEARS));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + i64::from(month <= 2);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(date(0), "1970-01-01T00:00:00Z");
        assert_eq!(date(951_782_399), "2000-02-28T23:59:59Z");
        assert_eq!(date(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(date(1_795_737_045), "2026-11-26T23:50:45Z");
        assert_eq!(date(-1), "1969-12-31T23:59:59Z");
    }

    #[test]
    fn mitigations_are_read_as_a_program_prints_them() {
        let text = "/sys/devices/system/cpu/vulnerabilities/mds:Mitigation: Clear; SMT: x\n\
                    grep: nonsense\n/sys/devices/system/cpu/vulnerabilities/l1tf:Not affected\n";
        let found = mitigations_of(text);
        assert_eq!(found["mds"], "Mitigation: Clear; SMT: x");
        assert_eq!(found["l1tf"], "Not affected");
        assert_eq!(found.len(), 2);
    }

    #[test]
    fn hypervisors_have_names() {
        assert!(name(&Hypervisor::QEMU).starts_with(EMULATOR));
        assert_eq!(name(&Hypervisor::KVM), "KVM");
        let word = u32::from_le_bytes(*b"abc\0");
        assert_eq!(name(&Hypervisor::Unknown(word, 0, 0)), "abc");
        assert_eq!(name(&Hypervisor::Unknown(0, 0, 0)), "without a name");
    }

    #[test]
    fn load_is_three_numbers() {
        assert_eq!(machine::load_of("8.52 8.15 5.93 3/512 1234"), Some([8.52, 8.15, 5.93]));
        assert_eq!(machine::load_of("8.52 x"), None);
    }
}
