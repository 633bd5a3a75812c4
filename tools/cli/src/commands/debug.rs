//! `hanare debug`: for tests of Hanare itself.

use anyhow::Result;
use clap::{Args, Subcommand};
use hanare_sdk::{Debug as Request, Device, Ledger};
use serde_json::json;

use hanare_common::output::outln;
use hanare_common::size::Bytes;
use hanare_common::{instances, output};

/// For tests of Hanare itself.
#[derive(Args)]
pub struct Debug {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Make the LWK panic
    Panic(Target),
    /// Make a CPU of the LWK stop answering
    Hang {
        /// For so many milliseconds [default: for ever]
        #[arg(long = "for", value_name = "MS", default_value_t = 0, hide_default_value = true)]
        ms: u64,
        #[command(flatten)]
        target: Target,
    },
    /// Show the LWK's free memory, and what its kernel keeps for itself
    Memory(Target),
    /// Show the user of each frame of the LWK's memory; status 1 if that does not fit
    Ledger {
        /// Machine-readable
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        target: Target,
    },
    /// Make an allocation of the LWK fail; says how many there were since the last time
    FailAlloc {
        /// Which one, counted from now on; 0: none, only count [default: no longer]
        #[arg(long, value_name = "N")]
        first: Option<u64>,
        /// Each further one after so many [default: none]
        #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
        step: u64,
        #[command(flatten)]
        target: Target,
    },
    /// Make the LWK use up the kernel stack that answers, of a program if one runs there
    Overflow(Target),
}

#[derive(Args)]
struct Target {
    /// Instance [default: the only one, or the one called 'default']
    #[arg(value_parser = instances::name)]
    name: Option<String>,
    /// Index of the CPU in the instance
    #[arg(long, value_name = "N", default_value_t = 0)]
    cpu: u32,
}

impl Debug {
    /// Sends the request.
    pub fn execute(self) -> Result<()> {
        let (request, target) = match self.what {
            What::Panic(target) => (Request::Panic, target),
            What::Hang { ms, target } => (Request::Hang { ms }, target),
            What::Memory(target) => (Request::Memory, target),
            What::Ledger { json, target } => return show_ledger(&target, json),
            What::FailAlloc { first, step, target } => {
                (Request::FailAlloc { first: first.unwrap_or(u64::MAX), step }, target)
            }
            What::Overflow(target) => (Request::Overflow, target),
        };
        let device = Device::open()?;
        let name = instances::resolve(&device, target.name.as_deref())?;
        let report = match device.debug(&name, target.cpu, request) {
            // The LWK cannot answer any more, as was asked for.
            Err(error)
                if matches!(request, Request::Panic | Request::Overflow | Request::Hang { .. })
                    && died(&error) =>
            {
                return Ok(());
            }
            other => other?,
        };
        if request == Request::Memory {
            outln!(
                "free {} of {} ({} bytes), quarantined {}, {}",
                Bytes(report.free_bytes),
                Bytes(report.total_bytes),
                report.free_bytes,
                Bytes(report.quarantined_bytes),
                output::count(report.processes, "process", "processes"),
            )?;
            outln!(
                "kernel: heap {}, in use {} bytes in {}, large blocks {}, reserve {} bytes; {}, {}, {} and {} \
                 to come, {}, {}",
                Bytes(report.heap_bytes),
                report.used_bytes,
                output::count(report.blocks, "block", "blocks"),
                Bytes(report.large_bytes),
                report.reserve_bytes,
                output::count(report.spaces, "space", "spaces"),
                output::count(report.threads, "thread", "threads"),
                output::count(report.children, "child", "children"),
                output::count(report.programs, "program", "programs"),
                output::count(report.traces, "trace", "traces"),
                output::count(report.debuggers, "debugger", "debuggers"),
            )?;
        }
        if matches!(request, Request::FailAlloc { .. }) {
            outln!("{}", output::count(report.free_bytes, "allocation", "allocations"))?;
        }
        Ok(())
    }
}

/// `hanare debug ledger`.
fn show_ledger(target: &Target, json: bool) -> Result<()> {
    let device = Device::open()?;
    let name = instances::resolve(&device, target.name.as_deref())?;
    let ledger = device.ledger(&name, target.cpu)?;
    if json {
        return outln!("{}", as_json(&ledger));
    }
    let row = |who: &str, what: &str, frames: u64| outln!("{who:12} {what:12} {frames:10}");
    outln!("{:12} {:12} {:>10}", "WHO", "WHAT", "FRAMES")?;
    row("", "all", ledger.total)?;
    row("", "free", ledger.free)?;
    row("kernel", "image", ledger.image)?;
    row("kernel", "lists", ledger.lists)?;
    ledger.kernel.iter().try_for_each(|(what, frames)| row("kernel", what, *frames))?;
    for user in &ledger.users {
        let who = format!("user {}", user.uid);
        user.frames.iter().try_for_each(|(what, frames)| row(&who, what, *frames))?;
        outln!(
            "{who:12} is charged {} of kernel memory and {} of memory, and has {}",
            Bytes(user.kernel_bytes),
            Bytes(user.memory_bytes),
            output::count(user.processes, "process", "processes"),
        )?;
    }
    if ledger.faults.is_empty() {
        return Ok(());
    }
    anyhow::bail!("the ledger does not fit: {}", ledger.faults.join("; "))
}

fn as_json(ledger: &Ledger) -> serde_json::Value {
    let frames = |all: &[(&str, u64)]| -> serde_json::Value {
        all.iter().map(|(what, frames)| ((*what).to_owned(), json!(frames))).collect()
    };
    let users = ledger.users.iter().map(|user| {
        json!({
            "uid": user.uid,
            "kernel_bytes": user.kernel_bytes,
            "memory_bytes": user.memory_bytes,
            "processes": user.processes,
            "frames": frames(&user.frames),
        })
    });
    json!({
        "total": ledger.total,
        "free": ledger.free,
        "image": ledger.image,
        "lists": ledger.lists,
        "kernel": frames(&ledger.kernel),
        "all_users": frames(&ledger.users_frames),
        "users": users.collect::<Vec<_>>(),
        "faults": ledger.faults,
    })
}

/// Whether the LWK went away instead of answering.
fn died(error: &hanare_sdk::Error) -> bool {
    const EIO: i32 = 5;
    const ETIMEDOUT: i32 = 110;
    error.errno().is_some_and(|errno| [EIO, ETIMEDOUT].contains(&errno.raw_os_error()))
}
