//! How long a notebook may take: one notebook for the test, the class and the study.

use std::fmt;

/// The profile a notebook runs in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Profile {
    /// Seconds: to see that everything works.
    Tiny,
    /// Minutes, on two cores: for a class.
    #[default]
    Default,
    /// As in the papers.
    Full,
}

/// The profile of this session: `$EPSILAB_PROFILE` (`tiny`, `default`, `full`); anything else is
/// the default.
pub fn profile() -> Profile {
    match std::env::var("EPSILAB_PROFILE").as_deref() {
        Ok("tiny") => Profile::Tiny,
        Ok("full") => Profile::Full,
        _ => Profile::Default,
    }
}

/// One of three values, by the profile of this session.
pub fn by_profile<T>(tiny: T, default: T, full: T) -> T {
    match profile() {
        Profile::Tiny => tiny,
        Profile::Default => default,
        Profile::Full => full,
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tiny => "tiny",
            Self::Default => "default",
            Self::Full => "full",
        })
    }
}
