//! Ways in which delegated calls are executed, as options of commands.

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use hanare_common::cpu_list::CpuList;
use hanare_core::{cpulist, options};

/// Way in which delegated calls are executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// Each thread's own worker
    Direct,
    /// Servers, fewer than threads, which look into a request box; what depends on the thread its
    /// own worker
    Box,
    /// By the request box while a process has more threads than servers, else each thread's own
    /// worker
    Auto,
}

impl Mode {
    /// The mode's word in options.
    pub fn word(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Box => "box",
            Self::Auto => "auto",
        }
    }
}

/// Defaults of an instance for programs that do not choose a way, and its servers.
#[derive(Args)]
pub struct Dispatch {
    /// Way in which delegated calls are executed [default: direct]
    #[arg(long, value_name = "WAY")]
    dispatch: Option<Mode>,
    /// Kinds of calls with servers of their own: files, net, or both [default: the same servers for
    /// all calls]
    #[arg(long, value_name = "KIND,...", value_parser = boxes)]
    boxes: Option<String>,
    /// Servers that a process has at most, with --dispatch box or auto, e.g. 2, or for one kind of
    /// --boxes net=4; may be given again [default: as many as Linux has CPUs, 4 at most]
    #[arg(long, value_name = "[KIND=]N", value_parser = servers)]
    servers: Vec<String>,
    /// CPUs of Linux' that servers run on, e.g. 0-1, or for one kind files=0; may be given again
    /// [default: those of the program's proxy]
    #[arg(long, value_name = "[KIND=]LIST", value_parser = server_cpus)]
    server_cpus: Vec<String>,
}

impl Dispatch {
    /// The dispatch as boot options.
    pub fn options(self) -> impl Iterator<Item = String> {
        let mode = self.dispatch.map(|mode| format!("dispatch={}", mode.word()));
        mode.into_iter().chain(self.boxes).chain(self.servers).chain(self.server_cpus)
    }
}

/// The boot option `key` for all servers, or for those of one kind (`KIND=VALUE`), if the LWK
/// understands it.
fn word(key: &str, text: &str, expected: &str) -> Result<String, String> {
    let word = match text.split_once('=') {
        Some((kind, value)) => format!("{key}.{kind}={value}"),
        None => format!("{key}={text}"),
    };
    let is_one = !word.contains(char::is_whitespace);
    let is_known = is_one && options::Options::parse(&word).is_ok();
    is_known.then_some(word).ok_or_else(|| format!("expected {expected}"))
}

fn boxes(text: &str) -> Result<String, String> {
    if text.contains('=') {
        return Err("expected kinds: files, net, or both like files,net".into());
    }
    word("boxes", text, "kinds: files, net, or both like files,net")
}

fn servers(text: &str) -> Result<String, String> {
    word(
        "servers",
        text,
        "a number from 1 to 8, like 2, or one for a kind (files, net, other) like net=4",
    )
}

fn server_cpus(text: &str) -> Result<String, String> {
    let list = text.split_once('=').map_or(text, |(_, list)| list);
    cpulist::parse(list).map_err(|wrong| wrong.to_string())?;
    word(
        "server_cpus",
        text,
        "a list of CPUs like 0,2-3, or one for a kind (files, net, other) like net=1",
    )
}

/// Refuses CPUs for servers on which Linux will not run: those that are not in `online`, and those
/// in `taken`, which the instance takes.
pub fn check_server_cpus(
    dispatch: &options::Dispatch,
    online: &CpuList,
    taken: &CpuList,
) -> Result<()> {
    for cpu in dispatch.server_cpus.iter().flat_map(|cpus| CpuList::from(cpus).into_numbers()) {
        if taken.numbers().contains(&cpu) {
            bail!("servers cannot run on CPU {cpu}: the instance takes it from Linux");
        }
        if !online.numbers().contains(&cpu) {
            bail!("servers cannot run on CPU {cpu}: Linux runs on CPUs {online}");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_one_kind_are_told_from_those_of_all() {
        assert_eq!(servers("2").as_deref(), Ok("servers=2"));
        assert_eq!(servers("net=4").as_deref(), Ok("servers.net=4"));
        assert_eq!(server_cpus("files=0,2-3").as_deref(), Ok("server_cpus.files=0,2-3"));
        assert_eq!(boxes("files,net").as_deref(), Ok("boxes=files,net"));
        for wrong in ["0", "9", "disk=1", "net=", "=1", "1 dispatch=box"] {
            assert!(servers(wrong).is_err(), "{wrong}");
        }
        assert!(
            boxes("files=1").is_err() && boxes("disk").is_err() && boxes("net log=debug").is_err()
        );
        assert_eq!(server_cpus("64,4095").as_deref(), Ok("server_cpus=64,4095"));
        let why = server_cpus("net=0,4096").unwrap_err();
        assert_eq!(why, "there is no CPU 4096: numbers go up to 4095");
        assert!(server_cpus("disk=1").unwrap_err().contains("files, net, other"));
    }

    #[test]
    fn server_cpus_that_linux_will_not_have_are_refused_by_number() {
        let judge = |option, online: &str, taken: &str| {
            let dispatch = options::Options::parse(option).unwrap().dispatch;
            check_server_cpus(&dispatch, &online.parse().unwrap(), &taken.parse().unwrap())
                .map_err(|why| why.to_string())
        };
        assert_eq!(judge("", "0-3", "2-3"), Ok(()));
        assert_eq!(judge("server_cpus=0-1 server_cpus.net=1", "0-3", "2-3"), Ok(()));
        assert_eq!(judge("server_cpus=70,1000", "0-1023", "2-3"), Ok(()));
        let refused = |cpu| Err(format!("servers cannot run on CPU {cpu}: Linux runs on CPUs 0-3"));
        assert_eq!(judge("server_cpus=0,70", "0-3", "2-3"), refused(70));
        assert_eq!(judge("server_cpus=0 server_cpus.files=1,64", "0-3", "2-3"), refused(64));
        let why = judge("server_cpus=1-2", "0-3", "2-3").unwrap_err();
        assert_eq!(why, "servers cannot run on CPU 2: the instance takes it from Linux");
    }
}
