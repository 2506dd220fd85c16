//! Choice of the number of runs that are trained at once: the one with the most steps per second,
//! as timed.

use std::sync::{Barrier, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rayon::{ThreadPool, ThreadPoolBuilder};

use super::Experiment;
use crate::data::{self, Dataset};
use crate::device::{CudaInstallation, DeviceSpec};
use crate::methods::Plan;
use crate::nn::Model;
use crate::privacy::Ledger;
use crate::train::{Observer, Progress, fit};
use crate::{Error, ErrorKind, Result};

/// Approximate time for which the steps of one candidate are timed.
const TIMED: Duration = Duration::from_millis(600);
/// Smallest and largest number of steps that are timed.
const STEPS: (u64, u64) = (2, 20);
/// Factor by which several runs at once have to be faster than one: they show their results later,
/// and the timing is rough.
const WORTHWHILE: f64 = 1.03;

/// Allocation of threads and devices to the runs that are trained at once.
pub(super) struct JobAllocation {
    pub(super) jobs: Vec<JobResources>,
    /// Description of the allocation that was found.
    pub(super) description: Option<String>,
}

/// The threads and the device of one of several runs that are trained at once.
///
/// The memory of chunks of examples is budgeted per thread, so it is shared like the threads.
pub(super) struct JobResources {
    /// Number of threads; `None` for all threads.
    threads: Option<usize>,
    pub(super) device: Option<DeviceSpec>,
}

impl JobResources {
    /// Runs `work` in the threads of this share.
    ///
    /// # Errors
    /// `Io` if the threads can't be started.
    pub(super) fn install<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T> {
        match self.threads {
            None => Ok(work()),
            Some(threads) => Ok(pool(threads)?.install(work)),
        }
    }
}

fn pool(threads: usize) -> Result<ThreadPool> {
    ThreadPoolBuilder::new().num_threads(threads).build().map_err(|e| {
        Error::new(ErrorKind::Io, "the threads of a run could not be started", e.to_string())
            .fix("close other programs, or use fewer jobs")
    })
}

impl JobAllocation {
    fn sequential() -> Self {
        Self { jobs: vec![JobResources { threads: None, device: None }], description: None }
    }

    /// Creates an allocation of `jobs` runs at once, with `threads` threads each.
    pub(super) fn even(jobs: usize, threads: usize, description: String) -> Self {
        let share = |_| JobResources { threads: Some(threads), device: None };
        Self { jobs: (0..jobs).map(share).collect(), description: Some(description) }
    }
}

/// Finds the best split for the runs of a grid, with at most [`Experiment::jobs`] trained at once.
///
/// # Guarantee
/// Steps are timed on random numbers, never on the data, and charged nowhere.
///
/// # Errors
/// `Device` if the device of the plans can't be used, `Io` if threads can't be started.
pub(super) fn choose_allocation(
    experiment: &Experiment,
    plans: &[Result<Plan>],
    model: &Model,
    data: &Dataset,
) -> Result<JobAllocation> {
    let most = experiment.jobs.unwrap_or(1).min(experiment.len());
    let dense = |plan: &&Plan| plan.sparsity().is_none();
    let plans = || plans.iter().flatten();
    let Some(plan) = plans().find(dense).or_else(|| plans().next()) else {
        return Ok(JobAllocation::sequential());
    };
    if most < 2 {
        return Ok(JobAllocation::sequential());
    }
    match plan.resolve_device()? {
        DeviceSpec::Cpu => Ok(on_cpu(most, plan, model, data)),
        DeviceSpec::Cuda(_) if !plan.has_explicit_device() => Ok(on_gpus(most)),
        _ => Ok(JobAllocation::sequential()),
    }
}

/// Returns an allocation of one run per GPU that works.
fn on_gpus(most: usize) -> JobAllocation {
    let gpus = (0..CudaInstallation::current().gpus.len()).map(DeviceSpec::Cuda);
    let gpus: Vec<DeviceSpec> = gpus.filter(|gpu| gpu.check().is_ok()).take(most).collect();
    match gpus.len() {
        0 | 1 => JobAllocation::sequential(),
        n => {
            let description = Some(format!("{n} runs at once, each on its own GPU"));
            let share = |device| JobResources { threads: None, device: Some(device) };
            JobAllocation { jobs: gpus.into_iter().map(share).collect(), description }
        }
    }
}

fn on_cpu(most: usize, plan: &Plan, model: &Model, data: &Dataset) -> JobAllocation {
    let threads = rayon::current_num_threads();
    let most = most.min(threads);
    if most < 2 {
        let description = "one run after the other: there is one thread".to_owned();
        return JobAllocation { description: Some(description), ..JobAllocation::sequential() };
    }
    match timed(most, threads, plan, model, data) {
        Ok(split) => split,
        Err(error) => {
            let description = format!("one run after the other: no step could be timed ({error})");
            JobAllocation {
                description: Some(description.replace('\n', " ")),
                ..JobAllocation::sequential()
            }
        }
    }
}

fn timed(
    most: usize,
    threads: usize,
    plan: &Plan,
    model: &Model,
    data: &Dataset,
) -> Result<JobAllocation> {
    let trial = TimingProbe::new(plan, model, data)?;
    let rough = trial.seconds(1, threads, STEPS.0)?;
    let steps = (TIMED.as_secs_f64() / rough.max(1e-6)) as u64;
    let steps = steps.clamp(STEPS.0, STEPS.1);
    let alone = trial.seconds(1, threads, steps)?;
    let (mut best, mut jobs) = (alone / WORTHWHILE, 1);
    for candidate in candidates(most) {
        let each = trial.seconds(candidate, threads / candidate, steps)? / candidate as f64;
        if each < best {
            best = each;
            jobs = candidate;
        }
    }
    let of_threads = |n: usize| if n == 1 { "1 thread".to_owned() } else { format!("{n} threads") };
    if jobs == 1 {
        let description = format!(
            "one run after the other with {}: several at once took as long per step, or longer",
            of_threads(threads)
        );
        return Ok(JobAllocation { description: Some(description), ..JobAllocation::sequential() });
    }
    let description = format!(
        "{jobs} runs at once with {} each: {:.2} times as many steps per second as one run with {}",
        of_threads(threads / jobs),
        alone / best,
        of_threads(threads)
    );
    Ok(JobAllocation::even(jobs, threads / jobs, description))
}

/// Returns the seconds that a run of this plan takes on the CPU with this number of threads, from
/// a few timed steps.
///
/// # Errors
/// As training.
pub(crate) fn seconds_per_run(
    plan: &Plan,
    model: &Model,
    data: &Dataset,
    threads: usize,
) -> Result<f64> {
    Ok(TimingProbe::new(plan, model, data)?.seconds(1, threads, STEPS.0)? * plan.steps() as f64)
}

/// Returns 2, 4, 8, …, and the largest number itself.
fn candidates(most: usize) -> Vec<usize> {
    let doubled = std::iter::successors(Some(2usize), |n| n.checked_mul(2));
    let mut all: Vec<usize> = doubled.take_while(|&n| n < most).collect();
    all.push(most);
    all
}

/// Probe that times steps of a plan on random numbers of the shape of the data.
struct TimingProbe<'a> {
    plan: &'a Plan,
    model: &'a Model,
    data: Dataset,
}

impl<'a> TimingProbe<'a> {
    fn new(plan: &'a Plan, model: &'a Model, data: &Dataset) -> Result<Self> {
        let examples = plan.expected_batch_size();
        let values = examples * data.shape().iter().product::<usize>();
        // Zeros and ones, which are tokens of every vocabulary too.
        let bit = |i: usize| ((i.wrapping_mul(0x9E37_79B9) >> 13) & 1) as f32;
        let labels = (0..examples).map(|i| (i % data.classes()) as u32).collect();
        let features = (0..values).map(bit).collect();
        let data = data::from_vecs(features, data.shape(), labels, data.classes())?;
        Ok(Self { plan, model, data })
    }

    /// Measures the seconds of one step of `jobs` runs that are trained at once, with `threads`
    /// threads each.
    fn seconds(&self, jobs: usize, threads: usize, steps: u64) -> Result<f64> {
        let plan = self.plan.for_timing(steps + 1);
        let together = Barrier::new(jobs);
        let slowest = Mutex::new(Ok(0.0f64));
        std::thread::scope(|scope| {
            for _ in 0..jobs {
                scope.spawn(|| {
                    let mut watch =
                        Stopwatch { together: &together, waited: false, steps: Vec::new() };
                    let ledger = Ledger::in_memory();
                    let train = || {
                        fit("timing", &plan, self.model, &self.data, &ledger, &mut watch).map(drop)
                    };
                    let trained = pool(threads).and_then(|pool| pool.install(train));
                    if !watch.waited {
                        // The others wait for this one.
                        together.wait();
                    }
                    let mut slowest = slowest.lock().unwrap_or_else(PoisonError::into_inner);
                    match (trained, &mut *slowest) {
                        (Ok(()), Ok(seconds)) => *seconds = seconds.max(watch.median()),
                        (Err(error), slowest) => *slowest = Err(error),
                        (Ok(()), Err(_)) => {}
                    }
                });
            }
        });
        slowest.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Times of the steps of a run. All runs take their first step together, which is not timed.
struct Stopwatch<'a> {
    together: &'a Barrier,
    waited: bool,
    steps: Vec<Instant>,
}

impl Stopwatch<'_> {
    /// Returns the median time of a step, in seconds.
    fn median(&self) -> f64 {
        let times = self.steps.windows(2).map(|pair| (pair[1] - pair[0]).as_secs_f64());
        let mut times: Vec<f64> = times.collect();
        times.sort_by(f64::total_cmp);
        times.get(times.len() / 2).copied().unwrap_or(f64::INFINITY)
    }
}

impl Observer for Stopwatch<'_> {
    fn on_start(&mut self, _: &Progress<'_>) {
        self.together.wait();
        self.waited = true;
    }

    fn on_step(&mut self, _: &Progress<'_>) {
        self.steps.push(Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn candidates_double_up_to_the_largest() {
        assert_eq!(candidates(2), [2]);
        assert_eq!(candidates(6), [2, 4, 6]);
        assert_eq!(candidates(8), [2, 4, 8]);
    }
}
