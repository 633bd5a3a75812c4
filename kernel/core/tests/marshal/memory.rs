//! The memory of the caller, and other memory with nothing behind it.

use hanare_core::usermemory::{CallerMemory, Fault, UserMemory};

const PAGE: usize = 4096;

/// Pages that can be written to, behind which nothing can be accessed.
pub struct Guarded {
    start: *mut u8,
    size: usize,
}

impl Guarded {
    pub fn new(pages: usize) -> Self {
        let size = pages * PAGE;
        // SAFETY: new memory, of which one page more is mapped than is used.
        let start = unsafe {
            let start = libc::mmap(
                std::ptr::null_mut(),
                size + PAGE,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            );
            assert_ne!(start, libc::MAP_FAILED);
            let start = start.cast::<u8>();
            assert_eq!(libc::mprotect(start.add(size).cast(), PAGE, libc::PROT_NONE), 0);
            start
        };
        Self { start, size }
    }

    pub fn addr(&self) -> u64 {
        self.start as u64
    }

    pub fn end(&self) -> u64 {
        self.addr() + self.size as u64
    }

    /// Bytes of the mapping. No other reference exists; system calls write to them in between.
    pub fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: mapped for as long as this lives, from which the bytes are borrowed.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.size) }
    }
}

/// Memory of the caller.
pub struct Region(Guarded);

/// Byte that fills the caller's memory before a call.
const FILL: u8 = 0xa5;

impl Region {
    pub fn new() -> Self {
        Self(Guarded::new(16))
    }

    pub fn start(&self) -> u64 {
        self.0.addr()
    }

    pub fn end(&self) -> u64 {
        self.0.end()
    }

    pub fn reset(&self) {
        // SAFETY: all of it is mapped, and no reference to it exists.
        unsafe { self.0.start.write_bytes(FILL, self.0.size) }
    }

    /// The part of `addr` and so many bytes that is there.
    fn there(&self, addr: u64, bytes: usize) -> usize {
        if addr < self.start() || addr >= self.end() {
            return 0;
        }
        bytes.min((self.end() - addr) as usize)
    }

    /// Writes as much as there is.
    pub fn put(&self, addr: u64, bytes: &[u8]) {
        let count = self.there(addr, bytes.len());
        // SAFETY: inside, and no reference to it exists.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), addr as *mut u8, count) }
    }

    /// All bytes, with zeros in place of those that are not to be compared.
    pub fn contents(&self, unlike: &[(u64, usize)]) -> Vec<u8> {
        let mut bytes = vec![0; self.0.size];
        self.read(self.start(), &mut bytes).expect("it is there");
        for &(addr, count) in unlike {
            let at = (addr.max(self.start()) - self.start()) as usize;
            let end = (at + self.there(addr, count)).min(bytes.len());
            bytes[at.min(end)..end].fill(0);
        }
        bytes
    }
}

impl UserMemory for Region {
    fn read(&self, addr: u64, to: &mut [u8]) -> Result<(), Fault> {
        if self.there(addr, to.len()) < to.len() {
            return Err(Fault);
        }
        // SAFETY: inside, and no reference to it exists.
        unsafe { std::ptr::copy_nonoverlapping(addr as *const u8, to.as_mut_ptr(), to.len()) }
        Ok(())
    }

    fn read_string<'a>(&self, _: u64, _: &'a mut [u8]) -> Result<Option<&'a [u8]>, Fault> {
        Err(Fault)
    }
}

impl CallerMemory for &Region {
    fn writable(&self, addr: u64, bytes: u64) -> u64 {
        self.there(addr, bytes as usize) as u64
    }

    fn write(&mut self, addr: u64, from: &[u8]) -> Result<(), Fault> {
        if self.there(addr, from.len()) < from.len() {
            return Err(Fault);
        }
        self.put(addr, from);
        Ok(())
    }
}

impl UserMemory for &Region {
    fn read(&self, addr: u64, to: &mut [u8]) -> Result<(), Fault> {
        (**self).read(addr, to)
    }

    fn read_string<'a>(&self, _: u64, _: &'a mut [u8]) -> Result<Option<&'a [u8]>, Fault> {
        Err(Fault)
    }
}
