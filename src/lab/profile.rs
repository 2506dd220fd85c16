//! Profiles of a notebook: a test, a class, or full size.

/// Returns the value for the profile of this session: the environment variable `EPSILAB_PROFILE`,
/// which is `tiny` (seconds, for a test), `default` (minutes on two cores, for a class) or `full`
/// (the settings of the papers). Any other value means the default.
pub fn by_profile<T>(tiny: T, default: T, full: T) -> T {
    match std::env::var("EPSILAB_PROFILE").as_deref() {
        Ok("tiny") => tiny,
        Ok("full") => full,
        _ => default,
    }
}
