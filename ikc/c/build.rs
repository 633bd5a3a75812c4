//! Compiles `module/protocol.h` and `module/link/shares.h` for the tests. Unwind tables: loom's
//! threads may end inside of a step.

fn main() {
    let module = "../../module";
    for file in ["protocol.h", "hanare_abi.h", "link/shares.h"] {
        println!("cargo::rerun-if-changed={module}/{file}");
    }
    for file in ["steps.c", "requests.c", "atomics.h", "linux/list.h"] {
        println!("cargo::rerun-if-changed={file}");
    }
    cc::Build::new()
        .file("steps.c")
        .file("requests.c")
        .include(".")
        .include(module)
        .std("gnu11")
        .opt_level(1)
        .flag("-fexceptions")
        .warnings_into_errors(true)
        .extra_warnings(true)
        .flag("-Wno-unused-function")
        .compile("hanare_steps");
}
