//! [`Model`]: a named classifier.

use std::fmt;
use std::sync::Arc;

use burn::module::Module;
use burn::prelude::*;
use sha2::{Digest, Sha256};

use super::init::{Initialisation, Initialiser};
use super::module_trace::Subject;
use super::summary::{LayerInfo, ModelSummary};
use super::user_module::UserModule;
use super::{Forward, Network, Provenance, module_trace, parameters, validate};
use crate::data::Dataset;
use crate::data::digest::hex;
use crate::privacy::digits::pluralise;
use crate::{Error, ErrorKind, Result};

/// A classifier: a [`Network`] with a name and a number of classes. Clones share the parameters.
///
/// ```
/// use epsilab::prelude::*;
/// let data = data::glyphs_with(20, 10, 1)?;
/// let model = models::papernot_cnn(&data).seed(1).build()?;
/// assert_eq!((model.num_parameters(), model.classes()), (26_010, 10));
/// assert_eq!(model.predict(&data)?.len(), 10); // a class for each test example
/// println!("{}", model.summary());
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Model {
    metadata: Arc<Metadata>,
    network: Network,
    pub(super) provenance: Provenance,
}

#[derive(Clone, Debug)]
struct Metadata {
    name: String,
    classes: usize,
    seed: u64,
    /// The distribution that initial parameters were drawn from.
    initialisation: Option<Initialisation>,
}

impl Model {
    pub(super) fn new(name: &str, classes: usize, seed: u64, network: Network) -> Self {
        let (name, initialisation) = (name.to_owned(), None);
        Self {
            metadata: Arc::new(Metadata { name, classes, seed, initialisation }),
            network,
            provenance: Provenance::UNKNOWN,
        }
    }

    /// Creates a model of a user-defined module, for the examples and classes of `data`.
    ///
    /// It trains, predicts and is stored like the built-in models. A saved file holds its
    /// parameters only; [`load_parameters`](Self::load_parameters) restores them. All
    /// floating-point parameters are trained, including frozen ones.
    ///
    /// # Errors
    /// If the module panics on examples of this shape, has no parameters, or can't be trained
    /// privately: see [`validate`](Self::validate).
    pub fn custom<M>(name: &str, module: M, data: &Dataset) -> Result<Self>
    where
        M: Module + Forward + Sync + 'static,
    {
        let module = UserModule(Arc::new(parameters::untracked(module)));
        let device = module.devices().into_iter().next().unwrap_or_else(Device::flex);
        let subject = Subject { module: &module, shape: data.shape(), device: &device };
        validate::check(subject, data.classes())?;
        let network = Network::from_user_module(module, data.shape(), data.classes());
        if network.parameters().is_empty() {
            let what = format!("the module {name} has no parameters");
            return Err(Error::new(ErrorKind::Model, what, "there is nothing to train")
                .fix("give it a layer with parameters, such as nn::Linear"));
        }
        Ok(Self::new(name, data.classes(), 0, network))
    }

    /// Marks the parameters as initial ones of this distribution. `seeded` says whether the user
    /// chose the seed.
    pub(super) fn with_initial_provenance(mut self, seeded: bool, from: Initialisation) -> Self {
        Arc::make_mut(&mut self.metadata).initialisation = Some(from);
        self.with_provenance(Provenance::Initial { seeded })
    }

    /// Returns the model with initial parameters of this seed, if its own are initial ones whose
    /// seed that was not chosen by the user; otherwise the model as it is.
    ///
    /// # Errors
    /// As building a model.
    pub(crate) fn seeded_by(&self, seed: u64) -> Result<Self> {
        let Some(initialisation) = self.metadata.initialisation.filter(|_| self.is_unseeded())
        else {
            return Ok(self.clone());
        };
        let mut initialiser = Initialiser::new(seed, initialisation);
        let (shape, specs) = (self.input_shape(), self.network.specs());
        let network = Network::build_from_specs(shape, specs, &mut |spec| initialiser.draw(spec))?;
        let model = Self::new(self.name(), self.classes(), seed, network);
        Ok(model.with_initial_provenance(true, initialisation))
    }

    /// Returns the name of the architecture.
    pub fn name(&self) -> &str {
        &self.metadata.name
    }

    /// Returns the shape of one example.
    pub fn input_shape(&self) -> &[usize] {
        self.network.input_shape()
    }

    /// Returns the number of classes.
    pub fn classes(&self) -> usize {
        self.metadata.classes
    }

    /// Returns the seed of the initial parameters; 0 for a user-defined module, which brings its
    /// own parameters.
    pub fn seed(&self) -> u64 {
        self.metadata.seed
    }

    /// Returns whether the parameters were initialised with a seed from the operating system.
    pub(crate) fn is_unseeded(&self) -> bool {
        self.provenance == (Provenance::Initial { seeded: false })
    }

    /// Returns whether the model is a user-defined module of [`Model::custom`].
    pub(crate) fn is_user_module(&self) -> bool {
        self.network.user_module.is_some()
    }

    /// Returns the number of trainable parameters (scalars).
    pub fn num_parameters(&self) -> usize {
        self.network.parameters().iter().map(|parameter| parameter.len()).sum()
    }

    /// Returns the layers in order, with output shapes and parameter counts.
    pub fn layers(&self) -> Vec<LayerInfo> {
        let Some(module) = &self.network.user_module else {
            return LayerInfo::list("", self.input_shape(), self.network.specs());
        };
        // `Model::custom` has run the module on this shape, so this does not fail.
        let (shape, device) = (self.input_shape(), &self.network.device());
        validate::layers(Subject { module, shape, device }).unwrap_or_default()
    }

    /// Returns the layers as a table.
    pub fn summary(&self) -> ModelSummary {
        ModelSummary::new(self.to_string(), self.layers())
    }

    /// Returns the network: its layers and parameters.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// Returns a copy of this model with another network, such as a trained one. The
    /// [provenance](Self::provenance) of its parameters counts as unknown, except that the data
    /// that this model was trained on without privacy are remembered.
    pub fn with_network(&self, network: Network) -> Self {
        let provenance = self.provenance.after_unattributed_training();
        Self { network, provenance, ..self.clone() }
    }

    /// Returns a copy of this model with parameters of this provenance.
    pub(crate) fn with_provenance(&self, provenance: Provenance) -> Self {
        Self { provenance, ..self.clone() }
    }

    /// Returns a copy of this model with other layers around the same parameters.
    pub(crate) fn with_same_parameters(&self, network: Network) -> Self {
        Self { network, ..self.clone() }
    }

    /// Returns a copy of this model with its parameters on `device`.
    pub(crate) fn on_device(&self, device: &Device) -> Self {
        Self { network: self.network.on_device(device), ..self.clone() }
    }

    /// Computes the SHA-256 of the architecture and the parameters, in hexadecimal: the identity
    /// of the model that a run starts from.
    ///
    /// Initial parameters without a seed that the user chose are left out. A notebook that is run
    /// again then finds its stored run instead of spending privacy on another one.
    pub fn fingerprint(&self) -> String {
        let mut hash = Sha256::new();
        hash.update(format!(
            "{} {} {:?} {:?}",
            self.name(),
            self.classes(),
            self.input_shape(),
            self.network.specs()
        ));
        if let Some(module) = &self.network.user_module {
            // The code of a module can't be hashed. What it computes stands in for it, so that
            // modules that differ in more than their parameters get different fingerprints.
            hash.update(
                module_trace::behaviour_fingerprint(module, self.input_shape()).unwrap_or_default(),
            );
            for parameter in self.network.parameters() {
                hash.update(format!("{} {:?}", parameter.path, parameter.shape));
            }
        }
        if !self.is_unseeded() {
            for (parameter, values) in self.network.values() {
                hash.update(parameter.path);
                values.iter().for_each(|value| hash.update(value.to_le_bytes()));
            }
        }
        hex(&hash.finalize())
    }
}

impl fmt::Display for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {}, {:?} to {}",
            self.name(),
            pluralise(self.num_parameters(), "parameter"),
            self.input_shape(),
            pluralise(self.classes(), "class")
        )
    }
}
