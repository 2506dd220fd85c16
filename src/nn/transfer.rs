//! Transfer: the layers and parameters of a trained model with a new head, for other data.

use super::init::{Initialisation, Initialiser};
use super::{LayerSpec, Model, Network};
use crate::data::Dataset;
use crate::privacy::digits::{format_count, pluralise};
use crate::{Error, ErrorKind, Result};

/// Builder of a model for other data that starts from the parameters of a trained one.
/// [`Model::transfer`] returns one.
#[derive(Clone, Debug)]
pub struct TransferBuilder {
    model: Model,
    data: Dataset,
    /// The distribution of the new head; `None` for zeros.
    head_initialisation: Option<Initialisation>,
    seed: u64,
}

impl Model {
    /// Creates a builder of a model for `data` that keeps all layers and parameters of this one
    /// but its head: the last linear layer is replaced by a new one with an output for each class
    /// of `data`.
    ///
    /// ```
    /// use epsilab::{data, nn::models};
    /// # fn main() -> epsilab::Result<()> {
    /// let before = data::from_vecs(vec![0.0; 2 * 784], &[1, 28, 28], vec![0, 9], 10)?;
    /// let pretrained = models::papernot_cnn(&before).seed(1).build()?;
    /// let data = data::from_vecs(vec![0.0; 2 * 784], &[1, 28, 28], vec![0, 1], 2)?;
    /// let model = pretrained.transfer(&data).build()?;
    /// assert_eq!(model.classes(), 2);
    /// # Ok(()) }
    /// ```
    ///
    /// Examples of another size are fine where the layers allow it, for instance where a
    /// convolutional network ends in [`GlobalAvgPool`](crate::nn::GlobalAvgPool). A model of texts
    /// needs the [vocabulary](crate::data::Vocabulary) that it was trained with: the model does not
    /// know it, and with another one the token ids would mean other words.
    ///
    /// # Guarantee
    /// The new model keeps this one's [provenance](Self::provenance), which decides what the badge
    /// of a private run that starts from it assumes. The head depends on no data.
    pub fn transfer(&self, data: &Dataset) -> TransferBuilder {
        let (model, data, head) = (self.clone(), data.clone(), Some(Initialisation::default()));
        TransferBuilder { model, data, head_initialisation: head, seed: self.seed() }
    }
}

impl TransferBuilder {
    /// Sets the seed of the new head. The default is the seed of the model that it replaces, so
    /// that a notebook that is run again finds its stored runs.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Sets the distribution of the new head's parameters. The default is
    /// [`Initialisation::Uniform`].
    pub fn initialisation(mut self, initialisation: Initialisation) -> Self {
        self.head_initialisation = Some(initialisation);
        self
    }

    /// Starts the new head at zero: all classes are equally likely at first, and the layers
    /// below it get no gradient in the first step.
    pub fn zero_head(mut self) -> Self {
        self.head_initialisation = None;
        self
    }

    /// Builds the model on the CPU.
    ///
    /// # Errors
    /// Kind `Model` for a user-defined module, a model that does not end in a linear layer, data
    /// with fewer than two classes, and data whose examples do not fit the layers: other channels,
    /// a size that gives the linear layers another number of inputs, a larger vocabulary.
    pub fn build(self) -> Result<Model> {
        let Self { model, data, head_initialisation, seed } = self;
        let failed = |why: String, fix: &str| {
            let what = format!("the transfer of {} to {}", model.name(), data.name());
            Error::new(ErrorKind::Model, what, why).fix(fix)
        };
        if model.is_user_module() {
            let why = "the model is a user-defined module, and only its code can replace the last \
                       layer";
            let fix = "build the module for the new data, copy the parameters into it, and wrap it \
                       by Model::custom";
            return Err(failed(why.to_owned(), fix));
        }
        if data.classes() < 2 {
            let why = format!("a classifier needs two classes or more, not {}", data.classes());
            return Err(failed(why, "use data with labels of two or more classes"));
        }
        let known = model.network().vocabulary();
        if let (Some(known), Some(vocabulary)) = (known, data.vocabulary())
            && vocabulary.len() > known
        {
            let (known, new) = (pluralise(known, "token"), format_count(vocabulary.len()));
            let why =
                format!("the model knows {known}, but the vocabulary of the new data has {new}");
            return Err(failed(why, "read the new texts with the vocabulary of the old"));
        }
        let mut specs = model.network().specs().to_vec();
        let Some(new) = replace_head(&mut specs, data.classes()) else {
            let why = "the model does not end in a linear layer, so there is no head to replace";
            return Err(failed(why.to_owned(), "end the model in a LinearSpec"));
        };
        let mut kept = model.network().values();
        // The head comes last, so its parameters do.
        kept.truncate(kept.len() - new);
        let mut kept = kept.into_iter().map(|(_, values)| values);
        let mut initialiser = Initialiser::new(seed, head_initialisation.unwrap_or_default());
        let network = Network::build_from_specs(data.shape(), &specs, &mut |spec| {
            kept.next().unwrap_or_else(|| match head_initialisation {
                Some(_) => initialiser.draw(spec),
                None => vec![0.0; spec.shape.iter().product()],
            })
        })
        .map_err(|error| {
            let (from, to) = (model.input_shape(), data.shape());
            let text = error.to_string();
            let first = text.lines().next().unwrap_or_default();
            let why =
                format!("the model was built for examples of shape {from:?}, not {to:?}: {first}");
            failed(why, "read the new data in the shape of the old, or build a new model")
        })?;
        let built = Model::new(model.name(), data.classes(), seed, network);
        Ok(built.with_provenance(model.provenance().clone()))
    }
}

/// Sets the number of outputs of the last linear layer. Returns its number of parameter tensors,
/// or `None` if the last layer is of another kind.
fn replace_head(specs: &mut [LayerSpec], classes: usize) -> Option<usize> {
    let last = specs.last_mut()?;
    match last {
        LayerSpec::Linear(linear) => linear.outputs = classes,
        LayerSpec::Group(group) => return replace_head(&mut group.layers, classes),
        LayerSpec::BackpropClipped(clipped) => {
            return replace_head(std::slice::from_mut(&mut *clipped.layer), classes);
        }
        _ => return None,
    }
    Some(last.parameters().len())
}

#[cfg(test)]
mod tests;
