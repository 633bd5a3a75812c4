//! Status of instances: state, CPUs, memory, and counts.

use std::fmt;

use hanare_abi::copied::{self, CopiedStatus};
use hanare_abi::grant::{self, GrantStatus};
use hanare_abi::requestbox::DispatchStatus;
use hanare_abi::{boot, info, ioctl};
use rustix::io::Errno;

use crate::{Device, Error, Result, name, raw, text};

/// State of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "lowercase"))]
pub enum State {
    /// Under construction.
    Created,
    /// Starting.
    Booting,
    /// Serving.
    Running,
    /// The LWK panicked.
    Panicked,
    /// Going down.
    Stopping,
    /// The LWK does not answer.
    Hung,
    /// A state this crate does not know.
    Unknown,
}

impl State {
    fn from_abi(state: u32) -> Self {
        match state {
            info::INSTANCE_CREATED => Self::Created,
            info::INSTANCE_BOOTING => Self::Booting,
            info::INSTANCE_RUNNING => Self::Running,
            info::INSTANCE_PANICKED => Self::Panicked,
            info::INSTANCE_STOPPING => Self::Stopping,
            info::INSTANCE_HUNG => Self::Hung,
            _ => Self::Unknown,
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.pad(match self {
            Self::Created => "created",
            Self::Booting => "booting",
            Self::Running => "running",
            Self::Panicked => "panicked",
            Self::Stopping => "stopping",
            Self::Hung => "hung",
            Self::Unknown => "unknown",
        })
    }
}

/// State of a CPU of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "lowercase"))]
pub enum CpuState {
    /// Not started.
    Off,
    /// Told to start.
    Starting,
    /// In the LWK, not serving yet.
    Entered,
    /// Serving.
    Online,
    /// Stopped.
    Parked,
    /// A state this crate does not know.
    Unknown,
}

impl CpuState {
    fn from_abi(state: u32) -> Self {
        match state {
            boot::CPU_OFF => Self::Off,
            boot::CPU_STARTING => Self::Starting,
            boot::CPU_ENTERED => Self::Entered,
            boot::CPU_ONLINE => Self::Online,
            boot::CPU_PARKED => Self::Parked,
            _ => Self::Unknown,
        }
    }
}

impl fmt::Display for CpuState {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.pad(match self {
            Self::Off => "off",
            Self::Starting => "starting",
            Self::Entered => "entered",
            Self::Online => "online",
            Self::Parked => "parked",
            Self::Unknown => "unknown",
        })
    }
}

/// One CPU of an instance.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Cpu {
    /// Linux' number.
    pub linux_cpu: u32,
    /// State.
    pub state: CpuState,
    /// Space whose thread runs there, 0: none.
    pub space: u32,
    /// NUMA node.
    pub node: u32,
    /// Counts up as long as the CPU serves requests or looks for work.
    pub heartbeat: u64,
    /// Interrupts since boot.
    pub interrupts: u64,
    /// Exceptions since boot, page faults included.
    pub exceptions: u64,
    /// Page faults since boot.
    pub page_faults: u64,
    /// System calls served by the LWK.
    pub local_calls: u64,
    /// System calls delegated to Linux.
    pub delegated_calls: u64,
    /// Time without a thread to run since boot, ns.
    pub idle_ns: u64,
    /// Interrupts and exceptions of the CPU since boot, by cause; causes that did not come are left
    /// out.
    pub causes: Vec<Cause>,
}

/// A kind of interrupt or exception.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Cause {
    /// Whether the cause is an exception.
    pub is_exception: bool,
    /// The cause's name for people.
    pub name: String,
    /// Number of interrupts or exceptions that came.
    pub count: u64,
}

impl Cause {
    /// The causes that interrupted the CPU at least once.
    fn all(cpu: &ioctl::CpuStatus) -> Vec<Self> {
        let interrupts = (boot::VECTOR_FIRST..).zip(cpu.interrupts_by);
        let interrupts = interrupts.map(|(vector, count)| (false, interrupt(vector), count));
        let exceptions = (0..).zip(cpu.exceptions_by);
        let exceptions = exceptions.map(|(vector, count)| (true, exception(vector), count));
        let causes = interrupts.chain(exceptions).filter(|cause| cause.2 != 0);
        let cause =
            |(is_exception, name, count)| Self { is_exception, name, count: u64::from(count) };
        causes.map(cause).collect()
    }
}

/// The LWK's own vectors by what they are for; another one is Linux' business, and came by a
/// broadcast.
fn interrupt(vector: u32) -> String {
    match vector {
        boot::VECTOR_FIRST => "doorbell of Linux".into(),
        boot::TIMER_VECTOR => "timer".into(),
        boot::PEER_VECTOR => "another CPU of the LWK".into(),
        other => format!("vector {other:#x}"),
    }
}

/// By the manual's names.
fn exception(vector: u32) -> String {
    let name = match vector {
        0 => "divide error",
        1 => "debug",
        2 => "NMI",
        3 => "breakpoint",
        6 => "invalid opcode",
        7 => "device not available",
        13 => "general protection",
        14 => "page fault",
        16 => "x87",
        17 => "alignment check",
        18 => "machine check",
        19 => "SIMD",
        other => return format!("exception {other}"),
    };
    name.into()
}

impl Cpu {
    fn from_abi(cpu: &ioctl::CpuStatus) -> Self {
        Self {
            linux_cpu: cpu.linux_cpu,
            state: CpuState::from_abi(cpu.state),
            space: cpu.space,
            node: cpu.node,
            heartbeat: cpu.heartbeat,
            interrupts: cpu.interrupts,
            exceptions: cpu.exceptions,
            page_faults: cpu.page_faults,
            local_calls: cpu.local_calls,
            delegated_calls: cpu.delegated_calls,
            idle_ns: cpu.idle_ns,
            causes: Cause::all(cpu),
        }
    }
}

/// How arguments of calls reach Linux: where they are, or copied through a buffer. Counts are of
/// all CPUs since boot.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Arguments {
    /// Whether arguments are copied where a program was not started otherwise.
    pub are_copied: bool,
    /// Calls whose arguments were copied.
    pub copied_calls: u64,
    /// Bytes that were copied from programs for them.
    pub copied_in: u64,
    /// Bytes that were copied to programs.
    pub copied_out: u64,
    /// Why arguments were mapped that were to be copied, and of how many calls; reasons without one
    /// are left out.
    pub mapped: Vec<Mapped>,
    /// These calls by the number of Linux' call; numbers without one are left out.
    pub mapped_calls: Vec<MappedCall>,
}

/// A reason for which arguments are not copied.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Mapped {
    /// Reason in words, for people.
    pub why: &'static str,
    /// Calls.
    pub count: u64,
}

/// Calls with one number whose arguments were not copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct MappedCall {
    /// Linux' number of the call.
    pub number: usize,
    /// Calls.
    pub count: u64,
}

impl Arguments {
    fn from_abi(status: &CopiedStatus, mapped_calls: &[u64]) -> Self {
        let is_there = |count: &u64| *count != 0;
        let mapped = (0u32..).zip(status.mapped_by).filter(|(_, count)| is_there(count));
        let calls = mapped_calls.iter().copied().enumerate().filter(|(_, count)| is_there(count));
        Self {
            are_copied: status.copies != 0,
            copied_calls: status.calls,
            copied_in: status.bytes_in,
            copied_out: status.bytes_out,
            mapped: mapped.map(|(reason, count)| Mapped { why: why(reason), count }).collect(),
            mapped_calls: calls.map(|(number, count)| MappedCall { number, count }).collect(),
        }
    }
}

/// Why arguments are mapped that were to be copied.
const fn why(reason: u32) -> &'static str {
    match reason {
        copied::MAPPED_UNDESCRIBED => "no description",
        copied::MAPPED_TOO_LARGE => "too large",
        copied::MAPPED_NO_MEMORY => "no memory for a buffer",
        copied::MAPPED_KEPT => "Linux keeps the memory",
        copied::MAPPED_JUDGED => "judged by a filter",
        copied::MAPPED_PIECES => "too many pieces, or several that end too early",
        copied::MAPPED_NOT_TAKEN => "not taken by the proxy",
        copied::MAPPED_CHANGED => "memory changed meanwhile",
        _ => "another reason",
    }
}

/// One instance.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Instance {
    /// Name.
    pub name: String,
    /// State.
    pub state: State,
    /// Programs running there.
    pub programs: u32,
    /// Memory reserved for it.
    pub memory_bytes: u64,
    /// Pieces of memory.
    pub memory_chunks: u32,
    /// Memory per NUMA node, up to the last that has some (first 8 nodes).
    pub node_bytes: Vec<u64>,
    /// Time since boot.
    pub uptime_ns: u64,
    /// Slowest answer to a ping; `None`: not asked.
    pub ping_ns: Option<u64>,
    /// Bytes written to its log so far.
    pub log_bytes: u64,
    /// How arguments of calls reach Linux.
    pub arguments: Arguments,
    /// CPUs of the instance.
    pub cpus: Vec<Cpu>,
    /// Dispatch of delegated calls: each to the thread's own worker, or by the request box.
    pub dispatch: Dispatch,
    /// Devices of which its drivers have a part.
    pub devices: Vec<GrantedDevice>,
}

/// Device of Linux' of which a driver of the LWK has a part.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct GrantedDevice {
    /// Name of the LWK's driver.
    pub driver: String,
    /// Address of the PCI function, as Linux writes it: `0000:00:05.0`.
    pub function: String,
    /// Linux' driver has it, so that the LWK may use it.
    pub is_there: bool,
    /// Uses since boot: a driver looks at the device, or tells it something.
    pub uses: u64,
}

impl GrantedDevice {
    fn all(status: &ioctl::Status) -> Vec<Self> {
        let devices = status.devices.iter().filter(|device| device.driver[0] != 0);
        let device = |said: &GrantStatus| {
            let (number, function) = (said.function >> 3, said.function & 7);
            Self {
                driver: text::from_bytes(&said.driver),
                function: format!("{:04x}:{:02x}:{number:02x}.{function}", said.domain, said.bus),
                is_there: said.state == grant::GRANT_THERE,
                uses: said.uses,
            }
        };
        devices.map(device).collect()
    }
}

/// A way in which delegated calls are dispatched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "lowercase"))]
pub enum Way {
    /// Each thread's own worker.
    Direct,
    /// Servers, which look into the request box of the process.
    Box,
    /// Servers while the process has more threads than they are, else each thread's own worker.
    Auto,
}

/// Dispatch of delegated calls: each to the thread's own worker, or by the request box.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Dispatch {
    /// The way of a program that does not say otherwise.
    pub way: Way,
    /// Most servers of a request box of a process; of several, of that for all calls whose kind has
    /// none.
    pub servers: u32,
    /// Bit `n`: calls of the kind with this number have a request box of their own.
    pub boxes: u32,
    /// Calls that servers have executed.
    pub boxed_calls: u64,
    /// Calls that were taken out of a box again, for their threads' own workers.
    pub unboxed_calls: u64,
    /// Servers that were started.
    pub servers_made: u64,
    /// Calls of native tasks that pooled proxies have executed.
    pub packed_calls: u64,
    /// Pooled proxies that have come.
    pub members_made: u64,
}

impl Instance {
    fn from_abi(status: &ioctl::Status, cpus: &[ioctl::CpuStatus], mapped_calls: &[u64]) -> Self {
        let nodes =
            status.node_bytes.iter().rposition(|&bytes| bytes != 0).map_or(0, |last| last + 1);
        Self {
            name: text::from_bytes(&status.name),
            state: State::from_abi(status.state),
            programs: status.spaces,
            memory_bytes: status.memory_bytes,
            memory_chunks: status.chunks,
            node_bytes: status.node_bytes[..nodes].to_vec(),
            uptime_ns: status.uptime_ns,
            ping_ns: (status.ping_ns != 0).then_some(status.ping_ns),
            log_bytes: status.log_head,
            arguments: Arguments::from_abi(&status.copied, mapped_calls),
            cpus: cpus.iter().map(Cpu::from_abi).collect(),
            dispatch: Dispatch {
                way: match status.dispatch.way {
                    boot::DISPATCH_BOX => Way::Box,
                    boot::DISPATCH_AUTO => Way::Auto,
                    _ => Way::Direct,
                },
                servers: status.dispatch.servers,
                boxes: status.dispatch.boxes,
                boxed_calls: status.dispatch.boxed_calls,
                unboxed_calls: status.dispatch.unboxed_calls,
                servers_made: status.dispatch.servers_made,
                packed_calls: status.dispatch.packed_calls,
                members_made: status.dispatch.members_made,
            },
            devices: GrantedDevice::all(status),
        }
    }
}

/// Which instance a status call is about.
#[derive(Clone, Copy)]
enum Which<'a> {
    Name(&'a str),
    Index(u32),
}

impl Device {
    /// All instances.
    pub fn instances(&self) -> Result<Vec<Instance>> {
        let mut instances = Vec::new();
        for index in 0.. {
            match self.status(Which::Index(index), false) {
                Ok(instance) => instances.push(instance),
                Err(Errno::NOENT) => break,
                Err(errno) => {
                    return Err(Error::Failed { what: "list instances", errno });
                }
            }
        }
        Ok(instances)
    }

    /// One instance; with `ping` every CPU has to answer first (up to 1 s each).
    pub fn instance(&self, name: &str, ping: bool) -> Result<Instance> {
        name::field(name)?;
        self.status(Which::Name(name), ping)
            .map_err(|errno| Error::of_instance("ask for the status", errno, name))
    }

    fn status(&self, which: Which, ping: bool) -> rustix::io::Result<Instance> {
        let mut status = question(which, ping);
        let mut mapped_calls = [0; copied::MAPPED_CALLS];
        raw::status(self.fd(), &mut status, &mut [], &mut mapped_calls)?;
        // Once more, with room for its CPUs; a CPU that comes in between is left out.
        let count = status.cpu_count as usize;
        let mut cpus = vec![EMPTY_CPU; count];
        let ping_ns = status.ping_ns;
        status = question(which, false);
        raw::status(self.fd(), &mut status, &mut cpus, &mut mapped_calls)?;
        status.ping_ns = ping_ns;
        cpus.truncate(status.cpu_count as usize);
        Ok(Instance::from_abi(&status, &cpus, &mapped_calls))
    }
}

const EMPTY_CPU: ioctl::CpuStatus = ioctl::CpuStatus {
    linux_cpu: 0,
    state: 0,
    space: 0,
    node: 0,
    heartbeat: 0,
    interrupts: 0,
    exceptions: 0,
    page_faults: 0,
    local_calls: 0,
    delegated_calls: 0,
    idle_ns: 0,
    interrupts_by: [0; boot::VECTORS],
    exceptions_by: [0; boot::EXCEPTIONS],
};

const NO_DEVICE: GrantStatus = GrantStatus {
    driver: [0; grant::GRANT_NAME_BYTES],
    state: 0,
    domain: 0,
    bus: 0,
    function: 0,
    uses: 0,
};

fn question(which: Which, ping: bool) -> ioctl::Status {
    let (name, index) = match which {
        Which::Name(name) => (text::field(name.as_bytes()), 0),
        Which::Index(index) => ([0; ioctl::NAME_SIZE], index),
    };
    ioctl::Status {
        name,
        index,
        state: 0,
        spaces: 0,
        cpu_count: 0,
        memory_bytes: 0,
        chunks: 0,
        ping: ping.into(),
        uptime_ns: 0,
        ping_ns: 0,
        log_head: 0,
        cpus: 0,
        node_bytes: [0; 8],
        copied: CopiedStatus {
            copies: 0,
            reserved: 0,
            calls: 0,
            bytes_in: 0,
            bytes_out: 0,
            mapped_by: [0; copied::MAPPED_REASONS],
            mapped_calls: 0,
        },
        dispatch: DispatchStatus {
            way: 0,
            servers: 0,
            boxes: 0,
            reserved: 0,
            boxed_calls: 0,
            unboxed_calls: 0,
            servers_made: 0,
            packed_calls: 0,
            members_made: 0,
        },
        devices: [NO_DEVICE; grant::GRANTS_MAX],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_cut_behind_the_last_with_memory() {
        let mut status = question(Which::Name("blue"), true);
        assert_eq!(status.ping, 1);
        status.node_bytes[2] = 5;
        status.state = info::INSTANCE_PANICKED;
        let instance = Instance::from_abi(&status, &[], &[]);
        assert_eq!(instance.node_bytes, [0, 0, 5]);
        assert_eq!((instance.name.as_str(), instance.state), ("blue", State::Panicked));
        assert_eq!(instance.ping_ns, None);
    }

    #[test]
    fn causes_have_names() {
        let mut cpu = EMPTY_CPU;
        assert_eq!(Cause::all(&cpu), []);
        cpu.interrupts_by[0] = 7;
        cpu.interrupts_by[0xfc - 0xe0] = 2;
        cpu.exceptions_by[14] = 1;
        let said: Vec<(bool, String, u64)> = Cause::all(&cpu)
            .into_iter()
            .map(|cause| (cause.is_exception, cause.name, cause.count))
            .collect();
        let expected =
            [(false, "doorbell of Linux", 7), (false, "vector 0xfc", 2), (true, "page fault", 1)];
        assert_eq!(said, expected.map(|(is, name, count)| (is, name.to_owned(), count)));
    }

    #[test]
    fn states_of_the_future_are_unknown() {
        assert_eq!(State::from_abi(99), State::Unknown);
        assert_eq!(CpuState::from_abi(99), CpuState::Unknown);
    }
}
