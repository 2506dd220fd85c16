//! Processes of a test's own: this test program, started again with the name of one test and a
//! role for it.

use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use super::environment::HOME;

/// The environment variable with the role.
const ROLE: &str = "EPSILAB_TEST_ROLE";
/// Longer than anything takes, on any machine: what takes longer hangs.
pub const LIMIT: Duration = Duration::from_secs(600);

/// The role of this process, or `None` if no test has started it.
pub fn role() -> Option<String> {
    std::env::var(ROLE).ok()
}

/// The name of the test in whose body or closure this is, as the test program knows it.
macro_rules! this_test {
    () => {{
        fn here() {}
        $crate::support::process::name_around(here)
    }};
}

/// The name of the function around `here`, without the name of the program.
pub fn name_around<F>(_here: F) -> &'static str {
    let name = std::any::type_name::<F>();
    let name = name.split("::{{closure}}").next().expect("a first part");
    let name = name.strip_suffix("::here").unwrap_or(name);
    name.split_once("::").expect("a function of this program").1
}

/// The command that runs one test of this program again, in a role.
pub fn command(test: &str, role: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args([test, "--exact", "--include-ignored", "--nocapture"]).env(ROLE, role);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Waits for the end of a process and returns what it has printed.
///
/// # Panics
/// Unless exactly one test has run. A name that matches no test would pass without a word.
#[track_caller]
pub fn end(child: Child) -> Output {
    let id = child.id();
    let (send, receive) = mpsc::channel();
    thread::spawn(move || send.send(child.wait_with_output()));
    let Ok(output) = receive.recv_timeout(LIMIT) else {
        kill(id);
        panic!("a process of this test hangs");
    };
    let output = output.expect("the end of a process");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("running 1 test\n"), "not exactly one test has run:\n{text}");
    output
}

/// Runs a [`command`] to its end. See [`end`].
///
/// # Panics
/// If its test fails.
#[track_caller]
pub fn run(command: &mut Command) -> Output {
    let output = end(command.spawn().expect("another process"));
    let [out, err] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    assert!(output.status.success(), "the process of this test failed:\n{out}\n{err}");
    output
}

/// Runs the test in a process of its own with a new project. Returns `true` when that is done, so
/// the caller has nothing left to do, and `false` in the new process.
#[track_caller]
pub fn alone(test: &str) -> bool {
    if role().is_some() {
        return false;
    }
    let home = tempfile::tempdir().expect("a temporary folder");
    run(command(test, "alone").env(HOME, home.path()));
    true
}

/// The result of a job that must not hang. A thread that does is left behind.
#[track_caller]
pub fn in_time<T: Send + 'static>(job: impl FnOnce() -> T + Send + 'static) -> T {
    let (send, receive) = mpsc::channel();
    thread::spawn(move || send.send(job()));
    receive.recv_timeout(LIMIT).expect("it neither hangs nor panics")
}

fn kill(id: u32) {
    // SAFETY: the process is a child of this one and has not been waited for.
    #[cfg(unix)]
    unsafe {
        libc::kill(id as libc::pid_t, libc::SIGKILL);
    }
    #[cfg(not(unix))]
    let _ = id;
}
