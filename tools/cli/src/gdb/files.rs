//! Files that GDB reads through the stub: the program and its libraries.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};

use gdbstub::target::ext::host_io::{
    HostIoErrno, HostIoError, HostIoOpenFlags, HostIoOpenMode, HostIoStat,
};

type Result<T> = std::result::Result<T, HostIoError<anyhow::Error>>;

/// Open files by number.
#[derive(Default)]
pub struct Files {
    open: BTreeMap<u32, File>,
    next: u32,
}

impl Files {
    fn get(&self, fd: u32) -> Result<&File> {
        self.open.get(&fd).ok_or(HostIoError::Errno(HostIoErrno::EBADF))
    }

    /// Opens `name` for reading.
    pub fn open(&mut self, name: &[u8], flags: HostIoOpenFlags) -> Result<u32> {
        if flags.intersects(
            HostIoOpenFlags::O_WRONLY
                | HostIoOpenFlags::O_RDWR
                | HostIoOpenFlags::O_CREAT
                | HostIoOpenFlags::O_TRUNC,
        ) {
            return Err(HostIoError::Errno(HostIoErrno::EROFS));
        }
        let file = File::open(OsStr::from_bytes(name))?;
        self.next += 1;
        self.open.insert(self.next, file);
        Ok(self.next)
    }

    /// Closes a file.
    pub fn close(&mut self, fd: u32) -> Result<()> {
        self.open.remove(&fd).map(drop).ok_or(HostIoError::Errno(HostIoErrno::EBADF))
    }

    /// Reads at most `count` bytes at `offset`.
    pub fn read_at(&self, fd: u32, count: usize, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let room = count.min(buffer.len());
        Ok(self.get(fd)?.read_at(&mut buffer[..room], offset)?)
    }

    /// Attributes of an open file: type, mode, owner, size and times.
    pub fn stat(&self, fd: u32) -> Result<HostIoStat> {
        let m = self.get(fd)?.metadata()?;
        Ok(HostIoStat {
            st_dev: m.dev() as u32,
            st_ino: m.ino() as u32,
            st_mode: HostIoOpenMode::from_bits_truncate(m.mode()),
            st_nlink: m.nlink() as u32,
            st_uid: m.uid(),
            st_gid: m.gid(),
            st_rdev: m.rdev() as u32,
            st_size: m.size(),
            st_blksize: m.blksize(),
            st_blocks: m.blocks(),
            st_atime: m.atime() as u32,
            st_mtime: m.mtime() as u32,
            st_ctime: m.ctime() as u32,
        })
    }
}

/// Where a symbolic link leads; bytes of `buffer`.
pub fn read_link(name: &[u8], buffer: &mut [u8]) -> Result<usize> {
    let target = std::fs::read_link(OsStr::from_bytes(name))?;
    let bytes = target.as_os_str().as_bytes();
    let room =
        buffer.get_mut(..bytes.len()).ok_or(HostIoError::Errno(HostIoErrno::ENAMETOOLONG))?;
    room.copy_from_slice(bytes);
    Ok(bytes.len())
}
