//! [`Error`], the error type of this crate.

use std::fmt;
use std::sync::Arc;

/// The category of an [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A parameter is outside its range.
    Setting,
    /// An accountant does not support an event, an epsilon overflows, or a privacy target can't be
    /// reached.
    Accounting,
    /// An entry would exceed a budget or contradict the ledger, or the ledger can't be trusted.
    Ledger,
    /// The [`Book`](crate::ledger::Book) of a ledger can't be read or written. The source of the
    /// error says why.
    Book,
}

/// The error type of this crate.
///
/// Its text has three parts: what is wrong, with the value that was given; why it matters; and what
/// to do about it (may be empty). Two errors are equal if their texts and kinds are.
#[derive(Clone)]
pub struct Error {
    kind: ErrorKind,
    what: String,
    why: String,
    advice: String,
    source: Option<Arc<dyn std::error::Error + Send + Sync>>,
}

/// A result with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// Returns a new error. `what` states what is wrong, with the value; `why` states why it
    /// matters.
    pub fn new(kind: ErrorKind, what: impl Into<String>, why: impl Into<String>) -> Self {
        Self { kind, what: what.into(), why: why.into(), advice: String::new(), source: None }
    }

    /// Returns an error of kind [`ErrorKind::Setting`] for `name = value`.
    pub fn setting(name: &str, value: impl fmt::Display, why: impl Into<String>) -> Self {
        Self::new(ErrorKind::Setting, format!("{name} = {value}"), why)
    }

    /// Sets the advice: what to do about the error.
    pub fn fix(mut self, advice: impl Into<String>) -> Self {
        self.advice = advice.into();
        self
    }

    /// Sets the error that caused this one.
    pub fn caused_by(mut self, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        self.source = Some(Arc::new(source));
        self
    }

    /// Returns the category.
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

    /// Returns the text without the advice.
    pub fn summary(&self) -> String {
        format!("{}: {}", self.what, self.why)
    }

    /// Returns what to do about the error; may be empty.
    pub fn advice(&self) -> &str {
        &self.advice
    }
}

impl PartialEq for Error {
    fn eq(&self, other: &Self) -> bool {
        (self.kind, &self.what, &self.why, &self.advice)
            == (other.kind, &other.what, &other.why, &other.advice)
    }
}

impl Eq for Error {}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.summary())?;
        if !self.advice.is_empty() {
            write!(f, "\n  what to do: {}", self.advice)?;
        }
        Ok(())
    }
}

/// Prints the same text as `Display`: `main` and notebook cells that fail with `?` print the
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_has_value_reason_and_advice() {
        let error = Error::setting("delta", 2, "a probability is at most 1");
        assert_eq!(error.to_string(), "delta = 2: a probability is at most 1");
        let error = error.fix("use 1e-5");
        assert_eq!(format!("{error:?}").lines().last(), Some("  what to do: use 1e-5"));
        let caused = error.clone().caused_by(std::io::Error::other("no disk"));
        assert_eq!(caused, error, "the text decides, and the kind");
        let new = |kind| Error::new(kind, "what", "why");
        assert_ne!(new(ErrorKind::Ledger), new(ErrorKind::Setting));
        assert_eq!(std::error::Error::source(&caused).unwrap().to_string(), "no disk");
    }
}
