//! Temporary folders that do not outlive their owner, even if it is killed: each holds a file
//! that is locked as long as the owner lives, and who makes the next one removes the orphans.

use std::fs::{File, TryLockError};
use std::path::Path;

/// Begins the names of all of them.
const PREFIX: &str = "epsilab-";
const LOCK: &str = ".owner";

/// A private folder; removed when it is dropped.
pub struct TempFolder {
    dir: tempfile::TempDir,
    _lock: File,
}

impl TempFolder {
    /// Makes a folder below `base` that only this user can read; sweeps before.
    ///
    /// # Errors
    /// `base` can't be written.
    pub fn new(base: &Path, what: &str) -> std::io::Result<Self> {
        sweep(base);
        let mut builder = tempfile::Builder::new();
        let prefix = format!("{PREFIX}{what}-");
        builder.prefix(&prefix);
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700));
        loop {
            let dir = builder.tempdir_in(base)?;
            let lock = File::create(dir.path().join(LOCK))?;
            // Another process may sweep just between the two lines: then once more. Where files
            // can't be locked at all, nobody sweeps.
            let swept = matches!(lock.try_lock(), Err(TryLockError::WouldBlock));
            if !swept && dir.path().join(LOCK).exists() {
                return Ok(Self { dir, _lock: lock });
            }
        }
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }
}

fn sweep(base: &Path) {
    for entry in std::fs::read_dir(base).into_iter().flatten().flatten() {
        let ours = entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes());
        if !ours || !is_own_folder(&entry) {
            continue;
        }
        // Without that file it is no folder of this kind, or not finished yet.
        let Ok(lock) = File::open(entry.path().join(LOCK)) else { continue };
        if lock.try_lock().is_ok() {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// Others may put anything into a shared folder.
fn is_own_folder(entry: &std::fs::DirEntry) -> bool {
    let Ok(about) = entry.metadata() else { return false };
    // SAFETY: a question without arguments.
    #[cfg(unix)]
    let own = std::os::unix::fs::MetadataExt::uid(&about) == unsafe { libc::geteuid() };
    #[cfg(not(unix))]
    let own = true;
    about.is_dir() && own
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_dead_processes_are_swept_and_others_stay() {
        let base = tempfile::tempdir().expect("temp");
        let alive = TempFolder::new(base.path(), "run").expect("made");
        let orphan = base.path().join("epsilab-kernel-x");
        let foreign = base.path().join("epsilab-notes");
        for dir in [&orphan, &foreign] {
            std::fs::create_dir(dir).expect("made");
        }
        std::fs::write(orphan.join(LOCK), "").expect("written");
        let next = TempFolder::new(base.path(), "run").expect("made");
        assert!(alive.path().exists() && foreign.exists() && !orphan.exists());
        let path = next.path().to_owned();
        drop(next);
        assert!(!path.exists());
    }
}
