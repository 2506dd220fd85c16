//! The models that are measured, as other libraries' benchmarks know them.

use epsilab::data::{self, Dataset};
use epsilab::nn::{Activation, Model, ModelBuilder, models};
use epsilab::{Error, Result};

/// What the features are.
#[derive(Clone, Copy, Debug)]
pub enum Features {
    /// Standard normal numbers.
    Pixels,
    /// Whole numbers below the size of the vocabulary.
    Tokens(u32),
}

/// A model and what it is fed with.
#[derive(Debug)]
pub struct Entry {
    /// As on the command line.
    pub name: &'static str,
    /// The customary batch.
    pub batch: usize,
    /// The shape of one example.
    pub shape: &'static [usize],
    pub features: Features,
    pub classes: u32,
    builder: fn(&Dataset) -> ModelBuilder,
}

/// All of them, in the order they are measured.
pub const ZOO: &[Entry] = &[Entry {
    name: "papernot_cnn",
    batch: 256,
    shape: &[1, 28, 28],
    features: Features::Pixels,
    classes: 10,
    builder: |data| models::papernot_cnn(data).activation(Activation::Relu),
}];

/// The entry of this name.
pub fn find(name: &str) -> Result<&'static Entry> {
    ZOO.iter().find(|entry| entry.name == name).ok_or_else(|| {
        let names: Vec<&str> = ZOO.iter().map(|entry| entry.name).collect();
        Error::setting("--models", name, "no model of this name is measured")
            .fix(format!("choose from {}", names.join(", ")))
    })
}

impl Entry {
    /// The model with the same parameters every time.
    pub fn model(&self) -> Result<Model> {
        // A model only asks its data for the shape and the classes.
        let size = self.shape.iter().product();
        let one = data::from_vecs(vec![0.0; size], self.shape, vec![0], self.classes as usize)?;
        (self.builder)(&one).seed(1).build()
    }
}
