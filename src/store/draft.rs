//! Drafts: a run is written to a folder beside its own, which is renamed when it is complete.
//!
//! The folder is called `<id>.writing-<process>-<host>-<nonce>` and locked by its process: process
//! ids repeat on the hosts that share a file system, and not every file system has locks. It is
//! removed if writing fails. The next process on the host that writes removes the drafts of killed
//! processes.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::host;
use super::run_files::{self, Checksums};
use crate::{Error, Result};

/// The separator between run id and process id in the name of a draft.
const WRITING: &str = ".writing-";

/// A run that is being written.
pub(super) struct Draft {
    folder: PathBuf,
    /// Lock on the folder while the process lives, on systems where folders can be locked.
    _lock: Option<File>,
    committed: bool,
}

impl Draft {
    /// Creates an empty draft beside `run`, which need not exist.
    pub(super) fn create_beside(run: &Path) -> Result<Self> {
        if let Some(runs) = run.parent() {
            fs::create_dir_all(runs)
                .map_err(|e| Error::io(format!("creating the folder {}", runs.display()), &e))?;
            sweep_once(runs);
        }
        let name = run.file_name().unwrap_or_default().to_string_lossy();
        let folder = run.with_file_name(format!("{name}{WRITING}{}", host::unique_id()?));
        fs::create_dir(&folder)
            .map_err(|e| Error::io(format!("creating the folder {}", folder.display()), &e))?;
        let lock = File::open(&folder).ok().filter(|file| file.lock().is_ok());
        Ok(Self { folder, _lock: lock, committed: false })
    }

    /// Returns the path of a file in the draft.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Writes a file.
    pub(super) fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> Result<()> {
        let path = self.path(name);
        fs::write(&path, bytes).map_err(|e| Error::io(format!("writing {}", path.display()), &e))
    }

    /// Returns the checksums of the files in the draft.
    pub(super) fn checksums(&self) -> Result<Checksums> {
        run_files::checksums(&self.folder)
    }

    /// Renames the draft to its final name, atomically.
    pub(super) fn commit(mut self, run: &Path) -> Result<()> {
        fs::rename(&self.folder, run)
            .map_err(|e| Error::io(format!("moving a run to {}", run.display()), &e))?;
        self.committed = true;
        Ok(())
    }
}

impl Draft {
    /// Renames the draft to its final name, atomically, unless a folder with files has that name.
    /// Returns the draft if it was not renamed.
    pub(super) fn commit_if_absent(mut self, run: &Path) -> Result<Option<Self>> {
        match rename_if_absent(&self.folder, run) {
            Ok(true) => {
                self.committed = true;
                Ok(None)
            }
            Ok(false) => Ok(Some(self)),
            Err(e) => Err(Error::io(format!("moving a run to {}", run.display()), &e)),
        }
    }
}

/// Renames a folder, atomically, unless a folder with files has the name. Returns whether it did.
///
/// A plain rename of a folder never replaces one that is not empty. (That a rename must not replace
/// anything can be asked of local file systems only.)
pub(crate) fn rename_if_absent(folder: &Path, name: &Path) -> io::Result<bool> {
    let exists = [io::ErrorKind::DirectoryNotEmpty, io::ErrorKind::AlreadyExists];
    match fs::rename(folder, name) {
        Ok(()) => Ok(true),
        Err(e) if exists.contains(&e.kind()) => Ok(false),
        Err(e) => Err(e),
    }
}

impl Drop for Draft {
    /// Removes a draft that was not kept. The name of one that was kept may be in use again.
    fn drop(&mut self) {
        if !self.committed {
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}

/// Returns whether a folder of the store is a draft.
pub(super) fn is_draft(folder: &Path) -> bool {
    folder.file_name().is_some_and(|name| name.to_string_lossy().contains(WRITING))
}

/// Sweeps a folder once in the life of this process: reading it for each of thousands of runs would
/// take a time that grows with the square of their number.
fn sweep_once(runs: &Path) {
    static SWEPT: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());
    let mut swept = SWEPT.lock().unwrap_or_else(PoisonError::into_inner);
    if !swept.iter().any(|known| known == runs) {
        swept.push(runs.to_owned());
        sweep(runs);
    }
}

/// Removes the drafts of dead processes of this host. Only folders are removed: links are not
/// followed and pipes not opened. Drafts that can't be removed are left in place.
fn sweep(runs: &Path) {
    for entry in fs::read_dir(runs).into_iter().flatten().flatten() {
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        let name = entry.file_name().to_string_lossy().into_owned();
        let writer = name.split_once(WRITING).map(|(_, writer)| writer);
        if is_folder && writer.is_some_and(is_gone) && is_free(&entry.path()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Returns whether the folder is not locked, for example by a process on another machine with the
/// same files.
fn is_free(folder: &Path) -> bool {
    File::open(folder).is_ok_and(|folder| folder.try_lock().is_ok())
}

/// Returns whether the writer of a draft, `<process>-<host>-<nonce>`, was a process of this host
/// that has ended.
fn is_gone(writer: &str) -> bool {
    let mut parts = writer.splitn(2, '-');
    let process = parts.next().and_then(|process| process.parse().ok());
    let host = parts.next().and_then(|rest| rest.rsplit_once('-')).map(|(host, _)| host);
    process.is_some_and(has_ended) && host.is_none_or(|host| host == host::name())
}

/// Returns whether no process on this machine has this id.
#[cfg(unix)]
fn has_ended(process: i32) -> bool {
    // SAFETY: signal 0 only checks whether the process exists.
    process > 0
        && unsafe { libc::kill(process, 0) } == -1
        && io::Error::last_os_error().raw_os_error() == Some(libc::ESRCH)
}

#[cfg(not(unix))]
fn has_ended(_process: i32) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<_> = entries.map(|name| name.to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    #[test]
    fn files_are_written_atomically() {
        let runs = tempfile::tempdir().unwrap();
        let run = runs.path().join("00ff");
        let draft = Draft::create_beside(&run).unwrap();
        let other = Draft::create_beside(&run).unwrap();
        draft.write("a", "1").unwrap();
        other.write("a", "2").unwrap();
        assert_eq!(names(runs.path()).len(), 2, "two threads do not share a folder");
        assert!(draft.write("no/b", "1").is_err());
        drop(draft);
        other.commit(&run).unwrap();
        assert_eq!(names(runs.path()), ["00ff"]);
        assert_eq!(fs::read_to_string(run.join("a")).unwrap(), "2");
    }

    #[cfg(unix)]
    #[test]
    fn only_folders_of_processes_that_are_gone_are_swept() {
        use std::os::unix::ffi::OsStrExt;
        let runs = tempfile::tempdir().unwrap();
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let gone = child.id();
        child.wait().unwrap();
        let at = |name: String| runs.path().join(name);
        fs::create_dir_all(at(format!("a.writing-{gone}/inside"))).unwrap();
        fs::create_dir(at(format!("b.writing-{gone}-7"))).unwrap();
        // A pipe inside is unlinked, not opened; others of that name are left alone.
        let fifo = |path: PathBuf| {
            let name = std::ffi::CString::new(path.as_os_str().as_bytes()).unwrap();
            // SAFETY: a path that ends in a zero byte.
            assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        };
        fifo(at(format!("a.writing-{gone}/pipe")));
        fifo(at(format!("pipe.writing-{gone}")));
        fs::write(at(format!("file.writing-{gone}")), "").unwrap();
        let precious = tempfile::tempdir().unwrap();
        fs::write(precious.path().join("kept"), "").unwrap();
        std::os::unix::fs::symlink(precious.path(), at(format!("link.writing-{gone}"))).unwrap();
        let alive = std::process::id();
        for name in [format!("alive.writing-{alive}"), "odd.writing-0".into(), "run".into()] {
            fs::create_dir(at(name)).unwrap();
        }
        let locked = at(format!("locked.writing-{gone}"));
        fs::create_dir(&locked).unwrap();
        let lock = File::open(&locked).unwrap();
        lock.lock().unwrap();

        let here = host::name();
        fs::create_dir(at(format!("here.writing-{gone}-{here}-0a1b2c3d"))).unwrap();
        // Another host may have a live process with this id.
        let elsewhere = format!("elsewhere.writing-{gone}-{here}2-0a1b2c3d");
        fs::create_dir(at(elsewhere.clone())).unwrap();

        drop(Draft::create_beside(&at("new".into())).unwrap());
        let mut left =
            ["file", "link", "locked", "pipe"].map(|n| format!("{n}.writing-{gone}")).to_vec();
        left.push(elsewhere);
        left.extend([format!("alive.writing-{alive}"), "odd.writing-0".into(), "run".into()]);
        left.sort();
        assert_eq!(names(runs.path()), left);
        assert!(precious.path().join("kept").exists());
    }
}
