//! Calls of servers: replies are posted, and the loop goes on to the next request.
//!
//! When a write to a TCP connection has returned, its data is in the send buffer; when it reaches
//! the other side is for the network to say. So a reply that is made a little later is one that was
//! a little longer under way. What the other side does because of it comes later by as much, and
//! what it does for other reasons it does anyway. Therefore the program may go on to wait for
//! requests and to read them ([`receive`], [`wait`], [`accept`]). Everything else waits for replies
//! as for writes to files: a descriptor that is closed, or another message that is sent.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use hanare_ikc::Trial;
use libc::c_int;

use crate::calls::{Arguments, Verdict};
use crate::poster::{self, What};
use crate::state::{self, Inside};
use crate::sys::lock::{Held, Locked};
use crate::sys::{self, make, program};
use crate::{files, memory, sockets, worker, writes};

/// Larger ones are made as ever: copying them costs as much as sending them.
const REPLY_BYTES_MAX: u64 = 64 << 10;

/// A call is about to be made; `None`: it is none of those here.
pub fn ask(nr: i64, args: &Arguments) -> Option<Verdict> {
    if !state::KINDS[state::SOCKETS].load(Ordering::Relaxed) {
        return None;
    }
    let is_connection = sockets::is_connection(args[0]);
    Some(match nr {
        libc::SYS_write | libc::SYS_writev | libc::SYS_sendto | libc::SYS_sendmsg => {
            if let Some(error) = sockets::take_error(args[0]) {
                return Some(Verdict::Done(-i64::from(error)));
            }
            if !is_connection {
                return None;
            }
            send(nr, args)
        }
        libc::SYS_read | libc::SYS_readv | libc::SYS_recvfrom | libc::SYS_recvmsg => {
            if !is_connection && !sockets::has_failed(args[0] as c_int) {
                return None;
            }
            receive(nr, args)
        }
        libc::SYS_accept | libc::SYS_accept4 => accept(nr, args),
        libc::SYS_epoll_wait | libc::SYS_poll => wait(nr, args),
        libc::SYS_epoll_pwait if args[4] == 0 => wait(nr, args),
        libc::SYS_select => {
            poster::await_all();
            let result = make(nr, args);
            sockets::look_again_at_all();
            Verdict::Done(result)
        }
        libc::SYS_epoll_ctl => {
            poster::await_files();
            Verdict::Make
        }
        libc::SYS_fcntl | libc::SYS_ioctl if is_connection && is_flag(nr, args) => {
            poster::await_all();
            Verdict::Make
        }
        libc::SYS_getsockopt | libc::SYS_setsockopt => option(nr, args),
        libc::SYS_shutdown
        | libc::SYS_getpeername
        | libc::SYS_connect
        | libc::SYS_sendfile
        | libc::SYS_pwritev2
        | libc::SYS_preadv2
        | libc::SYS_recvmmsg => {
            if !is_connection {
                return None;
            }
            if nr == libc::SYS_shutdown {
                sockets::forget(args[0]);
            }
            make_past(nr, args, args[0])
        }
        libc::SYS_splice => {
            let verdict = make_past(nr, args, args[2]);
            sockets::look_again(args[0]);
            verdict
        }
        _ => return None,
    })
}

/// Makes a call that writes to a connection, or tells something of it.
fn make_past(nr: i64, args: &Arguments, fd: u64) -> Verdict {
    poster::await_all();
    // Another thread may look between them.
    sockets::look_again(fd);
    let result = make(nr, args);
    sockets::look_again(fd);
    Verdict::Done(result)
}

fn send(nr: i64, args: &Arguments) -> Verdict {
    let fd = args[0];
    // An error of a file that comes late would have kept the program from replying.
    poster::await_files();
    let posted = writes::begin(state::SOCKETS).and_then(|(mut locked, inside)| {
        let is_next = !poster::has_files() && is_worth_it(&mut locked);
        let posted = if is_next { post(&mut locked, nr, args) } else { None };
        drop(locked);
        drop(inside);
        posted
    });
    match posted {
        Some(size) => Verdict::Done(size as i64),
        None => {
            poster::await_all();
            if nr == libc::SYS_sendmsg {
                files::note_message(nr, args);
            }
            make_past(nr, args, fd)
        }
    }
}

static FASTER: Held<Trial> = Held::new(Trial::new());

/// Whether replies go on while the program does something else. One that is awaited at once,
/// because the program writes a line to its log after each reply, takes longer than a call. Then
/// the next ones are made as ever, and it is tried again. Nor are they posted where there is no CPU
/// for the worker, which only the time tells.
fn is_worth_it(locked: &mut Locked) -> bool {
    const TRIES: u32 = 32;
    const PAUSE: u32 = 2048;
    static AWAITED: AtomicU64 = AtomicU64::new(0);
    /// Number of replies in a row that were awaited.
    static IN_VAIN: AtomicU32 = AtomicU32::new(0);
    static LEFT_OUT: AtomicU32 = AtomicU32::new(0);
    let left_out = LEFT_OUT.load(Ordering::Relaxed);
    if left_out != 0 {
        LEFT_OUT.store(left_out - 1, Ordering::Relaxed);
        return false;
    }
    let awaited = poster::replies_awaited();
    let was_awaited = AWAITED.swap(awaited, Ordering::Relaxed) != awaited;
    let in_vain = if was_awaited { IN_VAIN.load(Ordering::Relaxed) + 1 } else { 0 };
    let is_worth_it = in_vain < TRIES;
    IN_VAIN.store(if is_worth_it { in_vain } else { 0 }, Ordering::Relaxed);
    LEFT_OUT.store(if is_worth_it { 0 } else { PAUSE }, Ordering::Relaxed);
    is_faster(locked, is_worth_it)
}

/// Whether that is faster. Where it is not `possible` for a while, that time says nothing, and the
/// trial begins anew.
fn is_faster(locked: &mut Locked, possible: bool) -> bool {
    FASTER.with(locked, |trial| {
        if !possible {
            *trial = Trial::new();
        }
        possible && trial.posts_next(sys::now_ns)
    })
}

fn post(locked: &mut Locked, nr: i64, args: &Arguments) -> Option<u64> {
    const HARMLESS: u64 = (libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT) as u64;
    const MESSAGE_WORDS: usize = 7;
    let (fd, mut start, mut size) = (args[0], args[1], args[2]);
    let mut is_vector = nr == libc::SYS_writev;
    let mut flags = 0;
    if nr == libc::SYS_sendto {
        (flags, is_vector) = (args[3], false);
        if args[4] != 0 {
            return None;
        }
    } else if nr == libc::SYS_sendmsg {
        let mut message = [0u64; MESSAGE_WORDS];
        memory::copy_of(locked, start, &mut message)?;
        let [name, _, vectors, count, _, control_bytes, _] = message;
        if name != 0 || control_bytes != 0 {
            return None;
        }
        (flags, start, size, is_vector) = (args[2], vectors, count, true);
    }
    let flags = flags & 0xffff_ffff;
    let is_quiet =
        flags & libc::MSG_NOSIGNAL as u64 != 0 || state::IGNORES_SIGPIPE.load(Ordering::SeqCst);
    if flags & !HARMLESS != 0 || !is_quiet || !sockets::is_connection(fd) {
        return None;
    }
    let data = writes::Data::of(locked, is_vector, start, size, REPLY_BYTES_MAX)?;
    if !sockets::takes(locked, fd, data.size()) {
        return None;
    }
    Some(data.post(locked, What::Send, fd))
}

/// Receiving is the same beside posted replies: what the other side has sent does not depend on a
/// reply that it has not got.
fn receive(nr: i64, args: &Arguments) -> Verdict {
    let fd = args[0];
    let flags = match nr {
        libc::SYS_recvfrom => args[3] as c_int,
        libc::SYS_recvmsg => args[2] as c_int,
        _ => 0,
    };
    if flags & libc::MSG_ERRQUEUE != 0 {
        poster::await_all();
        return Verdict::Make;
    }
    if sockets::is_connection(fd) {
        poster::await_files();
    } else {
        poster::await_all();
    }
    let result = make(nr, args);
    let is_news = result != i64::from(-libc::EAGAIN) && result != i64::from(-libc::EINTR);
    let is_empty = matches!(nr, libc::SYS_read | libc::SYS_recvfrom) && args[2] == 0;
    if result <= 0 && is_news && !is_empty {
        sockets::look_again(fd);
        // The end of the data is where the kernel would have told the error that a posted write has
        // taken.
        poster::await_all();
        if let (0, Some(error)) = (result, sockets::take_error(fd)) {
            return Verdict::Done(-i64::from(error));
        }
    }
    Verdict::Done(result)
}

fn accept(nr: i64, args: &Arguments) -> Verdict {
    if sockets::is_listener(args[0]) {
        poster::await_files();
    } else {
        poster::await_all();
    }
    let result = make(nr, args);
    if result >= 0 {
        let inside = Inside::enter();
        let mut locked = poster::lock(&inside);
        sockets::accepted(&mut locked, args[0], result as u64);
        drop(locked);
        if sockets::is_connection(result as u64) {
            worker::start(&inside);
        }
    }
    Verdict::Done(result)
}

/// Waits until something happens. To ask whether it has happened already is a look.
fn wait(nr: i64, args: &Arguments) -> Verdict {
    const BROKEN: u32 = (libc::EPOLLERR | libc::EPOLLHUP) as u32;
    let timeout = if nr == libc::SYS_poll { args[2] } else { args[3] };
    if timeout as c_int == 0 {
        poster::await_all();
    } else {
        poster::await_files();
    }
    let result = make(nr, args);
    if result <= 0 {
        return Verdict::Done(result);
    }
    if program::has_event(nr, args, result, BROKEN) {
        sockets::look_again_at_all();
    }
    Verdict::Done(result)
}

/// Whether the call changes no more than whether calls block.
fn is_flag(nr: i64, args: &Arguments) -> bool {
    const FIONBIO: u64 = 0x5421;
    if nr == libc::SYS_ioctl {
        return args[1] == FIONBIO;
    }
    args[1] as c_int == libc::F_SETFL && args[2] as c_int & libc::O_ASYNC == 0
}

/// Options that change neither the send buffer nor what becomes of a write.
const HARMLESS_OPTIONS: [(c_int, c_int); 9] = [
    (libc::IPPROTO_TCP, libc::TCP_CORK),
    (libc::IPPROTO_TCP, libc::TCP_NODELAY),
    (libc::IPPROTO_TCP, libc::TCP_QUICKACK),
    (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE),
    (libc::IPPROTO_TCP, libc::TCP_KEEPINTVL),
    (libc::IPPROTO_TCP, libc::TCP_KEEPCNT),
    (libc::SOL_SOCKET, libc::SO_KEEPALIVE),
    (libc::SOL_SOCKET, libc::SO_SNDBUF),
    (libc::SOL_SOCKET, libc::SO_LINGER),
];

fn option(nr: i64, args: &Arguments) -> Verdict {
    let fd = args[0];
    let which = (args[1] as c_int, args[2] as c_int);
    if nr == libc::SYS_setsockopt && !HARMLESS_OPTIONS.contains(&which) {
        sockets::forget(fd);
    }
    poster::await_all();
    if nr == libc::SYS_getsockopt && which == (libc::SOL_SOCKET, libc::SO_ERROR) {
        sockets::look_again(fd);
        let result = make(nr, args);
        sockets::look_again(fd);
        if result == 0 {
            program::tell_error(args, || sockets::take_error(fd).unwrap_or(0));
        }
        return Verdict::Done(result);
    }
    make_past(nr, args, fd)
}
