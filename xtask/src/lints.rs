//! Lints: every crate takes its workspace's, and every workspace has those of the host's. Cargo
//! inherits `[workspace.lints]` within a workspace only, so the others repeat the table.

use crate::sources::Source;
use toml::{Table, Value};

/// The manifest of the host's workspace, whose table the others repeat.
const HOST: &str = "Cargo.toml";

/// Crates without lints, and workspaces with others.
pub fn check(sources: &[Source]) -> Vec<String> {
    let manifests = sources
        .iter()
        .filter(|source| source.path == HOST || source.path.ends_with("/Cargo.toml"))
        .map(|source| (source.path.as_str(), source.text.parse::<Table>()));
    let (mut parsed, mut complaints) = (Vec::new(), Vec::new());
    for (path, manifest) in manifests {
        match manifest {
            Ok(manifest) => parsed.push((path, manifest)),
            Err(error) => complaints.push(format!("{path}: {error}")),
        }
    }
    let host = parsed.iter().find(|(path, _)| *path == HOST).and_then(|(_, host)| lints(host));
    for (path, manifest) in &parsed {
        let inherits = manifest.get("lints").and_then(|lints| lints.get("workspace"));
        if manifest.contains_key("package") && inherits != Some(&Value::Boolean(true)) {
            complaints.push(format!("{path}: no [lints] workspace = true"));
        }
        if manifest.contains_key("workspace") && lints(manifest) != host {
            complaints
                .push(format!("{path}: [workspace.lints] is not the host workspace's ({HOST})"));
        }
    }
    complaints
}

fn lints(manifest: &Table) -> Option<&Value> {
    manifest.get("workspace")?.get("lints")
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINTS: &str = "[workspace.lints.rust]\nmissing_docs = \"warn\"\n";

    fn complaints(other: &str) -> Vec<String> {
        let source = |path: &str, text: String| Source { path: path.into(), text };
        check(&[source(HOST, LINTS.into()), source("other/Cargo.toml", other.into())])
    }

    #[test]
    fn a_workspace_repeats_the_lints_of_the_host() {
        assert!(complaints(&format!("# The same.\n{LINTS}")).is_empty());
        assert_eq!(complaints("[workspace]\n").len(), 1);
        let (warns, denies) = (LINTS, LINTS.replace("warn", "deny"));
        assert!(complaints(&denies)[0].contains("other/Cargo.toml"));
        assert_eq!(complaints(&format!("{warns}unsafe_code = \"deny\"\n")).len(), 1);
        assert!(complaints("[workspace")[0].contains("other/Cargo.toml"));
    }

    #[test]
    fn a_crate_takes_the_lints_of_its_workspace() {
        assert!(complaints("[package]\n[lints]\nworkspace = true\n").is_empty());
        assert_eq!(complaints("[package]\n").len(), 1);
        assert_eq!(complaints("[package]\n[lints.rust]\nmissing_docs = \"warn\"\n").len(), 1);
    }
}
