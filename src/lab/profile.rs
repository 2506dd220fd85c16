//! Profiles: one notebook can run for a test, for a class, or at full size.

use std::fmt;

/// How long a notebook may take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Profile {
    /// Seconds, for a test.
    Tiny,
    /// Minutes on two cores, for a class.
    #[default]
    Default,
    /// The settings of the papers.
    Full,
}

/// The profile of this session: the environment variable `EPSILAB_PROFILE` (`tiny`, `default` or
/// `full`). Any other value means the default.
pub(crate) fn profile() -> Profile {
    match std::env::var("EPSILAB_PROFILE").as_deref() {
        Ok("tiny") => Profile::Tiny,
        Ok("full") => Profile::Full,
        _ => Profile::Default,
    }
}

/// The value for the profile of this session.
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
