//! Tells the command which commit it was built from: `HANARE_COMMIT`, which is not set where the
//! commit is unknown.
//!
//! A packager who builds from an archive sets the variable by hand.

use std::path::{Path, PathBuf};
use std::process::Command;

const VARIABLE: &str = "HANARE_COMMIT";

fn main() {
    println!("cargo::rerun-if-env-changed={VARIABLE}");
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var_os(VARIABLE).is_some() {
        return;
    }
    // An archive that is unpacked within another repository must not get that one's commit.
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(1).map(Path::to_owned);
    let Some(root) = root.filter(|root| is_top_level(root)) else { return };
    // Git's log of HEAD grows with each commit, check-out and reset.
    if let Some(log) = git(&root, &["rev-parse", "--git-path", "logs/HEAD"])
        && let log = root.join(log)
        && log.exists()
    {
        println!("cargo::rerun-if-changed={}", log.display());
    }
    if let Some(commit) = git(&root, &["describe", "--always", "--dirty", "--abbrev=12"]) {
        println!("cargo::rustc-env={VARIABLE}={commit}");
    }
}

fn is_top_level(root: &Path) -> bool {
    let found = git(root, &["rev-parse", "--show-toplevel"]).map(PathBuf::from);
    found.and_then(|found| found.canonicalize().ok()) == root.canonicalize().ok()
}

/// The one line that git prints; `None` if it fails or is not there.
fn git(folder: &Path, arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").arg("-C").arg(folder).args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let line = text.trim();
    (output.status.success() && !line.is_empty() && !line.contains('\n')).then(|| line.to_owned())
}
