//! Layers: each file stands in one (`layers.toml`), and uses what stands in the same one or
//! below, without a circle. What does not yet is in a list that only shrinks (`exceptions`).

mod arrows;
mod c;
mod exceptions;
mod picture;
mod plan;
mod rust;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::process::ExitCode;

use crate::sources::{self, Source};
use arrows::{Arrows, Place};

const PLAN: &str = "xtask/layers.toml";

/// A part of the repository: its files, their layers and the arrows between them.
struct Part {
    plan: plan::Part,
    /// By path, with the index of the layer.
    layer_of: BTreeMap<String, usize>,
    arrows: Arrows,
}

/// Files that all lead to each other.
struct Circle<'a> {
    files: BTreeSet<&'a str>,
    /// Between them.
    arrows: usize,
}

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
            // Who has read enough, as `head` does, has closed the pipe.
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
    let mut complaints = Vec::new();
    let mut parts = Vec::new();
    for plan in plan {
        let (part, wrong) = Part::read(plan, sources)?;
        complaints.extend(wrong);
        parts.push(part);
    }
    Ok((parts, complaints))
}

impl Part {
    fn read(plan: plan::Part, sources: &[Source]) -> Result<(Part, Vec<String>), String> {
        let folder = format!("{}/", plan.folder);
        let texts = sources
            .iter()
            .filter(|source| source.path.starts_with(&folder) && source.is(&["rs", "c", "h"]));
        let texts: BTreeMap<&str, &str> =
            texts.map(|source| (source.path.as_str(), source.text.as_str())).collect();
        let (files, arrows) = match &plan.root {
            Some(root) => rust::read(&(folder.clone() + root), &texts)?,
            None => (texts.keys().map(|path| path.to_string()).collect(), c::arrows(&texts)),
        };
        let short: Vec<&str> = files.iter().map(|path| &path[folder.len()..]).collect();
        let useless = plan.useless(&short).into_iter();
        let mut complaints: Vec<String> =
            useless.map(|entry| format!("{PLAN}: {folder}{entry}: not there, or twice")).collect();
        let mut layer_of = BTreeMap::new();
        for file in &files {
            match plan.layer_of(&file[folder.len()..]) {
                Some(layer) => _ = layer_of.insert(file.clone(), layer),
                None => complaints.push(format!("{file}: in no layer: {PLAN}")),
            }
        }
        Ok((Part { plan, layer_of, arrows }, complaints))
    }

    fn layer(&self, file: &str) -> Option<usize> {
        self.layer_of.get(file).copied()
    }

    fn layer_name(&self, file: &str) -> &str {
        self.layer(file).map_or("?", |layer| &self.plan.layers[layer].name)
    }

    /// Without the part's folder.
    fn short<'a>(&self, file: &'a str) -> &'a str {
        file[self.plan.folder.len()..].trim_start_matches('/')
    }

    fn all(&self) -> impl Iterator<Item = (&str, &str)> {
        self.arrows.keys().map(|(from, to)| (from.as_str(), to.as_str()))
    }

    fn upward(&self) -> impl Iterator<Item = (&str, &str)> {
        self.all().filter(|(from, to)| self.is_upward(from, to))
    }

    fn is_upward(&self, from: &str, to: &str) -> bool {
        self.layer(from) < self.layer(to)
    }

    /// Why there is an arrow.
    fn places(&self, from: &str, to: &str) -> &BTreeSet<Place> {
        &self.arrows[&(from.to_string(), to.to_string())]
    }

    /// The circles of all arrows.
    fn circles(&self) -> Vec<Circle<'_>> {
        self.circles_of(self.all().collect())
    }

    /// Circles without an arrow upward: with one, it is the arrow that is wrong.
    fn circles_in_layers(&self) -> Vec<Circle<'_>> {
        self.circles_of(
            self.all().filter(|(from, to)| self.layer(from) == self.layer(to)).collect(),
        )
    }

    fn circles_of<'a>(&self, among: Vec<(&'a str, &'a str)>) -> Vec<Circle<'a>> {
        let counted = |files: BTreeSet<&'a str>| {
            let inside =
                among.iter().filter(|(from, to)| files.contains(from) && files.contains(to));
            Circle { arrows: inside.count(), files }
        };
        arrows::circles(among.iter().copied()).into_iter().map(counted).collect()
    }
}

impl Circle<'_> {
    /// Whether it is the other one, or what is left of it.
    fn is_within(&self, other: &Circle) -> bool {
        self.arrows <= other.arrows && self.files.iter().all(|file| other.files.contains(file))
    }

    /// As the list of exceptions has it.
    fn line(&self) -> String {
        format!("circle {}: {}", self.arrows, Vec::from_iter(self.files.iter().copied()).join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A crate in `k` with these files: what begins with `low` stands in the lower layer.
    pub fn part(files: &[(&str, &str)]) -> Part {
        let (part, complaints) = with_complaints(files);
        assert_eq!(complaints, [""; 0]);
        part
    }

    fn with_complaints(files: &[(&str, &str)]) -> (Part, Vec<String>) {
        let names: Vec<&str> = files.iter().map(|(name, _)| name.trim_end_matches(".rs")).collect();
        let layer = |name: &str, files: Vec<String>| plan::Layer {
            name: name.into(),
            purpose: String::new(),
            files,
        };
        let begins = |start: &str| {
            let of = names.iter().filter(|name| name.starts_with(start));
            of.map(|name| format!("{name}.rs")).collect::<Vec<_>>()
        };
        let high = [begins("high"), vec!["main.rs".into()]].concat();
        let plan = plan::Part {
            name: "k".into(),
            folder: "k".into(),
            root: Some("main.rs".into()),
            layers: vec![layer("low", begins("low")), layer("high", high)],
        };
        let root = names.iter().map(|name| format!("mod {name}; ")).collect();
        let mut sources = vec![Source { path: "k/main.rs".into(), text: root }];
        let source = |(name, text): &(&str, &str)| Source {
            path: format!("k/{name}"),
            text: text.to_string(),
        };
        sources.extend(files.iter().map(source));
        Part::read(plan, &sources).unwrap()
    }

    #[test]
    fn every_file_stands_in_a_layer() {
        let (_, complaints) = with_complaints(&[("low.rs", ""), ("other.rs", "")]);
        assert_eq!(complaints, ["k/other.rs: in no layer: xtask/layers.toml"]);
    }
}
