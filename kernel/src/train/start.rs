//! The model that a run starts from: initial, read from a file, or trained on public data first.

use std::ops::ControlFlow::{self, Break, Continue};
use std::path::PathBuf;

use epsilab::data::Dataset;
use epsilab::methods::recipes;
use epsilab::nn::{Model, models};
use epsilab::train::Run;
use epsilab::{Error, ErrorKind, Result};

use super::progress::ToStderr;
use crate::options;

/// Options of the model.
#[derive(clap::Args, Clone, Debug)]
pub struct StartArgs {
    /// papernot_cnn, stevens_mnist_cnn, stevens_cifar_cnn, simple_vgg, wide_resnet_16_4, resnet18,
    /// resnet50, bilstm, mlp (one hidden layer of 64), linear [default: papernot_cnn, for texts
    /// bilstm, for tables mlp]
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// Activation of the model: tanh, relu, selu [default: the model's own]
    #[arg(long, value_name = "NAME")]
    activation: Option<String>,
    /// Start from the model of this file, with a new head for the data; --out and model.save(path)
    /// write such files
    #[arg(long, value_name = "FILE")]
    pretrained: Option<PathBuf>,
    /// Train the model on these data first, without privacy, and give it a new head: glyphs and
    /// patterns are drawn by code, mnist, fashion_mnist, cifar10 and cifar100 are assumed public
    #[arg(long, value_name = "NAME")]
    pretrain_on: Option<String>,
    /// Passes over the data of --pretrain-on [default: 12]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pretrain_epochs: Option<f64>,
}

/// The training on public data has its own seed: runs with several seeds share it.
const PRETRAINING_SEED: u64 = 0;

impl StartArgs {
    /// Checks everything that needs no data.
    ///
    /// # Errors
    /// Kind `Setting` for names that are unknown and options that contradict each other.
    pub fn check(&self) -> Result<()> {
        options::activation(self.activation.as_deref())?;
        self.model.as_deref().map(options::model_named).transpose()?;
        self.public_data()?;
        let given = [
            ("--pretrain-on", self.pretrain_on.is_some()),
            ("--model", self.model.is_some()),
            ("--activation", self.activation.is_some()),
        ];
        let also = given.iter().find(|(_, given)| *given && self.pretrained.is_some());
        if let Some((option, _)) = also {
            let what = format!("--pretrained and {option}");
            return Err(Error::new(ErrorKind::Setting, what, "the file says what the model is")
                .fix("leave out one of the two"));
        }
        if self.pretrain_epochs.is_some() && self.pretrain_on.is_none() {
            let why = "it has no effect without --pretrain-on";
            return Err(Error::setting("--pretrain-epochs", "given", why)
                .fix("add --pretrain-on glyphs, or leave it out"));
        }
        Ok(())
    }

    /// The model: with initial parameters of this seed, or with those that it starts from. Breaks
    /// with the run on the public data if that was interrupted.
    ///
    /// # Errors
    /// As reading the file and the public data, and as training on them; kind `Model` if the model
    /// can't be transferred to the data.
    pub fn model(&self, data: &Dataset, seed: Option<u64>) -> Result<ControlFlow<Run, Model>> {
        if let Some(path) = &self.pretrained {
            return transferred(&models::load(path)?, data, seed).map(Continue);
        }
        let Some((_, read)) = self.public_data()? else {
            return self.initial(data, data, seed).map(Continue);
        };
        let public = read()?.assumed_public();
        let model = self.initial(&public, data, Some(PRETRAINING_SEED))?;
        // Before anything is trained: a model that does not fit the data ends the command.
        transferred(&model, data, seed)?;
        let mut method = recipes::pretraining().seed(PRETRAINING_SEED);
        if let Some(epochs) = self.pretrain_epochs {
            method = method.epochs(epochs);
        }
        let heading = format!("{} on public data, {}", model.name(), public.name());
        let run = method.plan(&public)?.train(&model, &public, &mut ToStderr::new(heading))?;
        match run.is_finished() {
            true => transferred(&run.model(), data, seed).map(Continue),
            false => Ok(Break(run)),
        }
    }

    /// The model with initial parameters, without training on public data; for previews.
    ///
    /// # Errors
    /// As [`model`](Self::model).
    pub fn untrained(&self, data: &Dataset, seed: Option<u64>) -> Result<Model> {
        match &self.pretrained {
            Some(path) => transferred(&models::load(path)?, data, seed),
            None => self.initial(data, data, seed),
        }
    }

    /// The named model for the shape of `data`, or the usual one for the data that it is meant for.
    fn initial(&self, data: &Dataset, meant_for: &Dataset, seed: Option<u64>) -> Result<Model> {
        let activation = options::activation(self.activation.as_deref())?;
        let named = self.model.as_deref().map(options::model_named).transpose()?;
        let named = named.map_or_else(|| options::usual_model(meant_for), Ok)?;
        options::model(named, data, (activation, seed))
    }

    /// The name of the data of `--pretrain-on` and what reads them.
    fn public_data(&self) -> Result<Option<(&'static str, options::Read)>> {
        let Some(name) = &self.pretrain_on else { return Ok(None) };
        options::found("--pretrain-on", name, &options::DATA).map(Some)
    }
}

/// The model with a new head for the data.
fn transferred(model: &Model, data: &Dataset, seed: Option<u64>) -> Result<Model> {
    let transfer = model.transfer(data);
    match seed {
        Some(seed) => transfer.seed(seed).build(),
        None => transfer.build(),
    }
}
