//! The place where one kernel reaches the machine of the other: of the module the layer
//! `transport`, of the LWK the file that sends a doorbell. Nothing else translates addresses of the
//! LWK, sends it interrupts or reads its TSC, so that a second transport has one place to go.

use crate::layers::c;
use crate::sources::Source;

/// Names of Linux' machine: address and frame translations, the local APIC, and the TSC.
const MACHINE: &[&str] = &[
    "APIC_DM_FIXED",
    "APIC_DM_INIT",
    "APIC_DM_STARTUP",
    "APIC_ICR",
    "__pa",
    "__phys_addr",
    "__va",
    "apic",
    "apic_icr_write",
    "memory_failure_queue",
    "page_to_pfn",
    "page_to_phys",
    "pfn_to_kaddr",
    "pfn_to_page",
    "pfn_to_virt",
    "phys_to_virt",
    "rdtsc",
    "rdtsc_ordered",
    "tsc_khz",
    "virt_to_phys",
    "x86_cpu_to_apicid",
];
/// Layers of the module that may name each of them.
const TRANSPORT: &str = "module/transport/";
/// Frames and CPUs while they are Linux', and what becomes of one that is bad.
const TAKEN: (&str, &[&str]) = (
    "module/machine/partition.c",
    &["memory_failure_queue", "page_to_pfn", "pfn_to_page", "x86_cpu_to_apicid"],
);

/// Sending an interrupt, in the LWK.
const SEND: &str = "apic::send(";
/// Senders of interrupts: to Linux, and to CPUs of the LWK itself.
const SENDERS: &[&str] = &["kernel/src/sched/doorbell.rs", "kernel/src/sched/attention.rs"];

/// Complains about a file that reaches the other kernel's machine by itself.
pub fn check(sources: &[&Source]) -> Vec<String> {
    sources.iter().flat_map(|source| module(source).into_iter().chain(lwk(source))).collect()
}

fn module(source: &Source) -> Vec<String> {
    let path = source.path.as_str();
    if !path.starts_with("module/") || !source.is(&["c", "h"]) || path.starts_with(TRANSPORT) {
        return Vec::new();
    }
    let may = |name: &str| path == TAKEN.0 && TAKEN.1.contains(&name);
    let named = c::mentions(path, &source.text).into_iter();
    let named = named.filter(|&(_, name)| MACHINE.contains(&name) && !may(name));
    let complain = |(line, name): (usize, &str)| {
        format!("{path}:{line}: {name} is for {TRANSPORT} alone: see transport/transport.h")
    };
    named.map(complain).collect()
}

fn lwk(source: &Source) -> Vec<String> {
    let path = source.path.as_str();
    if !path.starts_with("kernel/src/") || SENDERS.contains(&path) {
        return Vec::new();
    }
    let lines = (1..).zip(source.text.lines()).filter(|(_, line)| line.contains(SEND));
    lines.map(|(line, _)| format!("{path}:{line}: interrupts are sent by {SENDERS:?}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(path: &str, text: &str) -> Vec<String> {
        check(&[&Source { path: path.into(), text: text.into() }])
    }

    #[test]
    fn frames_are_translated_by_the_transport() {
        let text = "/* phys_to_virt */\nvoid *f(u64 a)\n{\n\treturn phys_to_virt(a);\n}\n";
        assert_eq!(
            complaints("module/space/fault.c", text),
            [
                "module/space/fault.c:4: phys_to_virt is for module/transport/ alone: see transport/transport.h"
            ]
        );
        assert!(complaints("module/transport/local.c", text).is_empty());
        assert!(complaints("tests/module/a.c", text).is_empty());
    }

    #[test]
    fn inline_functions_and_macros_count() {
        let inline = "static inline u64 f(void)\n{\n\treturn rdtsc();\n}\n";
        assert_eq!(complaints("module/link/link.h", inline).len(), 1);
        assert_eq!(complaints("module/link/link.h", "#define NOW() rdtsc_ordered()\n").len(), 1);
    }

    #[test]
    fn members_are_not_the_machine() {
        let text = "u32 f(struct t *t)\n{\n\treturn t->tsc_khz(t) + t->apic;\n}\n";
        assert!(complaints("module/link/clock.c", text).is_empty());
    }

    #[test]
    fn frames_are_linux_own_before_they_are_taken() {
        let text = "void f(u64 a)\n{\n\t__free_page(pfn_to_page(a));\n}\n";
        assert!(complaints("module/machine/partition.c", text).is_empty());
        assert_eq!(complaints("module/machine/topology.c", text).len(), 1);
        let text = "u64 f(void)\n{\n\treturn rdtsc();\n}\n";
        assert_eq!(complaints("module/machine/partition.c", text).len(), 1);
    }

    #[test]
    fn one_file_of_the_lwk_rings_linux() {
        let text = "fn f() {\n    apic::send(0, 0);\n}\n";
        assert_eq!(complaints("kernel/src/link/direct.rs", text).len(), 1);
        assert!(complaints("kernel/src/sched/doorbell.rs", text).is_empty());
    }
}
