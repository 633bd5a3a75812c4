//! The version of the interface: a number that follows from the sources of the `abi` crate.

/// A hash (FNV-1a) over the sources without comments, blanks and tests. Whatever changes a size, an
/// offset, a constant or an encoding changes one of them.
pub fn of<'a>(sources: impl Iterator<Item = &'a str>) -> u32 {
    let code = sources.flat_map(|text| text.split("#[cfg(test)]").next());
    let lines = code.flat_map(str::lines).flat_map(|line| line.split("//").next());
    let bytes = lines.flat_map(str::bytes).filter(|byte| !byte.is_ascii_whitespace());
    bytes.fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}
