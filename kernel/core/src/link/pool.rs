//! The servers of a process' request box: when there is to be one more or one less, and when a call
//! does not wait for them any longer.

use core::sync::atomic::{AtomicU64, Ordering};
use hanare_abi::boot::{DISPATCH_AUTO, DISPATCH_BOX, DISPATCH_DIRECT};
use hanare_abi::start::{START_AUTO, START_BOX, START_DIRECT};

/// Most servers of a process, unless a boot option says so, and fewer where Linux has fewer CPUs.
pub const SERVERS_USUAL: u32 = 4;
/// How long a call waits in the box while no server ends one, ns. Then its own worker executes it.
pub const STALLED_NS: u64 = 5_000_000;
/// How long a server must not have been needed before it goes, ns.
pub const IDLE_NS: u64 = 1_000_000_000;

/// Most servers: what is asked for, or what there are CPUs for that Linux has left.
#[must_use]
pub fn most(asked: Option<u32>, linux_cpus: u32, most: u32) -> u32 {
    asked.unwrap_or(SERVERS_USUAL.min(linux_cpus)).clamp(1, most)
}

/// How the calls of a process reach the side that executes them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Way {
    /// Each thread's own worker executes its calls.
    #[default]
    Direct,
    /// Servers execute calls, where they may.
    Box,
    /// [`Way::Box`] while there are more threads than servers at most, else [`Way::Direct`].
    Auto,
}

impl Way {
    /// All ways.
    pub const ALL: [Way; 3] = [Way::Direct, Way::Box, Way::Auto];

    /// The way's word in options.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Way::Direct => "direct",
            Way::Box => "box",
            Way::Auto => "auto",
        }
    }

    /// The way's number, `DISPATCH_*`, for the module.
    #[must_use]
    pub const fn dispatch(self) -> u32 {
        match self {
            Way::Direct => DISPATCH_DIRECT,
            Way::Box => DISPATCH_BOX,
            Way::Auto => DISPATCH_AUTO,
        }
    }

    /// The way that options spell like this.
    #[must_use]
    pub fn of_word(word: &str) -> Option<Way> {
        Way::ALL.into_iter().find(|way| way.word() == word)
    }

    /// The way of a program: as the flags of its start block say, or as its instance does.
    #[must_use]
    pub const fn of_program(flags: u64, instance: Way) -> Way {
        if flags & START_AUTO != 0 {
            Way::Auto
        } else if flags & START_BOX != 0 {
            Way::Box
        } else if flags & START_DIRECT != 0 {
            Way::Direct
        } else {
            instance
        }
    }
}

/// Whether the calls of a process that chooses by itself ([`Way::Auto`]) go by the box: servers are
/// then fewer than threads.
#[must_use]
pub const fn is_crowded(threads: usize, servers: u32) -> bool {
    threads > servers as usize
}

/// How many servers a process has, and what they have to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// Servers that there are.
    pub servers: u32,
    /// Most servers that there may be.
    pub most: u32,
    /// Calls in the box or with a server, the one that is about to come left out.
    pub calls: u32,
}

impl Load {
    /// Whether there is to be one more before a call comes: it would wait for another one, which
    /// may wait for anything.
    #[must_use]
    pub const fn grows(self) -> bool {
        self.servers < self.most && self.calls >= self.servers
    }

    /// Whether one server is too many: at most `needed` had something to do since `since_ns` ago.
    #[must_use]
    pub const fn shrinks(self, needed: u32, since_ns: u64) -> bool {
        since_ns >= IDLE_NS && self.servers > 1 && needed < self.servers
    }
}

/// A call in the box: until when it waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watch {
    /// Calls that servers had ended when it was looked at last.
    ended: u32,
    /// Time of that look.
    since_ns: u64,
}

impl Watch {
    /// The watch of a call that has just come.
    #[must_use]
    pub const fn new(ended: u32, now_ns: u64) -> Self {
        Self { ended, since_ns: now_ns }
    }

    /// Time of the next look at the box, ns.
    #[must_use]
    pub const fn deadline_ns(self) -> u64 {
        self.since_ns.saturating_add(STALLED_NS)
    }

    /// Whether all servers are blocked, as far as can be told: none has ended a call. Otherwise it
    /// waits on.
    pub const fn is_stalled(&mut self, ended: u32, now_ns: u64) -> bool {
        if now_ns < self.deadline_ns() {
            return false;
        }
        let is_stalled = ended == self.ended;
        *self = Self::new(ended, now_ns);
        is_stalled
    }
}

/// How long a thread's calls go past the box after one of them has been taken out, ns.
pub const PASSED_BY_NS: u64 = 10 * STALLED_NS;

/// Until when a thread's calls go past the box, to its own worker, after one was taken out before a
/// server had begun it.
///
/// The call may have been taken out since all servers are blocked: each call would wait for
/// [`STALLED_NS`], which is a thousand times what it costs. Or a signal took it out. While all
/// servers are blocked a call waits for [`STALLED_NS`], and where signals come faster than that,
/// each attempt would wait anew and none be executed. Not only the next call: that may be the
/// handler's, or be kept from being begun by the same signal.
#[derive(Debug, Default)]
pub struct PassesBy(AtomicU64);

impl PassesBy {
    /// A call was taken out of the box before a server had begun it.
    pub fn was_taken_out(&self, now_ns: u64) {
        self.0.store(now_ns.saturating_add(PASSED_BY_NS), Ordering::Relaxed);
    }

    /// Whether the call that comes now goes past the box. The clock is looked at where it may.
    #[must_use]
    pub fn is_so(&self, now_ns: impl FnOnce() -> u64) -> bool {
        let until_ns = self.0.load(Ordering::Relaxed);
        let passes = until_ns != 0 && now_ns() < until_ns;
        if until_ns != 0 && !passes {
            self.0.store(0, Ordering::Relaxed);
        }
        passes
    }
}

/// Whether a path names the calling thread's own directory in /proc, which depends on the looking
/// thread.
#[must_use]
pub fn names_thread(path: &[u8]) -> bool {
    const NAME: &[u8] = b"thread-self";
    path.windows(NAME.len()).any(|part| part == NAME)
}

/// Whether a path may name a file in /proc that Linux lets only the thread write which the file is
/// about, or that changes what such a thread has.
#[must_use]
pub fn is_threads_own(path: &[u8]) -> bool {
    const NAMES: [&[u8]; 2] = [b"loginuid", b"timerslack_ns"];
    const ATTRIBUTES: [&[u8]; 5] = [b"current", b"exec", b"fscreate", b"keycreate", b"sockcreate"];
    let mut parts = path.rsplit(|&byte| byte == b'/');
    let name = parts.next().unwrap_or_default();
    // `attr/apparmor/exec`, too.
    NAMES.contains(&name) || ATTRIBUTES.contains(&name) && parts.take(2).any(|part| part == b"attr")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_servers_for_the_cpus_of_linux() {
        assert_eq!([1, 2, 64].map(|cpus| most(None, cpus, 8)), [1, 2, 4]);
        assert_eq!([0, 1, 6, 9].map(|asked| most(Some(asked), 1, 8)), [1, 1, 6, 8]);
        assert_eq!(most(None, 0, 8), 1);
    }

    #[test]
    fn a_program_says_more_than_its_instance() {
        for instance in Way::ALL {
            assert_eq!(Way::of_program(0, instance), instance);
            assert_eq!(Way::of_program(START_DIRECT, instance), Way::Direct);
            assert_eq!(Way::of_program(START_BOX, instance), Way::Box);
            assert_eq!(Way::of_program(START_AUTO, instance), Way::Auto);
            assert_eq!(Way::of_word(instance.word()), Some(instance));
        }
        assert_eq!(Way::of_word("Box"), None);
    }

    #[test]
    fn servers_are_fewer_than_the_threads_of_a_crowd() {
        assert_eq!(
            [0, 1, 2, 3, 100].map(|threads| is_crowded(threads, 2)),
            [false, false, false, true, true]
        );
    }

    #[test]
    fn a_call_that_would_wait_for_another_one_brings_a_server() {
        let load = |servers, calls| Load { servers, most: 2, calls };
        assert!(load(0, 0).grows(), "the first one");
        assert!(!load(1, 0).grows() && load(1, 1).grows() && !load(2, 9).grows());
    }

    #[test]
    fn a_server_goes_that_was_not_needed_for_a_while() {
        let load = |servers| Load { servers, most: 4, calls: 0 };
        assert!(load(3).shrinks(2, IDLE_NS));
        assert!(!load(3).shrinks(3, IDLE_NS) && !load(3).shrinks(2, IDLE_NS - 1));
        assert!(!load(1).shrinks(0, u64::MAX), "one stays");
    }

    #[test]
    fn a_call_waits_as_long_as_servers_end_some() {
        let mut watch = Watch::new(7, 100);
        assert!(!watch.is_stalled(7, 100 + STALLED_NS - 1));
        assert!(!watch.is_stalled(8, 100 + STALLED_NS));
        assert_eq!(watch.deadline_ns(), 100 + 2 * STALLED_NS);
        assert!(watch.is_stalled(8, 100 + 2 * STALLED_NS));
    }

    /// When a call is executed while all servers are blocked and a signal comes every `every_ns`,
    /// or `None` within a second. Its handler makes a call as well, which is executed by then. A
    /// worker that has taken a signal begins no call before it has said so once.
    fn executed_ns(passes: &PassesBy, every_ns: u64) -> Option<u64> {
        let (mut now_ns, mut is_marked) = (0, false);
        while now_ns < 1_000_000_000 {
            if passes.is_so(|| now_ns) {
                if !core::mem::take(&mut is_marked) {
                    return Some(now_ns);
                }
                continue;
            }
            let mut watch = Watch::new(0, now_ns);
            now_ns = ((now_ns / every_ns + 1) * every_ns).min(watch.deadline_ns());
            if watch.is_stalled(0, now_ns) {
                return Some(now_ns);
            }
            passes.was_taken_out(now_ns);
            is_marked = true;
            let _handlers = passes.is_so(|| now_ns);
        }
        None
    }

    #[test]
    fn signals_do_not_have_a_call_come_back_for_ever() {
        assert_eq!(executed_ns(&PassesBy::default(), 3_000_000), Some(3_000_000));
        assert_eq!(executed_ns(&PassesBy::default(), 8_000_000), Some(STALLED_NS));
        let passes = PassesBy::default();
        passes.was_taken_out(7);
        assert!(passes.is_so(|| 6 + PASSED_BY_NS) && !passes.is_so(|| 7 + PASSED_BY_NS));
        assert!(!passes.is_so(|| panic!("the clock is looked at for each call")));
    }

    #[test]
    fn the_threads_own_directory_is_found_in_a_path() {
        assert!(names_thread(b"/proc/thread-self/comm") && names_thread(b"thread-self"));
        assert!(!names_thread(b"/proc/self/comm") && !names_thread(b""));
    }

    #[test]
    fn files_that_only_the_thread_itself_may_write_are_found() {
        for path in [
            &b"/proc/self/attr/exec"[..],
            b"/proc/thread-self/attr/apparmor/current",
            b"attr/fscreate",
            b"/proc/12/loginuid",
            b"timerslack_ns",
        ] {
            assert!(is_threads_own(path));
        }
        for path in [&b"/usr/lib/python3/attr/__init__.py"[..], b"/bin/exec", b"/x/loginuid/y", b""]
        {
            assert!(!is_threads_own(path));
        }
    }
}
