//! The lab as cells link it: one dylib built once, the shim package around it, and the stamp that
//! says for which toolchain and sources it was built.

mod burn_tree;
mod dylib;
mod place;
mod shim;
mod stamp;
mod toolchain;

use std::path::{Path, PathBuf};
use std::time::Instant;

use epsilab::{Error, Result};

use place::Place;
use stamp::Stamp;
pub use toolchain::{Toolchain, home_of};

/// Seconds for the first build, before there is one to go by.
const FIRST_ESTIMATE: f64 = 15.0;
/// Builds that are kept: running sessions may still be linked to older ones.
const KEPT_BUILDS: usize = 3;

/// A prebuilt lab that matches this binary.
#[derive(Clone, Debug)]
pub struct Lab {
    /// The folder with `lib/`, `shim/` and `stamp.json`.
    pub dir: PathBuf,
    /// The toolchain it was built with.
    pub toolchain: Toolchain,
    /// What a kernelspec has to set so that the kernel starts wherever Jupyter is.
    pub env: Vec<(String, String)>,
}

impl Lab {
    fn at(dir: PathBuf, toolchain: Toolchain) -> Self {
        // The binary knows its clone, target folder and toolchain; only the homes of cargo and
        // rustup can't be guessed from elsewhere.
        let env = ["CARGO_HOME", "RUSTUP_HOME"]
            .into_iter()
            .filter_map(|name| Some((name.to_owned(), std::env::var(name).ok()?)))
            .filter(|(_, value)| Path::new(value).is_absolute())
            .collect();
        Self { dir, toolchain, env }
    }

    /// The dylib, checked against the stamp.
    ///
    /// # Errors
    /// It is missing or was changed after it was built.
    pub fn library(&self) -> Result<PathBuf> {
        let stamp = Stamp::read(&self.dir).ok_or_else(|| {
            Error::new(
                epsilab::ErrorKind::Notebook,
                format!("prebuilt lab = {} (no stamp)", self.dir.display()),
                "it can't be told what it was built from",
            )
            .fix("delete the folder and start again")
        })?;
        stamp.check_library(&self.dir)?;
        Ok(self.dir.join("lib").join(stamp.library))
    }
}

/// How things stand, for `doctor`: looks, never builds.
#[derive(Clone, Debug)]
pub struct Status {
    /// Where the lab is, or would be.
    pub dir: PathBuf,
    /// The toolchain that built this binary, if it is still there.
    pub toolchain: Option<Toolchain>,
    /// What built this binary, in one line.
    pub built_by: String,
    /// A lab was built from this clone.
    pub built: bool,
    /// The newest was built by the toolchain of this binary.
    pub matches_toolchain: bool,
    /// There is one for the library's sources as they are now.
    pub matches_sources: bool,
    /// The sources of the standard library are there (rust-analyzer needs them).
    pub rust_src: bool,
    /// What is wrong and what to do, one sentence per trouble; empty when all is in order.
    pub troubles: Vec<String>,
}

/// Makes sure that the lab is built and matches this binary; `progress` gets one line per long step.
///
/// Safe with several processes at once: one builds, the others wait and take its result.
///
/// # Errors
/// No toolchain, no rust-src to be had, or the build failed: each says what to do.
pub fn ensure(progress: &mut dyn FnMut(&str)) -> Result<Lab> {
    let toolchain = Toolchain::find()?;
    let place = Place::find()?;
    if toolchain.has_rust_src()
        && let Some(dir) = current(&place, &toolchain)?
    {
        return Ok(Lab::at(dir, toolchain));
    }
    let labs = place.labs();
    std::fs::create_dir_all(&labs)
        .map_err(|e| Error::io(format!("making {}", labs.display()), &e))?;
    let lock = std::fs::File::create(labs.join(".lock"))
        .map_err(|e| Error::io(format!("locking {}", labs.display()), &e))?;
    if lock.try_lock().is_err() {
        progress("another process is building the lab: waiting for it");
        lock.lock().map_err(|e| Error::io(format!("locking {}", labs.display()), &e))?;
    }
    toolchain.ensure_rust_src(progress)?;
    let dir = match current(&place, &toolchain)? {
        Some(dir) => dir,
        None => build(&place, &toolchain, progress)?,
    };
    Ok(Lab::at(dir, toolchain))
}

/// How things stand, without building anything.
///
/// # Errors
/// Only if the clone or its sources can't be found.
pub fn status() -> Result<Status> {
    let place = Place::find()?;
    let mut troubles = Vec::new();
    let toolchain = Toolchain::find().map_err(|e| troubles.push(e.to_string())).ok();
    let newest = newest_stamp(&place);
    let dir = toolchain.as_ref().map(|toolchain| folder(&place, toolchain)).transpose()?;
    let current = dir.as_ref().is_some_and(|dir| Stamp::read(dir).is_some());
    let matches_toolchain = match (&newest, &toolchain) {
        (Some(stamp), Some(toolchain)) => {
            stamp.rustc_commit == toolchain.commit && stamp.rustc_version == toolchain.version
        }
        _ => false,
    };
    let rust_src = toolchain.as_ref().is_some_and(Toolchain::has_rust_src);
    if toolchain.is_some() && !rust_src {
        troubles.push("rust-src is missing: run `rustup component add rust-src`".into());
    }
    match &newest {
        None => troubles.push("the lab is not built yet: any notebook run builds it".into()),
        Some(stamp) if toolchain.is_some() && !matches_toolchain => troubles.push(format!(
            "the lab was built by rustc {}, this is another: the next notebook run builds it again",
            stamp.rustc_version
        )),
        Some(_) if toolchain.is_some() && !current => troubles.push(
            "the library's sources changed since the lab was built: the next notebook run \
             builds it again"
                .into(),
        ),
        Some(_) => {}
    }
    Ok(Status {
        dir: dir.unwrap_or_else(|| place.labs()),
        toolchain,
        built_by: toolchain::built_by(),
        built: newest.is_some(),
        matches_toolchain,
        matches_sources: current,
        rust_src,
        troubles,
    })
}

fn folder(place: &Place, toolchain: &Toolchain) -> Result<PathBuf> {
    Ok(place.labs().join(&place.fingerprint(toolchain)?[..16]))
}

/// The finished lab for the sources as they are now.
fn current(place: &Place, toolchain: &Toolchain) -> Result<Option<PathBuf>> {
    let dir = folder(place, toolchain)?;
    Ok(Stamp::read(&dir).is_some().then_some(dir))
}

fn newest_stamp(place: &Place) -> Option<Stamp> {
    let workspace = place.workspace.to_string_lossy();
    by_age(&place.labs())
        .iter()
        .rev()
        .filter_map(|dir| Stamp::read(dir))
        .find(|stamp| stamp.workspace == workspace)
}

/// Finished builds, oldest first.
fn by_age(labs: &Path) -> Vec<PathBuf> {
    let mut found: Vec<_> = std::fs::read_dir(labs)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let stamp = std::fs::metadata(entry.path().join("stamp.json")).ok()?;
            Some((stamp.modified().ok()?, entry.path()))
        })
        .collect();
    found.sort();
    found.into_iter().map(|(_, path)| path).collect()
}

fn build(place: &Place, toolchain: &Toolchain, progress: &mut dyn FnMut(&str)) -> Result<PathBuf> {
    let start = Instant::now();
    let estimate = newest_stamp(place).map_or(FIRST_ESTIMATE, |stamp| stamp.seconds.max(5.0));
    progress(&format!("building the lab as a library for cells: about {estimate:.0} s"));
    // Taken before: sources changed meanwhile have another fingerprint, so they are built again.
    let sources = place.fingerprint(toolchain)?;
    let dir = folder(place, toolchain)?;
    let metadata = dylib::metadata(place, toolchain)?;
    let built = dylib::build(place, toolchain, &metadata, progress)?;

    let labs = place.labs();
    let io = |e: std::io::Error| Error::io(format!("writing into {}", labs.display()), &e);
    let fresh = tempfile::Builder::new().prefix(".new-").tempdir_in(&labs).map_err(io)?;
    let lib = fresh.path().join("lib");
    std::fs::create_dir(&lib).map_err(io)?;
    let library = built.library.file_name().unwrap_or_default().to_owned();
    // A true copy: the linker may write into the original when it is built the next time.
    std::fs::copy(&built.library, lib.join(&library)).map_err(io)?;
    for file in &built.metadata {
        let to = lib.join(file.file_name().unwrap_or_default());
        if !to.exists() && std::fs::hard_link(file, &to).is_err() {
            std::fs::copy(file, &to).map_err(io)?;
        }
    }
    shim::write(place, &metadata, fresh.path())?;
    let burn = metadata["packages"]
        .as_array()
        .and_then(|all| all.iter().find(|package| package["name"] == "burn"))
        .and_then(|package| package["version"].as_str());
    Stamp {
        rustc_commit: toolchain.commit.clone(),
        rustc_version: toolchain.version.clone(),
        host: toolchain.host.clone(),
        burn: burn.unwrap_or_default().into(),
        workspace: place.workspace.to_string_lossy().into_owned(),
        sources,
        library_sha256: stamp::sha256(&lib.join(&library))?,
        library: library.to_string_lossy().into_owned(),
        seconds: start.elapsed().as_secs_f64(),
    }
    .write(fresh.path())?;
    // Left over from a folder without a stamp.
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::rename(fresh.keep(), &dir).map_err(io)?;
    let old = by_age(&labs);
    for dir in &old[..old.len().saturating_sub(KEPT_BUILDS)] {
        let _ = std::fs::remove_dir_all(dir);
    }
    progress(&format!("the lab is ready ({:.0} s)", start.elapsed().as_secs_f64()));
    Ok(dir)
}
