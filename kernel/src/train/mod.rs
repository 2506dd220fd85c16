//! The command `train`: one run of any method, from options or from the file of a plan.
//!
//! The run is that of `.train(…)` in a notebook: charged to the project's ledger and stored, so the
//! same command trains nothing the second time.

mod data;
mod export;
mod initial_model;
mod mask;
mod plan_args;
mod pretrained;
mod progress;
mod report;
mod settings;
mod table_args;

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::ExitCode;

use epsilab::data::{Dataset, Population};
use epsilab::device::DeviceSpec;
use epsilab::grid::Case;
use epsilab::methods::{CheckpointInterval, Plan};
use epsilab::nn::{Model, Precision};
use epsilab::train::{Run, interrupt};
use epsilab::{Error, Result, lab};

use crate::{options, stdout};
pub use data::DataArgs;
use initial_model::InitialModelArgs;
use plan_args::PlanArgs;
use progress::StderrRunObserver;
pub use settings::specs;

/// Train one model, privately or not, and report its guarantee and accuracy.
#[derive(clap::Args, Clone, Debug)]
pub struct TrainArgs {
    #[command(flatten)]
    pub data: DataArgs,
    #[command(flatten)]
    initial_model: InitialModelArgs,
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
    /// Name of the run that the command must resume.
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
    if let Some(examples) = options::non_negative_count("--population", args.population)? {
        let plan = args.plan_for(&Population::with_size(examples))?;
        args.print_preset(examples)?;
        args.save_plan_if_asked(&plan)?;
        stdout::print_line(&plan.to_string())?;
        return Ok(ExitCode::SUCCESS);
    }
    let data = args.data.read()?;
    if args.preview {
        let model = args.initial_model.untrained_model(&data, args.seed()?)?;
        let plan = args.build_plan(&model, &data)?;
        check_freezing(&plan, &model)?;
        args.print_preset(data.train().len())?;
        if let Some(first) = args.initial_model.describe_pretraining() {
            eprintln!("{first}");
        }
        note_missing_test_part(&data);
        stdout::print_line(&plan.preview(&data)?.to_string())?;
        return Ok(ExitCode::SUCCESS);
    }
    let run = args.run(&data, None)?;
    run.warnings().iter().for_each(|warning| eprintln!("{warning}"));
    if run.storing_error().is_some() {
        // The error was shown when it happened.
        match &args.out {
            Some(out) => export::export_run(out, &run)?,
            None => eprintln!("the model is lost: run again with --out DIR to write it elsewhere"),
        }
        return Ok(ExitCode::FAILURE);
    }
    if run.is_interrupted() {
        let continuation = match run.record().checkpoints {
            Some(_) => "resumes from its checkpoint",
            None => "trains the whole plan again",
        };
        eprintln!("interrupted: {run}; the same command {continuation}");
        return Ok(ExitCode::from(interrupt::exit_code()));
    }
    if let Some(out) = &args.out {
        export::export_run(out, &run)?;
    }
    let warnings = run.learning_warnings(&data);
    warnings.iter().for_each(|warning| eprintln!("{warning}"));
    let report = if args.json { report::to_json(&run, &warnings)? } else { report::to_text(&run)? };
    stdout::print_line(&report)?;
    Ok(ExitCode::SUCCESS)
}

impl TrainArgs {
    /// Returns the same command, which resumes the run of this name and trains no other one.
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
        self.checkpoint_interval()?;
        self.initial_model.check()
    }

    /// Prints the commands' defaults that determine the plan for this number of examples.
    fn print_preset(&self, examples: usize) -> Result<()> {
        if let (None, Some(preset)) = (&self.file, self.plan.describe_preset(examples)?) {
            eprintln!("{preset}");
        }
        Ok(())
    }

    /// Returns the interval at which checkpoints are written, if it is given.
    ///
    /// # Errors
    /// Kind `Setting` for a text that is no interval.
    pub fn checkpoint_interval(&self) -> Result<Option<CheckpointInterval>> {
        self.plan.text("checkpoint_every").map(str::parse).transpose()
    }

    /// Returns whether another run has the same data and the same model at its start.
    pub fn has_start_of(&self, other: &Self) -> bool {
        let start = |args: &Self| {
            let on = ["device", "precision", "checkpoint_every"]
                .map(|id| args.plan.text(id).map(str::to_owned));
            (args.data.clone(), args.initial_model.clone(), on)
        };
        start(self) == start(other)
    }

    /// Prints a note where the default batch size is smaller than usual, because there are few
    /// examples.
    pub fn note_small_batch(&self, data: &Dataset) {
        let note = self.plan.small_batch_note(data.train().len()).filter(|_| self.file.is_none());
        note.iter().for_each(|note| eprintln!("{note}"));
    }

    /// Returns the case of an experiment with these options, on this number of training examples
    /// if it is known.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub fn case(&self, examples: Option<usize>) -> Result<Case> {
        self.plan.case(examples)
    }

    /// Returns whether there is a training on public data before that of the run.
    pub fn trains_first(&self) -> bool {
        self.initial_model.has_pretraining()
    }

    /// Returns the model before any training, as [`InitialModelArgs::untrained_model`].
    ///
    /// # Errors
    /// As [`InitialModelArgs::untrained_model`].
    pub fn untrained(&self, data: &Dataset, seed: Option<u64>) -> Result<Model> {
        self.initial_model.untrained_model(data, seed)
    }

    /// Returns the model at the start of the run, as [`InitialModelArgs::model`].
    ///
    /// # Errors
    /// As [`InitialModelArgs::model`]; kind `Setting` for a precision that does not exist.
    pub fn model(&self, data: &Dataset, seed: Option<u64>) -> Result<ControlFlow<Run, Model>> {
        let device = self.plan.text("device");
        self.initial_model.model(data, seed, device, self.precision()?)
    }

    /// Returns the requested device, if one is given.
    ///
    /// # Errors
    /// Kind `Device` for a name that no device has.
    pub fn device(&self) -> Result<Option<DeviceSpec>> {
        self.plan.text("device").map(str::parse).transpose()
    }

    /// Trains the model; the heading of the progress is that of the model and the data by default.
    /// The run is finished or interrupted; an interrupted one may be that on public data.
    ///
    /// # Errors
    /// As [`train`].
    pub fn run(&self, data: &Dataset, heading: Option<String>) -> Result<Run> {
        if self.initial_model.has_pretraining() {
            let untrained = self.initial_model.untrained_model(data, self.seed()?)?;
            let plan = self.load_or_build_plan(&untrained, data)?;
            check_freezing(&plan, &untrained)?;
            plan.resolve_device()?;
        }
        let model = match self.model(data, self.seed()?)? {
            ControlFlow::Continue(model) => model,
            ControlFlow::Break(interrupted) => return Ok(interrupted),
        };
        let plan = self.build_plan(&model, data)?;
        if let Some(id) = &self.resumed {
            lab::check_resumes_same_run(id, &plan, &model, data)?;
        }
        note_missing_test_part(data);
        self.note_small_batch(data);
        let usual = || format!("{}: {} on {}", plan.method(), model.name(), data.name());
        let heading = heading.unwrap_or_else(usual);
        let run = plan.train_with(&model, data, &mut StderrRunObserver::new(heading))?;
        if run.storing_error().is_none() && !run.is_restored() {
            eprintln!("stored in runs/{}", run.record().id);
        }
        Ok(run)
    }

    /// Returns the seed of the run and its model.
    fn seed(&self) -> Result<Option<u64>> {
        match self.load_plan_file()? {
            Some(plan) => Ok(plan.seed()),
            None => Ok(self.plan.build_method()?.settings().seed),
        }
    }

    /// Returns the precision of the options, for training on public data before the run.
    fn precision(&self) -> Result<Precision> {
        match &self.file {
            Some(_) => Ok(Precision::default()),
            None => Ok(self.plan.build_method()?.settings().precision),
        }
    }

    /// Returns the plan of the file, if there is one.
    fn load_plan_file(&self) -> Result<Option<Plan>> {
        self.file.as_ref().map(|file| self.plan.load(file)).transpose()
    }

    /// Returns the plan, and saves it if `--save-plan` is given.
    fn build_plan(&self, model: &Model, data: &Dataset) -> Result<Plan> {
        let plan = self.load_or_build_plan(model, data)?;
        self.save_plan_if_asked(&plan)?;
        Ok(plan)
    }

    /// Writes the plan to the file of `--save-plan`, if one is named.
    fn save_plan_if_asked(&self, plan: &Plan) -> Result<()> {
        let Some(path) = &self.save_plan else { return Ok(()) };
        plan.save(path)?;
        eprintln!("wrote the plan {}", path.display());
        Ok(())
    }

    /// Returns the plan for this number of examples, without model and data.
    ///
    /// # Errors
    /// As [`train`], before data are read; kind `Setting` for a file of a plan for another number.
    pub fn plan_for(&self, population: &Population) -> Result<Plan> {
        let Some(plan) = self.load_plan_file()? else { return self.plan.plan_for(population) };
        let examples = population.examples();
        if plan.examples() != examples {
            let why = format!("the plan in the file is for {}", plan.examples());
            return Err(Error::setting("--population", examples, why).fix("give that number"));
        }
        Ok(plan)
    }

    /// Returns the plan of the file or of the options, for the requested device.
    fn load_or_build_plan(&self, model: &Model, data: &Dataset) -> Result<Plan> {
        let mut plan =
            self.load_plan_file()?.map_or_else(|| self.plan.plan_for_data(model, data), Ok)?;
        if let Some(device) = self.plan.text("device") {
            plan = plan.on_device(device);
        }
        if self.plan.text("fresh").is_some() {
            plan = plan.fresh();
        }
        if let Some(every) = self.checkpoint_interval()? {
            plan = plan.checkpoint_every(every, resume_arguments())?;
        }
        Ok(plan)
    }
}

/// Returns the arguments of this process, without those that would begin the run anew. Empty if
/// they are not those of `train`, or not text.
fn resume_arguments() -> Vec<String> {
    let arguments: Option<Vec<String>> =
        std::env::args_os().skip(1).map(|argument| argument.into_string().ok()).collect();
    let mut arguments = arguments.unwrap_or_default();
    arguments.retain(|argument| argument != "--fresh");
    match arguments.first().map(String::as_str) {
        Some("train") => arguments,
        _ => Vec::new(),
    }
}

/// Prints that there will be no accuracy, before the run is charged.
fn note_missing_test_part(data: &Dataset) {
    if data.test().is_empty() {
        eprintln!(
            "the data have no test part, so there is no accuracy: --split 0.8 splits one off"
        );
    }
}

/// Returns an error for a plan that freezes parts that the model does not have.
///
/// # Errors
/// As [`FreezeConfig::frozen_flags`](epsilab::mask::FreezeConfig::frozen_flags).
pub fn check_freezing(plan: &Plan, model: &Model) -> Result<()> {
    match plan.freezing() {
        freezing if freezing.is_empty() => Ok(()),
        freezing => freezing.frozen_flags(model.network()).map(drop),
    }
}
