//! The machine under test: an instance, and the measured program on either side.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::io::{BufRead, BufReader, IsTerminal};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use hanare_sdk::{BootTimes, Device};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use signal_hook::consts::{SIGINT, SIGTERM};

use super::samples::{Samples, Side};
use super::{environment, run};
use hanare_common::cpu_list::CpuList;
use hanare_common::output;
use hanare_common::{find, instances, machine, processes};

/// Name of the instance that is booted for the purpose.
pub const OWN: &str = "bench";
/// Most CPUs of an instance (`HANARE_CPUS_MAX` of the module).
const CPUS_MAX: usize = 64;
/// Memory of an instance that is booted for the measurement.
const OWN_BYTES: u64 = 256 << 20;
/// No single run takes longer unless it hangs.
const DEADLINE: Duration = Duration::from_secs(180);
/// Tasks of posted calls in each measurement: of more, whole runs take hours.
pub const TASKS: u32 = 1024;
/// Nor those of posted calls, of which there are millions, so much more.
const POSTED_DEADLINE: Duration = Duration::from_secs(3600);

/// The machine under test.
pub struct Lab {
    /// Rounds wanted.
    pub rounds: u32,
    /// Small batches are wanted.
    pub quick: bool,
    /// How many tasks of posted calls are wanted of each kind, unless small batches are.
    pub tasks: u32,
    /// A block device, or a file on one.
    pub device: Option<PathBuf>,
    guest: PathBuf,
    file: PathBuf,
    /// The instance that was there before.
    given: Option<String>,
    /// Boot options of our own one, while it is there.
    own: Option<String>,
    /// Boot options of the instance that was used last; `None`: it is not ours.
    options: Option<String>,
    /// CPUs, memory and mitigations of the instance, once it was asked for them.
    side: Option<run::Side>,
    /// Ctrl-C was pressed.
    interrupted: Arc<AtomicBool>,
}

/// How long the steps of a boot took.
pub struct Phases {
    /// Reserving the memory.
    pub memory: Duration,
    /// Taking the CPUs from Linux.
    pub cpus: Duration,
    /// Loading the image, starting the first CPU, starting the others.
    pub times: BootTimes,
}

impl Lab {
    /// A lab on the instance of that name, the only one, or one booted when needed.
    pub fn new(on: Option<&str>, rounds: u32, quick: bool) -> Result<Self> {
        let device = Device::open()?;
        let given = match on {
            None if device.instances()?.is_empty() => None,
            on => Some(instances::resolve(&device, on)?),
        };
        if let Some(name) = &given {
            device.instance(name, false)?;
        }
        Self::of(given, rounds, quick)
    }

    /// Where Linux may be measured alone: the instance of that name, or the only one, or none.
    pub fn beside(on: Option<&str>) -> Result<Self> {
        let there = Device::open().ok().and_then(|device| device.instances().ok());
        if on.is_none() && there.is_none_or(|instances| instances.is_empty()) {
            return Self::of(None, 1, false);
        }
        Self::new(on, 1, false)
    }

    fn of(given: Option<String>, rounds: u32, quick: bool) -> Result<Self> {
        let guest = find::bench_guest()?;
        let interrupted = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            signal_hook::flag::register(signal, Arc::clone(&interrupted))?;
        }
        let file = PathBuf::from(format!("/dev/shm/hanare-bench-{}", std::process::id()));
        let options = if given.is_none() { Some(String::new()) } else { None };
        let (own, side, device, tasks) = (None, None, None, TASKS);
        Ok(Self {
            rounds,
            quick,
            tasks,
            device,
            guest,
            file,
            given,
            own,
            options,
            side,
            interrupted,
        })
    }

    /// Ctrl-C ends the measured program by itself; we give the CPUs back, then stop.
    pub fn check_interrupted(&self) -> Result<()> {
        if self.interrupted.load(Ordering::Relaxed) {
            bail!("interrupted");
        }
        Ok(())
    }

    /// The instance that was there before.
    pub fn given(&self) -> Option<&str> {
        self.given.as_deref()
    }

    /// Whether instances are ours to boot and to shut down.
    pub fn may_boot(&self) -> bool {
        self.given.is_none()
    }

    /// Sees to it that there is an instance; ours has these boot options.
    pub fn need_instance(&mut self, options: &str) -> Result<()> {
        if self.given.is_none() && self.own.as_deref() != Some(options) {
            self.shutdown()?;
            self.boot(options)?;
        }
        self.look();
        Ok(())
    }

    /// Boot options of the instance that was used last; `None`: it was booted by others.
    pub fn options(&self) -> Option<&str> {
        self.options.as_deref()
    }

    /// Looks once what the instance has of the machine, if there is one. What cannot be found out
    /// is left out.
    pub fn look(&mut self) {
        if self.side.is_none() && (self.given.is_some() || self.own.is_some()) {
            self.side = self.instance_side();
        }
    }

    /// CPUs, memory and mitigations of the last instance; `None`: there was none.
    pub fn side(&self) -> Option<&run::Side> {
        self.side.as_ref()
    }

    fn instance_side(&self) -> Option<run::Side> {
        let instance = Device::open().ok()?.instance(self.name(), false).ok()?;
        let cpus: CpuList = instance.cpus.iter().map(|cpu| cpu.linux_cpu).collect();
        Some(run::Side {
            cpu_count: cpus.numbers().len(),
            cpus: cpus.to_string(),
            memory_bytes: Some(instance.memory_bytes),
            boot_options: self.options.clone(),
            mitigations: self.mitigations().unwrap_or_default(),
            ..run::Side::default()
        })
    }

    /// As a program on the LWK reads them: one program, because each start takes its time.
    fn mitigations(&self) -> Option<BTreeMap<String, String>> {
        let names: Vec<String> = environment::mitigations().into_keys().collect();
        let paths = names.iter().map(|name| format!("{}/{name}", environment::VULNERABILITIES));
        let mut command = self.command(Side::Lwk, &[], "/bin/grep").ok()?;
        let command = command.args(["-H", ""]).args(paths).stdin(Stdio::null());
        let output = command.stderr(Stdio::null()).output().ok()?;
        Some(environment::mitigations_of(&String::from_utf8_lossy(&output.stdout)))
    }

    /// CPUs for our own instance: the upper half, if it may have so many; as many as are tuned, of
    /// the others, where some are.
    pub fn own_cpus() -> Result<Vec<u32>> {
        let online = machine::online_cpus();
        let quiet = quiet_cpus();
        let half = online.numbers().len() / 2;
        let count = if quiet.is_empty() { half } else { quiet.len() }.min(CPUS_MAX);
        let others = online.numbers().iter().rev().copied().filter(|cpu| !quiet.contains(cpu));
        let cpus: Vec<u32> = others.take(count).filter(|&cpu| cpu != 0).collect();
        if cpus.is_empty() {
            bail!("there is only one CPU: an LWK needs one of its own");
        }
        Ok(cpus.into_iter().rev().collect())
    }

    /// Bytes of memory that our own instance gets.
    pub fn own_bytes() -> u64 {
        OWN_BYTES
    }

    /// CPUs of Linux on which the measured program is kept there: tuned ones if there are some, and
    /// no more than the LWK has. `None`: Linux has no more.
    pub fn linux_cpus(&self) -> Option<CpuList> {
        let quiet = quiet_cpus();
        let lwk: CpuList = self.side.as_ref()?.cpus.parse().ok()?;
        let online = machine::online_cpus();
        let all = online.numbers().iter().copied().filter(|cpu| !lwk.numbers().contains(cpu));
        let all: Vec<u32> = if quiet.is_empty() { all.collect() } else { quiet.clone() };
        let count = lwk.numbers().len();
        let kept: CpuList = all.iter().rev().copied().take(count).collect();
        (!quiet.is_empty() || all.len() > count).then_some(kept)
    }

    /// The boot options by which Linux leaves some CPUs alone; `None`: there are none, or no such
    /// CPU is left.
    pub fn tuned(&self) -> Option<String> {
        if quiet_cpus().is_empty() {
            return None;
        }
        let line = machine::read("/proc/cmdline")?;
        let is_about_quiet = |word: &&str| QUIET_OPTIONS.iter().any(|name| word.starts_with(name));
        Some(line.split_whitespace().filter(is_about_quiet).collect::<Vec<_>>().join(" "))
    }

    /// Boots our own instance.
    pub fn boot(&mut self, options: &str) -> Result<Phases> {
        let image = fs::read(find::image()?)?;
        let cpus = Self::own_cpus()?;
        let mut builder = Device::open()?.create(OWN)?;
        let start = Instant::now();
        builder.add_memory(OWN_BYTES, None)?;
        let memory = start.elapsed();
        for cpu in cpus {
            builder.add_cpu(cpu)?;
        }
        let taken = start.elapsed() - memory;
        let times = builder.boot(&image, options, 20_000)?;
        self.own = Some(options.into());
        self.options.clone_from(&self.own);
        Ok(Phases { memory, cpus: taken, times })
    }

    /// Says that [`OWN`] was booted by other means.
    pub fn adopt(&mut self) {
        self.own = Some(String::new());
        self.options.clone_from(&self.own);
    }

    /// Shuts our own instance down, if it is there.
    pub fn shutdown(&mut self) -> Result<()> {
        if self.own.take().is_some() {
            Device::open()?.shutdown(OWN, true, 0)?;
        }
        Ok(())
    }

    /// Name of the instance.
    pub fn name(&self) -> &str {
        self.given.as_deref().unwrap_or(OWN)
    }

    /// A program to be run on either kernel; `options` are those of `hanare run`.
    pub fn command(&self, side: Side, options: &[&str], program: &str) -> Result<Command> {
        match side {
            Side::Linux => Ok(Command::new(program)),
            Side::Lwk => self.on_lwk("run", options, program),
        }
    }

    /// A program on the LWK, by `hanare HOW`.
    fn on_lwk(&self, how: &str, options: &[&str], program: &str) -> Result<Command> {
        let mut command = Command::new(env::current_exe().context("where is this command?")?);
        command.args([how, "--on", self.name()]).args(options).args(["--", program]);
        Ok(command)
    }

    /// Starts the measured program.
    pub fn guest(&self, side: Side, options: &[&str], args: &[&str]) -> Result<Guest> {
        self.start_guest(side, self.command(side, options, self.guest_path()?)?, args)
    }

    /// Starts the measured program as a native task.
    pub fn native_guest(&self, options: &[&str], args: &[&str]) -> Result<Guest> {
        let command = self.on_lwk("native", options, self.guest_path()?)?;
        self.start_guest(Side::Lwk, command, args)
    }

    /// Starts the measured program of posted calls.
    pub fn posted_guest(&self, side: Side, args: &[&str]) -> Result<Guest> {
        let path = find::bench_posted()?;
        let path = path.to_str().context("the path of the measured program is no text")?;
        let tasks = format!("tasks={}", self.tasks);
        let more = if self.quick { None } else { Some(tasks.as_str()) };
        let args: Vec<&str> = args.iter().copied().chain(more).collect();
        let mut guest = self.start_guest(side, self.command(side, &[], path)?, &args)?;
        guest.allow(POSTED_DEADLINE);
        Ok(guest)
    }

    fn guest_path(&self) -> Result<&str> {
        self.guest.to_str().context("the path of the measured program is no text")
    }

    fn start_guest(&self, side: Side, mut command: Command, args: &[&str]) -> Result<Guest> {
        // The last one counts.
        command.arg(args[0]).arg(format!("file={}", self.file.display())).args(&args[1..]);
        if self.quick {
            command.arg("quick");
        }
        self.placed(side, || Guest::start(command))
    }

    /// Starts a program of others, as [`command`](Self::command) has made it.
    pub fn spawn(&self, side: Side, mut command: Command) -> Result<Child> {
        let program = command.get_program().to_owned();
        self.placed(side, || {
            command.spawn().with_context(|| format!("cannot run {}", program.display()))
        })
    }

    /// Runs `start` on the CPUs of Linux that its side of a measurement has.
    fn placed<T>(&self, side: Side, start: impl FnOnce() -> Result<T>) -> Result<T> {
        match self.linux_cpus().filter(|_| side == Side::Linux) {
            Some(cpus) => kept_on(&cpus, start),
            None => start(),
        }
    }

    /// Runs a group of the measured program on both kernels in turn.
    pub fn pairs(&self, args: &[&str]) -> Result<Samples> {
        let mut samples = Samples::default();
        for round in 1..=self.rounds {
            for side in [Side::Linux, Side::Lwk] {
                self.progress(&format!("{}: round {round} of {}", args.join(" "), self.rounds));
                self.check_interrupted()?;
                for (id, value) in self.guest(side, &[], args)?.samples()? {
                    samples.add(side, &id, value);
                }
            }
        }
        Ok(samples)
    }

    /// Says how far the measurement is.
    pub fn progress(&self, text: &str) {
        progress(text);
    }

    /// Puts the machine back as it was.
    pub fn close(&mut self) -> Result<()> {
        self.progress("");
        self.shutdown()
    }
}

/// Boot options of Linux for CPUs that it leaves alone.
const QUIET_OPTIONS: [&str; 3] = ["isolcpus=", "nohz_full=", "rcu_nocbs="];

/// CPUs that Linux was told to leave alone, as far as it has them.
fn quiet_cpus() -> Vec<u32> {
    let told = ["isolated", "nohz_full"].map(machine::listed_cpus);
    let is_quiet = |cpu: &u32| told.iter().any(|list| list.numbers().contains(cpu));
    machine::online_cpus().numbers().iter().copied().filter(is_quiet).collect()
}

/// Runs `start` with the calling thread kept on some CPUs, which its children inherit.
fn kept_on<T>(cpus: &CpuList, start: impl FnOnce() -> Result<T>) -> Result<T> {
    let before = sched_getaffinity(None)?;
    let mut there = CpuSet::new();
    cpus.numbers().iter().for_each(|&cpu| there.set(cpu as usize));
    sched_setaffinity(None, &there).with_context(|| format!("cannot run on CPUs {cpus}"))?;
    let started = start();
    sched_setaffinity(None, &before)?;
    started
}

/// One line on a terminal, written over by the next.
pub fn progress(text: &str) {
    if std::io::stderr().is_terminal() {
        let width = output::columns(std::io::stderr()).unwrap_or(80);
        output::complain(format_args!("\r\x1b[K{}", output::cut(text, width - 1)));
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.file);
        let _ = self.close();
    }
}

/// The threads that run on instances, with what they wait for Linux to do.
fn what_runs() -> String {
    let found = Device::open().map_err(Into::into).and_then(|device| {
        let instances = instances::select(&device, None)?;
        processes::of(&device, &instances)
    });
    match found {
        Ok(all) => {
            let threads = all.iter().flat_map(|placed| &placed.process.threads).map(|thread| {
                let state = processes::state(thread.running);
                format!("{} {state} {}", thread.tid, processes::asked(thread.asks))
            });
            threads.collect::<Vec<_>>().join(", ")
        }
        Err(error) => error.to_string(),
    }
}

/// A running measured program.
pub struct Guest {
    child: Child,
    lines: Receiver<String>,
    deadline: Instant,
    /// The program's command line, and the last line that it printed: for the error message of a
    /// program that does not end.
    command: String,
    last: String,
}

impl Guest {
    /// Starts the program, with its output read line by line.
    fn start(mut command: Command) -> Result<Self> {
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child =
            command.spawn().with_context(|| format!("cannot run {:?}", command.get_program()))?;
        let output = child.stdout.take().context("no output")?;
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        let deadline = Instant::now() + DEADLINE;
        Ok(Self { child, lines, deadline, command: format!("{command:?}"), last: String::new() })
    }

    /// The next sample; `None`: there are no more.
    pub fn next(&mut self) -> Result<Option<(String, f64)>> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        let line = match self.lines.recv_timeout(left) {
            Ok(line) => line,
            Err(RecvTimeoutError::Disconnected) => return Ok(None),
            Err(RecvTimeoutError::Timeout) => {
                bail!(
                    "the measured program did not end within {} s: {}; the last that it said: '{}'; on LWKs: {}",
                    DEADLINE.as_secs(),
                    self.command,
                    self.last,
                    what_runs()
                )
            }
        };
        self.last.clone_from(&line);
        let sample =
            line.split_once(' ').and_then(|(id, value)| Some((id.to_owned(), value.parse().ok()?)));
        sample.with_context(|| format!("the measured program printed '{line}'")).map(Some)
    }

    /// Allows the program so much longer than any usual run.
    pub fn allow(&mut self, time: Duration) {
        self.deadline += time;
    }

    /// The samples before the one called `id`, and its value.
    pub fn samples_before(&mut self, id: &str) -> Result<(Vec<(String, f64)>, f64)> {
        let mut samples = Vec::new();
        while let Some(sample) = self.next()? {
            if sample.0 == id {
                return Ok((samples, sample.1));
            }
            samples.push(sample);
        }
        bail!("the measured program ended before it said '{id}'")
    }

    /// All samples until the program's end.
    pub fn samples(mut self) -> Result<Vec<(String, f64)>> {
        let mut samples = Vec::new();
        while let Some(sample) = self.next()? {
            samples.push(sample);
        }
        let status = self.child.wait()?;
        if !status.success() {
            bail!("the measured program failed: {status}");
        }
        Ok(samples)
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}
