//! The ways to delegate against each other: arguments mapped or copied, calls direct or by the
//! request box.

use anyhow::{Context, Result};

use crate::figure::{Figure, Group, Needs, Target};
use crate::lab::Lab;
use crate::samples::{Samples, Side};

/// Ways to pass arguments, as `hanare run --arguments` names them.
const ARGUMENTS: [&str; 2] = ["mapped", "copied"];
/// Sizes of a read, KiB; the measured program has the same.
const SIZES_KIB: [u32; 9] = [1, 4, 16, 64, 256, 1024, 4096, 16_384, 65_536];
/// Value of a crossing point that lies above the largest size, KiB.
const NEVER_KIB: f64 = 131_072.0;

/// A figure of each size, into the same buffer and into untouched memory.
macro_rules! reads {
    ($($way:literal $size:literal),*) => {
        &[
            $(
                Figure::lower(
                    concat!("delegation.", $way, ".", $size, "k"),
                    "us",
                    concat!("read ", $size, " KiB into the same buffer, arguments ", $way),
                ),
                Figure::lower(
                    concat!("delegation.", $way, ".", $size, "k-first"),
                    "us",
                    concat!("read ", $size, " KiB into untouched memory, arguments ", $way),
                ),
            )*
            Figure::lower(
                "delegation.crossing",
                "KiB",
                "size from which mapping is faster than copying, same buffer (131072: none up to 64 MiB)",
            ),
            Figure::lower("delegation.crossing-first", "KiB", "the same, untouched memory"),
        ]
    };
}

/// `read` of a file in memory with arguments mapped and copied, beside Linux.
pub const TRANSFER: Group = Group {
    name: "transfer",
    needs: Needs::Instance,
    figures: reads!(
        "mapped" 1, "mapped" 4, "mapped" 16, "mapped" 64, "mapped" 256, "mapped" 1024,
        "mapped" 4096, "mapped" 16384, "mapped" 65536,
        "copied" 1, "copied" 4, "copied" 16, "copied" 64, "copied" 256, "copied" 1024,
        "copied" 4096, "copied" 16384, "copied" 65536
    ),
    measure: transfer,
};

fn transfer(lab: &mut Lab, group: &Group) -> Result<Samples> {
    lab.need_instance("")?;
    let mut samples = Samples::default();
    for round in 1..=lab.rounds {
        lab.progress(&format!("{}: round {round} of {}", group.name, lab.rounds));
        lab.check_interrupted()?;
        let linux = lab.guest(Side::Linux, &[], &[group.name])?.samples()?;
        let mut ways = Vec::new();
        for way in ARGUMENTS {
            let lwk = lab.guest(Side::Lwk, &["--arguments", way], &[group.name])?.samples()?;
            for (side, taken) in [(Side::Linux, &linux), (Side::Lwk, &lwk)] {
                for (id, value) in taken {
                    samples.add(side, &format!("delegation.{way}.{id}"), *value);
                }
            }
            ways.push(lwk);
        }
        for kind in ["", "-first"] {
            let us = |way: usize, kib: u32| {
                let id = format!("{kib}k{kind}");
                ways[way].iter().find(|sample| sample.0 == id).map_or(f64::NAN, |sample| sample.1)
            };
            let at = crossing_kib(|kib| us(0, kib), |kib| us(1, kib));
            samples.add(Side::Lwk, &format!("delegation.crossing{kind}"), at);
        }
    }
    Ok(samples)
}

/// The smallest size from which on mapping is faster, KiB.
fn crossing_kib(mapped_us: impl Fn(u32) -> f64, copied_us: impl Fn(u32) -> f64) -> f64 {
    let is_faster = |&&kib: &&u32| mapped_us(kib) < copied_us(kib);
    SIZES_KIB.iter().rev().take_while(is_faster).last().map_or(NEVER_KIB, |&kib| f64::from(kib))
}

/// 1 MB of a device in 1,024 calls: what a call costs beside what the device takes.
pub const DEVICE: Group = Group {
    name: "device",
    needs: Needs::Device,
    figures: &[Figure::lower("delegation.device", "ms", "1 MB of a device in 1,024 calls")
        .target(Target::Ratio(1.04))],
    measure: device,
};

fn device(lab: &mut Lab, group: &Group) -> Result<Samples> {
    lab.need_instance("")?;
    let file = format!("file={}", lab.device.as_deref().context("no device")?.display());
    let mut samples = Samples::default();
    for round in 1..=lab.rounds {
        lab.progress(&format!("{}: round {round} of {}", group.name, lab.rounds));
        lab.check_interrupted()?;
        for side in [Side::Linux, Side::Lwk] {
            let taken = lab.guest(side, &[], &[group.name, &file])?.samples()?;
            samples.add(side, "delegation.device", first(&taken)?);
        }
    }
    Ok(samples)
}

fn first(taken: &[(String, f64)]) -> Result<f64> {
    Ok(taken.first().context("the measured program gave no sample")?.1)
}

/// Packed calls of native tasks: with a proxy that is made for the call, one of the pool, one that
/// is kept.
pub const PACKED: Group = Group {
    name: "packed",
    needs: Needs::Instance,
    figures: &[
        Figure::lower("delegation.packed.new", "us", "packed getpgrp, a new proxy made for it"),
        Figure::lower("delegation.packed.pooled", "us", "packed getpgrp, by any proxy of the pool"),
        Figure::lower("delegation.packed.kept", "us", "packed getpgrp, by the proxy that is kept"),
        Figure::lower("delegation.packed.kept-20us", "us", "the same after 20 us of other work"),
        Figure::lower("delegation.packed.kept-1ms", "us", "the same after 1 ms of other work"),
    ],
    measure: packed,
};

fn packed(lab: &mut Lab, group: &Group) -> Result<Samples> {
    lab.need_instance("")?;
    let mut samples = Samples::default();
    for round in 1..=lab.rounds {
        lab.progress(&format!("{}: round {round} of {}", group.name, lab.rounds));
        lab.check_interrupted()?;
        let mut taken = lab.native_guest(&["--pool", "1"], &[group.name])?.samples()?;
        taken
            .extend(lab.native_guest(&["--pool", "1", "--idle", "1"], &["packed-new"])?.samples()?);
        let linux = lab.guest(Side::Linux, &[], &[group.name])?.samples()?;
        for (side, taken) in [(Side::Lwk, taken), (Side::Linux, linux)] {
            for (id, ns) in taken {
                samples.add(side, &format!("delegation.{id}"), ns / 1000.0);
            }
        }
    }
    Ok(samples)
}

/// Threads that call at once.
const CALLERS: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];
/// Most servers.
const SERVERS: u32 = 4;
/// Calls of each thread.
const CALLS: u32 = 16;
/// Calls of each thread that sends.
const SENT: u32 = 1000;

/// A figure of each number of callers.
macro_rules! services {
    ($($way:literal $target:expr, [$($callers:literal)*]);*) => {
        &[
            $($(
                Figure::lower(
                    concat!("delegation.", $way, ".", $callers),
                    "of ideal",
                    concat!($callers, " callers of a service of 1 ms, dispatch ", $way),
                ).target($target),
            )*)*
            Figure::lower("delegation.mixed-direct", "us", "send of 64 bytes beside three of 1,400, dispatch direct"),
            Figure::lower("delegation.mixed-box", "us", "the same by one server"),
        ]
    };
}

/// A service of a millisecond, by a worker of each caller's or by 1 to 4 servers. A value is the
/// time that all calls take over the least that so many servers need, by the length of the service
/// as a lone caller on Linux sees it.
pub const BOX: Group = Group {
    name: "box",
    needs: Needs::Machine,
    figures: services!(
        "direct" Target::None, [1 2 4 8 16 32 64];
        "box1" Target::Value(1.1), [1 2 4 8 16 32 64];
        "box2" Target::Value(1.1), [1 2 4 8 16 32 64];
        "box3" Target::Value(1.1), [1 2 4 8 16 32 64];
        "box4" Target::Value(1.1), [1 2 4 8 16 32 64]
    ),
    measure: by_box,
};

fn by_box(lab: &mut Lab, _: &Group) -> Result<Samples> {
    let mut samples = Samples::default();
    for servers in 0..=SERVERS {
        let (way, options) = match servers {
            0 => ("direct".into(), "dispatch=direct".into()),
            _ => (format!("box{servers}"), format!("dispatch=box servers={servers}")),
        };
        lab.need_instance(&options)?;
        for round in 1..=lab.rounds {
            lab.progress(&format!("box: {way}, round {round} of {}", lab.rounds));
            lab.check_interrupted()?;
            services(lab, &mut samples, &way, servers)?;
            if servers <= 1 {
                let id =
                    format!("delegation.mixed-{}", if servers == 0 { "direct" } else { "box" });
                for side in [Side::Linux, Side::Lwk] {
                    samples.add(side, &id, of_guest(lab, side, "mixed", 4, SENT)?);
                }
            }
        }
    }
    lab.shutdown()?;
    Ok(samples)
}

/// One round of all numbers of callers; `servers`: none for a worker each.
fn services(lab: &Lab, samples: &mut Samples, way: &str, servers: u32) -> Result<()> {
    let service_ms = of_guest(lab, Side::Linux, "service", 1, CALLS)? / f64::from(CALLS);
    for callers in CALLERS {
        let taken_ms = of_guest(lab, Side::Lwk, "service", callers, CALLS)?;
        let ideal_ms = ideal_calls(callers, CALLS, servers) * service_ms;
        samples.add(Side::Lwk, &format!("delegation.{way}.{callers}"), taken_ms / ideal_ms);
    }
    Ok(())
}

/// Calls that follow each other at least where `callers` make `calls` each and each server executes
/// one at a time.
fn ideal_calls(callers: u32, calls: u32, servers: u32) -> f64 {
    let servers = if servers == 0 { callers } else { servers.min(callers) };
    f64::from((callers * calls).div_ceil(servers))
}

fn of_guest(lab: &Lab, side: Side, group: &str, callers: u32, calls: u32) -> Result<f64> {
    let (callers, calls) = (format!("callers={callers}"), format!("calls={calls}"));
    first(&lab.guest(side, &[], &[group, &callers, &calls])?.samples()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_crossing_is_where_mapping_stays_faster() {
        let mapped = |kib: u32| f64::from(kib) + 100.0;
        assert_eq!(crossing_kib(mapped, |kib| 2.0 * f64::from(kib)), 256.0);
        assert_eq!(crossing_kib(mapped, |_| 0.0), NEVER_KIB);
        assert_eq!(crossing_kib(mapped, |_| 1e9), 1.0);
        // Faster once, and slower again, is no crossing.
        assert_eq!(crossing_kib(|kib| f64::from(kib % 64), |_| 1.0), 64.0);
    }

    #[test]
    fn servers_share_the_calls() {
        assert_eq!(ideal_calls(1, 16, 4), 16.0);
        assert_eq!(ideal_calls(8, 16, 3), 43.0);
        assert_eq!(ideal_calls(8, 16, 0), 16.0);
    }

    #[test]
    fn every_sample_has_a_figure() {
        for way in ARGUMENTS {
            for kib in SIZES_KIB {
                for kind in ["", "-first"] {
                    let id = format!("delegation.{way}.{kib}k{kind}");
                    assert!(TRANSFER.figures.iter().any(|figure| figure.id == id), "{id}");
                }
            }
        }
        for callers in CALLERS {
            let id = format!("delegation.box{SERVERS}.{callers}");
            assert!(BOX.figures.iter().any(|figure| figure.id == id), "{id}");
        }
    }
}
