//! Loading of the weights of other libraries, from safetensors and PyTorch files, into a model.
//!
//! Of a safetensors file, the header is read first and then the tensors that the model needs. Of a
//! file of `torch.save`, the pickle is scanned for code, and then parsed by a reader that runs
//! nothing. Settings, numbers and paths beside the tensors are skipped and listed in the report.

mod assignment;
mod axis_order;
mod batch_norm;
mod index;
mod load_context;
mod parameter_location;
mod pickle_scan;
mod prefix;
mod published_networks;
mod pytorch;
mod report;
mod safetensors_file;
mod weight_file;
mod weight_layout;

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::Path;

pub use axis_order::AxisOrder;
pub use report::{MatchedTensor, UnmatchedTensor, WeightReport};
pub use weight_layout::WeightLayout;

use super::init::{Initialisation, Initialiser};
use super::layers::parameter_specs;
use super::{Model, Provenance};
use crate::Result;
use assignment::Assignment;
use load_context::LoadContext;
use weight_file::WeightFile;

/// Model with weights from a file, and the report of the tensors that were read.
/// [`Model::load_weights`] returns one.
#[derive(Clone, Debug)]
pub struct LoadedWeights {
    model: Model,
    report: WeightReport,
}

impl LoadedWeights {
    /// Returns the model with the weights.
    ///
    /// # Guarantee
    /// Nothing is known about the data that the weights were trained on, and a private run that
    /// starts from them says so. [`Model::assumed_public`] declares them public.
    pub fn model(&self) -> Model {
        self.model.clone()
    }

    /// Returns the report: the tensors that were read, and those that were not, with the reasons.
    pub fn report(&self) -> &WeightReport {
        &self.report
    }
}

impl Model {
    /// Loads the weights of a file of another library into a copy of this model, in single
    /// precision.
    ///
    /// The layout says under which names the file holds the parameters. Every parameter needs a
    /// tensor of its shape and every tensor a parameter, except what the layout leaves out by name.
    /// Of a checkpoint, which holds the tensors under a key such as `model` or `state_dict`, this
    /// part is read, unless several parts hold all of them: then [`WeightLayout::prefix`] names
    /// one. An index of sharded weights, `model.safetensors.index.json`, is read with all its
    /// shards. Nothing in the file is run. Files of [`Model::save`] are read by
    /// [`models::load`](crate::nn::models::load).
    ///
    /// ```
    /// use epsilab::{data, nn::{AxisOrder, WeightLayout, models}};
    /// # fn main() -> epsilab::Result<()> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let file = folder.path().join("logistic.safetensors");
    /// # let tensor = |shape: &str, data: [u32; 2]| {
    /// #     format!(r#"{{"dtype":"F32","shape":{shape},"data_offsets":{data:?}}}"#)
    /// # };
    /// # let (weight, bias) = (tensor("[2,4]", [0, 32]), tensor("[2]", [32, 40]));
    /// # let header = format!(r#"{{"fc.weight":{weight},"fc.bias":{bias}}}"#);
    /// # let length = (header.len() as u64).to_le_bytes();
    /// # std::fs::write(&file, [&length[..], header.as_bytes(), &[0; 40]].concat()).unwrap();
    /// let data = data::from_vecs(vec![0.0; 8], &[4], vec![0, 1], 2)?;
    /// let names = [("0.weight", "fc.weight"), ("0.bias", "fc.bias")];
    /// let layout = WeightLayout::from_pairs(AxisOrder::PyTorch, names);
    /// let loaded = models::linear(&data).seed(1).build()?.load_weights(&file, &layout)?;
    /// println!("{}", loaded.report());
    /// let model = loaded.model().assumed_public("ImageNet-21k");
    /// # Ok(()) }
    /// ```
    ///
    /// If this model has no seed, parameters that keep their initial values are drawn again from
    /// seed 0, so that a notebook that is run again has the same model and finds its stored runs.
    ///
    /// # Guarantee
    /// The [provenance](Self::provenance) of the new model is unknown, whatever that of this one,
    /// so a private run from it assumes that the weights do not depend on its data, or says that
    /// they were [declared public](Self::assumed_public).
    ///
    /// # Errors
    /// - `Io` if the file can't be opened or is not a regular file.
    /// - `CorruptData` if it is cut off, changed or of another format, if its pickle names code, if
    ///   two tensors have one name, or if it is a pointer of Git LFS.
    /// - `Model` if it is a network with BatchNorm, unless the layout is
    ///   [`torchvision`](WeightLayout::torchvision); if this model's layers compute something else
    ///   than the network of the layout, or it is a user-defined module and the layout not in the
    ///   lab's axes; if a tensor is missing, superfluous, has another shape, holds no
    ///   floating-point numbers, or a value that is NaN or infinite in single precision.
    /// - `Setting` if a pattern of the layout names nothing.
    pub fn load_weights(
        &self,
        path: impl AsRef<Path>,
        layout: &WeightLayout,
    ) -> Result<LoadedWeights> {
        let attempt = LoadContext { model: self, layout, path: path.as_ref() };
        attempt.check_model()?;
        let mut source = WeightFile::open(attempt.path)?;
        let folded = attempt.fold_batch_norm(&mut source)?;
        let in_checkpoint = assignment::in_checkpoint(attempt, &source);
        let attempt = LoadContext { layout: in_checkpoint.as_ref().unwrap_or(layout), ..attempt };
        let assignment = Assignment::new(attempt, &source)?;
        let mut values = assignment.values(attempt)?;
        let report = assignment.report(attempt, &source, &folded);
        let mut seed = self.seed();
        if self.is_unseeded() {
            seed = 0;
            values.extend(self.redraw_kept(seed, &report));
        }
        // Large models are not copied once more.
        let values = RefCell::new(values);
        let network = self.network().with_values(|path| values.borrow_mut().remove(path));
        let model = Self::new(self.name(), self.classes(), seed, network);
        Ok(LoadedWeights { model: model.with_provenance(Provenance::UNKNOWN), report })
    }

    /// Draws initial values from this seed for the parameters that keep their initial values.
    fn redraw_kept(&self, seed: u64, report: &WeightReport) -> HashMap<String, Vec<f32>> {
        let mut initialiser = Initialiser::new(seed, Initialisation::default());
        let specs = parameter_specs(self.network().specs()).into_iter();
        let kept = specs.filter(|spec| report.kept.iter().any(|kept| kept.name == spec.path));
        kept.map(|spec| (spec.path.clone(), initialiser.draw(&spec))).collect()
    }
}
