//! How and where this binary was built: clone, target folder, flags, and the fingerprint of the
//! sources of the lab.

use std::path::{Path, PathBuf};

use epsilab::{Error, Result};
use sha2::{Digest, Sha256};

use super::toolchain::Toolchain;

/// Compiler flags of this binary, as cargo encodes them.
pub const BUILD_FLAGS: &str = env!("EPSILAB_BUILD_RUSTFLAGS");

/// GPU features of this binary, in the form of `--features`. The lab is built with the same.
pub const GPU_FEATURES: &str = match (cfg!(feature = "cuda"), cfg!(feature = "wgpu")) {
    (false, false) => "",
    (true, false) => "cuda",
    (false, true) => "wgpu",
    (true, true) => "cuda,wgpu",
};

/// Build settings of this binary. The dylib is built with the same, or Burn would be compiled
/// again.
#[derive(Clone, Debug)]
pub struct BuildEnv {
    /// Root of the clone.
    pub workspace: PathBuf,
    /// Cargo's target folder.
    pub target: PathBuf,
    /// Cargo profile.
    pub profile: String,
    /// Target triple, if cargo was given one.
    pub triple: Option<String>,
}

impl BuildEnv {
    /// Derives the settings from the path of this binary: `<target>/[triple/]<profile
    /// folder>/epsilab`. A binary that was moved uses the target folder of the clone.
    ///
    /// # Errors
    /// The clone does not exist any more, or the path of this binary is unknown.
    pub fn find() -> Result<Self> {
        let workspace =
            Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("/")).to_owned();
        if !workspace.join("kernel/src/lab.rs").is_file() {
            return Err(Error::new(
                epsilab::ErrorKind::Notebook,
                format!("clone = {} (missing)", workspace.display()),
                "cells are linked to the library built from this folder",
            )
            .fix("move the clone back, or build again with `cargo lab` where it is now"));
        }
        let exe = std::env::current_exe().map_err(|e| Error::io("finding this binary", &e))?;
        if let Some(place) = Self::of_binary(&workspace, &exe) {
            return Ok(place);
        }
        let target = std::env::var_os("CARGO_TARGET_DIR")
            .map_or_else(|| workspace.join("target"), |dir| workspace.join(dir));
        Ok(Self { workspace, target, profile: "dev".into(), triple: None })
    }

    fn of_binary(workspace: &Path, exe: &Path) -> Option<Self> {
        let folder = exe.parent()?;
        // Test binaries are one folder deeper.
        let folder = if folder.ends_with("deps") { folder.parent()? } else { folder };
        let above = folder.parent()?;
        let profile = match folder.file_name()?.to_str()? {
            "debug" => "dev".to_owned(),
            other => other.to_owned(),
        };
        // Cargo writes a tag only into folders that it created, and may not cache rustc's version.
        let is_target = |dir: &&Path| {
            [".rustc_info.json", "CACHEDIR.TAG"].iter().any(|name| dir.join(name).is_file())
        };
        let (target, triple) = if let Some(target) = above.parent().filter(is_target) {
            (target.to_owned(), Some(above.file_name()?.to_str()?.to_owned()))
        } else if is_target(&above) || folder.join(".fingerprint").is_dir() {
            (above.to_owned(), None)
        } else {
            return None;
        };
        Some(Self { workspace: workspace.to_owned(), target, profile, triple })
    }

    /// `<target>/lab`, with one folder per state of the sources. A build never changes the lab of a
    /// running session.
    pub fn labs(&self) -> PathBuf {
        self.target.join("lab")
    }

    /// Hash of everything that the dylib depends on.
    ///
    /// # Errors
    /// A source file can't be read.
    pub fn fingerprint(&self, toolchain: &Toolchain) -> Result<String> {
        let mut files = vec![
            self.workspace.join("Cargo.toml"),
            self.workspace.join("Cargo.lock"),
            self.workspace.join("kernel/Cargo.toml"),
            self.workspace.join("kernel/src/lab.rs"),
        ];
        sources(&self.workspace.join("src"), &mut files)
            .map_err(|e| Error::io("reading the library's sources", &e))?;
        files.sort();
        let mut hash = Sha256::new();
        let shape = (&self.workspace, &self.profile, &self.triple);
        hash.update(format!("{LAYOUT}{shape:?}{toolchain:?}{BUILD_FLAGS}{GPU_FEATURES}"));
        for file in files {
            let text = std::fs::read(&file)
                .map_err(|e| Error::io(format!("reading {}", file.display()), &e))?;
            hash.update(format!("{}\0{}\0", file.display(), text.len()));
            hash.update(text);
        }
        Ok(hex(&hash.finalize()))
    }
}

/// Changed with the layout of the folder, so that older labs are not used.
const LAYOUT: &str = "layout 2";

/// Lower-case hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Appends all Rust sources below `dir`. Hidden and backup files are skipped.
pub fn sources(dir: &Path, into: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        let path = entry.path();
        if entry.file_name().as_encoded_bytes().starts_with(b".") {
            continue;
        }
        if path.is_dir() {
            sources(&path, into)?;
        } else if path.extension().is_some_and(|e| e == "rs") {
            into.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profile_and_triple_come_from_the_path() {
        let dir = tempfile::tempdir().expect("temp");
        let target = dir.path().join("t");
        std::fs::create_dir_all(target.join("x86/debug")).expect("folders");
        std::fs::write(target.join("CACHEDIR.TAG"), "").expect("tag");
        let of = |path: &str| BuildEnv::of_binary(dir.path(), &dir.path().join(path));
        let plain = of("t/release/deps/epsilab-1").expect("a target");
        assert_eq!((plain.profile.as_str(), plain.triple), ("release", None));
        let cross = of("t/x86/debug/epsilab").expect("a target");
        assert_eq!((cross.profile.as_str(), cross.triple.as_deref()), ("dev", Some("x86")));
        assert_eq!(cross.target, target);
        assert!(of("/usr/bin/epsilab").is_none());

        // Not created by cargo, so there is no tag.
        for trace in ["mine/.rustc_info.json", "other/debug/.fingerprint/a"] {
            let trace = dir.path().join(trace);
            std::fs::create_dir_all(trace.parent().expect("a folder")).expect("folders");
            std::fs::write(trace, "").expect("written");
        }
        for name in ["mine", "other"] {
            let found = of(&format!("{name}/debug/epsilab")).expect("a target");
            assert_eq!((found.target, found.triple), (dir.path().join(name), None));
        }
    }

    #[test]
    fn only_rust_sources_are_read() {
        let dir = tempfile::tempdir().expect("temp");
        std::fs::create_dir_all(dir.path().join(".cache")).expect("folder");
        for name in ["lib.rs", ".lib.rs.swp", ".#lib.rs", "lib.rs~", ".DS_Store", ".cache/a.rs"] {
            std::fs::write(dir.path().join(name), "").expect("written");
        }
        std::os::unix::fs::symlink("gone", dir.path().join(".#other.rs")).expect("linked");
        let mut found = Vec::new();
        sources(dir.path(), &mut found).expect("read");
        assert_eq!(found, [dir.path().join("lib.rs")]);
    }
}
