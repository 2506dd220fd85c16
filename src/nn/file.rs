//! Models as files: safetensors, with the architecture in its metadata.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use safetensors::{Dtype, SafeTensors, tensor::TensorView};
use serde::{Deserialize, Serialize};

use super::layers::listed;
use super::{LayerSpec, Model, Network, network};
use crate::{Error, ErrorKind, Result};

/// The metadata's key: what makes a safetensors file one of ours.
const KEY: &str = "epsilab";

/// The version of the description written here; older ones stay readable. 2 knows normalisation,
/// memories, blocks and more kinds of convolutions.
const FORMAT: u32 = 2;

#[derive(Serialize, Deserialize)]
struct Description {
    format: u32,
    name: String,
    input_shape: Vec<usize>,
    classes: usize,
    seed: u64,
    layers: Vec<LayerSpec>,
    /// A module of the user's own: the file holds its parameters, not what it does.
    #[serde(default)]
    custom: bool,
}

/// Read before the rest, which a later version may have changed.
#[derive(Deserialize)]
struct Version {
    format: u32,
}

impl Model {
    /// Writes the model as a safetensors file: parameters under their paths, the architecture in
    /// the metadata. An existing file is replaced in one step, never left half-written.
    ///
    /// A model of texts is stored WITHOUT its vocabulary, which belongs to the data: read the texts
    /// with the same [`Vocabulary`](crate::data::Vocabulary) again (one by hashing needs only its
    /// size, a list of words must be kept), or each word would be another one to the model.
    ///
    /// # Errors
    /// If the file can't be written.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let description = Description {
            format: FORMAT,
            name: self.name().to_owned(),
            input_shape: self.input_shape().to_vec(),
            classes: self.classes(),
            seed: self.seed(),
            layers: self.network().specs().to_vec(),
            custom: self.network().own.is_some(),
        };
        let failed = |e: String| Error::new(ErrorKind::Model, format!("saving {}", self.name()), e);
        let text = serde_json::to_string(&description).map_err(|e| failed(e.to_string()))?;
        let tensors: Vec<(String, Vec<usize>, Vec<u8>)> = self
            .network()
            .values()
            .into_iter()
            .map(|(parameter, values)| {
                let bytes = values.iter().flat_map(|v| v.to_le_bytes()).collect();
                (parameter.path, parameter.shape, bytes)
            })
            .collect();
        let mut views = Vec::with_capacity(tensors.len());
        for (name, shape, bytes) in &tensors {
            let view = TensorView::new(Dtype::F32, shape.clone(), bytes);
            views.push((name.as_str(), view.map_err(|e| failed(e.to_string()))?));
        }
        let metadata = HashMap::from([(KEY.to_owned(), text)]);
        let bytes =
            safetensors::serialize(views, Some(metadata)).map_err(|e| failed(e.to_string()))?;
        write_in_one_step(path, &bytes, "model")
    }
}

/// Writes beside the target and renames: a crash leaves the old file or the new one. `what` it is
/// goes into the error.
pub(crate) fn write_in_one_step(path: &Path, bytes: &[u8], what: &str) -> Result<()> {
    let beside = PathBuf::from(format!("{}.{}.tmp", path.display(), std::process::id()));
    fs::write(&beside, bytes).and_then(|()| fs::rename(&beside, path)).map_err(|e| {
        // Nothing more can be done about the half-written file; the error is what counts.
        let _ = fs::remove_file(&beside);
        Error::io(format!("writing the {what} to {}", path.display()), &e)
            .fix("check that the folder exists and can be written")
    })
}

impl Model {
    /// The same model with the parameters of a file that [`Model::save`] wrote: how a module of
    /// one's own comes back, and how to go on from a model with the same layers.
    ///
    /// # Errors
    /// If the file can't be read or was not written by the lab, if paths or shapes of its
    /// parameters are not this model's, or if one of its numbers is NaN or infinite.
    pub fn load_parameters(&self, path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let file = File::read(path)?;
        let wanted = self.network().parameters().into_iter().map(|p| (p.path, p.shape));
        let wanted: Vec<(String, Vec<usize>)> = wanted.collect();
        let values = file.numbers(&wanted).map_err(|why| {
            let what = format!("the file {} is not of {}", path.display(), self.name());
            Error::new(ErrorKind::Model, what, why)
                .fix("load a file that was saved from a model with the same parameters")
        })?;
        are_finite(path, &values)?;
        Ok(self.with_network(self.network().filled(|path| values.get(path).cloned())))
    }
}

/// Reads a model that [`Model::save`] wrote.
///
/// # Errors
/// If the file is missing or unreadable, is no safetensors file, was not written by the lab or
/// by a later version of it, holds other tensors than its architecture says, or numbers that are
/// NaN or infinite.
pub fn load(path: impl AsRef<Path>) -> Result<Model> {
    let path = path.as_ref();
    let file = File::read(path)?;
    let about = &file.about;
    if about.custom {
        let what = format!("the model {} is a module of the user's own", path.display());
        let why = "the file holds its parameters, but not what it computes";
        return Err(Error::new(ErrorKind::Model, what, why)
            .fix("build it with Model::custom, then .load_parameters(path)"));
    }
    let values = read_values(&file).map_err(|why| no_model(path, why))?;
    are_finite(path, &values)?;
    let network = Network::build(&about.input_shape, &about.layers, |path, _, _| {
        values.get(path).cloned().unwrap_or_default()
    })?;
    Ok(Model::new(&about.name, about.classes, about.seed, network))
}

fn no_model(path: &Path, why: String) -> Error {
    Error::new(ErrorKind::Model, format!("the file {} is not a model", path.display()), why)
        .fix("load a file that Model::save wrote")
}

/// Refuses parameters that nothing can be computed with.
fn are_finite(path: &Path, values: &HashMap<String, Vec<f32>>) -> Result<()> {
    let strange = values.iter().filter_map(|(name, values)| {
        let at = values.iter().position(|value| !value.is_finite())?;
        Some((name, at, values[at]))
    });
    let Some((name, at, value)) = strange.min_by_key(|(name, ..)| *name) else { return Ok(()) };
    let what =
        format!("number {} of the parameter {name} in {} is {value}", at + 1, path.display());
    let why = "whatever such a model computes is no number: its training diverged before it was \
               saved, or the file was changed";
    Err(Error::new(ErrorKind::Model, what, why)
        .fix("load a file from before that, or train again with a smaller learning rate"))
}

/// Reads a file whole. A pipe or a device, which may never end, is refused.
pub(crate) fn read_regular(path: &Path) -> io::Result<Vec<u8>> {
    match fs::metadata(path)?.is_file() {
        true => fs::read(path),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file")),
    }
}

/// That the model or mask in a file of the user's can't be read. `written_by` says what writes
/// such files.
pub(crate) fn unread(path: &Path, what: &str, written_by: &str, error: &io::Error) -> Error {
    let failed = Error::io(format!("reading the {what} {}", path.display()), error);
    if error.kind() != io::ErrorKind::NotFound {
        return failed.fix(format!("name a file that you may read; {written_by} writes them"));
    }
    let from = match std::env::current_dir() {
        Ok(folder) if path.is_relative() => format!(", which begins in {}", folder.display()),
        _ => String::new(),
    };
    failed.fix(format!(
        "check the path{from}; {written_by} writes such files. The {what} of a finished run comes \
         back by training with the same settings again, which costs nothing"
    ))
}

/// A file that says it is one of ours; its tensors are yet to be looked at.
struct File {
    about: Description,
    bytes: Vec<u8>,
}

impl File {
    fn read(path: &Path) -> Result<Self> {
        let bytes = read_regular(path).map_err(|e| unread(path, "model", "Model::save", &e))?;
        let wrong = |why: String| no_model(path, why);
        let (_, header) = SafeTensors::read_metadata(&bytes)
            .map_err(|e| wrong(format!("it is no safetensors file ({e})")))?;
        SafeTensors::deserialize(&bytes).map_err(|e| wrong(format!("it is damaged ({e})")))?;
        let text =
            header.metadata().as_ref().and_then(|metadata| metadata.get(KEY)).ok_or_else(|| {
                wrong(
                    "it is a safetensors file of another program: it does not say what its layers \
                     are"
                    .into(),
                )
            })?;
        let unread = |e: serde_json::Error| wrong(format!("its description can't be read ({e})"));
        let Version { format } = serde_json::from_str(text).map_err(unread)?;
        if format > FORMAT {
            let what = format!("the model {} has format {format}", path.display());
            let why = format!("this version of the lab reads formats up to {FORMAT}");
            return Err(Error::new(ErrorKind::Model, what, why).fix("update the lab"));
        }
        let about: Description = serde_json::from_str(text).map_err(unread)?;
        Ok(Self { about, bytes })
    }

    /// The numbers of these parameters, and of no others, after checking their shapes.
    fn numbers(
        &self,
        wanted: &[(String, Vec<usize>)],
    ) -> std::result::Result<HashMap<String, Vec<f32>>, String> {
        let tensors =
            SafeTensors::deserialize(&self.bytes).map_err(|e| format!("it is damaged ({e})"))?;
        let mut values = HashMap::new();
        for (path, shape) in wanted {
            let tensor = tensors.tensor(path).map_err(|_| format!("{path} is missing"))?;
            if tensor.dtype() != Dtype::F32 || tensor.shape() != shape {
                return Err(format!(
                    "{path} is {:?} {:?} where the architecture wants F32 {shape:?}",
                    tensor.dtype(),
                    tensor.shape()
                ));
            }
            let numbers = tensor.data().chunks_exact(4).map(|b| [b[0], b[1], b[2], b[3]]);
            values.insert(path.clone(), numbers.map(f32::from_le_bytes).collect());
        }
        if values.len() != tensors.len() {
            return Err(format!("it holds {} tensors, not {}", tensors.len(), values.len()));
        }
        Ok(values)
    }
}

/// The numbers of every parameter, after checking that shapes and names are what the
/// description says: nothing is allocated on the word of a damaged file.
fn read_values(file: &File) -> std::result::Result<HashMap<String, Vec<f32>>, String> {
    let about = &file.about;
    let shapes = network::shapes(&about.input_shape, &about.layers).map_err(|e| e.to_string())?;
    if shapes.last().map(Vec::as_slice) != Some(&[about.classes]) {
        return Err(format!("its layers do not end in its {} classes", about.classes));
    }
    let wanted = listed(&about.layers).into_iter().map(|spec| (spec.path, spec.shape));
    file.numbers(&wanted.collect::<Vec<_>>())
}
