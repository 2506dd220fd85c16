//! Saving and loading of models as safetensors files, with the architecture in the metadata.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::Path;

use safetensors::{Dtype, SafeTensors};
use serde::{Deserialize, Serialize};

use super::layers::parameter_specs;
use super::network::leaf_specs;
use super::{LayerClips, LayerSpec, Model, Network, Parameter, Provenance, network};
use crate::data::PublicData;
use crate::{Error, ErrorKind, Result, file};

/// Metadata key of the [`ModelDescription`], as JSON.
const METADATA_KEY: &str = "epsilab";

/// Version of the description that [`Model::save`] writes; older ones can be read. Version 2 added
/// normalisation, LSTMs, blocks, and grouped, dilated and standardised convolutions.
const FORMAT_VERSION: u32 = 2;

/// The architecture of a stored model.
#[derive(Serialize, Deserialize)]
struct ModelDescription {
    format: u32,
    name: String,
    input_shape: Vec<usize>,
    classes: usize,
    seed: u64,
    layers: Vec<LayerSpec>,
    /// Whether the model is a user-defined module: the file contains its parameters, but not its
    /// code.
    #[serde(default)]
    custom: bool,
    /// Public data that the parameters depend on, if they depend on no other data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    public: Option<Vec<PublicData>>,
}

impl ModelDescription {
    /// Returns the provenance of the parameters that the file states.
    fn provenance(&self) -> Provenance {
        let public = self.public.clone();
        let named =
            |all: Vec<PublicData>| all.into_iter().map(PublicData::into_unverified).collect();
        public.map_or(Provenance::UNKNOWN, |all| Provenance::from_public(named(all)))
    }
}

/// The part of a description that every version has. It is read first.
#[derive(Deserialize)]
struct FormatVersion {
    format: u32,
}

impl Model {
    /// Writes the model to a safetensors file, replacing an existing file atomically. Missing
    /// folders are made.
    ///
    /// Each parameter is a tensor named by its path; the architecture is in the metadata. The
    /// vocabulary of a text model belongs to the data and is NOT stored. Read the texts with the
    /// same [`Vocabulary`](crate::data::Vocabulary) again, or the token ids mean other words: a
    /// hashed vocabulary is determined by its size, a list of words must be kept.
    ///
    /// # Errors
    /// If the file can't be written.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let description = ModelDescription {
            format: FORMAT_VERSION,
            name: self.name().to_owned(),
            input_shape: self.input_shape().to_vec(),
            classes: self.classes(),
            seed: self.seed(),
            layers: self.network().specs().to_vec(),
            custom: self.network().user_module.is_some(),
            public: match self.provenance() {
                Provenance::Public(all) => Some(all.clone()),
                _ => None,
            },
        };
        let failed = |e: String| Error::new(ErrorKind::Model, format!("saving {}", self.name()), e);
        let text = serde_json::to_string(&description).map_err(|e| failed(e.to_string()))?;
        let stored = |(parameter, values): (Parameter, Vec<f32>)| {
            let bytes = values.iter().flat_map(|v| v.to_le_bytes()).collect();
            (parameter.path, Dtype::F32, parameter.shape, bytes)
        };
        let tensors: Vec<_> = self.network().values().into_iter().map(stored).collect();
        let bytes = file::safetensors(&tensors, [(METADATA_KEY, text)]).map_err(failed)?;
        file::write(path, &bytes)
    }

    /// Loads the parameters of a file that [`Model::save`] wrote into a copy of this model.
    ///
    /// It restores a user-defined module, and starts a model from the parameters of another one
    /// with the same layers.
    ///
    /// # Errors
    /// If the file can't be read or was not written by [`Model::save`], if the paths or shapes of
    /// its parameters differ from this model's, or if a value is NaN or infinite.
    pub fn load_parameters(&self, path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let file = ModelFile::read(path)?;
        let expected = self.network().parameters().into_iter().map(|p| (p.path, p.shape));
        let expected: Vec<(String, Vec<usize>)> = expected.collect();
        let values = file.values(&expected).map_err(|why| {
            let what =
                format!("the file {} holds another model than {}", path.display(), self.name());
            Error::new(ErrorKind::Model, what, why)
                .fix("load a file that was saved from a model with the same parameters")
        })?;
        // Clips have no parameters, but they change what the layers compute.
        let clips = |specs: &[LayerSpec]| -> Vec<Option<LayerClips>> {
            let each = leaf_specs(specs).into_iter();
            each.map(|layer| layer.clipped().map(|clipped| clipped.clip)).collect()
        };
        if !file.description.custom
            && clips(&file.description.layers) != clips(self.network().specs())
        {
            let what = format!("the file {} holds a model with other clips", path.display());
            let why = "the clips of backpropagation clipping are a part of the trained model";
            return Err(Error::new(ErrorKind::Model, what, why)
                .fix("read the whole model with models::load(path)"));
        }
        check_finite(path, &values)?;
        let network = self.network().with_values(|path| values.get(path).cloned());
        // The file says nothing about the constants of a user's module.
        let provenance =
            if self.is_user_module() { Provenance::UNKNOWN } else { file.description.provenance() };
        Ok(self.with_network(network).with_provenance(provenance))
    }
}

/// Reads a model that [`Model::save`] wrote, onto the CPU.
///
/// # Errors
/// If the file is missing or unreadable, is not a safetensors file, was not written by
/// [`Model::save`] or was written by a later version of it, holds a user-defined module, holds
/// other tensors than its architecture states, or holds a value that is NaN or infinite.
pub fn load(path: impl AsRef<Path>) -> Result<Model> {
    let path = path.as_ref();
    let file = ModelFile::read(path)?;
    let description = &file.description;
    if description.custom {
        let what = format!("the model {} is a user-defined module", path.display());
        let why = "the file holds its parameters, but not its code";
        return Err(Error::new(ErrorKind::Model, what, why)
            .fix("build it with Model::custom, then .load_parameters(path)"));
    }
    let values = read_values(&file).map_err(|why| not_a_model_error(path, why))?;
    check_finite(path, &values)?;
    let network = Network::build(&description.input_shape, &description.layers, |path, _, _| {
        values.get(path).cloned().unwrap_or_default()
    })?;
    let model = Model::new(&description.name, description.classes, description.seed, network);
    Ok(model.with_provenance(description.provenance()))
}

fn not_a_model_error(path: &Path, why: String) -> Error {
    Error::new(ErrorKind::Model, format!("the file {} is not a model", path.display()), why)
        .fix("load a file that Model::save wrote")
}

/// Refuses parameters with NaN or infinite values.
fn check_finite(path: &Path, values: &HashMap<String, Vec<f32>>) -> Result<()> {
    let non_finite = values.iter().filter_map(|(name, values)| {
        let at = values.iter().position(|value| !value.is_finite())?;
        Some((name, at, values[at]))
    });
    let Some((name, at, value)) = non_finite.min_by_key(|(name, ..)| *name) else {
        return Ok(());
    };
    let what = format!("value {} of the parameter {name} in {} is {value}", at + 1, path.display());
    let why = "the logits of such a model are NaN or infinite: its training diverged before it was \
               saved, or the file was changed";
    Err(Error::new(ErrorKind::Model, what, why)
        .fix("load an earlier file, or train again with a smaller learning rate"))
}

/// Reads the content of a regular file.
///
/// # Errors
/// If the file can't be read, or is not a regular file: reading a pipe or a device may never end.
pub(crate) fn read_regular_file(path: &Path) -> io::Result<Vec<u8>> {
    if fs::metadata(path)?.is_file() {
        fs::read(path)
    } else {
        Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"))
    }
}

/// Returns the error for a model or mask file that can't be read. `what` names the kind of file
/// and `written_by` the function that writes such files.
pub(crate) fn read_error(path: &Path, what: &str, written_by: &str, error: &io::Error) -> Error {
    let failed = Error::io(format!("reading the {what} {}", path.display()), error);
    if error.kind() != io::ErrorKind::NotFound {
        return failed.fix(format!("name a file that you may read; {written_by} writes them"));
    }
    let relative_to = match std::env::current_dir() {
        Ok(folder) if path.is_relative() => format!(" (it is relative to {})", folder.display()),
        _ => String::new(),
    };
    failed.fix(format!(
        "check the path{relative_to}; {written_by} writes such files. To get the {what} of a \
         finished run back, train with the same settings again: the stored run is returned and \
         no epsilon is spent"
    ))
}

/// Safetensors file with the description of a model. Its tensors are not checked yet.
struct ModelFile {
    description: ModelDescription,
    bytes: Vec<u8>,
}

impl ModelFile {
    fn read(path: &Path) -> Result<Self> {
        let bytes =
            read_regular_file(path).map_err(|e| read_error(path, "model", "Model::save", &e))?;
        let invalid = |why: String| not_a_model_error(path, why);
        let (_, header) = SafeTensors::read_metadata(&bytes)
            .map_err(|e| invalid(format!("the file is not a safetensors file ({e})")))?;
        SafeTensors::deserialize(&bytes)
            .map_err(|e| invalid(format!("the file is damaged ({e})")))?;
        let metadata = header.metadata().as_ref();
        let text = metadata.and_then(|metadata| metadata.get(METADATA_KEY)).ok_or_else(|| {
            invalid(
                "the safetensors file is from another program: it does not describe the layers"
                    .into(),
            )
        })?;
        let unreadable =
            |e: serde_json::Error| invalid(format!("the description can't be read ({e})"));
        let FormatVersion { format } = serde_json::from_str(text).map_err(unreadable)?;
        if format > FORMAT_VERSION {
            let what = format!("the model {} has format {format}", path.display());
            let why = format!("this version of the lab reads formats up to {FORMAT_VERSION}");
            return Err(Error::new(ErrorKind::Model, what, why).fix("update the lab"));
        }
        let description: ModelDescription = serde_json::from_str(text).map_err(unreadable)?;
        Ok(Self { description, bytes })
    }

    /// Reads the values of the tensors by path, row-major.
    ///
    /// # Errors
    /// If the file holds other paths than `expected`, or a tensor of another shape or data type.
    fn values(
        &self,
        expected: &[(String, Vec<usize>)],
    ) -> std::result::Result<HashMap<String, Vec<f32>>, String> {
        let tensors = SafeTensors::deserialize(&self.bytes)
            .map_err(|e| format!("the file is damaged ({e})"))?;
        let mut values = HashMap::new();
        for (path, shape) in expected {
            let tensor = tensors.tensor(path).map_err(|_| format!("{path} is missing"))?;
            if tensor.dtype() != Dtype::F32 || tensor.shape() != shape {
                return Err(format!(
                    "{path} is {:?} {:?} where the architecture needs F32 {shape:?}",
                    tensor.dtype(),
                    tensor.shape()
                ));
            }
            let floats = tensor.data().chunks_exact(4).map(|b| [b[0], b[1], b[2], b[3]]);
            values.insert(path.clone(), floats.map(f32::from_le_bytes).collect());
        }
        if values.len() != tensors.len() {
            return Err(format!("the file holds {} tensors, not {}", tensors.len(), values.len()));
        }
        Ok(values)
    }
}

/// Reads the values of every parameter by path, after comparing paths and shapes with the
/// description. A damaged description therefore causes no large allocation.
fn read_values(file: &ModelFile) -> std::result::Result<HashMap<String, Vec<f32>>, String> {
    let ModelDescription { input_shape, layers, classes, .. } = &file.description;
    let shapes = network::output_shapes(input_shape, layers).map_err(|e| e.to_string())?;
    if shapes.last().map(Vec::as_slice) != Some(&[*classes]) {
        return Err(format!(
            "the last layer does not have one output for each of {classes} classes"
        ));
    }
    let expected = parameter_specs(layers).into_iter().map(|spec| (spec.path, spec.shape));
    file.values(&expected.collect::<Vec<_>>())
}
