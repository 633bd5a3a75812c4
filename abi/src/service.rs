//! Services: what the LWK asks of the module on its own account, in whatever
//! Linux context is at hand.
//!
//! An entry is written by the LWK and lies in the shared region, where no proxy
//! can forge it. It is run by one of three executors:
//! - the worker of the thread that needs it: control request [`crate::control::Control::Serve`]
//!   with the index; the worker hands it to the module (`IOCTL_SERVE`), which
//!   checks that the entry belongs to the worker's space;
//! - a task whose page fault needs it first (`STATUS_SERVE_FIRST`), of the entry's space, too;
//! - the module's service thread (`EVENT_SERVICE`), only kinds that need no
//!   process: `SERVICE_HELD`, `SERVICE_ZAP`, `SERVICE_FILE_PUT`, `SERVICE_KILL`,
//!   `SERVICE_INTERRUPT`.
//!
//! `state` and `space` are one word to the module, which claims an entry by one exchange: so no
//! thread runs an entry that has become another one since it heard of it. From there until it is
//! done the entry, and the frames it names, are Linux'; before, the LWK may withdraw it.

/// Entry not in use.
pub const SERVICE_FREE: u32 = 0;
/// Filled in by the LWK, to be run by a worker.
pub const SERVICE_READY: u32 = 1;
/// Being run (module).
pub const SERVICE_RUNNING: u32 = 2;
/// Done, `status` valid (module).
pub const SERVICE_DONE: u32 = 3;
/// As `SERVICE_READY`, for a page fault.
pub const SERVICE_READY_FAULT: u32 = 4;
/// As `SERVICE_READY`, for the service thread.
pub const SERVICE_READY_THREAD: u32 = 5;

/// Take a reference to the file behind descriptor args[0] of the caller, for a
/// mapping: status = file id (> 0). Answer args: [1] = inode number, [2] = size in bytes,
/// [3] = `FILE_*` bits, [4] = dev_t as `st_dev` has it.
/// `held` is the version of its content: another one if it was changed in between; 0 if it
/// may change without that.
/// -EBADF; -ENODEV if it cannot be mapped; -EACCES if not open for reading.
pub const SERVICE_FILE_GET: u32 = 1;
/// As FILE_GET, for a program to be run: args[0] = directory descriptor, [1] = address
/// (control window) of its path, [2] = flags, as of execveat(2). It needs no descriptor,
/// and the file cannot be written (`ETXTBSY`) until the reference is dropped. It need not be
/// readable to its user (`FILE_UNREADABLE`). `extents`:
/// one of two pages, which get the file's first bytes, up to a page, and its name. Answer
/// args: [0] = bytes of the first | bytes of the name << 32; the others as of FILE_GET.
/// Also execveat's errors: -ENOENT, -EACCES, -ELOOP, -ETXTBSY and others.
pub const SERVICE_PROGRAM_GET: u32 = 10;
/// Drop references: `extents` are file ids.
pub const SERVICE_FILE_PUT: u32 = 2;
/// Read file args[0] from byte offset args[1] into the frames of `extents`
/// (args[2] = bytes wanted): status = bytes read or a negative errno. The first args[3] bytes
/// (a multiple of 4096) are waited for; behind them it ends where a page is not in Linux' page
/// cache, or where that cannot be known. Else a short count is the end of the file; the frames
/// behind it are left as they are.
pub const SERVICE_FILL: u32 = 3;
/// Remove Linux' mappings of args[0]..args[1] (addresses) from the space and, for each frame of
/// `extents`, say whether Linux still holds it: `held` bit i = extent i has at least one such
/// frame. If args[2] is not 0, answers to faults of any space of the instance that are on their way
/// into a page table are made void before the frames are looked at. An answer that was given when a
/// frame was still mapped may name the frame, and so give it to Linux later. Where that cannot be
/// done now, Linux holds all of them.
pub const SERVICE_ZAP: u32 = 4;
/// As ZAP without a range (args[0] and args[1]): only look at the frames of `extents`.
pub const SERVICE_HELD: u32 = 5;
/// Find the frames behind args[0] (address) .. + args[1] pages of the caller's
/// own (Linux) mapping, for writing if args[2]: answer `extents`, `count`;
/// status = pages found from the first on, or -EFAULT (SIGBUS), -EAGAIN. Each extent says whether
/// its frames are a device's (`EXTENT_DEVICE`) and that a watch follows them (`EXTENT_WATCHED`).
/// They are not pinned: an INVALIDATE request takes them back.
pub const SERVICE_RESOLVE: u32 = 6;
/// Watch args[0]..args[1] of the caller's memory map and send
/// `REQUEST_INVALIDATE` for what Linux changes there. status = watch id (> 0).
pub const SERVICE_WATCH: u32 = 7;
/// End watch args[0].
pub const SERVICE_UNWATCH: u32 = 8;
/// Kill the proxy of the entry's space (SIGKILL): there is no memory left and the LWK has
/// chosen that one; args: [0] = bytes in use of [1], [2] = whose they are (`OUT_*`). Its standard
/// error output is told.
pub const SERVICE_KILL: u32 = 9;
/// Limit of [`SERVICE_KILL`] that is reached: all memory of the instance.
pub const OUT_INSTANCE: u64 = 0;
/// Share of the process' user in the instance.
pub const OUT_USER: u64 = 1;
/// Share of the process' control group.
pub const OUT_GROUP: u64 = 2;
/// Memory of NUMA nodes that a policy insists on.
pub const OUT_NODES: u64 = 3;
/// Whether the worker may do something to a thread of another process, where the LWK does it: args:
/// [0] = its id, as the worker knows it, [1] = its space, [2] = `MAY_*`. A worker's own answer to
/// the call in question proves nothing: the user of a program may have replaced the proxy. status =
/// 0, -EPERM, or -ESRCH: it is not there.
pub const SERVICE_MAY: u32 = 11;

/// The name of file args[0], without a zero byte, into `extents`, one of one page: status =
/// its length.
pub const SERVICE_FILE_NAME: u32 = 12;

/// `MAY_*`: the worker traces it.
pub const MAY_TRACE: u64 = 1;
/// `MAY_*`: reach its memory by descriptor args [3], for writing if args [4], which has to be
/// of its `/proc/PID/mem`.
pub const MAY_REACH: u64 = 2;
/// `MAY_*`: change its limits.
pub const MAY_LIMIT: u64 = 3;
/// `MAY_*`: say where it runs.
pub const MAY_SCHEDULE: u64 = 4;
/// `MAY_*`: about the worker itself, whatever args [0] and [1] are: it is traced.
pub const MAY_BE_TRACED: u64 = 5;
/// `MAY_*`: the worker traces it, and Linux has let it suspend its filters
/// (`PTRACE_O_SUSPEND_SECCOMP`).
pub const MAY_SUSPEND: u64 = 6;
/// `MAY_*`: send it signals, as kill(2) has it.
pub const MAY_SIGNAL: u64 = 7;
/// `MAY_*`: a thread of the worker's process traces it: any of these hears of its stops.
pub const MAY_HEAR: u64 = 8;

/// `FILE_*`: the file is open for writing too (shared writable mappings allowed).
pub const FILE_WRITABLE: u64 = 1;
/// `FILE_*`: a regular file, not of hugetlbfs (private mappings may be read into LWK memory).
pub const FILE_REGULAR: u64 = 2;
/// `FILE_*`: the file system forbids execution (noexec).
pub const FILE_NOEXEC: u64 = 4;

/// `FILE_*`: the file is open for reading.
pub const FILE_READABLE: u64 = 32;
/// `FILE_*`: a program that its user may run and not read.
pub const FILE_UNREADABLE: u64 = 8;
/// `FILE_*`: Linux' binfmt_misc has entries that may take the program, see [`SERVICE_BINFMT`].
pub const FILE_BINFMT: u64 = 16;

/// Which pages of file args[0] Linux has in its page cache, from byte offset args[1] on, args[2]
/// of them: answer `extents`, bit i % 64 of word i / 64 for page i. All of them, where the
/// worker may not know (mincore(2)).
pub const SERVICE_CACHED: u32 = 13;

/// Interrupt the worker with the id args[0], of the entry's space, as `Control::Interrupt` does: an
/// observer of its thread, whose code it executes, has to see the thread on the LWK.
pub const SERVICE_INTERRUPT: u32 = 14;

/// The limits of a process: args[0] = id of one of its threads, as the worker knows it, [1] = its
/// space. Answer `extents`: [`LIMITS_WORDS`] words, soft and hard of each resource as prlimit(2)
/// numbers them; args: [0] = a number that later answers and requests
/// ([`crate::request::REQUEST_SPACE_LIMITS`]) have a greater one than. The soft limit of its
/// address space is [`LIMIT_LIFTED`] for Linux from then on. -ESRCH: there is no such thread.
pub const SERVICE_LIMITS: u32 = 15;
/// Resources that have limits.
pub const LIMITS: usize = 16;
/// Words of all limits ([`SERVICE_LIMITS`]).
pub const LIMITS_WORDS: usize = 2 * LIMITS;
/// Soft limit of a proxy's address space: the LWK applies its program's, while the proxy maps all
/// of the program's addresses. It is no multiple of anything that a program would choose, so what
/// is set by others is known for that; and it may be above the hard limit.
pub const LIMIT_LIFTED: u64 = 0xffff_ffff_f5a6_b000;
/// Soft limit of the stack that proxy and command set for themselves, before an image of the proxy
/// is loaded, where the program's is higher: likewise known for their own. Above it Linux may lay
/// the proxy's own memory out among the application's addresses.
pub const STACK_LIMIT_OF_PROXY: u64 = (64 << 20) - 0x5_b000;
const _: () = assert!(LIMITS_WORDS <= EXTENTS_MAX);
/// The texts of the files of Linux' binfmt_misc, where the worker has that mounted, from number
/// args[2] on, to the worker's address args[0], of args[1] bytes. Each has a zero behind it. They
/// come in the order in which Linux looks at the entries, as many as fit; the last one is the file
/// `status`. Answer args: [0] = bytes, [1] = the number to go on with, or 0: these were all; if
/// what has that number is removed meanwhile, it goes on with the first one. -ENOENT: it is not
/// mounted.
pub const SERVICE_BINFMT: u32 = 17;
/// Descriptors in an execve(2): closes those that close on exec, and then opens file args[0] for
/// the program (AT_EXECFD). status = the descriptor.
pub const SERVICE_EXEC_FILE: u32 = 18;
/// How long file args[0] is now: status = bytes.
pub const SERVICE_FILE_SIZE: u32 = 16;

/// Take a reference to the file behind descriptor args[0] of the caller, for a driver of the LWK's.
/// args[1] = the device that it has to be, as `st_rdev` has it; [2] = 1 if a block device. [3] = 0,
/// or 1 more than the number of a grant with queues: then it has to be one of that device's
/// namespaces, or a part of one, and open with O_DIRECT. The answer is as of FILE_GET, and args:
/// [0] = flags of open(2) that the file has; `extents`, of a namespace: [`CLAIM_WORDS`] words.
/// -EBADF. -ENODEV: it is another file, or one that is read and written in order only.
pub const SERVICE_CLAIM: u32 = 24;
/// Number of words of an answer about a namespace. A word of Linux' is two of them: its physical
/// address, and a mask of the bits that count. It may change at any time.
pub const CLAIM_WORDS: usize = 17;
/// `CLAIM_*`: number of the namespace.
pub const CLAIM_NAMESPACE: usize = 0;
/// `CLAIM_*`: logarithm of the bytes of a block.
pub const CLAIM_BLOCK_SHIFT: usize = 1;
/// `CLAIM_*`: first byte of the part.
pub const CLAIM_FIRST: usize = 2;
/// `CLAIM_*`: pages of the part in Linux' page cache, a word of Linux'.
pub const CLAIM_CACHED: usize = 3;
/// `CLAIM_*`: length of the part in sectors of 512 bytes, a word of Linux'.
pub const CLAIM_SECTORS: usize = 5;
/// `CLAIM_*`: likewise of the whole disk.
pub const CLAIM_DISK_SECTORS: usize = 7;
/// `CLAIM_*`: somebody has the part for himself unless it is 0, a word of Linux'.
pub const CLAIM_HOLDER: usize = 9;
/// `CLAIM_*`: it may not be written to unless this is 0, a word of Linux'.
pub const CLAIM_READ_ONLY: usize = 11;
/// `CLAIM_*`: likewise of the whole disk.
pub const CLAIM_DISK_READ_ONLY: usize = 13;
/// `CLAIM_*`: changes when Linux could not write what it had in its page cache, a word of Linux'.
pub const CLAIM_ERROR: usize = 15;

/// Has the controller of grant args[0] give up the queues of the CPU with index args[1], and make
/// new ones, unless it has done so since round args[2]. Later their words in the shared region say
/// so ([`crate::grant::GrantQueue`]); until then the LWK does not use the queues, and may ask
/// again. -ENODEV: the device is gone.
pub const SERVICE_QUEUE: u32 = 25;

/// Descriptor args[0] of the caller, a listener of Linux' (`SECCOMP_FILTER_FLAG_NEW_LISTENER`), is
/// replaced by one that also tells of calls which the LWK serves: status = the descriptor; answer
/// args: [0] = id of the listener (> 0), which no other one gets. -EBADF; -EINVAL: it is none.
pub const SERVICE_LISTENER: u32 = 19;
/// The worker is about to make a call. In place of it listener args[0] is told what `extents` say:
/// [`CALL_WORDS`] words, the call's number, the address behind its instruction, and its arguments.
/// Arguments: [1]: `NOTIFY_*`; [2] = the first slot of the calling process; [3] = the id of the
/// thread that calls, as the worker knows it: no other thread makes the call. The status is a
/// number (> 0), by which the call is known. -ENOSYS: there is no such listener any more; -ESRCH:
/// the process has no such thread.
pub const SERVICE_NOTIFY: u32 = 20;
/// Words of a call in [`SERVICE_NOTIFY`].
pub const CALL_WORDS: usize = 8;
/// The worker makes `NR_NOTIFY` with the number as its argument.
pub const NOTIFY_ALONE: u64 = 0;
/// The worker makes an execve of its own.
pub const NOTIFY_EXECVE: u64 = 1;
/// Whether listener args[0] has let the call go on that is known by args[1]: status = 1, or 0. It
/// is forgotten. args[1] = 0: whether there is such a listener still.
pub const SERVICE_CONTINUED: u32 = 21;
/// The worker has made a child that does not come, and whose maker goes on. Argument 0 is the
/// child's process id, as the worker knows it. Argument 1 is the first slot that it is to have in
/// the worker's space, or 0: it is to have a space of its own, for which it asks by the token in
/// argument 2. The child's end is told from now on ([`crate::request::REQUEST_CHILD_END`],
/// [`crate::request::REQUEST_PROCESS_END`]), and what it has of the worker's space stays until
/// then, or until it has come. -EAGAIN: Linux has not stopped it, so it is about to come; -EEXIST:
/// it has come; -ESRCH: there is no such process.
pub const SERVICE_CHILD: u32 = 22;

/// Linux pins pages for devices of args[0]..args[1] of the caller's memory from now on: private
/// memory that the program may write. Of such a range Linux is given pages for writing only, or
/// copies. args[2]: 1 + the descriptor that has to be a device's, or 0; [3] = `PINNABLE_*`.
/// -EOPNOTSUPP: this Linux has not refused to pin pages there. -ENOTTY: the descriptor is no
/// device's. Else what mmap(2) says.
pub const SERVICE_PINNABLE: u32 = 23;
/// Whether this Linux refuses to pin pages otherwise or not.
pub const PINNABLE_ALWAYS: u64 = 0;
/// Only if it does.
pub const PINNABLE_IF_REFUSED: u64 = 1;

/// Most extents in one service.
pub const EXTENTS_MAX: usize = 64;

/// One service. 704 bytes.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug)]
pub struct Service {
    /// `SERVICE_FREE/READY.../RUNNING/DONE`.
    pub state: u32,
    /// Space it belongs to, or 0 for none.
    pub space: u32,
    /// Kind.
    pub kind: u32,
    /// Extents used.
    pub count: u32,
    /// Result.
    pub status: i64,
    /// Arguments and answer, see the kind.
    pub args: [u64; 5],
    /// ZAP, HELD, FILE_GET: see there.
    pub held: u64,
    /// Zero, up to 128 bytes.
    pub reserved0: [u64; 7],
    /// LWK CPU that waits for it (index), to be rung when it is done.
    pub cpu: u32,
    /// `WAIT_*` ([`crate::wake`]): whether that CPU sleeps, written by the LWK.
    pub lwk_wait: u32,
    /// Zero, up to 192 bytes.
    pub reserved1: [u64; 7],
    /// Runs of frames, each an `Extent` (`abi/src/frame.rs`), or what else the kind says.
    pub extents: [u64; EXTENTS_MAX],
}
