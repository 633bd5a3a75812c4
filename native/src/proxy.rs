//! The proxy that a native task keeps, and what it opens.

use core::ffi::CStr;
use core::net::SocketAddr;
use core::sync::atomic::{AtomicBool, Ordering};

use crate::directory::Directory;
use crate::errno::{Errno, Result};
use crate::file::{File, Flags};
use crate::stream::{Listener, Stream};
use crate::sys;

/// The request of `prctl(2)` about the calling task's proxy ("HNPX"). Linux, which does not know
/// it, says EINVAL.
pub const PR_HANARE_PROXY: u32 = 0x484e_5058;
/// Calls may go to any proxy; what the kept one has open is closed.
const GIVE_BACK: usize = 0;
/// All calls go to one proxy from now on.
const KEEP: usize = 1;
/// Whether a proxy is kept.
const ASK: usize = 2;

/// Permissions of a file that [`Kept::open`] makes, of which the umask takes some away.
const MODE: u32 = 0o666;

/// Whether there is a guard.
static IS_GUARDED: AtomicBool = AtomicBool::new(false);

/// The pool of proxies that executes the task's calls.
#[derive(Debug)]
pub struct Proxy;

impl Proxy {
    /// Keeps one proxy: it executes all calls until the guard is dropped or given back. There is
    /// one guard at a time (EBUSY). On Linux itself, where a program has its descriptors itself,
    /// there is nothing to keep, and the guard does nothing.
    pub fn keep() -> Result<Kept> {
        if IS_GUARDED.swap(true, Ordering::Relaxed) {
            return Err(Errno::EBUSY);
        }
        let kept = Kept(());
        match sys::proxy(PR_HANARE_PROXY, KEEP) {
            Ok(_) | Err(Errno::EINVAL) => Ok(kept),
            Err(error) => {
                kept.forget();
                Err(error)
            }
        }
    }

    /// Whether a proxy is kept, as the kernel says; `None` on Linux itself, where there is none.
    #[must_use]
    pub fn is_kept() -> Option<bool> {
        sys::proxy(PR_HANARE_PROXY, ASK).ok().map(|answer| answer != 0)
    }
}

/// The guard of a kept proxy. What is opened by it ends with it. When it is dropped the proxy is
/// given back, and closes what it has open.
#[derive(Debug)]
#[must_use = "the proxy is given back when this is dropped"]
pub struct Kept(());

impl Kept {
    /// Opens a file. One that is made may be read and written by all users that the umask does not
    /// exclude.
    pub fn open(&self, path: &CStr, flags: Flags) -> Result<File<'_>> {
        File::open(path, flags, MODE)
    }

    /// Opens a file; one that is made gets what the umask leaves of `mode`.
    pub fn open_with_mode(&self, path: &CStr, flags: Flags, mode: u32) -> Result<File<'_>> {
        File::open(path, flags, mode)
    }

    /// Opens a directory.
    pub fn directory(&self, path: &CStr) -> Result<Directory<'_>> {
        Directory::open(path)
    }

    /// Opens a socket to which others connect (TCP). With port 0 Linux chooses one.
    pub fn listen(&self, address: SocketAddr) -> Result<Listener<'_>> {
        Listener::open(&address)
    }

    /// Connects to a socket (TCP).
    pub fn connect(&self, address: SocketAddr) -> Result<Stream<'_>> {
        Stream::connect(&address)
    }

    /// Gives the proxy back, and says if that failed.
    pub fn give_back(self) -> Result<()> {
        self.forget();
        give_back()
    }

    /// Ends the guard, and leaves the proxy as it is.
    fn forget(self) {
        core::mem::forget(self);
        IS_GUARDED.store(false, Ordering::Relaxed);
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        // A proxy that cannot be given back is one that has died.
        _ = give_back();
        IS_GUARDED.store(false, Ordering::Relaxed);
    }
}

fn give_back() -> Result<()> {
    match sys::proxy(PR_HANARE_PROXY, GIVE_BACK) {
        Ok(_) | Err(Errno::EINVAL) => Ok(()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Kind, path};
    use std::ffi::CString;
    use std::format;
    use std::os::unix::ffi::OsStrExt;
    use std::path::PathBuf;
    use std::string::{String, ToString};
    use std::sync::{Mutex, MutexGuard};
    use std::vec;
    use std::vec::Vec;

    /// There is one guard in a process, so the tests that have it take turns.
    static TURN: Mutex<()> = Mutex::new(());

    fn turn() -> MutexGuard<'static, ()> {
        TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// A folder for a test, which ends with it.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path =
                std::env::temp_dir().join(format!("hanare-native-{}-{name}", std::process::id()));
            std::fs::create_dir(&path).unwrap();
            Self(path)
        }

        fn path(&self, name: &str) -> CString {
            CString::new(self.0.join(name).as_os_str().as_bytes()).unwrap()
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn the_c_header_has_the_same_numbers() {
        let header = include_str!("../include/hanare/native.h");
        let has = |name: &str, value: &str| {
            header.lines().any(|line| line.split_whitespace().eq(["#define", name, value]))
        };
        assert!(has("PR_HANARE_PROXY", &format!("{PR_HANARE_PROXY:#x}L")));
        assert!(has("HANARE_PROXY_GIVE_BACK", &format!("{GIVE_BACK}L")));
        assert!(has("HANARE_PROXY_KEEP", &format!("{KEEP}L")));
        assert!(has("HANARE_PROXY_ASK", &format!("{ASK}L")));
    }

    #[test]
    fn one_guard_at_a_time() {
        let _turn = turn();
        let kept = Proxy::keep().unwrap();
        assert_eq!(Proxy::keep().err(), Some(Errno::EBUSY));
        kept.give_back().unwrap();
        drop(Proxy::keep().unwrap());
        drop(Proxy::keep().unwrap());
    }

    #[test]
    fn linux_keeps_no_proxy() {
        assert_eq!(Proxy::is_kept(), None);
    }

    #[test]
    fn a_file_holds_what_was_written() {
        let _turn = turn();
        let (folder, kept) = (Folder::new("file"), Proxy::keep().unwrap());
        let name = folder.path("a");
        let file = kept.open(&name, Flags::WRITE | Flags::NEW).unwrap();
        file.write_all(&[7; 100_000]).unwrap();
        file.set_mode(0o604).unwrap();
        file.close().unwrap();
        assert_eq!(kept.open(&name, Flags::WRITE | Flags::NEW).err(), Some(Errno::EEXIST));
        let file = kept.open(&name, Flags::READ).unwrap();
        let mut bytes = vec![0; 100_001];
        assert_eq!(file.read_full(&mut bytes), Ok(100_000));
        assert!(bytes[..100_000].iter().all(|&byte| byte == 7));
        let status = file.status().unwrap();
        assert_eq!(
            (status.kind(), status.mode(), status.size_bytes()),
            (Kind::File, 0o604, 100_000)
        );
        assert!(status.is_same_file(&path::status(&name).unwrap()));
        assert_eq!(file.write(b"x"), Err(Errno::EBADF), "it is open for reading");
    }

    #[test]
    fn a_dropped_file_is_closed() {
        let _turn = turn();
        let kept = Proxy::keep().unwrap();
        let count = || {
            std::fs::read_dir("/proc/self/fd").unwrap().filter(|entry| {
                let target = std::fs::read_link(entry.as_ref().unwrap().path()).unwrap_or_default();
                target.ends_with("status")
            })
        };
        let file = kept.open(c"/proc/self/status", Flags::READ).unwrap();
        assert_eq!(count().count(), 1);
        drop(file);
        assert_eq!(count().count(), 0);
    }

    #[test]
    fn a_directory_gives_each_name_once() {
        let _turn = turn();
        let (folder, kept) = (Folder::new("directory"), Proxy::keep().unwrap());
        let mut names: Vec<String> =
            (0..2000).map(|n| format!("a-name-that-is-not-short-{n:04}")).collect();
        for name in &names {
            std::fs::write(folder.0.join(name), name).unwrap();
        }
        path::make_directory(&folder.path("z"), 0o700).unwrap();
        names.push("z".to_string());
        let mut directory = kept.directory(&folder.path("")).unwrap();
        let mut seen = Vec::new();
        while let Some(entry) = directory.next_entry().unwrap() {
            seen.push(entry.name.to_str().unwrap().to_string());
        }
        seen.sort();
        assert_eq!(seen, names);
        assert_eq!(directory.status(c"z").unwrap().kind(), Kind::Directory);
        assert_eq!(directory.status(c"none").err(), Some(Errno::ENOENT));
        assert_eq!(kept.directory(&folder.path(&names[0])).err(), Some(Errno::ENOTDIR));
    }

    #[test]
    fn names_change_without_a_guard() {
        let folder = Folder::new("names");
        let (one, other) = (folder.path("one"), folder.path("other"));
        path::make_directory(&one, 0o700).unwrap();
        path::rename(&one, &other).unwrap();
        assert_eq!(path::own_status(&one).err(), Some(Errno::ENOENT));
        assert_eq!(path::remove(&other), Err(Errno::EISDIR));
        path::remove_directory(&other).unwrap();
        assert_eq!(path::status(&other).err(), Some(Errno::ENOENT));
    }

    #[test]
    fn a_connection_carries_both_ways() {
        let _turn = turn();
        let kept = Proxy::keep().unwrap();
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let listener = match kept.listen(address.parse().unwrap()) {
                Err(Errno::EADDRNOTAVAIL | Errno::EAFNOSUPPORT) if address.starts_with('[') => {
                    continue;
                }
                listener => listener.unwrap(),
            };
            let client = kept.connect(listener.address().unwrap()).unwrap();
            let server = listener.accept().unwrap();
            client.write_all(b"question").unwrap();
            client.end_writing().unwrap();
            let mut bytes = [0; 20];
            assert_eq!(server.read_full(&mut bytes), Ok(8));
            assert_eq!(&bytes[..8], b"question");
            server.write_all(b"answer").unwrap();
            drop(server);
            assert_eq!(client.read_full(&mut bytes), Ok(6));
            assert_eq!(&bytes[..6], b"answer");
            let again = listener.address().unwrap();
            drop(listener);
            assert_eq!(kept.connect(again).err(), Some(Errno::ECONNREFUSED));
        }
    }
}
