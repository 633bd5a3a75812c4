//! `hanare trace -c`: calls, errors and time per system call, and the kernel that served them.

use std::collections::BTreeMap;

use hanare_abi::observe::{Record, SERVED_DELEGATED, SERVED_REFUSED};
use hanare_core::syscalls;

#[derive(Default)]
struct Count {
    calls: u64,
    errors: u64,
    delegated: u64,
    refused: u64,
    ns: u64,
}

/// Counts of the calls so far, by number.
#[derive(Default)]
pub struct Summary {
    counts: BTreeMap<u32, Count>,
}

impl Summary {
    /// Takes in a call that has ended.
    pub fn add(&mut self, head: &Record) {
        let count = self.counts.entry(head.number).or_default();
        count.calls += 1;
        count.errors += u64::from((-4095..0).contains(&head.result));
        count.delegated += u64::from(head.served == SERVED_DELEGATED);
        count.refused += u64::from(head.served == SERVED_REFUSED);
        count.ns = count.ns.saturating_add(head.duration_ns);
    }

    /// The summary as a table, the most time first.
    pub fn text(&self) -> String {
        let mut rows: Vec<_> = self.counts.iter().collect();
        rows.sort_by_key(|(number, count)| (u64::MAX - count.ns, **number));
        let sum =
            |field: fn(&Count) -> u64| self.counts.values().map(field).fold(0, u64::saturating_add);
        let all = sum(|count| count.ns).max(1);
        let mut text = String::from(
            "% time     seconds  usecs/call     calls    errors   local  delegated  refused syscall\n",
        );
        let rule = "------ ----------- ----------- --------- --------- ------- ---------- -------- ----------------\n";
        text += rule;
        let line = |count: &Count, name: &str| {
            let percent = count.ns as f64 * 100.0 / all as f64;
            let local = count.calls - count.delegated - count.refused;
            let errors = if count.errors == 0 { String::new() } else { count.errors.to_string() };
            let each = count.ns / 1000 / count.calls.max(1);
            format!(
                "{percent:6.2} {:11.6} {each:11} {:9} {errors:>9} {local:7} {:10} {:8} {name}\n",
                count.ns as f64 / 1e9,
                count.calls,
                count.delegated,
                count.refused
            )
        };
        for (number, count) in rows {
            text += &line(count, syscalls::name(u64::from(*number)));
        }
        text += rule;
        let total = Count {
            calls: sum(|count| count.calls),
            errors: sum(|count| count.errors),
            delegated: sum(|count| count.delegated),
            refused: sum(|count| count.refused),
            ns: sum(|count| count.ns),
        };
        text + &line(&total, "total")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_counted_by_the_kernel_that_served_them() {
        let head = Record {
            size: 0,
            kind: 0,
            pid: 1,
            tid: 1,
            number: 0,
            served: SERVED_DELEGATED,
            time_ns: 0,
            duration_ns: 3000,
            result: -2,
            args: [0; 6],
        };
        let mut summary = Summary::default();
        summary.add(&head);
        summary.add(&Record { result: 5, ..head });
        summary.add(&Record { number: 39, served: 1, duration_ns: 1000, result: 1, ..head });
        let text = summary.text();
        let lines: Vec<Vec<&str>> =
            text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[2], ["85.71", "0.000006", "3", "2", "1", "0", "2", "0", "read"]);
        assert_eq!(lines[3], ["14.29", "0.000001", "1", "1", "1", "0", "0", "getpid"]);
        assert_eq!(lines.last().unwrap()[2..], ["2", "3", "1", "1", "2", "0", "total"]);
    }
}
