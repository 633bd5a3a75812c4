//! `xtask/layers.toml`: which file stands in which layer.

use toml::{Table, Value};

/// Files that a compiler sees as one thing: a crate, or the module.
pub struct Part {
    /// How it is called here.
    pub name: String,
    /// Where its files lie.
    pub folder: String,
    /// Of a crate, the root file in `folder`; of C, none.
    pub root: Option<String>,
    /// From the lowest to the highest.
    pub layers: Vec<Layer>,
}

/// Files that may use each other and what is in the layers below.
pub struct Layer {
    /// Its name.
    pub name: String,
    /// What it is for, in a line.
    pub purpose: String,
    /// Files, or folders with a `/` at their end; the longest name that fits counts.
    pub files: Vec<String>,
}

/// Every part.
pub fn read(text: &str) -> Result<Vec<Part>, String> {
    let plan: Table = text.parse().map_err(|error| format!("{error}"))?;
    tables(&plan, "part")?.into_iter().map(part).collect()
}

fn part(table: &Table) -> Result<Part, String> {
    only(table, &["name", "folder", "root", "layer"])?;
    let layers = tables(table, "layer")?.into_iter().map(layer).collect::<Result<_, _>>()?;
    let root = if table.contains_key("root") { Some(word(table, "root")?) } else { None };
    Ok(Part { name: word(table, "name")?, folder: word(table, "folder")?, root, layers })
}

fn layer(table: &Table) -> Result<Layer, String> {
    only(table, &["name", "purpose", "files"])?;
    let files: Option<Vec<String>> =
        list(table, "files")?.iter().map(|file| file.as_str().map(String::from)).collect();
    let files = files.ok_or("'files' are not names")?;
    Ok(Layer { name: word(table, "name")?, purpose: word(table, "purpose")?, files })
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

impl Part {
    /// The layer of a file whose path is relative to `folder`.
    pub fn layer_of(&self, file: &str) -> Option<usize> {
        let fits =
            |entry: &&String| **entry == file || entry.ends_with('/') && file.starts_with(*entry);
        let entries = self.layers.iter().enumerate();
        let fitting = entries.flat_map(|(index, layer)| {
            layer.files.iter().filter(fits).map(move |entry| (entry.len(), index))
        });
        fitting.max().map(|(_, index)| index)
    }

    /// Entries that no file needs, or that stand twice.
    pub fn useless(&self, files: &[&str]) -> Vec<&str> {
        let entries: Vec<&String> = self.layers.iter().flat_map(|layer| &layer.files).collect();
        let is_useless = |index: &usize| {
            let entry = entries[*index];
            let names = |file: &&str| {
                *file == entry.as_str() || entry.ends_with('/') && file.starts_with(entry.as_str())
            };
            entries[..*index].contains(&entry) || !files.iter().any(names)
        };
        (0..entries.len()).filter(is_useless).map(|index| entries[index].as_str()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_says_what_is_wrong_with_it() {
        let good = "[[part]]\nname = 'p'\nfolder = 'f'\n[[part.layer]]\nname = 'l'\npurpose = ''\nfiles = ['a', 'b/']\n";
        let parts = read(good).unwrap();
        assert_eq!(parts[0].layer_of("b/c"), Some(0));
        assert_eq!(parts[0].layer_of("c"), None);
        assert_eq!(parts[0].useless(&["b/c"]), ["a"]);
        let error = |from: &str, to: &str| read(&good.replace(from, to)).err().unwrap();
        assert_eq!(error("files", "file"), "'file' is not known");
        assert_eq!(error("folder = 'f'", ""), "no word 'folder'");
        assert_eq!(error("['a', 'b/']", "[1]"), "'files' are not names");
        assert_eq!(error("[[part.layer]]", "[part.layer]"), "no list 'layer'");
    }
}
