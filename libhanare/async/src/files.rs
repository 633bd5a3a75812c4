//! Table of the program's descriptors, and of the files behind them as far as the library knows
//! them.

use std::ffi::CStr;
use std::sync::atomic::{AtomicI32, AtomicU8, AtomicU64, Ordering};

use crate::calls::Arguments;
use crate::poster::{self, DESCRIPTORS};
use crate::state::{self, Inside, Line, Reason};
use crate::sys::lock::{Held, Locked};
use crate::{sockets, sys};

const INODES_MAX: usize = 512;

/// Permission of the library to post calls of a descriptor, or to let them pass.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Role {
    /// Nothing: it was not opened in sight of the library, is no regular file, or is shared.
    Unknown,
    /// Descriptor that was opened for writing alone, or for appending.
    MayWrite,
    /// File that writes may be posted to.
    Writer,
    /// Descriptor that was opened for reading alone.
    MayRead,
    /// File that may be read while something else is outstanding.
    Reader,
}

/// A descriptor. The thread that holds the lock changes its role.
struct Descriptor {
    role: AtomicU8,
    /// An error that came late and was not reported.
    error: AtomicI32,
    device: AtomicU64,
    inode: AtomicU64,
    size: AtomicU64,
    position: AtomicU64,
    /// Offset up to which the file was read ahead.
    ahead: AtomicU64,
    /// The record of the last readahead.
    record: AtomicU64,
}

static TABLE: [Descriptor; DESCRIPTORS] = [const {
    Descriptor {
        role: AtomicU8::new(Role::Unknown as u8),
        error: AtomicI32::new(0),
        device: AtomicU64::new(0),
        inode: AtomicU64::new(0),
        size: AtomicU64::new(0),
        position: AtomicU64::new(0),
        ahead: AtomicU64::new(0),
        record: AtomicU64::new(0),
    }
}; DESCRIPTORS];

/// A file, and the last record that writes to it.
#[derive(Clone, Copy)]
struct Inode {
    device: u64,
    inode: u64,
    last: u64,
}

struct Inodes {
    written: [Inode; INODES_MAX],
    mapped: [Inode; INODES_MAX],
    mapped_count: usize,
}

const NO_INODE: Inode = Inode { device: 0, inode: 0, last: 0 };
static INODES: Held<Inodes> = Held::new(Inodes {
    written: [NO_INODE; INODES_MAX],
    mapped: [NO_INODE; INODES_MAX],
    mapped_count: 0,
});

fn at(fd: u64) -> Option<&'static Descriptor> {
    // The kernel looks at 32 bits.
    TABLE.get(fd as u32 as usize)
}

impl Descriptor {
    fn set(&self, role: Role) {
        self.role.store(role as u8, Ordering::Release);
    }

    fn file(&self) -> (u64, u64) {
        (self.device.load(Ordering::Relaxed), self.inode.load(Ordering::Relaxed))
    }
}

/// Role of a descriptor.
pub fn role(fd: u64) -> Role {
    const ROLES: [Role; 5] =
        [Role::Unknown, Role::MayWrite, Role::Writer, Role::MayRead, Role::Reader];
    at(fd).map_or(Role::Unknown, |descriptor| {
        ROLES[usize::from(descriptor.role.load(Ordering::Acquire))]
    })
}

/// Notes that the program has opened a file.
pub fn opened(_: &mut Locked, fd: u64, flags: i32) {
    let Some(descriptor) = at(fd) else { return };
    sockets::replaced(fd);
    const NEVER: i32 = libc::O_DIRECT | libc::O_SYNC | libc::O_DSYNC | libc::O_PATH;
    let access = flags & libc::O_ACCMODE;
    let role = if flags & NEVER != 0 {
        Role::Unknown
    } else if access == libc::O_WRONLY || access == libc::O_RDWR && flags & libc::O_APPEND != 0 {
        Role::MayWrite
    } else if access == libc::O_RDONLY {
        Role::MayRead
    } else {
        Role::Unknown
    };
    descriptor.error.store(0, Ordering::Relaxed);
    descriptor.position.store(0, Ordering::Relaxed);
    descriptor.ahead.store(0, Ordering::Relaxed);
    descriptor.set(role);
}

/// Forgets a descriptor that is shared with another process, locked, or otherwise used in a way
/// that the library does not follow.
pub fn forget(_: &mut Locked, fd: u64) {
    sockets::forget(fd);
    if let Some(descriptor) = at(fd) {
        descriptor.set(Role::Unknown);
    }
}

/// All are: a process was made, or one was sent away.
pub fn forget_all(_: &mut Locked) {
    sockets::forget_all();
    TABLE.iter().for_each(|descriptor| descriptor.set(Role::Unknown));
}

/// Descriptors may be sent away.
pub fn note_message(nr: i64, args: &Arguments) {
    const CONTROL_LENGTH: u64 = 40;
    let is_plain = nr == libc::SYS_sendmsg && sys::word_at(args[1] + CONTROL_LENGTH) == Some(0);
    if !is_plain {
        forget_all(&mut poster::lock(&Inside::enter()));
    }
}

/// Filesystems of which a regular file takes what is written to it, as much as there is room for.
/// Not those that compute their files.
const WRITABLE: [i64; 8] = [
    libc::EXT4_SUPER_MAGIC,
    libc::XFS_SUPER_MAGIC,
    libc::BTRFS_SUPER_MAGIC,
    libc::TMPFS_MAGIC,
    libc::OVERLAYFS_SUPER_MAGIC,
    0xf2f5_2010, // f2fs
    0x8584_58f6, // ramfs
    0x0102_1997, // 9p
];

/// Filesystems of which one file has one device and inode number, wherever it is mounted.
const READABLE: [i64; 5] = [
    libc::EXT4_SUPER_MAGIC,
    libc::XFS_SUPER_MAGIC,
    libc::BTRFS_SUPER_MAGIC,
    libc::TMPFS_MAGIC,
    0xf2f5_2010,
];

/// Whether writes to it may be posted; it is asked about at the first one.
pub fn is_writer(locked: &mut Locked, fd: u64) -> bool {
    match role(fd) {
        Role::Writer => true,
        Role::MayWrite => {
            let role = if is_fit(locked, fd, &WRITABLE, 0) { Role::Writer } else { Role::Unknown };
            if let Some(descriptor) = at(fd) {
                descriptor.set(role);
            }
            role == Role::Writer
        }
        _ => false,
    }
}

/// Whether the file is read for the first time. A file that is read once is not worth a look.
pub fn is_first_read(fd: u64) -> bool {
    at(fd).is_some_and(|descriptor| descriptor.position.swap(1, Ordering::Relaxed) == 0)
}

/// A read of it is being made, with nothing outstanding: that one changes the time of the last
/// access.
pub fn first_read(locked: &mut Locked, fd: u64) {
    const READ_ONLY: i64 = 1;
    const NOT: i64 = 0x400;
    const RARELY: i64 = 0x1000;
    let role = match role(fd) {
        Role::MayRead if is_fit(locked, fd, &READABLE, READ_ONLY | NOT | RARELY) => Role::Reader,
        _ => Role::Unknown,
    };
    if let Some(descriptor) = at(fd) {
        descriptor.set(role);
        was_set(fd, sys::position_of(fd as i32));
    }
}

/// Regular, on one of those filesystems, mounted with one of those flags, not mapped.
fn is_fit(locked: &mut Locked, fd: u64, kinds: &[i64], mount: i64) -> bool {
    let (Some(descriptor), Ok(stat), Ok((kind, flags))) =
        (at(fd), sys::stat_of(fd as i32), sys::filesystem_of(fd as i32))
    else {
        return false;
    };
    descriptor.device.store(stat.st_dev, Ordering::Relaxed);
    descriptor.inode.store(stat.st_ino, Ordering::Relaxed);
    descriptor.size.store(stat.st_size as u64, Ordering::Relaxed);
    stat.st_mode & libc::S_IFMT == libc::S_IFREG
        && kinds.contains(&kind)
        && (mount == 0 || flags & mount != 0)
        && !is_mapped(locked, stat.st_dev, stat.st_ino)
}

/// The file that a mapping shows: what is written to it is seen there at once.
pub fn mapped(locked: &mut Locked, fd: u64) {
    let Ok(stat) = sys::stat_of(fd as i32) else { return };
    if is_mapped(locked, stat.st_dev, stat.st_ino) {
        return;
    }
    let is_noted = INODES.with(locked, |inodes| {
        let Some(place) = inodes.mapped.get_mut(inodes.mapped_count) else { return false };
        *place = Inode { device: stat.st_dev, inode: stat.st_ino, last: 0 };
        inodes.mapped_count += 1;
        true
    });
    if !is_noted {
        return state::turn_off(Reason::Mappings);
    }
    for descriptor in &TABLE {
        if descriptor.file() == (stat.st_dev, stat.st_ino) {
            descriptor.set(Role::Unknown);
        }
    }
}

fn is_mapped(locked: &mut Locked, device: u64, inode: u64) -> bool {
    let is_it = |known: &Inode| (known.device, known.inode) == (device, inode);
    INODES.with(locked, |inodes| inodes.mapped[..inodes.mapped_count].iter().any(is_it))
}

/// Notes that the record which comes next writes to the file; `false`: there are too many such
/// files.
pub fn note_write(locked: &mut Locked, fd: u64, next: u64) -> bool {
    let Some(descriptor) = at(fd) else { return false };
    let (device, inode) = descriptor.file();
    let done = poster::done();
    let is_it = |known: &Inode| (known.device, known.inode) == (device, inode);
    INODES.with(locked, |inodes| {
        let written = &mut inodes.written;
        let place = written
            .iter()
            .position(|known| is_it(known) && known.last > done)
            .or_else(|| written.iter().position(|known| known.last <= done));
        if let Some(place) = place {
            written[place] = Inode { device, inode, last: next };
        }
        place.is_some()
    })
}

/// Whether a write to the file behind the descriptor is outstanding.
pub fn is_being_written(locked: &mut Locked, fd: u64) -> bool {
    let Some(descriptor) = at(fd) else { return true };
    let (device, inode) = descriptor.file();
    let done = poster::done();
    let is_it = |known: &Inode| (known.device, known.inode) == (device, inode);
    INODES
        .with(locked, |inodes| inodes.written.iter().any(|known| is_it(known) && known.last > done))
}

/// Notes that a posted call on the descriptor has failed.
pub fn fail(fd: i32, error: i32) {
    if let Some(descriptor) = at(fd as u64) {
        let _ = descriptor.error.compare_exchange(0, error, Ordering::SeqCst, Ordering::SeqCst);
    }
}

/// Whether a posted call on the descriptor has failed, and the program was not told.
pub fn has_failed(fd: i32) -> bool {
    at(fd as u64).is_some_and(|descriptor| descriptor.error.load(Ordering::SeqCst) != 0)
}

/// The error that the program is told now.
pub fn take_error(fd: u64) -> Option<i32> {
    let descriptor = at(fd)?;
    if descriptor.error.load(Ordering::SeqCst) == 0 {
        return None;
    }
    poster::await_all();
    Some(descriptor.error.swap(0, Ordering::SeqCst)).filter(|error| *error != 0)
}

/// A posted close was made: the program can be told at standard error only.
pub fn closed(fd: i32, close_error: Option<i32>, name: &Name) {
    let Some(descriptor) = at(fd as u64) else { return };
    let error = match descriptor.error.swap(0, Ordering::SeqCst) {
        0 => close_error,
        error => Some(error),
    };
    if let Some(error) = error {
        complain(name, error);
    }
}

/// Settles a descriptor that is about to name another file, or none, without an error for the
/// program: an error that came late is reported on standard error.
pub fn replaced(fd: u64) {
    sockets::replaced(fd);
    if let Some(error) = take_error(fd) {
        complain(&name_of(fd as i32), error);
    }
    if let Some(descriptor) = at(fd) {
        poster::await_record(descriptor.record.load(Ordering::Relaxed));
    }
}

/// The program ends, or becomes another one.
pub fn complain_of_all() {
    for (fd, descriptor) in TABLE.iter().enumerate() {
        let error = descriptor.error.swap(0, Ordering::SeqCst);
        if error != 0 {
            complain(&name_of(fd as i32), error);
        }
    }
}

/// In the child of a fork.
pub fn reset() {
    sockets::reset();
    for descriptor in &TABLE {
        descriptor.set(Role::Unknown);
        descriptor.error.store(0, Ordering::Relaxed);
        descriptor.record.store(0, Ordering::Relaxed);
    }
}

/// Descriptors that have one, within bounds: for calls that name a range.
pub fn in_range(first: u64, last: u64) -> impl Iterator<Item = u64> {
    first..=last.min(DESCRIPTORS as u64 - 1)
}

/// Bytes were read at an offset, or at the descriptor's own (`None`); what to read ahead, if
/// something.
pub fn was_read(fd: u64, offset: Option<u64>, count: u64) -> Option<(u64, u64)> {
    const WINDOW_BYTES: u64 = 1 << 20;
    let descriptor = at(fd)?;
    let expected = descriptor.position.load(Ordering::Relaxed);
    let start = offset.unwrap_or(expected);
    let end = start + count;
    descriptor.position.store(end, Ordering::Relaxed);
    if start != expected {
        descriptor.ahead.store(end, Ordering::Relaxed);
        return None;
    }
    let ahead = descriptor.ahead.load(Ordering::Relaxed).max(end);
    let is_far = ahead > end + WINDOW_BYTES / 2;
    if is_far || count == 0 || start == 0 || ahead >= descriptor.size.load(Ordering::Relaxed) {
        return None;
    }
    descriptor.ahead.store(ahead + WINDOW_BYTES, Ordering::Relaxed);
    Some((ahead, WINDOW_BYTES))
}

/// The descriptor's offset was set.
pub fn was_set(fd: u64, position: u64) {
    if let Some(descriptor) = at(fd) {
        descriptor.position.store(position, Ordering::Relaxed);
        descriptor.ahead.store(position, Ordering::Relaxed);
    }
}

/// A readahead was posted.
pub fn note_readahead(fd: u64, record: u64) {
    if let Some(descriptor) = at(fd) {
        descriptor.record.store(record, Ordering::Relaxed);
    }
}

/// A file's name, as much of it as fits.
pub struct Name {
    bytes: [u8; 256],
    size: usize,
}

/// The name of the file behind a descriptor.
pub fn name_of(fd: i32) -> Name {
    let mut path = Line::new();
    path.text("/proc/self/fd/");
    path.number(fd as u64);
    path.text("\0");
    let mut name = Name { bytes: [0; 256], size: 0 };
    if let Ok(path) = CStr::from_bytes_with_nul(path.bytes()) {
        name.size = sys::link_of(path, &mut name.bytes).unwrap_or(0);
    }
    name
}

fn complain(name: &Name, error: i32) {
    const TEXTS: [(i32, &str); 6] = [
        (libc::ENOSPC, "No space left on device"),
        (libc::EDQUOT, "Disk quota exceeded"),
        (libc::EIO, "Input/output error"),
        (libc::EFBIG, "File too large"),
        (libc::EROFS, "Read-only file system"),
        (libc::EPERM, "Operation not permitted"),
    ];
    let mut line = Line::new();
    line.text("hanare: '");
    line.raw(&name.bytes[..name.size]);
    line.text("' was not written whole: ");
    match TEXTS.iter().find(|(known, _)| *known == error) {
        Some((_, text)) => line.text(text),
        None => {
            line.text("error ");
            line.number(error as u64);
        }
    }
    line.text("\n");
    sys::complain(line.bytes());
}
