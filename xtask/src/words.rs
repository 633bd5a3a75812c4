//! Counters of words that a stranger does not understand: how many each file has, which may only
//! become fewer.
//!
//! * `subject`: doc comments of Rust whose first word is in `tools/hooks/first-words`, so that they
//!   begin without a subject. The hook for messages of commits reads the same list.
//! * `wide`: lines that are nothing but a comment and have more than 100 columns. A tab leads to
//!   the next multiple of 8.
//! * `long`: sentences of more than 40 words in doc comments of Rust and in documents.
//!
//! Sentences are counted so. A heading, an item of a list, a paragraph and a cell of a table are
//! each a text of its own; blocks of code have none. A word is what stands between white space and
//! has a letter or a digit; a code span is one word. A sentence ends with its text, or behind a
//! word that ends in `.`, `!` or `?` (quotes, brackets and emphasis may close behind that) where
//! the next word does not begin with a small letter. An abbreviation of `ABBREVIATIONS` ends none.

use std::collections::BTreeMap;

use crate::sources::{Source, read};

/// The list: how many of each kind a file may have, as `NUMBER KIND PATH`.
pub const LIST: &str = "xtask/words.txt";
/// Words with which no doc comment begins, one in each line.
const FIRST_WORDS: &str = "tools/hooks/first-words";
const COLUMNS_MAX: usize = 100;
const WORDS_MAX: usize = 40;
const TAB_COLUMNS: usize = 8;
/// Lines that a complaint names at most.
const LINES_SHOWN: usize = 20;
const ABBREVIATIONS: [&str; 5] = ["e.g.", "i.e.", "cf.", "vs.", "No."];
/// Stands for a code span: a word that may begin a sentence.
const CODE: &str = "CODE";

/// Kinds of findings: the name in the list, what a complaint calls them, and its advice.
const KINDS: [(&str, &str, &str); 3] = [
    ("subject", "doc comments that begin without a subject", "begin with a noun"),
    ("wide", "comment lines of more than 100 columns", "wrap them"),
    ("long", "sentences of more than 40 words", "one fact a sentence"),
];

/// The words that `FIRST_WORDS` lists.
pub fn first_words() -> Result<Vec<String>, String> {
    let text = read(FIRST_WORDS)?;
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    Ok(lines.map(String::from).collect())
}

/// The list as it is now.
pub fn list_of(sources: &[&Source], first_words: &[String]) -> String {
    let mut text = String::from(
        "# Doc comments without a subject, wide comment lines, long sentences (xtask/src/words.rs).\n\
         # They may only become fewer. `cargo xtask tidy --update` writes this list anew.\n",
    );
    for source in sources {
        for ((kind, ..), lines) in KINDS.iter().zip(found(source, first_words)) {
            if !lines.is_empty() {
                text += &format!("{} {kind} {}\n", lines.len(), source.path);
            }
        }
    }
    text
}

/// Complaints about files that have more, or fewer, than the list says.
pub fn check(
    sources: &[&Source],
    first_words: &[String],
    allowed: &BTreeMap<&str, usize>,
) -> Vec<String> {
    let mut complaints = Vec::new();
    for source in sources {
        let path = &source.path;
        for ((kind, what, advice), lines) in KINDS.iter().zip(found(source, first_words)) {
            let count = lines.len();
            let most = allowed.get(format!("{kind} {path}").as_str()).copied().unwrap_or(0);
            if count > most {
                let shown: Vec<String> =
                    lines.iter().take(LINES_SHOWN).map(usize::to_string).collect();
                let rest = if count > LINES_SHOWN { " …" } else { "" };
                complaints.push(format!(
                    "{path}: {count} {what}, {most} before: {advice} (lines {}{rest})",
                    shown.join(" ")
                ));
            } else if count < most {
                complaints.push(format!(
                    "{path}: {count} {what}, {most} before: keep what was won: cargo xtask tidy --update"
                ));
            }
        }
    }
    let is_known = |key: &str| {
        let (kind, path) = key.split_once(' ').unwrap_or_default();
        KINDS.iter().any(|(name, ..)| *name == kind)
            && sources.iter().any(|source| source.path == path)
    };
    let gone = allowed.keys().filter(|key| !is_known(key));
    complaints.extend(gone.map(|key| format!("{LIST}: {key} is gone: cargo xtask tidy --update")));
    complaints
}

/// The lines of the findings of each kind, in the order of `KINDS`.
fn found(source: &Source, first_words: &[String]) -> [Vec<usize>; 3] {
    let subjects = doc_comments(source).into_iter().filter(|(_, text)| {
        let begin = text.first().copied().unwrap_or_default();
        first_words.iter().any(|word| begins_with(begin, word))
    });
    let texts = if source.is(&["md"]) {
        vec![(1, source.text.lines().collect())]
    } else {
        doc_comments(source)
    };
    let long = texts.into_iter().flat_map(|(first, lines)| {
        let sentences = sentences(&lines).into_iter().filter(|(_, words)| *words > WORDS_MAX);
        sentences.map(move |(line, _)| first + line)
    });
    [subjects.map(|(line, _)| line).collect(), wide_comments(source), long.collect()]
}

/// Whether a text begins with a word, or with two, such as `The same`.
fn begins_with(text: &str, word: &str) -> bool {
    text.trim_start()
        .strip_prefix(word)
        .is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_'))
}

/// Doc comments of a Rust file: the number of the first line, and what stands behind `///` or
/// `//!`.
fn doc_comments(source: &Source) -> Vec<(usize, Vec<&str>)> {
    let mut comments: Vec<(usize, Vec<&str>)> = Vec::new();
    if !source.is(&["rs"]) {
        return comments;
    }
    let mut before = None;
    for (number, line) in (1..).zip(source.text.lines()) {
        let line = line.trim();
        let marker = ["///", "//!"].into_iter().find(|marker| line.starts_with(marker));
        let marker = marker.filter(|_| !line.starts_with("////"));
        if let Some(marker) = marker {
            if before != Some(marker) {
                comments.push((number, Vec::new()));
            }
            if let Some((_, lines)) = comments.last_mut() {
                lines.push(line[marker.len()..].trim_start());
            }
        }
        before = marker;
    }
    comments
}

/// The numbers of lines that are nothing but a comment, and too wide.
fn wide_comments(source: &Source) -> Vec<usize> {
    if source.is(&["md"]) {
        return Vec::new();
    }
    let has_slashes = source.is(&["rs", "c", "h", "S"]);
    let mut in_block = false;
    let mut is_comment = |line: &str| {
        let line = line.trim_start();
        if !has_slashes {
            return line.starts_with('#') && !line.starts_with("#!");
        }
        let begins_block = !in_block && line.starts_with("/*");
        let is_comment = in_block || begins_block || line.starts_with("//");
        if in_block || begins_block {
            in_block = !line.contains("*/");
        }
        is_comment
    };
    let lines = (1..).zip(source.text.lines());
    lines
        .filter(|(_, line)| is_comment(line) && columns(line) > COLUMNS_MAX)
        .map(|(number, _)| number)
        .collect()
}

fn columns(line: &str) -> usize {
    line.chars().fold(0, |column, character| match character {
        '\t' => (column / TAB_COLUMNS + 1) * TAB_COLUMNS,
        _ => column + 1,
    })
}

/// The sentences of a text in Markdown: the index of the line in which each begins, and how many
/// words it has.
fn sentences(lines: &[&str]) -> Vec<(usize, usize)> {
    let mut sentences = Vec::new();
    let mut text: Vec<(usize, String)> = Vec::new();
    let mut in_code = false;
    for (index, line) in lines.iter().enumerate() {
        let line = line.trim_start_matches([' ', '>']).trim_end();
        let is_fence = line.starts_with("```") || line.starts_with("~~~");
        let is_row = line.starts_with('|');
        if in_code || is_fence || is_row || line.is_empty() || begins_text(line) {
            finish(&mut text, &mut sentences);
        }
        in_code ^= is_fence;
        if in_code || is_fence {
            continue;
        }
        if is_row {
            for cell in mask_code(line).split('|') {
                text.push((index, cell.to_string()));
                finish(&mut text, &mut sentences);
            }
        } else {
            text.push((index, line.to_string()));
            if line.starts_with('#') {
                finish(&mut text, &mut sentences);
            }
        }
    }
    finish(&mut text, &mut sentences);
    sentences
}

/// A heading or an item of a list.
fn begins_text(line: &str) -> bool {
    let marker = line.split(' ').next().unwrap_or_default();
    let number = marker.strip_suffix(['.', ')']).unwrap_or_default();
    let is_number = !number.is_empty() && number.chars().all(|c| c.is_ascii_digit());
    ["*", "-", "+"].contains(&marker) || line.starts_with('#') || is_number
}

/// Counts the words of a text's sentences, and empties it. Code spans may go over several lines.
fn finish(text: &mut Vec<(usize, String)>, sentences: &mut Vec<(usize, usize)>) {
    let starts: Vec<usize> = text.iter().map(|(index, _)| *index).collect();
    let joined: Vec<&str> = text.iter().map(|(_, line)| line.as_str()).collect();
    let masked = without_targets(&mask_code(&joined.join("\n")));
    let words = masked.split('\n').zip(starts).flat_map(|(line, index)| {
        line.split_whitespace().filter(|word| is_word(word)).map(move |word| (index, word))
    });
    let mut begin = None;
    let mut count = 0;
    let mut may_end = false;
    for (index, word) in words {
        let first = word.chars().find(|c| c.is_alphanumeric());
        if may_end && !first.is_some_and(char::is_lowercase) {
            sentences.extend(begin.take().map(|line| (line, count)));
            count = 0;
        }
        begin = begin.or(Some(index));
        count += 1;
        let end = word.trim_end_matches(['"', '\'', ')', ']', '*', '_', '”', '’']);
        may_end = end.ends_with(['.', '!', '?']) && !ABBREVIATIONS.contains(&end);
    }
    sentences.extend(begin.map(|line| (line, count)));
    text.clear();
}

fn is_word(word: &str) -> bool {
    word.chars().any(char::is_alphanumeric)
}

/// Has `CODE` in place of each code span. Lines stay lines.
fn mask_code(text: &str) -> String {
    let parts: Vec<&str> = text.split('`').collect();
    let mut masked = String::new();
    for (index, part) in parts.iter().enumerate() {
        let is_span = index % 2 == 1 && index + 1 < parts.len();
        if is_span {
            masked += CODE;
            masked.extend(part.chars().filter(|c| *c == '\n'));
        } else {
            masked += part;
        }
    }
    masked
}

/// Leaves of a link its text.
fn without_targets(text: &str) -> String {
    let mut parts = text.split("](");
    let mut kept = String::from(parts.next().unwrap_or_default());
    for part in parts {
        let (target, rest) = part.split_once(')').unwrap_or(("", part));
        kept.push(']');
        kept.extend(target.chars().filter(|c| *c == '\n'));
        kept += rest;
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(path: &str, text: &str, list: &[(&str, usize)]) -> Vec<String> {
        let source = Source { path: path.into(), text: text.into() };
        let first_words = ["What", "It", "The same"].map(String::from);
        check(&[&source], &first_words, &list.iter().copied().collect())
    }

    /// A sentence of so many words, without its end.
    fn words(count: usize) -> String {
        format!("Word{}", " word".repeat(count - 1))
    }

    #[test]
    fn doc_comment_begins_with_its_subject() {
        let bad = "//! What it is.\n\n    /// The same,\n    /// It goes on.\nfn f() {}\n/// It's\nfn g() {}\n";
        assert!(complaints("a.rs", bad, &[])[0].contains("3 doc comments"));
        assert!(complaints("a.rs", bad, &[])[0].ends_with("(lines 1 3 6)"));
        let good = "//! Whatever\n/// Items.\n// What\n//// It\n/// The sameness\n\"It\"\n";
        assert!(complaints("a.rs", good, &[]).is_empty());
        assert!(complaints("a.py", bad, &[]).is_empty());
    }

    #[test]
    fn comment_line_has_100_columns() {
        let line = |begin: &str, columns: usize| format!("{begin}{}\n", "x".repeat(columns));
        assert!(complaints("a.rs", &line("//", 98), &[]).is_empty());
        assert!(complaints("a.rs", &line("//", 99), &[])[0].contains("1 comment lines"));
        assert!(complaints("a.c", &line("\t// ", 89), &[]).is_empty());
        assert!(complaints("a.c", &line("\t// ", 90), &[])[0].contains("lines 1)"));
        let block = format!("/* x\n{}*/\n{}", line(" * ", 98), line("*p = ", 98));
        assert!(complaints("a.c", &block, &[])[0].contains("(lines 2)"));
        assert!(complaints("a.py", &line("# ", 99), &[])[0].contains("(lines 1)"));
        assert!(complaints("a.py", &line("x = ", 99), &[]).is_empty());
        // Letters count, not bytes.
        assert!(complaints("a.rs", &format!("// {}\n", "ä".repeat(97)), &[]).is_empty());
    }

    #[test]
    fn sentence_has_40_words() {
        assert!(complaints("a.md", &words(40), &[]).is_empty());
        assert!(complaints("a.md", &words(41), &[])[0].contains("1 sentences"));
        let comment = format!("/// {}\n    /// more.\n", words(40));
        assert!(complaints("a.rs", &comment, &[])[0].contains("(lines 1)"));
        let code = format!("// {}\nfn f() {{}}\n", words(15));
        assert!(complaints("a.rs", &code.repeat(3), &[]).is_empty());
    }

    fn lengths(text: &str) -> Vec<usize> {
        let lines: Vec<&str> = text.lines().collect();
        sentences(&lines).into_iter().map(|(_, words)| words).collect()
    }

    #[test]
    fn sentence_ends_before_no_small_letter() {
        assert_eq!(lengths("One two. Three four five! Six? (Seven eight.) Nine"), [2, 3, 1, 2, 1]);
        assert_eq!(lengths("In 1.95 it is e.g. Linux, etc. and a.b goes on: so; yes"), [13]);
        assert_eq!(lengths("It has **words.** *Then* `a.b c` ends. `d` is code."), [3, 3, 3]);
        assert_eq!(lengths("A dash — is none, + neither"), [5]);
    }

    #[test]
    fn text_ends_with_its_block() {
        assert_eq!(lengths("# Head\nOne two\nthree\n\nfour\n"), [1, 3, 1]);
        assert_eq!(lengths("Two things:\n* one a\n  b\n* two\n1. three\n"), [2, 3, 1, 2]);
        assert_eq!(lengths("| a b | `c|d` e |\n|---|---|\n| f | |\n"), [2, 2, 1]);
        assert_eq!(lengths("One\n```\ncode. More code\n```\ntwo\n"), [1, 1]);
        assert_eq!(lengths("A [link of words](docs/a.md#b) and\n`a span\nof code` ends"), [7]);
    }

    #[test]
    fn sentence_is_found_in_its_line() {
        let text = ["One.", "Two", "`three", "four` five. Six", "seven."];
        assert_eq!(sentences(&text), [(0, 1), (1, 3), (3, 2)]);
    }

    #[test]
    fn counts_may_only_become_fewer() {
        let bad = "/// What\nfn f() {}\n";
        assert!(complaints("a.rs", bad, &[("subject a.rs", 1)]).is_empty());
        assert!(complaints("a.rs", bad, &[("wide a.rs", 1)])[0].contains("0 before"));
        assert!(complaints("a.rs", bad, &[("subject a.rs", 2)])[0].contains("--update"));
        assert!(complaints("a.rs", "", &[("subject b.rs", 1)])[0].contains("gone"));
        assert!(complaints("a.rs", "", &[("other a.rs", 1)])[0].contains("gone"));
    }

    #[test]
    fn list_says_what_is_there() {
        let source = |path: &str, text: &str| Source { path: path.into(), text: text.into() };
        let sources = [source("a.rs", "/// It\n"), source("b.md", &words(41)), source("c.rs", "")];
        let sources: Vec<&Source> = sources.iter().collect();
        let list = list_of(&sources, &["It".into()]);
        let lines: Vec<&str> = list.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(lines, ["1 subject a.rs", "1 long b.md"]);
    }

    #[test]
    fn first_words_are_listed() {
        let words = first_words().unwrap();
        assert!(words.iter().any(|word| word == "What"));
        assert!(words.iter().any(|word| word == "The same"));
    }
}
