//! Arrows between files, and the circles that they make.

use std::collections::{BTreeMap, BTreeSet};

/// A line that makes an arrow.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Place {
    /// Number of the line, from 1.
    pub line: usize,
    /// Name or include that makes the arrow.
    pub text: String,
}

/// From file to file, and why.
pub type Arrows = BTreeMap<(String, String), BTreeSet<Place>>;

/// Files that all lead to each other (strongly connected components), two or more together;
/// the largest circle first.
pub fn circles<'a>(arrows: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<BTreeSet<&'a str>> {
    let mut targets: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (from, to) in arrows {
        targets.entry(from).or_default().push(to);
    }
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        targets.keys().map(|&file| (file, reached(file, &targets))).collect();
    let mut circles: Vec<BTreeSet<&str>> = Vec::new();
    for (&file, others) in &reached {
        let leads_back = |other: &&str| reached.get(other).is_some_and(|from| from.contains(file));
        let circle: BTreeSet<&str> = others.iter().copied().filter(leads_back).collect();
        if circle.len() > 1 && !circles.contains(&circle) {
            circles.push(circle);
        }
    }
    circles.sort_by_key(|circle| std::cmp::Reverse(circle.len()));
    circles
}

/// Where the arrows from `file` lead, over others, too.
fn reached<'a>(file: &'a str, targets: &BTreeMap<&'a str, Vec<&'a str>>) -> BTreeSet<&'a str> {
    let (mut reached, mut ahead) = (BTreeSet::new(), vec![file]);
    while let Some(file) = ahead.pop() {
        let next = targets.get(file).into_iter().flatten().copied();
        ahead.extend(next.filter(|&file| reached.insert(file)));
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_circle_is_what_leads_back() {
        let found = |arrows: &[(&'static str, &'static str)]| {
            let circles = circles(arrows.iter().copied());
            circles.into_iter().map(|circle| Vec::from_iter(circle).join(" ")).collect::<Vec<_>>()
        };
        assert_eq!(found(&[("a", "b"), ("b", "c"), ("a", "c")]), [""; 0]);
        assert_eq!(found(&[("a", "b"), ("b", "c"), ("c", "a"), ("c", "d"), ("x", "a")]), ["a b c"]);
        let two = [("a", "b"), ("b", "a"), ("b", "c"), ("c", "d"), ("d", "e"), ("e", "c")];
        assert_eq!(found(&two), ["c d e", "a b"]);
    }
}
