//! Link arguments: one static image at `PROXY_BASE`, no relocations.

fn main() {
    let base = hanare_abi::layout::PROXY_BASE;
    println!("cargo::rustc-link-arg-bins=--no-pie");
    println!("cargo::rustc-link-arg-bins=--image-base={base:#x}");
    println!("cargo::rustc-link-arg-bins=-znoexecstack");
    println!("cargo::rustc-link-arg-bins=-zseparate-code");
    println!("cargo::rerun-if-changed=build.rs");
}
