//! Storage of the entries of a ledger.

use std::sync::{Mutex, PoisonError};

use super::Entry;
use crate::Result;

/// Storage of the entries of one ledger: in memory, in a file, in a database.
///
/// # Guarantee
/// A [`Ledger`](super::Ledger) relies on its book for this: no entry is lost, changed or moved; an
/// entry that [`append`](Book::append) returned for survives a crash; and between the check and the
/// end of `append`, nobody else adds an entry.
pub trait Book: Send + Sync {
    /// Returns the content hash of the data set.
    fn data_hash(&self) -> &str;

    /// Returns whether runs on any data set may be charged, as in a book in memory that nobody
    /// reads later. A book that is kept is that of one data set.
    fn is_for_any_data(&self) -> bool {
        false
    }

    /// Returns all entries, oldest first.
    ///
    /// # Errors
    /// Kind `Ledger` if they can't be trusted, kind `Book` if they can't be read.
    fn entries(&self) -> Result<Vec<Entry>>;

    /// Appends entries if `check` accepts those on record. Fills in the time of entries without
    /// one, if the book has a clock. Returns when the entries are kept.
    ///
    /// # Errors
    /// That of `check`, and as [`entries`](Book::entries); nothing is appended then. Kind `Book` if
    /// they can't be written: some of them may be on record.
    fn append(&self, new: &[Entry], check: &dyn Fn(&[Entry]) -> Result<()>) -> Result<()>;
}

/// A book in memory, for any data set. Its entries have no time.
#[derive(Debug, Default)]
pub struct MemoryBook(Mutex<Vec<Entry>>);

impl Book for MemoryBook {
    fn data_hash(&self) -> &str {
        "in-memory"
    }

    fn is_for_any_data(&self) -> bool {
        true
    }

    fn entries(&self) -> Result<Vec<Entry>> {
        Ok(self.0.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }

    fn append(&self, new: &[Entry], check: &dyn Fn(&[Entry]) -> Result<()>) -> Result<()> {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        check(&entries)?;
        entries.extend_from_slice(new);
        Ok(())
    }
}
