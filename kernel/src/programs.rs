//! Search for programs on this machine, and their start.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use epsilab::Error;

/// Returns the path of the program `name` on the PATH.
pub fn find_on_path(name: &str) -> Option<PathBuf> {
    // A folder of the PATH may be relative.
    which::which_all_global(name).ok()?.find(|path| path.is_absolute())
}

/// Returns the path of Python 3, called `python3` or `python`.
pub fn find_python() -> Option<PathBuf> {
    ["python3", "python"].into_iter().filter_map(find_on_path).find(|python| {
        capture_stdout(python, &["-c", "import sys; print(sys.version_info[0])"]).as_deref()
            == Some("3")
    })
}

/// Runs the program and returns its trimmed standard output, if it succeeds.
pub fn capture_stdout(program: &Path, args: &[&str]) -> Option<String> {
    let output = Command::new(program).args(args).stdin(Stdio::null()).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

/// Replaces this process by the program. Returns the error if that fails.
pub fn replace_process(mut command: Command) -> Error {
    let error = command.exec();
    Error::io(format!("starting {}", command.get_program().display()), &error)
}
