//! The rows. Names, numbers and argument counts are those of Linux 7.2. A row says what each of its
//! arguments is, or, where it is local or says why it is `without`, how many there are.

use super::arguments::Argument::{
    Address, AddressOut, Bits, Buffer, Chosen, Counted, Descriptor, Flags, Folder, Hex, Input, Int,
    List, Many, Message, Messages, Mode, One, Output, Records, Set, Sized, Strings, Struct, Text,
    Typed, Undescribed, Unsigned, Vectors, Word,
};
use super::arguments::Direction::{In, InOut, InOutQuiet, Out};
use super::arguments::Structure::{
    Bytes, DescriptorPair, EpollEvent, Fpair, Limit, Long, Poll, SignalAction, SignalSet, Stat,
    Statx, Timespec, TimespecPair, Timeval, TimevalPair, Utsname,
};
use super::arguments::{Names, Structure};
use super::choices::{
    FCNTL, FILE_HANDLE, FSCONFIG, GET_OPTION, IOCTL, KCMP, LANDLOCK_RULE, MOUNT_REQUEST, MSGCTL,
    REBOOT, SCHEDULING, SEMCTL, SET_OPTION, SHMCTL, SYSFS, SYSFS_NAME, SYSLOG,
};
use super::row::{By, Hook, Restart, Row, Service};
use crate::errno;
use linux_raw_sys::general::*;

use newer::*;

/// Numbers that linux-raw-sys 0.12 does not have yet.
#[allow(non_upper_case_globals)] // as in linux-raw-sys
mod newer {
    pub const __NR_uprobe: u32 = 336;
    pub const __NR_listns: u32 = 470;
    pub const __NR_rseq_slice_yield: u32 = 471;
}

const fn delegated(hook: Hook) -> Service {
    Service::Delegated(hook)
}

const fn refused(error: errno::Errno, why: &'static str) -> Service {
    Service::Refused(error, why)
}

macro_rules! rows {
    ($($number:ident $(/ $args:literal)? $(($($argument:tt)*))? $kind:ident ($($what:tt)*)
        $(restart $restart:ident)? $(+ $vdso:ident)? $(without $why:literal)?;)*) => {
        &[$(Row {
            number: $number as u16, // rows are sorted, so none is cut
            name: stringify!($number).split_at("__NR_".len()).1,
            args: arity!($($args)? $([$($argument)*])?),
            arguments: &[$($($argument)*)? $(Undescribed($why))?],
            service: service!($kind $($what)*),
            by: by!($kind $($what)*),
            restart: restart!($($restart)?),
            vdso: vdso!($($vdso)?),
        }),*]
    };
}

macro_rules! arity {
    ($args:literal) => {
        $args
    };
    ($arguments:expr) => {
        $arguments.len() as u8
    };
}

macro_rules! service {
    (local) => {
        Service::Local
    };
    (delegated $hook:ident, $by:ident) => {
        delegated(Hook::$hook)
    };
    (refused $error:ident, $why:literal) => {
        refused(errno::$error, $why)
    };
}

/// Task that executes a delegated call, which each delegated row names.
macro_rules! by {
    (delegated $hook:ident, $by:ident) => {
        By::$by
    };
    ($($other:tt)*) => {
        By::Own
    };
}

macro_rules! restart {
    () => {
        Restart::Never
    };
    ($restart:ident) => {
        Restart::$restart
    };
}

macro_rules! vdso {
    () => {
        false
    };
    (vdso) => {
        true
    };
}

/// Every call, by number.
pub(super) static ROWS: &[Row] = rows! {
    __NR_read(Descriptor, Output(2), Unsigned) delegated(None, Unmasked) restart Sys;
    __NR_write(Descriptor, Input(2), Unsigned) delegated(None, Unmasked) restart Sys;
    __NR_open(Text, Flags(Names::Open), Mode) delegated(None, Any) restart Sys;
    __NR_close(Descriptor) delegated(Close, Any);
    __NR_stat(Text, Struct(Stat, Out)) delegated(Path, Any);
    __NR_fstat(Descriptor, Struct(Stat, Out)) delegated(None, Any);
    __NR_lstat(Text, Struct(Stat, Out)) delegated(Path, Any);
    __NR_poll(Many(Poll, 1, InOut), Word, Int) delegated(None, Any) restart Block;
    __NR_lseek(Descriptor, Unsigned, One(Names::Seek)) delegated(None, Any);
    __NR_mmap(Hex, Unsigned, Flags(Names::Protection), Flags(Names::Map), Descriptor, Bits)
        local();
    __NR_mprotect(Hex, Unsigned, Flags(Names::Protection)) local();
    __NR_munmap(Hex, Unsigned) local();
    __NR_brk(Hex) local();
    __NR_rt_sigaction(One(Names::Signal), Struct(SignalAction, In), Struct(SignalAction, Out), Unsigned)
        local();
    __NR_rt_sigprocmask(One(Names::How), Struct(SignalSet, In), Struct(SignalSet, Out), Unsigned)
        local();
    __NR_rt_sigreturn/0 local();
    __NR_ioctl(Descriptor, One(Names::Ioctl), Chosen(&IOCTL)) delegated(Pins, Own) restart Sys;
    __NR_pread64(Descriptor, Output(2), Unsigned, Unsigned) delegated(None, Unmasked) restart Sys;
    __NR_pwrite64(Descriptor, Input(2), Unsigned, Unsigned) delegated(None, Unmasked) restart Sys;
    __NR_readv(Descriptor, Vectors(2, Out), Unsigned) delegated(None, Unmasked) restart Sys;
    __NR_writev(Descriptor, Vectors(2, In), Unsigned) delegated(None, Unmasked) restart Sys;
    __NR_access(Text, Flags(Names::Access)) delegated(Path, Any);
    __NR_pipe(Struct(DescriptorPair, Out)) delegated(None, Any);
    __NR_select(Int, Set(0), Set(0), Set(0), Struct(Timeval, InOutQuiet))
        delegated(None, Any) restart NoHand;
    __NR_sched_yield/0 local();
    __NR_mremap(Hex, Unsigned, Unsigned, Flags(Names::Remap), Hex) local();
    __NR_msync/3 delegated(Msync, Own) without "a range of the caller's own mappings";
    __NR_mincore/3 local();
    __NR_madvise(Hex, Unsigned, One(Names::Madvise)) local();
    __NR_shmget(Int, Unsigned, Bits) delegated(None, Own);
    __NR_shmat/3 local();
    __NR_shmctl(Int, Int, Chosen(&SHMCTL)) delegated(None, Own);
    __NR_dup(Descriptor) delegated(None, Any);
    __NR_dup2(Descriptor, Descriptor) delegated(Dup2, Any);
    __NR_pause/0 delegated(SigWait, Own) restart NoHand;
    __NR_nanosleep(Struct(Timespec, In), Hex) local() restart Block;
    __NR_getitimer(Int, Struct(TimevalPair, Out)) delegated(Getitimer, Own);
    __NR_alarm(Unsigned) delegated(None, Own);
    __NR_setitimer(Int, Struct(TimevalPair, In), Struct(TimevalPair, Out)) delegated(Setitimer, Own);
    __NR_getpid/0 local();
    __NR_sendfile(Descriptor, Descriptor, Struct(Long, InOut), Unsigned)
        delegated(None, Unmasked) restart Sys;
    __NR_socket(One(Names::Family), Flags(Names::Socket), Int) delegated(None, Any);
    __NR_connect(Descriptor, Address(2), Int) delegated(None, Any) restart Sys;
    __NR_accept(Descriptor, AddressOut(2), Struct(Structure::Word, InOut))
        delegated(None, Any) restart Sys;
    __NR_sendto(Descriptor, Input(2), Unsigned, Flags(Names::Message), Address(5), Int)
        delegated(None, Unmasked) restart Sys;
    __NR_recvfrom(Descriptor, Output(2), Unsigned, Flags(Names::Message), AddressOut(5),
        Struct(Structure::Word, InOut)) delegated(None, Any) restart Sys;
    __NR_sendmsg(Descriptor, Message(In), Flags(Names::Message)) delegated(None, Unmasked) restart Sys;
    __NR_recvmsg(Descriptor, Message(Out), Flags(Names::Message)) delegated(None, Any) restart Sys;
    __NR_shutdown(Descriptor, One(Names::Shutdown)) delegated(None, Any);
    __NR_bind(Descriptor, Address(2), Int) delegated(None, Any);
    __NR_listen(Descriptor, Int) delegated(None, Any);
    __NR_getsockname(Descriptor, AddressOut(2), Struct(Structure::Word, InOut)) delegated(None, Any);
    __NR_getpeername(Descriptor, AddressOut(2), Struct(Structure::Word, InOut)) delegated(None, Any);
    __NR_socketpair(One(Names::Family), Flags(Names::Socket), Int, Struct(DescriptorPair, InOut))
        delegated(None, Any);
    __NR_setsockopt(Descriptor, One(Names::SocketLevel), One(Names::SocketOption),
        Chosen(&SET_OPTION), Int)
        delegated(Pins, Any);
    __NR_getsockopt(Descriptor, One(Names::SocketLevel), One(Names::SocketOption),
        Chosen(&GET_OPTION),
        Struct(Structure::Word, InOut))
        delegated(None, Any);
    __NR_clone(Flags(Names::Clone), Hex, Hex, Hex, Hex) local();
    __NR_fork/0 local();
    __NR_vfork/0 local();
    __NR_execve(Text, Strings, Hex) local();
    __NR_exit(Int) local();
    __NR_wait4(Int, Struct(Structure::Word, InOut), Flags(Names::Wait), Struct(Bytes(144), InOut))
        delegated(Wait4, Own) restart Sys;
    __NR_kill(Int, One(Names::Signal)) delegated(Kill, Own);
    __NR_uname(Struct(Utsname, Out)) delegated(None, Any);
    __NR_semget(Int, Int, Bits) delegated(None, Own);
    __NR_semop(Int, Many(Bytes(6), 2, In), Word) delegated(None, Own) restart Interrupted;
    __NR_semctl(Int, Int, Int, Chosen(&SEMCTL)) delegated(None, Own);
    __NR_shmdt/1 local();
    __NR_msgget(Int, Bits) delegated(None, Own);
    __NR_msgsnd(Int, Typed(2, In), Unsigned, Bits) delegated(None, Own) restart NoHand;
    __NR_msgrcv(Int, Typed(2, Out), Unsigned, Bits, Bits) delegated(None, Own) restart NoHand;
    __NR_msgctl(Int, Int, Chosen(&MSGCTL)) delegated(None, Own);
    __NR_fcntl(Descriptor, One(Names::Fcntl), Chosen(&FCNTL)) delegated(None, Own) restart Sys;
    __NR_flock(Descriptor, Int) delegated(None, Any) restart Sys;
    __NR_fsync(Descriptor) delegated(None, Any) restart Sys;
    __NR_fdatasync(Descriptor) delegated(None, Any);
    __NR_truncate(Text, Unsigned) delegated(Truncate, Unmasked);
    __NR_ftruncate(Descriptor, Unsigned) delegated(Truncate, Unmasked);
    __NR_getdents(Descriptor, Records(2), Word) delegated(None, Any);
    __NR_getcwd(Output(1), Unsigned) delegated(None, Any);
    __NR_chdir(Text) delegated(None, Own);
    __NR_fchdir(Descriptor) delegated(None, Own);
    __NR_rename(Text, Text) delegated(None, Any);
    __NR_mkdir(Text, Mode) delegated(None, Any);
    __NR_rmdir(Text) delegated(None, Any);
    __NR_creat(Text, Mode) delegated(None, Any) restart Sys;
    __NR_link(Text, Text) delegated(None, Any);
    __NR_unlink(Text) delegated(None, Any);
    __NR_symlink(Text, Text) delegated(None, Any);
    __NR_readlink(Text, Output(2), Int) delegated(Path, Any);
    __NR_chmod(Text, Mode) delegated(None, Any);
    __NR_fchmod(Descriptor, Mode) delegated(None, Any);
    __NR_chown(Text, Int, Int) delegated(None, Any);
    __NR_fchown(Descriptor, Int, Int) delegated(None, Any);
    __NR_lchown(Text, Int, Int) delegated(None, Any);
    __NR_umask(Mode) delegated(None, Own);
    __NR_gettimeofday(Struct(Timeval, Out), Hex) local() + vdso;
    __NR_getrlimit(One(Names::Resource), Struct(Limit, Out)) delegated(Getrlimit, Own);
    __NR_getrusage(One(Names::Who), Hex) local();
    __NR_sysinfo(Struct(Bytes(112), Out)) delegated(Sysinfo, Own);
    __NR_times/1 local();
    __NR_ptrace/4 local();
    __NR_getuid/0 local();
    __NR_syslog(Int, Chosen(&SYSLOG), Int) delegated(None, Own);
    __NR_getgid/0 local();
    __NR_setuid(Int) delegated(Credentials, Own);
    __NR_setgid(Int) delegated(Credentials, Own);
    __NR_geteuid/0 local();
    __NR_getegid/0 local();
    __NR_setpgid(Int, Int) delegated(None, Own);
    __NR_getppid/0 delegated(None, Any);
    __NR_getpgrp/0 delegated(None, Any);
    __NR_setsid/0 delegated(None, Own);
    __NR_setreuid(Int, Int) delegated(Credentials, Own);
    __NR_setregid(Int, Int) delegated(Credentials, Own);
    __NR_getgroups(Int, List(Structure::Word, 0)) delegated(None, Own);
    __NR_setgroups(Int, Many(Structure::Word, 0, In)) delegated(Credentials, Own);
    __NR_setresuid(Int, Int, Int) delegated(Credentials, Own);
    __NR_getresuid(Struct(Structure::Word, InOut), Struct(Structure::Word, InOut),
        Struct(Structure::Word, InOut)) delegated(None, Own);
    __NR_setresgid(Int, Int, Int) delegated(Credentials, Own);
    __NR_getresgid(Struct(Structure::Word, InOut), Struct(Structure::Word, InOut),
        Struct(Structure::Word, InOut)) delegated(None, Own);
    __NR_getpgid(Int) delegated(None, Any);
    __NR_setfsuid(Int) delegated(Credentials, Own);
    __NR_setfsgid(Int) delegated(Credentials, Own);
    __NR_getsid(Int) delegated(None, Any);
    __NR_capget(Struct(Bytes(8), InOut), Struct(Bytes(24), InOut)) delegated(None, Own);
    __NR_capset(Struct(Bytes(8), InOut), Struct(Bytes(24), In)) delegated(Rights, Own);
    __NR_rt_sigpending(Struct(SignalSet, Out), Unsigned) local();
    __NR_rt_sigtimedwait(Struct(SignalSet, In), Struct(Bytes(128), InOut), Struct(Timespec, In),
        Unsigned)
        delegated(Sigtimedwait, Own) restart Interrupted;
    __NR_rt_sigqueueinfo(Int, One(Names::Signal), Struct(Bytes(128), In))
        delegated(QueueToProcess, Own);
    __NR_rt_sigsuspend(Struct(SignalSet, In), Unsigned) local() restart NoHand;
    __NR_sigaltstack(Hex, Hex) local();
    __NR_utime(Text, Struct(Bytes(16), In)) delegated(None, Any);
    __NR_mknod(Text, Mode, Bits) delegated(None, Any);
    __NR_uselib/1 refused(ENOSYS, "not in Linux (x86-64) either");
    __NR_personality(Bits) delegated(Personality, Own);
    __NR_ustat(Bits, Struct(Bytes(32), Out)) delegated(None, Own);
    __NR_statfs(Text, Struct(Bytes(120), Out)) delegated(None, Any);
    __NR_fstatfs(Descriptor, Struct(Bytes(120), Out)) delegated(None, Any);
    __NR_sysfs(Int, Chosen(&SYSFS), Chosen(&SYSFS_NAME)) delegated(None, Own);
    __NR_getpriority(Int, Int) delegated(None, Own);
    __NR_setpriority(Int, Int, Int) delegated(Attributes, Own);
    __NR_sched_setparam(Int, Struct(Structure::Word, In)) delegated(Attributes, Own);
    __NR_sched_getparam(Int, Struct(Structure::Word, Out)) delegated(None, Own);
    __NR_sched_setscheduler(Int, Int, Struct(Structure::Word, In)) delegated(Attributes, Own);
    __NR_sched_getscheduler(Int) delegated(None, Own);
    __NR_sched_get_priority_max(Int) delegated(None, Own);
    __NR_sched_get_priority_min(Int) delegated(None, Own);
    __NR_sched_rr_get_interval(Int, Struct(Timespec, Out)) delegated(None, Own);
    __NR_mlock/2 local();
    __NR_munlock/2 local();
    __NR_mlockall/1 local();
    __NR_munlockall/0 local();
    __NR_vhangup/0 delegated(None, Own);
    __NR_modify_ldt/3 refused(ENOSYS, "no local descriptor tables (as without CONFIG_MODIFY_LDT_SYSCALL)");
    __NR_pivot_root(Text, Text) delegated(None, Own);
    __NR__sysctl/1 refused(ENOSYS, "not in Linux (x86-64) either");
    __NR_prctl(One(Names::Prctl), Hex, Hex, Hex, Hex) local();
    __NR_arch_prctl(One(Names::ArchPrctl), Hex) local();
    __NR_adjtimex(Struct(Bytes(208), InOut)) delegated(None, Own);
    __NR_setrlimit(One(Names::Resource), Struct(Limit, In)) delegated(Setrlimit, Own);
    __NR_chroot(Text) delegated(None, Own);
    __NR_sync/0 delegated(None, Any);
    __NR_acct(Text) delegated(None, Own);
    __NR_settimeofday(Struct(Timeval, In), Struct(Bytes(8), In)) delegated(None, Own);
    __NR_mount(Text, Text, Text, Bits, Struct(Bytes(4096), In)) delegated(None, Own);
    __NR_umount2(Text, Bits) delegated(None, Own);
    __NR_swapon(Text, Bits) delegated(None, Own);
    __NR_swapoff(Text) delegated(None, Own);
    __NR_reboot(Bits, Bits, Bits, Chosen(&REBOOT)) delegated(None, Own);
    __NR_sethostname(Input(1), Int) delegated(None, Own);
    __NR_setdomainname(Input(1), Int) delegated(None, Own);
    __NR_iopl/1 local();
    __NR_ioperm/3 local();
    __NR_create_module/2 refused(ENOSYS, "not in Linux (x86-64) either");
    __NR_init_module/3 delegated(None, Own) without "a module image and its parameters have no bound";
    __NR_delete_module(Text, Bits) delegated(None, Own);
    __NR_get_kernel_syms/1 refused(ENOSYS, "not in Linux (x86-64) either");
    __NR_query_module/5 refused(ENOSYS, "not in Linux (x86-64) either");
    __NR_quotactl/4 delegated(None, Own) without "by the sub-command and the type of quota";
    __NR_nfsservctl/3 refused(ENOSYS, "not in Linux (x86-64) either");
    __NR_getpmsg/5 refused(ENOSYS, "not in Linux (x86-64) either");
    __NR_putpmsg/5 refused(ENOSYS, "not in Linux (x86-64) either");
    __NR_afs_syscall/5 refused(ENOSYS, "not in Linux (x86-64) either");
    __NR_tuxcall/3 refused(ENOSYS, "not in Linux (x86-64) either");
    __NR_security/3 refused(ENOSYS, "not in Linux (x86-64) either");
    __NR_gettid/0 local();
    __NR_readahead(Descriptor, Unsigned, Unsigned) delegated(None, Any);
    __NR_setxattr(Text, Text, Input(3), Unsigned, Bits) delegated(None, Any);
    __NR_lsetxattr(Text, Text, Input(3), Unsigned, Bits) delegated(None, Any);
    __NR_fsetxattr(Descriptor, Text, Input(3), Unsigned, Bits) delegated(None, Any);
    __NR_getxattr(Text, Text, Output(3), Unsigned) delegated(None, Any);
    __NR_lgetxattr(Text, Text, Output(3), Unsigned) delegated(None, Any);
    __NR_fgetxattr(Descriptor, Text, Output(3), Unsigned) delegated(None, Any);
    __NR_listxattr(Text, Output(2), Unsigned) delegated(None, Any);
    __NR_llistxattr(Text, Output(2), Unsigned) delegated(None, Any);
    __NR_flistxattr(Descriptor, Output(2), Unsigned) delegated(None, Any);
    __NR_removexattr(Text, Text) delegated(None, Any);
    __NR_lremovexattr(Text, Text) delegated(None, Any);
    __NR_fremovexattr(Descriptor, Text) delegated(None, Any);
    __NR_tkill(Int, One(Names::Signal)) delegated(Tkill, Own);
    __NR_time/1 local() + vdso;
    __NR_futex(Hex, Flags(Names::Futex), Unsigned, Hex, Hex, Hex) local() restart Block;
    __NR_sched_setaffinity/3 local();
    __NR_sched_getaffinity/3 local();
    __NR_set_thread_area/1 refused(ENOSYS, "not in Linux (x86-64) either");
    __NR_io_setup/2 local();
    __NR_io_destroy/1 local();
    __NR_io_getevents/5 delegated(None, Own) restart Interrupted
        without "the context and its events lie in memory that Linux shares";
    __NR_io_submit/3 delegated(None, Own)
        without "Linux keeps the addresses of buffers until they are read or written";
    __NR_io_cancel/3 delegated(None, Own) without "the context lies in memory that Linux shares";
    __NR_get_thread_area/1 refused(ENOSYS, "not in Linux (x86-64) either");
    __NR_lookup_dcookie/3 refused(ENOSYS, "not in Linux (x86-64) either");
    __NR_epoll_create(Int) delegated(None, Any);
    __NR_epoll_ctl_old/4 refused(ENOSYS, "not in Linux (x86-64) either");
    __NR_epoll_wait_old/4 refused(ENOSYS, "not in Linux (x86-64) either");
    __NR_remap_file_pages/5 local();
    __NR_getdents64(Descriptor, Records(2), Word) delegated(None, Any);
    __NR_set_tid_address(Hex) local();
    __NR_restart_syscall/0 local();
    __NR_semtimedop(Int, Many(Bytes(6), 2, In), Word, Struct(Timespec, In))
        delegated(None, Own) restart Interrupted;
    __NR_fadvise64(Descriptor, Unsigned, Unsigned, Int) delegated(None, Any);
    __NR_timer_create(One(Names::Clock), Struct(Bytes(64), In), Struct(Structure::Word, Out))
        delegated(TimerCreate, Own);
    __NR_timer_settime(Int, Flags(Names::TimerFlags), Struct(TimespecPair, In),
        Struct(TimespecPair, Out))
        delegated(TimerSettime, Own);
    __NR_timer_gettime(Int, Struct(TimespecPair, Out)) delegated(TimerGettime, Own);
    __NR_timer_getoverrun(Int) delegated(TimerGetoverrun, Own);
    __NR_timer_delete(Int) delegated(TimerDelete, Own);
    __NR_clock_settime(One(Names::Clock), Struct(Timespec, In)) delegated(None, Own);
    __NR_clock_gettime(One(Names::Clock), Struct(Timespec, Out)) local() + vdso;
    __NR_clock_getres(One(Names::Clock), Struct(Timespec, Out)) local() + vdso;
    __NR_clock_nanosleep(One(Names::Clock), Flags(Names::TimerFlags), Struct(Timespec, In), Hex)
        local() restart Block;
    __NR_exit_group(Int) local();
    __NR_epoll_wait(Descriptor, List(EpollEvent, 2), Int, Int) delegated(None, Any) restart Interrupted;
    __NR_epoll_ctl(Descriptor, One(Names::Epoll), Descriptor, Struct(EpollEvent, In))
        delegated(None, Any);
    __NR_tgkill(Int, Int, One(Names::Signal)) delegated(Tgkill, Own);
    __NR_utimes(Text, Struct(TimevalPair, In)) delegated(None, Any);
    __NR_vserver/5 refused(ENOSYS, "not in Linux (x86-64) either");
    __NR_mbind/6 local();
    __NR_set_mempolicy/3 local();
    __NR_get_mempolicy/5 local();
    __NR_mq_open(Text, Flags(Names::Open), Mode, Struct(Bytes(64), In)) delegated(None, Own);
    __NR_mq_unlink(Text) delegated(None, Own);
    __NR_mq_timedsend(Descriptor, Input(2), Unsigned, Unsigned, Struct(Timespec, In))
        delegated(None, Own) restart Sys;
    __NR_mq_timedreceive(Descriptor, Output(2), Unsigned, Struct(Structure::Word, Out),
        Struct(Timespec, In))
        delegated(None, Own) restart Sys;
    __NR_mq_notify/2 delegated(None, Own) without "sigev_value may hold the address of a cookie";
    __NR_mq_getsetattr(Descriptor, Struct(Bytes(64), In), Struct(Bytes(64), Out)) delegated(None, Own);
    __NR_kexec_load/4 delegated(None, Own) without "segments by their addresses";
    __NR_waitid(Int, Int, Struct(Bytes(128), InOut), Flags(Names::Wait), Struct(Bytes(144), InOut))
        delegated(Waitid, Own) restart Sys;
    __NR_add_key(Text, Text, Input(3), Unsigned, Int) delegated(None, Own);
    __NR_request_key(Text, Text, Text, Int) delegated(None, Own) restart Sys;
    __NR_keyctl/5 delegated(Rights, Own) restart Sys
        without "each of its commands has arguments of its own";
    __NR_ioprio_set(Int, Int, Int) delegated(Attributes, Own);
    __NR_ioprio_get(Int, Int) delegated(None, Own);
    __NR_inotify_init/0 delegated(None, Any);
    __NR_inotify_add_watch(Descriptor, Text, Bits) delegated(None, Any);
    __NR_inotify_rm_watch(Descriptor, Int) delegated(None, Any);
    __NR_migrate_pages/4 local();
    __NR_openat(Folder, Text, Flags(Names::Open), Mode) delegated(None, Any) restart Sys;
    __NR_mkdirat(Folder, Text, Mode) delegated(None, Any);
    __NR_mknodat(Folder, Text, Mode, Bits) delegated(None, Any);
    __NR_fchownat(Folder, Text, Int, Int, Flags(Names::At)) delegated(None, Any);
    __NR_futimesat(Folder, Text, Struct(TimevalPair, In)) delegated(None, Any);
    __NR_newfstatat(Folder, Text, Struct(Stat, Out), Flags(Names::At)) delegated(PathAt, Any);
    __NR_unlinkat(Folder, Text, Flags(Names::At)) delegated(None, Any);
    __NR_renameat(Folder, Text, Folder, Text) delegated(None, Any);
    __NR_linkat(Folder, Text, Folder, Text, Flags(Names::At)) delegated(None, Any);
    __NR_symlinkat(Text, Folder, Text) delegated(None, Any);
    __NR_readlinkat(Folder, Text, Output(3), Int) delegated(PathAt, Any);
    __NR_fchmodat(Folder, Text, Mode) delegated(None, Any);
    __NR_faccessat(Folder, Text, Flags(Names::Access)) delegated(PathAt, Any);
    __NR_pselect6(Int, Set(0), Set(0), Set(0), Struct(Timespec, InOutQuiet), Struct(Fpair, In))
        delegated(Pselect, Own) restart NoHand;
    __NR_ppoll(Many(Poll, 1, InOut), Word, Struct(Timespec, InOutQuiet), Struct(SignalSet, In),
        Unsigned)
        delegated(Ppoll, Own) restart NoHand;
    __NR_unshare(Flags(Names::Clone)) delegated(Unshare, Own);
    __NR_set_robust_list(Hex, Unsigned) local();
    __NR_get_robust_list/3 local();
    __NR_splice(Descriptor, Struct(Long, InOut), Descriptor, Struct(Long, InOut), Unsigned, Bits)
        delegated(None, Unmasked) restart Sys;
    __NR_tee(Descriptor, Descriptor, Unsigned, Bits) delegated(None, Unmasked) restart Sys;
    __NR_sync_file_range(Descriptor, Unsigned, Unsigned, Bits) delegated(None, Any);
    __NR_vmsplice/4 delegated(None, Own) restart Sys without "the pipe keeps the pages themselves";
    __NR_move_pages/6 local();
    __NR_utimensat(Folder, Text, Struct(TimespecPair, In), Flags(Names::At)) delegated(None, Any);
    __NR_epoll_pwait(Descriptor, List(EpollEvent, 2), Int, Int, Struct(SignalSet, In), Unsigned)
        delegated(EpollPwait, Own) restart Interrupted;
    __NR_signalfd(Descriptor, Input(2), Unsigned) delegated(SigWait, Own);
    __NR_timerfd_create(One(Names::Clock), Flags(Names::Pipe)) delegated(None, Any);
    __NR_eventfd(Unsigned) delegated(None, Any);
    __NR_fallocate(Descriptor, Bits, Unsigned, Unsigned) delegated(None, Unmasked) restart Sys;
    __NR_timerfd_settime(Descriptor, Flags(Names::TimerFlags), Struct(TimespecPair, In),
        Struct(TimespecPair, Out))
        delegated(None, Any);
    __NR_timerfd_gettime(Descriptor, Struct(TimespecPair, Out)) delegated(None, Any);
    __NR_accept4(Descriptor, AddressOut(2), Struct(Structure::Word, InOut), Flags(Names::Socket))
        delegated(None, Any) restart Sys;
    __NR_signalfd4(Descriptor, Input(2), Unsigned, Flags(Names::Pipe)) delegated(SigWait, Own);
    __NR_eventfd2(Unsigned, Flags(Names::Pipe)) delegated(None, Any);
    __NR_epoll_create1(Flags(Names::Pipe)) delegated(None, Any);
    __NR_dup3(Descriptor, Descriptor, Flags(Names::Pipe)) delegated(Dup2, Any);
    __NR_pipe2(Struct(DescriptorPair, Out), Flags(Names::Pipe)) delegated(None, Any);
    __NR_inotify_init1(Flags(Names::Pipe)) delegated(None, Any);
    __NR_preadv(Descriptor, Vectors(2, Out), Unsigned, Unsigned, Unsigned)
        delegated(None, Unmasked) restart Sys;
    __NR_pwritev(Descriptor, Vectors(2, In), Unsigned, Unsigned, Unsigned)
        delegated(None, Unmasked) restart Sys;
    __NR_rt_tgsigqueueinfo(Int, Int, One(Names::Signal), Struct(Bytes(128), In))
        delegated(QueueToThread, Own);
    __NR_perf_event_open/5 delegated(Perf, Own)
        without "attributes may hold the addresses of breakpoints and strings";
    __NR_recvmmsg(Descriptor, Messages(2, Out), Word, Flags(Names::Message), Struct(Timespec,
        InOut))
        delegated(None, Any) restart Sys;
    __NR_fanotify_init(Bits, Bits) delegated(None, Own);
    __NR_fanotify_mark(Descriptor, Bits, Bits, Folder, Text) delegated(None, Own);
    __NR_prlimit64(Int, One(Names::Resource), Struct(Limit, In), Struct(Limit, Out))
        delegated(Prlimit, Own);
    __NR_name_to_handle_at(Folder, Text, Counted(&FILE_HANDLE, InOut), Struct(Long, InOut),
        Flags(Names::At))
        delegated(None, Own);
    __NR_open_by_handle_at(Folder, Counted(&FILE_HANDLE, In), Flags(Names::Open)) delegated(None, Own);
    __NR_clock_adjtime(One(Names::Clock), Struct(Bytes(208), InOut)) delegated(None, Own);
    __NR_syncfs(Descriptor) delegated(None, Any);
    __NR_sendmmsg(Descriptor, Messages(2, In), Word, Flags(Names::Message))
        delegated(None, Unmasked) restart Sys;
    __NR_setns(Descriptor, Flags(Names::Clone)) delegated(Setns, Own);
    __NR_getcpu/3 local() + vdso;
    __NR_process_vm_readv/6 delegated(OtherMemory, Own) without "addresses of another process";
    __NR_process_vm_writev/6 delegated(OtherMemory, Own) without "addresses of another process";
    __NR_kcmp(Int, Int, Int, Unsigned, Chosen(&KCMP)) delegated(None, Own);
    __NR_finit_module/3 delegated(None, Own) without "parameters of a module have no bound";
    __NR_sched_setattr(Int, Counted(&SCHEDULING, InOut), Bits) delegated(Attributes, Own);
    __NR_sched_getattr(Int, Buffer(2), Word, Bits) delegated(None, Own);
    __NR_renameat2(Folder, Text, Folder, Text, Bits) delegated(None, Any);
    __NR_seccomp/3 local();
    __NR_getrandom(Output(1), Unsigned, Flags(Names::Random)) delegated(Random, Own) restart Sys;
    __NR_memfd_create(Text, Flags(Names::Memfd)) delegated(None, Any);
    __NR_kexec_file_load(Descriptor, Descriptor, Unsigned, Input(2), Bits) delegated(None, Own);
    __NR_bpf/5 delegated(None, Own) without "attributes hold addresses";
    __NR_execveat(Folder, Text, Strings, Hex, Flags(Names::At)) local();
    __NR_userfaultfd/1 refused(ENOSYS, "page faults are served by the LWK (as a kernel without CONFIG_USERFAULTFD)");
    __NR_membarrier(One(Names::Membarrier), Hex, Int) local();
    __NR_mlock2/3 local();
    __NR_copy_file_range(Descriptor, Struct(Long, InOut), Descriptor, Struct(Long, InOut),
        Unsigned, Bits)
        delegated(None, Unmasked) restart Sys;
    __NR_preadv2(Descriptor, Vectors(2, Out), Unsigned, Unsigned, Unsigned, Bits)
        delegated(None, Unmasked) restart Sys;
    __NR_pwritev2(Descriptor, Vectors(2, In), Unsigned, Unsigned, Unsigned, Bits)
        delegated(None, Unmasked) restart Sys;
    __NR_pkey_mprotect/4 local();
    __NR_pkey_alloc/2 refused(ENOSPC, "no protection keys (as on a CPU without them)");
    __NR_pkey_free/1 refused(EINVAL, "no protection keys (as on a CPU without them)");
    __NR_statx(Folder, Text, Flags(Names::At), Flags(Names::StatxMask), Struct(Statx, Out))
        delegated(PathAt, Any);
    __NR_io_pgetevents/6 delegated(Pselect, Own) restart Interrupted
        without "the context and its events lie in memory that Linux shares";
    __NR_rseq(Hex, Unsigned, Hex, Hex) local();
    __NR_uretprobe/0 refused(ENOSYS, "no user probes");
    __NR_uprobe/0 refused(ENOSYS, "no user probes");
    __NR_pidfd_send_signal(Descriptor, One(Names::Signal), Struct(Bytes(128), In), Bits)
        delegated(None, Own);
    __NR_io_uring_setup/2 delegated(IoUringSetup, Own)
        without "its rings are mapped memory that holds addresses";
    __NR_io_uring_enter/6 delegated(IoUringEnter, Own) restart Interrupted
        without "its rings are mapped memory that holds addresses";
    __NR_io_uring_register/4 delegated(Pins, Own) restart Interrupted
        without "Linux keeps the addresses of buffers";
    __NR_open_tree(Folder, Text, Bits) delegated(None, Own);
    __NR_move_mount(Folder, Text, Folder, Text, Bits) delegated(None, Own);
    __NR_fsopen(Text, Bits) delegated(None, Own);
    __NR_fsconfig(Descriptor, Int, Text, Chosen(&FSCONFIG), Int) delegated(None, Own);
    __NR_fsmount(Descriptor, Bits, Bits) delegated(None, Own);
    __NR_fspick(Folder, Text, Bits) delegated(None, Own);
    __NR_pidfd_open(Int, Bits) delegated(None, Own);
    __NR_clone3(Hex, Unsigned) local();
    __NR_close_range(Unsigned, Unsigned, Bits) delegated(CloseRange, Own);
    __NR_openat2(Folder, Text, Input(3), Unsigned) delegated(None, Any) restart Sys;
    __NR_pidfd_getfd(Descriptor, Descriptor, Bits) delegated(None, Own);
    __NR_faccessat2(Folder, Text, Flags(Names::Access), Flags(Names::At)) delegated(PathAt, Any);
    __NR_process_madvise/5 refused(ENOSYS, "would act on the mappings of a proxy");
    __NR_epoll_pwait2(Descriptor, List(EpollEvent, 2), Int, Struct(Timespec, In),
        Struct(SignalSet, In), Unsigned)
        delegated(EpollPwait, Own) restart Interrupted;
    __NR_mount_setattr(Folder, Text, Bits, Input(4), Unsigned) delegated(None, Own);
    __NR_quotactl_fd/4 delegated(None, Own) without "by the sub-command and the type of quota";
    __NR_landlock_create_ruleset(Input(1), Unsigned, Bits) delegated(None, Own);
    __NR_landlock_add_rule(Descriptor, Int, Chosen(&LANDLOCK_RULE), Bits) delegated(None, Own);
    __NR_landlock_restrict_self(Descriptor, Bits) delegated(Rights, Own);
    __NR_memfd_secret/1 refused(ENOSYS, "its pages cannot be shared with the proxy (as with secretmem disabled)");
    __NR_process_mrelease(Descriptor, Bits) delegated(None, Own);
    __NR_futex_waitv/5 local() restart Sys;
    __NR_set_mempolicy_home_node/4 local();
    __NR_cachestat(Descriptor, Struct(Bytes(16), In), Struct(Bytes(40), Out), Bits) delegated(None, Own);
    __NR_fchmodat2(Folder, Text, Mode, Flags(Names::At)) delegated(None, Any);
    __NR_map_shadow_stack/3 refused(EOPNOTSUPP, "no shadow stacks (as on a CPU without them)");
    __NR_futex_wake/4 refused(ENOSYS, "later; libraries fall back to futex");
    __NR_futex_wait/6 refused(ENOSYS, "later; libraries fall back to futex");
    __NR_futex_requeue/4 refused(ENOSYS, "later; libraries fall back to futex");
    __NR_statmount(Counted(&MOUNT_REQUEST, In), Buffer(2), Unsigned, Bits) delegated(None, Own);
    __NR_listmount(Counted(&MOUNT_REQUEST, In), List(Long, 2), Unsigned, Bits) delegated(None, Own);
    __NR_lsm_get_self_attr(Word, Sized(2), Struct(Structure::Word, InOut), Bits) delegated(None, Own);
    __NR_lsm_set_self_attr(Word, Input(2), Word, Bits) delegated(Rights, Own);
    __NR_lsm_list_modules(Sized(1), Struct(Structure::Word, InOut), Bits) delegated(None, Own);
    __NR_mseal/3 refused(ENOSYS, "later");
    __NR_setxattrat/6 delegated(None, Own) without "a structure that holds the address of the value";
    __NR_getxattrat/6 delegated(None, Own) without "a structure that holds the address of the value";
    __NR_listxattrat(Folder, Text, Flags(Names::At), Output(4), Unsigned) delegated(None, Own);
    __NR_removexattrat(Folder, Text, Flags(Names::At), Text) delegated(None, Own);
    __NR_open_tree_attr(Folder, Text, Bits, Input(4), Unsigned) delegated(None, Own);
    __NR_file_getattr(Folder, Text, Buffer(3), Unsigned, Flags(Names::At)) delegated(None, Own);
    __NR_file_setattr(Folder, Text, Input(3), Unsigned, Flags(Names::At)) delegated(None, Own);
    __NR_listns(Counted(&MOUNT_REQUEST, In), List(Long, 2), Unsigned, Bits) delegated(None, Own);
    __NR_rseq_slice_yield/0 refused(ENOSYS, "no time slice extension");
};
