//! Reads the `abi` crate's sources and writes a table of everything in them:
//! names and docs as text, values, sizes and offsets as expressions that the
//! compiler evaluates when xtask itself is built. So what the header says is
//! what Rust computed, and nothing is listed twice.

use quote::ToTokens;
use std::fmt::Write;
use std::{env, fs, path::Path};

fn docs(attrs: &[syn::Attribute]) -> String {
    let mut text = Vec::new();
    for attr in attrs.iter().filter(|a| a.path().is_ident("doc")) {
        if let syn::Meta::NameValue(nv) = &attr.meta
            && let syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(s), .. }) = &nv.value
        {
            text.push(s.value().trim_start_matches(' ').to_string());
        }
    }
    text.join("\n")
}

/// `[u64; N]` gives ("u64", "N"), `u32` gives ("u32", "").
fn field_type(ty: &syn::Type) -> (String, String) {
    match ty {
        syn::Type::Array(a) => {
            (a.elem.to_token_stream().to_string(), a.len.to_token_stream().to_string())
        }
        other => (other.to_token_stream().to_string(), String::new()),
    }
}

fn align_of(attrs: &[syn::Attribute]) -> bool {
    attrs.iter().any(|a| {
        a.path().is_ident("repr") && a.meta.to_token_stream().to_string().contains("align")
    })
}

fn main() {
    let src = Path::new("../abi/src");
    println!("cargo::rerun-if-changed=../abi/src");
    let mut out = String::from("const FILES: &[File] = &[\n");
    let files = [
        "lib",
        "layout",
        "copied",
        "frame",
        "grant",
        "cpus",
        "boot",
        "log",
        "clock",
        "request",
        "service",
        "slot",
        "wake",
        "control",
        "start",
        "info",
        "requestbox",
        "text",
        "manage",
        "ioctl",
        "observe",
        "offer",
        "signal",
        "message",
        "pooled",
        "utility",
    ];
    let present = fs::read_dir(src).expect("abi/src").count();
    assert_eq!(present, files.len(), "abi/src: list a new file in xtask/build.rs");
    for file in files {
        let text = fs::read_to_string(src.join(format!("{file}.rs"))).expect("abi source");
        let parsed = syn::parse_file(&text).expect("abi source parses");
        let module = if file == "lib" { String::new() } else { format!("{file}::") };
        writeln!(out, "File {{ name: {file:?}, docs: {:?}, items: &[", docs(&parsed.attrs))
            .unwrap();
        for item in &parsed.items {
            match item {
                syn::Item::Const(c) if matches!(c.vis, syn::Visibility::Public(_)) => {
                    let ty = c.ty.to_token_stream().to_string();
                    writeln!(
                        out,
                        "Item::Const {{ name: \"{0}\", ty: {1:?}, docs: {2:?}, value: hanare_abi::{module}{0} as i128 }},",
                        c.ident, ty, docs(&c.attrs)
                    ).unwrap();
                }
                // A word that has a type in Rust is a word in C.
                syn::Item::Struct(s) if matches!(s.fields, syn::Fields::Unnamed(_)) => {}
                syn::Item::Struct(s) => {
                    let path = format!("hanare_abi::{module}{}", s.ident);
                    writeln!(
                        out,
                        "Item::Struct {{ name: \"{}\", docs: {:?}, size: size_of::<{path}>(), align: {}, fields: &[",
                        s.ident,
                        docs(&s.attrs),
                        if align_of(&s.attrs) { format!("align_of::<{path}>()") } else { "0".into() },
                    ).unwrap();
                    for f in &s.fields {
                        let name = f.ident.as_ref().expect("named field");
                        let (ty, len) = field_type(&f.ty);
                        writeln!(
                            out,
                            "Field {{ name: \"{name}\", docs: {:?}, ty: {ty:?}, len: {len:?}, offset: core::mem::offset_of!({path}, {name}) }},",
                            docs(&f.attrs),
                        ).unwrap();
                    }
                    out.push_str("] },\n");
                }
                _ => {}
            }
        }
        out.push_str("] },\n");
    }
    out.push_str("];\n");
    let path = Path::new(&env::var("OUT_DIR").expect("OUT_DIR")).join("table.rs");
    fs::write(path, out).expect("table.rs");
}
