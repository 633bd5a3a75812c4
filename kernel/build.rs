//! Builds the vDSO (kernel/vdso), a shared object that the kernel carries.

#![allow(clippy::disallowed_methods)] // runs on the host

use linux_raw_sys::general::{
    __NR_clock_getres, __NR_clock_gettime, __NR_getcpu, __NR_gettimeofday, __NR_time,
};
use std::env;
use std::path::PathBuf;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=vdso");
    println!("cargo::rerun-if-changed=../abi/src/clock.rs");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("OUT_DIR"));
    let object = out.join("vdso.o");
    run(Command::new(env::var_os("RUSTC").expect("RUSTC"))
        .args([
            "--edition=2024",
            "--crate-type=lib",
            "--crate-name=vdso",
            "--emit=obj",
            "--target=x86_64-unknown-none",
        ])
        .args([
            "-Copt-level=2",
            "-Cpanic=abort",
            "-Crelocation-model=pic",
            "-Ccode-model=small",
            "-Ccodegen-units=1",
            "-Coverflow-checks=off",
            "-Cdebug-assertions=off",
        ])
        .envs([
            ("SYS_GETTIMEOFDAY", __NR_gettimeofday.to_string()),
            ("SYS_TIME", __NR_time.to_string()),
            ("SYS_CLOCK_GETTIME", __NR_clock_gettime.to_string()),
            ("SYS_CLOCK_GETRES", __NR_clock_getres.to_string()),
            ("SYS_GETCPU", __NR_getcpu.to_string()),
        ])
        .arg("vdso/vdso.rs")
        .arg("-o")
        .arg(&object));
    run(Command::new("ld")
        .args([
            "-shared",
            "-Bsymbolic",
            "--no-relax",
            "--hash-style=both",
            "--build-id=none",
            "-soname=linux-vdso.so.1",
        ])
        .args(["-z", "max-page-size=4096", "-z", "noexecstack", "-T", "vdso/vdso.lds"])
        .arg(&object)
        .arg("-o")
        .arg(out.join("vdso.so")));
}

fn run(command: &mut Command) {
    let status = command
        .status()
        .unwrap_or_else(|e| panic!("{command:?}: {e} (is it installed? see tools/setup)"));
    assert!(status.success(), "{command:?} failed");
}
