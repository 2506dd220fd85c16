//! The model that a run starts from: initial, read from a file, or trained on public data first.

use std::ops::ControlFlow::{self, Break, Continue};

use epsilab::data::{self, Dataset, TextOptions};
use epsilab::lab::recipes::{self, DrawnPrior};
use epsilab::methods::Method;
use epsilab::nn::{Model, Precision};
use epsilab::train::Run;
use epsilab::{Error, ErrorKind, Result};

use super::pretrained::PretrainedArgs;
use super::progress::StderrRunObserver;
use crate::options::{self, DatasetLoader};

/// Options of the model.
#[derive(clap::Args, Clone, Debug, PartialEq)]
pub struct InitialModelArgs {
    /// papernot_cnn, stevens_mnist_cnn, stevens_cifar_cnn, simple_vgg, wide_resnet_16_4, resnet18,
    /// resnet50, bit_resnet50, torchvision_resnet18, torchvision_resnet34, torchvision_resnet50,
    /// de_wide_resnet_16_4, de_wide_resnet_28_10, de_wide_resnet_40_4, bilstm, mlp (one hidden
    /// layer of 64), linear [default: papernot_cnn, for texts bilstm, for tables mlp]
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// Activation of the model: tanh, relu, selu [default: the model's own]
    #[arg(long, value_name = "NAME")]
    activation: Option<String>,
    #[command(flatten)]
    file: PretrainedArgs,
    /// Train the model on these data first, without privacy, and give it a new head: glyphs,
    /// patterns and sentences are drawn by code (from another seed than those of --data); mnist,
    /// fashion_mnist, cifar10, cifar100 and ag_news are assumed to be public
    #[arg(long, value_name = "NAME")]
    pretrain_on: Option<String>,
    /// Start from a prior: drawn first trains the model on generated images, which depend on no
    /// private data (for images of 28 x 28 grey or 32 x 32 coloured pixels)
    #[arg(long, value_name = "KIND", conflicts_with_all = ["pretrained", "pretrain_on"])]
    prior: Option<String>,
    /// Passes over the data of --pretrain-on [default: 12] or --prior [default: 6]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pretrain_epochs: Option<f64>,
}

/// Seed of the training on public data, so that runs with several seeds share it.
const PRETRAINING_SEED: u64 = 0;
/// The seed of public data that are drawn by code; those of `--data` have seed 0.
const GENERATION_SEED: u64 = 1;
/// Maximum number of epochs of training on public data.
const MAX_EPOCHS: f64 = 10_000.0;

/// The data sets of `--pretrain-on`.
const PUBLIC_DATASETS: [(&str, DatasetLoader); 8] = [
    ("glyphs", || data::glyphs_with(12_000, 2_000, GENERATION_SEED)),
    ("patterns", || data::patterns_with(12_000, 2_000, GENERATION_SEED)),
    ("sentences", || data::sentences_with(8_000, 2_000, GENERATION_SEED)),
    ("mnist", data::mnist),
    ("fashion_mnist", data::fashion_mnist),
    ("cifar10", data::cifar10),
    ("cifar100", data::cifar100),
    ("ag_news", || data::ag_news(&TextOptions::default())),
];

impl InitialModelArgs {
    /// Checks everything that needs no data.
    ///
    /// # Errors
    /// Kind `Setting` for names that are unknown and options that contradict each other.
    pub fn check(&self) -> Result<()> {
        options::parse_activation(self.activation.as_deref())?;
        self.model.as_deref().map(options::find_model).transpose()?;
        let named = self.pretrain_on.as_deref();
        named.map(|name| options::lookup("--pretrain-on", name, &PUBLIC_DATASETS)).transpose()?;
        self.file.check(&[
            ("--pretrain-on", self.pretrain_on.is_some()),
            ("--model", self.model.is_some()),
            ("--activation", self.activation.is_some()),
        ])?;
        if let Some(kind) = self.prior.as_deref().filter(|kind| *kind != "drawn") {
            let why = "unknown prior";
            return Err(Error::setting("--prior", kind, why)
                .fix("choose drawn; for public data use --pretrain-on or --pretrained"));
        }
        let Some(epochs) = self.pretrain_epochs else { return Ok(()) };
        if !self.has_pretraining() {
            let what = "--pretrain-epochs has no effect without --pretrain-on or --prior";
            return Err(Error::new(ErrorKind::Setting, what, "the model is not pre-trained")
                .fix("add --prior drawn, or leave it out"));
        }
        if !(epochs > 0.0 && epochs <= MAX_EPOCHS) {
            let why = format!("the number of epochs must be above 0 and at most {MAX_EPOCHS}");
            return Err(Error::setting("--pretrain-epochs", format!("{epochs:e}"), why)
                .fix("leave it out for the default"));
        }
        Ok(())
    }

    /// Returns whether there is a training on public data before that of the run.
    pub fn has_pretraining(&self) -> bool {
        self.pretrain_on.is_some() || self.prior.is_some()
    }

    /// Returns the number of passes over the public data.
    fn pretraining_epochs(&self) -> f64 {
        self.pretrain_epochs.unwrap_or_else(|| match self.prior {
            Some(_) => DrawnPrior::DEFAULT_EPOCHS,
            None => recipes::pretraining().settings().epochs,
        })
    }

    /// Describes the training before the run, for previews.
    pub fn describe_pretraining(&self) -> Option<String> {
        let name = match self.prior {
            Some(_) => "images drawn by code",
            None => self.pretrain_on.as_deref()?,
        };
        let epochs = self.pretraining_epochs();
        Some(format!(
            "before this run, its model is trained on {name} without privacy ({epochs} epochs), \
             which is charged to the ledger of those data"
        ))
    }

    /// Returns the model before any training on public data: with initial parameters of this seed
    /// or those of the file. It has the layers of the model that [`model`](Self::model) gives.
    ///
    /// # Errors
    /// As reading the file; kind `Model` if the model does not fit the data, `Setting` if data of
    /// `--pretrain-on` and of the run are the same or have different vocabularies.
    pub fn untrained_model(&self, data: &Dataset, seed: Option<u64>) -> Result<Model> {
        let initial = || self.build_initial(data, data, seed);
        let of_file = self.file.model(initial, |model| transfer_to(model, data, seed))?;
        if let Some(model) = of_file {
            return Ok(model);
        }
        if self.prior.is_some() {
            return self.drawn_prior(data, seed)?.untrained();
        }
        match self.load_public_data()? {
            None => self.build_initial(data, data, seed),
            Some(public) => {
                self.check_pretraining_data(&public, data)?;
                transfer_to(&self.build_initial(&public, data, seed)?, data, seed)
            }
        }
    }

    /// Returns the model, after training on public data if that is requested. Breaks with the run
    /// on the public data if that was interrupted.
    ///
    /// # Errors
    /// As [`untrained_model`](Self::untrained_model), and as training.
    pub fn model(
        &self,
        data: &Dataset,
        seed: Option<u64>,
        device: Option<&str>,
        precision: Precision,
    ) -> Result<ControlFlow<Run, Model>> {
        if self.prior.is_some() {
            let prior = self.drawn_prior(data, seed)?;
            let prior = device.into_iter().fold(prior, DrawnPrior::device);
            let heading = format!("prior for {} from images drawn by code", data.name());
            let run = prior.run(&mut StderrRunObserver::new(heading))?;
            if !run.is_finished() {
                return Ok(interrupted_pretraining(run, data));
            }
            return prior.start(&run).map(Continue);
        }
        let Some(public) = self.load_public_data()? else {
            return self.untrained_model(data, seed).map(Continue);
        };
        self.check_pretraining_data(&public, data)?;
        let model = self.build_initial(&public, data, Some(PRETRAINING_SEED))?;
        let epochs = self.pretraining_epochs();
        let method = recipes::pretraining().seed(PRETRAINING_SEED).epochs(epochs);
        let method = method.precision(precision);
        let method = device.into_iter().fold(method, |method, device| method.device(device));
        let heading = format!("{} on public data, {}", model.name(), public.name());
        let run = method.plan(&public)?.train_with(
            &model,
            &public,
            &mut StderrRunObserver::new(heading),
        )?;
        if run.is_finished() {
            return transfer_to(&run.model(), data, seed).map(Continue);
        }
        Ok(interrupted_pretraining(run, data))
    }

    /// Returns the named model for the shape of `data`, or the usual one for the data that it is
    /// meant for.
    fn build_initial(
        &self,
        data: &Dataset,
        meant_for: &Dataset,
        seed: Option<u64>,
    ) -> Result<Model> {
        let activation = options::parse_activation(self.activation.as_deref())?;
        let named = self.model.as_deref().map(options::find_model).transpose()?;
        let named = named.map_or_else(|| options::default_model(meant_for), Ok)?;
        options::build_model(named, data, (activation, seed))
    }

    /// Returns the prior of `--prior`.
    fn drawn_prior(&self, data: &Dataset, seed: Option<u64>) -> Result<DrawnPrior> {
        let activation = options::parse_activation(self.activation.as_deref())?;
        let mut prior = recipes::drawn_prior(data).epochs(self.pretraining_epochs());
        if self.model.is_some() || activation.is_some() {
            let named = self.model.as_deref().map(options::find_model).transpose()?;
            let named = named.map_or_else(|| options::default_model(data), Ok)?;
            prior = prior.model(move |drawn| {
                options::build_model(named, drawn, (activation, Some(PRETRAINING_SEED)))
            });
        }
        Ok(seed.into_iter().fold(prior, DrawnPrior::seed))
    }

    /// Reads the data of `--pretrain-on`.
    fn load_public_data(&self) -> Result<Option<Dataset>> {
        let Some(name) = &self.pretrain_on else { return Ok(None) };
        let read = options::lookup("--pretrain-on", name, &PUBLIC_DATASETS)?;
        Ok(Some(read()?.assumed_public()))
    }

    /// Checks that the data of `--pretrain-on` are not those of the run, and that texts have the
    /// same vocabulary.
    fn check_pretraining_data(&self, public: &Dataset, data: &Dataset) -> Result<()> {
        let name = self.pretrain_on.as_deref().unwrap_or_default();
        let refused =
            |why: String, fix: &str| Err(Error::setting("--pretrain-on", name, why).fix(fix));
        if data.origin() == public.origin() {
            let why = "the data are the private data of the run, and the model would keep what it \
                       learned from them without privacy";
            return refused(why.to_owned(), "choose other data, such as glyphs for digits");
        }
        if public.vocabulary() != data.vocabulary() {
            let why = match (public.vocabulary(), data.vocabulary()) {
                (Some(_), Some(_)) => format!(
                    "{} and {} have different vocabularies, so the same token id means different \
                     words",
                    public.name(),
                    data.name()
                ),
                (Some(_), None) => {
                    format!("{} are texts, and {} are not", public.name(), data.name())
                }
                _ => format!("{} are texts, and {} are not", data.name(), public.name()),
            };
            return refused(why, "choose data of the same kind, or leave out the option");
        }
        Ok(())
    }
}

/// Reports that a run on public data was interrupted, and breaks with it.
fn interrupted_pretraining(run: Run, data: &Dataset) -> ControlFlow<Run, Model> {
    eprintln!("this was the training on public data: no epsilon was spent on {}", data.name());
    Break(run)
}

/// Returns the model with a new head for the data.
fn transfer_to(model: &Model, data: &Dataset, seed: Option<u64>) -> Result<Model> {
    let transfer = model.transfer(data);
    seed.into_iter().fold(transfer, |transfer, seed| transfer.seed(seed)).build()
}
