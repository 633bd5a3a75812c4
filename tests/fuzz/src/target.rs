//! Definition of a target.

/// A parser, or several that read the same thing.
pub struct Target {
    /// How it is called.
    pub name: &'static str,
    /// Reads an input; panics where a property does not hold.
    pub check: fn(&[u8]),
    /// Bytes of an input at most: what it takes to meet all there is, soon.
    pub size_max: usize,
    /// Inputs to begin with, made from real data.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// The first bytes of files of this machine, of those that are there.
pub fn heads(paths: &[&str], most: usize) -> Vec<Vec<u8>> {
    let head = |path: &&str| {
        let mut bytes = std::fs::read(path).ok()?;
        bytes.truncate(most);
        Some(bytes)
    };
    paths.iter().filter_map(head).collect()
}
