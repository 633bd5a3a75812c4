//! `hanare boot`: takes CPUs and memory, starts an LWK.

use std::fs;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use hanare_abi::LARGE_PAGE_SIZE;
use hanare_core::options;
use hanare_sdk::{Builder, Device, Error};

use crate::cpu_list::CpuList;
use crate::size::{Bytes, Memory, Piece};
use crate::{find, machine};

/// Take CPUs and memory from Linux and boot an LWK on them. All or nothing: if
/// anything fails, or Ctrl-C is pressed, Linux has everything back.
#[derive(Args)]
#[command(after_help = "\
Examples:
  hanare boot --cpus 2-3 --mem 512M             one instance, called 'default'
  hanare boot blue --cpus 4,6 --mem 2G@1        another one, with memory of NUMA node 1
  hanare boot --cpus 8-15 --mem 8G@0,8G@1       memory of two nodes

CPU 0 stays with Linux, as does at least one CPU. Memory is reserved in pieces of 2M and should
be taken soon after Linux has booted, while it is not fragmented.")]
pub struct Boot {
    /// Name of the instance
    #[arg(default_value = "default")]
    name: String,
    /// CPUs to take, by Linux' numbers, e.g. 2,4-6
    #[arg(long, value_name = "LIST")]
    cpus: CpuList,
    /// Memory to take, e.g. 512M, 2G@1 (from NUMA node 1) or 1G@0,1G@1
    #[arg(long, value_name = "SIZE[@NODE],...")]
    mem: Memory,
    /// LWK image [default: $HANARE_IMAGE, or the installed one]
    #[arg(long, value_name = "FILE")]
    image: Option<PathBuf>,
    // Its help is the list of options.
    #[arg(long = "option", value_name = "KEY=VALUE", help = format!("Option for the LWK (repeatable): {}", options::HELP))]
    options: Vec<String>,
    /// Seconds each CPU may take to start
    #[arg(long, value_name = "S", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=600))]
    timeout: u32,
}

/// Memory is reserved in calls of this size, for the sake of the progress bar.
const STEP_BYTES: u64 = 64 << 20;

impl Boot {
    /// Boots.
    pub fn execute(self) -> Result<()> {
        let options = self.options.join(" ");
        // The LWK would refuse them, too, but only after CPUs and memory were taken.
        options::Options::parse(&options).map_err(|refused| anyhow!("--option {refused}"))?;
        let path = self.image.clone().map_or_else(find::image, Ok)?;
        let image =
            fs::read(&path).with_context(|| format!("cannot read the image {}", path.display()))?;
        let mut builder = device()?.create(&self.name)?;
        for &cpu in self.cpus.numbers() {
            builder.check_cpu(cpu)?;
        }

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
        let cpus = if self.cpus.numbers().len() == 1 {
            "CPU"
        } else {
            "CPUs"
        };
        println!(
            "booted '{}' on {cpus} {} with {}: memory {:.2} s, CPUs {:.2} s, load {:.3} s, start {:.3} s + {:.3} s",
            self.name,
            self.cpus,
            Bytes(self.mem.bytes()),
            reserved.as_secs_f64(),
            taken.as_secs_f64(),
            s(times.load_ns),
            s(times.first_cpu_ns),
            s(times.other_cpus_ns),
        );
        Ok(())
    }
}

/// A refused image is named.
fn explain(error: Error, image: &Path) -> anyhow::Error {
    let foreign = error.errno().is_some_and(|errno| errno.raw_os_error() == 8);
    let error = anyhow::Error::from(error);
    if foreign {
        error.context(format!("image {}", image.display()))
    } else {
        error
    }
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
    let mut nodes: Vec<u32> = cpus
        .numbers()
        .iter()
        .filter_map(|&cpu| machine::node_of(cpu))
        .collect();
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
            placed.push(Piece {
                bytes,
                node: Some(node),
            });
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
        format!(
            "cannot load the module: no {:?} ({next})",
            command.get_program()
        )
    })?;
    if output.status.success() || machine::module_loaded() {
        return Ok(());
    }
    bail!(
        "cannot load the module: {} ({next})",
        String::from_utf8_lossy(&output.stderr).trim()
    )
}

/// One line on a terminal's stderr that is written over; nothing elsewhere.
struct Progress {
    shown: bool,
    terminal: bool,
}

impl Progress {
    fn new() -> Self {
        Self {
            shown: false,
            terminal: std::io::stderr().is_terminal(),
        }
    }

    fn show(&mut self, text: &str) {
        if self.terminal {
            eprint!("\r\x1b[K{text}");
            let _ = std::io::stderr().flush();
            self.shown = true;
        }
    }

    fn bar(&mut self, what: &str, done: u64, all: u64) {
        const WIDTH: u64 = 30;
        let full = (done * WIDTH / all) as usize;
        let bar = "#".repeat(full) + &"-".repeat(WIDTH as usize - full);
        self.show(&format!("{what} [{bar}] {} of {}", Bytes(done), Bytes(all)));
    }

    fn clear(&mut self) {
        if std::mem::take(&mut self.shown) {
            eprint!("\r\x1b[K");
        }
    }
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
    fn memory_is_spread_over_the_nodes() {
        let mib = |mib: u64, node| Piece {
            bytes: mib << 20,
            node,
        };
        let wanted = [mib(6, None), mib(4, Some(3))];
        assert_eq!(place(&wanted, &[]), wanted);
        assert_eq!(
            place(&wanted, &[0, 1]),
            [mib(4, Some(0)), mib(2, Some(1)), mib(4, Some(3))]
        );
        assert_eq!(place(&wanted, &[2]), [mib(6, Some(2)), mib(4, Some(3))]);
    }
}
