//! The prebuilt lab that cells link: a dylib, the shim package around it, the list of all files,
//! and a stamp that records the toolchain and the sources.

mod build_env;
mod bundle;
mod contents;
mod derives;
mod dylib;
pub mod environment;
mod estimate;
mod packages;
mod progress;
mod shim;
mod signatures;
mod stamp;
mod state;
mod stock;
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
pub use build_env::{Origin, hex, is_installed, sources};
pub use bundle::compile as compile_bundle;
use contents::Depth;
use progress::Progress;
pub use progress::{Step, to_terminal};
use stamp::Stamp;
pub use state::State;
use state::{changed_files, state};
pub use stock::{STOCK, stock_folders, stock_program};
pub use toolchain::{Toolchain, rust_release, tail};

use crate::folder::entries;

/// Number of builds to keep besides those in use, for switching branches.
const KEPT_BUILDS: usize = 3;
/// File with a shared lock of every session that is linked to the lab in the same folder.
const IN_USE: &str = ".in-use";
/// Folder with the crates of the standard library, as rust-analyzer reads them.
const STD_SOURCES: &str = "rust-src";
/// The crates whose names cells see. A third of the text of all are vector instructions of all
/// processors.
const STD_CRATES: [&str; 3] = ["core", "alloc", "std"];
/// Start of the names of unfinished builds.
const UNFINISHED: &str = ".new-";

/// A prebuilt lab that matches this binary.
#[derive(Clone, Debug)]
pub struct Lab {
    /// Folder with `lib/`, `shim/`, `rust-src/`, their list `files.txt`, and `stamp.json`.
    pub dir: PathBuf,
    /// Path of the dylib.
    pub library: PathBuf,
    /// The toolchain it was built with.
    pub toolchain: Toolchain,
    /// Environment variables for the kernelspec, so that Jupyter can start the kernel anywhere.
    pub env: Vec<(String, String)>,
    /// While this is held, no build removes the lab.
    _in_use: Option<Arc<File>>,
}

impl Lab {
    /// Keeps the lab in use for the program that replaces this process.
    pub fn keep_in_use(&self) {
        if let Some(file) = &self._in_use {
            // The program goes on without if the flag can't be removed.
            let _ = rustix::io::fcntl_setfd(file, FdFlags::empty());
        }
    }

    /// `LD_LIBRARY_PATH` of a process that loads the lab. `more`: the variable as it was.
    ///
    /// # Errors
    /// A folder has a colon in its name.
    pub fn search_path(&self, more: Option<&OsStr>) -> Result<OsString, JoinPathsError> {
        let lib = self.library.parent().unwrap_or(&self.dir).to_owned();
        let more = more.into_iter().flat_map(std::env::split_paths);
        std::env::join_paths([lib, self.toolchain.std_dir()].into_iter().chain(more))
    }

    /// The sources of the standard library for rust-analyzer.
    pub fn std_sources(&self) -> PathBuf {
        self.dir.join(STD_SOURCES)
    }

    fn at(dir: PathBuf, toolchain: Toolchain, build: &BuildEnv) -> Result<Self> {
        // A folder that can't be written can't be removed by a build either.
        let in_use = File::create(dir.join(IN_USE)).ok().filter(|file| file.lock_shared().is_ok());
        let stamp = Stamp::read(&dir).ok_or_else(|| {
            Error::new(
                ErrorKind::Notebook,
                format!("prebuilt lab = {} (no stamp)", dir.display()),
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
            .chain(build.variable())
            .collect();
        Ok(Self { dir, library, toolchain, env, _in_use: in_use.map(Arc::new) })
    }
}

/// State of toolchain and lab, for `doctor`.
#[derive(Clone, Debug)]
pub struct Status {
    /// Folder of the lab, whether it exists or not.
    pub dir: PathBuf,
    /// The toolchain that built this binary, if it is still installed.
    pub toolchain: Result<Toolchain>,
    /// The lab for this toolchain and the current sources.
    pub lab: State,
    /// Whether a lab can be built.
    pub writable: Result<()>,
    /// True if the sources of the standard library are installed, which rust-analyzer needs.
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
pub fn ensure(progress: Progress<'_>) -> Result<Lab> {
    let toolchain = Toolchain::find()?;
    let env = BuildEnv::find()?;
    if toolchain.has_rust_src()
        && let Some(dir) = current(&env, &toolchain, Depth::Quick)?
    {
        return Lab::at(dir, toolchain, &env);
    }
    let _lock = lock(&env, progress)?;
    toolchain.ensure_rust_src(&mut |line| progress(Step::Line(line)))?;
    let dir = current(&env, &toolchain, Depth::Quick)?;
    let dir = dir.map_or_else(|| build(&env, &toolchain, progress), Ok)?;
    Lab::at(dir, toolchain, &env)
}

/// Compares every file of a lab that cells can't be linked to, and builds the lab again if one was
/// changed. `None` if all are as they were built.
///
/// # Errors
/// The build failed.
pub fn repair(lab: &Lab, progress: Progress<'_>) -> Result<Option<Lab>> {
    if state(&lab.dir, Depth::Full) == Some(State::Ready) {
        return Ok(None);
    }
    let env = BuildEnv::find()?;
    let _lock = lock(&env, progress)?;
    // Another process may have built it while this one waited.
    let dir = current(&env, &lab.toolchain, Depth::Full)?;
    let dir = dir.map_or_else(|| build(&env, &lab.toolchain, progress), Ok)?;
    Lab::at(dir, lab.toolchain.clone(), &env).map(Some)
}

/// Waits until no other process builds. The lock lasts until the file is dropped.
fn lock(env: &BuildEnv, progress: Progress<'_>) -> Result<File> {
    let labs = env.labs();
    std::fs::create_dir_all(&labs).map_err(|e| env.unwritable(&e))?;
    let lock = File::create(labs.join(".lock")).map_err(|e| env.unwritable(&e))?;
    if lock.try_lock().is_err() {
        progress(Step::Line("another process is building the lab: waiting for it"));
        lock.lock().map_err(|e| Error::io(format!("locking {}", labs.display()), &e))?;
    }
    Ok(lock)
}

/// State of toolchain and lab, with the content of all its files. Builds nothing.
///
/// # Errors
/// Only if the clone or its sources can't be found.
pub fn status() -> Result<Status> {
    let env = BuildEnv::find()?;
    let toolchain = Toolchain::find();
    let (dir, lab) = match &toolchain {
        Ok(toolchain) => {
            let dir = folder(&env, &env.fingerprint(toolchain)?);
            let lab = state(&dir, Depth::Full).unwrap_or_else(|| match newest_stamp(&env) {
                None => State::Missing,
                Some(stamp) if stamp.rustc_commit != toolchain.commit => State::OtherToolchain,
                Some(_) => State::OtherSources,
            });
            (dir, lab)
        }
        Err(_) if newest_stamp(&env).is_none() => (env.labs(), State::Missing),
        Err(_) => (env.labs(), State::OtherToolchain),
    };
    let rust_src = toolchain.as_ref().is_ok_and(Toolchain::has_rust_src);
    let writable = env.check_writable();
    Ok(Status { dir, toolchain, lab, writable, rust_src })
}

/// Cargo's folder with the programs of a profile.
fn folder_of(profile: &str) -> &str {
    match profile {
        "dev" => "debug",
        other => other,
    }
}

/// Cargo's target folder with this binary.
pub fn target() -> Option<PathBuf> {
    BuildEnv::find().ok().map(|env| env.target)
}

fn folder(env: &BuildEnv, fingerprint: &str) -> PathBuf {
    env.labs().join(&fingerprint[..16])
}

/// Folder of the finished lab for the current sources.
fn current(env: &BuildEnv, toolchain: &Toolchain, depth: Depth) -> Result<Option<PathBuf>> {
    let dir = folder(env, &env.fingerprint(toolchain)?);
    Ok((state(&dir, depth) == Some(State::Ready)).then_some(dir))
}

fn newest_stamp(env: &BuildEnv) -> Option<Stamp> {
    let workspace = env.library.to_string_lossy();
    by_age(&env.labs())
        .iter()
        .rev()
        .filter_map(|dir| Stamp::read(dir))
        .find(|stamp| stamp.workspace == workspace)
}

/// Finished builds, oldest first.
fn by_age(labs: &Path) -> Vec<PathBuf> {
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
    let mut say = |line: &str| progress(Step::Line(line));
    say(&format!("building the lab as a library for cells: about {estimate:.0} s"));
    // Computed before the build, so that sources changed during the build are built again.
    let sources = env.fingerprint(toolchain)?;
    let dir = folder(env, &sources);
    if let Some(State::Damaged { why, .. }) = state(&dir, Depth::Full) {
        say(&format!("the prebuilt lab is damaged, so it is built again: {why}"));
        forget_damaged(env, &dir);
    }
    prune(&env.labs());
    let metadata = dylib::metadata(env, toolchain)?;
    let built = dylib::build(env, toolchain, &metadata, estimate, progress)?;

    let labs = env.labs();
    let io = |e: std::io::Error| Error::io(format!("writing into {}", labs.display()), &e);
    let fresh = tempfile::Builder::new().prefix(UNFINISHED).tempdir_in(&labs).map_err(io)?;
    let lib = fresh.path().join("lib");
    std::fs::create_dir(&lib).map_err(io)?;
    let library = built.library.file_name().unwrap_or_default().to_owned();
    // A copy and not a link: the next build may write into the original.
    std::fs::copy(&built.library, lib.join(&library)).map_err(io)?;
    for file in &built.metadata {
        let to = lib.join(file.file_name().unwrap_or_default());
        if !to.exists() && std::fs::hard_link(file, &to).is_err() {
            std::fs::copy(file, &to).map_err(io)?;
        }
    }
    shim::write(env, &metadata, fresh.path())?;
    stock::write_stock(fresh.path(), &dir.join("shim"))?;
    for name in STD_CRATES {
        let part = Path::new(name).join("src");
        let from = toolchain.library_sources().join(&part);
        signatures::copy(&from, &fresh.path().join(STD_SOURCES).join(part)).map_err(io)?;
    }
    Stamp {
        rustc_commit: toolchain.commit.clone(),
        rustc_version: toolchain.version.clone(),
        host: toolchain.host.clone(),
        burn: dylib::text(&dylib::package(&metadata, "burn")["version"]),
        workspace: env.library.to_string_lossy().into_owned(),
        sources,
        files_sha256: contents::write(fresh.path())?,
        library: library.to_string_lossy().into_owned(),
        seconds: start.elapsed().as_secs_f64(),
    }
    .write(fresh.path())?;
    // A damaged lab may be there.
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::rename(fresh.keep(), &dir).map_err(io)?;
    let ready = format!("the lab is ready ({:.0} s)", start.elapsed().as_secs_f64());
    progress(Step::Line(&ready));
    Ok(dir)
}

/// Removes what cargo keeps of the changed files of a lab. Metadata are links to cargo's files, so
/// a build would take the same damage from there.
fn forget_damaged(env: &BuildEnv, lab: &Path) {
    for file in changed_files(lab) {
        let Some(name) = file.path.file_name().filter(|_| file.path.starts_with("lib")) else {
            continue;
        };
        for original in env.artifacts().map(|folder| folder.join("deps").join(name)) {
            if stamp::sha256(&original).is_ok_and(|hash| hash != file.built) {
                let _ = std::fs::remove_file(original);
            }
        }
    }
}

/// Removes unfinished builds, and the oldest builds that no session uses. The caller holds the
/// lock.
fn prune(labs: &Path) {
    for entry in std::fs::read_dir(labs).into_iter().flatten().flatten() {
        if entry.file_name().as_encoded_bytes().starts_with(UNFINISHED.as_bytes()) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
    let old = by_age(labs);
    // One more follows.
    for dir in &old[..old.len().saturating_sub(KEPT_BUILDS - 1)] {
        let free = File::open(dir.join(IN_USE)).map_or(true, |file| file.try_lock().is_ok());
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
        let cut_off = labs.path().join(format!("{UNFINISHED}x"));
        std::fs::create_dir(&cut_off).expect("made");
        let held = File::create(dirs[0].join(IN_USE)).expect("made");
        held.lock_shared().expect("locked");
        File::create(dirs[1].join(IN_USE)).expect("made");
        prune(labs.path());
        let left = dirs.each_ref().map(|dir| dir.exists());
        assert_eq!(left, [true, false, false, true, true]);
        assert!(!cut_off.exists());
        drop(held);
        prune(labs.path());
        assert!(!dirs[0].exists());
    }
}
