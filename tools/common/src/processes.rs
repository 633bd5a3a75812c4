//! The processes on instances, and how commands show them.

use anyhow::Result;
use hanare_core::syscalls;
use hanare_sdk::{Asked, Device, Error, Instance, Process, Stage};
use serde::Serialize;

/// A process and where it runs.
#[derive(Serialize)]
pub struct Placed {
    /// Instance.
    pub instance: String,
    /// The process.
    #[serde(flatten)]
    pub process: Process,
}

/// The processes of all these instances. One that is shut down meanwhile has none.
pub fn of(device: &Device, instances: &[Instance]) -> Result<Vec<Placed>> {
    let mut all = Vec::new();
    for Instance { name, .. } in instances {
        match device.processes(name) {
            Err(Error::NoInstance(_)) if instances.len() > 1 => {}
            found => all.extend(
                found?.into_iter().map(|process| Placed { instance: name.clone(), process }),
            ),
        }
    }
    Ok(all)
}

/// A number that may not be known.
pub fn number(number: Option<u32>) -> String {
    number.map_or("?".into(), |number| number.to_string())
}

/// `R`: runs or could; `S`: waits.
pub fn state(running: bool) -> &'static str {
    if running { "R" } else { "S" }
}

/// A running time: `1.25 s`, `3:05 min`.
pub fn time(ns: u64) -> String {
    let s = ns / 1_000_000_000;
    if s < 60 {
        format!("{s}.{:02} s", ns / 10_000_000 % 100)
    } else {
        format!("{}:{:02} min", s / 60, s % 60)
    }
}

/// The call that a thread waits for: `read`, `request 4`; with the stage where it is none that
/// lasts.
pub fn asked(asked: Option<Asked>) -> String {
    let Some(Asked { number, is_request, stage }) = asked else {
        return "-".into();
    };
    let name = match is_request {
        true => format!("request {number}"),
        false => syscalls::name(u64::from(number)).into(),
    };
    let stage = match stage {
        Stage::Executed => "",
        Stage::Boxed => " (box)",
        Stage::Asked => " (worker asleep)",
        Stage::Answered => " (answered)",
        Stage::AnsweredAsleep => " (answered, asleep)",
    };
    name + stage
}

/// The CPUs of the process' threads, each once.
pub fn cpus(process: &Process) -> String {
    let mut cpus: Vec<u32> = process.threads.iter().filter_map(|thread| thread.cpu).collect();
    cpus.sort_unstable();
    cpus.dedup();
    let cpus: Vec<String> = cpus.iter().map(u32::to_string).collect();
    if cpus.is_empty() { "?".into() } else { cpus.join(",") }
}

/// The command line, or the name where Linux shows none.
pub fn command(process: &Process) -> String {
    if process.command.is_empty() { format!("[{}]", process.name) } else { process.command.clone() }
}

#[cfg(test)]
mod tests {
    use super::time;

    #[test]
    fn a_time_is_shown_in_seconds_or_minutes() {
        assert_eq!(time(0), "0.00 s");
        assert_eq!(time(1_259_999_999), "1.25 s");
        assert_eq!(time(185_000_000_000), "3:05 min");
    }
}
