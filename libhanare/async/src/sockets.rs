//! TCP connections: which of them are this process's alone, and how much each takes without a look.
//!
//! A connection takes a write whole while its send buffer has room: `sk_stream_memory_free` in
//! Linux' `include/net/sock.h` asks whether the memory of what is queued (`sk_wmem_queued`) is
//! below `sk_sndbuf`, before each packet that is begun. What is queued grows by this process' own
//! writes, and by packets that are split to be sent again. So an upper bound of it is kept for each
//! connection, and the kernel is asked only where that runs out.

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU8, AtomicU64, Ordering};

use crate::poster::{self, DESCRIPTORS};
use crate::sys::{self, lock::Locked};

/// Connections below this segment size are left alone. IPv4 has at least 536, less options of each
/// segment.
const SEGMENT_BYTES_MIN: u32 = 500;
/// Memory of a packet beyond its payload is at most 1280 bytes: head, `struct sk_buff` and
/// `struct skb_shared_info`. With segments of 500 bytes that are 3.6 bytes of memory for a byte.
const MEMORY_OF_BYTE: u64 = 4;
/// Memory of the packet that a write may begin. Twice as much as is needed.
const MEMORY_OF_WRITE: u64 = 4096;
/// A limit on unsent data that is never reached: the default has all bits set.
const NO_LIMIT: u32 = 1 << 31;

#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Role {
    Unknown,
    /// A socket that listens for TCP connections.
    Listener,
    /// A TCP connection that this process has accepted.
    Connection,
}

struct Socket {
    role: AtomicU8,
    /// An error that came late and was not told.
    error: AtomicI32,
    /// Memory that the connection may still use before the library has to look.
    room: AtomicU64,
    /// Memory that there was when nothing was queued; 0: no thread has looked.
    room_max: AtomicU64,
    /// The value of [`LOOKS`] at its last look; 0: it has to be looked at.
    look: AtomicU64,
}

static TABLE: [Socket; DESCRIPTORS] = [const {
    Socket {
        role: AtomicU8::new(Role::Unknown as u8),
        error: AtomicI32::new(0),
        room: AtomicU64::new(0),
        room_max: AtomicU64::new(0),
        look: AtomicU64::new(0),
    }
}; DESCRIPTORS];

/// Grows when the program is told that some connection is broken, without being told which.
static LOOKS: AtomicU64 = AtomicU64::new(1);

/// No limit on unsent data is set for the whole machine.
static IS_UNLIMITED: AtomicBool = AtomicBool::new(false);

/// Called once, before the first connection.
pub fn prepare() {
    let limit = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_notsent_lowat");
    let limit: Option<u32> = limit.ok().and_then(|text| text.trim().parse().ok());
    IS_UNLIMITED.store(limit.is_some_and(|limit| limit >= NO_LIMIT), Ordering::Relaxed);
}

fn at(fd: u64) -> Option<&'static Socket> {
    TABLE.get(fd as u32 as usize)
}

fn has_role(fd: u64, role: Role) -> bool {
    at(fd).is_some_and(|socket| socket.role.load(Ordering::Acquire) == role as u8)
}

/// Whether `fd` is a TCP connection that this process has accepted and shares with no other.
pub fn is_connection(fd: u64) -> bool {
    has_role(fd, Role::Connection)
}

/// Whether TCP connections were accepted from `fd` before.
pub fn is_listener(fd: u64) -> bool {
    has_role(fd, Role::Listener)
}

/// A connection was accepted from a listener. Only of TCP is it unknown when what is written
/// arrives.
pub fn accepted(_: &mut Locked, listener: u64, fd: u64) {
    let (Some(from), Some(socket)) = (at(listener), at(fd)) else { return };
    socket.error.store(0, Ordering::SeqCst);
    socket.look.store(0, Ordering::SeqCst);
    socket.room_max.store(0, Ordering::SeqCst);
    let protocol = sys::option_of::<1>(fd as i32, libc::SOL_SOCKET, libc::SO_PROTOCOL);
    let is_tcp = protocol == Some([libc::IPPROTO_TCP as u32]);
    let role = |role| if is_tcp { role } else { Role::Unknown } as u8;
    from.role.store(role(Role::Listener), Ordering::Release);
    socket.role.store(role(Role::Connection), Ordering::Release);
}

/// A socket is shared with another process, or was changed in a way that the library does not
/// follow: nothing is posted to it.
pub fn forget(fd: u64) {
    if let Some(socket) = at(fd) {
        socket.role.store(Role::Unknown as u8, Ordering::Release);
    }
}

/// All sockets are, as in [`forget`].
pub fn forget_all() {
    TABLE.iter().for_each(|socket| socket.role.store(Role::Unknown as u8, Ordering::Release));
}

/// In the child of a fork: errors are its parent's to be told.
pub fn reset() {
    for (fd, socket) in TABLE.iter().enumerate() {
        forget(fd as u64);
        socket.error.store(0, Ordering::SeqCst);
    }
}

/// A descriptor is about to name something else than its socket, or nothing.
pub fn replaced(fd: u64) {
    forget(fd);
    if let Some(socket) = at(fd) {
        socket.error.store(0, Ordering::SeqCst);
    }
}

/// The program may have been told something of the connection, or has written to it past the bound.
pub fn look_again(fd: u64) {
    if let Some(socket) = at(fd) {
        socket.look.store(0, Ordering::SeqCst);
    }
}

/// The program was told that something is broken.
pub fn look_again_at_all() {
    LOOKS.fetch_add(1, Ordering::SeqCst);
}

/// Whether the connection takes so many bytes at once, which are then counted.
pub fn takes(_: &mut Locked, fd: u64, size: u64) -> bool {
    let Some(socket) = at(fd) else { return false };
    let memory = MEMORY_OF_WRITE + size * MEMORY_OF_BYTE;
    let room_max = socket.room_max.load(Ordering::SeqCst);
    if room_max != 0 && memory > room_max {
        return false;
    }
    let looks = LOOKS.load(Ordering::SeqCst);
    let mut room = socket.room.load(Ordering::SeqCst);
    if socket.look.load(Ordering::SeqCst) != looks || room < memory {
        // What is outstanding is not queued yet.
        poster::await_all();
        let Some((found, max)) = look(fd as i32) else {
            forget(fd);
            return false;
        };
        room = found;
        socket.room_max.store(max, Ordering::SeqCst);
        socket.look.store(looks, Ordering::SeqCst);
    }
    let takes = memory <= room && socket.error.load(Ordering::SeqCst) == 0;
    socket.room.store(if takes { room - memory } else { room }, Ordering::SeqCst);
    takes
}

/// How much memory it may use, and might if nothing were queued; `None`: nothing may be posted to
/// it any more.
fn look(fd: i32) -> Option<(u64, u64)> {
    const ESTABLISHED: u32 = 1;
    const TCP_NOTSENT_LOWAT: i32 = 25;
    const SO_MEMINFO: i32 = 55;
    let [state, _, _, _, segment_bytes] = sys::option_of(fd, libc::IPPROTO_TCP, libc::TCP_INFO)?;
    if state & 0xff != ESTABLISHED || segment_bytes < SEGMENT_BYTES_MIN {
        return None;
    }
    let [limit] = sys::option_of(fd, libc::IPPROTO_TCP, TCP_NOTSENT_LOWAT)?;
    if limit < NO_LIMIT && (limit != 0 || !IS_UNLIMITED.load(Ordering::Relaxed)) {
        return None;
    }
    let [_, _, _, buffer, _, queued] = sys::option_of(fd, libc::SOL_SOCKET, SO_MEMINFO)?;
    // From two thirds on the socket is not ready to be written to, which epoll tells:
    // sk_stream_is_writeable. What is queued may be split into more packets yet.
    let room_max = u64::from(buffer) / 2;
    Some((room_max.saturating_sub(u64::from(queued) * MEMORY_OF_BYTE), room_max))
}

/// A posted write has failed. EPIPE the kernel tells again, to every write.
pub fn fail(fd: i32, error: i32) {
    if let (Some(socket), true) = (at(fd as u64), error != libc::EPIPE) {
        let _ = socket.error.compare_exchange(0, error, Ordering::SeqCst, Ordering::SeqCst);
    }
}

/// Whether a posted reply on the descriptor has failed, and the program was not told.
pub fn has_failed(fd: i32) -> bool {
    at(fd as u64).is_some_and(|socket| socket.error.load(Ordering::SeqCst) != 0)
}

/// The error that the program is told now.
pub fn take_error(fd: u64) -> Option<i32> {
    let error = &at(fd)?.error;
    if error.load(Ordering::SeqCst) == 0 {
        return None;
    }
    poster::await_all();
    look_again(fd);
    Some(error.swap(0, Ordering::SeqCst)).filter(|error| *error != 0)
}
