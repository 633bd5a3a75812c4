//! Files that GDB reads through the stub: the program and its libraries.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};

use gdbstub::target::ext::host_io::*;

use super::target::Gdb;

/// Open files by number.
#[derive(Default)]
pub struct Files {
    open: BTreeMap<u32, File>,
    next: u32,
}

impl Files {
    fn get(&self, fd: u32) -> Result<&File, HostIoError<anyhow::Error>> {
        self.open.get(&fd).ok_or(HostIoError::Errno(HostIoErrno::EBADF))
    }
}

impl HostIo for Gdb {
    fn support_open(&mut self) -> Option<HostIoOpenOps<'_, Self>> {
        Some(self)
    }
    fn support_close(&mut self) -> Option<HostIoCloseOps<'_, Self>> {
        Some(self)
    }
    fn support_pread(&mut self) -> Option<HostIoPreadOps<'_, Self>> {
        Some(self)
    }
    fn support_fstat(&mut self) -> Option<HostIoFstatOps<'_, Self>> {
        Some(self)
    }
    fn support_readlink(&mut self) -> Option<HostIoReadlinkOps<'_, Self>> {
        Some(self)
    }
    fn support_setfs(&mut self) -> Option<HostIoSetfsOps<'_, Self>> {
        Some(self)
    }
}

impl HostIoOpen for Gdb {
    fn open(
        &mut self,
        name: &[u8],
        flags: HostIoOpenFlags,
        _: HostIoOpenMode,
    ) -> HostIoResult<u32, Self> {
        if flags.intersects(
            HostIoOpenFlags::O_WRONLY
                | HostIoOpenFlags::O_RDWR
                | HostIoOpenFlags::O_CREAT
                | HostIoOpenFlags::O_TRUNC,
        ) {
            return Err(HostIoError::Errno(HostIoErrno::EROFS));
        }
        let file = File::open(OsStr::from_bytes(name))?;
        self.files.next += 1;
        self.files.open.insert(self.files.next, file);
        Ok(self.files.next)
    }
}

impl HostIoClose for Gdb {
    fn close(&mut self, fd: u32) -> HostIoResult<(), Self> {
        self.files.open.remove(&fd).map(drop).ok_or(HostIoError::Errno(HostIoErrno::EBADF))
    }
}

impl HostIoPread for Gdb {
    fn pread(
        &mut self,
        fd: u32,
        count: usize,
        offset: u64,
        buffer: &mut [u8],
    ) -> HostIoResult<usize, Self> {
        let room = count.min(buffer.len());
        Ok(self.files.get(fd)?.read_at(&mut buffer[..room], offset)?)
    }
}

impl HostIoFstat for Gdb {
    fn fstat(&mut self, fd: u32) -> HostIoResult<HostIoStat, Self> {
        let m = self.files.get(fd)?.metadata()?;
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

impl HostIoReadlink for Gdb {
    fn readlink(&mut self, name: &[u8], buffer: &mut [u8]) -> HostIoResult<usize, Self> {
        let target = std::fs::read_link(OsStr::from_bytes(name))?;
        let bytes = target.as_os_str().as_bytes();
        let room =
            buffer.get_mut(..bytes.len()).ok_or(HostIoError::Errno(HostIoErrno::ENAMETOOLONG))?;
        room.copy_from_slice(bytes);
        Ok(bytes.len())
    }
}

impl HostIoSetfs for Gdb {
    fn setfs(&mut self, _: FsKind) -> HostIoResult<(), Self> {
        Ok(())
    }
}
