//! Arrows between the files of a Rust crate: file A names what file B defines.
//!
//! `syn` finds modules, items and `use` trees; everything else (bodies, macros and what they are
//! called with) is read as tokens, in which paths look the same wherever they stand. A path leads
//! to the file of the item that it ends at: through re-exports, and past modules that it only
//! goes through. Code for tests is left out. Methods cannot be seen: their names alone do not say
//! whose they are.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use quote::ToTokens;
use syn::{Attribute, Item, UseTree, Visibility};

use super::arrows::{Arrows, Place};

/// The files of the crate with this root file, and every arrow between them. `texts`: by path.
pub fn read(
    root: &str,
    texts: &BTreeMap<&str, &str>,
) -> Result<(BTreeSet<String>, Arrows), String> {
    let mut krate =
        Crate { texts, modules: Vec::new(), mentions: Vec::new(), read: BTreeSet::new() };
    krate.load(root, None, parent(root).to_string())?;
    let arrows = krate.resolve_all();
    Ok((krate.read, arrows))
}

type Path = Vec<String>;
type Asked = HashSet<(usize, String, bool)>;

#[derive(Default)]
struct Module {
    parent: Option<usize>,
    file: String,
    /// Folder with the files of the module's `mod x;`.
    folder: String,
    children: HashMap<String, usize>,
    items: HashSet<String>,
    macros: HashMap<String, String>,
    aliases: HashMap<String, Vec<Path>>,
    globs: Vec<Path>,
    /// Every word that is not a field or method.
    words: HashSet<String>,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// In code.
    Path,
    /// Called as `name!`.
    Macro,
    /// By `use`.
    Import,
    /// By `pub use`: an arrow only where the file uses the name itself.
    Export,
    /// By `use x::*`.
    Glob,
}

struct Mention {
    module: usize,
    kind: Kind,
    path: Path,
    /// Under which it is known here; of imports.
    name: String,
    line: usize,
}

#[derive(Clone, Debug, PartialEq)]
enum Found {
    Module(usize),
    Item(String),
}

struct Crate<'a> {
    texts: &'a BTreeMap<&'a str, &'a str>,
    modules: Vec<Module>,
    mentions: Vec<Mention>,
    read: BTreeSet<String>,
}

impl Crate<'_> {
    fn load(&mut self, file: &str, parent: Option<usize>, folder: String) -> Result<usize, String> {
        let text = self.texts.get(file).ok_or_else(|| format!("{file}: not there"))?;
        let parsed = syn::parse_file(text)
            .map_err(|error| format!("{file}:{}: {error}", error.span().start().line))?;
        self.read.insert(file.into());
        let module = self.add(Module { parent, file: file.into(), folder, ..Module::default() });
        self.items(module, parsed.items)?;
        Ok(module)
    }

    fn add(&mut self, module: Module) -> usize {
        self.modules.push(module);
        self.modules.len() - 1
    }

    fn items(&mut self, module: usize, items: Vec<Item>) -> Result<(), String> {
        for item in items {
            if attributes(&item).iter().any(is_for_tests) {
                continue;
            }
            match item {
                Item::Mod(item) => self.child(module, item)?,
                Item::Use(item) => self.import(module, item),
                Item::Macro(item) => {
                    if let Some(name) = &item.ident {
                        let name = name.to_string();
                        let file = self.modules[module].file.clone();
                        if item.attrs.iter().any(|a| a.path().is_ident("macro_export")) {
                            self.modules[0].macros.insert(name.clone(), file.clone());
                        }
                        self.modules[module].macros.insert(name, file);
                    }
                    self.scan(module, item.to_token_stream());
                }
                item => {
                    if let Some(name) = name_of(&item) {
                        self.modules[module].items.insert(name);
                    }
                    self.scan(module, item.to_token_stream());
                }
            }
        }
        Ok(())
    }

    fn child(&mut self, module: usize, item: syn::ItemMod) -> Result<(), String> {
        let name = item.ident.to_string();
        let Module { file, folder, .. } = &self.modules[module];
        let child = match item.content {
            Some((_, items)) => {
                let (file, folder) = (file.clone(), join(folder, &name));
                let inline = Module { parent: Some(module), file, folder, ..Module::default() };
                let child = self.add(inline);
                self.items(child, items)?;
                child
            }
            None => {
                let named = item.attrs.iter().find_map(path_attribute);
                let named = named.map(|path| join(parent(file), &path));
                if named.as_ref().is_some_and(|path| self.is_outside(path)) {
                    return Ok(()); // another part's file, as if it were another crate's
                }
                let beside = join(folder, &format!("{name}.rs"));
                let below = join(folder, &format!("{name}/mod.rs"));
                let candidates = named.map_or_else(|| vec![beside, below], |path| vec![path]);
                let found =
                    candidates.into_iter().find(|path| self.texts.contains_key(path.as_str()));
                let found = found.ok_or_else(|| format!("{file}: no file for mod {name}"))?;
                let own = if found.ends_with("/mod.rs") {
                    parent(&found).to_string()
                } else {
                    found.trim_end_matches(".rs").to_string()
                };
                self.load(&found, Some(module), own)?
            }
        };
        self.modules[module].children.insert(name, child);
        Ok(())
    }

    /// Whether `..` leads out of the folder of the root file.
    fn is_outside(&self, path: &str) -> bool {
        let folder = parent(&self.modules[0].file);
        let mut depth = 0;
        path[folder.len()..].split('/').filter(|name| !name.is_empty()).any(|name| {
            depth += if name == ".." { -1 } else { 1 };
            depth < 0
        })
    }

    fn import(&mut self, module: usize, item: syn::ItemUse) {
        if item.leading_colon.is_some() {
            return;
        }
        let kind = match item.vis {
            Visibility::Inherited => Kind::Import,
            _ => Kind::Export,
        };
        self.tree(module, kind, &mut Vec::new(), item.tree);
    }

    fn tree(&mut self, module: usize, kind: Kind, above: &mut Path, tree: UseTree) {
        match tree {
            UseTree::Path(path) => {
                above.push(path.ident.to_string());
                self.tree(module, kind, above, *path.tree);
                above.pop();
            }
            UseTree::Group(group) => {
                for tree in group.items {
                    self.tree(module, kind, above, tree);
                }
            }
            UseTree::Glob(glob) => {
                let line = glob.star_token.spans[0].start().line;
                self.modules[module].globs.push(above.clone());
                if kind == Kind::Import {
                    self.mention(module, Kind::Glob, above.clone(), "*".into(), line);
                }
            }
            UseTree::Name(name) => {
                let line = name.ident.span().start().line;
                self.leaf(module, kind, above, (name.ident.to_string(), None), line);
            }
            UseTree::Rename(name) => {
                let line = name.ident.span().start().line;
                let alias = Some(name.rename.to_string());
                self.leaf(module, kind, above, (name.ident.to_string(), alias), line);
            }
        }
    }

    fn leaf(
        &mut self,
        module: usize,
        kind: Kind,
        above: &Path,
        (last, alias): (String, Option<String>),
        line: usize,
    ) {
        let mut path = above.clone();
        if last != "self" {
            path.push(last);
        }
        let name = alias.unwrap_or_else(|| path.last().cloned().unwrap_or_default());
        self.modules[module].aliases.entry(name.clone()).or_default().push(path.clone());
        self.mention(module, kind, path, name, line);
    }

    fn mention(&mut self, module: usize, kind: Kind, path: Path, name: String, line: usize) {
        self.mentions.push(Mention { module, kind, path, name, line });
    }

    /// Paths in code, wherever they stand.
    fn scan(&mut self, module: usize, tokens: TokenStream) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut at = 0;
        while at < tokens.len() {
            match &tokens[at] {
                TokenTree::Punct(punct) if punct.as_char() == '#' => {
                    at = self.skip_attribute(&tokens, at);
                    continue;
                }
                TokenTree::Group(group) => self.scan(module, group.stream()),
                TokenTree::Ident(ident) if ident == "use" => {
                    let end = (at..tokens.len()).find(|&end| is_punct(tokens.get(end), ';'));
                    if let Some(end) = end
                        && let Ok(item) = syn::parse2(tokens[at..=end].iter().cloned().collect())
                    {
                        self.import(module, item);
                        at = end;
                    }
                }
                TokenTree::Ident(_) => {
                    at = self.path(module, &tokens, at);
                    continue;
                }
                _ => {}
            }
            at += 1;
        }
    }

    /// Past an attribute; if it says that what follows is for tests, past that, too.
    fn skip_attribute(&mut self, tokens: &[TokenTree], at: usize) -> usize {
        let inner = usize::from(is_punct(tokens.get(at + 1), '!'));
        let Some(TokenTree::Group(group)) = tokens.get(at + 1 + inner) else { return at + 1 };
        let after = at + 2 + inner;
        if group.stream().to_string().replace(' ', "") != "cfg(test)" {
            return after;
        }
        let ends = |token: &TokenTree| match token {
            TokenTree::Punct(punct) => punct.as_char() == ';',
            TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
            _ => false,
        };
        tokens[after..].iter().position(ends).map_or(tokens.len(), |end| after + end + 1)
    }

    /// The path that begins here; gives where it ends.
    fn path(&mut self, module: usize, tokens: &[TokenTree], start: usize) -> usize {
        let mut path = Path::new();
        let mut at = start;
        while let Some(TokenTree::Ident(ident)) = tokens.get(at) {
            path.push(ident.to_string());
            at += 1;
            if !is_colons(tokens, at) || !matches!(tokens.get(at + 2), Some(TokenTree::Ident(_))) {
                break;
            }
            at += 2;
        }
        let before = start.checked_sub(1).and_then(|before| tokens.get(before));
        let continues = start >= 2 && is_colons(tokens, start - 2);
        if is_punct(before, '.') || continues {
            return at; // a field or method; of a type in angle brackets, or `::x`
        }
        let line = tokens[start].span().start().line;
        self.modules[module].words.insert(path[0].clone());
        let called = is_punct(tokens.get(at), '!') && !is_punct(tokens.get(at + 1), '=');
        if called && path != ["macro_rules"] {
            self.mention(module, Kind::Macro, path, String::new(), line);
        } else if path.len() > 1 {
            self.mention(module, Kind::Path, path, String::new(), line);
        }
        at
    }

    fn resolve_all(&self) -> Arrows {
        let mut arrows = Arrows::new();
        for mention in &self.mentions {
            let module = &self.modules[mention.module];
            let unused = mention.kind == Kind::Export && !module.words.contains(&mention.name);
            let target = match self.resolve(
                mention.module,
                &mention.path,
                mention.kind,
                &mut HashSet::new(),
            ) {
                Some(Found::Item(file)) if !unused => file,
                Some(Found::Module(of)) if mention.kind == Kind::Glob => {
                    self.modules[of].file.clone()
                }
                _ => continue,
            };
            if target != module.file {
                let places = arrows.entry((module.file.clone(), target)).or_default();
                let text =
                    mention.path.join("::") + if mention.kind == Kind::Macro { "!" } else { "" };
                places.insert(Place { line: mention.line, text });
            }
        }
        arrows
    }

    /// `asked`: names that are being looked up already, since aliases may go round in a circle.
    fn resolve(
        &self,
        from: usize,
        path: &[String],
        kind: Kind,
        asked: &mut Asked,
    ) -> Option<Found> {
        let mut current = from;
        for (index, segment) in path.iter().enumerate() {
            current = match segment.as_str() {
                "crate" => 0,
                "self" => current,
                "super" => self.modules[current].parent?,
                name => {
                    let last = index + 1 == path.len();
                    match self.look_up(current, name, last, kind, asked) {
                        Some(Found::Module(module)) => module,
                        Some(item) => return Some(item),
                        // A macro of this name, wherever it is: macro_rules go by textual order.
                        None if index == 0 && last && kind == Kind::Macro => {
                            return self.modules[0].macros.get(name).cloned().map(Found::Item);
                        }
                        None if index == 0 => return None, // another crate's
                        // Made by a macro there.
                        None => return Some(Found::Item(self.modules[current].file.clone())),
                    }
                }
            };
        }
        Some(Found::Module(current))
    }

    fn look_up(
        &self,
        module: usize,
        name: &str,
        last: bool,
        kind: Kind,
        asked: &mut Asked,
    ) -> Option<Found> {
        let Module { file, children, items, macros, aliases, globs, .. } = &self.modules[module];
        if last && kind == Kind::Macro {
            if let Some(file) = macros.get(name) {
                return Some(Found::Item(file.clone()));
            }
        } else if last && items.contains(name) {
            return Some(Found::Item(file.clone()));
        } else if let Some(&child) = children.get(name) {
            return Some(Found::Module(child));
        } else if items.contains(name) {
            return Some(Found::Item(file.clone()));
        }
        if !asked.insert((module, name.into(), last)) {
            return None;
        }
        let kind = if last { kind } else { Kind::Path };
        let mut through = |path: &Path| self.resolve(module, path, kind, asked);
        if let Some(found) = aliases.get(name).into_iter().flatten().find_map(&mut through) {
            return Some(found);
        }
        if last && matches!(kind, Kind::Import | Kind::Export) && macros.contains_key(name) {
            return macros.get(name).cloned().map(Found::Item);
        }
        let inside = |path: &Path| match self.resolve(module, path, Kind::Path, asked)? {
            Found::Module(of) if of != module => self.look_up(of, name, last, kind, asked),
            _ => None,
        };
        globs.iter().find_map(inside)
    }
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

fn name_of(item: &Item) -> Option<String> {
    let ident = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::TraitAlias(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        _ => return None,
    };
    Some(ident.to_string())
}

/// `cfg(test)`, or `cfg(all(test, …))`.
fn is_for_tests(attribute: &Attribute) -> bool {
    let text = attribute.meta.to_token_stream().to_string().replace(' ', "");
    text == "cfg(test)" || text.starts_with("cfg(all(test,")
}

fn path_attribute(attribute: &Attribute) -> Option<String> {
    let syn::Meta::NameValue(pair) = &attribute.meta else { return None };
    match &pair.value {
        syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. })
            if pair.path.is_ident("path") =>
        {
            Some(text.value())
        }
        _ => None,
    }
}

fn is_punct(token: Option<&TokenTree>, wanted: char) -> bool {
    matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == wanted)
}

fn is_colons(tokens: &[TokenTree], at: usize) -> bool {
    is_punct(tokens.get(at), ':') && is_punct(tokens.get(at + 1), ':')
}

fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

fn join(folder: &str, name: &str) -> String {
    if folder.is_empty() { name.into() } else { format!("{folder}/{name}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// "from -> to" of each arrow.
    fn of(files: &[(&str, &str)]) -> Vec<String> {
        let (_, arrows) = read(files[0].0, &files.iter().copied().collect()).unwrap();
        arrows.keys().map(|(from, to)| format!("{from} -> {to}")).collect()
    }

    #[test]
    fn every_form_of_a_use_tree_is_an_arrow() {
        let root = "mod a; mod b; mod c;";
        let (b, c) = ("pub struct B; pub fn f() {}", "pub mod d { pub struct D; }");
        for text in [
            "use crate::b::B;",
            "use crate::{b::B as Other};",
            "use super::b::{self, B};",
            "use crate::b; fn g() { b::f() }",
            "use crate::b as other; fn g() { other::f() }",
            "use crate::b::*;",
            "use crate::b::{f as g};",
            "fn g() { use crate::b::B; }",
            "fn g(x: Option<super::b::B>) {}",
            "fn g() { let x = <crate::b::B>::default(); }",
            "fn g() { self::h::<crate::b::B>() }",
            "impl crate::b::B {}",
        ] {
            let files = [("m.rs", root), ("a.rs", text), ("b.rs", b), ("c.rs", c)];
            assert_eq!(of(&files), ["a.rs -> b.rs"], "{text}");
        }
        let files = [("m.rs", root), ("a.rs", "use crate::c::d::D;"), ("b.rs", b), ("c.rs", c)];
        assert_eq!(of(&files), ["a.rs -> c.rs"]);
    }

    #[test]
    fn no_arrow_without_a_name_of_another_file() {
        let files = |text| [("m.rs", "mod a; mod b;"), ("a.rs", text), ("b.rs", "pub fn f() {}")];
        for text in [
            "use other::b::f; fn g() { f() }",
            "use ::b::f;",
            "fn g(x: X) { x.b.f(); x.f() }",
            "/// See `crate::b::f`.\nfn g() { \"crate::b::f\"; }",
            "#[cfg(test)] use crate::b::f;",
            "#[cfg(test)] mod tests { use crate::b::f; }",
            "struct S; impl S { #[cfg(test)] fn g() { crate::b::f() } }",
            "pub(in crate::b) fn g() {}",
            "struct b; impl b { fn f() {} } fn g() { b::f() }",
        ] {
            assert_eq!(of(&files(text)), [""; 0], "{text}");
        }
    }

    #[test]
    fn modules_are_found_where_the_compiler_finds_them() {
        let files = [
            ("k/main.rs", "mod a; mod inner { pub mod e; } #[path = \"odd.rs\"] mod f;"),
            ("k/a/mod.rs", "pub mod b; use super::inner::e::E; use b::c::C;"),
            ("k/a/b.rs", "pub mod c; use super::super::f::F;"),
            ("k/a/b/c.rs", "pub struct C; use crate::a::b::Made;"),
            ("k/inner/e.rs", "pub struct E;"),
            ("k/odd.rs", "pub struct F;"),
        ];
        let wanted = [
            "k/a/b.rs -> k/odd.rs",
            "k/a/b/c.rs -> k/a/b.rs",
            "k/a/mod.rs -> k/a/b/c.rs",
            "k/a/mod.rs -> k/inner/e.rs",
        ];
        assert_eq!(of(&files), wanted);
        // A file of another crate is not read.
        let files = [
            ("k/main.rs", "mod a;"),
            ("k/a/mod.rs", "#[path = \"../../l/b.rs\"] mod b; use b::B;"),
        ];
        assert_eq!(of(&files), [""; 0]);
        let error = |text| read("m.rs", &[("m.rs", text)].into()).unwrap_err();
        assert!(error("mod lost;").contains("mod lost"));
        assert!(error("fn (").starts_with("m.rs:1:"));
    }

    #[test]
    fn a_path_leads_through_re_exports_to_the_definition() {
        let files = [
            ("m.rs", "mod a; mod f;"),
            ("a.rs", "use crate::f::{G, H}; fn g() { crate::f::I::new() }"),
            (
                "f/mod.rs",
                "mod g; pub use g::G; pub use g::*; pub use self::g::I as J; pub use J as I;",
            ),
            ("f/g.rs", "pub struct G; pub struct H; pub struct I;"),
        ];
        assert_eq!(of(&files), ["a.rs -> f/g.rs"]);
        // A file that uses the exported name has an arrow all the same.
        let files = [("m.rs", "mod g; pub use g::G; fn f(g: G) {}"), ("g.rs", "pub struct G;")];
        assert_eq!(of(&files), ["m.rs -> g.rs"]);
    }

    #[test]
    fn macros_are_read_as_tokens() {
        let log =
            "#[macro_export] macro_rules! info { ($($a:tt)*) => { $crate::c::line($($a)*) }; }";
        let files = |text| {
            [
                ("m.rs", "mod log; mod info; mod a; mod b; mod c;"),
                ("a.rs", text),
                ("b.rs", "pub const X: u8 = 0;"),
                ("c.rs", "pub fn line() {}"),
                ("info.rs", "pub fn f() {}"),
                ("log.rs", log),
            ]
        };
        // What a macro is called with; the macro, though a module has its name; what its body
        // names.
        let wanted = ["a.rs -> b.rs", "a.rs -> log.rs", "log.rs -> c.rs"];
        assert_eq!(of(&files("use crate::info; fn g() { info!(\"{}\", crate::b::X) }")), wanted);
        let wanted = ["a.rs -> info.rs", "log.rs -> c.rs"];
        assert_eq!(of(&files("use crate::info; fn g() { info::f() }")), wanted);
        // A name that a macro has made belongs to the file where that was called.
        let files =
            [("m.rs", "mod a; mod b;"), ("a.rs", "use crate::b::Y;"), ("b.rs", "make!(Y);")];
        assert_eq!(of(&files), ["a.rs -> b.rs"]);
    }
}
