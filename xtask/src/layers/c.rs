//! Arrows between the files of the module: C by its includes and by names. A file that includes a
//! header has an arrow to it; a file that names a function or a global variable that another file
//! defines has one to that file, and a header has none for what it only declares. A name behind `.`
//! or `->` is a member's.

use std::collections::{BTreeMap, BTreeSet};

use super::arrows::{Arrows, Place};

/// Every arrow between these files. `texts`: by path.
pub fn arrows(texts: &BTreeMap<&str, &str>) -> Arrows {
    let files: Vec<File> = texts.iter().map(|(path, text)| File::read(path, text)).collect();
    let mut definers: BTreeMap<&str, &str> = BTreeMap::new();
    for file in &files {
        definers.extend(file.defines.iter().map(|&name| (name, file.path)));
    }
    let mut arrows = Arrows::new();
    for file in &files {
        let mut add = |to: &str, line: usize, text: String| {
            let places = arrows.entry((file.path.to_string(), to.to_string())).or_default();
            places.insert(Place { line, text });
        };
        for &(line, name) in &file.includes {
            let named = |path: &&&str| path.rsplit('/').next() == name.rsplit('/').next();
            if let Some(path) = texts.keys().find(named) {
                add(path, line, format!("#include \"{name}\""));
            }
        }
        for token in &file.mentions {
            match definers.get(token.text) {
                Some(&to) if to != file.path && !file.has(token.text) => {
                    add(to, token.line, token.text.into());
                }
                _ => {}
            }
        }
    }
    arrows
}

/// Names that a file's functions, values and macros mention, each with its line.
pub fn mentions<'a>(path: &'a str, text: &'a str) -> Vec<(usize, &'a str)> {
    let tokens = File::read(path, text).mentions;
    tokens.into_iter().map(|token| (token.line, token.text)).collect()
}

/// Definitions and uses of names in a file.
#[derive(Default)]
struct File<'a> {
    path: &'a str,
    includes: Vec<(usize, &'a str)>,
    /// Seen by other files.
    defines: BTreeSet<&'a str>,
    /// `static`.
    own: BTreeSet<&'a str>,
    mentions: Vec<Token<'a>>,
}

#[derive(Clone, Copy)]
struct Token<'a> {
    line: usize,
    text: &'a str,
}

impl<'a> File<'a> {
    fn read(path: &'a str, text: &'a str) -> File<'a> {
        let mut file = File { path, ..File::default() };
        let tokens = file.tokens(text);
        let (mut start, mut depth) = (0, 0);
        for (at, token) in tokens.iter().enumerate() {
            match token.text {
                "{" | "(" | "[" => depth += 1,
                "}" | ")" | "]" => depth -= 1,
                _ => {}
            }
            if depth == 0 && matches!(token.text, ";" | "}") {
                file.statement(&tokens[start..=at]);
                start = at + 1;
            }
        }
        file
    }

    /// Whether the file defines this name itself; of several programs in a part each has a `main`.
    fn has(&self, name: &str) -> bool {
        self.own.contains(name) || self.defines.contains(name)
    }

    /// A definition or declaration outside of functions.
    fn statement(&mut self, tokens: &[Token<'a>]) {
        let declares = tokens[0].text == "extern";
        let head = tokens.iter().position(|token| matches!(token.text, "{" | "="));
        let last = tokens[tokens.len() - 1].text;
        let (head, has_body) = (&tokens[..head.unwrap_or(tokens.len())], last == "}");
        // Of the name, not of variables in a function's body.
        let is_static = head.iter().any(|token| token.text == "static");
        if let Some((name, is_function)) = declared(head)
            && !declares
            && has_body >= is_function
        {
            let to = if is_static { &mut self.own } else { &mut self.defines };
            to.insert(name);
        }
        if !declares && (is_static || !self.path.ends_with(".h")) {
            self.mention(tokens);
        }
    }

    fn mention(&mut self, tokens: &[Token<'a>]) {
        let is_member = |at: usize| at > 0 && matches!(tokens[at - 1].text, "." | "->");
        let names = (0..tokens.len()).filter(|&at| is_name(tokens[at].text) && !is_member(at));
        self.mentions.extend(names.map(|at| tokens[at]));
    }

    /// Words and signs, without comments, strings and directives; what `#include` and `#define`
    /// say is noted.
    fn tokens(&mut self, text: &'a str) -> Vec<Token<'a>> {
        let (mut tokens, mut line, mut rest) = (Vec::new(), 1, text);
        let mut fresh = true; // nothing but blanks on this line yet
        while let Some(first) = rest.chars().next() {
            let length = match first {
                '/' if rest.starts_with("/*") => rest.find("*/").map_or(rest.len(), |end| end + 2),
                '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
                '"' | '\'' => quoted(rest, first),
                '#' if fresh => {
                    let length = directive(rest);
                    self.directive(&rest[1..length], line);
                    length
                }
                '-' if rest.starts_with("->") => 2,
                _ if is_name(rest) => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
                _ => first.len_utf8(),
            };
            let (text, after) = rest.split_at(length);
            let counts = !first.is_whitespace()
                && !matches!(first, '#' | '"' | '\'')
                && !text.starts_with("/*");
            if counts && !text.starts_with("//") {
                tokens.push(Token { line, text });
            }
            fresh = first == '\n' || fresh && (first.is_whitespace() || text.starts_with("/*"));
            line += text.matches('\n').count();
            rest = after;
        }
        tokens
    }

    fn directive(&mut self, text: &'a str, line: usize) {
        let text = text.trim_start();
        if let Some(name) = text.strip_prefix("include") {
            let name = name.trim_start().strip_prefix('"').and_then(|name| name.split('"').next());
            self.includes.extend(name.map(|name| (line, name)));
        } else if let Some(body) = text.strip_prefix("define") {
            let tokens = self.tokens(body);
            let tokens = tokens.into_iter().skip(1); // its own name
            let shifted = tokens.map(|token| Token { line: line + token.line - 1, ..token });
            self.mention(&shifted.collect::<Vec<_>>());
        }
    }
}

/// Which name a statement declares, from what stands before its body or value, and whether that
/// is a function.
fn declared<'a>(head: &[Token<'a>]) -> Option<(&'a str, bool)> {
    let called = |at: &usize| {
        let name = head[*at].text;
        is_name(name)
            && !name.starts_with("__")
            && head.get(at + 1).is_some_and(|token| token.text == "(")
    };
    if let Some(at) = (0..head.len()).find(called) {
        let name = head[at].text;
        let makes = name.starts_with("DEFINE_") || name == "LIST_HEAD";
        return if makes { Some((head.get(at + 2)?.text, false)) } else { Some((name, true)) };
    }
    let end = head.iter().position(|token| matches!(token.text, "[" | ";")).unwrap_or(head.len());
    let is_type =
        end == head.len() && matches!(head.first()?.text, "struct" | "union" | "enum") && end == 2;
    let name = head.get(end.checked_sub(1)?)?.text;
    (end > 1 && !is_type && is_name(name)).then_some((name, false))
}

/// Bytes of the string or character at the start.
fn quoted(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if c == quote => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// Bytes of the directive at the start, with the lines that it is continued on.
fn directive(text: &str) -> usize {
    let mut ends = text.match_indices('\n').map(|(at, _)| at);
    ends.find(|&at| !text[..at].ends_with('\\')).unwrap_or(text.len())
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(files: &[(&str, &str)]) -> Vec<String> {
        let found = arrows(&files.iter().copied().collect());
        let line = |((from, to), places): (&(String, String), &BTreeSet<Place>)| {
            let places = places.iter().map(|place| format!("{} {}", place.line, place.text));
            format!("{from} -> {to}: {}", places.collect::<Vec<_>>().join(", "))
        };
        found.iter().map(line).collect()
    }

    #[test]
    fn includes_and_names_are_arrows() {
        let header = "#ifndef H\nextern struct mutex lock;\nextern struct list_head all;\nint f(int x);\n\
                      struct s *g(void);\nextern const struct ops ops;\nbool flag;\n";
        let header = header.replace("bool flag;", "extern bool flag;");
        let files = [
            (
                "m/a.c",
                "#include <linux/f.h>\n#include \"h.h\"\nstatic int x(void)\n{\n\treturn f(1);\n}\n",
            ),
            (
                "m/b.c",
                "int f(int x)\n{\n\treturn x;\n}\nDEFINE_MUTEX(lock);\nLIST_HEAD(all);\nbool flag;\n",
            ),
            ("m/c.c", "struct s *g(void)\n{ mutex_lock(&lock); return flag; }\n"),
            ("m/d.c", "const struct ops ops = {\n\t.f = g,\n};\nmodule_init(f);\n"),
            ("m/h.h", header.as_str()),
            ("m/i.h", "static inline void i(void) { g(); }\n#define J(x) \\\n\tf(x)\n"),
        ];
        let wanted = [
            "m/a.c -> m/b.c: 5 f",
            "m/a.c -> m/h.h: 2 #include \"h.h\"",
            "m/c.c -> m/b.c: 2 flag, 2 lock",
            "m/d.c -> m/b.c: 4 f",
            "m/d.c -> m/c.c: 2 g",
            "m/i.h -> m/b.c: 3 f",
            "m/i.h -> m/c.c: 1 g",
        ];
        assert_eq!(of(&files), wanted);
    }

    #[test]
    fn a_function_with_a_static_variable_is_not_static() {
        let b = ("b.c", "int f(void)\n{\n\tstatic int count;\n\treturn count++;\n}\n");
        assert_eq!(of(&[("a.c", "int g(void) { return f(); }"), b]), ["a.c -> b.c: 1 f"]);
    }

    #[test]
    fn a_name_that_the_file_defines_is_its_own() {
        let files =
            [("a.c", "int main(void) { return g(); }"), ("b.c", "int main(void) { return 0; }")];
        assert_eq!(of(&files), [""; 0]);
    }

    #[test]
    fn what_only_looks_like_a_name_is_none() {
        let b = ("b.c", "int f(void) { return 0; }\n");
        for text in [
            "/* f() */ // f\nchar *x = \"f() \\\" f\"; char y = 'f';",
            "static int f(void) { return 1; }\nint g(void) { return f(); }",
            "int g(struct s *s) { return s->f + s->t.f; }",
            "static struct s x = { .f = 1 };",
            "extern int f(void);",
        ] {
            assert_eq!(of(&[("a.c", text), b]), [""; 0], "{text}");
        }
    }
}
