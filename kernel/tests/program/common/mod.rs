//! Starts the program in an environment of its own, reads what it says, and waits for what it does.

#[cfg(feature = "notebook")]
mod client;
#[cfg(feature = "notebook")]
mod gate;
#[cfg(feature = "notebook")]
mod pool;
pub mod processes;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use serde_json::Value;

#[cfg(feature = "notebook")]
pub use client::{Client, Ran, Start, connection, is_idle, message};
#[cfg(feature = "notebook")]
pub use gate::Gate;
#[cfg(feature = "notebook")]
pub use pool::{Session, session, turns};

/// Limit of every wait. It only ends tests that would never end: on a busy machine everything takes
/// longer, and the first kernel builds the library for cells.
pub const PATIENCE: Duration = Duration::from_secs(600);

/// Variables that other programs set and this one reads, besides its own.
const OF_OTHERS: [&str; 4] = ["JUPYTER", "VIRTUAL_ENV", "CONDA_PREFIX", "RUST_BACKTRACE"];

/// The program under test. The variable selects one that is installed elsewhere.
pub fn binary() -> PathBuf {
    let other = std::env::var_os("EPSILAB_TEST_BINARY");
    let other = other.map(|path| std::path::absolute(path).expect("a path"));
    other.unwrap_or_else(|| env!("CARGO_BIN_EXE_epsilab").into())
}

/// The program under test with its project in the folder `home`, which is also the current one.
pub fn program(home: &Path) -> Command {
    let mut command = Command::new(binary());
    isolate(&mut command, home);
    command.current_dir(home).stdin(Stdio::null());
    command
}

/// Runs the program with its project in the folder `home`.
pub fn run(home: &Path, args: &[&str]) -> Output {
    program(home).args(args).output().expect("the program starts")
}

/// Removes the user's settings from the environment of a program. What it stores comes into the
/// folder `home`, and it trains on the CPU.
pub fn isolate(command: &mut Command, home: &Path) {
    let settings = |name: &str| {
        name.starts_with("EPSILAB_") || OF_OTHERS.iter().any(|other| name.starts_with(other))
    };
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(settings) {
            command.env_remove(name);
        }
    }
    command.env("EPSILAB_HOME", home).env("EPSILAB_DEVICE", "cpu");
    #[cfg(unix)]
    listen_to_signals(command);
    // No kernel that the user has installed.
    command.env("JUPYTER_DATA_DIR", "/nowhere/jupyter");
}

/// A program that `nohup` or a shell in the background has started ignores some signals, and so do
/// its children, unless they are told otherwise.
#[cfg(unix)]
fn listen_to_signals(command: &mut Command) {
    use std::os::unix::process::CommandExt;
    let listen = || {
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
            // SAFETY: async-signal-safe, between fork and exec.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
        Ok(())
    };
    // SAFETY: as above.
    unsafe { command.pre_exec(listen) };
}

/// A new folder, which is removed with its content.
pub fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in(scratch()).expect("a temporary folder")
}

/// A folder for all files of this process, which is removed when it ends.
pub fn scratch() -> &'static Path {
    static SCRATCH: OnceLock<PathBuf> = OnceLock::new();
    SCRATCH.get_or_init(|| {
        let folder = tempfile::Builder::new().prefix("lab-tests-").tempdir();
        // SAFETY: the function neither panics nor needs anything that an earlier one removes.
        unsafe { libc::atexit(clean_up) };
        folder.expect("a temporary folder").keep()
    })
}

/// Statics are not dropped at the end of a process.
extern "C" fn clean_up() {
    #[cfg(feature = "notebook")]
    pool::end_kernels();
    let _ = std::fs::remove_dir_all(scratch());
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What a program that succeeded printed, which must be JSON.
#[track_caller]
pub fn json(output: &Output) -> Value {
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON and nothing else")
}

/// Looks again and again until something is there.
#[track_caller]
pub fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(began.elapsed() < PATIENCE, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Waits until something is so.
#[track_caller]
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    wait_for(what, || is_so().then_some(()));
}
