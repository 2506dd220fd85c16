//! Names that no process on another host has.

use std::sync::OnceLock;

use crate::Result;
use crate::train::Seeds;

/// Returns the name of this host, of letters, digits, dots and dashes. It is for telling processes
/// of this host from others, not for addressing it.
pub(crate) fn name() -> &'static str {
    static NAME: OnceLock<String> = OnceLock::new();
    NAME.get_or_init(|| {
        let fine = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-');
        let name: String = system_name().chars().filter(fine).take(64).collect();
        if name.is_empty() { "host".to_owned() } else { name }
    })
}

#[cfg(unix)]
fn system_name() -> String {
    let mut name = [0u8; 256];
    // SAFETY: the buffer is as long as said; its last byte stays 0.
    let failed = unsafe { libc::gethostname(name.as_mut_ptr().cast(), name.len() - 1) } != 0;
    let end = name.iter().position(|byte| *byte == 0).unwrap_or(0);
    if failed { String::new() } else { String::from_utf8_lossy(&name[..end]).into_owned() }
}

#[cfg(not(unix))]
fn system_name() -> String {
    std::env::var("COMPUTERNAME").unwrap_or_default()
}

/// Returns a name of this process for one file: `<process>-<host>-<nonce>`. No other process has
/// it, whatever its host and its clock.
///
/// # Errors
/// `Io` if the operating system gives no randomness.
pub(crate) fn unique_id() -> Result<String> {
    Ok(format!("{}-{}-{}", std::process::id(), name(), Seeds::nonce()?))
}
