//! A part as it is: its files, their layers, and the arrows between them.

use std::collections::{BTreeMap, BTreeSet};

use super::arrows::{self, Arrows};
use super::plan::{self, Place, Plan};
use super::{c, rust};
use crate::sources::Source;

/// A part of the repository: its files, their layers and the arrows between them.
pub struct Part {
    /// Plan of the part, as the list of layers has it.
    pub plan: plan::Part,
    /// Index of the layer of each file, by path.
    pub layer_of: BTreeMap<String, usize>,
    /// Arrows between the part's files, and the lines that make them.
    pub arrows: Arrows,
}

/// Files that all lead to each other.
pub struct Circle<'a> {
    /// Paths of the files.
    pub files: BTreeSet<&'a str>,
    /// Number of arrows between the files.
    pub arrows: usize,
}

impl Part {
    /// All parts of the plan.
    pub fn all(plan: &Plan, sources: &[Source]) -> Result<Vec<Part>, String> {
        let mut texts = vec![BTreeMap::new(); plan.parts.len()];
        for source in sources.iter().filter(|source| source.is(&["rs", "c", "h"])) {
            if let Some(Place::Layer(part, _) | Place::Folder(part)) = plan.place_of(&source.path) {
                texts[part].insert(source.path.as_str(), source.text.as_str());
            }
        }
        plan.parts.iter().zip(&texts).map(|(part, texts)| Part::read(plan, part, texts)).collect()
    }

    fn read(plan: &Plan, part: &plan::Part, texts: &BTreeMap<&str, &str>) -> Result<Part, String> {
        let (files, arrows) = match &part.root {
            Some(root) => rust::read(&format!("{}/{root}", part.folder), texts)?,
            None => (texts.keys().map(|path| path.to_string()).collect(), c::arrows(texts)),
        };
        let layer = |path: String| match plan.place_of(&path) {
            Some(Place::Layer(_, layer)) => Some((path, layer)),
            _ => None,
        };
        let layer_of = files.into_iter().filter_map(layer).collect();
        Ok(Part { plan: part.clone(), layer_of, arrows })
    }

    /// The index of a file's layer.
    pub fn layer(&self, file: &str) -> Option<usize> {
        self.layer_of.get(file).copied()
    }

    /// The name of a file's layer.
    pub fn layer_name(&self, file: &str) -> &str {
        self.layer(file).map_or("?", |layer| &self.plan.layers[layer].name)
    }

    /// Path of a file without the part's folder.
    pub fn short<'a>(&self, file: &'a str) -> &'a str {
        file[self.plan.folder.len()..].trim_start_matches('/')
    }

    /// Every arrow, from file to file.
    pub fn arrows(&self) -> impl Iterator<Item = (&str, &str)> {
        self.arrows.keys().map(|(from, to)| (from.as_str(), to.as_str()))
    }

    /// Arrows to a higher layer.
    pub fn upward(&self) -> impl Iterator<Item = (&str, &str)> {
        self.arrows().filter(|(from, to)| self.is_upward(from, to))
    }

    /// Whether an arrow leads to a higher layer.
    pub fn is_upward(&self, from: &str, to: &str) -> bool {
        self.layer(from) < self.layer(to)
    }

    /// Lines that make an arrow.
    pub fn places(&self, from: &str, to: &str) -> &BTreeSet<arrows::Place> {
        &self.arrows[&(from.to_string(), to.to_string())]
    }

    /// The circles of all arrows.
    pub fn circles(&self) -> Vec<Circle<'_>> {
        self.circles_of(self.arrows().collect())
    }

    /// Circles without an arrow upward: with one, it is the arrow that is wrong.
    pub fn circles_in_layers(&self) -> Vec<Circle<'_>> {
        self.circles_of(
            self.arrows().filter(|(from, to)| self.layer(from) == self.layer(to)).collect(),
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
    /// Whether the circle is the other one, or what is left of it.
    pub fn is_within(&self, other: &Circle) -> bool {
        self.arrows <= other.arrows && self.files.iter().all(|file| other.files.contains(file))
    }

    /// The circle as a line of the list of exceptions.
    pub fn line(&self) -> String {
        format!("circle {}: {}", self.arrows, Vec::from_iter(self.files.iter().copied()).join(" "))
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A crate in `k` with these files: what begins with `low` stands in the lower layer.
    pub fn part(files: &[(&str, &str)]) -> Part {
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
        let part = plan::Part {
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
        Part::all(&Plan::new(vec![part], Vec::new()), &sources).unwrap().remove(0)
    }

    #[test]
    fn a_part_in_the_folder_of_another_has_its_own_arrows() {
        let text = "[[part]]\nname = 'a'\nfolder = 'l'\n[[part.layer]]\nname = 'c'\npurpose = ''\nfiles = ['a.c', 'b.c']\n\
                    [[part]]\nname = 'b'\nfolder = 'l/sub'\n[[part.layer]]\nname = 'c'\npurpose = ''\nfiles = ['c.c']\n\
                    [[files]]\nname = 's'\npaths = ['l/tests/']\n";
        let files = [
            ("l/a.c", "int f(void) { return g() + h() + i(); }"),
            ("l/b.c", "int g(void) { return 0; }"),
            ("l/sub/c.c", "int h(void) { return g(); }"),
            ("l/tests/d.c", "int i(void) { return g(); }"),
        ];
        let sources = files.map(|(path, text)| Source { path: path.into(), text: text.into() });
        let parts = Part::all(&plan::read(text).unwrap(), &sources).unwrap();
        let arrows = parts.iter().map(|part| Vec::from_iter(part.arrows())).collect::<Vec<_>>();
        assert_eq!(arrows, [vec![("l/a.c", "l/b.c")], vec![]]);
        assert_eq!(Vec::from_iter(parts[1].layer_of.keys()), ["l/sub/c.c"]);
    }
}
