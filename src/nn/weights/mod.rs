//! Weights of other libraries: from safetensors and PyTorch files into a model.
//!
//! ```
//! use epsilab::{data, nn::{Axes, Layout, models}};
//! # fn main() -> epsilab::Result<()> {
//! # let folder = tempfile::tempdir().unwrap();
//! # let file = folder.path().join("logistic.safetensors");
//! # let values: Vec<u8> = (0..10u8).flat_map(|i| f32::from(i).to_le_bytes()).collect();
//! # let header = concat!(
//! #     r#"{"fc.weight":{"dtype":"F32","shape":[2,4],"data_offsets":[0,32]},"#,
//! #     r#""fc.bias":{"dtype":"F32","shape":[2],"data_offsets":[32,40]}}"#,
//! # );
//! # let bytes = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &values].concat();
//! # std::fs::write(&file, bytes).unwrap();
//! let data = data::from_vecs(vec![0.0; 8], &[4], vec![0, 1], 2)?;
//! let layout = Layout::pairs(Axes::PyTorch, [("0.weight", "fc.weight"), ("0.bias", "fc.bias")]);
//! let loaded = models::linear(&data).seed(1).build()?.load_weights(&file, &layout)?;
//! println!("{}", loaded.report());
//! let model = loaded.model().assumed_public("ImageNet-21k");
//! # Ok(()) }
//! ```
//!
//! | file | how it is read |
//! |---|---|
//! | safetensors | the header first, then the tensors that the model needs |
//! | `torch.save`, the ZIP of PyTorch 1.6 and the one before | by a reader that runs no code |
//! | a pickle that names code | refused |

mod assign;
mod attempt;
mod axes;
mod known;
mod layout;
mod pickle;
mod place;
mod pytorch;
mod report;
mod safetensors_file;
mod source;

use std::collections::HashMap;
use std::path::Path;

pub use axes::Axes;
pub use layout::Layout;
pub use report::{Matched, Unmatched, WeightReport};

use super::init::{Initialisation, Initialiser};
use super::layers::parameter_specs;
use super::{Model, Provenance};
use crate::Result;
use assign::Assignment;
use attempt::Attempt;
use source::Source;

/// A model with weights from a file, and what was read. [`Model::load_weights`] returns one.
#[derive(Clone, Debug)]
pub struct LoadedWeights {
    model: Model,
    report: WeightReport,
}

impl LoadedWeights {
    /// The model with the weights.
    ///
    /// # Guarantee
    /// Nothing is known about the data that the weights were trained on, and a private run that
    /// starts from them says so. [`Model::assumed_public`] declares them public.
    pub fn model(&self) -> Model {
        self.model.clone()
    }

    /// Which tensors were read, and which were not and why.
    pub fn report(&self) -> &WeightReport {
        &self.report
    }
}

impl Model {
    /// A copy of this model with the weights of a file of another library, in single precision.
    ///
    /// The layout says under which names the file holds the parameters. Every parameter needs a
    /// tensor of its shape and every tensor a parameter, except what the layout leaves out by name.
    /// Nothing in the file is run. Files of [`Model::save`] are read by
    /// [`models::load`](crate::nn::models::load).
    ///
    /// If this model has no seed, parameters that keep their initial values are drawn again from
    /// seed 0, so that a notebook that is run again has the same model and finds its stored runs.
    ///
    /// # Errors
    /// - `Io` if the file can't be opened or is not a regular file.
    /// - `CorruptData` if it is cut off, changed or of another format, if its pickle names code, or
    ///   if two tensors have one name.
    /// - `Model` if it is a network with BatchNorm; if this model's layers compute something else
    ///   than the network of the layout, or it is a user-defined module and the layout not in the
    ///   lab's axes; if a tensor is missing, superfluous, has another shape, holds no
    ///   floating-point numbers, or a value that is NaN or infinite in single precision.
    /// - `Setting` if a pattern of the layout names nothing.
    pub fn load_weights(&self, path: impl AsRef<Path>, layout: &Layout) -> Result<LoadedWeights> {
        let attempt = Attempt { model: self, layout, path: path.as_ref() };
        attempt.check_model()?;
        let source = Source::open(attempt.path)?;
        let assignment = Assignment::new(attempt, &source)?;
        let mut values = assignment.values(attempt)?;
        let report = assignment.report(attempt, &source);
        let mut seed = self.seed();
        if self.is_unseeded() {
            seed = 0;
            values.extend(self.drawn_again(seed, &report));
        }
        let network = self.network().with_values(|path| values.get(path).cloned());
        let model = Self::new(self.name(), self.classes(), seed, network);
        Ok(LoadedWeights { model: model.with_provenance(Provenance::UNKNOWN), report })
    }

    /// Initial values from this seed for the parameters that are kept.
    fn drawn_again(&self, seed: u64, report: &WeightReport) -> HashMap<String, Vec<f32>> {
        let mut initialiser = Initialiser::new(seed, Initialisation::default());
        let specs = parameter_specs(self.network().specs()).into_iter();
        let kept = specs.filter(|spec| report.kept.iter().any(|kept| kept.name == spec.path));
        kept.map(|spec| (spec.path.clone(), initialiser.draw(&spec))).collect()
    }
}
