//! Machine checks: from what the banks of a CPU say to what is done about it.
//!
//! Sources: SDM volume 3, chapter 17 "Machine-check architecture" (15 in older ones): 17.3.1.2
//! `IA32_MCG_STATUS`, 17.3.2.2 `IA32_MCi_STATUS`, 17.6 recovery of uncorrected recoverable errors,
//! 17.9.3 their codes; for AMD its manual volume 2, 9.3.2 and 9.3.3, and CPUID 8000_0007 EBX.

/// Most banks that a CPU has behind the MSRs 0x400 to 0x47f.
pub const BANKS_MAX: usize = 32;

/// Bits of `IA32_MCG_STATUS`.
pub mod global {
    /// The program can go on where it was interrupted.
    pub const RESTART_VALID: u64 = 1;
    /// The instruction pointer of the frame has to do with the error.
    pub const ERROR_IP_VALID: u64 = 1 << 1;
    /// A machine check is being handled: another one would reset the machine.
    pub const IN_PROGRESS: u64 = 1 << 2;
}

/// Bits of `IA32_MCi_STATUS`.
pub mod status {
    #![allow(missing_docs)]
    pub const VALID: u64 = 1 << 63;
    /// Another error came before this one was read, and is lost.
    pub const OVERFLOW: u64 = 1 << 62;
    pub const UNCORRECTED: u64 = 1 << 61;
    /// Reporting of this error by an exception is switched on.
    pub const ENABLED: u64 = 1 << 60;
    pub const MISC_VALID: u64 = 1 << 59;
    pub const ADDRESS_VALID: u64 = 1 << 58;
    /// The state of the processor is not to be relied on.
    pub const CONTEXT_CORRUPT: u64 = 1 << 57;
    /// Intel, with software recovery: an exception told of it.
    pub const SIGNALED: u64 = 1 << 56;
    /// Intel, with software recovery: the program must not go on as if nothing was.
    pub const ACTION_REQUIRED: u64 = 1 << 55;
    /// AMD: found and not used yet; nothing has to be done at once.
    pub const DEFERRED: u64 = 1 << 44;
    /// AMD: data that was known to be bad was used.
    pub const POISON: u64 = 1 << 43;
    /// The architectural code of the error.
    pub const CODE: u64 = 0xffff;
    /// The code of a data load, and of an instruction fetch, that met bad memory.
    pub const CODE_DATA_LOAD: u64 = 0x134;
    /// The code of an instruction fetch that met bad memory.
    pub const CODE_FETCH: u64 = 0x150;
}

/// In `IA32_MCi_MISC`, bits 8..6: the address is a physical one.
const MISC_PHYSICAL: u64 = 2;

/// How the CPU's banks are to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rules {
    /// Intel and CPUs that behave alike: `software_recovery` is `IA32_MCG_CAP.MCG_SER_P`.
    Intel {
        /// The CPU tells which errors a program can be ended for.
        software_recovery: bool,
    },
    /// AMD: CPUID 8000_0007 EBX bits 1 and 0.
    Amd {
        /// SUCCOR: uncorrected errors are contained by software.
        containment: bool,
        /// An overflown bank is no reason to stop.
        overflow_recovery: bool,
    },
}

/// Registers of one bank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bank {
    /// `IA32_MCi_STATUS`.
    pub status: u64,
    /// `IA32_MCi_ADDR`, if `ADDRESS_VALID`, else 0.
    pub address: u64,
    /// `IA32_MCi_MISC`, if `MISC_VALID`, else 0.
    pub misc: u64,
}

/// Why the machine check is the end of the LWK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fatal {
    /// PCC.
    ContextCorrupt,
    /// Neither RIPV nor an error that ends one program only.
    NoRestart,
    /// Errors were lost.
    Overflow,
    /// The error has to be acted on, and hit the kernel.
    InKernel,
    /// The error has to be acted on, and the bank does not say what is bad.
    NoAddress,
    /// An uncorrected error of which nothing more is known.
    Uncorrected,
    /// The CPU has no banks that would say what happened.
    NoBanks,
}

impl Fatal {
    /// The reason as text, for the panic's message.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::ContextCorrupt => "the processor's state is corrupt",
            Self::NoRestart => "the interrupted code cannot go on",
            Self::Overflow => "errors were lost, one of which may have been worse",
            Self::InKernel => "it hit the kernel",
            Self::NoAddress => "the bank does not say which memory is bad",
            Self::Uncorrected => "an uncorrected error of an unknown kind",
            Self::NoBanks => "no bank of this CPU says why",
        }
    }
}

/// Meaning of the registers of one bank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// The bank has no error, or another CPU's.
    Nothing,
    /// The hardware has corrected the error.
    Corrected,
    /// Memory is bad and was not used: nothing has to be done at once. Its address, if known.
    Latent(Option<u64>),
    /// The running program used bad memory at this physical address.
    Consumed(u64),
    /// The LWK cannot go on.
    Fatal(Fatal),
}

/// Action that a machine check calls for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The interrupted code goes on: the error was corrected, not used, or another CPU's.
    Continue,
    /// The running program gets SIGBUS for the page of this physical address.
    EndProgram(u64),
    /// Panic: the bank and why.
    Panic(Option<usize>, Fatal),
}

/// Meaning of a bank that was read in a machine check (`in_exception`) or outside of one.
#[must_use]
pub fn meaning(
    rules: Rules,
    global: u64,
    bank: &Bank,
    from_user: bool,
    in_exception: bool,
) -> Meaning {
    let has = |bit| bank.status & bit != 0;
    if !has(status::VALID) {
        return Meaning::Nothing;
    }
    if !has(status::UNCORRECTED) && !has(status::CONTEXT_CORRUPT) {
        let latent = matches!(rules, Rules::Amd { .. }) && has(status::DEFERRED);
        return if latent { Meaning::Latent(address(rules, bank)) } else { Meaning::Corrected };
    }
    if in_exception && !has(status::ENABLED) {
        return Meaning::Nothing; // left from before reporting was switched on
    }
    if has(status::CONTEXT_CORRUPT) {
        return Meaning::Fatal(Fatal::ContextCorrupt);
    }
    match rules {
        Rules::Intel { software_recovery: true } => intel(global, bank, from_user, in_exception),
        Rules::Amd { containment: true, overflow_recovery } => {
            if has(status::OVERFLOW) && !overflow_recovery {
                return Meaning::Fatal(Fatal::Overflow);
            }
            consumed(rules, bank, from_user)
        }
        Rules::Intel { .. } | Rules::Amd { .. } => Meaning::Fatal(Fatal::Uncorrected),
    }
}

/// SDM 17.6.3: uncorrected, not fatal by itself.
fn intel(global: u64, bank: &Bank, from_user: bool, in_exception: bool) -> Meaning {
    let rules = Rules::Intel { software_recovery: true };
    let has = |bit| bank.status & bit != 0;
    match (has(status::SIGNALED), has(status::ACTION_REQUIRED)) {
        (false, true) => Meaning::Fatal(Fatal::Uncorrected), // there is no such error
        (_, true) if has(status::OVERFLOW) => Meaning::Fatal(Fatal::Overflow),
        (true, true) => {
            let code = bank.status & status::CODE;
            // The bank may be shared with another thread of the core: the one that is told that
            // its instruction pointer has nothing to do with it goes on. A fetch never says so.
            let ours =
                global & global::ERROR_IP_VALID != 0 || code == status::CODE_FETCH && from_user;
            if in_exception && !ours && global & global::RESTART_VALID != 0 {
                return Meaning::Nothing;
            }
            if code != status::CODE_DATA_LOAD && code != status::CODE_FETCH {
                return Meaning::Fatal(Fatal::Uncorrected);
            }
            consumed(rules, bank, from_user)
        }
        (_, false) => Meaning::Latent(address(rules, bank)),
    }
}

fn consumed(rules: Rules, bank: &Bank, from_user: bool) -> Meaning {
    match address(rules, bank) {
        _ if !from_user => Meaning::Fatal(Fatal::InKernel),
        None => Meaning::Fatal(Fatal::NoAddress),
        Some(address) => Meaning::Consumed(address),
    }
}

/// The physical address of the bad memory, if the bank has one.
fn address(rules: Rules, bank: &Bank) -> Option<u64> {
    let has = |bit| bank.status & bit != 0;
    let physical = match rules {
        Rules::Intel { .. } => {
            has(status::MISC_VALID) && bank.misc >> 6 & 7 == MISC_PHYSICAL && bank.misc & 0x3f <= 12
        }
        Rules::Amd { .. } => has(status::POISON) || has(status::DEFERRED),
    };
    (has(status::ADDRESS_VALID) && physical).then_some(bank.address & ((1 << 52) - 1))
}

/// Action for a machine check that came with `global` (`IA32_MCG_STATUS`) and these banks.
#[must_use]
pub fn decide(rules: Rules, global: u64, banks: &[Bank], from_user: bool) -> Action {
    if banks.is_empty() {
        return Action::Panic(None, Fatal::NoBanks);
    }
    let mut action = Action::Continue;
    for (i, bank) in banks.iter().enumerate() {
        match meaning(rules, global, bank, from_user, true) {
            Meaning::Fatal(why) => return Action::Panic(Some(i), why),
            Meaning::Consumed(address) => action = Action::EndProgram(address),
            Meaning::Nothing | Meaning::Corrected | Meaning::Latent(_) => {}
        }
    }
    // Without IN_PROGRESS no hardware has raised it: nothing can be wrong with the frame.
    let restartable = global & (global::RESTART_VALID | global::IN_PROGRESS) != global::IN_PROGRESS;
    if restartable { action } else { Action::Panic(None, Fatal::NoRestart) }
}

#[cfg(test)]
mod tests;
