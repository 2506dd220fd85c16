//! Temporary folders that are removed even if their owner is killed. The owner holds a lock on a
//! file in the folder; whoever creates the next folder removes those without a lock.

use std::fs::{File, Permissions, TryLockError};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// Prefix of the names of all temporary folders.
const PREFIX: &str = "epsilab-";
const LOCK_FILE: &str = ".owner";

/// A private folder that is removed on drop.
pub struct TempFolder {
    dir: tempfile::TempDir,
    _lock: File,
}

impl TempFolder {
    /// Creates a folder in `base` that only this user can read, after the removal of abandoned
    /// ones.
    ///
    /// # Errors
    /// `base` can't be written.
    pub fn new(base: &Path, what: &str) -> std::io::Result<Self> {
        remove_abandoned(base);
        let mut builder = tempfile::Builder::new();
        let prefix = format!("{PREFIX}{what}-");
        builder.prefix(&prefix).permissions(Permissions::from_mode(0o700));
        loop {
            let dir = builder.tempdir_in(base)?;
            let lock = File::create(dir.path().join(LOCK_FILE))?;
            // Another process may remove the folder between these two lines: try again. Where
            // files can't be locked, no folder is removed.
            let swept = matches!(lock.try_lock(), Err(TryLockError::WouldBlock));
            if !swept && dir.path().join(LOCK_FILE).exists() {
                return Ok(Self { dir, _lock: lock });
            }
        }
    }

    /// Returns the path of the folder.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }
}

fn remove_abandoned(base: &Path) {
    for entry in std::fs::read_dir(base).into_iter().flatten().flatten() {
        let has_prefix = entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes());
        if !has_prefix || !is_own_folder(&entry) {
            continue;
        }
        // Without this file it is another folder, or not complete yet.
        let Some(lock) = open_lock(&entry.path().join(LOCK_FILE)) else { continue };
        if lock.try_lock().is_ok() {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// Opens the lock file if it is a regular file. Opening anything else may block, as a FIFO does,
/// or have side effects.
fn open_lock(path: &Path) -> Option<File> {
    let is_file = |about: std::fs::Metadata| about.is_file();
    if !path.symlink_metadata().is_ok_and(is_file) {
        return None;
    }
    // The file may have been replaced since the check.
    let flags = libc::O_NONBLOCK | libc::O_NOFOLLOW;
    let file = File::options().read(true).custom_flags(flags).open(path).ok()?;
    file.metadata().is_ok_and(is_file).then_some(file)
}

/// Returns whether an entry is a folder of this user. Others may put anything into a shared
/// folder.
fn is_own_folder(entry: &std::fs::DirEntry) -> bool {
    // SAFETY: a query without arguments.
    let user = unsafe { libc::geteuid() };
    entry.metadata().is_ok_and(|about| about.is_dir() && about.uid() == user)
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
        std::fs::write(orphan.join(LOCK_FILE), "").expect("written");
        let next = TempFolder::new(base.path(), "run").expect("made");
        assert!(alive.path().exists() && foreign.exists() && !orphan.exists());
        let path = next.path().to_owned();
        drop(next);
        assert!(!path.exists());
    }

    #[cfg(unix)]
    #[test]
    fn lock_files_that_are_pipes_or_links_are_not_opened() {
        let base = tempfile::tempdir().expect("temp");
        for name in ["epsilab-fifo", "epsilab-link"] {
            std::fs::create_dir(base.path().join(name)).expect("made");
        }
        let fifo = base.path().join("epsilab-fifo").join(LOCK_FILE);
        let name = std::ffi::CString::new(fifo.as_os_str().as_encoded_bytes()).expect("no zero");
        // SAFETY: the name ends in a zero byte.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        let link = base.path().join("epsilab-link").join(LOCK_FILE);
        std::os::unix::fs::symlink(&fifo, link).expect("linked");
        let (done, swept) = std::sync::mpsc::channel();
        let folder = base.path().to_owned();
        std::thread::spawn(move || {
            remove_abandoned(&folder);
            let _ = done.send(());
        });
        let swept = swept.recv_timeout(std::time::Duration::from_secs(600));
        assert!(swept.is_ok(), "it waits for someone to write into the FIFO");
        assert!(fifo.symlink_metadata().is_ok(), "what is not ours stays");
    }
}
