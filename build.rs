//! Records the folder of the sources. Cargo compiles nothing again when a clone is moved, and the
//! program would look for `env!("CARGO_MANIFEST_DIR")` in vain. It runs this script again, because
//! a file that the script depends on is no longer where it was.

fn main() {
    let manifest_dir = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets it");
    println!("cargo:rerun-if-changed={manifest_dir}/build.rs");
    println!("cargo:rustc-env=EPSILAB_SOURCE_DIR={manifest_dir}");
}
