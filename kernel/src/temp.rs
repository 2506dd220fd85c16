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
        let Some(lock) = open_lock(&entry.path().join(LOCK)) else { continue };
        if lock.try_lock().is_ok() {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// Only a file of that folder itself: opening anything else may wait for ever (a FIFO for someone
/// to write into it) or do something.
fn open_lock(path: &Path) -> Option<File> {
    let is_file = |about: std::fs::Metadata| about.is_file();
    if !path.symlink_metadata().is_ok_and(is_file) {
        return None;
    }
    let mut options = File::options();
    options.read(true);
    // What has changed since that look is not waited for either.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(
        &mut options,
        libc::O_NONBLOCK | libc::O_NOFOLLOW,
    );
    let file = options.open(path).ok()?;
    file.metadata().is_ok_and(is_file).then_some(file)
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

    #[cfg(unix)]
    #[test]
    fn what_is_no_file_is_never_opened() {
        let base = tempfile::tempdir().expect("temp");
        for name in ["epsilab-fifo", "epsilab-link"] {
            std::fs::create_dir(base.path().join(name)).expect("made");
        }
        let fifo = base.path().join("epsilab-fifo").join(LOCK);
        let name = std::ffi::CString::new(fifo.as_os_str().as_encoded_bytes()).expect("no zero");
        // SAFETY: the name ends in a zero.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        let link = base.path().join("epsilab-link").join(LOCK);
        std::os::unix::fs::symlink(&fifo, link).expect("linked");
        let (done, swept) = std::sync::mpsc::channel();
        let folder = base.path().to_owned();
        std::thread::spawn(move || {
            sweep(&folder);
            let _ = done.send(());
        });
        let swept = swept.recv_timeout(std::time::Duration::from_secs(10));
        assert!(swept.is_ok(), "it waits for someone to write into the FIFO");
        assert!(fifo.symlink_metadata().is_ok(), "what is not ours stays");
    }
}
