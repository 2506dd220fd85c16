//! Test of whether a folder can be used by several machines at once: locks and renames.
//!
//! The runs and ledgers of a project rely on two things: a lock that one machine has keeps the
//! others away, and a rename never replaces a folder with files. Nothing relies on clocks.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::host;
use crate::{Error, ErrorKind, Result, program};

/// The folder of the test.
const FOLDER: &str = "epsilab-shared-test";

/// Tests a folder from this machine alone: a second open file must not get the lock, and a rename
/// must not replace a folder with files.
///
/// # Errors
/// `Io` if the folder can't be written; `Setting` if a lock or a rename does not do what it must.
pub(crate) fn check(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder)
        .map_err(|e| Error::io(format!("creating the folder {}", folder.display()), &e))?;
    let folder_path = folder.join(format!(".{FOLDER}-{}", host::unique_id()?));
    let tested = test_alone(&folder_path);
    let _ = fs::remove_dir_all(&folder_path);
    tested.map_err(|e| unusable(folder, &e.to_string()))
}

fn unusable(folder: &Path, why: &str) -> Error {
    let what = format!("{} can't be shared by several machines", folder.display());
    Error::new(ErrorKind::Setting, what, why.to_owned()).fix(format!(
        "put the store (EPSILAB_HOME) on another file system; `{}` on two nodes at the same time \
         tests one",
        program::command("doctor --shared DIR")
    ))
}

fn test_alone(parent: &Path) -> io::Result<()> {
    let wrong = |why: &str| Err(io::Error::other(why.to_owned()));
    fs::create_dir(parent)?;
    let (one, other) = (parent.join("one"), parent.join("other"));
    for folder in [&one, &other] {
        fs::create_dir(folder)?;
        fs::write(folder.join("file"), folder.as_os_str().as_encoded_bytes())?;
    }
    if fs::rename(&one, &other).is_ok() {
        return wrong("a rename replaces a folder with files");
    }
    let lock = File::create(parent.join("lock"))?;
    lock.lock()?;
    match File::open(parent.join("lock"))?.try_lock() {
        Err(TryLockError::WouldBlock) => Ok(()),
        Err(TryLockError::Error(e)) => Err(e),
        Ok(()) => wrong("a file can be locked twice"),
    }
}

/// Exchange of messages with the other machine, by files.
struct Rendezvous {
    folder: PathBuf,
    until: Instant,
}

impl Rendezvous {
    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn send(&self, name: &str, text: &str) -> io::Result<()> {
        let part = self.path(&format!("{name}.part"));
        fs::write(&part, text)?;
        fs::rename(part, self.path(name))
    }

    /// Reads the message of the other machine.
    fn receive(&self, name: &str) -> io::Result<String> {
        loop {
            // Listing a folder makes network file systems look at it again.
            let _ = fs::read_dir(&self.folder).map(Iterator::count);
            match fs::read_to_string(self.path(name)) {
                Ok(text) => return Ok(text),
                Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
                Err(_) if Instant::now() > self.until => {
                    let why = "the other machine does not answer: run the same command there at \
                               the same time; if you did, it does not see this folder";
                    return Err(io::Error::new(io::ErrorKind::TimedOut, why));
                }
                Err(_) => std::thread::sleep(Duration::from_millis(50)),
            }
        }
    }
}

/// Tests a folder together with another machine that runs the same test at the same time. Returns
/// the name of the other machine.
///
/// # Errors
/// `Setting` if the other machine does not answer within `patience`, does not see a lock, or if a
/// rename replaces a folder.
pub(crate) fn check_with_peer(folder: &Path, patience: Duration) -> Result<String> {
    check(folder)?;
    let meeting = Rendezvous { folder: folder.join(FOLDER), until: Instant::now() + patience };
    let own_id = host::unique_id()?;
    // Whoever makes the folder is first.
    let tested = match fs::create_dir(&meeting.folder) {
        Ok(()) => {
            let tested = first(&meeting, &own_id);
            let _ = fs::remove_dir_all(&meeting.folder);
            tested
        }
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => second(&meeting, &own_id),
        Err(e) => Err(e),
    };
    tested.map_err(|e| unusable(folder, &e.to_string()))
}

fn first(meeting: &Rendezvous, own_id: &str) -> io::Result<String> {
    let lock = File::create(meeting.path("lock"))?;
    lock.lock()?;
    fs::create_dir(meeting.path("run"))?;
    fs::write(meeting.path("run/file"), own_id)?;
    meeting.send("first", own_id)?;
    let other = meeting.receive("second")?;
    let found = meeting.receive("found")?;
    let kept = fs::read_to_string(meeting.path("run/file"))?;
    lock.unlock()?;
    meeting.send("unlocked", "")?;
    let locked = meeting.receive("locked")?;
    match (found.as_str(), locked.as_str(), kept == own_id) {
        ("kept away", "got it", true) => Ok(other),
        ("kept away", "got it", false) => Err(io::Error::other("a rename replaced a folder")),
        (found, locked, _) => Err(io::Error::other(format!(
            "{other} was not kept away by a lock of this machine ({found}; then {locked})"
        ))),
    }
}

fn second(meeting: &Rendezvous, own_id: &str) -> io::Result<String> {
    let other = meeting.receive("first")?;
    meeting.send("second", own_id)?;
    let lock = File::open(meeting.path("lock"))?;
    let own_folder = meeting.path("mine");
    fs::create_dir(&own_folder)?;
    fs::write(own_folder.join("file"), own_id)?;
    let replaced = fs::rename(&own_folder, meeting.path("run")).is_ok();
    let found = match lock.try_lock() {
        Err(TryLockError::WouldBlock) => "kept away".to_owned(),
        Err(TryLockError::Error(e)) => e.to_string(),
        Ok(()) => "it got the lock too".to_owned(),
    };
    meeting.send("found", &found)?;
    meeting.receive("unlocked")?;
    let got = match lock.try_lock() {
        Ok(()) => "got it".to_owned(),
        Err(e) => e.to_string(),
    };
    meeting.send("locked", &got)?;
    match (found.as_str(), got.as_str(), replaced) {
        ("kept away", "got it", false) => Ok(other),
        (_, _, true) => Err(io::Error::other("a rename replaced a folder of the other machine")),
        _ => Err(io::Error::other(format!("no lock keeps this machine away ({found}; {got})"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_processes_meet_and_a_single_one_is_noted() {
        let folder = tempfile::tempdir().unwrap();
        let long = Duration::from_secs(600);
        std::thread::scope(|scope| {
            let one = scope.spawn(|| check_with_peer(folder.path(), long));
            let two = scope.spawn(|| check_with_peer(folder.path(), long));
            let names = [one.join().unwrap().unwrap(), two.join().unwrap().unwrap()];
            assert_ne!(names[0], names[1]);
            assert!(names.iter().all(|name| name.contains(host::name())), "{names:?}");
        });
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left");
        let alone = check_with_peer(folder.path(), Duration::from_millis(200)).unwrap_err();
        assert!(alone.to_string().contains("does not answer"), "{alone}");
        assert!(alone.advice().contains("EPSILAB_HOME"));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left");
    }
}
