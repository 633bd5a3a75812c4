//! Becoming a space of an instance: open the device, attach, map the
//! application's addresses and the control window.

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use hanare_abi::ioctl::{
    Attach, Child, IOCTL_ATTACH, IOCTL_CHILD, IOCTL_INFO, Info, MESSAGE_SIZE, NAME_SIZE,
};
use hanare_abi::layout::{
    CONTROL_BASE, CONTROL_END, MESSAGES_BASE, MESSAGES_END, MESSAGES_PART, PARTS, PARTS_ALL,
    SPACE_SHIFT, USER_MAX, USER_MIN, part,
};
use hanare_abi::pooled::{ATTACH_NATIVE, ATTACH_PROGRAM};
use hanare_abi::service::LIMIT_LIFTED;
use hanare_abi::{MAGIC, VERSION};
use linux_raw_sys::errno::{EACCES, EEXIST, ENODEV, ENOENT, ENOMEM, ENXIO, EPERM};
use linux_raw_sys::general::{
    F_DUPFD, F_DUPFD_CLOEXEC, O_CLOEXEC, O_PATH, O_RDONLY, O_RDWR, RLIM64_INFINITY, RLIMIT_AS,
    RLIMIT_NOFILE, rlimit64,
};

use crate::base::message::{EXIT_HANARE, die, print, text};
use crate::base::options::Options;
use crate::sys::shared::Window;
use crate::sys::{self, Errno};

/// Descriptors of the device are moved below this.
const HIGH_DESCRIPTOR: u64 = 4096;
/// And not below this, if the limits allow.
const LOW_DESCRIPTOR: u64 = 1024;

/// A process attached to an instance.
pub struct Space {
    /// Descriptor of the device.
    pub fd: u32,
    /// Space id; another one in the child of a fork.
    pub id: AtomicU32,
    /// Name of the instance, zero-terminated; may be empty.
    pub instance: [u8; NAME_SIZE],
    /// The control window.
    pub window: Window,
    /// The messages of calls whose arguments are copied are mapped.
    has_messages: AtomicBool,
    /// All of the application's addresses have to be mapped, lest Linux put something else there.
    maps_all: bool,
    /// Pool of a native task, with which it starts pooled proxies.
    pub pool: Option<Pool>,
}

/// Descriptors that a native task's proxy has for starting pooled proxies; an execve of its program
/// leaves them open.
#[derive(Clone, Copy)]
pub struct Pool {
    /// The pool.
    pub fd: u32,
    /// This program, to be executed.
    pub program: u32,
}

impl Space {
    fn new(fd: u32, id: u32, instance: [u8; NAME_SIZE], window: Window, maps_all: bool) -> Self {
        let (id, has_messages) = (AtomicU32::new(id), AtomicBool::new(false));
        Self { fd, id, instance, window, has_messages, maps_all, pool: None }
    }

    /// The window, where messages are mapped, too.
    pub fn messages(&self) -> Option<Window> {
        self.has_messages.load(Ordering::Acquire).then_some(self.window)
    }
}

/// Attaches and maps, or explains and exits.
pub fn attach(options: &Options) -> Space {
    let fd = move_high(open_device(), F_DUPFD_CLOEXEC);
    check_version(fd);
    let mut request = Attach {
        name: options.instance,
        cpus: options.cpus,
        space: 0,
        cpu_count: 0,
        fd,
        counted: 0,
        kind: options.kind,
        pool_fd: options.pool.unwrap_or(0),
        message: [0; MESSAGE_SIZE],
    };
    if let Err(error) = sys::ioctl(fd, IOCTL_ATTACH, &mut request) {
        attach_failed(&request, error);
    }
    if request.counted != 0 {
        print(format_args!(
            "perf sees what Linux does for the program, not the program, which runs on the LWK; see: hanare run --stats, hanare trace -c"
        ));
    }
    // A process that executes nothing of its program maps nothing of it.
    let parts = if options.kind == ATTACH_PROGRAM { PARTS_ALL } else { 0 };
    let (window, maps_all) = map(fd, request.space, parts);
    let pool = options.pool.filter(|_| options.kind == ATTACH_NATIVE).map(|fd| {
        let program = sys::open(c"/proc/self/exe", O_PATH | O_CLOEXEC).unwrap_or_else(|error| {
            die(EXIT_HANARE, format_args!("cannot open /proc/self/exe: {error}"))
        });
        Pool { fd: move_high(fd, F_DUPFD), program: move_high(program, F_DUPFD) }
    });
    Space { pool, ..Space::new(fd, request.space, request.name, window, maps_all) }
}

fn open_device() -> u32 {
    sys::open(c"/dev/hanare", O_RDWR | O_CLOEXEC).unwrap_or_else(|error| match error.0 {
        ENOENT | ENXIO | ENODEV => die(
            EXIT_HANARE,
            format_args!("no /dev/hanare: load the module and boot an LWK: hanare boot --cpus LIST --mem SIZE"),
        ),
        EACCES | EPERM => die(
            EXIT_HANARE,
            format_args!("/dev/hanare: {error}: your user is not in the device's group (next: sudo usermod -aG hanare USER, and log in again)"),
        ),
        _ => die(EXIT_HANARE, format_args!("/dev/hanare: {error}")),
    })
}

/// Moves the descriptor out of the way of the application's own, see [`copy_high`].
fn move_high(fd: u32, how: u32) -> u32 {
    match copy_high(fd, how) {
        Some(high) => {
            sys::close(fd);
            high
        }
        None => fd,
    }
}

/// A copy of the descriptor out of the way of the application's own: with the first number above
/// its soft limit. Not higher, since each fork copies the table up to the last number in use.
/// `how`: `F_DUPFD` or `F_DUPFD_CLOEXEC`.
pub fn copy_high(fd: u32, how: u32) -> Option<u32> {
    let limit = sys::get_limit(RLIMIT_NOFILE).ok()?;
    let top = limit.rlim_max.min(HIGH_DESCRIPTOR);
    let first = limit.rlim_cur.max(LOW_DESCRIPTOR).min(top.saturating_sub(1));
    let raised = rlimit64 { rlim_cur: limit.rlim_cur.max(top), rlim_max: limit.rlim_max };
    let before = sys::exchange_limit(RLIMIT_NOFILE, &raised);
    // Lower, should the caller have left something open from there on.
    let high = (0..64).find_map(|back| sys::fcntl(fd, how, first.checked_sub(back)?).ok());
    if let Ok(before) = before {
        put_back(RLIMIT_NOFILE, before, raised);
    }
    high.map(|high| high as u32)
}

/// Sets a limit to what it was `before` the proxy made it `own`, unless another process has set
/// another one meanwhile: that stays.
pub fn put_back(resource: u32, before: rlimit64, own: rlimit64) {
    let is_same = |a: &rlimit64, b: &rlimit64| (a.rlim_cur, a.rlim_max) == (b.rlim_cur, b.rlim_max);
    let (mut wanted, mut expected) = (before, own);
    // A process that sets limits all the time has the last word at some time.
    for _ in 0..8 {
        match sys::exchange_limit(resource, &wanted) {
            Ok(found) if !is_same(&found, &expected) => (wanted, expected) = (found, wanted),
            _ => return,
        }
    }
}

fn check_version(fd: u32) {
    let mut info = Info { magic: 0, version: 0, instances: 0 };
    if let Err(error) = sys::ioctl(fd, IOCTL_INFO, &mut info) {
        die(EXIT_HANARE, format_args!("/dev/hanare: {error}: this is not Hanare's module"));
    }
    if info.magic != MAGIC || info.version != VERSION {
        die(
            EXIT_HANARE,
            format_args!(
                "the module has interface version {:#x}, hanare-proxy has {VERSION:#x}: install both from the same release",
                info.version
            ),
        );
    }
}

fn attach_failed(request: &Attach, error: Errno) -> ! {
    if request.message[0] != 0 {
        die(EXIT_HANARE, format_args!("{}", text(&request.message)));
    }
    match error.0 {
        ENOENT => die(
            EXIT_HANARE,
            format_args!(
                "no such instance is booted; see: hanare ls; boot one: hanare boot --cpus LIST --mem SIZE"
            ),
        ),
        ENODEV => die(
            EXIT_HANARE,
            format_args!("the instance is not running; see: hanare ls, hanare log"),
        ),
        _ => die(EXIT_HANARE, format_args!("cannot attach to the instance: {error}")),
    }
}

/// Offset in the device's file of `address` of space `id`.
fn offset(id: u32, address: u64) -> u64 {
    u64::from(id) << SPACE_SHIFT | address
}

/// Maps these parts of the application's addresses and the control window. Also whether Linux would
/// put mappings of the proxy's own among the parts that are not mapped: then all are.
fn map(fd: u32, id: u32, parts: u32) -> (Window, bool) {
    lift_address_space_limit();
    let maps_all = !sys::maps_above(CONTROL_END);
    let parts = if maps_all && parts != 0 { PARTS_ALL } else { parts };
    let mut result = map_new(fd, id, parts);
    if result == Err(Errno(EEXIST)) {
        make_room();
        result = map_new(fd, id, parts);
    }
    if let Err(error) = result {
        let hint =
            if error.0 == ENOMEM { " (is the address space limited? see: ulimit -Hv)" } else { "" };
        die(EXIT_HANARE, format_args!("cannot map the application's addresses: {error}{hint}"));
    }
    // SAFETY: the device is mapped there, and `Control::Remap` lies below the window.
    #[allow(unsafe_code)]
    let window = unsafe { Window::mapped() };
    (window, maps_all)
}

/// The ranges that are mapped for these parts.
fn ranges(parts: u32) -> impl Iterator<Item = (u64, u64)> {
    let whole = (parts == PARTS_ALL).then_some((USER_MIN, USER_MAX));
    let some = move |number: &u32| parts != PARTS_ALL && parts & 1 << number != 0;
    whole.into_iter().chain((0..PARTS).filter(some).map(part))
}

/// Maps parts and the window where nothing is: all of them or none.
fn map_new(fd: u32, id: u32, parts: u32) -> sys::Result<()> {
    let all = || ranges(parts).chain([(CONTROL_BASE, CONTROL_END)]);
    for (count, (start, end)) in all().enumerate() {
        if let Err(error) = sys::map_device(fd, start, end, offset(id, start), false) {
            all().take(count).for_each(|(start, end)| {
                let _ = sys::unmap(start, end);
            });
            return Err(error);
        }
    }
    Ok(())
}

/// `Control::MapPart`: nothing but the device was ever mapped there.
pub fn map_part(space: &Space, number: u32) -> sys::Result<()> {
    if number == MESSAGES_PART {
        return map_messages(space);
    }
    if number >= PARTS {
        return Err(Errno(linux_raw_sys::errno::EINVAL));
    }
    let ((start, end), id) = (part(number), space.id.load(Ordering::Relaxed));
    match sys::map_device(space.fd, start, end, offset(id, start), false) {
        Err(Errno(EEXIST)) => Ok(()), // another thread was faster
        result => result,
    }
}

/// Maps the messages of calls whose arguments are copied. Linux may have put something else there,
/// where it spreads mappings far (`vm.mmap_rnd_bits`): then there are none.
fn map_messages(space: &Space) -> sys::Result<()> {
    let id = space.id.load(Ordering::Relaxed);
    let offset = offset(id, MESSAGES_BASE);
    match sys::map_device(space.fd, MESSAGES_BASE, MESSAGES_END, offset, false) {
        Ok(()) => space.has_messages.store(true, Ordering::Release),
        // Another thread was faster; one that has not said so yet has the LWK ask again.
        Err(Errno(EEXIST)) if space.has_messages.load(Ordering::Acquire) => {}
        Err(error) => return Err(error),
    }
    Ok(())
}

/// The mapping is counted as address space though it costs none. The LWK applies
/// the application's limit, so Linux' may be as high as it goes. The module has lifted it as a
/// rule.
fn lift_address_space_limit() {
    if let Ok(limit) = sys::get_limit(RLIMIT_AS)
        && limit.rlim_cur != RLIM64_INFINITY as u64
        && limit.rlim_cur != LIMIT_LIFTED
    {
        let raised = rlimit64 { rlim_cur: limit.rlim_max, rlim_max: limit.rlim_max };
        let _ = sys::set_limit(RLIMIT_AS, &raised);
    }
}

/// Maps the device again over a part of the application's range.
pub fn map_again(space: &Space, start: u64, end: u64) -> sys::Result<()> {
    let range = USER_MIN..=USER_MAX;
    if start >= end || !range.contains(&start) || !range.contains(&end) {
        return Err(Errno(linux_raw_sys::errno::EINVAL));
    }
    let id = space.id.load(Ordering::Relaxed);
    sys::map_device(space.fd, start, end, offset(id, start), true)
}

/// Maps the device where nothing is, for a core dump.
pub fn map_for_dump(space: &Space, start: u64, end: u64, write: bool) -> sys::Result<()> {
    sys::map_device_for_dump(
        space.fd,
        start,
        end,
        offset(space.id.load(Ordering::Relaxed), start),
        write,
    )
}

/// In the child of a fork: maps its own space, these parts of it or only the control
/// window; then what lies below comes with `Control::Remap`. What another thread has mapped since
/// the parent's memory was copied is not the child's: it goes.
fn map_child(space: &Space, parts: u32) -> sys::Result<()> {
    let id = space.id.load(Ordering::Relaxed);
    let parts = if parts != 0 && space.maps_all { PARTS_ALL } else { parts };
    for (start, end) in ranges(parts) {
        sys::map_device(space.fd, start, end, offset(id, start), true)?;
    }
    if parts != 0 {
        ranges(PARTS_ALL & !parts).try_for_each(|(start, end)| sys::unmap(start, end))?;
    }
    sys::map_device(space.fd, CONTROL_BASE, CONTROL_END, offset(id, CONTROL_BASE), false)
}

/// In a proxy that was loaded again in place of that of space `parent`: the space of its
/// program, as the inherited descriptor `fd`.
pub fn program(
    fd: u32,
    parent: u32,
    instance: [u8; NAME_SIZE],
    token: u64,
    files: [u64; 3],
    secure: bool,
) -> sys::Result<Space> {
    let mut request = Child {
        token,
        program: 1,
        secure: secure.into(),
        files,
        parent,
        shares_table: 0,
        space: 0,
        parts: 0,
    };
    sys::ioctl(fd, IOCTL_CHILD, &mut request)?;
    let (window, maps_all) = map(fd, request.space, request.parts);
    Ok(Space::new(fd, request.space, instance, window, maps_all))
}

/// In the child of a fork: asks for a space of its own by `token`, and maps it. The
/// descriptor becomes that, unless the child has the table of its parent.
pub fn child(space: &Space, token: u64, shares_table: bool) -> sys::Result<()> {
    let parent = space.id.load(Ordering::Relaxed);
    let mut request = Child {
        token,
        program: 0,
        secure: 0,
        files: [0; 3],
        parent,
        shares_table: shares_table.into(),
        space: 0,
        parts: 0,
    };
    sys::ioctl(space.fd, IOCTL_CHILD, &mut request)?;
    space.id.store(request.space, Ordering::Relaxed);
    space.has_messages.store(false, Ordering::Relaxed);
    map_child(space, request.parts)
}

/// Something lies in the application's range. With a large `vm.mmap_rnd_bits`
/// that may be the vdso, which goes; anything else is named.
fn make_room() {
    let Ok(fd) = sys::open(c"/proc/self/maps", O_RDONLY | O_CLOEXEC) else {
        return;
    };
    let mut bytes = [0; 8192];
    let mut length = 0;
    while let Ok(count @ 1..) = sys::read(fd, &mut bytes[length..]) {
        length += count;
    }
    sys::close(fd);
    for line in bytes[..length].split(|&byte| byte == b'\n') {
        let Some((start, end)) = map_range(line) else {
            continue;
        };
        if start >= CONTROL_END || end <= USER_MIN {
            continue;
        }
        let vdso = line.ends_with(b"[vdso]") || line.windows(5).any(|part| part == b"[vvar");
        if !vdso || sys::unmap_vdso(start, end).is_err() {
            die(
                EXIT_HANARE,
                format_args!(
                    "{start:#x}-{end:#x} of the application's addresses is in use on Linux; start programs with: hanare run"
                ),
            );
        }
    }
}

/// `start-end` at the beginning of a line of /proc/self/maps.
fn map_range(line: &[u8]) -> Option<(u64, u64)> {
    let text = core::str::from_utf8(line.split(|&byte| byte == b' ').next()?).ok()?;
    let (start, end) = text.split_once('-')?;
    Some((u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?))
}
