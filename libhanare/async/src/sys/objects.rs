//! Loaded objects: their executable segments, and where their functions begin.

use std::ffi::{CStr, c_int, c_void};

/// An executable segment.
pub struct Text {
    pub start: u64,
    pub end: u64,
}

/// A loaded object that is not this library.
pub struct Object {
    pub texts: Vec<Text>,
    /// Where functions begin, in order, as the table for exceptions says; empty: it has none.
    pub functions: Vec<u64>,
}

impl Text {
    /// Bytes of the segment.
    pub fn bytes(&self) -> &[u8] {
        let size = (self.end - self.start) as usize;
        // SAFETY: The loader has mapped the segment, readable and executable, and it stays while
        // the object does.
        unsafe { std::slice::from_raw_parts(self.start as *const u8, size) }
    }
}

/// All objects but this library and the vDSO, whose calls tell the time. `None`: one is malformed.
pub fn loaded() -> Option<Vec<Object>> {
    unsafe extern "C" fn each(info: *mut libc::dl_phdr_info, _: usize, data: *mut c_void) -> c_int {
        // SAFETY: `data` is the vector below; the C library describes an object that is loaded
        // while it calls this.
        let (list, info) = unsafe { (&mut *data.cast::<Vec<Option<Object>>>(), &*info) };
        list.push(of(info));
        0
    }
    let mut list: Vec<Option<Object>> = Vec::new();
    // SAFETY: The callback has the right type, and is given the vector.
    unsafe { libc::dl_iterate_phdr(Some(each), (&raw mut list).cast()) };
    let list: Vec<_> = list.into_iter().collect::<Option<_>>()?;
    Some(list.into_iter().filter(|object| !object.texts.is_empty()).collect())
}

fn of(info: &libc::dl_phdr_info) -> Option<Object> {
    // SAFETY: The loader's table of program headers.
    let headers =
        unsafe { std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
    let base = info.dlpi_addr;
    let here = of as *const () as u64;
    let mut object = Object { texts: Vec::new(), functions: Vec::new() };
    let is_vdso = !info.dlpi_name.is_null()
        // SAFETY: A string of the loader's.
        && unsafe { CStr::from_ptr(info.dlpi_name) }.to_bytes().starts_with(b"linux-vdso");
    if is_vdso {
        return Some(object);
    }
    for header in headers {
        let start = base.wrapping_add(header.p_vaddr);
        match header.p_type {
            libc::PT_LOAD if header.p_flags & libc::PF_X != 0 => {
                if (start..start + header.p_memsz).contains(&here) {
                    return Some(Object { texts: Vec::new(), functions: Vec::new() });
                }
                object.texts.push(Text { start, end: start + header.p_filesz });
            }
            libc::PT_GNU_EH_FRAME => object.functions = functions(start, header.p_memsz)?,
            _ => {}
        }
    }
    Some(object)
}

/// The search table of `.eh_frame_hdr`: version, three encodings, where the frames are, how many,
/// pairs.
fn functions(start: u64, size: u64) -> Option<Vec<u64>> {
    // SAFETY: The segment is mapped and readable.
    let bytes = unsafe { std::slice::from_raw_parts(start as *const u8, size as usize) };
    const SDATA4: u8 = 0x0b;
    const DATAREL: u8 = 0x30;
    const UDATA4: u8 = 0x03;
    if bytes.len() < 12 || bytes[0] != 1 || bytes[2] != UDATA4 || bytes[3] != SDATA4 | DATAREL {
        return Some(Vec::new());
    }
    let word = |at: usize| {
        bytes.get(at..at + 4).and_then(|word| word.try_into().ok()).map(i32::from_le_bytes)
    };
    let count = word(8)? as u32 as usize;
    (0..count)
        .map(|index| {
            word(12 + 8 * index).map(|offset| start.wrapping_add_signed(i64::from(offset)))
        })
        .collect()
}
