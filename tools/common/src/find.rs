//! Where our own files are.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

/// Folder of an installed Hanare.
const INSTALLED: &str = "/usr/lib/hanare";

/// A file of ours: `variable` if set, else the first of `beside` (relative to the
/// folder of this executable) or of the installed folder that exists.
fn find(variable: &str, name: &str, beside: &[&str], next: &str) -> Result<PathBuf> {
    if let Some(path) = std::env::var_os(variable).map(PathBuf::from) {
        if path.is_file() {
            return Ok(path);
        }
        bail!("{variable} names '{}', which is no file", path.display());
    }
    let folder = std::env::current_exe().ok().and_then(|path| path.parent().map(Path::to_owned));
    let beside = beside.iter().filter_map(|path| Some(folder.as_ref()?.join(path).join(name)));
    let mut candidates = beside.chain([Path::new(INSTALLED).join(name)]);
    match candidates.find(|path| path.is_file()) {
        Some(path) => Ok(path),
        None => bail!("{name} was not found beside this command nor in {INSTALLED} ({next})"),
    }
}

/// One of our documents, installed or in the checkout; its usual place if it is not there.
pub fn document(name: &str) -> PathBuf {
    let folder = std::env::current_exe()
        .ok()
        .and_then(|path| path.parent().map(Path::to_owned))
        .unwrap_or_default();
    let candidates =
        ["../share/doc/hanare/docs", "../../docs"].map(|path| folder.join(path).join(name));
    let found = candidates.iter().find_map(|path| path.canonicalize().ok());
    found.unwrap_or_else(|| Path::new("docs").join(name))
}

/// The LWK image.
pub fn image() -> Result<PathBuf> {
    let next = "build it: make native; or name it: --image FILE, HANARE_IMAGE=FILE";
    find("HANARE_IMAGE", "hanare-lwk", &["../lib/hanare", "../lwk"], next)
}

/// Path of the proxy.
pub fn proxy() -> Result<PathBuf> {
    let next = "build it: make native; or name it: HANARE_PROXY=FILE";
    find("HANARE_PROXY", "hanare-proxy", &["", "../lib/hanare"], next)
}

/// The program that `hanare bench` measures.
pub fn bench_guest() -> Result<PathBuf> {
    let next = "build it: make native; or name it: HANARE_BENCH_GUEST=FILE";
    find("HANARE_BENCH_GUEST", "hanare-bench-guest", &["", "../lib/hanare"], next)
}

/// The web server that `hanare bench` measures.
pub fn bench_web() -> Result<PathBuf> {
    let next = "build it: make; or name it: HANARE_BENCH_WEB=FILE";
    find("HANARE_BENCH_WEB", "hanare-bench-web", &["", "../lib/hanare"], next)
}

/// The library that posts calls of programs that know nothing of it.
pub fn async_library() -> Result<PathBuf> {
    let next = "build it: make native; or name it: HANARE_ASYNC_LIBRARY=FILE";
    find("HANARE_ASYNC_LIBRARY", "libhanare-async.so", &["../lib", "../lib/hanare"], next)
}

/// The program that `hanare bench` measures where calls are posted.
pub fn bench_posted() -> Result<PathBuf> {
    let next = "build it: make; or name it: HANARE_BENCH_POSTED=FILE";
    find("HANARE_BENCH_POSTED", "hanare-bench-posted", &["", "../lib/hanare"], next)
}
