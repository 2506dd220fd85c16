//! The command `train`: one run of any method, from options or from the file of a plan.
//!
//! The run is that of `.train(…)` in a notebook: charged to the project's ledger and stored, so the
//! same command trains nothing the second time.

mod data;
mod mask;
mod out;
mod plan;
mod pretrained;
mod progress;
mod report;
mod settings;
mod start;

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::ExitCode;

use epsilab::data::{Dataset, Population};
use epsilab::device::DeviceSpec;
use epsilab::grid::Case;
use epsilab::methods::{CheckpointEvery, Plan};
use epsilab::nn::{Model, Precision};
use epsilab::train::{Run, interrupt};
use epsilab::{Error, Result, lab};

use crate::{options, stdout};
pub use data::DataArgs;
use plan::PlanArgs;
use progress::ToStderr;
pub use settings::specs;
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
    /// Print the plan, its cost and warnings; train nothing
    #[arg(long, conflicts_with = "json")]
    preview: bool,
    /// Number of training examples, for --preview without data
    #[arg(long, value_name = "N", requires = "preview", allow_hyphen_values = true)]
    #[arg(conflicts_with_all = ["data", "label", "image_size", "split", "train", "test"])]
    population: Option<i64>,
    /// Copy model, figures and record of the run to this folder
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print one JSON object on one line of stdout and nothing else
    #[arg(long)]
    json: bool,
    /// The run that the command must go on with.
    #[arg(skip)]
    resumed: Option<String>,
}

/// Runs `train`. Exit codes: 0 for a finished run or a preview, 128 and the signal after a request
/// to stop.
///
/// # Errors
/// Kind `Setting` for options that are out of range or contradict each other, before anything is
/// charged; errors of reading data, of training and of writing results.
pub fn train(args: &TrainArgs) -> Result<ExitCode> {
    args.check()?;
    if let Some(out) = args.out.as_ref().filter(|_| !args.preview) {
        options::check_out(out)?;
    }
    if let Some(examples) = options::count("--population", args.population)? {
        let plan = args.plan_for(&Population::of(examples))?;
        args.print_preset()?;
        args.save(&plan)?;
        stdout::print(&plan.to_string())?;
        return Ok(ExitCode::SUCCESS);
    }
    let data = args.data.read()?;
    if args.preview {
        let model = args.start.untrained(&data, args.seed()?)?;
        let plan = args.plan(&model, &data)?;
        fits(&plan, &model)?;
        args.print_preset()?;
        if let Some(first) = args.start.first_in_words() {
            eprintln!("{first}");
        }
        say_if_untested(&data);
        stdout::print(&plan.preview(&data)?.to_string())?;
        return Ok(ExitCode::SUCCESS);
    }
    let run = args.run(&data, None)?;
    run.warnings().iter().for_each(|warning| eprintln!("{warning}"));
    if run.storing_error().is_some() {
        // The error was shown when it happened.
        match &args.out {
            Some(out) => out::write(out, &run)?,
            None => eprintln!("the model is lost: --out DIR names another place for it"),
        }
        return Ok(ExitCode::FAILURE);
    }
    if run.interrupted() {
        let again = match run.record().checkpoints {
            Some(_) => "goes on from its checkpoint",
            None => "trains the whole plan again",
        };
        eprintln!("interrupted: {run}; the same command {again}");
        return Ok(ExitCode::from(interrupt::exit_code()));
    }
    if let Some(out) = &args.out {
        out::write(out, &run)?;
    }
    stdout::print(&if args.json { report::json(&run)? } else { report::words(&run)? })?;
    Ok(ExitCode::SUCCESS)
}

impl TrainArgs {
    /// The same command, which goes on with the run of this name and trains no other one.
    pub fn resuming(self, id: String) -> Self {
        Self { resumed: Some(id), ..self }
    }

    /// Checks everything that needs no data.
    ///
    /// # Errors
    /// Kind `Setting` for options that are out of range or contradict each other.
    pub fn check(&self) -> Result<()> {
        match &self.file {
            Some(file) => self.plan.load(file).map(drop)?,
            None => self.plan.check()?,
        }
        self.checkpoints()?;
        self.start.check()
    }

    /// Prints the commands' defaults that decide the plan.
    fn print_preset(&self) -> Result<()> {
        if let (None, Some(words)) = (&self.file, self.plan.preset_in_words()?) {
            eprintln!("{words}");
        }
        Ok(())
    }

    /// How often checkpoints are written.
    pub fn checkpoints(&self) -> Result<Option<CheckpointEvery>> {
        self.plan.text("checkpoint_every").map(str::parse).transpose()
    }

    /// Returns whether another run has the same data and the same model at its start.
    pub fn has_start_of(&self, other: &Self) -> bool {
        let start = |args: &Self| {
            let on = ["device", "precision", "checkpoint_every"]
                .map(|id| args.plan.text(id).map(str::to_owned));
            (args.data.clone(), args.start.clone(), on)
        };
        start(self) == start(other)
    }

    /// Returns the case of an experiment with these options.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub fn case(&self) -> Result<Case> {
        self.plan.case()
    }

    /// Returns whether there is a training on public data before that of the run.
    pub fn trains_first(&self) -> bool {
        self.start.trains_first()
    }

    /// Returns the model before any training, as [`StartArgs::untrained`].
    pub fn untrained(&self, data: &Dataset, seed: Option<u64>) -> Result<Model> {
        self.start.untrained(data, seed)
    }

    /// Returns the model at the start of the run, as [`StartArgs::model`].
    pub fn model(&self, data: &Dataset, seed: Option<u64>) -> Result<ControlFlow<Run, Model>> {
        let device = self.plan.text("device");
        self.start.model(data, seed, device, self.precision()?)
    }

    /// Returns the device that is asked for, if one is.
    pub fn device(&self) -> Result<Option<DeviceSpec>> {
        self.plan.text("device").map(str::parse).transpose()
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
        let model = match self.model(data, self.seed()?)? {
            ControlFlow::Continue(model) => model,
            ControlFlow::Break(interrupted) => return Ok(interrupted),
        };
        let plan = self.plan(&model, data)?;
        if let Some(id) = &self.resumed {
            lab::check_goes_on(id, &plan, &model, data)?;
        }
        say_if_untested(data);
        let usual = || format!("{}: {} on {}", plan.method(), model.name(), data.name());
        let heading = heading.unwrap_or_else(usual);
        let run = plan.train_with(&model, data, &mut ToStderr::new(heading))?;
        if run.storing_error().is_none() && !run.is_restored() {
            eprintln!("stored in runs/{}", run.record().id);
        }
        Ok(run)
    }

    /// The seed of the run and its model.
    fn seed(&self) -> Result<Option<u64>> {
        match self.loaded()? {
            Some(plan) => Ok(plan.seed()),
            None => Ok(self.plan.method()?.settings().seed),
        }
    }

    /// The precision of the options, for training on public data before the run.
    fn precision(&self) -> Result<Precision> {
        match &self.file {
            Some(_) => Ok(Precision::default()),
            None => Ok(self.plan.method()?.settings().precision),
        }
    }

    /// The plan of the file, if there is one.
    fn loaded(&self) -> Result<Option<Plan>> {
        self.file.as_ref().map(|file| self.plan.load(file)).transpose()
    }

    /// The plan, which is saved if it shall be.
    fn plan(&self, model: &Model, data: &Dataset) -> Result<Plan> {
        let plan = self.read_or_make(model, data)?;
        self.save(&plan)?;
        Ok(plan)
    }

    /// Writes the plan to the file of `--save-plan`, if one is named.
    fn save(&self, plan: &Plan) -> Result<()> {
        let Some(path) = &self.save_plan else { return Ok(()) };
        plan.save(path)?;
        eprintln!("wrote the plan {}", path.display());
        Ok(())
    }

    /// The plan for as many examples, without model and data.
    ///
    /// # Errors
    /// As [`train`], before data are read; kind `Setting` for a file of a plan for another number.
    pub fn plan_for(&self, population: &Population) -> Result<Plan> {
        let Some(plan) = self.loaded()? else { return self.plan.plan_for(population) };
        let examples = population.examples();
        if plan.examples() != examples {
            let why = format!("the plan of the file is for {}", plan.examples());
            return Err(Error::setting("--population", examples, why).fix("name that number"));
        }
        Ok(plan)
    }

    /// The plan of the file or of the options, for the device that is asked for.
    fn read_or_make(&self, model: &Model, data: &Dataset) -> Result<Plan> {
        let mut plan = self.loaded()?.map_or_else(|| self.plan.plan(model, data), Ok)?;
        if let Some(device) = self.plan.text("device") {
            plan = plan.on_device(device);
        }
        if self.plan.text("fresh").is_some() {
            plan = plan.fresh();
        }
        if let Some(every) = self.checkpoints()? {
            plan = plan.checkpoint_every(every, command())?;
        }
        Ok(plan)
    }
}

/// The arguments of this process, without those that would begin the run anew. Empty if they are
/// not those of `train`, or not text.
fn command() -> Vec<String> {
    let arguments: Option<Vec<String>> =
        std::env::args_os().skip(1).map(|argument| argument.into_string().ok()).collect();
    let mut arguments = arguments.unwrap_or_default();
    arguments.retain(|argument| argument != "--fresh");
    match arguments.first().map(String::as_str) {
        Some("train") => arguments,
        _ => Vec::new(),
    }
}

/// Says that there will be no accuracy, before the run is charged.
fn say_if_untested(data: &Dataset) {
    if data.test().is_empty() {
        eprintln!("the data have no test part, so there is no accuracy: --split 0.8 makes one");
    }
}

/// Refuses a plan that freezes what the model does not have.
///
/// # Errors
/// As [`Freezing::of`](epsilab::mask::Freezing::of).
pub fn fits(plan: &Plan, model: &Model) -> Result<()> {
    match plan.freezing() {
        freezing if freezing.is_none() => Ok(()),
        freezing => freezing.of(model.network()).map(drop),
    }
}
