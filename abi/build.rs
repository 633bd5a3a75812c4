//! Computes the version of the interface (`version.rs`).

use std::path::Path;
use std::{env, fs};

mod version;

fn main() {
    println!("cargo::rerun-if-changed=src");
    println!("cargo::rerun-if-changed=version.rs");
    let mut paths: Vec<_> =
        fs::read_dir("src").expect("src").map(|entry| entry.expect("a file").path()).collect();
    paths.sort();
    let sources: Vec<_> =
        paths.iter().map(|path| fs::read_to_string(path).expect("a source")).collect();
    let number = version::of(sources.iter().map(String::as_str)).to_string();
    let out = Path::new(&env::var("OUT_DIR").expect("OUT_DIR")).join("version");
    fs::write(out, number).expect("a version");
}
