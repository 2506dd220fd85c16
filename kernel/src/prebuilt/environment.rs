//! Environment in which evcxr compiles cells: the toolchain that built the lab, and none of the
//! user's settings that would compile cells with other flags.

use std::ffi::OsString;

use super::toolchain::{Toolchain, tool_home};

/// Compiler flag that selects the library's sources for rust-analyzer; evcxr sets other flags to
/// compile.
pub const RUST_ANALYZER_FLAGS: (&str, &str) = ("RUSTFLAGS", "--cfg rust_analyzer");

/// Returns the environment variables to remove.
pub fn variables_to_remove() -> Vec<OsString> {
    let names = std::env::vars_os().map(|(name, _)| name);
    names.filter(|name| name.to_str().is_some_and(is_unwanted)).collect()
}

/// Returns the environment variables that select a toolchain.
pub fn toolchain_variables(toolchain: &Toolchain) -> Vec<(&'static str, OsString)> {
    let mut set: Vec<(&str, OsString)> = vec![
        ("RUSTC", toolchain.rustc.clone().into()),
        ("CARGO", toolchain.cargo.clone().into()),
        ("RUSTUP_TOOLCHAIN", toolchain.sysroot.clone().into()),
    ];
    let old = std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into());
    let proxies = tool_home("CARGO_HOME", ".cargo").map(|home| home.join("bin"));
    let path = [toolchain.sysroot.join("bin")]
        .into_iter()
        .chain(std::env::split_paths(&old))
        .chain(proxies);
    if let Ok(path) = std::env::join_paths(path) {
        set.push(("PATH", path));
    }
    set
}

/// Returns `true` for settings that would compile cells with other flags or another compiler than
/// the lab.
fn is_unwanted(name: &str) -> bool {
    let starts = ["CARGO_BUILD_", "CARGO_PROFILE_", "CARGO_PKG_", "CARGO_MANIFEST_", "EVCXR_"];
    let exact = [
        "CARGO_ENCODED_RUSTFLAGS",
        "CARGO_TARGET_DIR",
        "CARGO_PRIMARY_PACKAGE",
        "LD_LIBRARY_PATH",
        "RUST_RECURSION_COUNT",
        "RUSTDOCFLAGS",
        "RUSTUP_TOOLCHAIN",
    ];
    starts.iter().any(|start| name.starts_with(start))
        || exact.contains(&name)
        || (name.starts_with("CARGO_TARGET_") && name.ends_with("_RUSTFLAGS"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_change_how_cells_are_compiled_are_dropped() {
        for name in ["CARGO_BUILD_TARGET", "CARGO_PROFILE_DEV_DEBUG", "RUSTUP_TOOLCHAIN"] {
            assert!(is_unwanted(name), "{name}");
        }
        assert!(is_unwanted("CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUSTFLAGS"));
        for name in ["PATH", "HOME", "CARGO_HOME", "CARGO_NET_OFFLINE", "EPSILAB_DATA"] {
            assert!(!is_unwanted(name), "{name}");
        }
    }
}
