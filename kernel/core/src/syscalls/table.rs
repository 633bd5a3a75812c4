//! The rows. Names, numbers and argument counts are those of Linux 7.2.

use super::row::{Hook, LocalCall, Restart, Row, Service};
use crate::errno;

const fn local(call: LocalCall) -> Service {
    Service::Local(call)
}

const fn delegated(hook: Hook) -> Service {
    Service::Delegated(hook)
}

const fn refused(error: errno::Errno, why: &'static str) -> Service {
    Service::Refused(error, why)
}

macro_rules! rows {
    ($($number:literal $name:ident / $args:literal $kind:ident ($($what:tt)*)
        $(restart $restart:ident)? $(+ $vdso:ident)?;)*) => {
        &[$(Row {
            number: $number,
            name: stringify!($name),
            args: $args,
            service: service!($kind $($what)*),
            restart: restart!($($restart)?),
            vdso: vdso!($($vdso)?),
        }),*]
    };
}

macro_rules! service {
    (local $call:ident) => {
        local(LocalCall::$call)
    };
    (delegated $hook:ident) => {
        delegated(Hook::$hook)
    };
    (refused $error:ident, $why:literal) => {
        refused(errno::$error, $why)
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
    0 read/3 delegated(None) restart Sys;
    1 write/3 delegated(None) restart Sys;
    2 open/3 delegated(None) restart Sys;
    3 close/1 delegated(Close);
    4 stat/2 delegated(Path);
    5 fstat/2 delegated(None);
    6 lstat/2 delegated(Path);
    7 poll/3 delegated(None) restart Block;
    8 lseek/3 delegated(None);
    9 mmap/6 local(Mmap);
    10 mprotect/3 local(Mprotect);
    11 munmap/2 local(Munmap);
    12 brk/1 local(Brk);
    13 rt_sigaction/4 local(RtSigaction);
    14 rt_sigprocmask/4 local(RtSigprocmask);
    15 rt_sigreturn/0 local(RtSigreturn);
    16 ioctl/3 delegated(None) restart Sys;
    17 pread64/4 delegated(None) restart Sys;
    18 pwrite64/4 delegated(None) restart Sys;
    19 readv/3 delegated(None) restart Sys;
    20 writev/3 delegated(None) restart Sys;
    21 access/2 delegated(Path);
    22 pipe/1 delegated(None);
    23 select/5 delegated(None) restart NoHand;
    24 sched_yield/0 local(SchedYield);
    25 mremap/5 local(Mremap);
    26 msync/3 delegated(Msync);
    27 mincore/3 local(Mincore);
    28 madvise/3 local(Madvise);
    29 shmget/3 delegated(None);
    30 shmat/3 local(Shmat);
    31 shmctl/3 delegated(None);
    32 dup/1 delegated(None);
    33 dup2/2 delegated(Dup2);
    34 pause/0 delegated(SigWait) restart NoHand;
    35 nanosleep/2 local(Nanosleep) restart Block;
    36 getitimer/2 delegated(CpuTimer);
    37 alarm/1 delegated(None);
    38 setitimer/3 delegated(CpuTimer);
    39 getpid/0 local(Getpid);
    40 sendfile/4 delegated(None) restart Sys;
    41 socket/3 delegated(None);
    42 connect/3 delegated(None) restart Sys;
    43 accept/3 delegated(None) restart Sys;
    44 sendto/6 delegated(None) restart Sys;
    45 recvfrom/6 delegated(None) restart Sys;
    46 sendmsg/3 delegated(None) restart Sys;
    47 recvmsg/3 delegated(None) restart Sys;
    48 shutdown/2 delegated(None);
    49 bind/3 delegated(None);
    50 listen/2 delegated(None);
    51 getsockname/3 delegated(None);
    52 getpeername/3 delegated(None);
    53 socketpair/4 delegated(None);
    54 setsockopt/5 delegated(None);
    55 getsockopt/5 delegated(None);
    56 clone/5 local(Clone);
    57 fork/0 local(Fork);
    58 vfork/0 local(Vfork);
    59 execve/3 local(Execve);
    60 exit/1 local(Exit);
    61 wait4/4 delegated(Wait) restart Sys;
    62 kill/2 delegated(Signal);
    63 uname/1 delegated(None);
    64 semget/3 delegated(None);
    65 semop/3 delegated(None) restart Interrupted;
    66 semctl/4 delegated(None);
    67 shmdt/1 local(Shmdt);
    68 msgget/2 delegated(None);
    69 msgsnd/4 delegated(None) restart NoHand;
    70 msgrcv/5 delegated(None) restart NoHand;
    71 msgctl/3 delegated(None);
    72 fcntl/3 delegated(None) restart Sys;
    73 flock/2 delegated(None) restart Sys;
    74 fsync/1 delegated(None) restart Sys;
    75 fdatasync/1 delegated(None);
    76 truncate/2 delegated(None);
    77 ftruncate/2 delegated(None);
    78 getdents/3 delegated(None);
    79 getcwd/2 delegated(None);
    80 chdir/1 delegated(None);
    81 fchdir/1 delegated(None);
    82 rename/2 delegated(None);
    83 mkdir/2 delegated(None);
    84 rmdir/1 delegated(None);
    85 creat/2 delegated(None) restart Sys;
    86 link/2 delegated(None);
    87 unlink/1 delegated(None);
    88 symlink/2 delegated(None);
    89 readlink/3 delegated(None);
    90 chmod/2 delegated(None);
    91 fchmod/2 delegated(None);
    92 chown/3 delegated(None);
    93 fchown/3 delegated(None);
    94 lchown/3 delegated(None);
    95 umask/1 delegated(None);
    96 gettimeofday/2 local(Gettimeofday) + vdso;
    97 getrlimit/2 delegated(Rlimit);
    98 getrusage/2 local(Getrusage);
    99 sysinfo/1 delegated(Sysinfo);
    100 times/1 local(Times);
    101 ptrace/4 local(Ptrace);
    102 getuid/0 local(Getuid);
    103 syslog/3 delegated(None);
    104 getgid/0 local(Getgid);
    105 setuid/1 delegated(Credentials);
    106 setgid/1 delegated(Credentials);
    107 geteuid/0 local(Geteuid);
    108 getegid/0 local(Getegid);
    109 setpgid/2 delegated(None);
    110 getppid/0 delegated(None);
    111 getpgrp/0 delegated(None);
    112 setsid/0 delegated(None);
    113 setreuid/2 delegated(Credentials);
    114 setregid/2 delegated(Credentials);
    115 getgroups/2 delegated(None);
    116 setgroups/2 delegated(Credentials);
    117 setresuid/3 delegated(Credentials);
    118 getresuid/3 delegated(None);
    119 setresgid/3 delegated(Credentials);
    120 getresgid/3 delegated(None);
    121 getpgid/1 delegated(None);
    122 setfsuid/1 delegated(Credentials);
    123 setfsgid/1 delegated(Credentials);
    124 getsid/1 delegated(None);
    125 capget/2 delegated(None);
    126 capset/2 delegated(Rights);
    127 rt_sigpending/2 local(RtSigpending);
    128 rt_sigtimedwait/4 delegated(SigWait) restart Interrupted;
    129 rt_sigqueueinfo/3 delegated(None);
    130 rt_sigsuspend/2 local(RtSigsuspend) restart NoHand;
    131 sigaltstack/2 local(Sigaltstack);
    132 utime/2 delegated(None);
    133 mknod/3 delegated(None);
    134 uselib/1 refused(ENOSYS, "not in Linux (x86-64) either");
    135 personality/1 delegated(Personality);
    136 ustat/2 delegated(None);
    137 statfs/2 delegated(None);
    138 fstatfs/2 delegated(None);
    139 sysfs/3 delegated(None);
    140 getpriority/2 delegated(None);
    141 setpriority/3 delegated(Attributes);
    142 sched_setparam/2 delegated(Attributes);
    143 sched_getparam/2 delegated(None);
    144 sched_setscheduler/3 delegated(Attributes);
    145 sched_getscheduler/1 delegated(None);
    146 sched_get_priority_max/1 delegated(None);
    147 sched_get_priority_min/1 delegated(None);
    148 sched_rr_get_interval/2 delegated(None);
    149 mlock/2 local(Mlock);
    150 munlock/2 local(Munlock);
    151 mlockall/1 local(Mlockall);
    152 munlockall/0 local(Munlockall);
    153 vhangup/0 delegated(None);
    154 modify_ldt/3 refused(ENOSYS, "no local descriptor tables (as without CONFIG_MODIFY_LDT_SYSCALL)");
    155 pivot_root/2 delegated(None);
    156 _sysctl/1 refused(ENOSYS, "not in Linux (x86-64) either");
    157 prctl/5 local(Prctl);
    158 arch_prctl/2 local(ArchPrctl);
    159 adjtimex/1 delegated(None);
    160 setrlimit/2 delegated(Rlimit);
    161 chroot/1 delegated(None);
    162 sync/0 delegated(None);
    163 acct/1 delegated(None);
    164 settimeofday/2 delegated(None);
    165 mount/5 delegated(None);
    166 umount2/2 delegated(None);
    167 swapon/2 delegated(None);
    168 swapoff/1 delegated(None);
    169 reboot/4 delegated(None);
    170 sethostname/2 delegated(None);
    171 setdomainname/2 delegated(None);
    172 iopl/1 local(Iopl);
    173 ioperm/3 local(Ioperm);
    174 create_module/2 refused(ENOSYS, "not in Linux (x86-64) either");
    175 init_module/3 delegated(None);
    176 delete_module/2 delegated(None);
    177 get_kernel_syms/1 refused(ENOSYS, "not in Linux (x86-64) either");
    178 query_module/5 refused(ENOSYS, "not in Linux (x86-64) either");
    179 quotactl/4 delegated(None);
    180 nfsservctl/3 refused(ENOSYS, "not in Linux (x86-64) either");
    181 getpmsg/5 refused(ENOSYS, "not in Linux (x86-64) either");
    182 putpmsg/5 refused(ENOSYS, "not in Linux (x86-64) either");
    183 afs_syscall/5 refused(ENOSYS, "not in Linux (x86-64) either");
    184 tuxcall/3 refused(ENOSYS, "not in Linux (x86-64) either");
    185 security/3 refused(ENOSYS, "not in Linux (x86-64) either");
    186 gettid/0 local(Gettid);
    187 readahead/3 delegated(None);
    188 setxattr/5 delegated(None);
    189 lsetxattr/5 delegated(None);
    190 fsetxattr/5 delegated(None);
    191 getxattr/4 delegated(None);
    192 lgetxattr/4 delegated(None);
    193 fgetxattr/4 delegated(None);
    194 listxattr/3 delegated(None);
    195 llistxattr/3 delegated(None);
    196 flistxattr/3 delegated(None);
    197 removexattr/2 delegated(None);
    198 lremovexattr/2 delegated(None);
    199 fremovexattr/2 delegated(None);
    200 tkill/2 delegated(Signal);
    201 time/1 local(Time) + vdso;
    202 futex/6 local(Futex) restart Block;
    203 sched_setaffinity/3 local(SchedSetaffinity);
    204 sched_getaffinity/3 local(SchedGetaffinity);
    205 set_thread_area/1 refused(ENOSYS, "not in Linux (x86-64) either");
    206 io_setup/2 local(IoSetup);
    207 io_destroy/1 local(IoDestroy);
    208 io_getevents/5 delegated(None) restart Interrupted;
    209 io_submit/3 delegated(None);
    210 io_cancel/3 delegated(None);
    211 get_thread_area/1 refused(ENOSYS, "not in Linux (x86-64) either");
    212 lookup_dcookie/3 refused(ENOSYS, "not in Linux (x86-64) either");
    213 epoll_create/1 delegated(None);
    214 epoll_ctl_old/4 refused(ENOSYS, "not in Linux (x86-64) either");
    215 epoll_wait_old/4 refused(ENOSYS, "not in Linux (x86-64) either");
    216 remap_file_pages/5 local(RemapFilePages);
    217 getdents64/3 delegated(None);
    218 set_tid_address/1 local(SetTidAddress);
    219 restart_syscall/0 local(RestartSyscall);
    220 semtimedop/4 delegated(None) restart Interrupted;
    221 fadvise64/4 delegated(None);
    222 timer_create/3 delegated(Timer);
    223 timer_settime/4 delegated(Timer);
    224 timer_gettime/2 delegated(Timer);
    225 timer_getoverrun/1 delegated(None);
    226 timer_delete/1 delegated(Timer);
    227 clock_settime/2 delegated(None);
    228 clock_gettime/2 local(ClockGettime) + vdso;
    229 clock_getres/2 local(ClockGetres) + vdso;
    230 clock_nanosleep/4 local(ClockNanosleep) restart Block;
    231 exit_group/1 local(ExitGroup);
    232 epoll_wait/4 delegated(None) restart Interrupted;
    233 epoll_ctl/4 delegated(None);
    234 tgkill/3 delegated(Signal);
    235 utimes/2 delegated(None);
    236 vserver/5 refused(ENOSYS, "not in Linux (x86-64) either");
    237 mbind/6 local(Mbind);
    238 set_mempolicy/3 local(SetMempolicy);
    239 get_mempolicy/5 local(GetMempolicy);
    240 mq_open/4 delegated(None);
    241 mq_unlink/1 delegated(None);
    242 mq_timedsend/5 delegated(None) restart Sys;
    243 mq_timedreceive/5 delegated(None) restart Sys;
    244 mq_notify/2 delegated(None);
    245 mq_getsetattr/3 delegated(None);
    246 kexec_load/4 delegated(None);
    247 waitid/5 delegated(Wait) restart Sys;
    248 add_key/5 delegated(None);
    249 request_key/4 delegated(None) restart Sys;
    250 keyctl/5 delegated(Rights) restart Sys;
    251 ioprio_set/3 delegated(Attributes);
    252 ioprio_get/2 delegated(None);
    253 inotify_init/0 delegated(None);
    254 inotify_add_watch/3 delegated(None);
    255 inotify_rm_watch/2 delegated(None);
    256 migrate_pages/4 local(MigratePages);
    257 openat/4 delegated(None) restart Sys;
    258 mkdirat/3 delegated(None);
    259 mknodat/4 delegated(None);
    260 fchownat/5 delegated(None);
    261 futimesat/3 delegated(None);
    262 newfstatat/4 delegated(Path);
    263 unlinkat/3 delegated(None);
    264 renameat/4 delegated(None);
    265 linkat/5 delegated(None);
    266 symlinkat/3 delegated(None);
    267 readlinkat/4 delegated(None);
    268 fchmodat/3 delegated(None);
    269 faccessat/3 delegated(Path);
    270 pselect6/6 delegated(TempMask) restart NoHand;
    271 ppoll/5 delegated(TempMask) restart NoHand;
    272 unshare/1 delegated(Credentials);
    273 set_robust_list/2 local(SetRobustList);
    274 get_robust_list/3 local(GetRobustList);
    275 splice/6 delegated(None) restart Sys;
    276 tee/4 delegated(None) restart Sys;
    277 sync_file_range/4 delegated(None);
    278 vmsplice/4 delegated(None) restart Sys;
    279 move_pages/6 local(MovePages);
    280 utimensat/4 delegated(None);
    281 epoll_pwait/6 delegated(TempMask) restart Interrupted;
    282 signalfd/3 delegated(SigWait);
    283 timerfd_create/2 delegated(None);
    284 eventfd/1 delegated(None);
    285 fallocate/4 delegated(None) restart Sys;
    286 timerfd_settime/4 delegated(None);
    287 timerfd_gettime/2 delegated(None);
    288 accept4/4 delegated(None) restart Sys;
    289 signalfd4/4 delegated(SigWait);
    290 eventfd2/2 delegated(None);
    291 epoll_create1/1 delegated(None);
    292 dup3/3 delegated(Dup2);
    293 pipe2/2 delegated(None);
    294 inotify_init1/1 delegated(None);
    295 preadv/5 delegated(None) restart Sys;
    296 pwritev/5 delegated(None) restart Sys;
    297 rt_tgsigqueueinfo/4 delegated(Signal);
    298 perf_event_open/5 delegated(Perf);
    299 recvmmsg/5 delegated(None) restart Sys;
    300 fanotify_init/2 delegated(None);
    301 fanotify_mark/5 delegated(None);
    302 prlimit64/4 delegated(Rlimit);
    303 name_to_handle_at/5 delegated(None);
    304 open_by_handle_at/3 delegated(None);
    305 clock_adjtime/2 delegated(None);
    306 syncfs/1 delegated(None);
    307 sendmmsg/4 delegated(None) restart Sys;
    308 setns/2 delegated(Credentials);
    309 getcpu/3 local(Getcpu) + vdso;
    310 process_vm_readv/6 delegated(OtherMemory);
    311 process_vm_writev/6 delegated(OtherMemory);
    312 kcmp/5 delegated(None);
    313 finit_module/3 delegated(None);
    314 sched_setattr/3 delegated(Attributes);
    315 sched_getattr/4 delegated(None);
    316 renameat2/5 delegated(None);
    317 seccomp/3 local(Seccomp);
    318 getrandom/3 delegated(None) restart Sys;
    319 memfd_create/2 delegated(None);
    320 kexec_file_load/5 delegated(None);
    321 bpf/5 delegated(None);
    322 execveat/5 local(Execveat);
    323 userfaultfd/1 refused(ENOSYS, "page faults are served by the LWK (as a kernel without CONFIG_USERFAULTFD)");
    324 membarrier/3 local(Membarrier);
    325 mlock2/3 local(Mlock2);
    326 copy_file_range/6 delegated(None) restart Sys;
    327 preadv2/6 delegated(None) restart Sys;
    328 pwritev2/6 delegated(None) restart Sys;
    329 pkey_mprotect/4 local(PkeyMprotect);
    330 pkey_alloc/2 refused(ENOSPC, "no protection keys (as on a CPU without them)");
    331 pkey_free/1 refused(EINVAL, "no protection keys (as on a CPU without them)");
    332 statx/5 delegated(Path);
    333 io_pgetevents/6 delegated(TempMask) restart Interrupted;
    334 rseq/4 local(Rseq);
    335 uretprobe/0 refused(ENOSYS, "no user probes");
    336 uprobe/0 refused(ENOSYS, "no user probes");
    424 pidfd_send_signal/4 delegated(None);
    425 io_uring_setup/2 delegated(None);
    426 io_uring_enter/6 delegated(TempMask) restart Interrupted;
    427 io_uring_register/4 delegated(None) restart Interrupted;
    428 open_tree/3 delegated(None);
    429 move_mount/5 delegated(None);
    430 fsopen/2 delegated(None);
    431 fsconfig/5 delegated(None);
    432 fsmount/3 delegated(None);
    433 fspick/3 delegated(None);
    434 pidfd_open/2 delegated(None);
    435 clone3/2 local(Clone3);
    436 close_range/3 delegated(CloseRange);
    437 openat2/4 delegated(None) restart Sys;
    438 pidfd_getfd/3 delegated(None);
    439 faccessat2/4 delegated(Path);
    440 process_madvise/5 refused(ENOSYS, "would act on the mappings of a proxy");
    441 epoll_pwait2/6 delegated(TempMask) restart Interrupted;
    442 mount_setattr/5 delegated(None);
    443 quotactl_fd/4 delegated(None);
    444 landlock_create_ruleset/3 delegated(None);
    445 landlock_add_rule/4 delegated(None);
    446 landlock_restrict_self/2 delegated(Rights);
    447 memfd_secret/1 refused(ENOSYS, "its pages cannot be shared with the proxy (as with secretmem disabled)");
    448 process_mrelease/2 delegated(None);
    449 futex_waitv/5 local(FutexWaitv) restart Sys;
    450 set_mempolicy_home_node/4 local(SetHomeNode);
    451 cachestat/4 delegated(None);
    452 fchmodat2/4 delegated(None);
    453 map_shadow_stack/3 refused(EOPNOTSUPP, "no shadow stacks (as on a CPU without them)");
    454 futex_wake/4 refused(ENOSYS, "later; libraries fall back to futex");
    455 futex_wait/6 refused(ENOSYS, "later; libraries fall back to futex");
    456 futex_requeue/4 refused(ENOSYS, "later; libraries fall back to futex");
    457 statmount/4 delegated(None);
    458 listmount/4 delegated(None);
    459 lsm_get_self_attr/4 delegated(None);
    460 lsm_set_self_attr/4 delegated(Rights);
    461 lsm_list_modules/3 delegated(None);
    462 mseal/3 refused(ENOSYS, "later");
    463 setxattrat/6 delegated(None);
    464 getxattrat/6 delegated(None);
    465 listxattrat/5 delegated(None);
    466 removexattrat/4 delegated(None);
    467 open_tree_attr/5 delegated(None);
    468 file_getattr/5 delegated(None);
    469 file_setattr/5 delegated(None);
    470 listns/4 delegated(None);
    471 rseq_slice_yield/0 refused(ENOSYS, "no time slice extension");
};
