//! A program that is to run on an LWK: which file it is, and how its proxy is called.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::ValueEnum;
use hanare_core::elf::ElfPlan;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::dispatch::Mode;
use hanare_common::cpu_list::CpuList;
use hanare_common::failure::{CANNOT_RUN, NOT_FOUND, WithStatus};
use hanare_common::find;

/// Soft RLIMIT_STACK above which Linux lays out memory unsuitably for the proxy.
/// It is set to that while the proxy starts. Arguments may take a quarter of it, 6 MiB at most.
const STACK_LIMIT_MAX: u64 = hanare_abi::service::STACK_LIMIT_OF_PROXY;

/// How arguments of calls reach Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Arguments {
    /// Arguments stay in the program's memory, which Linux sees at the same addresses
    Mapped,
    /// Arguments are copied through a buffer, by the descriptions of the calls; calls without one
    /// are mapped
    Copied,
}

impl fmt::Display for Arguments {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            Self::Mapped => "mapped",
            Self::Copied => "copied",
        })
    }
}

/// Options of a native task's proxy that concern its pool.
pub struct InPool {
    /// Descriptor of the pool.
    pub fd: i32,
    /// Pooled proxies that the command starts before the program.
    pub members: u32,
    /// The task keeps a proxy from the beginning.
    pub keeps: bool,
}

/// A program, and how it is to run.
pub struct Program {
    /// Instance to run on; `None`: the only one, or the one called 'default'.
    pub on: Option<String>,
    /// CPUs of the instance to begin on; `None`: all of them.
    pub cpus: Option<CpuList>,
    /// How arguments of its calls reach Linux; `None`: as is usual in the instance.
    pub arguments: Option<Arguments>,
    /// Print time, memory and calls on stderr when the program ends.
    pub stats: bool,
    /// Way in which its delegated calls are executed; `None`: as the instance was booted.
    pub dispatch: Option<Mode>,
    /// Pool of a native task; `None`: a program that is none.
    pub pool: Option<InPool>,
    /// The program, looked up in PATH as a shell does, and its arguments.
    pub command: Vec<OsString>,
}

impl Program {
    /// The proxy, and how it is called. `hold`: a socket where it waits for a word before
    /// the program starts.
    pub fn proxy(self, hold: Option<i32>) -> Result<(PathBuf, Vec<OsString>)> {
        let program = &self.command[0];
        let path = look_up(program)?;
        if self.pool.is_some() && has_interpreter(&path) {
            let why = format!(
                "it is dynamically linked, and a native task maps no libraries: link it statically; see {}",
                find::document("native.md").display()
            );
            return Err(failure(program, CANNOT_RUN, &why));
        }
        let proxy = find::proxy()?;
        let mut arguments: Vec<OsString> = vec!["hanare-proxy".into()];
        arguments.extend(self.on.map(|name| format!("--instance={name}").into()));
        arguments.extend(self.cpus.map(|list| format!("--cpus={list}").into()));
        arguments.extend(limit_stack().map(|limits| format!("--stack={limits}").into()));
        arguments.extend(self.arguments.map(|how| format!("--arguments={how}").into()));
        arguments.extend(self.stats.then(|| "--stats".into()));
        let dispatch = self.dispatch.map(|mode| format!("--dispatch={}", mode.word()).into());
        arguments.extend(dispatch);
        if let Some(InPool { fd, members, keeps }) = self.pool {
            let options =
                ["--native".into(), format!("--pool-fd={fd}"), format!("--members={members}")];
            arguments.extend(options.map(OsString::from));
            arguments.extend(keeps.then(|| "--keep".into()));
        }
        arguments.extend(hold.map(|socket| format!("--hold={socket}").into()));
        arguments.extend(["--".into(), path.into_os_string()]);
        arguments.extend(self.command);
        Ok((proxy, arguments))
    }
}

/// Makes the soft stack limit finite; gives the old limits if that changed them.
fn limit_stack() -> Option<String> {
    let old = getrlimit(Resource::Stack);
    let number = |limit: Option<u64>| limit.unwrap_or(u64::MAX);
    if number(old.current) <= STACK_LIMIT_MAX {
        return None;
    }
    let new = Rlimit { current: Some(STACK_LIMIT_MAX), maximum: old.maximum };
    setrlimit(Resource::Stack, new).ok()?;
    Some(format!("{}:{}", number(old.current), number(old.maximum)))
}

/// Most bytes of program headers and what is before them.
const HEADERS_MAX: u64 = 128 << 10;

/// Whether a file is an ELF program that its ELF interpreter starts, which maps libraries. A file
/// that cannot be read, or is no such program, gives `false`: its start reports the error.
fn has_interpreter(path: &Path) -> bool {
    let mut bytes = Vec::new();
    let read =
        File::open(path).and_then(|file| file.take(HEADERS_MAX).read_to_end(&mut bytes)).is_ok();
    read && ElfPlan::parse(&bytes).is_ok_and(|plan| plan.interpreter.is_some())
}

/// Finds the program as execvp does.
fn look_up(program: &OsStr) -> Result<PathBuf> {
    look_up_in(program, env::var_os("PATH").as_deref().unwrap_or(OsStr::new("/bin:/usr/bin")))
}

fn look_up_in(program: &OsStr, path: &OsStr) -> Result<PathBuf> {
    if program.as_bytes().contains(&b'/') {
        return check(Path::new(program)).map_err(|problem| problem.into_error(program));
    }
    let mut worst = Problem::Missing;
    for folder in env::split_paths(path).filter(|_| !program.is_empty()) {
        // An empty entry is the current folder.
        let folder = if folder.as_os_str().is_empty() { PathBuf::from(".") } else { folder };
        match check(&folder.join(program)) {
            Ok(path) => return Ok(path),
            // As execvp: a file that may not be executed is remembered, others do not count.
            Err(Problem::Denied) => worst = Problem::Denied,
            Err(_) => {}
        }
    }
    Err(match worst {
        Problem::Missing => failure(program, NOT_FOUND, "command not found"),
        problem => problem.into_error(program),
    })
}

/// Reason why a file cannot be run.
enum Problem {
    Missing,
    Directory,
    Denied,
    Other(std::io::Error),
}

impl Problem {
    fn into_error(self, program: &OsStr) -> anyhow::Error {
        match self {
            Self::Missing => failure(program, NOT_FOUND, "No such file or directory"),
            Self::Directory => failure(program, CANNOT_RUN, "Is a directory"),
            Self::Denied => failure(
                program,
                CANNOT_RUN,
                "Permission denied (next: chmod +x, if it is a program)",
            ),
            Self::Other(error) => {
                let text = error.to_string();
                let text = text.split(" (os error").next().unwrap_or_default();
                failure(program, CANNOT_RUN, text)
            }
        }
    }
}

fn failure(program: &OsStr, status: i32, why: &str) -> anyhow::Error {
    WithStatus { status, message: format!("{}: {why}", program.to_string_lossy()) }.into()
}

fn check(path: &Path) -> Result<PathBuf, Problem> {
    use std::io::ErrorKind;
    let metadata = path.metadata().map_err(|error| match error.kind() {
        ErrorKind::NotFound => Problem::Missing,
        ErrorKind::PermissionDenied => Problem::Denied,
        _ => Problem::Other(error),
    })?;
    if metadata.is_dir() {
        return Err(Problem::Directory);
    }
    // The real answer is Linux' own, with the credentials of this process.
    let executable = metadata.permissions().mode() & 0o111 != 0
        && nix::unistd::access(path, nix::unistd::AccessFlags::X_OK).is_ok();
    if executable { Ok(path.to_owned()) } else { Err(Problem::Denied) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn folder(name: &str) -> PathBuf {
        let folder = env::temp_dir().join(format!("hanare-run-{}-{name}", std::process::id()));
        fs::create_dir_all(folder.join("sub")).unwrap();
        fs::write(folder.join("plain"), "text").unwrap();
        fs::write(folder.join("program"), "#!/bin/sh\n").unwrap();
        fs::set_permissions(folder.join("program"), fs::Permissions::from_mode(0o755)).unwrap();
        folder
    }

    fn status(result: Result<PathBuf>) -> (i32, String) {
        let error = result.unwrap_err();
        let error = error.downcast_ref::<WithStatus>().unwrap();
        (error.status, error.message.clone())
    }

    #[test]
    fn a_name_is_found_in_path_or_ends_as_in_a_shell() {
        let folder = folder("path");
        let path = OsString::from(format!("/nonexistent:{}", folder.display()));
        let find = |name: &str| look_up_in(OsStr::new(name), &path);
        assert_eq!(find("program").unwrap(), folder.join("program"));
        assert_eq!(status(find("nothing")), (127, "nothing: command not found".into()));
        assert_eq!(status(find("plain")).0, 126);
        assert_eq!(status(find("sub")).0, 127);
        assert_eq!(status(find("")).0, 127);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_dynamic_program_is_told_by_its_interpreter() {
        let folder = folder("dynamic");
        assert!(has_interpreter(Path::new("/bin/sh")) && !has_interpreter(&folder.join("program")));
        let proxy = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../proxy/target/x86_64-unknown-none/release/hanare-proxy");
        assert!(!proxy.exists() || !has_interpreter(&proxy));
        assert!(!has_interpreter(&folder.join("nothing")));
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_path_is_taken_as_it_is_or_ends_as_in_a_shell() {
        let folder = folder("direct");
        let find = |name: &str| look_up_in(folder.join(name).as_os_str(), OsStr::new(""));
        assert!(find("program").is_ok());
        let (code, message) = status(find("nothing"));
        assert!(
            code == 127 && message.ends_with("nothing: No such file or directory"),
            "{message}"
        );
        assert!(status(find("sub")).1.ends_with("Is a directory"));
        assert!(status(find("plain")).1.contains("Permission denied"));
        assert_eq!(status(find("plain/x")).0, 126);
        fs::remove_dir_all(folder).unwrap();
    }
}
