//! Finds programs on this machine.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Path of the program `name` on the PATH.
pub fn on_path(name: &str) -> Option<PathBuf> {
    let name = format!("{name}{}", std::env::consts::EXE_SUFFIX);
    std::env::split_paths(&std::env::var_os("PATH")?)
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(&name))
        .find(|path| is_program(path))
}

/// Python 3, called `python3` or `python`.
pub fn python() -> Option<PathBuf> {
    ["python3", "python"].into_iter().filter_map(on_path).find(|python| {
        says(python, &["-c", "import sys; print(sys.version_info[0])"]).as_deref() == Some("3")
    })
}

/// The line that the program prints, if it succeeds.
pub fn says(program: &Path, args: &[&str]) -> Option<String> {
    let output = Command::new(program).args(args).stdin(Stdio::null()).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

#[cfg(unix)]
fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_program(path: &Path) -> bool {
    path.is_file()
}
