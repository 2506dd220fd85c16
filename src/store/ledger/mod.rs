//! The ledger of a data set in a file: read and verified as a whole, appended to under a file lock.
//!
//! The file `<data-hash>.jsonl` is in JSON lines, one [`Entry`] per line, which ends in a hash of
//! itself and the line before. Beside it is its head `<data-hash>.head`, which records the number
//! of entries and the last hash. Changed, removed, added and moved lines are detected, and so is a
//! file that was truncated, lost or replaced by an older copy. This is evidence against accidents
//! and casual edits. It is not a signature: no secret key is involved, so anyone who can write both
//! files can forge or remove both.

mod chain;
mod head;
#[cfg(test)]
mod tamper_tests;
#[cfg(test)]
mod tests;

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::clock::utc_now;
use crate::privacy::ledger::{Book, LedgerState};
use crate::privacy::{Entry, Ledger};
use crate::{Error, ErrorKind, Result, file, privacy};
use chain::Chain;
use head::Head;

/// The format of a line.
const FORMAT: u32 = 2;

/// A line of the file, without its link.
#[derive(Serialize, Deserialize)]
struct Line {
    format: u32,
    #[serde(flatten)]
    entry: Entry,
}

/// The format alone, so that a newer file is reported as newer and not as corrupt.
#[derive(Deserialize)]
struct Version {
    format: u32,
}

/// Opens the ledger in the file `path`, whose name is the content hash of its data set:
/// `<data-hash>.jsonl`. Creates the file and its folders if they do not exist. Several processes
/// may use the same file at once.
///
/// # Guarantee
/// An entry is on disk when it is recorded. Three changes are not detected from the files alone:
/// both files removed together, which looks like an unused data set; both replaced by an older copy
/// together; and a forgery by someone who can write both files. The functions of
/// [`lab`](crate::lab) detect the first two if a missing run is still stored in the project with
/// its settings unchanged. They do not detect a missing run whose folder was removed too, or that
/// was never stored because it failed or was killed. They do not detect a missing budget if no
/// stored run is missing with it.
///
/// # Errors
/// Kind `Io` if the file cannot be created or read. Kind `Ledger` if it fails verification, or if
/// it is missing while its head exists.
pub fn open_ledger(path: &Path) -> Result<Ledger> {
    LedgerFile::create(path).map(Ledger::new)
}

/// Opens the ledger in an existing file. Nothing is written before something is charged, so read
/// permission suffices for looking at it.
///
/// # Errors
/// As [`open_ledger`]. Kind `Io` also if the file does not exist.
pub(super) fn open_existing_ledger(path: &Path) -> Result<Ledger> {
    let file = LedgerFile::at(path);
    file.read()?;
    Ok(Ledger::new(file))
}

/// The file of a ledger, with its head beside it.
struct LedgerFile {
    path: PathBuf,
    data_hash: String,
}

/// The verified contents of a file.
struct Contents {
    entries: Vec<Entry>,
    /// Number of lines, including those that were appended after reading.
    lines: usize,
    chain: Chain,
    /// Length of the text in bytes.
    length: u64,
    /// Whether the head counts fewer lines than the file has, because of a crash.
    head_is_behind: bool,
}

impl LedgerFile {
    /// Creates the file and its folders if they do not exist, and verifies the contents.
    fn create(path: &Path) -> Result<Self> {
        let ledger = Self::at(path);
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            std::fs::create_dir_all(folder)
                .map_err(|e| Error::io(format!("creating the folder {}", folder.display()), &e))?;
        }
        // A head proves that there was a ledger; in that case an empty one must not be created.
        let create = !head::path_beside(path).exists();
        // Append mode creates a missing file and never truncates an existing one.
        let file = ledger.open_for_append(create)?;
        // The directory entry of the file must survive a crash like its lines.
        file.sync_all()
            .and_then(|()| file::sync_parent_dir(path))
            .map_err(|e| ledger.io("syncing", &e))?;
        ledger.read()?;
        Ok(ledger)
    }

    /// Returns the file as it is. Nothing is created; the contents are verified when they are
    /// read.
    fn at(path: &Path) -> Self {
        let data_hash = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        Self { path: path.to_path_buf(), data_hash }
    }

    /// Reads and verifies the whole file.
    fn read(&self) -> Result<Contents> {
        self.check_regular()?;
        let mut file = File::open(&self.path).map_err(|e| self.open_error("reading", &e))?;
        file.lock_shared().map_err(|e| self.io("locking", &e))?;
        self.read_contents(&mut file)
    }

    /// Appends entries, with the time, if `check` accepts those on record. Returns when they are on
    /// disk. After a crash, the first entries of them may be on record.
    fn append_checked(
        &self,
        entries: &[Entry],
        check: impl FnOnce(&[Entry]) -> privacy::Result<()>,
    ) -> Result<()> {
        let now = utc_now();
        let dated = |entry: &Entry| {
            if entry.recorded_at.is_empty() {
                Entry { recorded_at: now.clone(), ..entry.clone() }
            } else {
                entry.clone()
            }
        };
        if entries.is_empty() {
            return Ok(());
        }
        // Until the file is closed, no other process writes between check and append.
        let file = &mut self.open_for_append(false)?;
        file.lock().map_err(|e| self.io("locking", &e))?;
        let contents = &mut self.read_contents(file)?;
        check(&contents.entries)?;
        let texts: Vec<String> =
            entries.iter().map(|entry| self.serialise(&dated(entry))).collect::<Result<_>>()?;
        let Some((first, others)) = texts.split_first() else { return Ok(()) };
        // The head of an empty ledger has no entry from which it could announce others.
        self.write(file, contents, first)?;
        if others.is_empty() {
            return Ok(());
        }
        let (known, tail) = (contents.lines, contents.chain.last().to_owned());
        let mut text = String::new();
        for entry in others {
            let line = contents.chain.with_link(entry);
            contents.chain.advance(&line);
            text.push_str(&line);
            text.push('\n');
        }
        let end = Head::at(known + others.len(), contents.chain.last().to_owned());
        let coming = Some(Box::new(end.clone()));
        let head = |e: io::Error| self.io("writing the head of", &e);
        Head { pending: coming, ..Head::at(known, tail) }.write(&self.path).map_err(head)?;
        self.append_text(file, contents.length, &text)?;
        end.write(&self.path).map_err(head)
    }

    /// Appends an entry that the ledger has accepted. Returns when it is on disk.
    fn write(&self, file: &mut File, contents: &mut Contents, entry: &str) -> Result<()> {
        let chain = &mut contents.chain;
        let line = chain.with_link(entry);
        let mut head = Head::at(contents.lines, chain.last().to_owned());
        if contents.head_is_behind {
            // Before the new line: a second crash would leave the file two entries ahead of its
            // head.
            head.write(&self.path).map_err(|e| self.io("writing the head of", &e))?;
            contents.head_is_behind = false;
        }
        self.append_text(file, contents.length, &format!("{line}\n"))?;
        chain.advance(&line);
        head = Head::at(head.entries + 1, chain.last().to_owned());
        head.write(&self.path).map_err(|e| self.io("writing the head of", &e))?;
        contents.length += line.len() as u64 + 1;
        contents.lines += 1;
        Ok(())
    }

    /// Appends lines to a file of this length. Returns when they are on disk.
    fn append_text(&self, file: &mut File, length: u64, text: &str) -> Result<()> {
        if let Err(e) = file.write_all(text.as_bytes()) {
            // A full disk may take part of a line. The entry was not made, so it is removed again.
            // If that fails too, the next reader reports the incomplete line.
            let _ = file.set_len(length);
            return Err(self.io("writing to", &e));
        }
        file.sync_all().map_err(|e| self.io("syncing", &e))
    }

    /// Returns the JSON object of an entry. Checks that it can be read back, because a line that
    /// cannot would make the ledger unreadable.
    fn serialise(&self, entry: &Entry) -> Result<String> {
        let reject = |why: String| {
            Error::new(ErrorKind::Ledger, format!("{} can't be written", entry.subject()), why)
        };
        let line = Line { format: FORMAT, entry: entry.clone() };
        let text = serde_json::to_string(&line).map_err(|e| reject(e.to_string()))?;
        let back: Line = serde_json::from_str(&text).map_err(|e| reject(e.to_string()))?;
        back.entry.check(&self.data_hash)?;
        Ok(text)
    }

    /// Reads and verifies the whole file and its head. The caller holds the lock.
    fn read_contents(&self, file: &mut File) -> Result<Contents> {
        let mut text = String::new();
        file.read_to_string(&mut text).map_err(|e| match e.kind() {
            io::ErrorKind::InvalidData => self.corrupt(1, "the file is not text"),
            _ => self.io("reading", &e),
        })?;
        let mut entries = Vec::new();
        let mut account = LedgerState::default();
        let mut chain = Chain::new(&self.data_hash);
        // The link after each line.
        let mut links = Vec::new();
        for (i, line) in text.split_inclusive('\n').enumerate() {
            let number = i + 1;
            let entry = self.parse_line(number, line, &mut chain)?;
            account.add(&entry).map_err(|e| self.corrupt(number, &e.summary()))?;
            entries.push(entry);
            links.push(chain.last().to_owned());
        }
        let head_is_behind = self.compare_with_head(&links)?;
        let (lines, length) = (links.len(), text.len() as u64);
        Ok(Contents { entries, lines, chain, length, head_is_behind })
    }

    /// Parses and verifies one line, including its line end, and advances the chain.
    fn parse_line(&self, number: usize, line: &str, chain: &mut Chain) -> Result<Entry> {
        let corrupt = |why: &str| self.corrupt(number, why);
        let Some(text) = line.strip_suffix('\n') else {
            return Err(corrupt("the line is incomplete").fix(
                "an entry is written completely before its release is used, so an incomplete last \
                 line belongs to no release: inspect the line, then remove it manually",
            ));
        };
        let version: Version = serde_json::from_str(text).map_err(|e| corrupt(&e.to_string()))?;
        match version.format {
            FORMAT if !chain.advance(text) => {
                return Err(corrupt(
                    "the hash does not follow from the lines above: this line was changed, or a \
                     line above was changed, removed, added or moved",
                ));
            }
            FORMAT => {}
            other => {
                let why = format!("this version can't read format {other}");
                return Err(corrupt(&why).fix("use the version of epsilab that wrote the ledger"));
            }
        }
        let Line { entry, .. } = serde_json::from_str(text).map_err(|e| corrupt(&e.to_string()))?;
        entry.check(&self.data_hash).map_err(|e| corrupt(&e.summary()))?;
        Ok(entry)
    }

    /// Returns whether the file is ahead of its head: by one entry, or by entries that the head
    /// announces. An error if they do not match.
    fn compare_with_head(&self, links: &[String]) -> Result<bool> {
        let end = links.len() + 1;
        let head = Head::read(&self.path).map_err(|e| match e.kind() {
            io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => self
                .corrupt(end, &format!("the head can't be read ({e})"))
                .fix(self.recovery_advice(links)),
            _ => self.io("reading the head of", &e),
        })?;
        let Some(Head { entries, chain, pending }) = head else {
            // The first head is written after its line.
            return match links.len() {
                lines @ 0..=1 => Ok(lines == 1),
                _ => Err(self.corrupt(end, "the head is missing").fix(self.recovery_advice(links))),
            };
        };
        if entries > links.len() {
            return Err(self.corrupt(
                end,
                &format!(
                    "the file ends after {} of {entries} entries: lines at its end were removed, \
                     or the file was replaced by an older copy",
                    links.len()
                ),
            ));
        }
        let at_head = entries.checked_sub(1).and_then(|last| links.get(last));
        if at_head != Some(&chain) {
            return Err(self.corrupt(
                entries.max(1),
                "the hash differs from the one in the head: ledger and head do not belong together",
            ));
        }
        if let Some(pending) = pending
            && links.len() <= pending.entries
            && (links.len() < pending.entries || links[pending.entries - 1] == pending.chain)
        {
            return Ok(links.len() > entries);
        }
        match links.len() - entries {
            ahead @ 0..=1 => Ok(ahead == 1),
            ahead => Err(self
                .corrupt(end, &format!("the file is {ahead} entries ahead of its head"))
                .fix(self.recovery_advice(links))),
        }
    }

    /// Returns advice on how to recover when the head is missing or behind, and the chain of the
    /// file is intact.
    fn recovery_advice(&self, links: &[String]) -> String {
        let chain = links.last().cloned().unwrap_or_default();
        format!(
            "restore {} from a backup; or, only if you know that no entry is missing at the end of \
             the ledger, write into it: {}",
            head::path_beside(&self.path).display(),
            Head::at(links.len(), chain).to_json()
        )
    }

    /// Opens the file for appending; only `create` creates it: a file that disappeared must not
    /// come back empty.
    fn open_for_append(&self, create: bool) -> Result<File> {
        self.check_regular()?;
        let opened = OpenOptions::new().read(true).append(true).create(create).open(&self.path);
        opened.map_err(|e| match e.kind() {
            io::ErrorKind::PermissionDenied => self.io("writing to", &e).fix(
                "training must first be charged to this file: get write permission for the file \
                 and its folder",
            ),
            _ => self.open_error("opening", &e),
        })
    }

    /// Checks that the file is a regular one: opening a pipe would block until its other end is
    /// opened.
    fn check_regular(&self) -> Result<()> {
        match std::fs::metadata(&self.path) {
            Ok(file) if !file.is_file() => Err(self.corrupt(1, "the ledger is not a regular file")),
            _ => Ok(()),
        }
    }

    fn open_error(&self, action: &str, error: &io::Error) -> Error {
        let head = head::path_beside(&self.path);
        if error.kind() == io::ErrorKind::NotFound && head.exists() {
            return self.corrupt(
                1,
                &format!("the file is missing, but its head {} exists", head.display()),
            );
        }
        self.io(action, error)
    }

    fn corrupt(&self, line: usize, why: &str) -> Error {
        Error::new(
            ErrorKind::Ledger,
            format!("the ledger {}, line {line}, can't be trusted", self.path.display()),
            why.to_string(),
        )
        .fix(
            "restore the file and its head (.head) from a backup; a ledger is never reset \
             automatically. Without a backup, treat every use of these data as spent",
        )
    }

    fn io(&self, action: &str, source: &io::Error) -> Error {
        Error::io(format!("{action} the ledger {}", self.path.display()), source)
    }
}

impl Book for LedgerFile {
    fn data_hash(&self) -> &str {
        &self.data_hash
    }

    fn entries(&self) -> privacy::Result<Vec<Entry>> {
        self.read().map(|contents| contents.entries).map_err(Error::into_book_error)
    }

    fn append(
        &self,
        new: &[Entry],
        check: &dyn Fn(&[Entry]) -> privacy::Result<()>,
    ) -> privacy::Result<()> {
        self.append_checked(new, check).map_err(Error::into_book_error)
    }
}
