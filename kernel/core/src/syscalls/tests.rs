use super::*;
use std::collections::{HashMap, HashSet};
use std::string::String;
use std::vec::Vec;
use std::{eprintln, format};

/// Numbers and names of a kernel header.
fn header(path: &str) -> Option<HashMap<String, u64>> {
    let text = std::fs::read_to_string(path).ok()?;
    let calls = text.lines().filter_map(|line| {
        let mut words = line.strip_prefix("#define __NR_")?.split_whitespace();
        Some((words.next()?.into(), words.next()?.parse().ok()?))
    });
    Some(calls.collect())
}

#[test]
fn numbers_are_those_of_linux() {
    let mut seen = 0;
    let home = std::env::var("HOME").unwrap_or_default();
    for path in [
        String::from("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
        format!(
            "{home}/.cache/hanare/kernels/7.2/usr/src/linux-headers-7.2.12+deb13-amd64/arch/x86/include/generated/uapi/asm/unistd_64.h"
        ),
    ] {
        let Some(calls) = header(&path) else {
            eprintln!("{path}: not here, skipped");
            continue;
        };
        assert!(calls.len() > 300, "{path}");
        for (name, &number) in &calls {
            if name == "syscalls" {
                continue; // __NR_syscalls: their number
            }
            let row = row(number).unwrap_or_else(|| panic!("{path}: {number} {name} has no row"));
            assert_eq!(row.name, name, "{path}: {number}");
        }
        seen += 1;
    }
    eprintln!("{seen} headers compared");
}

#[test]
fn every_number_has_one_row() {
    for number in 0..=336u64 {
        assert_eq!(row(number).map(|row| u64::from(row.number)), Some(number));
    }
    for number in 337..424u64 {
        assert!(row(number).is_none());
    }
    for number in 424..NUMBERS as u64 {
        assert_eq!(row(number).map(|row| u64::from(row.number)), Some(number));
    }
    assert!(row(NUMBERS as u64).is_none());
    assert!(row(512).is_none());
    assert!(row(1 << 30).is_none());
    assert!(row(u64::MAX).is_none());
    let names: HashSet<_> = rows().iter().map(|row| row.name).collect();
    assert_eq!(names.len(), rows().len());
}

#[test]
fn refused_calls_say_why() {
    for row in rows() {
        if let Service::Refused(error, why) = row.service {
            assert!(error.name().is_some() && !why.is_empty());
        }
    }
}

#[test]
fn rows_that_are_known_say_what_they_should() {
    use crate::errno;
    let service = |number| row(number).unwrap().service;
    assert_eq!(service(9), Service::Local);
    assert_eq!(service(0), Service::Delegated(Hook::None));
    assert_eq!(service(3), Service::Delegated(Hook::Close));
    assert!(matches!(service(134), Service::Refused(errno::ENOSYS, _)));
    assert_eq!(row(202).unwrap().args, 6);
    assert_eq!(row(228).map(|row| (row.name, row.vdso)), Some(("clock_gettime", true)));
    assert_eq!(name(231), "exit_group");
    assert_eq!(name(400), "?");
}

#[test]
fn calls_that_change_rights_are_the_own_workers() {
    let of: Vec<_> = rows().iter().filter(|row| row.changes_rights()).collect();
    for row in &of {
        if matches!(row.service, Service::Delegated(_)) {
            assert_eq!(row.by, By::Own, "{}", row.name);
        }
    }
    for name in
        ["setuid", "capset", "keyctl", "unshare", "setns", "seccomp", "landlock_restrict_self"]
    {
        assert!(of.iter().any(|row| row.name == name), "{name}");
    }
    assert!(!of.iter().any(|row| ["prctl", "getuid", "write"].contains(&row.name)));
    assert!(
        prctl_changes_rights(38) && !prctl_changes_rights(15),
        "PR_SET_NO_NEW_PRIVS, PR_SET_NAME"
    );
}
