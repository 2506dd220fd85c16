//! Prior from images that are drawn by code: a pre-trained model that needs no real data.

use std::fmt;
use std::sync::Arc;

use crate::data::{self, Dataset};
use crate::methods::recipes;
use crate::nn::{Model, models};
use crate::privacy::digits::format_count;
use crate::show::LiveRun;
use crate::train::{Observer, Run};
use crate::{Error, ErrorKind, Result};

/// Seed of the drawn images, of the model and of the training on them. The built-in data sets have
/// seed 0, so that a prior is not a start for them that has seen them.
const SEED: u64 = 1;
/// Training images of a prior, grey and in colour (0.4 and 0.7 GB).
const EXAMPLES: (usize, usize) = (120_000, 60_000);
/// Test images of a prior.
const TEST_IMAGES: usize = 2_000;

/// Function that makes the model for a data set.
type ModelBuilderFn = dyn Fn(&Dataset) -> Result<Model> + Send + Sync;

/// Builder of a model that was trained on images drawn by code, as the start of a run on private
/// data. [`drawn_prior`] returns one.
#[derive(Clone)]
pub struct DrawnPrior {
    data: Dataset,
    make: Arc<ModelBuilderFn>,
    examples: usize,
    epochs: f64,
    seed: Option<u64>,
    device: Option<String>,
    new_head: bool,
}

/// Returns the builder of a model for `data` that has learned from images drawn by code, the start
/// of a private run.
///
/// Grey images of 28 x 28 pixels start from drawn [digits](data::drawn_digits), colour images of
/// 32 x 32 pixels from [dead leaves](data::dead_leaves). The training on them takes one to three
/// minutes on two cores for a small network. It is stored, so the next call returns at once. If the
/// classes of `data` are the digits too, by their names, the head is kept; otherwise it is new.
///
/// ```no_run
/// use epsilab::prelude::*;
/// # fn main() -> epsilab::Result<()> {
/// let data = data::mnist()?;
/// let start = recipes::drawn_prior(&data).build()?;
/// let run = DpSgd::new().target(Epsilon(0.5), Delta(1e-5)).train(&start, &data)?;
/// println!("{}", run.statement());
/// # Ok(()) }
/// ```
///
/// # Guarantee
/// The start depends on no data of people, and the badge of a run that starts from it needs no
/// assumption about it. Names of classes and shape of the images, which decide what is drawn, are
/// public. Pre-training is charged to the ledger of the drawn images, where it costs nobody
/// anything. (Tang, Panda, Sehwag and Mittal, 2023, "Differentially private image classification by
/// learning priors from random processes", learn priors without labels, from other processes.)
pub fn drawn_prior(data: &Dataset) -> DrawnPrior {
    let make: Arc<ModelBuilderFn> = Arc::new(|data| models::papernot_cnn(data).seed(SEED).build());
    let examples = if data.shape() == [3, 32, 32] { EXAMPLES.1 } else { EXAMPLES.0 };
    let data = data.clone();
    let (seed, device, new_head) = (None, None, false);
    DrawnPrior { data, make, examples, epochs: DrawnPrior::DEFAULT_EPOCHS, seed, device, new_head }
}

impl DrawnPrior {
    /// The default number of passes over the drawn images.
    pub const DEFAULT_EPOCHS: f64 = 6.0;

    /// Sets the model that is trained on the drawn images, which it is given;
    /// `models::papernot_cnn` by default. Give it a seed: without one, another prior is trained in
    /// every session.
    ///
    /// ```no_run
    /// use epsilab::prelude::*;
    /// # fn main() -> epsilab::Result<()> {
    /// let data = data::cifar10()?;
    /// let vgg = |drawn: &Dataset| models::simple_vgg(drawn, &[32, 64, 128], 2).seed(1).build();
    /// let start = recipes::drawn_prior(&data).model(vgg).build()?;
    /// # Ok(()) }
    /// ```
    pub fn model(
        mut self,
        build_model: impl Fn(&Dataset) -> Result<Model> + Send + Sync + 'static,
    ) -> Self {
        self.make = Arc::new(build_model);
        self
    }

    /// Sets the number of drawn training images; by default 120,000 digits or 60,000 colour images.
    pub fn examples(self, examples: usize) -> Self {
        Self { examples, ..self }
    }

    /// Sets the number of passes over the drawn images; 6 by default.
    pub fn epochs(self, epochs: impl Into<f64>) -> Self {
        Self { epochs: epochs.into(), ..self }
    }

    /// Sets the seed of a new head. The prior itself has a fixed seed, so that it is trained once.
    pub fn seed(self, seed: u64) -> Self {
        Self { seed: Some(seed), ..self }
    }

    /// Sets the device that the prior is trained on; by default that of plans.
    pub fn device(self, name: impl ToString) -> Self {
        Self { device: Some(name.to_string()), ..self }
    }

    /// Replaces the head even if the names of the classes are those of the drawn images.
    pub fn new_head(self) -> Self {
        Self { new_head: true, ..self }
    }

    /// Returns the drawn images.
    ///
    /// # Errors
    /// `Setting` for data of another kind than the images that can be drawn, and for a number of
    /// images out of range.
    pub fn drawn(&self) -> Result<Dataset> {
        match *self.data.shape() {
            [1, 28, 28] => data::drawn_digits(self.examples, TEST_IMAGES, SEED),
            [3, 32, 32] => data::dead_leaves(self.examples, TEST_IMAGES, SEED),
            ref shape => {
                let what = format!("a drawn prior for {}", self.data.name());
                let why = format!(
                    "the examples have shape {shape:?}, but drawn images have shape [1, 28, 28] \
                     (grey) or [3, 32, 32] (colour)"
                );
                Err(Error::new(ErrorKind::Setting, what, why).fix(
                    "read the images in one of these sizes (ImageOptions::size), or train a model \
                     on public data of your own with recipes::pretraining()",
                ))
            }
        }
    }

    /// Returns the model before it is trained on the drawn images, with the head that the start
    /// will have.
    ///
    /// # Errors
    /// `Setting` for data of another kind than the images that can be drawn, and for a number of
    /// images out of range; errors of building the model.
    pub fn untrained(&self) -> Result<Model> {
        let small = Self { examples: 1, ..self.clone() };
        let drawn = small.drawn()?;
        self.with_head(&(self.make)(&drawn)?, &drawn)
    }

    /// Trains the prior, or takes the stored one, with a live display.
    ///
    /// # Errors
    /// `Setting` for images that can't be drawn and if the training was stopped; errors of building
    /// the model and of training.
    pub fn build(&self) -> Result<Model> {
        self.start(&self.run(&mut LiveRun::new())?)
    }

    /// Returns the run on the drawn images, with progress for `observer`.
    ///
    /// # Errors
    /// `Setting` for images that can't be drawn; errors of building the model and of training.
    pub fn run(&self, observer: &mut dyn Observer) -> Result<Run> {
        let drawn = self.drawn()?;
        let mut plan = recipes::pretraining().seed(SEED).epochs(self.epochs).plan(&drawn)?;
        if let Some(device) = &self.device {
            plan = plan.on_device(device);
        }
        plan.train_with(&(self.make)(&drawn)?, &drawn, observer)
    }

    /// Returns the start that a [`run`](Self::run) on the drawn images gives.
    ///
    /// # Errors
    /// `Setting` if it was stopped; as [`Model::transfer`].
    pub fn start(&self, run: &Run) -> Result<Model> {
        if !run.is_finished() {
            let what = "the training on drawn images";
            let why = format!("the training was stopped: {run}");
            return Err(Error::new(ErrorKind::Setting, what, why)
                .fix("call it again; no epsilon was spent on private data"));
        }
        let small = Self { examples: 1, ..self.clone() };
        self.with_head(&run.model(), &small.drawn()?)
    }

    /// Returns the model with the head for the data.
    fn with_head(&self, model: &Model, drawn: &Dataset) -> Result<Model> {
        if !self.new_head && self.data.class_names() == drawn.class_names() {
            return Ok(model.clone());
        }
        let transfer = model.transfer(&self.data);
        match self.seed {
            Some(seed) => transfer.seed(seed).build(),
            None => transfer.build(),
        }
    }
}

impl fmt::Debug for DrawnPrior {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { data, examples, epochs, .. } = self;
        let examples = format_count(examples);
        write!(f, "a prior for {} from {examples} drawn images, {epochs} epochs", data.name())
    }
}

#[cfg(test)]
mod tests;
