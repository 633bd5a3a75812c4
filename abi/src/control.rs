//! Control requests: what the LWK asks of a proxy on its own account, not for a call of the
//! program's.
//!
//! A request lies in a worker's slot (`SLOT_CONTROL`): `nr` is its number, `args` are its fields in
//! their order, a word each, and zeros behind them. It goes to a worker that is in no call: that of
//! the thread which asks, or one without a thread. Which requests are about the worker itself, and
//! which about its process, is said in `docs/link.md`.

/// [`Control::Serve`].
pub const CONTROL_SERVE: u32 = 0;
/// [`Control::ExitSignal`].
pub const CONTROL_EXIT_SIGNAL: u32 = 1;
/// [`Control::StartFailed`].
pub const CONTROL_START_FAILED: u32 = 2;
/// [`Control::SignalAction`].
pub const CONTROL_SIGNAL_ACTION: u32 = 3;
/// [`Control::Execed`].
pub const CONTROL_EXECED: u32 = 4;
/// [`Control::Remap`].
pub const CONTROL_REMAP: u32 = 5;
/// [`Control::TakeMask`].
pub const CONTROL_TAKE_MASK: u32 = 6;
/// [`Control::StopSignal`].
pub const CONTROL_STOP_SIGNAL: u32 = 7;
/// [`Control::RequeueSignal`].
pub const CONTROL_REQUEUE_SIGNAL: u32 = 8;
/// [`Control::Thread`].
pub const CONTROL_THREAD: u32 = 9;
/// [`Control::ThreadExit`].
pub const CONTROL_THREAD_EXIT: u32 = 10;
/// [`Control::ThreadRenew`].
pub const CONTROL_THREAD_RENEW: u32 = 11;
/// [`Control::Rights`].
pub const CONTROL_RIGHTS: u32 = 12;
/// [`Control::Succeed`].
pub const CONTROL_SUCCEED: u32 = 13;
/// [`Control::Fork`].
pub const CONTROL_FORK: u32 = 14;
/// [`Control::Share`].
pub const CONTROL_SHARE: u32 = 15;
/// [`Control::Exec`].
pub const CONTROL_EXEC: u32 = 16;
/// [`Control::Filter`].
pub const CONTROL_FILTER: u32 = 17;
/// [`Control::Interrupt`].
pub const CONTROL_INTERRUPT: u32 = 18;
/// [`Control::Dump`].
pub const CONTROL_DUMP: u32 = 19;
/// [`Control::DumpRange`].
pub const CONTROL_DUMP_RANGE: u32 = 20;
/// [`Control::DumpThread`].
pub const CONTROL_DUMP_THREAD: u32 = 21;
/// [`Control::Trap`].
pub const CONTROL_TRAP: u32 = 22;
/// [`Control::MapPart`].
pub const CONTROL_MAP_PART: u32 = 23;
/// [`Control::Server`].
pub const CONTROL_SERVER: u32 = 24;
/// [`Control::Member`].
pub const CONTROL_MEMBER: u32 = 25;
/// [`Control::Eventfd`].
pub const CONTROL_EVENTFD: u32 = 26;

/// [`Control::Execed`]: start_code, end_code, start_data, end_data, start_brk, brk, start_stack,
/// arg_start, arg_end, env_start, env_end, address and bytes of auxv.
pub const EXECED_WORDS: usize = 13;
/// [`Control::Rights`]: for the addresses of a program and its AT_RANDOM.
pub const RANDOM_BYTES: usize = 32;
/// [`Control::Rights`]: the program's rights are others than before.
pub const RIGHTS_CHANGED: i64 = 1;
/// [`Control::Rights`]: the program has more rights than its caller (AT_SECURE).
pub const RIGHTS_SECURE: i64 = 2;
/// [`Control::Filter`]: bytes of a part, at most.
pub const FILTER_PART: usize = 4096;

/// [`Control::StartFailed`]: opening or reading the file itself failed.
pub const START_FAILED_FILE: u64 = 0;
/// The interpreter (`#!` or ELF) was not found or is bad.
pub const START_FAILED_INTERPRETER: u64 = 1;
/// Not a program this machine can run.
pub const START_FAILED_FORMAT: u64 = 2;
/// No memory.
pub const START_FAILED_MEMORY: u64 = 3;

/// [`Mirror::Default`] as a word.
pub const MIRROR_DEFAULT: u64 = 0;
/// [`Mirror::Ignore`] as a word.
pub const MIRROR_IGNORE: u64 = 1;
/// [`Mirror::Forward`] as a word.
pub const MIRROR_FORWARD: u64 = 2;

/// Value that a field of a request can have: a word that is checked where it is read.
trait Field: Sized {
    fn word(self) -> u64;
    /// `None`: no value of the type has this word.
    fn of_word(word: u64) -> Option<Self>;
}

impl Field for u64 {
    fn word(self) -> u64 {
        self
    }
    fn of_word(word: u64) -> Option<Self> {
        Some(word)
    }
}

impl Field for u32 {
    fn word(self) -> u64 {
        self.into()
    }
    fn of_word(word: u64) -> Option<Self> {
        word.try_into().ok()
    }
}

impl Field for bool {
    fn word(self) -> u64 {
        self.into()
    }
    fn of_word(word: u64) -> Option<Self> {
        (word <= 1).then_some(word == 1)
    }
}

/// The first one in the low half.
impl Field for (u32, u32) {
    fn word(self) -> u64 {
        u64::from(self.0) | u64::from(self.1) << 32
    }
    fn of_word(word: u64) -> Option<Self> {
        Some((word as u32, (word >> 32) as u32))
    }
}

macro_rules! choices {
    ($(#[$doc:meta])* $name:ident { $($(#[$of:meta])* $variant:ident = $word:expr,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name {
            $($(#[$of])* $variant,)*
        }

        impl Field for $name {
            fn word(self) -> u64 {
                match self {
                    $(Self::$variant => $word,)*
                }
            }
            fn of_word(word: u64) -> Option<Self> {
                [$(Self::$variant,)*].into_iter().find(|choice| choice.word() == word)
            }
        }
    };
}

choices! {
    /// Handling by Linux of a signal of a program's, see `docs/architecture.md`, signals.
    Mirror {
        /// The default: nothing, stop, continue.
        Default = MIRROR_DEFAULT,
        /// The program ignores it.
        Ignore = MIRROR_IGNORE,
        /// The LWK is told: the program catches it, or it is fatal by default.
        Forward = MIRROR_FORWARD,
    }
}

choices! {
    /// Contents of a range of addresses in a core dump.
    DumpKind {
        /// Unmapped.
        Nothing = 0,
        /// Mapped to be read.
        Read = 1,
        /// Mapped to be written, too.
        Write = 2,
        /// Left out: a mapping of Linux'.
        Linux = 3,
    }
}

macro_rules! requests {
    ($(
        $(#[$doc:meta])*
        $variant:ident = $number:ident $({ $($(#[$of:meta])* $field:ident: $type:ty,)+ })?
    )*) => {
        /// A control request. Results are 0 or -errno where nothing else is said.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Control {
            $($(#[$doc])* $variant $({ $($(#[$of])* $field: $type,)+ })?,)*
        }

        impl Control {
            /// The request's number, and its fields as words.
            #[must_use]
            pub fn encode(self) -> (u32, [u64; 6]) {
                match self {
                    $(Self::$variant $({ $($field,)+ })? => ($number, words([$($($field.word(),)+)?])),)*
                }
            }

            /// From what lies in a slot. `None`: it is no request.
            #[must_use]
            pub fn decode(number: u32, words: &[u64; 6]) -> Option<Self> {
                #[allow(unused_mut, reason = "some have no field")]
                let mut left = words.iter();
                let request = match number {
                    $($number => Self::$variant $({ $($field: Field::of_word(*left.next()?)?,)+ })?,)*
                    _ => return None,
                };
                left.all(|&word| word == 0).then_some(request)
            }
        }
    };
}

fn words<const N: usize>(fields: [u64; N]) -> [u64; 6] {
    let mut words = [0; 6];
    words[..N].copy_from_slice(&fields);
    words
}

requests! {
    /// Run a service of the module's: `IOCTL_SERVE` it.
    Serve = CONTROL_SERVE {
        /// Index of the service.
        service: u32,
    }
    /// End the process by a signal with the default action (never answered).
    ExitSignal = CONTROL_EXIT_SIGNAL {
        /// The signal.
        signal: u32,
    }
    /// The program could not be started: the proxy prints why and exits 127 (not found) or 126
    /// (never answered).
    StartFailed = CONTROL_START_FAILED {
        /// The error.
        errno: u32,
        /// `START_FAILED_*`.
        cause: u64,
    }
    /// Tell Linux what stands for the program's disposition of a signal.
    SignalAction = CONTROL_SIGNAL_ACTION {
        /// The signal.
        signal: u32,
        /// The disposition that Linux is to have in its place.
        mirror: Mirror,
        /// SA_RESTART, SA_NOCLDSTOP, SA_NOCLDWAIT as given.
        flags: u64,
        /// Signals that are to be ignored from now on, too: bit `n - 1` for signal `n`.
        ignored: u64,
    }
    /// execve succeeded: close close-on-exec descriptors, reset dispositions that were caught,
    /// name the process.
    Execed = CONTROL_EXECED {
        /// Address (control window) of the new program's name, zero-terminated.
        name: u64,
        /// File id of the program, or 0.
        file: u64,
        /// Address (control window) of [`EXECED_WORDS`] words for Linux' memory map, in the
        /// order of `struct prctl_mm_map`, or 0: what `/proc/PID/cmdline`, `environ` and `auxv`
        /// show.
        memory_map: u64,
        /// Address (control window) of a copy of arguments and environment, or 0: it does not
        /// fit there.
        strings: u64,
        /// Only the superuser may look into the program.
        is_hidden: bool,
    }
    /// Map the device again over a range, after a shared mapping ended there.
    Remap = CONTROL_REMAP {
        /// First address.
        start: u64,
        /// Address behind the last one.
        end: u64,
    }
    /// Map the device over a part of the application's addresses, unless that is done: something
    /// is mapped there now.
    MapPart = CONTROL_MAP_PART {
        /// The part's number, below [`PARTS`](crate::layout::PARTS).
        number: u32,
    }
    /// Take the signal mask and the list of robust futexes that the slot names, which every
    /// request does; nothing else. It also waits in the slot of a worker that is to come.
    TakeMask = CONTROL_TAKE_MASK
    /// Leave the process as it is but stop it by a signal (job control): default disposition,
    /// raise, restore when continued.
    StopSignal = CONTROL_STOP_SIGNAL {
        /// The signal.
        signal: u32,
    }
    /// Have a signal (with the siginfo at the scratch page) be pending on Linux under the mask
    /// that was just set.
    RequeueSignal = CONTROL_REQUEUE_SIGNAL {
        /// The signal.
        signal: u32,
        /// The signal is for the process; otherwise for the thread.
        for_process: bool,
        /// The signal was pending there before, and is older than what is pending now.
        is_back: bool,
    }
    /// Start one more worker, for a thread of this process. Result = its Linux thread id. It
    /// polls its slot like the first one.
    Thread = CONTROL_THREAD {
        /// Slot of the worker.
        slot: u32,
        /// CLONE_FS and CLONE_FILES where it gets a copy and does not share.
        own: u64,
    }
    /// End the worker of this slot (its thread has ended); never answered. The process goes on
    /// with its other workers.
    ThreadExit = CONTROL_THREAD_EXIT
    /// End the worker of this slot (its thread has ended), and have a new one, which is like it
    /// but for its thread id, serve the slot. The new one answers: 0; `tid` is its own then. If
    /// there can be none: -errno, `tid` is 0, and the slot is not looked at any more.
    ThreadRenew = CONTROL_THREAD_RENEW {
        /// 0, or a slot without a worker, which gets one in the same way: the request that is
        /// there already ([`Control::TakeMask`]) is its answer's.
        other: u32,
    }
    /// A new program begins on this worker's thread: its rights become what execve(2) makes of
    /// them. Result = `RIGHTS_*`, or -errno: as of [`IOCTL_RIGHTS`](crate::ioctl::IOCTL_RIGHTS).
    Rights = CONTROL_RIGHTS {
        /// Address (control window) for [`RANDOM_BYTES`] random bytes, or 0.
        random: u64,
        /// 1: nothing is more than before.
        keeps: u32,
    }
    /// The program goes on in the first worker, which gets this request: it becomes to Linux
    /// what another one is, which execve(2) was called in and which waits.
    Succeed = CONTROL_SUCCEED {
        /// Linux thread id of that worker.
        tid: u32,
    }
    /// fork of the proxy. Result in the parent = the child's process id, or -errno. The child
    /// makes the inherited descriptor its own space with `IOCTL_CHILD`, from where on it runs on
    /// the LWK, maps the control window, and serves slot 0 with the worker that came through the
    /// fork. What lies below the control window is mapped by [`Control::Remap`]s, around shared
    /// mappings that Linux has copied.
    Fork = CONTROL_FORK {
        /// For `IOCTL_CHILD`.
        token: u64,
        /// The exit signal in the low seven bits, and the flags of clone3(2) that matter to
        /// Linux (CLONE_PARENT, namespaces, CLONE_PIDFD, CLONE_FILES ..., never CLONE_VM).
        flags: u64,
        /// Field of this name in `struct clone_args`.
        pidfd: u64,
        /// Field of this name in `struct clone_args`.
        set_tid: u64,
        /// Field of this name in `struct clone_args`.
        set_tid_size: u64,
        /// Field of this name in `struct clone_args`.
        cgroup: u64,
    }
    /// clone of the proxy with its memory (CLONE_VM), but as a process of its own; it says
    /// `IOCTL_SHARE`. Result = process id, or -errno.
    Share = CONTROL_SHARE {
        /// Slot that its first worker serves.
        slot: u32,
        /// The exit signal in the low byte, and the flags of clone(2) that matter to Linux.
        flags: u64,
        /// Address for CLONE_PIDFD.
        pidfd: u64,
        /// First slot of the calling process.
        first_slot: u32,
        /// Address of the wanted process ids (`set_tid` of clone3(2)) or 0.
        set_tid: u64,
        /// Their number, and the descriptor for CLONE_INTO_CGROUP.
        ids_and_cgroup: (u32, u32),
    }
    /// execve that Linux makes: the proxy makes the execveat(2) itself. The module has Linux
    /// load the proxy again in place of the program (`module/space/program.c`); the new image
    /// takes the token to `IOCTL_CHILD`. Result = -errno; no answer if it succeeds.
    Exec = CONTROL_EXEC {
        /// For `IOCTL_CHILD`.
        token: u64,
        /// Directory that the path is relative to.
        directory: u64,
        /// Address of the path.
        path: u64,
        /// As of execveat(2), and the id of the file that the program gets open (AT_EXECFD),
        /// or 0.
        flags: (u32, u32),
        /// File ids of the program and of its ELF interpreter, or 0.
        files: (u32, u32),
        /// Address of the arguments, or 0: the path alone.
        arguments: u64,
    }
    /// Has Linux judge this worker's calls by a filter (seccomp(2)) that comes in parts, from
    /// the first on. Result = of the last part that of seccomp(2), of others 0, or -errno; then
    /// the next filter begins anew.
    Filter = CONTROL_FILTER {
        /// Address (control window) of the part.
        at: u64,
        /// Bytes of this part.
        bytes: u64,
        /// Bytes of the filter before this part.
        before: u64,
        /// Bytes of the whole filter.
        whole: u64,
        /// `SECCOMP_FILTER_FLAG_*`.
        flags: u64,
        /// Set no_new_privs first.
        confine: bool,
    }
    /// Interrupt a worker (its thread has to end): the call it is in ends as by a signal, one it
    /// has not begun is answered by `SLOT_NOT_STARTED`.
    Interrupt = CONTROL_INTERRUPT {
        /// Linux thread id of the worker.
        tid: u32,
    }
    /// A core dump is about to be made. Result 1: yes, and what is mapped from now on is for it;
    /// 0: the process may not have one.
    Dump = CONTROL_DUMP
    /// For the dump: what becomes of a range.
    DumpRange = CONTROL_DUMP_RANGE {
        /// First address.
        start: u64,
        /// Address behind the last one.
        end: u64,
        /// The kind of contents that the dump shows for the range.
        kind: DumpKind,
    }
    /// The worker is dumped with its thread's registers. The thread's last request; not
    /// answered.
    DumpThread = CONTROL_DUMP_THREAD {
        /// Address (control window) of a [`crate::ioctl::DumpThread`], followed by FS base, GS
        /// base, and FPU state as `xsave` makes it.
        at: u64,
        /// The signal of the thread that makes the dump; 0: this is another thread.
        signal: u32,
    }
    /// Linux shall have a thread that is traced stop for its tracer: take a signal (with the
    /// siginfo at the scratch page), whatever the mask and the disposition say. Result 0 when
    /// the tracer has let the worker go on; what it lets through comes by `IOCTL_SIGNAL` before
    /// that.
    Trap = CONTROL_TRAP {
        /// The signal.
        signal: u32,
    }
    /// Start a server of the request box ([`crate::requestbox`]): a worker that executes calls
    /// of any slot, and serves requests in its own. Result = its Linux thread id.
    Server = CONTROL_SERVER {
        /// Slot of the server itself.
        slot: u32,
        /// Number of the server, of [`ALL_SERVERS`](crate::requestbox::ALL_SERVERS).
        number: u32,
        /// The server has CPUs of its own: a [`LinuxCpuSet`](crate::cpus::LinuxCpuSet) with at
        /// least one lies in the scratch page of its slot. Otherwise it runs where the proxy does.
        has_cpus: bool,
    }
    /// Start one more pooled proxy ([`crate::pooled`]) for the pool of this native task: a
    /// process that has what this one was started with. Result = its process id.
    Member = CONTROL_MEMBER
    /// The worker's thread is rung by an eventfd (`IOCTL_EVENTFD` for its slot).
    Eventfd = CONTROL_EVENTFD {
        /// Descriptor, or [`NO_EVENTFD`](crate::utility::NO_EVENTFD).
        descriptor: u32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The request of each number with all fields at their largest, or 0 where they have none.
    fn one_of_each() -> impl Iterator<Item = Control> {
        let fill = |number| {
            // Of the words that a field can have, the largest that all before it allow.
            let mut words = [0; 6];
            for at in 0..6 {
                words[at] =
                    [u64::MAX, u64::from(u32::MAX), 3, 2, 1, 0].into_iter().find(|&word| {
                        words[at] = word;
                        Control::decode(number, &words).is_some()
                    })?;
            }
            Control::decode(number, &words)
        };
        (0..=CONTROL_EVENTFD).filter_map(fill)
    }

    #[test]
    fn decode_gives_what_was_encoded() {
        let all: [Control; 27] = core::array::from_fn({
            let mut requests = one_of_each();
            move |_| requests.next().expect("a request for each number")
        });
        for (number, request) in (0..).zip(all) {
            let (encoded, words) = request.encode();
            assert_eq!((encoded, Control::decode(encoded, &words)), (number, Some(request)));
        }
    }

    #[test]
    fn what_is_no_request_is_not_decoded() {
        assert_eq!(Control::decode(CONTROL_EVENTFD + 1, &[0; 6]), None);
        assert_eq!(Control::decode(u32::MAX, &[0; 6]), None);
        // A word too large for its field, a choice that there is not, words behind the last
        // field.
        assert_eq!(Control::decode(CONTROL_SERVE, &[1 << 32, 0, 0, 0, 0, 0]), None);
        assert_eq!(Control::decode(CONTROL_SIGNAL_ACTION, &[1, 3, 0, 0, 0, 0]), None);
        assert_eq!(Control::decode(CONTROL_REQUEUE_SIGNAL, &[1, 2, 0, 0, 0, 0]), None);
        assert_eq!(Control::decode(CONTROL_DUMP_RANGE, &[1, 2, 4, 0, 0, 0]), None);
        assert_eq!(Control::decode(CONTROL_TAKE_MASK, &[0, 0, 0, 0, 0, 1]), None);
    }

    #[test]
    fn two_numbers_share_a_word() {
        let request = Control::Share {
            slot: 1,
            flags: 2,
            pidfd: 3,
            first_slot: 4,
            set_tid: 5,
            ids_and_cgroup: (6, 7),
        };
        assert_eq!(request.encode(), (CONTROL_SHARE, [1, 2, 3, 4, 5, 7 << 32 | 6]));
    }
}
