//! CPUs that are measured, and how Linux has been told to leave them alone.

use anyhow::Result;
use serde::Serialize;

use crate::samples::Side;
use hanare_common::cpu_list::CpuList;
use hanare_common::{failure, machine};

/// A CPU that is measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Place {
    /// `linux` or `lwk`.
    pub side: &'static str,
    /// Number of the CPU on Linux.
    pub cpu: u32,
    /// Name of the LWK's instance; `None`: a CPU of Linux.
    pub instance: Option<String>,
    /// Linux' load balancing leaves the CPU alone (`isolcpus`).
    pub isolated: bool,
    /// Linux stops its tick while one program runs there (`nohz_full`).
    pub nohz_full: bool,
}

impl Place {
    /// A CPU of an LWK.
    pub fn lwk(instance: &str, cpu: u32) -> Self {
        let instance = Some(instance.into());
        Self { side: "lwk", cpu, instance, isolated: false, nohz_full: false }
    }

    /// Kernel whose CPU this is.
    pub fn side(&self) -> Side {
        if self.instance.is_some() { Side::Lwk } else { Side::Linux }
    }

    /// For people: `Linux (isolcpus, nohz_full), CPU 3`.
    pub fn describe(&self) -> String {
        let told = match (self.isolated, self.nohz_full) {
            (true, true) => " (isolcpus, nohz_full)",
            (true, false) => " (isolcpus)",
            (false, true) => " (nohz_full)",
            (false, false) => "",
        };
        match &self.instance {
            Some(name) => format!("LWK {name}, CPU {}", self.cpu),
            None => format!("Linux{told}, CPU {}", self.cpu),
        }
    }
}

/// CPUs of Linux, and which of them are tuned.
pub struct Linux {
    /// CPUs on which Linux runs.
    pub online: CpuList,
    /// `isolcpus`.
    pub isolated: CpuList,
    /// `nohz_full`.
    pub nohz_full: CpuList,
}

impl Linux {
    /// Asks Linux.
    pub fn look() -> Self {
        Self {
            online: machine::online_cpus(),
            isolated: machine::listed_cpus("isolated"),
            nohz_full: machine::listed_cpus("nohz_full"),
        }
    }

    fn place(&self, cpu: u32) -> Place {
        let has = |list: &CpuList| list.numbers().contains(&cpu);
        let (isolated, nohz_full) = (has(&self.isolated), has(&self.nohz_full));
        Place { side: "linux", cpu, instance: None, isolated, nohz_full }
    }

    /// CPUs to measure on Linux: the wanted ones. Without a wish, the last plain one and the last
    /// tuned one, if there are such.
    pub fn choose(&self, wanted: Option<&CpuList>) -> Result<Vec<Place>> {
        if let Some(wanted) = wanted {
            let online = self.online.numbers();
            if let Some(cpu) = wanted.numbers().iter().find(|cpu| !online.contains(cpu)) {
                return Err(failure::wrong_usage(format!(
                    "--cpus: CPU {cpu} is not Linux' (Linux has {})",
                    self.online
                )));
            }
            return Ok(wanted.numbers().iter().map(|&cpu| self.place(cpu)).collect());
        }
        let places = self.online.numbers().iter().rev().map(|&cpu| self.place(cpu));
        let tuned = |place: &Place| place.isolated || place.nohz_full;
        let plain = places.clone().find(|place| !tuned(place));
        Ok(plain.into_iter().chain(places.clone().find(tuned)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn linux(isolated: &[u32], nohz_full: &[u32]) -> Linux {
        let list = |cpus: &[u32]| cpus.iter().copied().collect();
        Linux { online: list(&[0, 1, 2, 3]), isolated: list(isolated), nohz_full: list(nohz_full) }
    }

    fn said(linux: &Linux, wanted: Option<&str>) -> Vec<String> {
        let wanted = wanted.map(|list| list.parse().unwrap());
        linux.choose(wanted.as_ref()).unwrap().iter().map(Place::describe).collect()
    }

    #[test]
    fn a_plain_and_a_tuned_cpu_are_chosen_if_nothing_is_said() {
        assert_eq!(said(&linux(&[], &[]), None), ["Linux, CPU 3"]);
        let tuned = linux(&[2, 3], &[3, 9]);
        assert_eq!(said(&tuned, None), ["Linux, CPU 1", "Linux (isolcpus, nohz_full), CPU 3"]);
        assert_eq!(said(&tuned, Some("0,2")), ["Linux, CPU 0", "Linux (isolcpus), CPU 2"]);
        assert_eq!(said(&linux(&[], &[0, 1, 2, 3]), None), ["Linux (nohz_full), CPU 3"]);
    }

    #[test]
    fn a_cpu_that_linux_does_not_have_is_refused() {
        let error = linux(&[], &[]).choose(Some(&"4".parse().unwrap())).unwrap_err();
        assert_eq!(error.to_string(), "--cpus: CPU 4 is not Linux' (Linux has 0-3)");
    }

    #[test]
    fn a_cpu_of_an_lwk_is_named_with_its_instance() {
        assert_eq!(Place::lwk("blue", 2).describe(), "LWK blue, CPU 2");
        assert_eq!(Place::lwk("blue", 2).side(), Side::Lwk);
    }
}
