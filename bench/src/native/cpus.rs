//! Which two CPUs, and what lies between them.

use anyhow::{Result, bail};
use rustix::thread::{CpuSet, sched_getaffinity};

use hanare_common::cpu_list::CpuList;
use hanare_common::{failure, machine};

/// Nearest hardware that two CPUs share. Ordered, the nearest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Relation {
    /// Two cores share the cache of this level.
    Cache(u32),
    /// Two cores of one node share no cache, as far as Linux says.
    Node,
    /// Two threads of one core: they take turns at its units, and no line leaves its cache.
    Core,
    /// Two nodes.
    Nodes(u32, u32),
}

impl Relation {
    /// The relation's name, for JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cache(_) => "shared-cache",
            Self::Node => "same-node",
            Self::Core => "same-core",
            Self::Nodes(..) => "other-node",
        }
    }

    /// The relation in words, for people.
    pub fn describe(self) -> String {
        match self {
            Self::Cache(level) => format!("two cores that share a cache of level {level}"),
            Self::Node => "two cores that share no cache".into(),
            Self::Core => "two threads of one core: not what an LWK beside Linux has".into(),
            Self::Nodes(a, b) => format!("cores of two nodes, {a} and {b}"),
        }
    }
}

/// A CPU, with its core, node and caches.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    cpu: u32,
    core: Option<(u32, u32, u32)>,
    node: Option<u32>,
    caches: Vec<(u32, CpuList)>,
}

/// The CPUs that this process may use.
pub struct Machine(Vec<Place>);

impl Machine {
    /// Asks Linux.
    pub fn look() -> Result<Self> {
        let allowed = sched_getaffinity(None)?;
        let cpus = (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu));
        let places = cpus.filter_map(|cpu| u32::try_from(cpu).ok()).map(|cpu| Place {
            cpu,
            core: machine::core_of(cpu),
            node: machine::node_of(cpu),
            caches: machine::caches_of(cpu),
        });
        Ok(Self(places.collect()))
    }

    /// The two that are wanted, or the nearest two cores.
    pub fn choose(&self, wanted: Option<&CpuList>) -> Result<(u32, u32)> {
        let allowed: CpuList = self.0.iter().map(|place| place.cpu).collect();
        if allowed.numbers().len() < 2 {
            bail!(
                "this process may use CPU {allowed} only: the native figures need two \
                 (see: nproc, taskset -pc $$)"
            );
        }
        let Some(wanted) = wanted else { return Ok(self.nearest()) };
        let &[asker, answerer] = wanted.numbers() else {
            return Err(failure::wrong_usage(format!(
                "--cpus {wanted}: the native figures need two CPUs"
            )));
        };
        if let Some(cpu) = [asker, answerer].iter().find(|cpu| !allowed.numbers().contains(cpu)) {
            return Err(failure::wrong_usage(format!(
                "--cpus: this process may not use CPU {cpu} (it may use {allowed})"
            )));
        }
        Ok((asker, answerer))
    }

    fn nearest(&self) -> (u32, u32) {
        // The last ones: Linux has most of its own to do on the first.
        let pairs = self.0.iter().enumerate().rev().flat_map(|(number, second)| {
            self.0[..number].iter().rev().map(move |first| (first, second))
        });
        let nearest = pairs.min_by_key(|(first, second)| relation(first, second));
        nearest.map_or((0, 1), |(first, second)| (first.cpu, second.cpu))
    }

    /// Nearest hardware that two of the CPUs share.
    pub fn relation(&self, a: u32, b: u32) -> Relation {
        let place = |cpu| self.0.iter().find(|place| place.cpu == cpu);
        place(a).zip(place(b)).map_or(Relation::Node, |(a, b)| relation(a, b))
    }
}

fn relation(a: &Place, b: &Place) -> Relation {
    if a.core.is_some() && a.core == b.core {
        return Relation::Core;
    }
    let shared = a.caches.iter().filter(|(_, cpus)| cpus.numbers().contains(&b.cpu));
    if let Some(level) = shared.map(|&(level, _)| level).min() {
        return Relation::Cache(level);
    }
    match (a.node, b.node) {
        (Some(a), Some(b)) if a != b => Relation::Nodes(a, b),
        _ => Relation::Node,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two nodes, two cores of two threads each; the threads n and n + 4 are of one core.
    fn machine() -> Machine {
        let place = |cpu: u32| {
            let (core, node) = (cpu % 4, cpu % 4 / 2);
            let threads: CpuList = [core, core + 4].into_iter().collect();
            let package: CpuList = [0, 1, 4, 5].map(|cpu| cpu + node * 2).into_iter().collect();
            Place {
                cpu,
                core: Some((node, 0, core)),
                node: Some(node),
                caches: vec![(1, threads.clone()), (2, threads), (3, package)],
            }
        };
        Machine((0..8).map(place).collect())
    }

    #[test]
    fn what_two_cpus_share_is_said() {
        let machine = machine();
        assert_eq!(machine.relation(1, 5), Relation::Core);
        assert_eq!(machine.relation(0, 1), Relation::Cache(3));
        assert_eq!(machine.relation(1, 2), Relation::Nodes(0, 1));
        let bare = |cpu| Place { cpu, core: None, node: None, caches: Vec::new() };
        assert_eq!(Machine(vec![bare(0), bare(1)]).relation(0, 1), Relation::Node);
    }

    #[test]
    fn two_cores_of_one_cache_are_chosen_if_nothing_is_said() {
        assert_eq!(machine().choose(None).unwrap(), (6, 7));
        let siblings = Machine(machine().0.into_iter().filter(|one| one.cpu % 4 == 1).collect());
        assert_eq!(siblings.choose(None).unwrap(), (1, 5));
    }

    #[test]
    fn a_wrong_choice_is_refused_by_name() {
        let refused =
            |text: &str| machine().choose(Some(&text.parse().unwrap())).unwrap_err().to_string();
        assert!(refused("1").contains("need two CPUs"));
        assert!(refused("1-3").contains("need two CPUs"));
        assert!(refused("1,9").contains("may not use CPU 9 (it may use 0-7)"));
        assert_eq!(machine().choose(Some(&"0,2".parse().unwrap())).unwrap(), (0, 2));
        let one = Machine(machine().0[..1].to_vec());
        assert!(one.choose(None).unwrap_err().to_string().contains("may use CPU 0 only"));
    }
}
