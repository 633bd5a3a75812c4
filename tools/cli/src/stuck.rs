//! Processes on Linux of LWK programs, and what each waits for there. Linux alone is asked, since
//! this is about instances whose LWK does not answer.

use std::fs;
use std::path::{Path, PathBuf};

use hanare_common::machine;

/// A line for each process that is on an LWK (as far as we may look): its threads, what state Linux
/// shows them in, and where in Linux they wait.
pub fn programs() -> Vec<String> {
    let mut found: Vec<(u32, PathBuf)> =
        numbered(Path::new("/proc")).into_iter().filter(|(_, path)| is_proxy(path)).collect();
    found.sort_unstable();
    found.iter().map(|(pid, path)| line(*pid, path)).collect()
}

/// Whether a process is a proxy: `/proc/PID/exe` names the program, so the descriptor of the device
/// tells.
fn is_proxy(process: &Path) -> bool {
    let device = Path::new(hanare_sdk::DEVICE_PATH);
    let own = process.ends_with(std::process::id().to_string());
    let descriptors = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
    !own && descriptors
        .map(|fd| fs::read_link(fd.path()))
        .any(|target| target.is_ok_and(|target| target == device))
}

fn numbered(folder: &Path) -> Vec<(u32, PathBuf)> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path())))
        .collect()
}

fn line(pid: u32, process: &Path) -> String {
    let name = machine::read(process.join("comm")).unwrap_or_default();
    let mut threads = numbered(&process.join("task"));
    threads.sort_unstable();
    let threads: Vec<String> = threads.iter().map(|(tid, path)| thread(*tid, path)).collect();
    format!("process {pid} ({name}): {}", threads.join(", "))
}

fn thread(tid: u32, path: &Path) -> String {
    let status = machine::read(path.join("status")).unwrap_or_default();
    let state =
        status.lines().find_map(|line| line.strip_prefix("State:")).unwrap_or("gone").trim();
    // "0": it runs, or we may not know.
    let place = machine::read(path.join("wchan")).filter(|place| !place.is_empty() && place != "0");
    format!("thread {tid} {state}{}", place.map_or(String::new(), |place| format!(" in {place}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_and_its_threads_are_described() {
        let pid = std::process::id();
        let process = PathBuf::from(format!("/proc/{pid}"));
        let said = line(pid, &process);
        assert!(
            said.starts_with(&format!("process {pid} ("))
                && said.contains(&format!("thread {pid} ")),
            "{said}"
        );
        assert!(!is_proxy(&process));
        assert!(thread(0, Path::new("/nonexistent")).ends_with("gone"));
    }
}
