//! What a notebook cell holds.

use std::fmt;
use std::sync::Arc;

use super::summary::{LayerInfo, Summary};
use super::{Network, network};

/// A classifier: a network, its name and what it was made for. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Model {
    about: Arc<About>,
    network: Network,
}

#[derive(Debug)]
struct About {
    name: String,
    classes: usize,
    seed: u64,
}

impl Model {
    pub(super) fn new(name: &str, classes: usize, seed: u64, network: Network) -> Self {
        Self { about: Arc::new(About { name: name.to_owned(), classes, seed }), network }
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

    /// The seed of its initial parameters.
    pub fn seed(&self) -> u64 {
        self.about.seed
    }

    /// How many numbers it learns.
    pub fn parameters(&self) -> usize {
        self.network.parameters().iter().map(|parameter| parameter.len()).sum()
    }

    /// Its layers, in order, with shapes and parameter counts.
    pub fn layers(&self) -> Vec<LayerInfo> {
        let specs = self.network.specs();
        let shapes = network::shapes(self.input_shape(), specs).unwrap_or_default();
        let each = specs.iter().zip(shapes).enumerate();
        each.map(|(index, (spec, shape))| LayerInfo::new(index, spec, shape)).collect()
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
        Self { about: Arc::clone(&self.about), network }
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
