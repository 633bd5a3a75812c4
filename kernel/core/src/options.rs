//! Boot options: what `hanare boot --option` takes and the LWK understands, listed once.

use crate::claims::Device;
use crate::cpulist;
use crate::link::kinds::{Boxes, Kind};
use crate::link::pool::Way;
use crate::mitigations::Policy;
use crate::userlimits::{self, UserLimits};
use core::fmt;
use hanare_abi::cpus::LinuxCpuSet;
use hanare_abi::requestbox::{BOXES, SERVERS_MAX};

/// The options, with their defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Debug lines are logged, too.
    pub log_debug: bool,
    /// How long a CPU with nothing else to do polls for the answer to a delegated call, µs.
    pub spin_us: u32,
    /// How long threads are held at the moments that tests name, ms.
    pub hold_ms: u32,
    /// Limits of each user.
    pub user_limits: UserLimits,
    /// Every program is executed by Linux, too, so that its guards see it.
    pub exec_seen: bool,
    /// Arguments of calls are copied where nothing else is said.
    pub copies: bool,
    /// Measures against leaks of the CPU.
    pub mitigations: Policy,
    /// How delegated calls reach the side that executes them.
    pub dispatch: Dispatch,
}

/// How delegated calls reach the side that executes them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dispatch {
    /// The way of a program that does not say otherwise.
    pub way: Way,
    /// Kinds of calls with boxes of their own.
    pub boxes: Boxes,
    /// Most servers of each box of a process; `None`: as there are CPUs.
    pub servers: [Option<u32>; BOXES],
    /// The CPUs of Linux on which they run; empty: those of the proxy.
    pub server_cpus: [LinuxCpuSet; BOXES],
    /// The device that the tests' driver has.
    pub claim: Option<Device>,
}

impl Dispatch {
    /// `servers` and `server_cpus` are for all boxes, `servers.net` and `server_cpus.net` for that
    /// of a kind.
    fn set(&mut self, key: &str, value: &str, number: Option<u32>) -> Option<()> {
        let (key, boxes) = match key.split_once('.') {
            Some((key, kind)) => {
                let number = Kind::of_word(kind)?.number();
                (key, number..=number)
            }
            None => (key, 0..=BOXES - 1),
        };
        match key {
            "dispatch" if boxes == (0..=BOXES - 1) => self.way = Way::of_word(value)?,
            "boxes" if boxes == (0..=BOXES - 1) => self.boxes = Boxes::of_list(value)?,
            "servers" => {
                let number = number.filter(|number| (1..=SERVERS_MAX).contains(number))?;
                self.servers[boxes].fill(Some(number));
            }
            "claim" if boxes == (0..=BOXES - 1) => {
                let (major, minor) = value.split_once(':')?;
                self.claim = Some(Device::character(major.parse().ok()?, minor.parse().ok()?)?);
            }
            "server_cpus" => self.server_cpus[boxes].fill(cpulist::parse(value).ok()?),
            _ => return None,
        }
        Some(())
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            log_debug: false,
            spin_us: 50,
            hold_ms: 0,
            exec_seen: true,
            copies: false,
            user_limits: UserLimits::default(),
            mitigations: Policy::default(),
            dispatch: Dispatch::default(),
        }
    }
}

/// Help text: the purpose of each option.
pub const HELP: &str = "\
spin_us=N (poll N µs for an answer of Linux' or a device's before sleeping, 0: never; default 50), \
exec=local (execve without Linux' LSM, audit and tracepoints, which is faster; default exec=seen), \
arguments=copied (as --arguments; default arguments=mapped), \
log=debug (more in hanare log; default log=info), \
user_limits=LIST (as --user-limits), \
mitigations=off (nothing against leaks of the CPU; default mitigations=auto: what the CPU needs), \
pti=on|off (separate page tables for user mode; default pti=auto: if the CPU needs them), \
dispatch=box (delegated calls by a request box, which servers fewer than threads look into; default dispatch=direct: each \
thread's own worker; dispatch=auto: by the box while a process has more threads than servers), boxes=KIND,... (boxes of their own for calls of these kinds: files, net), servers=N (at most so many for each box of a \
process), server_cpus=LIST (Linux' CPUs that they run on), servers.KIND=N and server_cpus.KIND=LIST (those of one box), \
hold_ms=N (for tests of Hanare: hold threads at certain moments), \
claim=MAJOR:MINOR (for tests of Hanare: a driver of the LWK serves read and write of this character device)";

/// Largest number an option takes: a minute of µs.
const NUMBER_MAX: u32 = 60_000_000;

/// A word that is no option, or no value that the option takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused<'a>(&'a str);

impl fmt::Display for Refused<'_> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "'{}' is no boot option; there are: {HELP}", self.0)
    }
}

impl core::error::Error for Refused<'_> {}

impl Options {
    /// Reads `key=value` words; of several with one key the last counts.
    pub fn parse(text: &str) -> Result<Self, Refused<'_>> {
        let mut options = Self::default();
        for word in text.split_ascii_whitespace() {
            options.set(word).ok_or(Refused(word))?;
        }
        Ok(options)
    }

    fn set(&mut self, word: &str) -> Option<()> {
        let (key, value) = word.split_once('=')?;
        let number = || {
            let number = userlimits::number(value).and_then(|number| u32::try_from(number).ok());
            number.filter(|&number| number <= NUMBER_MAX)
        };
        let one_of = |words: [(&str, bool); 2]| {
            words.into_iter().find_map(|(word, meaning)| (word == value).then_some(meaning))
        };
        match key {
            "log" => self.log_debug = one_of([("debug", true), ("info", false)])?,
            "exec" => self.exec_seen = one_of([("seen", true), ("local", false)])?,
            "arguments" => self.copies = one_of([("copied", true), ("mapped", false)])?,
            "spin_us" => self.spin_us = number()?,
            "mitigations" => self.mitigations.off = one_of([("off", true), ("auto", false)])?,
            "pti" if value == "auto" => self.mitigations.isolation = None,
            "pti" => self.mitigations.isolation = Some(one_of([("on", true), ("off", false)])?),
            "hold_ms" => self.hold_ms = number()?,
            "user_limits" => self.user_limits = UserLimits::parse(value)?,
            _ => self.dispatch.set(key, value, number())?,
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn options_are_read_as_they_are_written() {
        assert_eq!(Options::parse(""), Ok(Options::default()));
        let wanted = Options {
            log_debug: true,
            spin_us: 0,
            hold_ms: 40,
            exec_seen: false,
            ..Options::default()
        };
        let limited = Options {
            user_limits: UserLimits { processes: 7, ..UserLimits::default() },
            ..Options::default()
        };
        assert_eq!(Options::parse("user_limits=processes=7"), Ok(limited));
        assert_eq!(
            Options::parse(" log=debug spin_us=9  hold_ms=40 exec=local spin_us=0"),
            Ok(wanted)
        );
    }

    #[test]
    fn mitigations_as_linux_spells_them() {
        let of = |text| Options::parse(text).unwrap().mitigations;
        assert_eq!(of(""), Policy { off: false, isolation: None });
        assert_eq!(of("mitigations=off"), Policy { off: true, isolation: None });
        assert_eq!(
            of("mitigations=off mitigations=auto pti=on"),
            Policy { off: false, isolation: Some(true) }
        );
        assert_eq!(of("pti=on pti=off").isolation, Some(false));
        assert_eq!(of("pti=on pti=auto").isolation, None);
    }

    #[test]
    fn calls_are_dispatched_as_is_said() {
        let of = |text| Options::parse(text).map(|options| options.dispatch);
        let cpus = |cpus: &[usize]| cpus.iter().copied().collect::<LinuxCpuSet>();
        assert_eq!(of("dispatch=box dispatch=direct"), Ok(Dispatch::default()));
        let wanted = Dispatch {
            way: Way::Box,
            boxes: Boxes::default(),
            servers: [Some(2); BOXES],
            server_cpus: [cpus(&[0, 2, 3]); BOXES],
            claim: Device::character(1, 3),
        };
        assert_eq!(of("dispatch=box servers=2 server_cpus=0,2-3 claim=1:3"), Ok(wanted));
        assert_eq!(of("dispatch=auto").map(|d| d.way), Ok(Way::Auto));
        assert_eq!(of("server_cpus=63").map(|d| d.server_cpus), Ok([cpus(&[63]); BOXES]));
        assert_eq!(
            of("server_cpus=64,4095").map(|d| d.server_cpus),
            Ok([cpus(&[64, 4095]); BOXES])
        );
        let wanted = Dispatch {
            boxes: Boxes(1 << Kind::Net.number()),
            servers: [Some(3), Some(3), Some(1)],
            server_cpus: [cpus(&[]), cpus(&[0]), cpus(&[])],
            ..Dispatch::default()
        };
        assert_eq!(of("boxes=net servers=3 servers.net=1 server_cpus.files=0"), Ok(wanted));
        for wrong in [
            "dispatch=",
            "dispatch=AUTO",
            "servers=0",
            "servers=9",
            "server_cpus=4096",
            "server_cpus=3-2",
            "server_cpus=",
            "servers.disk=1",
            "servers.=1",
            "boxes=disk",
            "boxes=",
            "boxes.net=net",
            "dispatch.net=box",
        ] {
            assert_eq!(of(wrong), Err(Refused(wrong)));
        }
    }

    #[test]
    fn a_wrong_option_is_refused_by_name() {
        for wrong in [
            "spin=0",
            "spin_us=abc",
            "spin_us",
            "spin_us=",
            "spin_us=-1",
            "spin_us=+0",
            "hold_ms=60000001",
            "log=all",
            "exec=no",
            "SPIN_US=0",
            "mitigations=on",
            "pti=1",
        ] {
            assert_eq!(Options::parse(&std::format!("log=info {wrong}")), Err(Refused(wrong)));
        }
        let said = Options::parse("spin=0").unwrap_err().to_string();
        for key in ["'spin=0'", "spin_us=N", "exec=local", "log=debug", "hold_ms=N"] {
            assert!(said.contains(key), "{said}");
        }
    }
}
