//! Layers: each file stands in one (`layers.toml`), and uses what stands in the same one or
//! below, without a circle. What does not yet is in a list that only shrinks (`exceptions`).

mod arrows;
pub mod c;
mod exceptions;
mod part;
mod picture;
mod plan;
mod rust;

use std::io::Write;
use std::process::ExitCode;

use crate::sources::{self, Source};
use part::Part;
use plan::{Place, Plan};

const PLAN: &str = "xtask/layers.toml";

/// Prints the layers as `arguments` want it.
pub fn run(arguments: &[&str]) -> ExitCode {
    let printed = sources::all().and_then(|sources| {
        let (parts, complaints) = read(&sources)?;
        complaints.iter().for_each(|complaint| eprintln!("{complaint}"));
        match arguments {
            [] => Ok(parts.iter().map(picture::of_part).collect()),
            ["--json"] => picture::json(&parts),
            ["--arrows", file] => picture::of_file(&parts, file),
            [name] => {
                let part = parts.iter().find(|part| part.plan.name == *name);
                part.map(picture::of_part).ok_or_else(|| format!("{PLAN} has no part '{name}'"))
            }
            _ => Err("usage: cargo xtask layers [PART | --arrows FILE | --json]".into()),
        }
    });
    match printed {
        Ok(text) => {
            // A reader that has enough, as `head`, has closed the pipe.
            _ = std::io::stdout().write_all(text.as_bytes());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("layers: {error}");
            ExitCode::FAILURE
        }
    }
}

/// For tidy: what is wrong; with `update`, the list of exceptions is shortened first.
pub fn check(sources: &[Source], update: bool) -> Result<Vec<String>, String> {
    let (parts, complaints) = read(sources)?;
    if !complaints.is_empty() {
        return Ok(complaints);
    }
    let mut list = sources::read(exceptions::FILE)?;
    if update {
        list = exceptions::updated(&list, &parts)?;
        sources::write(exceptions::FILE, &list)?;
    }
    exceptions::check(&list, &parts)
}

/// Every part, and what is wrong with the plan.
fn read(sources: &[Source]) -> Result<(Vec<Part>, Vec<String>), String> {
    let text = sources::read(PLAN)?;
    let plan = plan::read(&text).map_err(|error| format!("{PLAN}: {error}"))?;
    Ok((Part::all(&plan, sources)?, complaints(&plan, &sources::paths()?)))
}

/// Files without a place in the plan, sources of a crate that is no part, and names in the plan
/// without a file.
fn complaints(plan: &Plan, paths: &[String]) -> Vec<String> {
    let is_lost = |path: &&String| match plan.place_of(path) {
        None | Some(Place::Folder(_)) => true,
        Some(Place::Set(_)) => is_source_of_crate(path, paths),
        Some(Place::Layer(..)) => false,
    };
    let lost = paths.iter().filter(is_lost).map(|path| format!("{path}: in no layer: {PLAN}"));
    let useless = plan.useless(paths).into_iter();
    lost.chain(useless.map(|entry| format!("{PLAN}: {entry}: not there, or twice"))).collect()
}

/// Whether the path is a file in `src` of a crate. Examples, tests and build scripts may stand in a
/// set.
fn is_source_of_crate(path: &str, paths: &[String]) -> bool {
    let folder = path.find("/src/").map(|at| &path[..at]);
    path.ends_with(".rs")
        && folder.is_some_and(|folder| paths.contains(&format!("{folder}/Cargo.toml")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_stands_in_a_layer_or_set() {
        let text = "[[part]]\nname = 'k'\nfolder = 'k'\n[[part.layer]]\nname = 'l'\npurpose = ''\nfiles = ['a.rs', 'b.rs']\n\
                    [[files]]\nname = 's'\npaths = ['docs/']\n";
        let paths = ["docs/x.md", "k/a.rs", "k/other.rs", "tools/run"].map(String::from);
        let found = complaints(&plan::read(text).unwrap(), &paths);
        let wanted = [
            "k/other.rs: in no layer: xtask/layers.toml",
            "tools/run: in no layer: xtask/layers.toml",
            "xtask/layers.toml: k/b.rs: not there, or twice",
        ];
        assert_eq!(found, wanted);
    }

    #[test]
    fn a_crate_without_layers_is_a_complaint() {
        let found = |text: &str| {
            let paths = ["c/Cargo.toml", "c/build.rs", "c/examples/e.rs", "c/src/lib.rs"];
            complaints(&plan::read(text).unwrap(), &paths.map(String::from))
        };
        let set = "[[files]]\nname = 's'\npaths = ['c/']\n";
        let wanted = ["c/src/lib.rs: in no layer: xtask/layers.toml"];
        assert_eq!(found(&format!("part = []\n{set}")), wanted);
        let part = "[[part]]\nname = 'c'\nfolder = 'c/src'\n";
        let layer = "[[part.layer]]\nname = 'l'\npurpose = ''\nfiles = ['lib.rs']\n";
        assert_eq!(found(&format!("{part}{layer}{set}")), [""; 0]);
        let error = plan::read(&format!("{part}layer = []\n{set}")).err().unwrap();
        assert_eq!(error, "part 'c' has no layers");
    }
}
