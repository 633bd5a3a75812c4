//! Link arguments of the demonstrators, which have a `_start` of their own.

fn main() {
    println!("cargo::rustc-link-arg-examples=-nostartfiles");
    println!("cargo::rerun-if-changed=build.rs");
}
