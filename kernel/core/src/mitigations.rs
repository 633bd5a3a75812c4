//! Leaks of the CPU and what is done about them: decided once at boot, from what Linux found out
//! about the CPU, what the CPU says it can do, and the boot options.
//!
//! Linux knows its CPUs by vendor, family, model, stepping and IA32_ARCH_CAPABILITIES
//! (`cpu_vuln_whitelist`, arch/x86/kernel/cpu/common.c); the module passes that on, so that both
//! kernels judge one CPU alike and a list that grows is kept in one place. What is done about a
//! leak is chosen as arch/x86/kernel/cpu/bugs.c does.

use hanare_abi::boot::*;

/// The boot options about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Policy {
    /// `mitigations=off`: nothing that costs anything is done.
    pub off: bool,
    /// `pti=`: page-table isolation whatever the CPU is; `None`: if it needs it.
    pub isolation: Option<bool>,
}

/// Registers of CPUID and IA32_ARCH_CAPABILITIES, as read.
#[derive(Clone, Copy, Debug, Default)]
pub struct Processor {
    /// CPUID 7.0, edx (SDM volume 2, CPUID).
    pub leaf7_edx: u32,
    /// CPUID 7.2, edx (SDM volume 2, CPUID).
    pub leaf7_2_edx: u32,
    /// CPUID 8000_0008, ebx (AMD APM volume 3, appendix E).
    pub leaf8000_0008_ebx: u32,
    /// CPUID 8000_0021, eax (AMD APM volume 3, appendix E).
    pub leaf8000_0021_eax: u32,
    /// MSR 0x10a; 0 where there is none (SDM volume 4, table 2-2).
    pub arch_capabilities: u64,
}

impl Processor {
    /// Measures of this CPU against trained predictors: `MEASURE_*`.
    fn predictors(&self) -> u32 {
        let has =
            |word: u64, bit: u32, measure: u32| if word >> bit & 1 != 0 { measure } else { 0 };
        let (intel, amd) = (u64::from(self.leaf7_edx), u64::from(self.leaf8000_0008_ebx));
        // IBRS_ALL; and the CPU has SPEC_CTRL.
        let enhanced = has(intel, 26, has(self.arch_capabilities, 1, MEASURE_IBRS));
        let automatic = has(u64::from(self.leaf8000_0021_eax), 8, MEASURE_AUTO_IBRS);
        // There are no retpolines, for which Linux leaves this one where it can.
        let at_entry = if enhanced | automatic != 0 {
            0
        } else {
            has(intel, 26, MEASURE_ENTRY_IBRS) | has(amd, 14, MEASURE_ENTRY_IBRS)
        };
        let barrier = has(intel, 26, MEASURE_IBPB) | has(amd, 12, MEASURE_IBPB);
        // Enhanced IBRS holds siblings apart as well, the automatic one does so only in the kernel
        // (`spectre_v2_in_eibrs_mode` and its use in bugs.c).
        let apart = if enhanced != 0 {
            0
        } else {
            has(intel, 27, MEASURE_STIBP) | has(amd, 15, MEASURE_STIBP)
        };
        enhanced | automatic | at_entry | barrier | apart | MEASURE_FILL_RSB
    }

    /// The measure against BHI: what the CPU has for it (BHI_CTRL), else the history is cleared at
    /// each system call (`bhi_select_mitigation` in bugs.c; there are no retpolines that would make
    /// it needless).
    fn history(&self) -> u32 {
        if self.leaf7_2_edx & 1 << 4 != 0 { MEASURE_BHI_DIS } else { MEASURE_CLEAR_HISTORY }
    }

    /// Whether `verw` clears what leaks. Of several leaks each needs its own word for it.
    fn verw_clears(&self, leaks: u32) -> bool {
        let md_clear = self.leaf7_edx & 1 << 10 != 0;
        let fb_clear = self.arch_capabilities & 1 << 17 != 0;
        let rfds_clear = self.arch_capabilities & 1 << 28 != 0;
        let tsa_clear = self.leaf8000_0021_eax & 1 << 5 != 0;
        // FB_CLEAR is said to be implied by MD_CLEAR of parts with MDS and TAA
        // (Documentation/admin-guide/hw-vuln/processor_mmio_stale_data.rst).
        let mmio = fb_clear || md_clear && leaks & (LEAK_MDS | LEAK_TAA) != 0;
        [
            (LEAK_MDS | LEAK_TAA, md_clear),
            (LEAK_MMIO, mmio),
            (LEAK_RFDS, rfds_clear),
            (LEAK_TSA, tsa_clear),
        ]
        .into_iter()
        .all(|(leak, clears)| leaks & leak == 0 || clears)
    }
}

/// Leaks out of buffers that `verw` clears.
const BUFFERS: u32 = LEAK_MDS | LEAK_TAA | LEAK_MMIO | LEAK_RFDS | LEAK_TSA;

/// Measures against `leaks` of this CPU: `MEASURE_*`.
pub fn choose(policy: Policy, leaks: u32, cpu: &Processor) -> u32 {
    let auto = |leak: u32, measure: u32| if !policy.off && leaks & leak != 0 { measure } else { 0 };
    let isolated = policy.isolation.unwrap_or(auto(LEAK_MELTDOWN, 1) != 0);
    let mut measures = if isolated { MEASURE_ISOLATION } else { 0 };
    // As Linux, also where the CPU does not say that it helps: a hypervisor may hide that.
    measures |= auto(BUFFERS, MEASURE_CLEAR_BUFFERS);
    if measures & MEASURE_CLEAR_BUFFERS != 0 && cpu.verw_clears(leaks) {
        measures |= MEASURE_HAS_MICROCODE;
    }
    measures
        | auto(LEAK_SWAPGS, MEASURE_FENCE_SWAPGS)
        | auto(LEAK_SPECTRE_V2, cpu.predictors())
        | auto(LEAK_BHI, cpu.history())
}

#[cfg(test)]
mod tests {
    use super::*;

    const AUTO: Policy = Policy { off: false, isolation: None };
    const OFF: Policy = Policy { off: true, isolation: None };
    /// As Linux finds them: Skylake with the microcode of 2020; a Zen 2; a Sapphire Rapids.
    const SKYLAKE: u32 = LEAK_MELTDOWN
        | LEAK_SPECTRE_V1
        | LEAK_SPECTRE_V2
        | LEAK_SWAPGS
        | LEAK_MDS
        | LEAK_TAA
        | LEAK_MMIO;
    const ZEN2: u32 = LEAK_SPECTRE_V1 | LEAK_SPECTRE_V2;
    const SAPPHIRE_RAPIDS: u32 = LEAK_SPECTRE_V1 | LEAK_SPECTRE_V2 | LEAK_SWAPGS;

    #[test]
    fn a_cpu_gets_what_it_needs() {
        let cpu = Processor { leaf7_edx: 1 << 10, ..Processor::default() };
        assert_eq!(
            choose(AUTO, SKYLAKE, &cpu),
            MEASURE_ISOLATION
                | MEASURE_CLEAR_BUFFERS
                | MEASURE_HAS_MICROCODE
                | MEASURE_FENCE_SWAPGS
                | MEASURE_FILL_RSB
        );
        assert_eq!(choose(AUTO, ZEN2, &cpu), MEASURE_FILL_RSB);
        assert_eq!(choose(AUTO, SAPPHIRE_RAPIDS, &cpu), MEASURE_FENCE_SWAPGS | MEASURE_FILL_RSB);
        assert_eq!(choose(AUTO, 0, &Processor { leaf7_edx: u32::MAX, ..cpu }), 0);
    }

    #[test]
    fn predictors_by_what_the_cpu_has() {
        let of = |cpu: Processor| choose(AUTO, LEAK_SPECTRE_V2, &cpu) & !MEASURE_FILL_RSB;
        let none = Processor::default();
        let skylake = Processor { leaf7_edx: 3 << 26, ..none };
        assert_eq!(of(skylake), MEASURE_ENTRY_IBRS | MEASURE_IBPB | MEASURE_STIBP);
        assert_eq!(
            of(Processor { arch_capabilities: 1 << 1, ..skylake }),
            MEASURE_IBPB | MEASURE_IBRS
        );
        assert_eq!(of(Processor { arch_capabilities: 1 << 1, ..none }), 0, "no SPEC_CTRL");
        let zen2 = Processor { leaf8000_0008_ebx: 1 << 12 | 1 << 14 | 1 << 15, ..none };
        assert_eq!(of(zen2), MEASURE_ENTRY_IBRS | MEASURE_IBPB | MEASURE_STIBP);
        let zen1 = Processor { leaf8000_0008_ebx: 1 << 12, ..none };
        assert_eq!(of(zen1), MEASURE_IBPB);
        let zen4 = Processor { leaf8000_0021_eax: 1 << 8, ..zen2 };
        assert_eq!(of(zen4), MEASURE_IBPB | MEASURE_STIBP | MEASURE_AUTO_IBRS);
    }

    #[test]
    fn branch_history_is_kept_from_the_kernel_where_the_cpu_needs_it() {
        let ice_lake =
            Processor { leaf7_edx: 3 << 26, arch_capabilities: 1 << 1, ..Processor::default() };
        let alder_lake = Processor { leaf7_2_edx: 1 << 4, ..ice_lake };
        let of = |policy, leaks, cpu| {
            choose(policy, leaks, &cpu) & (MEASURE_BHI_DIS | MEASURE_CLEAR_HISTORY)
        };
        let leaks = LEAK_SPECTRE_V2 | LEAK_BHI;
        assert_eq!(of(AUTO, leaks, ice_lake), MEASURE_CLEAR_HISTORY);
        assert_eq!(of(AUTO, leaks, alder_lake), MEASURE_BHI_DIS);
        assert_eq!(of(AUTO, LEAK_SPECTRE_V2, alder_lake), 0, "Linux says that it is not affected");
        assert_eq!(of(OFF, leaks, ice_lake) | of(OFF, leaks, alder_lake), 0);
    }

    #[test]
    fn off_is_off_but_for_what_is_asked_for() {
        let cpu = Processor::default();
        assert_eq!(choose(OFF, u32::MAX, &cpu), 0);
        assert_eq!(
            choose(Policy { isolation: Some(true), ..OFF }, u32::MAX, &cpu),
            MEASURE_ISOLATION
        );
        assert_eq!(choose(Policy { isolation: Some(true), ..AUTO }, 0, &cpu), MEASURE_ISOLATION);
        assert_eq!(
            choose(Policy { isolation: Some(false), ..AUTO }, SKYLAKE, &cpu) & MEASURE_ISOLATION,
            0
        );
    }

    #[test]
    fn verw_helps_only_where_the_cpu_says_so_of_each_leak() {
        let said = |leaks, leaf7_edx, arch_capabilities, leaf8000_0021_eax| {
            let cpu = Processor {
                leaf7_edx,
                leaf8000_0021_eax,
                arch_capabilities,
                ..Processor::default()
            };
            let measures = choose(AUTO, leaks, &cpu);
            assert_ne!(measures & MEASURE_CLEAR_BUFFERS, 0, "tried all the same");
            measures & MEASURE_HAS_MICROCODE != 0
        };
        assert!(!said(LEAK_MDS, 0, 0, 0));
        assert!(said(LEAK_MDS | LEAK_TAA | LEAK_MMIO, 1 << 10, 0, 0));
        assert!(!said(LEAK_MMIO, 1 << 10, 0, 0), "no MDS: needs FB_CLEAR");
        assert!(said(LEAK_MMIO, 0, 1 << 17, 0));
        assert!(!said(LEAK_RFDS | LEAK_MMIO, 1 << 10, 1 << 17, 0));
        assert!(said(LEAK_RFDS, 0, 1 << 28, 0));
        assert!(!said(LEAK_TSA, 1 << 10, 0, 0));
        assert!(said(LEAK_TSA, 0, 0, 1 << 5));
    }
}
