//! The vDSO: not there yet; `AT_SYSINFO_EHDR` is left out.

/// Frame of a page of its code.
pub fn frame(_offset: u64) -> Option<u64> {
    None
}

/// Maps it; its address.
pub fn map(_mm: &mut crate::mm::AddressSpace) -> Option<u64> {
    None
}
