//! Servers on either kernel under the same load from Linux. The requests of one of ours are
//! executed by trap, posted call by call, or as one posted function each (the paper's figure 3).
//! Unmodified servers send their replies by trap or posted.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::figure::{Figure, Group, Needs, Tool};
use crate::lab::Lab;
use crate::samples::{Samples, Side};
use hanare_common::find;

/// Connections of the web server; its figures have the same.
const CONNECTIONS: [u32; 4] = [1, 4, 16, 64];
/// Connections of the unmodified servers.
const USUAL: u32 = 16;
/// Bytes of the page, and of a value.
const PAGE: usize = 1024;
const VALUE: usize = 100;
/// How often a load is tried that gets no answer.
const TRIES: u32 = 10;
/// How long a server may take to listen, or to end.
const PATIENCE: Duration = Duration::from_secs(60);

const WRK: Tool = Tool { program: "wrk", package: "wrk" };

/// Figures of one server and each number of connections.
macro_rules! web {
    ($($way:literal, $means:literal: $($number:literal)*);*) => {
        &[
            $($(
                Figure::higher(
                    concat!("servers.web.", $way, ".", $number),
                    "requests/s",
                    concat!("web server, connections: ", $number, ", each request ", $means),
                ),
            )*)*
        ]
    };
}

/// The web server of the examples under wrk.
pub const WEB: Group = Group {
    name: "servers-web",
    needs: Needs::Tools(&[WRK]),
    figures: web!(
        "trap", "by traps": 1 4 16 64;
        "posted", "posted call by call": 1 4 16 64;
        "function", "as one posted function": 1 4 16 64
    ),
    measure: web,
};

/// Figures of one server as it is: by traps, and with replies posted, which are compared with the
/// same server on Linux.
macro_rules! unmodified {
    ($($id:literal, $what:literal);*) => {
        &[
            $(
                Figure::higher(concat!("servers.", $id, ".trap"), "requests/s", concat!($what, ", unmodified, 16 connections")),
                Figure::higher(
                    concat!("servers.", $id, ".posted"),
                    "requests/s",
                    concat!($what, ", the same, replies posted (--async=socket), over Linux without"),
                ),
            )*
        ]
    };
}

/// nginx under wrk.
pub const NGINX: Group = Group {
    name: "servers-nginx",
    needs: Needs::Tools(&[WRK, Tool { program: "nginx", package: "nginx-light" }]),
    figures: unmodified!("nginx", "nginx, 1 KiB"),
    measure: |lab, group| unmodified(lab, group, nginx),
};

/// Redis under redis-benchmark.
pub const REDIS: Group = Group {
    name: "servers-redis",
    needs: Needs::Tools(&[
        Tool { program: "redis-server", package: "redis-server" },
        Tool { program: "redis-benchmark", package: "redis-tools" },
    ]),
    figures: unmodified!("redis-get", "Redis, GET"; "redis-set", "Redis, SET"),
    measure: |lab, group| unmodified(lab, group, redis),
};

/// memcached under a client of ours, which compares every answer.
pub const MEMCACHED: Group = Group {
    name: "servers-memcached",
    needs: Needs::Tools(&[Tool { program: "memcached", package: "memcached" }]),
    figures: unmodified!("memcached-get", "memcached, get of 100 bytes"),
    measure: |lab, group| unmodified(lab, group, memcached),
};

/// Load on a server: the kernel, options and folder of its command, and the port where it listens.
struct Load<'a> {
    lab: &'a Lab,
    side: Side,
    /// Options of `hanare run`.
    options: &'a [&'a str],
    folder: &'a Path,
    port: u16,
}

impl Load<'_> {
    /// Starts the server and waits until it listens.
    fn serve(&self, program: &str, args: &[&str]) -> Result<Server> {
        let mut command = self.lab.command(self.side, self.options, program)?;
        command.args(args).stdin(Stdio::null()).stdout(Stdio::null());
        let mut server = Server { child: self.lab.spawn(self.side, command)? };
        let deadline = Instant::now() + PATIENCE;
        while TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).is_err() {
            server.check(program)?;
            if Instant::now() > deadline {
                bail!(
                    "{program} does not listen at port {} after {} s",
                    self.port,
                    PATIENCE.as_secs()
                );
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        server.check(program)?; // another program may listen there
        Ok(server)
    }

    fn seconds(&self) -> u64 {
        if self.lab.quick { 1 } else { 5 }
    }

    /// Requests per second by wrk. A machine that stood still all the time has answered none, which
    /// says nothing of the server.
    fn under_wrk(&self, connections: u32) -> Result<f64> {
        let (connections, seconds) = (connections.to_string(), format!("{}s", self.seconds()));
        let url = format!("http://127.0.0.1:{}/index.html", self.port);
        let args = ["-t", "1", "-c", &connections, "-d", &seconds, "--timeout", "60s", &url];
        for _ in 0..TRIES {
            match rate_of_wrk(&output_of(Command::new("wrk").args(args))?)? {
                0.0 => {}
                rate => return Ok(rate),
            }
        }
        bail!("the server answers no request");
    }
}

/// A server, which ends with this.
struct Server {
    child: Child,
}

impl Server {
    /// The server, of this name, has not ended.
    fn check(&mut self, program: &str) -> Result<()> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => {
                bail!("{program} ended before it listened: {status} (what it said is above)")
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if !matches!(self.child.try_wait(), Ok(None)) {
            return; // its id may be another process' by now
        }
        let _ = kill(Pid::from_raw(self.child.id() as i32), Signal::SIGTERM);
        let deadline = Instant::now() + PATIENCE;
        while matches!(self.child.try_wait(), Ok(None)) {
            if Instant::now() > deadline {
                let _ = self.child.kill();
                let _ = self.child.wait();
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// A folder in memory with the page that is served, which goes with this.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Self> {
        let path = PathBuf::from(format!("/dev/shm/hanare-bench-{}.d", std::process::id()));
        fs::create_dir(&path).with_context(|| format!("cannot make {}", path.display()))?;
        let folder = Self(path);
        fs::write(folder.0.join("index.html"), [b'x'; PAGE])?;
        Ok(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A port at which no server listens.
fn free_port() -> Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

fn web(lab: &mut Lab, group: &Group) -> Result<Samples> {
    lab.need_instance("")?;
    let program = find::bench_web()?;
    let program = program.to_str().context("the path of the web server is no text")?;
    let folder = Folder::new()?;
    let mut samples = Samples::default();
    for round in 1..=lab.rounds {
        for connections in CONNECTIONS {
            for way in ["trap", "posted", "function"] {
                for side in [Side::Linux, Side::Lwk] {
                    lab.progress(&format!(
                        "{}: {way}, {connections} connections, round {round} of {}",
                        group.name, lab.rounds
                    ));
                    lab.check_interrupted()?;
                    let load =
                        Load { lab, side, options: &[], folder: &folder.0, port: free_port()? };
                    let files = folder.0.to_str().context("no text")?;
                    let _server = load.serve(program, &[way, &load.port.to_string(), files])?;
                    let rate = load.under_wrk(connections)?;
                    samples.add(side, &format!("servers.web.{way}.{connections}"), rate);
                }
            }
        }
    }
    Ok(samples)
}

/// The requests per second of a server, by the names of its figures.
type Rates = Vec<(&'static str, f64)>;

/// A server as it is on Linux and on the LWK, and there with its replies posted.
fn unmodified(
    lab: &mut Lab,
    group: &Group,
    measure: fn(&Load) -> Result<Rates>,
) -> Result<Samples> {
    const WAYS: [(Side, &[&str], &[&str]); 3] = [
        (Side::Linux, &[], &["trap", "posted"]),
        (Side::Lwk, &[], &["trap"]),
        (Side::Lwk, &["--async=socket"], &["posted"]),
    ];
    lab.need_instance("")?;
    let folder = Folder::new()?;
    let mut samples = Samples::default();
    for round in 1..=lab.rounds {
        for (side, options, ways) in WAYS {
            lab.progress(&format!("{}: round {round} of {}", group.name, lab.rounds));
            lab.check_interrupted()?;
            let load = Load { lab, side, options, folder: &folder.0, port: free_port()? };
            for (name, rate) in measure(&load)? {
                for way in ways {
                    samples.add(side, &format!("servers.{name}.{way}"), rate);
                }
            }
        }
    }
    Ok(samples)
}

fn nginx(load: &Load) -> Result<Rates> {
    let (folder, port) = (load.folder.display(), load.port);
    let configuration = format!(
        "daemon off; user root; worker_processes 1; error_log stderr crit; pid {folder}/nginx.pid;\n\
         events {{ worker_connections 256; }}\n\
         http {{ access_log off; server {{ listen 127.0.0.1:{port}; root {folder}; }} }}\n"
    );
    let file = load.folder.join("nginx.conf");
    fs::write(&file, configuration)?;
    let _server = load.serve("nginx", &["-c", file.to_str().context("no text")?])?;
    Ok(vec![("nginx", load.under_wrk(USUAL)?)])
}

/// A thread of jemalloc's would keep replies from being posted (docs/async.md).
fn redis(load: &Load) -> Result<Rates> {
    let (port, count) = (load.port.to_string(), if load.lab.quick { "2000" } else { "20000" });
    let options =
        ["--save", "", "--appendonly", "no", "--bind", "127.0.0.1", "--jemalloc-bg-thread", "no"];
    let folder = load.folder.to_str().context("no text")?;
    // Everybody on this machine can connect: to do no more than is measured.
    let rights = [
        "--user",
        "default",
        "on",
        "nopass",
        "~*",
        "-@all",
        "+get",
        "+set",
        "+ping",
        "+config|get",
    ];
    let place = ["--port", port.as_str(), "--dir", folder];
    let _server = load.serve("redis-server", &[&place[..], &options, &rights].concat())?;
    let mut command = Command::new("redis-benchmark");
    command.args(["-p", &port, "-n", count, "-c", &USUAL.to_string(), "-t", "get,set", "--csv"]);
    let said = output_of(&mut command)?;
    Ok(vec![
        ("redis-get", rate_of_redis(&said, "GET")?),
        ("redis-set", rate_of_redis(&said, "SET")?),
    ])
}

fn memcached(load: &Load) -> Result<Rates> {
    let port = load.port.to_string();
    let options = ["-u", "nobody", "-p", &port, "-l", "127.0.0.1", "-t", "1"];
    let _server = load.serve("memcached", &options)?;
    let value = "x".repeat(VALUE);
    let mut clients = Vec::new();
    for key in 0..USUAL {
        let mut client = TcpStream::connect((Ipv4Addr::LOCALHOST, load.port))?;
        client.set_nodelay(true)?;
        client.set_read_timeout(Some(PATIENCE))?;
        client.write_all(format!("set {key} 0 0 {VALUE}\r\n{value}\r\n").as_bytes())?;
        expect(&mut client, b"STORED\r\n")?;
        clients.push((
            client,
            format!("get {key}\r\n"),
            format!("VALUE {key} 0 {VALUE}\r\n{value}\r\nEND\r\n"),
        ));
    }
    let (begin, mut answers) = (Instant::now(), 0);
    while begin.elapsed() < Duration::from_secs(load.seconds()) {
        for (client, request, _) in &mut clients {
            client.write_all(request.as_bytes())?;
        }
        for (client, _, answer) in &mut clients {
            expect(client, answer.as_bytes())?;
            answers += 1;
        }
    }
    Ok(vec![("memcached-get", f64::from(answers) / begin.elapsed().as_secs_f64())])
}

/// The next bytes have to be these.
fn expect(client: &mut TcpStream, answer: &[u8]) -> Result<()> {
    let mut got = vec![0; answer.len()];
    client.read_exact(&mut got)?;
    if got != answer {
        bail!("memcached answered '{}'", String::from_utf8_lossy(&got).escape_debug());
    }
    Ok(())
}

/// Output of a Linux program that puts load on the server.
fn output_of(command: &mut Command) -> Result<String> {
    let output =
        command.stdin(Stdio::null()).output().with_context(|| format!("cannot run {command:?}"))?;
    if !output.status.success() {
        bail!(
            "{command:?} failed: {}: {}",
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Requests per second as wrk says them, if all were answered well.
fn rate_of_wrk(said: &str) -> Result<f64> {
    let errors = ["Socket errors", "Non-2xx"];
    if let Some(line) =
        said.lines().map(str::trim).find(|line| errors.iter().any(|word| line.starts_with(word)))
    {
        bail!("wrk was answered badly: {line}");
    }
    let rate = said.lines().find_map(|line| line.trim().strip_prefix("Requests/sec:"));
    rate.and_then(|rate| rate.trim().parse().ok())
        .with_context(|| format!("wrk said no rate: '{said}'"))
}

/// Requests per second as redis-benchmark's table has them.
fn rate_of_redis(said: &str, operation: &str) -> Result<f64> {
    let mut rows = said
        .lines()
        .map(|line| line.split(',').map(|cell| cell.trim_matches('"')).collect::<Vec<_>>());
    let row = rows.find(|row| row.len() > 1 && row[0] == operation);
    row.and_then(|row| row[1].parse().ok())
        .with_context(|| format!("redis-benchmark said no rate of {operation}: '{said}'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_and_bad_answers_refused() {
        let said =
            "Running 1s test\n  10 requests in 1.00s\nRequests/sec:   1234.50\nTransfer/sec: 1MB\n";
        assert_eq!(rate_of_wrk(said).unwrap(), 1234.5);
        for bad in [
            "  Socket errors: connect 0, read 3, write 0, timeout 0\n",
            "  Non-2xx or 3xx responses: 7\n",
        ] {
            let error = rate_of_wrk(&format!("{bad}{said}")).unwrap_err().to_string();
            assert!(error.contains(bad.trim()), "{error}");
        }
        assert!(rate_of_wrk("unable to connect").is_err());
        let said = "\"test\",\"rps\"\n\"SET\",\"17.5\",\"0.1\"\n\"GET\",\"20\",\"0.1\"\n";
        assert_eq!(rate_of_redis(said, "GET").unwrap(), 20.0);
        assert!(rate_of_redis(said, "INCR").is_err());
    }

    #[test]
    fn every_number_of_connections_has_a_figure() {
        for connections in CONNECTIONS {
            let id = format!("servers.web.function.{connections}");
            assert!(WEB.figures.iter().any(|figure| figure.id == id), "{id}");
        }
        assert_eq!(WEB.figures.len(), 3 * CONNECTIONS.len());
    }
}
