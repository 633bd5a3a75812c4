//! The start block: what the program is started with.

use hanare_abi::layout::START_SIZE;
use hanare_abi::start::{
    START_COPIED, START_KEEPS, START_MAPPED, START_NO_RANDOM, START_STATS, StartBlock,
};
use hanare_abi::{MAGIC, VERSION};
use linux_raw_sys::auxvec::{AT_CLKTCK, AT_HWCAP, AT_HWCAP2, AT_SECURE};
use linux_raw_sys::errno::E2BIG;
use linux_raw_sys::general::{RLIMIT_AS, RLIMIT_CPU, RLIMIT_DATA, RLIMIT_STACK, rlimit64};

use crate::base::message::{EXIT_CANNOT_RUN, Text, die};
use crate::base::options::Options;
use crate::process::attach::Space;
use crate::sys::shared::{Initial, Window};
use crate::sys::signal::{self, Action, Mask};
use crate::sys::{self, Errno};

/// personality(2): no randomisation.
const ADDR_NO_RANDOMIZE: u32 = 0x4_0000;

/// State that the process inherited, as far as the proxy changes it.
pub struct Inherited {
    /// Blocked signals.
    pub sigmask: Mask,
    /// Ignored signals.
    pub sigignore: Mask,
    /// RLIMIT_STACK of the process that started `hanare run`.
    pub stack: rlimit64,
    /// RLIMIT_AS.
    pub address_space: rlimit64,
}

impl Inherited {
    /// Reads all of the inherited state, before the proxy changes anything.
    pub fn look(options: &Options) -> Self {
        let sigmask = signal::set_mask(!0);
        signal::set_mask(sigmask);
        let mut stack = limit(RLIMIT_STACK);
        if let Some((soft, hard)) = options.stack {
            stack = rlimit64 { rlim_cur: soft, rlim_max: hard };
        }
        Self { sigmask, sigignore: ignored(), stack, address_space: limit(RLIMIT_AS) }
    }

    /// Gives the application the stack limit that its caller had.
    pub fn restore_stack_limit(&self) {
        let _ = sys::set_limit(RLIMIT_STACK, &self.stack);
    }
}

/// The signals that are ignored.
fn ignored() -> Mask {
    let ignored = |&signal: &u32| signal::action(signal) == Ok(Action::Ignore);
    (1..=signal::LAST).filter(ignored).map(signal::bit).sum()
}

fn limit(resource: u32) -> rlimit64 {
    sys::get_limit(resource).unwrap_or(rlimit64 { rlim_cur: u64::MAX, rlim_max: u64::MAX })
}

/// Writes the start block.
pub fn write(space: &Space, initial: &Initial, options: &Options, inherited: &Inherited) {
    let strings_offset = size_of::<StartBlock>();
    let mut strings = Strings { window: space.window, offset: strings_offset };
    if strings.push_all(initial, options).is_none() {
        die(
            EXIT_CANNOT_RUN,
            format_args!(
                "{}: {}: arguments and environment take more than {} MiB",
                Text(options.path),
                Errno(E2BIG),
                START_SIZE >> 20
            ),
        );
    }
    let block = header(space, initial, options, inherited, strings.offset);
    space.window.write_start_block(&block);
}

/// Writes strings one behind the other.
struct Strings {
    window: Window,
    offset: usize,
}

impl Strings {
    /// Path, arguments, environment; `None`: they do not fit.
    fn push_all(&mut self, initial: &Initial, options: &Options) -> Option<()> {
        self.push(options.path.to_bytes_with_nul())?;
        for index in options.first_argument..initial.argc {
            self.push(initial.argument(index).to_bytes_with_nul())?;
        }
        for index in 0..initial.envc {
            self.push(initial.environment(index).to_bytes_with_nul())?;
        }
        Some(())
    }

    fn push(&mut self, string: &[u8]) -> Option<()> {
        let end = self.offset.checked_add(string.len())?;
        if end > START_SIZE as usize {
            return None;
        }
        self.window.write_start(self.offset, string);
        self.offset = end;
        Some(())
    }
}

fn header(
    space: &Space,
    initial: &Initial,
    options: &Options,
    inherited: &Inherited,
    total_size: usize,
) -> StartBlock {
    let mut random = [0; 32];
    let _ = sys::random(&mut random);
    let mut flags = options.dispatch;
    if sys::personality() & ADDR_NO_RANDOMIZE != 0 {
        flags |= START_NO_RANDOM;
    }
    if options.stats {
        flags |= START_STATS;
    }
    if options.keeps {
        flags |= START_KEEPS;
    }
    flags |= match options.copies {
        Some(true) => START_COPIED,
        Some(false) => START_MAPPED,
        None => 0,
    };
    let cpu = limit(RLIMIT_CPU);
    StartBlock {
        magic: MAGIC,
        version: VERSION,
        strings_offset: size_of::<StartBlock>() as u32,
        total_size: total_size as u64,
        argc: (initial.argc - options.first_argument) as u32,
        envc: initial.envc as u32,
        secure: initial.auxiliary(AT_SECURE) as u32,
        control_fd: space.fd,
        sigmask: inherited.sigmask,
        sigignore: inherited.sigignore,
        stack_soft: inherited.stack.rlim_cur,
        stack_hard: inherited.stack.rlim_max,
        as_soft: inherited.address_space.rlim_cur,
        data_soft: limit(RLIMIT_DATA).rlim_cur,
        random,
        hwcap: initial.auxiliary(AT_HWCAP),
        hwcap2: initial.auxiliary(AT_HWCAP2),
        clktck: initial.auxiliary(AT_CLKTCK),
        flags,
        cpu_soft: cpu.rlim_cur,
        cpu_hard: cpu.rlim_max,
    }
}
