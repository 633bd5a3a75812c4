//! `xtask/layers.toml`: which file stands in which layer, or in which set of files without layers.

use std::collections::BTreeSet;

use toml::{Table, Value};

/// The whole file.
pub struct Plan {
    /// Parts, whose files stand in layers.
    pub parts: Vec<Part>,
    /// Sets of files without layers.
    pub sets: Vec<Set>,
    /// Every name of a file or folder, and what lies there.
    entries: Vec<(String, Place)>,
}

/// Files that a compiler sees as one thing: a crate, or the module.
#[derive(Clone)]
pub struct Part {
    /// Name of the part in the list of layers.
    pub name: String,
    /// Folder of the part's files.
    pub folder: String,
    /// Root file of a crate in `folder`; `None`: C.
    pub root: Option<String>,
    /// Layers, from the lowest to the highest.
    pub layers: Vec<Layer>,
}

/// Files that may use each other and what is in the layers below.
#[derive(Clone)]
pub struct Layer {
    /// Name of the layer.
    pub name: String,
    /// Purpose of the layer, in a line.
    pub purpose: String,
    /// Files, or folders with a `/` at their end, in the part's folder.
    pub files: Vec<String>,
}

/// Files between which no arrows are read.
pub struct Set {
    /// Name of the set.
    pub name: String,
    /// Files, or folders with a `/` at their end.
    pub paths: Vec<String>,
    /// Whether the set's files may be missing.
    pub is_optional: bool,
}

/// Layer or set of a file, by indices.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Place {
    /// In this layer of this part.
    Layer(usize, usize),
    /// In the folder of this part, but in none of its layers.
    Folder(usize),
    /// In this set.
    Set(usize),
}

/// The plan that this text is.
pub fn read(text: &str) -> Result<Plan, String> {
    let plan: Table = text.parse().map_err(|error| format!("{error}"))?;
    only(&plan, &["part", "files"])?;
    let parts = tables(&plan, "part")?.into_iter().map(part).collect::<Result<_, _>>()?;
    let sets = tables(&plan, "files")?.into_iter().map(set).collect::<Result<_, _>>()?;
    let plan = Plan::new(parts, sets);
    let mut seen = BTreeSet::new();
    match plan.titles().into_iter().find(|title| !seen.insert(title.clone())) {
        Some(title) => Err(format!("'{title}' is there twice")),
        None => Ok(plan),
    }
}

fn part(table: &Table) -> Result<Part, String> {
    only(table, &["name", "folder", "root", "layer"])?;
    let name = word(table, "name")?;
    let layers: Vec<_> =
        tables(table, "layer")?.into_iter().map(layer).collect::<Result<_, _>>()?;
    if layers.is_empty() {
        return Err(format!("part '{name}' has no layers"));
    }
    let root = if table.contains_key("root") { Some(word(table, "root")?) } else { None };
    Ok(Part { name, folder: word(table, "folder")?, root, layers })
}

fn layer(table: &Table) -> Result<Layer, String> {
    only(table, &["name", "purpose", "files"])?;
    let files = names(table, "files")?;
    Ok(Layer { name: word(table, "name")?, purpose: word(table, "purpose")?, files })
}

fn set(table: &Table) -> Result<Set, String> {
    only(table, &["name", "paths", "optional"])?;
    let is_optional = match table.get("optional") {
        None => false,
        Some(value) => value.as_bool().ok_or("'optional' is neither true nor false")?,
    };
    Ok(Set { name: word(table, "name")?, paths: names(table, "paths")?, is_optional })
}

fn names(table: &Table, key: &str) -> Result<Vec<String>, String> {
    let names: Option<_> =
        list(table, key)?.iter().map(|name| name.as_str().map(String::from)).collect();
    names.ok_or_else(|| format!("'{key}' are not names"))
}

fn only(table: &Table, keys: &[&str]) -> Result<(), String> {
    let other = table.keys().find(|key| !keys.contains(&key.as_str()));
    other.map_or(Ok(()), |key| Err(format!("'{key}' is not known")))
}

fn word(table: &Table, key: &str) -> Result<String, String> {
    let word = table.get(key).and_then(Value::as_str);
    word.map(String::from).ok_or_else(|| format!("no word '{key}'"))
}

fn list<'a>(table: &'a Table, key: &str) -> Result<&'a [Value], String> {
    let list = table.get(key).and_then(Value::as_array);
    list.map(Vec::as_slice).ok_or_else(|| format!("no list '{key}'"))
}

fn tables<'a>(table: &'a Table, key: &str) -> Result<Vec<&'a Table>, String> {
    let tables = list(table, key)?.iter().map(Value::as_table).collect::<Option<_>>();
    tables.ok_or_else(|| format!("'{key}' is not [[{key}]]"))
}

impl Plan {
    /// These parts and sets.
    pub fn new(parts: Vec<Part>, sets: Vec<Set>) -> Plan {
        let mut entries = Vec::new();
        for (index, part) in parts.iter().enumerate() {
            entries.push((format!("{}/", part.folder), Place::Folder(index)));
            for (layer, of) in part.layers.iter().enumerate() {
                let place = Place::Layer(index, layer);
                entries
                    .extend(of.files.iter().map(|file| (format!("{}/{file}", part.folder), place)));
            }
        }
        for (index, set) in sets.iter().enumerate() {
            entries.extend(set.paths.iter().map(|path| (path.clone(), Place::Set(index))));
        }
        Plan { parts, sets, entries }
    }

    /// Where this file belongs. Of all names that fit the longest one counts, so that a part or a
    /// set can lie in the folder of another.
    pub fn place_of(&self, path: &str) -> Option<Place> {
        let fitting = self.entries.iter().filter(|(entry, _)| fits(entry, path));
        fitting.max_by_key(|(entry, _)| entry.len()).map(|(_, place)| *place)
    }

    /// Names that no file needs, or that stand twice.
    pub fn useless(&self, paths: &[String]) -> Vec<&str> {
        let mut seen = BTreeSet::new();
        let is_needed = |entry: &str, place| {
            matches!(place, Place::Set(set) if self.sets[set].is_optional)
                || paths.iter().any(|path| fits(entry, path))
        };
        let names = self.entries.iter().map(|(entry, place)| (entry.as_str(), *place));
        let useless =
            names.filter(|&(entry, place)| !seen.insert(entry) || !is_needed(entry, place));
        useless.map(|(entry, _)| entry).collect()
    }

    /// Names of layers, `PART/LAYER`, and of sets.
    fn titles(&self) -> Vec<String> {
        let layers = self.parts.iter().flat_map(|part| {
            part.layers.iter().map(|layer| format!("{}/{}", part.name, layer.name))
        });
        layers.chain(self.sets.iter().map(|set| set.name.clone())).collect()
    }
}

/// Whether an entry names this file, or a folder that has it.
fn fits(entry: &str, path: &str) -> bool {
    entry == path || entry.ends_with('/') && path.starts_with(entry)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "[[part]]\nname = 'p'\nfolder = 'f'\n[[part.layer]]\nname = 'l'\npurpose = ''\nfiles = ['a', 'b/']\n\
                        [[part]]\nname = 'q'\nfolder = 'f/b/q'\n[[part.layer]]\nname = 'l'\npurpose = ''\nfiles = ['a']\n\
                        [[files]]\nname = 's'\npaths = ['f/b/t', 'g/']\n";

    #[test]
    fn the_longest_name_counts() {
        let plan = read(GOOD).unwrap();
        let places =
            ["f/a", "f/b/c", "f/b/q/a", "f/b/q/c", "f/b/t", "g/c/d", "f/c", "h", "g", "f/ab"];
        let found = places.map(|path| plan.place_of(path));
        let (low, folder) = (Some(Place::Layer(0, 0)), Some(Place::Folder(0)));
        let other = Some(Place::Layer(1, 0));
        let (lost, set) = (Some(Place::Folder(1)), Some(Place::Set(0)));
        assert_eq!(found, [low, low, other, lost, set, set, folder, None, None, folder]);
    }

    #[test]
    fn names_without_a_file_are_useless() {
        let files = ["f/b/q/a", "f/b/t"].map(String::from);
        assert_eq!(read(GOOD).unwrap().useless(&files), ["f/a", "g/"]);
        let optional = read(&GOOD.replace("name = 's'", "name = 's'\noptional = true")).unwrap();
        assert_eq!(optional.useless(&files), ["f/a"]);
        let twice = read(&GOOD.replace("'g/'", "'f/b/q/a'")).unwrap();
        assert_eq!(twice.useless(&files), ["f/a", "f/b/q/a"]);
    }

    #[test]
    fn a_plan_says_what_is_wrong_with_it() {
        let error = |from: &str, to: &str| read(&GOOD.replace(from, to)).err().unwrap();
        assert_eq!(error("files =", "file ="), "'file' is not known");
        assert_eq!(error("folder = 'f'", ""), "no word 'folder'");
        assert_eq!(error("['a', 'b/']", "[1]"), "'files' are not names");
        assert_eq!(error("['f/b/t', 'g/']", "[1]"), "'paths' are not names");
        assert_eq!(error("[[part.layer]]", "[part.layer]"), "no list 'layer'");
        assert_eq!(error("'s'", "'p/l'"), "'p/l' is there twice");
        assert_eq!(error("[[files]]", "[[sets]]"), "'sets' is not known");
    }
}
