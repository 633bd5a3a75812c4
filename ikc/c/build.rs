//! Compiles `module/protocol.h` for the tests. Unwind tables: loom's threads may end inside of a
//! step.

fn main() {
    let module = "../../module";
    for file in ["protocol.h", "hanare_abi.h"] {
        println!("cargo::rerun-if-changed={module}/{file}");
    }
    for file in ["steps.c", "atomics.h"] {
        println!("cargo::rerun-if-changed={file}");
    }
    cc::Build::new()
        .file("steps.c")
        .include(module)
        .std("gnu11")
        .opt_level(1)
        .flag("-fexceptions")
        .warnings_into_errors(true)
        .extra_warnings(true)
        .flag("-Wno-unused-function")
        .compile("hanare_steps");
}
