//! Build of this binary: clone, target folder, flags, and the fingerprint of the sources of the
//! lab.

use std::path::{Path, PathBuf};

use epsilab::{Error, ErrorKind, Result, program};
use rustix::fs::Access;
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

/// Folder of the package that this binary was built from.
const KERNEL_DIR: &str = env!("EPSILAB_KERNEL_DIR");

/// Environment variable with the build folder of an installed program.
const BUILD_DIR_ENV_VAR: &str = "EPSILAB_BUILD_DIR";

/// Origin of the sources of this binary.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Origin {
    /// A clone of the repository, which may change.
    Clone,
    /// The packages as cargo unpacks them, which stay as they are.
    Packages,
}

impl Origin {
    /// Returns the origin of this binary.
    pub fn of_this_binary() -> Self {
        if Path::new(KERNEL_DIR).parent() == Some(Path::new(epsilab::SOURCE_DIR)) {
            Self::Clone
        } else {
            Self::Packages
        }
    }

    /// Returns the command that installs the program from the same origin again.
    pub fn install(self) -> String {
        let from = match self {
            Self::Clone => program::INSTALL,
            Self::Packages => "cargo install epsilab-kernel --locked",
        };
        match GPU_FEATURES {
            "" => format!("{from} --force"),
            features => format!("{from} --force --features {features}"),
        }
    }

    /// Returns advice that builds the program again.
    pub fn rerun_from_checkpoint(self, is_installed: bool) -> String {
        match (self, is_installed) {
            (Self::Clone, false) => format!("run `{}` in the clone", program::CARGO_ALIAS),
            (Self::Clone, true) => format!("run `{}` in the clone", self.install()),
            (Self::Packages, _) => format!("run `{}`", self.install()),
        }
    }

    /// Returns advice for missing sources of the program.
    pub fn restore(self, is_installed: bool) -> String {
        let rerun = self.rerun_from_checkpoint(is_installed);
        match self {
            Self::Clone => format!("move the clone back; or, where it is now, {rerun}"),
            Self::Packages => format!("install the program again: {rerun}"),
        }
    }
}

/// Returns whether this program was installed: it lies in none of cargo's target folders, so users
/// call it by its own name.
pub fn is_installed() -> bool {
    let build_env = std::env::current_exe().ok().and_then(|exe| BuildEnv::from_binary_path(&exe));
    Origin::of_this_binary() == Origin::Packages || build_env.is_none()
}

/// Build settings of this binary. In a clone, the dylib is built with the same, or Burn would be
/// compiled again.
#[derive(Clone, Debug)]
pub struct BuildEnv {
    /// Origin of the sources.
    pub origin: Origin,
    /// Whether the program lies in no target folder.
    pub is_installed: bool,
    /// Folder of the library's package.
    pub library_dir: PathBuf,
    /// Folder of the kernel's package.
    pub kernel_dir: PathBuf,
    /// Cargo's target folder.
    pub target_dir: PathBuf,
    /// Cargo profile.
    pub profile: String,
    /// Target triple, if cargo was given one.
    pub triple: Option<String>,
}

impl BuildEnv {
    /// Derives the settings from the path of this binary: `<target>/[triple/]<profile
    /// folder>/epsilab`. A binary that was installed from a clone uses the target folder in which
    /// it was compiled; one that was installed from packages has a folder of its own.
    ///
    /// # Errors
    /// No folder for the build is known, or the path of this binary.
    pub fn find() -> Result<Self> {
        let exe = std::env::current_exe().map_err(|e| Error::io("finding this binary", &e))?;
        let build_env = match (Self::from_binary_path(&exe), Origin::of_this_binary()) {
            (Some(build_env), _) => build_env,
            (None, Origin::Clone) => Self::of_a_clone(given_build_dir()).installed(),
            (None, Origin::Packages) => {
                Self::in_target_dir(default_build_dir()?, "release", None).installed()
            }
        };
        match build_env.origin {
            Origin::Clone => build_env.check_sources().map(|()| build_env),
            // A lab that was built needs them no more.
            Origin::Packages => Ok(build_env),
        }
    }

    fn in_target_dir(target: PathBuf, profile: &str, triple: Option<String>) -> Self {
        Self {
            origin: Origin::of_this_binary(),
            is_installed: false,
            library_dir: epsilab::SOURCE_DIR.into(),
            kernel_dir: KERNEL_DIR.into(),
            target_dir: target,
            profile: profile.into(),
            triple,
        }
    }

    fn installed(self) -> Self {
        Self { is_installed: true, ..self }
    }

    /// Returns the settings of a program that was installed from a clone: profile and target
    /// folder are those with which it was compiled, because Burn is there.
    fn of_a_clone(given: Option<PathBuf>) -> Self {
        // OUT_DIR is `<target>/[triple/]<profile folder>/build/<package>/out`.
        let build = Path::new(env!("OUT_DIR")).ancestors().find(|dir| dir.ends_with("build"));
        let compiled =
            build.and_then(|build| Self::from_binary_path(&build.with_file_name("epsilab")));
        let build_env = compiled.unwrap_or_else(|| {
            let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or("target".into());
            Self::in_target_dir(Path::new(epsilab::SOURCE_DIR).join(target), "dev", None)
        });
        given
            .into_iter()
            .fold(build_env, |build_env, target| Self { target_dir: target, ..build_env })
    }

    fn from_binary_path(exe: &Path) -> Option<Self> {
        let folder = exe.parent()?;
        // Test binaries are one folder deeper.
        let folder = if folder.ends_with("deps") { folder.parent()? } else { folder };
        let above = folder.parent()?;
        let profile = match folder.file_name()?.to_str()? {
            "debug" => "dev",
            other => other,
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
        Some(Self::in_target_dir(target, profile, triple))
    }

    /// Checks that the library can be compiled.
    ///
    /// # Errors
    /// A folder with sources is missing.
    pub fn check_sources(&self) -> Result<()> {
        let parts = [self.library_dir.join("src/lib.rs"), self.kernel_dir.join("src/lab.rs")];
        let Some(missing) = parts.iter().find(|part| !part.is_file()) else { return Ok(()) };
        let what = match self.origin {
            Origin::Clone => format!("the clone {} is missing", self.library_dir.display()),
            Origin::Packages => format!("{} is missing", missing.display()),
        };
        let why = "the library for cells is built from these sources";
        Err(Error::new(ErrorKind::Notebook, what, why).fix(self.origin.restore(self.is_installed)))
    }

    /// Returns `<target>/lab`, with one folder per state of the sources. A build never changes the
    /// lab of a running session.
    pub fn libraries_dir(&self) -> PathBuf {
        self.target_dir.join("lab")
    }

    /// Returns cargo's folders with what it compiled, for the target and for this machine.
    pub fn artifact_dirs(&self) -> [PathBuf; 2] {
        let profile_dir = |folder: &Path| folder.join(super::profile_dir_name(&self.profile));
        let triple = self.triple.as_deref().unwrap_or_default();
        [profile_dir(&self.target_dir.join(triple)), profile_dir(&self.target_dir)]
    }

    /// Returns cargo's option for the target, if it was given one.
    pub fn target_option(&self) -> impl Iterator<Item = &str> {
        self.triple.iter().flat_map(|triple| ["--target", triple])
    }

    /// Returns whether Burn is compiled already, which takes most of the time of a first build.
    pub fn is_burn_compiled(&self) -> bool {
        let [folder, _] = self.artifact_dirs();
        std::fs::read_dir(folder.join("deps")).into_iter().flatten().flatten().any(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            name.starts_with("libburn-") && (name.ends_with(".rmeta") || name.ends_with(".rlib"))
        })
    }

    /// Returns the error for a build whose folder can't be written.
    pub fn unwritable_error(&self, why: &std::io::Error) -> Error {
        let labs = self.libraries_dir();
        let what =
            format!("the library for cells must be built, and {} can't be written", labs.display());
        let install = program::command("install");
        let own_folder_advice = match (self.origin, self.is_installed) {
            (Origin::Clone, false) => format!(
                "use a target folder that you can write: `CARGO_TARGET_DIR=/path/to/folder \
                 {install}`"
            ),
            _ => format!(
                "set {BUILD_DIR_ENV_VAR} to the absolute path of a folder that you can write and \
                 run `{install}` again"
            ),
        };
        let fix =
            format!("run `{install}` as a user who can write the folder; or {own_folder_advice}");
        Error::new(ErrorKind::Notebook, what, why.to_string()).fix(fix)
    }

    /// Checks that a build can write its folder. Writes nothing.
    ///
    /// # Errors
    /// It can't.
    pub fn check_writable(&self) -> Result<()> {
        let labs = self.libraries_dir();
        let existing = labs.ancestors().find(|folder| folder.exists()).unwrap_or(&labs);
        // To make files, one has to write the folder and to go into it.
        rustix::fs::access(existing, Access::WRITE_OK | Access::EXEC_OK)
            .map_err(|e| self.unwritable_error(&e.into()))
    }

    /// Returns the environment variable with the build folder, where a kernel that Jupyter starts
    /// would not find it otherwise.
    pub fn kernelspec_variable(&self) -> Option<(String, String)> {
        let needed = match self.origin {
            Origin::Clone => self.is_installed && given_build_dir().is_some(),
            Origin::Packages => true,
        };
        needed.then(|| (BUILD_DIR_ENV_VAR.into(), self.target_dir.to_string_lossy().into_owned()))
    }

    /// Returns the hash of everything that the dylib depends on. Packages never change, so their
    /// sources are not read: cargo may have removed them since.
    ///
    /// # Errors
    /// A source file can't be read.
    pub fn fingerprint(&self, toolchain: &Toolchain) -> Result<String> {
        let mut hash = Sha256::new();
        let shape = (&self.library_dir, &self.kernel_dir, &self.profile, &self.triple);
        hash.update(format!("{LAYOUT_VERSION}{shape:?}{toolchain:?}{BUILD_FLAGS}{GPU_FEATURES}"));
        match self.origin {
            Origin::Clone => self.hash_sources(&mut hash)?,
            Origin::Packages => hash.update(env!("CARGO_PKG_VERSION")),
        }
        Ok(hex(&hash.finalize()))
    }

    fn hash_sources(&self, hash: &mut Sha256) -> Result<()> {
        let of_library = ["Cargo.toml", "Cargo.lock", "build.rs", "accounting/Cargo.toml"];
        let mut files = of_library.map(|file| self.library_dir.join(file)).to_vec();
        files.extend(["Cargo.toml", "src/lab.rs"].map(|file| self.kernel_dir.join(file)));
        for folder in ["src", "accounting/src"] {
            collect_sources(&self.library_dir.join(folder), &mut files)
                .map_err(|e| Error::io("reading the library's sources", &e))?;
        }
        files.sort();
        for file in files {
            let text = std::fs::read(&file)
                .map_err(|e| Error::io(format!("reading {}", file.display()), &e))?;
            hash.update(format!("{}\0{}\0", file.display(), text.len()));
            hash.update(text);
        }
        Ok(())
    }
}

/// Returns the build folder that the user chose.
fn given_build_dir() -> Option<PathBuf> {
    std::env::var_os(BUILD_DIR_ENV_VAR).map(PathBuf::from).filter(|dir| dir.is_absolute())
}

/// Returns the build folder of a program that was installed without a clone.
fn default_build_dir() -> Result<PathBuf> {
    given_build_dir().or_else(|| Some(dirs::cache_dir()?.join("epsilab"))).ok_or_else(|| {
        Error::new(ErrorKind::Notebook, "no cache folder", "the library for cells is built there")
            .fix(format!("set HOME, or {BUILD_DIR_ENV_VAR} to the absolute path of a folder"))
    })
}

/// Version of the folder's layout, changed so that older labs are not used.
const LAYOUT_VERSION: &str = "layout 5";

/// Formats bytes in lower-case hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Appends all Rust sources below `dir`. Hidden files and folders are skipped, and all files that
/// do not end in `.rs`.
///
/// # Errors
/// A folder can't be read.
pub fn collect_sources(dir: &Path, into: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        let path = entry.path();
        if entry.file_name().as_encoded_bytes().starts_with(b".") {
            continue;
        }
        if path.is_dir() {
            collect_sources(&path, into)?;
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
        let from_path = |path: &str| BuildEnv::from_binary_path(&dir.path().join(path));
        let plain = from_path("t/release/deps/epsilab-1").expect("a target");
        assert_eq!((plain.profile.as_str(), plain.triple), ("release", None));
        let cross = from_path("t/x86/debug/epsilab").expect("a target");
        assert_eq!((cross.profile.as_str(), cross.triple.as_deref()), ("dev", Some("x86")));
        assert_eq!(cross.target_dir, target);
        assert!(from_path("/usr/bin/epsilab").is_none());

        // Not created by cargo, so there is no tag.
        for trace in ["mine/.rustc_info.json", "other/debug/.fingerprint/a"] {
            let trace = dir.path().join(trace);
            std::fs::create_dir_all(trace.parent().expect("a folder")).expect("folders");
            std::fs::write(trace, "").expect("written");
        }
        for name in ["mine", "other"] {
            let found = from_path(&format!("{name}/debug/epsilab")).expect("a target");
            assert_eq!((found.target_dir, found.triple), (dir.path().join(name), None));
        }
    }

    #[test]
    fn an_installed_program_uses_the_folder_in_which_it_was_compiled() {
        let here = BuildEnv::from_binary_path(&std::env::current_exe().expect("a path"))
            .expect("a target");
        let installed = BuildEnv::of_a_clone(None).installed();
        assert!(Path::new(env!("OUT_DIR")).starts_with(&installed.target_dir), "{installed:?}");
        assert_eq!((&installed.profile, &installed.triple), (&here.profile, &here.triple));
        assert!(installed.is_installed && !here.is_installed);
        let chosen = BuildEnv::of_a_clone(Some("/labs".into()));
        assert_eq!((chosen.target_dir, chosen.profile), ("/labs".into(), here.profile));
    }

    #[test]
    fn advice_names_the_command_that_fits_the_origin() {
        let advice = |origin: Origin, is_installed| origin.restore(is_installed);
        assert!(advice(Origin::Clone, false).ends_with("run `cargo lab` in the clone"));
        let install = "run `cargo install --path kernel --locked --profile dev --force";
        assert!(advice(Origin::Clone, true).contains(install), "{}", advice(Origin::Clone, true));
        let packages = advice(Origin::Packages, true);
        assert!(packages.contains("`cargo install epsilab-kernel --locked --force"), "{packages}");
        // A test lies in a target folder.
        assert_eq!(is_installed(), Origin::of_this_binary() == Origin::Packages);
    }

    #[test]
    fn a_clone_that_was_moved_is_found_by_the_next_build() {
        let dir = tempfile::tempdir().expect("temp");
        let built_in = |folder: &Path| {
            let output = std::process::Command::new(env!("CARGO"))
                .args(["run", "--quiet", "--offline"])
                .current_dir(folder)
                .env("CARGO_TARGET_DIR", dir.path().join("target"))
                .output()
                .expect("cargo runs");
            let text = String::from_utf8(output.stdout).expect("text");
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            text
        };
        let (old, new) = (dir.path().join("old"), dir.path().join("new"));
        std::fs::create_dir_all(old.join("src")).expect("made");
        let write = |name: &str, text: &str| std::fs::write(old.join(name), text).expect("written");
        write("Cargo.toml", "[package]\nname = \"p\"\nversion = \"0.1.0\"\n[workspace]\n");
        write("build.rs", include_str!("../../../build.rs"));
        let variables = r#"(env!("EPSILAB_SOURCE_DIR"), env!("CARGO_MANIFEST_DIR"))"#;
        write("src/main.rs", &format!(r#"fn main() {{ print!("{{:?}}", {variables}) }}"#));
        assert_eq!(built_in(&old), format!("{:?}", (&old, &old)));
        std::fs::rename(&old, &new).expect("moved");
        assert_eq!(built_in(&new), format!("{:?}", (&new, &new)));
    }

    #[test]
    fn burn_is_looked_for_where_the_lab_is_compiled() {
        let dir = tempfile::tempdir().expect("temp");
        let mut env = BuildEnv::in_target_dir(dir.path().to_owned(), "dev", None);
        let deps = dir.path().join("debug/deps");
        std::fs::create_dir_all(&deps).expect("made");
        std::fs::write(deps.join("libburn_core-1.rmeta"), "").expect("written");
        std::fs::write(deps.join("libburn-1.d"), "").expect("written");
        assert!(!env.is_burn_compiled(), "the folder alone does not mean that Burn is compiled");
        std::fs::write(deps.join("libburn-1.rmeta"), "").expect("written");
        assert!(env.is_burn_compiled());
        env.triple = Some("x86".into());
        assert!(!env.is_burn_compiled(), "it was compiled for another target");
    }

    #[test]
    fn a_folder_that_can_not_be_written_is_named_with_advice() {
        // Not a folder: nobody can make files there, not even root.
        let mut env = BuildEnv::in_target_dir("/dev/null/none".into(), "dev", None);
        let error = env.check_writable().expect_err("not writable").to_string();
        assert!(error.contains("/dev/null/none/lab can't be written"), "{error}");
        assert!(error.contains("CARGO_TARGET_DIR"), "{error}");
        let error = env.clone().installed().check_writable().expect_err("not writable");
        assert!(error.advice().contains(BUILD_DIR_ENV_VAR), "{error}");
        env.origin = Origin::Packages;
        let error = env.check_writable().expect_err("not writable").to_string();
        assert!(error.contains(BUILD_DIR_ENV_VAR), "{error}");
        let dir = tempfile::tempdir().expect("temp");
        env.target_dir = dir.path().join("not/yet");
        assert!(env.check_writable().is_ok());
        assert!(!env.target_dir.exists(), "the check makes nothing");
    }

    #[test]
    fn a_change_in_any_source_of_the_lab_makes_another_one() {
        let dir = tempfile::tempdir().expect("temp");
        let mut env = BuildEnv::in_target_dir(dir.path().join("target"), "dev", None);
        env.library_dir = dir.path().into();
        env.kernel_dir = dir.path().join("kernel");
        let files = [
            "Cargo.toml",
            "Cargo.lock",
            "build.rs",
            "src/lib.rs",
            "accounting/Cargo.toml",
            "accounting/src/pld/mod.rs",
            "kernel/Cargo.toml",
            "kernel/src/lab.rs",
        ];
        let write = |file: &str, text: &str| {
            let path = dir.path().join(file);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            std::fs::write(path, text).expect("written");
        };
        files.iter().for_each(|file| write(file, "before"));
        let hash = || {
            let mut hash = Sha256::new();
            env.hash_sources(&mut hash).expect("readable");
            hash.finalize()
        };
        for file in files {
            let before = hash();
            write(file, "after");
            assert_ne!(hash(), before, "{file}");
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
        collect_sources(dir.path(), &mut found).expect("read");
        assert_eq!(found, [dir.path().join("lib.rs")]);
    }
}
