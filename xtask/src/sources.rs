//! The files of this repository.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Root of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// A text file.
pub struct Source {
    /// Relative to the root.
    pub path: String,
    /// Content of the file.
    pub text: String,
}

impl Source {
    /// Number of lines.
    pub fn lines(&self) -> usize {
        self.text.lines().count()
    }

    /// Whether the name of the source ends in one of these extensions.
    pub fn is(&self, extensions: &[&str]) -> bool {
        let extension = self.path.rsplit_once('.').map_or("", |(_, extension)| extension);
        extensions.contains(&extension)
    }
}

/// Paths of everything that git knows of, or would add. A file may be deleted but not yet
/// committed: it is left out.
pub fn paths() -> Result<Vec<String>, String> {
    let output = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output()
        .map_err(|error| format!("git: {error}"))?;
    if !output.status.success() {
        return Err(format!("git ls-files: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    let names = String::from_utf8_lossy(&output.stdout);
    let names = names.split('\0').filter(|name| !name.is_empty() && root().join(name).exists());
    let mut names: Vec<String> = names.map(String::from).collect();
    names.sort_unstable();
    names.dedup();
    Ok(names)
}

/// Every text file of these. Binary files are left out.
pub fn all() -> Result<Vec<Source>, String> {
    let read = |path: String| {
        let text = fs::read_to_string(root().join(&path)).ok()?;
        Some(Source { path, text })
    };
    Ok(paths()?.into_iter().filter_map(read).collect())
}

/// The text of a file of the repository, or why it cannot be read.
pub fn read(path: &str) -> Result<String, String> {
    fs::read_to_string(root().join(path)).map_err(|error| format!("{path}: {error}"))
}

/// Writes a file of the repository, or says why it cannot.
pub fn write(path: &str, text: &str) -> Result<(), String> {
    fs::write(root().join(path), text).map_err(|error| format!("{path}: {error}"))
}
