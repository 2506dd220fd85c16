//! Finds programs on this machine and starts them.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use epsilab::Error;

/// Path of the program `name` on the PATH.
pub fn on_path(name: &str) -> Option<PathBuf> {
    // A folder of the PATH may be relative.
    which::which_all_global(name).ok()?.find(|path| path.is_absolute())
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

/// Replaces this process by the program. Returns the error if that fails.
pub fn hand_over(mut command: Command) -> Error {
    let error = command.exec();
    Error::io(format!("starting {}", command.get_program().display()), &error)
}
