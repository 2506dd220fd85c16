//! [`Error`], the error type of the library.

use std::fmt;
use std::sync::Arc;

use crate::privacy;

/// The category of an [`Error`], for code that handles categories differently.
///
/// ```
/// use epsilab::prelude::*;
/// let options = ImageOptions::size(32);
/// let photos = match data::image_folder("no/such/folder", &options) {
///     Err(error) if error.kind() == ErrorKind::MissingData => data::glyphs_with(20, 10, 1)?,
///     other => other?,
/// };
/// assert_eq!(photos.train().len(), 20);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A setting is outside its range, or two settings contradict each other.
    Setting,
    /// The requested data is not on this machine, or a data set lacks a required part.
    MissingData,
    /// A file was found but is not what it should be: truncated, wrong magic, wrong hash, bad
    /// label.
    CorruptData,
    /// An accountant does not support an event, or a privacy target can't be reached.
    Accounting,
    /// A release would exceed a budget, or the ledger can't be trusted.
    Ledger,
    /// A model can't be built, trained privately, saved or loaded.
    Model,
    /// A device can't be used, or ran out of memory.
    Device,
    /// An operation of the operating system failed: files, sockets, processes.
    Io,
    /// The notebook, the Jupyter kernel or the installation does not work.
    Notebook,
}

/// The error type of the library.
///
/// Its text has three parts, in this order: what is wrong, with the value that was given; why it
/// matters; and what to do about it (may be empty). Two errors are equal if their texts and kinds
/// are.
///
/// ```
/// use epsilab::prelude::*;
/// let population = data::Population::with_size(60_000);
/// let error = DpSgd::new().plan_for(&population).unwrap_err(); // neither target nor noise
/// assert_eq!(error.kind(), ErrorKind::Setting);
/// println!("{}, {}: {}", error.what(), error.why(), error.advice());
/// // One of your own.
/// let error = Error::setting("temperature", -1.0, "must be positive").fix("try 1.0");
/// assert_eq!(error.what(), "temperature = -1");
/// ```
#[derive(Clone)]
pub struct Error {
    kind: ErrorKind,
    what: String,
    why: String,
    fix: String,
    /// The error of the operating system that it reports.
    source: Option<Arc<std::io::Error>>,
}

impl PartialEq for Error {
    fn eq(&self, other: &Self) -> bool {
        (self.kind, &self.what, &self.why, &self.fix)
            == (other.kind, &other.what, &other.why, &other.fix)
    }
}

impl Eq for Error {}

/// Results of the lab. The second parameter stays open: notebooks glob-import this name.
///
/// ```
/// use epsilab::prelude::*;
/// fn parameters(data: &Dataset) -> Result<usize> {
///     Ok(models::linear(data).build()?.num_parameters())
/// }
/// assert_eq!(parameters(&data::glyphs_with(2, 0, 1)?)?, 784 * 10 + 10);
/// # Ok::<(), Error>(())
/// ```
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// Creates an error. `what` states what is wrong, with the value; `why` states why it matters.
    pub fn new(kind: ErrorKind, what: impl Into<String>, why: impl Into<String>) -> Self {
        let (what, why, fix) = (what.into(), why.into(), String::new());
        Self { kind, what, why, fix, source: None }
    }

    /// Creates an error of kind [`ErrorKind::Setting`] for `name = value`.
    pub fn setting(name: &str, value: impl fmt::Display, why: impl Into<String>) -> Self {
        Self::new(ErrorKind::Setting, format!("{name} = {value}"), why)
    }

    /// Creates an error of kind [`ErrorKind::Io`] for a failed operation; `action` describes the
    /// operation.
    pub fn io(action: impl Into<String>, source: &std::io::Error) -> Self {
        let error = Self::new(ErrorKind::Io, action, source.to_string());
        let error = Self { source: Some(Arc::new(copy(source))), ..error };
        match source.kind() {
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
                error.fix("free some space on that disk, then run the same again")
            }
            std::io::ErrorKind::FileTooLarge => error.fix(
                "raise the limit of the size of files (`ulimit -f`, or a quota), or free space, \
                 then run the same again",
            ),
            _ => error,
        }
    }

    /// Sets the advice: what to do about the error.
    pub fn fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = fix.into();
        self
    }

    /// Adds one more piece of advice.
    pub(crate) fn append_advice(self, more: impl fmt::Display) -> Self {
        let fix =
            if self.fix.is_empty() { more.to_string() } else { format!("{}; {more}", self.fix) };
        Self { fix, ..self }
    }

    /// Returns the category of the error.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Returns what is wrong, with the value.
    pub fn what(&self) -> &str {
        &self.what
    }

    /// Returns why it matters.
    pub fn why(&self) -> &str {
        &self.why
    }

    /// Returns what to do about the error; may be empty.
    pub fn advice(&self) -> &str {
        &self.fix
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.why)?;
        if !self.fix.is_empty() {
            write!(f, "\n  what to do: {}", self.fix)?;
        }
        Ok(())
    }
}

/// Prints the same text as `Display`, because a notebook cell that fails with `?` prints the
/// `Debug` form.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

/// Converts an error of accounting; gives the library's own error back where that is its source, as
/// for the file of a ledger.
impl From<privacy::Error> for Error {
    fn from(error: privacy::Error) -> Self {
        let source = std::error::Error::source(&error);
        if let Some(inner) = source.and_then(|source| source.downcast_ref::<Self>())
            && inner.to_string() == error.to_string()
        {
            return inner.clone();
        }
        let kind = match error.kind() {
            privacy::ErrorKind::Setting => ErrorKind::Setting,
            privacy::ErrorKind::Ledger => ErrorKind::Ledger,
            privacy::ErrorKind::Book => ErrorKind::Io,
            _ => ErrorKind::Accounting,
        };
        let same = Self::new(kind, error.what(), error.why()).fix(error.advice());
        let source = source.and_then(|source| source.downcast_ref::<std::io::Error>());
        Self { source: source.map(|source| Arc::new(copy(source))), ..same }
    }
}

impl Error {
    /// Returns the error of a [`Book`](privacy::ledger::Book) of this library, from which
    /// [`Error::from`] makes this one again.
    pub(crate) fn into_book_error(self) -> privacy::Error {
        let kind = match self.kind {
            ErrorKind::Ledger => privacy::ErrorKind::Ledger,
            _ => privacy::ErrorKind::Book,
        };
        let same = privacy::Error::new(kind, self.what(), self.why.as_str()).fix(self.advice());
        same.caused_by(self)
    }
}

/// Returns an error of the operating system with the same code, or the same kind and text.
fn copy(source: &std::io::Error) -> std::io::Error {
    match source.raw_os_error() {
        Some(code) => std::io::Error::from_raw_os_error(code),
        None => std::io::Error::new(source.kind(), source.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use super::*;

    #[test]
    fn the_error_of_the_operating_system_is_the_source() {
        let full = std::io::Error::from_raw_os_error(28);
        let error = Error::io("writing a", &full);
        let source = error.source().and_then(|source| source.downcast_ref::<std::io::Error>());
        assert_eq!(source.and_then(std::io::Error::raw_os_error), Some(28));
        assert_eq!(error.clone(), error);
        assert!(error.clone().fix("free space").source().is_some());
        let io_error = std::io::Error::other("an end");
        assert_eq!(
            Error::io("reading a", &io_error).source().map(|e| e.to_string()),
            Some("an end".into())
        );
        assert!(Error::setting("a", 1, "b").source().is_none());
    }

    #[test]
    fn the_error_of_a_book_comes_back_as_it_was() {
        let full = Error::io("writing a", &std::io::Error::from_raw_os_error(28));
        let book_error = full.clone().into_book_error();
        assert_eq!(book_error.kind(), privacy::ErrorKind::Book);
        let back = Error::from(book_error.clone());
        assert_eq!(back, full);
        assert!(back.source().is_some(), "with that of the operating system");
        // Advice that was given on the way is kept.
        assert_eq!(Error::from(book_error.fix("another disk")).advice(), "another disk");
        let ledger = Error::new(ErrorKind::Ledger, "line 3", "changed").into_book_error();
        assert_eq!(Error::from(ledger).kind(), ErrorKind::Ledger);
    }
}
