//! Fences: places outside of which `unsafe`, or the system call instruction, must not stand.

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use crate::sources::Source;

/// Crates whose unsafe code is all in their folder `sys`. The attributes of exports,
/// `#[unsafe(no_mangle)]` and the like, stand beside the functions that are exported.
const FENCED: &[&str] = &["libhanare/async/src/", "libhanare/src/"];

/// Where `asm!` may have the system call instruction: the crate for it, and the vDSO, which has no
/// crates. Naked functions and `global_asm!` have registers as no Rust function leaves them.
const INSTRUCTION: &[&str] = &["syscall/src/", "kernel/vdso/"];

/// Unsafe code and copies of the instruction outside of their fences.
pub fn check(sources: &[Source]) -> Vec<String> {
    let fenced = |path: &str| {
        FENCED
            .iter()
            .any(|crate_| path.strip_prefix(crate_).is_some_and(|file| !file.starts_with("sys/")))
    };
    let mut complaints = Vec::new();
    for Source { path, text } in sources.iter().filter(|source| source.is(&["rs"])) {
        let has_instruction = INSTRUCTION.iter().any(|folder| path.starts_with(folder));
        if !fenced(path) && (has_instruction || !text.contains("\"syscall\"")) {
            continue;
        }
        let Ok(tokens) = text.parse::<TokenStream>() else { continue }; // rustc says why
        if fenced(path) {
            let found = lines(tokens.clone(), is_unsafe).into_iter();
            complaints.extend(found.map(|line| {
                format!("{path}:{line}: unsafe outside of sys/: wrap it there in a safe function")
            }));
        }
        if !has_instruction {
            let found = lines(tokens, is_instruction).into_iter();
            complaints.extend(found.map(|line| {
                format!("{path}:{line}: a copy of the system call instruction: use hanare_syscall")
            }));
        }
    }
    complaints
}

/// Lines of tokens that are `found`, given the two before them. Attributes are left out.
fn lines(tokens: TokenStream, found: fn(&[TokenTree], &TokenTree) -> bool) -> Vec<usize> {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let mut all = Vec::new();
    for (index, token) in tokens.iter().enumerate() {
        let before = &tokens[index.saturating_sub(2)..index];
        if found(before, token) {
            all.push(token.span().start().line);
        }
        if let TokenTree::Group(group) = token
            && !(group.delimiter() == Delimiter::Bracket && is_attribute(before))
        {
            all.extend(lines(group.stream(), found));
        }
    }
    all
}

/// Whether brackets behind these tokens are an attribute's: `#` or `#!`.
fn is_attribute(before: &[TokenTree]) -> bool {
    let is = |token: &TokenTree, c| matches!(token, TokenTree::Punct(p) if p.as_char() == c);
    match before {
        [.., hash] if is(hash, '#') => true,
        [hash, not] => is(hash, '#') && is(not, '!'),
        _ => false,
    }
}

fn is_unsafe(_: &[TokenTree], token: &TokenTree) -> bool {
    matches!(token, TokenTree::Ident(word) if word == "unsafe")
}

/// Whether the token is what `asm!` is called with, and has the instruction.
fn is_instruction(before: &[TokenTree], token: &TokenTree) -> bool {
    let is_asm = matches!(before, [TokenTree::Ident(name), TokenTree::Punct(_)] if name == "asm");
    let is_it = |token: TokenTree| token.to_string() == "\"syscall\"";
    matches!(token, TokenTree::Group(group) if is_asm && group.stream().into_iter().any(is_it))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<String> {
        check(&[Source { path: path.into(), text: text.into() }])
    }

    #[test]
    fn unsafe_outside_of_sys_is_a_complaint() {
        let block = "fn f() {\n    g(|| unsafe { h() });\n}\n";
        let file = format!("{}hook.rs", FENCED[0]);
        let wanted = format!("{file}:2: unsafe outside of sys/: wrap it there in a safe function");
        assert_eq!(found(&file, block), [wanted]);
        assert_eq!(
            found(&file, "pub unsafe extern \"C\" fn f() {}\nunsafe impl A for B {}").len(),
            2
        );
        for path in [format!("{}sys/hook.rs", FENCED[0]), "elsewhere/src/hook.rs".into()] {
            assert_eq!(found(&path, block), [""; 0]);
        }
    }

    #[test]
    fn exports_and_words_are_not_unsafe_code() {
        let text = "#![deny(unsafe_code)]\n/// No unsafe code.\n#[unsafe(no_mangle)]\n\
                    pub extern \"C\" fn f() { g(\"unsafe\") }\n// unsafe {}\n";
        assert_eq!(found(&format!("{}hook.rs", FENCED[0]), text), [""; 0]);
    }

    #[test]
    fn a_copy_of_the_instruction_is_a_complaint() {
        let copy = "fn f() {\n    core::arch::asm!(\"syscall\", in(\"rax\") 1);\n}\n";
        let file = "native/src/sys/calls.rs";
        let wanted = format!("{file}:2: a copy of the system call instruction: use hanare_syscall");
        assert_eq!(found(file, copy), [wanted]);
        assert_eq!(found("syscall/src/lib.rs", copy), [""; 0]);
        assert_eq!(found(file, "fn f() { naked_asm!(\"syscall\", \"ret\") }"), [""; 0]);
    }
}
