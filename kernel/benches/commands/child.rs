//! Processes that measure one model in one mode.

use std::process::{Command, Stdio};

use epsilab::device::DeviceGuard;
use epsilab::{Error, ErrorKind, Result};
use serde::de::DeserializeOwned;

use super::step::MeasureMode;
use super::{Case, memory, roofline, times};
use crate::stdout;

/// Measures and prints one line. Called in the child process.
pub fn serve(case: &Case<'_>, mode: MeasureMode) -> Result<()> {
    die_with_parent();
    case.device.check()?;
    // A failure of the device ends the measurement with its cause.
    let guard = DeviceGuard::new(case.device);
    let line = match mode {
        MeasureMode::Steps => serde_json::to_string(&guard.run(|| times::measure(case))?),
        MeasureMode::Private => serde_json::to_string(&guard.run(|| memory::measure(case, true))?),
        MeasureMode::NonPrivate => {
            serde_json::to_string(&guard.run(|| memory::measure(case, false))?)
        }
        MeasureMode::Roofline => serde_json::to_string(&guard.run(|| roofline::measure(case))?),
    };
    let line = line.map_err(|e| Error::new(ErrorKind::Io, "the figures as JSON", e.to_string()))?;
    stdout::print_line(&line)
}

/// Starts the child and reads its line. Called in the parent process.
///
/// # Errors
/// The error of the child, or its exit status.
pub fn ask<T: DeserializeOwned>(case: &Case<'_>, mode: MeasureMode) -> Result<T> {
    let program = std::env::current_exe().map_err(|e| Error::io("finding this program", &e))?;
    let setting =
        |name: &str, value: &dyn std::fmt::Display| [format!("--{name}"), value.to_string()];
    let settings = [
        setting("models", &case.entry.name),
        setting("device", &case.device),
        setting("batch", &case.batch),
        setting("threads", &case.threads),
        setting("steps", &case.steps),
        setting("warmup", &case.warmup),
        setting("executor", &case.executor.name()),
        setting("measure", &mode.name()),
    ];
    let output = Command::new(program)
        .arg("bench")
        .args(settings.as_flattened())
        .args(case.variants.to_args())
        .env("RAYON_NUM_THREADS", case.threads.to_string())
        .stdin(Stdio::null())
        .output()
        .map_err(|e| Error::io("starting this program again", &e))?;
    let what = || format!("{}, {}, batch {}", case.entry.name, mode.name(), case.batch);
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        let stderr = stderr.trim();
        let why = match stderr.strip_prefix("error: ").unwrap_or(stderr) {
            "" => format!("the measuring process ended with {}", output.status),
            stderr => stderr.to_owned(),
        };
        let error = Error::new(ErrorKind::Model, what(), why);
        // A signal without a message usually means that memory ran out.
        return Err(if stderr.is_empty() { error.fix("try a smaller --batch") } else { error });
    }
    serde_json::from_slice(&output.stdout)
        .map_err(|e| Error::new(ErrorKind::Io, what(), format!("no figures came back: {e}")))
}

/// Makes the child end with its parent.
fn die_with_parent() {
    #[cfg(target_os = "linux")]
    // SAFETY: a system call without pointers.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
    }
}
