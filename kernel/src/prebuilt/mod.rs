//! The prebuilt lab that cells link: a dylib, the shim package around it, the list of all files,
//! and a stamp that records the toolchain and the sources. Begin with `ensure_built`, which builds
//! the lab unless one matches this binary; `state` compares a lab with the binary, and `dylib` and
//! `shim` make its parts.

mod build_env;
mod bundle;
mod derives;
mod dylib;
pub mod environment;
mod estimate;
mod evcxr_files;
mod manifest;
mod packages;
mod progress;
mod shim;
mod signatures;
mod stamp;
mod state;
mod toolchain;

use std::env::JoinPathsError;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use epsilab::{Error, ErrorKind, Result};
use rustix::io::FdFlags;

use build_env::BuildEnv;
pub use build_env::{Origin, collect_sources, hex, is_installed};
pub use bundle::compile as compile_bundle;
pub use evcxr_files::{STOCK_NAME, stock_folders, stock_program};
use manifest::CheckDepth;
use progress::Progress;
pub use progress::{BuildProgress, terminal_progress};
use stamp::Stamp;
pub use state::LibraryState;
use state::{changed_files, check_state};
pub use toolchain::{Toolchain, last_lines, rust_release};

use crate::folder::entries;

/// Number of builds to keep besides those in use, for switching branches.
const MAX_UNUSED_BUILDS: usize = 3;
/// Name of the file with a shared lock of every session that is linked to the lab in the same
/// folder.
const IN_USE_LOCK: &str = ".in-use";
/// Name of the folder with the crates of the standard library, as rust-analyzer reads them.
const STD_SOURCES: &str = "rust-src";
/// Crates whose names cells see. A third of the text of all are vector instructions of all
/// processors.
const STD_CRATES: [&str; 3] = ["core", "alloc", "std"];
/// Prefix of the names of unfinished builds.
const UNFINISHED_PREFIX: &str = ".new-";

/// A prebuilt lab that matches this binary.
#[derive(Clone, Debug)]
pub struct PrebuiltLibrary {
    /// Folder with `lib/`, `shim/`, `rust-src/`, their list `files.txt`, and `stamp.json`.
    pub dir: PathBuf,
    /// Path of the dylib.
    pub dylib: PathBuf,
    /// Toolchain that built the lab.
    pub toolchain: Toolchain,
    /// Environment variables for the kernelspec, so that Jupyter can start the kernel anywhere.
    pub kernelspec_env: Vec<(String, String)>,
    /// Lock that keeps builds from removing the lab.
    _in_use: Option<Arc<File>>,
}

impl PrebuiltLibrary {
    /// Keeps the lab locked for the program that replaces this process.
    pub fn keep_in_use(&self) {
        if let Some(file) = &self._in_use {
            // The program continues if the flag can't be removed.
            let _ = rustix::io::fcntl_setfd(file, FdFlags::empty());
        }
    }

    /// Returns `LD_LIBRARY_PATH` of a process that loads the lab. `more` is the previous value of
    /// the variable.
    ///
    /// # Errors
    /// A folder has a colon in its name.
    pub fn search_path(&self, more: Option<&OsStr>) -> Result<OsString, JoinPathsError> {
        let lib = self.dylib.parent().unwrap_or(&self.dir).to_owned();
        let more = more.into_iter().flat_map(std::env::split_paths);
        std::env::join_paths([lib, self.toolchain.std_dir()].into_iter().chain(more))
    }

    /// Returns the folder of the standard library's sources for rust-analyzer.
    pub fn std_sources(&self) -> PathBuf {
        self.dir.join(STD_SOURCES)
    }

    fn open(dir: PathBuf, toolchain: Toolchain, build: &BuildEnv) -> Result<Self> {
        // A folder that can't be written can't be removed by a build either.
        let in_use =
            File::create(dir.join(IN_USE_LOCK)).ok().filter(|file| file.lock_shared().is_ok());
        let stamp = Stamp::read(&dir).ok_or_else(|| {
            Error::new(
                ErrorKind::Notebook,
                format!("the prebuilt lab in {} has no stamp", dir.display()),
                "another process has just removed it",
            )
            .fix("start again")
        })?;
        let library = dir.join("lib").join(stamp.library);
        // The binary knows its clone, target folder and toolchain, but not the homes of cargo and
        // rustup.
        let env = ["CARGO_HOME", "RUSTUP_HOME"]
            .into_iter()
            .filter_map(|name| Some((name.to_owned(), std::env::var(name).ok()?)))
            .filter(|(_, value)| Path::new(value).is_absolute())
            .chain(build.kernelspec_variable())
            .collect();
        Ok(Self {
            dir,
            dylib: library,
            toolchain,
            kernelspec_env: env,
            _in_use: in_use.map(Arc::new),
        })
    }
}

/// State of toolchain and lab, for `doctor`.
#[derive(Clone, Debug)]
pub struct InstallationStatus {
    /// Folder of the lab, whether it exists or not.
    pub dir: PathBuf,
    /// The toolchain that built this binary, if it is still installed.
    pub toolchain: Result<Toolchain>,
    /// The lab for this toolchain and the current sources.
    pub library: LibraryState,
    /// Result of the check that a lab can be built.
    pub writable: Result<()>,
    /// Whether the sources of the standard library are installed, which rust-analyzer needs.
    pub rust_src: bool,
}

/// Builds the lab unless it exists and matches this binary. `progress` gets a line per long step,
/// and a bar every second.
///
/// Of several processes, one builds and the others wait for its result.
///
/// # Errors
/// The toolchain is missing, rust-src can't be installed, the build failed, or its folder can't be
/// written.
pub fn ensure_built(progress: Progress<'_>) -> Result<PrebuiltLibrary> {
    let toolchain = Toolchain::find()?;
    let env = BuildEnv::find()?;
    if toolchain.has_rust_src()
        && let Some(dir) = find_current(&env, &toolchain, CheckDepth::Quick)?
    {
        return PrebuiltLibrary::open(dir, toolchain, &env);
    }
    let _lock = lock_builds(&env, progress)?;
    toolchain.ensure_rust_src(&mut |line| progress(BuildProgress::Line(line)))?;
    let dir = find_current(&env, &toolchain, CheckDepth::Quick)?;
    let dir = dir.map_or_else(|| build(&env, &toolchain, progress), Ok)?;
    PrebuiltLibrary::open(dir, toolchain, &env)
}

/// Compares every file of a lab that cells can't be linked to, and builds the lab again if one was
/// changed. `None` if all are as they were built.
///
/// # Errors
/// The build failed.
pub fn repair(lab: &PrebuiltLibrary, progress: Progress<'_>) -> Result<Option<PrebuiltLibrary>> {
    if check_state(&lab.dir, CheckDepth::Full) == Some(LibraryState::Ready) {
        return Ok(None);
    }
    let env = BuildEnv::find()?;
    let _lock = lock_builds(&env, progress)?;
    // Another process may have built it while this one waited.
    let dir = find_current(&env, &lab.toolchain, CheckDepth::Full)?;
    let dir = dir.map_or_else(|| build(&env, &lab.toolchain, progress), Ok)?;
    PrebuiltLibrary::open(dir, lab.toolchain.clone(), &env).map(Some)
}

/// Waits until no other process builds. The lock lasts until the file is dropped.
fn lock_builds(env: &BuildEnv, progress: Progress<'_>) -> Result<File> {
    let labs = env.libraries_dir();
    std::fs::create_dir_all(&labs).map_err(|e| env.unwritable_error(&e))?;
    let lock = File::create(labs.join(".lock")).map_err(|e| env.unwritable_error(&e))?;
    if lock.try_lock().is_err() {
        progress(BuildProgress::Line("another process is building the lab: waiting for it"));
        lock.lock().map_err(|e| Error::io(format!("locking {}", labs.display()), &e))?;
    }
    Ok(lock)
}

/// Returns the state of toolchain and lab, with the content of all its files. Builds nothing.
///
/// # Errors
/// Only if the clone or its sources can't be found.
pub fn status() -> Result<InstallationStatus> {
    let env = BuildEnv::find()?;
    let toolchain = Toolchain::find();
    let (dir, lab) = match &toolchain {
        Ok(toolchain) => {
            let dir = library_dir(&env, &env.fingerprint(toolchain)?);
            let lab =
                check_state(&dir, CheckDepth::Full).unwrap_or_else(|| match newest_stamp(&env) {
                    None => LibraryState::Missing,
                    Some(stamp) if stamp.rustc_commit != toolchain.commit => {
                        LibraryState::OtherToolchain
                    }
                    Some(_) => LibraryState::OtherSources,
                });
            (dir, lab)
        }
        Err(_) if newest_stamp(&env).is_none() => (env.libraries_dir(), LibraryState::Missing),
        Err(_) => (env.libraries_dir(), LibraryState::OtherToolchain),
    };
    let rust_src = toolchain.as_ref().is_ok_and(Toolchain::has_rust_src);
    let writable = env.check_writable();
    Ok(InstallationStatus { dir, toolchain, library: lab, writable, rust_src })
}

/// Returns the name of cargo's folder with the programs of a profile.
fn profile_dir_name(profile: &str) -> &str {
    match profile {
        "dev" => "debug",
        other => other,
    }
}

/// Returns cargo's target folder with this binary.
pub fn target_dir() -> Option<PathBuf> {
    BuildEnv::find().ok().map(|env| env.target_dir)
}

fn library_dir(env: &BuildEnv, fingerprint: &str) -> PathBuf {
    env.libraries_dir().join(&fingerprint[..16])
}

/// Returns the folder of the finished lab for the current sources.
fn find_current(
    env: &BuildEnv,
    toolchain: &Toolchain,
    depth: CheckDepth,
) -> Result<Option<PathBuf>> {
    let dir = library_dir(env, &env.fingerprint(toolchain)?);
    Ok((check_state(&dir, depth) == Some(LibraryState::Ready)).then_some(dir))
}

fn newest_stamp(env: &BuildEnv) -> Option<Stamp> {
    let workspace = env.library_dir.to_string_lossy();
    builds_by_age(&env.libraries_dir())
        .iter()
        .rev()
        .filter_map(|dir| Stamp::read(dir))
        .find(|stamp| stamp.workspace == workspace)
}

/// Returns the finished builds, oldest first.
fn builds_by_age(labs: &Path) -> Vec<PathBuf> {
    let mut found: Vec<_> = entries(labs)
        .filter_map(|lab| {
            let stamp = std::fs::metadata(lab.join(Stamp::FILE)).ok()?;
            Some((stamp.modified().ok()?, lab))
        })
        .collect();
    found.sort();
    found.into_iter().map(|(_, path)| path).collect()
}

fn build(env: &BuildEnv, toolchain: &Toolchain, progress: Progress<'_>) -> Result<PathBuf> {
    let start = Instant::now();
    env.check_sources()?;
    let estimate = estimate::seconds(env);
    let mut say = |line: &str| progress(BuildProgress::Line(line));
    say(&format!("building the lab as a library for cells: about {estimate:.0} s"));
    // Computed before the build, so that sources changed during the build are built again.
    let sources = env.fingerprint(toolchain)?;
    let dir = library_dir(env, &sources);
    if let Some(LibraryState::Damaged { why, .. }) = check_state(&dir, CheckDepth::Full) {
        say(&format!("the prebuilt lab is damaged, so it is built again: {why}"));
        remove_damaged_artifacts(env, &dir);
    }
    remove_old_builds(&env.libraries_dir());
    let metadata = dylib::cargo_metadata(env, toolchain)?;
    let built = dylib::build_dylib(env, toolchain, &metadata, estimate, progress)?;

    let labs = env.libraries_dir();
    let io = |e: std::io::Error| Error::io(format!("writing into {}", labs.display()), &e);
    let fresh = tempfile::Builder::new().prefix(UNFINISHED_PREFIX).tempdir_in(&labs).map_err(io)?;
    let lib = fresh.path().join("lib");
    std::fs::create_dir(&lib).map_err(io)?;
    let library = built.dylib.file_name().unwrap_or_default().to_owned();
    // A copy and not a link: the next build may write into the original.
    std::fs::copy(&built.dylib, lib.join(&library)).map_err(io)?;
    for file in &built.metadata {
        let to = lib.join(file.file_name().unwrap_or_default());
        if !to.exists() && std::fs::hard_link(file, &to).is_err() {
            std::fs::copy(file, &to).map_err(io)?;
        }
    }
    shim::write_shim(env, &metadata, fresh.path())?;
    evcxr_files::write_stock(fresh.path(), &dir.join("shim"))?;
    for name in STD_CRATES {
        let part = Path::new(name).join("src");
        let from = toolchain.library_sources().join(&part);
        signatures::copy_signatures(&from, &fresh.path().join(STD_SOURCES).join(part))
            .map_err(io)?;
    }
    Stamp {
        rustc_commit: toolchain.commit.clone(),
        rustc_version: toolchain.version.clone(),
        host: toolchain.host.clone(),
        burn: dylib::text(&dylib::package(&metadata, "burn")["version"]),
        workspace: env.library_dir.to_string_lossy().into_owned(),
        sources,
        files_sha256: manifest::write_manifest(fresh.path())?,
        library: library.to_string_lossy().into_owned(),
        seconds: start.elapsed().as_secs_f64(),
    }
    .write(fresh.path())?;
    // A damaged lab may be there.
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::rename(fresh.keep(), &dir).map_err(io)?;
    let ready = format!("the lab is ready ({:.0} s)", start.elapsed().as_secs_f64());
    progress(BuildProgress::Line(&ready));
    Ok(dir)
}

/// Removes cargo's copies of the changed files of a lab. Metadata are links to cargo's files, so a
/// build would take the same damage from there.
fn remove_damaged_artifacts(env: &BuildEnv, lab: &Path) {
    for file in changed_files(lab) {
        let Some(name) = file.path.file_name().filter(|_| file.path.starts_with("lib")) else {
            continue;
        };
        for original in env.artifact_dirs().map(|folder| folder.join("deps").join(name)) {
            if stamp::sha256(&original).is_ok_and(|hash| hash != file.expected_sha256) {
                let _ = std::fs::remove_file(original);
            }
        }
    }
}

/// Removes unfinished builds, and the oldest builds that no session uses. The caller holds the
/// lock.
fn remove_old_builds(labs: &Path) {
    for entry in std::fs::read_dir(labs).into_iter().flatten().flatten() {
        if entry.file_name().as_encoded_bytes().starts_with(UNFINISHED_PREFIX.as_bytes()) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
    let old = builds_by_age(labs);
    // One more follows.
    for dir in &old[..old.len().saturating_sub(MAX_UNUSED_BUILDS - 1)] {
        let free = File::open(dir.join(IN_USE_LOCK)).map_or(true, |file| file.try_lock().is_ok());
        if free {
            let _ = std::fs::remove_dir_all(dir);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::state::tests::lab;
    use super::*;

    #[test]
    fn labs_in_use_are_kept_and_unfinished_builds_removed() {
        let labs = tempfile::tempdir().expect("temp");
        let dirs = [1, 2, 3, 4, 5].map(|age| {
            let dir = lab(labs.path(), &format!("{age}"));
            // The age of a build is that of its stamp.
            let stamp = File::options().append(true).open(dir.join(Stamp::FILE)).expect("opened");
            let time = std::time::SystemTime::now() + std::time::Duration::from_secs(age);
            stamp.set_modified(time).expect("set");
            dir
        });
        let cut_off = labs.path().join(format!("{UNFINISHED_PREFIX}x"));
        std::fs::create_dir(&cut_off).expect("made");
        let held = File::create(dirs[0].join(IN_USE_LOCK)).expect("made");
        held.lock_shared().expect("locked");
        File::create(dirs[1].join(IN_USE_LOCK)).expect("made");
        remove_old_builds(labs.path());
        let left = dirs.each_ref().map(|dir| dir.exists());
        assert_eq!(left, [true, false, false, true, true]);
        assert!(!cut_off.exists());
        drop(held);
        remove_old_builds(labs.path());
        assert!(!dirs[0].exists());
    }
}
