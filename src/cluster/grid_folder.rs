//! Folder of a submitted grid in the store, `grids/<id>/`.
//!
//! It holds what workers read (`data.safetensors`, `models/`, `tickets-<n>.jsonl`), what they write
//! (`began/`, `failed/`, `aside/`, `logs/`), what the submitter notes for itself (`state.json`),
//! and who has each ticket (`claims/`).

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::ticket::{self, Ticket};
use crate::file::{self, sync_parent_dir};
use crate::store::{host, rename_if_absent};
use crate::{Error, ErrorKind, Result, program};

/// Submissions of a grid, as the submitter records them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct SubmissionState {
    /// Rounds of submission, one for each time that runs were submitted.
    pub(crate) rounds: Vec<SubmissionRound>,
}

/// Runs that were submitted together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SubmissionRound {
    /// Name of the file of tickets.
    pub(crate) tickets: String,
    pub(crate) per_task: usize,
    pub(crate) arrays: Vec<JobArray>,
}

/// An array of jobs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct JobArray {
    /// Name of the array in the batch system, which no other array has.
    pub(crate) name: String,
    /// Number of the first task within the round.
    pub(crate) first: usize,
    /// Number of tasks of the array.
    pub(crate) tasks: usize,
    /// Number of the job in the batch system; `None` before it is known.
    pub(crate) job: Option<u64>,
}

/// Report of a worker on a run that it could not finish.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Failure {
    pub(crate) host: String,
    pub(crate) error: String,
}

/// Final owner of a ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holder {
    /// Workers, because one began the ticket: its entry stays charged.
    Workers,
    /// Submitter, who withdrew the ticket: no worker may begin it.
    Submitter,
}

impl Holder {
    /// Returns the name of the file in the folder of a claim.
    fn file(self) -> &'static str {
        match self {
            Self::Workers => "began",
            Self::Submitter => "withdrawn",
        }
    }
}

/// The folder of a submitted grid.
#[derive(Clone, Debug)]
pub(crate) struct GridFolder {
    path: PathBuf,
}

impl GridFolder {
    /// Returns the folder of the grid with these runs in the store `home`.
    pub(crate) fn for_runs<'a>(home: &Path, ids: impl Iterator<Item = &'a str>) -> Self {
        let mut sha = Sha256::new_with_prefix(b"epsilab grid 1\n");
        ids.for_each(|id| sha.update(format!("{id}\n")));
        let id: String = sha.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        Self { path: home.join("grids").join(id) }
    }

    /// Returns the folder that a file of tickets is in, and the store that it belongs to.
    pub(crate) fn from_ticket_path(tickets: &Path) -> Result<(Self, PathBuf)> {
        let tickets = std::path::absolute(tickets).unwrap_or_else(|_| tickets.to_owned());
        let mut above = tickets.ancestors().skip(1);
        match (above.next(), above.nth(1)) {
            (Some(path), Some(home)) => Ok((Self { path: path.to_owned() }, home.to_owned())),
            _ => Err(Error::setting("--tickets", tickets.display(), "the file is not in a store")
                .fix("give the file that the submitter wrote, in the folder grids/ of its store")),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns a short name of the grid.
    pub(crate) fn name(&self) -> String {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        name.chars().take(8).collect()
    }

    /// Makes the folder, which only its owner may enter: it holds a copy of the data.
    pub(crate) fn create_dirs(&self) -> Result<()> {
        for name in ["models", "began", "failed", "aside", "claims", "logs"] {
            let path = self.path.join(name);
            let mut builder = fs::DirBuilder::new();
            builder.recursive(true);
            #[cfg(unix)]
            std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
            builder
                .create(&path)
                .map_err(|e| Error::io(format!("creating the folder {}", path.display()), &e))?;
        }
        Ok(())
    }

    /// Locks the grid against other submitters until the returned file is dropped.
    ///
    /// # Errors
    /// `Io` if another process has the lock, or files can't be locked here.
    pub(crate) fn lock(&self) -> Result<File> {
        let path = self.path.join("lock");
        let failed = |e: &std::io::Error| Error::io(format!("locking {}", path.display()), e);
        let file = File::options().create(true).append(true).open(&path).map_err(|e| failed(&e))?;
        match file.try_lock() {
            Ok(()) => Ok(file),
            Err(fs::TryLockError::WouldBlock) => {
                let what = "another process submits or collects this grid";
                let why = "both processes would charge the same runs";
                Err(Error::new(ErrorKind::Io, what, why).fix("wait until it has finished"))
            }
            Err(fs::TryLockError::Error(e)) => Err(failed(&e).fix(format!(
                "put the store (EPSILAB_HOME) on a file system with locks; `{}` tests one",
                program::command("doctor --shared DIR")
            ))),
        }
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.path.join("data.safetensors")
    }

    pub(crate) fn model(&self, seed: u64) -> PathBuf {
        self.path.join(format!("models/{seed}.safetensors"))
    }

    pub(crate) fn tickets(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Returns a new path for a second training of a run whose results differ in their bits from
    /// the first.
    pub(crate) fn new_conflict_path(&self, attempt: &str) -> Result<PathBuf> {
        Ok(self.path.join("aside").join(format!("{attempt}.{}", host::unique_id()?)))
    }

    /// Returns the runs that were set aside: their folders, by name.
    ///
    /// # Errors
    /// `Io` if they can't be listed: each must be charged.
    pub(crate) fn list_conflicts(&self) -> Result<Vec<PathBuf>> {
        let mut all = list(&self.path.join("aside"))?;
        all.sort();
        Ok(all)
    }

    pub(crate) fn state(&self) -> Result<SubmissionState> {
        let path = self.path.join("state.json");
        let text = match fs::read(&path) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                return Ok(SubmissionState::default());
            }
            text => text.map_err(|e| Error::io(format!("reading {}", path.display()), &e))?,
        };
        serde_json::from_slice(&text).map_err(|e| {
            let what = format!("the state of the grid in {}", path.display());
            Error::new(ErrorKind::CorruptData, what, e.to_string())
                .fix("restore it from a backup; or remove it once no job of the grid is queued")
        })
    }

    pub(crate) fn write_state(&self, state: &SubmissionState) -> Result<()> {
        let path = self.path.join("state.json");
        let text = serde_json::to_vec_pretty(state).map_err(|e| {
            let what = format!("writing {}", path.display());
            Error::new(ErrorKind::Io, what, e.to_string()).fix("please report this error")
        })?;
        file::write(path, text)
    }

    /// Reads the tickets of all rounds.
    pub(crate) fn all_tickets(&self, state: &SubmissionState) -> Result<Vec<(usize, Vec<Ticket>)>> {
        let read = |(n, round): (usize, &SubmissionRound)| {
            let path = self.tickets(&round.tickets);
            Ok((n, ticket::read(&path, 0, usize::MAX)?.1))
        };
        state.rounds.iter().enumerate().map(read).collect()
    }

    /// Records that a worker of this process begins an attempt, and returns the notes of others
    /// about it. The note is on disk before the others are read: of two workers that begin at
    /// once, one learns of the other.
    ///
    /// # Errors
    /// `Setting` if the ticket was withdrawn; `Io` if that can't be known, a file can't be written,
    /// or a note can't be read: the statement of the run depends on them.
    pub(crate) fn begin_attempt(&self, attempt: &str, note: &str) -> Result<Vec<String>> {
        self.begin_and_list(attempt, note, list)
    }

    /// Begins an attempt like [`begin_attempt`](Self::begin_attempt), with the given function that
    /// lists a folder.
    fn begin_and_list(
        &self,
        attempt: &str,
        note: &str,
        list: impl FnOnce(&Path) -> Result<Vec<PathBuf>>,
    ) -> Result<Vec<String>> {
        if self.claim(attempt, Holder::Workers)? == Holder::Submitter {
            let what = format!("the ticket {attempt}");
            let why = "the ticket was withdrawn and is no longer charged";
            return Err(Error::new(ErrorKind::Setting, what, why).fix("submit the grid again"));
        }
        let own_path = self.path.join("began").join(format!("{attempt}.{}", host::unique_id()?));
        write_synced(&own_path, note.as_bytes())?;
        let notes = list(&self.path.join("began"))?;
        let is_other =
            |path: &&PathBuf| **path != own_path && attempt_of(path).as_deref() == Some(attempt);
        let read = |path: &PathBuf| {
            fs::read_to_string(path)
                .map_err(|e| Error::io(format!("reading {}", path.display()), &e))
        };
        notes.iter().filter(is_other).map(read).collect()
    }

    /// Withdraws tickets, and returns those that no worker has begun or can begin any more.
    ///
    /// # Errors
    /// `Io` if it can't be known who has a ticket. Nothing may be closed then.
    pub(crate) fn withdraw(&self, attempts: &[String]) -> Result<HashSet<String>> {
        let mut unused = HashSet::new();
        for attempt in attempts {
            if self.claim(attempt, Holder::Submitter)? == Holder::Submitter {
                unused.insert(attempt.clone());
            }
        }
        Ok(unused)
    }

    /// Claims a ticket, and returns its owner: the first to claim it. The claim is on disk when
    /// this returns.
    ///
    /// # Guarantee
    /// A claim is a folder that is renamed to the name of the ticket. A rename replaces no folder
    /// with files, and the server of a shared file system decides it, whatever a machine remembers
    /// of the files it has seen. So all machines agree on one holder.
    ///
    /// # Errors
    /// `Io` if the file system does not say who has it.
    fn claim(&self, attempt: &str, claimant: Holder) -> Result<Holder> {
        let claim = self.path.join("claims").join(attempt);
        let part = claim.with_file_name(format!("{attempt}.{}", host::unique_id()?));
        let failed = |e: std::io::Error| Error::io(format!("claiming {}", claim.display()), &e);
        fs::create_dir(&part).map_err(failed)?;
        write_synced(&part.join(claimant.file()), b"")?;
        match rename_if_absent(&part, &claim) {
            Ok(true) => return sync_parent_dir(&claim).map(|()| claimant).map_err(failed),
            moved => {
                let _ = fs::remove_dir_all(&part);
                moved.map_err(failed)?;
            }
        }
        let named =
            |holder: Holder| list(&claim).map(|all| all.contains(&claim.join(holder.file())));
        match (named(Holder::Workers)?, named(Holder::Submitter)?) {
            (true, false) => Ok(Holder::Workers),
            (false, true) => Ok(Holder::Submitter),
            _ => Err(failed(std::io::Error::other("no file names its owner"))),
        }
    }

    /// Records the error of a run that could not be finished. An error is ignored: the log has it
    /// as well.
    pub(crate) fn fail(&self, attempt: &str, error: &Error) {
        let failure = Failure { host: host::name().to_owned(), error: error.to_string() };
        let path = self.path.join("failed").join(format!("{attempt}.json"));
        if let Ok(text) = serde_json::to_vec(&failure) {
            let _ = file::replace_durably(&path, &text);
        }
    }

    /// Removes the failure or withdrawal of a ticket, because it is charged and handed out again.
    pub(crate) fn reset_ticket(&self, attempt: &str) {
        let claim = self.path.join("claims").join(attempt);
        if fs::remove_file(claim.join(Holder::Submitter.file())).is_ok() {
            // A claim may replace it before, because it is empty.
            let _ = fs::remove_dir(claim);
        }
        let _ = fs::remove_file(self.path.join("failed").join(format!("{attempt}.json")));
    }

    /// Returns the failures, by attempt.
    pub(crate) fn failures(&self) -> HashMap<String, Failure> {
        let read = |path: PathBuf| {
            let attempt = path.file_name()?.to_str()?.strip_suffix(".json")?.to_owned();
            Some((attempt, serde_json::from_slice(&fs::read(path).ok()?).ok()?))
        };
        entries(&self.path.join("failed")).filter_map(read).collect()
    }

    /// Removes the copies of data and models, when all runs are finished.
    pub(crate) fn remove_inputs(&self) {
        let _ = fs::remove_file(self.data());
        entries(&self.path.join("models")).for_each(|path| drop(fs::remove_file(path)));
    }
}

/// Returns the attempt that a note belongs to: the part of its file name before the first dot.
fn attempt_of(path: &Path) -> Option<String> {
    Some(path.file_name()?.to_str()?.split_once('.')?.0.to_owned())
}

/// Returns the files of a folder. A part of them would be wrong.
fn list(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder)
        .and_then(|all| all.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>());
    entries.map_err(|e| Error::io(format!("listing {}", folder.display()), &e))
}

/// Returns the files of a folder as far as they can be listed, for uses where nothing depends on
/// them.
fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path())
}

fn write_synced(path: &Path, bytes: &[u8]) -> Result<()> {
    let written = File::create(path).and_then(|mut file| {
        std::io::Write::write_all(&mut file, bytes)?;
        file.sync_all()
    });
    written.map_err(|e| Error::io(format!("writing {}", path.display()), &e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_worker_and_a_submitter_one_gets_the_ticket() {
        let dir = tempfile::tempdir().unwrap();
        let folder = GridFolder { path: dir.path().to_owned() };
        folder.create_dirs().unwrap();
        let attempts: Vec<String> = (0..400).map(|n| format!("run-{n}")).collect();
        let begin_one = |attempt: &String| folder.begin_attempt(attempt, "here").is_ok();
        let (began, unused) = std::thread::scope(|scope| {
            let began = scope.spawn(|| attempts.iter().map(begin_one).collect::<Vec<_>>());
            // From the other end, so that they meet.
            let backwards: Vec<String> = attempts.iter().rev().cloned().collect();
            let unused = folder.withdraw(&backwards).unwrap();
            (began.join().unwrap(), unused)
        });
        for (attempt, began) in attempts.iter().zip(&began) {
            assert_ne!(*began, unused.contains(attempt), "{attempt}");
        }
        assert!(began.contains(&true) && began.contains(&false), "they met");
    }

    /// A worker that reads before it writes and another that begins at the same time could both
    /// learn nothing.
    #[test]
    fn a_worker_writes_its_note_before_it_reads_those_of_others() {
        let dir = tempfile::tempdir().unwrap();
        let folder = GridFolder { path: dir.path().to_owned() };
        folder.create_dirs().unwrap();
        assert!(folder.begin_attempt("a", "here").unwrap().is_empty());
        assert_eq!(folder.begin_attempt("a", "there").unwrap(), ["here"]);
        assert!(folder.begin_attempt("b", "here").unwrap().is_empty(), "of another attempt");
        // A worker that begins when the notes are about to be listed finds this one.
        let mut other = Vec::new();
        let listed = |path: &Path| {
            other = folder.begin_attempt("c", "other")?;
            list(path)
        };
        assert_eq!(folder.begin_and_list("c", "own", listed).unwrap(), ["other"]);
        assert_eq!(other, ["own"]);
    }

    #[test]
    fn a_ticket_that_is_handed_out_again_can_be_begun() {
        let dir = tempfile::tempdir().unwrap();
        let folder = GridFolder { path: dir.path().to_owned() };
        folder.create_dirs().unwrap();
        let names = ["a".to_owned(), "b".to_owned()];
        assert!(folder.begin_attempt("a", "here").unwrap().is_empty());
        assert_eq!(folder.withdraw(&names).unwrap(), HashSet::from(["b".to_owned()]));
        assert!(folder.begin_attempt("b", "late").unwrap_err().to_string().contains("withdrawn"));
        names.iter().for_each(|name| folder.reset_ticket(name));
        assert!(
            folder.begin_attempt("b", "again").unwrap().is_empty(),
            "the late one noted nothing"
        );
        assert!(folder.withdraw(&names).unwrap().is_empty(), "both were begun");
        assert_eq!(list(&dir.path().join("claims")).unwrap().len(), 2, "no parts are left");
        // A claim without a name says nothing.
        fs::remove_file(dir.path().join("claims/a/began")).unwrap();
        fs::write(dir.path().join("claims/a/other"), "").unwrap();
        assert_eq!(folder.begin_attempt("a", "here").unwrap_err().kind(), ErrorKind::Io);
        assert_eq!(folder.withdraw(&names).unwrap_err().kind(), ErrorKind::Io);
    }
}
