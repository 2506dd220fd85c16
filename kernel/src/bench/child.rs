//! Measures one model in one mode, in a process of its own.

use std::process::{Command, Stdio};
use std::time::Instant;

use epsilab::burn::prelude::{Device, Module};
use epsilab::data::from_vecs;
use epsilab::device::{DeviceGuard, DeviceSpec, marked, on_a_stand_in};
use epsilab::engine::{Batch, ClipRule, Gradients};
use epsilab::nn::Model;
use epsilab::{Error, ErrorKind, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::step::{CLIP, Mode, Training};
use super::{Case, data, memory, roofline, variants};
use crate::stdout;

/// Measurements of the process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Measured {
    /// Wall-clock seconds per step; on a GPU, the mean over several steps in a row.
    pub seconds: Vec<f64>,
    /// CPU seconds of all threads per step; empty where the system does not report them.
    pub cpu_seconds: Vec<f64>,
    /// Peak memory of the steps above that before the first, in MiB; none on a GPU.
    pub peak_mb: Option<f64>,
    /// Memory of data and parameters, in MiB.
    pub held_mb: f64,
    pub parameters: usize,
    pub device: String,
    /// Result of the last step.
    pub loss: f64,
}

/// Measures and prints one line. Called in the child process.
pub fn serve(case: &Case<'_>, mode: Mode) -> Result<()> {
    die_with_parent();
    case.place.check()?;
    // A failure of the device ends the measurement with its cause.
    let guard = DeviceGuard::new(case.place);
    let line = match mode {
        Mode::Private => serde_json::to_string(&guard.run(|| measure(case, true))?),
        Mode::NonPrivate => serde_json::to_string(&guard.run(|| measure(case, false))?),
        Mode::Variants => serde_json::to_string(&guard.run(|| variants::measure(case))?),
        Mode::Roofline => serde_json::to_string(&guard.run(|| roofline::measure(case))?),
    };
    let line = line.map_err(|e| Error::new(ErrorKind::Io, "the figures as JSON", e.to_string()))?;
    stdout::print(&line)
}

fn measure(case: &Case<'_>, private: bool) -> Result<Measured> {
    let (model, device) = (case.entry.model()?, case.place.device());
    let pool = data::pool(case.entry, case.batch)?;
    // As in training, the data are on the device before the first step.
    let expected =
        (case.place != DeviceSpec::Cpu).then(|| loss_on_cpu(case, &model, &pool[0])).transpose()?;
    let pool: Vec<_> = pool.into_iter().map(|batch| batch.to_device(&device)).collect();
    let features = data::POOL * case.batch * case.entry.shape.iter().product::<usize>();
    let network = model.network().clone().to_device(&device);
    let rule = private.then(|| ClipRule::flat(CLIP));
    let mut training = Training::new(&network, case.executor.mechanism(rule, case.batch)?);
    if let Some(expected) = expected {
        let loss = training.step(&pool[0])?.mean_loss().unwrap_or(f64::NAN);
        same_loss(case, loss, expected)?;
    }
    memory::settle();
    let before = memory::resident();
    let mut run = |from: usize, steps: usize| -> Result<f64> {
        let mut loss = None;
        for i in from..from + steps {
            let mut release = training.step(&pool[i % pool.len()])?;
            // Training drops it before the next step, so it must not count as memory of that step.
            release.gradient = Gradients::default();
            loss = Some(release);
        }
        wait(&device)?;
        Ok(loss.and_then(|release| release.mean_loss()).unwrap_or(f64::NAN))
    };
    let mut loss = run(0, case.warmup)?;
    let (mut seconds, mut cpu_seconds) = (Vec::new(), Vec::new());
    let mut done = 0;
    while done < case.steps {
        let steps = in_a_row(case.place).min(case.steps - done);
        let (clock, cpu) = (Instant::now(), cpu_time());
        loss = run(case.warmup + done, steps)?;
        seconds.push(clock.elapsed().as_secs_f64() / steps as f64);
        let spent = cpu_time().zip(cpu).map(|(after, before)| after - before);
        cpu_seconds.extend(spent.map(|spent| spent / steps as f64));
        done += steps;
    }
    if !loss.is_finite() && !on_a_stand_in() {
        let what = format!("{} after {} steps: loss = {loss}", model.name(), case.steps);
        return Err(Error::new(ErrorKind::Model, what, "such a step is not worth measuring"));
    }
    let peak = memory::peak().zip(before).filter(|_| case.place == DeviceSpec::Cpu);
    Ok(Measured {
        seconds,
        cpu_seconds,
        peak_mb: peak.map(|(peak, before)| (peak - before).max(0.0)),
        held_mb: (4 * (features + model.parameters())) as f64 / f64::from(1 << 20),
        parameters: model.parameters(),
        device: marked(&case.place.to_string()),
        loss,
    })
}

/// The mean loss of the initial model on a batch, on the CPU.
fn loss_on_cpu(case: &Case<'_>, model: &Model, batch: &Batch) -> Result<f64> {
    let features = (0..batch.len()).flat_map(|i| batch.features(i).to_vec()).collect();
    let labels = batch.labels().to_vec();
    let classes = case.entry.classes as usize;
    model.loss(from_vecs(features, case.entry.shape, labels, classes)?.train())
}

/// Checks that the first step on the device had the loss of the CPU: times of a device that
/// computes something else mean nothing.
fn same_loss(case: &Case<'_>, loss: f64, expected: f64) -> Result<()> {
    // Devices may round the factors of products to ten bits.
    const ROUNDING: f64 = 0.01;
    if on_a_stand_in() || (loss - expected).abs() <= ROUNDING * expected.abs() {
        return Ok(());
    }
    let what = format!("{} on {}: loss = {loss}", case.entry.name, case.place);
    let why = format!("on the CPU it is {expected:.4}, so the device computes something else");
    Err(Error::new(ErrorKind::Device, what, why)
        .fix("`epsilab bench --check` shows which results differ; see `epsilab doctor`"))
}

/// Steps between two readings of the clock. A GPU works while the next steps are prepared, as in
/// training; waiting after each step would be measured, too.
fn in_a_row(place: DeviceSpec) -> usize {
    if place == DeviceSpec::Cpu { 1 } else { 5 }
}

/// Waits for all work of the device.
pub(super) fn wait(device: &Device) -> Result<()> {
    device.sync().map_err(|e| {
        Error::new(ErrorKind::Device, format!("the device {device:?}"), format!("failed: {e}"))
            .fix("see `doctor`; a smaller --batch needs less memory")
    })
}

/// Starts the child and reads its line. Called in the parent process.
///
/// # Errors
/// The error of the child, or its exit status.
pub fn ask<T: DeserializeOwned>(case: &Case<'_>, mode: Mode) -> Result<T> {
    let program = std::env::current_exe().map_err(|e| Error::io("finding this program", &e))?;
    let setting =
        |name: &str, value: &dyn std::fmt::Display| [format!("--{name}"), value.to_string()];
    let settings = [
        setting("models", &case.entry.name),
        setting("device", &case.place),
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
        let said = String::from_utf8_lossy(&output.stderr);
        let said = said.trim();
        let why = match said.strip_prefix("error: ").unwrap_or(said) {
            "" => format!("the measuring process ended with {}", output.status),
            said => said.to_owned(),
        };
        let error = Error::new(ErrorKind::Model, what(), why);
        // A signal without a message usually means that memory ran out.
        return Err(if said.is_empty() { error.fix("try a smaller --batch") } else { error });
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

/// CPU seconds of all threads of this process so far.
pub(super) fn cpu_time() -> Option<f64> {
    #[cfg(unix)]
    {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: writes into `time`, which outlives the call.
        let told = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) } == 0;
        told.then_some(time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9)
    }
    #[cfg(not(unix))]
    None
}
