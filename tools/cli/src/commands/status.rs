//! `hanare status`.

use anyhow::Result;
use clap::Args;
use hanare_core::link::kinds::Boxes;
use hanare_sdk::{Arguments, Cpu, Device, Dispatch, Error, GrantedDevice, Instance, Mapped, Way};

use crate::commands::ls;
use crate::dispatch::Mode;
use hanare_common::output::{self, outln};
use hanare_common::size::Bytes;
use hanare_common::{instances, table};

/// Show the state of instances in detail.
#[derive(Args)]
#[command(after_help = "\
Examples:
  hanare status
  hanare status blue --ping
  hanare status --json blue | jq '.cpus[].interrupts'
  hanare status --json | jq '.[].name'     without a name it is a list")]
pub struct Status {
    /// Instance [default: all]
    #[arg(value_parser = instances::name)]
    name: Option<String>,
    /// Machine-readable
    #[arg(long)]
    json: bool,
    /// Ask every CPU for an answer first (up to 1 s each)
    #[arg(long)]
    ping: bool,
}

impl Status {
    /// Prints the status.
    pub fn execute(self) -> Result<()> {
        let device = Device::open()?;
        let found = instances::select(&device, self.name.as_deref())?;
        let mut looks = Vec::new();
        for Instance { name, .. } in found {
            match device.instance(&name, self.ping) {
                // It was shut down meanwhile, and was not asked for by name.
                Err(Error::NoInstance(_)) if self.name.is_none() => {}
                other => looks.push(other?),
            }
        }
        match &looks[..] {
            [only] if self.json && self.name.is_some() => {
                outln!("{}", serde_json::to_string_pretty(only)?)
            }
            all if self.json => outln!("{}", serde_json::to_string_pretty(all)?),
            all => all.iter().enumerate().try_for_each(|(index, instance)| {
                if index > 0 {
                    outln!()?;
                }
                print(instance)
            }),
        }
    }
}

fn print(instance: &Instance) -> Result<()> {
    let pieces = output::count(instance.memory_chunks.into(), "piece", "pieces");
    outln!("name      {}", instance.name)?;
    outln!("state     {}{}", instance.state, hint(instance))?;
    outln!("uptime    {}", table::duration(instance.uptime_ns))?;
    outln!("cpus      {}", ls::cpus(instance))?;
    outln!("memory    {} in {pieces}{}", Bytes(instance.memory_bytes), nodes(instance))?;
    outln!("programs  {}", instance.programs)?;
    print_arguments(&instance.arguments)?;
    outln!("dispatch  {}", dispatch(&instance.dispatch))?;
    print_packed(&instance.dispatch)?;
    for GrantedDevice { driver, function, is_there, uses } in &instance.devices {
        let state = if *is_there { "" } else { ", which Linux' driver has let go of" };
        outln!(
            "device    {function} by the driver {driver}, used {}{state}",
            output::count(*uses, "time", "times")
        )?;
    }
    outln!("log       {} written", Bytes(instance.log_bytes))?;
    if let Some(ns) = instance.ping_ns {
        outln!("ping      {} µs", ns.div_ceil(1000))?;
    }
    outln!()?;
    let header = [
        "CPU",
        "NODE",
        "STATE",
        "SPACE",
        "INTERRUPTS",
        "EXCEPTIONS",
        "PAGE-FAULTS",
        "LOCAL",
        "DELEGATED",
    ];
    table::print(&header, &instance.cpus.iter().map(row).collect::<Vec<_>>())
}

/// How arguments of calls reach Linux; what was copied and what was not, where anything was to be.
fn print_arguments(arguments: &Arguments) -> Result<()> {
    let &Arguments { are_copied, copied_calls, copied_in, copied_out, .. } = arguments;
    let usual = if are_copied { "copied" } else { "mapped" };
    if copied_calls == 0 && arguments.mapped.is_empty() {
        return Ok(outln!("arguments {usual}")?);
    }
    outln!(
        "arguments {usual}: {} copied, {} in, {} out",
        output::count(copied_calls, "call", "calls"),
        Bytes(copied_in),
        Bytes(copied_out)
    )?;
    for Mapped { why, count } in &arguments.mapped {
        outln!("          {} mapped: {why}", output::count(*count, "call", "calls"))?;
    }
    let names = arguments
        .mapped_calls
        .iter()
        .map(|call| format!("{} {}", hanare_core::syscalls::name(call.number as u64), call.count));
    let names = names.collect::<Vec<_>>().join(", ");
    if !names.is_empty() {
        outln!("          mapped by name: {names}")?;
    }
    Ok(())
}

/// How calls are dispatched, and what came of it where a program's calls went by a box.
fn dispatch(dispatch: &Dispatch) -> String {
    let Dispatch { way, servers, boxes, boxed_calls, unboxed_calls, servers_made, .. } = *dispatch;
    let mode = match way {
        Way::Direct => Mode::Direct,
        Way::Box => Mode::Box,
        Way::Auto => Mode::Auto,
    };
    let word = mode.word();
    if way == Way::Direct && servers_made == 0 {
        return word.into();
    }
    let most = output::count(servers.into(), "server", "servers");
    let kinds: Vec<_> = Boxes(boxes).kinds().map(|kind| kind.word()).collect();
    let of_what = match Boxes(boxes).are_several() {
        true => format!(", boxes for {}", kinds.join(", ")),
        false => String::new(),
    };
    format!(
        "{word} ({most} for each process{of_what}, {servers_made} started; {boxed_calls} calls by them, {unboxed_calls} taken back)"
    )
}

/// Calls of native tasks, where there were any.
fn print_packed(dispatch: &Dispatch) -> Result<()> {
    let &Dispatch { packed_calls, members_made, .. } = dispatch;
    if members_made != 0 {
        let calls = output::count(packed_calls, "call", "calls");
        let proxies = output::count(members_made, "pooled proxy", "pooled proxies");
        outln!("native    {calls} packed; {proxies} started")?;
    }
    Ok(())
}

/// Advice for an instance in a bad state; empty for a good one.
fn hint(instance: &Instance) -> String {
    use hanare_sdk::State::{Hung, Panicked};
    match instance.state {
        Panicked | Hung => {
            format!(" (next: hanare log {0}; hanare shutdown {0} --force)", instance.name)
        }
        _ => String::new(),
    }
}

/// Memory per node, where there is more than one.
fn nodes(instance: &Instance) -> String {
    if instance.node_bytes.len() < 2 {
        return String::new();
    }
    let each = instance.node_bytes.iter().enumerate();
    let each = each.map(|(node, &bytes)| format!("node {node}: {}", Bytes(bytes)));
    format!(" ({})", each.collect::<Vec<_>>().join(", "))
}

fn row(cpu: &Cpu) -> Vec<String> {
    let space = if cpu.space == 0 { "-".into() } else { cpu.space.to_string() };
    let mut row =
        vec![cpu.linux_cpu.to_string(), cpu.node.to_string(), cpu.state.to_string(), space];
    let counters =
        [cpu.interrupts, cpu.exceptions, cpu.page_faults, cpu.local_calls, cpu.delegated_calls];
    row.extend(counters.iter().map(u64::to_string));
    row
}
