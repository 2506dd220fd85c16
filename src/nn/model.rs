//! What a notebook cell holds.

use std::fmt;
use std::sync::Arc;

use burn::module::Module;
use burn::prelude::*;
use sha2::{Digest, Sha256};

use super::summary::{LayerInfo, Summary};
use super::user_module::UserModule;
use super::{Forward, Network, parameters, trial, validate};
use crate::data::Dataset;
use crate::{Error, ErrorKind, Result};

/// A classifier: a network, its name and what it was made for. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Model {
    about: Arc<About>,
    network: Network,
    start: Start,
}

/// Where the parameters come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Start {
    /// Drawn by a seed that was given.
    Seeded,
    /// Drawn by a seed that nobody chose.
    Unseeded,
    /// From training, a file or the user.
    Elsewhere,
}

#[derive(Debug)]
struct About {
    name: String,
    classes: usize,
    seed: u64,
}

impl Model {
    pub(super) fn new(name: &str, classes: usize, seed: u64, network: Network) -> Self {
        Self {
            about: Arc::new(About { name: name.to_owned(), classes, seed }),
            network,
            start: Start::Elsewhere,
        }
    }

    /// A model of a module of one's own, for the examples and classes of `data`. It trains,
    /// predicts and is stored like the models that come with the lab; saved files hold its
    /// parameters, which [`load_parameters`](Self::load_parameters) puts back. All its floating
    /// point parameters are trained, frozen or not.
    ///
    /// # Errors
    /// If the module fails on such examples or can't be trained privately: see
    /// [`validate`](Self::validate).
    pub fn custom<M>(name: &str, module: M, data: &Dataset) -> Result<Self>
    where
        M: Module + Forward + Sync + 'static,
    {
        let own = UserModule(Arc::new(parameters::untracked(module)));
        let device = own.devices().into_iter().next().unwrap_or_else(Device::flex);
        validate::check(&own, data.shape(), data.classes(), &device)?;
        let network = Network::of_user_module(own, data.shape(), data.classes());
        if network.parameters().is_empty() {
            let what = format!("the module {name} has no parameters");
            return Err(Error::new(ErrorKind::Model, what, "there is nothing to train"));
        }
        Ok(Self::new(name, data.classes(), 0, network))
    }

    /// The parameters were just drawn, by a seed that was given or not.
    pub(super) fn drawn(self, seeded: bool) -> Self {
        Self { start: if seeded { Start::Seeded } else { Start::Unseeded }, ..self }
    }

    /// The name of the architecture.
    pub fn name(&self) -> &str {
        &self.about.name
    }

    /// The shape of one example.
    pub fn input_shape(&self) -> &[usize] {
        self.network.input_shape()
    }

    /// How many classes it tells apart.
    pub fn classes(&self) -> usize {
        self.about.classes
    }

    /// The seed of its initial parameters; 0 for a module of one's own, which comes with them.
    pub fn seed(&self) -> u64 {
        self.about.seed
    }

    /// Whether the parameters are initial ones, which no example has touched.
    pub(crate) fn is_initial(&self) -> bool {
        self.start != Start::Elsewhere
    }

    /// Whether they are initial ones that nobody chose.
    pub(crate) fn is_at_random(&self) -> bool {
        self.start == Start::Unseeded
    }

    /// Whether it is a module of the user's own, made by [`Model::custom`].
    pub fn is_own_module(&self) -> bool {
        self.network.own.is_some()
    }

    /// How many numbers it learns.
    pub fn parameters(&self) -> usize {
        self.network.parameters().iter().map(|parameter| parameter.len()).sum()
    }

    /// Its layers, in order, with shapes and parameter counts.
    pub fn layers(&self) -> Vec<LayerInfo> {
        let Some(own) = &self.network.own else {
            return LayerInfo::list("", self.input_shape(), self.network.specs());
        };
        // Checked when the model was made, so it has lines.
        let device = self.network.device();
        validate::layers(own, self.input_shape(), &device).unwrap_or_default()
    }

    /// The layers as a table.
    pub fn summary(&self) -> Summary {
        Summary::new(self.to_string(), self.layers())
    }

    /// The network inside.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// The same model with other parameters: what training returns.
    pub fn with_network(&self, network: Network) -> Self {
        Self { about: Arc::clone(&self.about), network, start: Start::Elsewhere }
    }

    /// The same model with its parameters on this device.
    pub(crate) fn on(&self, device: &Device) -> Self {
        Self { network: self.network.on(device), ..self.clone() }
    }

    /// What makes two models the same to start a run from: the architecture and the parameters
    /// (SHA-256). Initial parameters that nobody chose, by a seed or by training, all count as
    /// the same: a notebook that is opened again finds its run instead of paying for another.
    pub fn fingerprint(&self) -> String {
        let mut hash = Sha256::new();
        hash.update(format!(
            "{} {} {:?} {:?}",
            self.name(),
            self.classes(),
            self.input_shape(),
            self.network.specs()
        ));
        if let Some(own) = &self.network.own {
            // What the code of a module does can't be read: what it computes stands for it, so that
            // modules that differ in anything but parameters are not taken for one another.
            hash.update(trial::behaviour(own, self.input_shape()).unwrap_or_default());
            for parameter in self.network.parameters() {
                hash.update(format!("{} {:?}", parameter.path, parameter.shape));
            }
        }
        if !self.is_at_random() {
            for (parameter, values) in self.network.values() {
                hash.update(parameter.path);
                values.iter().for_each(|value| hash.update(value.to_le_bytes()));
            }
        }
        hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl fmt::Display for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {} parameters, {:?} to {} classes",
            self.name(),
            self.parameters(),
            self.input_shape(),
            self.classes()
        )
    }
}
