//! The command `train`: one run of any method, from options or from the file of a plan.
//!
//! The run is that of `.train(…)` in a notebook: charged to the project's ledger and stored, so the
//! same command trains nothing the second time.

mod data;
mod out;
mod plan;
mod pretrained;
mod progress;
mod report;
mod start;

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::ExitCode;

use epsilab::data::Dataset;
use epsilab::methods::Plan;
use epsilab::nn::Model;
use epsilab::train::Run;
use epsilab::{Error, ErrorKind, Result};

use crate::{grid, stdout};
pub use data::DataArgs;
use plan::PlanArgs;
use progress::ToStderr;
use start::StartArgs;

/// Train one model, privately or not, and report its guarantee and accuracy.
#[derive(clap::Args, Clone, Debug)]
pub struct TrainArgs {
    #[command(flatten)]
    pub data: DataArgs,
    #[command(flatten)]
    start: StartArgs,
    #[command(flatten)]
    plan: PlanArgs,
    /// Read the plan from a JSON file, as --save-plan and plan.save(path) write it
    #[arg(long = "plan", value_name = "FILE", id = "plan_file")]
    file: Option<PathBuf>,
    /// Write the plan to a JSON file
    #[arg(long, value_name = "FILE")]
    save_plan: Option<PathBuf>,
    /// Device for training: cpu, cuda, cuda:1, wgpu [default: EPSILAB_DEVICE, else a CUDA GPU if
    /// one works, else cpu]
    #[arg(long, value_name = "DEVICE")]
    device: Option<String>,
    /// Train and spend again even if a finished run with these settings is stored
    #[arg(long)]
    fresh: bool,
    /// Print the plan, its cost and warnings; train nothing
    #[arg(long, conflicts_with = "json")]
    preview: bool,
    /// Copy model, figures and record of the run to this folder
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print one JSON object on one line of stdout and nothing else
    #[arg(long)]
    json: bool,
}

/// Runs `train`. Exit codes: 0 for a finished run or a preview, 130 after Ctrl-C.
///
/// # Errors
/// Kind `Setting` for options that are out of range or contradict each other, before anything is
/// charged; errors of reading data, of training and of writing results.
pub fn train(args: &TrainArgs) -> Result<ExitCode> {
    args.check()?;
    if let Some(out) = args.out.as_ref().filter(|_| !args.preview) {
        grid::can_write(out)?;
    }
    let data = args.data.read()?;
    if args.preview {
        let model = args.start.untrained(&data, args.seed()?)?;
        let plan = args.plan(&model, &data)?;
        fits(&plan, &model)?;
        if let Some(first) = args.start.first_in_words() {
            eprintln!("{first}");
        }
        stdout::print(&plan.preview(&data)?.to_string())?;
        return Ok(ExitCode::SUCCESS);
    }
    let run = args.run(&data, None)?;
    run.warnings().iter().for_each(|warning| eprintln!("{warning}"));
    if run.interrupted() {
        eprintln!("interrupted: {run}; the same command trains the whole plan again");
        return Ok(ExitCode::from(130));
    }
    if let Some(out) = &args.out {
        out::write(out, &run)?;
    }
    stdout::print(&match args.json {
        true => report::json(&run)?,
        false => report::words(&run)?,
    })?;
    Ok(ExitCode::SUCCESS)
}

impl TrainArgs {
    /// Checks everything that needs no data.
    ///
    /// # Errors
    /// Kind `Setting` for options that are out of range or contradict each other.
    pub fn check(&self) -> Result<()> {
        match &self.file {
            Some(file) => self.plan.load(file).map(drop)?,
            None => self.plan.check()?,
        }
        self.start.check()
    }

    /// Trains; the heading of the progress is that of the model and the data by default. The run is
    /// finished or interrupted; an interrupted one may be that on public data.
    ///
    /// # Errors
    /// As [`train`].
    pub fn run(&self, data: &Dataset, heading: Option<String>) -> Result<Run> {
        if self.start.trains_first() {
            let untrained = self.start.untrained(data, self.seed()?)?;
            let plan = self.read_or_make(&untrained, data)?;
            fits(&plan, &untrained)?;
            plan.place()?;
        }
        let (device, precision) = (self.device.as_deref(), self.plan.precision()?);
        let model = match self.start.model(data, self.seed()?, device, precision)? {
            ControlFlow::Continue(model) => model,
            ControlFlow::Break(interrupted) => return Ok(interrupted),
        };
        let plan = self.plan(&model, data)?;
        let usual = || format!("{}: {} on {}", plan.method(), model.name(), data.name());
        let heading = heading.unwrap_or_else(usual);
        let run = plan.train(&model, data, &mut ToStderr::new(heading))?;
        if run.is_finished() || run.interrupted() {
            return Ok(run);
        }
        Err(Error::new(ErrorKind::CorruptData, run.to_string(), "the run did not finish")
            .fix("train again"))
    }

    /// The seed of the run and its model.
    fn seed(&self) -> Result<Option<u64>> {
        Ok(self.loaded()?.map_or(self.plan.seed, |plan| plan.seed()))
    }

    /// The plan of the file, if there is one.
    fn loaded(&self) -> Result<Option<Plan>> {
        self.file.as_ref().map(|file| self.plan.load(file)).transpose()
    }

    /// The plan, which is saved if it shall be.
    fn plan(&self, model: &Model, data: &Dataset) -> Result<Plan> {
        let plan = self.read_or_make(model, data)?;
        if let Some(path) = &self.save_plan {
            plan.save(path)?;
            eprintln!("wrote the plan {}", path.display());
        }
        Ok(plan)
    }

    /// The plan of the file or of the options, for the device that is asked for.
    fn read_or_make(&self, model: &Model, data: &Dataset) -> Result<Plan> {
        let mut plan = match self.loaded()? {
            Some(plan) => plan,
            None => self.plan.plan(model, data)?,
        };
        if let Some(device) = &self.device {
            plan = plan.on_device(device);
        }
        if self.fresh {
            plan = plan.fresh();
        }
        Ok(plan)
    }
}

/// Refuses a plan that freezes what the model does not have.
fn fits(plan: &Plan, model: &Model) -> Result<()> {
    match plan.freezing() {
        freezing if freezing.is_none() => Ok(()),
        freezing => freezing.of(model.network()).map(drop),
    }
}
