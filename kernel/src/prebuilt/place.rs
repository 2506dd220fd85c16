//! Where things are: the clone, the target folder this binary was built into, the folder of the
//! prebuilt lab, and the fingerprint of the sources it belongs to.

use std::path::{Path, PathBuf};

use epsilab::{Error, Result};
use sha2::{Digest, Sha256};

use super::toolchain::Toolchain;

/// The flags this binary was compiled with, as cargo encodes them.
pub const BUILD_FLAGS: &str = env!("EPSILAB_BUILD_RUSTFLAGS");

/// How this binary was built: the dylib has to be built the same way, or Burn is compiled again.
#[derive(Clone, Debug)]
pub struct Place {
    /// The clone.
    pub workspace: PathBuf,
    /// Cargo's target folder.
    pub target: PathBuf,
    /// Cargo profile.
    pub profile: String,
    /// The triple, if cargo was told one.
    pub triple: Option<String>,
}

impl Place {
    /// From the path of this binary: `<target>/[triple/]<profile folder>/epsilab`. A binary that
    /// was moved elsewhere falls back to the clone's own target folder.
    ///
    /// # Errors
    /// The clone is gone, or this binary can't find itself.
    pub fn find() -> Result<Self> {
        let workspace =
            Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("/")).to_owned();
        if !workspace.join("kernel/src/lab.rs").is_file() {
            return Err(Error::new(
                epsilab::ErrorKind::Notebook,
                format!("clone = {} (missing)", workspace.display()),
                "cells are linked to the library built from that folder",
            )
            .fix("move the clone back, or build again with `cargo lab` where it is now"));
        }
        let exe = std::env::current_exe().map_err(|e| Error::io("finding this binary", &e))?;
        let folder = exe.parent().unwrap_or(Path::new("/"));
        if let Some(place) = Self::of_folder(&workspace, folder) {
            return Ok(place);
        }
        let target = std::env::var_os("CARGO_TARGET_DIR")
            .map_or_else(|| workspace.join("target"), |dir| workspace.join(dir));
        Ok(Self { workspace, target, profile: "dev".into(), triple: None })
    }

    fn of_folder(workspace: &Path, folder: &Path) -> Option<Self> {
        // Test binaries lie one folder deeper.
        let folder = if folder.ends_with("deps") { folder.parent()? } else { folder };
        let above = folder.parent()?;
        let profile = match folder.file_name()?.to_str()? {
            "debug" => "dev".to_owned(),
            other => other.to_owned(),
        };
        let is_target = |dir: &Path| dir.join("CACHEDIR.TAG").is_file();
        let (target, triple) = if is_target(above) && !above.parent().is_some_and(is_target) {
            (above.to_owned(), None)
        } else {
            let target = above.parent().filter(|dir| is_target(dir))?;
            (target.to_owned(), Some(above.file_name()?.to_str()?.to_owned()))
        };
        Some(Self { workspace: workspace.to_owned(), target, profile, triple })
    }

    /// `<target>/lab`: one folder per state of the sources, so that a build never changes what a
    /// running session is linked to.
    pub fn labs(&self) -> PathBuf {
        self.target.join("lab")
    }

    /// Fingerprint of everything that decides what the dylib is.
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
        hash.update(format!("{LAYOUT}{shape:?}{toolchain:?}{BUILD_FLAGS}"));
        for file in files {
            let text = std::fs::read(&file)
                .map_err(|e| Error::io(format!("reading {}", file.display()), &e))?;
            hash.update(format!("{}\0{}\0", file.display(), text.len()));
            hash.update(text);
        }
        Ok(hex(&hash.finalize()))
    }
}

/// Raised when the layout of the folder changes, so that older ones are not taken.
const LAYOUT: &str = "layout 2";

/// Lower-case hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// All files below `dir`.
pub fn sources(dir: &Path, into: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            sources(&path, into)?;
        } else {
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
        let plain = Place::of_folder(dir.path(), &target.join("release/deps")).expect("a target");
        assert_eq!((plain.profile.as_str(), plain.triple), ("release", None));
        let cross = Place::of_folder(dir.path(), &target.join("x86/debug")).expect("a target");
        assert_eq!((cross.profile.as_str(), cross.triple.as_deref()), ("dev", Some("x86")));
        assert_eq!(cross.target, target);
        assert!(Place::of_folder(dir.path(), Path::new("/usr/bin")).is_none());
    }
}
