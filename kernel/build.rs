//! Records the toolchain that builds the kernel, because cells must be compiled with the same one,
//! and the folder of its sources (as `../build.rs` does).

use std::process::Command;

fn ask(rustc: &str, args: &[&str]) -> String {
    Command::new(rustc)
        .args(args)
        .output()
        .ok()
        .filter(|out| out.status.success())
        .map(|out| String::from_utf8_lossy(&out.stdout).trim().to_owned())
        .unwrap_or_default()
}

fn main() {
    let manifest_dir = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets it");
    println!("cargo:rerun-if-changed={manifest_dir}/build.rs");
    println!("cargo:rustc-env=EPSILAB_KERNEL_DIR={manifest_dir}");
    println!("cargo:rerun-if-env-changed=RUSTC");
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
    let identity = ask(&rustc, &["-vV"]);
    // Environment values can't hold line breaks.
    println!("cargo:rustc-env=EPSILAB_BUILD_RUSTC_ID={}", identity.replace('\n', "|"));
    println!("cargo:rustc-env=EPSILAB_BUILD_SYSROOT={}", ask(&rustc, &["--print", "sysroot"]));
    let flags = std::env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    println!("cargo:rustc-env=EPSILAB_BUILD_RUSTFLAGS={flags}");
}
