//! Layers as text, top to bottom, and as JSON.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use serde_json::json;

use super::arrows::Place;
use super::part::{Circle, Part};

const WIDTH: usize = 100;

/// A part: its layers from the highest to the lowest, then what is wrong.
pub fn of_part(part: &Part) -> String {
    let (upward, circles) = (Vec::from_iter(part.upward()), part.circles());
    let mut text = format!(
        "{} ({}): {} files in {} layers, {} arrows, {} upward, {} files in the largest circle\n\n",
        part.plan.name,
        part.plan.folder,
        part.layer_of.len(),
        part.plan.layers.len(),
        part.arrows.len(),
        upward.len(),
        circles.first().map_or(0, |circle| circle.files.len()),
    );
    for (index, layer) in part.plan.layers.iter().enumerate().rev() {
        let files = part.layer_of.iter().filter(|(_, of)| **of == index);
        let files: Vec<&str> = files.map(|(file, _)| part.short(file)).collect();
        let title = format!("  ┌─ {} ─ {} ", layer.name, layer.purpose);
        let line = WIDTH.saturating_sub(title.chars().count() + 1);
        text += &format!("{title}{}┐\n", "─".repeat(line));
        for line in wrapped(&files, WIDTH - 6) {
            text += &format!("  │ {line:0$} │\n", WIDTH - 6);
        }
        let foot = format!("  └─ {} ", used(part, index));
        let line = WIDTH.saturating_sub(foot.chars().count() + 1);
        text += &format!("{foot}{}┘\n", "─".repeat(line));
    }
    if !upward.is_empty() {
        text += &format!("\n  upward: {} arrows\n", upward.len());
        let mut by_file: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for (from, to) in upward {
            by_file.entry(from).or_default().push(format!(
                "{} ({})",
                part.short(to),
                part.layer_name(to)
            ));
        }
        for (from, to) in by_file {
            let head = format!("    {} ({}) →", part.short(from), part.layer_name(from));
            list(&mut text, &head, &to);
        }
    }
    print_circles(&mut text, part, "circles over all arrows", &circles);
    print_circles(&mut text, part, "circles inside of a layer", &part.circles_in_layers());
    text + "\n"
}

/// The arrows of one file, with the lines that make them.
pub fn of_file(parts: &[Part], file: &str) -> Result<String, String> {
    let fits = |path: &&String| **path == file || path.ends_with(&format!("/{file}"));
    let found: Vec<(&Part, &String)> = parts
        .iter()
        .flat_map(|part| part.layer_of.keys().filter(fits).map(move |path| (part, path)))
        .collect();
    let (part, file) = match found.as_slice() {
        [] => return Err(format!("no file '{file}' in any layer")),
        [one] => *one,
        several => {
            let names: Vec<&str> = several.iter().map(|(_, path)| path.as_str()).collect();
            return Err(format!("'{file}' is one of: {}", names.join(" ")));
        }
    };
    let mut text = format!("{file} (layer {})\n", part.layer_name(file));
    for (title, is_from) in [("uses", true), ("is used by", false)] {
        text += &format!("\n  {title}\n");
        for (from, to) in part.arrows().filter(|(from, to)| file == if is_from { from } else { to })
        {
            let other = if is_from { to } else { from };
            let mark = if part.is_upward(from, to) { " ▲ upward" } else { "" };
            text += &format!("    {} ({}){mark}\n", part.short(other), part.layer_name(other));
            for Place { line, text: what } in part.places(from, to) {
                text += &format!("      {from}:{line}: {what}\n");
            }
        }
    }
    Ok(text)
}

/// Everything, for tools.
pub fn json(parts: &[Part]) -> Result<String, String> {
    let part = |part: &Part| {
        let layers = part.plan.layers.iter().enumerate().map(|(index, layer)| {
            let files = part.layer_of.iter().filter(|(_, of)| **of == index).map(|(file, _)| file);
            json!({ "name": layer.name, "purpose": layer.purpose, "files": Vec::from_iter(files) })
        });
        let arrows = part.arrows().map(|(from, to)| {
            let upward = part.is_upward(from, to);
            let place = |place: &Place| json!({ "line": place.line, "text": place.text });
            let lines = Vec::from_iter(part.places(from, to).iter().map(place));
            json!({ "from": from, "to": to, "upward": upward, "lines": lines })
        });
        let circles =
            |circles: Vec<Circle>| {
                Vec::from_iter(circles.into_iter().map(|circle| {
                    circle.files.into_iter().map(String::from).collect::<BTreeSet<_>>()
                }))
            };
        json!({
            "name": part.plan.name,
            "layers": Vec::from_iter(layers),
            "arrows": Vec::from_iter(arrows),
            "circles": circles(part.circles()),
            "circles_in_layers": circles(part.circles_in_layers()),
        })
    };
    let parts: Vec<_> = parts.iter().map(part).collect();
    serde_json::to_string_pretty(&parts).map(|text| text + "\n").map_err(|error| error.to_string())
}

/// How many arrows lead from a layer to each other one, and which of them upward.
fn used(part: &Part, index: usize) -> String {
    let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
    for (from, to) in part.arrows() {
        if part.layer(from) == Some(index)
            && let Some(to) = part.layer(to)
        {
            *counts.entry(to).or_default() += 1;
        }
    }
    let (mut down, mut up) = (String::new(), String::new());
    for (&to, count) in counts.iter().rev().filter(|(to, _)| **to != index) {
        let text = if to < index { &mut down } else { &mut up };
        _ = write!(text, " {} {count}", part.plan.layers[to].name);
    }
    let inside = counts.get(&index).map_or(String::new(), |count| format!("inside {count} "));
    let down = if down.is_empty() { down } else { format!("▼{down} ") };
    let up = if up.is_empty() { up } else { format!("▲{up} ") };
    (inside + &down + &up).trim_end().to_string()
}

fn print_circles(text: &mut String, part: &Part, title: &str, circles: &[Circle]) {
    if !circles.is_empty() {
        *text += &format!("\n  {title}\n");
    }
    for circle in circles {
        let files: Vec<&str> = circle.files.iter().map(|file| part.short(file)).collect();
        list(text, &format!("    {} files, {} arrows:", files.len(), circle.arrows), &files);
    }
}

/// A head, and words behind it, in lines.
fn list<T: AsRef<str>>(text: &mut String, head: &str, words: &[T]) {
    let words: Vec<&str> = words.iter().map(T::as_ref).collect();
    let mut lines = wrapped(&words, WIDTH - 8).into_iter();
    match lines.next() {
        Some(line) if head.chars().count() + line.chars().count() < WIDTH && lines.len() == 0 => {
            *text += &format!("{head} {line}\n");
        }
        first => {
            *text += &format!("{head}\n");
            first.into_iter().chain(lines).for_each(|line| *text += &format!("        {line}\n"));
        }
    }
}

fn wrapped(words: &[&str], width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in words {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 2 + word.chars().count() <= width => {
                *line += &format!("  {word}");
            }
            _ => lines.push(word.to_string()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layers::part::tests::part;

    fn example() -> Part {
        part(&[
            ("low.rs", "\nuse crate::high::H;"),
            ("high.rs", "pub struct H; use super::low::L;"),
        ])
    }

    #[test]
    fn the_higher_layer_is_above() {
        let text = of_part(&example());
        assert!(
            text.contains("3 files in 2 layers, 2 arrows, 1 upward, 2 files in the largest circle")
        );
        assert!(text.find("┌─ high").unwrap() < text.find("┌─ low").unwrap());
        assert!(text.contains("└─ ▲ high 1 ─"), "{text}");
        assert!(text.contains("low.rs (low) → high.rs (high)\n"));
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH));
    }

    #[test]
    fn a_file_is_explained_by_lines() {
        let text = of_file(&[example()], "low.rs").unwrap();
        assert!(
            text.contains("high.rs (high) ▲ upward\n      k/low.rs:2: crate::high::H\n"),
            "{text}"
        );
        assert!(
            text.contains("is used by\n    high.rs (high)\n      k/high.rs:1: super::low::L\n"),
            "{text}"
        );
        assert!(of_file(&[example()], "none.rs").is_err());
    }

    #[test]
    fn json_has_the_arrows_and_circles_of_the_picture() {
        let value: serde_json::Value = serde_json::from_str(&json(&[example()]).unwrap()).unwrap();
        assert_eq!(value[0]["arrows"][1]["lines"][0]["line"], 2);
        assert_eq!(value[0]["circles"][0][0], "k/high.rs");
    }
}
