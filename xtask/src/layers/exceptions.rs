//! `xtask/layer-exceptions.txt`: the arrows upward and the circles inside of a layer that are
//! there still. A ratchet: what is not in the list is a complaint; what is in it and not found
//! any more has to leave it, which `cargo xtask tidy --update` does. Nothing enters it but by
//! hand.

use std::collections::BTreeSet;

use super::part::{Circle, Part};

/// File of the exceptions.
pub const FILE: &str = "xtask/layer-exceptions.txt";
/// Begins the reason of the exceptions below it.
const REASON: &str = "because ";

/// A line of the list.
enum Line<'a> {
    Comment,
    Reason,
    Upward(&'a str, &'a str),
    Circle(Circle<'a>),
}

fn line(line: &str) -> Option<Line<'_>> {
    if line.is_empty() || line.starts_with('#') {
        Some(Line::Comment)
    } else if let Some(reason) = line.strip_prefix(REASON) {
        (!reason.trim().is_empty()).then_some(Line::Reason)
    } else if let Some(circle) = line.strip_prefix("circle ") {
        let (arrows, files) = circle.split_once(": ")?;
        let files = files.split(' ').collect();
        Some(Line::Circle(Circle { files, arrows: arrows.parse().ok()? }))
    } else {
        let (from, to) = line.split_once(" -> ")?;
        Some(Line::Upward(from, to))
    }
}

fn parse(list: &str) -> Result<Vec<(&str, Line<'_>)>, String> {
    let mut lines = Vec::new();
    let mut has_reason = false;
    for (number, text) in (1..).zip(list.lines()) {
        let line = line(text).ok_or_else(|| {
            format!(
                "{FILE}:{number}: neither 'because REASON' nor 'FILE -> FILE' nor 'circle N: FILE…'"
            )
        })?;
        has_reason |= matches!(line, Line::Reason);
        if !has_reason && !matches!(line, Line::Comment) {
            return Err(format!("{FILE}:{number}: no 'because REASON' above"));
        }
        lines.push((text, line));
    }
    Ok(lines)
}

/// Complaints about arrows and circles that the list does not have, and about the list itself.
pub fn check(list: &str, parts: &[Part]) -> Result<Vec<String>, String> {
    let lines = parse(list)?;
    let mut complaints = Vec::new();
    let listed: BTreeSet<(&str, &str)> = lines
        .iter()
        .filter_map(|(_, line)| match line {
            Line::Upward(from, to) => Some((*from, *to)),
            _ => None,
        })
        .collect();
    for part in parts {
        for (from, to) in part.upward().filter(|arrow| !listed.contains(arrow)) {
            let place = &part.places(from, to).first().expect("made by a line");
            complaints.push(format!(
                "{from}:{}: {} is of {to}: upward from layer {} to {}: see docs/architecture.md, Layers",
                place.line,
                place.text,
                part.layer_name(from),
                part.layer_name(to)
            ));
        }
        for circle in part.circles_in_layers() {
            let allowed = lines.iter().any(|(_, line)| match line {
                Line::Circle(listed) => circle.is_within(listed),
                _ => false,
            });
            if !allowed {
                complaints.push(format!(
                    "{}: a circle of {} files in layer {}, with {} arrows: see docs/architecture.md, Layers",
                    Vec::from_iter(circle.files.iter().copied()).join(" "),
                    circle.files.len(),
                    part.layer_name(circle.files.first().expect("two files at least")),
                    circle.arrows
                ));
            }
        }
    }
    if complaints.is_empty() && updated(list, parts)? != list {
        complaints.push(format!(
            "{FILE}: has more than there is: keep what was won: cargo xtask tidy --update"
        ));
    }
    Ok(complaints)
}

/// The list without what is not found any more.
pub fn updated(list: &str, parts: &[Part]) -> Result<String, String> {
    let lines = parse(list)?;
    let upward: BTreeSet<(&str, &str)> = parts.iter().flat_map(Part::upward).collect();
    let circles: Vec<Circle> = parts.iter().flat_map(Part::circles_in_layers).collect();
    let mut kept: Vec<String> = Vec::new();
    let mut seen = BTreeSet::new();
    for (text, line) in &lines {
        match line {
            Line::Comment => kept.push(text.to_string()),
            Line::Reason => {
                drop_idle_reason(&mut kept);
                kept.push(text.to_string());
            }
            Line::Upward(from, to) => {
                if upward.contains(&(from, to)) && seen.insert((*from, *to)) {
                    kept.push(text.to_string());
                }
            }
            Line::Circle(listed) => {
                kept.extend(
                    circles.iter().filter(|circle| circle.is_within(listed)).map(Circle::line),
                );
            }
        }
    }
    drop_idle_reason(&mut kept);
    while kept.last().is_some_and(String::is_empty) {
        kept.pop();
    }
    Ok(kept.iter().map(|line| format!("{line}\n")).collect())
}

/// A reason at the end, with blank lines or without, is nothing's.
fn drop_idle_reason(kept: &mut Vec<String>) {
    let last = kept.iter().rposition(|line| !line.is_empty());
    if let Some(last) = last.filter(|&last| kept[last].starts_with(REASON)) {
        kept.truncate(last);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layers::part::tests::part;

    const LOW_USES_HIGH: &[(&str, &str)] =
        &[("low.rs", "use crate::high::H;"), ("high.rs", "pub struct H;")];
    const RING: &[(&str, &str)] = &[
        ("low.rs", "use crate::low2::A;"),
        ("low2.rs", "pub struct A; use crate::low3::B;"),
        ("low3.rs", "pub struct B; pub use crate::low::C; fn f(c: C) {}"),
        ("high.rs", "use crate::low::C;"),
    ];

    fn complaints(list: &str, files: &[(&str, &str)]) -> Vec<String> {
        check(list, &[part(files)]).unwrap()
    }

    #[test]
    fn a_new_arrow_upward_is_a_complaint() {
        let found = complaints("", LOW_USES_HIGH);
        assert_eq!(found.len(), 1);
        assert!(
            found[0].starts_with("k/low.rs:1: crate::high::H is of k/high.rs: upward"),
            "{}",
            found[0]
        );
        let list = "because it is old\nk/low.rs -> k/high.rs\n";
        assert!(complaints(list, LOW_USES_HIGH).is_empty());
        let more = [
            LOW_USES_HIGH[0],
            ("high.rs", "pub struct H;"),
            ("low2.rs", "fn f() { crate::high::g() }"),
        ];
        assert!(complaints(list, &more)[0].starts_with("k/low2.rs:1: crate::high::g"));
    }

    #[test]
    fn downward_and_beside_is_allowed() {
        let files = [
            ("high.rs", "use crate::low::C; use crate::high2::D;"),
            ("low.rs", "pub struct C;"),
            ("high2.rs", ""),
        ];
        assert!(complaints("", &files).is_empty());
    }

    #[test]
    fn a_circle_of_three_is_a_complaint() {
        let found = complaints("", RING);
        assert_eq!(found.len(), 1);
        assert!(
            found[0].starts_with("k/low.rs k/low2.rs k/low3.rs: a circle of 3 files in layer low")
        );
        let list = "because it is old\ncircle 3: k/low.rs k/low2.rs k/low3.rs\n";
        assert!(complaints(list, RING).is_empty());
    }

    #[test]
    fn a_circle_may_not_grow() {
        assert!(!complaints("because it is old\ncircle 2: k/low.rs k/low2.rs\n", RING).is_empty());
        let list = "because it is old\ncircle 2: k/low.rs k/low2.rs k/low3.rs\n";
        assert!(complaints(list, RING)[0].contains("with 3 arrows"));
    }

    #[test]
    fn what_was_won_is_kept() {
        let list = "# All.\nbecause it is old\nk/low.rs -> k/high.rs\n\nbecause it is older\nk/low2.rs -> k/high.rs\n\
                    circle 9: k/low.rs k/low2.rs k/low3.rs k/low4.rs\n\nbecause it is gone\n\na.rs -> b.rs\n";
        let shorter = "# All.\nbecause it is old\nk/low.rs -> k/high.rs\n";
        assert!(complaints(list, LOW_USES_HIGH)[0].contains("--update"));
        assert_eq!(updated(list, &[part(LOW_USES_HIGH)]).unwrap(), shorter);
        assert!(complaints(shorter, LOW_USES_HIGH).is_empty());
        let ring = "# All.\nbecause it is older\ncircle 3: k/low.rs k/low2.rs k/low3.rs\n";
        assert_eq!(updated(list, &[part(RING)]).unwrap(), ring);
        // Nothing enters the list by itself.
        assert_eq!(updated("", &[part(RING)]).unwrap(), "");
    }

    #[test]
    fn every_exception_has_a_reason() {
        assert!(check("a -> b\n", &[]).unwrap_err().contains("no 'because"));
        assert!(check("because \n", &[]).is_err());
        assert!(check("because x\na b\n", &[]).unwrap_err().contains(":2:"));
    }
}
