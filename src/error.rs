//! The one error of the library: what is wrong, the value, why it matters, what to do.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// What sort of thing went wrong, for code that wants to branch on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A setting is outside its range, or two settings contradict each other.
    Setting,
    /// Data that was asked for is not on this machine.
    MissingData,
    /// A file was found but is not what it should be: truncated, wrong magic, wrong hash, bad
    /// label.
    CorruptData,
    /// An accountant can't account this event, or a target can't be reached.
    Accounting,
    /// A release would overspend a limit, or the ledger can't be trusted.
    Ledger,
    /// A model can't be built, trained privately, saved or loaded.
    Model,
    /// A device can't be used, or ran out of memory.
    Device,
    /// The operating system refused: files, sockets, processes.
    Io,
    /// The notebook, kernel or installation is not in order.
    Notebook,
}

/// Anything that can go wrong in the lab.
///
/// Reads as four short sentences, in this order: what is wrong (with the value), why it matters,
/// and what to do next.
#[derive(Clone, PartialEq, Eq)]
pub struct Error {
    kind: ErrorKind,
    what: String,
    why: String,
    fix: String,
    attached: Option<Attached>,
}

/// A value that an error carries, equal to itself only.
#[derive(Clone)]
struct Attached(Arc<dyn Any + Send + Sync>);

impl PartialEq for Attached {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Attached {}

/// Results of the lab. The second parameter stays open: notebooks glob-import this name.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// A new error: `what` names the thing and its value, `why` says why it matters.
    pub fn new(kind: ErrorKind, what: impl Into<String>, why: impl Into<String>) -> Self {
        let (what, why, fix) = (what.into(), why.into(), String::new());
        Self { kind, what, why, fix, attached: None }
    }

    /// A setting outside its range: `name = value` and why that can't be.
    pub fn setting(name: &str, value: impl fmt::Display, why: impl Into<String>) -> Self {
        Self::new(ErrorKind::Setting, format!("{name} = {value}"), why)
    }

    /// A failed call to the operating system.
    pub fn io(doing: impl Into<String>, source: &std::io::Error) -> Self {
        Self::new(ErrorKind::Io, doing, source.to_string())
    }

    /// Adds the advice: what to do next.
    pub fn fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = fix.into();
        self
    }

    /// The same error with one more piece of advice.
    pub(crate) fn also(self, more: impl fmt::Display) -> Self {
        let fix = match self.fix.is_empty() {
            true => more.to_string(),
            false => format!("{}; {more}", self.fix),
        };
        Self { fix, ..self }
    }

    /// The same error carrying a value, such as what was finished before it happened. The type of
    /// the value offers an accessor of its own.
    pub(crate) fn carrying(self, value: impl Any + Send + Sync) -> Self {
        Self { attached: Some(Attached(Arc::new(value))), ..self }
    }

    /// The value that the error carries, if it has this type.
    pub(crate) fn carried<T: Any>(&self) -> Option<&T> {
        self.attached.as_ref()?.0.downcast_ref()
    }

    /// The sort of error.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// What is wrong.
    pub fn what(&self) -> &str {
        &self.what
    }

    /// What to do next (may be empty).
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

/// The same text as `Display`: a cell that fails with `?` prints the `Debug` form.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Error {}
