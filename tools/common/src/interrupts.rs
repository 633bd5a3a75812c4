//! How many interrupts of each kind a CPU took: of Linux by `/proc/interrupts`.

use hanare_sdk::Cause;
use serde::Serialize;

use crate::machine;

/// A line of the table, of one CPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Source {
    /// Number or name of the interrupt: `24`, `LOC`.
    pub name: String,
    /// Description that Linux gives of the source.
    pub what: String,
    /// Number of interrupts.
    pub count: u64,
}

impl From<&Cause> for Source {
    fn from(cause: &Cause) -> Self {
        let what = if cause.is_exception { "exception" } else { "interrupt" };
        Self { name: cause.name.clone(), what: what.into(), count: cause.count }
    }
}

/// Interrupts of a CPU until now, by kind.
pub fn of_cpu(cpu: u32) -> Option<Vec<Source>> {
    parse(&machine::read("/proc/interrupts")?, &format!("CPU{cpu}"))
}

/// All kinds together.
pub fn sum(sources: &[Source]) -> u64 {
    sources.iter().map(|source| source.count).sum()
}

/// By how much each kind has grown, the largest first; kinds that have not are left out.
pub fn grown(mut now: Vec<Source>, before: &[Source]) -> Vec<Source> {
    for source in &mut now {
        let then = before.iter().find(|then| then.name == source.name);
        source.count = source.count.saturating_sub(then.map_or(0, |then| then.count));
    }
    now.retain(|source| source.count > 0);
    now.sort_by_key(|source| std::cmp::Reverse(source.count));
    now
}

fn parse(table: &str, cpu: &str) -> Option<Vec<Source>> {
    let mut lines = table.lines();
    let header: Vec<&str> = lines.next()?.split_whitespace().collect();
    let column = header.iter().position(|&name| name == cpu)?;
    let source = |line: &str| {
        let (name, cells) = line.split_once(':')?;
        let cells: Vec<&str> = cells.split_whitespace().collect();
        let what = cells.get(header.len()..).unwrap_or_default().join(" ");
        // ERR and MIS have one number for all CPUs together.
        let count = cells.get(column).filter(|_| cells.len() >= header.len())?.parse().ok()?;
        Some(Source { name: name.trim().into(), what, count })
    };
    Some(lines.filter_map(source).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "           CPU0       CPU2
  0:          5          7   IO-APIC   2-edge      timer
LOC:         10         20   Local timer interrupts
ERR:          3
";

    #[test]
    fn a_line_has_name_count_and_description() {
        let of = |cpu| parse(TABLE, cpu);
        let sources = of("CPU2").unwrap();
        assert_eq!(sources.len(), 2);
        assert_eq!((sources[0].name.as_str(), sources[0].count), ("0", 7));
        assert_eq!(sources[1].what, "Local timer interrupts");
        assert_eq!((sum(&sources), of("CPU0").map(|all| sum(&all))), (27, Some(15)));
        assert_eq!(of("CPU1"), None);
    }

    #[test]
    fn what_has_grown_is_listed_the_largest_first() {
        let source = |name: &str, count| Source { name: name.into(), what: String::new(), count };
        let before = [source("0", 7), source("LOC", 20)];
        let now = vec![source("0", 8), source("LOC", 30), source("TLB", 0), source("24", 2)];
        assert_eq!(grown(now, &before), [source("LOC", 10), source("24", 2), source("0", 1)]);
    }
}
