//! `hanare doctor`: can this machine run it, and if not, why; are its instances well, and what each
//! thread waits for if not.

use std::io::IsTerminal;

use anyhow::Result;
use clap::Args;
use hanare_sdk::{Device, End, Error, GrantedDevice, Instance, Process, State, Thread};

use super::ls;
use crate::{device, stuck};
use hanare_common::cpu_list::CpuList;
use hanare_common::output::{self, outln};
use hanare_common::size::Bytes;
use hanare_common::{failure, find, machine, processes};

/// Say whether this machine can run Hanare, and if not, why; and whether its instances are well: of
/// one that is not, the processes and what they wait for in Linux. The exit status is 1 if
/// something is in the way.
#[derive(Args)]
pub struct Doctor {}

/// Kernels on which Hanare is tested.
const TESTED_KERNELS: [&str; 3] = ["6.1", "6.12", "7.2"];
/// Oldest and newest kernel that the module is written for.
const OLDEST_KERNEL: (u32, u32) = (6, 1);
/// Least free memory with which booting makes sense.
const MEMORY_MIN: u64 = 256 << 20;

enum Verdict {
    Good,
    Warning,
    Bad,
}

/// One line: what was found, and what to do about it.
struct Finding {
    verdict: Verdict,
    text: String,
    next: Option<String>,
}

fn good(text: impl Into<String>) -> Finding {
    Finding { verdict: Verdict::Good, text: text.into(), next: None }
}

fn warning(text: impl Into<String>, next: impl Into<String>) -> Finding {
    Finding { verdict: Verdict::Warning, text: text.into(), next: Some(next.into()) }
}

fn bad(text: impl Into<String>, next: impl Into<String>) -> Finding {
    Finding { verdict: Verdict::Bad, text: text.into(), next: Some(next.into()) }
}

impl Doctor {
    /// Prints all findings; the exit status says whether one is bad.
    pub fn execute(self) -> Result<i32> {
        let checks: [fn() -> Finding; 13] = [
            processor,
            kernel,
            tsc,
            virtual_machine,
            lockdown,
            module,
            image,
            proxy,
            hotplug,
            cpus,
            siblings,
            memory,
            rights,
        ];
        let findings: Vec<Finding> =
            checks.iter().map(|check| check()).chain(instances()).collect();
        findings.iter().try_for_each(print)?;
        let bad = findings.iter().any(|finding| matches!(finding.verdict, Verdict::Bad));
        Ok(if bad { failure::FAILED } else { 0 })
    }
}

fn print(finding: &Finding) -> Result<()> {
    let (word, colour) = match finding.verdict {
        Verdict::Good => ("ok  ", 32),
        Verdict::Warning => ("warn", 33),
        Verdict::Bad => ("fail", 31),
    };
    if std::io::stdout().is_terminal() {
        outln!("\x1b[{colour}m{word}\x1b[0m  {}", finding.text)?;
    } else {
        outln!("{word}  {}", finding.text)?;
    }
    match &finding.next {
        Some(next) => outln!("      next: {next}"),
        None => Ok(()),
    }
}

fn processor() -> Finding {
    let uname = rustix::system::uname();
    match uname.machine().to_bytes() {
        b"x86_64" => good("x86-64 processor"),
        other => {
            bad(format!("{} processor", String::from_utf8_lossy(other)), "use an x86-64 machine")
        }
    }
}

/// `6.12` of `6.12.95+deb12-amd64`.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

fn kernel() -> Finding {
    judge_kernel(&machine::kernel_release())
}

fn judge_kernel(release: &str) -> Finding {
    let tested = TESTED_KERNELS.join(", ");
    let Some((major, minor)) = version(release) else {
        return warning(
            format!("Linux {release}: not a version we know"),
            format!("tested are {tested}"),
        );
    };
    if TESTED_KERNELS.contains(&format!("{major}.{minor}").as_str()) {
        return good(format!("Linux {release}"));
    }
    if (major, minor) < OLDEST_KERNEL {
        return bad(format!("Linux {release} is too old"), format!("boot one of {tested}"));
    }
    warning(format!("Linux {release}: not tested"), format!("it may work; tested are {tested}"))
}

fn tsc() -> Finding {
    let steady = machine::cpu_flag("constant_tsc") && machine::cpu_flag("nonstop_tsc");
    let source = machine::read("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    let source = source.unwrap_or_else(|| "unknown".into());
    if steady || source == "tsc" {
        return good(format!("time stamp counter (Linux' clock source: {source})"));
    }
    let text = format!("the time stamp counter may not be steady (Linux' clock source: {source})");
    warning(text, "programs' clocks may drift a little from Linux'; nothing else depends on it")
}

fn virtual_machine() -> Finding {
    let name = machine::read("/sys/class/dmi/id/product_name").unwrap_or_default();
    match machine::cpu_flag("hypervisor") {
        true => {
            good(format!("virtual machine ({})", if name.is_empty() { "unnamed" } else { &name }))
        }
        false => good("not a virtual machine"),
    }
}

fn lockdown() -> Finding {
    let next =
        "sign hanare.ko with a key that this machine trusts (mokutil), or turn Secure Boot off";
    match machine::lockdown().as_deref() {
        Some("none") | None if machine::secure_boot() => {
            warning("Secure Boot is on: an unsigned module may be refused", next)
        }
        Some("none") | None => good("no lockdown, no Secure Boot"),
        Some(mode) if machine::module_loaded() => {
            good(format!("lockdown: {mode}; the module is loaded all the same"))
        }
        Some(mode) => bad(format!("kernel lockdown: {mode}: unsigned modules are refused"), next),
    }
}

fn module() -> Finding {
    match Device::open() {
        Ok(_) => good(format!(
            "the module is loaded and fits this command; who may run programs: root, group {}",
            device::group()
        )),
        Err(Error::Permission) => warning(
            format!("the module is loaded; /dev/hanare is for root and group {}", device::group()),
            format!("sudo usermod -aG {} $USER, and log in again", device::group()),
        ),
        Err(Error::NotLoaded) => match machine::module_file() {
            Some(path) => {
                good(format!("module {} (not loaded; hanare boot does it)", path.display()))
            }
            None => bad(
                format!("no hanare.ko for Linux {}", machine::kernel_release()),
                "apt install linux-headers-$(uname -r); make native; sudo make install",
            ),
        },
        Err(error) => bad(error.to_string(), "rmmod hanare; modprobe hanare"),
    }
}

fn found(result: anyhow::Result<std::path::PathBuf>, what: &str) -> Finding {
    match result {
        Ok(path) => good(format!("{what} {}", path.display())),
        Err(error) => bad(error.to_string(), "make native; sudo make install"),
    }
}

fn image() -> Finding {
    let path = find::image();
    let unsigned = path.as_ref().is_ok_and(|path| !machine::is_signed(path));
    if unsigned && machine::wants_signatures() {
        return bad(
            "the LWK image has no signature, and this machine wants one",
            "sign hanare-lwk as hanare.ko (see docs/guide.md)",
        );
    }
    found(path, "LWK image")
}

fn proxy() -> Finding {
    found(find::proxy(), "proxy")
}

fn hotplug() -> Finding {
    match (0..4096).any(machine::can_go_offline) {
        true => good("CPU hotplug"),
        false => bad(
            "no CPU can be taken offline",
            "a kernel with CONFIG_HOTPLUG_CPU (not in a container), and more than one CPU",
        ),
    }
}

fn cpus() -> Finding {
    let instances = Device::open().and_then(|device| device.instances()).unwrap_or_default();
    let taken =
        instances.iter().flat_map(|instance| ls::cpus(instance).numbers().to_vec()).collect();
    judge_cpus(&machine::online_cpus(), &taken, machine::can_go_offline)
}

/// `taken`: CPUs of the instances.
fn judge_cpus(online: &CpuList, taken: &CpuList, can_go_offline: impl Fn(u32) -> bool) -> Finding {
    let takable: CpuList =
        online.numbers().iter().copied().filter(|&cpu| can_go_offline(cpu)).collect();
    let on_linux = output::count(online.numbers().len() as u64, "CPU online", "CPUs online");
    let of_instances = match taken.numbers() {
        [] => String::new(),
        [cpu] => format!("; instances have CPU {cpu}"),
        _ => format!("; instances have CPUs {taken}"),
    };
    match (takable.numbers(), taken.numbers()) {
        ([], []) => bad(
            format!("{on_linux}: none can be taken (CPU 0 stays with Linux)"),
            "a machine with 2 CPUs or more",
        ),
        ([], _) => good(format!("{on_linux}, which stays with Linux{of_instances}")),
        _ => good(format!(
            "{on_linux}; can be taken: {takable} (CPU 0 stays with Linux){of_instances}"
        )),
    }
}

fn siblings() -> Finding {
    let instances = Device::open().and_then(|device| device.instances()).unwrap_or_default();
    let instances: Vec<CpuList> = instances.iter().map(ls::cpus).collect();
    judge_siblings(&machine::online_cpus(), &instances, machine::core_of)
}

/// Hardware threads of one core share its caches, buffers and predictors: what one kernel does
/// about leaks does not hold against the other's programs on the sibling. `online`: Linux' CPUs;
/// `instances`: those of each.
fn judge_siblings<Core: PartialEq>(
    online: &CpuList,
    instances: &[CpuList],
    core_of: impl Fn(u32) -> Option<Core>,
) -> Finding {
    let cores_of =
        |list: &CpuList| list.numbers().iter().filter_map(|&cpu| core_of(cpu)).collect::<Vec<_>>();
    let linux = cores_of(online);
    let cores: Vec<_> = instances.iter().map(cores_of).collect();
    let is_elsewhere = |me: usize, core: &Core| {
        linux.contains(core)
            || cores.iter().enumerate().any(|(other, cores)| other != me && cores.contains(core))
    };
    let shared: CpuList = instances
        .iter()
        .enumerate()
        .flat_map(|(me, list)| list.numbers().iter().map(move |&cpu| (me, cpu)))
        .filter(|&(me, cpu)| core_of(cpu).is_some_and(|core| is_elsewhere(me, &core)))
        .map(|(_, cpu)| cpu)
        .collect();
    match shared.numbers() {
        [] => good("no core is shared between kernels"),
        _ => warning(
            format!(
                "CPUs of instances whose core has a sibling thread with another kernel: {shared}"
            ),
            "give an instance whole cores (/sys/devices/system/cpu/cpuN/topology), or turn SMT off: siblings see \
             into each other on CPUs that leak",
        ),
    }
}

fn memory() -> Finding {
    judge_memory(machine::meminfo("MemAvailable").unwrap_or(0))
}

fn judge_memory(available: u64) -> Finding {
    let shown = Bytes(available >> 20 << 20);
    if available < MEMORY_MIN {
        let next = format!("stop programs; an LWK should have {} at least", Bytes(MEMORY_MIN));
        return warning(format!("{shown} of memory available"), next);
    }
    good(format!("{shown} of memory available"))
}

/// One finding for each instance; of all programs, if one of the instances is not well.
fn instances() -> Vec<Finding> {
    let Ok(device) = Device::open() else {
        return Vec::new();
    };
    let names = device.instances().unwrap_or_default().into_iter().map(|instance| instance.name);
    // One that does not answer the ping is hung from then on. One that has gone meanwhile is left
    // out.
    let looks: Vec<Instance> = names.filter_map(|name| device.instance(&name, true).ok()).collect();
    let mut findings: Vec<Finding> = looks.iter().map(judge_instance).collect();
    for instance in &looks {
        findings.extend(instance.devices.iter().map(|device| judge_device(&instance.name, device)));
        findings.extend(device.ends(&instance.name).unwrap_or_default().iter().map(judge_end));
    }
    for instance in looks.iter().filter(|instance| matches!(instance.state, State::Running)) {
        let processes = device.processes(&instance.name).unwrap_or_default();
        findings.extend(processes.iter().flat_map(waiters));
    }
    if findings.iter().any(|finding| matches!(finding.verdict, Verdict::Bad)) {
        let next =
            "one in state D ends when what it waits for does: dmesg says why, if Linux knows";
        findings.extend(stuck::programs().into_iter().map(|text| warning(text, next)));
    }
    findings
}

/// A finding for each thread of a process that waits for another thread, a child or Linux.
fn waiters(process: &Process) -> Vec<Finding> {
    let of = |thread: &Thread| {
        let (name, tid) = (&process.name, thread.tid);
        let pid = processes::number(process.pid);
        let until = thread.waits_until?;
        Some(good(format!("process {pid} ({name}): thread {tid} waits until {until}")))
    };
    process.threads.iter().filter_map(of).collect()
}

/// A process that has ended, of which the LWK may have something still.
fn judge_end(end: &End) -> Finding {
    let End { pid, cpu, waits, threads, tid, since } = end;
    let whom = match (cpu, threads) {
        (Some(cpu), _) => format!("CPU {cpu}, which has not answered"),
        (None, 0) => "the LWK, which has not been asked yet".into(),
        (None, _) => {
            format!(
                "the LWK, where {threads} of its threads are left, as {}",
                processes::number(*tid)
            )
        }
    };
    let task = if *waits { "and waits for" } else { "and does not wait any more for" };
    let pid = processes::number(*pid);
    let text = format!("process {pid} has ended {} s ago, {task} {whom}", since.as_secs());
    warning(text, "hanare status --ping says whether the CPUs answer; hanare log, why not")
}

fn judge_instance(instance: &Instance) -> Finding {
    let Instance { name, state, programs, .. } = instance;
    let text = format!("instance '{name}': {state}, programs: {programs}");
    match state {
        State::Created | State::Booting | State::Running => good(text),
        State::Stopping => {
            warning(text, format!("a shutdown is under way; if it lasts: hanare log {name}"))
        }
        _ => bad(text, format!("hanare log {name}; hanare shutdown {name} --force")),
    }
}

/// A device of Linux' of which a driver of the LWK has a part.
fn judge_device(instance: &str, device: &GrantedDevice) -> Finding {
    let GrantedDevice { driver, function, is_there, .. } = device;
    let who = format!("instance '{instance}': its driver {driver}");
    if *is_there {
        return good(format!("{who} has a part of {function}, whose accesses Linux does not see"));
    }
    let next = "all calls go to Linux; after its driver has the device again: shut the instance down and boot";
    warning(format!("{who} has lost {function}: Linux' driver has let go of it"), next)
}

fn rights() -> Finding {
    match machine::is_root() {
        true => good("root"),
        false => {
            warning("not root: booting needs it, running programs does not", "sudo hanare boot ...")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_is_judged_by_its_version() {
        assert_eq!(version("6.12.95+deb12-amd64"), Some((6, 12)));
        assert_eq!(version("7.2-rc1"), Some((7, 2)));
        assert_eq!(version("next"), None);
        assert!(matches!(judge_kernel("6.1.0-56-amd64").verdict, Verdict::Good));
        assert!(matches!(judge_kernel("6.8.1").verdict, Verdict::Warning));
        assert!(matches!(judge_kernel("5.10.0").verdict, Verdict::Bad));
    }

    #[test]
    fn an_end_names_what_it_waits_for() {
        let since = std::time::Duration::from_millis(7900);
        let end = End { pid: Some(9), cpu: Some(3), waits: true, threads: 0, tid: None, since };
        let told = |end: &End| judge_end(end).text;
        assert_eq!(
            told(&end),
            "process 9 has ended 7 s ago, and waits for CPU 3, which has not answered"
        );
        let left = End { cpu: None, waits: false, threads: 2, tid: Some(11), ..end };
        assert_eq!(
            told(&left),
            "process 9 has ended 7 s ago, and does not wait any more for the LWK, where 2 of its threads are left, as 11"
        );
    }

    #[test]
    fn a_device_is_there_or_lost() {
        let (driver, function) = ("nvme".into(), "0000:00:05.0".into());
        let device = GrantedDevice { driver, function, is_there: true, uses: 7 };
        let said = judge_device("default", &device);
        assert!(matches!(said.verdict, Verdict::Good), "{}", said.text);
        let lost = judge_device("default", &GrantedDevice { is_there: false, ..device });
        assert!(matches!(lost.verdict, Verdict::Warning));
        assert_eq!(
            lost.text,
            "instance 'default': its driver nvme has lost 0000:00:05.0: Linux' driver has let go of it"
        );
    }

    #[test]
    fn the_boot_cpu_is_not_takable() {
        let finding = judge_cpus(&"0-3".parse().unwrap(), &CpuList::default(), |cpu| cpu != 0);
        assert!(finding.text.contains("can be taken: 1-3"));
        let finding = judge_cpus(&"0".parse().unwrap(), &CpuList::default(), |cpu| cpu != 0);
        assert!(matches!(finding.verdict, Verdict::Bad));
    }

    #[test]
    fn cpus_that_instances_have_are_no_failure() {
        let finding = judge_cpus(&"0".parse().unwrap(), &"1-3".parse().unwrap(), |cpu| cpu != 0);
        assert!(matches!(finding.verdict, Verdict::Good));
        assert!(
            finding.text.starts_with("1 CPU online,") && finding.text.contains("CPUs 1-3"),
            "{}",
            finding.text
        );
    }

    #[test]
    fn siblings_with_another_kernel_warn() {
        let list = |text: &str| text.parse::<CpuList>().unwrap();
        // CPUs 0 and 4 are one core, 1 and 5 the next, and so on.
        let judge = |online, instances: &[&str]| {
            let instances: Vec<CpuList> = instances.iter().map(|text| list(text)).collect();
            judge_siblings(&list(online), &instances, |cpu| Some(cpu % 4))
        };
        assert!(matches!(judge("0-7", &[]).verdict, Verdict::Good));
        assert!(matches!(judge("0-1,4-5", &["2-3,6-7"]).verdict, Verdict::Good));
        let with_linux = judge("0-5", &["6-7"]);
        assert!(matches!(with_linux.verdict, Verdict::Warning));
        assert!(with_linux.text.ends_with(": 6-7"), "{}", with_linux.text);
        let with_each_other = judge("0,4", &["1,2,6", "3,5,7"]);
        assert!(with_each_other.text.ends_with(": 1,5"), "{}", with_each_other.text);
        // Nothing is known of the cores: nothing is said.
        let unknown = judge_siblings(&list("0-5"), &[list("6-7")], |_| None::<u32>);
        assert!(matches!(unknown.verdict, Verdict::Good));
    }

    #[test]
    fn little_memory_warns() {
        assert!(matches!(judge_memory(100 << 20).verdict, Verdict::Warning));
        assert!(matches!(judge_memory(1 << 30).verdict, Verdict::Good));
    }
}
