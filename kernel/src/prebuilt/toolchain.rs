//! Search for the toolchain that built this binary, and for the sources of its standard library.

use std::path::{Path, PathBuf};
use std::process::Command;

use epsilab::{Error, ErrorKind, Result};

use super::build_env::{Origin, is_installed};
use crate::folder::entries;

/// Output of `rustc -vV` when this binary was built, lines joined by `|`.
const BUILD_RUSTC_ID: &str = env!("EPSILAB_BUILD_RUSTC_ID");
/// Sysroot of the rustc that built this binary.
const BUILD_SYSROOT: &str = env!("EPSILAB_BUILD_SYSROOT");

/// The toolchain that built this binary. Cells, rust-analyzer and the dylib use the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Toolchain {
    /// `<sysroot>/bin/rustc`.
    pub rustc: PathBuf,
    /// `<sysroot>/bin/cargo`.
    pub cargo: PathBuf,
    /// The folder that `rustc --print sysroot` names.
    pub sysroot: PathBuf,
    /// Full commit hash of rustc.
    pub commit: String,
    /// Release, such as `1.95.0`.
    pub version: String,
    /// Host triple.
    pub host: String,
}

impl Toolchain {
    /// Finds the toolchain in its old place or among the toolchains of rustup, where an update may
    /// have moved it.
    ///
    /// # Errors
    /// That compiler is not installed any more.
    pub fn find() -> Result<Self> {
        let mut found_instead = None;
        for sysroot in std::iter::once(PathBuf::from(BUILD_SYSROOT)).chain(rustup_toolchains()) {
            let Some(identity) = rustc_identity(&sysroot.join("bin/rustc")) else { continue };
            if identity == BUILD_RUSTC_ID {
                return Ok(Self::from_sysroot(sysroot));
            }
            found_instead.get_or_insert(identity);
        }
        let found = found_instead.map_or("none".into(), |id| first_line(&id));
        Err(Error::new(
            ErrorKind::Notebook,
            format!("Rust toolchain = {found}"),
            format!(
                "the lab was built by {}, and only the same compiler can link cells to it",
                first_line(BUILD_RUSTC_ID)
            ),
        )
        .fix(missing_advice(Origin::of_this_binary(), is_installed())))
    }

    fn from_sysroot(sysroot: PathBuf) -> Self {
        let bin = sysroot.join("bin");
        Self {
            rustc: bin.join("rustc"),
            cargo: bin.join("cargo"),
            commit: identity_field(BUILD_RUSTC_ID, "commit-hash: "),
            version: identity_field(BUILD_RUSTC_ID, "release: "),
            host: identity_field(BUILD_RUSTC_ID, "host: "),
            sysroot,
        }
    }

    /// Returns the folder of the shared standard library that cells link.
    pub fn std_dir(&self) -> PathBuf {
        self.sysroot.join("lib/rustlib").join(&self.host).join("lib")
    }

    /// Returns the folder of the sources of the standard library, which need not be installed.
    pub fn library_sources(&self) -> PathBuf {
        self.sysroot.join("lib/rustlib/src/rust/library")
    }

    /// Returns whether the sources of the standard library are installed. rust-analyzer needs them
    /// to infer the types of variables.
    pub fn has_rust_src(&self) -> bool {
        self.library_sources().join("std/src/lib.rs").is_file()
    }

    /// Installs the sources of the standard library if they are missing.
    ///
    /// # Errors
    /// They are missing and rustup can't install them.
    pub fn ensure_rust_src(&self, progress: &mut dyn FnMut(&str)) -> Result<()> {
        if self.has_rust_src() {
            return Ok(());
        }
        let missing = |why: &str| {
            Error::new(
                ErrorKind::Notebook,
                format!("the component rust-src is missing in {}", self.sysroot.display()),
                format!("without it the types of variables can't be found{why}"),
            )
            .fix(self.rust_src_advice())
        };
        if !self.is_managed_by_rustup() {
            return Err(missing(""));
        }
        let name = self.rustup_name();
        progress(&format!(
            "adding the sources of Rust's standard library (rust-src, about 3 MB to download) to \
             the toolchain {name}: the kernel needs them to find the types of variables"
        ));
        let out = Command::new(rustup_path())
            .args(["component", "add", "rust-src", "--toolchain"])
            .arg(&name)
            .env_remove("RUSTUP_TOOLCHAIN")
            .output();
        let why = match out {
            Ok(_) if self.has_rust_src() => return Ok(()),
            Ok(out) => last_lines(&String::from_utf8_lossy(&out.stderr), 3),
            Err(e) => format!("rustup can't be started ({e})"),
        };
        Err(missing(&format!("; adding it failed: {why}")))
    }

    /// Returns advice on installing the sources of the standard library.
    pub fn rust_src_advice(&self) -> String {
        if self.is_managed_by_rustup() {
            format!(
                "run `rustup component add rust-src --toolchain {}` while online",
                self.rustup_name()
            )
        } else {
            "install your distribution's rust-src (such as `apt install rust-src`)".into()
        }
    }

    /// Returns the name of the toolchain in rustup.
    fn rustup_name(&self) -> String {
        self.sysroot.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Returns whether rustup installed the toolchain.
    fn is_managed_by_rustup(&self) -> bool {
        let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        tool_home("RUSTUP_HOME", ".rustup")
            .is_some_and(|home| real(&self.sysroot).starts_with(real(&home)))
    }
}

/// Returns advice for the case that the toolchain that built this binary is not installed any
/// more.
fn missing_advice(origin: Origin, is_installed: bool) -> String {
    let rerun = origin.rerun_from_checkpoint(is_installed);
    format!("build the program again with the Rust that you have now: {rerun}")
}

/// Returns the release of Rust that built this binary, such as `1.95.0`.
pub fn rust_release() -> String {
    identity_field(BUILD_RUSTC_ID, "release: ")
}

/// Returns the home folder of cargo or rustup, found by their own rules.
pub fn tool_home(variable: &str, folder: &str) -> Option<PathBuf> {
    std::env::var_os(variable)
        .map(PathBuf::from)
        .or_else(|| dirs::home_dir().map(|home| home.join(folder)))
}

fn rustup_path() -> PathBuf {
    tool_home("CARGO_HOME", ".cargo")
        .map(|home| home.join("bin/rustup"))
        .filter(|path| path.is_file())
        .unwrap_or_else(|| "rustup".into())
}

fn rustup_toolchains() -> Vec<PathBuf> {
    let Some(home) = tool_home("RUSTUP_HOME", ".rustup") else { return Vec::new() };
    let mut found: Vec<_> = entries(&home.join("toolchains")).collect();
    found.sort();
    found
}

fn rustc_identity(rustc: &Path) -> Option<String> {
    let out = Command::new(rustc).arg("-vV").output().ok().filter(|out| out.status.success())?;
    Some(String::from_utf8_lossy(&out.stdout).trim().replace('\n', "|"))
}

fn first_line(identity: &str) -> String {
    identity.split('|').next().unwrap_or_default().to_owned()
}

fn identity_field(identity: &str, name: &str) -> String {
    identity.split('|').find_map(|line| line.strip_prefix(name)).unwrap_or_default().to_owned()
}

/// Returns the last `lines` lines that are not empty.
pub fn last_lines(text: &str, lines: usize) -> String {
    let nonblank: Vec<_> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    nonblank[nonblank.len().saturating_sub(lines)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_toolchain_that_builds_the_tests_is_found_again() {
        let toolchain = Toolchain::find().expect("this very build used it");
        assert!(toolchain.rustc.is_file() && toolchain.cargo.is_file());
        assert!(toolchain.std_dir().is_dir());
        assert!(!toolchain.version.is_empty() && !toolchain.host.is_empty());
    }

    #[test]
    fn the_advice_for_rust_src_fits_where_rust_came_from() {
        let mut toolchain = Toolchain::find().expect("this very build used it");
        toolchain.sysroot = "/usr".into();
        assert!(toolchain.rust_src_advice().contains("your distribution's rust-src"));
        let mut notice_count = 0;
        let refused = toolchain.ensure_rust_src(&mut |_| notice_count += 1);
        // With the sources of the distribution there is nothing to do.
        assert!(notice_count == 0 && (refused.is_err() || toolchain.has_rust_src()));
        let home = tool_home("RUSTUP_HOME", ".rustup").expect("a home");
        toolchain.sysroot = home.join("toolchains/stable-x");
        assert!(toolchain.rust_src_advice().contains("--toolchain stable-x"));
    }

    #[test]
    fn the_advice_for_another_toolchain_fits_how_the_program_was_installed() {
        let in_a_clone = missing_advice(Origin::Clone, false);
        assert!(in_a_clone.ends_with("run `cargo lab` in the clone"), "{in_a_clone}");
        let installed = missing_advice(Origin::Clone, true);
        assert!(installed.contains("--path kernel") && installed.contains("in the clone"));
        let packages = missing_advice(Origin::Packages, true);
        assert!(packages.contains("cargo install epsilab-kernel") && !packages.contains("clone"));
    }

    #[test]
    fn last_lines_skips_empty_lines() {
        assert_eq!(last_lines("a\n\nb\nc\n\n", 2), "b\nc");
        assert_eq!(last_lines("", 2), "");
    }
}
