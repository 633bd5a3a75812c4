//! `hanare boot`: takes CPUs and memory, starts an LWK.

use std::fs;
use std::io::IsTerminal;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use clap::{Args, ValueHint};
use hanare_abi::LARGE_PAGE_SIZE;
use hanare_abi::ioctl::MEMORY_KEPT_BYTES;
use hanare_core::claims::DRIVERS;
use hanare_core::{options, userlimits};
use hanare_sdk::{Builder, Device, Error, PciFunction};

use crate::device;
use crate::dispatch::{Dispatch, check_server_cpus};
use crate::program::Arguments;
use hanare_common::cpu_list::CpuList;
use hanare_common::output::{self, outln};
use hanare_common::size::{Bytes, Memory, Piece};
use hanare_common::{find, instances, machine};

/// Take CPUs and memory from Linux and boot an LWK on them. All or nothing: if
/// anything fails, or Ctrl-C is pressed, Linux has everything back.
#[derive(Args)]
#[command(after_help = "\
Examples:
  hanare boot --cpus 2-3 --mem 512M          an instance called 'default'
  hanare boot blue --cpus 4,6 --mem 2G@1     another, memory of NUMA node 1
  hanare boot --cpus 8-15 --mem 8G@0,8G@1    memory of two nodes

CPU 0 stays with Linux. Memory is reserved in pieces of 2M and should be taken soon after Linux has booted, \
while it is not fragmented.")]
pub struct Boot {
    /// Name of the instance
    #[arg(default_value = "default", value_parser = instances::name)]
    name: String,
    /// CPUs to take, by Linux' numbers, e.g. 2,4-6
    #[arg(long, value_name = "LIST")]
    cpus: CpuList,
    /// Memory to take, e.g. 512M, 2G@1 (from NUMA node 1) or 1G@0,1G@1
    #[arg(long, value_name = "SIZE[@NODE],...")]
    mem: Memory,
    /// LWK image [default: $HANARE_IMAGE, or the installed one]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    image: Option<PathBuf>,
    // Its help is the list of options.
    #[arg(long = "option", value_name = "KEY=VALUE", value_parser = option, help = format!("Option for the LWK (repeatable): {}", options::HELP))]
    options: Vec<String>,
    /// How arguments of calls reach Linux where nothing else is said [default: mapped]
    #[arg(long, value_name = "HOW")]
    arguments: Option<Arguments>,
    // Its help is how they are written.
    #[arg(long, value_name = "LIMIT,...", value_parser = user_limits, help = format!("What each user but root may have of the instance: {}", userlimits::HELP))]
    user_limits: Option<String>,
    // Its help is the list of drivers.
    #[arg(long = "device", value_name = "DRIVER=PATH", value_parser = device_of_driver, help = format!("Device of which a driver of the LWK gets its part (repeatable); drivers: {}", DRIVERS.join(", ")))]
    devices: Vec<DriversDevice>,
    /// NVMe controller, e.g. /dev/nvme0, on which the LWK has queues of its own (repeatable): the
    /// same as --device nvme=PATH
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    nvme: Vec<PathBuf>,
    #[command(flatten)]
    dispatch: Dispatch,
    /// Seconds each CPU may take to answer; six times that to come online
    #[arg(long, value_name = "S", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=600))]
    timeout: u32,
}

/// The driver of NVMe controllers.
const NVME: &str = "nvme";
/// Memory is reserved in calls of this size, for the sake of the progress bar.
const STEP_BYTES: u64 = 64 << 20;

impl Boot {
    /// Boots.
    pub fn execute(self) -> Result<()> {
        let limits = self.user_limits.map(|limits| format!("user_limits={limits}"));
        let arguments = self.arguments.map(|how| format!("arguments={how}"));
        let options = self.options.into_iter().chain(limits).chain(arguments);
        let options: Vec<String> = options.chain(self.dispatch.options()).collect();
        let options = options.join(" ");
        let asked = options::Options::parse(&options).map_err(|refused| anyhow!("{refused}"))?;
        check_server_cpus(&asked.dispatch, &machine::online_cpus(), &self.cpus)?;
        let path = self.image.clone().map_or_else(find::image, Ok)?;
        let image =
            fs::read(&path).with_context(|| format!("cannot read the image {}", path.display()))?;
        let opened = device()?;
        device::give_to_group();
        let mut builder = opened.create(&self.name)?;
        let controllers = self.nvme.iter().map(|path| (NVME, path));
        let devices = self.devices.iter().map(|device| (device.driver.as_str(), &device.path));
        for (driver, path) in devices.chain(controllers) {
            let file = fs::File::open(path)
                .with_context(|| format!("cannot open the device {}", path.display()))?;
            let function = pci_function(&file, path)?;
            let queues = (driver == NVME).then(queues_of_nvme);
            builder.add_device(driver, file.as_fd(), function, queues)?;
        }
        for &cpu in self.cpus.numbers() {
            builder.check_cpu(cpu)?;
        }
        can_be_spared(&self.mem, machine::meminfo("MemAvailable"), machine::node_memory)?;

        let mut progress = Progress::new();
        let start = Instant::now();
        let pieces = place(&self.mem.0, &nodes_of(&self.cpus));
        reserve(&mut builder, &pieces, &mut progress)?;
        let reserved = start.elapsed();
        for &cpu in self.cpus.numbers() {
            progress.show(&format!("taking CPU {cpu}"));
            builder.add_cpu(cpu)?;
        }
        let taken = start.elapsed() - reserved;
        progress.show("starting the LWK");
        let times = builder.boot(&image, &options, self.timeout * 1000);
        let times = times.map_err(|error| explain(error, &path))?;
        progress.clear();
        let s = |ns: u64| ns as f64 / 1e9;
        let cpus = match self.cpus.numbers() {
            [_] => "CPU",
            _ => "CPUs",
        };
        outln!(
            "booted '{}' on {cpus} {} with {}: memory {:.2} s, CPUs {:.2} s, load {:.3} s, start {:.3} s + {:.3} s",
            self.name,
            self.cpus,
            Bytes(self.mem.bytes()),
            reserved.as_secs_f64(),
            taken.as_secs_f64(),
            s(times.load_ns),
            s(times.first_cpu_ns),
            s(times.other_cpus_ns),
        )
    }
}

/// How many pairs of queues Linux' NVMe driver makes on a controller at most: one for each CPU that
/// there may be, and what its parameters ask for.
fn queues_of_nvme() -> u32 {
    let more = |name: &str| {
        let said = machine::read(format!("/sys/module/nvme/parameters/{name}"));
        said.and_then(|text| text.parse::<u32>().ok()).unwrap_or(0)
    };
    let cpus = machine::listed_cpus("possible").numbers().len() as u32;
    cpus.max(1) + more("write_queues") + more("poll_queues")
}

/// A device, and the driver of the LWK's that gets its part of it.
#[derive(Clone, Debug)]
struct DriversDevice {
    driver: String,
    path: PathBuf,
}

fn device_of_driver(text: &str) -> Result<DriversDevice, String> {
    let known =
        text.split_once('=').filter(|(driver, path)| DRIVERS.contains(driver) && !path.is_empty());
    let (driver, path) =
        known.ok_or_else(|| format!("a driver is one of {}", DRIVERS.join(", ")))?;
    Ok(DriversDevice { driver: driver.into(), path: path.into() })
}

/// The PCI function behind a device's file: the nearest one above it in sysfs.
fn pci_function(file: &fs::File, path: &Path) -> Result<PciFunction> {
    let about = file.metadata().with_context(|| format!("cannot look at {}", path.display()))?;
    let kind = match about.file_type() {
        kind if kind.is_char_device() => "char",
        kind if kind.is_block_device() => "block",
        _ => bail!("{} is no device", path.display()),
    };
    let (major, minor) = (rustix::fs::major(about.rdev()), rustix::fs::minor(about.rdev()));
    let shown = format!("/sys/dev/{kind}/{major}:{minor}");
    let place = fs::canonicalize(&shown).with_context(|| format!("cannot find {shown}"))?;
    let mut names = place.ancestors().filter_map(|folder| folder.file_name()?.to_str());
    let found = names.find_map(PciFunction::of_name);
    found.ok_or_else(|| anyhow!("{} belongs to no PCI device", path.display()))
}

/// An option that the LWK knows. It would refuse others itself, but only after CPUs and memory were
/// taken.
fn option(text: &str) -> Result<String, String> {
    options::Options::parse(text).map_err(|refused| refused.to_string())?;
    Ok(text.into())
}

/// Limits that the LWK understands.
fn user_limits(text: &str) -> Result<String, String> {
    let known = userlimits::UserLimits::parse(text).is_some();
    known.then(|| text.into()).ok_or_else(|| format!("limits are {}", userlimits::HELP))
}

/// Compares what is wanted with what there is, before anything is taken: moving memory takes long.
/// `available`: on all nodes, now; `node_memory`: all that a node has.
fn can_be_spared(
    wanted: &Memory,
    available: Option<u64>,
    node_memory: impl Fn(u32) -> Option<u64>,
) -> Result<()> {
    let spare = available.map(|bytes| bytes.saturating_sub(MEMORY_KEPT_BYTES));
    let bytes = wanted.bytes();
    if let Some(spare) = spare.filter(|&spare| bytes > spare) {
        let spare = Bytes(spare >> 20 << 20);
        bail!(
            "{} wanted, but Linux can spare {spare}: ask for less, or end some programs",
            Bytes(bytes)
        );
    }
    for node in wanted.0.iter().filter_map(|piece| piece.node) {
        let there =
            wanted.0.iter().filter(|piece| piece.node == Some(node)).map(|piece| piece.bytes).sum();
        if let Some(all) = node_memory(node).filter(|&all| there > all) {
            let all = Bytes(all >> 20 << 20);
            bail!(
                "{} of NUMA node {node} wanted, which has {all}: ask for less there",
                Bytes(there)
            );
        }
    }
    Ok(())
}

/// A refused image is named.
fn explain(error: Error, image: &Path) -> anyhow::Error {
    let foreign = error.errno().is_some_and(|errno| errno.raw_os_error() == 8);
    let error = anyhow::Error::from(error);
    if foreign { error.context(format!("image {}", image.display())) } else { error }
}

fn reserve(builder: &mut Builder, pieces: &[Piece], progress: &mut Progress) -> Result<()> {
    let all: u64 = pieces.iter().map(|piece| piece.bytes).sum();
    let mut done = 0;
    for piece in pieces {
        let mut left = piece.bytes;
        while left > 0 {
            progress.bar("reserving memory", done, all);
            let bytes = left.min(STEP_BYTES);
            let result = builder.add_memory(bytes, piece.node);
            result.with_context(|| format!("reserved {} of {}", Bytes(done), Bytes(all)))?;
            left -= bytes;
            done += bytes;
        }
    }
    Ok(())
}

/// NUMA nodes of the CPUs, sorted.
fn nodes_of(cpus: &CpuList) -> Vec<u32> {
    let mut nodes: Vec<u32> =
        cpus.numbers().iter().filter_map(|&cpu| machine::node_of(cpu)).collect();
    nodes.sort_unstable();
    nodes.dedup();
    nodes
}

/// Memory is reserved before the CPUs are taken (the more likely failure first), so
/// what has no node is spread over those of the CPUs here.
fn place(pieces: &[Piece], nodes: &[u32]) -> Vec<Piece> {
    let mut placed = Vec::new();
    for piece in pieces {
        if piece.node.is_some() || nodes.is_empty() {
            placed.push(*piece);
            continue;
        }
        let pages = piece.bytes / LARGE_PAGE_SIZE;
        let count = nodes.len() as u64;
        for (index, &node) in (0u64..).zip(nodes) {
            let bytes = (pages / count + u64::from(index < pages % count)) * LARGE_PAGE_SIZE;
            placed.push(Piece { bytes, node: Some(node) });
        }
    }
    placed
}

/// Opens the device; loads the module first if that is needed and possible.
fn device() -> Result<Device> {
    match Device::open() {
        Err(Error::NotLoaded) if machine::is_root() => load_module()?,
        Err(Error::NotLoaded) => bail!(
            "the module is not loaded, and loading it needs root (next: sudo hanare boot ...)"
        ),
        other => return Ok(other?),
    }
    // The device appears a moment later.
    let deadline = Instant::now() + Duration::from_secs(3);
    loop {
        match Device::open() {
            Err(Error::NotLoaded) if Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(10))
            }
            other => return Ok(other?),
        }
    }
}

fn load_module() -> Result<()> {
    let mut command = match std::env::var_os("HANARE_KO") {
        Some(path) => {
            let mut insmod = Command::new("insmod");
            insmod.arg(path);
            insmod
        }
        None => {
            let mut modprobe = Command::new("modprobe");
            modprobe.arg("hanare");
            modprobe
        }
    };
    let next = "next: hanare doctor; make native; sudo make install";
    let output = command.stdin(Stdio::null()).output();
    let output = output.with_context(|| {
        format!("cannot load the module: no {:?} ({next})", command.get_program())
    })?;
    if output.status.success() || machine::module_loaded() {
        return Ok(());
    }
    bail!("cannot load the module: {} ({next})", String::from_utf8_lossy(&output.stderr).trim())
}

/// One line on a terminal's stderr that is written over; nothing elsewhere.
struct Progress {
    shown: bool,
    terminal: bool,
}

impl Progress {
    fn new() -> Self {
        Self { shown: false, terminal: std::io::stderr().is_terminal() }
    }

    /// Columns that one line has. The last stays free: some terminals wrap there.
    fn width() -> usize {
        output::columns(std::io::stderr()).unwrap_or(80) - 1
    }

    fn show(&mut self, text: &str) {
        if self.terminal {
            output::complain(format_args!("\r\x1b[K{}", output::cut(text, Self::width())));
            self.shown = true;
        }
    }

    fn bar(&mut self, what: &str, done: u64, all: u64) {
        self.show(&bar(what, done, all, Self::width()));
    }

    fn clear(&mut self) {
        if std::mem::take(&mut self.shown) {
            output::complain(format_args!("\r\x1b[K"));
        }
    }
}

/// The longest of some lines that fits; the bar is as wide as there is room.
fn bar(what: &str, done: u64, all: u64, width: usize) -> String {
    const WIDTH_MAX: usize = 30;
    const WIDTH_MIN: usize = 5;
    let amount = format!("{} of {}", Bytes(done), Bytes(all));
    // The amount grows while it is shown; the bar should not.
    let amount_max = 2 * Bytes(all).to_string().len().max("1023.9 MiB".len()) + " of ".len();
    let room = width.saturating_sub(what.len() + amount_max + " [] ".len()).min(WIDTH_MAX);
    let percent = u128::from(done) * 100 / u128::from(all.max(1));
    if room >= WIDTH_MIN {
        let full = (u128::from(done) * room as u128 / u128::from(all.max(1))) as usize;
        return format!("{what} [{}{}] {amount}", "#".repeat(full), "-".repeat(room - full));
    }
    let shorter = [format!("{what}: {amount}"), amount, format!("{percent} %")];
    shorter.into_iter().find(|line| line.len() <= width).unwrap_or_default()
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_fits_every_terminal_with_whole_numbers() {
        let all = 100 << 30;
        for width in 0..120 {
            for done in [0, 3 << 29, all - 1, all] {
                let line = bar("reserving memory", done, all, width);
                assert!(line.len() <= width, "{width}: {line}");
                assert!(
                    line.is_empty() || line.contains(" of 100 GiB") || line.ends_with(" %"),
                    "{width}: {line}"
                );
            }
        }
        assert_eq!(bar("reserving memory", all / 2, all, 19), "50 GiB of 100 GiB");
        assert!(bar("reserving memory", all / 2, all, 79).contains("[###"));
    }

    #[test]
    fn too_much_memory_is_refused_with_both_numbers() {
        let said = |mem: &str| {
            can_be_spared(&mem.parse().unwrap(), Some(4 << 30), |_| Some(2 << 30))
                .map_err(|error| error.to_string())
        };
        assert!(said("3G").is_ok() && said("1G@0,2G@1").is_ok());
        let error = said("100G").unwrap_err();
        assert!(error.contains("100 GiB wanted") && error.contains("spare 3.9 GiB"), "{error}");
        let error = said("1G@0,1500M@0").unwrap_err();
        assert!(error.contains("node 0") && error.contains("has 2 GiB"), "{error}");
    }

    #[test]
    fn memory_is_spread_over_the_nodes() {
        let mib = |mib: u64, node| Piece { bytes: mib << 20, node };
        let wanted = [mib(6, None), mib(4, Some(3))];
        assert_eq!(place(&wanted, &[]), wanted);
        assert_eq!(place(&wanted, &[0, 1]), [mib(4, Some(0)), mib(2, Some(1)), mib(4, Some(3))]);
        assert_eq!(place(&wanted, &[2]), [mib(6, Some(2)), mib(4, Some(3))]);
    }
}
