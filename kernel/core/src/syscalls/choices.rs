//! Choices of arguments' descriptions by the command of the call: ioctl(2), fcntl(2), the calls of
//! System V, socket options.
//!
//! A command that is not here has no description. Code that copies arguments reports this and does
//! not guess: an unknown command's argument may point to memory that holds addresses.

use super::arguments::Argument::{self, Bits, Encoded, Input, Output, Struct, Text, Undescribed};
use super::arguments::Direction::{In, InOut, Out};
use super::arguments::Structure::{self, Bytes, Long};
use super::arguments::{Case, Choice, Counted, Key};

const fn case(command: u64, is: Argument) -> Case {
    Case { from: command, to: command, is }
}

const fn cases(from: u64, to: u64, is: Argument) -> Case {
    Case { from, to, is }
}

const fn takes(bytes: u16) -> Argument {
    Struct(Bytes(bytes), In)
}

const fn gives(bytes: u16) -> Argument {
    Struct(Bytes(bytes), Out)
}

const fn changes(bytes: u16) -> Argument {
    Struct(Bytes(bytes), InOut)
}

const WORD_IN: Argument = Struct(Structure::Word, In);
const WORD_OUT: Argument = Struct(Structure::Word, Out);
const ADDRESSES: Argument = Undescribed("its structure holds addresses");

/// ioctl(2). Of `_IOC` commands those of drivers whose structures are known to hold no addresses go
/// by what the command says of itself.
pub static IOCTL: Choice = Choice {
    key: Key::One(1),
    cases: &[
        case(0x5401, gives(36)),                     // TCGETS
        cases(0x5402, 0x5404, takes(36)),            // TCSETS, TCSETSW, TCSETSF
        case(0x5405, gives(18)),                     // TCGETA
        cases(0x5406, 0x5408, takes(18)),            // TCSETA, TCSETAW, TCSETAF
        cases(0x5409, 0x540e, Bits), // TCSBRK, TCXONC, TCFLSH, TIOCEXCL, TIOCNXCL, TIOCSCTTY
        case(0x540f, WORD_OUT),      // TIOCGPGRP
        case(0x5410, WORD_IN),       // TIOCSPGRP
        case(0x5411, WORD_OUT),      // TIOCOUTQ
        case(0x5412, takes(1)),      // TIOCSTI
        case(0x5413, gives(8)),      // TIOCGWINSZ
        case(0x5414, takes(8)),      // TIOCSWINSZ
        case(0x5415, WORD_OUT),      // TIOCMGET
        cases(0x5416, 0x5418, WORD_IN), // TIOCMBIS, TIOCMBIC, TIOCMSET
        case(0x5419, WORD_OUT),      // TIOCGSOFTCAR
        case(0x541a, WORD_IN),       // TIOCSSOFTCAR
        case(0x541b, WORD_OUT),      // FIONREAD
        case(0x541d, Bits),          // TIOCCONS
        case(0x5420, WORD_IN),       // TIOCPKT
        case(0x5421, WORD_IN),       // FIONBIO
        case(0x5422, Bits),          // TIOCNOTTY
        case(0x5423, WORD_IN),       // TIOCSETD
        case(0x5424, WORD_OUT),      // TIOCGETD
        case(0x5425, Bits),          // TCSBRKP
        cases(0x5427, 0x5428, Bits), // TIOCSBRK, TIOCCBRK
        case(0x5429, WORD_OUT),      // TIOCGSID
        cases(0x5450, 0x5451, Bits), // FIONCLEX, FIOCLEX
        case(0x5452, WORD_IN),       // FIOASYNC
        case(0x5460, Struct(Long, Out)), // FIOQSIZE
        case(0x802c_542a, gives(44)), // TCGETS2
        cases(0x402c_542b, 0x402c_542d, takes(44)), // TCSETS2, TCSETSW2, TCSETSF2
        case(0x8004_5430, WORD_OUT), // TIOCGPTN
        case(0x4004_5431, WORD_IN),  // TIOCSPTLCK
        case(0x8004_5432, WORD_OUT), // TIOCGDEV
        case(0x4004_5436, Bits),     // TIOCSIG, whose number is the signal itself
        cases(0x8004_5438, 0x8004_5440, WORD_OUT), // TIOCGPKT, TIOCGPTLCK, TIOCGEXCL
        case(0x5441, Bits),          // TIOCGPTPEER
        case(1, Struct(Structure::Word, InOut)), // FIBMAP
        case(2, WORD_OUT),           // FIGETBSZ
        case(0x4004_9409, Bits),     // FICLONE
        case(0x4020_940d, takes(32)), // FICLONERANGE
        case(0x8008_6601, WORD_OUT), // FS_IOC_GETFLAGS, which says long and writes int
        case(0x4008_6602, WORD_IN),  // FS_IOC_SETFLAGS
        case(0x8008_7601, WORD_OUT), // FS_IOC_GETVERSION
        case(0x801c_581f, gives(28)), // FS_IOC_FSGETXATTR
        case(0x401c_5820, takes(28)), // FS_IOC_FSSETXATTR
        case(0x8901, WORD_IN),       // FIOSETOWN
        case(0x8902, WORD_IN),       // SIOCSPGRP
        cases(0x8903, 0x8905, WORD_OUT), // FIOGETOWN, SIOCGPGRP, SIOCATMARK
        case(0x8906, gives(16)),     // SIOCGSTAMP
        case(0x8907, gives(16)),     // SIOCGSTAMPNS
        case(0x8910, changes(40)),   // SIOCGIFNAME
        case(0x8912, ADDRESSES),     // SIOCGIFCONF
        cases(0x8913, 0x893f, changes(40)), // SIOCGIFFLAGS to SIOCSIFPFLAGS
        case(0x8942, changes(40)),   // SIOCGIFTXQLEN
        case(0x8943, changes(40)),   // SIOCSIFTXQLEN
        case(0x1260, Struct(Long, Out)), // BLKGETSIZE
        case(0x1268, WORD_OUT),      // BLKSSZGET
        cases(0x1278, 0x127b, WORD_OUT), // BLKIOMIN, BLKIOOPT, BLKALIGNOFF, BLKPBSZGET
        case(0x8008_1272, Struct(Long, Out)), // BLKGETSIZE64
        cases(0x7001, 0x7008, Bits), // RTC_AIE_ON to RTC_PIE_OFF
        cases(0x8024_7008, 0x8024_7009, Encoded(1)), // RTC_ALM_READ, RTC_RD_TIME
        cases(0x4024_7007, 0x4024_700a, Encoded(1)), // RTC_ALM_SET, RTC_SET_TIME
        cases(0x8008_700b, 0x8008_700d, Encoded(1)), // RTC_IRQP_READ, RTC_EPOCH_READ
        case(0x8028_5700, Encoded(1)), // WDIOC_GETSUPPORT
        case(0x8004_5704, WORD_IN),  // WDIOC_SETOPTIONS, which says that it writes
        cases(0x8004_5701, 0x8004_570a, Encoded(1)), // WDIOC_GETSTATUS to WDIOC_GETTIMELEFT
        cases(0xc004_5706, 0xc004_5708, Encoded(1)), // WDIOC_SETTIMEOUT, WDIOC_SETPRETIMEOUT
        case(0x8004_5200, Encoded(1)), // RNDGETENTCNT
        case(0x4004_5201, Encoded(1)), // RNDADDTOENTCNT
        case(0x4008_5400, Encoded(1)), // TFD_IOC_SET_TICKS
        case(0xb701, Bits),          // NS_GET_USERNS
        case(0xb702, Bits),          // NS_GET_PARENT
        case(0xb703, Bits),          // NS_GET_NSTYPE
        case(0xb704, WORD_OUT),      // NS_GET_OWNER_UID
    ],
    other: Undescribed("the command is not known"),
};

/// Structures of fcntl(2): `flock`, `f_owner_ex`.
pub static FCNTL: Choice = Choice {
    key: Key::One(1),
    cases: &[
        cases(0, 4, Bits),             // F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_SETFL
        case(5, changes(32)),          // F_GETLK
        cases(6, 7, takes(32)),        // F_SETLK, F_SETLKW
        cases(8, 11, Bits),            // F_SETOWN, F_GETOWN, F_SETSIG, F_GETSIG
        case(15, takes(8)),            // F_SETOWN_EX
        case(16, gives(8)),            // F_GETOWN_EX
        case(17, gives(8)),            // F_GETOWNER_UIDS
        case(36, changes(32)),         // F_OFD_GETLK
        cases(37, 38, takes(32)),      // F_OFD_SETLK, F_OFD_SETLKW
        cases(1024, 1034, Bits),       // F_SETLEASE to F_GET_SEALS
        case(1035, Struct(Long, Out)), // F_GET_RW_HINT
        case(1036, Struct(Long, In)),  // F_SET_RW_HINT
        case(1037, Struct(Long, Out)), // F_GET_FILE_RW_HINT
        case(1038, Struct(Long, In)),  // F_SET_FILE_RW_HINT
    ],
    other: Undescribed("the command is not known"),
};

/// semctl(2).
pub static SEMCTL: Choice = Choice {
    key: Key::One(2),
    cases: &[
        case(0, Bits),        // IPC_RMID
        case(1, takes(104)),  // IPC_SET
        case(2, gives(104)),  // IPC_STAT
        case(3, gives(40)),   // IPC_INFO
        cases(11, 12, Bits),  // GETPID, GETVAL
        cases(14, 16, Bits),  // GETNCNT, GETZCNT, SETVAL
        case(18, gives(104)), // SEM_STAT
        case(19, gives(40)),  // SEM_INFO
        case(20, gives(104)), // SEM_STAT_ANY
    ],
    // GETALL, SETALL
    other: Undescribed("as long as the set has semaphores, which only Linux knows"),
};

/// msgctl(2).
pub static MSGCTL: Choice = Choice {
    key: Key::One(1),
    cases: &[
        case(0, Bits),        // IPC_RMID
        case(1, takes(120)),  // IPC_SET
        case(2, gives(120)),  // IPC_STAT
        case(3, gives(32)),   // IPC_INFO
        case(11, gives(120)), // MSG_STAT
        case(12, gives(32)),  // MSG_INFO
        case(13, gives(120)), // MSG_STAT_ANY
    ],
    other: Undescribed("the command is not known"),
};

/// shmctl(2).
pub static SHMCTL: Choice = Choice {
    key: Key::One(1),
    cases: &[
        case(0, Bits),        // IPC_RMID
        case(1, takes(112)),  // IPC_SET
        case(2, gives(112)),  // IPC_STAT
        case(3, gives(72)),   // IPC_INFO
        cases(11, 12, Bits),  // SHM_LOCK, SHM_UNLOCK
        case(13, gives(112)), // SHM_STAT
        case(14, gives(48)),  // SHM_INFO
        case(15, gives(112)), // SHM_STAT_ANY
    ],
    other: Undescribed("the command is not known"),
};

const fn option(level: u64, option: u64) -> u64 {
    level << 32 | option
}

/// All options of a level.
const fn level(level: u64, is: Argument) -> Case {
    cases(option(level, 0), option(level, 0xffff_ffff), is)
}

const PROGRAM: Argument = Undescribed("a filter by its address");
const TABLES: Argument = Undescribed("tables of netfilter hold addresses");
const ZEROCOPY: Argument = Undescribed("received by mapping pages");

/// The value of setsockopt(2). Levels that are not here have options that hold addresses, or may
/// have.
pub static SET_OPTION: Choice = Choice {
    key: Key::Pair(1, 2),
    cases: &[
        case(option(1, 26), PROGRAM), // SO_ATTACH_FILTER
        case(option(1, 51), PROGRAM), // SO_ATTACH_REUSEPORT_CBPF
        level(1, Input(4)),           // SOL_SOCKET
        cases(option(0, 64), option(0, 127), TABLES),
        level(0, Input(4)),            // SOL_IP
        case(option(6, 35), ZEROCOPY), // TCP_ZEROCOPY_RECEIVE
        level(6, Input(4)),            // SOL_TCP
        level(17, Input(4)),           // SOL_UDP
        cases(option(41, 64), option(41, 127), TABLES),
        level(41, Input(4)),  // SOL_IPV6
        level(58, Input(4)),  // SOL_ICMPV6
        level(255, Input(4)), // SOL_RAW
        level(270, Input(4)), // SOL_NETLINK
        level(40, Input(4)),  // AF_VSOCK
    ],
    other: Undescribed("the options of this level are not known"),
};

/// The value in getsockopt(2).
pub static GET_OPTION: Choice = Choice {
    key: Key::Pair(1, 2),
    cases: &[
        // Its length counts instructions.
        case(option(1, 26), PROGRAM), // SO_GET_FILTER
        level(1, Argument::Sized(4)),
        cases(option(0, 64), option(0, 127), TABLES),
        level(0, Argument::Sized(4)),
        case(option(6, 35), ZEROCOPY),
        level(6, Argument::Sized(4)),
        level(17, Argument::Sized(4)),
        cases(option(41, 64), option(41, 127), TABLES),
        level(41, Argument::Sized(4)),
        level(58, Argument::Sized(4)),
        level(255, Argument::Sized(4)),
        level(270, Argument::Sized(4)),
        level(40, Argument::Sized(4)),
    ],
    other: Undescribed("the options of this level are not known"),
};

/// The log's text in syslog(2).
pub static SYSLOG: Choice =
    Choice { key: Key::One(0), cases: &[cases(2, 4, Output(2))], other: Bits };

/// The name in sysfs(2).
pub static SYSFS: Choice = Choice {
    key: Key::One(0),
    cases: &[case(1, Text), case(2, Bits), case(3, Bits)],
    other: Undescribed("the option is not known"),
};

/// Where sysfs(2) writes a name to.
pub static SYSFS_NAME: Choice = Choice {
    key: Key::One(0),
    cases: &[case(1, Bits), case(2, Undescribed("a name of any length")), case(3, Bits)],
    other: Undescribed("the option is not known"),
};

/// The command line in reboot(2), for LINUX_REBOOT_CMD_RESTART2.
pub static REBOOT: Choice =
    Choice { key: Key::One(2), cases: &[case(0xa1b2_c3d4, Text)], other: Bits };

/// The value in fsconfig(2).
pub static FSCONFIG: Choice = Choice {
    key: Key::One(1),
    cases: &[
        case(0, Bits),     // FSCONFIG_SET_FLAG
        case(1, Text),     // FSCONFIG_SET_STRING
        case(2, Input(4)), // FSCONFIG_SET_BINARY
        cases(3, 4, Text), // FSCONFIG_SET_PATH, FSCONFIG_SET_PATH_EMPTY
        cases(5, 8, Bits), // FSCONFIG_SET_FD to FSCONFIG_CMD_CREATE_EXCL
    ],
    other: Undescribed("the command is not known"),
};

/// The rule's attributes in landlock_add_rule(2).
pub static LANDLOCK_RULE: Choice = Choice {
    key: Key::One(1),
    cases: &[
        case(1, takes(12)), // LANDLOCK_RULE_PATH_BENEATH
        case(2, takes(16)), // LANDLOCK_RULE_NET_PORT
    ],
    other: Undescribed("the type of rule is not known"),
};

/// The second thing that kcmp(2) compares; for KCMP_EPOLL_TFD a `struct kcmp_epoll_slot`.
pub static KCMP: Choice = Choice { key: Key::One(2), cases: &[case(7, takes(12))], other: Bits };

/// `struct file_handle`.
pub static FILE_HANDLE: Counted = Counted { head: 8, least: 8, most: 8 + 128 };
/// `struct sched_attr`, which says zero for its first version.
pub static SCHEDULING: Counted = Counted { head: 0, least: 48, most: 4096 };
/// `struct mnt_id_req`, `struct ns_id_req`.
pub static MOUNT_REQUEST: Counted = Counted { head: 0, least: 24, most: 4096 };

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_case_that_fits_counts() {
        let of = |choice: &Choice, command| choice.of(&[3, command, 0, 0, 0, 0]);
        assert_eq!(of(&IOCTL, 0x5413), Struct(Bytes(8), Out));
        assert_eq!(of(&IOCTL, 1 << 40 | 0x541b), WORD_OUT);
        assert!(matches!(of(&IOCTL, 0xdead_beef), Undescribed(_)));
        assert_eq!(of(&FCNTL, 6), Struct(Bytes(32), In));
        assert_eq!(SET_OPTION.of(&[3, 1, 26, 0, 0, 0]), PROGRAM);
        assert_eq!(SET_OPTION.of(&[3, 1, 2, 0, 0, 0]), Input(4));
        assert!(matches!(SET_OPTION.of(&[3, 132, 2, 0, 0, 0]), Undescribed(_)));
    }

    #[test]
    fn cases_are_in_order_of_commands() {
        for choice in [&FCNTL, &SEMCTL, &MSGCTL, &SHMCTL, &FSCONFIG, &LANDLOCK_RULE] {
            assert!(choice.cases.iter().all(|case| case.from <= case.to));
            assert!(choice.cases.is_sorted_by_key(|case| case.from));
        }
    }
}
