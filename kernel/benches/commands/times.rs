//! Times of steps that take turns in one process, so that other load on the machine affects all of
//! them.

use std::time::Instant;

use epsilab::burn::prelude::{Device, Module};
use epsilab::data::from_vecs;
use epsilab::device::{DeviceSpec, is_stub_device, with_rehearsal_mark};
use epsilab::engine::{Batch, Gradients};
use epsilab::nn::Model;
use epsilab::{Error, ErrorKind, Result, program};
use serde::{Deserialize, Serialize};

use super::step::Training;
use super::variants::StepVariant;
use super::{Case, data};

/// The times of a model's steps.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Times {
    pub device: String,
    pub parameters: usize,
    /// Memory of data and parameters, in MiB.
    pub held_mb: f64,
    pub private: Spent,
    pub nonprivate: Spent,
    pub variants: Vec<Spent>,
}

/// Times of one of the steps.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Spent {
    pub name: String,
    /// Wall-clock seconds per step; on a GPU, the mean over several steps in a row.
    pub seconds: Vec<f64>,
    /// CPU seconds of all threads per step; empty where the system does not report them.
    pub cpu_seconds: Vec<f64>,
    /// Result of the last step.
    pub loss: f64,
}

/// Measures the private step, the one without privacy, and the variants.
pub fn measure(case: &Case<'_>) -> Result<Times> {
    let (model, device) = (case.entry.model()?, case.device.burn_device());
    let pool = data::pool(case.entry, case.batch)?;
    // As in training, the data are on the device before the first step.
    let expected = (case.device != DeviceSpec::Cpu)
        .then(|| loss_on_cpu(case, &model, &pool[0]))
        .transpose()?;
    let pool: Vec<_> = pool.into_iter().map(|batch| batch.to_device(&device)).collect();
    let (mut each, mut spent) = (Vec::new(), Vec::new());
    for variant in case.variants.variants(case, &model)? {
        let StepVariant { name, network, mechanism, selection } = variant;
        let mut training = Training::new(&network.to_device(&device), mechanism);
        // The other variants may have another loss.
        if let Some(expected) = expected.filter(|_| spent.len() < 2) {
            let loss = training.step(&pool[0])?.mean_loss().unwrap_or(f64::NAN);
            check_same_loss(case, loss, expected)?;
        }
        each.push(training.selecting(selection));
        spent.push(Spent { name, seconds: vec![], cpu_seconds: vec![], loss: f64::NAN });
    }
    let (mut done, all) = (0, case.warmup + case.steps);
    for round in 0.. {
        let left = if done < case.warmup { case.warmup - done } else { all - done };
        let steps = steps_per_reading(case.device).min(left);
        if steps == 0 {
            break;
        }
        // Each follows each other one equally often.
        for turn in 0..each.len() {
            let which = (round + turn) % each.len();
            let (clock, cpu) = (Instant::now(), cpu_time());
            let mut last = None;
            for step in done..done + steps {
                let mut release = each[which].step(&pool[step % pool.len()])?;
                // Training drops it before the next step.
                release.gradient = Gradients::default();
                last = Some(release);
            }
            wait(&device)?;
            let (seconds, cpu_after) = (clock.elapsed().as_secs_f64(), cpu_time());
            // Reading the loss waits for a GPU, so only that of the last step is read.
            let loss = last.and_then(|release| release.mean_loss());
            spent[which].loss = loss.unwrap_or(f64::NAN);
            if done >= case.warmup {
                let spent = &mut spent[which];
                spent.seconds.push(seconds / steps as f64);
                let cpu = cpu_after.zip(cpu).map(|(after, before)| after - before);
                spent.cpu_seconds.extend(cpu.map(|cpu| cpu / steps as f64));
            }
        }
        done += steps;
    }
    spent.iter().try_for_each(|spent| check_loss(case, spent))?;
    let features = data::POOL_SIZE * case.batch * case.entry.shape.iter().product::<usize>();
    let mut spent = spent.into_iter();
    let mut next = || spent.next().expect("the private step and the one without privacy");
    Ok(Times {
        device: with_rehearsal_mark(&case.device.to_string()),
        parameters: model.num_parameters(),
        held_mb: (4 * (features + model.num_parameters())) as f64 / f64::from(1 << 20),
        private: next(),
        nonprivate: next(),
        variants: spent.collect(),
    })
}

fn check_loss(case: &Case<'_>, spent: &Spent) -> Result<()> {
    if spent.loss.is_finite() || is_stub_device() {
        return Ok(());
    }
    let (model, name) = (case.entry.name, &spent.name);
    let what = format!("{model}, {name}, after {} steps: loss = {}", case.steps, spent.loss);
    Err(Error::new(ErrorKind::Model, what, "such a step is not worth measuring"))
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
fn check_same_loss(case: &Case<'_>, loss: f64, expected: f64) -> Result<()> {
    // Devices may round the factors of products to ten bits.
    const ROUNDING: f64 = 0.01;
    if is_stub_device() || (loss - expected).abs() <= ROUNDING * expected.abs() {
        return Ok(());
    }
    let what = format!("{} on {}: loss = {loss}", case.entry.name, case.device);
    let why = format!("on the CPU it is {expected:.4}, so the device computes something else");
    Err(Error::new(ErrorKind::Device, what, why).fix(format!(
        "`{}` shows which results differ; see `{}`",
        program::command("bench --check"),
        program::command("doctor")
    )))
}

/// Steps between two readings of the clock. A GPU works while the next steps are prepared, as in
/// training; waiting after each step would be measured, too.
fn steps_per_reading(device: DeviceSpec) -> usize {
    if device == DeviceSpec::Cpu { 1 } else { 5 }
}

/// Waits for all work of the device.
fn wait(device: &Device) -> Result<()> {
    device.sync().map_err(|e| {
        Error::new(ErrorKind::Device, format!("the device {device:?}"), format!("failed: {e}"))
            .fix("see `doctor`; a smaller --batch needs less memory")
    })
}

/// CPU seconds of all threads of this process so far.
fn cpu_time() -> Option<f64> {
    #[cfg(unix)]
    {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: writes into `time`, which outlives the call.
        let is_read =
            unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) } == 0;
        is_read.then_some(time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9)
    }
    #[cfg(not(unix))]
    None
}

#[cfg(test)]
mod tests {
    use super::super::step::ExecutorChoice;
    use super::super::variants::VariantArgs;
    use super::super::zoo;
    use super::*;

    #[test]
    fn all_steps_are_measured_equally_often_after_the_warm_up() {
        let variants = VariantArgs {
            masked: Some(0.5),
            method: Some("backprop-clipping".into()),
            ..VariantArgs::default()
        };
        let case = Case {
            entry: zoo::find("papernot_cnn").unwrap(),
            device: DeviceSpec::Cpu,
            batch: 4,
            threads: 1,
            steps: 3,
            warmup: 2,
            executor: ExecutorChoice::Auto,
            variants: &variants,
        };
        let Times { private, nonprivate, variants, .. } = measure(&case).unwrap();
        assert_eq!((&*private.name, &*nonprivate.name), ("private", "nonprivate"));
        let names: Vec<String> = variants.iter().map(|spent| spent.name.clone()).collect();
        assert_eq!(names, case.variants.names());
        for spent in variants.iter().chain([&private, &nonprivate]) {
            assert_eq!(spent.seconds.len(), 3, "{}", spent.name);
            assert!(spent.loss.is_finite(), "{}", spent.name);
        }
        // They start from the same parameters, and only one of them adds noise.
        assert_ne!(private.loss, nonprivate.loss);
    }
}
